//! A folder for what a command makes on its way. Knows nothing of it.

use std::fs;
use std::path::PathBuf;

/// A folder of this process alone that is gone afterwards.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// One of this name.
    pub fn new(name: &str) -> Result<Scratch, String> {
        let folder = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Scratch(folder))
    }

    /// One within it.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.0.join(name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: {} is left behind: {error}", self.0.display());
        }
    }
}
