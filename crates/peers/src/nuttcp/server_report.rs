//! What a nuttcp server's report tells, read from its text: both the lines for people and the `name=value` pairs.
//! Knows no connections. Whatever is not understood is passed over; what is understood is bounded.

/// Intervals that are kept; what comes beyond is passed over.
const MOST_INTERVALS: usize = 10_000;
/// Lines of an error that are kept.
const MOST_ERRORS: usize = 4;
/// The longest that is kept of one.
const LONGEST_ERROR: usize = 200;
/// Octets in what nuttcp calls MB.
pub const MEGABYTE: f64 = 1_048_576.0;

/// A server's report, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReport {
    /// What it moved in all.
    pub total: Option<Total>,
    /// Its process's CPU time, seconds, in hundredths.
    pub cpu_s: Option<f64>,
    /// Of which in user mode, in tenths.
    pub user_s: Option<f64>,
    /// And in the kernel, in tenths.
    pub system_s: Option<f64>,
    /// Reads or writes.
    pub calls: Option<u64>,
    /// Segments retransmitted; a sender of one stream tells.
    pub retransmissions: Option<u64>,
    /// Maximum segment size.
    pub mss: Option<u32>,
    /// Its socket's buffer for sending, octets.
    pub send_buffer: Option<u64>,
    /// And for receiving.
    pub receive_buffer: Option<u64>,
    /// What a receiver said while it went.
    pub intervals: Vec<Interval>,
    /// What went wrong there.
    pub errors: Vec<String>,
    /// The number that the system has for it.
    pub errno: Option<i32>,
    /// The test was not taken.
    pub is_refused: bool,
}

/// Octets and time of the whole test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// In ten-thousandths of 2^20 octets.
    pub megabytes: f64,
    /// In hundredths.
    pub seconds: f64,
    /// In hundreds of bits per second.
    pub mbps: f64,
}

/// One interval of a receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Octets.
    pub octets: u64,
    /// Length, nanoseconds.
    pub ns: u64,
    /// Datagrams that did not come, by what the sender counts; less than 0 where late ones came.
    pub drops: Option<i64>,
}

impl ServerReport {
    /// Takes the next line, without its end.
    pub fn handle_line(&mut self, line: &str) {
        let own = line.strip_prefix("nuttcp-r: ").or_else(|| line.strip_prefix("nuttcp-t: "));
        match own {
            Some(own) => self.handle_own(own),
            None if line == super::line::REFUSED => self.is_refused = true,
            None if line.starts_with("errno=") => self.errno = line["errno=".len()..].parse().ok(),
            None => match interval(line).filter(|_| self.intervals.len() < MOST_INTERVALS) {
                Some(interval) => self.intervals.push(interval),
                None => self.handle_error(line),
            },
        }
    }

    fn handle_own(&mut self, line: &str) {
        if let Some(total) = total(line) {
            self.total = Some(total);
            return;
        }
        let field = |slot: &mut Option<u64>, names: [&str; 2]| {
            *slot = slot.or_else(|| names.iter().find_map(|name| after(line, name)).map(|number| number as u64));
        };
        field(&mut self.send_buffer, ["send window size = ", "send_window_size="]);
        field(&mut self.receive_buffer, ["receive window size = ", "receive_window_size="]);
        field(&mut self.retransmissions, ["retrans = ", "retrans="]);
        let mss = after(line, "mss=").map(|mss| mss.min(65_535.0) as u32);
        self.mss = self.mss.or(mss.filter(|mss| *mss > 0));
        let calls = before(line, " I/O calls").or_else(|| after(line, "io_calls="));
        self.calls = self.calls.or(calls.map(|calls| calls as u64));
        let cpu_s = before(line, " CPU seconds").or_else(|| after(line, "cpu_seconds="));
        self.cpu_s = self.cpu_s.or(cpu_s);
        let both = before(line, "user ").zip(before(line, "sys "));
        if let Some((user, system)) = both.or_else(|| after(line, "user=").zip(after(line, "system="))) {
            (self.user_s, self.system_s) = (Some(user), Some(system));
        }
        self.handle_error(line);
    }

    fn handle_error(&mut self, line: &str) {
        if let Some((_, why)) = line.split_once("Error: ")
            && self.errors.len() < MOST_ERRORS
        {
            let shown = why.chars().filter(|one| !one.is_control()).take(LONGEST_ERROR);
            self.errors.push(shown.collect());
        }
    }

    /// CPU time in user mode and in the kernel, seconds: as told in tenths, made to agree with the sum told in hundredths.
    pub fn cpu(&self) -> Option<(f64, f64)> {
        let (user, system) = self.user_s.zip(self.system_s)?;
        match self.cpu_s {
            // Less than half a tenth each: which, it does not tell, and moving data is the kernel's.
            Some(sum) if user + system == 0.0 => Some((0.0, sum)),
            Some(sum) => Some((sum * user / (user + system), sum * system / (user + system))),
            None => Some((user, system)),
        }
    }
}

