//! A socket's buffer holds less than is on its way: less than the bandwidth-delay product, or than a burst.
//! Knows what was asked, and what the machine gives at most.

use linerate_path::stage::Stage;
use linerate_trial::outcome::TcpSummary;
use linerate_trial::spec::Workload;

use super::case::{Case, percent, tidy};
use super::{Finding, Rule, Sureness};
use crate::time_budget::{Limit, is_queued};

/// A socket that is asked for less than this is smaller than what Linux gives by itself (212,992 octets since 3.1).
const USUAL: u64 = 212_992;

/// What Linux has for tcp_wmem.
const WMEM: &str = "4096 16384 4194304";
/// From this share of the time on.
const MOST_OF_TIME: f64 = 0.5;
/// The largest buffer that one write fills.
const ONE_WRITE: u64 = 65_536;

pub(super) const RULE: Rule = Rule {
    name: "small-buffer",
    says: "The socket's buffer is smaller than what is on its way: than the bandwidth-delay product (TCP), or a burst (UDP).",
    rests_on: "An explicit socket_buffer, or a largest tcp_rmem or tcp_wmem (the default of tcp_rmem where \
               tcp_moderate_rcvbuf is 0), that is smaller than Linux gives by default; and TCP \
               that waited for the window or the buffer, or had nothing to send although it should, at least 20 % of the time, or whose throughput times the \
               round trip is what the send buffer holds, where no segment was retransmitted, no queue stood and at least half of the time is \
               unaccounted for; or datagrams lost at the socket.",
    source: "tcp(7), tcp_rmem and tcp_wmem; socket(7), SO_RCVBUF; RFC 7323, section 1.1 (bandwidth-delay product); RFC 4898 \
             (what limits a sender).",
    suggests: &[
        "socket_buffer",
        "sysctl.net.ipv4.tcp_rmem",
        "sysctl.net.ipv4.tcp_wmem",
        "sysctl.net.ipv4.tcp_moderate_rcvbuf",
    ],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    match case.record.workload {
        Workload::TcpStream => of_tcp(case),
        Workload::UdpStream => of_udp(case),
        _ => None,
    }
}

fn of_tcp(case: &Case<'_>) -> Option<Finding> {
    let short = case.short()?;
    let tcp = case.tcp()?;
    let (window, mut buffer) = (tcp.limited_by_receive_window?, tcp.limited_by_send_buffer?);
    // With a tiny buffer the kernel takes the wait for room for an application that has nothing to send.
    if let Some(nothing_to_send) = tcp.limited_by_application.filter(|_| case.is_unlimited()) {
        buffer = (1.0 - nothing_to_send) * buffer + nothing_to_send;
    }
    let window = window.max(case.share_of(&[Limit::ReceiveWindow]));
    let buffer = buffer.max(case.share_of(&[Limit::SendBuffer]));
    if window + buffer < 0.2 {
        return of_tcp_uncounted(case, tcp, short);
    }
    let (side, sysctl, what) = match window >= buffer {
        true => (case.receiver, "net.ipv4.tcp_rmem", "the receiver's window"),
        false => (case.sender, "net.ipv4.tcp_wmem", "room in the send buffer"),
    };
    let asked = case.socket_buffer();
    // A receiver that does not fit its buffer to what comes stays at the size that it begins with.
    let stays = sysctl.ends_with("rmem") && side.sysctl_number("net.ipv4.tcp_moderate_rcvbuf") == Some(0);
    let first = || side.sysctl(sysctl)?.split_whitespace().nth(1)?.parse().ok();
    let told = if stays { first() } else { side.sysctl_number(sysctl) };
    let octets = asked.or(told).filter(|octets| *octets < USUAL)?;
    let product = case.throughput_bps()? / 8.0 / case.streams() * tcp.rtt_s?;
    let sentence = format!("The {}'s socket buffer is too small for TCP to fill the link.", side.end);
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, (window + buffer).min(1.0), sentence)
        .because(format!("sending waited for {what} {} of the time", percent(window.max(buffer).min(1.0))))
        .because(match asked {
            Some(_) => format!("socket_buffer is {octets} bytes"),
            None if stays => {
                format!("net.ipv4.tcp_moderate_rcvbuf is 0, so a buffer keeps to the {octets} bytes of {sysctl}")
            }
            None => format!("{sysctl} lets a buffer grow to {octets} bytes"),
        })
        .because(format!(
            "{} bytes were on their way on average (throughput times the round trip of {} µs)",
            tidy(product),
            tidy(tcp.rtt_s? * 1e6)
        ))
        .because(short)
        .wrong_if("It is wrong if a buffer ten times as large lets no more through.")
        .explains(&[
            "receive-window",
            "send-buffer",
            "application-limited",
            "sender-cpu",
            "receiver-cpu",
            "segmentation",
        ]);
    Some(match asked {
        Some(_) => finding.attempt("socket_buffer", "auto", "throughput"),
        None if stays => finding.attempt(side.setting("sysctl.net.ipv4.tcp_moderate_rcvbuf"), "1", "throughput"),
        None => {
            let all = if sysctl.ends_with("rmem") { "4096 131072 6291456" } else { WMEM };
            finding.attempt(side.setting(&format!("sysctl.{sysctl}")), all, "throughput")
        }
    })
}

