//! Who and where the machines of records are: what a reader of a published report would learn.
//! Knows where records keep names; finds addresses wherever they stand.

use std::collections::BTreeSet;
use std::net::IpAddr;

use linerate_results::record::Record;
use serde_json::Value;

use super::Carried;

/// What an identity is; the pseudonyms are named for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Machine,
    Address,
    Mac,
    Boot,
}

impl Kind {
    /// As a pseudonym has it, and of several in a sentence.
    pub(super) fn names(self) -> [&'static str; 2] {
        match self {
            Kind::Machine => ["machine", "names by which machines are reached"],
            Kind::Address => ["address", "IP addresses"],
            Kind::Mac => ["mac", "hardware addresses"],
            Kind::Boot => ["boot", "boot identifiers"],
        }
    }
}

/// An endpoint that says nothing of who it is.
const LOCAL: &str = "local";

/// Each once, in the order in which records and campaigns have them.
pub(super) fn identities(records: &[Record], campaigns: &[Carried]) -> Vec<(Kind, String)> {
    let mut found = Found::default();
    for Carried { campaign, expected, .. } in campaigns {
        found.endpoint(&campaign.target);
        found.endpoint(&campaign.host);
        found.addresses(&campaign.plan_text);
        expected.iter().for_each(|one| found.addresses(&one.text));
    }
    for record in records {
        for (_, machine) in record.machines() {
            found.endpoint(&machine.endpoint);
            machine.environment.boot_id.iter().for_each(|id| found.add(Kind::Boot, id));
        }
        strings(&record.to_json(), &mut |text| found.addresses(text));
    }
    found.all
}

#[derive(Default)]
struct Found {
    all: Vec<(Kind, String)>,
    seen: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, kind: Kind, text: &str) {
        if !text.is_empty() && self.seen.insert(text.to_owned()) {
            self.all.push((kind, text.to_owned()));
        }
    }

    /// The whole of it, and the name within: an error sentence may have either.
    fn endpoint(&mut self, endpoint: &str) {
        if endpoint == LOCAL {
            return;
        }
        let name = machine_name(endpoint);
        // The name first: both then have one pseudonym.
        if name.len() > 1 {
            self.add(Kind::Machine, name);
        }
        self.add(Kind::Machine, endpoint);
    }

    fn addresses(&mut self, text: &str) {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        for word in text.split(|c| !is_part(c)).filter(|word| word.len() >= 6) {
            let word = word.trim_end_matches(['.', ':']);
            if is_mac(word) {
                self.add(Kind::Mac, word);
            } else if is_address(word) {
                self.add(Kind::Address, word);
            } else if let Some((before, port)) = word.rsplit_once(':')
                && port.parse::<u16>().is_ok()
                && is_address(before)
            {
                self.add(Kind::Address, before);
            }
        }
    }
}

/// The host of `ssh:user@host:22` and its like, or the name of `netns:NAME`.
pub(super) fn machine_name(endpoint: &str) -> &str {
    let rest = match endpoint.split_once(':') {
        // What a command says is no name.
        Some(("exec", _)) => return endpoint,
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) && rest.parse::<u16>().is_err() => {
            rest
        }
        _ => endpoint,
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    match rest.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.contains(':') => host,
        _ => rest,
    }
}

fn is_mac(word: &str) -> bool {
    word.len() == 17 && word.split(':').filter(|pair| pair.len() == 2).count() == 6
}

/// An address of somebody's: not one that every machine has.
fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
}

/// Every string of a value, names of fields too.
fn strings(value: &Value, say: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => say(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, say)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            say(name);
            strings(value, say);
        }),
        _ => {}
    }
}

/// What a published report tells of whom; absent where it tells of nobody.
pub(super) fn sentence(records: &[Record], campaigns: &[Carried]) -> Option<String> {
    let all = identities(records, campaigns);
    let count = |kind: Kind| all.iter().filter(|(one, _)| *one == kind).count();
    let kinds = [Kind::Machine, Kind::Address, Kind::Mac, Kind::Boot].into_iter().filter(|kind| count(*kind) > 0);
    let mut told: Vec<String> = kinds.map(|kind| format!("{} ({})", kind.names()[1], count(kind))).collect();
    let has_line = |record: &Record| record.machines().iter().any(|(_, one)| one.environment.command_line.is_some());
    told.extend(records.iter().any(has_line).then(|| "kernel command lines".to_owned()));
    (!told.is_empty())
        .then(|| format!("It tells of whose machines it is: {}; --anonymous puts pseudonyms there.", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_endpoints() {
        for (endpoint, name) in [
            ("ssh:root@board.lab:22", "board.lab"),
            ("root@board.lab", "board.lab"),
            ("board.lab", "board.lab"),
            ("board:22", "board"),
            ("netns:lina", "lina"),
            ("tcp:192.0.2.1:5000", "192.0.2.1"),
            ("exec:nsenter -t 5 agent", "exec:nsenter -t 5 agent"),
        ] {
            assert_eq!(machine_name(endpoint), name, "{endpoint}");
        }
    }

    #[test]
    fn addresses_are_found_within_sentences() {
        let mut found = Found::default();
        found.addresses("from 192.0.2.7:5201 to [2001:db8::7], 52:54:00:12:34:56. Not 127.0.0.1, 6.12.48 or 12:30:00");
        let texts: Vec<(Kind, &str)> = found.all.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(
            texts,
            [(Kind::Address, "192.0.2.7"), (Kind::Address, "2001:db8::7"), (Kind::Mac, "52:54:00:12:34:56")]
        );
    }
}
