//! Everything that both ends know of the way and saw of each other's probes, and what each step comes to by it.
//! Asks nobody.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use linerate_control::message::Secret;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::environment::{BridgePort, Nic};
use linerate_machine::probe::{
    ENOUGH, FLOWS, IcmpError, IcmpReport, Packet, ProbeReport, ProbeResult, Protocol, Refusal, Route as KernelRoute,
    RouteInfo, RouteKind, SYN_AGAIN, SeenPackets, TcpReached, TcpTried, WitnessReport,
};
use linerate_path::budget::LossLine;
use linerate_path::stage::{Counters, Stage};
use linerate_results::examination::{
    Exhausted, Failed, LostAt, MiddleFault, Passed, Place, Silent, StepResult, Unknown,
};
use linerate_results::join::Route;
use linerate_results::middle::Middle;

/// Where answers come within this time, those of ARP would have come too.
const SOON_NS: u64 = 100_000_000;
/// Of arp_ignore: no request is answered (Linux Documentation/networking/ip-sysctl.rst).
const ARP_IGNORE_ALL: u8 = 8;
/// An agent that has fewer descriptors left cannot open what a trial needs.
const SPARE_DESCRIPTORS: u64 = 12;

/// Everything that both ends know and saw.
pub(super) struct Evidence {
    pub(super) route: Route,
    pub(super) ways: PerEnd<Option<RouteInfo>>,
    pub(super) reports: PerEnd<ProbeReport>,
    pub(super) heard: PerEnd<WitnessReport>,
    pub(super) ports: PerEnd<(u16, u16)>,
    pub(super) drops: Vec<LossLine>,
    pub(super) wrong_checksums: PerEnd<WrongChecksums>,
    /// Of each end, by port: how many datagrams were answered.
    pub(super) flows: PerEnd<Vec<u32>>,
    /// What both heard before the flows, and after them.
    pub(super) around_flows: [PerEnd<WitnessReport>; 2],
    /// Where TCP agrees on ECN: requests that say that they are ECN-capable.
    pub(super) capable: Option<EcnProbes>,
    /// Known to both witnesses.
    pub(super) secret: Secret,
    /// Ends that have no socket for the other's probes, and why.
    pub(super) refused: Vec<(End, String)>,
    /// Where not all was answered and the trial has a code point.
    pub(super) plain: Option<Plain>,
    /// How long answers are waited for, where that is longer than is usual.
    pub(super) patience: Duration,
    /// Answers came late, or packets of theirs did.
    pub(super) is_late: bool,
    /// Whether packets as large as the link's pass from an end.
    pub(super) full_passes: PerEnd<bool>,
}

/// How many packets the stack of an end dropped for their checksum.
#[derive(Clone, Copy, Default)]
pub(super) struct WrongChecksums {
    udp: u64,
    tcp: u64,
}

impl WrongChecksums {
    /// By what its counters grew by.
    pub(super) fn of(grown: &Counters) -> WrongChecksums {
        let of = |names: &[&str]| {
            names.iter().filter_map(|name| grown.get(Stage::ReceiverStack, name)).fold(0, u64::saturating_add)
        };
        WrongChecksums { udp: of(&["Udp InCsumErrors", "Udp6 InCsumErrors"]), tcp: of(&["Tcp InCsumErrors"]) }
    }

    fn about(self, what: Packet) -> u64 {
        match what {
            Packet::Datagram { .. } | Packet::DatagramAnswer => self.udp,
            Packet::Syn { .. } | Packet::SynAck { .. } | Packet::Reset { .. } => self.tcp,
            Packet::EchoRequest | Packet::EchoReply | Packet::Error { .. } => 0,
        }
    }
}

/// What came of ECN-capable datagrams, and what both heard before them and after them.
pub(super) struct EcnProbes {
    pub(super) tried: PerEnd<Option<ProbeResult>>,
    pub(super) around: [PerEnd<WitnessReport>; 2],
}

/// What came of probes without the trial's code point.
pub(super) struct Plain {
    pub(super) dscp: u8,
    pub(super) reports: PerEnd<ProbeReport>,
}

/// Whether requests over this transport were answered.
fn is_answered(report: &ProbeReport, transport: Protocol) -> bool {
    match transport {
        Protocol::Echo => report.echo.as_ref().is_some_and(|echo| echo.answered > 0),
        Protocol::Udp => report.udp.as_ref().is_some_and(|udp| udp.answered > 0),
        Protocol::Tcp => report.tcp.as_ref().is_some_and(|tcp| tcp.reached >= TcpReached::Answered),
    }
}

/// From so many ports, and what came of them, by how many of each one's datagrams were answered: the agent's word, which is hostile.
fn of_flows(answered: &[u32]) -> Option<(u16, StepResult)> {
    let flows = || answered.iter().take(FLOWS.into());
    let (all, pass) = (flows().count() as u16, flows().filter(|one| **one >= ENOUGH).count() as u16);
    match (pass, flows().filter(|one| **one == 0).count() as u16) {
        (_, 0) if all > 0 => Some((all, StepResult::Passed(Passed::Flows { flows: all }))),
        (1.., never) if pass + never == all => Some((all, StepResult::Failed(Failed::Flows { pass, lost: None }))),
        _ => None,
    }
}

/// Requests leave a tenth of a second apart: what is answered sooner than this was not on its way when the last was counted.
const APART_NS: u64 = 50_000_000;

