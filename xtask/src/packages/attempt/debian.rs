//! The Debian packages, in a Debian that has nothing else: checked, installed, upgraded, purged.
//!
//! The fresh root is made by mmdebstrap from the mirror that this machine uses. Nothing runs in it but dpkg and linerate, in
//! namespaces of their own; so what listens there is what installing started.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{check_controller, inside};
use crate::program::{must, output_of};

/// Where this machine's own system says that packages come from.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];

pub(super) fn check(folder: &Path, scratch: &Path) -> Result<(), String> {
    let debs = debs(folder)?;
    must(Command::new("lintian").args(["--allow-root", "--fail-on=error", "--tag-display-limit=0"]).args(&debs))?;
    let debs: Vec<PathBuf> = debs.into_iter().filter(|deb| is_for_here(deb)).collect();
    let root = fresh(scratch)?;
    let before = paths(&root)?;

    let old = names(&debs, &root.join("old"))?;
    let newer = debs.iter().map(|deb| next_revision(deb, scratch)).collect::<Result<Vec<_>, _>>()?;
    let new = names(&newer, &root.join("new"))?;
    for (folder, files) in [("/old", &old), ("/new", &new)] {
        let said = shell(&root, &format!("cd {folder} && dpkg --install {}", files.join(" ")))?;
        quiet_afterwards(&said)?;
        check_controller(&root, &[], "/usr/bin/linerate")?;
    }
    let packages: Vec<&str> = old.iter().filter_map(|name| Some(name.split_once('_')?.0)).collect();
    let versions = shell(&root, &format!("dpkg-query --show --showformat='${{Version}}\\n' {}", packages.join(" ")))?;
    let is_upgraded = |line: &str| line.ends_with("-2");
    if versions.lines().take_while(|line| !line.starts_with(MARK)).filter(|line| is_upgraded(line)).count()
        != packages.len()
    {
        return Err(format!("after the upgrade, versions are: {versions}"));
    }
    enabled(&root)?;
    worker(&root)?;
    quiet_afterwards(&shell(&root, &format!("dpkg --purge {}", packages.join(" ")))?)?;
    if let Some(line) = user(&root)? {
        return Err(format!("after the purge, a user is left: {line}"));
    }
    for folder in ["old", "new"] {
        fs::remove_dir_all(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    }
    let after = paths(&root)?;
    let left: Vec<&String> = after.difference(&before).collect();
    let gone: Vec<&String> = before.difference(&after).collect();
    if left.is_empty() && gone.is_empty() {
        Ok(())
    } else {
        Err(format!("after the purge, these files are left: {left:?}; and these are gone: {gone:?}"))
    }
}

/// Whom a worker runs as.
const WORKER: &str = "linerate-worker";

/// The worker has a user who cannot log in; its unit is one that systemd reads; and as that user, it takes credentials that are
/// its own alone, and says what is missing where there is no queue.
fn worker(root: &Path) -> Result<(), String> {
    let line = user(root)?.ok_or("installing makes no user for the worker")?;
    if !line.ends_with("/nologin") || !line.contains(":/var/lib/linerate-worker:") {
        return Err(format!("the worker's user is {line}"));
    }
    let unit = format!("{WORKER}.service");
    must(
        Command::new("systemd-analyze")
            .arg("verify")
            .args(["--man=no", "--recursive-errors=no"])
            .arg(format!("--root={}", root.display()))
            .arg(unit),
    )?;
    let numbers: Vec<&str> = line.split(':').collect();
    let make = format!(
        "mkdir -p /etc/linerate/worker/benches && cp /usr/share/doc/{WORKER}/examples/bench.toml /etc/linerate/worker/benches && echo \
         worker:secret > /etc/linerate/worker/credentials && chown {0} /etc/linerate/worker/credentials",
        numbers[2]
    );
    let run = format!(
        "install -d -o {0} /tmp/w && setpriv --reuid={0} --regid={1} --clear-groups env HOME=/tmp/w LINERATE_QUEUE=nats://127.0.0.1:1 \
         LINERATE_QUEUE_CREDENTIALS=/etc/linerate/worker/credentials linerate worker --bench /etc/linerate/worker/benches \
         --store /tmp/w/records 2>&1 || true",
        numbers[2], numbers[3]
    );
    for (mode, part) in [("0644", "chmod 600"), ("0600", "cannot be reached")] {
        let said = shell(root, &format!("{make}; chmod {mode} /etc/linerate/worker/credentials; {run}"))?;
        if !said.contains(part) || said.contains("secret") {
            return Err(format!("with credentials of mode {mode}, the worker says: {said}"));
        }
    }
    fs::remove_dir_all(root.join("etc/linerate")).map_err(|error| format!("etc/linerate: {error}"))
}

/// Its line of /etc/passwd.
fn user(root: &Path) -> Result<Option<String>, String> {
    let place = root.join("etc/passwd");
    let users = fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(users.lines().find(|line| line.starts_with(&format!("{WORKER}:"))).map(str::to_owned))
}

fn debs(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut debs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    debs.retain(|path| path.extension().is_some_and(|end| end == "deb"));
    debs.sort();
    Ok(debs)
}

fn is_for_here(deb: &Path) -> bool {
    let here = super::CONTROLLERS.iter().find(|one| one.runs_here()).map_or("", |one| one.debian);
    let name = deb.file_stem().unwrap_or_default().to_string_lossy();
    name.rsplit_once('_').is_some_and(|(_, machine)| machine == "all" || machine == here)
}

/// A Debian of its essential packages, and of what makes users.
fn fresh(scratch: &Path) -> Result<PathBuf, String> {
    let sources = SOURCES.into_iter().find(|path| Path::new(path).is_file());
    let sources = sources.ok_or_else(|| format!("none of {} is here; this is for Debian", SOURCES.join(", ")))?;
    let system = fs::read_to_string("/etc/os-release").map_err(|error| format!("/etc/os-release: {error}"))?;
    let suite = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or("/etc/os-release names no suite of Debian")?;
    let root = scratch.join("root");
    must(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=essential", "--include=adduser", suite])
            .arg(&root)
            .arg(sources),
    )?;
    Ok(root)
}

/// Copies packages into a folder of the root, and gives their names.
fn names(debs: &[PathBuf], folder: &Path) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir(folder).map_err(wrong)?;
    let copied = |deb: &PathBuf| {
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::copy(deb, folder.join(&name)).map_err(wrong)?;
        Ok(name)
    };
    debs.iter().map(copied).collect()
}

