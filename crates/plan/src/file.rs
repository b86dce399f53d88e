//! The plan file: from TOML text to a plan, or to a complaint with file, line and column and what is allowed there.
//! Knows what stands where in the file; what an option's text means is the business of `linerate_trial::options`.

mod boots;

use std::ops::Range;

use linerate_machine::change::{Access, CUSTOM, Custom};
use linerate_machine::text::nearest;
use linerate_machine::word::Word;
use linerate_results::expect::Expectation;
use linerate_trial::options::{self, BadOption, OPTIONS, canonical};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::boot::Boot;
use super::expand::{self, REPEAT_ALLOWED, canonical_levels, copied, parse_repeat};
use super::expect;
use super::{Part, Plan, PlanError, PlannedTrial, Report, boot};

const FORMAT: &str = "linerate.plan/1";
/// The keys at the top of a file.
const TOP: [&str; 17] = [
    "format", "name", "about", "why", "report", "order", "title", "workload", "repeat", "null", "expect", "options",
    "factors", "custom", "boot", "search", "part",
];
/// The keys of a part.
const PART: [&str; 7] = ["title", "workload", "repeat", "null", "expect", "options", "factors"];
/// Those that may stand at the top for every part that gives none.
const FOR_ALL: [&str; 3] = ["repeat", "null", "expect"];
/// The longest name of a plan, in characters.
const MAX_NAME: usize = 64;

pub(super) fn parse(text: &str, file: &str, default_name: &str) -> Result<Plan, PlanError> {
    let mut reader = Reader { text, file, boots: Vec::new() };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        // `duration = 10s` is the usual cause, and "invalid number" would send its writer the wrong way.
        // A line that begins with a bracket is a table's name.
        let before = text.get(..at.start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_value = line.contains('=') || !line.starts_with('[') && before.trim_end().ends_with(['[', ',']);
        let hint = if is_value {
            "a value is a number, true, false, or a text in quotes like \"10s\""
        } else if line.starts_with('[') {
            "a table's name stands in brackets, like [options], and once; of one that is there already leave one of the two out"
        } else {
            "a name stands before = and once; of one that is there already leave one of the two out"
        };
        reader.complaint(&at, format!("this is not TOML: {message}; {hint}"))
    })?;
    if let Some(entry) = entries(table.get_ref()).iter().find(|entry| entry.key == "boot") {
        reader.boots = reader.boots(entry)?;
    }
    reader.plan(table.get_ref(), default_name)
}

/// What the top of a file says for every part that does not say otherwise.
#[derive(Clone)]
struct Common {
    repeat: u32,
    null: bool,
    expect: Vec<Expectation>,
}

pub(super) struct Reader<'t> {
    text: &'t str,
    file: &'t str,
    /// What is read first, because factors name it.
    boots: Vec<Boot>,
}

/// A key, where it stands, and its value.
pub(super) struct Entry<'t> {
    pub(super) key: &'t str,
    pub(super) at: Range<usize>,
    pub(super) value: &'t Spanned<DeValue<'t>>,
}

/// The entries in the order in which they are written: the map is sorted by name.
pub(super) fn entries<'t>(table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let mut entries: Vec<Entry<'t>> =
        table.iter().map(|(key, value)| Entry { key: key.get_ref().as_ref(), at: key.span(), value }).collect();
    entries.sort_by_key(|entry| entry.at.start);
    entries
}

