//! Counters that cannot all be right: said, never mended.
//! Knows what must hold between them, not who is wrong.

use std::fmt::{self, Display, Formatter};

use linerate_machine::end::Party;
use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::leg::Leg;
use super::line::listed;
use super::machine_account::{Hits, MachineAccount};
use super::path::{frames_at, octets_at};
use super::{Counted, Datagrams, LossLine};
use crate::stage::Stage;

/// Counters that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Contradiction {
    /// More datagrams were received than sent.
    MoreReceived {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// Counters saw more dropped than was lost.
    MoreDropped {
        /// Lost.
        lost: u64,
        /// Seen dropped.
        dropped: i64,
        /// Two lines that agree to the packet, and so may count the same.
        alike: Vec<LossLine>,
    },
    /// Alternatives that count the same and differ; the larger was taken.
    Alternatives {
        /// Those with the larger sum.
        larger: Vec<Counted>,
        /// Those with the smaller.
        smaller: Vec<Counted>,
    },
    /// An end's interface counted more packets than its MAC.
    MoreThanTheMac {
        /// Which end.
        end: Party,
        /// What counted more.
        more: Vec<Counted>,
        /// What counted less.
        less: Vec<Counted>,
    },
    /// More datagrams were delivered than the interface counted.
    MoreDelivered {
        /// The receiving end.
        end: Party,
        /// Datagrams.
        delivered: u64,
        /// The interface's count.
        counters: Vec<Counted>,
    },
    /// An end's interface counted next to nothing of what arrived: the traffic passes by another one.
    Elsewhere {
        /// Which end.
        end: Party,
        /// Of what it sends; else of what it receives.
        sends: bool,
        /// Datagrams that arrived.
        delivered: u64,
        /// The interface's count.
        counters: Vec<Counted>,
    },
    /// So many octets cannot be for so many packets.
    Octets {
        /// Which end.
        end: Party,
        /// The octets.
        octets: Vec<Counted>,
        /// The packets.
        packets: Vec<Counted>,
        /// What would make them plausible.
        #[serde(skip_serializing_if = "Option::is_none")]
        looks: Option<CounterFault>,
    },
}

/// What is wrong with an octet counter, for all that shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterFault {
    /// It is shifted by 32 bits.
    Shifted,
    /// Its upper 32 bits are wrong.
    WrongUpperHalf,
}

impl Display for Contradiction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Contradiction::MoreReceived { sent, received } => write!(
                f,
                "{received} datagrams were received where {sent} were sent; repeat, and report the record if it stays so"
            ),
            Contradiction::MoreDropped { lost, dropped, alike } => {
                write!(
                    f,
                    "{lost} datagrams were lost, and counters saw {dropped} dropped: other traffic was dropped too, or one \
                     drop was counted twice"
                )?;
                if let [one, other] = &alike[..] {
                    let (one, other) = (one.evidence(), other.evidence());
                    write!(f, "; {one} and {other} agree to the packet, so they may count the same ones")?;
                }
                f.write_str("; stop other traffic and repeat")
            }
            Contradiction::Alternatives { larger, smaller } => write!(
                f,
                "{} and {} count the same and differ; the larger was taken: read both at their source (ethtool -S, ip -s \
                 link)",
                listed(larger),
                listed(smaller)
            ),
            Contradiction::MoreThanTheMac { end, more, less } => write!(
                f,
                "{end}: {} and {}: more packets than its MAC counted; the MAC's counters are not to be trusted on this driver",
                listed(more),
                listed(less)
            ),
            Contradiction::MoreDelivered { end, delivered, counters } => write!(
                f,
                "{end}: {delivered} datagrams were delivered and {}; measure without receive offloads, or look at another \
                 counter",
                listed(counters)
            ),
            Contradiction::Elsewhere { end, delivered, counters, .. } => write!(
                f,
                "{end}: {delivered} packets arrived and {}: they pass by another interface than the one that has the \
                 address; compare ip route get here with what the other end has for this one (ip neigh)",
                listed(counters)
            ),
            Contradiction::Octets { end, octets, packets, looks } => {
                let why = match looks {
                    Some(CounterFault::Shifted) => ": the counter looks shifted by 32 bits",
                    Some(CounterFault::WrongUpperHalf) => ": its upper 32 bits look wrong",
                    None => "",
                };
                write!(
                    f,
                    "{end}: {} for {} cannot be{why}; do not use this counter of this driver",
                    listed(octets),
                    listed(packets)
                )
            }
        }
    }
}

/// Counters explain more than was lost.
pub(super) fn too_much(datagrams: &Datagrams, lines: &[LossLine], explained: i128) -> Contradiction {
    let Datagrams { sent, received_unique, .. } = *datagrams;
    if received_unique > sent {
        return Contradiction::MoreReceived { sent, received: received_unique };
    }
    let alike = lines.iter().enumerate().find_map(|(at, line)| {
        let other = lines[at + 1..].iter().find(|other| other.packets == line.packets)?;
        Some(vec![line.clone(), other.clone()])
    });
    let lost = u64::try_from(datagrams.lost()).unwrap_or(0);
    let dropped = super::clamped(explained);
    Contradiction::MoreDropped { lost, dropped, alike: alike.unwrap_or_default() }
}

