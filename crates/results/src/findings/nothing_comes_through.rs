//! Nothing came through, and what was tried right after says why.
//! Knows an examination's steps; what they mean is said beside them.

use linerate_machine::end::End;
use linerate_machine::probe::Refusal;

use super::case::Case;
use super::symptom::capital;
use super::{Finding, RULES, Rule, Sureness, mtu_mismatch};
use crate::examination::{Examination, Failed, LostAt, MiddleFault, Passed, Place, Probe, Step, StepResult};
use crate::middle::Port;
use crate::total::Total;

pub(super) const RULE: Rule = Rule {
    name: "nothing-comes-through",
    says: "No traffic passed, or none in one direction: a link, an address, a route, a neighbour, a filter on either end or \
           between, or a packet size that the path does not carry.",
    rests_on: "The examination that runs when a trial, or a flow of it, cannot begin, dies, or moves nothing: its first step that failed. Sure where \
               the kernel or an ICMP message names it itself, likely where packets were seen on one side of a place and not on \
               the other.",
    source: "RFC 792, RFC 1122 (sections 3.2.2, 3.3.1), RFC 1191, RFC 2923 (section 2.1), RFC 3704, RFC 5227; Linux \
             Documentation/networking/ip-sysctl.rst.",
    suggests: &["tx_checksum"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let examination = case.record.examination.as_ref()?;
    let step = examination.cause()?;
    let StepResult::Failed(failed) = &step.came else { return None };
    if passed_in_trial(case, failed) {
        return None;
    }
    let (kind, sure) = kind(failed);
    let machine = match failed {
        Failed::Requests { .. } if matches!(step.probe, Probe::Stream { .. }) => None,
        Failed::Size { place: Some(Place::Program { .. }), .. } => step.probe.end().map(End::other),
        Failed::Connections { refusal: Some(Refusal::NoDescriptors | Refusal::NoPort), .. } => step.probe.end(),
        Failed::Lost {
            place: Place::Between { .. } | Place::Back { .. } | Place::Late { .. } | Place::Unseen, ..
        }
        | Failed::NotClosed
        | Failed::Size { .. }
        | Failed::Connections { .. }
        | Failed::FirstSyn { .. }
        | Failed::Retransmitted { .. }
        | Failed::Hops { .. } => None,
        Failed::Lost { place: Place::Icmp { end, .. } | Place::Reset { end }, .. } => *end,
        Failed::Lost {
            place: Place::NotUp { .. } | Place::ForAnother { .. } | Place::Program { .. }, from, ..
        } => Some(from.other()),
        Failed::Lost { from, .. } => Some(*from),
        Failed::NoNeighbour { silent: Some(_), .. } => step.probe.end().map(End::other),
        Failed::Flows { lost, .. } | Failed::Ecn { lost } => lost.as_ref().and_then(LostAt::end),
        _ => step.probe.end(),
    };
    let middle = not_forwarding(case, examination, failed);
    let said = capital(&step.sentence());
    let (sentence, sure, said) = match &middle {
        Some(sysctl) => {
            let sentence = format!("The machine in the middle does not forward: its {sysctl} is 0");
            (sentence, Sureness::Sure, Some(said))
        }
        None => (said, sure, None),
    };
    let passed = examination.steps.iter().filter(|step| matches!(step.came, StepResult::Passed(_))).count();
    let failed_too = examination.steps.iter().filter(|step| step.has_failed()).count();
    let size = matches!(step.probe, Probe::Size { .. });
    let mut finding = RULE
        .finds(case, machine, sure, 1.0, format!("{sentence}."))
        .of_kind(kind)
        .because(match examination.steps.len() {
            1 => format!("the first check, \"{}\", failed", step.name()),
            all => format!(
                "{passed} of {all} steps passed and {failed_too} failed, first \"{}\", within {:.1} s",
                step.name(),
                examination.seconds
            ),
        })
        .because_of(said)
        .because_of(refused(case, failed))
        .because_of(narrow_middle(case, failed))
        .wrong_if(if size {
            "It is wrong if packets of that size pass by another way (ping -M do -s)."
        } else {
            "It is wrong if linerate check between the same ends passes this step while trials still fail."
        })
        .explains(&EVERYTHING);
    if let Failed::Lost { place: Place::WrongChecksum { .. }, from, .. } = failed {
        finding = finding.attempt(format!("{from}.tx_checksum"), "off", "throughput");
    }
    // That an end takes less than the other sends says more than that large packets do not pass.
    finding.explains.retain(|name| !size || *name != mtu_mismatch::RULE.name);
    Some(if middle.is_some() || matches!(failed, Failed::Middle { .. }) { finding.on_middle() } else { finding })
}

/// Whether most of what the trial itself sent passed at its first try: a connection right after it that carried a handful of segments by
/// retransmissions alone met what the trial met, by ill luck.
fn passed_in_trial(case: &Case<'_>, failed: &Failed) -> bool {
    let Failed::Retransmitted { segments, retransmitted } = failed else { return false };
    let of_probe = f64::from(*retransmitted) / f64::from((*segments).max(1));
    let tcp = case.tcp().filter(|tcp| tcp.segments_sent > Some(10 * u64::from(*segments)));
    let of_trial = tcp.and_then(|tcp| Some(tcp.retransmissions as f64 / tcp.segments_sent? as f64));
    of_trial.is_some_and(|share| share < of_probe / 2.0)
}

/// The sysctl by which the machine in the middle, over which a route of an end goes, forwards nothing.
fn not_forwarding(case: &Case<'_>, examination: &Examination, failed: &Failed) -> Option<&'static str> {
    let is_between = matches!(failed, Failed::Lost { place: Place::Between { .. } | Place::Unseen, .. });
    let is_routed = |step: &Step| matches!(&step.came, StepResult::Passed(Passed::Route { gateway: Some(_), .. }));
    let sysctl = if case.is_ipv4() { "net.ipv4.ip_forward" } else { "net.ipv6.conf.all.forwarding" };
    let sysctls = &case.record.middle.as_ref()?.machine.environment.sysctls;
    let is_off = sysctls.get(sysctl).is_some_and(|value| value.trim() == "0");
    (is_between && is_off && examination.steps.iter().any(is_routed)).then_some(sysctl)
}

/// What ICMP said in the trial to who sent what was lost; routers and filters say it so seldom that probes right after may hear nothing
/// (RFC 1812, section 4.3.2.8).
fn refused(case: &Case<'_>, failed: &Failed) -> Option<String> {
    let Failed::Lost { from, place: Place::Between { .. } | Place::NotUp { .. } | Place::Unseen, .. } = failed else {
        return None;
    };
    let side = case.sides().into_iter().find(|side| side.end == *from)?;
    let of = |name: &str| {
        side.counter(&format!("Icmp {name}")).into_iter().chain(side.counter(&format!("Icmp6 {name}"))).total()
    };
    let (unreachable, expired): (u64, u64) = (of("InDestUnreachs"), of("InTimeExcds"));
    match (unreachable, expired) {
        (0, 0) => None,
        (0, expired) => {
            Some(format!("in the trial ICMP told the {from} {expired} times that packets had no hops left to live"))
        }
        (unreachable, _) => Some(format!(
            "in the trial ICMP told the {from} {unreachable} times that packets cannot be delivered: a router or a filter refuses them"
        )),
    }
}

/// The interfaces in the middle that take no larger packets than those that pass.
fn narrow_middle(case: &Case<'_>, failed: &Failed) -> Option<String> {
    let Failed::Size { largest, .. } = failed else { return None };
    let ports = &case.record.middle.as_ref()?.ports;
    // What a link takes is a VLAN's header or two larger than what it says.
    let is_narrow =
        |port: &Port| port.nic.as_ref().and_then(|nic| nic.mtu).is_some_and(|mtu| (mtu..mtu + 16).contains(largest));
    let narrow: Vec<&str> = [&ports.target, &ports.host]
        .into_iter()
        .filter(|port| is_narrow(port))
        .map(|port| port.interface.as_str())
        .collect();
    (!narrow.is_empty()).then(|| format!("the middle's MTU is {largest} at {}", narrow.join(" and ")))
}

/// What else is found of a trial in which nothing passed is a consequence.
const EVERYTHING: [&str; RULES.len()] = {
    let mut names = [""; RULES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = RULES[at].name;
        at += 1;
    }
    names
};

fn kind(failed: &Failed) -> (&'static str, Sureness) {
    use Sureness::{Likely, Sure};
    match failed {
        Failed::SetDown { .. } => ("set-down", Sure),
        Failed::NoCarrier { .. } => ("no-carrier", Sure),
        Failed::NoAddresses { .. } | Failed::AddressGone { .. } | Failed::SameAddress { .. } => ("addresses", Sure),
        Failed::Middle { fault: MiddleFault::Moves { .. } } => ("middle", Likely),
        Failed::Middle { .. } => ("middle", Sure),
        Failed::Duplicate { .. } | Failed::Detection { .. } => ("duplicate-address", Sure),
        Failed::Route { .. } => ("route", Sure),
        Failed::Astray { .. } => ("route", Likely),
        Failed::NoNeighbour { silent: Some(_), .. } => ("no-neighbour", Sure),
        Failed::NoNeighbour { .. } => ("no-neighbour", Likely),
        Failed::WrongNeighbour { permanent: true, .. } => ("wrong-neighbour", Sure),
        Failed::WrongNeighbour { .. } => ("wrong-neighbour", Likely),
        Failed::SameMac { .. } => ("same-mac", Sure),
        Failed::Arrivals { .. } => ("reverse-path-filter", Sure),
        Failed::Full { .. } | Failed::NoSocket { .. } => ("no-room", Sure),
        Failed::Lost { place, .. } => match place {
            Place::Refused { .. } => ("refused-by-sender", Sure),
            Place::NoNeighbour { .. } => ("no-neighbour", Likely),
            Place::Unused { .. } => ("duplicate-address", Sure),
            Place::NotOut { .. } => ("lost-in-sender", Likely),
            Place::Icmp { .. } => ("rejected", Sure),
            Place::Reset { .. } => ("reset", Likely),
            Place::Between { .. } => ("lost-between", Likely),
            Place::Back { .. } => ("comes-back", Likely),
            Place::Program { .. } => ("interface-filter", Likely),
            Place::ForAnother { .. } => ("wrong-neighbour", Likely),
            Place::WrongChecksum { .. } => ("wrong-checksum", Likely),
            Place::NotUp { .. } => ("lost-in-receiver", Likely),
            Place::Stalled { .. } => ("stalled", Likely),
            Place::Lossy { .. } => ("lossy", Likely),
            Place::Late { .. } => ("late", Likely),
            Place::Unseen => ("lost", Likely),
        },
        Failed::Size { .. } => ("packet-size", Likely),
        Failed::Flows { .. } => ("some-flows", Likely),
        Failed::Connections { refusal: Some(Refusal::NoDescriptors | Refusal::NoPort), .. } => ("no-room", Sure),
        Failed::Connections { .. } => ("connections", Likely),
        Failed::NotClosed => ("not-closed", Likely),
        Failed::FirstSyn { .. } => ("first-syn", Likely),
        Failed::Ecn { .. } => ("ecn-dropped", Likely),
        Failed::Retransmitted { .. } => ("retransmitted", Likely),
        Failed::Hops { .. } => ("hops", Sure),
        Failed::Ipv6 { step } => match &step.came {
            StepResult::Failed(failed) => kind(failed),
            _ => ("ipv6", Likely),
        },
        Failed::Requests { .. } => ("requests", Likely),
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_machine::probe::Protocol;

    use super::super::findings;
    use super::*;
    use crate::sample;

    #[test]
    fn a_connection_that_met_what_the_trial_met_is_no_cause() {
        let has_cause = |of_trial: u64| {
            let mut record = sample::tcp(0, Direction::Tx, 96.0, false);
            let tcp = record.result.as_mut().unwrap().flow.tcp.as_mut().unwrap();
            (tcp.segments_sent, tcp.retransmissions) = (Some(24_000), of_trial);
            let came = StepResult::Failed(Failed::Retransmitted { segments: 15, retransmitted: 8 });
            let probe = Probe::Transport { transport: Protocol::Tcp, asker: End::Target };
            let steps = vec![Step { probe, came }];
            record.examination = Some(Examination { seconds: 1.0, steps, cause: Some(0) });
            findings(&record).iter().any(|one| one.name == RULE.name)
        };
        assert!(!has_cause(3_700));
        // What passes when it is retransmitted only.
        assert!(has_cause(12_000));
    }
}
