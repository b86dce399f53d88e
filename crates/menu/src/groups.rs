//! Which settings of a machine stand in which menu, and what people at a board call them.
//! Knows names only; what a setting does and takes is the table's in `linerate_machine::setting`.

/// A menu of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// What the menu is called.
    pub title: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Settings and their labels.
    pub rows: &'static [(&'static str, &'static str)],
}

/// The menus of settings, in the order of field report 3.
pub const GROUPS: [Group; 3] = [
    Group {
        title: "Transport characteristics",
        help: "MTU, checksums and segmentation in the MAC, interrupt coalescing, rings, socket buffers",
        rows: &[
            ("mtu", "MTU, bytes"),
            ("tx_checksum", "TX checksum offload"),
            ("rx_checksum", "RX checksum offload"),
            ("sg", "Scatter-gather"),
            ("tso", "TCP segmentation in the MAC"),
            ("gso", "Segmentation in the stack"),
            ("gro", "Joining of received packets"),
            ("coalesce.rx_frames", "RX interrupt threshold, frames"),
            ("coalesce.rx_usecs", "RX interrupt wait bound, microseconds"),
            ("coalesce.tx_frames", "TX interrupt threshold, frames"),
            ("coalesce.tx_usecs", "TX interrupt wait bound, microseconds"),
            ("ring.rx", "RX ring, descriptors"),
            ("ring.tx", "TX ring, descriptors"),
            ("sysctl.net.core.rmem_max", "Largest receive buffer, bytes"),
            ("sysctl.net.core.wmem_max", "Largest send buffer, bytes"),
        ],
    },
    Group {
        title: "Link",
        help: "Speed, duplex, autonegotiation, pause frames",
        rows: &[
            ("speed", "Speed, Mbit/s"),
            ("duplex", "Duplex"),
            ("autoneg", "Autonegotiation"),
            ("pause.autoneg", "Pause frames as both ends agree"),
            ("pause.rx", "Obey pause frames"),
            ("pause.tx", "Send pause frames"),
            ("eee", "Energy-Efficient Ethernet"),
        ],
    },
    Group {
        title: "Priorities",
        help: "Who comes first: the tests' receiving threads, interrupts, the polling of the interface",
        rows: &[
            ("receiver_scheduling", "Receiving threads"),
            ("napi.threaded", "Interface polled by a thread"),
            ("irq_affinity.all", "CPUs of the interrupts"),
            ("rps.all", "CPUs that share received packets"),
            ("busy_poll", "Busy polling, microseconds"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use linerate_machine::setting;

    use super::*;

    #[test]
    fn every_setting_is_one() {
        for (name, label) in GROUPS.iter().flat_map(|group| group.rows) {
            assert!(setting::find(name).is_ok(), "{name}");
            // Beside a value at 60 columns.
            assert!(label.is_ascii() && label.len() <= 40, "{label}");
        }
    }
}