/// Of requests some of which were answered, how many were lost, as far as that can be told.
fn lost_of(tried: &ProbeResult) -> Option<u64> {
    let is_soon = tried.median_ns.is_some_and(|ns| ns < APART_NS);
    (tried.answered > 0 && is_soon).then(|| tried.sent.saturating_sub(tried.answered).into())
}

/// Packets of a kind at the interface that saw most of them.
fn most_at_one(report: &WitnessReport, left: bool, is: fn(Packet) -> bool) -> Option<(u64, &str)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in report.packets.iter().flatten().filter(|seen| seen.left == left && !seen.back && is(seen.what)) {
        *counts.entry(&seen.interface).or_default() += u64::from(seen.count);
    }
    counts.into_iter().map(|(interface, count)| (count, interface)).max()
}

impl Evidence {
    fn interface(&self, end: End) -> Option<String> {
        self.ways[end].as_ref()?.interface.as_ref().map(|interface| interface.name.clone())
    }

    /// How long an agent has for probes: each of a connection's steps may take as long as an answer.
    pub(super) fn probe_time(&self) -> Duration {
        super::PROBE_TIME + 5 * self.patience
    }

    /// The median time of the slowest kind of requests of both ends; `None`: none was answered.
    pub(super) fn slowest(&self) -> Option<Duration> {
        let all = End::BOTH.map(|end| &self.reports[end]).into_iter();
        let all = all.flat_map(|report| report.udp.iter().chain(&report.echo));
        all.filter_map(|tried| tried.median_ns).max().map(Duration::from_nanos)
    }

    /// Whether both ends' datagrams were answered, and full segments too.
    pub(super) fn is_all_filled(&self) -> bool {
        let is_filled = |end: End| self.reports[end].tcp.as_ref().is_some_and(|tcp| tcp.reached == TcpReached::Filled);
        End::BOTH.into_iter().all(|end| self.is_answered(end, Protocol::Udp) && is_filled(end))
    }

    /// Anything at all came from the other end to a socket of this one.
    pub(super) fn arrives(&self, end: End) -> bool {
        let heard = &self.heard[end];
        let report = &self.reports[end];
        let answered = |tried: &Option<_>| tried.as_ref().is_some_and(|tried: &ProbeResult| tried.answered > 0);
        !heard.datagrams.is_empty()
            || heard.connections > 0
            || answered(&report.udp)
            || answered(&report.echo)
            || report.tcp.as_ref().is_some_and(|tcp| tcp.reached > TcpReached::Nothing)
    }

    /// How many packets of a kind an end saw; `None`: it sees none.
    fn seen(&self, end: End, left: bool, is: impl Fn(Packet) -> bool) -> Option<Vec<&SeenPackets>> {
        let packets = self.heard[end].packets.as_ref()?;
        Some(packets.iter().filter(|seen| seen.left == left && !seen.back && is(seen.what)).collect())
    }

    /// The interface at which packets from the other end come in, where that is not the usual one only.
    pub(super) fn arrives_at(&self, end: End) -> Option<String> {
        let came = self.seen(end, false, |what| !matches!(what, Packet::Error { .. }))?;
        let own = self.interface(end);
        let usual = came.iter().any(|seen| Some(&seen.interface) == own.as_ref());
        came.first().filter(|_| !usual).map(|seen| seen.interface.clone())
    }

    pub(super) fn of_address(&self, end: End) -> Option<StepResult> {
        let address = self.route[end];
        let way = self.ways[end].as_ref()?;
        if let Some(detection) = way.detection.filter(|_| !self.arrives(end)) {
            return Some(StepResult::Failed(Failed::Detection { address, detection }));
        }
        let report = &self.reports[end];
        let mut others: Vec<String> = Vec::new();
        let foreign = |mac: &&String| !way.hardware_addresses.contains(mac);
        others.extend(report.answer_for_own.iter().filter(foreign).cloned());
        // The other end asked for this one's address too, unless a router is between.
        let theirs = &self.reports[end.other()];
        let asked_for_it = theirs.neighbour.as_ref().is_some_and(|neighbour| neighbour.address == address);
        let answers = &theirs.answer_for_next_hop;
        if asked_for_it && answers.iter().any(|mac| !foreign(&mac)) {
            others.extend(answers.iter().filter(foreign).cloned());
        }
        others.sort();
        others.dedup();
        match (others.is_empty(), report.asked_arp) {
            (false, _) => Some(StepResult::Failed(Failed::Duplicate { address, others })),
            (true, true) => Some(StepResult::Passed(Passed::Address { address })),
            (true, false) if address.is_ipv6() => Some(StepResult::Passed(Passed::Address { address })),
            (true, false) => Some(StepResult::Unknown(match self.without_arp(end) {
                Some(interface) => Unknown::NoArp { end, interface },
                None => Unknown::NotPermitted { end },
            })),
        }
    }

    /// The interface of an end, where that has no ARP.
    fn without_arp(&self, end: End) -> Option<String> {
        let interface = self.ways[end].as_ref()?.interface.as_ref()?;
        (interface.no_arp == Some(true)).then(|| interface.name.clone())
    }

