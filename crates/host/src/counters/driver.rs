//! The driver's own statistics, as `ethtool -S` shows them.
//! Knows no driver: their names and meanings differ from one to the next.

use std::io;

use super::{DRIVER_STATISTICS, Machine, Reading};
use crate::sys::ethtool::{Ethtool, StatisticsOf};

/// The driver's statistics; none where it has none.
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    if !machine.files.are_here() {
        return Ok(machine.files.text(DRIVER_STATISTICS).map_or_else(|_| Vec::new(), |text| parse(&text)));
    }
    statistics(machine, StatisticsOf::Driver)
}

/// What ethtool tells; none where there are none.
pub(super) fn statistics(machine: &Machine, of: StatisticsOf) -> io::Result<Vec<Reading>> {
    match Ethtool::new(machine.interface).and_then(|ethtool| ethtool.statistics(of)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => Ok(Vec::new()),
        Ok(statistics) => Ok(unique(statistics)),
        other => other,
    }
}

/// What `ethtool -S` prints: a title, then a name and a number in each line.
fn parse(text: &str) -> Vec<Reading> {
    let reading = |line: &str| {
        let (name, value) = line.trim().rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    unique(text.lines().filter_map(reading).collect())
}

/// Drivers repeat names, one row a queue without its number; a repeated one gets `#2` and so on, for two
/// counters under one name could not be told apart again.
fn unique(statistics: Vec<Reading>) -> Vec<Reading> {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    statistics
        .into_iter()
        .map(|(name, value)| {
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { (name, value) } else { (format!("{name}#{count}"), value) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;

    #[test]
    fn repeated_names_are_told_apart() {
        let got = unique(vec![("drops".into(), 1), ("packets".into(), 2), ("drops".into(), 3)]);
        assert_eq!(got, [("drops".into(), 1), ("packets".into(), 2), ("drops#2".into(), 3)]);
    }

    #[test]
    fn an_interface_without_driver_statistics_has_none() {
        let machine = Machine { files: &Files::here(), interface: "lo", link: None };
        assert_eq!(read(&machine).unwrap(), []);
    }
}
