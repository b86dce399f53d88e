//! Findings: what limits a trial and where its packets went, concluded from its record by rules, each a small file.
//! Measures nothing and prints nothing; a finding is derived and never stored.
//!
//! A rule starts from something that went wrong for the user: packets were lost, segments were retransmitted, less came
//! through than was wanted, an answer took long. Without that there is no finding, however odd a setting looks.

mod acknowledgements;
mod case;
#[cfg(any(test, feature = "sample"))]
pub mod cases;
mod missing_facts;
#[cfg(test)]
mod page;

mod agent_stopped;
mod application_limited;
mod bottleneck;
mod bounce_buffers;
mod checksum_offload;
mod coalescing_latency;
mod congestion_marks;
mod connection_reset;
mod contradiction;
mod cpu_quota;
mod cpu_time;
mod cpu_wait;
mod dead_flows;
mod duplex;
mod duplicates;
mod ecn_dropped;
mod eee;
mod far_path;
mod fifo_overrun;
mod fragments;
mod governor;
mod host_limits;
mod idle_states;
mod interface_filter;
mod interrupt_storm;
mod link_damage;
mod link_down;
mod link_speed;
mod live_frames;
mod losses;
mod lossy_path;
mod middle_cpu;
mod middle_drops;
mod mss_multiple;
mod mtu_mismatch;
mod neighbour_changed;
mod neighbours;
mod no_sack;
mod nothing_comes_through;
mod others_traffic;
mod outage;
mod path_mtu;
mod pause_storm;
mod qdisc_drops;
mod receive_buffer;
mod receive_ring;
mod receive_window;
mod receiver_cpu;
mod receiver_starved;
mod refused;
mod reordering;
mod retransmission_timeout;
mod segmentation;
mod send_buffer;
mod sender_cpu;
mod sender_starved;
mod shaper;
mod short_stalls;
mod side;
mod slow_answers;
mod slow_time;
mod small_buffer;
mod small_segments;
mod softirq_backlog;
mod softirq_cpu;
mod stack_drops;
mod steal;
mod streams;
mod symptom;
mod throttled;
mod time_squeeze;
mod transmit_ring;
mod unaccounted;
mod unaligned;
mod words;

use linerate_machine::end::{Direction, End, Party};
use linerate_machine::words;
use serde::Serialize;

use crate::record::Record;
use case::Case;
pub use missing_facts::{MissingFact, absent};
pub use symptom::{Symptom, limit, symptom};

/// Something that a record shows, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it, such as `receive-ring`.
    pub name: &'static str,
    /// Which of the kinds that the rule tells apart; absent where it tells none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// How far the evidence carries.
    pub sure: Sureness,
    /// Which way the traffic went that it concerns.
    pub direction: Direction,
    /// On which machine; absent where it lies between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Party>,
    /// What it is, one sentence.
    pub sentence: String,
    /// The figures that it rests on, a clause each.
    pub evidence: Vec<String>,
    /// What to change, the most promising first.
    pub tries: Vec<Suggestion>,
    /// What would show that it is wrong: one sentence.
    pub wrong_if: String,
    /// How much of the trouble it explains, from 0 to 1.
    pub weight: f64,
    /// Findings whose cause it is; it stands before them.
    #[serde(skip)]
    explains: Vec<&'static str>,
    /// It is of the direction that lost by far the less: whatever it rests on, it is not the answer.
    #[serde(skip)]
    is_minor: bool,
}

words! {
    /// How far the evidence of a finding carries.
    Sureness {
        /// It is known to do this, and nothing here shows that it did.
        Possible = "possible",
        /// The figures fit, and fit other causes less.
        Likely = "likely",
        /// Counters say so themselves.
        Sure = "sure",
    }
}

/// Something to change: an option of a trial, or a setting of a machine, as `--set` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Its name, such as `target.ring.rx` or `socket_buffer`.
    pub name: String,
    /// The value to give it.
    pub value: String,
    /// The metric that should change, if the finding is right, as `compare` names it.
    pub metric: &'static str,
}

/// A rule, as help texts and docs/findings.md show it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of its findings.
    pub name: &'static str,
    /// What it says, one line.
    pub says: &'static str,
    /// On what evidence, and from which figure on.
    pub rests_on: &'static str,
    /// Where its threshold, or its meaning of a counter, comes from.
    pub source: &'static str,
    /// Names of settings and options that it may suggest; empty where no setting helps.
    pub suggests: &'static [&'static str],
    find: fn(&Case<'_>) -> Option<Finding>,
}

/// Every rule. Of findings that are equally sure and weigh the same, the one further up comes first: causes that
/// are narrow, and named by a counter of their own, before wide ones.
pub const RULES: &[Rule] = &[
    nothing_comes_through::RULE,
    connection_reset::RULE,
    agent_stopped::RULE,
    cpu_quota::RULE,
    link_down::RULE,
    neighbour_changed::RULE,
    live_frames::RULE,
    outage::DIED,
    outage::RULE,
    mtu_mismatch::RULE,
    duplex::RULE,
    neighbours::RULE,
    fifo_overrun::RULE,
    link_damage::RULE,
    softirq_cpu::RULE,
    middle_cpu::RULE,
    middle_drops::RULE,
    interface_filter::RULE,
    softirq_backlog::RULE,
    receive_ring::RULE,
    time_squeeze::RULE,
    qdisc_drops::RULE,
    transmit_ring::RULE,
    receiver_starved::RULE,
    sender_starved::RULE,
    small_buffer::RULE,
    receiver_cpu::RULE,
    receive_buffer::RULE,
    stack_drops::RULE,
    unaccounted::RULE,
    pause_storm::RULE,
    acknowledgements::RULE,
    shaper::RULE,
    slow_time::RULE,
    congestion_marks::RULE,
    bottleneck::RULE,
    path_mtu::RULE,
    lossy_path::RULE,
    no_sack::RULE,
    ecn_dropped::RULE,
    short_stalls::RULE,
    retransmission_timeout::RULE,
    reordering::RULE,
    duplicates::RULE,
    dead_flows::RULE,
    fragments::RULE,
    receive_window::RULE,
    send_buffer::RULE,
    mss_multiple::RULE,
    small_segments::RULE,
    link_speed::RULE,
    host_limits::RULE,
    throttled::RULE,
    steal::RULE,
    interrupt_storm::RULE,
    bounce_buffers::RULE,
    segmentation::RULE,
    checksum_offload::RULE,
    unaligned::RULE,
    governor::RULE,
    sender_cpu::RULE,
    application_limited::RULE,
    eee::RULE,
    idle_states::RULE,
    coalescing_latency::RULE,
    cpu_wait::RULE,
    slow_answers::RULE,
    far_path::RULE,
    others_traffic::RULE,
    contradiction::RULE,
];

/// What a record shows, the most likely to be the answer first. Empty where nothing went wrong, or nothing that was
/// recorded says why; [`absent`] then tells what is not known.
pub fn findings(record: &Record) -> Vec<Finding> {
    #[cfg(any(test, feature = "sample"))]
    crate::effort::count(|effort| effort.findings += 1);
    let mut found: Vec<Finding> = Vec::new();
    let mut cases = Case::of(record);
    if record.workload.is_stream() {
        // Of two that are as sure and explain as much, that of the way that lost more stays first.
        cases.sort_by(|a, b| b.lost_share().total_cmp(&a.lost_share()));
    }
    for case in cases {
        for finding in RULES.iter().filter_map(|rule| (rule.find)(&case)) {
            // Of both directions at once a machine's own trouble is told once; of requests and their answers all but what is of one way.
            let is_told = |other: &Finding| {
                (other.name, other.machine) == (finding.name, finding.machine)
                    && (finding.machine.is_some() || !(record.workload.is_stream() || OF_A_WAY.contains(&finding.name)))
            };
            match found.iter_mut().find(|other| is_told(other)) {
                Some(other) if other.is_minor => *other = finding,
                Some(_) => {}
                None => found.push(finding),
            }
        }
    }
    rank(found)
}

