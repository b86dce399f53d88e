//! Traffic through a machine in the middle, with the real program: what it drops is found there, as its own counters have
//! it. Needs root, `tc`, `nft` and `nsenter`; says so and passes where they are missing. Knows no rates.

mod machines;

use std::fs;
use std::time::Duration;

use linerate_lab::Forwards;
use linerate_machine::end::Party;
use linerate_path::budget::DropCause;
use linerate_path::stage::Stage;
use linerate_results::findings::{Sureness, findings};
use linerate_results::record::Record;
use linerate_trial::doubt::DoubtKind;
use machines::row::{Row, lost_in_middle};
use machines::{Running, signal};

const IN_TIME: Duration = Duration::from_secs(30);
/// A queue of ten packets, and less than a third of the load passes.
const SHORT_QUEUE: &str = "root tbf rate 6mbit burst 5k limit 10k";
/// Data is of this length to UDP, and nothing else of a trial is.
const FILTER: &str = "add table ip f; add chain ip f c { type filter hook forward priority 0; }; \
                      add rule ip f c udp length 1008 numgen inc mod 4 0 counter drop";

const TOOLS: [&str; 3] = ["tc", "nft", "nsenter"];

/// 1000 octets each, for a third of a second.
const DATAGRAMS: [&str; 4] = ["message_size=1000", "rate=20M", "duration=300ms", "warmup=0s"];

