//! What the statistics of network drivers mean, from the tables in `drivers/`: their stage, and whether they count
//! packets that passed, packets that were dropped, octets or pauses. Knows names only; who read them, and when, does
//! not matter.
//!
//! Drivers name their statistics as they like, and one name means different things in two of them. So the machine
//! tells its counters by their own names, and the reader of a record places them here by the driver's name:
//!
//! ```text
//! driver fec                                 the names that the driver goes by, `*` any other
//! source drivers/net/…                       where the meanings come from, in one line
//! driver IEEE_rx_macerr | MAC RX FIFO | drop fifo | what to know of it
//! counter, with its source | stage | meaning | note
//! ```
//! In a counter's name `*` stands for any text and `#` for a number; the first row that fits counts. Meanings:
//!
//! | meaning | the counter counts |
//! |---|---|
//! | `packets` | packets or frames that passed the stage; several rows of a stage are added up |
//! | `octets` | octets of these |
//! | `drop CAUSE` | packets that were dropped; rows of one cause are added up ([`DropCause`]) |
//! | `pause sent`, `pause received` | pause frames (IEEE 802.3, annex 31B) |
//! | `stalled us` | microseconds for which pause frames from the peer stopped the transmitter |
//! | `benign` | what a trial never sent: frames for other hosts, unknown protocols |
//! | `part` | a part of what another counter counts: one length, one queue, one kind of address |
//! | `event` | something that is no packet, or packets whose fate another counter tells |
//! | `state` | nothing: a present state |
//!
//! `again` behind a meaning: the same events that the rows without it count, so the largest is taken and nothing is
//! added.

use std::sync::LazyLock;

use linerate_machine::pattern::fits;

use crate::budget::drops::{DROPS, DropCause};
use crate::stage::{Counters, Stage};

/// The tables, as they are written.
const TEXTS: [&str; 15] = [
    include_str!("drivers/fec.txt"),
    include_str!("drivers/macb.txt"),
    include_str!("drivers/stmmac.txt"),
    include_str!("drivers/marvell.txt"),
    include_str!("drivers/cpsw.txt"),
    include_str!("drivers/ravb.txt"),
    include_str!("drivers/gianfar.txt"),
    include_str!("drivers/bcmgenet.txt"),
    include_str!("drivers/usb.txt"),
    include_str!("drivers/realtek.txt"),
    include_str!("drivers/intel-1g.txt"),
    include_str!("drivers/intel-10g.txt"),
    include_str!("drivers/mlx5.txt"),
    include_str!("drivers/virtual.txt"),
    // The last, for it fits every driver.
    include_str!("drivers/common.txt"),
];

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| TEXTS.iter().flat_map(|text| parse(text).0).collect());

/// What the counters of one driver mean.
#[derive(Debug, Default)]
pub struct Table {
    /// The names that the driver goes by; `*` fits any.
    pub drivers: Vec<&'static str>,
    /// Where the meanings come from.
    pub source: &'static str,
    /// The counters, the first that fits first.
    pub rows: Vec<Row>,
}

/// What one counter means.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name, with its source: `driver IEEE_rx_macerr`, `link rx_over_errors`.
    pub pattern: &'static str,
    /// Where on the path.
    pub stage: Stage,
    /// What it counts.
    pub meaning: Meaning,
    /// The same events as the rows without it: an alternative, no addition.
    pub again: bool,
    /// What to know of it; may be empty.
    pub note: &'static str,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Packets that passed.
    Packets,
    /// Octets that passed.
    Octets,
    /// Packets that were dropped.
    Drop(DropCause),
    /// Pause frames sent.
    PauseSent,
    /// Pause frames received.
    PauseReceived,
    /// Microseconds for which the transmitter stood still.
    StalledMicroseconds,
    /// What a trial never sent.
    Benign,
    /// A part of another counter.
    Part,
    /// No packet, or packets that another counter tells of.
    Event,
    /// A present state.
    State,
}

/// The table of this driver; that of shared names where it has none, or is unknown.
pub fn table(driver: Option<&str>) -> &'static Table {
    let tables = &*TABLES;
    let own = driver.and_then(|driver| tables.iter().find(|table| table.drivers.contains(&driver)));
    own.or_else(|| tables.iter().find(|table| table.drivers == ["*"])).expect("the last table fits any driver")
}

