//! What a board is made of: kernel, modules, BusyBox and ethtool out of Debian's packages, kept in a cache.
//! Knows no QEMU. Nothing is installed: packages are downloaded with a configuration of our own, and unpacked.
//!
//! ```text
//! CACHE/apt/ARCH/                    our own configuration and lists of packages
//! CACHE/packages/*.deb               what was downloaded
//! CACHE/boards/NAME_KERNEL_RECIPE/  what a board is made of, complete or not there at all
//!     kernel  board.dtb  modules/01-libphy.ko …  files/bin/busybox …
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_control::private;

use super::BoardError;
use super::definition::{DeviceTree, LinuxSystem};
use crate::sys;

/// What one board is made of, in the cache.
#[derive(Debug)]
pub(crate) struct Parts {
    folder: PathBuf,
}

impl Parts {
    pub(crate) fn kernel(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("board.dtb")
    }

    /// The modules, in the order in which they are loaded.
    pub(crate) fn modules(&self) -> io::Result<Vec<PathBuf>> {
        let mut found: Vec<PathBuf> =
            fs::read_dir(self.folder.join("modules"))?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        found.sort();
        Ok(found)
    }

    /// The files of the board's root, as paths there and here.
    pub(crate) fn files(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let root = self.folder.join("files");
        let mut found = Vec::new();
        walk(&root, &mut |path| {
            if let Ok(inside) = path.strip_prefix(&root) {
                found.push((inside.to_owned(), path.to_owned()));
            }
        })?;
        found.sort();
        Ok(found)
    }

    /// The newest that the cache has.
    pub(crate) fn cached(cache: &Path, board: &str) -> Option<Parts> {
        if !private::is_own(cache, sys::effective_ids().0) {
            return None;
        }
        let (prefix, suffix) = (format!("{board}_"), format!("_{RECIPE}"));
        let mut found: Vec<PathBuf> = fs::read_dir(cache.join("boards"))
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&prefix) && name.ends_with(&suffix)
            })
            .collect();
        // By the time they were made: versions are not ordered like texts.
        found.sort_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok());
        Some(Parts { folder: found.pop()? })
    }

    /// Asks the machine's own package sources for the newest, and downloads what the cache lacks.
    pub(crate) fn fetch(
        cache: &Path,
        board: &str,
        system: &LinuxSystem,
        say: &mut dyn FnMut(&str),
    ) -> Result<Parts, BoardError> {
        // What is unpacked there runs on the board, and is read as it lies.
        super::folder::own(cache, "XDG_CACHE_HOME")?;
        let apt = Apt::new(cache, system)?;
        say("asking this machine's package sources");
        apt.update();
        let kernel_package = apt.newest_kernel()?;
        let version = kernel_package.trim_start_matches("linux-image-");
        let folder = cache.join("boards").join(format!("{board}_{version}_{RECIPE}"));
        if folder.exists() {
            return Ok(Parts { folder });
        }
        let packages = cache.join("packages");
        make_folder(&packages)?;
        let mut names = vec![kernel_package.clone()];
        names.extend(USERLAND.map(str::to_owned));
        let files = apt.files(&names)?;
        say(&format!(
            "downloading {kernel_package} ({} MB in all)",
            files.iter().map(|f| f.octets).sum::<u64>() / 1_000_000
        ));
        apt.download(&packages, &names, &files)?;

        let scratch = Scratch::new(&cache.join(format!("unpacked-{board}-{}", std::process::id())))?;
        say("unpacking");
        let (all, made) = (scratch.0.join("all"), scratch.0.join("made"));
        make_folder(&all)?;
        make_folder(&made.join("modules"))?;
        for file in &files {
            run(Command::new("dpkg-deb").arg("-x").arg(packages.join(&file.name)).arg(&all))?;
        }
        say("finding the modules");
        run(super::program("depmod").arg("-b").arg(&all).arg(version))?;
        collect(system, &all, version, &made)?;
        make_folder(&cache.join("boards"))?;
        // In one step, so that the cache never holds half a board.
        match fs::rename(&made, &folder) {
            Ok(()) => {}
            Err(_) if folder.exists() => {}
            Err(error) => return Err(BoardError::file(&folder, error)),
        }
        Ok(Parts { folder })
    }
}

