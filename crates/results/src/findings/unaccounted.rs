//! Packets are missing that no counter explains: between which two places, if link counters say so.
//! Knows how many packets each end's link counted; names no cause that nothing shows.

use std::fmt;

use linerate_machine::end::End;
use linerate_path::stage::Stage;
use linerate_trial::spec::{Ip, Workload};
use linerate_trial::wire::{EthernetOverhead, tcp_header_len};

use super::case::{Case, FEW, Loss, Side, percent, tidy};
use super::streams::DeadFlows;
use super::words::were;
use super::{Finding, Rule, Sureness};
use crate::record::{Counted, Losses, PathLine};
use crate::total::Total;

/// From this part of the loss on.
const PART: f64 = 0.1;
/// Of requests and answers, of which few are lost.
const PART_OF_REQUESTS: f64 = 0.3;
/// And of the packets that the sender's link sent, where the links agree.
const PART_OF_LINK: f64 = 0.01;
/// Where so much of the loss is missing, the rest makes no pattern of its own.
const NEARLY_ALL: f64 = 0.7;
/// So small a share of what is missing went between the links: it is missing behind them.
const FEW_BETWEEN: f64 = 0.2;
/// From so many on they are more than what is answered to the marks of a stream's end.
const LEAST_REFUSALS: u64 = 5;
/// Twice what a check sequence of 4 octets is of a full frame.
const MORE_THAN_FCS: f64 = 0.005;
/// From so many segments to a packet on, a link counts buffers of several each.
const BUFFERS: f64 = 1.1;
/// What IP did not deliver of what came is so small a part of what is missing.
const MOST_DELIVERED: f64 = 0.5;
/// Links that miss so many times what is missing count something else.
const AGREES: f64 = 1.25;

pub(super) const RULE: Rule = Rule {
    name: "unaccounted",
    says: "Packets vanished where no counter sees: before the sender's link (its stack), or behind the receiver's (a firewall, an \
           XDP program). Between the two links is lossy-path, or bottleneck.",
    rests_on: "At least 10 datagrams, and 10 % of what was lost, unaccounted for. Where: the sender's link tx_packets against \
               the receiver's link rx_packets, both less what IP counts to groups and of its other version, which must agree to a fifth (and are no count of this traffic where fewer are counted than arrived), and what the sender's socket took against its link \
               tx_packets; of TCP its segments, where both links count each as a packet, else their bytes less headers, and where its ends could not count to the last segment, what it sent against its sender's link. Where other packets or copies hide it, less \
               what IP sent and delivered beside the trial's (OutRequests, InDelivers).",
    source: "Linux Documentation/networking/statistics.rst, rx_packets and tx_packets.",
    suggests: &[],
    find,
};

/// What no counter explains of a loss, and where the two links' counts put it.
pub(super) struct Missing {
    pub(super) loss: Loss,
    pub(super) packets: u64,
    /// Of what was lost.
    pub(super) part: f64,
    /// Of what is missing, what vanished in the sender before its link, and between the two links.
    before: Option<f64>,
    between: Option<f64>,
    /// And what came by the receiver's link and its IP never saw.
    behind: Option<f64>,
    /// More than these shares are more packets than are missing: the links count something else.
    most: PerPlace,
    /// In words, the links between which it vanished: those of the two ends, or of one and the machine in the middle.
    pub(super) links: String,
    counted: String,
    of_segments: bool,
    /// What is missing may have come as far as the receiver's link, which has what left the sender's, and nothing else: of a few, one
    /// packet of another kind is a good part.
    came: bool,
    /// Of TCP: the receiver's IP delivered about all that came by its link, and what is lost behind that is counted.
    is_delivered: bool,
    /// How often ICMP told the sender of a stream that datagrams were not delivered, where that is more than the end of a trial brings.
    /// Routers say it of a few in a second only.
    pub(super) refusals: Option<u64>,
    /// The end whose link has no count of this traffic.
    elsewhere: Option<End>,
}

/// A share for each of the places where packets may have vanished.
struct PerPlace {
    before: f64,
    between: f64,
}

