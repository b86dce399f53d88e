//! What packets cost the CPUs of a campaign's machines: which trials tell it, and the fit over their sizes.
//! Knows no tables; the fit itself is `stats::cost`.
//!
//! A trial tells the cost at an end only if nothing but packets took that end's time. A sender that keeps to a schedule
//! sleeps and spins between departures; a receiver that loses many packets worked on some that nobody counts.

use std::collections::{BTreeMap, BTreeSet};

use linerate_machine::cpu::CpuUse;
use linerate_machine::end::{Direction, End, Party};
use linerate_machine::units::OfferedLoad;
use linerate_stats::cost::{Cost, Estimate};
use linerate_stats::median;
use linerate_trial::doubt::{Doubt, DoubtKind};
use linerate_trial::spec::Workload;
use serde::Serialize;

use crate::observation::{Observation, TrialContext};
use crate::profile::Category;
use crate::record::Record;

/// One configuration, but for its sizes, at one end.
#[derive(Clone, Debug, Serialize)]
pub struct PacketCost {
    /// Workload, direction, and the levels of other factors.
    pub configuration: String,
    /// Whose CPUs; absent where both ends share them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What this end does with the packets.
    pub role: Role,
    /// The fit; absent where it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Cost>,
    /// Why there is no fit: a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What was measured at each size, and what the fit says of it, by rising size.
    pub sizes: Vec<Size>,
    /// Trials that tell nothing of this: why, and how many.
    pub left_out: BTreeMap<&'static str, usize>,
    /// What else is in the figures: sentences.
    pub doubts: Vec<&'static str>,
}

/// What an end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Role {
    Sends,
    Receives,
    SendsAndReceives,
}

impl Role {
    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Role::Sends => "sends",
            Role::Receives => "receives",
            Role::SendsAndReceives => "sends and receives",
        }
    }

    fn of(end: Option<End>, direction: Direction) -> Role {
        match (end, direction) {
            (None, _) | (_, Direction::Both) => Role::SendsAndReceives,
            (Some(End::Target), Direction::Tx) | (Some(End::Host), Direction::Rx) => Role::Sends,
            _ => Role::Receives,
        }
    }
}

/// Trials of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Octets of payload in a packet.
    pub bytes: f64,
    /// How many trials.
    pub trials: usize,
    /// CPU time of a packet, the median of the trials.
    pub us_per_packet: f64,
    /// What of it went into copies, the median of the trials that were profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_us_per_packet: Option<f64>,
    /// What the fit says, with the interval in which 95 % of trials of this size would lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted_us_per_packet: Option<Estimate>,
    /// Payload at which such packets take all the time of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturates_at_bps: Option<f64>,
    /// The same, if nothing were copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturates_without_copy_at_bps: Option<f64>,
}

/// A receiver that loses more of what it is sent spends time on packets that nobody counts.
const MOST_LOST: f64 = 0.01;

/// What a trial tells.
#[derive(Clone, Copy)]
struct MeasuredCost {
    bytes: f64,
    us: f64,
    copy_us: Option<f64>,
}

#[derive(Default)]
struct Group {
    told: Vec<MeasuredCost>,
    /// What stood around them.
    around: Vec<TrialContext>,
    left_out: BTreeMap<&'static str, usize>,
    doubts: Vec<&'static str>,
}

/// Without repeats a line is refused by what it misses, so that one which is kept misses less than its trials scatter.
const NO_REPEATS: &str =
    "No size was measured twice, so that the intervals are narrower than trials scatter; measure with --repeat 3.";

/// The cost at each end of each configuration that has CPU time by packet.
pub fn costs(records: &[Record]) -> Vec<PacketCost> {
    let mut groups = Groups::new();
    for record in records {
        // One CPU time of both ends together is told once.
        let shared = record.has_doubt(DoubtKind::SharedMachine);
        let ends = if shared { vec![None] } else { vec![Some(End::Target), Some(End::Host)] };
        for end in ends {
            let Some(told) = told(record, end.unwrap_or(End::Target)) else { continue };
            let role = Role::of(end, record.direction);
            let group = groups.entry((configuration(record), end, role)).or_default();
            match unusable(record, end, role) {
                Some(why) => *group.left_out.entry(why).or_default() += 1,
                None => {
                    group.told.push(told);
                    group.around.push(Observation::of(record).around);
                    doubts(record, end).for_each(|doubt| {
                        if !group.doubts.contains(&doubt) {
                            group.doubts.push(doubt);
                        }
                    });
                }
            }
        }
    }
    count_untold(records, &mut groups);
    groups.into_iter().map(|((configuration, end, role), group)| group.fitted(configuration, end, role)).collect()
}