/// Beside the kernel: BusyBox for everything, ethtool with its libraries to set what must be set before the port is up.
const USERLAND: [&str; 4] = ["busybox-static", "ethtool", "libc6", "libmnl0"];

/// What of the userland goes to the board: names of files, wherever the architecture keeps them.
const FILES: [&str; 5] = ["busybox", "ethtool", "libc.so.6", "libm.so.6", "libmnl.so.0"];

/// What is taken out of the packages, and how it is changed; counted up with every change, so that a cache made before is
/// made again.
const RECIPE: u32 = 2;

/// Takes what the board needs out of the unpacked packages.
fn collect(system: &LinuxSystem, all: &Path, version: &str, made: &Path) -> Result<(), BoardError> {
    let kernel = ["vmlinuz", "vmlinux"].map(|name| all.join(format!("boot/{name}-{version}")));
    let kernel = kernel.iter().find(|path| path.exists()).ok_or_else(|| {
        BoardError::Parts(format!("the package linux-image-{version} has no kernel where one is expected"))
    })?;
    copy(kernel, &made.join("kernel"))?;
    let tree = made.join("board.dtb");
    match system.tree {
        DeviceTree::Qemu => {}
        DeviceTree::Kernel { file, changes } => {
            copy(&all.join(format!("usr/lib/linux-image-{version}/{file}")), &tree)?;
            for change in changes {
                let (options, rest) = change.split_at(if change[0] == "-t" { 2 } else { 1 });
                run(Command::new("fdtput").args(options).arg(&tree).args(rest))?;
            }
        }
        DeviceTree::Own(source) => {
            let text = made.join("board.dts");
            fs::write(&text, source).map_err(|error| BoardError::file(&text, error))?;
            run(Command::new("dtc").args(["-q", "-I", "dts", "-O", "dtb", "-o"]).arg(&tree).arg(&text))?;
        }
    }
    let modules = all.join(format!("lib/modules/{version}"));
    let table = modules.join("modules.dep");
    let table = fs::read_to_string(&table).map_err(|error| BoardError::file(&table, error))?;
    for (place, path) in load_order(&table, system.modules).map_err(BoardError::Parts)?.iter().enumerate() {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        copy(&modules.join(path), &made.join(format!("modules/{place:02}-{name}")))?;
    }
    let mut copied = Ok(());
    walk(all, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let in_path = |folder: &str| path.parent().is_some_and(|parent| parent.ends_with(folder));
        let is_program = FILES[..2].contains(&name.as_str()) && (in_path("bin") || in_path("sbin"));
        let is_library = FILES[2..].contains(&name.as_str()) || is_loader(&name);
        if copied.is_ok() && (is_program || is_library) {
            // The loader's path is in the program (`/lib/ld-linux-armhf.so.3`); libraries are looked for in /lib.
            let folder = if is_program { "bin" } else { "lib" };
            copied = copy(path, &made.join("files").join(folder).join(&name));
        }
    })
    .map_err(|error| BoardError::file(all, error))?;
    copied
}

/// `ld-linux-armhf.so.3`, `ld-linux-aarch64.so.1`, `ld.so.1`: the dynamic loaders of glibc's architectures.
fn is_loader(name: &str) -> bool {
    (name.starts_with("ld-linux") || name.starts_with("ld.so.")) && !name.ends_with(".conf")
}

