//! Echoes between two namespaces: each frame comes back once, and what must not be answered is not.
//! Knows no trials. Needs root and a kernel that sends live frames; says so and passes elsewhere.

mod namespaces;

use std::thread;
use std::time::{Duration, Instant};

use linerate_host::echo::{Echo, EchoCounts, EchoError, EchoWay};
use linerate_host::xdp::attach::{AttachPoint, PassProgram};
use linerate_host::xdp::checker::{Checker, CheckerOptions, StreamCounts};
use linerate_host::xdp::error::XdpError;
use linerate_host::xdp::generator::{Extent, Generator, GeneratorCounts, GeneratorOptions, Pace};
use linerate_wire::frame::FrameKind;
use linerate_wire::template::{Template, Vlans};
use namespaces::{LINK, Pair, within};

const SECRET: u32 = 0x0b0b_0001;
const DRIVER: EchoWay = EchoWay::Xdp(AttachPoint::Driver);
/// A link whose ends say nothing of their own.
const QUIET_LINK: &str = "for N in $A $B; do ip netns exec $N sysctl -qw net.ipv6.conf.default.disable_ipv6=1; done; \
     ip link add $LINK netns $A type veth peer name $LINK netns $B; \
     ip -n $A link set $LINK arp off up; ip -n $B link set $LINK arp off up";

fn options(kind: FrameKind, vlans: &[u16]) -> GeneratorOptions {
    let vlans = Vlans::new(vlans).unwrap();
    let (to, from) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let template = Template { kind, vlans, to, from, frame_len: 100, reverse: false, ends: None, hops: 64, dscp: 0 };
    let pace = Some(Pace::per_second(20_000));
    GeneratorOptions { flows: 16, pace, ..GeneratorOptions::new(template, SECRET) }
}