impl Missing {
    pub(super) fn of(case: &Case<'_>) -> Option<Missing> {
        let of_tcp = || Some(Loss { packets: case.losses()?.lost(), ratio: case.tcp_loss()? });
        let loss = case.loss().or_else(of_tcp)?;
        let packets = u64::try_from(case.unaccounted()?).ok()?;
        let part = packets as f64 / loss.packets as f64;
        // Each request that is lost costs a time-out: of them a few are enough.
        let (few, least) = if case.is(Workload::UdpRr) { (1, PART_OF_REQUESTS) } else { (FEW, PART) };
        // Beside much that is lost elsewhere, what is a good part of that which came as far.
        let is_large = part >= least;
        let of_link = case.sender.link_sent().filter(|_| case.is(Workload::UdpStream));
        let is_told = is_large || of_link.is_some_and(|sent| packets as f64 >= PART_OF_LINK * sent as f64);
        if packets < few.min(loss.packets) || !is_told || case.record.loss_budget.is_none() {
            return None;
        }
        let (sent_besides, came_besides) = (Besides::sent(case), Besides::received(case));
        // What another interface counted says nothing.
        let elsewhere = [case.sender, case.receiver].into_iter().find(|side| case.passes_elsewhere(side.end));
        let elsewhere = elsewhere.map(|side| side.end);
        let of_traffic = |side: Side<'_>, link: Option<u64>| link.filter(|_| !case.passes_elsewhere(side.end));
        let mut out = sent_besides.less(of_traffic(case.sender, case.sender.link_sent()));
        let came = came_besides.less(of_traffic(case.receiver, case.receiver.link_received()));
        let sent = case.losses().map(|losses| losses.sent).or(case.flow().and_then(|flow| flow.packets_sent));
        // Who asks goes on for a while when the other end has ended, which counts no more then.
        if case.is(Workload::UdpRr) && !case.may_be_fragmented() {
            // What came besides requests, such as the opening, left besides them as well.
            let besides = came.zip(case.losses()).map_or(0, |(came, losses)| came.saturating_sub(losses.arrived));
            out = out.map(|out| sent.map_or(out, |sent| out.min(sent.saturating_add(besides))));
        }
        let share = |from: Option<u64>, to: Option<u64>| Some(from?.saturating_sub(to?) as f64 / packets as f64);
        let before = share(before_the_link(case, out, came), out).filter(|before| *before >= 0.5);
        let before = before.or_else(|| Some(segments_before(case)? as f64 / packets as f64));
        let known = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
        let (sender, receiver) = (case.sender.end, case.receiver.end);
        let mut links = "between the two ends".to_owned();
        let mut through = String::new();
        if let Some(middle) = case.middle_on_path() {
            let count = |end: End, stage, name| middle.ports[end].counters.get(stage, name);
            let entered = count(sender, Stage::DriverRxRing, "link rx_packets");
            let left = count(receiver, Stage::DriverTxRing, "link tx_packets");
            let most = |share: Option<f64>| share.is_some_and(|share| share >= 0.8);
            if most(share(out, entered)) {
                links = format!("between the {sender} and the middle");
            } else if most(share(left, came)) {
                links = format!("between the middle and the {receiver}");
            }
            through = format!(
                "{}: link rx_packets {}; {}: link tx_packets {}; ",
                middle.name(sender),
                known(entered),
                middle.name(receiver),
                known(left)
            );
        }
        let mut counted = format!(
            "{sender}: link tx_packets {}{sent_besides}; {through}{receiver}: link rx_packets {}{came_besides}",
            known(case.sender.link_sent()),
            known(case.receiver.link_received())
        );
        let told =
            || ["Icmp InDestUnreachs", "Icmp6 InDestUnreachs"].into_iter().filter_map(|name| case.sender.counter(name));
        let refusals =
            Some(told().total()).filter(|told: &u64| case.is(Workload::UdpStream) && *told >= LEAST_REFUSALS);
        if let Some(refusals) = refusals {
            counted += &format!("; ICMP told the {sender} {refusals} times that some were not delivered");
        }
        // Where one interface counts buffers and the other segments, nothing is to be held against each other.
        let is_comparable = |out: u64, came: u64| came as f64 <= out as f64 * 1.02 && came as f64 >= out as f64 * 0.5;
        let of_segments = case.losses().is_some_and(|losses| losses.of == Counted::Segments);
        let comparable = out.zip(came).is_some_and(|(out, came)| !of_segments || is_comparable(out, came));
        // A buffer that is cut into segments only behind the sender's link is one packet to both interfaces.
        let per_packet = match (case.losses().filter(|_| of_segments), out) {
            (Some(losses), Some(out)) => (losses.sent as f64 / out.max(1) as f64).max(1.0),
            _ => 1.0,
        };
        let is_of_buffers = per_packet >= BUFFERS;
        let octets = lost_octets_between(case).filter(|_| is_of_buffers);
        let by_octets = octets.map(|segments| segments / packets as f64);
        let of_packets = |out, came| share(out, came).map(|between| between * per_packet);
        let by_packets = |out, came| of_packets(out, came).filter(|_| comparable);
        let between_them = |out, came| by_packets(out, came).into_iter().chain(by_octets).reduce(f64::max);
        let between = between_them(out, came);
        // Buffers that are cut apart, or put together, on the way may be as many at both links by chance. Octets of which one link
        // counts each frame's check sequence, too, hide a small loss.
        let agree = by_octets.zip(of_packets(out, came)).is_some_and(|(octets, packets)| {
            octets.max(packets) <= FEW_BETWEEN && (comparable || loss.ratio >= MORE_THAN_FCS)
        });
        let taken = ["Ip InDelivers", "Ip6 InDelivers"].into_iter().filter_map(|name| case.receiver.counter(name));
        let taken = taken.reduce(u64::saturating_add).zip(came);
        let is_delivered = taken.is_some_and(|(taken, came)| {
            of_segments && came.saturating_sub(taken) as f64 * per_packet < MOST_DELIVERED * packets as f64
        });
        if let Some(segments) = octets {
            counted += &format!("; by the bytes of both {segments:.0} segments went between them");
        }
        // A few packets of another kind are no contradiction, and what counters saw dropped between the links is no part of what
        // is missing. A datagram that travels as fragments is lost with one of them, or with all.
        let per_datagram = out.zip(sent).map_or(1.0, |(out, sent)| out as f64 / sent.max(1) as f64).max(1.0);
        let at_most = |known: u64| AGREES * per_datagram + (known.saturating_add(FEW)) as f64 / packets as f64;
        let most = PerPlace { before: at_most(0), between: at_most(case.dropped_between_links()) };
        let all_came =
            packets >= 3 && out.zip(came).is_some_and(|(out, came)| out.abs_diff(came).saturating_mul(3) <= packets);
        let mut missing = Missing {
            loss,
            packets,
            part,
            before,
            between,
            behind: share(came, came_besides.own_by_ip),
            links,
            counted,
            of_segments,
            refusals,
            is_delivered,
            came: (packets >= 20 || all_came) && (!is_of_buffers || agree),
            most,
            elsewhere,
        };
        // What else arrived, such as copies and other machines' packets, hides what did not; and what else left, too.
        if between.is_some() && !missing.is_between() {
            let others = Others::of(case);
            let link = of_traffic(case.receiver, case.receiver.link_received());
            // Of groups that nobody joined the link has what IP delivers to none.
            let came = others.received(link);
            let counts = [came, others.received(came_besides.less(link))];
            let leaves = [out, others.sent(of_traffic(case.sender, case.sender.link_sent()))];
            let without = leaves
                .into_iter()
                .flat_map(|out| counts.map(|came| between_them(out, came)))
                .flatten()
                .find(|without| missing.fits(*without));
            match without {
                Some(without) => {
                    missing.between = Some(without);
                    missing.counted += &others.clause();
                }
                None => missing.came &= between_them(out, came).is_none_or(|without| without <= 0.5),
            }
        }
        (is_large || missing.is_between()).then_some(missing)
    }

