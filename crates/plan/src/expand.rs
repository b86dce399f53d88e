//! From a plan and what was given for this run to the list of trials, in the order in which they run.
//! Knows no files and no clock; the same plan and the same overrides give the same list every time.

use std::fmt;
use std::time::Duration;

use linerate_machine::change::{CUSTOM, Change, Custom};
use linerate_machine::end::Party;
use linerate_machine::setting::{self, BadSetting, BadSettingKind, overlap};
use linerate_results::record::NullSide;
use linerate_trial::options::{self, BadOption, REPEAT, canonical, setting_of};
use linerate_trial::pace::SplitMix64;
use linerate_trial::spec::{Extent, Spec, Unsuitable, Workload};

use super::order::{Entry, RoundOrder, round_of};
use super::planned::{Levels, PlannedTrial, WantedSetting};
use super::{Changes, Part, Plan, PlanError, boot};

/// From here on a change costs so much that its levels are not interleaved: seconds in which the link is down.
const DEAREST: u8 = 5;

/// More trials than this are a slip of the finger.
const MAX_TRIALS: u64 = 100_000;

impl Plan {
    /// The trials in the plan's own order, without what only a run can ask for.
    pub fn trials(&self, overrides: &[(String, String)], repeat: Option<u32>) -> Result<Vec<PlannedTrial>, PlanError> {
        self.trials_of(&Changes { overrides: overrides.to_vec(), repeat, ..Changes::default() })
    }

    /// The trials, each valid, with `changes` in place of what the plan says.
    ///
    /// Repeats are the outermost loop: A B C, A B C, and not A A, B B, C C. A machine that warms up, or a neighbour
    /// on the link that wakes up, then hits all configurations alike, and a difference between two of them is theirs.
    /// Settings that are dear to change vary slowest, and the dearest not within a round at all: all repeats of one
    /// level, then all of the next. Within a round the order is the plan's, or by chance (`order.rs`).
    pub fn trials_of(&self, changes: &Changes) -> Result<Vec<PlannedTrial>, PlanError> {
        let mut parts = self.overridden(&changes.overrides, changes.repeat)?;
        let least: Vec<u32> = parts.iter().map(|(_, part)| part.repeat).collect();
        for (_, part) in &mut parts {
            part.null |= changes.null;
            if let Some(precision) = &changes.precision {
                part.repeat = precision.max_repeats;
            }
        }
        let count = check_count(0, parts.iter().map(|(_, part)| part))
            .map_err(|complaint| PlanError::Override(format!("plan {}: {complaint}", self.name)))?;
        let mut configurations: Vec<(usize, u32, &Part, Configuration)> = Vec::new();
        for ((number, part), least) in parts.iter().zip(least) {
            let specs = part.configurations(&self.custom).map_err(|(place, complaint)| PlanError::Trial {
                plan: self.name.clone(),
                configuration: self.describe(*number, &place),
                complaint: complaint.to_string(),
            })?;
            configurations.extend(specs.into_iter().map(|one| (*number, least, part, one)));
        }
        let mut blocks: Vec<Vec<&WantedSetting>> = Vec::new();
        for (.., one) in &configurations {
            if !blocks.contains(&one.dearest()) {
                blocks.push(one.dearest());
            }
        }
        boot::side_by_side(&mut blocks);
        let rounds = parts.iter().map(|(_, part)| part.repeat).max().unwrap_or(0);
        let mut chance = changes.seed.map(|seed| SplitMix64::new(seed.into()));
        let mut trials: Vec<PlannedTrial> = Vec::with_capacity(count as usize);
        for block in &blocks {
            let mut entries: Vec<Entry<'_>> = Vec::new();
            for (at, (.., part, one)) in
                configurations.iter().enumerate().filter(|(_, (.., one))| one.dearest() == *block)
            {
                let sides: &[_] = if part.null { &[Some(NullSide::A), Some(NullSide::B)] } else { &[None] };
                entries.extend(sides.iter().map(|side| Entry {
                    configuration: at,
                    side: *side,
                    settings: &one.settings,
                }));
            }
            let mut before: Vec<Entry<'_>> = Vec::new();
            for repeat in 0..rounds {
                before = round_of(&entries, repeat, before, chance.as_mut());
                for entry in &before {
                    let (part, least, Part { repeat: repeats, .. }, one) = &configurations[entry.configuration];
                    if repeat >= *repeats {
                        continue;
                    }
                    let Configuration { factors, spec, settings } = one.clone();
                    trials.push(PlannedTrial {
                        index: trials.len() as u32,
                        part: *part,
                        repeat,
                        configuration: entry.configuration as u32,
                        least: *least,
                        null_side: entry.side,
                        factors,
                        spec,
                        settings,
                        search: None,
                    });
                }
            }
        }
        boot::agree(&trials).map_err(|complaint| PlanError::Override(format!("plan {}: {complaint}", self.name)))?;
        Ok(trials)
    }

