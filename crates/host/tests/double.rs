//! The device whose limit is known, held against arithmetic: what it carries is its rate and its depth, to the frame.
//! Knows no search. Needs root and a kernel that sends live frames; says so and passes elsewhere.

mod namespaces;

use linerate_host::xdp::attach::AttachPoint;
use linerate_host::xdp::checker::{Checker, CheckerOptions, TimeBucket};
use linerate_host::xdp::double::{Double, DoubleCounts, DoubleOptions};
use linerate_host::xdp::error::XdpError;
use linerate_host::xdp::generator::{Extent, Generator, GeneratorOptions, Pace};
use linerate_wire::frame::FrameKind;
use linerate_wire::template::{Template, Vlans};
use namespaces::{LINK, Pair, within};

const SECRET: u32 = 0x0d0d_0001;
/// The tester in the first namespace, with both ports; the device in the second.
const TESTER_AND_DEVICE: &str = "for N in $A $B; do ip netns exec $N sysctl -qw net.ipv6.conf.default.disable_ipv6=1; done; \
     for L in $LINK out0; do ip link add $L netns $A type veth peer name $L netns $B; \
     ip -n $A link set $L arp off up; ip -n $B link set $L arp off up; done";

/// What one run came to.
struct Run {
    sent: u64,
    received: u64,
    device: DoubleCounts,
    /// Half of the frames took no longer from the sender to the receiver, nanoseconds.
    median_ns: u64,
    /// What the veth behind the device had no room for.
    overrun: u64,
}