    /// Whether hardly anything was lost elsewhere.
    pub(super) fn is_nearly_all(&self) -> bool {
        self.part >= NEARLY_ALL
    }

    /// How it is spread: that of all that was lost, which other losses blur.
    pub(super) fn pattern(&self, case: &Case<'_>) -> Option<Pattern> {
        Pattern::of(case, &self.loss).filter(|_| self.is_nearly_all())
    }

    fn is_before(&self) -> bool {
        self.before.is_some_and(|before| (0.5..=self.most.before).contains(&before))
    }

    /// Whether it vanished between the two links: their counts agree with what is missing. What is missing of TCP has no other
    /// place, unless the links say so; where they count buffers, as many more segments may be missing.
    pub(super) fn is_between(&self) -> bool {
        self.between.map_or(self.of_segments && !self.is_before(), |between| self.fits(between))
    }

    /// Whether the links say so, and not only that it has no other place.
    pub(super) fn is_seen_between(&self) -> bool {
        self.between.is_some() && self.is_between()
    }

    /// Whether this share says so.
    fn fits(&self, between: f64) -> bool {
        let most = if self.of_segments { f64::INFINITY } else { self.most.between };
        // Of a few, other machines' packets on one of the two links look like a loss between them; IP has none of those.
        let is_behind = between < 0.8 && self.behind.is_some_and(|behind| (0.8..=AGREES).contains(&behind));
        !self.is_before() && !is_behind && (self.least()..=most).contains(&between)
    }

    /// Acknowledgements blur the counts of segments more than those of datagrams.
    fn least(&self) -> f64 {
        match () {
            () if self.of_segments => 0.3,
            // Of a few, one packet of another kind is a good part.
            () if self.packets < 20 => 0.5,
            () => 0.8,
        }
    }