type Groups = BTreeMap<(String, Option<End>, Role), Group>;

/// Adds the trials that have no CPU time by packet to those left out, where others of their configuration have it.
fn count_untold(records: &[Record], groups: &mut Groups) {
    for record in records {
        for end in [None, Some(End::Target), Some(End::Host)] {
            let key = (configuration(record), end, Role::of(end, record.direction));
            let Some(group) = groups.get_mut(&key) else { continue };
            let is_shared = record.has_doubt(DoubtKind::SharedMachine);
            // Of a trial that failed nobody knows it.
            let is_told = record.error.is_none()
                && (is_shared != end.is_none() || told(record, end.unwrap_or(End::Target)).is_some());
            if !is_told {
                let why = match record.error {
                    Some(_) => "failed; see their records",
                    None => "have no CPU time by packet; see what their records doubt",
                };
                *group.left_out.entry(why).or_default() += 1;
            }
        }
    }
}

impl Group {
    fn fitted(self, configuration: String, end: Option<End>, role: Role) -> PacketCost {
        let points: Vec<(f64, f64)> = self.told.iter().map(|told| (told.bytes, told.us)).collect();
        let fit = match (several_machines(&self.around, end.unwrap_or(End::Target)), Cost::fit(&points)) {
            (_, Err(_)) if points.is_empty() => Err("every trial was left out; do as left_out says".to_owned()),
            (Some(why), _) => Err(why),
            (None, fit) => fit.map_err(|why| why.to_string()),
        };
        let sizes = by_size(self.told).into_iter().filter_map(|told| size(&told, fit.as_ref().ok())).collect();
        let (fit, refused) = match fit {
            Ok(fit) => (Some(fit), None),
            Err(why) => (None, Some(why)),
        };
        let mut doubts = self.doubts;
        doubts.extend(fit.as_ref().filter(|fit| !fit.has_repeats).map(|_| NO_REPEATS));
        PacketCost { configuration, end, role, fit, refused, sizes, left_out: self.left_out, doubts }
    }
}

/// What makes a machine another one, as far as its packets' cost goes; factors are in the configuration.
const OF_A_MACHINE: [&str; 7] =
    ["endpoint", "machine", "kernel", "kernel_version", "cpu.model", "cpu.max_frequency_khz", "cpu.governor"];

/// Why these trials have no cost in common: a campaign that went on after its board was changed is of two machines.
fn several_machines(around: &[TrialContext], end: End) -> Option<String> {
    OF_A_MACHINE.iter().find_map(|what| {
        let name = format!("{}.{what}", end.name());
        let values: BTreeSet<&str> = around.iter().filter_map(|one| one.get(&name)).collect();
        let (first, last) = (values.first()?, values.last()?);
        (first != last).then(|| {
            let values = values.iter().copied().collect::<Vec<_>>().join(", ");
            format!("these trials are not of one machine: {name} is {values}; pick one, like 'last:{name}={first}'")
        })
    })
}

fn by_size(mut told: Vec<MeasuredCost>) -> Vec<Vec<MeasuredCost>> {
    told.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    told.chunk_by(|a, b| a.bytes.round() == b.bytes.round()).map(<[MeasuredCost]>::to_vec).collect()
}

fn size(told: &[MeasuredCost], fit: Option<&Cost>) -> Option<Size> {
    let of = |pick: fn(&MeasuredCost) -> Option<f64>| median(&told.iter().filter_map(pick).collect::<Vec<_>>());
    let bytes = of(|told| Some(told.bytes))?;
    let copy = of(|told| told.copy_us);
    Some(Size {
        bytes,
        trials: told.len(),
        us_per_packet: of(|told| Some(told.us))?,
        copy_us_per_packet: copy,
        fitted_us_per_packet: fit.map(|fit| fit.at(bytes)),
        saturates_at_bps: fit.and_then(|fit| fit.saturates_at_bps(bytes, 0.0)),
        saturates_without_copy_at_bps: fit.and_then(|fit| fit.saturates_at_bps(bytes, copy?)),
    })
}

