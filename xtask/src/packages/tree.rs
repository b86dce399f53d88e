//! The files of a package before they are packed: names, modes and contents, in the order of their names.
//! Knows no format.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files and folders, by their paths without a slash in front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<String, Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// `None`: a folder.
    contents: Option<Vec<u8>>,
}

impl Tree {
    /// A file that everybody may read.
    pub(super) fn file(&mut self, path: &str, contents: impl Into<Vec<u8>>) {
        self.put(path, 0o644, Some(contents.into()));
    }

    /// A file that everybody may run.
    pub(super) fn program(&mut self, path: &str, contents: Vec<u8>) {
        self.put(path, 0o755, Some(contents));
    }

    /// A folder that everybody may write in.
    pub(super) fn shared_folder(&mut self, path: &str) {
        self.put(path, 0o1777, None);
    }

    fn put(&mut self, path: &str, mode: u32, contents: Option<Vec<u8>>) {
        // Each folder above has an entry of its own, as in every archive.
        for (at, _) in path.match_indices('/') {
            self.0.entry(path[..at].to_owned()).or_insert(Entry { mode: 0o755, contents: None });
        }
        self.0.insert(path.to_owned(), Entry { mode, contents });
    }

    /// All of another tree's, below a folder; an empty name is the top.
    pub(super) fn graft(&mut self, folder: &str, other: &Tree) {
        for (path, entry) in &other.0 {
            let path = if folder.is_empty() { path.clone() } else { format!("{folder}/{path}") };
            self.put(&path, entry.mode, entry.contents.clone());
        }
    }

    /// Files with their contents.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| Some((path.as_str(), entry.contents.as_deref()?)))
    }

    /// Writes it into a new folder, in place of what was there.
    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        let wrong = |path: &Path, error: std::io::Error| format!("{} cannot be written: {error}", path.display());
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| wrong(path, error))
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| wrong(folder, error))?;
        }
        fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
        mode(folder, 0o755)?;
        for (path, entry) in &self.0 {
            let path = folder.join(path);
            match &entry.contents {
                Some(contents) => fs::write(&path, contents),
                None => fs::create_dir(&path),
            }
            .map_err(|error| wrong(&path, error))?;
            mode(&path, entry.mode)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_has_its_entry() {
        let (mut inner, mut tree) = (Tree::default(), Tree::default());
        inner.program("bin/linerate", b"program".to_vec());
        tree.graft("usr", &inner);
        tree.file("usr/share/a", "a");
        let paths: Vec<&str> = tree.0.keys().map(String::as_str).collect();
        assert_eq!(paths, ["usr", "usr/bin", "usr/bin/linerate", "usr/share", "usr/share/a"]);
        assert_eq!(tree.0["usr/bin/linerate"].mode, 0o755);
        assert_eq!(tree.files().count(), 2);
    }
}
