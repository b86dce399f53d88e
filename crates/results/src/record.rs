//! `linerate.record/1`: what one trial produced, with the state of both machines.
//! Knows no tables and no files; docs/record-format.md describes each field to people.

use std::collections::BTreeMap;

use linerate_machine::change::Changed;
use linerate_machine::cpu::{CpuShares, CpuUse};
use linerate_machine::end::{Direction, End, Party, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::printable::in_line;
use linerate_machine::words;
use linerate_path::budget::{LossLine, PauseFrames, StageCount};
use linerate_path::drop_reason::DropReason;
use linerate_path::stage::Counters;
use linerate_registers::changes::RegisterChanges;
use linerate_trial::api::{ApiUse, Timestamps};
use linerate_trial::doubt::{Doubt, DoubtKind};
use linerate_trial::event::Event;
use linerate_trial::histogram::Histogram;
use linerate_trial::outcome::{FlowCounts, Foreign, TcpSample, TcpSummary, ThreadUse};
use linerate_trial::pace::Pacing;
use linerate_trial::spec::{Spec, Workload};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::examination::Examination;
use crate::middle::Middle;
use crate::profile::MachineProfile;
use crate::search::SearchPlace;
use crate::time_budget::TimeLine;
use crate::total::Total;

/// The name of this format.
pub const FORMAT: &str = "linerate.record/1";

/// What one trial produced. Absent means unknown: never 0, -1 or NaN. Once written, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// Time-ordered identifier, 26 characters.
    pub id: String,
    /// When the trial started, RFC 3339, UTC.
    pub started_at: String,
    /// The campaign's identifier.
    pub campaign: String,
    /// The plan's name.
    pub plan: String,
    /// Which trial of the campaign this is.
    pub trial: TrialPlace,
    /// What traffic.
    pub workload: Workload,
    /// Which way.
    pub direction: Direction,
    /// Length of the measured part, seconds: by the receiver's clock for one-way traffic, by the requester's else.
    pub duration_s: Option<f64>,
    /// The trial ended before its time, for more was lost than could be forgiven, or another tool's client left: `asked` has the time
    /// that was intended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended_early: bool,
    /// Every option as understood, defaults included, each in the words that `--set` takes.
    pub asked: BTreeMap<String, String>,
    /// The machine under test.
    pub target: Machine,
    /// The machine at the other end.
    pub host: Machine,
    /// The machine between the two, where one was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub middle: Option<Middle>,
    /// The figures; absent when the trial failed.
    pub result: Option<Figures>,
    /// The figures in time slices.
    #[serde(default)]
    pub intervals: Vec<Interval>,
    /// What passed each stage of the path, where a counter tells, over the whole trial, warm-up included.
    #[serde(default)]
    pub path: Vec<PathLine>,
    /// What each direction sent and what of it arrived, over the whole trial, warm-up included; of TCP where both ends counted
    /// their segments to the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Losses>,
    /// Every loss by the stage that it fell to, over the whole trial, warm-up included. Of TCP what counters saw dropped,
    /// acknowledgements included. Absent where nobody counted.
    pub loss_budget: Option<Vec<LossLine>>,
    /// What was lost and no counter explains, of both directions; negative when counters explain more than was lost. Absent of
    /// TCP whose segments are not known.
    pub unaccounted: Option<i64>,
    /// What the receivers dropped that the trial did not send: frames for other hosts, unknown protocols.
    #[serde(default)]
    pub benign_drops: Vec<LossLine>,
    /// Where the time of the measured part went, by what limited the stream, or by where transactions were; of each
    /// direction the longest first. Empty where nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_budget: Vec<TimeLine>,
    /// What happened at a time, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Reasons not to trust a figure.
    #[serde(default)]
    pub doubts: Vec<Doubt>,
    /// Why the trial has no figures: one sentence.
    pub error: Option<String>,
    /// What was tried right after nothing came through, from the bottom up.
    pub examination: Option<Examination>,
}

/// No measurement comes near this, and no sum or product of some that are smaller leaves what a number can be: 64 bits count to 2e19.
pub const LARGEST: f64 = 1e30;

