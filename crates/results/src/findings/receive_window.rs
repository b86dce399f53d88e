//! TCP waited for the receiver's window, and no queue on the path was full.
//! Knows tcp_info's times; a buffer that is small by order is another rule.

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::Limit;

/// From this share of the busy time on.
const SHARE: f64 = 0.2;
/// Where nothing passed for this part of the time and the window was never closed, it is full of what was lost.
const STOOD: f64 = 0.5;
/// A round trip that is so much longer than the shortest has a queue in it: then what empties the queue is the limit, and
/// a wider window would only fill it more.
pub(super) const QUEUED: f64 = 4.0;

/// Whether to offer it (linux Documentation/networking/ip-sysctl.rst).
const WINDOW_SCALING: &str = "net.ipv4.tcp_window_scaling";
/// A window that is so many times smaller than its buffer may be is kept small by something else: of a reader that keeps up, a buffer
/// grows to twice what arrives in a round trip (tcp_rcv_space_adjust of net/ipv4/tcp_input.c).
const CLAMPED: u64 = 64;

pub(super) const RULE: Rule = Rule {
    name: "receive-window",
    says: "TCP waits for the receiver's window: the receiver reads late, or its buffer may not grow.",
    rests_on: "tcp_info: sending was held up by the receive window for at least 20 % of its busy time, or of the time where a rate was asked, in a \
               trial that came short; likely where the round trip is at most 4 times the shortest one (no queue stands on the path), or the \
               receiver announced a window of zero. Not where nothing at all passed for half of the time and the window was never closed.",
    source: "Linux tcp_info tcpi_rwnd_limited (4.10); RFC 9293, section 3.8.6 (window management).",
    suggests: &["sysctl.net.ipv4.tcp_rmem"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let tcp = case.tcp()?;
    // Of a stream at a rate that was asked the busy time may be a small part.
    let told = tcp.limited_by_receive_window.filter(|_| case.is_unlimited() || case.time().next().is_none());
    let share = told.unwrap_or(0.0).max(case.share_of(&[Limit::ReceiveWindow]));
    if share < SHARE {
        return None;
    }
    let side = case.receiver;
    let zero = side.counter("TcpExt TCPToZeroWindowAdv").unwrap_or(0);
    if zero == 0 && case.share_of(&[Limit::Outage]) >= STOOD {
        return None;
    }
    let stands = tcp.min_rtt_s.filter(|least| *least > 0.0).and_then(|least| Some(tcp.rtt_s? / least));
    let sure =
        if stands.is_some_and(|ratio| ratio <= QUEUED) || zero >= 10 { Sureness::Likely } else { Sureness::Possible };
    let most = side.sysctl_number("net.ipv4.tcp_rmem");
    let unscaled = tcp.window_scaling == Some(false);
    let off = case.sides().into_iter().find(|side| unscaled && side.sysctl(WINDOW_SCALING) == Some("0"));
    let sentence = match (unscaled, off) {
        (false, _) => format!("TCP waits for the {}'s receive window.", side.end),
        (true, Some(off)) => format!(
            "TCP waits for the {}'s receive window, which is 65535 bytes at most: the {} does not offer window scaling.",
            side.end, off.end
        ),
        (true, None) => format!(
            "TCP waits for the {}'s receive window, which is 65535 bytes at most: something on the way takes window scaling off the \
             SYNs, for both ends offer it.",
            side.end
        ),
    };
    let mut finding = RULE
        .finds(case, Some(side.end), sure, share, sentence)
        .because(format!("sending waited for the window {} of its busy time", percent(share)))
        .because(format!(
            "the round trip is {} µs, {} times the shortest one",
            tcp.rtt_s.map_or("unknown".to_owned(), |rtt_s| tidy(rtt_s * 1e6)),
            stands.map_or("unknown".to_owned(), tidy)
        ))
        .because(format!("{}: a window of zero was announced {zero} times", side.end))
        .because(short)
        .wrong_if(
            "It is wrong if sending waits as long for the window with a buffer that may grow four times as large.",
        );
    if let Some(off) = off {
        return Some(finding.attempt(off.setting(&format!("sysctl.{WINDOW_SCALING}")), "1", "throughput"));
    }
    if unscaled {
        return Some(finding);
    }
    // A buffer that may grow to many times the window that it announces is not what keeps that small.
    let announced = case.largest_window();
    if let (Some(announced), Some(most)) = (announced, most)
        && most / CLAMPED >= announced
    {
        return Some(finding.because(format!(
            "it announced {announced} bytes at most, where net.ipv4.tcp_rmem lets the buffer grow to {most}: a window of its route (ip \
             route get), or its program, keeps it small"
        )));
    }
    if let Some(most) = most.filter(|_| case.socket_buffer().is_none()) {
        let value = format!("4096 131072 {}", most.saturating_mul(4).max(6_291_456));
        finding = finding.because(format!("net.ipv4.tcp_rmem lets the buffer grow to {most} bytes"));
        finding = finding.attempt(side.setting("sysctl.net.ipv4.tcp_rmem"), value, "throughput");
    }
    Some(finding)
}
