//! Records as a model takes them: each configuration a row that was measured, and what they know of the machine.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use linerate_machine::end::{Direction, End};
use linerate_machine::environment::Nic;
use linerate_machine::units::OfferedLoad;
use linerate_model::cost::{Load, Workload};
use linerate_model::machine::Machine;
use linerate_model::parameter::Parameter;
use linerate_model::setting::{BadSet, Set};
use linerate_model::table::{Measured, Row};
use linerate_path::budget::LossLine;
use linerate_path::stage::Stage;
use linerate_results::findings::findings;
use linerate_results::record::Record;
use linerate_stats::median;
use linerate_trial::line::Line;
use linerate_trial::spec::{self, Spec};
use linerate_trial::wire::tcp_header_len;

use crate::measure::conduct::line;

/// Runs of the same that differ by less are not told apart: where there are no repeats, or they agree better.
const LEAST_NOISE: f64 = 0.01;
const NOISE_OF_ONE: f64 = 0.03;
/// From this share of the datagrams on, what was lost tells of the machine; and this share of that at one stage tells where.
const LOST: f64 = 0.02;
const AT_ONE_STAGE: f64 = 0.8;
/// Findings of a loss within an end, that of a filter among them.
const IN_AN_END: [&str; 2] = ["unaccounted", "stack-drops"];
/// A stream that sends more of its segments again is held back by that, and recovery from loss is not modelled.
const RETRANSMITTED: f64 = 0.01;
/// Options that do not make a configuration another one: the load, and how long and how exactly it was measured.
const OF_LOAD: [&str; 11] = [
    "workload",
    "direction",
    "rate",
    "message_size",
    "duration",
    "bytes",
    "warmup",
    "interval",
    "seed",
    "cpu_method",
    "probe",
];

/// What was measured of one machine, as it was when the newest record was made.
pub(super) struct Calibration {
    /// Each load, and what it came to.
    pub(super) configurations: Vec<Configuration>,
    /// The load of the newest record.
    newest: Key,
    /// Records of other options or settings than the newest's, which say nothing of this machine.
    pub(super) left_out: usize,
    /// The line that it was measured on.
    line: Line,
    /// What the newest record knows of the machine.
    known: Known,
}

/// A load, and what it came to.
pub(super) struct Configuration {
    pub(super) key: Key,
    pub(super) row: Row,
    /// What was asked for it.
    asked: Spec,
    pub(super) measured: Measured,
    /// A datagram is one frame.
    pub(super) fits: Result<(), BadSet>,
    /// The record that lost most, where the model has no such stage, or no counter saw it: in full it may say more.
    pub(super) lost_elsewhere: Option<String>,
}

/// What makes records repeats of each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    workload: &'static str,
    payload: u32,
    rate: String,
}

impl Calibration {
    /// The newest record that is a stream in one direction with a throughput.
    pub(super) fn newest(records: &[Record]) -> Option<&Record> {
        records.iter().rev().find(|record| Key::of(record).is_some())
    }

    /// Of these, as far as they are of the machine of `newest`, the one record that is needed in full.
    pub(super) fn of(records: &[Record], newest: &Record) -> Option<Calibration> {
        let alike = |record: &&Record| Key::of(record).is_some() && others(record) == others(newest);
        let used: Vec<&Record> = records.iter().filter(alike).collect();
        let usable = records.iter().filter(|record| Key::of(record).is_some()).count();
        Some(Calibration {
            configurations: configurations(&used),
            newest: Key::of(newest)?,
            line: line_of(newest),
            left_out: usable - used.len(),
            known: Known::of(newest, &used),
        })
    }

