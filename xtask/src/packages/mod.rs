//! `cargo xtask packages`: everything that is given to people without Rust, into target/packages.
//! Knows what a release consists of; its files know how each part is made.

mod archive;
mod attempt;
mod contents;
mod debian;
mod image;
mod recipes;
mod release;
mod tree;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::agents::{self, MACHINES, Toolchain};
use crate::program::root;
use archive::{Epoch, gzip, sha256, tar};
use contents::Pages;
use debian::{LINERATE, LINERATE_AGENTS, LINERATE_WORKER, Package};
pub(crate) use release::FEATURES;
use release::{CONTROLLERS, Controller, Speed, VERSION};
use tree::Tree;

const USAGE: &str = "it is: cargo xtask packages [--quick | --built] [--try]";

/// What is packed lies here, and what it is packed from below it.
const FOLDER: &str = "target/packages";
/// The checksums of all that is packed.
const SUMS: &str = "SHA256SUMS";

/// Builds what is to be packed, unless it is built, packs it, and with `--try` installs and runs it.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let (mut speed, mut is_built, mut is_tried) = (Speed::Dist, false, false);
    for word in words {
        match word.to_str() {
            Some("--quick") => speed = Speed::Quick,
            Some("--built") => is_built = true,
            Some("--try") => is_tried = true,
            _ => return Err(USAGE.to_owned()),
        }
    }
    // One machine's is enough to see that packing works.
    let controllers: Vec<&Controller> =
        CONTROLLERS.iter().filter(|one| speed == Speed::Dist || one.runs_here()).collect();
    if !is_built && speed == Speed::Dist {
        agents::build(&MACHINES.iter().collect::<Vec<_>>(), &Toolchain::of_sources()?)?;
    }
    if !is_built {
        release::build(&controllers, speed)?;
    }
    let folder = root().join(FOLDER);
    let agents = release::agents(speed)?;
    let packed = pack(&controllers, &agents, release::epoch()?, &folder)?;
    for file in &packed {
        let bytes = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
        println!("{:>10.2} MiB  {}", bytes as f64 / (1024.0 * 1024.0), file.display());
    }
    if is_tried {
        let agents: Vec<&str> = agents.iter().map(|(machine, _)| *machine).collect();
        attempt::run(&folder, &agents, speed == Speed::Dist)?;
    }
    Ok(())
}

