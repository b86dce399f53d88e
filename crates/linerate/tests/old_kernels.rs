//! Machines with old kernels, from the texts of their files to the loss budget, the findings, and what is said to be
//! missing. No machine here has such a kernel: the texts have the shape that its source gives them (net/ipv4/proc.c,
//! net/core/net-procfs.c, fs/proc; drivers/net/ethernet of Linux 3.10), and figures are put in.
//! Knows no traffic.

use std::collections::BTreeMap;

use linerate_host::agentless::{DRIVER_STATISTICS, Files, environment_of, snapshot_of};
use linerate_machine::end::{Direction, End};
use linerate_path::budget::{Chain, Datagrams, MachineAccount, Trial, loss_budget, path};
use linerate_path::stage::Stage;
use linerate_results::findings::{Sureness, absent, findings};
use linerate_results::record::{Machine, Record};
use linerate_results::sample;

/// What a machine's files say before and after: `{}` is where a figure grows by the number that stands behind it.
struct Old {
    release: &'static str,
    driver: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// A PC of 2013. Its e1000e has statistics; IP counts no checksums apart, UDP no memory, and no queue tells of RPS.
const PC: Old = Old {
    release: "3.10.108",
    driver: "e1000e",
    files: &[
        ("/sys/class/net/eth0/statistics/rx_packets", "{100+9410}"),
        ("/sys/class/net/eth0/statistics/rx_missed_errors", "{3+600}"),
        ("/sys/class/net/eth0/statistics/rx_fifo_errors", "{0+0}"),
        ("/sys/class/net/eth0/statistics/rx_dropped", "{0+0}"),
        (
            DRIVER_STATISTICS,
            "NIC statistics:\n     rx_packets: {100+9410}\n     rx_bytes: {9000+9711120}\n     rx_errors: {0+0}\n     \
             rx_no_buffer_count: {7+2000}\n     rx_missed_errors: {3+600}\n     rx_flow_control_xoff: {0+0}\n     \
             tx_flow_control_xoff: {0+0}\n",
        ),
        (
            "/proc/net/softnet_stat",
            "00002502 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
        ),
        (
            "/proc/net/snmp",
            "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers \
             OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates\n\
             Ip: 2 64 {100+9400} 0 0 0 0 0 {100+9300} {50+3} 0 0 0 0 0 0 0 0 0\n\
             Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
             Udp: {50+9050} 0 {0+250} 60 {0+250} 0 0\n",
        ),
        ("/proc/net/netstat", "IpExt: InNoRoutes InTruncatedPkts InMcastPkts\nIpExt: 0 0 0\n"),
        ("/proc/softirqs", "                    CPU0       CPU1       \n      NET_RX:        345          5\n"),
        (
            "/proc/interrupts",
            "           CPU0       CPU1       \n 44:       4321          0   PCI-MSI-edge      eth0\n",
        ),
    ],
};

/// A board of 2013: its fec tells nothing to ethtool, and its descriptors know some of the overruns.
const BOARD: Old = Old {
    release: "3.10.17-imx",
    driver: "fec",
    files: &[
        ("/sys/class/net/eth0/statistics/rx_packets", "{100+9200}"),
        ("/sys/class/net/eth0/statistics/rx_fifo_errors", "{0+500}"),
        ("/sys/class/net/eth0/statistics/rx_errors", "{0+500}"),
        (
            "/proc/net/softnet_stat",
            "00002502 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
        ),
        (
            "/proc/net/snmp",
            "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers\n\
             Ip: 2 64 {100+9200} 0 0 0 0 0 {100+9200}\n\
             Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
             Udp: {50+9200} 0 0 60 0 0 0\n",
        ),
    ],
};

impl Old {
    /// Its files before (`false`) and after.
    fn files(&self, after: bool) -> Files {
        let figure = |both: &str| -> u64 {
            let (before, growth) = both.split_once('+').unwrap();
            before.parse::<u64>().unwrap() + if after { growth.parse::<u64>().unwrap() } else { 0 }
        };
        let fill = |text: &str| {
            let mut parts = text.split('{');
            let first = parts.next().unwrap().to_owned();
            parts.fold(first, |filled, part| {
                let (both, rest) = part.split_once('}').unwrap();
                format!("{filled}{}{rest}", figure(both))
            })
        };
        let mut texts: BTreeMap<String, String> =
            self.files.iter().map(|(path, text)| ((*path).to_owned(), fill(text))).collect();
        let uevent = format!("DRIVER={}\n", self.driver);
        texts.insert("/sys/class/net/eth0/device/uevent".to_owned(), uevent);
        texts.insert("/proc/sys/kernel/osrelease".to_owned(), format!("{}\n", self.release));
        Files::of(texts)
    }

