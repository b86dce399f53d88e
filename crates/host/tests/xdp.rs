//! Frames sent, counted and answered by BPF programs, between two namespaces: whatever one side says is what the other and
//! the interface counted. Knows no trials. Needs root and a kernel that sends live frames; says so and passes elsewhere.

mod namespaces;

use std::thread;
use std::time::Duration;

use linerate_host::sys::bpf::{Attached, Program, ProgramKind};
use linerate_host::sys::packet;
use linerate_host::sys::thread::monotonic_ns;
use linerate_host::xdp::assembler::{Alu, Assembler, JumpCondition, Reg, Width};
use linerate_host::xdp::attach::{AttachPoint, PassProgram};
use linerate_host::xdp::checker::{Checker, CheckerOptions, Expected, Times};
use linerate_host::xdp::error::XdpError;
use linerate_host::xdp::generator::{
    Extent, Generator, GeneratorCounts, GeneratorOptions, Moment, Pace, Phase, RunControl, RunEnd,
};
use linerate_wire::frame::{FrameKind, StreamField, TestHeader};
use linerate_wire::template::{Template, Vlans};
use namespaces::{LINK, Pair, within};
use socket2::SockFilter;

const SECRET: u32 = 0x0c0f_fee1;
const CHECKED: CheckerOptions = CheckerOptions::new(SECRET, 2);
/// A link whose ends say nothing of their own.
const QUIET_LINK: &str = "for N in $A $B; do ip netns exec $N sysctl -qw net.ipv6.conf.default.disable_ipv6=1; done; \
     ip link add $LINK netns $A type veth peer name $LINK netns $B; \
     ip -n $A link set $LINK arp off up; ip -n $B link set $LINK arp off up";

fn template(kind: FrameKind, vlans: &[u16], frame_len: usize) -> Template {
    Template {
        kind,
        vlans: Vlans::new(vlans).unwrap(),
        to: [2, 0, 0, 0, 0, 1],
        from: [2, 0, 0, 0, 0, 2],
        frame_len,
        reverse: false,
        ends: None,
        hops: 64,
        dscp: 0,
    }
}

fn options(kind: FrameKind, vlans: &[u16], frame_len: usize) -> GeneratorOptions {
    let template = template(kind, vlans, frame_len);
    GeneratorOptions { stream: 1, ..GeneratorOptions::new(template, SECRET) }
}

/// What a machine cannot do; everything else is a failure.
#[track_caller]
fn able<T>(test: &str, result: Result<T, XdpError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(
            lacking @ (XdpError::NotPermitted | XdpError::NoBpf | XdpError::TooOld { .. } | XdpError::Driver { .. }),
        ) => {
            println!("SKIPPED {test}: {lacking}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Of the first machine's interface: frames sent, and frames that it had no room for.
fn transmitted(pair: &Pair) -> [u64; 2] {
    let text = pair.must("ip -n $A -s link show $LINK | grep -A1 TX: | tail -1");
    let columns: Vec<u64> = text.split_whitespace().map(|column| column.parse().unwrap()).collect();
    [columns[1], columns[3]]
}

/// Sends from the first machine.
fn send(pair: &Pair, options: &GeneratorOptions, extent: Extent) -> GeneratorCounts {
    within(&pair.a, || {
        let generator = Generator::new(LINK, options).unwrap();
        generator.run(extent).unwrap();
        generator.counts().unwrap()
    })
}

fn frames(frames: u64) -> Extent {
    Extent { frames: Some(frames), duration: None }
}

fn lasting(millis: u64) -> Extent {
    Extent { frames: None, duration: Some(Duration::from_millis(millis)) }
}

#[test]
fn every_frame_is_counted_by_all_three() {
    const TEST: &str = "every_frame_is_counted_by_all_three";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for (kind, vlans, frame_len, flows) in [
        (FrameKind::Raw, &[][..], 64, 1),
        (FrameKind::Raw, &[5, 6], 128, 1),
        (FrameKind::Udp4, &[], 64, 256),
        (FrameKind::Udp4, &[7], 1518, 100),
        (FrameKind::Udp6, &[], 84, 256),
        (FrameKind::Udp6, &[4094], 1281, 3),
    ] {
        let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &CHECKED, Some(AttachPoint::Driver))))
        else {
            return;
        };
        assert_eq!(checker.place(), AttachPoint::Driver);
        let before = transmitted(&pair);
        let sent = send(&pair, &GeneratorOptions { flows, ..options(kind, vlans, frame_len) }, frames(20_000));
        let after = transmitted(&pair);
        let counts = checker.stream(1).unwrap();
        let (left, dropped) = (after[0] - before[0], after[1] - before[1]);
        assert_eq!((sent.frames, left + dropped), (20_000, 20_000), "{kind:?} {vlans:?} {frame_len}");
        assert_eq!(counts.received(), left);
        assert_eq!(counts.measured.octets, left * (frame_len as u64 - 4));
        assert_eq!(counts.lost(sent.frames), dropped as i64);
        let times = checker.times(1).unwrap();
        assert_eq!((counts.measured.duplicated, counts.measured.reordered, times.from_the_future), (0, 0, 0));
        assert_eq!(times.buckets.iter().map(|bucket| bucket.frames).sum::<u64>(), left);
        assert_eq!(checker.stream(0).unwrap().received(), 0);
        assert_eq!((checker.others().unwrap().strangers, checker.others().unwrap().strays), (0, 0));
    }
}