    /// Whether a campaign of it runs in an order left to chance, unless somebody says otherwise: where there are
    /// repeats. What is measured once can be no proof, and is easier to follow in the plan's order.
    pub fn is_random(&self, changes: &Changes) -> Result<bool, PlanError> {
        let repeated =
            || Ok(self.overridden(&changes.overrides, changes.repeat)?.iter().any(|(_, part)| part.repeat > 1));
        match self.order {
            Some(order) => Ok(order == RoundOrder::Random),
            None if changes.precision.is_some() => Ok(true),
            None => repeated(),
        }
    }

    /// The parts as this run wants them, with their numbers. A part without a workload that was asked for is left out.
    fn overridden(&self, overrides: &[(String, String)], repeat: Option<u32>) -> Result<Vec<(usize, Part)>, PlanError> {
        let refuse = |sentence: String| Err(PlanError::Override(sentence));
        let mut parts: Vec<(usize, Part)> = self.parts.iter().cloned().enumerate().collect();
        let mut repeat = repeat;
        let mut wanted: Vec<(&str, Vec<String>)> = Vec::new();
        for (name, text) in overrides {
            if overrides.iter().filter(|(other, _)| other == name).count() > 1 {
                return refuse(format!("{name} is set twice; several levels are written {name}=A,B"));
            }
            if name == REPEAT {
                match (parse_repeat(text), repeat) {
                    (Some(_), Some(_)) => return refuse("repeat is given twice; leave one of them out".to_owned()),
                    (Some(times), None) => repeat = Some(times),
                    (None, _) => return refuse(format!("repeat: '{text}' is not allowed; write {REPEAT_ALLOWED}")),
                }
                continue;
            }
            let levels = levels_or_copy(name, text).map_err(|error| PlanError::Override(error.to_string()))?;
            defined(name, &self.custom).map_err(|error| PlanError::Override(error.to_string()))?;
            boot::defined(name, &levels, &self.boots).map_err(PlanError::Override)?;
            wanted.push((name, levels));
        }
        let given = |name: &str| wanted.iter().any(|(other, _)| *other == name);
        if given("bytes") && given("duration") {
            return refuse("bytes and duration both say when a trial ends; leave one of them out".to_owned());
        }
        if let Some(times) = repeat {
            if !(1..=MAX_REPEAT).contains(&times) {
                return refuse(format!("repeat: {times} is not allowed; write {REPEAT_ALLOWED}"));
            }
            parts.iter_mut().for_each(|(_, part)| part.repeat = times);
        }
        if let Some((_, workloads)) = wanted.iter().find(|(name, _)| *name == "workload") {
            self.narrow(&mut parts, workloads)?;
        }
        for (name, levels) in wanted.iter().filter(|(name, _)| *name != "workload") {
            for level in levels {
                let refusals: Vec<ConfigurationError> =
                    parts.iter().filter_map(|(_, part)| part.accepts(name, level).err()).collect();
                if refusals.len() == parts.len() {
                    return refuse(format!("{name}={level} suits no part of plan {}: {}", self.name, refusals[0]));
                }
            }
            for (_, part) in &mut parts {
                let levels: Vec<String> =
                    levels.iter().filter(|level| part.accepts(name, level).is_ok()).cloned().collect();
                if !levels.is_empty() {
                    part.replace(name, levels, given("warmup"));
                }
            }
        }
        Ok(parts)
    }