    /// Why the links do not tell, where that is known: behind a sentence.
    fn why(&self, case: &Case<'_>) -> String {
        let Some(end) = self.elsewhere else { return String::new() };
        let nic = case.sides().into_iter().find(|side| side.end == end).and_then(Side::nic);
        let named = nic.map_or("the one that has its address", |nic| &nic.name);
        format!(": the traffic passes by another interface of the {end} than {named}")
    }

    pub(super) fn evidence(&self, case: &Case<'_>) -> [String; 2] {
        let (noun, verb) = match self.packets {
            1 => (case.noun().trim_end_matches('s'), "is"),
            _ => (case.noun(), "are"),
        };
        let missing =
            format!("{} {noun} {verb} unaccounted for, {} of what was lost", self.packets, percent(self.part));
        [missing, self.counted.clone()]
    }
}

/// Full segments of payload that left by the sender's link and did not come by the receiver's: of buffers of any size, what both links
/// count in octets less the headers of what they count as packets.
fn lost_octets_between(case: &Case<'_>) -> Option<f64> {
    let tcp = case.tcp()?;
    let mss = f64::from(tcp.mss.filter(|mss| *mss > 0)?);
    if case.passes_elsewhere(case.sender.end) || case.passes_elsewhere(case.receiver.end) {
        return None;
    }
    let left = link_payload(case, case.sender, Stage::DriverTxRing)?;
    let came = link_payload(case, case.receiver, Stage::DriverRxRing)?;
    Some(((left - came) / mss).max(0.0))
}

/// What a link counts in octets, less the headers of TCP's packets, as many as it counts.
fn link_payload(case: &Case<'_>, side: Side<'_>, stage: Stage) -> Option<f64> {
    let below = EthernetOverhead::HEADER + case.ip_version().header_len();
    let headers = below as f64 + f64::from(tcp_header_len(case.tcp()?.timestamps?));
    let (name, packets) = match stage {
        Stage::DriverTxRing => ("link tx_bytes", side.link_sent()?),
        _ => ("link rx_bytes", side.link_received()?),
    };
    Some(side.sum(stage, |other| other == name)? as f64 - headers * packets as f64)
}

/// Packets that IP counts and that are none of a trial's: to groups (neighbours' questions, reports of membership), of the other
/// version, and refusals of what came when a socket was closed.
struct Besides {
    packets: u64,
    /// Of the trial's version of IP, what the stack counts of all packets.
    own_by_ip: Option<u64>,
}

impl Besides {
    fn sent(case: &Case<'_>) -> Besides {
        Besides::of(
            case,
            case.sender,
            ["Ip OutTransmits", "Ip6 OutTransmits"],
            ["IpExt OutMcastPkts", "Ip6 OutMcastPkts"],
            ["Icmp OutDestUnreachs", "Icmp6 OutDestUnreachs"],
        )
    }

    fn received(case: &Case<'_>) -> Besides {
        let besides = Besides::of(
            case,
            case.receiver,
            ["Ip InReceives", "Ip6 InReceives"],
            ["IpExt InMcastPkts", "Ip6 InMcastPkts"],
            ["Icmp InDestUnreachs", "Icmp6 InDestUnreachs"],
        );
        Besides { packets: besides.packets.saturating_add(to_groups_of_others(case)), ..besides }
    }

    /// By the counters of all packets, of those to groups and of refusals, IPv4's first.
    fn of(case: &Case<'_>, side: Side<'_>, all: [&str; 2], to_groups: [&str; 2], refusals: [&str; 2]) -> Besides {
        // With IP in them, a trial's frames are counted by the stack of whoever receives them, too.
        if case.is(Workload::Frames) {
            return Besides { packets: 0, own_by_ip: None };
        }
        let own = usize::from(case.asked.as_ref().is_some_and(|asked| asked.ip == Some(Ip::V6)));
        let count = |name: &str| side.counter(name).unwrap_or(0);
        let packets = [all[1 - own], to_groups[own], refusals[own]].map(count).into_iter().total();
        Besides { packets, own_by_ip: side.counter(all[own]) }
    }

    fn less(&self, link: Option<u64>) -> Option<u64> {
        Some(link?.saturating_sub(self.packets))
    }
}

/// Packets to groups of IPv4 that nobody at the receiver joined: as many as IP gave to nobody, and the sender sent to groups that did not
/// come to one that is joined, or was sent by a third machine as well.
fn to_groups_of_others(case: &Case<'_>) -> u64 {
    if !case.is_ipv4() || case.is(Workload::Frames) {
        return 0;
    }
    let count = |side: Side<'_>, name: &str| side.counter(name).unwrap_or(0);
    let given_to_nobody = |side| count(side, "Ip InReceives").saturating_sub(count(side, "Ip InDelivers"));
    let sent = count(case.sender, "IpExt OutMcastPkts").saturating_sub(count(case.receiver, "IpExt InMcastPkts"));
    sent.max(given_to_nobody(case.sender)).min(given_to_nobody(case.receiver))
}

