//! Frames between two namespaces, as fast as they go: linerate and other tools in turn, counted at the far end before its
//! stack; frames that are paced, ways to receive, and what an echo gives back. Needs root; other tools where they are.
//!
//! `cargo run --release -p linerate-host --example frames -- peers [ROUNDS]`, or `paced`, `receive` or `echo`

#[path = "../tests/namespaces/mod.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod namespaces;

#[path = "../tests/frame_ends/mod.rs"]
mod frame_ends;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::echo::{Echo, EchoWay};
use linerate_host::sys::bpf::{Attached, Program, ProgramKind};
use linerate_host::sys::thread::monotonic_ns;
use linerate_host::xdp::assembler::Assembler;
use linerate_host::xdp::attach::{AttachPoint, PassProgram};
use linerate_host::xdp::checker::{Checker, CheckerOptions, TimeBucket, Times};
use linerate_host::xdp::generator::{Extent, Generator, GeneratorOptions, Pace};
use linerate_trial::api::{ReceiverApi, SenderApi};
use linerate_trial::spec::{Spec, Workload};
use linerate_wire::frame::{FrameKind, StreamField, TestHeader};
use linerate_wire::template::{Template, Vlans};
use namespaces::{LINK, Pair, within};

const SECRET: u32 = 0x0ace_0001;
const QUIET_LINK: &str = "for N in $A $B; do ip netns exec $N sysctl -qw net.ipv6.conf.default.disable_ipv6=1; done; \
     ip link add $LINK netns $A type veth peer name $LINK netns $B; \
     ip -n $A link set $LINK arp off up; ip -n $B link set $LINK arp off up";
/// From a tool's start to the first look, and from the first to the second.
const SETTLE: Duration = Duration::from_millis(250);
const SPAN: Duration = Duration::from_millis(400);
/// How long a tool may take before its first frame.
const PATIENCE: Duration = Duration::from_secs(8);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pair = Pair::make("frames", QUIET_LINK).ok_or("no namespaces")?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peers"] => peers(&pair, 9),
        ["peers", rounds] => peers(&pair, rounds.parse()?),
        ["paced"] => paced(&pair),
        ["receive"] => receive(&pair, 7),
        ["echo"] => echo(&pair),
        _ => Err("it is: peers [ROUNDS], paced, receive, or echo".into()),
    }
}

fn options(pace: Option<Pace>) -> GeneratorOptions {
    let (to, from) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (kind, vlans) = (FrameKind::Raw, Vlans::NONE);
    let template = Template { kind, vlans, to, from, frame_len: 64, reverse: false, ends: None, hops: 64, dscp: 0 };
    GeneratorOptions { pace, ..GeneratorOptions::new(template, SECRET) }
}

fn checker(name: &str, echoed: bool, times: Times) -> Checker {
    let options = CheckerOptions { echoed, times, ..CheckerOptions::new(SECRET, 1) };
    within(name, || Checker::attach(LINK, &options, Some(AttachPoint::Driver)).unwrap())
}

/// Frames that came, copies too: other tools send the same frame over and over.
fn came(checker: &Checker) -> u64 {
    let measured = checker.stream(0).unwrap().measured;
    measured.received + measured.duplicated
}