/// The first machine's end: it counts what comes back. `None`: this machine cannot.
fn checker(test: &str, pair: &Pair) -> Option<Checker> {
    let options = CheckerOptions { echoed: true, ..CheckerOptions::new(SECRET, 1) };
    match within(&pair.a, || Checker::attach(LINK, &options, Some(AttachPoint::Driver))) {
        Ok(checker) => Some(checker),
        Err(lacking @ (XdpError::NotPermitted | XdpError::NoBpf | XdpError::TooOld { .. })) => {
            println!("SKIPPED {test}: {lacking}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends so many frames from the first machine, and waits until nothing comes back any more.
fn send(pair: &Pair, options: &GeneratorOptions, frames: u64, quiet: impl Fn() -> u64) -> Option<GeneratorCounts> {
    let sent = within(&pair.a, || match Generator::new(LINK, options) {
        Ok(generator) => {
            generator.run(Extent { frames: Some(frames), duration: None }).unwrap();
            Some(generator.counts().unwrap())
        }
        Err(lacking @ XdpError::TooOld { .. }) => {
            println!("SKIPPED: {lacking}");
            None
        }
        Err(error) => panic!("{error}"),
    });
    let until = Instant::now() + Duration::from_secs(5);
    let mut seen = quiet();
    loop {
        thread::sleep(Duration::from_millis(50));
        let now = quiet();
        if now == seen || Instant::now() > until {
            return sent;
        }
        seen = now;
    }
}

fn back(checker: &Checker) -> StreamCounts {
    checker.stream(0).unwrap()
}

#[test]
fn each_frame_comes_back_once_by_every_way() {
    const TEST: &str = "each_frame_comes_back_once_by_every_way";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for way in [DRIVER, EchoWay::Socket] {
        // Live frames arrive only where a program is in the driver.
        let _pass = (way == EchoWay::Socket).then(|| within(&pair.b, || PassProgram::attach(LINK).unwrap()));
        for (kind, vlans) in [(FrameKind::Raw, &[][..]), (FrameKind::Udp4, &[5]), (FrameKind::Udp6, &[5, 6])] {
            let Some(checker) = checker(TEST, &pair) else { return };
            let echo = within(&pair.b, || Echo::start(LINK, SECRET, Some(way))).unwrap();
            assert_eq!(echo.way(), way);
            let port = || within(&pair.b, || echo.port().unwrap());
            let before = port();
            let counted = || echo.counts().unwrap().received + back(&checker).received();
            let Some(sent) = send(&pair, &options(kind, vlans), 4_000, counted) else { return };
            let (counts, back) = (echo.counts().unwrap(), back(&checker));
            let dropped = port().since(&before).tx_dropped;
            println!("{way} {kind:?} {vlans:?}: {counts:?}, {} back, {dropped} dropped", back.received());
            // What the veth had no room for on its way there, or back, under somebody else's load.
            assert!(counts.received + counts.overrun <= sent.frames && counts.received >= sent.frames / 2);
            assert_eq!(counts.octets, counts.received * 96);
            assert_eq!(counts.echoed + counts.unsent, counts.received);
            assert!(back.received() <= counts.echoed && back.received() + 256 >= counts.echoed);
            assert_eq!((counts.multicast, counts.returned, counts.strangers), (0, 0, 0));
            assert_eq!((back.measured.duplicated, back.measured.octets), (0, back.received() * 96));
            assert_eq!((checker.others().unwrap().strays, checker.others().unwrap().strangers), (0, 0));
        }
    }
}

#[test]
fn a_stranger_is_not_answered() {
    const TEST: &str = "a_stranger_is_not_answered";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for way in [DRIVER, EchoWay::Xdp(AttachPoint::Stack), EchoWay::Socket] {
        let Some(checker) = checker(TEST, &pair) else { return };
        let _pass = (way != DRIVER).then(|| within(&pair.b, || PassProgram::attach(LINK).unwrap()));
        let echo = match within(&pair.b, || Echo::start(LINK, SECRET + 1, Some(way))) {
            // One program at a time, in the driver or in the stack.
            Err(EchoError::Xdp(XdpError::Taken(_) | XdpError::Driver { .. })) if way != DRIVER => continue,
            other => other.unwrap(),
        };
        let counted = || echo.counts().unwrap().strangers;
        if send(&pair, &options(FrameKind::Udp4, &[]), 500, counted).is_none() {
            return;
        }
        let counts = echo.counts().unwrap();
        assert!(counts.strangers > 0, "{way}: {counts:?}");
        assert_eq!(
            counts,
            EchoCounts { strangers: counts.strangers, overrun: counts.overrun, ..EchoCounts::default() }
        );
        assert_eq!((back(&checker).received(), checker.others().unwrap().strays), (0, 0));
    }
}

#[test]
fn two_echoes_that_face_each_other_are_silent() {
    const TEST: &str = "two_echoes_that_face_each_other_are_silent";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    // The other end's program, where live frames arrive.
    if checker(TEST, &pair).is_none() {
        return;
    }
    for way in [DRIVER, EchoWay::Socket] {
        let passes = [&pair.a, &pair.b]
            .map(|name| (way == EchoWay::Socket).then(|| within(name, || PassProgram::attach(LINK).unwrap())));
        let [a, b] = [&pair.a, &pair.b].map(|name| within(name, || Echo::start(LINK, SECRET, Some(way)).unwrap()));
        let counted = || a.counts().unwrap().received + b.counts().unwrap().received;
        let Some(sent) = send(&pair, &options(FrameKind::Udp6, &[]), 500, counted) else { return };
        let (here, there) = (a.counts().unwrap(), b.counts().unwrap());
        println!("{way}: {here:?}, {there:?}");
        assert!(there.received > 250 && there.received <= sent.frames && there.echoed == there.received);
        assert_eq!((here.returned, here.echoed), (here.received, 0), "{here:?}");
        assert!(here.received <= there.echoed && there.returned == 0);
        drop(passes);
    }
}

#[test]
fn answers_that_a_veth_does_not_take_are_counted() {
    const TEST: &str = "answers_that_a_veth_does_not_take_are_counted";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    if checker(TEST, &pair).is_none() {
        return;
    }
    // Nobody is in the driver at the first machine's end any more.
    let echo = within(&pair.b, || Echo::start(LINK, SECRET, Some(DRIVER))).unwrap();
    let port = || within(&pair.b, || echo.port().unwrap());
    let before = port();
    if send(&pair, &options(FrameKind::Raw, &[]), 500, || echo.counts().unwrap().received).is_none() {
        return;
    }
    let (counts, port) = (echo.counts().unwrap(), port().since(&before));
    assert!(counts.echoed > 0);
    assert_eq!(port.xdp_tx_failed, Some(counts.echoed));
}

#[test]
fn what_cannot_be_is_said() {
    const TEST: &str = "what_cannot_be_is_said";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    let start = |interface: &str, way| within(&pair.b, || Echo::start(interface, SECRET, way).map(|echo| echo.way()));
    assert!(matches!(start("none0", None), Err(EchoError::NoInterface(_))));
    let is_able = checker(TEST, &pair).is_some();
    pair.must("ip -n $B link set $LINK down");
    assert!(matches!(start(LINK, None), Err(EchoError::Down(_))));
    // A frame that XDP has no room for: the next way is taken, and the one that was asked for says why not.
    pair.must("for N in $A $B; do ip -n $N link set $LINK mtu 9000 up; done");
    let way = start(LINK, None).unwrap();
    assert!(way != DRIVER, "{way}");
    if is_able {
        let refused = start(LINK, Some(DRIVER)).unwrap_err();
        assert!(matches!(refused, EchoError::Xdp(XdpError::Driver { .. })), "{refused}");
    }
}