impl fmt::Display for Besides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packets {
            0 => Ok(()),
            packets => write!(f, ", {packets} of them to groups, of the other IP or refusals"),
        }
    }
}

/// Of TCP whose ends could not count to the last segment: the packets that the receiver's link has and none of its protocols, where
/// they are a good part of what was retransmitted.
pub(super) fn behind_the_link(case: &Case<'_>) -> Option<u64> {
    let again = case.tcp().filter(|_| case.is(Workload::TcpStream) && case.losses().is_none())?.retransmissions;
    let receiver = case.receiver;
    let taken = ["Tcp InSegs", "Udp InDatagrams", "Udp6 InDatagrams", "Icmp InMsgs", "Icmp6 InMsgs"];
    let taken = receiver.counter("Tcp InSegs").map(|_| taken.map(|name| receiver.counter(name).unwrap_or(0)))?;
    let gone = Besides::received(case).less(receiver.link_received())?.saturating_sub(taken.into_iter().total());
    // A stack that counts what GRO has merged as one takes less than its link has, and retransmits nothing for it.
    let segments = case.segments_in(gone, Stage::ReceiverStack);
    let agrees = (0.5..=AGREES).contains(&(segments as f64 / again.max(1) as f64));
    (gone >= FEW && agrees && case.retransmitted().is_some() && case.drops_seen() < gone / 2).then_some(gone)
}

fn behind(receiver: End) -> String {
    format!("Packets vanished in the {receiver} behind its link: a firewall, an XDP program, or another filter.")
}

const WRONG_BEHIND: &str =
    "It is wrong if as many vanish without firewall rules and XDP programs (nft list ruleset, ip link).";

fn find_behind(case: &Case<'_>) -> Option<Finding> {
    let gone = behind_the_link(case)?;
    let end = case.receiver.end;
    let again = case.tcp()?.retransmissions;
    let part = (case.segments_in(gone, Stage::ReceiverStack) as f64 / again.max(1) as f64).min(1.0);
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, part, behind(end))
            .because(format!("{end}: its link has {gone} packets more than TCP, UDP and ICMP took"))
            .because(format!("{} retransmitted", were(again, "segment")))
            .wrong_if(WRONG_BEHIND)
            .explains(&["lossy-path", "bottleneck", "outage", "acknowledgements"]),
    )
}

/// Of TCP whose ends could not count to the last segment: full segments of payload that it sent and that never left by its own link,
/// where they are a good part; the link is read later, and has other traffic as well, which hides them.
fn before_the_link_of_tcp(case: &Case<'_>) -> Option<f64> {
    let tcp = case.tcp().filter(|_| case.is(Workload::TcpStream) && case.losses().is_none())?;
    let is_counted = case.dropped_between(Stage::SenderStack, Stage::DriverTxRing) > 0;
    if is_counted || case.passes_elsewhere(case.sender.end) {
        return None;
    }
    let mss = f64::from(tcp.mss.filter(|mss| *mss > 0)?);
    let sent = tcp.bytes_sent? as f64;
    let gone = sent - link_payload(case, case.sender, Stage::DriverTxRing)?;
    (gone >= PART_OF_LINK * sent && gone >= FEW as f64 * mss).then_some(gone / mss)
}

fn find_before(case: &Case<'_>) -> Option<Finding> {
    let gone = before_the_link_of_tcp(case)?;
    let short = case.short()?;
    let end = case.sender.end;
    let sent = case.tcp()?.segments_sent.unwrap_or(0);
    Some(
        RULE.finds(case, Some(end), Sureness::Likely, 0.9, before(end))
            .because(format!("{end}: by the bytes of its link {gone:.0} of {sent} segments never left by it"))
            .because(short)
            .wrong_if(WRONG_BEFORE)
            .explains(&["lossy-path", "outage", "flow-died"]),
    )
}

fn before(sender: End) -> String {
    format!("Packets vanished in the {sender} before its link: in its stack, where no counter saw them.")
}

const WRONG_BEFORE: &str =
    "It is wrong if its kernel traces no drops of its own (drop_reasons=on) while as many vanish.";

