//! Who and where the machines of records are: what a reader of a published report would learn.
//! Knows where records keep names; finds addresses wherever they stand.

use std::collections::BTreeSet;
use std::net::IpAddr;

use linerate_results::record::Record;
use serde_json::Value;

use super::ReportedCampaign;

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

/// Identities, each once, in the order in which they were found.
#[derive(Default)]
pub(super) struct Identities {
    all: Vec<(Kind, String)>,
    seen: BTreeSet<String>,
}

impl Identities {
    /// Those of campaigns, and then those of their records.
    pub(super) fn of(campaigns: &[ReportedCampaign], records: &Identities) -> Identities {
        let mut found = Identities::default();
        for ReportedCampaign { campaign, .. } in campaigns {
            found.endpoint(&campaign.target);
            found.endpoint(&campaign.host);
            found.addresses(&campaign.plan_text);
        }
        records.all.iter().for_each(|(kind, text)| found.add(*kind, text));
        found
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Kind, String)> {
        self.all.iter()
    }

    /// Those of a record, and of its line.
    pub(super) fn record(&mut self, record: &Record, line: &str) {
        for (_, machine) in record.parties() {
            self.endpoint(&machine.endpoint);
            machine.environment.boot_id.iter().for_each(|id| self.add(Kind::Boot, id));
        }
        // Where nothing is escaped, the line has every string as it is, and nothing else that looks like an address.
        match line.contains('\\') {
            false => self.addresses(line),
            true => strings(&serde_json::from_str(line).unwrap_or_default(), &mut |text| self.addresses(text)),
        }
    }

    fn add(&mut self, kind: Kind, text: &str) {
        if !text.is_empty() && !self.seen.contains(text) {
            self.seen.insert(text.to_owned());
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
        // Most words are figures, and have too few of either to be an address.
        let is_candidate = |word: &&str| {
            let count = |sign: u8| word.bytes().filter(|octet| *octet == sign).count();
            word.len() >= 6 && (count(b'.') >= 3 || count(b':') >= 2)
        };
        for word in text.split(|c| !is_part(c)).filter(is_candidate) {
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
        // Which of its machines is behind the comma.
        Some(("labgrid", place)) => return place.split_once(',').map_or(place, |(place, _)| place),
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

#[cfg(test)]
mod tests {
    use super::super::attachment;
    use super::*;
    use crate::render::sample;

    #[test]
    fn names_of_endpoints() {
        for (endpoint, name) in [
            ("ssh:root@board.lab:22", "board.lab"),
            ("labgrid:imx6,target", "imx6"),
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
    fn a_line_tells_what_its_strings_tell() {
        let mut records = [sample::everything(), sample::sweep(), vec![linerate_results::sample::full()]].concat();
        records[0].error = Some("\u{11}92.0.2.1 and \"192.0.2.2\" at\n192.0.2.3\tfe80::1\\2001:db8::1".to_owned());
        records[1].error = Some("192.0.2.4:5201 (00:11:22:33:44:55), v1.2.3.4 µ192.0.2.5".to_owned());
        for record in &records {
            let [mut by_line, mut by_strings] = [Identities::default(), Identities::default()];
            let line = attachment::line(record);
            by_line.record(record, &line);
            by_strings.record(record, "");
            strings(&record.to_json(), &mut |text| by_strings.addresses(text));
            assert_eq!(by_line.all, by_strings.all, "{line}");
        }
    }

    #[test]
    fn addresses_are_found_within_sentences() {
        let mut found = Identities::default();
        found.addresses("from 192.0.2.7:5201 to [2001:db8::7], 52:54:00:12:34:56. Not 127.0.0.1, 6.12.48 or 12:30:00");
        let texts: Vec<(Kind, &str)> = found.all.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(
            texts,
            [(Kind::Address, "192.0.2.7"), (Kind::Address, "2001:db8::7"), (Kind::Mac, "52:54:00:12:34:56")]
        );
    }
}
