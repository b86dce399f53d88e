//! The watcher on made-up looks.

use super::*;

const MS: u64 = 1_000_000;
const SLICE: u64 = 50 * MS;

fn watcher() -> Watcher {
    Watcher::begin(End::Target, Some("eth0"), None, 0)
}

fn look(link: Option<LinkState>) -> EventSources {
    EventSources { link, ..EventSources::default() }
}

fn link(is_up: bool, has_carrier: bool, changes: u64) -> Option<LinkState> {
    Some(LinkState { is_up, has_carrier, changes: Some(changes) })
}

/// Looks at one state after the other, a slice each; the measured part begins after the first slice.
fn events(looks: &[EventSources]) -> Vec<(f64, Option<f64>, &'static str)> {
    let mut watcher = watcher();
    for (slice, look) in looks.iter().enumerate() {
        watcher.look((slice as u64 + 1) * SLICE, 0, *look);
    }
    watcher.finish(SLICE).iter().map(|event| (event.at_s, event.for_s, event.what.name())).collect()
}

#[test]
fn carrier_and_interface() {
    let (on, off, down) = (|| link(true, true, 2), || link(true, false, 3), || link(false, false, 3));
    let looks = |states: Vec<Option<LinkState>>| states.into_iter().map(look).collect::<Vec<_>>();
    assert_eq!(
        events(&looks(vec![on(), on(), off(), off(), link(true, true, 4), link(true, true, 4)])),
        [(0.075, Some(0.1), "carrier-lost"), (0.175, None, "carrier-back")]
    );
    assert_eq!(
        events(&looks(vec![on(), link(true, true, 4)])),
        [(0.025, Some(0.0), "carrier-lost"), (0.025, None, "carrier-back")]
    );
    assert_eq!(
        events(&looks(vec![on(), down(), down(), off(), link(true, true, 4)])),
        [(0.025, Some(0.1), "interface-set"), (0.125, None, "interface-set"), (0.175, None, "carrier-back")]
    );
    assert_eq!(events(&looks(vec![on(), None, None])), [(0.025, None, "interface-set")], "it was taken out");
    assert_eq!(events(&looks(vec![None, None])), [], "it was never seen");
    assert_eq!(events(&looks(vec![off(), off()])), [], "it was so before");
}

#[test]
fn a_quota_used_up_in_each_period_is_one_event() {
    let throttled = |us| EventSources { throttled_us: us, ..look(None) };
    // Told when each period of 100 ms ends; then not for a while.
    let pattern = [0, 80, 0, 80, 0, 80, 0, 0, 0, 0, 0, 80, 0];
    let looks: Vec<_> = pattern.iter().map(|ms| throttled(ms * 1000)).collect();
    assert_eq!(events(&looks), [(0.0, Some(0.25), "throttled"), (0.5, Some(0.05), "throttled")]);
}

#[test]
fn who_is_late_was_stopped_or_the_machine_was_busy() {
    let check = |delay_ns, steal, busiest, want| {
        let machine = EventSources { steal, busiest, ..look(None) };
        assert_eq!(is_busy(300 * MS, delay_ns, machine, 350 * MS), want, "{delay_ns:?} {steal} {busiest:?}");
    };
    check(Some(0), 0, Some(1000), false);
    check(Some(290 * MS), 0, Some(1000), true);
    check(Some(0), 900, None, true);
    check(None, 0, Some(1000), true);
    check(None, 0, Some(100), false);
    let mut watcher = watcher();
    watcher.look(SLICE, 0, look(None));
    watcher.look(2 * SLICE + 300 * MS, 300 * MS, look(None));
    let events = watcher.finish(0);
    assert_eq!((events[0].at_s, events[0].for_s, events[0].within_s), (0.075, Some(0.325), 0.05));
    assert_eq!(events[0].what, EventKind::AgentStopped);
}

#[test]
fn a_storm_is_a_hundred_events_and_a_count() {
    let looks: Vec<_> = (0..200).map(|at| look(link(true, at % 2 == 0, at))).collect();
    let events = events(&looks);
    assert_eq!((events.len(), events[100].2), (101, "more"));
}

#[test]
fn a_step_of_the_wall_clock_is_told_and_slewing_is_not() {
    for (moved_ns, want) in [(-2_500_000_000, vec![2.5]), (30_000_000, vec![-0.03]), (9_000_000, vec![]), (0, vec![])] {
        let mut watcher = watcher();
        watcher.clocks = watcher.clocks.map(|apart| apart + moved_ns);
        watcher.look(SLICE, 0, look(None));
        watcher.look(2 * SLICE, 0, look(None));
        let steps = watcher.finish(0).into_iter().map(|event| match event.what {
            EventKind::ClockStepped { by_s } => by_s,
            other => panic!("{other:?}"),
        });
        assert_eq!(steps.map(|by_s| (by_s * 100.0).round() / 100.0).collect::<Vec<_>>(), want);
    }
}