/// Alternatives that should agree and do not: both there, and a tenth or more apart.
pub(super) fn between(alternatives: &[Hits<'_>]) -> Option<Contradiction> {
    let sum = |hits: &Hits<'_>| hits.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
    let most = alternatives.iter().max_by_key(|hits| sum(hits))?;
    let least = alternatives.iter().min_by_key(|hits| sum(hits))?;
    let (high, low) = (sum(most), sum(least));
    let differ = high - low > (high / 10).max(10);
    differ.then(|| Contradiction::Alternatives { larger: Counted::of(most), smaller: Counted::of(least) })
}

/// What passed one stage cannot be more than passed the one before it.
pub(super) fn of_passages(datagrams: &Datagrams, chain: Chain<'_>) -> Vec<Contradiction> {
    let mut found: Vec<Contradiction> = chain.all().flat_map(|(_, seen)| octets(seen)).collect();
    let receiver = chain.receiver;
    for (leg, seen) in chain.all() {
        let sends = matches!(leg, Leg::Sender | Leg::MiddleOut);
        let [before, after] = match sends {
            true => [Stage::DriverTxRing, Stage::MacTx],
            false => [Stage::MacRxFifo, Stage::DriverRxRing],
        };
        let (Some(before), Some(after)) = (frames_at(seen, before), frames_at(seen, after)) else { continue };
        // A driver hands buffers to the MAC and the MAC cuts frames from them, so there may be more behind it; on the
        // way in it is the other way round.
        let (less, more) = if sends { (&after, &before) } else { (&before, &after) };
        let dropped = if sends { seen.sum(Stage::MacTx, &["link tx_errors"]) } else { 0 };
        if more.0 > slack(less.0.saturating_add(dropped)) {
            let (more, less) = (more.1.clone(), less.1.clone());
            found.push(Contradiction::MoreThanTheMac { end: seen.party(), more, less });
        }
    }
    if datagrams.fragments > 1 || datagrams.segments > 1 {
        return found;
    }
    let delivered = datagrams.received_unique;
    let elsewhere = if datagrams.below_ip { Vec::new() } else { elsewhere(delivered, chain) };
    let merged = frames_at(receiver, Stage::DriverRxRing)
        .filter(|(frames, _)| delivered > slack(*frames))
        .filter(|_| !elsewhere.iter().any(|one| one.is_elsewhere(receiver.party(), false)));
    found.extend(merged.map(|(_, counters)| Contradiction::MoreDelivered {
        end: receiver.party(),
        delivered,
        counters,
    }));
    found.extend(elsewhere);
    found
}

/// Interfaces that counted too little for what arrived, datagrams or segments: it passes by others.
pub(super) fn elsewhere(delivered: u64, chain: Chain<'_>) -> Vec<Contradiction> {
    let of = |(seen, stage): (&MachineAccount<'_>, Stage)| {
        let (frames, counters) = frames_at(seen, stage).filter(|(frames, _)| delivered > slack(*frames))?;
        // Buffers that were merged have all octets in them.
        let octets = octets_at(seen, stage).map(|(octets, _)| octets);
        let is_elsewhere = octets.map_or(frames.saturating_mul(MOST_MERGED), |octets| octets / HEADERS) < delivered;
        let (end, sends) = (seen.party(), stage == Stage::DriverTxRing);
        is_elsewhere.then_some(Contradiction::Elsewhere { end, sends, delivered, counters })
    };
    [(chain.sender, Stage::DriverTxRing), (chain.receiver, Stage::DriverRxRing)].into_iter().filter_map(of).collect()
}

/// Octets of the smallest datagram on a link: headers of Ethernet, IPv4 and UDP.
const HEADERS: u64 = 42;
/// A buffer holds no more datagrams (linux/udp.h, UDP_MAX_SEGMENTS).
const MOST_MERGED: u64 = 128;

impl Contradiction {
    /// Whether what this end's interface counted of what it sends, or receives, is no count of the trial's traffic.
    pub fn is_elsewhere(&self, of: Party, sending: bool) -> bool {
        matches!(self, Contradiction::Elsewhere { end, sends, .. } if *end == of && *sends == sending)
    }
}

/// A little more: counters are read at different moments.
fn slack(packets: u64) -> u64 {
    packets.saturating_add(packets / 100).saturating_add(64)
}

/// Octets to a packet tell when an octet counter is wrong: some drivers add its upper 32 bits wrongly (raspberrypi/linux
/// issue 6898 of macb).
fn octets(seen: &MachineAccount<'_>) -> Vec<Contradiction> {
    // A buffer of the stack may be larger than a frame on the wire: 64 KiB, or 512 KiB with BIG TCP.
    [
        (Stage::MacRxFifo, 16 << 10),
        (Stage::DriverRxRing, 512 << 10),
        (Stage::DriverTxRing, 512 << 10),
        (Stage::MacTx, 16 << 10),
    ]
    .into_iter()
    .filter_map(|(stage, most)| {
        let (packets, of_packets) = frames_at(seen, stage)?;
        let (octets, of_octets) = octets_at(seen, stage)?;
        let plausible = |octets: u64| (14..=most).contains(&(octets / packets));
        if packets < 100 || plausible(octets) {
            return None;
        }
        let looks = if octets >> 32 > 0 && plausible(octets >> 32) {
            Some(CounterFault::Shifted)
        } else if octets >> 32 > 0 && plausible(octets & 0xffff_ffff) {
            Some(CounterFault::WrongUpperHalf)
        } else {
            None
        };
        Some(Contradiction::Octets { end: seen.party(), octets: of_octets, packets: of_packets, looks })
    })
    .collect()
}