/// A packet socket's filter that takes every frame whole (BPF_RET, linux/filter.h).
const ALL: [SockFilter; 1] = [SockFilter::new(6, 0, 0, u32::MAX)];

/// Drops each second frame and leaves nothing of its headers, as no device should but many do in part.
fn scribble(interface: &str) -> Attached {
    let (a, header_at) = (&mut Assembler::new(), 14 + 48 + 18);
    let (pass, drop) = (a.label(), a.label());
    a.load(Width::W32, Reg::R2, Reg::R1, 0);
    a.load(Width::W32, Reg::R3, Reg::R1, 4);
    a.copy(Reg::R4, Reg::R2);
    a.alu_number(Alu::Add, Reg::R4, header_at);
    a.jump_if(JumpCondition::Above, Reg::R4, Reg::R3, pass);
    // The last octet of the number of an IPv6 frame.
    a.load(Width::W8, Reg::R4, Reg::R2, 14 + 48 + 9);
    a.jump_if_number(JumpCondition::AnyBitOf, Reg::R4, 1, drop);
    a.place(pass);
    a.exit_with(2);
    a.place(drop);
    for offset in (0..header_at as i16).step_by(4) {
        a.store_number(Width::W32, Reg::R2, offset, 0x5a5a_5a5a);
    }
    a.exit_with(1);
    let program = Program::load(ProgramKind::Xdp, &std::mem::take(a).finish()).unwrap();
    program.attach_to_interface(linerate_host::interfaces::number(interface).unwrap(), false).unwrap()
}

#[test]
fn frames_are_whole_whatever_became_of_their_pages() {
    const TEST: &str = "frames_are_whole_whatever_became_of_their_pages";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for flows in [1, 256, 100] {
        let options =
            GeneratorOptions { flows, pace: Some(Pace::per_second(20_000)), ..options(FrameKind::Udp6, &[], 101) };
        let (_scribbling, socket) = within(&pair.b, || (scribble(LINK), packet::watch(&ALL).unwrap()));
        let sent = within(&pair.a, || {
            let generator = able(TEST, Generator::new(LINK, &options))?;
            generator.run(frames(1_000)).unwrap();
            Some(generator.counts().unwrap())
        });
        let Some(sent) = sent else { return };
        assert_eq!(sent.frames, 1_000);
        thread::sleep(Duration::from_millis(20));
        let mut octets = [0; 2048];
        let mut came = 0;
        while let Ok(packet) = packet::receive(&socket, &mut octets) {
            // Behind the Ethernet header, which is the kernel's to read; all else is as it came.
            assert_eq!((packet.protocol, packet.from, packet.len), (0x86DD, Some([2, 0, 0, 0, 0, 2]), 101 - 18));
            let header = TestHeader::parse(&octets[48..]).unwrap();
            assert!(header.sequence.is_multiple_of(2) && header.sent_at_ns >= sent.first_ns.unwrap());
            let mut want = [0; 97];
            options.template.write((header.sequence % u32::from(flows)) as u16, &mut want).unwrap();
            options.template.stamp(&TestHeader { secret: SECRET, stream: StreamField(1), ..header }, &mut want);
            assert_eq!(octets[..packet.len], want[14..], "{header:?}");
            came += 1;
        }
        // A socket's buffer may be full.
        println!("{flows} flows: {came} of 500");
        assert!(came > 100, "{came}");
    }
}

