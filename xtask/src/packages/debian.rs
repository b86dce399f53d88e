//! Debian packages, packed by dpkg-deb: which there are, and what Debian's policy wants beside their files.
//! Knows files below /usr, not how programs are built.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::archive::{Epoch, gzip, md5};
use super::release::{Controller, VERSION};
use super::tree::Tree;
use crate::program::{must, output_of, program, root};

/// A binary package. Debian policy, chapter 5, names its fields.
pub(super) struct Package<'a> {
    pub(super) kind: &'static Kind,
    /// `None`: the same files serve every machine.
    pub(super) controller: Option<&'a Controller>,
    /// Files below /usr.
    pub(super) usr: Tree,
}

/// What packages of one name have in common.
pub(super) struct Kind {
    pub(super) name: &'static str,
    summary: &'static str,
    /// Lines of the description.
    about: &'static str,
    /// Fields that name other packages; `=` stands for this version.
    relations: &'static [(&'static str, &'static str)],
    /// The units of packaging/systemd, which are neither enabled nor started.
    units: &'static [&'static str],
    /// The system's user whom they run as, where that is not root: made at the installation.
    user: Option<&'static str>,
    /// What lintian would say, and why it is as it is.
    overrides: &'static [(&'static str, &'static str)],
}

pub(super) const LINERATE: Kind = Kind {
    name: "linerate",
    summary: "measure how well an Ethernet port works, and where its packets go",
    about: " linerate sends TCP, UDP, requests and Ethernet frames between a board and
 the machine at the other end of its cable, and keeps a record of each
 trial: throughput, loss, delay, the CPU time it cost on both machines,
 and a loss budget that puts each lost packet at a stage of its path.
 .
 It listens on no port, and starts nothing, unless it is told to.",
    relations: &[("Recommends", "linerate-agents (= =), openssh-client"), ("Suggests", "qemu-system")],
    units: &["linerate-agent.service"],
    user: None,
    overrides: &[
        ("statically-linked-binary", "It carries itself to machines with another C library, or none."),
        ("embedded-library", "A static program has its libraries in it; they are in THIRD-PARTY-LICENCES.txt."),
    ],
};

pub(super) const LINERATE_AGENTS: Kind = Kind {
    name: "linerate-agents",
    summary: "programs that linerate carries to boards",
    about: " linerate-agent generates, receives and counts test traffic on a board. Here
 it is for eight kinds of machine: x86_64, aarch64, armv7, armv5, mips, mipsel,
 powerpc and riscv64. linerate carries the right one over ssh to a board that
 has none, and leaves nothing behind.
 .
 Nothing of it runs on the machine that it is installed on.",
    relations: &[("Enhances", "linerate")],
    units: &[],
    user: None,
    overrides: &[
        ("arch-dependent-file-not-in-arch-specific-directory", "They are for other machines than this one."),
        ("arch-independent-package-contains-binary-or-object", "Those programs are what it hands to other machines."),
        ("binary-from-other-architecture", "They are for other machines than this one."),
        ("statically-linked-binary", "A board may have any C library, or none."),
    ],
};

pub(super) const LINERATE_WORKER: Kind = Kind {
    name: "linerate-worker",
    summary: "unit that carries out a team's linerate jobs",
    about: " A worker takes campaigns out of a team's queue, which is on a NATS server, and
 carries them out on the benches that it can reach. This package has its
 unit for systemd and makes its user; the program is linerate's.
 .
 It does nothing until it is told of a queue and a bench in /etc and is
 enabled. Then it dials out, and listens on no port.",
    relations: &[("Depends", "linerate (= =), adduser"), ("Recommends", "openssh-client")],
    units: &["linerate-worker.service"],
    user: Some("linerate-worker"),
    overrides: &[],
};

/// Where units are, for systems with a merged /usr and others.
const UNITS: &str = "lib/systemd/system";

