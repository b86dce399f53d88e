//! Drop reasons as evidence: beside the lines that counters made, and for what no counter explained.
//! Knows what the kernel's reasons mean (include/net/dropreason-core.h), not who traced them.
//!
//! The tracepoint sees every packet of the machine, whosever it was, so a reason never overrules a counter, and never
//! explains more than was lost.

use linerate_machine::pattern::fits;

use super::chain::{Chain, MiddleMachine};
use super::drops::{DropCause, Machine};
use super::machine_account::MachineAccount;
use super::{Datagrams, Findings, LossLine, On};
use crate::drop_reason::DropReason;
use crate::stage::Stage;

use Machine::{Receiver, Sender};

/// A reason that can cost a trial its packets.
struct Meaning {
    /// A pattern of the reason, or of `REASON at FUNCTION`; `-` where the kernel gives none.
    name: &'static str,
    machine: Machine,
    stage: Stage,
    /// The entries of the table of drops that count the same.
    counted: &'static [DropCause],
}

/// What counts the drops of a packet filter.
const FILTERED: &[DropCause] = &[DropCause::Undelivered, DropCause::NotForwarded, DropCause::SenderIp];

/// The first that fits the name and the machine.
const REASONS: [Meaning; 41] = [
    reason("SOCKET_RCVBUFF", Receiver, Stage::ReceiverSocket, &[DropCause::ReceiveBuffer]),
    reason("PROTO_MEM", Receiver, Stage::ReceiverSocket, &[DropCause::ReceiveBuffer, DropCause::UdpErrors]),
    reason("SOCKET_FILTER", Receiver, Stage::ReceiverStack, &[DropCause::UdpErrors]),
    reason("SOCKET_BACKLOG", Receiver, Stage::ReceiverSocket, &[DropCause::TcpBuffer]),
    reason("NO_SOCKET", Receiver, Stage::ReceiverStack, &[DropCause::NoPort]),
    reason("UDP_CSUM", Receiver, Stage::ReceiverStack, &[DropCause::Checksum]),
    reason("TCP_CSUM", Receiver, Stage::ReceiverStack, &[DropCause::TcpErrors]),
    reason("SKB_CSUM", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_CSUM", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_INHDR", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("PKT_TOO_SMALL", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_RPFILTER", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_INADDRERRORS", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_INNOROUTES", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp]),
    reason("IP_LOCAL_SOURCE", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp, DropCause::Undelivered]),
    reason("IP_INVALID_SOURCE", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp, DropCause::Undelivered]),
    reason("IP_LOCALNET", Receiver, Stage::ReceiverStack, &[DropCause::ReceiverIp, DropCause::Undelivered]),
    reason("FRAG_REASM_TIMEOUT", Receiver, Stage::ReceiverStack, &[]),
    reason("FRAG_TOO_FAR", Receiver, Stage::ReceiverStack, &[]),
    reason("DUP_FRAG", Receiver, Stage::ReceiverStack, &[]),
    reason("NETFILTER_DROP", Receiver, Stage::ReceiverStack, FILTERED),
    reason("NETFILTER_DROP", Sender, Stage::SenderStack, &[DropCause::SenderIp, DropCause::Untransmitted]),
    reason("XFRM_POLICY", Receiver, Stage::ReceiverStack, &[DropCause::PolicyIn, DropCause::UdpErrors]),
    reason("XFRM_POLICY", Sender, Stage::SenderStack, &[DropCause::PolicyOut]),
    reason("XDP", Receiver, Stage::SoftirqBacklog, &[DropCause::Xdp]),
    // What the kernel gives no reason for, or no old kernel any, by the function that dropped it (net/core/dev.c,
    // net/netfilter/core.c).
    reason("* at do_xdp_generic", Receiver, Stage::SoftirqBacklog, &[DropCause::Xdp]),
    reason("* at netif_receive_generic_xdp", Receiver, Stage::SoftirqBacklog, &[DropCause::Xdp]),
    reason("- at nf_hook_slow", Receiver, Stage::ReceiverStack, FILTERED),
    reason("- at nf_hook_slow", Sender, Stage::SenderStack, &[DropCause::SenderIp, DropCause::Untransmitted]),
    reason("TC_INGRESS", Receiver, Stage::SoftirqBacklog, &[DropCause::Ingress]),
    reason("CPU_BACKLOG", Receiver, Stage::SoftirqBacklog, &[DropCause::Backlog]),
    reason("TC_EGRESS", Sender, Stage::Qdisc, &[DropCause::Qdisc]),
    reason("QDISC_*", Sender, Stage::Qdisc, &[DropCause::Qdisc]),
    reason("NEIGH_QUEUEFULL", Sender, Stage::SenderStack, &[DropCause::Neighbours]),
    // An address that nobody has (net/core/neighbour.c), by the function too.
    reason("NEIGH_*", Sender, Stage::SenderStack, &[DropCause::SenderIp]),
    reason("* at neigh_invalidate", Sender, Stage::SenderStack, &[]),
    reason("IP_OUTNOROUTES", Sender, Stage::SenderStack, &[DropCause::SenderIp]),
    reason("PKT_TOO_BIG", Sender, Stage::SenderStack, &[DropCause::SenderIp]),
    reason("FULL_RING", Sender, Stage::DriverTxRing, &[DropCause::TxRing]),
    reason("DEV_READY", Sender, Stage::DriverTxRing, &[DropCause::TxRing]),
    reason("SKB_GSO_SEG", Sender, Stage::DriverTxRing, &[DropCause::TxRing]),
];