    /// Makes it the machine of a record.
    fn become_of(&self, machine: &mut Machine) {
        let (before, after) = (self.files(false), self.files(true));
        machine.environment = environment_of(&after, Some("eth0"));
        machine.counters = snapshot_of(&after, "eth0").counters.since(&snapshot_of(&before, "eth0").counters);
        machine.drop_reasons = None;
    }
}

/// A trial in which it received, and lost so many of 10,000.
fn received(old: &Old, lost: u64) -> Record {
    let mut record = sample::udp(0, Direction::Rx, 100, 100.0);
    old.become_of(&mut record.target);
    record.host.counters = Default::default();
    let flow = &mut record.result.as_mut().unwrap().flow;
    (flow.packets_sent, flow.packets_received) = (Some(10_000), Some(10_000 - lost));
    (flow.packets_lost, flow.loss_ratio) = (Some(lost), Some(lost as f64 / 10_000.0));
    // Its sockets do not tell what they dropped (SO_MEMINFO came with Linux 4.12).
    let datagrams = Datagrams { sent: 10_000, received_unique: 10_000 - lost, ..Datagrams::default() };
    let sender = MachineAccount::new(End::Host, &record.host.counters, None);
    let receiver = MachineAccount::new(End::Target, &record.target.counters, Some(old.driver));
    let budget = loss_budget(&datagrams, Chain::direct(&sender, &receiver));
    record.loss_budget = Some(budget.lines);
    record.unaccounted = Some(budget.unaccounted);
    assert!(budget.disagreements.is_empty(), "{:?}", budget.disagreements);
    record
}

#[track_caller]
fn check(old: &Old, lost: u64, want: &[(Stage, u64)], unaccounted: i64, right: &str, missing: &[&str]) {
    let record = received(old, lost);
    let lines = record.loss_budget.as_ref().unwrap();
    let by_stage: Vec<(Stage, u64)> = lines.iter().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((by_stage.as_slice(), record.unaccounted), (want, Some(unaccounted)), "{}: {lines:#?}", old.release);
    let found = findings(&record);
    assert_eq!(found.first().map(|one| (one.name, one.sure)), Some((right, Sureness::Sure)), "{found:#?}");
    let said: Vec<String> = absent(&record).into_iter().map(|one| one.what).collect();
    for what in missing {
        assert!(said.iter().any(|said| said.contains(what)), "'{what}' is not in {said:#?}");
    }
}

#[test]
fn a_pc_of_linux_3_10() {
    let want = [(Stage::MacRxFifo, 600), (Stage::ReceiverStack, 100), (Stage::ReceiverSocket, 250)];
    check(&PC, 950, &want, 0, "fifo-overrun", &["whether the target obeys and sends pause frames"]);
}

#[test]
fn a_board_of_linux_3_10_whose_driver_tells_nothing() {
    check(&BOARD, 800, &[(Stage::MacRxFifo, 500)], 300, "fifo-overrun", &["the target's driver statistics"]);
    // Fewer stages: none of the MAC's, and no queue.
    let record = received(&BOARD, 800);
    let datagrams = Datagrams { sent: 10_000, received_unique: 9_200, ..Datagrams::default() };
    let sender = MachineAccount::new(End::Host, &record.host.counters, None);
    let receiver = MachineAccount::new(End::Target, &record.target.counters, Some("fec"));
    let passed = path(Trial::Udp { asked: None, datagrams: &datagrams }, Chain::direct(&sender, &receiver));
    let stages: Vec<Stage> = passed.iter().map(|one| one.stage).collect();
    let want = [
        Stage::SenderApplication,
        Stage::SenderSocket,
        Stage::DriverRxRing,
        Stage::SoftirqBacklog,
        Stage::ReceiverStack,
        Stage::ReceiverSocket,
        Stage::ReceiverApplication,
    ];
    assert_eq!(stages, want);
}

/// Nobody but root may read what, say, a container hides; without any file every loss is unaccounted, and that is said.
#[test]
fn a_machine_that_shows_no_files() {
    let nothing = Old { release: "3.10.108", driver: "", files: &[] };
    let record = received(&nothing, 800);
    assert_eq!((record.loss_budget.as_deref(), record.unaccounted), (Some(&[][..]), Some(800)));
    let found = findings(&record);
    assert_eq!(found.first().map(|one| (one.name, one.sure)), Some(("unaccounted", Sureness::Possible)), "{found:#?}");
    let missing = snapshot_of(&nothing.files(true), "eth0").missing;
    assert!(missing.iter().any(|said| said.contains("/proc/net/snmp")), "{missing:?}");
}

/// tcp_info of Linux 3.10 does not say how long TCP waited for what.
#[test]
fn tcp_of_linux_3_10() {
    let mut record = sample::tcp(0, Direction::Rx, 300.0, false);
    PC.become_of(&mut record.target);
    let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
    (tcp.limited_by_receive_window, tcp.limited_by_send_buffer, tcp.limited_by_application) = (None, None, None);
    // Nor how many segments it sent, which makes a share of them that were retransmitted uncertain, not unknown.
    (tcp.segments_sent, tcp.retransmissions) = (None, 700);
    let said = absent(&record);
    let waited = said.iter().find(|one| one.what.contains("how long TCP waited")).expect("it is said");
    assert!(waited.how.contains("Linux 4.10"), "{waited:?}");
    // What counters saw dropped is found without it.
    let found = findings(&record);
    assert!(found.iter().any(|one| one.name == "fifo-overrun"), "{found:#?}");
}
