//! Frames between two namespaces, as fast as they go: linerate's generator and other tools in turn, all of their frames
//! checked at the far end by the same program; and what an echo gives back. Needs root; trafgen and tcpreplay where they are.
//!
//! `cargo run --release -p linerate-host --example frames -- peers [ROUNDS]`, or `paced`, or `echo`

#[path = "../tests/namespaces/mod.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod namespaces;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use linerate_host::echo::{Echo, EchoWay};
use linerate_host::sys::thread::monotonic_ns;
use linerate_host::xdp::attach::{Pass, Place};
use linerate_host::xdp::checker::{Checker, CheckerOptions};
use linerate_host::xdp::generator::{Extent, Generator, GeneratorOptions, Pace};
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pair = Pair::make("frames", QUIET_LINK).ok_or("no namespaces")?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peers"] => peers(&pair, 9),
        ["peers", rounds] => peers(&pair, rounds.parse()?),
        ["paced"] => paced(&pair),
        ["echo"] => echo(&pair),
        _ => Err("it is: peers [ROUNDS], paced, or echo".into()),
    }
}

fn options(pace: Option<Pace>) -> GeneratorOptions {
    let (to, from) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (kind, vlans) = (FrameKind::Raw, Vlans::NONE);
    let template = Template { kind, vlans, to, from, frame_len: 64, reverse: false, ends: None, hops: 64, dscp: 0 };
    GeneratorOptions { template, secret: SECRET, stream: 0, flows: 1, pace, batch: None, warmup: Duration::ZERO }
}

fn checker(name: &str, echoed: bool) -> Checker {
    let options = CheckerOptions { secret: SECRET, streams: 1, echoed };
    within(name, || Checker::attach(LINK, options, Some(Place::Driver)).unwrap())
}

/// Frames that came, copies too: other tools send the same frame over and over.
fn came(checker: &Checker) -> u64 {
    let measured = checker.stream(0).unwrap().measured;
    measured.received + measured.duplicated
}

/// Frames a second at the far end, once a sender has settled.
fn rate(checker: &Checker) -> f64 {
    thread::sleep(SETTLE);
    let (before, began) = (came(checker), monotonic_ns());
    thread::sleep(SPAN);
    (came(checker) - before) as f64 / (monotonic_ns() - began) as f64 * 1e9
}

fn peers(pair: &Pair, rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("linerate-frames-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (pcap, config) = (folder.join("frames.pcap"), folder.join("frames.cfg"));
    let mut frame = [0; 60];
    let template = options(None).template;
    template.write(0, &mut frame).ok_or("a frame")?;
    let header = TestHeader { secret: SECRET, stream: StreamField(0), sequence: 0, sent_at_ns: 0 };
    template.stamp(&header, &mut frame);
    fs::write(&pcap, capture(&frame, 1000))?;
    let octets: Vec<String> = frame.iter().map(|octet| format!("{octet:#04x}")).collect();
    fs::write(&config, format!("{{ {} }}\n", octets.join(", ")))?;
    let tool = |words: &[&str]| -> Option<Child> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &pair.a]).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        let exists = Command::new(words[0]).arg("--version").output().is_ok();
        exists.then(|| command.spawn().ok()).flatten()
    };
    let checker = checker(&pair.b, false);
    let mut rates: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds * 3 {
        match round % 3 {
            0 => within(&pair.a, || {
                let generator = Generator::new(LINK, &options(None)).unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        rates[0].push({
                            let rate = rate(&checker);
                            generator.stop();
                            rate
                        })
                    });
                    generator.run(Extent::default()).unwrap();
                });
            }),
            at => {
                let (pcap, config) = (pcap.display().to_string(), config.display().to_string());
                let words: &[&str] = match at {
                    1 => &["trafgen", "--dev", LINK, "--conf", &config, "--cpus", "1"],
                    _ => &["tcpreplay", "--topspeed", "--preload-pcap", "--loop=0", "-i", LINK, &pcap],
                };
                let Some(mut child) = tool(words) else { continue };
                rates[at].push(rate(&checker));
                child.kill()?;
                child.wait()?;
            }
        }
    }
    fs::remove_dir_all(&folder)?;
    println!("load {}", fs::read_to_string("/proc/loadavg")?.trim());
    for (name, rates) in ["linerate, live frames", "trafgen", "tcpreplay"].iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        if let [least, .., most] = rates[..] {
            let median = rates[rates.len() / 2];
            println!("{name}: median {:.3} ({:.3} - {:.3}) M/s", median / 1e6, least / 1e6, most / 1e6);
        }
    }
    Ok(())
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
        let checker = checker(&pair.b, false);
        let sent = within(&pair.a, || {
            let generator = Generator::new(LINK, &options(Some(Pace::per_second(frames)))).unwrap();
            generator.run(Extent { frames: None, duration: Some(Duration::from_secs(seconds)) }).unwrap();
            generator.counts().unwrap()
        });
        let counts = checker.stream(0)?;
        let span = counts.last_ns.zip(counts.first_ns).map_or(0, |(last, first)| last - first);
        let rate = (counts.received() - 1) as f64 / span as f64 * 1e9;
        println!(
            "{frames}/s for {seconds} s: sent {} of {}, {:?}; lost {}, reordered {}, rate {rate:.1}, {:+.5} %",
            sent.frames,
            frames * seconds,
            sent.ended,
            counts.lost(sent.frames),
            counts.measured.reordered,
            (rate / frames as f64 - 1.0) * 100.0
        );
    }
    println!("load {}", fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

/// A flood through an echo: what came back of what it was offered.
fn echo(pair: &Pair) -> Result<(), Box<dyn std::error::Error>> {
    for way in [EchoWay::Xdp(Place::Driver), EchoWay::Socket] {
        let _pass = (way == EchoWay::Socket).then(|| within(&pair.b, || Pass::attach(LINK).unwrap()));
        let checker = checker(&pair.a, true);
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
