//! Sysctls of net.core, net.ipv4 and net.ipv6, as the calling thread's network namespace has them (proc(5)).
//! Knows which of them do more than they say, and leaves those alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use linerate_machine::setting::overlap::{InterfaceSysctl, UNITS, UNITS_OF_ALL};

use super::{Mechanism, SettingError, Subject, files, kernel_removals};

const ROOT: &str = "/proc/sys";

/// Names of which a change cannot be undone by writing the old value, and why (Documentation/networking/ip-sysctl.rst,
/// net/ipv4/devinet.c, net/ipv6/addrconf.c). `*` stands for an interface, `all` or `default`.
const NOT_PUT_BACK: [(&str, &str); 8] = [
    ("net.ipv4.ip_forward", "it resets other sysctls of every interface; use net.ipv4.conf.INTERFACE.forwarding"),
    ("net.ipv4.conf.all.forwarding", "it resets the same sysctl of every interface; use that of one interface"),
    ("net.ipv4.conf.default.forwarding", "it resets other sysctls; use that of one interface"),
    ("net.ipv6.conf.all.forwarding", "it sets the same sysctl of every interface; use that of one interface"),
    ("net.ipv6.conf.all.disable_ipv6", "it takes addresses away; use another way to turn IPv6 off"),
    ("net.ipv6.conf.all.proxy_ndp", "it sets the same sysctl of every interface; use that of one interface"),
    ("net.ipv6.conf.all.disable_policy", "it sets the same sysctl of every interface; use that of one interface"),
    ("net.ipv6.conf.all.ignore_routes_with_linkdown", "it sets every interface's; use that of one interface"),
];

/// Congestion controls that are everybody's; the first network namespace says it for all.
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Keys that belong in no record.
const SECRETS: [&str; 3] = ["tcp_fastopen_key", "stable_secret", "netdev_rss_key"];

/// The file of a sysctl. A dot separates, or belongs to an interface's name (`eth0.5`): the longest name that is there
/// counts. `None` where there is no such file. No part is empty, so none is `..`.
fn path_of(root: &Path, name: &str) -> Option<PathBuf> {
    let (mut path, mut rest) = (root.to_owned(), name);
    loop {
        let ends = rest.match_indices('.').map(|(at, _)| at).chain([rest.len()]);
        let end = ends.rev().find(|&end| {
            let part = &rest[..end];
            !part.starts_with('.') && !part.contains('/') && path.join(part).exists()
        })?;
        path.push(&rest[..end]);
        match rest.get(end + 1..) {
            None => return path.is_file().then_some(path),
            Some(further) => rest = further,
        }
    }
}

fn find(subject: &Subject, name: &str) -> Result<PathBuf, SettingError> {
    let path = path_of(Path::new(ROOT), name)
        .ok_or_else(|| subject.absent("this kernel, or this network namespace, has no such sysctl"))?;
    if SECRETS.iter().any(|secret| name.ends_with(secret)) {
        return Err(subject.absent("it is a key, which belongs in no record"));
    }
    Ok(path)
}