impl Total {
    /// How long it took, nanoseconds: from octets and rate, which are told more exactly than the time.
    pub fn ns(&self) -> u64 {
        elapsed_ns(self.megabytes, self.seconds, self.mbps)
    }

    /// The octets, where a whole number of messages of `size` was moved; `guess` where that rounds to what was told.
    pub fn octets(&self, size: u64, guess: u64) -> u64 {
        let told = self.megabytes * MEGABYTE;
        // Half of the last digit, and what printing it may add.
        let doubt = 0.00005 * MEGABYTE + 1.0;
        if (guess as f64 - told).abs() <= doubt { guess } else { (told / size as f64).round() as u64 * size }
    }
}

fn elapsed_ns(megabytes: f64, seconds: f64, mbps: f64) -> u64 {
    let exact = megabytes * MEGABYTE * 8.0 / (mbps * 1e6);
    // Where little was moved the last digits are coarse, and the time is the better told.
    let agrees = exact.is_finite() && (exact - seconds).abs() <= 0.0051;
    ((if agrees { exact } else { seconds }) * 1e9) as u64
}

/// `254.3125 MB in 1.00 real seconds = 259906.32 KB/sec = 2129.1526 Mbps`
fn total(line: &str) -> Option<Total> {
    let plain = || Some((before(line, " MB in ")?, before(line, " real seconds")?, before(line, " Mbps")?));
    let pairs = || Some((after(line, "megabytes=")?, after(line, "real_seconds=")?, after(line, "rate_Mbps=")?));
    let (megabytes, seconds, mbps) = plain().or_else(pairs)?;
    Some(Total { megabytes, seconds, mbps })
}

/// `  548.8125 MB /   0.50 sec = 9206.5700 Mbps     0 /    37 ~drop/pkt  0.00 ~%loss`
fn interval(line: &str) -> Option<Interval> {
    let plain = || Some((before(line, " MB / ")?, before(line, " sec = ")?, before(line, " Mbps")?));
    let pairs = || Some((after(line, "megabytes=")?, after(line, "real_sec=")?, after(line, "rate_Mbps=")?));
    let (megabytes, seconds, mbps) = plain().or_else(pairs)?;
    let drops = || {
        let (before_slash, _) = line.split_once(" Mbps")?.1.split_once('/')?;
        before_slash.trim().parse::<i64>().ok()
    };
    let paired = || word(line.split_once(" drop=")?.1).parse::<i64>().ok();
    Some(Interval {
        octets: (megabytes * MEGABYTE).round() as u64,
        ns: elapsed_ns(megabytes, seconds, mbps),
        drops: drops().or_else(paired).filter(|drops| drops.unsigned_abs() < 1 << 40),
    })
}

/// The number before these words.
fn before(line: &str, words: &str) -> Option<f64> {
    let (start, _) = line.split_once(words)?;
    number(start.rsplit([' ', '=']).next()?)
}

/// The number after these words.
fn after(line: &str, words: &str) -> Option<f64> {
    number(word(line.split_once(words)?.1))
}

fn word(text: &str) -> &str {
    text.split([' ', ',']).next().unwrap_or(text)
}

