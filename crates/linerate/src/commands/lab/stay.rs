//! Who may make machines for others to enter, and how long they stay.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use linerate_lab::{Privilege, privilege};

use crate::interrupt;

/// Whether this process may make such machines; Ctrl-C is heard from now on.
pub(super) fn who_may(name: &str) -> Result<()> {
    if privilege() != Privilege::Root {
        bail!("the machines of a {name} are network namespaces that other programs enter; run as root");
    }
    interrupt::listen();
    Ok(())
}

/// Waits for Ctrl-C.
pub(super) fn to_the_end() {
    while !interrupt::requested() {
        thread::sleep(Duration::from_millis(100));
    }
}