fn find(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = find_behind(case).or_else(|| find_before(case)) {
        return Some(finding);
    }
    let missing = Missing::of(case).filter(|missing| !missing.is_between() && DeadFlows::of(case).is_none())?;
    let (sender, receiver) = (case.sender.end, case.receiver.end);
    let (machine, sentence) = match missing.between {
        _ if missing.is_before() => (Some(sender), before(sender)),
        Some(between) if between <= FEW_BETWEEN && missing.came && !missing.is_delivered => {
            (Some(receiver), behind(receiver))
        }
        _ => (None, format!("Packets vanished, and no counter says where{}.", missing.why(case))),
    };
    let sure = if missing.between.is_some() { Sureness::Likely } else { Sureness::Possible };
    Some(
        RULE.finds(case, machine, sure, missing.part, sentence)
            .because_of(missing.evidence(case))
            .because_of(missing.pattern(case).map(|pattern| pattern.clause()))
            .because_of(case.loss_from().map(|from| from.clause()))
            .wrong_if(match machine {
                Some(end) if end == sender => WRONG_BEFORE,
                None if missing.elsewhere.is_some() => {
                    "It is wrong if ip route get names the latter on this end, and ip neigh its hardware address on the other."
                }
                Some(_) => WRONG_BEHIND,
                None => "It is wrong if as many vanish over a cable from one end to the other, with nothing between.",
            }),
    )
}

/// Which of so many is lost, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketFate {
    Lost(u64),
    Passed(u64),
}

impl PacketFate {
    /// What a loss of this share comes to, as well as so many lost ones tell.
    fn each(ratio: f64, lost: u64) -> Option<PacketFate> {
        let every = 1.0 / ratio.min(1.0 - ratio);
        let is_whole = (every - every.round()).abs() <= every * 3.0 / lost.max(1) as f64 + 0.01;
        let whole = every.round() as u64;
        is_whole.then_some(if ratio <= 0.5 { PacketFate::Lost(whole) } else { PacketFate::Passed(whole) })
    }

    /// As `drops …`.
    pub(super) fn drops(self) -> String {
        let nth = |number: u64| match number % 100 {
            11..=13 => format!("{number}th"),
            end => format!("{number}{}", ["th", "st", "nd", "rd"].get(end as usize % 10).unwrap_or(&"th")),
        };
        match self {
            PacketFate::Lost(2) => "drops every other one".to_owned(),
            PacketFate::Lost(every) => format!("drops every {} one", nth(every)),
            PacketFate::Passed(every) => format!("lets every {} one pass", nth(every)),
        }
    }
}

/// How a loss of datagrams is spread.
pub(super) enum Pattern {
    /// Many at a time.
    Bursts {
        /// How often.
        runs: u64,
        /// Packets at a time, on average.
        mean: f64,
        /// As long as the trial takes to send so many, seconds.
        seconds: Option<f64>,
    },
    /// One by one, at distances more regular than chance makes: of so many one, or all but one, where it is a whole number.
    Regular(Option<PacketFate>),
    /// Most of them, and this share of the rest arrived at even distances.
    Above(f64),
    /// From a moment on, and what came through from then on was nearly the same all the time.
    Steady,
    /// Each by chance.
    Random,
}

impl Pattern {
    fn of(case: &Case<'_>, loss: &Loss) -> Option<Pattern> {
        let bursts_of = case.flow()?.loss_bursts.as_ref()?;
        let (runs, lost) = case.loss_runs()?;
        let mean = lost as f64 / runs as f64;
        // Where loss began in mid-trial, all runs lie behind that, and distances are of both parts.
        let from = case.loss_from();
        let ratio = from.as_ref().map_or(loss.ratio, |from| from.times[0].ratio);
        // Of losses that do not depend on each other runs are as long as this.
        let independent = 1.0 / (1.0 - ratio).max(0.01);
        let single = bursts_of.get(&1).copied().unwrap_or(0) as f64 / runs as f64;
        let is_steady = from.as_ref().is_some_and(|from| from.is_steady);
        let even = even_share(case).filter(|share| from.is_none() && ratio >= MOST && *share >= EVEN);
        let bursts = || {
            let sent = loss.packets as f64 / loss.ratio.max(1e-9);
            case.whole_s().filter(|_| case.is(Workload::UdpStream)).map(|whole_s| mean * whole_s / sent.max(1.0))
        };
        // Beside an outage or two the rest is lost at this ratio.
        let usual = || {
            let long = bursts_of.iter().filter(|(length, _)| **length as f64 > LONG_RUN * independent);
            let long = long.map(|(length, count)| length.saturating_mul(*count)).total() as f64;
            ((lost as f64 - long) / (lost as f64 / ratio.max(1e-9) - long)).max(0.0)
        };
        if runs < ENOUGH_RUNS {
            // A few have a pattern only where each is far longer than chance makes it; one, where the rest came through.
            let is_long = mean > LONG_RUN * independent && (runs > 1 || ratio < MOST);
            return is_long.then(|| Pattern::Bursts { runs, mean, seconds: bursts() });
        }
        Some(match even {
            Some(share) => Pattern::Above(share),
            None if mean > 3.0 * independent && !is_steady => Pattern::Bursts { runs, mean, seconds: bursts() },
            None if is_regular(single, usual(), runs) || is_short(mean, ratio, runs) => {
                Pattern::Regular(PacketFate::each(ratio, lost))
            }
            None if is_steady => Pattern::Steady,
            None => Pattern::Random,
        })
    }