/// Whether a number may be a figure of a record.
pub fn is_measurable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// The first number of this JSON that is none.
fn absurd(json: &str) -> Option<&str> {
    let octets = json.as_bytes();
    let mut at = 0;
    while let Some(octet) = octets.get(at) {
        let begin = at;
        at += 1;
        match octet {
            b'"' => {
                while let Some(octet) = octets.get(at).filter(|octet| **octet != b'"') {
                    at += if *octet == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |octet: &&u8| matches!(octet, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                at += octets[at..].iter().take_while(is_part).count();
                let number = &json[begin..at];
                if !number.parse().is_ok_and(is_measurable) {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}

/// The SHA-256 of a text, a record's or a plan's, as sha256sum(1) prints it: whether two texts are the same.
pub fn digest(text: impl AsRef<[u8]>) -> String {
    let digit = |of: u8| char::from(b"0123456789abcdef"[usize::from(of)]);
    Sha256::digest(text).iter().flat_map(|octet| [octet >> 4, octet & 15]).map(digit).collect()
}

impl Record {
    /// Of both ends.
    pub(crate) fn environments(&self) -> PerEnd<&Environment> {
        PerEnd { target: &self.target.environment, host: &self.host.environment }
    }

    /// A trial between two machines that was asked for, and of which nothing is known yet.
    pub(crate) fn blank(spec: &Spec, trial: TrialPlace, target: Machine, host: Machine) -> Record {
        Record {
            format: FORMAT.to_owned(),
            id: String::new(),
            started_at: String::new(),
            campaign: String::new(),
            plan: String::new(),
            trial,
            workload: spec.workload,
            direction: spec.direction,
            duration_s: None,
            ended_early: false,
            asked: spec.asked().into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
            target,
            host,
            middle: None,
            result: None,
            intervals: Vec::new(),
            path: Vec::new(),
            losses: Vec::new(),
            loss_budget: None,
            unaccounted: None,
            benign_drops: Vec::new(),
            time_budget: Vec::new(),
            events: Vec::new(),
            doubts: Vec::new(),
            error: None,
            examination: None,
        }
    }

    /// The record without what only the record in full shows: counters, most of environments, time slices, histograms and
    /// the stacks of profiles. A campaign may have a hundred thousand records, and a table of them needs little of each.
    pub fn in_brief(&self) -> Record {
        self.clone().into_brief()
    }

    /// The same of a record that nobody needs any longer.
    pub fn into_brief(mut self) -> Record {
        self.intervals = Vec::new();
        self.path = Vec::new();
        (self.target, self.host) = (self.target.into_brief(), self.host.into_brief());
        self.middle = self.middle.map(Middle::into_brief);
        if let Some(figures) = &mut self.result {
            figures.flow.arrival_gaps = None;
            figures.flow.departure_gaps = None;
            for latency in [&mut figures.latency, &mut figures.one_way].into_iter().flatten() {
                latency.histogram = Histogram::default();
            }
        }
        self
    }

    /// What was asked, as values: the texts of `asked` are read here and nowhere else. Absent where nothing is known of it;
    /// an option that a record does not have, or has in words that this version does not know, is at its default.
    pub fn asked_spec(&self) -> Option<Spec> {
        (!self.asked.is_empty()).then(|| Spec::from_asked(self.workload, &self.asked))
    }

    /// All machines: the target, the host, and the one between them where there is one.
    pub fn parties(&self) -> impl Iterator<Item = (Party, &Machine)> {
        let ends = self.machines().into_iter().map(|(end, machine)| (Party::from(end), machine));
        ends.chain(self.middle.iter().map(|middle| (Party::Middle, &middle.machine)))
    }

    /// The settings of all machines, with the names of those whose they are; of the middle those of each interface too.
    pub fn settings(&self) -> impl Iterator<Item = (Party, String, &[Changed])> {
        let machines = self.parties().map(|(party, machine)| (party, party.to_string(), &*machine.settings));
        let ports = self.middle.iter().flat_map(Middle::named);
        machines.chain(ports.map(|(name, port)| (Party::Middle, name, &*port.settings)))
    }

    /// The counters of all machines, with the names of those that have them; of the middle those of each interface apart.
    pub fn counters(&self) -> Vec<(String, &Counters)> {
        let ends = self.machines().into_iter().map(|(end, machine)| (end.to_string(), &machine.counters));
        ends.chain(self.middle.iter().flat_map(Middle::counters)).collect()
    }

    /// One of the two ends.
    pub fn machine(&self, end: End) -> &Machine {
        match end {
            End::Target => &self.target,
            End::Host => &self.host,
        }
    }

    /// Both ends, the target first.
    pub fn machines(&self) -> [(End, &Machine); 2] {
        [(End::Target, &self.target), (End::Host, &self.host)]
    }

    /// The losses of what is counted as this.
    pub fn losses_of(&self, of: Counted) -> Vec<Losses> {
        self.losses.iter().filter(|losses| losses.of == of).copied().collect()
    }

    /// Whether it carries a doubt of this kind.
    pub fn has_doubt(&self, kind: DoubtKind) -> bool {
        self.doubts.iter().any(|doubt| doubt.kind() == kind)
    }

    /// Seconds that threads and counters cover: the measured part and the warm-up before it.
    pub fn whole_s(&self) -> Option<f64> {
        Some(self.duration_s? + self.asked_spec().map_or(0.0, |spec| spec.warmup.as_secs_f64()))
    }

    /// The record that this JSON is, or why it is none.
    pub fn from_json(json: &str) -> Result<Record, String> {
        let record: Record = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if let Some(number) = absurd(json) {
            return Err(format!("it has a number that nothing measured can be, {}", in_line(number, 40)));
        }
        match record.impossible() {
            None => Ok(record),
            Some((name, value)) => Err(format!("its {name} is {value}, which nothing measured can be")),
        }
    }

    /// The first rate below 0, or loss that is no part of a whole.
    fn impossible(&self) -> Option<(&'static str, f64)> {
        let result = self.result.as_ref()?;
        let directions = result.directions.iter().flat_map(|both| [&both.tx, &both.rx]);
        let flows = std::iter::once(&result.flow).chain(directions).chain(result.streams.iter().map(|one| &one.flow));
        let of_flow = |flow: &FlowFigures| {
            [
                ("throughput_bps", flow.throughput_bps, LARGEST),
                ("achieved_load_bps", flow.achieved_load_bps, LARGEST),
                ("loss_ratio", flow.loss_ratio, 1.0),
            ]
        };
        let of_all = ("transactions_per_s", result.transactions_per_s, LARGEST);
        let figures = flows.flat_map(of_flow).chain([of_all]);
        let mut known = figures.filter_map(|(name, value, most)| Some((name, value?, most)));
        known.find(|(_, value, most)| !(0.0..=*most).contains(value)).map(|(name, value, _)| (name, value))
    }

    /// The record as its format has it: one JSON object, unknown fields absent rather than null. A figure that is
    /// no finite number is no figure, and absent too.
    pub fn to_json(&self) -> serde_json::Value {
        #[cfg(any(test, feature = "sample"))]
        crate::effort::count(|effort| effort.texts += 1);
        let mut value = serde_json::to_value(self).expect("a record has string keys and numbers that JSON has");
        drop_nulls(&mut value);
        value
    }
}

/// Takes out every field that is null; an array keeps its places.
fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Which trial of its campaign a record is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialPlace {
    /// From 0, in the order in which the campaign runs them.
    pub index: u32,
    /// Which repeat of its configuration, from 0.
    pub repeat: u32,
    /// The levels that distinguish this configuration: factor → level.
    pub factors: BTreeMap<String, String>,
    /// Which configuration of the plan, from 0, in the plan's order; absent in records of earlier versions.
    pub configuration: Option<u32>,
    /// What the order of the campaign's trials was drawn from; absent where they ran in the plan's order.
    pub order_seed: Option<u32>,
    /// In a campaign with A/A trials: which of the two sides that measure the same.
    pub null_side: Option<NullSide>,
    /// Where it stands in the search that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Box<SearchPlace>>,
}

impl TrialPlace {
    /// Whether it is one of its configuration's repeats: the other side of an A/A pair is there to be held against the first alone.
    pub fn is_repeat(&self) -> bool {
        self.null_side != Some(NullSide::B)
    }
}

words! {
    /// One side of an A/A pair: a configuration that is measured twice in each round. The two must be alike.
    NullSide {
        /// The one that counts as the configuration's trials.
        A = "a",
        /// The other, measured only to be held against it.
        B = "b",
    }
}

/// One machine during the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How its agent was reached.
    pub endpoint: String,
    /// The address that the test traffic used.
    pub address: Option<String>,
    /// The machine as it was.
    pub environment: Environment,
    /// Settings that were changed for this trial.
    #[serde(default)]
    pub settings: Vec<Changed>,
    /// CPU use during the measured part.
    pub cpu: Option<CpuUse>,
    /// What its counters grew by during the whole trial.
    #[serde(default)]
    pub counters: Counters,
    /// Pause frames during the whole trial, where a counter tells.
    pub pause_frames: Option<PauseFrames>,
    /// What its kernel dropped during the whole trial, by its own reasons; absent where that was not asked for or
    /// cannot be traced.
    pub drop_reasons: Option<Vec<DropReason>>,
    /// What the threads that moved the data used, over the whole trial.
    pub threads: Option<ThreadUse>,
    /// What its CPUs did in the measured part; present where `profile` was asked for and samples could be taken.
    pub profile: Option<MachineProfile>,
    /// What changed in the registers of its MAC and PHY over the whole trial; with `registers` on.
    pub registers: Option<RegisterChanges>,
}

impl Machine {
    /// A machine of which nothing is measured yet.
    pub fn of(endpoint: String, environment: Environment) -> Machine {
        Machine {
            endpoint,
            address: None,
            environment,
            settings: Vec::new(),
            cpu: None,
            counters: Counters::default(),
            pause_frames: None,
            drop_reasons: None,
            threads: None,
            profile: None,
            registers: None,
        }
    }

    /// Without what only a record in full shows.
    pub(crate) fn into_brief(mut self) -> Machine {
        self.environment = self.environment.in_brief();
        self.counters = Counters::default();
        self.drop_reasons = None;
        self.profile = self.profile.as_ref().map(MachineProfile::in_brief);
        self.registers = None;
        self
    }
}

/// What one direction sent, and what of it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Which way.
    pub direction: Direction,
    /// What is counted.
    pub of: Counted,
    /// Sent; of TCP with what was sent again, of datagrams without those that were under way at the end.
    pub sent: u64,
    /// Of them, those that arrived at the other end's socket, each once.
    pub arrived: u64,
    /// Of those that did not, those that no counter explains; negative when counters explain more.
    pub unaccounted: i64,
}

impl Losses {
    /// Those that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived)
    }
}

words! {
    /// What is counted one by one.
    Counted {
        /// Datagrams of a stream.
        Datagrams = "datagrams",
        /// Ethernet frames of a stream.
        Frames = "frames",
        /// TCP's data segments.
        Segments = "segments",
        /// Requests.
        Requests = "requests",
        /// Answers.
        Answers = "answers",
    }
}

/// What passed a stage of the path, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLine {
    /// Which way.
    pub direction: Direction,
    /// What passed where.
    #[serde(flatten)]
    pub passage: StageCount,
}

/// The figures of a trial. With `direction` both, sums over the two directions, which stand apart in `directions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// What both directions, and each, have.
    #[serde(flatten)]
    pub flow: FlowFigures,
    /// Requests answered each second.
    pub transactions_per_s: Option<f64>,
    /// Times from request to response: of the workload itself, or of the probe beside a stream.
    pub latency: Option<Latency>,
    /// Times of frames from sender to receiver, of two ends on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Latency>,
    /// CPU time by unit of work.
    pub service_demand: Option<ServiceDemand>,
    /// The two directions apart, when both ran.
    pub directions: Option<Directions>,
    /// Each stream apart, when there were several.
    #[serde(default)]
    pub streams: Vec<StreamFigures>,
}

impl Figures {
    /// Those of one direction.
    pub fn of_direction(&self, direction: Direction) -> &FlowFigures {
        match (&self.directions, direction) {
            (Some(both), Direction::Tx) => &both.tx,
            (Some(both), _) => &both.rx,
            (None, _) => &self.flow,
        }
    }
}

/// Figures of the traffic in one direction, or of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// Payload bits per second at the receiving application.
    pub throughput_bps: Option<f64>,
    /// Payload bits per second that the sender did send.
    pub achieved_load_bps: Option<f64>,
    /// Datagrams sent in the measured part.
    pub packets_sent: Option<u64>,
    /// Different datagrams among them that arrived.
    pub packets_received: Option<u64>,
    /// Datagrams among them that never arrived; those are in neither count that were under way at the end.
    pub packets_lost: Option<u64>,
    /// Further copies that arrived.
    pub packets_duplicated: Option<u64>,
    /// Datagrams that arrived after one with a higher number (RFC 4737).
    pub packets_reordered: Option<u64>,
    /// Datagrams that arrived after the end mark: received, and no part of the throughput.
    pub packets_late: Option<u64>,
    /// Lost / sent, of those that were not under way at the end.
    pub loss_ratio: Option<f64>,
    /// Interarrival jitter (RFC 3550), seconds.
    pub jitter_s: Option<f64>,
    /// With `first_rate`: how long after it the last packet that was lost had been due, seconds; 0: none after it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// Who kept the senders to their offered load.
    pub pacing: Option<Pacing>,
    /// Times between departures, by the sender's clock.
    pub departure_gaps: Option<Histogram>,
    /// Who noted when datagrams arrived: what `jitter_s` and `arrival_gaps` are of. Of several streams, if they agree.
    pub timestamps: Option<Timestamps>,
    /// Times between arrivals.
    pub arrival_gaps: Option<Histogram>,
    /// Runs of consecutive lost datagrams: length → how often; absent where it is not known which were lost.
    #[serde(default, deserialize_with = "linerate_trial::arrivals::perhaps_by_length")]
    pub loss_bursts: Option<BTreeMap<u64, u64>>,
    /// The sending TCP's account. Of several streams: sums of counts, means of the rest.
    pub tcp: Option<TcpSummary>,
    /// How the senders handed their data to the socket.
    pub sender_api: Option<ApiUse>,
    /// How the receivers took their data from the socket.
    pub receiver_api: Option<ApiUse>,
    /// System calls that sent.
    pub send_calls: Option<u64>,
    /// System calls that received.
    pub receive_calls: Option<u64>,
    /// Of datagrams, the largest packet that the senders' kernel takes the way to carry, octets: of its link, or what a router said.
    pub path_mtu: Option<u32>,
    /// Payload octets that arrived in the measured part.
    pub octets: Option<u64>,
    /// Different datagrams that arrived in it: those that `octets` are of. Records of earlier versions lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_in_window: Option<u64>,
    /// Payload octets that the senders handed over in theirs.
    pub octets_sent: Option<u64>,
    /// What only frames have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameFigures>,
}