    /// Leaves the parts, and the levels of a workload factor, that are among `workloads`. A workload is what a plan
    /// is about, so asking for another one is refused rather than measured with options that were not meant for it.
    fn narrow(&self, parts: &mut Vec<(usize, Part)>, workloads: &[String]) -> Result<(), PlanError> {
        let mut there: Vec<String> = Vec::new();
        for (_, part) in parts.iter() {
            there.extend(part.workloads().iter().map(|workload| workload.name().to_owned()));
        }
        there.sort();
        there.dedup();
        if let Some(absent) = workloads.iter().find(|workload| !there.contains(workload)) {
            return Err(PlanError::Override(format!(
                "plan {} does not measure {absent}, only {}; run the plan '{absent}' instead",
                self.name,
                there.join(", ")
            )));
        }
        for (_, part) in parts.iter_mut() {
            for (_, levels) in part.factors.iter_mut().filter(|(name, _)| name == "workload") {
                levels.retain(|level| workloads.contains(level));
            }
        }
        parts.retain(|(_, part)| part.workloads().iter().any(|w| workloads.iter().any(|name| name == w.name())));
        Ok(())
    }

    fn describe(&self, part: usize, factors: &[(String, String)]) -> String {
        let levels: Vec<String> = factors.iter().map(|(name, level)| format!("{name} {level}")).collect();
        match (self.parts.len(), levels.is_empty()) {
            (1, true) => "every trial".to_owned(),
            (1, false) => levels.join(", "),
            (_, true) => format!("part {}", part + 1),
            (_, false) => format!("part {}, {}", part + 1, levels.join(", ")),
        }
    }
}

/// One combination of the levels of a part, and what it asks for.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    factors: Levels,
    spec: Spec,
    settings: Vec<WantedSetting>,
}

impl Configuration {
    /// The settings that it shares with the trials beside it.
    fn dearest(&self) -> Vec<&WantedSetting> {
        self.settings.iter().filter(|wanted| wanted.dear() >= DEAREST).collect()
    }
}

/// Why the options and settings of a configuration cannot be met.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum ConfigurationError {
    /// One that is wrong by itself.
    #[error("{1}")]
    Option(String, Box<BadOption>),
    /// Options that do not go together.
    #[error(transparent)]
    Spec(#[from] Unsuitable),
    /// `as NAME` of one that is itself as another.
    #[error("{name} is to be as {of}, and {of} as another; name one that has a value")]
    CopyOfCopy { name: String, of: String },
    /// `as NAME` of one that is not there.
    #[error("{name} is to be as {of}, and nothing here sets {of}")]
    CopyOfNothing { name: String, of: String },
    /// Two settings that are one thing.
    #[error("on the {0}, {1}")]
    Overlap(Party, overlap::Overlap),
}

impl ConfigurationError {
    /// Which options or settings it is about.
    pub(super) fn options(&self) -> Vec<String> {
        match self {
            ConfigurationError::Option(name, _)
            | ConfigurationError::CopyOfCopy { name, .. }
            | ConfigurationError::CopyOfNothing { name, .. } => {
                vec![name.clone()]
            }
            ConfigurationError::Spec(unsuitable) => unsuitable.options().into_iter().map(str::to_owned).collect(),
            ConfigurationError::Overlap(end, overlap) => {
                [&overlap.one, &overlap.other].map(|name| format!("{end}.{name}")).into()
            }
        }
    }
}

/// Whether the plan says how this setting is read and set, where that is for it to say.
pub(super) fn defined(name: &str, custom: &[(String, Custom)]) -> Result<(), BadOption> {
    match setting_of(name) {
        Some((end, setting)) if setting.starts_with(CUSTOM) && !custom.iter().any(|(own, _)| own == setting) => {
            Err(BadOption::Setting {
                end,
                bad: BadSetting { name: setting.to_owned(), why: BadSettingKind::Undefined },
            })
        }
        _ => Ok(()),
    }
}

impl Part {
    /// The trials of this part, repeats and A/A pairs included.
    pub(super) fn count(&self) -> u64 {
        let once = u64::from(self.repeat) * if self.null { 2 } else { 1 };
        self.factors.iter().fold(once, |count, (_, levels)| count.saturating_mul(levels.len() as u64))
    }

