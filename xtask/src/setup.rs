//! `cargo xtask setup`: installs what the tests need, on Debian and its like; `setup agents` and its like: what
//! those need.
//! Knows which program comes from which package, and installs nothing that is there already.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::agents::{ZIG, compiler_with_sources, sources_manifest};
use crate::program::{cargo, is_installed, must, no_more, program, root};

/// Each program that the build or a test starts, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 15] = [
    ("busybox", "busybox-static"),
    ("c++", "g++"), // libFuzzer's
    ("cc", "gcc"),
    ("dropbear", "dropbear-bin"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("iperf", "iperf"),
    ("iperf3", "iperf3"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("openssl", "openssl"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("tmux", "tmux"),
    ("valgrind", "valgrind"),
];

/// What runs agents of other machines, and makes the environment for zig.
const FOR_AGENTS: [(&str, &str); 2] = [("python3", "python3"), ("qemu-mips-static", "qemu-user-static")];
/// A Rust compiler and the sources of its standard library, where none has them.
const COMPILER: [(&str, &str); 2] =
    [("/usr/bin/rustc", "rustc-web"), ("/usr/lib/rustlib/src/rust/library/Cargo.lock", "rust-web-src")];
/// Python packages, each of one version with its hashes (pip's "Secure installs").
const ZIG_PACKAGES: &str = "xtask/src/requirements.txt";

/// What emulated boards are made with.
const FOR_BOARDS: [(&str, &str); 7] = [
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("dtc", "device-tree-compiler"),
    ("fdtput", "device-tree-compiler"),
    ("qemu-system-arm", "qemu-system-arm"),
    ("qemu-system-mipsel", "qemu-system-mips"),
    ("qemu-system-riscv64", "qemu-system-misc"),
];

/// What reads, installs and runs packages.
const FOR_PACKAGES: [(&str, &str); 8] = [
    ("bwrap", "bubblewrap"),
    ("dpkg-deb", "dpkg"),
    ("lintian", "lintian"),
    ("make", "make"),
    ("mmdebstrap", "mmdebstrap"),
    ("python3", "python3"),
    ("systemd-analyze", "systemd"),
    ("umoci", "umoci"),
];
/// Servers that a team has; each that a test starts has a folder of its own.
const FOR_SERVERS: [(&str, &str); 2] = [("nats-server", "nats-server"), ("pg_lsclusters", "postgresql")];
/// A lab's coordinator, exporter and client.
const LABGRID: Environment =
    Environment { folder: "target/labgrid", name: "labgrid.txt", packages: include_str!("python/labgrid.txt") };
/// What reads what is written for CI.
const READERS: Environment =
    Environment { folder: "target/readers", name: "readers.txt", packages: include_str!("python/readers.txt") };
/// Debian's packages of more of them, which are unpacked and not installed: nothing of them is started by the system.
const UNPACKED: [&str; 3] = ["lava-common", "lava-dispatcher", "prometheus"];

/// Python packages in a folder of their own, each of one version with its hash.
struct Environment {
    folder: &'static str,
    name: &'static str,
    packages: &'static str,
}

/// What opens reports as their readers do.
const FOR_BROWSER: [(&str, &str); 2] = [("chromedriver", "chromium-driver"), ("chromium", "chromium")];
/// What holds reports against WCAG; its licence is MPL-2.0, and no part of it goes into linerate.
const AXE: &str = "target/axe";
/// One version with its hash, which npm checks ("package-lock.json", `integrity`); from whichever registry npm is told to use.
const AXE_FILES: [(&str, &str); 2] =
    [("package.json", include_str!("axe/package.json")), ("package-lock.json", include_str!("axe/package-lock.json"))];

/// Installs what is missing.
pub fn run(mut words: impl Iterator<Item = OsString>) -> Result<(), String> {
    match words.next() {
        None => install(&PROGRAMS),
        Some(word) if word == "agents" => {
            no_more(words)?;
            setup_agents()
        }
        Some(word) if word == "boards" => {
            no_more(words)?;
            install(&FOR_BOARDS)
        }
        Some(word) if word == "packages" => {
            no_more(words)?;
            install(&FOR_PACKAGES)
        }
        Some(word) if word == "servers" => {
            no_more(words)?;
            install(&FOR_SERVERS)
        }
        Some(word) if word == "labgrid" => {
            no_more(words)?;
            make(&LABGRID)
        }
        Some(word) if word == "readers" => {
            no_more(words)?;
            make(&READERS)?;
            unpack()
        }
        Some(word) if word == "browser" => {
            no_more(words)?;
            setup_browser()
        }
        Some(word) => Err(format!("'{}' means nothing here; see cargo xtask help", word.to_string_lossy())),
    }
}

fn setup_agents() -> Result<(), String> {
    install(&FOR_AGENTS)?;
    if compiler_with_sources().is_none() {
        install(&COMPILER)?;
    }
    fetch_sources()?;
    let folder = root().join(ZIG);
    if folder.join("bin/cargo-zigbuild").is_file() {
        return Ok(());
    }
    python(&folder, &root().join(ZIG_PACKAGES))
}

/// Makes an environment with these packages.
fn python(folder: &Path, packages: &Path) -> Result<(), String> {
    // Debian's Python comes without the part that makes environments.
    if !program("python3", &["-c", "import ensurepip"]).status().is_ok_and(|status| status.success()) {
        install(&[("ensurepip", "python3-venv")])?;
    }
    must(program("python3", &["-m", "venv"]).arg(folder))?;
    let secure = ["install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--requirement"];
    must(Command::new(folder.join("bin/pip")).args(secure).arg(packages))
}

/// Makes it, unless it is there with these packages.
fn make(environment: &Environment) -> Result<(), String> {
    let Environment { folder, name, packages } = environment;
    let folder = root().join(folder);
    let made = folder.join(name);
    if fs::read_to_string(&made).is_ok_and(|there| there == *packages) {
        eprintln!("xtask: {} is there", folder.display());
        return Ok(());
    }
    python(&folder, &root().join("xtask/src/python").join(name))?;
    fs::write(&made, packages).map_err(|error| format!("{} cannot be written: {error}", made.display()))
}

/// Fetches Debian's packages and unpacks them beside the readers.
fn unpack() -> Result<(), String> {
    let folder = root().join(READERS.folder).join("debian");
    if folder.join("usr/bin/promtool").is_file() && folder.join("usr/lib/python3/dist-packages/lava_common").is_dir() {
        return Ok(());
    }
    if !is_installed("apt-get") || !is_installed("dpkg-deb") {
        return Err(format!("{} come from Debian's package sources, and apt-get is not here", UNPACKED.join(", ")));
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let download = || {
        let mut command = apt_get(false, &["download", "-q"]);
        must(command.args(UNPACKED).current_dir(&folder))
    };
    if download().is_err() {
        // A fresh machine has no package lists, or lists of packages that are no longer there.
        must(&mut apt_get(!is_root()?, &["update", "-q"]))?;
        download()?;
    }
    let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "deb")) {
        must(program("dpkg-deb", &["-x"]).arg(&file).arg(&folder))?;
        let _ = fs::remove_file(&file);
    }
    Ok(())
}

/// Chromium, and axe-core beside it. Without axe-core, the tests that need it are skipped by name.
fn setup_browser() -> Result<(), String> {
    install(&FOR_BROWSER)?;
    let folder = root().join(AXE);
    let is_there =
        |(name, text): &(&str, &str)| fs::read_to_string(folder.join(name)).is_ok_and(|there| there == *text);
    if folder.join("node_modules/axe-core/axe.min.js").is_file() && AXE_FILES.iter().all(is_there) {
        return Ok(());
    }
    install(&[("npm", "npm")])?;
    let written = |(name, text): (&str, &str)| fs::write(folder.join(name), text);
    fs::create_dir_all(&folder)
        .and_then(|()| AXE_FILES.into_iter().try_for_each(written))
        .map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
    let clean = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"];
    must(program("npm", &clean).arg(&folder))
}

/// The crates that a standard library is made of, so that building one asks nobody.
fn fetch_sources() -> Result<(), String> {
    let found = compiler_with_sources().and_then(|rustc| Some((sources_manifest(&rustc)?, rustc)));
    let Some((manifest, rustc)) = found else {
        return Err("the compiler's sources are not where they should be; install rust-web-src again".to_owned());
    };
    // The library is written for its own compiler, and uses what others do not know yet.
    let mut fetch = cargo(&["fetch", "--quiet", "--locked", "--manifest-path"]);
    must(fetch.arg(manifest).env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1"))
}

/// Installs those of these programs that are missing: each program, and the package that has it.
pub(crate) fn install(programs: &[(&str, &'static str)]) -> Result<(), String> {
    let packages = missing(programs, is_installed);
    if packages.is_empty() {
        eprintln!("xtask: all that is needed is installed");
        return Ok(());
    }
    let by_hand = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    let named = packages.join(", ");
    if !is_installed("apt-get") {
        return Err(format!("{named} must be installed; do it with this system's package manager"));
    }
    let sudo = !is_root()?;
    if sudo && !is_installed("sudo") {
        return Err(format!("{named} must be installed, and neither root nor sudo is here; as root: {by_hand}"));
    }
    // A fresh machine has no package lists, or lists of packages that are no longer there.
    must(&mut apt_get(sudo, &["update", "-q"]))?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(&packages);
    must(&mut apt_get(sudo, &install))
}

fn missing(programs: &[(&str, &'static str)], is_installed: impl Fn(&str) -> bool) -> Vec<&'static str> {
    programs.iter().filter(|(program, _)| !is_installed(program)).map(|&(_, package)| package).collect()
}

fn apt_get(sudo: bool, arguments: &[&str]) -> Command {
    // Through env, because sudo passes no environment on.
    let mut command = Command::new(if sudo { "sudo" } else { "env" });
    if sudo {
        command.arg("env");
    }
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
    command
}

/// The effective user, the second of the four in proc_pid_status(5).
fn is_root() -> Result<bool, String> {
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("/proc/self/status cannot be read: {error}; is /proc mounted?"))?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    Ok(uid == Some("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_python_package_has_its_hash() {
        let zig = fs::read_to_string(root().join(ZIG_PACKAGES)).unwrap();
        let all = [zig.as_str(), LABGRID.packages, READERS.packages].map(|text| text.replace("\\\n", " "));
        let lines: Vec<&str> = all.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 2, "{lines:?}");
        for line in lines {
            let hashes = line.split_whitespace().filter_map(|word| word.strip_prefix("--hash=sha256:"));
            assert!(line.contains("==") && hashes.clone().count() > 0, "{line}");
            assert!(hashes.into_iter().all(|hash| hash.len() == 64), "{line}");
        }
    }

    #[test]
    fn axe_core_has_its_hash_and_no_address() {
        let [_, (_, lock)] = AXE_FILES;
        assert!(lock.contains("\"integrity\": \"sha512-") && !lock.contains("resolved") && !lock.contains("://"));
        let version =
            |text: &str| text.split("\"axe-core\": ").nth(1).and_then(|rest| rest.lines().next()).map(str::to_owned);
        assert_eq!(version(AXE_FILES[0].1), version(lock));
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        assert!(missing(&PROGRAMS, |_| true).is_empty());
        assert_eq!(missing(&PROGRAMS, |program| program != "sshd" && program != "ip"), ["iproute2", "openssh-server"]);
        assert_eq!(missing(&PROGRAMS, |_| false).len(), PROGRAMS.len());
    }
}
