//! Ctrl-C and its like: the first asks for an orderly end, the second does not wait for it.
//! Knows nothing of what is being ended.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens for SIGINT, SIGTERM and SIGHUP from now on.
pub(crate) fn listen() {
    // A second call, or a system without signals, changes nothing: the agents end with this process in any case.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether an orderly end was asked for.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
