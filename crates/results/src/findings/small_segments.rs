//! TCP's segments are far smaller than both links carry: something on the way, or an end, asked for that.
//! Knows the MSS that was agreed on, and the MTUs of the two links; a smaller MTU of either end is no finding.

use linerate_trial::spec::Workload;

use super::case::{Case, percent};
use super::{Finding, Rule, Sureness};

/// Below this part of what the links carry, packets cost a good part more by the payload; a tunnel on the way takes less away.
const SMALL: f64 = 0.8;
/// Headers of IPv6 and TCP with timestamps (RFC 8200, RFC 9293, RFC 7323), bytes: IPv4's are shorter.
const HEADERS: u32 = 40 + 20 + 12;

pub(super) const RULE: Rule = Rule {
    name: "small-segments",
    says: "TCP's segments are far smaller than both links carry, so that each packet's cost is paid for less payload.",
    rests_on: "A TCP stream that came short on a machine without CPU time left, whose MSS (tcp_info), which mss did not ask for, is less \
               than 80 % of what the smaller of both interfaces' MTUs carries.",
    source: "RFC 9293, section 3.7.1 (maximum segment size option); RFC 6691; ip-route(8), advmss; nft(8), tcp option maxseg.",
    suggests: &["mtu"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let mss = case.tcp().filter(|_| case.is(Workload::TcpStream))?.mss?;
    let short = case.short()?;
    let mtus = case.sides().map(|side| side.nic().and_then(|nic| nic.mtu));
    let mtu = mtus[0]?.min(mtus[1]?);
    let carried = mtu.checked_sub(HEADERS)?;
    if f64::from(mss) >= SMALL * f64::from(carried) || case.asked.as_ref()?.mss.is_some() {
        return None;
    }
    // A window that holds a segment or two has TCP make them smaller by itself (linux net/ipv4/tcp_output.c, tcp_bound_to_half_wnd).
    if case.largest_window().is_some_and(|window| window <= 4 * u64::from(mss)) {
        return None;
    }
    let (most, clauses) = case.sides().into_iter().find_map(|side| side.out_of_cpu(case))?;
    let sentence = format!("TCP's segments carry at most {mss} bytes, though both links carry packets of {mtu}.");
    Some(
        RULE.finds(case, None, Sureness::Likely, most, sentence)
            .because(format!("the MSS is {} of what fits such a packet", percent(f64::from(mss) / f64::from(carried))))
            .because_of(clauses)
            .because(short)
            .wrong_if(
                "It is wrong if no router between the two clamps the MSS or has a smaller MTU, and no route of either machine has \
                 an advmss or an mtu.",
            )
            .explains(&["sender-cpu", "receiver-cpu", "host-limits", "softirq-cpu", "segmentation", "receive-window"]),
    )
}
