//! The repository's files: text, with their paths from its top folder.
//! Knows which folders are made by programs, and leaves them out.

use std::fs;
use std::path::Path;

/// A text file.
pub(crate) struct File {
    /// From the repository's top folder, with '/'.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// Made by programs; as in .gitignore. Not asked from git, because a checkout need not have one.
const LEFT_OUT: [&str; 6] = [".git", "target", "firmware/target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];

/// All text files, in the order of their paths.
pub(crate) fn all(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    add(root, "", &mut files).map_err(|error| format!("the repository's files cannot be read: {error}"))?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn add(root: &Path, folder: &str, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if LEFT_OUT.contains(&path.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add(root, &path, files)?;
        } else if kind.is_file() {
            // What is no text has no rules; nor has what an editor took away just now.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}