    /// The workloads that its trials have.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        let fixed = self.options.iter().filter(|(name, _)| name == "workload").map(|(_, text)| text);
        let varied = self.factors.iter().filter(|(name, _)| name == "workload").flat_map(|(_, levels)| levels);
        fixed.chain(varied).filter_map(|text| Workload::parse(text)).collect()
    }

    /// Whether each of its workloads, otherwise as usual, could be measured with this option.
    fn accepts(&self, name: &str, text: &str) -> Result<(), ConfigurationError> {
        let bad = |error| ConfigurationError::Option(name.to_owned(), Box::new(error));
        let is_copy = copied(text).is_some();
        if !is_copy {
            canonical(name, text).map_err(bad)?;
        }
        for workload in self.workloads().into_iter().filter(|_| setting_of(name).is_none()) {
            let mut spec = Spec::new(workload);
            if !is_copy {
                spec.set(name, text).map_err(bad)?;
            }
            // It stands beside a rate, which the plan has or another option gives.
            if name == "first_rate" && !is_copy {
                spec.set("rate", text).map_err(bad)?;
            }
            spec.validate()?;
            applies(name, workload).map_err(bad)?;
        }
        Ok(())
    }

    /// Puts these levels in the place of what the part says about an option. What varied goes on varying, with
    /// these levels; what was fixed becomes a factor, the fastest one, if there are several.
    fn replace(&mut self, name: &str, levels: Vec<String>, keep_warmup: bool) {
        match name {
            // Bytes and time exclude each other, and a trial of a number of bytes has no warm-up: the plan's own
            // duration and warm-up are not meant to stand against what was asked for now.
            "bytes" => {
                self.remove("duration");
                if !keep_warmup {
                    self.remove("warmup");
                }
            }
            "duration" => self.remove("bytes"),
            _ => {}
        }
        if levels.iter().any(|level| copied(level).is_some()) {
            // It varies as the other does, and is no factor of its own.
            self.remove(name);
        }
        if let Some((_, there)) = self.factors.iter_mut().find(|(other, _)| other == name) {
            *there = levels;
            return;
        }
        if let [level] = &levels[..] {
            match self.options.iter_mut().find(|(other, _)| other == name) {
                Some((_, text)) => *text = level.clone(),
                None => self.options.push((name.to_owned(), level.clone())),
            }
            return;
        }
        self.remove(name);
        self.factors.push((name.to_owned(), levels));
    }

    fn remove(&mut self, name: &str) {
        self.options.retain(|(other, _)| other != name);
        self.factors.retain(|(other, _)| other != name);
    }

    /// Every combination of the levels, dear factors varying slowest and else the first one, and what it asks for; or
    /// the first one that cannot be, with the sentence that says why.
    pub(super) fn configurations(
        &self,
        custom: &[(String, Custom)],
    ) -> Result<Vec<Configuration>, (Levels, ConfigurationError)> {
        let dear =
            |name: &str| setting_of(name).and_then(|(_, name)| setting::find(name).ok()).map_or(0, |one| one.dear);
        let mut slowest_first: Vec<&(String, Vec<String>)> = self.factors.iter().collect();
        slowest_first.sort_by_key(|(name, _)| std::cmp::Reverse(dear(name)));
        let mut combinations: Vec<Levels> = vec![Vec::new()];
        for (name, levels) in slowest_first {
            combinations = combinations
                .iter()
                .flat_map(|start| {
                    levels.iter().map(move |level| {
                        let mut longer = start.clone();
                        longer.push((name.clone(), level.clone()));
                        longer
                    })
                })
                .collect();
        }
        let place = |name: &str| self.factors.iter().position(|(other, _)| other == name);
        combinations
            .into_iter()
            .map(|mut factors| {
                factors.sort_by_key(|(name, _)| place(name));
                match self.asked(&factors, custom) {
                    Ok((spec, settings)) => Ok(Configuration { factors, spec, settings }),
                    Err(complaint) => Err((factors, complaint)),
                }
            })
            .collect()
    }

    fn asked(
        &self,
        factors: &[(String, String)],
        custom: &[(String, Custom)],
    ) -> Result<(Spec, Vec<WantedSetting>), ConfigurationError> {
        let (mut spec, mut settings) = (Spec::default(), Vec::new());
        let set: Vec<&(String, String)> = self.options.iter().chain(factors).collect();
        for (name, text) in &set {
            let bad = |error| ConfigurationError::Option(name.clone(), Box::new(error));
            // `as NAME` waits for nothing: it takes the text of the option it names, fixed or varying.
            let text = match copied(text) {
                Some(of) => match set.iter().find(|(name, _)| name == of) {
                    Some((_, text)) if copied(text).is_none() => text,
                    Some(_) => return Err(ConfigurationError::CopyOfCopy { name: name.clone(), of: of.to_owned() }),
                    None => return Err(ConfigurationError::CopyOfNothing { name: name.clone(), of: of.to_owned() }),
                },
                None => text,
            };
            let Some((end, setting)) = setting_of(name) else {
                spec.set(name, text).map_err(bad)?;
                continue;
            };
            defined(name, custom).map_err(bad)?;
            let value = canonical(name, text).map_err(bad)?;
            let custom = custom.iter().find(|(own, _)| own == setting).map(|(_, how)| how.clone());
            settings.push(WantedSetting { end, change: Change { name: setting.to_owned(), value, custom } });
        }
        for end in Party::ALL {
            let of_end = settings.iter().filter(|one: &&WantedSetting| one.end == end);
            if let Some(overlap) = overlap::among(of_end.map(|one| one.change.name.as_str())) {
                return Err(ConfigurationError::Overlap(end, overlap));
            }
        }
        spec.validate()?;
        for (name, _) in &set {
            applies(name, spec.workload).map_err(|error| ConfigurationError::Option(name.clone(), Box::new(error)))?;
        }
        Ok((spec, settings))
    }
}