impl Table {
    /// What this table says of a counter.
    pub fn row(&self, counter: &str) -> Option<&Row> {
        // Queues repeat names, and the second has `#2` behind it (see docs/record-format.md).
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let plain = counter.rsplit_once('#').filter(|(_, rest)| number(rest)).map_or(counter, |(name, _)| name);
        let exact = self.rows.iter().find(|row| row.pattern == counter);
        exact.or_else(|| self.rows.iter().find(|row| fits(row.pattern, plain)))
    }

    /// The counters with those that this table knows at its stages. Statistics of the driver that it does not know are
    /// [`Stage::Unplaced`], wherever they were: shown rather than guessed at.
    pub fn place(&self, counters: &Counters) -> Counters {
        let mut placed = Counters::default();
        for (stage, name, value) in counters.iter() {
            let stage = match self.row(name) {
                Some(row) => row.stage,
                None if name.starts_with("driver ") => Stage::Unplaced,
                None => stage,
            };
            placed.add(stage, name, value);
        }
        placed
    }
}

/// The tables of a text, and what in it is none.
fn parse(text: &'static str) -> (Vec<Table>, Vec<&'static str>) {
    let (mut tables, mut wrong) = (Vec::<Table>::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let (Some(names), false) = (line.strip_prefix("driver "), line.contains('|')) {
            tables.push(Table { drivers: names.split_whitespace().collect(), ..Table::default() });
            continue;
        }
        let done = tables.last_mut().and_then(|table| {
            if let Some(source) = line.strip_prefix("source ") {
                table.source = source;
            } else {
                table.rows.push(parse_row(line)?);
            }
            Some(())
        });
        if done.is_none() {
            wrong.push(line);
        }
    }
    (tables, wrong)
}