/// A sysctl that a setting is another name for, or the one that its name says.
impl Mechanism for Option<&'static str> {
    fn get(&self, subject: &Subject) -> Result<String, SettingError> {
        let name = self.unwrap_or_else(|| subject.rest());
        let path = find(subject, name)?;
        match files::read(&path) {
            // What is empty is no value that could be written again.
            Ok(value) if value.is_empty() => Err(subject.absent("it is empty")),
            Ok(value) => Ok(value),
            Err(_) if mode(&path) & 0o444 == 0 => Err(subject.cannot_put_back("it can be written and not read")),
            Err(error) => Err(subject.not_read(&error, None)),
        }
    }

    fn set(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        let name = self.unwrap_or_else(|| subject.rest());
        let path = find(subject, name)?;
        left_alone(subject, name)?;
        let now = self.get(subject)?;
        if now == value {
            return Ok(());
        }
        self.check(subject, value)?;
        if mode(&path) & 0o222 == 0 {
            return Err(subject.fixed(now));
        }
        files::write(&path, value).map_err(|error| match error.raw_os_error() {
            // The file is there; what it names is not, such as a congestion control.
            Some(libc::ENOENT) => subject.refused(value, "the kernel has none of this name"),
            _ => subject.not_written(value, &error, None),
        })
    }

    /// Whether everything is there again after this value and the one of now.
    fn check(&self, subject: &Subject, value: &str) -> Result<(), SettingError> {
        // Aliases are of none that does more than it says.
        let name = self.unwrap_or_else(|| subject.rest());
        left_alone(subject, name)?;
        if name == "net.ipv4.tcp_congestion_control"
            && let Some(allowed) = path_of(Path::new(ROOT), ALLOWED).filter(|path| mode(path) & 0o200 == 0)
        {
            let allowed = files::read(&allowed).map_err(|error| subject.not_read(&error, None))?;
            return with_congestion_control(subject, &self.get(subject)?, value, &allowed);
        }
        let of = InterfaceSysctl::parse(name);
        match of.map(|of| (of.tree, of.interface, of.key)) {
            // What makes addresses makes one when it is chosen, and takes none away.
            Some(("net.ipv6.conf", interface, "addr_gen_mode")) if interface != "default" => {
                Err(subject.cannot_put_back("the interface gets another address with it; use that of a new interface"))
            }
            Some(("net.ipv6.conf", interface, "disable_ipv6")) if value != "0" && interface != "default" => {
                kernel_removals::with_disabled_ipv6(subject, interface)
            }
            Some(("net.ipv6.conf", interface, "forwarding")) if value != "0" && interface != "default" => {
                kernel_removals::with_forwarding(subject)
            }
            _ => Ok(()),
        }
    }

    /// What this network namespace has: the sysctls of the three trees themselves, and those of the interface.
    fn names(&self, subject: &Subject) -> Vec<String> {
        if self.is_some() {
            return vec![subject.name.to_owned()];
        }
        let interface = subject.settings.interface.as_deref();
        let mut trees: Vec<(String, PathBuf)> = ["net.core", "net.ipv4", "net.ipv6"]
            .map(|tree| (tree.to_owned(), Path::new(ROOT).join(tree.replace('.', "/"))))
            .into();
        // A slash, or `..`, is no interface and must not become a path.
        if let Some(interface) = interface.filter(|interface| !interface.contains('/') && !interface.starts_with('.')) {
            for family in ["ipv4.conf", "ipv4.neigh", "ipv6.conf", "ipv6.neigh"] {
                let path = Path::new(ROOT).join("net").join(family.replace('.', "/")).join(interface);
                trees.push((format!("net.{family}.{interface}"), path));
            }
        }
        let mut names = Vec::new();
        for (tree, path) in trees {
            let Ok(entries) = fs::read_dir(path) else { continue };
            let of_tree = entries.filter_map(|entry| {
                let entry = entry.ok().filter(|entry| entry.path().is_file() && mode(&entry.path()) & 0o200 != 0)?;
                let name = format!("{tree}.{}", entry.file_name().to_str()?);
                let left_alone = NOT_PUT_BACK.iter().any(|(known, _)| *known == name);
                (!left_alone).then(|| format!("sysctl.{name}"))
            });
            let from = names.len();
            names.extend(of_tree);
            names[from..].sort();
        }
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0o666, |metadata| metadata.permissions().mode())
}

fn left_alone(subject: &Subject, name: &str) -> Result<(), SettingError> {
    match NOT_PUT_BACK.iter().find(|(known, _)| *known == name) {
        Some((_, why)) => Err(subject.cannot_put_back(*why)),
        None => Ok(()),
    }
}

/// Another network namespace than the first takes only what is everybody's (tcp_set_default_congestion_control), also when
/// the one of now is put back, which it has from the first.
fn with_congestion_control(subject: &Subject, now: &str, value: &str, allowed: &str) -> Result<(), SettingError> {
    let is_allowed = |name: &str| allowed.split_whitespace().any(|one| one == name);
    let only = || format!("this network namespace takes only what {ALLOWED} of the first one has ({allowed})");
    if now == value || is_allowed(now) && is_allowed(value) {
        return Ok(());
    }
    if is_allowed(now) {
        return Err(subject.refused(value, only()));
    }
    Err(subject.cannot_put_back(format!("{}; add {now} there first", only())))
}

