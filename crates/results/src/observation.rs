//! What a comparison needs of a record: its figures, and the facts that stand around them.
//! Knows no store and no statistics; the record itself stays the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use linerate_machine::change::Changed;
use linerate_machine::end::End;
use linerate_registers::changes::RegisterChanges;
use linerate_trial::spec::{Spec, Workload};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figure::{METRICS, Metric};
use crate::middle::Port;
use crate::record::{Machine, NullSide, Record};

/// A record, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The record's identifier; sorts by time.
    pub id: String,
    /// The campaign's identifier.
    pub campaign: String,
    /// When it started, RFC 3339, UTC.
    pub started_at: String,
    /// Which trial of the campaign, from 0.
    pub index: u32,
    /// Which repeat of its configuration, from 0.
    pub repeat: u32,
    /// Which configuration of its plan, from 0; absent in records of earlier versions.
    pub configuration: Option<u32>,
    /// Which side of an A/A pair.
    pub null_side: Option<NullSide>,
    /// The names of its doubts, joined by commas.
    pub doubts: String,
    /// It has no figures.
    pub failed: bool,
    /// What stands around it.
    pub around: TrialContext,
    /// The figures, in the order of [`METRICS`].
    pub values: Vec<Option<f64>>,
}

/// What stands around a trial: all that was asked, and all that is known of both machines. Both parts are shared by
/// those trials that have them in common: many trials ask the same, and a machine is the same for many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialContext {
    /// What was asked.
    pub asked: Arc<TrialRequest>,
    /// What is known of the machines by name, such as `target.kernel` or `host.nic.mtu`.
    pub machines: Arc<Facts>,
}

/// Facts by name. Those that come from a store are a text, and taken apart when somebody asks for one: of a thousand campaigns a
/// history asks two.
#[derive(Debug, Default)]
pub struct Facts {
    text: String,
    by_name: OnceLock<BTreeMap<String, String>>,
}

impl Facts {
    /// As [`Facts::text`] has them; of what is no such text there are none.
    pub(crate) fn of_text(text: String) -> Facts {
        Facts { text, by_name: OnceLock::new() }
    }

    /// A JSON object.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(&**self).unwrap_or_default()
    }
}

impl From<BTreeMap<String, String>> for Facts {
    fn from(by_name: BTreeMap<String, String>) -> Facts {
        Facts { text: String::new(), by_name: by_name.into() }
    }
}

impl Deref for Facts {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        self.by_name.get_or_init(|| serde_json::from_str(&self.text).unwrap_or_default())
    }
}

impl PartialEq for Facts {
    fn eq(&self, other: &Facts) -> bool {
        **self == **other
    }
}

impl Eq for Facts {}

impl Hash for Facts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// What was asked of a trial, and between which ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrialRequest {
    /// The levels that distinguish this configuration: factor → level.
    pub factors: BTreeMap<String, String>,
    /// Options as `--set` has them, `plan`, `latency_of`, `target.endpoint` and `host.endpoint`.
    pub facts: BTreeMap<String, String>,
}

/// What is told of a configuration though it is as usual.
const TOLD: [&str; 2] = ["workload", "direction"];

/// What a workload's options are where nobody says so, by the workload's name.
static USUAL: LazyLock<BTreeMap<&str, BTreeMap<&str, String>>> = LazyLock::new(|| {
    Workload::ALL.iter().map(|one| (one.name(), Spec::new(*one).asked().into_iter().collect())).collect()
});

/// A name by which configurations are told apart.
#[derive(Clone, Debug)]
pub(crate) struct Name<'a> {
    pub(crate) name: &'a str,
    /// Some plan varies it.
    pub(crate) is_factor: bool,
}

