//! A file that is there whole or not at all, and whether it can be.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that is meant, behind symbolic links; or why it cannot be written.
pub(super) fn checked(path: &Path) -> Result<PathBuf, String> {
    let real = match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err("it is a folder".to_owned()),
        // A device would be replaced by the file, and a pipe may have no reader.
        Ok(there) if !there.is_file() => return Err("it is no regular file (- is standard output)".to_owned()),
        Ok(_) => fs::canonicalize(path).map_err(|error| error.to_string())?,
        Err(_) => {
            let name = path.file_name().ok_or("it has no name")?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::canonicalize(folder).map_err(|error| error.to_string())?.join(name)
        }
    };
    let new = beside(&real);
    File::create(&new).and_then(|_| fs::remove_file(&new)).map_err(|error| error.to_string())?;
    Ok(real)
}

/// What the file is called until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// Writes a file whole or not at all.
pub(super) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