/// What else changes with a sysctl: an interface, or none, and a setting's name.
pub(super) fn dependants(name: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    if let Some(of) = InterfaceSysctl::parse(name) {
        let keys =
            || std::iter::once(of.key).chain(UNITS.iter().find(|(coarse, _)| *coarse == of.key).map(|(_, fine)| *fine));
        // The kernel rounds the coarse one, and tells what it rounded.
        found.extend(keys().skip(1).map(|fine| (of.interface.to_owned(), fine)));
        if of.is_copied() {
            let interfaces =
                fs::read_dir(Path::new(ROOT).join(of.tree.replace('.', "/"))).into_iter().flatten().flatten();
            let interfaces = interfaces.filter_map(|entry| entry.file_name().into_string().ok());
            let interfaces = interfaces.filter(|interface| interface != "all" && interface != "default");
            found.extend(interfaces.flat_map(|interface| keys().map(move |key| (interface.clone(), key))));
        }
        let mut found: Vec<(Option<String>, String)> =
            found.into_iter().map(|(interface, key)| (None, format!("sysctl.{}.{interface}.{key}", of.tree))).collect();
        match (of.tree, of.key) {
            // A router must not have what arrives joined (dev_disable_lro in the kernel).
            ("net.ipv4.conf" | "net.ipv6.conf", "forwarding") => {
                found.push((Some(of.interface.to_owned()), "feature.rx-lro".to_owned()));
            }
            // When it comes up, IPv6 has the interface's MTU (addrconf_notify in the kernel).
            ("net.ipv6.conf", "disable_ipv6") => found.push((None, format!("sysctl.{}.{}.mtu", of.tree, of.interface))),
            _ => {}
        }
        return found;
    }
    match name {
        // Who uses one allows it to everybody, in the first network namespace (tcp_set_default_congestion_control).
        "net.ipv4.tcp_congestion_control" => {
            let writable = path_of(Path::new(ROOT), ALLOWED).is_some_and(|path| mode(&path) & 0o200 != 0);
            if writable { vec![(None, format!("sysctl.{ALLOWED}"))] } else { Vec::new() }
        }
        _ => {
            let fine = UNITS_OF_ALL.iter().filter(|(coarse, _)| *coarse == name).map(|(_, fine)| *fine);
            fine.map(|fine| (None, format!("sysctl.{fine}"))).collect()
        }
    }
}

/// All sysctls of an interface's IPv6 that can be read and written.
pub(super) fn of_ipv6(interface: &str) -> Vec<String> {
    let mut names = Vec::new();
    for tree in ["net.ipv6.conf", "net.ipv6.neigh"] {
        let path = Path::new(ROOT).join(tree.replace('.', "/")).join(interface);
        let files = fs::read_dir(path).into_iter().flatten().flatten();
        let writable = files.filter(|file| mode(&file.path()) & 0o600 == 0o600);
        names.extend(
            writable.filter_map(|file| Some(format!("sysctl.{tree}.{interface}.{}", file.file_name().to_str()?))),
        );
    }
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn dots_separate_or_belong_to_an_interface() {
        let root = std::env::temp_dir().join(format!("settings-sysctl-{}", std::process::id()));
        for directory in ["net/ipv4/conf/eth0", "net/ipv4/conf/eth0.5", "net/core"] {
            fs::create_dir_all(root.join(directory)).unwrap();
            fs::write(root.join(directory).join("rp_filter"), "1").unwrap();
        }
        fs::write(root.join("secret"), "1").unwrap();
        for (name, want) in [
            ("net.ipv4.conf.eth0.rp_filter", Some("net/ipv4/conf/eth0/rp_filter")),
            ("net.ipv4.conf.eth0.5.rp_filter", Some("net/ipv4/conf/eth0.5/rp_filter")),
            ("net.core.rp_filter", Some("net/core/rp_filter")),
            ("net.core.no_such", None),
            ("net.core", None),
            ("net.core.", None),
            ("net.core...secret", None),
            ("net.core./../../secret", None),
            ("..", None),
            ("", None),
        ] {
            assert_eq!(path_of(&root, name), want.map(|path| root.join(path)), "{name}");
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_namespace_takes_the_congestion_controls_that_are_everybodys() {
        let settings = Settings::new(None);
        let subject = settings.subject("sysctl.net.ipv4.tcp_congestion_control").unwrap();
        let check = |now, value, allowed, want: &str| match with_congestion_control(&subject, now, value, allowed) {
            Ok(()) => assert_eq!(want, ""),
            Err(error) => assert!(!want.is_empty() && error.to_string().contains(want), "{error}"),
        };
        check("bbr", "reno", "reno bbr", "");
        check("bbr", "bbr", "reno", "");
        check(
            "bbr",
            "cubic",
            "reno bbr",
            "takes only what net.ipv4.tcp_allowed_congestion_control of the first one has",
        );
        check("bbr", "reno", "reno", "could not be put back");
    }

    #[test]
    fn what_cannot_be_put_back_is_left_alone() {
        for (name, value, contains) in [
            ("net.ipv4.ip_forward", "1", "net.ipv4.conf.INTERFACE.forwarding"),
            ("net.ipv4.route.flush", "1", "could not be put back"),
            ("net.ipv4.tcp_fastopen_key", "1-2-3-4", "belongs in no record"),
            ("net.core.no_such", "1", "no such sysctl"),
        ] {
            let setting = format!("sysctl.{name}");
            let error = Settings::new(None).set(&setting, value).unwrap_err().to_string();
            assert!(error.contains(contains), "{error}");
        }
    }
}