    pub(super) fn of_route(&self, from: End, both: bool) -> StepResult {
        let Some(way) = &self.ways[from] else { return StepResult::Unknown(Unknown::NotTold) };
        let to = self.route[from.other()];
        let passes = both && self.arrives(from.other());
        let fails = |route: &&KernelRoute| match route.protocol {
            _ if route.kind.leads_somewhere() => false,
            None => !passes,
            Some(Protocol::Echo) => self.reports[from].echo.as_ref().is_none_or(|echo| echo.answered == 0),
            Some(Protocol::Udp) => {
                !both || self.heard[from.other()].datagrams.is_empty() || !self.is_answered(from.other(), Protocol::Udp)
            }
            Some(Protocol::Tcp) => {
                !both || !self.is_answered(from, Protocol::Tcp) || !self.is_answered(from.other(), Protocol::Tcp)
            }
        };
        let general = way.routes.iter().find(|route| route.protocol.is_none());
        if let Some(route) = way.routes.iter().find(fails) {
            return StepResult::Failed(Failed::Route { to, kind: route.kind, protocol: route.protocol });
        }
        let own = self.interface(from).filter(|_| both && !passes);
        let astray = general.and_then(|route| Some((route.interface.clone()?, own?)));
        if let Some((interface, expected)) = astray.filter(|(by, own)| by != own) {
            return StepResult::Failed(Failed::Astray { to, interface, expected });
        }
        match general {
            Some(route) => StepResult::Passed(Passed::Route {
                interface: route.interface.clone(),
                gateway: route.gateway,
                local: route.kind == RouteKind::Local,
            }),
            None => StepResult::Unknown(Unknown::NotTold),
        }
    }

    /// Why the machine in the middle does not let pass what comes, by what it says of its interfaces.
    pub(super) fn of_middle(&self, middle: &Middle, is_bridged: bool) -> Option<MiddleFault> {
        let name = |end: End| middle.ports[end].interface.clone();
        let nic = |end: End| middle.ports[end].nic.as_ref();
        let find = |is: &dyn Fn(&Nic) -> bool| End::BOTH.into_iter().find(|end| nic(*end).is_some_and(is)).map(name);
        let port = |is: fn(&BridgePort) -> bool| find(&|nic| nic.bridge_port.as_ref().is_some_and(is));
        if let Some(interface) = find(&|nic| nic.link_detected == Some(false)) {
            return Some(MiddleFault::NoCarrier { interface });
        }
        // What leaves towards an end comes from the other one; its ARP is a broadcast.
        let is_unheard = |end: &End| {
            let asker = &self.reports[end.other()];
            asker.asked_arp && asker.answer_for_next_hop.is_empty()
        };
        let keeps_broadcasts =
            |end: &End| nic(*end).and_then(|nic| nic.bridge_port.as_ref()?.floods_broadcast) == Some(false);
        let without = End::BOTH.into_iter().filter(|_| is_bridged).find(|end| keeps_broadcasts(end) && is_unheard(end));
        if let Some(end) = without {
            return Some(MiddleFault::NoBroadcasts { interface: name(end) });
        }
        if self.is_all_answered() {
            return None;
        }
        if !is_bridged {
            let is_ipv4 = self.route.target.is_ipv4();
            let sysctl = if is_ipv4 { "net.ipv4.ip_forward" } else { "net.ipv6.conf.all.forwarding" };
            let value = middle.machine.environment.sysctls.get(sysctl)?;
            return (value.trim() == "0").then(|| MiddleFault::Off { sysctl: sysctl.to_owned() });
        }
        let is_isolated = |end: End| nic(end).and_then(|nic| nic.bridge_port.as_ref()?.isolated) == Some(true);
        if End::BOTH.into_iter().all(is_isolated) {
            return Some(MiddleFault::Isolated { interfaces: End::BOTH.map(name) });
        }
        let unlearnt = || port(|port| port.learns == Some(false) && port.floods == Some(false));
        let blocked = port(|port| port.forwards == Some(false)).map(|interface| MiddleFault::Blocked { interface });
        blocked.or_else(|| unlearnt().map(|interface| MiddleFault::Unlearnt { interface }))
    }

    /// Whether both ends' interfaces have one Ethernet address.
    pub(super) fn has_same_mac(&self) -> bool {
        let mac = |end: End| self.ways[end].as_ref()?.interface.as_ref()?.mac.clone();
        mac(End::Target).is_some() && mac(End::Target) == mac(End::Host)
    }

    fn is_answered(&self, asker: End, transport: Protocol) -> bool {
        is_answered(&self.reports[asker], transport)
    }

    pub(super) fn of_neighbour(&self, from: End, knows_other: bool) -> Option<StepResult> {
        if let Some(failed) = self.same_mac(from).filter(|_| knows_other) {
            return Some(StepResult::Failed(failed));
        }
        let neighbour = self.reports[from].neighbour.as_ref()?;
        let (address, interface) = (neighbour.address, neighbour.interface.clone());
        let is_router = address != self.route[from.other()];
        let passes = self.arrives(from.other()) || self.is_answered(from, Protocol::Echo);
        let silent = || {
            let silent = self.silence(from.other()).filter(|_| !is_router && address.is_ipv4());
            let interface = interface.clone();
            Some(StepResult::Failed(Failed::NoNeighbour { address, interface, is_router, silent }))
        };
        let Some(mac) = neighbour.mac.clone() else { return (!passes).then(silent).flatten() };
        // The entry may be there because the other end has asked: it does not last if nobody answers.
        let report = &self.reports[from];
        let soon = report.echo.as_ref().and_then(|echo| echo.median_ns).is_some_and(|ns| ns < SOON_NS);
        let unanswered = report.asked_arp && report.answer_for_next_hop.is_empty();
        let is_here = self.interface(from).as_ref() == Some(&interface);
        if unanswered && soon && is_here && !neighbour.permanent {
            return silent();
        }
        let right = self.ways[from.other()].as_ref().map(|way| &way.hardware_addresses);
        let right = right.filter(|_| knows_other && !is_router && !passes);
        match right.filter(|right| !right.is_empty() && !right.contains(&mac)) {
            None => Some(StepResult::Passed(Passed::Neighbour { address, mac })),
            Some(all) => {
                let own = self.ways[from.other()].as_ref().and_then(|way| way.interface.as_ref()?.mac.clone());
                let right = own.map_or_else(|| all.clone(), |own| vec![own]);
                let permanent = neighbour.permanent;
                Some(StepResult::Failed(Failed::WrongNeighbour { address, interface, mac, permanent, right }))
            }
        }
    }