impl TrialRequest {
    /// The level of a factor, or the option of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.factors.get(name).or_else(|| self.facts.get(name)).map(String::as_str)
    }

    /// The names of these that vary among several: what tells configurations apart.
    pub(crate) fn varying<'a>(all: &[&'a TrialRequest]) -> Vec<Name<'a>> {
        let names: BTreeSet<&str> =
            all.iter().flat_map(|asked| asked.factors.keys().chain(asked.facts.keys())).map(String::as_str).collect();
        let varies = |name: &&str| all.iter().any(|asked| asked.get(name) != all[0].get(name));
        let of = |name: &'a str| Name { name, is_factor: all.iter().any(|asked| asked.factors.contains_key(name)) };
        names.into_iter().filter(varies).map(of).collect()
    }

    /// The levels of these names, as `rate=100M direction=tx`. An option that is as usual, and no factor of any, tells
    /// nobody anything.
    pub(crate) fn named(&self, names: &[Name<'_>]) -> Arc<str> {
        let workload = self.get("workload").and_then(Workload::parse);
        let usual = workload.and_then(|workload| USUAL.get(workload.name()));
        let level = |name: &Name<'_>| {
            let level = self.get(name.name)?;
            let is_told = name.is_factor
                || TOLD.contains(&name.name)
                || usual.and_then(|usual| usual.get(name.name)).is_none_or(|usual| usual != level);
            is_told.then(|| format!("{}={level}", name.name))
        };
        names.iter().filter_map(level).collect::<Vec<_>>().join(" ").into()
    }
}

impl TrialContext {
    /// The level of a factor, or the fact of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.asked.get(name).or_else(|| self.machines.get(name).map(String::as_str))
    }

    /// Everything by name; of a setting that is a factor too, both.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (&String, &String)> {
        self.asked.factors.iter().chain(&self.asked.facts).chain(&**self.machines)
    }

    /// Where the two parts are: alike for those that share them.
    pub(crate) fn place(&self) -> (*const TrialRequest, *const Facts) {
        (Arc::as_ptr(&self.asked), Arc::as_ptr(&self.machines))
    }
}

impl Observation {
    /// What a comparison needs of this record.
    pub fn of(record: &Record) -> Observation {
        #[cfg(any(test, feature = "sample"))]
        crate::effort::count(|effort| effort.observations += 1);
        let mut facts = record.asked.clone();
        facts.insert("plan".to_owned(), record.plan.clone());
        facts.insert("workload".to_owned(), record.workload.name().to_owned());
        facts.insert("direction".to_owned(), record.direction.name().to_owned());
        let latency = record.result.as_ref().and_then(|figures| figures.latency.as_ref());
        facts.extend(latency.map(|latency| ("latency_of".to_owned(), latency.of.clone())));
        let mut machines = BTreeMap::new();
        for (party, machine) in record.parties() {
            facts.insert(format!("{party}.endpoint"), machine.endpoint.clone());
            machine_facts(party.name(), machine, &mut machines);
        }
        for (end, port) in record.middle.iter().flat_map(|middle| End::BOTH.map(|end| (end, &middle.ports[end]))) {
            port_facts(&format!("middle.{PORTS}.{end}"), port, &mut machines);
        }
        if let Some(figures) = &record.result {
            let used = [("sender_api", &figures.flow.sender_api), ("receiver_api", &figures.flow.receiver_api)];
            let used = used.into_iter().filter_map(|(name, api)| Some((name, api.as_ref()?)));
            machines.extend(used.map(|(name, api)| (format!("used.{name}"), api.name.clone())));
        }
        // Each once: either end may have brought it.
        let kinds: BTreeSet<&str> = record.doubts.iter().map(|doubt| doubt.kind().name()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        Observation {
            id: record.id.clone(),
            campaign: record.campaign.clone(),
            started_at: record.started_at.clone(),
            index: record.trial.index,
            repeat: record.trial.repeat,
            configuration: record.trial.configuration,
            null_side: record.trial.null_side,
            doubts: kinds.join(","),
            failed: record.result.is_none(),
            around: TrialContext {
                asked: Arc::new(TrialRequest { factors: record.trial.factors.clone(), facts }),
                machines: Arc::new(machines.into()),
            },
            values: METRICS.iter().map(|metric| metric.of(record)).collect(),
        }
    }

    /// The figure, in the record's unit.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.values.get(metric.place()).copied().flatten()
    }
}

