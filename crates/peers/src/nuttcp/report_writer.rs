//! What our nuttcp server writes of a test: the lines that nuttcp's clients read and show.
//! Knows no connections; the figures are given.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use linerate_trial::outcome::ThreadUse;

use super::line::{FORMAT_PAIRS, FORMAT_RUNNING, Request, Version};
use super::server_report::MEGABYTE;

/// Interval lines without datagrams that did not come.
const FORMAT_NO_DROPS: u32 = 8;
/// Or without their share.
const FORMAT_NO_SHARE: u32 = 0x10;
/// Interval lines have what was sent, too.
const FORMAT_SENT: u32 = 1;

/// What is known when the data connections are open.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The client.
    pub peer: IpAddr,
    /// How long a connection took to open, of those that this end opens.
    pub rtt: Option<Duration>,
    /// Maximum segment size.
    pub mss: Option<u32>,
    /// The socket's buffers: sending, receiving.
    pub buffers: [usize; 2],
}

/// A part of a test, or all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Octets that this end moved.
    pub octets: u64,
    /// In this time.
    pub elapsed: Duration,
    /// Datagrams that came.
    pub packets: u64,
    /// Datagrams that did not, by the sender's count; `None` where that is not known, or over TCP.
    pub drops: Option<i64>,
}

/// The whole test.
#[derive(Clone, Debug, Default)]
pub struct Closing {
    /// All of it.
    pub all: Part,
    /// What the threads that moved the data used.
    pub threads: ThreadUse,
    /// Reads or writes.
    pub calls: u64,
    /// Segments retransmitted; a sender of one stream knows.
    pub retransmissions: Option<u64>,
}

fn megabytes(octets: u64) -> f64 {
    octets as f64 / MEGABYTE
}

/// Per second, or 0 of no time.
fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn mbps(part: &Part) -> f64 {
    per_second(part.octets as f64 * 8e-6, part.elapsed.as_secs_f64())
}

/// How a client wants it.
pub struct Writer<'a> {
    /// What it asked.
    pub asked: &'a Request,
}

