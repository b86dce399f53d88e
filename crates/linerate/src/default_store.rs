//! Where records are kept if nothing else is said, and what lasts no longer than a session.

use std::path::PathBuf;

use anyhow::{Context, Result};
use linerate_results::store::{Store, is_url};

use crate::defaults::Defaults;

/// The store that is read from; `None` where there is none.
pub(crate) fn records() -> Option<Store> {
    let path = Defaults::find(None).ok()?.store.map_or_else(path, Ok).ok()?;
    // Completion in a shell must not wait for a server.
    if path.to_str().is_some_and(is_url) {
        return None;
    }
    Store::open_existing(&path).ok()
}

/// The store's file.
pub(crate) fn path() -> Result<PathBuf> {
    let data = folder().context("there is no home folder to keep records in; name a file with --store")?;
    Ok(data.join("records.sqlite"))
}

/// `linerate` in the data folder of the XDG base directory specification.
pub(crate) fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("linerate"))
}

/// The folder of this user's session, which nobody else sees and which ends with it.
#[cfg(any(feature = "web", feature = "nats"))]
pub(crate) fn session_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir())
}
