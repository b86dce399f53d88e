//! The modules of a crate, and the files whose items each of them names.
//! Knows `mod`, `use` and paths as words; what a macro makes is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::files::File;
use super::words::{Word, product_words};

/// How often a name may be handed on by `pub use`.
const HANDED_ON: usize = 8;

/// A crate's modules, by their paths from its root.
pub(super) struct Modules(BTreeMap<Vec<String>, Module>);

/// A file as a module, without its tests.
pub(super) struct Module {
    /// From the repository's top folder.
    pub(super) file: String,
    name: Vec<String>,
    children: BTreeSet<String>,
    uses: Vec<Use>,
    /// What stands in the code as `a::b::c`.
    paths: BTreeSet<Vec<String>>,
}

/// A name that a `use` binds, and its path as it stands there.
struct Use {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

impl Modules {
    /// Those of every crate in `crates/` and of xtask.
    pub(super) fn of_crates(files: &[File]) -> Vec<Modules> {
        let mut crates: BTreeMap<&str, BTreeMap<Vec<String>, Module>> = BTreeMap::new();
        for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
            let Some((root, rest)) = file.path.split_once("/src/") else { continue };
            let is_crate = root == "xtask" || root.strip_prefix("crates/").is_some_and(|name| !name.contains('/'));
            let mut name: Vec<String> = rest.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if name.last().is_some_and(|last| last == "mod") || name == ["lib"] || name == ["main"] {
                name.pop();
            }
            if is_crate {
                let modules = crates.entry(root).or_default();
                // Of a crate with both, the library: its main.rs reads as a sentence.
                if rest != "main.rs" || !modules.contains_key(&name) {
                    modules.insert(name.clone(), Module::of(file, name));
                }
            }
        }
        crates.into_values().map(Modules::without_tests).collect()
    }

    /// Leaves out what only tests have: the module above does not declare it but for them.
    fn without_tests(all: BTreeMap<Vec<String>, Module>) -> Modules {
        let is_declared = |name: &Vec<String>| match name.split_last() {
            Some((last, above)) => all.get(above).is_some_and(|parent| parent.children.contains(last)),
            None => true,
        };
        let is_of_product = |name: &Vec<String>| (0..=name.len()).all(|len| is_declared(&name[..len].to_vec()));
        let kept: BTreeSet<Vec<String>> = all.keys().filter(|name| is_of_product(name)).cloned().collect();
        Modules(all.into_iter().filter(|(name, _)| kept.contains(name)).collect())
    }

    /// Every module.
    pub(super) fn all(&self) -> impl Iterator<Item = &Module> {
        self.0.values()
    }

    /// The files that have what a module names, but for those above it: what the files of a folder share stands in the
    /// folder's own.
    pub(super) fn imported_by(&self, module: &Module) -> BTreeSet<String> {
        let named = module.uses.iter().map(|one| &one.path).chain(&module.paths);
        let found = named.filter_map(|path| self.module_of(module, path, HANDED_ON));
        found.filter(|found| !module.name.starts_with(&found.name)).map(|found| found.file.clone()).collect()
    }

    /// The module that has what a path in a module means; `None`: it is of another crate, or a name that a `use` binds.
    fn module_of(&self, module: &Module, path: &[String], handed_on: usize) -> Option<&Module> {
        let mut at = module.name.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first if module.children.contains(first) => {}
            _ => return None,
        }
        while let Some(next) = rest.first() {
            at.push(next.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let found = self.0.get(&at)?;
        let mut handing = found.uses.iter().filter(|one| one.is_public && rest.first() == Some(&one.name));
        match handing.next().filter(|_| handed_on > 0) {
            Some(one) => self.module_of(found, &one.path, handed_on - 1),
            None => Some(found),
        }
    }
}

impl Module {
    fn of(file: &File, name: Vec<String>) -> Module {
        let (file, text) = (file.path.clone(), &file.text);
        let mut module = Module { file, name, children: BTreeSet::new(), uses: Vec::new(), paths: BTreeSet::new() };
        let words = product_words(text);
        let mut at = 0;
        while at < words.len() {
            match words[at..] {
                ["mod", child, ";", ..] => {
                    module.children.insert(child.to_owned());
                    at += 3;
                }
                ["use", ..] => {
                    let is_public = at > 0 && (words[at - 1] == "pub" || words[at - 1] == ")");
                    let mut trees = Trees { words: &words, at: at + 1, is_public, uses: &mut module.uses };
                    trees.tree(&[]);
                    at = trees.at;
                }
                [first, "::", ..] if is_name(first) => {
                    let mut path = vec![first.to_owned()];
                    at += 1;
                    while let ["::", next, ..] = words[at..]
                        && is_name(next)
                    {
                        path.push(next.to_owned());
                        at += 2;
                    }
                    module.paths.insert(path);
                    at += usize::from(words.get(at) == Some(&"::"));
                }
                _ => at += 1,
            }
        }
        module
    }
}

/// Reads what a `use` binds.
struct Trees<'a, 'w> {
    words: &'a [Word<'w>],
    at: usize,
    is_public: bool,
    uses: &'a mut Vec<Use>,
}

impl Trees<'_, '_> {
    /// One path, or several in braces, behind `above`; `at` stands behind it afterwards.
    fn tree(&mut self, above: &[String]) {
        let mut path = above.to_vec();
        loop {
            match self.words.get(self.at).copied() {
                Some("{") => {
                    while !matches!(self.words.get(self.at).copied(), None | Some("}" | ";")) {
                        self.at += 1;
                        self.tree(&path);
                    }
                    self.at += 1;
                    return;
                }
                Some("::") => self.at += 1,
                Some("*") => self.at += 1,
                Some("as") => {
                    let name = self.words.get(self.at + 1).map_or_else(String::new, |name| (*name).to_owned());
                    self.at += 2;
                    return self.bind(name, path);
                }
                Some(name) if is_name(name) => {
                    path.push(name.to_owned());
                    self.at += 1;
                }
                _ => break,
            }
        }
        // `a::{self}` is `a`.
        let is_self = path.len() > above.len() && path.len() > 1 && path.last().is_some_and(|last| last == "self");
        if is_self {
            path.pop();
        }
        if let (Some(name), true) = (path.last().cloned(), path.len() > above.len() || is_self) {
            self.bind(name, path);
        }
    }

    fn bind(&mut self, name: String, path: Vec<String>) {
        self.uses.push(Use { name, path, is_public: self.is_public });
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}