/// Packs all of it into `folder`, in place of what was there.
fn pack(
    controllers: &[&Controller],
    agents: &[(&str, Vec<u8>)],
    epoch: Epoch,
    folder: &Path,
) -> Result<Vec<PathBuf>, String> {
    let work = folder.join("work");
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let here = controllers.iter().find(|one| one.runs_here());
    let here =
        here.ok_or_else(|| format!("no controller is packed for {}, to write the pages", std::env::consts::ARCH))?;
    let pages = Pages::of(&here.place(), &work.join("pages"))?;
    let carried = contents::agents(agents);
    let licences = contents::licences()?;
    let mut packed = Vec::new();

    for controller in controllers {
        let place = controller.place();
        let program = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let usr = contents::controller(program, &pages);
        packed.push(tarball(controller, &usr, &carried, epoch, &work, folder)?);
        let mut all = usr.clone();
        all.graft("", &carried);
        all.graft("share/doc/linerate", &licences);
        packed.push(image::pack(controller, &all, epoch, &work.join("image"), folder)?);
        let package = Package { kind: &LINERATE, controller: Some(controller), usr };
        packed.push(package.pack(1, epoch, &work.join("deb"), folder)?);
    }
    let package = Package { kind: &LINERATE_AGENTS, controller: None, usr: carried };
    packed.push(package.pack(1, epoch, &work.join("deb"), folder)?);
    let package = Package { kind: &LINERATE_WORKER, controller: None, usr: contents::worker()? };
    packed.push(package.pack(1, epoch, &work.join("deb"), folder)?);

    let mut plain = Tree::default();
    for (machine, program) in agents {
        plain.program(&format!("linerate-agent-{machine}"), program.clone());
    }
    plain.graft("", &licences);
    let archive = compressed(&format!("linerate-agents-{VERSION}"), &plain, epoch, &work, folder)?;
    let octets = fs::read(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    let recipes = recipes::recipes(&octets)?;
    packed.push(archive);
    packed.push(compressed(&format!("linerate-yocto-{VERSION}"), &recipes.yocto, epoch, &work, folder)?);
    packed.push(compressed(&format!("linerate-buildroot-{VERSION}"), &recipes.buildroot, epoch, &work, folder)?);
    packed.push(sums(&packed, &folder.join(SUMS))?);
    fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    Ok(packed)
}

/// What is unpacked into a prefix such as /usr/local.
fn tarball(
    controller: &Controller,
    usr: &Tree,
    agents: &Tree,
    epoch: Epoch,
    work: &Path,
    folder: &Path,
) -> Result<PathBuf, String> {
    let mut tree = usr.clone();
    tree.graft("", agents);
    tree.graft("share/doc/linerate", &contents::licences()?);
    tree.graft("share/doc/linerate", &contents::documents()?);
    let lines = tree.files().map(|(path, contents)| Ok(format!("{}  {path}\n", sha256(contents)?)));
    let lines = lines.collect::<Result<String, String>>()?;
    tree.file("share/doc/linerate/SHA256SUMS", lines);
    compressed(&format!("linerate-{VERSION}-{}", controller.machine), &tree, epoch, work, folder)
}

/// `NAME.tar.gz`, whose files are in a folder of the same name.
fn compressed(name: &str, tree: &Tree, epoch: Epoch, work: &Path, folder: &Path) -> Result<PathBuf, String> {
    let mut named = Tree::default();
    named.graft(name, tree);
    let staged = work.join("tar");
    named.write(&staged)?;
    let file = folder.join(format!("{name}.tar.gz"));
    fs::write(&file, gzip(&tar(&staged, epoch)?)?)
        .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    Ok(file)
}

/// Writes the checksums of these files, as `sha256sum --check` reads them.
fn sums(files: &[PathBuf], place: &Path) -> Result<PathBuf, String> {
    let mut lines = Vec::new();
    for file in files {
        let octets = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.push((name.clone(), format!("{}  {name}\n", sha256(&octets)?)));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    fs::write(place, text).map_err(|error| format!("{} cannot be written: {error}", place.display()))?;
    Ok(place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// A program of this machine, whatever it does.
    fn some_tree() -> Tree {
        let mut tree = Tree::default();
        tree.program("bin/linerate", std::fs::read("/bin/true").unwrap());
        tree.file("share/man/man1/linerate.1", ".TH linerate 1\n");
        tree.file("share/zsh/site-functions/_linerate", "#compdef linerate\n");
        tree
    }

    /// Every form of the same files, packed in a folder of its own.
    fn every_form(name: &str, epoch: Epoch) -> Vec<(String, Vec<u8>)> {
        let scratch = Scratch::new(&format!("packed-{name}")).unwrap();
        let (folder, work) = (&scratch.0, scratch.folder("work").unwrap());
        let (controller, tree) = (&CONTROLLERS[0], some_tree());
        let agents = Tree::default();
        let files = [
            tarball(controller, &tree, &agents, epoch, &work, folder).unwrap(),
            image::pack(controller, &tree, epoch, &work, folder).unwrap(),
            Package { kind: &LINERATE, controller: Some(controller), usr: tree }.pack(1, epoch, &work, folder).unwrap(),
        ];
        let read = |file: &PathBuf| (file.file_name().unwrap().to_string_lossy().into_owned(), fs::read(file).unwrap());
        files.iter().map(read).collect()
    }

    #[test]
    fn the_same_files_are_packed_to_the_same_octets() {
        let first = every_form("first", Epoch(1_700_000_000));
        // Later, elsewhere, and from files with other times.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let again = every_form("again", Epoch(1_700_000_000));
        for ((name, one), (_, other)) in first.iter().zip(&again) {
            assert!(one == other, "{name} differs");
        }
        let another = every_form("another", Epoch(1_700_000_001));
        for ((name, one), (_, other)) in first.iter().zip(&another) {
            assert!(one != other, "{name} holds no time of the release");
        }
    }

    #[test]
    fn checksums_are_those_that_sha256sum_checks() {
        let scratch = Scratch::new("sums").unwrap();
        let folder = &scratch.0;
        let files = ["b", "a"].map(|name| folder.join(name));
        for file in &files {
            fs::write(file, b"abc").unwrap();
        }
        let place = sums(&files, &folder.join(SUMS)).unwrap();
        let text = fs::read_to_string(&place).unwrap();
        let check =
            || std::process::Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(folder).status();
        assert!(check().unwrap().success(), "{text}");
        assert!(text.lines().map(|line| &line[66..]).eq(["a", "b"]), "{text}");
        fs::write(&files[0], b"abd").unwrap();
        assert!(!check().unwrap().success());
    }
}