/// The same package with a later revision, which is all that an upgrade looks at.
fn next_revision(deb: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let name = deb.file_name().unwrap_or_default().to_string_lossy().replace("-1_", "-2_");
    let (folder, newer) = (scratch.join("unpacked"), scratch.join(name));
    must(Command::new("dpkg-deb").arg("--raw-extract").arg(deb).arg(&folder))?;
    let control = folder.join("DEBIAN/control");
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let text = fs::read_to_string(&control).map_err(wrong)?;
    fs::write(&control, text.replace(&super::super::debian::version(1), &super::super::debian::version(2)))
        .map_err(wrong)?;
    must(Command::new("dpkg-deb").args(["--root-owner-group", "-Zgzip", "--build"]).arg(&folder).arg(&newer))?;
    fs::remove_dir_all(&folder).map_err(wrong)?;
    Ok(newer)
}

/// Stands between what a command said and what is open and runs afterwards.
const MARK: &str = "== afterwards";

/// Runs a line in the root, and behind it lists sockets and processes.
fn shell(root: &Path, line: &str) -> Result<String, String> {
    let look = "cd /proc/net && for table in tcp tcp6 udp udp6; do sed 1d $table; done; cat /proc/[0-9]*/comm";
    output_of(&mut inside(root, &[], &["/bin/sh", "-ec", &format!("{line}; echo '{MARK}'; {look}")]))
}

/// Nothing is open, and nothing runs but the shell, its helpers and bwrap.
fn quiet_afterwards(said: &str) -> Result<(), String> {
    let (_, after) = said.split_once(MARK).ok_or_else(|| format!("the root's shell said: {said}"))?;
    let own = ["sh", "cat", "bwrap"];
    let left: Vec<&str> = after.lines().map(str::trim).filter(|line| !line.is_empty() && !own.contains(line)).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("after installing, this is open or runs: {}", left.join("; "))) }
}

/// No unit starts by itself.
fn enabled(root: &Path) -> Result<(), String> {
    let units: Vec<String> =
        paths(root)?.into_iter().filter(|path| path.contains("systemd") && path.contains(".wants/linerate")).collect();
    if units.is_empty() { Ok(()) } else { Err(format!("installing enables {}", units.join(", "))) }
}

/// All paths of the root but what dpkg, whoever runs it, and what makes users (the files before the last change) keep for themselves.
fn paths(root: &Path) -> Result<BTreeSet<String>, String> {
    let said = output_of(Command::new("find").arg(root).args(["-xdev", "-printf", "%P\\n"]))?;
    let own = ["var/lib/dpkg/", "var/log/", "var/cache/", "old", "new", "proc", "dev", "tmp", "run"];
    let kept = ["etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/subuid-", "etc/subgid-"];
    let is_own = |path: &&str| own.iter().any(|own| path.starts_with(own)) || kept.contains(path);
    Ok(said.lines().filter(|path| !is_own(path)).map(str::to_owned).collect())
}
