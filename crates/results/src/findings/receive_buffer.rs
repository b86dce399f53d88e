//! The receiving socket's buffer ran full, by whatever cause.
//! Knows what Linux gives; threads that starve, or have no time, are other rules.

use linerate_machine::units::format_size;
use linerate_path::stage::Stage;
use linerate_trial::spec::Workload;

use super::case::{Case, Side, percent};
use super::words::were;
use super::{Finding, Rule, Sureness};

pub(super) const RULE: Rule = Rule {
    name: "receive-buffer",
    says: "The receiving socket's buffer runs full, or the memory of all of them: what arrives between two looks of the reader does not fit it.",
    rests_on: "A loss of at least 10 datagrams, and 5 % of what was lost, at the stage receiver socket. Or TCP that came short while an end \
               counted memory pressure (TcpExt TCPMemoryPressures, TCPAbortOnMemory).",
    source: "socket(7), SO_RCVBUF; udp(7); RFC 4113 and Linux's Udp RcvbufErrors.",
    suggests: &["socket_buffer", "sysctl.net.core.rmem_default", "sysctl.net.ipv4.udp_mem", "sysctl.net.ipv4.tcp_mem"],
    find,
};

/// Memory of all TCP sockets together: beyond it the kernel throws away what it has, and announces no window.
fn find_tcp_memory(case: &Case<'_>) -> Option<Finding> {
    let tcp = case.tcp().filter(|_| case.is(Workload::TcpStream))?;
    let short = case.short()?;
    let pressed = |side: &Side<'_>| {
        let names =
            ["TcpExt TCPMemoryPressures", "TcpExt TCPAbortOnMemory", "TcpExt PruneCalled", "TcpExt TCPRcvQDrop"];
        let counters = names.map(|name| (name, side.counter(name).unwrap_or(0)));
        // A single socket whose buffer is full is pruned as well: pressure is of all of them.
        let is_pressed = counters[..2].iter().any(|(_, value)| *value > 0);
        let said = counters.into_iter().filter(|(_, value)| *value > 0).map(|(name, value)| format!("{name} {value}"));
        is_pressed.then(|| said.collect::<Vec<_>>().join(", "))
    };
    let (side, counters) = [case.receiver, case.sender].into_iter().find_map(|side| Some((side, pressed(&side)?)))?;
    let sentence = format!("The {}'s memory for TCP is used up ({TCP_MEM}); no socket's buffer is full.", side.end);
    Some(
        RULE.finds(case, Some(side.end), Sureness::Likely, 0.95, sentence)
            .because(format!("{}: {counters}", side.end))
            .because_of(side.sysctl(TCP_MEM).map(|pages| format!("{TCP_MEM} is {pages} pages")))
            .because(format!("{} retransmitted", were(tcp.retransmissions, "segment")))
            .because(short)
            .attempt(side.setting(&format!("sysctl.{TCP_MEM}")), "262144 524288 1048576", "throughput")
            .wrong_if("It is wrong if as little comes through with ten times the pages in net.ipv4.tcp_mem.")
            .explains(&["receive-window", "small-buffer", "lossy-path", "outage", "unaccounted", "stack-drops"]),
    )
}

/// Pages of memory of all TCP sockets: min, pressure, max (tcp(7)).
const TCP_MEM: &str = "net.ipv4.tcp_mem";

fn find(case: &Case<'_>) -> Option<Finding> {
    if let Some(finding) = find_tcp_memory(case) {
        return Some(finding);
    }
    let at = case.lost_at(Stage::ReceiverSocket)?;
    let side = case.receiver;
    // The stage is the same, the cause another: memory of all sockets together.
    let out_of_memory = side.counter("Udp MemErrors").unwrap_or(0);
    if out_of_memory >= at.packets.div_ceil(2) {
        let sentence = format!("The {}'s memory for UDP is used up; no socket's buffer is full.", side.end);
        return Some(
            RULE.finds(case, Some(side.end), Sureness::Likely, at.part, sentence)
                .because(format!("{}: Udp MemErrors {out_of_memory}", side.end))
                .because(at.evidence())
                .because(case.of_loss(&at))
                .attempt(side.setting("sysctl.net.ipv4.udp_mem"), "262144 524288 1048576", "loss")
                .wrong_if("It is wrong if as many are lost with ten times the pages in net.ipv4.udp_mem."),
        );
    }
    let most = side.sysctl_number("net.core.rmem_max");
    let usual = side.sysctl_number("net.core.rmem_default");
    let sentence = format!("The {}'s socket buffer ran full before its thread came to read.", side.end);
    let mut finding = RULE
        .finds(case, Some(side.end), case.sure_of(&at), at.part, sentence)
        .because(at.evidence())
        .because(case.of_loss(&at))
        .because(match case.socket_buffer() {
            Some(asked) => format!("socket_buffer was asked to be {}", format_size(asked)),
            _ => match usual {
                Some(octets) => format!("the buffer is what the system gives: {octets} bytes"),
                None => "the buffer is what the system gives, which is not known".to_owned(),
            },
        })
        .because_of(side.thread_shares(case).map(|(worked, waited)| {
            format!("its threads worked {} of the time and waited for a CPU {}", percent(worked), percent(waited))
        }))
        .wrong_if("It is wrong if a buffer ten times as large loses as many: then the reader is too slow, ever.");
    // What is asked for is doubled and clamped by rmem_max (socket(7)).
    if let (Some(most), Some(usual)) = (most, usual)
        && case.socket_buffer().is_none()
        && most > usual
    {
        finding = finding.attempt("socket_buffer", most.to_string(), "loss");
    }
    // TCP has its own (tcp_rmem).
    Some(match case.is(Workload::TcpStream) {
        true => finding,
        false => finding.attempt(side.setting("sysctl.net.core.rmem_default"), "4194304", "loss"),
    })
}