impl<'t> Reader<'t> {
    fn plan(&self, table: &'t DeTable<'t>, default_name: &str) -> Result<Plan, PlanError> {
        let entries = entries(table);
        let get = |key: &str| entries.iter().find(|entry| entry.key == key);
        match get("format") {
            None => {
                return Err(
                    self.complaint(&(0..0), format!("a plan file says which format it has: format = \"{FORMAT}\""))
                );
            }
            Some(entry) => {
                let format = self.string(entry)?;
                if format != FORMAT {
                    let sentence = format!("the format '{format}' is not known; this version reads '{FORMAT}'");
                    return Err(self.complaint(&entry.value.span(), sentence));
                }
            }
        }
        for entry in &entries {
            self.known(entry, &TOP)?;
        }
        let text = |key: &str| get(key).map(|entry| self.string(entry)).transpose();
        let common = Common {
            repeat: get("repeat").map(|entry| self.repeat(entry)).transpose()?.unwrap_or(1),
            null: get("null").map(|entry| self.truth(entry)).transpose()?.unwrap_or(false),
            expect: get("expect").map(|entry| self.expect(entry)).transpose()?.unwrap_or_default(),
        };
        let mut plan = Plan {
            name: self.name(get("name"), default_name)?,
            about: text("about")?.unwrap_or_default().to_owned(),
            why: text("why")?.unwrap_or_default().trim().to_owned(),
            report: get("report").map(|entry| self.word(entry)).transpose()?.unwrap_or(Report::Table),
            order: get("order").map(|entry| self.word(entry)).transpose()?,
            parts: Vec::new(),
            custom: get("custom").map(|entry| self.custom(entry)).transpose()?.unwrap_or_default(),
            boots: self.boots.clone(),
            search: get("search").map(|entry| self.search(entry)).transpose()?,
            source: self.text.to_owned(),
        };
        match get("part") {
            None => {
                let part: Vec<&Entry<'t>> = entries.iter().filter(|entry| PART.contains(&entry.key)).collect();
                // Alone, it has its expectations itself.
                let common = Common { expect: Vec::new(), ..common };
                plan.parts.push(self.part(&part, &(0..0), &common, &plan.custom, 0)?);
            }
            Some(parts) => {
                let stray = |entry: &&Entry<'t>| PART.contains(&entry.key) && !FOR_ALL.contains(&entry.key);
                if let Some(entry) = entries.iter().find(stray) {
                    let sentence =
                        format!("'{}' belongs in each [[part]] of a plan that has parts; move it there", entry.key);
                    return Err(self.complaint(&entry.at, sentence));
                }
                plan.parts = self.parts(parts, &common, &plan.custom)?;
            }
        }
        self.are_expected_of_something(&plan, &entries)?;
        self.can_be_searched(&plan, &get("search").map_or(0..0, |entry| entry.at.clone()))?;
        Ok(plan)
    }

    fn parts(&self, parts: &Entry<'t>, common: &Common, custom: &[(String, Custom)]) -> Result<Vec<Part>, PlanError> {
        let wrong = || self.complaint(&parts.at, "parts are written as [[part]], in double brackets".to_owned());
        let list = parts.value.get_ref().as_array().ok_or_else(wrong)?;
        if list.is_empty() {
            return Err(wrong());
        }
        let (mut read, mut count) = (Vec::<Part>::new(), 0);
        for part in list.iter() {
            let entries = entries(part.get_ref().as_table().ok_or_else(wrong)?);
            for entry in &entries {
                self.known(entry, &PART)?;
            }
            read.push(self.part(&entries.iter().collect::<Vec<_>>(), &part.span(), common, custom, count)?);
            count += read.last().map_or(0, Part::count);
        }
        Ok(read)
    }

