//! Records and their origin with pseudonyms in the place of identities: the same one everywhere, literally, not field by
//! field. Keeps no map.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use linerate_machine::text::shell_word;
use linerate_results::record::Record;
use serde_json::{Map, Value};

use super::identities::{Identities, Kind, machine_name};
use super::{Material, Origin, ReportedCampaign};

/// What of a kernel's command line says how fast it is, and nothing of whose it is (kernel-parameters.txt).
const WORDS_KEPT: [&str; 16] = [
    "quiet",
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "mitigations",
    "threadirqs",
    "nosmt",
    "maxcpus",
    "preempt",
    "idle",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "cpuidle.off",
    "intel_pstate",
    "iommu",
];

/// What stands where identities stood.
pub(crate) struct Pseudonyms {
    /// What contains another is first.
    pairs: Vec<(String, String)>,
    counts: BTreeMap<Kind, usize>,
}

const UNREAD: &str = "a report without names could not be made of a record";

impl Pseudonyms {
    /// Of all whom these tell of.
    pub(crate) fn of(campaigns: &[ReportedCampaign], material: &Material) -> Pseudonyms {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut counts = BTreeMap::<Kind, usize>::new();
        for (kind, text) in Identities::of(campaigns, &material.identities).iter() {
            let name = machine_name(text);
            let known =
                pairs.iter().find(|(other, _)| *kind == Kind::Machine && other == name).map(|(_, known)| known.clone());
            let pseudonym = known.unwrap_or_else(|| {
                let count = counts.entry(*kind).or_default();
                *count += 1;
                format!("{}-{count}", kind.names()[0])
            });
            // As the command has it that measures again.
            let quoted = Some(shell_word(text)).filter(|quoted| quoted != text);
            pairs.extend(quoted.map(|quoted| (quoted, pseudonym.clone())));
            pairs.push((text.clone(), pseudonym));
        }
        pairs.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Pseudonyms { pairs, counts }
    }

    /// What is replaced, a line a kind.
    pub(crate) fn told(&self) -> Vec<String> {
        self.counts.iter().map(|(kind, count)| format!("{} ({count})", kind.names()[1])).collect()
    }

    /// A record without who and where.
    pub(crate) fn record(&self, mut record: Record) -> Result<Record> {
        let middle = record.middle.as_mut().map(|middle| &mut middle.machine);
        for machine in [&mut record.target, &mut record.host].into_iter().chain(middle) {
            machine.environment.command_line = machine.environment.command_line.as_deref().map(kept);
        }
        serde_json::from_value(replaced(record.to_json(), &self.pairs)).context(UNREAD)
    }

    /// What a report is made from without who and where; the digests are still those of whole records.
    pub(crate) fn origin(&self, origin: &Origin) -> Result<Origin> {
        let mut origin: Origin =
            serde_json::from_value(replaced(serde_json::to_value(origin)?, &self.pairs)).context(UNREAD)?;
        origin.anonymous = true;
        origin.left_out.iter_mut().for_each(|one| one.why = None);
        Ok(origin)
    }
}

/// The words of a command line that may be shown.
fn kept(line: &str) -> String {
    let is_kept = |word: &&str| WORDS_KEPT.contains(&word.split('=').next().unwrap_or_default());
    line.split_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ")
}

fn replaced(value: Value, pairs: &[(String, String)]) -> Value {
    match value {
        Value::String(text) => Value::String(in_text(text, pairs)),
        Value::Array(items) => items.into_iter().map(|item| replaced(item, pairs)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (in_text(name, pairs), replaced(value, pairs)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Only whole words: a machine called `lab` is not in `label`.
fn in_text(mut text: String, pairs: &[(String, String)]) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    for (identity, pseudonym) in pairs {
        let mut from = 0;
        while let Some(at) = text[from..].find(identity.as_str()).map(|at| from + at) {
            let end = at + identity.len();
            let cuts = is_word(text[..at].chars().next_back()) || is_word(text[end..].chars().next());
            if cuts {
                from = at + identity.chars().next().map_or(1, char::len_utf8);
            } else {
                text.replace_range(at..end, pseudonym);
                from = at + pseudonym.len();
            }
        }
    }
    text
}

/// What a published report tells of whom; absent where it tells of nobody.
pub(super) fn sentence(material: &Material, campaigns: &[ReportedCampaign]) -> Option<String> {
    let all = Identities::of(campaigns, &material.identities);
    let count = |kind: Kind| all.iter().filter(|(one, _)| *one == kind).count();
    let kinds = [Kind::Machine, Kind::Address, Kind::Mac, Kind::Boot].into_iter().filter(|kind| count(*kind) > 0);
    let mut told: Vec<String> = kinds.map(|kind| format!("{} ({})", kind.names()[1], count(kind))).collect();
    told.extend(material.has_command_line.then(|| "kernel command lines".to_owned()));
    (!told.is_empty())
        .then(|| format!("It tells of whose machines it is: {}; --anonymous puts pseudonyms there.", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_alone() {
        let pairs = [("lab".to_owned(), "machine-1".to_owned())];
        assert_eq!(in_text("lab, label, a-lab, (lab)".to_owned(), &pairs), "machine-1, label, a-lab, (machine-1)");
        assert_eq!(kept("root=/dev/sda1 quiet isolcpus=1 ip=192.0.2.1"), "quiet isolcpus=1");
    }

    #[test]
    fn a_command_tells_no_machine_however_it_is_quoted() {
        let target = "exec:ssh ann@vault 'agent --stdio'";
        let mut campaign = linerate_results::sample::campaign_of(&linerate_results::sample::full(), 1);
        campaign.target = target.to_owned();
        let command = format!("linerate run tcp --target {} --set rate=1M", shell_word(target));
        let campaigns = [ReportedCampaign { campaign, command: command.clone(), expected: Vec::new() }];
        let pseudonyms = Pseudonyms::of(&campaigns, &Material::new(false));
        assert_eq!(in_text(command, &pseudonyms.pairs), "linerate run tcp --target machine-1 --set rate=1M");
        assert_eq!(in_text(format!("{target} is busy"), &pseudonyms.pairs), "machine-1 is busy");
    }
}
