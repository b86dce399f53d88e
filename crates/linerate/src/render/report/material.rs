//! What a document needs of its records. They come one by one and go again: ten thousand whole ones take 700 MB.
//! Each is looked at once, whatever asks for it later.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use linerate_machine::end::{Direction, Party};
use linerate_results::figure::Source;
use linerate_results::findings::symptom;
use linerate_results::observation::{Facts, Observation, TrialRequest};
use linerate_results::record::{FlowFigures, Record, digest};
use linerate_trial::histogram::Histogram;
use linerate_trial::spec::Workload;

use crate::render::explain::FirstFinding;

use super::attachment::Attachment;
use super::identities::Identities;

/// Records, each reduced to what a document says of it.
#[derive(Default)]
pub(crate) struct Material {
    /// In brief, in the order in which they came.
    pub(super) records: Vec<Record>,
    /// Of each what is compared.
    pub(super) observed: Vec<Observation>,
    /// Of each what limits it most, without the evidence.
    pub(super) firsts: Vec<FirstFinding>,
    /// Of each what it shows first, in a sentence.
    pub(super) headlines: Vec<String>,
    /// Of each the SHA-256 of its line.
    pub(super) digests: Vec<String>,
    /// Of each how often which time was counted: of its buckets few are filled, and a histogram has room for all.
    latencies: Vec<Times>,
    /// Of each, and of each of its flows, the times between departures and between arrivals.
    gaps: Vec<Vec<[Times; 2]>>,
    /// Whole, by their places: the first ones with something of what happened inside the machines.
    pub(super) inside: Vec<(usize, Record)>,
    /// The configurations that have each kind of that.
    pub(super) inside_of: [HashSet<usize>; 2],
    /// What the fields of registers that stood still were set to, and in how many trials.
    pub(super) stood: BTreeMap<(Party, String), BTreeMap<String, u64>>,
    /// The versions of the agents that measured.
    pub(super) agents: BTreeSet<String>,
    /// A kernel's command line is among them.
    pub(super) has_command_line: bool,
    /// Who and where their machines are.
    pub(super) identities: Identities,
    /// Their lines, where they are to be attached.
    pub(super) attachment: Option<Attachment>,
    asked: HashSet<Arc<TrialRequest>>,
    machines: HashSet<Arc<Facts>>,
}

/// How often which time was counted, nanoseconds.
type Times = Vec<(u64, u64)>;

impl Material {
    pub(crate) fn new(is_attached: bool) -> Material {
        Material { attachment: is_attached.then(Attachment::default), ..Material::default() }
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The campaigns of its records, oldest first.
    pub(crate) fn campaigns(&self) -> BTreeSet<&str> {
        self.records.iter().map(|record| record.campaign.as_str()).collect()
    }

    /// The next record, and the line that it is attached as.
    pub(crate) fn add(&mut self, record: Record, line: &str) {
        self.digests.push(digest(line));
        self.identities.record(&record, line);
        self.attachment.iter_mut().for_each(|attachment| attachment.add(line));
        for (end, machine) in record.parties() {
            for (name, value) in machine.registers.iter().flat_map(|registers| &registers.stood) {
                *self.stood.entry((end, name.clone())).or_default().entry(value.clone()).or_default() += 1;
            }
            let environment = &machine.environment;
            if let Some(version) = environment.agent_version.as_ref().filter(|version| !self.agents.contains(*version))
            {
                self.agents.insert(version.clone());
            }
            self.has_command_line |= environment.command_line.is_some();
        }
        let mut observed = Observation::of(&record);
        observed.around.asked = shared(&mut self.asked, observed.around.asked);
        observed.around.machines = shared(&mut self.machines, observed.around.machines);
        // What was asked is kept once, so its place is the configuration's.
        let configuration = Arc::as_ptr(&observed.around.asked) as usize;
        self.observed.push(observed);
        let mut first = FirstFinding::of(&record);
        self.headlines.push(headline(&record, &first));
        first.finding.iter_mut().for_each(|finding| finding.evidence.clear());
        self.firsts.push(first);
        let latency = record.result.as_ref().and_then(|figures| figures.latency.as_ref());
        self.latencies.push(latency.map(|latency| latency.histogram.buckets().collect()).unwrap_or_default());
        self.gaps.push(flows(&record).into_iter().map(|(_, flow)| gaps(flow)).collect());
        let mut is_wanted = false;
        for (seen, has) in self.inside_of.iter_mut().zip(INSIDE) {
            is_wanted |= has(&record) && seen.insert(configuration) && seen.len() <= MOST_INSIDE;
        }
        if is_wanted {
            self.inside.push((self.records.len(), record.clone()));
        }
        self.records.push(record.into_brief());
    }

    /// What is known of machines, each different account once.
    pub(super) fn machines(&self) -> impl Iterator<Item = &BTreeMap<String, String>> {
        self.machines.iter().map(|facts| &***facts)
    }

    /// The place of one of its records.
    pub(super) fn place(&self, record: &Record) -> usize {
        self.records.element_offset(record).expect("it is one of these")
    }

    /// What is compared of one of its records.
    pub(super) fn observed(&self, record: &Record) -> &Observation {
        &self.observed[self.place(record)]
    }

    /// Whether anything was timed in one of its records.
    pub(super) fn is_timed(&self, record: &Record) -> bool {
        !self.latencies[self.place(record)].is_empty()
    }

    /// How far departures and arrivals of a flow of a record lie apart: how often which time was counted.
    pub(super) fn gaps(&self, record: &Record, flow: usize) -> Option<&[Times; 2]> {
        self.gaps[self.place(record)].get(flow)
    }

    /// Adds what was timed in one of its records.
    pub(super) fn add_times(&self, record: &Record, all: &mut Histogram) {
        self.latencies[self.place(record)].iter().for_each(|(ns, count)| all.record_n(*ns, *count));
    }
}

fn headline(record: &Record, first: &FirstFinding) -> String {
    match &first.finding {
        Some(finding) => format!("{} ({}: {})", finding.sentence, finding.sure.name(), finding.name),
        None => {
            let symptom = symptom(record);
            first.limit.clone().filter(|_| !symptom.is_there).unwrap_or(symptom.sentence)
        }
    }
}

/// What a record may tell of what happened inside its machines: registers, and a profile.
pub(super) const INSIDE: [fn(&Record) -> bool; 2] = [
    |record| record.parties().any(|(_, machine)| machine.registers.is_some()),
    |record| record.parties().any(|(_, machine)| machine.profile.is_some()),
];
/// The most configurations of which details are shown.
pub(super) const MOST_INSIDE: usize = 4;

/// The flows of a stream of datagrams, each with its direction.
pub(super) fn flows(record: &Record) -> Vec<(Direction, &FlowFigures)> {
    if record.workload != Workload::UdpStream {
        return Vec::new();
    }
    let each = Source::each(record).into_iter();
    each.filter_map(|source| Some((source.direction.unwrap_or(record.direction), source.flow?))).collect()
}

fn gaps(flow: &FlowFigures) -> [Times; 2] {
    let times = |gaps: &Option<Histogram>| gaps.as_ref().map(|gaps| gaps.buckets().collect()).unwrap_or_default();
    [times(&flow.departure_gaps), times(&flow.arrival_gaps)]
}

/// The one of those that are known that is the same, or else itself.
fn shared<T: Eq + Hash>(known: &mut HashSet<Arc<T>>, one: Arc<T>) -> Arc<T> {
    if let Some(same) = known.get(&one) {
        return Arc::clone(same);
    }
    known.insert(Arc::clone(&one));
    one
}