    /// `before`: how many trials the parts before this one have.
    fn part(
        &self,
        entries: &[&Entry<'t>],
        at: &Range<usize>,
        common: &Common,
        custom: &[(String, Custom)],
        before: u64,
    ) -> Result<Part, PlanError> {
        let Common { repeat, null, expect } = common.clone();
        let mut part = Part { title: None, repeat, null, expect, options: Vec::new(), factors: Vec::new() };
        // Where each option stands, for complaints about several of them.
        let mut places: Vec<(String, Range<usize>)> = Vec::new();
        for entry in entries {
            match entry.key {
                "title" => part.title = Some(self.string(entry)?.to_owned()),
                "repeat" => part.repeat = self.repeat(entry)?,
                "null" => part.null = self.truth(entry)?,
                "expect" => part.expect.extend(self.expect(entry)?),
                "workload" => {
                    let text = self.string(entry)?;
                    self.check(&entry.value.span(), canonical("workload", text))?;
                    part.options.insert(0, ("workload".to_owned(), text.to_owned()));
                    places.push(("workload".to_owned(), entry.at.clone()));
                }
                _ => {}
            }
        }
        for entry in entries {
            if entry.key != "options" && entry.key != "factors" {
                continue;
            }
            let table = entry.value.get_ref().as_table().ok_or_else(|| {
                self.complaint(
                    &entry.value.span(),
                    format!("{} are a table: [{}], then a line for each", entry.key, entry.key),
                )
            })?;
            for (name, at, value) in flat(table, "") {
                if let Some((_, first)) = places.iter().find(|(other, _)| *other == name) {
                    let line = self.place(first).0;
                    return Err(self.complaint(&at, format!("'{name}' is already set in line {line}; leave one out")));
                }
                self.belongs(&name, &at)?;
                if entry.key == "options" {
                    part.options.push((name.clone(), self.option(&name, value)?));
                } else {
                    part.factors.push((name.clone(), self.levels(&name, value)?));
                }
                places.push((name, at));
            }
        }
        // Before the trials are made, of which there may be any number.
        expand::check_count(before, [&part]).map_err(|sentence| self.complaint(at, sentence))?;
        self.suits(&part, &places, at, custom)?;
        Ok(part)
    }

    /// Whether the part as a whole can be measured.
    fn suits(
        &self,
        part: &Part,
        places: &[(String, Range<usize>)],
        at: &Range<usize>,
        custom: &[(String, Custom)],
    ) -> Result<(), PlanError> {
        let of = |name: &str| places.iter().find(|(other, _)| other == name).map(|(_, at)| at);
        if of("workload").is_none() {
            let allowed = self.check(at, options::allowed("workload"))?;
            return Err(self.complaint(at, format!("it needs a workload: {allowed}")));
        }
        if let (Some(_), Some(at)) = (of("duration"), of("bytes")) {
            let sentence = "bytes and duration both say when a trial ends; leave one of them out".to_owned();
            return Err(self.complaint(at, sentence));
        }
        for (name, at) in places {
            self.check(at, expand::defined(name, custom))?;
            boot::defined(name, &boot::levels_of(part, name), &self.boots)
                .map_err(|sentence| self.complaint(at, sentence))?;
        }
        part.configurations(custom).map(|_| ()).map_err(|(levels, misfit)| {
            let options = misfit.options();
            // Of options that cannot be met together, the last in the file is the line to look at.
            let named = places.iter().filter(|(name, _)| options.contains(name)).map(|(_, at)| at);
            let at = named.max_by_key(|at| at.start).or(of("workload")).unwrap_or(at);
            let levels: Vec<String> = levels.iter().map(|(name, level)| format!("{name} {level}")).collect();
            let with = if levels.is_empty() { String::new() } else { format!(" (with {})", levels.join(", ")) };
            self.complaint(at, format!("{misfit}{with}"))
        })
    }

    /// `[custom.NAME]`: how a setting of the user's own is read and set.
    fn custom(&self, entry: &Entry<'t>) -> Result<Vec<(String, Custom)>, PlanError> {
        let wrong = |at: &Range<usize>| {
            let sentence = "settings of one's own are written as [custom.NAME], with get and set, or with file";
            self.complaint(at, sentence.to_owned())
        };
        let mut read = Vec::new();
        for own in entries(entry.value.get_ref().as_table().ok_or_else(|| wrong(&entry.at))?) {
            let name = format!("{CUSTOM}{}", own.key);
            self.check(&own.at, options::allowed(&format!("target.{name}")))?;
            let keys = entries(own.value.get_ref().as_table().ok_or_else(|| wrong(&own.at))?);
            for key in &keys {
                self.known(key, &["get", "set", "file"])?;
            }
            let access = |key: &str| {
                let found = keys.iter().find(|entry| entry.key == key);
                found.map(|entry| self.access(entry)).transpose()
            };
            let how = match (access("get")?, access("set")?, access("file")?) {
                (Some(get), Some(set), None) => Custom { get, set },
                (None, None, Some(file @ Access::File(_))) => Custom { get: file.clone(), set: file },
                _ => return Err(wrong(&own.at)),
            };
            read.push((name, how));
        }
        Ok(read)
    }

    /// A file, or a program with its arguments.
    fn access(&self, entry: &Entry<'t>) -> Result<Access, PlanError> {
        let wrong = || {
            let sentence = format!(
                "{}: write a file like \"/sys/module/NAME/parameters/budget\", or a program with its arguments, like \
                 [\"devmem\", \"0x400d0000\", \"32\", \"{{value}}\"]",
                entry.key
            );
            self.complaint(&entry.value.span(), sentence)
        };
        match entry.value.get_ref() {
            DeValue::String(path) if path.starts_with('/') => Ok(Access::File(path.to_string())),
            DeValue::Array(words) if !words.is_empty() => {
                let words = words.iter().map(|word| word.get_ref().as_str().map(str::to_owned));
                words.collect::<Option<_>>().map(Access::Command).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    pub(super) fn known(&self, entry: &Entry<'t>, allowed: &[&str]) -> Result<(), PlanError> {
        let key = entry.key;
        if allowed.contains(&key) {
            return Ok(());
        }
        let hint = if TOP.contains(&key) {
            format!("'{key}' belongs at the top of the file, above the first [[part]]")
        } else if OPTIONS.iter().any(|option| option.name == key) {
            format!("'{key}' belongs under [options], or under [factors] if it varies")
        } else {
            match nearest(key, allowed.iter().copied()) {
                Some(near) => format!("there is no key '{key}' here; did you mean '{near}'?"),
                None => format!("there is no key '{key}' here; keys are {}", allowed.join(", ")),
            }
        };
        Err(self.complaint(&entry.at, hint))
    }

    /// Whether this may stand under `[options]` and `[factors]` at all.
    fn belongs(&self, name: &str, at: &Range<usize>) -> Result<(), PlanError> {
        if name == "repeat" {
            return Err(self.complaint(at, "'repeat' stands beside the workload, above [options]".to_owned()));
        }
        // The usual slip in TOML: a line that is meant for the whole file, written below a [table].
        if TOP.contains(&name) && name != "workload" {
            let sentence =
                format!("'{name}' is not an option; what follows [options] or [factors] belongs to it, so move it up");
            return Err(self.complaint(at, sentence));
        }
        self.check(at, options::allowed(name)).map(|_| ())
    }

    fn option(&self, name: &str, value: &Spanned<DeValue<'t>>) -> Result<String, PlanError> {
        let at = value.span();
        let varies =
            || self.complaint(&at, format!("{name} has several levels, and what varies belongs under [factors]"));
        if name == "workload" {
            let sentence = "'workload' stands above [options], or under [factors] if it varies".to_owned();
            return Err(self.complaint(&at, sentence));
        }
        let text = match value.get_ref() {
            DeValue::Array(_) => return Err(varies()),
            value => scalar(value).ok_or_else(|| self.complaint(&at, not_scalar(name)))?,
        };
        if let Some(of) = copied(&text) {
            self.check(&at, options::allowed(of))?;
            return Ok(text);
        }
        canonical(name, &text).map_err(|error| match canonical_levels(name, &text) {
            Ok(levels) if levels.len() > 1 => varies(),
            _ => self.complaint(&at, error.to_string()),
        })
    }

    fn levels(&self, name: &str, value: &Spanned<DeValue<'t>>) -> Result<Vec<String>, PlanError> {
        let DeValue::Array(list) = value.get_ref() else {
            let text = scalar(value.get_ref()).ok_or_else(|| self.complaint(&value.span(), not_scalar(name)))?;
            return self.check(&value.span(), canonical_levels(name, &text));
        };
        let mut levels: Vec<String> = Vec::new();
        for item in list.iter() {
            let text = scalar(item.get_ref()).ok_or_else(|| self.complaint(&item.span(), not_scalar(name)))?;
            for level in self.check(&item.span(), canonical_levels(name, &text))? {
                if levels.contains(&level) {
                    let sentence = format!("{name}: the level {level} is there twice; leave one out");
                    return Err(self.complaint(&item.span(), sentence));
                }
                levels.push(level);
            }
        }
        if levels.is_empty() {
            return Err(self.complaint(&value.span(), format!("{name} varies over no levels; write at least one")));
        }
        Ok(levels)
    }

    fn name(&self, entry: Option<&Entry<'t>>, default_name: &str) -> Result<String, PlanError> {
        // Names come back in file names, records and terminals.
        let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let Some(entry) = entry else {
            let name: String = default_name.chars().take(MAX_NAME).map(|c| if plain(c) { c } else { '-' }).collect();
            return Ok(if name.is_empty() { "plan".to_owned() } else { name });
        };
        let name = self.string(entry)?;
        if name.is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(plain) {
            let sentence = format!("name: '{name}' is not allowed; write up to 64 letters, digits, '-', '_' and '.'");
            return Err(self.complaint(&entry.value.span(), sentence));
        }
        Ok(name.to_owned())
    }

    fn word<W: Word>(&self, entry: &Entry<'t>) -> Result<W, PlanError> {
        let text = self.string(entry)?;
        W::read(text).ok_or_else(|| {
            let allowed: Vec<&str> = W::WORDS.iter().map(|word| word.word()).collect();
            let sentence = format!("{}: '{text}' is not allowed; write {}", entry.key, allowed.join(" | "));
            self.complaint(&entry.value.span(), sentence)
        })
    }

    /// One expectation, or a list of them.
    fn expect(&self, entry: &Entry<'t>) -> Result<Vec<Expectation>, PlanError> {
        let one = |value: &Spanned<DeValue<'t>>| {
            let text = value.get_ref().as_str().ok_or_else(|| {
                let sentence = "expect: write texts like \"loss < 0.1%\", one or a list of them".to_owned();
                self.complaint(&value.span(), sentence)
            })?;
            expect::expectation(text).map_err(|sentence| self.complaint(&value.span(), format!("expect: {sentence}")))
        };
        match entry.value.get_ref() {
            DeValue::Array(list) => list.iter().map(one).collect(),
            _ => Ok(vec![one(entry.value)?]),
        }
    }

    /// An expectation of a level that no trial has would be a test that never fails.
    fn are_expected_of_something(&self, plan: &Plan, top: &[Entry<'t>]) -> Result<(), PlanError> {
        let Ok(trials) = plan.trials(&[], Some(1)) else { return Ok(()) };
        for (number, part) in plan.parts.iter().enumerate() {
            for expectation in part.expect.iter().filter(|one| !one.with.is_empty()) {
                // Of those at the top, any part will do.
                let own =
                    |trial: &PlannedTrial| trial.part == number || plan.parts[trial.part].expect.contains(expectation);
                if !trials.iter().any(|trial| own(trial) && trial.is_expected(expectation)) {
                    let at = top.iter().find(|entry| entry.key == "expect" || entry.key == "part");
                    let at = at.map_or(0..0, |entry| entry.at.clone());
                    let sentence =
                        format!("expect: '{expectation}' is of no trial of the plan; name levels that it has");
                    return Err(self.complaint(&at, sentence));
                }
            }
        }
        Ok(())
    }

    pub(super) fn truth(&self, entry: &Entry<'t>) -> Result<bool, PlanError> {
        let wrong = || self.complaint(&entry.value.span(), format!("{}: write true or false", entry.key));
        entry.value.get_ref().as_bool().ok_or_else(wrong)
    }

    fn repeat(&self, entry: &Entry<'t>) -> Result<u32, PlanError> {
        scalar(entry.value.get_ref())
            .as_deref()
            .and_then(parse_repeat)
            .ok_or_else(|| self.complaint(&entry.value.span(), format!("repeat: write {REPEAT_ALLOWED}")))
    }

    pub(super) fn string(&self, entry: &Entry<'t>) -> Result<&'t str, PlanError> {
        entry
            .value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.complaint(&entry.value.span(), format!("{} is a text; write it in quotes", entry.key)))
    }

    fn check<T>(&self, at: &Range<usize>, result: Result<T, BadOption>) -> Result<T, PlanError> {
        result.map_err(|error| self.complaint(at, error.to_string()))
    }

    pub(super) fn complaint(&self, at: &Range<usize>, complaint: String) -> PlanError {
        let (line, column) = self.place(at);
        PlanError::File { file: self.file.to_owned(), line, column, complaint }
    }

    fn place(&self, at: &Range<usize>) -> (usize, usize) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
        (line, column)
    }
}

fn not_scalar(name: &str) -> String {
    let allowed = options::allowed(name).unwrap_or_else(|_| "a value".to_owned());
    format!("{name}: write {allowed}; texts in quotes, numbers, true and false as they are")
}

/// The text of a value as options read it.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        // What TOML lets people write for readability (1_000, 0x2e) is a plain number to an option.
        DeValue::Integer(number) => {
            let text = number.as_str().replace('_', "");
            Some(i128::from_str_radix(&text, number.radix()).map_or(text, |number| number.to_string()))
        }
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// The entries with dotted names: `target.mtu = 9000` is a table in TOML and one name here.
fn flat<'t>(table: &'t DeTable<'t>, prefix: &str) -> Vec<(String, Range<usize>, &'t Spanned<DeValue<'t>>)> {
    let mut all = Vec::new();
    for entry in entries(table) {
        let name = format!("{prefix}{}", entry.key);
        match entry.value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => all.extend(flat(inner, &format!("{name}."))),
            _ => all.push((name, entry.at, entry.value)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::builtins;

    const HEAD: &str = "format = \"linerate.plan/1\"\n";

    #[track_caller]
    fn check_refused(text: &str, place: &str, contains: &str) {
        let error = Plan::parse(text, "my.toml", "my").unwrap_err().to_string();
        assert!(error.starts_with(&format!("my.toml:{place}:")), "{error}");
        assert!(error.contains(contains), "{error}");
    }

    /// `text` stands after the line that gives the format.
    #[track_caller]
    fn check(text: &str, place: &str, contains: &str) {
        check_refused(&format!("{HEAD}{text}"), place, contains);
    }

    #[test]
    fn the_head_of_a_file() {
        check_refused("", "1:1", "format = \"linerate.plan/1\"");
        check_refused("format = 'linerate.plan/2'", "1:10", "this version reads 'linerate.plan/1'");
        check_refused("format = 1", "1:10", "write it in quotes");
        check("workload = \n", "2:12", "this is not TOML");
        check("workload = 'tcp-rr'\n[options]\nduration = 10s\n", "4:12", "a text in quotes like \"10s\"");
        check("a = 1\na = 2\n", "3:1", "leave one of the two out");
        check("[factors]\nip = 4\n[factors]\n", "4:2", "leave one of the two out");
        check("workload = 'tcp-rr'\n[options\nip = 4\n", "3:9", "in brackets, like [options]");
        check("workload = 'tcp-rr\n", "2:19", "a text in quotes like \"10s\"");
        check("reprot = 'table'\n", "2:1", "did you mean 'report'?");
        check("xyzzyxyzzy = 1\n", "2:1", "keys are format, name, about");
        check("duration = '10s'\n", "2:1", "belongs under [options]");
        check("report = 'graph'\n", "2:10", "write table | sweep | ttcp");
        check("order = 'chance'\n", "2:9", "write plan | random");
        check("workload = 'tcp-rr'\nnull = 'all'\n", "3:8", "null: write true or false");
        check("workload = 'tcp-rr'\nexpect = 'loss'\n", "3:10", "expect: 'loss' is not an expectation");
        check("workload = 'tcp-rr'\nexpect = ['loss < 1%',\n'lost < 1%']\n", "4:1", "did you mean 'loss'?");
        check("workload = 'tcp-rr'\nexpect = 5\n", "3:10", "expect: write texts like");
        check("workload = 'tcp-rr'\nexpect = 'loss < 1% with ip=5'\n", "3:10", "ip");
        check("workload = 'tcp-rr'\nexpect = 'loss < 1% with rats=5'\n", "3:10", "did you mean 'rate'?");
        check("workload = 'tcp-rr'\nexpect = 'loss < 1% with ip=6'\n", "3:1", "is of no trial of the plan");
        check("name = 'a/b'\n", "2:8", "letters, digits");
        check("repeat = 0\n", "2:10", "a whole number from 1 to 100000");
        check("repeat = -1\n", "2:10", "a whole number from 1 to 100000");
        check("about = 'x'\n", "1:1", "needs a workload: tcp-stream | udp-stream");
        check("workload = 'tcp'\n", "2:12", "write tcp-stream | udp-stream");
    }

    #[test]
    fn options_and_factors() {
        let options = |line: &str| format!("workload = 'udp-stream'\n[options]\n{line}\n");
        let factors = |line: &str| format!("workload = 'udp-stream'\n[factors]\n{line}\n");
        check(&options("strems = 4"), "4:1", "did you mean 'streams'?");
        check(&options("streams = 400"), "4:11", "streams: '400' is not allowed; write 1 to 128");
        check(&options("rate = '-5M'"), "4:8", "write bits per second like 100M");
        check(&options("rate = '1M,2M'"), "4:8", "belongs under [factors]");
        check(&options("rate = ['1M']"), "4:8", "belongs under [factors]");
        check(&options("rate = ' 1M'"), "4:8", "' 1M' is not allowed");
        check(&options("rate = 1979-05-27"), "4:8", "rate: write bits per second like 100M");
        check(&options("nodelay = true"), "4:1", "nodelay is for TCP; it does nothing in udp-stream");
        check(&options("request_size = 1"), "4:1", "request_size is for requests and responses");
        check(&options("target.mtu = 'big'"), "4:14", "target.mtu: 'big' is not allowed; write bytes");
        check(&options("target.mtuu = 9000"), "4:8", "did you mean 'mtu'?");
        check(&options("target.custom.x = 1"), "4:15", "the plan does not define custom.x");
        check(&factors("target.mtu = [1500, '1500']"), "4:21", "the level 1500 is there twice");
        check(&options("repeat = 3"), "4:1", "stands beside the workload");
        check(&options("about = 'x'"), "4:1", "so move it up");
        check(&options("workload = 'udp-stream'"), "4:1", "already set in line 2");
        check(&options("bytes = 64\nduration = 1"), "4:1", "leave one of them out");
        check(&options("bytes = 64\nwarmup = 1"), "5:1", "leave one of the two out");
        check(&options("burst = 2\n[factors]\nburst = [3]"), "6:1", "already set in line 4");
        check(&options("rate = 'as message_sise'"), "4:8", "did you mean 'message_size'?");
        check(&options("interval = 'as interval'"), "4:1", "name one that has a value");
        check(&options("interval = 'as duration'"), "4:1", "nothing here sets duration");
        check("[custom]\nx = 1\n", "3:1", "with get and set, or with file");
        check("[custom.x]\nget = ['true']\n", "2:9", "with get and set, or with file");
        check("[custom.x]\nget = 'true'\n", "3:7", "or a program with its arguments");
        check("[custom.x]\ngit = 'true'\n", "3:1", "did you mean 'get'?");
        check(&factors("rate = '1M..2M'"), "4:8", "write first..last:step");
        check(&factors("rate = ['1M',\n  'fast']"), "5:3", "'fast' is not allowed; write bits per second");
        check(&factors("rate = ['1M', '1000K']"), "4:15", "the level 1M is there twice");
        check(&factors("rate = []"), "4:8", "at least one");
        check(&factors("message_size = [64, 99999]"), "4:1", "(with message_size 99999)");
        check(&factors("seed = '1..9999:1'\nburst = '1..1000:1'"), "1:1", "100000 trials are allowed");
        check("workload = 'udp-stream'\noptions = 5\n", "3:11", "options are a table");
        check("workload = 'udp-stream'\n[options]\nworklod = 'x'\n", "4:1", "did you mean 'workload'?");
    }

    #[test]
    fn parts() {
        check("workload = 'tcp-rr'\n[[part]]\nworkload = 'tcp-rr'\n", "2:1", "belongs in each [[part]]");
        check("[[part]]\nworkload = 'tcp-rr'\n[[part]]\ntitle = 'b'\n", "4:1", "needs a workload");
        check("[[part]]\nabout = 'tcp-rr'\n", "3:1", "at the top of the file");
        check("[part]\nworkload = 'tcp-rr'\n", "2:2", "double brackets");
        let many = "[[part]]\nworkload = 'tcp-rr'\nrepeat = 60000\n";
        check(&format!("{many}{many}{many}"), "5:1", "120000 trials up to here are too many");
        check("part = 5\n", "2:1", "double brackets");
        check("[[part]]\nworkload = 'tcp-rr'\n[part.options]\nprobe = true\n", "5:1", "a probe runs beside");
        check("[[part]]\nworkload = 'tcp-rr'\n[part.options]\nrate = '5M'\n", "5:1", "requests are counted");
    }

    #[test]
    fn what_a_file_may_say() {
        let text = format!(
            "{HEAD}name = 'all'\nreport = 'sweep'\nrepeat = 2\n[[part]]\ntitle = 'one'\nworkload = 'tcp-stream'\n\
             [part.options]\nstreams = 4\nnodelay = true\nduration = '10s'\nwarmup = 0.5\nmessage_size = 0x4_00\n\
             [part.factors]\nrate = ['5M', '10M..20M:10M']\ndirection = 'tx,rx'\nip = 4\n\
             [[part]]\nworkload = 'tcp-rr'\nrepeat = 7\n"
        );
        let plan = Plan::parse(&text, "my.toml", "my").unwrap();
        assert_eq!((plan.name.as_str(), plan.report, plan.parts.len()), ("all", Report::Sweep, 2));
        let pair = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let options = [
            ("workload", "tcp-stream"),
            ("streams", "4"),
            ("nodelay", "true"),
            ("duration", "10s"),
            ("warmup", "500ms"),
            ("message_size", "1K"),
        ];
        assert_eq!(plan.parts[0].options, options.map(pair));
        let names: Vec<&str> = plan.parts[0].factors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rate", "direction", "ip"]);
        assert_eq!(plan.parts[0].factors[0].1, ["5M", "10M", "20M"]);
        assert_eq!((plan.parts[0].repeat, plan.parts[1].repeat), (2, 7));
        // What a store keeps is enough to have the plan again.
        assert_eq!(Plan::parse(&plan.source, "my.toml", "my").unwrap(), plan);
    }

    #[test]
    fn a_file_name_becomes_a_plan_name() {
        let text = format!("{HEAD}workload = 'tcp-rr'\n");
        for (stem, name) in [("my plan", "my-plan"), ("größe", "größe"), ("", "plan"), ("a\x1b[1m", "a--1m")] {
            assert_eq!(Plan::parse(&text, "x.toml", stem).unwrap().name, name);
        }
    }

    proptest! {
        /// Whatever a file was damaged to, the complaint points into it.
        #[test]
        fn a_damaged_file_is_read_or_refused(
            plan in 0usize..11, at in any::<prop::sample::Index>(), cut in 0usize..12, insert in "[\\PC\n]{0,6}",
        ) {
            let mut text: Vec<char> = builtins()[plan].source.chars().collect();
            let from = at.index(text.len());
            let to = (from + cut).min(text.len());
            text.splice(from..to, insert.chars());
            let text: String = text.into_iter().collect();
            match Plan::parse(&text, "x.toml", "x") {
                Ok(plan) => prop_assert!(plan.trials(&[], None).is_ok_and(|trials| !trials.is_empty())),
                Err(PlanError::File { line, column, complaint, .. }) => {
                    prop_assert!((1..=text.matches('\n').count() + 1).contains(&line), "{}", line);
                    let length = text.split('\n').nth(line - 1).map_or(0, |line| line.chars().count());
                    prop_assert!((1..=length + 1).contains(&column), "{}:{} {}", line, column, complaint);
                    prop_assert!(!complaint.is_empty());
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_a_plan() {
        let page = include_str!("../../../docs/plans.md");
        let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        // The other one is a linerate.toml.
        let plans: Vec<&&str> = examples.iter().filter(|example| example.starts_with("format")).collect();
        assert_eq!(plans.len(), examples.len() - 1);
        for example in plans {
            Plan::parse(example, "docs/plans.md", "example").unwrap().trials(&[], None).unwrap();
        }
        // Every key and every option is explained.
        for name in TOP.iter().chain(OPTIONS.iter().map(|option| &option.name)) {
            assert!(page.contains(&format!("`{name}`")), "docs/plans.md does not explain {name}");
        }
    }
}