/// Workload, direction, and every factor that does more than change how many bytes a packet has.
fn configuration(record: &Record) -> String {
    let is_size =
        |name: &str| matches!(name, "message_size" | "mss" | "direction" | "workload") || name.ends_with(".mtu");
    let others = record.trial.factors.iter().filter(|(name, _)| !is_size(name));
    let levels = others.map(|(name, level)| format!("{name}={level}"));
    let words = [record.workload.to_string(), record.direction.name().to_owned()];
    words.into_iter().chain(levels).collect::<Vec<_>>().join(" ")
}

/// Of streams: transactions have no bytes that a cost could be told by.
fn told(record: &Record, end: End) -> Option<MeasuredCost> {
    let figures = record.result.as_ref()?;
    let demand = figures.service_demand.as_ref()?;
    let (by_packet, by_kib, machine) = match end {
        End::Target => (demand.target_us_per_packet?, demand.target_us_per_kib?, &record.target),
        End::Host => (demand.host_us_per_packet?, demand.host_us_per_kib?, &record.host),
    };
    let bytes = match record.asked_spec() {
        Some(spec) if record.workload == Workload::UdpStream => f64::from(spec.message_octets()),
        // Time by KiB and time by packet are of the same time, so that their ratio is the packet's size: that of what
        // arrived, where nothing is lost.
        _ => 1024.0 * by_packet / by_kib,
    };
    let copy_us = machine.profile.as_ref().and_then(|profile| profile.of(Category::Copy)?.us_per_packet);
    Some(MeasuredCost { bytes, us: by_packet, copy_us })
}

/// Why a trial tells nothing of what packets cost an end that does this.
fn unusable(record: &Record, end: Option<End>, role: Role) -> Option<&'static str> {
    let lost = record.result.as_ref().and_then(|result| result.flow.loss_ratio).unwrap_or(0.0);
    if role != Role::Receives && record.asked_spec().is_some_and(|spec| spec.rate != OfferedLoad::Unlimited) {
        return Some("kept their sender to a schedule, and waiting is CPU time too; measure it with rate=unlimited");
    }
    if role != Role::Sends && lost > MOST_LOST {
        return Some("lost more than 1 %, and what is lost costs time too; measure the receiver at a lower rate");
    }
    if record.has_doubt(DoubtKind::Fragmented) {
        return Some("sent fragments; choose sizes within the MTU");
    }
    let machine = if end == Some(End::Host) { &record.host } else { &record.target };
    let is_coarse = machine.cpu.as_ref().is_some_and(CpuUse::is_coarse);
    is_coarse.then_some("were too short to count CPU time; choose a longer duration")
}