/// Who sends as fast as it can.
enum Contender {
    /// linerate, by one of its ways, between two of its own ends.
    Own(SenderApi),
    /// Another tool, whose frames are linerate's and are counted as such.
    Tool(&'static str),
    /// One that makes frames of its own, which are dropped and counted by the interface.
    Maker(&'static str),
}

const CONTENDERS: [(&str, Contender); 8] = [
    ("linerate, live frames", Contender::Own(SenderApi::LiveFrames)),
    ("linerate, packet-sendmmsg", Contender::Own(SenderApi::PacketSendmmsg)),
    ("linerate, packet-bypass", Contender::Own(SenderApi::PacketBypass)),
    ("linerate, af-xdp", Contender::Own(SenderApi::AfXdp)),
    ("trafgen, one CPU", Contender::Tool("trafgen --dev LINK --conf FOLDER/frames.cfg --cpus 1")),
    ("tcpreplay", Contender::Tool("tcpreplay --topspeed --preload-pcap --loop=0 -i LINK FOLDER/frames.pcap")),
    ("testpmd, af_packet", Contender::Maker("dpdk-testpmd TESTPMD --vdev=net_af_packet0,iface=LINK -- TXONLY")),
    ("testpmd, af_xdp", Contender::Maker("dpdk-testpmd TESTPMD --vdev=net_af_xdp0,iface=LINK -- TXONLY")),
];
const TESTPMD: &str = "--no-huge --no-pci --no-telemetry -m 256 -l 0,1";
const TXONLY: &str = "--forward-mode=txonly --txpkts=60 --total-num-mbufs=8192 --auto-start --stats-period=60";

fn peers(pair: &Pair, rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("linerate-frames-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut frame = [0; 60];
    let template = options(None).template;
    template.write(0, &mut frame).ok_or("a frame")?;
    let header = TestHeader { secret: SECRET, stream: StreamField(0), sequence: 0, sent_at_ns: 0 };
    template.stamp(&header, &mut frame);
    fs::write(folder.join("frames.pcap"), capture(&frame, 1000))?;
    let octets: Vec<String> = frame.iter().map(|octet| format!("{octet:#04x}")).collect();
    fs::write(folder.join("frames.cfg"), format!("{{ {} }}\n", octets.join(", ")))?;
    let mut rates: [Vec<f64>; CONTENDERS.len()] = Default::default();
    for _ in 0..rounds {
        for ((name, contender), rates) in CONTENDERS.iter().zip(&mut rates) {
            let rate = match contender {
                Contender::Own(api) => Some(own(pair, *api)),
                Contender::Tool(command) => {
                    let checker = checker(&pair.b, false, Times::Delays);
                    tool(pair, command, &folder, || came(&checker))?
                }
                Contender::Maker(command) => {
                    let _dropping = within(&pair.b, dropping)?;
                    tool(pair, command, &folder, || received(pair))?
                }
            };
            eprintln!("{name}: {}", rate.map_or("is not here".to_owned(), |rate| format!("{:.3} M/s", rate / 1e6)));
            rates.extend(rate);
        }
    }
    fs::remove_dir_all(&folder)?;
    rates.iter_mut().for_each(|rates| rates.sort_by(f64::total_cmp));
    let median = |rates: &Vec<f64>| rates.get(rates.len() / 2).copied();
    let others = rates.iter().zip(&CONTENDERS).filter(|(_, (_, who))| !matches!(who, Contender::Own(_)));
    let best = others.filter_map(|(rates, _)| median(rates)).reduce(f64::max);
    println!("| unpaced, Mframes/s at the receiver | median of {rounds} | least and most | of the best other tool's |");
    println!("|---|--:|--:|--:|");
    for ((name, _), rates) in CONTENDERS.iter().zip(&rates) {
        let (Some(median), Some(best)) = (median(rates), best) else {
            println!("| {name} | not measured: the program is not here, or failed | | |");
            continue;
        };
        let (least, most) = (rates[0] / 1e6, rates[rates.len() - 1] / 1e6);
        println!("| {name} | {:.2} | {least:.2} – {most:.2} | {:.2} |", median / 1e6, median / best);
    }
    println!("\nload {}", fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

/// Frames a second by linerate between its own two ends, as the receiving one counted them.
fn own(pair: &Pair, api: SenderApi) -> f64 {
    let spec = Spec {
        extent: linerate_trial::spec::Extent::Time(SPAN),
        warmup: SETTLE,
        sender_api: Some(api),
        receiver_api: Some(ReceiverApi::Xdp),
        ..Spec::new(Workload::Frames)
    };
    let [_, received] = frame_ends::run(pair, &spec);
    received.flows[0].messages as f64 / received.flows[0].elapsed_ns as f64 * 1e9
}

/// Drops all frames that come to the interface.
fn dropping() -> Result<Attached, std::io::Error> {
    let mut program = Assembler::new();
    program.exit_with(1);
    let program = Program::load(ProgramKind::Xdp, &program.finish())?;
    program.attach_to_interface(linerate_host::interfaces::number(LINK)?, false)
}

/// Frames that the receiving interface counted.
fn received(pair: &Pair) -> u64 {
    let text = pair.must("ip -n $B -s link show $LINK | grep -A1 RX: | tail -1");
    text.split_whitespace().nth(1).and_then(|packets| packets.parse().ok()).unwrap_or(0)
}

/// Frames a second by another program, once it has settled; `None` where it is not here, or sends none.
fn tool(
    pair: &Pair,
    command: &str,
    folder: &Path,
    came: impl Fn() -> u64,
) -> Result<Option<f64>, Box<dyn std::error::Error>> {
    let command = command.replace("TESTPMD", TESTPMD).replace("TXONLY", TXONLY).replace("LINK", LINK);
    let command = command.replace("FOLDER", &folder.display().to_string());
    let words: Vec<&str> = command.split_whitespace().collect();
    let found = Command::new("sh").args(["-c", &format!("command -v {}", words[0])]).output()?;
    if !found.status.success() {
        return Ok(None);
    }
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let namespace = format!("--net=/run/netns/{}", pair.a);
    let mut started = Command::new("nsenter");
    started
        .args([&namespace, &path])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = started.spawn()?;
    // Some take seconds before they send.
    let until = Instant::now() + PATIENCE;
    while came() == 0 && Instant::now() < until && child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(SETTLE);
    let (before, began) = (came(), monotonic_ns());
    thread::sleep(SPAN);
    let rate = (came() - before) as f64 / (monotonic_ns() - began) as f64 * 1e9;
    child.kill()?;
    child.wait()?;
    Ok((rate > 0.0).then_some(rate))
}

/// A capture file (libpcap's savefile(5)) of so many equal frames.
fn capture(frame: &[u8], count: usize) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let version = [2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat();
    let mut octets = [words(&[0xa1b2_c3d4]), version, words(&[0, 0, 65_535, 1])].concat();
    for at in 0..count as u32 {
        octets.extend(words(&[1, at, frame.len() as u32, frame.len() as u32]));
        octets.extend(frame);
    }
    octets
}

/// A gigabit's frames of 64 octets for 10 s: what arrives, and how far the rate is off, by the receiver's clock.
fn paced(pair: &Pair) -> Result<(), Box<dyn std::error::Error>> {
    for (frames, seconds) in [(1_488_095u64, 10u64), (100_000, 2)] {
        let gap = Times::GapErrors((1_000_000_000 / frames) as u32);
        let checker = checker(&pair.b, false, gap);
        let sent = within(&pair.a, || {
            let generator = Generator::new(LINK, &options(Some(Pace::per_second(frames)))).unwrap();
            generator.run(Extent { frames: None, duration: Some(Duration::from_secs(seconds)) }).unwrap();
            generator.counts().unwrap()
        });
        let (counts, times) = (checker.stream(0)?, checker.times(0)?.buckets);
        let span = counts.last_ns.zip(counts.first_ns).map_or(0, |(last, first)| last - first);
        let rate = (counts.received() - 1) as f64 / span as f64 * 1e9;
        println!(
            "{frames}/s for {seconds} s: sent {} of {}, {:?}; lost {}, reordered {}, rate {rate:.1}, {:+.5} %; \
             gaps are off by {} ns (median), {} ns (p90)",
            sent.frames,
            frames * seconds,
            sent.ended,
            counts.lost(sent.frames),
            counts.measured.reordered,
            (rate / frames as f64 - 1.0) * 100.0,
            quantile(&times, 0.5),
            quantile(&times, 0.9),
        );
    }
    println!("load {}", fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

/// What each way to receive takes of a flood that packet sockets, or an XDP program, send.
fn receive(pair: &Pair, rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    const WAYS: [(SenderApi, ReceiverApi); 6] = [
        (SenderApi::LiveFrames, ReceiverApi::Xdp),
        (SenderApi::LiveFrames, ReceiverApi::AfXdp),
        (SenderApi::LiveFrames, ReceiverApi::PacketRing),
        (SenderApi::LiveFrames, ReceiverApi::PacketRecvmmsg),
        (SenderApi::PacketSendmmsg, ReceiverApi::PacketRing),
        (SenderApi::PacketSendmmsg, ReceiverApi::PacketRecvmmsg),
    ];
    let mut rates: [Vec<f64>; WAYS.len()] = Default::default();
    for _ in 0..rounds {
        for ((sender, receiver), rates) in WAYS.iter().zip(&mut rates) {
            let spec = Spec {
                extent: linerate_trial::spec::Extent::Time(SPAN),
                warmup: SETTLE,
                sender_api: Some(*sender),
                receiver_api: Some(*receiver),
                ..Spec::new(Workload::Frames)
            };
            let [_, received] = frame_ends::run(pair, &spec);
            rates.push(received.flows[0].messages as f64 / received.flows[0].elapsed_ns as f64 * 1e9);
        }
    }
    println!("| sent by | received by | Mframes/s, median of {rounds} | least and most |");
    println!("|---|---|--:|--:|");
    for ((sender, receiver), rates) in WAYS.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let of = |at: usize| rates[at] / 1e6;
        println!("| {sender} | {receiver} | {:.2} | {:.2} – {:.2} |", of(rounds / 2), of(0), of(rounds - 1));
    }
    println!("\nload {}", fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

/// The time that so large a part does not exceed.
fn quantile(times: &[TimeBucket], part: f64) -> u64 {
    let all: u64 = times.iter().map(|bucket| bucket.frames).sum();
    let mut below = 0;
    let reached = |bucket: &&TimeBucket| {
        below += bucket.frames;
        below as f64 >= part * all as f64
    };
    times.iter().find(reached).map_or(0, |bucket| bucket.to_ns - 1)
}

/// A flood through an echo: what came back of what it was offered.
fn echo(pair: &Pair) -> Result<(), Box<dyn std::error::Error>> {
    for way in [EchoWay::Xdp(AttachPoint::Driver), EchoWay::Socket] {
        let _pass = (way == EchoWay::Socket).then(|| within(&pair.b, || PassProgram::attach(LINK).unwrap()));
        let checker = checker(&pair.a, true, Times::Delays);
        let echo = within(&pair.b, || Echo::start(LINK, SECRET, Some(way)).unwrap());
        let sent = within(&pair.a, || {
            let generator = Generator::new(LINK, &options(None)).unwrap();
            generator.run(Extent { frames: Some(2_000_000), duration: None }).unwrap();
            generator.counts().unwrap()
        });
        thread::sleep(Duration::from_millis(500));
        let back = checker.stream(0)?.received();
        println!(
            "{way}: sent {}, came back {back}, {:.4} of what was offered; {:?}",
            sent.frames,
            back as f64 / sent.frames as f64,
            echo.counts()?
        );
    }
    println!("load {}", fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}
