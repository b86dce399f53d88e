//! Boards without an OS: every frame comes back, a full ring is no end, and an iperf2 server's count is the host's.

use std::collections::VecDeque;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use linerate_lab::boards::{Board, Program};
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;

use crate::lab::{CAMPAIGN, Lab};
use crate::machines::{Bench, parent};

/// Frames that are echoed, of 64 to 1518 bytes with FCS.
const FRAMES: usize = 1000;
/// So many are on their way at a time: a quarter of a ring.
const AT_ONCE: usize = 8;
/// Descriptors of a firmware's ring (firmware/src/serve.rs).
const RING: usize = 32;
/// An emulated board answers in a fraction of a millisecond, and in this where others want the CPU.
const PATIENCE: Duration = Duration::from_secs(20);
/// A statistics line comes every 5 s.
const LINE: Duration = Duration::from_secs(30);

const HOST_MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const BOARD_MAC: [u8; 6] = [0x02, 0, 198, 18, 0, 2];

/// A bare board on a cable of which this test holds the other end: a datagram is a frame.
struct Wire {
    qemu: Child,
    socket: UdpSocket,
    console: PathBuf,
    bench: Bench,
}

impl Wire {
    /// Starts it; `None`, and a line that says why, where it cannot be or was not asked for.
    fn up(name: &'static str) -> Option<Wire> {
        let Some(asked) = std::env::var_os("LINERATE_BOARDS") else {
            eprintln!("SKIPPED board {name}: LINERATE_BOARDS=1 asks for emulated boards");
            return None;
        };
        let board = Board::find(name).expect("it is in the table");
        let file = firmware(board);
        let lacks = match board.lacks(Path::new("/nonexistent")) {
            None if !file.is_file() => Some(format!("{} is not built; cargo xtask firmware does that", file.display())),
            lacks => lacks,
        };
        if let Some(why) = lacks {
            assert!(asked != "all", "LINERATE_BOARDS=all demands the board {name}: {why}");
            eprintln!("SKIPPED board {name}: {why}");
            return None;
        }
        let bench = Bench::bare(name);
        let console = bench.folder.0.join("console.log");
        let [socket, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
        let ports = [&socket, &far].map(|socket| socket.local_addr().expect("it is bound").port());
        // QEMU takes the far end's port.
        drop(far);
        socket.connect(("127.0.0.1", ports[1])).expect("a datagram socket connects");
        let cable = format!(
            "dgram,local.type=inet,local.host=127.0.0.1,local.port={},remote.type=inet,remote.host=127.0.0.1,remote.port={}",
            ports[1], ports[0]
        );
        let mut command = board.bare_qemu(&file, &cable, &console).expect("it is bare");
        let qemu = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("QEMU starts");
        let wire = Wire { qemu, socket, console, bench };
        wire.wait_for("a greeting", |console| console.contains("linerate firmware: "));
        Some(wire)
    }

    fn wait_for(&self, what: &str, found: impl Fn(&str) -> bool) {
        let read = || String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned();
        self.bench.wait_until(what, LINE, || found(&read()));
    }

    /// The last whole line of the console with this word.
    fn line(&self, word: &str) -> Option<String> {
        let console = fs::read_to_string(&self.console).unwrap_or_default();
        let (whole, _) = console.rsplit_once('\n')?;
        whole.lines().rfind(|line| line.contains(word)).map(|line| line.trim().to_owned())
    }

    fn send(&self, frame: &[u8]) {
        self.socket.send(frame).expect("QEMU is there");
    }

    fn receive_within(&self, time: Duration) -> Option<Vec<u8>> {
        self.socket.set_read_timeout(Some(time)).expect("a time-out");
        let mut buffer = [0; 16384];
        let len = self.socket.recv(&mut buffer).ok()?;
        Some(buffer[..len].to_vec())
    }

    /// Sends frames, a few at a time, and sees each come back with its addresses swapped, in order and otherwise intact.
    fn echo(&self, frames: impl Iterator<Item = Vec<u8>>) {
        let mut away: VecDeque<Vec<u8>> = VecDeque::new();
        let check = |away: &mut VecDeque<Vec<u8>>| {
            let mut expected = away.pop_front().expect("one is away");
            expected[..12].rotate_left(6);
            let got = self.receive_within(PATIENCE).expect("a frame comes back");
            assert!(got == expected, "{} bytes came back as {}: {got:02x?}", expected.len(), got.len());
        };
        for frame in frames {
            self.send(&frame);
            away.push_back(frame);
            if away.len() == AT_ONCE {
                check(&mut away);
            }
        }
        while !away.is_empty() {
            check(&mut away);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if std::thread::panicking() {
            eprintln!("its console: {}", fs::read_to_string(&self.console).unwrap_or_default());
        }
    }
}

/// Where `cargo xtask firmware` puts it.
fn firmware(board: &Board) -> PathBuf {
    let Program::Firmware(name) = board.runs() else { panic!("{} is not bare", board.name) };
    let beside = Path::new(env!("CARGO_BIN_EXE_linerate")).with_file_name("../agents");
    let folder = std::env::var_os("LINERATE_AGENTS").map_or(beside, PathBuf::from);
    folder.join(format!("linerate-firmware-{name}"))
}

/// Numbers by chance, from a seed that is said.
struct Chance(u64);

impl Chance {
    fn fresh() -> Chance {
        let seed = UNIX_EPOCH.elapsed().expect("it is after 1970").as_nanos() as u64 | 1;
        eprintln!("seed {seed}");
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A frame of one of so many lengths, from the shortest.
    fn short_frame(&mut self, lengths: u64) -> Vec<u8> {
        let len = 60 + self.next() % lengths;
        self.frame(len as usize)
    }

    /// A frame of so many bytes without FCS, of a type for local experiments, full of chance.
    fn frame(&mut self, len: usize) -> Vec<u8> {
        let mut frame = [&BOARD_MAC[..], &HOST_MAC, &[0x88, 0xb6]].concat();
        frame.resize_with(len, || self.next() as u8);
        frame
    }
}

/// The largest frames of RMON's classes, with FCS, and how many of these frames are in each.
fn classes(lens: &[usize]) -> String {
    let bounds = [0, 64, 127, 255, 511, 1023, 1518];
    let count = |pair: &[usize]| lens.iter().filter(|&&len| (pair[0] + 1..=pair[1]).contains(&(len + 4))).count();
    bounds.windows(2).map(|pair| format!("{}={} ", pair[1], count(pair))).collect()
}

/// The board's echo: 1,000 frames intact and counted by size, a burst of five rings survived; `jumbo` sizes too.
#[track_caller]
fn check_echo(name: &'static str, jumbo: &[usize]) {
    let Some(wire) = Wire::up(name) else { return };
    let mut chance = Chance::fresh();
    // Every size once or never would miss the ends.
    let lens: Vec<usize> =
        [60, 61, 1513, 1514].into_iter().chain((4..FRAMES).map(|_| 60 + chance.next() as usize % 1455)).collect();
    wire.echo(lens.iter().map(|&len| chance.frame(len)));
    let counted =
        format!("echoed={FRAMES} arp=0 pings=0 iperf2=0 ignored=0 sizes {}more=0 faulty=0 unsent=0", classes(&lens));
    wire.wait_for("a line of statistics", |_| {
        wire.line("t=").is_some_and(|line| line.contains(&format!("echoed={FRAMES} ")))
    });
    let line = wire.line("t=").expect("it is there");
    assert!(line.contains(&counted), "{line}\nhas not\n{counted}");

    for _ in 0..3 {
        let burst: Vec<Vec<u8>> = (0..5 * RING).map(|_| chance.short_frame(200)).collect();
        burst.iter().for_each(|frame| wire.send(frame));
        // Then one that no other looks like; what of the burst was not lost comes before it.
        let mark = chance.frame(300);
        let is_alive = (0..PATIENCE.as_secs()).any(|_| {
            wire.send(&mark);
            std::iter::from_fn(|| wire.receive_within(Duration::from_secs(1))).any(|frame| frame[12..] == mark[12..])
        });
        assert!(is_alive, "{name} answers no more after a burst of five rings");
        while wire.receive_within(Duration::from_millis(300)).is_some() {}
    }
    wire.echo((0..100).map(|_| chance.short_frame(1455)).collect::<Vec<_>>().into_iter());
    wire.echo(jumbo.iter().map(|&len| chance.frame(len)).collect::<Vec<_>>().into_iter());
}

#[test]
fn sabrelite_echoes() {
    check_echo("sabrelite-bare", &[]);
}

#[test]
fn mcimx6ul_evk_echoes() {
    check_echo("mcimx6ul-evk-bare", &[]);
}

#[test]
fn zynq_a9_echoes() {
    check_echo("zynq-a9-bare", &[]);
}

#[test]
fn zcu102_echoes() {
    check_echo("zcu102-bare", &[1515, 2048, 4000, 8191]);
}

#[test]
fn sifive_u_echoes() {
    check_echo("sifive-u-bare", &[1515, 2048, 4000, 8191]);
}

#[test]
fn microblaze_v_echoes() {
    // Its memory for a frame has 4 KiB, in QEMU.
    check_echo("microblaze-v-bare", &[1600, 2048, 4092]);
}

/// The numbers after `received=` and `lost=` in the console's last line of a test.
fn told(lab: &Lab) -> [u64; 2] {
    let log = lab.start(&["lab", "log", lab.name]).wait(CAMPAIGN).stdout;
    let line = log.lines().rfind(|line| line.starts_with("iperf2 ")).unwrap_or_else(|| panic!("no test in {log}"));
    ["received=", "lost="].map(|name| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
        word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
    })
}

/// The host's count of what it sent, and the board's of what it received and misses, are one; so is iperf's.
#[track_caller]
fn check_count(name: &'static str) {
    let Some(lab) = Lab::up(name) else { return };
    // Slow, then faster than an emulated board receives: what is lost is missing from one count and in the other.
    for (rate, loses) in [("5M", Some(false)), ("unlimited", None)] {
        let (ran, records) = lab.run("udp-stream", &["duration=1s", &format!("rate={rate}")]);
        ran.check_done();
        let [record] = &records[..] else { panic!("{} records: {ran:#?}", records.len()) };
        check_record(record, told(&lab), loses);
    }
    if linerate_lab::privilege() == linerate_lab::Privilege::Root {
        check_iperf(&lab);
    } else {
        eprintln!("SKIPPED iperf against {name}: the board's network namespace is entered by root only");
    }
}

#[track_caller]
fn check_record(record: &Record, [received, lost]: [u64; 2], loses: Option<bool>) {
    assert_eq!(record.error, None);
    assert_eq!(record.target.endpoint, "iperf2:198.18.0.2");
    assert!(record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::Emulated), "{:?}", record.doubts);
    let flow = &record.result.as_ref().expect("a result").flow;
    let [sent, arrived, missing] =
        [flow.packets_sent, flow.packets_received, flow.packets_lost].map(|count| count.expect("both ends count"));
    assert!(sent > 100, "{flow:?}");
    assert_eq!((sent, arrived, missing), (received + lost, received, lost), "the host's counts, and the console's");
    if let Some(loses) = loses {
        assert_eq!(lost > 0, loses, "{flow:?}");
    }
}

/// Another's client, in the namespace at the cable's other end.
#[track_caller]
fn check_iperf(lab: &Lab) {
    let is_qemu =
        |(process, command): &(u32, String)| command.contains("qemu-system") && parent(*process) == Some(lab.up.id());
    let (qemu, _) = lab.bench.processes().into_iter().find(is_qemu).expect("QEMU runs");
    let there = |command: &str| {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--net=/proc/{qemu}/ns/net")).args(command.split(' '));
        let output = nsenter.output().expect("nsenter is installed");
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    there("busybox ping -c 3 -W 5 198.18.0.2");
    let said = there("iperf -c 198.18.0.2 -u -b 5M -t 1 -l 1000");
    let sent: u64 = said
        .lines()
        .find_map(|line| line.split_once("Sent ")?.1.split_whitespace().next()?.parse().ok())
        .unwrap_or_else(|| panic!("iperf did not say what it sent: {said}"));
    // iperf 2.1.8 counts one more than it sends: to its own server as to this one.
    assert!(said.contains(&format!(" 0/{} (0%)", sent - 1)), "the server's report: {said}");
    assert_eq!(told(lab), [sent - 1, 0], "{said}");
}

#[test]
fn sabrelite_counts() {
    check_count("sabrelite-bare");
}

#[test]
fn mcimx6ul_evk_counts() {
    check_count("mcimx6ul-evk-bare");
}

#[test]
fn zynq_a9_counts() {
    check_count("zynq-a9-bare");
}

#[test]
fn zcu102_counts() {
    check_count("zcu102-bare");
}

#[test]
fn sifive_u_counts() {
    check_count("sifive-u-bare");
}

#[test]
fn microblaze_v_counts() {
    check_count("microblaze-v-bare");
}
