//! What left the sender, and when: tcpdump at the sender's link, and the times between departures in its file.
//! Knows no tool: all are watched from outside, in the same way.
//!
//! While traffic runs tcpdump is stopped (SIGSTOP). The kernel goes on stamping packets and putting them into the ring
//! that it shares with tcpdump (packet(7), PACKET_RX_RING; it holds all of a run), so that no reader takes CPU time from
//! the tool under test. Afterwards tcpdump is let on and writes down what it finds.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use linerate_lab::LINK_NAME;

use crate::bench::Bench;
use crate::bench::process::{Running, signal};
use crate::bench::statistics::quantile;

/// KiB; a packet of 64 octets takes some 150 in it, so that this is eight seconds at 1 Gbit/s.
const RING_KIB: &str = "131072";
const SNAP: &str = "64";
const PATIENCE: Duration = Duration::from_secs(5);
/// The Ethernet, IPv4 and UDP headers before a datagram's payload.
const HEADERS: u32 = 14 + 20 + 8;

/// tcpdump at the host's end of the link, stopped.
pub(super) struct Capture {
    tcpdump: Running,
    file: PathBuf,
}

impl Capture {
    pub(super) fn start(bench: &Bench) -> Result<Capture, String> {
        let file = std::env::temp_dir().join(format!("linerate-bench-{}.pcap", std::process::id()));
        let path = file.display().to_string();
        // In immediate mode, because the ring of the other (TPACKET_V3) hands its last block over a second late.
        // As itself: in a user namespace there is nobody else to become.
        let words = ["--immediate-mode", "-Z", "root", "-n", "-i", LINK_NAME, "-s", SNAP, "-B", RING_KIB];
        let words = [&words[..], &["--time-stamp-precision=nano", "-w", &path, "udp"]].concat();
        let tcpdump = Running::start(&bench.lab.host.path(), "tcpdump", &words)?;
        let capture = Capture { tcpdump, file };
        let deadline = Instant::now() + PATIENCE;
        while !capture.tcpdump.said().contains("listening on") {
            if Instant::now() > deadline {
                return Err(format!("tcpdump does not listen: {}", capture.tcpdump.said().trim()));
            }
            sleep(Duration::from_millis(10));
        }
        signal(capture.tcpdump.pid(), "STOP")?;
        Ok(capture)
    }

    pub(super) fn pid(&self) -> u32 {
        self.tcpdump.pid()
    }

    /// When each packet with this payload left, ns. Refused when the kernel had to drop one.
    pub(super) fn finish(mut self, octets: u32) -> Result<Vec<u64>, String> {
        signal(self.tcpdump.pid(), "CONT")?;
        let size = || fs::metadata(&self.file).map_or(0, |file| file.len());
        // It reads the ring before it hears of its end, so leave it be until it has nothing more to write.
        let (mut last, mut quiet) = (size(), 0);
        while quiet < 4 {
            sleep(Duration::from_millis(50));
            let now = size();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
        signal(self.tcpdump.pid(), "INT")?;
        self.tcpdump.wait(PATIENCE)?;
        whole(&self.tcpdump.said())?;
        let pcap = fs::read(&self.file).map_err(|error| format!("{}: {error}", self.file.display()))?;
        departures(&pcap, HEADERS + octets).ok_or_else(|| "tcpdump's file is not as pcap-savefile(5) has it".to_owned())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.tcpdump.end();
        let _ = fs::remove_file(&self.file);
    }
}

/// Whether tcpdump's closing lines say that nothing is missing.
fn whole(said: &str) -> Result<(), String> {
    let count = |what: &str| said.lines().find_map(|line| line.strip_suffix(what)?.trim().parse::<u64>().ok());
    let captured = count(" packets captured").or_else(|| count(" packet captured"));
    let seen = count(" packets received by filter").or_else(|| count(" packet received by filter"));
    let dropped = count(" packets dropped by kernel").or_else(|| count(" packet dropped by kernel"));
    match (captured, seen, dropped) {
        (Some(captured), Some(seen), Some(0)) if captured == seen => Ok(()),
        _ => Err(format!("tcpdump did not get all: {}", said.replace('\n', " ").trim())),
    }
}

/// The times of the packets of this length on the wire (pcap-savefile(5), little-endian, microseconds or nanoseconds).
fn departures(pcap: &[u8], length: u32) -> Option<Vec<u64>> {
    const MAGIC_US: u32 = 0xA1B2_C3D4;
    const MAGIC_NS: u32 = 0xA1B2_3C4D;
    let word = |at: usize| Some(u32::from_le_bytes(pcap.get(at..at + 4)?.try_into().ok()?));
    let scale = match word(0)? {
        MAGIC_NS => 1,
        MAGIC_US => 1000,
        _ => return None,
    };
    let mut times = Vec::new();
    let mut at = 24;
    while at < pcap.len() {
        let (seconds, fraction, kept, whole) = (word(at)?, word(at + 4)?, word(at + 8)?, word(at + 12)?);
        if whole == length {
            times.push(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * scale);
        }
        at += 16 + kept as usize;
    }
    Some(times)
}

/// How evenly packets left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evenness {
    /// Packets of the load's length, all of them.
    pub packets: usize,
    /// Packets per second.
    pub packets_per_s: f64,
    /// |gap − asked gap|, s: half were smaller.
    pub error_median_s: f64,
    /// Of a hundred, one was larger.
    pub error_p99_s: f64,
}