impl FlowFigures {
    /// Datagrams that arrived in the measured part; where the record lacks their number, by their size.
    pub fn arrived_in_window(&self) -> Option<f64> {
        let received = self.packets_received? as f64;
        if let Some(packets) = self.packets_in_window {
            return Some(packets as f64);
        }
        let each = match &self.frames {
            Some(frames) => frames.mean_octets(),
            None => self.sender_api.as_ref().and_then(|api| api.message_octets).map(f64::from),
        };
        match each.filter(|each| *each > 0.0) {
            Some(each) => Some(self.octets? as f64 / each),
            None => Some(received),
        }
    }

    /// Octets of each of them.
    pub fn octets_each(&self) -> Option<f64> {
        let octets = self.octets.filter(|octets| *octets > 0)? as f64;
        Some(octets / self.arrived_in_window().filter(|packets| *packets > 0.0)?)
    }
}

/// What is known of frames beside what all streams have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameFigures {
    /// By size, in order: what was sent in the measured part, and what arrived of it.
    pub sizes: Vec<FrameSize>,
    /// Frames that arrived with the trial's secret and not as they were sent, over the whole trial.
    pub malformed: u64,
    /// Frames that came to the receiving ports over the whole trial and are not the trial's, by type. Absent where no port
    /// could look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Vec<Foreign>>,
    /// Frames of the measured part that the kernel took and the sender's interface then dropped: they are no part of what was
    /// sent. Absent where the interface does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// How flows within streams differ in what they lost, over the whole trial; absent where a stream has one only, or a receiver does not
    /// tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowCounts>,
}