    /// Whether each of these can be modelled.
    pub(super) fn check(&self) -> Result<()> {
        for Configuration { key, measured, fits, .. } in &self.configurations {
            let name = key.words();
            if measured.mbps <= 0.0 {
                let next = "see why with linerate explain, or name other records, like last:rate=80M";
                bail!("{name}: more than half of its trials brought nothing, which no model does; {next}");
            }
            fits.clone().map_err(|error| anyhow!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// The newest record's load on its machine, with what is set of either.
    pub(super) fn asked(&self, id: String, sets: Vec<Set>) -> Result<Row> {
        let newest = self.configurations.iter().find(|one| one.key == self.newest);
        let newest = newest.context("the newest record has no throughput")?;
        Ok(Row { id, ..self.row(newest, &of_load_and_machine(sets))? })
    }

    /// Each configuration's load on its machine, with what is set of either, once where the load comes to the same.
    pub(super) fn each(&self, sets: Vec<Set>) -> Result<Vec<Row>> {
        let sets = of_load_and_machine(sets);
        let mut rows: Vec<Row> = Vec::new();
        for one in &self.configurations {
            let row = self.row(one, &sets)?;
            if rows.iter().all(|before| before.id != row.id) {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn row(&self, of: &Configuration, (of_load, of_machine): &(Vec<Set>, Vec<Set>)) -> Result<Row> {
        // Another MTU is the row's to know.
        let mtu = self.line.mtu.filter(|_| of_machine.iter().all(|set| set.axis != "mtu"));
        let load = self.changed(of, of_load, mtu)?;
        let rate = of_load.iter().find(|set| set.axis == "rate").map_or(&of.key.rate, |set| &set.value);
        let key = Key { payload: load.payload as u32, rate: rate.clone(), ..of.key.clone() };
        Ok(Row { id: key.words(), load, set: of_machine.clone() })
    }

    /// The load with another rate, or another size.
    fn changed(&self, of: &Configuration, sets: &[Set], mtu: Option<u32>) -> Result<Load> {
        let mut load = of.row.load;
        if sets.is_empty() {
            return Ok(load);
        }
        let mut spec = of.asked.clone();
        let words = |set: &Set| format!("--set {}={}", set.axis, set.value);
        for set in sets {
            spec.set(&set.axis, &set.value).map_err(|error| anyhow!("{}: {error}", words(set)))?;
        }
        let all = || sets.iter().map(words).collect::<Vec<_>>().join(" ");
        spec.validate().map_err(|error| anyhow!("{}: {error}", all()))?;
        if matches!(load.workload, Workload::UdpRx | Workload::UdpTx) {
            load.payload = spec.message_octets().into();
            fits(&spec, mtu)?;
        }
        spec.at_line(self.line).map_err(|error| anyhow!("--set rate: {error}"))?;
        load.offered_mbps = spec.offered_by_all_bps().map(|bps| bps / 1e6);
        Ok(load)
    }

    /// How the newest record says that the machine was set.
    pub(super) fn said(&self) -> &[Set] {
        &self.known.sets
    }

    /// As a fit takes it.
    pub(super) fn measured(self) -> Vec<(Row, Measured)> {
        self.configurations.into_iter().map(|one| (one.row, one.measured)).collect()
    }

    /// Any machine, as far as the records know it.
    pub(super) fn any(&self) -> Machine {
        let mut machine = Machine::shipped("any").expect("it comes along");
        for set in &self.known.sets {
            machine = machine.clone().saying(set).unwrap_or(machine);
        }
        let received = self.configurations.iter().filter(|one| one.row.load.workload == Workload::UdpRx);
        let sent =
            received.filter_map(|one| Some(one.row.load.on_cable(one.row.load.offered_mbps?))).fold(0.0, f64::max);
        let machine = machine.at_least(Parameter::PartnerRate, sent, "the most that it sent, of the records");
        let known = |machine: Machine, parameter, value: Option<f64>, source| match value {
            Some(value) => machine.knowing(parameter, value, source),
            None => machine,
        };
        let machine = known(machine, Parameter::CableRate, self.known.cable_mbps, "the target's link, of the record");
        let bucket = self.known.bucket_mbps;
        let machine = known(machine, Parameter::LinkRate, bucket, "the sender's token bucket, of the record");
        // A queueing discipline counts what is in the frame's buffer: without FCS, preamble and gap.
        let overhead = (bucket.is_some() || self.known.at_qdisc).then_some(0.0);
        known(machine, Parameter::LinkOverhead, overhead, "a queueing discipline limits, of the record")
    }
}

impl Key {
    fn of(record: &Record) -> Option<Key> {
        let flow = &record.result.as_ref()?.flow;
        flow.throughput_bps?;
        let spec = asked_at_line(record)?;
        let workload = workload(record)?;
        let lossy = flow.tcp.as_ref().is_some_and(|tcp| {
            tcp.segments_sent.is_some_and(|sent| tcp.retransmissions as f64 > RETRANSMITTED * sent as f64)
        });
        if lossy {
            return None;
        }
        let payload = match record.workload {
            spec::Workload::UdpStream => spec.message_octets(),
            _ => segment(record, &spec),
        };
        let rate = record.asked.get("rate").cloned().unwrap_or_default();
        Some(Key { workload: workload.name(), payload, rate })
    }

    pub(super) fn words(&self) -> String {
        format!("{} of {} bytes at {}", self.workload, self.payload, self.rate)
    }

    /// Whether it is of this size and rate, as far as they are asked for.
    pub(super) fn is_of(&self, sets: &[Set]) -> bool {
        let rate = |text: &str| text.parse::<OfferedLoad>().ok();
        sets.iter().all(|set| match set.axis.as_str() {
            "rate" => rate(&set.value) == rate(&self.rate),
            _ => linerate_machine::units::parse_size(&set.value).ok() == Some(self.payload.into()),
        })
    }
}

fn line_of(record: &Record) -> Line {
    line([&record.target.environment, &record.host.environment])
}

/// What was asked, with bits per second in the place of a part of the line's; `None` too where no link tells the line's rate.
fn asked_at_line(record: &Record) -> Option<Spec> {
    let mut spec = record.asked_spec()?;
    spec.at_line(line_of(record)).ok()?;
    Some(spec)
}

/// Octets of payload of a full segment: what is asked for, or what the MTU leaves beside headers with timestamps.
fn segment(record: &Record, spec: &Spec) -> u32 {
    let mtu = record.target.environment.nic.as_ref().and_then(|nic| nic.mtu).unwrap_or(1500);
    let headers = spec.ip_version().header_len() as u32 + tcp_header_len(true);
    let most = mtu.saturating_sub(headers).max(1);
    spec.mss.map_or(most, |mss| most.min(mss.into()))
}

/// Whether a datagram is one frame on a link of this MTU.
fn fits(spec: &Spec, mtu: Option<u32>) -> Result<(), BadSet> {
    let payload = spec.message_octets();
    match mtu {
        Some(mtu) if payload + spec.ip_version().udp_headers() > mtu => Err(BadSet::Fragments { payload, mtu }),
        _ => Ok(()),
    }
}

fn workload(record: &Record) -> Option<Workload> {
    match (record.workload, record.direction) {
        (spec::Workload::UdpStream, Direction::Rx) => Some(Workload::UdpRx),
        (spec::Workload::UdpStream, Direction::Tx) => Some(Workload::UdpTx),
        (spec::Workload::TcpStream, Direction::Rx) => Some(Workload::TcpRx),
        (spec::Workload::TcpStream, Direction::Tx) => Some(Workload::TcpTx),
        _ => None,
    }
}

/// What a record was asked beside its load, and what its machines were set to.
fn others(record: &Record) -> BTreeMap<String, String> {
    let options = record.asked.iter().filter(|(name, _)| !OF_LOAD.contains(&name.as_str()));
    let options = options.map(|(name, value)| (name.clone(), value.clone()));
    let settings = record.machines().into_iter().flat_map(|(end, machine)| {
        machine.settings.iter().map(move |one| (format!("{end}.{}", one.name), one.asked.clone()))
    });
    let endpoints = record.machines().into_iter().map(|(end, machine)| (format!("{end}"), machine.endpoint.clone()));
    options.chain(settings).chain(endpoints).collect()
}

/// A row for each configuration, in the plan's order: medians, how much its repeats differ, and where it lost.
pub(super) fn configurations(records: &[&Record]) -> Vec<Configuration> {
    let mut groups: BTreeMap<Key, Vec<&Record>> = BTreeMap::new();
    for record in records {
        if let Some(key) = Key::of(record) {
            groups.entry(key).or_default().push(record);
        }
    }
    let mut groups: Vec<(Key, Vec<&Record>)> = groups.into_iter().collect();
    // The order of the trials may be left to chance.
    let place = |record: &Record| (record.campaign.clone(), record.trial.configuration.unwrap_or(record.trial.index));
    groups.sort_by_key(|(_, group)| group.first().map(|first| place(first)));
    groups.into_iter().filter_map(|(key, group)| configuration(key, &group)).collect()
}

fn configuration(key: Key, group: &[&Record]) -> Option<Configuration> {
    let of = |pick: fn(&Record) -> Option<f64>| group.iter().filter_map(|record| pick(record)).collect::<Vec<f64>>();
    let throughput = of(|record| record.result.as_ref()?.flow.throughput_bps);
    let mbps = median(&throughput)? / 1e6;
    // What was offered is what the sender did send, where the partner is the sender; else what was asked.
    let first = group.first()?;
    let workload = workload(first)?;
    let asked = of(|record| asked_at_line(record)?.offered_by_all_bps());
    // Where nothing was sent either, what was offered is what was asked.
    let sent = of(|record| record.result.as_ref()?.flow.achieved_load_bps.filter(|bps| *bps > 0.0));
    let offered = if workload == Workload::UdpRx { median(&sent).or(median(&asked)) } else { median(&asked) };
    let load = Load { workload, payload: key.payload.into(), offered_mbps: offered.map(|bps| bps / 1e6) };
    let row = Row { id: key.words(), load, set: Vec::new() };
    let measured = Measured { mbps, noise: noise(&throughput), lost_at: lost_at(group) };
    let fits = match first.workload {
        spec::Workload::UdpStream => fits(&asked_at_line(first)?, line_of(first).mtu),
        _ => Ok(()),
    };
    let most = group.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)));
    let lost_elsewhere =
        most.filter(|most| lost(most) >= LOST && lost_at(&[most]).is_none()).map(|most| most.id.clone());
    Some(Configuration { key, row, asked: first.asked_spec()?, measured, fits, lost_elsewhere })
}

/// What share of its datagrams a record lost.
fn lost(record: &Record) -> f64 {
    record.result.as_ref().and_then(|result| result.flow.loss_ratio).unwrap_or(0.0)
}

/// Whether what a record of this configuration lost was lost where the model has a limit. What an end's filter or stack takes goes by what
/// packets are, or by how many they are, and no machine's file says either.
pub(super) fn check_place(key: &Key, record: &Record) -> Result<()> {
    let first = findings(record).into_iter().next();
    match first.filter(|first| IN_AN_END.contains(&first.name)).and_then(|first| first.machine) {
        Some(machine) => bail!(
            "{}: most of what was lost was lost within the {machine}, by a filter or the stack, which no model of a machine has; see \
             linerate explain {}, and measure without it",
            key.words(),
            record.id
        ),
        None => Ok(()),
    }
}

/// The standard deviation of repeats, as a share; of few, which may agree by chance, so much more that what is within 1.28 times it is
/// eight of ten, as of many: Student's quantile over the normal one, by its expansion (Abramowitz and Stegun, 26.7.5).
fn noise(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return NOISE_OF_ONE;
    }
    let freedom = (values.len() - 1) as f64;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let few = 1.0 + 0.661 / freedom + 0.446 / freedom.powi(2) + 0.202 / freedom.powi(3);
    (few * (squares / freedom).sqrt() / mean).max(LEAST_NOISE)
}

/// Where the datagrams of these were lost, if most of each were lost at one stage and the model has that.
fn lost_at(group: &[&Record]) -> Option<Stage> {
    let mut stages = group.iter().map(|record| {
        if lost(record) < LOST {
            return None;
        }
        let lines = record.loss_budget.as_ref()?;
        let all = lines.iter().map(|line| line.packets).sum::<u64>() as i64 + record.unaccounted.unwrap_or(0).max(0);
        let mut by_stage = BTreeMap::<Option<Stage>, u64>::new();
        lines.iter().for_each(|line| *by_stage.entry(modelled(line)).or_default() += line.packets);
        let (stage, packets) = by_stage.into_iter().max_by_key(|(_, packets)| *packets)?;
        stage.filter(|_| packets as f64 >= AT_ONE_STAGE * all as f64)
    });
    let first = stages.next()??;
    stages.all(|stage| stage == Some(first)).then_some(first)
}

/// The stage that the model loses at where the machine loses at this one.
fn modelled(line: &LossLine) -> Option<Stage> {
    match line.stage {
        // An ifb's queue stands for the receive ring, and is a shaper.
        Stage::DriverRxRing if line.counters.iter().any(|counter| counter.name.starts_with("ifb")) => Some(Stage::Link),
        Stage::Qdisc | Stage::DriverTxRing | Stage::MacTx | Stage::Link => Some(Stage::Link),
        Stage::MacRxFifo | Stage::DriverRxRing | Stage::ReceiverSocket => Some(line.stage),
        _ => None,
    }
}

/// Whether something was lost here, in a queueing discipline; an ifb's too.
fn is_qdisc(line: &LossLine) -> bool {
    let is_ifb = line.counters.iter().any(|counter| counter.name.starts_with("ifb"));
    line.packets > 0 && (line.stage == Stage::Qdisc || line.stage == Stage::DriverRxRing && is_ifb)
}

/// What a record knows of its target.
struct Known {
    sets: Vec<Set>,
    cable_mbps: Option<f64>,
    bucket_mbps: Option<f64>,
    /// All that was lost was lost in a queueing discipline.
    at_qdisc: bool,
}

impl Known {
    fn of(newest: &Record, used: &[&Record]) -> Known {
        let environment = &newest.target.environment;
        let nic = environment.nic.as_ref();
        let receives = newest.direction == Direction::Rx;
        let switch = |on: bool| (if on { "on" } else { "off" }).to_owned();
        let ring = |name: &str| nic?.rings.get(name).map(|amount| amount.current.to_string());
        // Where the driver adapts them, nobody knows what they were.
        let coalescing = |name: &str| {
            let values = &nic?.coalescing;
            values.get(name).filter(|_| values.get("adaptive-rx") != Some(&1)).copied()
        };
        // 0 frames are any number of them, until the time is over.
        let most = |frames: Option<u32>| match (frames, coalescing("rx-usecs")) {
            (None | Some(0), Some(1..)) => Some(1024),
            (frames, _) => frames.filter(|frames| *frames > 0),
        };
        let checksum = || {
            let names: &[&str] =
                if receives { &["rx-checksum"] } else { &["tx-checksum-ip-generic", "tx-checksum-ipv4"] };
            let known: Vec<bool> = names.iter().filter_map(|name| nic?.offloads.get(*name).copied()).collect();
            let word = if known.contains(&true) { "mac" } else { "software" };
            (!known.is_empty()).then(|| word.to_owned())
        };
        let lines = || used.iter().filter_map(|record| record.loss_budget.as_ref()).flatten();
        let at_qdisc = lines().any(is_qdisc) && lines().all(|line| line.packets == 0 || is_qdisc(line));
        let at_ring = used.iter().any(|record| lost_at(&[record]) == Some(Stage::DriverRxRing));
        let told = [
            ("rings.rx", ring("rx")),
            ("rings.tx", ring("tx")),
            ("coalesce.frames", most(coalescing("rx-frames")).map(|frames| frames.to_string())),
            ("coalesce.usecs", coalescing("rx-usecs").map(|usecs| usecs.to_string())),
            ("pause", nic.and_then(|nic| nic.pause.as_ref()?.tx).map(switch)),
            ("checksum", checksum()),
            ("cpus", environment.cpu.count.map(|count| (if count == 1 { "one" } else { "own" }).to_owned())),
            ("without_descriptor", at_ring.then(|| "drop".to_owned())),
        ];
        let sets = told.into_iter().filter_map(|(axis, value)| Some(Set { axis: axis.to_owned(), value: value? }));
        let sender = if receives { End::Host } else { End::Target };
        let of_sender = newest.machines().into_iter().find(|(end, _)| *end == sender);
        Known {
            sets: sets.collect(),
            cable_mbps: nic.and_then(|nic| nic.speed_mbps).map(f64::from),
            bucket_mbps: of_sender.and_then(|(_, machine)| bucket_mbps(machine.environment.nic.as_ref()?)),
            at_qdisc,
        }
    }
}

/// The rate of the root's token bucket.
fn bucket_mbps(nic: &Nic) -> Option<f64> {
    let mut words = nic.qdiscs.first()?.split_whitespace();
    let is_bucket = words.next() == Some("tbf");
    let rate = words.skip_while(|word| *word != "rate").nth(1)?;
    let bps = rate.parse::<OfferedLoad>().ok()?.bits_per_second(1)?;
    is_bucket.then_some(bps / 1e6)
}

/// Options of the load, and axes of the machine.
pub(super) fn of_load_and_machine(sets: Vec<Set>) -> (Vec<Set>, Vec<Set>) {
    sets.into_iter().partition(|set| matches!(set.axis.as_str(), "rate" | "message_size"))
}

#[cfg(test)]
mod tests {
    use linerate_results::sample;

    use super::*;

    #[test]
    fn few_repeats_tell_little_of_their_noise() {
        // Student's quantile of 90 % over the normal one: t of 1, 2, 4 and 29 degrees of freedom (any table), over 1.2816.
        for (repeats, ratio) in [(2, 3.078 / 1.2816), (3, 1.886 / 1.2816), (5, 1.533 / 1.2816), (30, 1.311 / 1.2816)] {
            let values: Vec<f64> = (0..repeats).map(|at| 100.0 + 10.0 * f64::from(at % 2)).collect();
            let mean = values.iter().sum::<f64>() / f64::from(repeats);
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / f64::from(repeats - 1)).sqrt() / mean;
            let found = noise(&values) / deviation;
            assert!((found / ratio - 1.0).abs() < 0.05, "{repeats} repeats: {found}, not {ratio}");
        }
        assert_eq!((noise(&[100.0]), noise(&[100.0; 5])), (NOISE_OF_ONE, LEAST_NOISE));
    }

    #[test]
    fn a_trial_that_brought_nothing_counts_as_0() {
        let records = |through: &[f64]| -> Vec<Record> {
            let each = through.iter().enumerate();
            let one = |(at, through): (usize, &f64)| {
                let mut record = sample::udp(at as u32, Direction::Rx, 100, 90.0);
                record.result.as_mut().unwrap().flow.throughput_bps = Some(through * 1e6);
                record
            };
            each.map(one).collect()
        };
        let of = |records: &[Record]| Calibration::of(records, records.last().unwrap()).unwrap();
        let one = of(&records(&[90.0, 90.0, 90.0, 0.0, 0.0]));
        let Measured { mbps, noise, .. } = one.configurations[0].measured;
        assert!((mbps - 90.0).abs() < 0.1 && noise > 0.5, "{mbps} {noise}");
        one.check().expect("most of them brought something");
        let one = of(&records(&[90.0, 0.0, 0.0]));
        assert_eq!(one.configurations[0].measured.mbps, 0.0);
        let why = one.check().unwrap_err().to_string();
        assert!(why.contains("udp-rx of 1470 bytes at 100M: more than half of its trials brought nothing"), "{why}");
    }

    #[test]
    fn what_an_end_s_own_filter_takes_is_not_modelled() {
        // Datagrams that left, and that came to the receiver's link, of which 200 Mbit/s of 300 arrived.
        let of = |[left, came]: [u64; 2]| {
            let mut record = sample::udp(0, Direction::Rx, 300, 200.0);
            record.host.counters.add(Stage::DriverTxRing, "link tx_packets", left);
            record.target.counters.add(Stage::DriverRxRing, "link rx_packets", came);
            let lost = record.result.as_ref().unwrap().flow.packets_lost.unwrap();
            (record.loss_budget, record.unaccounted) = (Some(Vec::new()), Some(lost as i64));
            let found = configurations(&[&record]);
            assert!(found[0].lost_elsewhere.as_ref().is_some_and(|id| *id == record.id), "no counter saw it");
            check_place(&found[0].key, &record)
        };
        of([51_030, 34_023]).expect("lost between the two");
        let why = of([51_030, 51_040]).unwrap_err().to_string();
        assert!(
            why.contains("udp-rx of 1470 bytes at 300M: most of what was lost was lost within the target"),
            "{why}"
        );
    }

    /// Of sizes and rates that were measured in this order, in which the plan has them the other way round.
    fn measured_in_chance_order(of: &[(&str, &str)]) -> Calibration {
        let one = |(at, (size, rate)): (usize, &(&str, &str))| {
            let mut record = sample::udp(at as u32, Direction::Rx, 100, 90.0);
            record.trial.configuration = Some((of.len() - at) as u32);
            record.asked.insert("message_size".to_owned(), (*size).to_owned());
            record.asked.insert("rate".to_owned(), (*rate).to_owned());
            record
        };
        let records: Vec<Record> = of.iter().enumerate().map(one).collect();
        Calibration::of(&records, records.last().unwrap()).unwrap()
    }

    #[test]
    fn each_configuration_is_asked_for_by_its_name_in_the_plans_order() {
        let calibration = measured_in_chance_order(&[("1470", "80M"), ("200", "80M"), ("200", "20M")]);
        let asked = |set: &[(&str, &str)]| -> Vec<String> {
            let sets = set.iter().map(|(axis, value)| Set { axis: (*axis).to_owned(), value: (*value).to_owned() });
            calibration.each(sets.collect()).unwrap().into_iter().map(|row| row.id).collect()
        };
        let all = ["udp-rx of 200 bytes at 20M", "udp-rx of 200 bytes at 80M", "udp-rx of 1470 bytes at 80M"];
        assert_eq!(asked(&[]), all);
        assert_eq!(asked(&[("cpu.speed", "2")]), all);
        // Two of them come to the same.
        assert_eq!(asked(&[("rate", "50M")]), ["udp-rx of 200 bytes at 50M", "udp-rx of 1470 bytes at 50M"]);
        assert_eq!(asked(&[("message_size", "400")]), ["udp-rx of 400 bytes at 20M", "udp-rx of 400 bytes at 80M"]);
        let sizes = [("rate", "50M"), ("message_size", "400")];
        assert_eq!(asked(&sizes), ["udp-rx of 400 bytes at 50M"]);
    }

    #[test]
    fn what_a_queueing_discipline_limits_is_counted_as_it_counts() {
        let overhead = |qdisc: Option<&str>, lost_at: Option<Stage>| {
            let mut record = sample::udp(0, Direction::Rx, 100, 50.0);
            record.host.environment.nic.as_mut().unwrap().qdiscs = qdisc.map(str::to_owned).into_iter().collect();
            let mut lines = record.loss_budget.take().expect("it lost some");
            lines.iter_mut().zip(lost_at).for_each(|(line, stage)| line.stage = stage);
            record.loss_budget = lost_at.map(|_| lines);
            let machine = Calibration::of(std::slice::from_ref(&record), &record).unwrap().any();
            let bounds = |parameter: Parameter| machine.known[&parameter].bounds;
            (bounds(Parameter::LinkRate).0, bounds(Parameter::LinkOverhead))
        };
        assert_eq!(overhead(Some("tbf rate 50M burst 3200 limit 60000"), None), (50.0, (0.0, 0.0)));
        assert_eq!(overhead(Some("htb rate 50M"), Some(Stage::Qdisc)), (1.0, (0.0, 0.0)));
        assert_eq!(overhead(None, Some(Stage::Link)), (1.0, (0.0, 24.0)));
        assert_eq!(overhead(None, None), (1.0, (0.0, 24.0)));
    }

    #[test]
    fn a_datagram_that_is_no_single_frame_is_refused() {
        let asked = |of: &str, set: &[(&str, &str)]| {
            let mut record = sample::udp(0, Direction::Rx, 100, 90.0);
            record.asked.insert("message_size".to_owned(), of.to_owned());
            for machine in [&mut record.target, &mut record.host] {
                machine.environment.nic.as_mut().unwrap().mtu = Some(1500);
            }
            let sets = set.iter().map(|(axis, value)| Set { axis: (*axis).to_owned(), value: (*value).to_owned() });
            let calibration = Calibration::of(std::slice::from_ref(&record), &record).unwrap();
            calibration.check()?;
            calibration.asked(String::new(), sets.collect()).map(|row| row.load.payload)
        };
        let why = |of, set: &[(&str, &str)]| asked(of, set).unwrap_err().to_string();
        assert_eq!(asked("1470", &[("message_size", "1472")]).unwrap(), 1472.0);
        let fragments = why("1470", &[("message_size", "1473")]);
        assert!(fragments.contains("1473 bytes does not fit an MTU of 1500"), "{fragments}");
        assert!(
            why("1470", &[("message_size", "66000")]).contains("16 (room for the sequence number and time) to 65507")
        );
        // What was measured in fragments is not modelled either.
        assert!(why("4000", &[]).contains("udp-rx of 4000 bytes at 100M: a datagram of 4000 bytes does not fit"));
        // Another MTU is the row's.
        assert_eq!(asked("1470", &[("message_size", "4000"), ("mtu", "9000")]).unwrap(), 4000.0);
    }

    #[test]
    fn a_load_is_of_all_streams_and_of_the_line() {
        let offered = |asked: &[(&str, &str)], set: &[(&str, &str)]| {
            let mut record = sample::udp(0, Direction::Tx, 100, 90.0);
            for (name, value) in asked {
                record.asked.insert((*name).to_owned(), (*value).to_owned());
            }
            for machine in [&mut record.target, &mut record.host] {
                machine.environment.nic.as_mut().unwrap().speed_mbps = Some(1000);
            }
            let sets = set.iter().map(|(axis, value)| Set { axis: (*axis).to_owned(), value: (*value).to_owned() });
            let calibration = Calibration::of(std::slice::from_ref(&record), &record).unwrap();
            let row = calibration.asked(String::new(), sets.collect()).unwrap();
            row.load.offered_mbps.map(|mbps| mbps.round())
        };
        assert_eq!(offered(&[("rate", "100M")], &[]), Some(100.0));
        assert_eq!(offered(&[("rate", "100M"), ("streams", "4")], &[]), Some(400.0));
        assert_eq!(offered(&[("rate", "100M"), ("streams", "4")], &[("rate", "50M")]), Some(200.0));
        assert_eq!(offered(&[("rate", "unlimited")], &[]), None);
        // 1470 octets of 1536 on the line.
        for streams in ["1", "4"] {
            assert_eq!(offered(&[("rate", "10%"), ("streams", streams)], &[]), Some(96.0));
            assert_eq!(offered(&[("rate", "100M"), ("streams", streams)], &[("rate", "50%")]), Some(479.0));
        }
    }
}