/// What may be so of requests, and of their answers as well.
const OF_A_WAY: [&str; 3] = [lossy_path::RULE.name, unaccounted::RULE.name, bottleneck::RULE.name];

/// By sureness, then by weight, then in the rules' order; a cause before what it explains, and before what that explains.
fn rank(found: Vec<Finding>) -> Vec<Finding> {
    let explains = |finding: &Finding, other: &Finding| {
        finding.sure >= Sureness::Likely && finding.explains.contains(&other.name) && other.name != finding.name
    };
    let score = |one: &Finding| {
        let minor = if one.is_minor { f64::from(Sureness::Sure as u8) } else { 0.0 };
        f64::from(one.sure as u8) + one.weight.clamp(0.0, 1.0) * 0.9 - minor
    };
    let mut scores: Vec<f64> = found.iter().map(score).collect();
    for _ in 0..CHAIN {
        for (at, finding) in found.iter().enumerate() {
            let explained = found.iter().zip(&scores).filter(|(other, _)| explains(finding, other));
            scores[at] = explained.map(|(_, score)| score + 0.001).fold(scores[at], f64::max);
        }
    }
    let mut scored: Vec<(f64, Finding)> = scores.into_iter().zip(found).collect();
    // Of two that explain the same, what weighs more itself. Stable: equals stay in the rules' order.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.weight.total_cmp(&a.1.weight)));
    scored.into_iter().map(|(_, finding)| finding).collect()
}

/// So many causes may stand behind one another: checksums off, TSO off with them, no CPU time left.
const CHAIN: usize = 3;

impl Rule {
    /// A finding of this rule, to be filled in.
    fn finds(&self, case: &Case<'_>, machine: Option<End>, sure: Sureness, weight: f64, sentence: String) -> Finding {
        Finding {
            name: self.name,
            kind: None,
            sure,
            direction: case.way,
            machine: machine.map(Party::from),
            sentence,
            evidence: Vec::new(),
            tries: Vec::new(),
            wrong_if: String::new(),
            weight,
            explains: Vec::new(),
            is_minor: case.has_lost_little(),
        }
    }
}

impl Finding {
    fn on_middle(self) -> Finding {
        self.on(Party::Middle)
    }

    fn on(mut self, machine: impl Into<Party>) -> Finding {
        self.machine = Some(machine.into());
        self
    }

    fn because(mut self, clause: impl Into<String>) -> Finding {
        self.evidence.push(clause.into());
        self
    }

    fn of_kind(mut self, kind: &'static str) -> Finding {
        self.kind = Some(kind);
        self
    }

    fn because_of(mut self, clauses: impl IntoIterator<Item = String>) -> Finding {
        self.evidence.extend(clauses);
        self
    }

    /// Suggests a change; `metric` should get better by it.
    fn attempt(mut self, name: impl Into<String>, value: impl Into<String>, metric: &'static str) -> Finding {
        self.tries.push(Suggestion { name: name.into(), value: value.into(), metric });
        self
    }

    fn wrong_if(mut self, sentence: impl Into<String>) -> Finding {
        self.wrong_if = sentence.into();
        self
    }