/// How many trials these parts have together with so many before them, repeats included, if that is a number that anybody
/// means.
pub(super) fn check_count<'p>(before: u64, parts: impl IntoIterator<Item = &'p Part>) -> Result<u64, String> {
    match parts.into_iter().map(Part::count).fold(before, u64::saturating_add) {
        count @ 0..=MAX_TRIALS => Ok(count),
        count => {
            let up_to_here = if before > 0 { " up to here" } else { "" };
            Err(format!(
                "{count} trials{up_to_here} are too many; take fewer levels or repeats, {MAX_TRIALS} trials are allowed"
            ))
        }
    }
}

/// The option that this one copies: `as request_size`.
pub(super) fn copied(text: &str) -> Option<&str> {
    text.strip_prefix("as ").map(str::trim)
}

/// The most repeats.
const MAX_REPEAT: u32 = 100_000;
/// How complaints say so.
pub(super) const REPEAT_ALLOWED: &str = "a whole number from 1 to 100000";

pub(super) fn parse_repeat(text: &str) -> Option<u32> {
    text.parse().ok().filter(|times| (1..=MAX_REPEAT).contains(times))
}

/// Whether the option does anything in a trial of this workload.
fn applies(name: &str, workload: Workload) -> Result<(), BadOption> {
    match options::find(name) {
        Ok(row) if !row.applies.to(workload) => {
            Err(BadOption::DoesNothing { name: row.name, applies: row.applies, workload })
        }
        _ => Ok(()),
    }
}

/// What `--set` gives an option: levels, or the one text `as NAME`.
fn levels_or_copy(name: &str, text: &str) -> Result<Vec<String>, BadOption> {
    match copied(text) {
        Some(of) => options::allowed(name).and(options::allowed(of)).map(|_| vec![text.to_owned()]),
        None => canonical_levels(name, text),
    }
}

/// The levels that a text names, each written in one way only (`1024` and `1K` are both `1K`), so that records of
/// two campaigns can be joined by level.
pub(super) fn canonical_levels(name: &str, text: &str) -> Result<Vec<String>, BadOption> {
    let mut levels: Vec<String> = Vec::new();
    for level in options::levels(name, text)? {
        let level = canonical(name, &level)?;
        if levels.contains(&level) {
            return Err(BadOption::Repeated { name: name.to_owned(), level });
        }
        levels.push(level);
    }
    Ok(levels)
}

/// What a trial takes beside its traffic: conversation, counters, queues that drain.
pub const BESIDE_A_TRIAL: Duration = Duration::from_millis(250);

/// How long trials should take: traffic only, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedTime {
    /// The trials whose time is known, together.
    pub time: Duration,
    /// Trials that end after a number of bytes, in a time that nobody knows beforehand.
    pub by_bytes: usize,
}