/// A number that no honest machine exceeds.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| (0.0..1e12).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> ServerReport {
        let mut told = ServerReport::default();
        text.lines().for_each(|line| told.handle_line(line));
        told
    }

    #[test]
    fn the_real_servers_report_is_read() {
        // 6.1.2, asked by its own client: -r -T1.
        let sender = told(
            "nuttcp-t: v6.1.2: socket\nnuttcp-t: buflen=65536, nstream=1, port=5001 tcp -> 127.0.0.1\n\
             nuttcp-t: time limit = 1.00 second\nnuttcp-t: connect to 127.0.0.1 with mss=32741, RTT=0.311 ms\n\
             nuttcp-t: send window size = 4194304, receive window size = 131072\n\
             nuttcp-t: available send window = 2097152, available receive window = 65536\n\
             nuttcp-t: 1137.6875 MB in 1.00 real seconds = 1164856.88 KB/sec = 9542.5075 Mbps\n\
             nuttcp-t: 1137.6875 MB in 0.40 CPU seconds = 2911126.33 KB/cpu sec\nnuttcp-t: retrans = 3\n\
             nuttcp-t: 18203 I/O calls, msec/call = 0.06, calls/sec = 18200.89\n\
             nuttcp-t: 0.1user 0.4sys 0:01real 41% 0i+0d 1044maxrss 0+0pf 36452+5csw\n",
        );
        let total = sender.total.unwrap();
        assert_eq!(total.octets(65_536, 0), 18_203 * 65_536);
        assert_eq!(total.ns() / 100_000, 10_001, "1.0001 s");
        assert_eq!((sender.calls, sender.retransmissions, sender.mss), (Some(18_203), Some(3), Some(32_741)));
        assert_eq!((sender.send_buffer, sender.receive_buffer), (Some(4_194_304), Some(131_072)));
        let (user, system) = sender.cpu().unwrap();
        assert!((user - 0.08).abs() < 1e-9 && (system - 0.32).abs() < 1e-9, "in hundredths, shared as in tenths");
        assert!(!sender.is_refused && sender.errors.is_empty() && sender.intervals.is_empty());
    }

    #[test]
    fn pairs_say_the_same() {
        // 6.1.2: -fparse -u -R 10m -T1 -i.5.
        let receiver = told(
            "nuttcp-r: v6.1.2: socket\nnuttcp-r: buflen=8192 nstream=1 port=5001 mode=udp\n\
             nuttcp-r: reporting_interval=0.50\nnuttcp-r: send_window_size=212992 receive_window_size=212992\n\
             megabytes=0.5938 real_sec=0.50 rate_Mbps=9.9583 drop=2 pkt=76 data_loss=0.00000\nDONE\n\
             nuttcp-r: megabytes=1.1953 real_seconds=1.00 rate_KBps=1220.65 rate_Mbps=9.9996\n\
             nuttcp-r: megabytes=1.1953 cpu_seconds=0.01 KB_per_cpu_second=109963.17\n\
             nuttcp-r: io_calls=157 msec_per_call=6.54 calls_per_sec=156.57\n\
             nuttcp-r: stats=cpu user=0.0 system=0.0 elapsed=0:01 cpu=0% memory=0i+0d-1044maxrss io=0+0pf swaps=5+0csw\n",
        );
        assert_eq!(receiver.total.unwrap().octets(8192, 0), 153 * 8192);
        assert_eq!((receiver.calls, receiver.cpu()), (Some(157), Some((0.0, 0.01))));
        assert_eq!((receiver.send_buffer, receiver.receive_buffer), (Some(212_992), Some(212_992)));
        let [interval] = receiver.intervals[..] else { panic!("{receiver:?}") };
        assert_eq!(((interval.octets + 4096) / 8192, interval.drops), (76, Some(2)));
    }

    #[test]
    fn intervals_are_read() {
        #[track_caller]
        fn check(line: &str, octets: u64, ms: u64, drops: Option<i64>) {
            let read = interval(line).unwrap();
            assert_eq!((read.octets, read.ns / 1_000_000, read.drops), (octets, ms, drops), "{line}");
        }
        check("   97.5000 MB /   0.50 sec = 1635.3370 Mbps     0 retrans", 102_236_160, 500, None);
        check("  121.6250 MB /   0.50 sec = 2039.9128 Mbps", 127_533_056, 500, None);
        check(
            "    0.2969 MB /   0.50 sec =    4.9801 Mbps     3 /    38 ~drop/pkt  7.89 ~%loss",
            311_322,
            500,
            Some(3),
        );
        let total = "    0.0059 MB /   0.50 sec =    0.0993 Mbps    -1 /    97 ~drop/pkt  0.00 ~%loss Tot:     0.0059 MB /   0.50 sec =    0.0993 Mbps     0 /    97 ~drop/pkt  0.00 ~%loss";
        check(total, 6187, 498, Some(-1));
        check("    0.0000 MB /   0.30 sec =    0.0000 Mbps     0 /     0 ~drop/pkt  0.00 ~%loss", 0, 300, Some(0));
    }

    #[test]
    fn octets_are_as_exact_as_they_can_be() {
        let total = |megabytes| Total { megabytes, seconds: 1.0, mbps: 1.0 };
        assert_eq!(total(0.6016).octets(8192, 0), 77 * 8192);
        assert_eq!(total(0.0119).octets(32, 390 * 32), 390 * 32, "390 of 32 octets round to it");
        assert_eq!(total(0.0119).octets(32, 400 * 32), 390 * 32, "400 do not");
    }

    #[test]
    fn a_refusal_and_its_reasons_are_kept() {
        let refused = told("nuttcp-r: v6.1.2: socket\nnuttcp-r: v6.1.2: Error: bind: Address already in use\nKO\n");
        assert_eq!(
            (refused.is_refused, refused.errors.as_slice()),
            (true, &["bind: Address already in use".to_owned()][..])
        );
        let many = told(&format!("nuttcp-r: Error: {}\n", "x\x07".repeat(5000)).repeat(50));
        assert_eq!((many.errors.len(), many.errors[0].len()), (MOST_ERRORS, LONGEST_ERROR));
    }

    #[test]
    fn nonsense_tells_nothing() {
        let none = told(
            "\n=\nnuttcp-r: \nnuttcp-r: MB in real seconds = Mbps\nnuttcp-t: nan MB in inf real seconds = -1 Mbps\n",
        );
        assert_eq!(none, ServerReport::default());
        let huge = told("nuttcp-r: 1e400 MB in 1.00 real seconds = 1.00 KB/sec = 1.0 Mbps\n");
        assert_eq!(huge.total, None);
        let line = "    1.0000 MB /   0.50 sec = 1.0000 Mbps\n";
        assert_eq!(told(&line.repeat(20_000)).intervals.len(), MOST_INTERVALS);
    }
}