    /// Why an end answers no ARP.
    fn silence(&self, end: End) -> Option<Silent> {
        if let Some(interface) = self.without_arp(end) {
            return Some(Silent::NoArp { interface });
        }
        let value = self.ways[end].as_ref()?.arp_ignore.filter(|value| *value == ARP_IGNORE_ALL)?;
        Some(Silent::ArpIgnore { interface: self.interface(end)?, value })
    }

    /// Whether both ends' interfaces have one Ethernet address, with no router between, and packets are lost on the way: over a cable
    /// alone they pass.
    fn same_mac(&self, from: End) -> Option<Failed> {
        let to = from.other();
        let of = |end: End| self.ways[end].as_ref().and_then(|way| way.interface.as_ref());
        let (own, theirs) = (of(from)?, of(to)?);
        let mac = own.mac.clone().filter(|mac| mac.len() == 17 && own.mac == theirs.mac)?;
        let route = self.ways[from].as_ref()?.routes.iter().find(|route| route.protocol.is_none())?;
        let is_there = route.gateway.is_none() && route.interface.as_ref() == Some(&own.name);
        let came = self.seen(to, false, |_| true).map_or_else(|| self.arrives(to), |came| !came.is_empty());
        let is_between = |asker: End| {
            let report = &self.reports[asker];
            let udp = report.udp.as_ref().filter(|udp| udp.answered == 0).map(|udp| self.lost_udp(asker, udp));
            let tcp = report.tcp.as_ref().filter(|tcp| tcp.reached == TcpReached::Nothing);
            let tcp = tcp.map(|tcp| self.lost_tcp(asker, tcp));
            [udp, tcp].into_iter().flatten().any(|(.., place)| matches!(place, Place::Between { .. }))
        };
        let is_lost = !came || End::BOTH.into_iter().any(is_between);
        (is_there && is_lost).then(|| Failed::SameMac { address: self.route[to], interface: own.name.clone(), mac })
    }

    /// Whether an end has room for so many more streams.
    pub(super) fn of_room(&self, end: End, both: bool, streams: u16) -> Option<StepResult> {
        let way = self.ways[end].as_ref()?;
        let all_pass = both
            && End::BOTH
                .iter()
                .all(|asker| self.is_answered(*asker, Protocol::Udp) && self.is_answered(*asker, Protocol::Tcp));
        let more = SPARE_DESCRIPTORS.max(streams.into());
        if let Some(room) = way.descriptors.filter(|room| room.used.saturating_add(more) > room.of) {
            return Some(StepResult::Failed(Failed::Full {
                room: Exhausted::Descriptors,
                used: room.used,
                of: room.of,
                needs: Some(more).filter(|more| *more > SPARE_DESCRIPTORS),
            }));
        }
        if let Some(room) = way.tracked_connections.filter(|room| room.used >= room.of && !all_pass) {
            return Some(StepResult::Failed(Failed::Full {
                room: Exhausted::TrackedConnections,
                used: room.used,
                of: room.of,
                needs: None,
            }));
        }
        // Of an address that is not used yet, or never, a step before this one says so.
        if let Some((_, sentence)) = self.refused.iter().find(|(one, _)| *one == end && way.detection.is_none()) {
            return Some(StepResult::Failed(Failed::NoSocket { sentence: sentence.clone() }));
        }
        way.descriptors.map(|_| StepResult::Passed(Passed::Room))
    }

    pub(super) fn of_echo(&self, asker: End, both: bool) -> StepResult {
        let answerer = asker.other();
        let Some(echo) = &self.reports[asker].echo else {
            return StepResult::Unknown(Unknown::NotPermitted { end: asker });
        };
        if echo.answered > 0 {
            let median_s = echo.median_ns.map(|ns| ns as f64 / 1e9);
            return StepResult::Passed(Passed::Answered {
                answered: echo.answered.into(),
                lost: lost_of(echo),
                median_s,
            });
        }
        if self.ways[answerer].as_ref().is_some_and(|way| way.ignores_echo == Some(true)) {
            return StepResult::Unknown(Unknown::EchoIgnored { end: answerer });
        }
        let passes = [Protocol::Udp, Protocol::Tcp].into_iter().any(|one| self.is_answered(asker, one));
        if passes {
            return StepResult::Unknown(Unknown::EchoFiltered);
        }
        if !both {
            return StepResult::Unknown(Unknown::NotAnswered);
        }
        let (from, is_answer, place) = self.lost_echo(asker, echo);
        self.lost(from, is_answer, place, Protocol::Echo)
    }