#[test]
fn a_bridge_s_full_queue_is_found_there_both_ways() {
    let Some(row) = Row::of("bridge", Forwards::Bridge, &TOOLS) else { return };
    for (direction, port) in [("rx", "p1"), ("tx", "p0")] {
        row.tc(&format!("qdisc add dev {port} {SHORT_QUEUE}"));
        let way = format!("direction={direction}");
        let record = row.trial("udp-stream", &[&DATAGRAMS[..], &[&way, "profile=200"]].concat(), &[]);
        let counted = row.tc(&format!("-s qdisc show dev {port}"));
        let dropped = counted.split("dropped ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        row.tc(&format!("qdisc del dev {port} root"));
        let lost = record.losses[0].lost();
        assert!(lost > 100, "{lost}");
        assert_eq!(
            lost_in_middle(&record),
            [(Stage::Qdisc, Some(DropCause::Qdisc), lost)],
            "{:#?}",
            record.loss_budget
        );
        assert_eq!(record.unaccounted, Some(0));
        let line = &record.loss_budget.as_ref().unwrap()[0];
        assert_eq!((line.interface.as_deref(), line.counters[0].value.to_string().as_str()), (Some(port), dropped));
        let found = findings(&record);
        assert_eq!((found[0].name, found[0].machine), ("middle-drops", Some(Party::Middle)), "{found:#?}");
        assert_eq!(found[0].sure, Sureness::Sure);
        let middle = record.middle.as_ref().unwrap();
        assert_eq!([&*middle.ports.target.interface, &*middle.ports.host.interface], ["p1", "p0"]);
        assert!(middle.machine.cpu.is_some() && middle.machine.profile.is_some() == record.target.profile.is_some());
        assert!(record.has_doubt(DoubtKind::MiddleSharesMachine));
    }
}

#[test]
fn what_a_router_and_a_nat_filter_is_what_they_did_not_forward() {
    for (forwards, direction) in [(Forwards::Router, "tx"), (Forwards::Nat, "rx")] {
        let Some(row) = Row::of(forwards.name(), forwards, &TOOLS) else { return };
        row.in_middle("nft", &[FILTER]);
        let record = row.trial("udp-stream", &[&DATAGRAMS[..], &[&format!("direction={direction}")]].concat(), &[]);
        let rules = row.in_middle("nft", &["list", "table", "ip", "f"]);
        let words: Vec<&str> = rules.split_whitespace().collect();
        let dropped: u64 = words.windows(2).find(|pair| pair[0] == "packets").unwrap()[1].parse().unwrap();
        assert!(dropped > 100, "{rules}");
        let want = (Stage::ReceiverStack, Some(DropCause::NotForwarded), dropped);
        assert_eq!(lost_in_middle(&record), [want], "{forwards:?}: {:#?}", record.loss_budget);
        assert_eq!((record.losses[0].lost(), record.unaccounted), (dropped, Some(0)));
        assert_eq!(findings(&record)[0].name, "middle-drops");
    }
}

#[test]
fn segments_that_a_bridge_drops_are_accounted_for() {
    let Some(row) = Row::of("segments", Forwards::Bridge, &TOOLS) else { return };
    row.tc(&format!("qdisc add dev p1 {SHORT_QUEUE}"));
    // Each segment by itself: a buffer is one packet to whoever drops it.
    let set =
        ["direction=rx", "duration=400ms", "warmup=0s", "host.tso=off", "host.gso=off", "congestion_control=cubic"];
    let record = row.trial("tcp-stream", &set, &[]);
    let lines = lost_in_middle(&record);
    assert!(matches!(lines[..], [(Stage::Qdisc, _, 1..)]), "{lines:?}");
    assert_eq!(record.unaccounted, Some(0), "{:#?}", record.losses);
}

#[test]
fn segments_that_a_router_does_not_forward_are_lost_there() {
    let Some(row) = Row::of("unsent", Forwards::Router, &TOOLS) else { return };
    let rule = "add table netdev f; add chain netdev f i { type filter hook ingress device p0 priority 0; }; \
                add rule netdev f i meta length > 1000 numgen random mod 100 < 5 drop";
    row.in_middle("nft", &[rule]);
    // Each segment by itself: a buffer is one packet to whoever drops it.
    let set = ["direction=rx", "duration=600ms", "warmup=0s", "host.tso=off", "host.gso=off"];
    let record = row.trial("tcp-stream", &set, &[]);
    let finding = &findings(&record)[0];
    assert_eq!((finding.name, finding.machine), ("middle-drops", Some(Party::Middle)), "{:#?}", record.loss_budget);
    assert!(finding.sentence.contains("segments were dropped by the middle's forwarding"), "{}", finding.sentence);
}

#[test]
fn what_keeps_a_trial_from_beginning_in_the_middle_is_named() {
    let Some(row) = Row::of("closed", Forwards::Router, &TOOLS) else { return };
    let failed = |plan: &str, set: &[&str]| {
        let ran = Running::start(row.command(&["run", plan, "--middle", &row.middle()], set)).wait(IN_TIME);
        assert!(!ran.status.success(), "{ran:#?}");
        let record: Record = serde_json::from_str(&ran.stdout).unwrap();
        findings(&record).remove(0)
    };
    let counting = "add table ip f; add chain ip f c { type filter hook forward priority 0; }; \
                    add rule ip f c tcp flags & (syn | ack) == syn ct count over 4 drop";
    row.in_middle("nft", &[counting]);
    let finding = failed("tcp-stream", &["streams=12", "duration=300ms", "warmup=0s"]);
    assert!(finding.sentence.contains("connections at once pass from the host, and no more"), "{}", finding.sentence);
    row.in_middle("nft", &["flush ruleset"]);
    row.in_middle("sysctl", &["-qw", "net.ipv4.ip_forward=0"]);
    let finding = failed("udp-stream", &["rate=1M", "duration=300ms", "warmup=0s"]);
    assert_eq!(finding.machine, Some(Party::Middle), "{}", finding.sentence);
    assert!(finding.sentence.contains("does not forward: set net.ipv4.ip_forward to 1"), "{}", finding.sentence);
}

#[test]
fn a_machine_that_is_not_on_the_way_loses_nothing() {
    let Some(row) = Row::of("elsewhere", Forwards::Bridge, &TOOLS) else { return };
    let record = row.trial("udp-stream", &DATAGRAMS, &["--middle-interfaces", "lo,lo"]);
    assert!(record.has_doubt(DoubtKind::MiddleNotOnPath), "{:?}", record.doubts);
    assert_eq!(lost_in_middle(&record), []);
    assert!(record.path.iter().all(|line| line.passage.end != Some(Party::Middle)));
}

#[test]
fn a_middle_that_cannot_be_reached_is_one_sentence() {
    let Some(row) = Row::of("nowhere", Forwards::Bridge, &TOOLS) else { return };
    let words = ["run", "udp-stream", "--middle", "netns:no-such-one"];
    let ran = Running::start(row.command(&words, &DATAGRAMS)).wait(IN_TIME);
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stderr.contains("the middle (netns:no-such-one)"), "{}", ran.stderr);
    assert_eq!(ran.stderr.trim().lines().count(), 1, "{}", ran.stderr);
    // And a setting of a machine that nobody named.
    let ran = Running::start(row.command(&["run", "udp-stream"], &["middle.mtu=1400"])).wait(IN_TIME);
    assert!(ran.status.code() == Some(2) && ran.stderr.contains("give --middle ENDPOINT"), "{}", ran.stderr);
}

#[test]
fn the_middle_s_settings_are_put_back_when_its_agent_is_killed() {
    let Some(row) = Row::of("killed", Forwards::Router, &TOOLS) else { return };
    let state = || {
        let read = || {
            let mtu = fs::read_to_string("/proc/thread-self/net/route")?;
            let ttl = fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl")?;
            Ok((mtu, ttl.trim().to_owned()))
        };
        let mtu = |port| row.in_middle("ip", &["-o", "link", "show", port]).contains("mtu 1400");
        let (_, ttl) = row.lab.middle.run(read).unwrap();
        (mtu("p0"), mtu("p1"), ttl)
    };
    let before = state();
    assert_eq!((before.0, before.1), (false, false));
    let set = ["duration=20s", "rate=1M", "middle.mtu=1400", "middle.sysctl.net.ipv4.ip_default_ttl=70"];
    let running = Running::start(row.command(&["run", "udp-stream", "--middle", &row.middle()], &set));
    row.bench.wait_until("the middle is set", IN_TIME, || state() == (true, true, "70".to_owned()));
    signal(row.bench.agent_of(&row.lab.middle.path()), "KILL");
    row.bench.wait_until("its settings are put back", IN_TIME, || state() == before);
    let ran = running.wait(IN_TIME);
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stderr.contains("the middle ("), "{}", ran.stderr);
}