/// The version, with Debian's revision behind it.
pub(super) fn version(revision: u32) -> String {
    format!("{VERSION}-{revision}")
}

impl Package<'_> {
    fn architecture(&self) -> &str {
        self.controller.map_or("all", |one| one.debian)
    }

    /// Packs it into `folder`, and says where. `work` is for what is packed, and is made anew.
    pub(super) fn pack(&self, revision: u32, epoch: Epoch, work: &Path, folder: &Path) -> Result<PathBuf, String> {
        let tree = self.tree(revision, epoch)?;
        tree.write(work)?;
        let control = self.control(revision, &tree)?;
        let meta = work.join("DEBIAN");
        let sums = tree.files().map(|(path, contents)| Ok(format!("{}  {path}\n", md5(contents)?)));
        let sums = sums.collect::<Result<String, String>>()?;
        fs::create_dir(&meta)
            .and_then(|()| fs::set_permissions(&meta, fs::Permissions::from_mode(0o755)))
            .and_then(|()| write(&meta.join("control"), &control, 0o644))
            .and_then(|()| write(&meta.join("md5sums"), &sums, 0o644))
            .and_then(|()| self.scripts().iter().try_for_each(|(name, text)| write(&meta.join(name), text, 0o755)))
            .map_err(|error| format!("{} cannot be written: {error}", meta.display()))?;
        let name = format!("{}_{}_{}.deb", self.kind.name, version(revision), self.architecture());
        let deb = folder.join(name);
        // Every time in it is the release's: dpkg-deb(1) takes later ones back to this.
        let mut command = program("dpkg-deb", &["--root-owner-group", "-Zgzip", "--build"]);
        must(command.env("SOURCE_DATE_EPOCH", epoch.0.to_string()).arg(work).arg(&deb))?;
        Ok(deb)
    }

    /// All files, with those that policy demands: pages compressed, copyright and changes (sections 12.1, 12.5, 12.7).
    fn tree(&self, revision: u32, epoch: Epoch) -> Result<Tree, String> {
        let (name, mut tree) = (self.kind.name, Tree::default());
        for (path, contents) in self.usr.files() {
            if path.starts_with("share/man/") {
                tree.file(&format!("usr/{path}.gz"), gzip(contents)?);
            } else if path.starts_with("bin/") || path.starts_with("lib/") {
                tree.program(&format!("usr/{path}"), contents.to_vec());
            } else {
                let path = path.replace("share/zsh/site-functions", "share/zsh/vendor-completions");
                tree.file(&format!("usr/{path}"), contents);
            }
        }
        for unit in self.kind.units {
            let place = root().join("packaging/systemd").join(unit);
            let text = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
            tree.file(&format!("{UNITS}/{unit}"), text);
        }
        let documents = format!("usr/share/doc/{name}");
        let changes = fs::read(root().join("CHANGELOG.md")).map_err(|error| format!("CHANGELOG.md: {error}"))?;
        tree.file(&format!("{documents}/changelog.gz"), gzip(&changes)?);
        tree.file(&format!("{documents}/changelog.Debian.gz"), gzip(self.changes(revision, epoch)?.as_bytes())?);
        tree.file(&format!("{documents}/copyright"), copyright()?);
        let others = crate::licences::DOCUMENT;
        let text = fs::read(root().join(others)).map_err(|error| format!("{others}: {error}"))?;
        tree.file(&format!("{documents}/{others}"), text);
        let overrides: String =
            self.kind.overrides.iter().map(|(tag, why)| format!("# {why}\n{name}: {tag}\n")).collect();
        tree.file(&format!("usr/share/lintian/overrides/{name}"), overrides);
        Ok(tree)
    }

    fn control(&self, revision: u32, tree: &Tree) -> Result<String, String> {
        let kind = self.kind;
        let bytes: usize = tree.files().map(|(_, contents)| contents.len()).sum();
        let relations = kind.relations.iter().map(|(field, packages)| {
            format!("{field}: {}\n", packages.replace("(= =)", &format!("(= {})", version(revision))))
        });
        Ok(format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\n{}Section: net\nPriority: \
             optional\nDescription: {}\n{}\n",
            kind.name,
            version(revision),
            self.architecture(),
            maintainer(),
            bytes.div_ceil(1024),
            relations.collect::<String>(),
            kind.summary,
            kind.about
        ))
    }

    /// What dpkg runs where a package has units: systemd is told that they came and went, and none outlives its program (policy,
    /// chapter 6).
    fn scripts(&self) -> Vec<(&'static str, String)> {
        if self.kind.units.is_empty() {
            return Vec::new();
        }
        let units = self.kind.units.join(" ");
        let script = |lines: &str| format!("#!/bin/sh\nset -e\n{lines}");
        let reload =
            "if [ -d /run/systemd/system ]; then\n    systemctl --system daemon-reload > /dev/null || true\nfi\n";
        let stop = format!(
            "if [ \"$1\" = remove ] && command -v systemctl > /dev/null; then\n    if [ -d /run/systemd/system ]; then\n        \
             systemctl stop {units} > /dev/null || true\n    fi\n    systemctl --quiet disable {units} > /dev/null 2>&1 || \
             true\nfi\n"
        );
        let (mut make, mut drop) = (String::new(), String::new());
        if let Some(user) = self.kind.user {
            let home = format!("/var/lib/{user}");
            make = format!(
                "if [ \"$1\" = configure ] && ! getent passwd {user} > /dev/null; then\n    adduser --system --group --quiet \
                 --home {home} --no-create-home {user}\nfi\n"
            );
            // What it has measured stays, and then so does its owner.
            drop = format!(
                "if [ \"$1\" = purge ] && [ ! -e {home} ] && command -v deluser > /dev/null; then\n    deluser --system --quiet \
                 {user} 2> /dev/null || true\nfi\n"
            );
        }
        let (install, remove) = (script(&(make + reload)), script(&(reload.to_owned() + &drop)));
        vec![("postinst", install), ("prerm", script(&stop)), ("postrm", remove)]
    }

    /// The packaging's own changes (policy, section 4.4).
    fn changes(&self, revision: u32, epoch: Epoch) -> Result<String, String> {
        let day = output_of(program("date", &["--utc", "--rfc-email"]).arg(format!("--date=@{}", epoch.0)))?;
        let (name, version) = (self.kind.name, version(revision));
        let what = "Packed from a release; CHANGELOG.md says what changed in it.";
        Ok(format!("{name} ({version}) unstable; urgency=medium\n\n  * {what}\n\n -- {}  {day}", maintainer()))
    }
}

/// Whoever packs: as Debian's own tools ask for the name.
fn maintainer() -> String {
    let or = |name: &str, other: &str| std::env::var(name).unwrap_or_else(|_| other.to_owned());
    format!("{} <{}>", or("DEBFULLNAME", "linerate"), or("DEBEMAIL", "linerate@packages.invalid"))
}

/// The licence, machine-readable (copyright-format 1.0). Everybody else's, among them whole Apache licences, which policy wants in
/// no such file (section 12.5), stand beside it.
fn copyright() -> Result<String, String> {
    let text = fs::read_to_string(root().join("LICENSE-MIT")).map_err(|error| format!("LICENSE-MIT: {error}"))?;
    let paragraph: String = text
        .lines()
        .map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: linerate\nComment:\n Programs \
         here are static. What is linked into them, with everybody's notices and\n licences, is in {} beside\n this file, and \
         `linerate licences` prints it.\n\nFiles: *\nCopyright: the developers of linerate\nLicense: MIT or \
         Apache-2.0\n\nLicense: MIT\n{paragraph}\nLicense: Apache-2.0\n On Debian systems the text is in \
         /usr/share/common-licenses/Apache-2.0.\n",
        crate::licences::DOCUMENT
    ))
}

fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