    pub(super) fn of_transport(&self, transport: Protocol, asker: End) -> StepResult {
        let report = &self.reports[asker];
        let found = match transport {
            Protocol::Tcp => report.tcp.as_ref().map(|tcp| {
                if tcp.reached == TcpReached::Filled {
                    return Ok((0, tcp.handshake_ns));
                }
                Err(self.lost_tcp(asker, tcp))
            }),
            _ => report.udp.as_ref().map(|udp| {
                if udp.answered > 0 {
                    return Ok((udp.answered, udp.median_ns));
                }
                Err(self.lost_udp(asker, udp))
            }),
        };
        match found {
            None => StepResult::Unknown(Unknown::NotTried),
            Some(Ok((0, ns))) => self.of_connection(asker, ns),
            Some(Ok((answered, ns))) => StepResult::Passed(Passed::Answered {
                answered: answered.into(),
                lost: report.udp.as_ref().and_then(lost_of).filter(|_| transport == Protocol::Udp),
                median_s: ns.map(|ns| ns as f64 / 1e9),
            }),
            Some(Err((from, is_answer, place))) => self.lost(from, is_answer, place, transport),
        }
    }

    /// A connection that opened, in this time, and was filled.
    fn of_connection(&self, asker: End, ns: Option<u64>) -> StepResult {
        // Where answers take long, TCP's timer retransmits what is late only.
        let is_soon = self.reports[asker].udp.as_ref().and_then(|udp| udp.median_ns).is_none_or(|ns| ns < APART_NS);
        let again = self.retransmitted(asker).filter(|_| is_soon);
        let is_whole = self.reports[asker].udp.as_ref().and_then(lost_of) == Some(0);
        if let Some((segments, retransmitted)) =
            again.filter(|(all, again)| is_whole && *again >= ENOUGH && again.saturating_mul(2) >= *all)
        {
            return StepResult::Failed(Failed::Retransmitted { segments, retransmitted });
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let answer_ns = self.reports[asker].udp.as_ref().and_then(|udp| udp.median_ns);
        // Where the other end opened as many connections as pass at once, this one had to wait for their end.
        let others = self.reports[asker.other()].tcp.as_ref();
        let answer_ns = answer_ns.filter(|_| others.is_none_or(|others| others.at_once_refusal.is_none()));
        match (ns, answer_ns) {
            // A SYN is sent again after a second (RFC 6298), and the agent has tried twice.
            (Some(ns), Some(answer_ns))
                if Duration::from_nanos(ns) >= SYN_AGAIN && ns / 3 > answer_ns && self.lossy(asker).is_none() =>
            {
                StepResult::Failed(Failed::FirstSyn { handshake_s: seconds(ns), answer_s: seconds(answer_ns) })
            }
            _ => StepResult::Passed(Passed::Connected {
                handshake_s: ns.map(seconds),
                retransmitted: again.map(|(_, again)| again),
            }),
        }
    }

    /// Whether the other end's FIN came, of a connection that full segments passed.
    pub(super) fn of_closing(&self, asker: End) -> Option<StepResult> {
        Some(match self.reports[asker].tcp.as_ref()?.closed? {
            true => StepResult::Passed(Passed::Closed),
            false => StepResult::Failed(Failed::NotClosed),
        })
    }

    /// That packets are lost by chance, where some requests were, and others of this end's datagrams came through.
    fn lossy(&self, asker: End) -> Option<Place> {
        let udp = self.reports[asker].udp.as_ref()?;
        let all = End::BOTH.map(|end| &self.reports[end]).into_iter();
        let all: Vec<&ProbeResult> = all.flat_map(|report| report.udp.iter().chain(&report.echo)).collect();
        let lost: u64 = all.iter().filter_map(|tried| lost_of(tried)).sum();
        let sent = all.iter().map(|tried| u64::from(tried.sent)).sum();
        (udp.answered > 0 && lost > 0).then_some(Place::Lossy { lost, sent })
    }

    /// Whether both ends' requests over both transports were answered.
    pub(super) fn is_all_answered(&self) -> bool {
        let both = |asker: End| [Protocol::Udp, Protocol::Tcp].iter().all(|one| self.is_answered(asker, *one));
        End::BOTH.into_iter().all(both)
    }

    fn lost(&self, from: End, is_answer: bool, place: Place, of: Protocol) -> StepResult {
        // What came up has no answer where there is no way back.
        if !is_answer && matches!(place, Place::NotUp { .. }) && self.has_no_route(from.other()) {
            let refusal = Refusal::NetUnreachable;
            return self.lost(from.other(), true, Place::Refused { refusal }, of);
        }
        let everything = self.is_everything(from, &place, of);
        let place = self.below(from, &place).unwrap_or(place);
        // What comes late finds the port closed.
        let is_closed = |place: &Place| match place {
            Place::Icmp { said, end: Some(_) } => is_answer && said.what == IcmpError::PortUnreachable,
            _ => false,
        };
        let is_lost = matches!(place, Place::Between { .. } | Place::NotUp { .. } | Place::Unseen) || is_closed(&place);
        let is_late = self.is_late && is_lost;
        let place = if is_late { Place::Late { within_s: self.patience.as_secs_f64() } } else { place };
        let drops = self.drops.clone();
        let asker = if is_answer { from.other() } else { from };
        let passes = |plain: &&Plain| of != Protocol::Echo && is_answered(&plain.reports[asker], of);
        let dscp = self.plain.as_ref().filter(passes).map(|plain| plain.dscp);
        StepResult::Failed(Failed::Lost { from, is_answer, place, everything, drops, dscp })
    }

    /// Whether the kernel of this end has no way to the other.
    fn has_no_route(&self, end: End) -> bool {
        let general = self.ways[end].as_ref().and_then(|way| way.routes.iter().find(|route| route.protocol.is_none()));
        general.is_some_and(|route| !route.kind.leads_somewhere())
    }

    /// The next hop of this end, where nobody answers for it.
    fn unresolved(&self, end: End) -> Option<IpAddr> {
        self.reports[end].neighbour.as_ref().filter(|neighbour| neighbour.mac.is_none()).map(|one| one.address)
    }

    /// Where packets of this end were lost, if what comes before explains what was seen of them.
    fn below(&self, from: End, place: &Place) -> Option<Place> {
        let unused = || self.ways[from].as_ref().is_some_and(|way| way.detection.is_some());
        let unresolved = || self.unresolved(from).map(|address| Place::NoNeighbour { address });
        match place {
            Place::Refused { refusal: Refusal::NoPort } if unused() => {
                Some(Place::Unused { address: self.route[from] })
            }
            Place::Refused { refusal: Refusal::HostUnreachable } | Place::NotOut { .. } => unresolved(),
            // The kernel of an end says it to itself, of what it cannot send.
            Place::Icmp { said, end: Some(end) } if *end == from && said.what == IcmpError::HostUnreachable => {
                unresolved()
            }
            _ => None,
        }
    }

    /// Whether all that goes this way is lost in the same kind of place.
    fn is_everything(&self, from: End, place: &Place, of: Protocol) -> bool {
        let same = |(end, _, other): (End, bool, Place)| {
            end == from && std::mem::discriminant(&other) == std::mem::discriminant(place)
        };
        let report = &self.reports[from];
        let udp = report.udp.as_ref().filter(|udp| udp.answered == 0).is_some_and(|udp| same(self.lost_udp(from, udp)));
        let tcp = report.tcp.as_ref().filter(|tcp| tcp.reached == TcpReached::Nothing);
        let tcp = tcp.is_some_and(|tcp| same(self.lost_tcp(from, tcp)));
        let echo = report.echo.as_ref().is_none_or(|echo| echo.answered == 0);
        match of {
            _ if !echo => false,
            _ => udp && tcp,
        }
    }

    /// Who sent an ICMP error.
    fn sayer(&self, by: Option<IpAddr>) -> Option<End> {
        End::BOTH.into_iter().find(|end| Some(self.route[*end]) == by)
    }

    /// An ICMP error that an end saw about its packets of this protocol; or, of what is no matter of protocols, about any of
    /// them: routers send few such errors a second (RFC 1812, section 4.3.2.8).
    fn icmp_about(&self, end: End, protocol: Protocol) -> Option<Place> {
        // A router that forbids everything forbids this.
        let all = [Protocol::Echo, Protocol::Udp, Protocol::Tcp];
        let nothing_passes = !all.iter().any(|one| self.is_answered(end, *one));
        let of_routing = |what| match what {
            IcmpError::NetUnreachable | IcmpError::HostUnreachable | IcmpError::TimeExceeded => true,
            IcmpError::Prohibited => nothing_passes,
            _ => false,
        };
        let is_about = |packet: Packet| match packet {
            Packet::Error { about, what, .. } => about == Some(protocol) || of_routing(what),
            _ => false,
        };
        let errors = self.seen(end, false, is_about)?;
        errors.iter().find_map(|seen| match seen.what {
            Packet::Error { by, what, .. } => {
                let said = IcmpReport { by: Some(by), what };
                Some(Place::Icmp { end: self.sayer(Some(by)), said })
            }
            _ => None,
        })
    }

    fn icmp_said(&self, tried: &ProbeResult) -> Option<Place> {
        let said = tried.icmp.first()?.clone();
        Some(Place::Icmp { end: self.sayer(said.by), said })
    }

    /// The interface by which packets came back that an end sent.
    fn back_at(&self, end: End, is: impl Fn(Packet) -> bool) -> Option<String> {
        let packets = self.heard[end].packets.as_ref()?;
        packets.iter().find(|seen| seen.back && is(seen.what)).map(|seen| seen.interface.clone())
    }

    /// Where packets were lost that one end sent and the other did not get, by what both saw of them.
    fn place(&self, from: End, is: impl Fn(Packet) -> bool + Copy) -> Place {
        let to = from.other();
        let (left, came) = (self.seen(from, true, is), self.seen(to, false, is));
        match (left, came) {
            (Some(left), _) if left.is_empty() => {
                let by = self.ways[from].as_ref().and_then(|way| way.routes.first()?.interface.clone());
                Place::NotOut { interface: by.or_else(|| self.interface(from)) }
            }
            (_, Some(came)) if came.is_empty() => {
                if let Some(interface) = self.back_at(from, is) {
                    return Place::Back { interface };
                }
                let mut left_by: Vec<String> =
                    self.seen(from, true, is).unwrap_or_default().iter().map(|seen| seen.interface.clone()).collect();
                left_by.sort();
                left_by.dedup();
                if left_by.is_empty() {
                    return Place::Unseen;
                }
                Place::Between { left_by, expected: self.interface(from), arrives_at: self.interface(to) }
            }
            (_, Some(came)) if came.iter().all(|seen| seen.for_another) => {
                Place::ForAnother { interface: came[0].interface.clone() }
            }
            (_, Some(came)) => {
                let own = self.interface(to);
                let at = came.iter().find(|seen| Some(&seen.interface) == own.as_ref()).unwrap_or(&came[0]);
                let interface = at.interface.clone();
                let arrived: u64 =
                    came.iter().filter(|seen| seen.interface == interface).map(|seen| u64::from(seen.count)).sum();
                match self.wrong_checksums[to].about(at.what) >= arrived {
                    true => Place::WrongChecksum { interface },
                    false => Place::NotUp { interface, expected: own },
                }
            }
            (_, None) => Place::Unseen,
        }
    }

    fn lost_udp(&self, asker: End, udp: &ProbeResult) -> (End, bool, Place) {
        let answerer = asker.other();
        if !self.heard[answerer].datagrams.is_empty() {
            if let Some(refusal) = self.heard[answerer].answer_refusal.clone() {
                return (answerer, true, Place::Refused { refusal });
            }
            let icmp = self.icmp_about(answerer, Protocol::Udp);
            let place = icmp.unwrap_or_else(|| self.place(answerer, |what| what == Packet::DatagramAnswer));
            return (answerer, true, place);
        }
        if let Some(refusal @ (Refusal::NotPermitted | Refusal::NoDescriptors | Refusal::NoPort)) = udp.refusal.clone()
        {
            return (asker, false, Place::Refused { refusal });
        }
        let icmp = self.icmp_said(udp).or_else(|| self.icmp_about(asker, Protocol::Udp));
        let place = match (icmp, udp.refusal.clone()) {
            (Some(place), _) => place,
            (None, Some(refusal)) => Place::Refused { refusal },
            (None, None) => self.place(asker, |what| matches!(what, Packet::Datagram { .. })),
        };
        (asker, false, place)
    }

    fn lost_tcp(&self, asker: End, tcp: &TcpTried) -> (End, bool, Place) {
        let answerer = asker.other();
        let port = self.ports[answerer].1;
        if tcp.reached > TcpReached::Nothing {
            let reset = tcp.refusal == Some(Refusal::Reset);
            let lossy = self.lossy(asker).filter(|_| !reset);
            let (acknowledged, full_datagrams) = (tcp.acknowledged.filter(|some| *some > 0), self.full_passes[asker]);
            let stalled = Place::Stalled { reached: tcp.reached, reset, acknowledged, full_datagrams };
            return (asker, false, lossy.unwrap_or(stalled));
        }
        let icmp = self.icmp_about(asker, Protocol::Tcp);
        let refusal = tcp.refusal.clone().filter(|refusal| *refusal != Refusal::TimedOut);
        if let Some(refusal @ (Refusal::NotPermitted | Refusal::NoDescriptors | Refusal::NoPort)) = refusal {
            return (asker, false, Place::Refused { refusal });
        }
        if let Some(icmp) = icmp {
            return (asker, false, icmp);
        }
        let is_reset = |what: Packet| what == Packet::Reset { port };
        if matches!(refusal, Some(Refusal::Refused | Refusal::Reset)) {
            let sees = self.seen(answerer, true, is_reset);
            let end = match sees {
                Some(resets) => (!resets.is_empty()).then_some(answerer),
                None => Some(answerer),
            };
            return (asker, false, Place::Reset { end });
        }
        if let Some(refusal) = refusal {
            return (asker, false, Place::Refused { refusal });
        }
        if let Some(lossy) = self.lossy(asker) {
            return (asker, false, lossy);
        }
        let answers = self.seen(answerer, true, |what| what == Packet::SynAck { port });
        if answers.is_some_and(|answers| !answers.is_empty()) {
            let icmp = self.icmp_about(answerer, Protocol::Tcp);
            let place = icmp.unwrap_or_else(|| self.place(answerer, move |what| what == Packet::SynAck { port }));
            return (answerer, true, place);
        }
        if self.heard[answerer].half_open {
            let interface = self.ways[answerer].as_ref().and_then(|way| way.routes.first()?.interface.clone());
            return (answerer, true, Place::NotOut { interface });
        }
        (asker, false, self.place(asker, move |what| what == Packet::Syn { port }))
    }

    fn lost_echo(&self, asker: End, echo: &ProbeResult) -> (End, bool, Place) {
        let answerer = asker.other();
        let replies = self.seen(answerer, true, |what| what == Packet::EchoReply);
        if replies.is_some_and(|replies| !replies.is_empty()) {
            let icmp = self.icmp_about(answerer, Protocol::Echo);
            return (answerer, true, icmp.unwrap_or_else(|| self.place(answerer, |what| what == Packet::EchoReply)));
        }
        let icmp = self.icmp_said(echo).or_else(|| self.icmp_about(asker, Protocol::Echo));
        let place = match (icmp, echo.refusal.clone()) {
            (Some(place), _) => place,
            (None, Some(refusal)) => Place::Refused { refusal },
            (None, None) => self.place(asker, |what| what == Packet::EchoRequest),
        };
        // Kernels answer, and an answer that waits for its neighbour is seen nowhere.
        if matches!(place, Place::NotUp { .. }) && self.unresolved(answerer).is_some() {
            return (answerer, true, Place::NotOut { interface: self.interface(answerer) });
        }
        (asker, false, place)
    }

    /// Whether what passes goes by the port that it comes from. `None`: nothing passes, or by chance.
    pub(super) fn of_flows(&self, asker: End) -> Option<(u16, StepResult)> {
        let (flows, came) = of_flows(&self.flows[asker])?;
        Some(match came {
            StepResult::Failed(Failed::Flows { pass, .. }) => {
                let answered = self.flows[asker].iter().map(|one| u64::from(*one)).sum();
                let lost = self.lost_at(asker, &self.around_flows, answered);
                (flows, StepResult::Failed(Failed::Flows { pass, lost }))
            }
            came => (flows, came),
        })
    }

    /// Whether requests that say that they are ECN-capable are answered where others are.
    pub(super) fn of_ecn(&self, asker: End) -> Option<StepResult> {
        let capable = self.capable.as_ref()?;
        let tried = capable.tried[asker].as_ref()?;
        if tried.answered > 0 {
            let median_s = tried.median_ns.map(|ns| ns as f64 / 1e9);
            let (answered, lost) = (tried.answered.into(), lost_of(tried));
            return Some(StepResult::Passed(Passed::Answered { answered, lost, median_s }));
        }
        let others = self.reports[asker].udp.as_ref().is_some_and(|udp| udp.answered >= ENOUGH);
        let lost = self.lost_at(asker, &capable.around, 0);
        (others && tried.sent >= ENOUGH).then_some(StepResult::Failed(Failed::Ecn { lost }))
    }

    /// Of an end's connection, how many segments were sent, and how many of these were retransmissions; `None`: none was, or because
    /// ICMP told a smaller MTU.
    fn retransmitted(&self, asker: End) -> Option<(u32, u32)> {
        let tcp = self.reports[asker].tcp.as_ref()?;
        let is_told = |what| matches!(what, Packet::Error { what: IcmpError::TooBig, .. });
        let is_known = self.seen(asker, false, is_told)?.is_empty();
        Some((tcp.segments?, tcp.retransmitted?)).filter(|(_, again)| is_known && *again > 0)
    }

    /// Where most of a round's datagrams were lost, of which so many were answered: between which two places the most are missing.
    fn lost_at(&self, asker: End, around: &[PerEnd<WitnessReport>; 2], answered: u64) -> Option<LostAt> {
        let answerer = asker.other();
        let [before, after] = around;
        let grown =
            |end: End, count: &dyn Fn(&WitnessReport) -> u64| count(&after[end]).saturating_sub(count(&before[end]));
        let at = |end: End, left: bool, is: fn(Packet) -> bool| {
            // A packet may pass several interfaces of a machine.
            let most = |report: &WitnessReport| most_at_one(report, left, is).map_or(0, |(count, _)| count);
            after[end].packets.as_ref().map(|_| grown(end, &most))
        };
        let asks: fn(Packet) -> bool = |what| matches!(what, Packet::Datagram { .. });
        let answers: fn(Packet) -> bool = |what| what == Packet::DatagramAnswer;
        let heard = |report: &WitnessReport| report.datagrams.iter().map(|(_, count)| u64::from(*count)).sum();
        let seen = [
            at(asker, true, asks)?,
            at(answerer, false, asks)?,
            grown(answerer, &heard),
            at(answerer, true, answers)?,
            at(asker, false, answers)?,
            answered,
        ];
        let missing = |pair: &[u64]| pair[0].saturating_sub(pair[1]);
        let (gap, most) = seen.windows(2).map(missing).enumerate().max_by_key(|(_, missing)| *missing)?;
        let not_up = |end: End, is: fn(Packet) -> bool| {
            let (_, interface) = most_at_one(&after[end], false, is)?;
            Some(Place::NotUp { interface: interface.to_owned(), expected: self.interface(end) })
        };
        let (from, is_answer, place) = match gap {
            // None is missing of what left: the others did not leave.
            _ if most < u64::from(ENOUGH) => (asker, false, Place::NotOut { interface: self.interface(asker) }),
            1 => (asker, false, not_up(answerer, asks)?),
            2 => (answerer, true, Place::NotOut { interface: self.interface(answerer) }),
            4 => (answerer, true, not_up(asker, answers)?),
            _ => return None,
        };
        Some(LostAt { from, is_answer, place })
    }

    /// Routers between, and whether what an end sends gets over them; `None`: it is not known.
    pub(super) fn of_hops(&self, from: End, asked: bool) -> Option<StepResult> {
        let to = from.other();
        let udp = self.reports[from].udp.as_ref()?;
        let by_udp = udp.hops_sent.zip(self.heard[to].hops).map(|(sent, left)| sent.saturating_sub(left));
        // Echo requests have TTL enough, whatever the trial asks.
        let by_echo = || {
            let sent = self.reports[from].echo.as_ref()?.hops_sent?;
            let seen = self.seen(to, false, |what| what == Packet::EchoRequest)?;
            Some(sent.saturating_sub(seen.first()?.hops))
        };
        let routers = by_udp.or_else(by_echo)?;
        let sent = udp.hops_sent?;
        if by_udp.is_none() && sent <= routers {
            return Some(StepResult::Failed(Failed::Hops { sent, routers, asked }));
        }
        Some(StepResult::Passed(Passed::Hops { routers }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_pass_all_or_by_their_port_or_by_chance() {
        let passed = |flows| Some((flows, StepResult::Passed(Passed::Flows { flows })));
        let failed = |flows, pass| Some((flows, StepResult::Failed(Failed::Flows { pass, lost: None })));
        assert_eq!(of_flows(&[3; 16]), passed(16));
        assert_eq!(of_flows(&[3, 0, 0, 6]), failed(4, 2));
        // By chance, or nothing at all.
        for answered in [&[3, 0, 1][..], &[0; 16], &[]] {
            assert_eq!(of_flows(answered), None, "{answered:?}");
        }
        assert_eq!(of_flows(&[3, 1]), passed(2));
        // No more than were asked for.
        assert_eq!(of_flows(&[vec![3; 40_000], vec![0; 40_000]].concat()), passed(FLOWS));
    }
}