    fn explains(mut self, names: &'static [&'static str]) -> Finding {
        self.explains.extend(names);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use linerate_machine::end::{End, Party};
    use linerate_machine::probe::Protocol;
    use linerate_path::budget::{Chain, MachineAccount, drops_seen};
    use linerate_path::stage::{Counters, Stage};
    use linerate_trial::doubt::{Doubt, Doubted};
    use linerate_trial::event::{Event, EventKind};
    use linerate_trial::options;
    use linerate_trial::outcome::TcpSample;
    use linerate_trial::spec::{Spec, Workload};

    use super::*;
    use crate::examination::{Examination, Failed, Passed, Place, Probe, Step, StepResult};
    use crate::record::{Counted, Directions, FlowFigures, Interval, Losses};
    use crate::sample;
    use crate::time_budget::{Limit, TimeLine};

    /// Whether `--set` would take it.
    fn is_taken(suggestion: &Suggestion) -> Result<(), String> {
        match options::setting_of(&suggestion.name) {
            Some((_, setting)) => linerate_machine::setting::canonical(setting, &suggestion.value)
                .map(|_| ())
                .map_err(|error| error.to_string()),
            None => {
                let set = |workload| Spec::new(workload).set(&suggestion.name, &suggestion.value);
                let set = set(Workload::TcpStream).or(set(Workload::UdpStream)).or(set(Workload::Frames));
                set.map_err(|error| error.to_string())
            }
        }
    }

    #[test]
    fn every_rule_is_provoked_and_never_asserts_barely() {
        let mut provoked = BTreeSet::new();
        for case in cases::cases() {
            for finding in findings(&case.record) {
                provoked.insert(finding.name);
                let rule = RULES.iter().find(|rule| rule.name == finding.name).unwrap();
                let text = format!("{}: {finding:#?}", case.name);
                assert!(!finding.sentence.is_empty() && finding.sentence.ends_with('.'), "{text}");
                assert!(finding.evidence.iter().any(|clause| clause.contains(|c: char| c.is_ascii_digit())), "{text}");
                assert!(finding.wrong_if.ends_with('.'), "{text}");
                assert!((0.0..=1.0).contains(&finding.weight), "{text}");
                let unknown = finding.explains.iter().find(|name| RULES.iter().all(|rule| rule.name != **name));
                assert_eq!(unknown, None, "it explains no rule: {text}");
                for suggestion in &finding.tries {
                    is_taken(suggestion).unwrap_or_else(|complaint| panic!("{complaint}: {text}"));
                    assert!(crate::figure::Metric::find(suggestion.metric).is_some(), "{text}");
                    let bare = ["target.", "host.", "middle."]
                        .iter()
                        .fold(suggestion.name.as_str(), |name, whose| name.trim_start_matches(whose));
                    assert!(rule.suggests.contains(&bare), "{} does not say {bare}: {text}", rule.name);
                }
            }
        }
        let silent: Vec<&str> = RULES.iter().map(|rule| rule.name).filter(|name| !provoked.contains(name)).collect();
        assert_eq!(silent, [""; 0], "no case provokes these rules");
    }

    #[test]
    fn counters_that_cannot_be_overflow_nothing() {
        for mut case in cases::cases() {
            for machine in [&mut case.record.target, &mut case.record.host] {
                for counters in machine.counters.0.values_mut() {
                    counters.values_mut().for_each(|value| *value = u64::MAX);
                }
                for version in ["IpExt", "Ip6"] {
                    for field in ["InNoECTPkts", "InECT0Pkts", "InCEPkts", "InDelivers"] {
                        machine.counters.add(Stage::ReceiverStack, format!("{version} {field}"), u64::MAX);
                    }
                }
                machine.counters.add(Stage::SenderStack, "Tcp OutSegs", u64::MAX);
            }
            findings(&case.record);
        }
    }

    #[test]
    fn the_right_finding_is_first_and_no_wrong_one_is_sure() {
        let mut wrong = Vec::new();
        let all = cases::cases();
        let faults = all.iter().filter(|case| case.right.is_some()).count();
        for case in &all {
            let found = findings(&case.record);
            let names: Vec<String> = found.iter().map(|one| format!("{} {}", one.name, one.sure.name())).collect();
            println!("{:<48} {:<22} {}", case.name, case.right.unwrap_or("nothing"), names.join(", "));
            match case.right {
                None => assert_eq!(names, [""; 0], "{}", case.name),
                Some(right) if found.first().is_none_or(|first| first.name != right) => wrong.push(case.name),
                Some(_) => {}
            }
            for finding in found.iter().filter(|finding| finding.sure == Sureness::Sure) {
                assert!(case.allows(finding.name), "{}: {} is stated as sure", case.name, finding.name);
            }
        }
        // One of two causes, both of which are true; what is right elsewhere stays so.
        assert_eq!(wrong, ["a router whose backlog is full, and its only CPU"], "not first, of {faults}");
    }

    fn record_of(name: &str) -> Record {
        cases::cases().into_iter().find(|case| case.name == name).unwrap().record
    }

    /// With this time budget: who limited the stream, and for which share of its time.
    fn set_time(record: &mut Record, shares: &[(Limit, f64)]) {
        let direction = record.direction;
        let line = |&(limit, share)| TimeLine { direction, limit, end: None, seconds: 2.0 * share, share };
        record.time_budget = shares.iter().map(line).collect();
    }

    fn found<'f>(all: &'f [Finding], name: &str) -> Option<&'f Finding> {
        all.iter().find(|finding| finding.name == name)
    }

    #[test]
    fn of_both_directions_the_one_that_lost_most_comes_first() {
        let first = |lost: [u64; 2]| {
            let mut record = crate::sample::both(0);
            (record.loss_budget, record.unaccounted) = (Some(Vec::new()), None);
            let directions = record.result.as_mut().unwrap().directions.as_mut().unwrap();
            for (flow, lost) in [&mut directions.tx, &mut directions.rx].into_iter().zip(lost) {
                let sent = flow.packets_sent.unwrap();
                (flow.packets_lost, flow.packets_received) = (Some(lost), Some(sent - lost));
                flow.loss_ratio = Some(lost as f64 / sent as f64);
            }
            let way = |direction, lost: u64| {
                let of = Counted::Datagrams;
                Losses { direction, of, sent: 51_000, arrived: 51_000 - lost, unaccounted: lost as i64 }
            };
            record.losses = vec![way(Direction::Tx, lost[0]), way(Direction::Rx, lost[1])];
            let found = findings(&record);
            (found[0].name, found[0].direction)
        };
        assert_eq!(first([20_000, 200]).1, Direction::Tx);
        assert_eq!(first([200, 20_000]).1, Direction::Rx);
        // Also where both lost much.
        assert_eq!((first([9_000, 3_000]).1, first([3_000, 9_000]).1), (Direction::Tx, Direction::Rx));
    }

    #[test]
    fn what_hides_a_cause_is_said() {
        let all = cases::cases();
        for (name, words) in [
            ("a bad link of several", "2 of 6 streams lost 30 % of theirs, and the others nothing"),
            ("bursts of the trial", "has no room for the 60 that the trial sends at a time"),
            ("several streams above", "or something there drops 50 %, whatever the rate"),
            ("a tunnel over", "The interface below the target's eth0 refused what it was given"),
            ("a sender that other programs", "can send no faster beside other programs"),
            ("a sender whose control group", "waits for a CPU while CPUs are idle"),
            ("a loss on the way beside another", "of which were others or copies"),
            (
                "buffers of segments that a filter at the receiver's ingress takes, behind",
                "in the target behind its link",
            ),
            ("losses that nobody counted to the end", "100 of 3854 segments never arrived"),
            ("segments that an egress filter takes behind", "vanished in the host before its link"),
            ("a policer, and BBR", "as a limit of rate with a short queue drops them: about 18.0 Mbit/s"),
        ] {
            let case = all.iter().find(|case| case.name.starts_with(name)).unwrap();
            let first = findings(&case.record).remove(0);
            let said = format!("{} {}", first.sentence, first.evidence.join("; "));
            assert!(said.contains(words), "{name}: {said}");
        }
    }

    #[test]
    fn a_link_that_did_not_carry_the_traffic_places_no_loss() {
        let check = |name: &str, end: &str| {
            let all = findings(&record_of(name));
            let said = format!("passes by another interface of the {end} than eth0");
            assert!(all[0].sentence.contains(&said) && all[0].machine.is_none(), "{all:#?}");
            for wrong in ["lossy-path", "bottleneck"] {
                assert!(found(&all, wrong).is_none(), "{all:#?}");
            }
            let doubts = record_of(name).doubts;
            assert!(doubts.iter().any(|doubt| doubt.what.to_string().contains("ip neigh")), "{doubts:?}");
        };
        check("datagrams that arrive by another interface", "target");
        check("datagrams that leave by another interface", "target");
    }

    #[test]
    fn a_discipline_is_that_of_the_interface_whose_counter_moved() {
        let check = |name: &str, says: &str, kind: &str| {
            let all = findings(&record_of(name));
            let first = &all[0];
            assert_eq!(
                (first.name, first.sure, first.tries.len(), all.len()),
                ("qdisc-drops", Sureness::Sure, 0, 1),
                "{all:#?}"
            );
            assert!(first.sentence.contains(says), "{first:#?}");
            assert!(first.evidence.iter().any(|clause| clause == kind), "{first:#?}");
            assert_eq!(record_of(name).unaccounted, Some(0));
        };
        let shapes = "The target's vt, by which eth0 sends, shapes what it sends, and drops the rest.";
        check("TBF on the port of a bridge that has the address", shapes, "the discipline is tbf");
        check("TBF below a macvlan, which counts its drops again", shapes, "the discipline is tbf");
        let full = "The transmit queue of the target's vt, by which eth0 sends, ran full.";
        check("pfifo of 10 packets on a bridge's port", full, "the discipline is pfifo");
        // The interface's own.
        let own = findings(&record_of("TBF at the sender"));
        assert_eq!((own[0].name, own[0].tries.len()), ("qdisc-drops", 1), "{own:#?}");
    }

    #[test]
    fn a_small_mtu_in_the_middle_is_named() {
        let first = &findings(&record_of("MTU 1400 at a bridge in the middle"))[0];
        assert!(first.evidence.iter().any(|clause| clause == "the middle's MTU is 1400 at p1 and p0"), "{first:#?}");
    }

    #[test]
    fn a_way_that_got_slower_has_its_present_rate() {
        let mut record = record_of("a way that got slower in mid-trial");
        let said = |record: &Record| findings(record)[0].sentence.clone();
        assert!(said(&record).contains("about 19.1 Mbit/s pass it"), "{}", said(&record));
        // Before that the rate that was asked limited, for longer.
        let mut asked = record.clone();
        set_time(&mut asked, &[(Limit::AskedRate, 0.52), (Limit::Path, 0.46)]);
        assert!(said(&asked).contains("about 19.1 Mbit/s pass it"), "{}", said(&asked));
        // One that got faster has none that limits it all the time.
        let EventKind::RateChanged { from_bps, to_bps, .. } = &mut record.events[0].what else { panic!() };
        std::mem::swap(from_bps, to_bps);
        assert!(said(&record).contains("about 135 Mbit/s pass it"), "{}", said(&record));
    }

    #[test]
    fn a_slower_way_is_told_by_what_passes_while_something_does() {
        let mut record = record_of("a slower link on the way");
        let mut said = |for_s: f64| {
            let what = EventKind::Stall { direction: Some(Direction::Tx), lost_share: None };
            record.events = vec![Event { at_s: 0.2, for_s: Some(for_s), within_s: 0.05, end: None, what }];
            findings(&record).into_iter().find(|one| one.name == "bottleneck").unwrap().sentence
        };
        // 95 Mbit/s in the mean, nothing for a quarter of 2 s.
        assert!(said(0.5).contains("about 127 Mbit/s pass it"), "{}", said(0.5));
        // A silence as long as the trial tells nothing.
        assert!(said(1e9).contains("about 95.0 Mbit/s pass it"), "{}", said(1e9));
    }

    #[test]
    fn a_shaper_in_the_middle_is_named() {
        let first = &findings(&record_of("a shaper of the router in the middle"))[0];
        assert!(first.sentence.starts_with("The middle's tbf at p0 keeps to a rate"), "{first:#?}");
        assert_eq!(first.machine, Some(Party::Middle));
        assert_eq!(first.tries[0].name, "middle.qdisc");
    }

    #[test]
    fn whoever_sent_all_had_the_time_for_checksums() {
        let is_told = |sent_mbit: f64| {
            let mut record = record_of("a lossy way behind a CPU that computes checksums in time");
            record.result.as_mut().unwrap().flow.achieved_load_bps = Some(sent_mbit * 1e6);
            found(&findings(&record), "checksum-offload").is_some()
        };
        assert!(!is_told(99.8) && is_told(90.0));
    }

    #[test]
    fn marks_are_counted_where_they_arrive() {
        let mut record = record_of("segments marked as congested");
        record.host.counters.add(Stage::ReceiverStack, "IpExt InCEPkts", 90);
        let all = findings(&record);
        let marks = found(&all, "congestion-marks").unwrap();
        assert!(
            marks.evidence[0].starts_with("90 of") && marks.evidence[0].ends_with("(host: InCEPkts)"),
            "{marks:#?}"
        );
    }

    #[test]
    fn cpu_time_without_offloads_stands_behind_many_losses_on_the_way() {
        let stands_before = |lost: u64| {
            let mut record = record_of("one segment of fifty lost on the way");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_lost) = (lost, Some(lost));
            let losses = &mut record.losses[0];
            (losses.arrived, losses.unaccounted) = (losses.sent - lost, lost as i64);
            found(&findings(&record), "lossy-path").unwrap().explains.contains(&"checksum-offload")
        };
        // Of 2,600 or so.
        assert!(!stands_before(30) && stands_before(60));
    }

    #[test]
    fn a_way_that_stops_once_says_so() {
        let mut record = record_of("a way that stops for a tenth of a second now and then");
        let flow = &mut record.result.as_mut().unwrap().flow;
        flow.loss_bursts = Some([(flow.packets_lost.unwrap(), 1)].into());
        let all = findings(&record);
        let one = found(&all, "lossy-path").unwrap();
        assert!(one.sentence.ends_with("ms, once: something there stopped."), "{one:#?}");
    }

    #[test]
    fn a_way_that_stops_now_and_then_says_how_long() {
        let first = &findings(&record_of("a way that stops for a tenth of a second now and then"))[0];
        assert!(first.sentence.contains("for about 100 ms at a time: something there stopped 10 times"), "{first:#?}");
        assert!(first.evidence.iter().any(|one| one.contains("in 10 bursts, 340 (100 ms) at a time")), "{first:#?}");
    }

    #[test]
    fn a_limit_of_rate_is_told_by_what_passes_while_it_bites() {
        let said = |name: &str| findings(&record_of(name))[0].clone();
        let policer = said("a policer whose bucket lets the first second pass");
        assert!(policer.sentence.ends_with("above about 20.4 Mbit/s."), "{policer:#?}");
        assert!(policer.evidence.iter().any(|clause| clause.starts_with("until 0.95 s")), "{policer:#?}");
        let counts = said("every twentieth lost on the way");
        let both = "above about 38.0 Mbit/s, or something there drops every 20th one, whatever the rate.";
        assert!(counts.sentence.ends_with(both) && counts.wrong_if.contains("half the rate"), "{counts:#?}");
        // What is no whole number is no count.
        let mut record = record_of("every twentieth lost on the way");
        record.result.as_mut().unwrap().flow.loss_ratio = Some(1.0 / 19.5);
        let all = findings(&record);
        assert!(all[0].sentence.ends_with("above about 38.0 Mbit/s."), "{all:#?}");
    }

    #[test]
    fn checksums_limit_no_requests_and_no_frames() {
        let mut record = record_of("checksums by the CPU");
        assert!(found(&findings(&record), "checksum-offload").is_some());
        record.workload = Workload::Frames;
        let of_frames = findings(&record);
        assert!(found(&of_frames, "checksum-offload").is_none() && found(&of_frames, "sender-cpu").is_some());
        record.workload = Workload::UdpRr;
        record.error = Some("no test traffic passed for 5 s".to_owned());
        assert!(found(&findings(&record), "checksum-offload").is_none());
    }

    #[test]
    fn few_requests_at_once_are_silent_by_chance() {
        let check = |rate: u64, outstanding: &str, is_one: bool| {
            let mut record = record_of("answers of which one in four is lost, at random");
            drop(record.asked.insert("outstanding".to_owned(), outstanding.to_owned()));
            record.result.as_mut().unwrap().latency.as_mut().unwrap().count = rate;
            let all = findings(&record);
            assert_eq!(found(&all, "outage").is_some(), is_one, "{rate} {outstanding}: {all:#?}");
        };
        check(37, "1", false);
        check(3_700, "1", true);
        check(37, "8", true);
    }

    #[test]
    fn reordering_that_costs_a_busy_cpu_nothing_is_no_finding() {
        let check = |retransmissions: u64, busy: f64, limit: Limit, share: f64, is_one: bool| {
            let mut record = record_of("packets overtake each other");
            record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap().retransmissions = retransmissions;
            record.target.cpu.as_mut().unwrap().machine.busy = busy;
            let direction = record.direction;
            record.time_budget =
                vec![TimeLine { direction, limit, end: Some(End::Target), seconds: 2.0 * share, share }];
            let all = findings(&record);
            let said = format!("{retransmissions} {busy} {limit:?} {share}: {all:#?}");
            assert_eq!(found(&all, "reordering").is_some(), is_one, "{said}");
        };
        check(500, 0.5, Limit::SenderCpu, 0.9, false);
        check(500, 0.5, Limit::SenderCpu, 0.5, true);
        check(500, 0.5, Limit::Path, 0.9, true);
        check(2_400, 0.5, Limit::SenderCpu, 0.9, true);
        // A machine without idle time, whatever limits the stream.
        check(500, 0.97, Limit::Pacing, 0.4, false);
        check(500, 0.97, Limit::Reordering, 0.2, true);
        check(2_400, 0.97, Limit::Pacing, 0.4, true);
        // Next to nothing, whatever limits.
        check(150, 0.5, Limit::Pacing, 0.4, false);
    }

    #[test]
    fn reordering_on_a_machine_that_both_ends_keep_busy_is_its_own() {
        let check = |retransmissions: u64, limit: Limit, is_shared: bool, is_one: bool| {
            let mut record = record_of("packets overtake each other");
            record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap().retransmissions = retransmissions;
            set_time(&mut record, &[(limit, 0.6), (Limit::Reordering, 0.14)]);
            if is_shared {
                record.doubts.push(Doubted::SharedMachine.into());
            }
            let all = findings(&record);
            let said = format!("{retransmissions} {limit:?} {is_shared}: {all:#?}");
            assert_eq!(found(&all, "reordering").is_some(), is_one, "{said}");
        };
        check(500, Limit::SenderCpu, true, false);
        check(500, Limit::SenderCpu, false, true);
        check(500, Limit::Path, true, true);
        check(2_400, Limit::SenderCpu, true, true);
    }

    #[test]
    fn answers_wait_for_no_timer_where_nothing_was_sent_again() {
        let check = |again: Option<u64>, lost: u64, is_one: bool| {
            let mut record = record_of("answers of which each waits for TCP's timer");
            record.result.as_mut().unwrap().latency.as_mut().unwrap().min_s = Some(100e-6);
            for machine in [&mut record.target, &mut record.host] {
                machine.counters = Counters::default();
                again.into_iter().for_each(|again| machine.counters.add(Stage::SenderStack, "Tcp RetransSegs", again));
            }
            let direction = record.direction;
            record.losses =
                vec![Losses { direction, of: Counted::Segments, sent: 9, arrived: 9 - lost, unaccounted: 0 }];
            let all = findings(&record);
            assert_eq!(found(&all, "retransmission-timeout").is_some(), is_one, "{again:?} {lost}: {all:#?}");
        };
        check(Some(0), 0, false);
        check(Some(4), 0, true);
        // What an end drops itself it sends once more, and counts no retransmission.
        check(Some(0), 1, true);
        check(None, 0, true);
    }

    #[test]
    fn what_its_own_queue_drops_tcp_tries_again_without_a_retransmission() {
        let check = |drops: u64, is_one: bool| {
            let mut record = record_of("pfifo of 10 packets under TCP");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_sent) = (0, Some(112_000));
            record.target.counters = Counters::default();
            record.target.counters.add(Stage::Qdisc, "eth0 pfifo drops", drops);
            let all = findings(&record);
            assert_eq!(found(&all, "qdisc-drops").is_some(), is_one, "{drops}: {all:#?}");
        };
        check(34_000, true);
        check(100, false);
    }

    #[test]
    fn at_a_rate_that_was_asked_the_window_has_its_share_of_the_time() {
        let check = |rate: &str, share: f64, is_one: bool| {
            let mut record = record_of("the receive window of 64 KiB over 4 ms");
            record.asked.insert("rate".to_owned(), rate.to_owned());
            set_time(&mut record, &[(Limit::AskedRate, 1.0 - share), (Limit::ReceiveWindow, share)]);
            let all = findings(&record);
            assert_eq!(found(&all, "receive-window").is_some(), is_one, "{rate} {share}: {all:#?}");
        };
        check("unlimited", 0.03, true);
        check("200M", 0.03, false);
        check("200M", 0.5, true);
    }

    #[test]
    fn what_the_way_doubles_is_no_others_traffic() {
        let has = |octets_per_s: f64| {
            let mut record = record_of("others on the link");
            let what = EventKind::OthersTraffic { octets_per_s };
            record.events = vec![Event { what, ..record.events[0].clone() }];
            let of = Counted::Segments;
            let direction = record.direction;
            record.losses = vec![Losses { direction, of, sent: 80_000, arrived: 160_000, unaccounted: 0 }];
            found(&findings(&record), "others-traffic").is_some()
        };
        // The trial's own 480 Mbit/s, once more; and something beside it.
        assert_eq!([has(60e6), has(200e6)], [false, true]);
    }

    #[test]
    fn a_silence_of_tcp_s_timer_comes_behind_the_filter_that_made_it() {
        let first = |is_counted: bool| {
            let mut record = record_of("segments that a packet filter takes, until the timer runs out");
            if !is_counted {
                record.loss_budget = Some(Vec::new());
            }
            findings(&record)[0].name
        };
        assert_eq!(first(true), "stack-drops");
        assert_eq!(first(false), "outage");
    }

    #[test]
    fn what_was_never_transmitted_is_found_without_a_retransmission() {
        let check = |transmitted: u64, is_one: bool| {
            let mut record = record_of("segments that a packet filter takes, until the timer runs out");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_sent) = (0, Some(3_332));
            record.losses.clear();
            record.events.clear();
            let (sender, receiver) = (&mut record.host.counters, &mut record.target.counters);
            sender.add(Stage::SenderStack, "Ip OutRequests", 904);
            sender.add(Stage::SenderStack, "Ip OutTransmits", transmitted);
            receiver.add(Stage::ReceiverStack, "Ip InDelivers", 520);
            let [target, host] = [&record.target, &record.host].map(|machine| &machine.counters);
            let (sender, receiver) =
                (MachineAccount::new(End::Host, host, None), MachineAccount::new(End::Target, target, None));
            record.loss_budget = Some(drops_seen(false, Some(640), Chain::direct(&sender, &receiver)).lines);
            let all = findings(&record);
            assert_eq!(found(&all, "stack-drops").is_some(), is_one, "{transmitted}: {all:#?}");
        };
        check(727, true);
        check(904, false);
    }

    /// The target's sending thread: seconds of two that it worked and waited, the CPUs that others had, whether both ends share a
    /// machine, and the rate that was asked.
    fn starved(worked_s: f64, waited_s: f64, others: Option<f64>, shared: bool, rate: &str) -> Vec<Finding> {
        let mut record = record_of("the writer of TCP waits for a CPU that others have");
        record.asked.insert("rate".to_owned(), rate.to_owned());
        let threads = record.target.threads.as_mut().unwrap();
        (threads.system_s, threads.run_delay_s) = (worked_s, Some(waited_s));
        record.doubts.clear();
        if let Some(cpus) = others {
            let what = Doubted::BusyMachine { share: cpus / 2.0, real_time: None, most: "compiler".to_owned() };
            record.doubts.push(Doubt { end: Some(End::Target.into()), what });
        }
        if shared {
            record.doubts.push(Doubted::SharedMachine.into());
        }
        findings(&record)
    }

    #[test]
    fn only_others_starve_a_thread() {
        let check = |worked_s, waited_s, others, shared, rate, is_one: bool| {
            let all = starved(worked_s, waited_s, others, shared, rate);
            let said = format!("{worked_s} {waited_s} {others:?} {shared} {rate}: {all:#?}");
            assert_eq!(found(&all, "sender-starved").is_some(), is_one, "{said}");
        };
        check(0.05, 1.8, Some(1.9), true, "200M", true);
        // The other end had the CPUs; on a machine of its own nobody else can have had them.
        check(0.05, 1.8, None, true, "200M", false);
        check(0.05, 1.8, Some(0.2), true, "200M", false);
        check(0.05, 1.8, None, false, "200M", true);
        check(0.5, 0.8, Some(1.9), true, "200M", false);
        check(0.2, 0.5, Some(1.9), true, "200M", false);
        // As fast as it goes, beside equals: it has its share.
        check(0.6, 1.3, Some(1.9), true, "unlimited", false);
        check(0.1, 1.8, Some(1.9), true, "unlimited", true);
    }

    #[test]
    fn a_thread_without_a_cpu_explains_silences() {
        let explains = |waited_s: f64, name: &str| {
            let all = starved(0.05, waited_s, Some(1.9), true, "200M");
            found(&all, "sender-starved").unwrap().explains.contains(&name)
        };
        for name in ["outage", "flow-died", "nothing-comes-through", "retransmission-timeout"] {
            assert!(explains(1.8, name) && !explains(0.8, name), "{name}");
        }
    }

    #[test]
    fn who_loses_what_it_sends_is_not_starved() {
        let check = |lost: f64, is_one: bool| {
            let mut record = record_of("the writer of TCP waits for a CPU that others have");
            record.result.as_mut().unwrap().flow.loss_ratio = Some(lost);
            assert_eq!(found(&findings(&record), "sender-starved").is_some(), is_one, "{lost}");
        };
        check(0.005, true);
        check(0.05, false);
    }

    #[test]
    fn a_middle_that_does_not_forward_is_named() {
        let record = |sysctl: &str, gateway: Option<&str>| {
            let mut record = record_of("the host sends less than it was asked");
            let middle = record.middle.insert(sample::middle());
            middle.machine.environment.sysctls.insert("net.ipv4.ip_forward".to_owned(), sysctl.to_owned());
            let gateway = gateway.map(|text| text.parse().expect("an address"));
            let route = Passed::Route { interface: Some("eth0".to_owned()), gateway, local: false };
            let place = Place::Between { left_by: vec!["eth0".to_owned()], expected: None, arrives_at: None };
            let lost = Failed::Lost {
                from: End::Host,
                is_answer: false,
                place,
                everything: false,
                drops: Vec::new(),
                dscp: None,
            };
            let probe = Probe::Transport { transport: Protocol::Udp, asker: End::Host };
            let steps = vec![
                Step { probe: Probe::Route { from: End::Host }, came: StepResult::Passed(route) },
                Step { probe, came: StepResult::Failed(lost) },
            ];
            record.examination = Some(Examination { seconds: 1.0, steps, cause: Some(1) });
            record
        };
        let first = |record: &Record| {
            let finding =
                findings(record).into_iter().find(|one| one.name == "nothing-comes-through").expect("it failed");
            (finding.machine, finding.sure)
        };
        assert_eq!(first(&record("0", Some("10.0.0.254"))), (Some(Party::Middle), Sureness::Sure));
        // It forwards, or is a bridge, whose sysctl says nothing.
        assert_eq!(first(&record("1", Some("10.0.0.254"))), (None, Sureness::Likely));
        assert_eq!(first(&record("0", None)), (None, Sureness::Likely));
    }

    #[test]
    fn an_mtu_that_was_set_is_not_a_router_s() {
        let mut record = record_of("datagrams that the way carries in two pieces each");
        let said = |record: &Record| found(&findings(record), "path-mtu").unwrap().evidence[0].clone();
        let by_a_router = said(&record);
        let set = |to| EventKind::MtuChanged { interface: "eth0".to_owned(), from: 1500, to };
        let event = |end, what| Event { at_s: 0.5, for_s: None, within_s: 0.05, end: Some(end), what };
        // Another value, or the other end's, made no fragments.
        record.events = vec![event(End::Host, set(1400)), event(End::Target, set(1300))];
        assert_eq!(said(&record), by_a_router);
        // Nobody says in the trial who said it.
        let sure = |record: &Record| found(&findings(record), "path-mtu").unwrap().sure;
        assert!(by_a_router.contains("or the host's own route does") && sure(&record) == Sureness::Likely);
        let mut told = record.clone();
        told.host.counters.add(Stage::ReceiverStack, "Icmp InDestUnreachs", 1);
        assert!(said(&told).starts_with("a router on the way said so (ICMP)") && sure(&told) == Sureness::Sure);
        record.events.push(event(End::Host, set(1300)));
        assert!(said(&record).starts_with(&record.events[2].to_string()), "{}", said(&record));
    }

    #[test]
    fn a_few_long_waits_are_no_lack_of_a_cpu() {
        // All wait, or a few so long that they take a good part of the trial.
        let check = |median_s: f64, count: u64, is_one: bool| {
            let mut record = record_of("an answerer without a CPU");
            record.time_budget[0].seconds = 200e-6;
            let latency = record.result.as_mut().unwrap().latency.as_mut().unwrap();
            (latency.mean_s, latency.count) = (Some(400e-6), count);
            latency.percentiles.insert("p50".to_owned(), median_s);
            assert_eq!(found(&findings(&record), "cpu-wait").is_some(), is_one, "{median_s} {count}");
        };
        check(400e-6, 100, true);
        check(100e-6, 100, false);
        check(100e-6, 2_000, true);
    }

    #[test]
    fn ends_of_one_machine_wait_for_each_other() {
        let check = |seconds: f64, shared: bool, others: f64, is_one: bool| {
            let mut record = record_of("an answerer without a CPU");
            record.time_budget[0].seconds = seconds;
            if shared {
                record.doubts.push(Doubted::SharedMachine.into());
            }
            if others > 0.0 {
                record
                    .doubts
                    .push(Doubted::BusyMachine { share: others, real_time: None, most: "compiler".to_owned() }.into());
            }
            assert_eq!(found(&findings(&record), "cpu-wait").is_some(), is_one, "{seconds} {shared} {others}");
        };
        check(100e-6, false, 0.0, true);
        check(300e-6, true, 0.0, false);
        check(700e-6, true, 0.0, true);
        check(10e-6, false, 0.0, false);
        // Other programs have the CPUs.
        check(300e-6, true, 0.9, true);
        check(300e-6, true, 0.1, false);
    }

    #[test]
    fn a_shaper_of_the_middle_that_is_not_used_is_not_named() {
        let machine = |name: &str| found(&findings(&record_of(name)), "bottleneck").unwrap().machine;
        assert_eq!(machine("a shaper of the router in the middle"), Some(Party::Middle));
        assert_eq!(machine("a shaper of the router in the middle whose rate is not used"), None);
    }

    #[test]
    fn what_passes_a_limit_of_rate_is_even() {
        let says_rate = |mbit: [f64; 2]| {
            let mut record = record_of("one segment of fifty lost on the way");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            tcp.rtt_s = Some(1e-4);
            set_time(&mut record, &[(Limit::CongestionWindow, 0.9)]);
            let slice = |mbit: f64| Interval { throughput_bps: Some(mbit * 1e6), ..Interval::default() };
            record.intervals = mbit.map(slice).to_vec();
            found(&findings(&record), "lossy-path").unwrap().sentence.contains("limit of rate")
        };
        assert!(says_rate([14.8, 15.2]) && !says_rate([20.0, 10.0]));

        // Far more came through than chance losses permit, and TCP delivered no more than that between them: or five times as much.
        let of_queue = |mbit: [f64; 2], delivered: f64| {
            let mut record = record_of("one segment of fifty lost on the way");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(25e-3), Some(20e-3));
            let tcp = Some(TcpSample { delivery_rate: Some((delivered / 8.0 * 1e6) as u64), ..TcpSample::default() });
            let slice =
                |mbit: f64| Interval { throughput_bps: Some(mbit * 1e6), tcp: tcp.clone(), ..Interval::default() };
            record.intervals = mbit.map(slice).to_vec();
            found(&findings(&record), "lossy-path").unwrap().sentence.contains("limit of rate")
        };
        assert!(of_queue([14.8, 15.2], 16.0));
        // Nor is it a rate where TCP delivers five times as much between losses that permit more.
        let permitted = |delivered: f64| {
            let mut record = record_of("one segment of fifty lost on the way");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(1.6e-3), Some(1.5e-3));
            set_time(&mut record, &[(Limit::CongestionWindow, 0.9)]);
            let tcp = Some(TcpSample { delivery_rate: Some((delivered / 8.0 * 1e6) as u64), ..TcpSample::default() });
            let slice = Interval { throughput_bps: Some(15e6), tcp, ..Interval::default() };
            record.intervals = vec![slice; 2];
            found(&findings(&record), "lossy-path").unwrap().sentence.contains("limit of rate")
        };
        assert!(permitted(16.0) && !permitted(75.0));
        assert!(!of_queue([14.8, 15.2], 75.0) && !of_queue([20.0, 10.0], 16.0));
    }

    #[test]
    fn syns_alone_are_lost_to_a_limit_of_connections() {
        let says = |syns: u64, others: u64| {
            let mut record = record_of("a limit of new connections");
            record.host.counters = Counters::default();
            for (name, count) in [("Tcp RetransSegs", syns + others), ("TcpExt TCPSynRetrans", syns)] {
                record.host.counters.add(Stage::SenderStack, name, count);
            }
            let all = findings(&record);
            let one = found(&all, "retransmission-timeout").unwrap();
            (one.sentence.contains("limits new connections"), one.evidence.join("; "))
        };
        assert!(says(4, 0).0 && !says(4, 1).0 && !says(3, 0).0);
        assert!(says(1, 0).1.contains("1 segment was retransmitted, 1 of them SYN"), "{}", says(1, 0).1);
    }

    #[test]
    fn what_is_read_late_is_the_reader_s_where_it_had_to_wait_as_long() {
        let has = |name: &str, waited_s: f64, sent: u64| {
            let mut record = record_of("a slow link, and a reader that waits now and then");
            record.target.threads.as_mut().unwrap().run_delay_s = Some(waited_s);
            record.result.as_mut().unwrap().flow.packets_sent = Some(sent);
            found(&findings(&record), name).is_some()
        };
        // Two of five were not read in two seconds.
        assert!(!has("receiver-starved", 0.4, 17_000) && has("receiver-starved", 0.9, 17_000));
        // Of a few, one that is on its way is a good part.
        assert!(has("bottleneck", 0.4, 26) && !has("bottleneck", 0.4, 24));
    }

    #[test]
    fn loss_that_ended_in_mid_trial_has_its_time() {
        let says = |for_s: Option<f64>| {
            let mut record = record_of("a policer whose bucket lets the first second pass");
            record.events[0].for_s = for_s;
            findings(&record)[0].evidence.join("; ")
        };
        assert!(says(None).contains("until 0.95 s next to nothing was lost, and 59 % from then on"), "{}", says(None));
        let ended = says(Some(0.5));
        assert!(
            ended.contains("from 0.95 s to 1.45 s 59 % were lost, and next to nothing before and after"),
            "{ended}"
        );
        // Each of several times has its own share.
        let mut record = record_of("a policer whose bucket lets the first second pass");
        record.events[0].for_s = Some(0.2);
        let mut again = Event { at_s: 1.5, for_s: None, ..record.events[0].clone() };
        if let EventKind::LossBegan { loss_ratio, .. } = &mut again.what {
            *loss_ratio = 0.1;
        }
        record.events.push(again);
        let twice = findings(&record)[0].evidence.join("; ");
        let told = "from 0.95 s to 1.15 s 59 % were lost, from 1.50 s on 10 % were lost, and next to nothing else";
        assert!(twice.contains(told), "{twice}");
    }

    #[test]
    fn who_refuses_datagrams_on_the_way_says_so() {
        let says = |refusals: u64| {
            let mut record = record_of("a switch that drops");
            record.host.counters.add(Stage::ReceiverStack, "Icmp InDestUnreachs", refusals);
            found(&findings(&record), "lossy-path").unwrap().clone()
        };
        assert!(
            says(9).sentence.contains("refuses them") && says(9).evidence[1].contains("ICMP told the host 9 times")
        );
        // The marks of a stream's end are answered so, too.
        assert!(says(2).sentence.contains("a switch, the cable"), "{}", says(2).sentence);
    }

    #[test]
    fn what_waits_for_a_lost_segment_is_read_late_and_was_delivered() {
        let check = |delivered: [f64; 4], again: u64| {
            let mut record = record_of("a slower link on the way");
            record.duration_s = Some(4.0);
            let flow = &mut record.result.as_mut().unwrap().flow;
            flow.throughput_bps = Some(0.22e6);
            let tcp = flow.tcp.as_mut().unwrap();
            (tcp.rtt_s, tcp.min_rtt_s) = (Some(0.5), Some(12e-6));
            (tcp.retransmissions, tcp.segments_sent) = (again, Some(200));
            let slice = |(mbit, delivered): (f64, f64)| {
                let delivery_rate = Some((delivered / 8.0 * 1e6) as u64);
                let tcp = Some(TcpSample { rtt_us: 500_000, delivery_rate, ..TcpSample::default() });
                Interval { throughput_bps: Some(mbit * 1e6), tcp, ..Interval::default() }
            };
            record.intervals = [0.20, 0.01, 0.64, 0.04].into_iter().zip(delivered).map(slice).collect();
            let what = EventKind::Stall { direction: Some(record.direction), lost_share: None };
            record.events = vec![Event { at_s: 0.7, for_s: Some(2.6), within_s: 0.05, end: None, what }];
            let all = findings(&record);
            found(&all, "bottleneck").map(|one| one.sentence.clone())
        };
        assert!(check([0.29; 4], 74).unwrap().contains("about 0.29 Mbit/s pass it"));
        assert_eq!(check([0.29, 0.02, 0.7, 0.04], 74), None);
        // Where nothing is lost nothing is read late.
        assert_eq!(check([0.29; 4], 0), None);
    }

    #[test]
    fn of_both_ways_slices_tell_nothing_of_the_one_that_carries_little() {
        let is_one = |[tx, rx]: [f64; 2], way: Direction, silent_s: f64| {
            let mut record = record_of("a slower link on the way");
            let lines = record.time_budget.clone();
            record.time_budget.extend(lines.into_iter().map(|line| TimeLine { direction: Direction::Rx, ..line }));
            let figures = record.result.as_mut().unwrap();
            let of = |mbit: f64| FlowFigures { throughput_bps: Some(mbit * 1e6), ..figures.flow.clone() };
            figures.directions = Some(Directions { tx: of(tx), rx: of(rx) });
            record.direction = Direction::Both;
            let tcp = Some(TcpSample { rtt_us: 24_000, ..TcpSample::default() });
            let slice =
                |mbit: f64| Interval { throughput_bps: Some(mbit * 1e6), tcp: tcp.clone(), ..Interval::default() };
            record.intervals = [10.0, 12.0, 60.0].map(slice).to_vec();
            let what = EventKind::Stall { direction: Some(way), lost_share: None };
            record.events = vec![Event { at_s: 0.1, for_s: Some(silent_s), within_s: 0.05, end: None, what }];
            let all = findings(&record);
            all.iter().any(|one| one.name == "bottleneck" && one.direction == way)
        };
        assert!(is_one([27.0, 0.3], Direction::Rx, 0.1) && !is_one([27.0, 0.3], Direction::Tx, 0.1));
        assert!(!is_one([27.0, 0.3], Direction::Rx, 1.2));
    }

    #[test]
    fn what_is_acknowledged_when_the_sender_has_counted_is_not_lost() {
        let is_lost = |twice: u64, segments_lost: Option<u64>| {
            let mut record = record_of("a slower link on the way");
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_lost) = (513, segments_lost);
            let (target, host) = (&mut record.target.counters, &mut record.host.counters);
            target.add(Stage::DriverTxRing, "link tx_packets", 1_991);
            host.add(Stage::DriverRxRing, "link rx_packets", 1_663);
            host.add(Stage::DriverTxRing, "link tx_packets", 1_257);
            target.add(Stage::DriverRxRing, "link rx_packets", 937);
            host.add(Stage::ReceiverStack, "TcpExt TCPDSACKOldSent", twice);
            found(&findings(&record), "acknowledgements").is_some()
        };
        assert!(!is_lost(0, None));
        // What arrived twice was not lost: acknowledgements of it were.
        assert!(is_lost(500, None) && is_lost(0, Some(328)));
    }

    #[test]
    fn of_both_ways_a_lossy_one_has_not_the_other_s_queue() {
        let is_one = |[tx, rx]: [f64; 2], lost: u64| {
            let mut record = record_of("a slower link on the way");
            let figures = record.result.as_mut().unwrap();
            let mut flow = figures.flow.clone();
            let tcp = flow.tcp.as_mut().unwrap();
            (tcp.retransmissions, tcp.segments_sent) = (lost, Some(1_000));
            let of = |mbit: f64| FlowFigures { throughput_bps: Some(mbit * 1e6), ..flow.clone() };
            figures.directions = Some(Directions { tx: of(tx), rx: of(rx) });
            record.direction = Direction::Both;
            let all = findings(&record);
            all.iter().any(|one| one.name == "bottleneck" && one.direction == Direction::Tx)
        };
        assert!(!is_one([5.0, 47.0], 30));
        assert!(is_one([5.0, 47.0], 10) && is_one([15.0, 47.0], 30) && is_one([5.0, 14.0], 30));
    }

    #[test]
    fn no_more_answers_waited_for_the_timer_than_were_sent_again() {
        let says = |again: u64| {
            let mut record = record_of("requests over TCP that are lost beside packets of others");
            for machine in [&mut record.target, &mut record.host] {
                machine.counters.0.entry(Stage::SenderStack).or_default().remove("Tcp RetransSegs");
            }
            record.host.counters.add(Stage::SenderStack, "Tcp RetransSegs", again);
            found(&findings(&record), "retransmission-timeout").map(|one| one.sentence.clone()).unwrap_or_default()
        };
        assert!(says(2).contains(", and 2 of "), "{}", says(2));
        assert!(says(1).contains(", and at most 1 of "), "{}", says(1));
    }

    #[test]
    fn a_few_long_waits_are_no_slow_answers() {
        let is_slow = |median_s: f64| {
            let mut record = record_of("answers that wait where nobody sees it");
            record.result.as_mut().unwrap().latency.as_mut().unwrap().percentiles.insert("p50".to_owned(), median_s);
            found(&findings(&record), "slow-answers").is_some()
        };
        assert!(is_slow(8e-3) && !is_slow(80e-6));
    }

    #[test]
    fn nobody_asks_for_an_address_without_a_route_and_what_others_wait_for_is_not_sure() {
        let mut record = record_of("a route that went");
        record.host.counters.add(Stage::SenderStack, "arp_cache unresolved_discards", 18_787);
        assert!(found(&findings(&record), "neighbours").is_none());
        let others = record.loss_budget.as_mut().unwrap();
        others[0].counters[0].name = "arp_cache unresolved_discards".to_owned();
        others[0].adjustments.push(linerate_path::budget::Adjustment::MachineWide);
        let sure = |name: &str| found(&findings(&record), name).map(|one| one.sure);
        assert_eq!([sure("neighbours"), sure("stack-drops")], [Some(Sureness::Likely); 2]);
    }

    #[test]
    fn of_both_ways_the_one_that_loses_nothing_has_not_the_queue_that_runs_over() {
        let ways = |lost: [u64; 2]| {
            let mut record = record_of("a slower link on the way");
            let of = |direction| record.time_budget.iter().cloned().map(move |line| TimeLine { direction, ..line });
            record.time_budget = of(Direction::Tx).chain(of(Direction::Rx)).collect();
            let figures = record.result.as_mut().unwrap();
            figures.flow.tcp.as_mut().unwrap().segments_sent = Some(5_000);
            let [tx, rx] = lost.map(|lost| {
                let mut flow = figures.flow.clone();
                flow.tcp.as_mut().unwrap().retransmissions = lost;
                flow
            });
            figures.directions = Some(Directions { tx, rx });
            record.direction = Direction::Both;
            let limited = findings(&record).into_iter().filter(|one| one.name == "bottleneck");
            limited.map(|one| one.direction).collect::<Vec<_>>()
        };
        assert_eq!(ways([0, 60]), [Direction::Rx]);
        assert_eq!(ways([60, 0]), [Direction::Tx]);
        // Each has one, or nobody can tell.
        assert_eq!((ways([60, 60]).len(), ways([0, 0]).len()), (2, 2));
    }

    #[test]
    fn a_way_that_went_is_told_from_a_flow_that_died() {
        let check = |streams: &str, kind: &str, says: &str| {
            let mut record = record_of("a way that went in mid-trial");
            record.asked.insert("streams".to_owned(), streams.to_owned());
            let all = findings(&record);
            let died = found(&all, "flow-died").unwrap();
            assert_eq!(died.kind, Some(kind), "{died:#?}");
            assert!(died.sentence.contains(says), "{}", died.sentence);
        };
        check("1", "all", "an outage had not ended");
        check("2", "some", "A flow died");
    }

    #[test]
    fn a_reset_that_the_other_end_sent_is_its_own() {
        let mut record = record_of("a middlebox that forges a RST");
        record.host.counters.add(Stage::SenderStack, "Tcp OutRsts", 1);
        assert!(found(&findings(&record), "connection-reset").is_none());
    }

    #[test]
    fn memory_of_all_sockets_is_no_full_buffer() {
        let case = cases::cases().into_iter().find(|case| case.name == "UDP's memory used up").unwrap();
        let first = &findings(&case.record)[0];
        assert_eq!((first.sure, first.tries[0].name.as_str()), (Sureness::Likely, "target.sysctl.net.ipv4.udp_mem"));
    }

    /// Whatever a record's sentences say, the same is concluded: facts are concluded from facts.
    #[test]
    fn no_wording_decides() {
        const WORDINGS: [&str; 3] = [
            "mumble",
            "receiver: softnet dropped 7, by no counter; drop reason NEIGH_FAILED 7 at nf_hook_slow, delivered to nobody",
            "the connection broke while sending: no carrier; InCsumErrors 9, NoPorts 9, MTU 1500, timed out",
        ];
        let concluded = |record: &Record| -> Vec<_> {
            let of = |one: Finding| (one.name, one.sure, one.direction, one.machine, one.tries, one.weight.to_bits());
            findings(record).into_iter().map(of).collect()
        };
        let saying = |record: &Record, failed: bool, wording: &str| {
            let mut record = record.clone();
            let said = || vec![wording.to_owned()];
            record.error = failed.then(|| wording.to_owned());
            record.doubts.push(Doubted::CountersMissing { missing: said() }.into());
            record.doubts.push(Doubted::ProfileReduced { missing: said() }.into());
            for machine in [&mut record.target, &mut record.host] {
                machine.profile.iter_mut().for_each(|profile| profile.taken.notes = said());
                machine.registers.iter_mut().for_each(|registers| registers.notes = said());
            }
            record
        };
        for case in cases::cases() {
            for failed in [false, true] {
                let [one, others @ ..] = WORDINGS.map(|wording| saying(&case.record, failed, wording));
                for other in others {
                    assert_eq!(concluded(&one), concluded(&other), "{}, failed: {failed}", case.name);
                    assert_eq!(symptom(&one).is_there, symptom(&other).is_there, "{}, failed: {failed}", case.name);
                }
            }
        }
    }

    #[test]
    fn a_cause_stands_before_what_it_explains() {
        let case = crate::sample::udp(0, Direction::Rx, 100, 100.0);
        let case = Case::of(&case).remove(0);
        let make = |rule: &Rule, sure, weight| rule.finds(&case, None, sure, weight, String::new());
        let general = make(&sender_cpu::RULE, Sureness::Likely, 0.95);
        let cause = make(&governor::RULE, Sureness::Likely, 0.2).explains(&["sender-cpu"]);
        let hint = make(&checksum_offload::RULE, Sureness::Possible, 1.0).explains(&["sender-cpu"]);
        let other = make(&receive_ring::RULE, Sureness::Sure, 0.1);
        let ranked: Vec<&str> = rank(vec![general, hint, other, cause]).iter().map(|one| one.name).collect();
        assert_eq!(ranked, ["receive-ring", "governor", "sender-cpu", "checksum-offload"]);
        // A cause's cause comes first of all.
        let slow = make(&receiver_cpu::RULE, Sureness::Likely, 1.0);
        let by_itself = make(&segmentation::RULE, Sureness::Likely, 0.9).explains(&["receiver-cpu"]);
        let first = make(&checksum_offload::RULE, Sureness::Likely, 0.5).explains(&["segmentation", "receiver-cpu"]);
        let ranked: Vec<&str> = rank(vec![slow, by_itself, first]).iter().map(|one| one.name).collect();
        assert_eq!(ranked, ["checksum-offload", "segmentation", "receiver-cpu"]);
        // Of two of the same, the longer one.
        let [little, much] = [(&receiver_starved::RULE, 0.5), (&sender_starved::RULE, 0.7)]
            .map(|(rule, weight)| make(rule, Sureness::Likely, weight).explains(&["sender-cpu"]));
        let slow = make(&sender_cpu::RULE, Sureness::Likely, 0.95);
        let ranked: Vec<&str> = rank(vec![little, much, slow]).iter().map(|one| one.name).collect();
        assert_eq!(ranked, ["sender-starved", "receiver-starved", "sender-cpu"]);
    }
}