impl FrameFigures {
    /// Octets of a frame that arrived, on average.
    fn mean_octets(&self) -> Option<f64> {
        let sum = |of: fn(&FrameSize) -> f64| self.sizes.iter().map(of).sum::<f64>();
        let received = sum(|size| size.received as f64);
        (received > 0.0).then(|| sum(|size| f64::from(size.octets) * size.received as f64) / received)
    }
}

/// Frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSize {
    /// Bytes of each, FCS counted.
    pub octets: u32,
    /// Sent in the measured part.
    pub sent: u64,
    /// Different ones among them that arrived.
    pub received: u64,
}

impl FrameFigures {
    /// Frames that are not the trial's, of all types.
    pub fn foreign_total(&self) -> Option<u64> {
        Some(self.foreign.as_ref()?.iter().map(|one| one.frames).total())
    }
}

impl FlowFigures {
    /// The sender's API and the receiver's, where either is not what an ordinary program does: a figure of such a flow names
    /// them. `None` where both are plain, or neither is known.
    pub fn unusual_apis(&self) -> Option<[Option<&str>; 2]> {
        let apis = [self.sender_api.as_ref(), self.receiver_api.as_ref()];
        let is_unusual = apis.iter().flatten().any(|api| !api.is_plain());
        is_unusual.then(|| apis.map(|api| api.map(|api| api.name.as_str())))
    }
}