/// The modules of these names and all that they need, needs first, out of depmod's table
/// (`path: need need…`, modules.dep(5)). The error is a sentence.
fn load_order(table: &str, names: &[&str]) -> Result<Vec<String>, String> {
    fn stem(path: &str) -> String {
        let file = path.rsplit('/').next().unwrap_or(path);
        // Kernels call a module by either sign (modprobe(8)).
        file.split('.').next().unwrap_or(file).replace('-', "_")
    }
    let mut order: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names {
        let wanted = name.replace('-', "_");
        let line = table.lines().filter_map(|line| line.split_once(':')).find(|(path, _)| stem(path) == wanted);
        let Some((path, needs)) = line else {
            return Err(format!("the kernel's package has no module {name}; try again with --update"));
        };
        // depmod writes what is needed in the order of removal: the last is loaded first.
        let needs = needs.split_whitespace().rev();
        for one in needs.chain([path]) {
            if seen.insert(one.to_owned()) {
                order.push(one.to_owned());
            }
        }
    }
    Ok(order)
}

/// apt with a configuration of its own: the machine's sources, keys and proxies, but other folders, another
/// architecture, and none of the machine's hooks.
struct Apt {
    config: PathBuf,
    board_kernel: &'static str,
    arch: &'static str,
}

/// A package file, as apt means to download it.
struct PackageFile {
    name: String,
    octets: u64,
}

impl Apt {
    fn new(cache: &Path, system: &LinuxSystem) -> Result<Apt, BoardError> {
        let arch = system.arch.debian();
        let folder = cache.join("apt").join(arch);
        for inside in ["lists/partial", "cache/archives/partial"] {
            make_folder(&folder.join(inside))?;
        }
        let status = folder.join("status");
        fs::write(&status, "").map_err(|error| BoardError::file(&status, error))?;
        let here = folder.display();
        let mut text = format!(
            "Dir::State \"{here}\";\nDir::State::lists \"{here}/lists\";\nDir::State::status \"{here}/status\";\n\
             Dir::Cache \"{here}/cache\";\nDir::Etc::main \"/dev/null\";\nDir::Etc::parts \"/dev/null\";\n\
             APT::Architecture \"{arch}\";\nAPT::Architectures {{ \"{arch}\"; }};\nAPT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n"
        );
        // How this machine reaches its sources is worth keeping; its hooks are not.
        let dump = Command::new("apt-config").arg("dump").stderr(Stdio::null()).output();
        let dump = dump.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for line in dump.lines().filter(|line| line.starts_with("Acquire::") && !line.contains("Languages")) {
            text += line;
            text.push('\n');
        }
        let config = folder.join("apt.conf");
        fs::write(&config, text).map_err(|error| BoardError::file(&config, error))?;
        Ok(Apt { config, board_kernel: system.kernel_package, arch })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// A source that has nothing for this architecture, or a mirror in mid-change, fails an update that is good
    /// enough: what is missing is told by name afterwards.
    fn update(&self) {
        let _ = self.command("apt-get").args(["-q", "update"]).output();
    }

    /// The package that today's `linux-image-FLAVOUR` depends on.
    fn newest_kernel(&self) -> Result<String, BoardError> {
        let shown = run(self.command("apt-cache").args(["show", "--no-all-versions", self.board_kernel]));
        let shown = shown.unwrap_or_default();
        let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
        let found = depends.split([' ', ',']).find(|word| word.starts_with("linux-image-"));
        found.map(str::to_owned).ok_or_else(|| {
            BoardError::Parts(format!(
                "this machine's package sources have no {} for {}; boards are made of Debian's packages: see that a \
                 source of Debian's is in /etc/apt and not limited to other architectures",
                self.board_kernel, self.arch
            ))
        })
    }

    /// What apt would download: `'ADDRESS' FILE SIZE HASH`, a line each.
    fn files(&self, names: &[String]) -> Result<Vec<PackageFile>, BoardError> {
        let listed = run(self.command("apt-get").args(["-qq", "download", "--print-uris"]).args(names))?;
        let files: Vec<PackageFile> = listed
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace().skip(1);
                Some(PackageFile { name: words.next()?.to_owned(), octets: words.next()?.parse().ok()? })
            })
            .filter(|file| !file.name.contains('/'))
            .collect();
        if files.len() == names.len() {
            return Ok(files);
        }
        Err(BoardError::Parts(format!(
            "apt-get names {} files for the {} packages {}; try again with --update",
            files.len(),
            names.len(),
            names.join(", ")
        )))
    }

    fn download(&self, to: &Path, names: &[String], files: &[PackageFile]) -> Result<(), BoardError> {
        let has = |file: &PackageFile| fs::metadata(to.join(&file.name)).is_ok_and(|data| data.len() == file.octets);
        // A package's file begins with its name, whatever the order in which apt lists them.
        let of = |name: &String| files.iter().find(|file| file.name.starts_with(&format!("{name}_")));
        let missing: Vec<&String> = names.iter().filter(|name| !of(name).is_some_and(has)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        run(self.command("apt-get").args(["-qq", "download"]).args(missing).current_dir(to)).map(drop)
    }
}

