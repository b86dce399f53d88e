//! Pause frames (IEEE 802.3, annex 31B) that the MAC sent and received, apart.
//! Knows the standard statistics; drivers that count them only among their own are in `driver`.

use std::io;

use netlink_bindings::ethtool::OpPauseGetDo;

use super::{Machine, Reading};
use crate::ethtool::{self, Get};
use crate::netlink::Netlink;

/// `tx_frames` and `rx_frames`, where the driver counts them in the standard way.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    if !machine.files.are_here() {
        return Ok(Vec::new());
    }
    let read = ethtool::get::<OpPauseGetDo, _>(
        &mut Netlink::generic()?,
        Get::Pause,
        machine.interface,
        ethtool::FLAG_STATS,
        |reply| {
            let Ok(statistics) = reply.get_stats() else { return Vec::new() };
            let counters = [("tx_frames", statistics.get_tx_frames()), ("rx_frames", statistics.get_rx_frames())];
            counters.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.ok()?))).collect()
        },
    );
    Ok(read?.unwrap_or_default())
}
