//! What one machine saw of a trial: its counters at their stages, what its driver means by them, its drop reasons.
//! Knows no budget; it answers what counters there are.

use std::collections::BTreeMap;

use linerate_machine::end::{Direction, End, Party};

use super::drops::Machine::{self, Receiver, Sender};
use super::drops::{self, Drop, DropCause};
use super::leg::SeenAt;
use super::{Counted, Counter, LossLine};
use crate::drivers::{self, Meaning, Row, Table};
use crate::drop_reason::DropReason;
use crate::stage::{Counters, Stage};

/// One machine's account.
#[derive(Clone, Debug)]
pub struct MachineAccount<'a> {
    at: At,
    /// What its counters grew by, each at the stage that its driver's table says.
    pub counters: Counters,
    /// The interface that the link's counters are of, where that is known.
    nic: Option<String>,
    pub(super) table: &'static Table,
    pub(super) reasons: &'a [DropReason],
}

/// Which machine it is.
#[derive(Clone, Debug)]
enum At {
    End(End),
    /// The one between them, at an interface, for traffic that goes this way.
    Middle {
        direction: Direction,
        interface: String,
    },
}

/// What is counted of IPv4 alone, and of IPv6.
const OF_VERSION: [&[&str]; 2] = [
    &["Ip", "IpExt", "Icmp", "IcmpMsg", "Udp", "UdpLite", "arp_cache"],
    &["Ip6", "Icmp6", "Udp6", "UdpLite6", "ndisc_cache"],
];

/// What IP counts when it forwards, of both versions.
const FORWARDED: [(Stage, &str); 2] =
    [(Stage::ReceiverStack, "Ip ForwDatagrams"), (Stage::SenderStack, "Ip6 OutForwDatagrams")];

/// Counters of one alternative, those of zero left out.
pub(super) type Hits<'a> = Vec<(&'a str, u64)>;

