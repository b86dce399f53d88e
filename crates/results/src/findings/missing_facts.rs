//! What a record does not know and a question needs, and how to get it.
//! Knows which facts rules ask for; a fact that no rule needs is not missed.

use linerate_path::stage::Stage;
use linerate_trial::doubt::DoubtKind;
use linerate_trial::spec::Workload;
use linerate_trial::tool::Tool;
use serde::Serialize;

use super::case::{Case, Side, tidy};
use crate::record::Record;

/// A fact that is not in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingFact {
    /// What is not known, a clause.
    pub what: String,
    /// How to get it, a clause.
    pub how: String,
}

/// The facts that are missing, the ones that answer most first.
pub fn absent(record: &Record) -> Vec<MissingFact> {
    let mut list: Vec<MissingFact> = Vec::new();
    let mut say = |what: String, how: &str| {
        let absent = MissingFact { what, how: how.to_owned() };
        if !list.contains(&absent) {
            list.push(absent);
        }
    };
    if record.result.is_none() {
        // What else is not known explains no figure.
        say("there are no figures, for the trial failed".to_owned(), "mend what its error says and run it again");
        return list;
    }
    for case in Case::of(record).iter().take(1) {
        if case.is(Workload::TcpStream) && case.losses().is_none() {
            say(
                "TCP retransmits what is lost, so a loss budget cannot be made".to_owned(),
                "run udp-stream at this rate, and each lost datagram has a stage",
            );
        }
        for side in [case.sender, case.receiver] {
            of_machine(case, side, &mut say);
        }
        if let Some(tcp) = case.tcp()
            && tcp.limited_by_receive_window.is_none()
        {
            let how = match other_tool(case.sender) {
                Some(_) => BY_AN_AGENT,
                None => "a kernel from Linux 4.10 on counts it (tcp_info)",
            };
            say("how long TCP waited for the window, the buffer or the application".to_owned(), how);
        }
        if case.link_bps().is_none() && record.workload.is_stream() {
            let how = "measure over hardware that tells its speed (linerate target ENDPOINT info)";
            let what = match (case.told_link_bps(), case.throughput_bps()) {
                (Some(told), Some(got)) if got > told => format!(
                    "what the link carries at most: its interfaces tell {} Mbit/s, and {} came through",
                    tidy(told / 1e6),
                    tidy(got / 1e6)
                ),
                _ => "what the link carries at most".to_owned(),
            };
            say(what, how);
        }
        if case.shares_machine() {
            let how = "put the host on another machine";
            say("which of the two ends took the CPU, for both run on one machine".to_owned(), how);
        }
    }
    list
}

/// Of a machine of which another tool's words are all that is known.
const BY_AN_AGENT: &str = "another tool does not tell it; measure with an agent there";

/// The other tool that took part there, instead of an agent.
fn other_tool(side: Side<'_>) -> Option<Tool> {
    Tool::parse(side.machine.endpoint.split_once(':')?.0)
}

fn of_machine(case: &Case<'_>, side: Side<'_>, say: &mut impl FnMut(String, &str)) {
    let end = side.end;
    if side.cpu().is_none() {
        let is_short = side.machine.cpu.is_some() || case.doubts(DoubtKind::ShortForCpu);
        let how = match other_tool(side) {
            _ if is_short => "measure longer",
            Some(_) => BY_AN_AGENT,
            None => "look why /proc/stat cannot be read there",
        };
        say(format!("what the {end}'s CPUs did"), how);
    }
    let Some(nic) = side.nic() else {
        let how = other_tool(side).map_or("run it again; its agent could not be asked", |_| BY_AN_AGENT);
        say(format!("what the {end}'s interface is"), how);
        return;
    };
    let is_hardware = nic.kind.is_none() && nic.driver.is_some();
    if is_hardware && !side.machine.counters.iter().any(|(_, name, _)| name.starts_with("driver ")) {
        let how = "its driver tells nothing to ethtool -S, so the MAC's own counters are in registers only";
        say(format!("the {end}'s driver statistics"), how);
    }
    if is_hardware && nic.pause.is_none() {
        say(
            format!("whether the {end} obeys and sends pause frames"),
            "its driver does not tell; try linerate target registers",
        );
    }
    if side.machine.counters.0.contains_key(&Stage::Unplaced) {
        let moved = side.sum(Stage::Unplaced, |_| true).unwrap_or(0);
        if moved > 0 && case.is_troubled() {
            let how = "linerate records show lists them; no table says at which stage they count";
            say(format!("the meaning of counters that moved at the {end}"), how);
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;

    use super::*;
    use crate::sample;

    #[test]
    fn no_agent_is_asked_to_mend_what_another_tool_does_not_tell() {
        let mut record = sample::tcp(0, Direction::Rx, 90.0, false);
        (record.host.cpu, record.host.environment) = Default::default();
        let hows = |record: &Record| -> Vec<_> { absent(record).into_iter().map(|one| one.how).collect() };
        assert!(hows(&record).iter().any(|how| how.contains("/proc/stat")), "{:?}", hows(&record));
        record.host.endpoint = "iperf3:10.0.0.1".to_owned();
        let said = hows(&record);
        assert!(said.iter().all(|how| !how.contains("/proc/stat") && !how.contains("its agent could not")), "{said:?}");
        assert!(said.iter().any(|how| how == BY_AN_AGENT), "{said:?}");
        record.result = None;
        assert_eq!(hows(&record), ["mend what its error says and run it again"]);
    }
}