#[test]
fn a_paced_rate_has_no_error_and_ends_when_it_should() {
    const TEST: &str = "a_paced_rate_has_no_error_and_ends_when_it_should";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for (pace, millis) in [
        (Pace::per_second(100_000), 300),
        (Pace::per_second(7), 300),
        (Pace::per_second(1_488_095), 200),
        (Pace { frames: 3, in_ns: 100_000 }, 200),
    ] {
        let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &CHECKED, Some(AttachPoint::Driver))))
        else {
            return;
        };
        let options = GeneratorOptions { pace: Some(pace), ..options(FrameKind::Raw, &[], 64) };
        let before = transmitted(&pair);
        let sent = send(&pair, &options, lasting(millis));
        // The first frame is due at once, so it is one more than whole gaps.
        let want = (u128::from(millis) * 1_000_000 * u128::from(pace.frames)).div_ceil(u128::from(pace.in_ns)) as u64;
        let counts = checker.stream(1).unwrap();
        let span = counts.last_ns.unwrap() - counts.first_ns.unwrap();
        println!("{pace:?}: sent {} of {want}, {:?}, received within {span} ns", sent.frames, sent.ended);
        assert!(sent.frames <= want && sent.ended.is_some(), "{pace:?}: {sent:?}, {want}");
        // What the port had no room for is lost, and nothing else.
        let dropped = transmitted(&pair)[1] - before[1];
        assert_eq!((counts.lost(sent.frames), counts.measured.reordered), (dropped as i64, 0));
        if sent.ended == Some(RunEnd::Complete) {
            assert_eq!(sent.frames, want, "{pace:?}");
        }
    }
}

#[test]
fn a_run_is_stopped_from_another_thread_and_goes_on_with_its_numbers() {
    const TEST: &str = "a_run_is_stopped_from_another_thread_and_goes_on_with_its_numbers";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &CHECKED, Some(AttachPoint::Driver))))
    else {
        return;
    };
    let options = GeneratorOptions { pace: Some(Pace::per_second(50_000)), ..options(FrameKind::Udp4, &[], 64) };
    let sent = within(&pair.a, || {
        let generator = Generator::new(LINK, &options).unwrap();
        generator.run(frames(3_000)).unwrap();
        assert_eq!(generator.counts().unwrap().frames, 3_000);
        thread::scope(|scope| {
            let stopped = scope.spawn(|| {
                while generator.counts().unwrap().frames < 5_000 {
                    thread::sleep(Duration::from_millis(1));
                }
                generator.stop();
                monotonic_ns()
            });
            // Far more than it is let.
            generator.run(lasting(3_600_000)).unwrap();
            let stop_took = monotonic_ns() - stopped.join().unwrap();
            println!("stopped within {stop_took} ns");
            assert!(stop_took < 2_000_000_000);
        });
        let before = generator.counts().unwrap();
        generator.run(frames(1)).unwrap();
        assert_eq!(generator.counts().unwrap(), before, "stopped for good");
        before
    });
    let counts = checker.stream(1).unwrap();
    let [left, dropped] = transmitted(&pair);
    assert_eq!((left + dropped, counts.lost(sent.frames)), (sent.frames, dropped as i64));
    assert!(counts.next <= sent.frames && counts.warmup.received == 0, "{counts:?}");
}