/// A folder that goes when nobody needs it any more.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: &Path) -> Result<Scratch, BoardError> {
        let _ = fs::remove_dir_all(path);
        make_folder(path)?;
        Ok(Scratch(path.to_owned()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program to its end; its standard output, or what it complained of.
fn run(command: &mut Command) -> Result<String, BoardError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| BoardError::Parts(format!("{program} cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(BoardError::Parts(format!("{program} failed: {}", last.trim())))
}

fn make_folder(path: &Path) -> Result<(), BoardError> {
    fs::create_dir_all(path).map_err(|error| BoardError::file(path, error))
}

/// Copies a file, or what a link in an unpacked package points to, and makes the folder that it goes to.
fn copy(from: &Path, to: &Path) -> Result<(), BoardError> {
    if let Some(folder) = to.parent() {
        make_folder(folder)?;
    }
    fs::copy(from, to).map(drop).map_err(|error| BoardError::file(from, error))
}

/// Calls `found` with every file below a folder; links that lead nowhere here are left out.
fn walk(folder: &Path, found: &mut dyn FnMut(&Path)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_dir() {
            walk(&path, found)?;
        } else if path.is_file() {
            found(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], order: &[&str]) {
        // As depmod writes it for the FEC of Debian's armmp kernel.
        let table = "kernel/net/phy/libphy.ko:\n\
                     kernel/net/mdio/fwnode_mdio.ko: kernel/net/phy/libphy.ko\n\
                     kernel/net/mdio/of_mdio.ko: kernel/net/mdio/fwnode_mdio.ko kernel/net/phy/libphy.ko\n\
                     kernel/net/fec.ko: kernel/net/mdio/of_mdio.ko kernel/net/mdio/fwnode_mdio.ko kernel/net/phy/libphy.ko\n\
                     kernel/gpio/gpio-mxc.ko:\n\
                     kernel/net/phy/smsc.ko.xz: kernel/net/phy/libphy.ko\n";
        let found = load_order(table, names).unwrap_or_default();
        let stems: Vec<&str> = found.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(stems, order);
    }

    #[test]
    fn what_a_module_needs_is_loaded_before_it_and_once() {
        check(&["gpio-mxc"], &["gpio-mxc.ko"]);
        check(&["gpio_mxc", "smsc"], &["gpio-mxc.ko", "libphy.ko", "smsc.ko.xz"]);
        check(&["smsc", "fec"], &["libphy.ko", "smsc.ko.xz", "fwnode_mdio.ko", "of_mdio.ko", "fec.ko"]);
        check(&["fec", "nonsense"], &[]);
    }

    #[test]
    fn loaders_are_told_from_what_is_called_alike() {
        for (name, loader) in [("ld-linux-armhf.so.3", true), ("ld.so.1", true), ("ld.so.conf", false), ("ld", false)] {
            assert_eq!(is_loader(name), loader, "{name}");
        }
    }
}