/// Both directions of a trial that ran them at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directions {
    /// The target sent.
    pub tx: FlowFigures,
    /// The target received.
    pub rx: FlowFigures,
}

/// One stream of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// The flow's number.
    pub id: u16,
    /// Which way.
    pub direction: Direction,
    /// Its figures.
    #[serde(flatten)]
    pub flow: FlowFigures,
}

/// Times from request to response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// What was timed: a workload's name, or `probe`.
    pub of: String,
    /// How many.
    pub count: u64,
    /// Requests that had no response in time, over UDP.
    pub timeouts: Option<u64>,
    /// The smallest, seconds.
    pub min_s: Option<f64>,
    /// The mean, seconds.
    pub mean_s: Option<f64>,
    /// The largest, seconds.
    pub max_s: Option<f64>,
    /// Percentiles, seconds: `p50` … `p99.99`, as far as the count carries them.
    pub percentiles: BTreeMap<String, f64>,
    /// All of them.
    pub histogram: Histogram,
}

/// CPU time by unit of work, microseconds. Of the machine, not of the process: interrupts are in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceDemand {
    /// The target's, for each KiB of payload that arrived.
    pub target_us_per_kib: Option<f64>,
    /// The host's.
    pub host_us_per_kib: Option<f64>,
    /// The target's, for each packet: a datagram, a data segment, or a transaction.
    pub target_us_per_packet: Option<f64>,
    /// The host's.
    pub host_us_per_packet: Option<f64>,
}