#[test]
fn a_warm_up_is_over_before_what_is_measured_begins() {
    const TEST: &str = "a_warm_up_is_over_before_what_is_measured_begins";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for pace in [None, Some(Pace::per_second(100_000))] {
        let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &CHECKED, Some(AttachPoint::Driver))))
        else {
            return;
        };
        let options = GeneratorOptions { pace, ..options(FrameKind::Raw, &[], 64) };
        let before = transmitted(&pair);
        let mut phases = Vec::new();
        let sent = within(&pair.a, || {
            let generator = Generator::new(LINK, &options).unwrap();
            let warmup = Phase { is_warmup: true, extent: lasting(20) };
            let measured = Phase { is_warmup: false, extent: lasting(30) };
            let watch = |moment, counts: &GeneratorCounts| {
                if moment == Moment::PhaseOver {
                    phases.push((counts.frames, transmitted(&pair)));
                }
                RunControl::GoOn
            };
            generator.run_phases(&[warmup, measured], watch).unwrap();
            generator.counts().unwrap()
        });
        let [(warmup, at_warmup), (all, at_end)] = phases[..] else { panic!("{phases:?}") };
        assert_eq!(all, sent.frames);
        let counts = checker.stream(1).unwrap();
        let since = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
        // To the frame, as the interface had counted by then.
        let ([left, dropped], [left_later, dropped_later]) = (since(at_warmup, before), since(at_end, at_warmup));
        assert_eq!((left + dropped, left_later + dropped_later), (warmup, all - warmup));
        assert_eq!((counts.warmup.received, counts.measured.received), (left, left_later), "{pace:?}");
        if pace.is_some() {
            // Fewer where the machine was more than 20 ms behind at the end.
            assert!(warmup <= 2_000 && all - warmup <= 3_000, "{warmup} of {all}");
            println!("{warmup} of the warm-up, {all} in all");
        }
    }
}

#[test]
fn sizes_take_turns_and_what_is_not_as_it_was_sent_is_malformed() {
    const TEST: &str = "sizes_take_turns_and_what_is_not_as_it_was_sent_is_malformed";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    for (kind, vlans, flows, sizes) in [
        (FrameKind::Raw, &[][..], 1, &[64, 594, 64, 1518][..]),
        (FrameKind::Udp4, &[5], 256, &[1518, 100, 101]),
        (FrameKind::Udp6, &[], 3, &[84, 84, 3000]),
    ] {
        let mtu = if sizes.contains(&3000) { 3000 } else { 1500 };
        pair.must(&format!("ip -n $A link set $LINK mtu {mtu}; ip -n $B link set $LINK mtu {mtu}"));
        let largest = *sizes.iter().max().unwrap() as usize;
        let options = GeneratorOptions { flows, sizes: sizes.to_vec(), ..options(kind, vlans, largest) };
        let expected = |sizes: &[u32]| Some(Expected { template: options.template, sizes: sizes.to_vec() });
        let checked = CheckerOptions { expected: expected(sizes), times: Times::Gaps, flows, ..CHECKED };
        let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &checked, Some(AttachPoint::Driver))))
        else {
            return;
        };
        let turns = 2_000;
        let before = transmitted(&pair);
        let sent = send(&pair, &options, frames(turns * sizes.len() as u64));
        let dropped = transmitted(&pair)[1] - before[1];
        let counts = checker.stream(1).unwrap();
        println!("{kind:?} {sizes:?}: dropped {dropped}, {counts:?}");
        assert_eq!((counts.malformed, counts.lost(sent.frames)), (0, dropped as i64));
        assert_eq!(counts.places.iter().sum::<u64>(), counts.received());
        let octets: u64 = counts.places.iter().zip(sizes).map(|(count, size)| count * u64::from(size - 4)).sum();
        assert_eq!(counts.measured.octets, octets);
        let gaps: u64 = checker.times(1).unwrap().buckets.iter().map(|bucket| bucket.frames).sum();
        assert_eq!(gaps + 1, counts.received());
        if dropped == 0 {
            assert_eq!(counts.places, vec![turns; sizes.len()]);
            assert_eq!(checker.leaps(1).unwrap(), Some(Default::default()));
        }
        let by_flow = checker.flows(1).unwrap();
        assert_eq!(by_flow.as_ref().map(Vec::len), (flows > 1).then_some(flows.into()));
        assert_eq!(by_flow.iter().flatten().sum::<u64>(), if flows > 1 { counts.received() } else { 0 });
        let turn = sizes.len() as u64;
        let least = turns / u64::from(flows) * turn;
        assert!(by_flow.iter().flatten().all(|one| dropped > 0 || (least..=least + turn).contains(one)), "{by_flow:?}");
        assert_eq!(checker.flows(0).unwrap().iter().flatten().sum::<u64>(), 0);
        drop(checker);
        // The same frames, held against other sizes, and against another kind.
        let mut other = sizes.to_vec();
        other[0] += 1;
        let checked = CheckerOptions { expected: expected(&other), ..checked };
        let checker = within(&pair.b, || Checker::attach(LINK, &checked, Some(AttachPoint::Driver)).unwrap());
        let before = transmitted(&pair);
        send(&pair, &options, frames(turns * sizes.len() as u64));
        let counts = checker.stream(1).unwrap();
        let left = transmitted(&pair)[0] - before[0];
        assert!(counts.malformed > 0 && counts.malformed + counts.received() == left, "{counts:?}, {left} left");
        assert_eq!(counts.places[0], 0);
    }
}

