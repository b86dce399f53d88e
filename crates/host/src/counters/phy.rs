//! The PHY's own statistics, as `ethtool --phy-statistics` shows them: symbols it could not read, its idle errors, its resets.
//! Knows no PHY: the names are those of its driver.

use std::io;

use super::{Machine, Reading, driver};
use crate::sys::ethtool::StatisticsOf;

/// The PHY's statistics; none where its driver has none, or it is another machine's.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    if !machine.files.are_here() {
        return Ok(Vec::new());
    }
    driver::statistics(machine, StatisticsOf::Phy)
}