/// A time slice of a trial. Each end keeps its own time; slices of one number cover the same part of the trial
/// to within the delay of the control conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// From the start of the measured part, seconds.
    pub start_s: f64,
    /// To here.
    pub end_s: f64,
    /// Payload bits per second at the receiving application, over all streams.
    pub throughput_bps: Option<f64>,
    /// Payload bits per second that were sent, over all streams.
    pub achieved_load_bps: Option<f64>,
    /// Datagrams sent.
    pub packets_sent: Option<u64>,
    /// Datagrams that arrived.
    pub packets_received: Option<u64>,
    /// Datagrams found missing in this slice, less those found after all; 0 at least.
    pub packets_missing: Option<u64>,
    /// Requests answered each second.
    pub transactions_per_s: Option<f64>,
    /// The first sending stream's TCP at the end of the slice.
    pub tcp: Option<TcpSample>,
    /// The target's CPUs.
    pub target_cpu: Option<CpuShares>,
    /// The host's CPUs.
    pub host_cpu: Option<CpuShares>,
    /// Those of the machine between the two ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub middle_cpu: Option<CpuShares>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_record_of_a_number_that_nothing_measured_can_be_is_refused() {
        let mut record = sample::full();
        let check = |record: &Record, number: Option<&str>| {
            let read = Record::from_json(&record.to_json().to_string());
            let why = number.map(|number| format!("it has a number that nothing measured can be, {number}"));
            assert_eq!(read.map(drop), why.map_or(Ok(()), Err));
        };
        // A number in a text is none, whatever stands around it.
        record.plan = "\"1e99\\\",1e308".to_owned();
        check(&record, None);
        let busy = |record: &mut Record, value| record.target.cpu.as_mut().unwrap().machine.busy = value;
        busy(&mut record, -LARGEST);
        check(&record, None);
        busy(&mut record, 1e308);
        check(&record, Some("1e+308"));
        busy(&mut record, 0.5);
        record.duration_s = Some(-1.5e31);
        check(&record, Some("-1.5e+31"));
        let refused = |change: fn(&mut Figures), why: &str| {
            let mut record = sample::full();
            change(record.result.as_mut().unwrap());
            let why = format!("its {why}, which nothing measured can be");
            assert_eq!(Record::from_json(&record.to_json().to_string()).map(drop), Err(why));
        };
        refused(|result| result.flow.throughput_bps = Some(-5e6), "throughput_bps is -5000000");
        refused(|result| result.flow.loss_ratio = Some(1.7), "loss_ratio is 1.7");
        refused(|result| result.transactions_per_s = Some(-1.0), "transactions_per_s is -1");
        refused(|result| result.streams[0].flow.loss_ratio = Some(-0.1), "loss_ratio is -0.1");
        let long = format!("[{}]", "9".repeat(400));
        assert_eq!(absurd(&long), Some(&long[1..401]));
    }
}