/// Frames at this load through a device like that. `None`: this machine cannot.
fn run(test: &str, pair: &Pair, options: DoubleOptions, load: Pace, frames: u64) -> Option<Run> {
    let checked = CheckerOptions::new(SECRET, 1);
    let attached = within(&pair.a, || Checker::attach("out0", &checked, Some(AttachPoint::Driver)));
    let checker = match attached {
        Ok(checker) => checker,
        Err(lacking @ (XdpError::NotPermitted | XdpError::NoBpf | XdpError::TooOld { .. })) => {
            println!("SKIPPED {test}: {lacking}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let double = within(&pair.b, || Double::attach(LINK, "out0", options)).unwrap();
    let (to, from) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (kind, vlans) = (FrameKind::Udp4, Vlans::NONE);
    let template = Template { kind, vlans, to, from, frame_len: 64, reverse: false, ends: None, hops: 64, dscp: 0 };
    let sending = GeneratorOptions { pace: Some(load), batch: Some(1), ..GeneratorOptions::new(template, SECRET) };
    let overrun = || -> u64 {
        let text = pair.must("ip -n $B -s link show out0 | grep -A1 TX: | tail -1 | tr -s ' ' | cut -d' ' -f5");
        text.parse().unwrap()
    };
    let before = overrun();
    let sent = within(&pair.a, || match Generator::new(LINK, &sending) {
        Ok(generator) => {
            generator.run(Extent { frames: Some(frames), duration: None }).unwrap();
            Some(generator.counts().unwrap().frames)
        }
        Err(lacking @ XdpError::TooOld { .. }) => {
            println!("SKIPPED {test}: {lacking}");
            None
        }
        Err(error) => panic!("{error}"),
    })?;
    let received = checker.stream(0).unwrap().received();
    let (device, overrun, median_ns) = (double.counts().unwrap(), overrun() - before, median(&checker));
    Some(Run { sent, received, device, median_ns, overrun })
}

/// The time in the middle of all that the checker noted, to a 64th.
fn median(checker: &Checker) -> u64 {
    let times = checker.times(0).unwrap();
    assert_eq!(times.from_the_future, 0);
    let all: u64 = times.buckets.iter().map(|bucket| bucket.frames).sum();
    let mut below = 0;
    let reached = |bucket: &&TimeBucket| {
        below += bucket.frames;
        2 * below >= all
    };
    times.buckets.iter().find(reached).map_or(0, |bucket| bucket.from_ns.midpoint(bucket.to_ns))
}

#[test]
fn what_it_forwards_is_its_rate_and_its_depth_to_the_frame() {
    const TEST: &str = "what_it_forwards_is_its_rate_and_its_depth_to_the_frame";
    let Some(pair) = Pair::make(TEST, TESTER_AND_DEVICE) else { return };
    for (capacity, depth) in [(Pace::per_second(50_000), 4_000), (Pace { frames: 1_000, in_ns: 12_345_679 }, 6_000)] {
        let options = DoubleOptions { capacity, depth, hold_ns: 0 };
        let load = Pace { frames: 2 * capacity.frames, ..capacity };
        // Three buckets beyond the first loss.
        let Some(run) = run(TEST, &pair, options, load, 8 * depth) else { return };
        let (device, overrun) = (run.device, run.overrun);
        println!("{options:?}: sent {}, received {}, {device:?}, {overrun} overrun", run.sent, run.received);
        assert_eq!((device.received, run.received + overrun), (device.forwarded + device.dropped, device.forwarded));
        assert!(device.received <= run.sent && device.dropped > 0);
        check_tokens(options, device);
    }
}

/// Every token there was is spent, spilt or saved: the depth, and those of the time from the first frame to the last.
#[track_caller]
fn check_tokens(DoubleOptions { capacity, depth, .. }: DoubleOptions, device: DoubleCounts) {
    let time = u128::from(device.last_ns.unwrap() - device.first_ns.unwrap());
    let tokens = depth + (time * u128::from(capacity.frames) / u128::from(capacity.in_ns)) as u64;
    let used = device.forwarded + device.spilt + device.saved;
    assert!(used <= tokens && used + 3 >= tokens, "{used} of {tokens}, {device:?}");
}

#[test]
fn the_longest_burst_without_loss_is_as_computed() {
    const TEST: &str = "the_longest_burst_without_loss_is_as_computed";
    let Some(pair) = Pair::make(TEST, TESTER_AND_DEVICE) else { return };
    let (c, load, depth) = (100_000, 300_000, 400);
    let options = DoubleOptions { capacity: Pace::per_second(c), depth, hold_ns: 0 };
    let want = depth as f64 / (1.0 - c as f64 / load as f64);
    let mut found = Vec::new();
    // A sender without a CPU for a part of those 2 ms is late, and then has no even load: it tries again.
    for _ in 0..40 {
        let Some(run) = run(TEST, &pair, options, Pace::per_second(load), 4 * depth) else { return };
        check_tokens(options, run.device);
        let burst = run.device.before_first_drop;
        if (burst as f64 / want - 1.0).abs() <= 0.02 {
            println!("{burst} of {want}, after {found:?}");
            return;
        }
        found.push(burst);
    }
    panic!("{found:?}, but never {want}");
}

#[test]
fn below_its_rate_it_loses_nothing() {
    const TEST: &str = "below_its_rate_it_loses_nothing";
    let Some(pair) = Pair::make(TEST, TESTER_AND_DEVICE) else { return };
    let options = DoubleOptions { capacity: Pace::per_second(50_000), depth: 10_000, hold_ns: 0 };
    let Some(run) = run(TEST, &pair, options, Pace::per_second(49_900), 10_000) else { return };
    assert_eq!(
        (run.device.dropped, run.device.received, run.received + run.overrun),
        (0, run.device.forwarded, run.device.forwarded)
    );
}

/// What the tester says of a device's delay is the truth but for 1 µs and for what the tester takes by itself: its bias, which is
/// what it says of a device that holds nothing.
#[test]
fn a_device_s_delay_is_found_to_a_microsecond_and_the_tester_s_bias() {
    const TEST: &str = "a_device_s_delay_is_found_to_a_microsecond_and_the_tester_s_bias";
    let Some(pair) = Pair::make(TEST, TESTER_AND_DEVICE) else { return };
    // So few that each has gone before the next comes.
    let (load, frames) = (Pace::per_second(5_000), 500);
    let delay = |hold_ns: u64| {
        let options = DoubleOptions { capacity: Pace::per_second(1_000_000), depth: 1_000, hold_ns };
        let run = run(TEST, &pair, options, load, frames)?;
        assert_eq!((run.device.dropped, run.received + run.overrun), (0, run.device.forwarded));
        Some(run)
    };
    for hold_ns in [5_000, 20_000, 45_000] {
        let mut found = Vec::new();
        // A machine whose CPU another machine has just then is late with every other frame: it tries again.
        let has_it = (0..20).any(|_| {
            let (Some(bias), Some(run)) = (delay(0), delay(hold_ns)) else { return true };
            let (least, most) = run.device.held_ns.unwrap();
            assert_eq!(bias.device.held_ns, None);
            assert!(least >= hold_ns && most >= least, "held {least} to {most} ns, not {hold_ns}");
            let (bias_ns, said_ns) = (bias.median_ns, run.median_ns);
            found.push((bias_ns, said_ns));
            // Without its bias it is the device's alone.
            said_ns >= hold_ns
                && said_ns <= hold_ns + bias_ns + 1_000
                && said_ns.saturating_sub(bias_ns).abs_diff(hold_ns) <= 1_000
        });
        println!("held {hold_ns} ns; bias and delay by the tester: {found:?}");
        assert!(has_it, "{hold_ns} ns, and the tester says {found:?}");
    }
}