fn machine_facts(whose: &str, machine: &Machine, facts: &mut BTreeMap<String, String>) {
    if let Ok(value) = serde_json::to_value(&machine.environment) {
        flatten(whose, &value, facts);
    }
    // A counter, and no state.
    facts.remove(&format!("{whose}.nic.carrier_changes"));
    if let Some(cpu) = &machine.cpu {
        facts.insert(format!("{whose}.cpu.method"), cpu.method.clone());
    }
    register_facts(whose, machine.registers.as_ref(), facts);
    setting_facts(whose, &machine.settings, facts);
}

/// What stands before the facts of the middle's interfaces: `middle.ports.target.nic.mtu`.
pub const PORTS: &str = "ports";

fn port_facts(whose: &str, port: &Port, facts: &mut BTreeMap<String, String>) {
    facts.insert(format!("{whose}.interface"), port.interface.clone());
    if let Ok(value) = serde_json::to_value(&port.nic) {
        flatten(&format!("{whose}.nic"), &value, facts);
    }
    facts.remove(&format!("{whose}.nic.carrier_changes"));
    register_facts(whose, port.registers.as_ref(), facts);
    setting_facts(whose, &port.settings, facts);
}

fn register_facts(whose: &str, registers: Option<&RegisterChanges>, facts: &mut BTreeMap<String, String>) {
    let stood = registers.into_iter().flat_map(|registers| &registers.stood);
    facts.extend(stood.map(|(name, is)| (format!("{whose}.registers.{name}"), is.clone())));
}

fn setting_facts(whose: &str, settings: &[Changed], facts: &mut BTreeMap<String, String>) {
    for setting in settings {
        let is = setting.read_back.as_ref().or(setting.set.as_ref()).unwrap_or(&setting.asked);
        let text = if *is == setting.asked { is.clone() } else { format!("{is} (asked {})", setting.asked) };
        facts.insert(format!("{whose}.{}", setting.name), text);
    }
}

/// Every leaf by its path, which begins with `name`, if that has any: `target.nic.rings.rx.current`. Plain values of an array are
/// one line; what has a name in an array has it in its path: `cpu.idle_states.WAIT.exit_latency_us`.
pub fn flatten(name: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    let inner = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(part, value)| flatten(&inner(part), value, facts)),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (at, item) in items.iter().enumerate() {
                let (mut item, at) = (item.clone(), at.to_string());
                let called = item.as_object_mut().and_then(|fields| fields.remove("name"));
                flatten(&inner(called.as_ref().and_then(Value::as_str).unwrap_or(&at)), &item, facts);
            }
        }
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            facts.insert(name.to_owned(), items.iter().map(plain_text).collect::<Vec<_>>().join(", "));
        }
        value => {
            facts.insert(name.to_owned(), plain_text(value));
        }
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn facts_have_names_that_people_can_say() {
        let around = Observation::of(&sample::full()).around;
        for (name, value) in [
            ("rate", "300M"),
            ("workload", "udp-stream"),
            ("target.kernel", "6.12.48"),
            ("target.nic.mtu", "1500"),
            ("target.mtu", "9000 (asked 9001)"),
            ("target.cpu.governor", "performance"),
            ("target.cpu.idle_states.WAIT.exit_latency_us", "50"),
            ("target.cpu.method", "/proc/stat"),
            ("host.nic.rings.rx.current", "512"),
            ("host.sysctls.net.core.rmem_max", "212992"),
            ("middle.kernel", "6.12.48"),
            ("middle.ports.target.nic.mtu", "1500"),
        ] {
            assert_eq!(around.get(name), Some(value), "{name}");
        }
        assert_eq!(around.get("target.nic.carrier_changes"), None);
    }

    #[test]
    fn an_environment_is_names_and_values() {
        let value = serde_json::json!({
            "kernel": "6.1", "nic": {"rings": [{"rx": 512}], "mtu": 1500}, "flags": ["a", "b"], "x": null, "none": [],
            "states": [{"name": "C1", "us": 2}, {"name": "C6", "us": 90}],
        });
        let mut named = BTreeMap::new();
        flatten("", &value, &mut named);
        let text: Vec<String> = named.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            text,
            ["flags=a, b", "kernel=6.1", "nic.mtu=1500", "nic.rings.0.rx=512", "states.C1.us=2", "states.C6.us=90",]
        );
    }
}