impl<'a> MachineAccount<'a> {
    /// What these counters of this end say, on a machine with this driver.
    pub fn new(end: End, counters: &Counters, driver: Option<&str>) -> MachineAccount<'a> {
        MachineAccount::at(At::End(end), counters, driver)
    }

    /// What the counters of the middle say, its own and those of one of its interfaces, for traffic that goes this way.
    pub fn of_middle(
        direction: Direction,
        interface: &str,
        counters: &Counters,
        driver: Option<&str>,
    ) -> MachineAccount<'a> {
        MachineAccount::at(At::Middle { direction, interface: interface.to_owned() }, counters, driver)
    }

    fn at(at: At, counters: &Counters, driver: Option<&str>) -> MachineAccount<'a> {
        let table = drivers::table(driver);
        MachineAccount { at, counters: table.place(counters), nic: None, table, reasons: &[] }
    }

    /// With the drops that the kernel traced.
    pub fn with_reasons(self, reasons: &'a [DropReason]) -> MachineAccount<'a> {
        MachineAccount { reasons, ..self }
    }

    /// Whose link's counters are of this interface.
    pub fn with_nic(self, name: Option<&str>) -> MachineAccount<'a> {
        MachineAccount { nic: name.map(str::to_owned), ..self }
    }

    /// Without what is counted of the other version of IP, which none of the packets has.
    #[must_use]
    pub fn of_ip(mut self, is_v6: bool) -> MachineAccount<'a> {
        let others = OF_VERSION[usize::from(!is_v6)];
        let is_others = |name: &str| name.split(' ').next().is_some_and(|of| others.contains(&of));
        self.counters.0.values_mut().for_each(|at_stage| at_stage.retain(|name, _| !is_others(name)));
        self
    }

    /// The interface that the link's counters are of.
    pub(super) fn nic(&self) -> Option<&str> {
        self.interface().or(self.nic.as_deref())
    }

    /// Which machine it is.
    pub fn party(&self) -> Party {
        match &self.at {
            At::End(end) => Party::from(*end),
            At::Middle { .. } => Party::Middle,
        }
    }

    /// Which of the middle's interfaces it is; an end has one.
    pub(super) fn interface(&self) -> Option<&str> {
        match &self.at {
            At::End(_) => None,
            At::Middle { interface, .. } => Some(interface),
        }
    }

    /// Which way the traffic goes that this machine sends or receives, and which machine it is.
    pub(super) fn seen_at(&self, role: Machine) -> SeenAt {
        let direction = match (role, &self.at) {
            (Sender, At::End(End::Target)) | (Receiver, At::End(End::Host)) => Direction::Tx,
            (Sender, At::End(End::Host)) | (Receiver, At::End(End::Target)) => Direction::Rx,
            (_, At::Middle { direction, .. }) => *direction,
        };
        SeenAt { direction, party: self.party(), interface: self.interface().map(str::to_owned) }
    }

    /// A counter of it.
    pub(super) fn counter(&self, name: &str) -> Counter {
        let interface = self.interface().map(str::to_owned);
        Counter { end: self.party(), interface, name: name.to_owned() }
    }

    /// Nothing is known of the driver but that it uses the names that many do.
    pub(super) fn is_of_any_driver(&self) -> bool {
        self.table.drivers == ["*"]
    }

    /// The sum of the counters that are there; 0 of none.
    pub(super) fn sum(&self, stage: Stage, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.counters.get(stage, name)).fold(0, u64::saturating_add)
    }

    /// The alternatives of an entry by names that mean the same on every machine.
    pub(super) fn general(&self, drop: &Drop) -> Vec<Hits<'_>> {
        let Some(at_stage) = self.counters.0.get(&drop.stage) else { return Vec::new() };
        let hits = |source: &&[&str]| {
            let fits = |name: &str| source.iter().any(|pattern| drops::fits(pattern, name));
            at_stage
                .iter()
                .filter(|(name, value)| **value > 0 && fits(name) && self.table.row(name).is_none())
                .map(|(name, value)| (name.as_str(), *value))
                .collect()
        };
        drop.sources.iter().map(hits).collect()
    }

    /// The alternatives of a cause by the driver's table: what adds up first.
    pub(super) fn of_cause(&self, cause: DropCause) -> Vec<Hits<'_>> {
        self.alternatives(|row| row.meaning == Meaning::Drop(cause))
    }

    /// Counters that the table says `which` of, by what they are alternatives of: what adds up, then each that
    /// counts the same again.
    pub(super) fn alternatives(&self, which: impl Fn(&Row) -> bool) -> Vec<Hits<'_>> {
        let (mut together, mut again) = (Vec::new(), BTreeMap::<&str, Hits<'_>>::new());
        for (_, name, value) in self.counters.iter().filter(|(_, _, value)| *value > 0) {
            match self.table.row(name).filter(|row| which(row)) {
                Some(row) if row.again => again.entry(row.pattern).or_default().push((name, value)),
                Some(_) => together.push((name, value)),
                None => {}
            }
        }
        std::iter::once(together).chain(again.into_values()).filter(|hits| !hits.is_empty()).collect()
    }

    /// What the receiving side dropped that no trial sends. `rx_nohandler` and `rx_otherhost_dropped` by
    /// include/uapi/linux/if_link.h; unknown protocols over IP by RFC 4293.
    pub(super) fn benign(&self) -> Vec<LossLine> {
        let general = [
            (Stage::DriverRxRing, "link rx_nohandler"),
            (Stage::DriverRxRing, "link rx_otherhost_dropped"),
            (Stage::ReceiverStack, "Ip InUnknownProtos"),
            (Stage::ReceiverStack, "Ip6 InUnknownProtos"),
        ];
        let of_driver = self.alternatives(|row| row.meaning == Meaning::Benign).into_iter().flatten();
        let of_driver = of_driver.filter_map(|(name, value)| Some((self.table.row(name)?.stage, name, value)));
        let general =
            general.into_iter().filter_map(|(stage, name)| Some((stage, name, self.counters.get(stage, name)?)));
        let mut lines: Vec<LossLine> = of_driver
            .chain(general)
            .filter(|(_, _, packets)| *packets > 0)
            .map(|(stage, name, packets)| {
                LossLine::new(stage, self.seen_at(Receiver), packets, Counted::of(&[(name, packets)]))
            })
            .collect();
        lines.sort_by_key(|line| line.stage);
        lines
    }

    /// What IP forwarded, by the counters that are there and moved.
    pub(super) fn forwarded(&self) -> Hits<'static> {
        let known = FORWARDED.iter().filter_map(|(stage, name)| Some((*name, self.counters.get(*stage, name)?)));
        known.filter(|(_, packets)| *packets > 0).collect()
    }

    /// What IP received less what it delivered, forwarded, put together and counted as errors (RFC 4293: the case
    /// diagram of its section 3.2.3), and without what may have come to all or to groups, from these machines or others.
    /// `None` where the kernel lacks a counter of that sum.
    pub(super) fn undelivered(&self, others: &[&MachineAccount<'_>]) -> Option<(u64, Vec<Counted>)> {
        let of = |protocol: &str| {
            let (rest, counters) = self.given_to_nobody(protocol)?;
            let mut not_of_trials = i128::from(self.to_all_or_groups(protocol, others));
            if protocol == "Ip" {
                // What a third machine sends to a group comes to all of them.
                let everywhere = others.iter().filter_map(|other| Some(other.given_to_nobody(protocol)?.0)).min();
                not_of_trials = not_of_trials.max(everywhere.unwrap_or(0));
            }
            Some(((rest - not_of_trials).max(0), counters))
        };
        let (rest, counters) = match (of("Ip"), of("Ip6")) {
            (Some(four), Some(six)) => (four.0 + six.0, if four.0 >= six.0 { four.1 } else { six.1 }),
            (one, other) => one.or(other)?,
        };
        counted(rest, &counters)
    }

    /// The same of one version of IP, whatever it was.
    fn given_to_nobody(&self, protocol: &str) -> Option<(i128, [(String, u64); 2])> {
        // What is forwarded is counted on the way in, or out.
        let get = |name: &str| {
            let name = format!("{protocol} {name}");
            let out = || self.counters.get(Stage::SenderStack, &name).filter(|_| name == FORWARDED[1].1);
            self.counters.get(Stage::ReceiverStack, &name).or_else(out)
        };
        let (received, delivered) = (get("InReceives")?, get("InDelivers")?);
        let accounted = [
            "InHdrErrors",
            "InAddrErrors",
            "InDiscards",
            "InUnknownProtos",
            "InTooBigErrors",
            "InNoRoutes",
            "InTruncatedPkts",
            "ForwDatagrams",
            "OutForwDatagrams",
            "ReasmReqds",
        ];
        let mut less: i128 = accounted.iter().filter_map(|name| get(name)).map(i128::from).sum();
        if protocol == "Ip" {
            let more = ["IpExt InNoRoutes", "IpExt InTruncatedPkts", "TcpExt IPReversePathFilter"];
            less += i128::from(self.sum(Stage::ReceiverStack, &more));
        }
        // Fragments were received, and what was made of them was delivered.
        let whole = i128::from(get("ReasmOKs").unwrap_or(0));
        let named = |name: &str, value| (format!("{protocol} {name}"), value);
        let rest = i128::from(received) + whole - i128::from(delivered) - less;
        Some((rest, [named("InReceives", received), named("InDelivers", delivered)]))
    }

    /// Packets to groups and broadcasts that this version of IP may have received, at most: no trial's datagram is one. IPv4 counts
    /// those of groups that nobody here joined at nothing but InReceives (net/ipv4/route.c, ip_route_input_rcu), so those count that the
    /// other machines sent, or the interface received.
    fn to_all_or_groups(&self, protocol: &str, others: &[&MachineAccount<'_>]) -> u64 {
        let of = |seen: &MachineAccount<'_>, name: &str| {
            let is_it = |(_, other, value): (_, &str, u64)| (other == name).then_some(value);
            seen.counters.iter().find_map(is_it).unwrap_or(0)
        };
        if protocol == "Ip6" {
            return of(self, "Ip6 InMcastPkts");
        }
        let sent = others.iter().map(|other| of(other, "IpExt OutMcastPkts")).fold(0, u64::saturating_add);
        let came = of(self, "IpExt InMcastPkts").max(of(self, "link multicast"));
        of(self, "IpExt InBcastPkts").saturating_add(sent.max(came))
    }

    /// Segments that IP received, those in buffers of several each (net/ipv4/ip_input.c, ip_rcv_core); `None` where it does not
    /// count them.
    pub fn segments_by_ip(&self) -> Option<u64> {
        let fields = ["InNoECTPkts", "InECT0Pkts", "InECT1Pkts", "InCEPkts"];
        let names: Vec<String> =
            ["IpExt", "Ip6"].iter().flat_map(|of| fields.map(|field| format!("{of} {field}"))).collect();
        let counts = names.iter().filter_map(|name| self.counters.get(Stage::ReceiverStack, name));
        counts.reduce(u64::saturating_add)
    }

    /// What IP was asked to send or forwarded, less what it transmitted, fragments told apart (net/ipv4/ip_output.c: OutRequests
    /// before the filters of the way out, OutTransmits behind them). `None` on kernels that do not have both.
    pub(super) fn untransmitted(&self) -> Option<(u64, Vec<Counted>)> {
        let of = |protocol: &str| -> Option<(i128, [(String, u64); 2])> {
            let get = |name: &str| self.counters.get(Stage::SenderStack, &format!("{protocol} {name}"));
            let (asked, transmitted) = (get("OutRequests")?, get("OutTransmits")?);
            let forwarded = ["ForwDatagrams", "OutForwDatagrams"].map(|name| format!("{protocol} {name}"));
            let forwarded = forwarded.iter().filter_map(|name| self.counters.get(Stage::ReceiverStack, name)).max();
            let pieces = i128::from(get("FragCreates").unwrap_or(0)) - i128::from(get("FragOKs").unwrap_or(0));
            let rest = i128::from(asked) + i128::from(forwarded.unwrap_or(0)) + pieces - i128::from(transmitted);
            let named = |name: &str, value| (format!("{protocol} {name}"), value);
            Some((rest.max(0), [named("OutRequests", asked), named("OutTransmits", transmitted)]))
        };
        let (rest, counters) = match (of("Ip"), of("Ip6")) {
            (Some(four), Some(six)) => (four.0 + six.0, if four.0 >= six.0 { four.1 } else { six.1 }),
            (one, other) => one.or(other)?,
        };
        counted(rest, &counters)
    }
}

/// What is left of a sum, with the counters that it rests on; `None` of nothing.
fn counted(rest: i128, counters: &[(String, u64)]) -> Option<(u64, Vec<Counted>)> {
    let packets = u64::try_from(rest).ok().filter(|packets| *packets > 0)?;
    let hits: Hits<'_> = counters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Some((packets, Counted::of(&hits)))
}