impl ExpectedTime {
    /// The time that all of these should take.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a PlannedTrial>) -> ExpectedTime {
        let mut expected = ExpectedTime::default();
        for trial in trials {
            match trial.spec.extent {
                Extent::Time(time) => expected.time = expected.time.saturating_add(trial.spec.warmup + time),
                Extent::Octets(_) => expected.by_bytes += 1,
            }
        }
        expected
    }

    /// The same with what so many trials take beside it.
    pub fn with_beside(self, trials: usize) -> ExpectedTime {
        if self.time.is_zero() {
            return self;
        }
        let beside = BESIDE_A_TRIAL.saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX));
        ExpectedTime { time: self.time.saturating_add(beside), ..self }
    }
}

impl fmt::Display for ExpectedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What takes time takes a second.
        let seconds = ((self.time.as_millis() + 500) / 1000).max(u128::from(!self.time.is_zero()));
        let text = match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, s) => format!("{s} s"),
            (0, m, 0) => format!("{m} min"),
            (0, m, s) => format!("{m} min {s} s"),
            (h, 0, _) => format!("{h} h"),
            (h, m, _) => format!("{h} h {m} min"),
        };
        match (self.by_bytes, seconds) {
            (0, _) => f.pad(&text),
            (_, 0) => f.pad("as its bytes take"),
            (trials, _) => f.pad(&format!("{text}, and {trials} trials by bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::parse(&format!("format = \"linerate.plan/1\"\n{text}"), "test.toml", "test").unwrap()
    }

    fn sets(text: &str) -> Vec<(String, String)> {
        text.split_whitespace()
            .map(|set| set.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap())
            .collect()
    }

    const SWEEP: &str = "workload = 'udp-stream'\n[factors]\ndirection = 'tx,rx'\nrate = '50M..100M:50M'\n";
    const MIXED: &str = "[[part]]\nworkload = 'tcp-stream'\n[part.options]\nwarmup = '500ms'\nprobe = true\n\
                         [[part]]\n[part.options]\nresponse_size = 'as request_size'\n\
                         [part.factors]\nworkload = 'tcp-rr,udp-rr'\nrequest_size = [1, 64]\n";

    /// The trials as short text: repeat, then the levels.
    #[track_caller]
    fn check(text: &str, overrides: &str, repeat: Option<u32>, expected: &[&str]) {
        let trials = plan(text).trials(&sets(overrides), repeat).unwrap();
        let lines: Vec<String> = trials
            .iter()
            .map(|trial| {
                let levels: Vec<&str> = trial.factors.iter().map(|(_, level)| level.as_str()).collect();
                format!("{}:{}", trial.repeat, levels.join(","))
            })
            .collect();
        assert_eq!(lines, expected);
        assert!(trials.iter().enumerate().all(|(index, trial)| trial.index as usize == index));
    }

    #[test]
    fn repeats_are_outermost_and_the_first_factor_varies_slowest() {
        let round = |n: u32| ["tx,50M", "tx,100M", "rx,50M", "rx,100M"].map(|levels| format!("{n}:{levels}"));
        let both: Vec<String> = round(0).into_iter().chain(round(1)).collect();
        check(SWEEP, "", Some(2), &both.iter().map(String::as_str).collect::<Vec<_>>());
        check(SWEEP, "repeat=1 rate=7M", None, &["0:tx,7M", "0:rx,7M"]);
    }

    #[test]
    fn overrides_replace_levels_or_become_factors() {
        check(SWEEP, "rate=1M..2M:1M direction=rx", None, &["0:rx,1M", "0:rx,2M"]);
        check(SWEEP, "rate=1M direction=rx message_size=64,1024", None, &["0:rx,1M,64", "0:rx,1M,1K"]);
        check(SWEEP, "rate=1M direction=rx message_size=64", None, &["0:rx,1M"]);
        // A level goes to the parts that can have it.
        check(MIXED, "rate=100M,1kpps", None, &["0:", "0:tcp-rr,1", "0:tcp-rr,64", "0:udp-rr,1", "0:udp-rr,64"]);
        check(MIXED, "workload=udp-rr request_size=16", None, &["0:udp-rr,16"]);
        check(MIXED, "workload=tcp-stream", None, &["0:"]);
    }

    #[test]
    fn dear_settings_change_least_often() {
        let text = "workload = 'tcp-stream'\n[factors]\ndirection = 'tx,rx'\ntarget.mtu = [1500, 9000]\n";
        let round = |n: u32| ["tx,1500", "rx,1500", "tx,9000", "rx,9000"].map(|levels| format!("{n}:{levels}"));
        let both: Vec<String> = round(0).into_iter().chain(round(1)).collect();
        check(text, "", Some(2), &both.iter().map(String::as_str).collect::<Vec<_>>());
        let trials = plan(text).trials(&[], None).unwrap();
        assert_eq!((trials[2].settings[0].end, trials[2].settings[0].change.value.as_str()), (Party::Target, "9000"));
        // A link that is taken down for seconds is not taken down in each round.
        let text = "workload = 'tcp-stream'\n[factors]\ndirection = 'tx,rx'\ntarget.speed = [100, '1G']\n";
        check(
            text,
            "",
            Some(2),
            &["0:tx,100", "0:rx,100", "1:tx,100", "1:rx,100", "0:tx,1000", "0:rx,1000", "1:tx,1000", "1:rx,1000"],
        );
    }

    #[test]
    fn a_setting_can_follow_another() {
        let text =
            "workload = 'tcp-stream'\n[options]\nhost.mtu = 'as target.mtu'\n[factors]\ntarget.mtu = '1500,9K'\n";
        let trials = plan(text).trials(&[], None).unwrap();
        let values =
            |trial: &PlannedTrial| trial.settings.iter().map(|one| one.change.value.clone()).collect::<Vec<_>>();
        assert_eq!([values(&trials[0]), values(&trials[1])], [["1500", "1500"], ["9216", "9216"]]);
        // Also by --set, in the place of levels of its own.
        let text = "workload = 'tcp-stream'\n[factors]\nhost.mtu = [1500, 9000]\n";
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let of = |name: &str| vec![set("target.mtu", "1500,9K"), set("host.mtu", &format!("as {name}"))];
        let trials = plan(text).trials(&of("target.mtu"), None).unwrap();
        let mtus =
            |trial: &PlannedTrial| values(trial).into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        assert_eq!([mtus(&trials[0]), mtus(&trials[1])], [["1500"], ["9216"]]);
        let refused = |name: &str| plan(text).trials(&of(name), None).unwrap_err().to_string();
        assert!(refused("target.mut").contains("mtu"), "{}", refused("target.mut"));
        assert!(refused("target.speed").contains("nothing here sets target.speed"), "{}", refused("target.speed"));
    }

    #[test]
    fn an_end_by_bytes_takes_the_place_of_time_and_warm_up() {
        let trials = plan(MIXED).trials(&sets("bytes=1M"), None).unwrap();
        assert_eq!((trials[0].spec.extent, trials[0].spec.warmup), (Extent::Octets(1 << 20), Duration::ZERO));
        assert!(matches!(trials[1].spec.extent, Extent::Time(_)));
        let by_bytes = "workload = 'tcp-stream'\n[options]\nbytes = '64M'\n";
        let trials = plan(by_bytes).trials(&sets("duration=2s"), None).unwrap();
        assert_eq!(trials[0].spec.extent, Extent::Time(Duration::from_secs(2)));
    }

    #[test]
    fn one_option_can_follow_another() {
        let trials = plan(MIXED).trials(&sets("request_size=16,2K"), None).unwrap();
        assert!(trials[1..].iter().all(|trial| trial.spec.response_size == trial.spec.request_size));
        let trials = plan(MIXED).trials(&sets("response_size=5"), None).unwrap();
        assert!(trials[1..].iter().all(|trial| trial.spec.response_size == 5));
    }

    #[track_caller]
    fn check_refused(text: &str, overrides: &str, repeat: Option<u32>, contains: &str) {
        let error = plan(text).trials(&sets(overrides), repeat).unwrap_err().to_string();
        assert!(error.contains(contains), "{error}");
    }

    #[test]
    fn what_suits_no_part_is_refused() {
        let rr = "workload = 'tcp-rr'\n";
        check_refused(rr, "rate=50M", None, "rate=50M suits no part of plan test: requests are counted");
        check_refused(
            rr,
            "message_size=64",
            None,
            "message_size is for tcp-stream and udp-stream; it does nothing in tcp-rr",
        );
        check_refused(rr, "probe=true", None, "a probe runs beside");
        check_refused(rr, "bytes=5M", None, "duration");
        check_refused(SWEEP, "nodelay=true", None, "nodelay is for TCP");
        check_refused(SWEEP, "outstanding=2", None, "outstanding is for requests and responses");
        check_refused(SWEEP, "message_size=64,1M", None, "message_size=1M suits no part");
        check_refused(MIXED, "alignment=3", None, "power of two");
        check_refused(MIXED, "workload=udp-stream", None, "only tcp-rr, tcp-stream, udp-rr; run the plan 'udp-stream'");
    }

    #[test]
    fn bad_overrides_are_refused() {
        check_refused(SWEEP, "rate=-5M", None, "rate: '-5M' is not allowed; write bits per second like 100M");
        check_refused(SWEEP, "rats=5M", None, "there is no option 'rats'; did you mean 'rate'?");
        check_refused(SWEEP, "target.mtu=big", None, "target.mtu: 'big' is not allowed; write bytes like 1500");
        check_refused(SWEEP, "target.mtuu=9000", None, "target.mtuu: there is no setting 'mtuu'; did you mean 'mtu'?");
        check_refused(SWEEP, "host.custom.x=1", None, "the plan does not define custom.x");
        check_refused(SWEEP, "rate=5M rate=6M", None, "set twice; several levels are written rate=A,B");
        check_refused(SWEEP, "rate=", None, "rate: '' is not allowed");
        check_refused(SWEEP, "message_size=1K,1024", None, "level 1K is there twice");
        check_refused(SWEEP, "duration=0s", None, "1ms to 8784h");
        check_refused(SWEEP, "duration=1s bytes=5M", None, "leave one of them out");
        check_refused(SWEEP, "repeat=0", None, "a whole number from 1 to 100000");
        check_refused(SWEEP, "repeat=2", Some(2), "given twice");
        check_refused(SWEEP, "", Some(0), "from 1 to 100000");
        check_refused(SWEEP, "", Some(100_000), "plan test: 400000 trials are too many; take fewer levels");
        check_refused(MIXED, "bytes=1M warmup=1s workload=tcp-stream", None, "part 1: a trial of a number of bytes");
        check_refused(
            "workload = 'tcp-rr'",
            "outstanding=200 request_size=1K,8",
            None,
            "plan test, request_size 1K: outstanding times",
        );
    }

    #[test]
    fn a_level_is_written_in_one_way() {
        for (name, text, level) in [
            ("message_size", "1024", "1K"),
            ("rate", "0.5M", "500K"),
            ("rate", "1000pps", "1kpps"),
            ("duration", "90", "90s"),
            ("duration", "120s", "2m"),
            ("bytes", "64MiB", "64M"),
            ("nodelay", "yes", "true"),
            ("nodelay", "auto", "auto"),
            ("congestion_control", "reno", "reno"),
        ] {
            assert_eq!(canonical(name, text).unwrap(), level, "{name}={text}");
            assert_eq!(canonical(name, level).unwrap(), level, "{name}={level}");
        }
    }

    #[test]
    fn times_read_well() {
        for (time, by_bytes, text) in [
            (Duration::from_millis(1500), 0, "2 s"),
            (Duration::from_secs(61), 0, "1 min 1 s"),
            (Duration::from_secs(3600), 0, "1 h"),
            (Duration::from_secs(3725), 3, "1 h 2 min, and 3 trials by bytes"),
            (Duration::ZERO, 3, "as its bytes take"),
        ] {
            assert_eq!(ExpectedTime { time, by_bytes }.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn there_are_as_many_trials_as_levels_multiplied(
            rates in 1usize..6, sizes in 1usize..5, streams in 1usize..4, repeat in 1u32..4,
        ) {
            let list = |n: usize, first: usize| (0..n).map(|k| (first + k).to_string()).collect::<Vec<_>>().join(",");
            let plan = plan("workload = 'udp-stream'\n[factors]\nrate = '5M'\nmessage_size = '16,17'\n");
            let overrides = sets(&format!(
                "rate={} message_size={} streams={}", list(rates, 10_000), list(sizes, 16), list(streams, 1)));
            let trials = plan.trials(&overrides, Some(repeat)).unwrap();
            prop_assert_eq!(trials.len(), rates * sizes * streams * repeat as usize);
            // No configuration comes twice in a round.
            let mut seen: Vec<String> = trials.iter().map(|t| format!("{} {:?}", t.repeat, t.spec)).collect();
            seen.sort();
            seen.dedup();
            prop_assert_eq!(seen.len(), trials.len());
        }
    }
}