    /// Whether a limit of rate makes it: more was offered than passes.
    pub(super) const fn is_of_a_rate(&self) -> bool {
        matches!(self, Pattern::Regular(_) | Pattern::Above(_) | Pattern::Steady)
    }

    pub(super) fn clause(&self) -> String {
        match self {
            Pattern::Bursts { runs, mean, seconds } => {
                let long = seconds.map_or(String::new(), |seconds| format!(" ({} ms)", tidy(seconds * 1e3)));
                match runs {
                    1 => format!("they vanished one after the other, {}{long}", tidy(*mean)),
                    _ => format!("they vanished in {runs} bursts, {}{long} at a time on average", tidy(*mean)),
                }
            }
            Pattern::Regular(_) => "they vanished one by one, at more regular distances than chance makes".to_owned(),
            Pattern::Above(share) => format!(
                "{} of what arrived came at even distances, as from a link or shaper that is always busy",
                percent(*share)
            ),
            Pattern::Steady => "meanwhile what came through varied far less than chance makes".to_owned(),
            Pattern::Random => "they vanished one by one, as chance has it".to_owned(),
        }
    }
}

/// The share of arrivals at about the distance of the mean one. By chance, where most is lost, half of them are at most: the
/// distances are a geometric number of those at which the packets left.
fn even_share(case: &Case<'_>) -> Option<f64> {
    let gaps = case.flow()?.arrival_gaps.as_ref()?;
    let mean_ns = gaps.mean_ns()?;
    let even = EVENLY.start * mean_ns..EVENLY.end * mean_ns;
    let near = gaps.buckets().filter(|(ns, _)| even.contains(&(*ns as f64))).map(|(_, count)| count).total();
    Some(near as f64 / gaps.count().max(1) as f64)
}

/// About the mean distance.
const EVENLY: std::ops::Range<f64> = 0.6..1.6;
/// So many arrivals at even distances are no accident.
const EVEN: f64 = 0.75;
/// Of a smaller loss even departures make even arrivals.
const MOST: f64 = 0.5;

/// Whether more runs than chance makes are of one packet: by chance each lost packet is followed by another as often as any.
fn is_regular(single: f64, ratio: f64, runs: u64) -> bool {
    let deviation = (ratio * (1.0 - ratio) / runs as f64).sqrt();
    ratio >= REGULAR_FROM && single >= 1.0 - ratio / 2.0 && single >= 1.0 - ratio + DEVIATIONS * deviation
}

/// Whether runs of a loss of most are shorter than chance makes: then they are 1 / (1 - ratio) long on average, and one shorter where
/// what passes passes at even distances.
fn is_short(mean: f64, ratio: f64, runs: u64) -> bool {
    let by_chance = 1.0 / (1.0 - ratio).max(0.01);
    let deviation = ratio.sqrt() * by_chance / (runs as f64).sqrt();
    ratio >= 0.45 && mean <= by_chance - 0.5 && mean <= by_chance - DEVIATIONS * deviation
}

/// So many standard deviations are no accident.
const DEVIATIONS: f64 = 4.0;
/// Runs so many times longer than by chance are bursts, however few there are.
const LONG_RUN: f64 = 20.0;
/// Of fewer runs nothing else is told.
const ENOUGH_RUNS: u64 = 30;
/// Of a smaller share that is lost at random, few runs are longer than one.
const REGULAR_FROM: f64 = 0.04;

/// Packets that IP sent at the sender, and delivered at the receiver, beside those of the trial: copies, too. Unknown where one datagram
/// is several packets, or one packet several segments.
struct Others {
    sent: Option<u64>,
    received: Option<u64>,
}