impl Evenness {
    /// Over all but the first and the last twentieth of the packets: what a tool sends before its test, and end marks
    /// that it repeats until they are heard, are no part of its pace. `None` of fewer than three.
    pub(super) fn of(times: &[u64], asked_gap_s: f64) -> Option<Evenness> {
        let cut = times.len() / 20;
        let middle = times.get(cut..times.len() - cut).filter(|middle| middle.len() > 2)?;
        // Signed: stamps come from a clock that may be stepped.
        let gaps = middle.windows(2).map(|two| (two[1] as i64 - two[0] as i64) as f64 / 1e9);
        let errors: Vec<f64> = gaps.map(|gap| (gap - asked_gap_s).abs()).collect();
        let span_s = (middle[middle.len() - 1] as i64 - middle[0] as i64) as f64 / 1e9;
        Some(Evenness {
            packets: times.len(),
            packets_per_s: (middle.len() - 1) as f64 / span_s,
            error_median_s: quantile(&errors, 0.5),
            error_p99_s: quantile(&errors, 0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with packets of (seconds, fraction, length), each kept to four octets.
    fn pcap(magic: u32, packets: &[(u32, u32, u32)]) -> Vec<u8> {
        let mut file = magic.to_le_bytes().to_vec();
        file.resize(24, 0);
        for &(seconds, fraction, length) in packets {
            for word in [seconds, fraction, 4, length, 0xFFFF_FFFF] {
                file.extend(word.to_le_bytes());
            }
        }
        file
    }

    #[test]
    fn times_of_packets_of_one_length() {
        let packets = [(1, 5, 1512), (1, 900, 60), (2, 7, 1512)];
        assert_eq!(departures(&pcap(0xA1B2_3C4D, &packets), 1512).unwrap(), [1_000_000_005, 2_000_000_007]);
        assert_eq!(departures(&pcap(0xA1B2_C3D4, &packets), 60).unwrap(), [1_000_900_000]);
        assert_eq!(departures(&pcap(0, &packets), 60), None);
        let mut cut = pcap(0xA1B2_3C4D, &packets);
        cut.truncate(cut.len() - 14);
        assert_eq!(departures(&cut, 1512), None);
    }

    #[test]
    fn even_packets_have_no_error() {
        let times: Vec<u64> = (0..1000).map(|k| k * 10_000).collect();
        let even = Evenness::of(&times, 1e-5).unwrap();
        assert!(even.error_p99_s < 1e-12 && (even.packets_per_s - 1e5).abs() < 1e-3, "{even:?}");
        // Ten at once, then a pause: nine gaps of none, one of ten.
        let times: Vec<u64> = (0..1000).map(|k| k / 10 * 100_000).collect();
        let bursts = Evenness::of(&times, 1e-5).unwrap();
        assert!(
            (bursts.error_median_s - 1e-5).abs() < 1e-12 && (bursts.error_p99_s - 9e-5).abs() < 1e-12,
            "{bursts:?}"
        );
        assert_eq!(Evenness::of(&[1, 2], 1e-5), None);
    }

    #[test]
    fn end_marks_and_greetings_are_no_part_of_the_pace() {
        let mut times: Vec<u64> = (0..1000).map(|k| 1_000_000_000 + k * 10_000).collect();
        times.insert(0, 0);
        times.extend([5_000_000_000, 9_000_000_000]);
        let even = Evenness::of(&times, 1e-5).unwrap();
        assert!((even.packets_per_s - 1e5).abs() < 1e-3 && even.packets == 1003);
    }

    #[test]
    fn a_dropped_packet_is_told() {
        let said = |captured: u32, dropped: u32| {
            format!(
                "listening on eth0\n{captured} packets captured\n9 packets received by filter\n{dropped} packets dropped by kernel\n"
            )
        };
        assert_eq!(whole(&said(9, 0)), Ok(()));
        assert!(whole(&said(8, 0)).is_err() && whole(&said(9, 1)).is_err() && whole("").is_err());
    }
}