const fn reason(name: &'static str, machine: Machine, stage: Stage, counted: &'static [DropCause]) -> Meaning {
    Meaning { name, machine, stage, counted }
}

/// What a traced reason means on a machine of this role.
fn meaning(traced: &DropReason, machine: Machine) -> Option<&'static Meaning> {
    let name = traced.reason.as_deref().unwrap_or("-");
    let at = format!("{name} at {}", traced.location.as_deref().unwrap_or("-"));
    REASONS.iter().find(|reason| reason.machine == machine && (fits(reason.name, name) || fits(reason.name, &at)))
}

/// A traced reason, what it means, and what was seen of the machine on which it means that.
struct Traced<'a> {
    on: On,
    reason: &'a DropReason,
    meaning: &'static Meaning,
    seen: &'a MachineAccount<'a>,
}

/// The reasons of all machines with their meanings. Of one kernel all tell the same, so the receiver's are taken, for both
/// roles.
fn traced<'a>(datagrams: &Datagrams, chain: Chain<'a>) -> Vec<Traced<'a>> {
    let Chain { sender, receiver, middle } = chain;
    let shares = |between: &MiddleMachine<'_>| between.shares_with_sender || between.shares_with_receiver;
    let mut found = Vec::new();
    let mut of = |on, seen: &'a MachineAccount<'a>, roles: &[(Machine, &'a MachineAccount<'a>)]| {
        for reason in seen.reasons {
            let meant = roles.iter().find_map(|(role, seen)| Some((meaning(reason, *role)?, *seen)));
            found.extend(meant.map(|(meaning, seen)| Traced { on, reason, meaning, seen }));
        }
    };
    if datagrams.shared_kernel {
        of(On::Ends, receiver, &[(Receiver, receiver), (Sender, sender)]);
    } else {
        of(On::Ends, receiver, &[(Receiver, receiver)]);
        of(On::Ends, sender, &[(Sender, sender)]);
    }
    if let Some(MiddleMachine { input, output, .. }) = middle.filter(|between| !shares(between)) {
        of(On::Middle, input, &[(Receiver, input), (Sender, output)]);
    }
    found
}

impl Findings {
    /// Says beside each line which reasons the kernel gave for such drops.
    pub(super) fn attach_reasons(&mut self, datagrams: &Datagrams, chain: Chain<'_>) {
        for Traced { on, reason, meaning, .. } in traced(datagrams, chain) {
            let counts = |one: &&mut super::Finding| one.net > 0 && meaning.counted.contains(&one.drop.id);
            // Of a kernel that the middle shares nobody can tell whose drops they were, but by what counters saw.
            let counted = match on {
                On::Ends => self.all_mut().find(counts),
                On::Middle => self.middle.iter_mut().find(counts),
            };
            if let Some(finding) = counted {
                finding.reasons.push(reason.clone());
            }
        }
    }
}

/// Lines for what no counter explained and the kernel gave a reason for. Where the reasons come to more than is
/// missing, other traffic was dropped too, or end marks: reasons of one stage then explain what is missing, of several
/// none does.
pub(super) fn explain(
    lines: &mut Vec<LossLine>,
    rest: i128,
    mut claimed: Vec<(On, DropCause, u64)>,
    datagrams: &Datagrams,
    chain: Chain<'_>,
) {
    let shares = chain.middle.is_some_and(|between| between.shares_with_sender || between.shares_with_receiver);
    let mut candidates: Vec<(u64, LossLine)> = Vec::new();
    for Traced { on, reason, meaning, seen } in traced(datagrams, chain) {
        let mut packets = reason.packets;
        for (by, id, counted) in &mut claimed {
            if meaning.counted.contains(id) && (*by == on || shares) {
                let taken = packets.min(*counted);
                (packets, *counted) = (packets - taken, *counted - taken);
            }
        }
        // Where the middle runs on an end's kernel, it may have been either.
        if packets == 0 || shares {
            continue;
        }
        let line = LossLine::new(meaning.stage, seen.seen_at(meaning.machine), packets, Vec::new());
        let cause = meaning.counted.first().copied();
        candidates.push((packets, LossLine { cause, reasons: vec![reason.clone()], ..line }));
    }
    let sum: i128 = candidates.iter().map(|(packets, _)| i128::from(*packets)).sum();
    if sum > rest {
        let Some((_, first)) = candidates.first() else { return };
        if candidates.iter().any(|(_, line)| line.place() != first.place()) {
            return;
        }
        let mut left = u64::try_from(rest).unwrap_or(u64::MAX);
        for (packets, line) in &mut candidates {
            line.packets = left.min(*packets);
            left -= line.packets;
        }
        candidates.retain(|(_, line)| line.packets > 0);
    }
    lines.extend(candidates.into_iter().map(|(_, line)| line));
    lines.sort_by_key(LossLine::place);
}
