//! The interface's statistics from rtnetlink, in 64 bits where the kernel has them.
//! Knows the order of the fields; their meaning is in Documentation/networking/statistics.rst.

use std::io;

use super::{Machine, Reading};

/// The fields of struct rtnl_link_stats64 (linux/if_link.h), in its order. struct rtnl_link_stats has the same
/// ones in 32 bits, up to rx_nohandler. Kernels add to the end: rx_nohandler 4.6, rx_otherhost_dropped 5.19.
const FIELDS: [&str; 25] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
];

/// The interface's statistics, and how often it lost its carrier or got it back (Linux 3.15 and newer tell).
pub(super) fn read(machine: &Machine) -> io::Result<Vec<Reading>> {
    let (mut readings, changes) = match &machine.link {
        Some(link) => match (&link.statistics64, &link.statistics32) {
            (Some(bytes), _) => (parse(bytes, 8), link.carrier_changes.map(u64::from)),
            (None, Some(bytes)) => (parse(bytes, 4), link.carrier_changes.map(u64::from)),
            (None, None) => return Err(io::Error::other("the kernel sent none")),
        },
        None => {
            let folder = format!("/sys/class/net/{}", machine.interface);
            let files = machine.files.lines(&format!("{folder}/statistics/*"));
            let reading = |(path, text): &(String, String)| {
                Some((path.rsplit('/').next()?.to_owned(), text.trim().parse().ok()?))
            };
            let changes = machine.files.line(&format!("{folder}/carrier_changes"));
            (files.iter().filter_map(reading).collect(), changes.and_then(|text| text.parse().ok()))
        }
    };
    if readings.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    readings.extend(changes.map(|changes| ("carrier_changes".to_owned(), changes)));
    Ok(readings)
}

/// Fields of `width` octets each; those that are not there are absent.
fn parse(bytes: &[u8], width: usize) -> Vec<Reading> {
    let value = |field: &[u8]| match width {
        8 => field.try_into().map(u64::from_ne_bytes).ok(),
        _ => field.try_into().map(u32::from_ne_bytes).map(u64::from).ok(),
    };
    FIELDS
        .iter()
        .zip(bytes.chunks_exact(width))
        .filter_map(|(name, field)| Some(((*name).to_owned(), value(field)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(octets: usize, width: usize, last: Option<&str>) {
        let bytes: Vec<u8> = (0..octets / width)
            .flat_map(
                |at| if width == 8 { (at as u64).to_ne_bytes().to_vec() } else { (at as u32).to_ne_bytes().to_vec() },
            )
            .chain(vec![0xee; octets % width])
            .collect();
        let readings = parse(&bytes, width);
        assert_eq!(readings.last().map(|(name, _)| name.as_str()), last);
        assert!(readings.iter().enumerate().all(|(at, (_, value))| *value == at as u64));
    }

    #[test]
    fn as_many_fields_as_the_kernel_knows() {
        check(200, 8, Some("rx_otherhost_dropped"));
        check(192, 8, Some("rx_nohandler"));
        // Linux 3.0: sizeof(struct rtnl_link_stats64) is 184 there.
        check(184, 8, Some("tx_compressed"));
        // Linux 2.6.32 has the 32-bit ones only.
        check(92, 4, Some("tx_compressed"));
        // A kernel newer than this table, and garbage.
        check(240, 8, Some("rx_otherhost_dropped"));
        check(7, 8, None);
        check(13, 8, Some("rx_packets"));
    }
}