/// What else is in this trial's figures.
fn doubts(record: &Record, end: Option<End>) -> impl Iterator<Item = &'static str> {
    let profiled = match end {
        Some(End::Host) => record.host.profile.is_some(),
        _ => record.target.profile.is_some(),
    };
    let is_here = |doubt: &Doubt| end.is_none() || doubt.end.is_none() || doubt.end == end.map(Party::from);
    let is_busy = record.doubts.iter().any(|doubt| doubt.kind() == DoubtKind::BusyMachine && is_here(doubt));
    let told = [
        (
            end.is_none(),
            "Both ends ran on one machine and shared its CPUs: the cost is of sending and receiving together, and says \
             little of a board.",
        ),
        (
            record.has_doubt(DoubtKind::IrqTimeByTicks),
            "This kernel accounts interrupts by ticks, so that CPU time may be far off; compare with \
             cpu_method=soak.",
        ),
        (
            is_busy,
            "Other programs used the CPUs too, and their time is in the cost (busy-machine); end them and measure again.",
        ),
        (profiled, "These trials were profiled, and the profile's own time is in the cost."),
    ];
    told.into_iter().filter_map(|(is, what)| is.then_some(what))
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::Direction;
    use linerate_trial::doubt::Doubted;

    use super::*;
    use crate::sample;

    /// Trials of a receiving target of 4.1 µs a packet and 0.9 ns a byte, three of each size, a little apart.
    fn campaign(sizes: &[u64], rate: &str) -> Vec<Record> {
        let trials = sizes.iter().flat_map(|&size| [0.99, 1.0, 1.01].map(|noise| (size, noise)));
        trials.enumerate().map(|(index, (size, noise))| trial(index as u32, size, noise, rate)).collect()
    }

    fn trial(index: u32, size: u64, noise: f64, rate: &str) -> Record {
        let mut record = sample::udp(index, Direction::Rx, 100, 100.0);
        record.trial.factors = [("message_size", size.to_string()), ("rate", rate.to_owned())]
            .map(|(name, level)| (name.to_owned(), level))
            .into();
        record.asked.insert("rate".to_owned(), rate.to_owned());
        record.asked.insert("message_size".to_owned(), size.to_string());
        record.doubts.clear();
        (record.target.profile, record.host.profile) = (None, None);
        let us = (4.1 + 0.0009 * size as f64) * noise;
        let figures = record.result.as_mut().unwrap();
        let demand = figures.service_demand.as_mut().unwrap();
        (demand.target_us_per_packet, demand.target_us_per_kib) = (Some(us), Some(us * 1024.0 / size as f64));
        (demand.host_us_per_packet, demand.host_us_per_kib) = (Some(9.0 * us), Some(9.0 * us * 1024.0 / size as f64));
        record
    }

    const SIZES: [u64; 4] = [64, 256, 1024, 1472];

    #[test]
    fn the_receiver_of_a_paced_sender_has_a_cost_and_the_sender_has_none() {
        let costs = costs(&campaign(&SIZES, "5kpps"));
        let [target, host] = &costs[..] else { panic!("{costs:?}") };
        assert_eq!(
            (target.end, target.role, &*target.configuration),
            (Some(End::Target), Role::Receives, "udp-stream rx rate=5kpps")
        );
        let fit = target.fit.as_ref().unwrap();
        assert!((fit.per_packet.value - 4.1).abs() < 1e-3 && (fit.per_byte.value - 0.0009).abs() < 1e-6, "{fit:?}");
        let largest = &target.sizes[3];
        assert_eq!((largest.bytes, largest.trials), (1472.0, 3));
        let bps = largest.saturates_at_bps.unwrap();
        assert!((bps - 1472.0 * 8.0 / 5.4248e-6).abs() < 1e6, "{bps}");
        assert_eq!(largest.saturates_without_copy_at_bps, None, "nothing was profiled");
        assert_eq!((host.role, host.sizes.len(), host.left_out.values().sum::<usize>()), (Role::Sends, 0, 12));
        assert!(host.refused.as_ref().is_some_and(|why| why.contains("left_out")), "{host:?}");
    }

    #[test]
    fn trials_of_another_rate_are_another_configuration() {
        let all = [campaign(&SIZES, "5kpps"), campaign(&SIZES, "unlimited")].concat();
        let costs = costs(&all);
        assert_eq!(costs.len(), 4);
        assert_eq!(costs.iter().filter(|cost| cost.fit.is_some()).count(), 3);
    }

    #[test]
    fn two_machines_have_no_cost_in_common() {
        let mut records = campaign(&SIZES, "5kpps");
        records[5].target.environment.kernel = Some("9.9".to_owned());
        let [target, host] = &costs(&records)[..] else { panic!("{records:?}") };
        let why = target.refused.as_deref().unwrap();
        assert!(why.starts_with("these trials are not of one machine: target.kernel is "), "{why}");
        assert!(target.fit.is_none() && target.sizes[0].fitted_us_per_packet.is_none());
        assert!(host.refused.as_deref().is_some_and(|why| why.contains("left_out")), "{host:?}");
        records.remove(5);
        assert!(costs(&records)[0].fit.is_some());
    }

    #[test]
    fn trials_without_a_figure_are_among_those_left_out() {
        let mut records = campaign(&SIZES, "5kpps");
        records[0].result.as_mut().unwrap().service_demand = None;
        records[1].result = None;
        records[1].error = Some("it failed".to_owned());
        let costs = costs(&records);
        let left_out = |cost: &PacketCost| cost.left_out.values().sum::<usize>();
        let told = costs[0].sizes.iter().map(|size| size.trials).sum::<usize>();
        assert_eq!((told, left_out(&costs[0]), left_out(&costs[1])), (10, 2, 12));
    }

    #[track_caller]
    fn check_left_out(change: fn(&mut Record), words: &str) {
        let mut records = campaign(&SIZES, "5kpps");
        records.iter_mut().for_each(change);
        let costs = costs(&records);
        let why: Vec<_> = costs[0].left_out.keys().collect();
        assert!(why.len() == 1 && why[0].contains(words), "{why:?}");
        assert!(costs[0].fit.is_none() && costs[0].sizes.is_empty());
    }

    #[test]
    fn trials_that_tell_nothing_are_left_out() {
        check_left_out(|record| record.result.as_mut().unwrap().flow.loss_ratio = Some(0.02), "lost");
        check_left_out(
            |record| record.doubts.push(Doubted::Fragmented { octets: 8000, fragments: 6 }.into()),
            "fragments",
        );
        check_left_out(|record| record.target.cpu.as_mut().unwrap().span_s = 0.3, "short");
        check_left_out(|record| record.doubts.push(Doubted::SharedMachine.into()), "schedule");
    }

    #[test]
    fn one_machine_is_told_once_and_doubted() {
        let mut records = campaign(&SIZES, "unlimited");
        let shared = || Doubted::SharedMachine.into();
        records.iter_mut().for_each(|record| record.doubts.push(shared()));
        let costs = costs(&records);
        let [both] = &costs[..] else { panic!("{costs:?}") };
        assert_eq!((both.end, both.role), (None, Role::SendsAndReceives));
        assert!(both.fit.is_some() && both.doubts[0].starts_with("Both ends"));
    }

    #[test]
    fn other_programs_time_is_doubted_at_the_end_that_had_them() {
        let mut records = campaign(&SIZES, "unlimited");
        let busy = Doubted::BusyMachine { share: 0.4, real_time: None, most: "compiler".to_owned() };
        records[0].doubts.push(Doubt { end: Some(Party::Target), what: busy });
        let costs = costs(&records);
        let [target, host] = &costs[..] else { panic!("{costs:?}") };
        assert!(target.doubts.len() == 1 && target.doubts[0].contains("busy-machine"), "{target:?}");
        assert_eq!(host.doubts, [""; 0]);
    }

    #[test]
    fn a_line_without_repeats_is_doubted() {
        let records = campaign(&SIZES, "5kpps");
        let once: Vec<Record> = records.iter().step_by(3).cloned().collect();
        let doubts = |records: &[Record]| costs(records)[0].doubts.clone();
        assert_eq!((doubts(&once), doubts(&records)), (vec![NO_REPEATS], Vec::new()));
    }

    #[test]
    fn what_is_not_known_is_absent_from_json() {
        let mut records = campaign(&SIZES, "unlimited");
        records.iter_mut().for_each(|record| record.doubts.push(Doubted::SharedMachine.into()));
        let json = serde_json::to_string(&costs(&records)).unwrap();
        assert!(!json.contains("null") && !json.contains("\"end\""), "{json}");
    }

    #[test]
    fn without_the_copy_more_would_pass() {
        let mut records = campaign(&SIZES, "unlimited");
        for record in &mut records {
            let mut profile = sample::full().target.profile.unwrap();
            profile.categories.iter_mut().for_each(|one| {
                one.us_per_packet = Some(if one.category == Category::Copy { 1.0 } else { 0.5 });
            });
            record.target.profile = Some(profile);
        }
        let target = costs(&records).into_iter().find(|cost| cost.end == Some(End::Target)).unwrap();
        let largest = &target.sizes[3];
        let without = largest.saturates_without_copy_at_bps.unwrap();
        assert!((without - 1472.0 * 8.0 / 4.4248e-6).abs() < 1e6, "{without}");
        assert!(target.doubts[0].contains("profiled"));
    }

    #[test]
    fn what_has_no_packets_has_no_cost() {
        assert!(costs(&[sample::rr(0, "64"), sample::failed(1)]).iter().all(|cost| cost.fit.is_none()));
        assert!(costs(&[]).is_empty());
    }
}
