//! A folder that is one user's alone, also where everybody may make folders: what others could put there is not trusted.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Whether this is a folder, and not a link to one, that belongs to `user` and that nobody else may write to.
pub fn is_own(folder: &Path, user: u32) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
}

/// Makes the folder if it is not there, and sees that it is this user's own.
pub fn own(folder: &Path, user: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ if is_own(folder, user) => Ok(()),
        _ => Err(io::Error::new(ErrorKind::PermissionDenied, "it is not this user's alone")),
    }
}
