//! What a comparison needs of a record: its figures, and the facts that stand around them.
//! Knows no store and no statistics; the record itself stays the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linerate_trial::environment::Environment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::metric::{METRICS, Metric};
use crate::record::{Machine, Record};

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
    /// The names of its doubts, joined by commas.
    pub doubts: String,
    /// It has no figures.
    pub failed: bool,
    /// What stands around it; shared by those around which the same stands.
    pub around: Arc<Around>,
    /// The figures, in the order of [`METRICS`].
    pub values: Vec<Option<f64>>,
}

/// What stands around a trial: all that was asked, and all that is known of both machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Around {
    /// The levels that distinguish this configuration: factor → level.
    pub factors: BTreeMap<String, String>,
    /// Everything else by name: options as `--set` has them, `plan`, and of a machine such as `target.kernel`,
    /// `host.nic.mtu`.
    pub facts: BTreeMap<String, String>,
}

impl Around {
    /// The level of a factor, or the fact of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.factors.get(name).or_else(|| self.facts.get(name)).map(String::as_str)
    }
}

impl Observation {
    /// What a comparison needs of this record.
    pub fn of(record: &Record) -> Observation {
        let mut facts = record.asked.clone();
        facts.insert("plan".to_owned(), record.plan.clone());
        facts.insert("workload".to_owned(), record.workload.name().to_owned());
        facts.insert("direction".to_owned(), record.direction.name().to_owned());
        let latency = record.result.as_ref().and_then(|figures| figures.latency.as_ref());
        facts.extend(latency.map(|latency| ("latency_of".to_owned(), latency.of.clone())));
        machine_facts("target", &record.target, &mut facts);
        machine_facts("host", &record.host, &mut facts);
        // Each once: either end may have brought it.
        let kinds: BTreeSet<&str> = record.doubts.iter().map(|doubt| doubt.kind.name()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        Observation {
            id: record.id.clone(),
            campaign: record.campaign.clone(),
            started_at: record.started_at.clone(),
            index: record.trial.index,
            repeat: record.trial.repeat,
            doubts: kinds.join(","),
            failed: record.result.is_none(),
            around: Arc::new(Around { factors: record.trial.factors.clone(), facts }),
            values: METRICS.iter().map(|metric| metric.of(record)).collect(),
        }
    }

    /// The figure, in the record's unit.
    pub fn value(&self, metric: &Metric) -> Option<f64> {
        self.values.get(metric.place()).copied().flatten()
    }
}

fn machine_facts(whose: &str, machine: &Machine, facts: &mut BTreeMap<String, String>) {
    facts.insert(format!("{whose}.endpoint"), machine.endpoint.clone());
    let mut environment: Environment = machine.environment.clone();
    if let Some(nic) = &mut environment.nic {
        // A counter, and no state.
        nic.carrier_changes = None;
    }
    if let Ok(value) = serde_json::to_value(environment) {
        flatten(whose, &value, facts);
    }
    if let Some(cpu) = &machine.cpu {
        facts.insert(format!("{whose}.cpu.method"), cpu.method.clone());
    }
    for setting in &machine.settings {
        let is = setting.read_back.as_ref().or(setting.set.as_ref()).unwrap_or(&setting.asked);
        let text = if *is == setting.asked { is.clone() } else { format!("{is} (asked {})", setting.asked) };
        facts.insert(setting.name.clone(), text);
    }
}

/// Every leaf by its path: `target.nic.rings.rx.current`.
fn flatten(path: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, facts))
        }
        Value::Null => {}
        Value::String(text) => drop(facts.insert(path.to_owned(), text.clone())),
        other => drop(facts.insert(path.to_owned(), other.to_string())),
    }
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
            ("target.cpu.method", "/proc/stat"),
            ("host.nic.rings.rx.current", "512"),
            ("host.sysctls.net.core.rmem_max", "212992"),
        ] {
            assert_eq!(around.get(name), Some(value), "{name}");
        }
        assert_eq!(around.get("target.nic.carrier_changes"), None);
    }
}
