//! Counters that cannot all be right: said, never mended.
//! Knows what must hold between them, not who is wrong.

use super::line::listed;
use super::path::{frames_at, octets_at};
use super::seen::{Hits, Seen};
use super::{Counted, Datagrams, LossLine};
use crate::doubt::{Doubt, DoubtKind};
use crate::stage::Stage;

/// Counters explain more than was lost.
pub(super) fn too_much(datagrams: &Datagrams, lines: &[LossLine], explained: i128) -> Doubt {
    let Datagrams { sent, received_unique, .. } = datagrams;
    if received_unique > sent {
        return contradiction(format!(
            "{received_unique} datagrams were received where {sent} were sent; repeat, and report the record if it stays so"
        ));
    }
    let lost = sent - received_unique;
    let twice = lines.iter().enumerate().find_map(|(at, line)| {
        let other = lines[at + 1..].iter().find(|other| other.packets == line.packets)?;
        let (one, other) = (line.evidence(), other.evidence());
        Some(format!("; {one} and {other} agree to the packet, so they may count the same ones"))
    });
    contradiction(format!(
        "{lost} datagrams were lost, and counters saw {explained} dropped: other traffic was dropped too, or one drop was \
         counted twice{}; stop other traffic and repeat",
        twice.unwrap_or_default()
    ))
}

/// Alternatives that should agree and do not: both there, and a tenth or more apart.
pub(super) fn between(alternatives: &[Hits<'_>]) -> Option<String> {
    let sum = |hits: &Hits<'_>| hits.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value));
    let most = alternatives.iter().max_by_key(|hits| sum(hits))?;
    let least = alternatives.iter().min_by_key(|hits| sum(hits))?;
    let (high, low) = (sum(most), sum(least));
    (high - low > (high / 10).max(10)).then(|| {
        format!(
            "{} and {} count the same and differ; the larger was taken: read both at their source (ethtool -S, ip -s link)",
            listed(&Counted::of(most)),
            listed(&Counted::of(least))
        )
    })
}

/// What passed one stage cannot be more than passed the one before it.
pub(super) fn of_passages(datagrams: &Datagrams, sender: &Seen<'_>, receiver: &Seen<'_>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for seen in [sender, receiver] {
        doubts.extend(octets(seen));
    }
    let pairs = [
        (true, frames_at(sender, Stage::DriverTxRing), frames_at(sender, Stage::MacTx), sender),
        (false, frames_at(receiver, Stage::MacRxFifo), frames_at(receiver, Stage::DriverRxRing), receiver),
    ];
    for (sends, before, after, seen) in pairs {
        let (Some(before), Some(after)) = (before, after) else { continue };
        // A driver hands buffers to the MAC and the MAC cuts frames from them, so there may be more behind it; on the
        // way in it is the other way round.
        let (less, more) = if sends { (&after, &before) } else { (&before, &after) };
        let dropped = if sends { seen.sum(Stage::MacTx, &["link tx_errors"]) } else { 0 };
        if more.0 > slack(less.0.saturating_add(dropped)) {
            doubts.push(contradiction(format!(
                "{}: {} and {}: more packets than its MAC counted; the MAC's counters are not to be trusted on this driver",
                seen.end,
                listed(&more.1),
                listed(&less.1)
            )));
        }
    }
    if datagrams.fragments <= 1
        && datagrams.segments <= 1
        && let Some((frames, counters)) = frames_at(receiver, Stage::DriverRxRing)
        && datagrams.received_unique > slack(frames)
    {
        doubts.push(contradiction(format!(
            "{}: {} datagrams were delivered and {}; measure without receive offloads, or look at another \
             counter",
            receiver.end,
            datagrams.received_unique,
            listed(&counters)
        )));
    }
    doubts
}

/// A little more: counters are read at different moments.
fn slack(packets: u64) -> u64 {
    packets.saturating_add(packets / 100).saturating_add(64)
}

/// Octets to a packet tell when an octet counter is wrong: some drivers add its upper 32 bits wrongly (raspberrypi/linux
/// issue 6898 of macb).
fn octets(seen: &Seen<'_>) -> Vec<Doubt> {
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
        let why = if octets >> 32 > 0 && plausible(octets >> 32) {
            ": the counter looks shifted by 32 bits"
        } else if octets >> 32 > 0 && plausible(octets & 0xffff_ffff) {
            ": its upper 32 bits look wrong"
        } else {
            ""
        };
        Some(contradiction(format!(
            "{}: {} for {} cannot be{why}; do not use this counter of this driver",
            seen.end,
            listed(&of_octets),
            listed(&of_packets)
        )))
    })
    .collect()
}

fn contradiction(detail: String) -> Doubt {
    Doubt::new(DoubtKind::CountersContradict, detail)
}