fn parse_row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('|').map(str::trim);
    let (pattern, stage, meaning) = (columns.next()?, columns.next()?, columns.next()?);
    let note = columns.next().unwrap_or("");
    let stage = Stage::parse(stage)?;
    let (meaning, again) = match meaning.strip_suffix(" again") {
        Some(meaning) => (meaning, true),
        None => (meaning, false),
    };
    let meaning = match meaning {
        "packets" => Meaning::Packets,
        "octets" => Meaning::Octets,
        "pause sent" => Meaning::PauseSent,
        "pause received" => Meaning::PauseReceived,
        "stalled us" => Meaning::StalledMicroseconds,
        "benign" => Meaning::Benign,
        "part" => Meaning::Part,
        "event" => Meaning::Event,
        "state" => Meaning::State,
        drop => {
            let cause = DropCause::parse(drop.strip_prefix("drop ")?)?;
            // A budget's line stands at its cause's stage.
            DROPS.iter().find(|drop| drop.id == cause && drop.stage == stage)?;
            Meaning::Drop(cause)
        }
    };
    (columns.next().is_none() && !pattern.is_empty()).then_some(Row { pattern, stage, meaning, again, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_table_is_understood() {
        for text in TEXTS {
            let (tables, wrong) = parse(text);
            assert_eq!(wrong, [""; 0]);
            for table in tables {
                let drivers = &table.drivers;
                assert!(!table.rows.is_empty() && table.source.len() > 20, "{drivers:?} cites no source");
                for (at, row) in table.rows.iter().enumerate() {
                    assert!(row.pattern.starts_with("driver ") || row.pattern.starts_with("link "), "{row:?}");
                    let hidden = table.rows[..at].iter().find(|above| fits(above.pattern, row.pattern));
                    assert_eq!(hidden, None, "{drivers:?}: {row:?} can never be reached");
                }
            }
        }
    }

    #[test]
    fn the_drivers_of_boards_and_servers_have_tables_of_their_own() {
        for driver in [
            "fec",
            "macb",
            "st_gmac",
            "mvneta",
            "mvpp2",
            "cpsw",
            "ravb",
            "fsl-gianfar",
            "bcmgenet",
            "ax88179_178a",
            "r8169",
            "r8125",
            "e1000",
            "e1000e",
            "igb",
            "igc",
            "ixgbe",
            "i40e",
            "ice",
            "mlx5_core",
            "virtio_net",
            "veth",
            "cdc_ncm",
        ] {
            assert!(table(Some(driver)).drivers.contains(&driver), "{driver}");
        }
        for unknown in [None, Some("dummy"), Some("")] {
            assert_eq!(table(unknown).drivers, ["*"]);
        }
    }

    #[track_caller]
    fn check(driver: &str, counter: &str, stage: Stage, meaning: Meaning) {
        let row = table(Some(driver)).row(counter).unwrap_or_else(|| panic!("{driver}: no {counter}"));
        assert_eq!((row.stage, row.meaning), (stage, meaning), "{driver}: {counter}: {row:?}");
    }

    #[test]
    fn one_name_means_different_things() {
        // Report 1's two registers.
        check("fec", "driver IEEE_rx_macerr", Stage::MacRxFifo, Meaning::Drop(DropCause::Fifo));
        check("fec", "driver IEEE_tx_fdxfc", Stage::MacRxFifo, Meaning::PauseSent);
        check("macb", "link rx_over_errors", Stage::DriverRxRing, Meaning::Drop(DropCause::NoBuffer));
        check("st_gmac", "link rx_over_errors", Stage::MacRxFifo, Meaning::Drop(DropCause::Fifo));
        check("e1000e", "driver rx_missed_errors", Stage::MacRxFifo, Meaning::Drop(DropCause::Fifo));
        check("bcmgenet", "driver rx_missed_errors", Stage::DriverRxRing, Meaning::Drop(DropCause::NoBuffer));
        check("e1000e", "driver rx_no_buffer_count", Stage::DriverRxRing, Meaning::Event);
        check("dummy", "driver rx_no_buffer_count", Stage::DriverRxRing, Meaning::Drop(DropCause::NoBuffer));
        check("mlx5_core", "driver rx_out_of_buffer", Stage::DriverRxRing, Meaning::Drop(DropCause::NoBuffer));
        check("mlx5_core", "driver rx_global_pause_duration", Stage::MacTx, Meaning::StalledMicroseconds);
        check("bcmgenet", "driver rx_bytes", Stage::DriverRxRing, Meaning::Octets);
        check("bcmgenet", "driver rx_bytes#2", Stage::MacRxFifo, Meaning::Octets);
        check("cpsw", "driver Rx DMA chan 3: good_dequeue", Stage::DriverRxRing, Meaning::Packets);
        check("veth", "driver rx_queue_0_xdp_drops", Stage::DriverRxRing, Meaning::Drop(DropCause::Xdp));
        check("veth", "driver rx_queue_0_xdp_drops#2", Stage::DriverRxRing, Meaning::Drop(DropCause::Xdp));
    }

    /// The names of what `ethtool -S` prints, as counters are called.
    fn names(text: &str) -> Vec<String> {
        let statistic = |line: &str| Some(format!("driver {}", line.rsplit_once(':')?.0.trim()));
        text.lines().skip(1).filter_map(statistic).collect()
    }

    #[test]
    fn every_statistic_of_these_drivers_has_a_row() {
        for (driver, text) in [
            ("mvpp2", include_str!("drivers/tests/mvpp2.txt")),
            ("igb", include_str!("drivers/tests/igb.txt")),
            ("igc", include_str!("drivers/tests/igc.txt")),
            ("ixgbe", include_str!("drivers/tests/ixgbe.txt")),
            ("mlx5_core", include_str!("drivers/tests/mlx5.txt")),
            ("virtio_net", include_str!("drivers/tests/virtio-older.txt")),
            ("virtio_net", include_str!("drivers/tests/virtio-newer.txt")),
            ("r8169", include_str!("drivers/tests/r8169.txt")),
            ("r8125", include_str!("drivers/tests/r8125.txt")),
        ] {
            let names = names(text);
            assert!(names.len() > 10, "{driver}");
            for name in names {
                assert!(table(Some(driver)).row(&name).is_some(), "{driver}: {name}");
            }
        }
    }

    #[test]
    fn no_row_of_these_drivers_names_a_statistic_that_they_lack() {
        for (driver, texts) in [
            ("mvpp2", [include_str!("drivers/tests/mvpp2.txt"), ""]),
            ("ixgbe", [include_str!("drivers/tests/ixgbe.txt"), ""]),
            ("mlx5_core", [include_str!("drivers/tests/mlx5.txt"), ""]),
            (
                "virtio_net",
                [include_str!("drivers/tests/virtio-older.txt"), include_str!("drivers/tests/virtio-newer.txt")],
            ),
            ("r8169", [include_str!("drivers/tests/r8169.txt"), ""]),
            ("r8125", [include_str!("drivers/tests/r8125.txt"), ""]),
        ] {
            let names: Vec<String> = texts.into_iter().flat_map(names).collect();
            let table = table(Some(driver));
            for row in table.rows.iter().filter(|row| row.pattern.starts_with("driver ")) {
                let used = names.iter().any(|name| table.row(name) == Some(row));
                assert!(used, "{driver}: {row:?}");
            }
        }
    }

    #[test]
    fn statistics_mean_what_their_drivers_source_says() {
        let fifo = Meaning::Drop(DropCause::Fifo);
        let no_buffer = Meaning::Drop(DropCause::NoBuffer);
        for (driver, counter, stage, meaning) in [
            ("mvpp2", "driver rxq_3_packets_bm_drops", Stage::DriverRxRing, no_buffer),
            ("mvpp2", "driver fc_received", Stage::MacTx, Meaning::PauseReceived),
            ("mvpp2", "driver txq_0_buff_euqueue_to_ddr", Stage::DriverTxRing, Meaning::Event),
            // Both registers that are counted by themselves.
            ("igb", "link rx_fifo_errors", Stage::DriverRxRing, Meaning::Event),
            ("igc", "driver rx_fifo_errors", Stage::DriverRxRing, Meaning::Event),
            ("igb", "driver rx_queue_3_drops", Stage::DriverRxRing, no_buffer),
            ("igb", "driver tx_carrier_errors", Stage::MacTx, Meaning::Event),
            ("ixgbe", "driver rx_long_length_errors", Stage::MacRxFifo, Meaning::Drop(DropCause::Length)),
            ("ixgbe", "driver rx_pb_7_pxoff", Stage::MacTx, Meaning::PauseReceived),
            ("ixgbe", "driver tx_busy", Stage::DriverTxRing, Meaning::Event),
            ("mlx5_core", "driver outbound_pci_buffer_overflow", Stage::MacRxFifo, fifo),
            ("mlx5_core", "driver outbound_pci_stalled_wr", Stage::DriverRxRing, Meaning::Event),
            ("mlx5_core", "driver rx_prio0_buf_discard", Stage::MacRxFifo, fifo),
            ("mlx5_core", "driver rx_prio0_bytes", Stage::MacRxFifo, Meaning::Part),
            ("mlx5_core", "driver rx_buff_alloc_err", Stage::DriverRxRing, Meaning::Event),
            ("mlx5_core", "driver rx_jabbers_phy", Stage::Link, Meaning::Drop(DropCause::Damaged)),
            ("mlx5_core", "link rx_dropped", Stage::DriverRxRing, Meaning::Event),
            ("virtio_net", "driver rx_queue_0_drops", Stage::DriverRxRing, Meaning::Drop(DropCause::DriverDrops)),
            ("virtio_net", "driver rx0_drops", Stage::DriverRxRing, Meaning::Drop(DropCause::DriverDrops)),
            ("virtio_net", "link tx_fifo_errors", Stage::DriverTxRing, Meaning::Drop(DropCause::TxRing)),
            ("r8169", "driver rx_missed", Stage::MacRxFifo, fifo),
            ("r8125", "driver rx_pause_on", Stage::MacTx, Meaning::PauseReceived),
            ("r8125", "driver rx_pause_all", Stage::MacTx, Meaning::Part),
            ("ax88179_178a", "link rx_over_errors", Stage::DriverRxRing, Meaning::Drop(DropCause::DriverDrops)),
        ] {
            check(driver, counter, stage, meaning);
        }
    }

    #[test]
    fn counters_go_to_their_drivers_stages_and_unknown_ones_are_shown() {
        let mut counters = Counters::default();
        counters.add(Stage::Unplaced, "driver IEEE_rx_macerr", 1);
        counters.add(Stage::DriverRxRing, "driver rx_of_tomorrow", 2);
        counters.add(Stage::SoftirqBacklog, "softnet dropped", 3);
        let placed = table(Some("fec")).place(&counters);
        let want = [
            (Stage::MacRxFifo, "driver IEEE_rx_macerr", 1),
            (Stage::SoftirqBacklog, "softnet dropped", 3),
            (Stage::Unplaced, "driver rx_of_tomorrow", 2),
        ];
        assert_eq!(placed.iter().collect::<Vec<_>>(), want);
    }

    #[test]
    fn what_is_no_row_is_told() {
        for line in [
            "driver x | nowhere | packets",
            "driver x | link | drop water",
            "driver x | link | drop fifo",
            "| link | part",
            "source",
            "x",
        ] {
            assert_eq!(parse(line).1, [line], "{line}");
        }
    }
}
