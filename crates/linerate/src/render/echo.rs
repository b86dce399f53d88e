//! What an echo counted, as a line for people or for programs.
//! Knows no sockets; a span comes from `commands/echo.rs`.

use std::time::Duration;

use linerate_host::echo::{EchoCounts, PortCounts};

use super::json;
use super::number::{count, percent};

/// What came in one span of time, and what became of it.
pub(crate) struct Span {
    /// From the beginning to the span's end.
    pub(crate) elapsed: Duration,
    /// Its length.
    pub(crate) length: Duration,
    /// The busy share of all CPUs.
    pub(crate) busy: Option<f64>,
    pub(crate) counts: EchoCounts,
    pub(crate) port: PortCounts,
    /// All of the echo's time.
    pub(crate) is_total: bool,
}

impl Span {
    /// Frames that were lost here for want of room: in the hardware, before the echo's socket, and on their way back, which some drivers count apart. The
    /// interface's `rx_dropped` is not among them: it counts what nobody here wanted.
    fn dropped(&self) -> u64 {
        // A veth counts what its other end did not take in both, other drivers in one of them.
        let on_the_way_back = self.port.tx_dropped.max(self.port.xdp_tx_failed.unwrap_or(0));
        self.port.rx_missed + self.counts.overrun + on_the_way_back
    }

    fn errors(&self) -> u64 {
        self.port.rx_errors + self.port.tx_errors
    }

    fn refused(&self) -> u64 {
        self.counts.multicast + self.counts.returned
    }
}

/// What stands over the lines.
pub(crate) fn heading() -> String {
    row(["time", "CPU load", "received", "sent", "dropped", "errors", "refused"].map(str::to_owned))
}

/// A span for people.
pub(crate) fn line(span: &Span) -> String {
    row([
        if span.is_total { "total".to_owned() } else { format!("{:.0} s", span.elapsed.as_secs_f64()) },
        span.busy.map_or(String::new(), |busy| format!("{} %", percent(busy))),
        count(span.counts.received),
        count(span.counts.echoed),
        count(span.dropped()),
        count(span.errors()),
        count(span.refused()),
    ])
}

fn row(cells: [String; 7]) -> String {
    const WIDTHS: [usize; 7] = [8, 10, 15, 15, 10, 10, 10];
    let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}"));
    format!("{}\n", cells.collect::<String>())
}

/// A span for programs: an object a line. What is not known is absent.
pub(crate) fn json(span: &Span) -> String {
    let Span { counts, port, .. } = span;
    json::line(serde_json::json!({
        "elapsed_s": span.elapsed.as_secs_f64(),
        "interval_s": span.length.as_secs_f64(),
        "received": counts.received,
        "received_bytes": counts.octets,
        "sent": counts.echoed,
        "dropped": span.dropped(),
        "errors": span.errors(),
        "refused": { "multicast": counts.multicast, "returned": counts.returned },
        "strangers": counts.strangers,
        "socket": { "overrun": counts.overrun, "unsent": counts.unsent },
        "interface": {
            "rx_missed": port.rx_missed,
            "rx_dropped": port.rx_dropped,
            "tx_dropped": port.tx_dropped,
            "rx_errors": port.rx_errors,
            "tx_errors": port.tx_errors,
            "xdp_tx_failed": port.xdp_tx_failed,
        },
        "cpu_busy": span.busy,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_came_and_a_program_reads_the_same() {
        let counts =
            EchoCounts { received: 402_528, octets: 1, echoed: 402_500, returned: 28, ..EchoCounts::default() };
        let port = PortCounts {
            tx_dropped: 3,
            rx_missed: 4,
            rx_errors: 1,
            rx_dropped: 9,
            xdp_tx_failed: Some(2),
            ..PortCounts::default()
        };
        let span = Span {
            elapsed: Duration::from_millis(5003),
            length: Duration::from_secs(5),
            busy: Some(0.031),
            counts,
            port,
            is_total: false,
        };
        let (heading, line) = (heading(), line(&span));
        insta::assert_snapshot!(format!("{heading}{line}"), @r"
            time  CPU load       received           sent   dropped    errors   refused
             5 s     3.1 %        402,528        402,500         7         1        28
        ");
        assert!(heading.len() == line.len() && line.len() <= 80);
        let object: serde_json::Value = serde_json::from_str(&json(&span)).unwrap();
        assert_eq!(
            (&object["dropped"], &object["cpu_busy"], &object["sent"]),
            (&7.into(), &0.031.into(), &402_500.into())
        );
        let unknown: serde_json::Value = serde_json::from_str(&json(&Span { busy: None, ..span })).unwrap();
        assert_eq!(unknown.get("cpu_busy"), None);
    }
}