#[test]
fn what_comes_behind_the_time_is_counted_apart() {
    const TEST: &str = "what_comes_behind_the_time_is_counted_apart";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    let Some(checker) = able(TEST, within(&pair.b, || Checker::attach(LINK, &CHECKED, Some(AttachPoint::Driver))))
    else {
        return;
    };
    // Slow enough that none is dropped.
    let paced = GeneratorOptions { pace: Some(Pace::per_second(100_000)), ..options(FrameKind::Raw, &[], 64) };
    within(&pair.a, || {
        let generator = Generator::new(LINK, &paced).unwrap();
        generator.run(frames(100)).unwrap();
        checker.end_window(1, monotonic_ns()).unwrap();
        generator.run(frames(200)).unwrap();
        // A stream of another number.
        checker.end_stream(0).unwrap();
        generator.run(frames(300)).unwrap();
        checker.end_stream(1).unwrap();
        generator.run(frames(400)).unwrap();
    });
    let counts = checker.stream(1).unwrap();
    assert_eq!((counts.received(), counts.behind.late, counts.behind.outside), (1000, 400, 900));
    assert_eq!(counts.behind.outside_octets, 900 * 60);
}

#[test]
fn a_veth_whose_other_end_takes_no_live_frames_is_refused() {
    const TEST: &str = "a_veth_whose_other_end_takes_no_live_frames_is_refused";
    let Some(pair) = Pair::make(TEST, QUIET_LINK) else { return };
    let new = || within(&pair.a, || Generator::new(LINK, &options(FrameKind::Raw, &[], 64)));
    match new() {
        Err(XdpError::SendsNone(interface)) => assert_eq!(interface, LINK),
        other => {
            // A kernel before 6.3 does not tell.
            able(TEST, other);
            return;
        }
    }
    let pass = within(&pair.b, || PassProgram::attach(LINK)).unwrap();
    new().unwrap();
    drop(pass);
    assert!(matches!(new(), Err(XdpError::SendsNone(_))));
    let missing = within(&pair.a, || Generator::new("none0", &options(FrameKind::Raw, &[], 64)).unwrap_err());
    assert!(matches!(missing, XdpError::NoInterface(_)), "{missing}");
    let large = within(&pair.a, || Generator::new(LINK, &options(FrameKind::Raw, &[], 9018)).unwrap_err());
    assert!(matches!(large, XdpError::TooLarge { octets: 9014, .. }), "{large}");
}
