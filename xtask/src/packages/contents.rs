//! What is installed where: the controller with its pages, and the agents.
//! Knows paths below a prefix such as /usr; not what they are packed into.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::tree::Tree;
use crate::licences;
use crate::program::{output_of, root};

/// Where agents are looked for: `../lib/linerate/agents` from the controller.
const AGENTS: &str = "lib/linerate/agents";

/// Each shell whose completions are packed, and where the shell looks for them; zsh looks elsewhere on Debian.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/linerate"),
    ("zsh", "share/zsh/site-functions/_linerate"),
    ("fish", "share/fish/vendor_completions.d/linerate.fish"),
];

/// What a controller of this kind says of itself: its manual and completions, the same for every machine.
pub(super) struct Pages {
    man: Vec<(String, Vec<u8>)>,
    completions: Vec<(&'static str, String)>,
}

impl Pages {
    /// Asks a controller that runs here; `folder` is for the pages it writes.
    pub(super) fn of(controller: &Path, folder: &Path) -> Result<Pages, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(wrong)?;
        }
        fs::create_dir_all(folder).map_err(wrong)?;
        // Called by its bare name, it is the one that a shell finds in its path.
        let linerate = || {
            let mut command = Command::new(controller);
            command.arg0("linerate");
            command
        };
        output_of(linerate().arg("man").arg(folder))?;
        let mut man = Vec::new();
        for entry in fs::read_dir(folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            man.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).map_err(wrong)?));
        }
        man.sort();
        let of = |(shell, path)| Ok((path, output_of(linerate().args(["completions", shell]))?));
        Ok(Pages { man, completions: COMPLETIONS.into_iter().map(of).collect::<Result<_, String>>()? })
    }
}

/// What a worker is told by, as examples.
pub(super) fn worker() -> Result<Tree, String> {
    let mut tree = Tree::default();
    for name in ["environment", "bench.toml"] {
        let place = root().join("packaging/worker").join(name);
        let text = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        tree.file(&format!("share/doc/linerate-worker/examples/{name}"), text);
    }
    Ok(tree)
}

/// The controller, its pages and what it is used by.
pub(super) fn controller(program: Vec<u8>, pages: &Pages) -> Tree {
    let mut tree = Tree::default();
    tree.program("bin/linerate", program);
    for (name, page) in &pages.man {
        tree.file(&format!("share/man/man1/{name}"), page.clone());
    }
    for (path, text) in &pages.completions {
        tree.file(path, text.clone());
    }
    tree
}

/// The agents that are carried to boards.
pub(super) fn agents(agents: &[(&str, Vec<u8>)]) -> Tree {
    let mut tree = Tree::default();
    for (machine, program) in agents {
        tree.program(&format!("{AGENTS}/linerate-agent-{machine}"), program.clone());
    }
    tree
}

/// Licences, for a folder that a package has for documents.
pub(super) fn licences() -> Result<Tree, String> {
    texts(&["LICENSE-APACHE", "LICENSE-MIT", licences::DOCUMENT])
}

/// What is to be read about linerate, for the same folder.
pub(super) fn documents() -> Result<Tree, String> {
    let mut names = vec!["CHANGELOG.md".to_owned(), "README.md".to_owned(), "docs/images/demo.svg".to_owned()];
    let wrong = |error: std::io::Error| format!("docs: {error}");
    for entry in fs::read_dir(root().join("docs")).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    texts(&names)
}

/// Files of the repository, by their names in it.
fn texts(names: &[impl AsRef<str>]) -> Result<Tree, String> {
    let mut tree = Tree::default();
    for name in names.iter().map(AsRef::as_ref) {
        tree.file(name, fs::read(root().join(name)).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(tree)
}
