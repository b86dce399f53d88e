//! What `linerate check` tried, a line each, and what to do about the first that failed.

use std::fmt::Write as _;

use linerate_control::Endpoint;
use linerate_results::examination::{Examination, Passed, Step, StepResult, Unknown};

use super::{json, sentence, wrapped};

/// How far sentences are indented below the name of what was tried.
const NAMES: usize = 34;

fn word(step: &Step) -> &'static str {
    match step.came {
        StepResult::Passed(_) => "ok",
        StepResult::Failed(_) => "FAILED",
        StepResult::Unknown(_) => "-",
    }
}

/// The line, or lines, of a step.
pub(crate) fn text(step: &Step, width: usize) -> String {
    let name = format!("{:7}{}", word(step), step.name());
    let room = u16::try_from(width.saturating_sub(NAMES).max(20)).ok();
    let mut text = String::new();
    for (number, line) in wrapped(&sentence(&step.sentence()), room).lines().enumerate() {
        // Whole words, in one column: the broken lines' own indentation is not wanted here.
        let _ = writeln!(text, "{:NAMES$}{}", if number == 0 { name.as_str() } else { "" }, line.trim_start());
    }
    text
}

/// The steps of an examination, a line each, for those who read a record.
pub(crate) fn lines(examination: &Examination) -> Vec<String> {
    let of = |step: &Step| format!("{:7}{}: {}", word(step), step.name(), step.sentence());
    examination.steps.iter().map(of).collect()
}

/// Whether it passed at another attempt only.
fn has_lost(step: &Step) -> bool {
    matches!(
        step.came,
        StepResult::Passed(
            Passed::Answered { lost: Some(1..), .. } | Passed::Connected { retransmitted: Some(1..), .. }
        )
    )
}

/// Another tool's server was not to be asked for it.
fn was_not_asked(step: &Step) -> bool {
    matches!(step.came, StepResult::Unknown(Unknown::NotSpoken { .. }))
}

/// The closing line.
pub(crate) fn conclusion(examination: &Examination) -> String {
    match examination.cause() {
        None if !examination.has_tried_traffic() => {
            "Nothing that could be tried fails, and traffic could not; whether it passes, a trial tells: linerate run tcp.\n".to_owned()
        }
        None if examination.steps.iter().any(has_lost) => {
            "All of it passes, though not always; linerate run udp-stream measures how much is lost.\n".to_owned()
        }
        None if examination.steps.iter().any(was_not_asked) => {
            "All that could be tried passes; linerate run tcp measures how fast.\n".to_owned()
        }
        None => "All of it passes; linerate run tcp measures how fast.\n".to_owned(),
        Some(step) => format!("Look at what fails first: {}.\n", step.name()),
    }
}

/// One object: the examination as a record has it.
pub(crate) fn json(target: &Endpoint, host: &Endpoint, examination: &Examination) -> String {
    json::line(serde_json::json!({
        "format": "linerate.check/1",
        "target": target.to_string(),
        "host": host.to_string(),
        "examination": examination,
    }))
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::{Direction, End, Party};
    use linerate_machine::probe::{IcmpError, IcmpReport, Protocol};
    use linerate_path::budget::LossLine;
    use linerate_path::stage::Stage;
    use linerate_results::examination::{Failed, PerEndMtu, Place, Probe};

    use super::*;

    #[test]
    fn a_line_each() {
        let drop = LossLine {
            stage: Stage::ReceiverStack,
            direction: Direction::Rx,
            end: Party::Target,
            interface: None,
            packets: 3,
            cause: None,
            counters: Vec::new(),
            counted_again: Vec::new(),
            adjustments: Vec::new(),
            reasons: Vec::new(),
        };
        let link = Passed::Link {
            interface: "eth0".to_owned(),
            driver: Some("fec".to_owned()),
            speed_mbps: None,
            duplex: None,
            mtu: Some(1500),
        };
        let (target, host) = ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let udp = Probe::Transport { transport: Protocol::Udp, asker: End::Host };
        let lost = |place, drops| {
            StepResult::Failed(Failed::Lost {
                from: End::Host,
                is_answer: false,
                place,
                everything: false,
                drops,
                dscp: None,
            })
        };
        let said = IcmpReport { by: Some("10.0.9.1".parse().unwrap()), what: IcmpError::Prohibited };
        let mtus = PerEndMtu { target: Some(1500), host: Some(1500) };
        let not_up = Place::NotUp { interface: "eth0".to_owned(), expected: Some("eth0".to_owned()) };
        let large = Probe::Size { from: End::Host, octets: 1500 };
        let steps = [
            (Probe::Link { end: End::Target }, StepResult::Passed(link)),
            (Probe::Link { end: End::Host }, StepResult::Failed(Failed::NoCarrier { interface: "eth1".to_owned() })),
            (Probe::Addresses, StepResult::Passed(Passed::Addresses { target, host })),
            (Probe::Echo { asker: End::Host }, StepResult::Unknown(Unknown::EchoFiltered)),
            (
                Probe::Transport { transport: Protocol::Tcp, asker: End::Host },
                StepResult::Passed(Passed::Answered { answered: 1, lost: Some(2), median_s: Some(0.000_123) }),
            ),
            (udp, lost(not_up, vec![drop])),
            (udp, lost(Place::Icmp { said, end: None }, Vec::new())),
            (
                large,
                StepResult::Failed(Failed::Size { largest: 1400, mtus, place: None, drops: Vec::new(), routed: false }),
            ),
        ];
        let text: String = steps.map(|(probe, came)| text(&Step { probe, came }, 80)).concat();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