impl Others {
    fn of(case: &Case<'_>) -> Others {
        let beside = |side: Side<'_>, names: [&str; 2], own: fn(&Losses) -> u64| {
            let all: Option<u64> = names.into_iter().filter_map(|name| side.counter(name)).reduce(u64::saturating_add);
            all?.checked_sub(own(case.losses()?)).filter(|_| !case.may_be_fragmented())
        };
        Others {
            sent: beside(case.sender, ["Ip OutRequests", "Ip6 OutRequests"], |losses| losses.sent),
            received: beside(case.receiver, ["Ip InDelivers", "Ip6 InDelivers"], |losses| losses.arrived),
        }
    }

    fn sent(&self, link: Option<u64>) -> Option<u64> {
        Some(link?.saturating_sub(self.sent?))
    }

    fn received(&self, link: Option<u64>) -> Option<u64> {
        Some(link?.saturating_sub(self.received?))
    }

    fn clause(&self) -> String {
        let received = self.received.unwrap_or(0);
        format!(", {received} of which were others or copies (Ip InDelivers)")
    }
}

/// Segments that TCP sent and that came to the sender's root discipline no more, which counts segments; or as many as the buffers
/// held that its IP handed on and its link never saw.
fn segments_before(case: &Case<'_>) -> Option<u64> {
    let losses = case.losses().filter(|losses| losses.of == Counted::Segments)?;
    let side = case.sender;
    let known = case.dropped_between(Stage::SenderStack, Stage::DriverTxRing);
    if let Some(seen) = side.at_root("packets").filter(|seen| *seen >= losses.arrived) {
        return Some(losses.sent.saturating_sub(seen).saturating_sub(known));
    }
    let handed: u64 = ["Ip OutTransmits", "Ip6 OutTransmits"].into_iter().filter_map(|name| side.counter(name)).total();
    let gone = handed.checked_sub(side.link_sent()?).filter(|gone| *gone > 0)?;
    Some((gone as f64 * losses.sent as f64 / handed as f64) as u64)
}

/// What the sender's socket took less what its stack is known to have dropped: so many packets should leave by its link.
/// Not where buffers are cut apart on the way.
fn before_the_link(case: &Case<'_>, out: Option<u64>, came: Option<u64>) -> Option<u64> {
    let segments = case.flow()?.sender_api.as_ref().and_then(|api| api.segments).unwrap_or(1);
    let of_socket = |line: &&PathLine| line.direction == case.way && line.passage.stage == Stage::SenderSocket;
    let taken = match case.losses().filter(|losses| losses.of == Counted::Segments) {
        // Each packet at either link is one segment: the receiver got as many as its link, and that as many as left the sender's.
        // A few at the second link may be others'.
        Some(losses) => {
            (came? >= losses.arrived && came? <= out?.saturating_add(out? / 100 + 3)).then_some(losses.sent)?
        }
        None => case.record.path.iter().find(of_socket).filter(|_| segments <= 1)?.passage.packets,
    };
    Some(taken.saturating_sub(case.dropped_between(Stage::SenderStack, Stage::DriverTxRing)))
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;

    #[test]
    fn what_ip_delivered_as_it_came_has_not_vanished_behind_the_link() {
        let all = cases::cases();
        let name = "buffers of segments that a filter at the receiver's ingress takes";
        let says = |delivered: u64| {
            let mut record = all.iter().find(|case| case.name == name).unwrap().record.clone();
            record.target.counters.add(Stage::ReceiverStack, "Ip InDelivers", delivered);
            let one = findings(&record).into_iter().find(|one| one.name == RULE.name).unwrap();
            (one.machine.is_some(), one.sentence)
        };
        // 245 of 1,930 segments, in 44 of 346 packets; two of these were no packets of IP.
        assert_eq!(says(302), (true, behind(End::Target)));
        assert_eq!(says(344), (false, "Packets vanished, and no counter says where.".to_owned()));
    }
    #[test]
    fn segments_that_left_by_no_link_vanished_before_it_whoever_counted_last() {
        let all = cases::cases();
        let first = |left: u64| {
            let mut record =
                all.iter().find(|case| case.name == "one segment of fifty lost on the way").unwrap().record.clone();
            (record.losses, record.loss_budget, record.unaccounted) = (Vec::new(), Some(Vec::new()), None);
            let (sender, tcp) =
                (&mut record.target.counters, record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap());
            (tcp.retransmissions, tcp.segments_lost, tcp.spurious_retransmissions) = (0, None, None);
            (tcp.segments_sent, tcp.mss, tcp.timestamps) = (Some(10_000), Some(1448), Some(true));
            tcp.bytes_sent = Some(10_000 * 1448);
            for (name, value) in [("link tx_packets", left), ("link tx_bytes", left * 1514)] {
                sender.0.entry(Stage::DriverTxRing).or_default().insert(name.to_owned(), value);
            }
            let found = findings(&record);
            found.into_iter().find(|one| one.name == RULE.name).map(|one| (one.machine, one.sentence))
        };
        assert_eq!(first(8_000), Some((Some(End::Target.into()), before(End::Target))));
        assert_eq!(first(10_100), None);
    }
}