/// What is on its way is what the send buffer lets out, and nothing else held it up: without a loss TCP stays in slow start, where
/// the kernel takes the window for full unless it is twice what is on its way, and counts no wait for room (net/ipv4/tcp_output.c,
/// tcp_cwnd_validate).
fn of_tcp_uncounted(case: &Case<'_>, tcp: &TcpSummary, short: String) -> Option<Finding> {
    let (rtt_s, least_s) = (tcp.rtt_s?, tcp.min_rtt_s?);
    let unaccounted = case.share_of(&[Limit::Unaccounted]);
    if tcp.retransmissions > 0
        || is_queued(rtt_s * 1e6, least_s * 1e6)
        || unaccounted < MOST_OF_TIME
        || !case.is_unlimited()
    {
        return None;
    }
    let (side, sysctl) = (case.sender, "net.ipv4.tcp_wmem");
    let asked = case.socket_buffer();
    let octets = asked.or(side.sysctl_number(sysctl)).filter(|octets| *octets < USUAL)?;
    let product = case.throughput_bps()? / 8.0 / case.streams() * rtt_s;
    // It holds headers and bookkeeping too, and one write is taken whole as soon as there is room.
    if !(octets as f64 / 4.0..=octets.saturating_add(ONE_WRITE) as f64).contains(&product) {
        return None;
    }
    let sentence = format!("The {}'s socket buffer is too small for TCP to fill the link.", side.end);
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, unaccounted.min(1.0), sentence)
        .because(match asked {
            Some(_) => format!("socket_buffer is {octets} bytes"),
            None => format!("{sysctl} lets a buffer grow to {octets} bytes"),
        })
        .because(format!(
            "{} bytes were on their way on average (throughput times the round trip of {} µs)",
            tidy(product),
            tidy(rtt_s * 1e6)
        ))
        .because(format!(
            "nothing else is known to have held it up {} of the time: no segment was retransmitted, and no queue stood on the way",
            percent(unaccounted.min(1.0))
        ))
        .because(short)
        .wrong_if("It is wrong if a buffer ten times as large lets no more through.");
    Some(match asked {
        Some(_) => finding.attempt("socket_buffer", "auto", "throughput"),
        None => finding.attempt(side.setting(&format!("sysctl.{sysctl}")), WMEM, "throughput"),
    })
}

fn of_udp(case: &Case<'_>) -> Option<Finding> {
    let at = case.lost_at(Stage::ReceiverSocket)?;
    let side = case.receiver;
    let octets = case.socket_buffer().filter(|octets| *octets < USUAL)?;
    let rate = case.flow()?.achieved_load_bps? / case.streams();
    let sentence = format!("The {}'s socket buffer is too small for how seldom its thread comes to read.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, at.part, sentence)
            .because(at.evidence())
            .because(case.of_loss(&at))
            .because(format!(
                "socket_buffer is {octets} bytes: at the load that was sent, at most {} ms of it",
                tidy(octets as f64 * 8.0 / rate * 1e3)
            ))
            .attempt("socket_buffer", "auto", "loss")
            .wrong_if("It is wrong if a buffer ten times as large loses as many.")
            .explains(&["receive-buffer", "receiver-cpu"]),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{cases, findings};
    use super::*;

    #[test]
    fn a_wait_that_nobody_counts_is_told_by_what_was_on_its_way() {
        let name = "tcp_wmem 16 KiB over 20 ms, of which the kernel counts no wait";
        let record = || cases::cases().into_iter().find(|case| case.name == name).unwrap().record;
        let check = |is_one: bool, change: &dyn Fn(&mut crate::record::Record)| {
            let mut record = record();
            change(&mut record);
            assert_eq!(findings(&record).iter().any(|one| one.name == RULE.name), is_one);
        };
        let tcp = |record: &mut crate::record::Record, change: &dyn Fn(&mut TcpSummary)| {
            change(record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap());
        };
        check(true, &|_| {});
        check(false, &|r| tcp(r, &|tcp| tcp.retransmissions = 1));
        check(false, &|r| tcp(r, &|tcp| tcp.rtt_s = Some(35e-3)));
        // Less is on its way than the buffer lets out, and more.
        check(false, &|r| r.result.as_mut().unwrap().flow.throughput_bps = Some(1e6));
        check(false, &|r| r.result.as_mut().unwrap().flow.throughput_bps = Some(50e6));
        let wmem = "net.ipv4.tcp_wmem".to_owned();
        check(false, &|r| drop(r.target.environment.sysctls.insert(wmem.clone(), WMEM.to_owned())));
    }
}
