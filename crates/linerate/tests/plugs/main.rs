//! linerate inside what others run: labgrid, LAVA, KernelCI's store and Prometheus. Each form is read by its own program where
//! that is installed (`cargo xtask setup labgrid`, `cargo xtask setup readers`), and by nobody, said by name, where it is not.

#[path = "../machines/mod.rs"]
mod machines;
#[cfg(feature = "web")]
#[path = "../web/server.rs"]
#[allow(dead_code, reason = "another program's tests use the rest of it")]
mod server;

mod kcidb;
mod labgrid;
mod lava;
#[cfg(feature = "web")]
mod prometheus;

use std::path::{Path, PathBuf};

/// A file that `cargo xtask setup` has put there; `None`, and a line that says so, where it is not.
fn installed(what: &str, setup: &str, file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(file);
    if path.exists() {
        // The last part may be a link, by whose name Python knows its packages.
        return Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    }
    eprintln!("SKIPPED {what}: cargo xtask setup {setup} installs it");
    None
}
