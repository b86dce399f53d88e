//! Builds of kernel modules, as the checksums of their sources.
//! Knows /sys/module and /sys/bus, which belong to no network namespace.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use linerate_machine::environment::Nic;

/// Nobody asks for more, and a name of a module is shorter (MODULE_NAME_LEN in linux/moduleparam.h).
const MOST: usize = 64;
const LONGEST: usize = 64;

/// The srcversion of the interface's driver, and of the modules that were asked for: those that have one.
pub(super) fn read(nic: Option<&Nic>, asked: &[String]) -> BTreeMap<String, String> {
    read_below(Path::new("/sys"), nic, asked)
}

fn read_below(sys: &Path, nic: Option<&Nic>, asked: &[String]) -> BTreeMap<String, String> {
    let driver = nic.and_then(|nic| driver_of(sys, nic.bus.as_deref()?));
    let asked = asked.iter().take(MOST).filter(|name| is_name(name)).map(|name| name.replace('-', "_"));
    driver
        .into_iter()
        .chain(asked)
        .filter_map(|name| {
            let text = fs::read_to_string(sys.join("module").join(&name).join("srcversion")).ok()?;
            Some((name, text.trim().to_owned())).filter(|(_, text)| !text.is_empty())
        })
        .collect()
}

/// The module of the device's driver. Of an interface one knows the device's name and not its bus.
fn driver_of(sys: &Path, device: &str) -> Option<String> {
    if device.contains('/') || device.starts_with('.') {
        return None;
    }
    let buses = fs::read_dir(sys.join("bus")).ok()?.flatten();
    let mut modules = buses.filter_map(|bus| {
        let module = fs::canonicalize(bus.path().join("devices").join(device).join("driver/module")).ok()?;
        Some(module.file_name()?.to_str()?.to_owned())
    });
    modules.next()
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_drivers_module_and_those_asked_for() {
        let sys = std::env::temp_dir().join(format!("modules-{}", std::process::id()));
        for (module, srcversion) in [("fec", "1F0E\n"), ("dwmac_generic", "AB\n"), ("silent", "\n")] {
            fs::create_dir_all(sys.join("module").join(module)).unwrap();
            fs::write(sys.join("module").join(module).join("srcversion"), srcversion).unwrap();
        }
        fs::create_dir_all(sys.join("module/built_in")).unwrap();
        fs::create_dir_all(sys.join("bus/platform/devices/2188000.ethernet/driver")).unwrap();
        fs::create_dir_all(sys.join("bus/pci")).unwrap();
        symlink(sys.join("module/fec"), sys.join("bus/platform/devices/2188000.ethernet/driver/module")).unwrap();
        let nic = |bus: &str| Nic { bus: Some(bus.to_owned()), ..Nic::default() };
        let asked = ["dwmac-generic", "silent", "built_in", "../fec", "absent", ""].map(str::to_owned);
        let found = read_below(&sys, Some(&nic("2188000.ethernet")), &asked);
        let none = read_below(&sys, Some(&nic("../../module/fec")), &[]);
        fs::remove_dir_all(&sys).unwrap();
        let want = [("dwmac_generic", "AB"), ("fec", "1F0E")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(found, BTreeMap::from(want));
        assert_eq!(none, BTreeMap::new());
    }
}