impl Writer<'_> {
    fn pairs(&self) -> bool {
        self.asked.format & FORMAT_PAIRS != 0
    }

    /// What each line of this end's begins with.
    fn name(&self) -> &'static str {
        if self.asked.client_sends { "nuttcp-r:" } else { "nuttcp-t:" }
    }

    /// The lines before the data.
    pub fn opening(&self, opening: &Opening) -> String {
        let (asked, name) = (self.asked, self.name());
        let mode = if asked.udp { "udp" } else { "tcp" };
        let mut text = format!("{name} v{}: socket\n", Version::OURS);
        let buffers = asked.nbuf.map(|nbuf| format!("nbuf={nbuf}"));
        let sends_to = (!asked.client_sends).then_some(opening.peer);
        let [send, receive] = opening.buffers;
        if self.pairs() {
            let nbuf = buffers.map(|nbuf| format!(" {nbuf}")).unwrap_or_default();
            let host = sends_to.map(|peer| format!(" host={peer}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "{name} buflen={}{nbuf} nstream={} port={} mode={mode}{host}",
                asked.buflen, asked.nstream, asked.port
            );
        } else {
            let nbuf = buffers.map(|nbuf| format!(" {nbuf},")).unwrap_or_default();
            let host = sends_to.map(|peer| format!(" -> {peer}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "{name} buflen={},{nbuf} nstream={}, port={} {mode}{host}",
                asked.buflen, asked.nstream, asked.port
            );
        }
        text += &self.limits();
        text += &self.connection(opening);
        let (send_half, receive_half) = (send / 2, receive / 2);
        let _ = if self.pairs() {
            writeln!(
                text,
                "{name} send_window_size={send} receive_window_size={receive}\n\
                 {name} send_window_avail={send_half} receive_window_avail={receive_half}"
            )
        } else {
            writeln!(
                text,
                "{name} send window size = {send}, receive window size = {receive}\n\
                 {name} available send window = {send_half}, available receive window = {receive_half}"
            )
        };
        text
    }

    /// Time, rate and intervals, where there are such.
    fn limits(&self) -> String {
        let (asked, name, pairs) = (self.asked, self.name(), self.pairs());
        let mut text = String::new();
        let plural = |seconds: f64| if seconds == 1.0 { "second" } else { "seconds" };
        let (limit, interval) = (asked.timeout.as_secs_f64(), asked.interval.as_secs_f64());
        if !asked.client_sends && limit > 0.0 {
            let _ = if pairs {
                writeln!(text, "{name} time_limit={limit:.2}")
            } else {
                writeln!(text, "{name} time limit = {limit:.2} {}", plural(limit))
            };
        }
        if let Some(kbps) = asked.rate_kbps.filter(|_| !asked.client_sends) {
            let rate = kbps as f64 / 1000.0;
            let _ = if pairs {
                writeln!(text, "{name} rate_limit={rate:.3} rate_unit=Mbps rate_mode=aggregate")
            } else {
                writeln!(text, "{name} rate limit = {rate:.3} Mbps (aggregate)")
            };
        }
        if asked.client_sends && interval > 0.0 {
            let _ = if pairs {
                writeln!(text, "{name} reporting_interval={interval:.2}")
            } else {
                writeln!(text, "{name} interval reporting every {interval:.2} {}", plural(interval))
            };
        }
        text
    }

    /// Who opened the connection; nobody does over UDP.
    fn connection(&self, opening: &Opening) -> String {
        if self.asked.udp {
            return String::new();
        }
        let (name, peer) = (self.name(), opening.peer);
        let mss = opening.mss.filter(|_| !self.asked.client_sends);
        let milliseconds = opening.rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
        if self.pairs() {
            let word = if milliseconds.is_some() { "connect" } else { "accept" };
            let mss = mss.map(|mss| format!(" mss={mss}")).unwrap_or_default();
            let rtt = milliseconds.map(|ms| format!(" rtt_ms={ms:.3}")).unwrap_or_default();
            return format!("{name} {word}={peer}{mss}{rtt}\n");
        }
        let word = if milliseconds.is_some() { "connect to" } else { "accept from" };
        let known = [mss.map(|mss| format!("mss={mss}")), milliseconds.map(|ms| format!("RTT={ms:.3} ms"))];
        let known: Vec<String> = known.into_iter().flatten().collect();
        let with = if known.is_empty() { String::new() } else { format!(" with {}", known.join(", ")) };
        format!("{name} {word} {peer}{with}\n")
    }

    /// A line of an interval; `so_far` is all up to its end.
    pub fn interval(&self, part: &Part, so_far: &Part) -> String {
        if self.pairs() {
            let mut text = format!(
                "megabytes={:.4} real_sec={:.2} rate_Mbps={:.4}",
                megabytes(part.octets),
                part.elapsed.as_secs_f64(),
                mbps(part)
            );
            if let Some(drops) = part.drops {
                let sent = part.packets as i64 + drops;
                let share = if sent > 0 { drops as f64 / sent as f64 * 100.0 } else { 0.0 };
                let _ = write!(text, " drop={drops} pkt={sent} data_loss={share:.5}");
            }
            return text + "\n";
        }
        let mut text = self.plain(part);
        if self.asked.format & FORMAT_RUNNING != 0 {
            let _ = write!(text, " Tot: {}", self.plain(so_far));
        }
        if let Some(drops) = so_far.drops.filter(|_| self.asked.format & FORMAT_SENT != 0) {
            let sent = (so_far.packets as i64 + drops).max(0) as u64 * u64::from(self.asked.buflen);
            let _ = write!(text, " Trans: {:10.4} MB", megabytes(sent));
        }
        text + "\n"
    }

    fn plain(&self, part: &Part) -> String {
        let seconds = part.elapsed.as_secs_f64();
        let mut text = format!("{:10.4} MB / {seconds:6.2} sec = {:9.4} Mbps", megabytes(part.octets), mbps(part));
        if let Some(drops) = part.drops.filter(|_| self.asked.format & FORMAT_NO_DROPS == 0) {
            let sent = part.packets as i64 + drops;
            let _ = write!(text, " {drops:5} / {sent:5} ~drop/pkt");
            if self.asked.format & FORMAT_NO_SHARE == 0 {
                let share = if sent > 0 { drops as f64 / sent as f64 * 100.0 } else { 0.0 };
                let _ = write!(text, " {share:5.2} ~%loss");
            }
        }
        text
    }

    /// The lines after the data.
    pub fn closing(&self, closing: &Closing) -> String {
        let name = self.name();
        let Closing { all, threads, calls, .. } = closing;
        let (mb, seconds) = (megabytes(all.octets), all.elapsed.as_secs_f64());
        let kib = all.octets as f64 / 1024.0;
        let (rate_kib, rate_mbps) = (per_second(kib, seconds), mbps(all));
        let cpu_s = threads.user_s + threads.system_s;
        let percent = per_second(cpu_s * 100.0, seconds).round();
        let (each_ms, a_second) = (per_second(seconds * 1e3, *calls as f64), per_second(*calls as f64, seconds));
        let real = format!("{}:{:02}", seconds as u64 / 60, seconds as u64 % 60);
        let faults = format!("{}+{}pf", threads.major_faults, threads.minor_faults);
        let switches = format!("{}+{}csw", threads.voluntary_switches, threads.involuntary_switches);
        let mut text = String::new();
        if self.asked.client_sends && !self.asked.interval.is_zero() {
            text += "DONE\n";
        }
        if self.pairs() {
            let _ = writeln!(
                text,
                "{name} megabytes={mb:.4} real_seconds={seconds:.2} rate_KBps={rate_kib:.2} rate_Mbps={rate_mbps:.4}\n\
                 {name} megabytes={mb:.4} cpu_seconds={cpu_s:.2} KB_per_cpu_second={:.2}",
                per_second(kib, cpu_s)
            );
            let _ = closing.retransmissions.map(|count| writeln!(text, "{name} retrans={count}"));
            let _ = writeln!(
                text,
                "{name} io_calls={calls} msec_per_call={each_ms:.2} calls_per_sec={a_second:.2}\n\
                 {name} stats=cpu user={:.1} system={:.1} elapsed={real} cpu={percent}% memory=0i+0d-0maxrss io={faults} \
                 swaps={switches}",
                threads.user_s, threads.system_s
            );
        } else {
            let _ = writeln!(
                text,
                "{name} {mb:.4} MB in {seconds:.2} real seconds = {rate_kib:.2} KB/sec = {rate_mbps:.4} Mbps\n\
                 {name} {mb:.4} MB in {cpu_s:.2} CPU seconds = {:.2} KB/cpu sec",
                per_second(kib, cpu_s)
            );
            let _ = closing.retransmissions.map(|count| writeln!(text, "{name} retrans = {count}"));
            let _ = writeln!(
                text,
                "{name} {calls} I/O calls, msec/call = {each_ms:.2}, calls/sec = {a_second:.2}\n\
                 {name} {:.1}user {:.1}sys {real}real {percent}% 0i+0d 0maxrss {faults} {switches}",
                threads.user_s, threads.system_s
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::server_report::ServerReport;
    use super::*;

    fn closing() -> Closing {
        let all = Part { octets: 77 * 8192, elapsed: Duration::from_millis(1009), packets: 77, drops: Some(0) };
        let threads = ThreadUse { user_s: 0.05, system_s: 0.15, voluntary_switches: 240, ..ThreadUse::default() };
        Closing { all, threads, calls: 81, retransmissions: None }
    }

    #[test]
    fn the_report_is_as_the_peers_write_it() {
        let mut asked = Request::new(true);
        let text = Writer { asked: &asked }.closing(&closing());
        assert_eq!(
            text,
            "nuttcp-r: 0.6016 MB in 1.01 real seconds = 610.51 KB/sec = 5.0013 Mbps\n\
             nuttcp-r: 0.6016 MB in 0.20 CPU seconds = 3080.00 KB/cpu sec\n\
             nuttcp-r: 81 I/O calls, msec/call = 12.46, calls/sec = 80.28\n\
             nuttcp-r: 0.1user 0.1sys 0:01real 20% 0i+0d 0maxrss 0+0pf 240+0csw\n"
        );
        asked.interval = Duration::from_millis(500);
        assert!(Writer { asked: &asked }.closing(&closing()).starts_with("DONE\nnuttcp-r: 0.6016 MB"));
    }

    #[test]
    fn what_is_written_is_read() {
        for (format, client_sends) in [(0, true), (0, false), (FORMAT_PAIRS, true), (FORMAT_PAIRS, false)] {
            let asked = Request { format, client_sends, ..Request::new(false) };
            let writer = Writer { asked: &asked };
            let opening = Opening {
                peer: [192, 0, 2, 1].into(),
                rtt: (!client_sends).then_some(Duration::from_micros(311)),
                mss: Some(1448),
                buffers: [4_194_304, 131_072],
            };
            let closing = Closing { retransmissions: (!client_sends).then_some(3), ..closing() };
            let part = Part { drops: None, ..closing.all };
            let text = writer.opening(&opening) + &writer.interval(&part, &part) + &writer.closing(&closing);
            let mut told = ServerReport::default();
            text.lines().for_each(|line| told.handle_line(line));
            assert_eq!(told.total.unwrap().octets(8192, 0), 77 * 8192, "{text}");
            assert_eq!((told.calls, told.retransmissions), (Some(81), closing.retransmissions), "{text}");
            assert_eq!((told.send_buffer, told.receive_buffer), (Some(4_194_304), Some(131_072)), "{text}");
            assert_eq!(told.mss, (!client_sends).then_some(1448), "{text}");
            assert_eq!(told.intervals.len(), 1, "{text}");
            assert!(told.errors.is_empty() && told.cpu().is_some(), "{text}");
        }
    }

    #[test]
    fn intervals_are_as_asked() {
        let part = Part { octets: 311_296, elapsed: Duration::from_millis(500), packets: 38, drops: Some(2) };
        #[track_caller]
        fn check(format: u32, part: &Part, line: &str) {
            let asked = Request { format, ..Request::new(true) };
            assert_eq!(Writer { asked: &asked }.interval(part, part), format!("{line}\n"));
        }
        let plain = "    0.2969 MB /   0.50 sec =    4.9807 Mbps";
        check(0, &part, &format!("{plain}     2 /    40 ~drop/pkt  5.00 ~%loss"));
        check(8, &part, plain);
        check(0x10, &part, &format!("{plain}     2 /    40 ~drop/pkt"));
        check(8 | 4, &part, &format!("{plain} Tot: {plain}"));
        check(1, &part, &format!("{plain}     2 /    40 ~drop/pkt  5.00 ~%loss Trans:     0.3125 MB"));
        check(0, &Part { drops: None, ..part }, plain);
        check(0x40, &part, "megabytes=0.2969 real_sec=0.50 rate_Mbps=4.9807 drop=2 pkt=40 data_loss=5.00000");
    }
}
