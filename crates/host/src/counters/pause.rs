//! Pause frames (IEEE 802.3, annex 31B) that the MAC sent and received, apart.
//! Knows the standard statistics; drivers that count them only among their own are in `driver`.

use std::io;

use super::{Machine, Reading};
use crate::ethtool::{self, Command, content};
use crate::netlink::Netlink;

// linux/ethtool_netlink.h.
const STATS: u16 = 5;
const COUNTERS: [(&str, u16); 2] = [("tx_frames", 2), ("rx_frames", 3)];

/// `tx_frames` and `rx_frames`, where the driver counts them in the standard way.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    if !machine.files.are_here() {
        return Ok(Vec::new());
    }
    let answer = match ethtool::ask_with_statistics(&mut Netlink::generic()?, Command::Pause, machine.interface) {
        // The driver has none, or the kernel does not know of them.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOENT)) => Vec::new(),
        answer => answer?,
    };
    let stats = content(&answer, STATS).unwrap_or_default();
    let counter = |(name, attribute): (&str, u16)| {
        Some((name.to_owned(), u64::from_ne_bytes(*content(stats, attribute)?.first_chunk()?)))
    };
    Ok(COUNTERS.into_iter().filter_map(counter).collect())
}
