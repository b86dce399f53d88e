//! Profiles for people: a machine's time by kinds of work and by functions, and how two profiles differ.
//! Knows no samples one by one; `crate::profile` counts them.

use linerate_results::profile::{Category, MachineProfile};
use linerate_results::record::Record;
use linerate_trial::profile::{ProfileClock, ProfileScope};

use super::number::{count, figure, percent};
use super::sentence;
use super::show::grid;
use linerate_results::profile::difference::{Difference, Row, Unit, by_sample};
use linerate_results::profile::functions::functions;

/// The most functions that are shown.
const FUNCTIONS: usize = 25;

/// Kinds of work at both ends of a trial, and what the samples were; nothing where none were taken.
pub(super) fn of_record(record: &Record) -> String {
    // One that both ends share is sampled once.
    let shared = record.target.environment.is_machine_of(&record.host.environment) && record.host.profile.is_none();
    let ends = [(if shared { "machine" } else { "target" }, &record.target), ("host", &record.host)];
    let taken: Vec<(&str, &MachineProfile)> =
        ends.iter().filter_map(|(end, machine)| Some((*end, machine.profile.as_ref()?))).collect();
    if taken.is_empty() {
        return String::new();
    }
    let unit = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
    let mut text = categories(&taken, unit);
    for (end, profile) in taken {
        text += &format!("\n{end}: {}", how(profile));
    }
    text
}

/// One profile in full: kinds of work, and the functions that took most.
pub(crate) fn whole(name: &str, profile: &MachineProfile, driver: Option<&str>, unit: &str) -> String {
    let mut text = categories(&[(name, profile)], unit);
    text += &format!("\n{name}: {}\n", how(profile));
    let share = by_sample(profile, |one| one.share);
    let by_packet = by_sample(profile, |one| one.us_per_packet);
    let all = functions(profile, driver);
    let rows = all.iter().take(FUNCTIONS).map(|one| {
        vec![
            short(&one.name),
            share.map_or(String::new(), |share| percent(share * one.samples as f64)),
            by_packet.map_or(String::new(), |us| figure(us * one.samples as f64, 2)),
            count(one.samples),
            one.category.title().to_owned(),
        ]
    });
    let titles = ["innermost function", "% of time", unit, "samples", "mostly for"].map(str::to_owned).to_vec();
    text += &format!("\n{}\n", filled(titles, rows.collect()));
    if all.len() > FUNCTIONS {
        let rest: u64 = all[FUNCTIONS..].iter().map(|one| one.samples).sum();
        text += &format!("and {} functions more with {} samples in all\n", all.len() - FUNCTIONS, count(rest));
    }
    text
}

/// A name that leaves room for figures: those of C++ and Rust know no bounds.
fn short(name: &str) -> String {
    const LONGEST: usize = 72;
    let mut short: String = name.chars().take(LONGEST).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

/// A grid without the columns that nobody fills.
fn filled(titles: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let filled: Vec<bool> = (0..titles.len()).map(|at| rows.iter().any(|row| !row[at].is_empty())).collect();
    let keep = |row: Vec<String>| -> Vec<String> {
        row.into_iter().zip(&filled).filter(|(_, filled)| **filled).map(|(text, _)| text).collect()
    };
    grid(keep(titles), rows.into_iter().map(keep).collect())
}

fn categories(profiles: &[(&str, &MachineProfile)], packet: &str) -> String {
    let mut titles = vec![String::new()];
    for (name, _) in profiles {
        titles.extend(["% of time", packet, "µs/KiB"].map(|unit| format!("{name}\n{unit}")));
    }
    let write = |value: Option<f64>| value.map_or(String::new(), |value| figure(value, 2));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for category in Category::ALL {
        let of = |profile: &MachineProfile| profile.of(category).cloned();
        if profiles.iter().all(|(_, profile)| of(profile).is_none_or(|one| one.samples == 0 && one.share != Some(1.0)))
        {
            continue;
        }
        let mut row = vec![category.title().to_owned()];
        for (_, profile) in profiles {
            let one = of(profile);
            row.push(one.as_ref().and_then(|one| one.share).map_or(String::new(), percent));
            row.push(write(one.as_ref().and_then(|one| one.us_per_packet)));
            row.push(write(one.as_ref().and_then(|one| one.us_per_kib)));
        }
        rows.push(row);
    }
    let mut all = vec!["all".to_owned()];
    for (_, profile) in profiles {
        let sum = |of: fn(&linerate_results::profile::CategoryTime) -> Option<f64>, idle: bool| {
            let counted = profile.categories.iter().filter(|one| idle || one.category != Category::Idle);
            counted.map(of).sum::<Option<f64>>()
        };
        // Shares add up to one, but for what adding floating-point numbers takes.
        let whole = sum(|one| one.share, true).map(|whole| if (whole - 1.0).abs() < 1e-9 { 1.0 } else { whole });
        all.push(whole.map_or(String::new(), percent));
        all.push(write(sum(|one| one.us_per_packet, false)));
        all.push(write(sum(|one| one.us_per_kib, false)));
    }
    rows.push(all);
    filled(titles, rows)
}

/// What the samples were, and what they cost.
fn how(profile: &MachineProfile) -> String {
    let taken = &profile.taken;
    let clock = match taken.clock {
        ProfileClock::Cycles => "the processor's cycles",
        ProfileClock::CpuClock => "the kernel's clock",
    };
    let whose = match taken.scope {
        ProfileScope::Machine => String::new(),
        ProfileScope::Agent => " of the agent's own threads".to_owned(),
    };
    let mut text = format!(
        "{} samples{whose} by {clock}, {} a second on each of {} CPUs for {} s; {} lost",
        count(taken.samples),
        taken.hz,
        taken.cpus,
        figure(taken.span_s, 3),
        count(taken.lost),
    );
    if taken.cut > 0 {
        text += &format!("; {} without their callers, for there were too many stacks", count(taken.cut));
    }
    text += &match (taken.own_share(), taken.span_s * f64::from(taken.cpus)) {
        (Some(share), _) => format!("; sampling took about {} % of the CPUs", percent(share)),
        (None, time) if time > 0.0 => {
            format!("; reading the samples took {} % of the CPUs", percent(taken.reader_cpu_s / time))
        }
        _ => String::new(),
    };
    for note in &taken.notes {
        text += &format!("\n  {}", sentence(note));
    }
    text
}

/// How a profile differs from one before it.
pub(crate) fn difference(difference: &Difference) -> String {
    let unit = match difference.unit {
        Unit::MicrosecondsPerPacket => "µs/packet",
        Unit::PercentOfTime => "% of time",
    };
    let shown: Vec<Row> = difference.functions.iter().filter(|row| row.is_clear()).take(FUNCTIONS).cloned().collect();
    let titles = |first: &str| {
        let titles = ["before", "after", "grew by", "± counting (95 %)"].map(|title| format!("{title}\n{unit}"));
        [vec![first.to_owned()], titles.to_vec(), vec![String::new()]].concat()
    };
    let rows = |rows: &[Row]| -> Vec<Vec<String>> {
        rows.iter()
            .map(|row| {
                let numbers = [row.before, row.after].map(|value| figure(value, 3));
                let sign = if row.growth() > 0.0 { "+" } else { "" };
                let growth = format!("{sign}{}", figure(row.growth(), 2));
                let verdict = if row.is_clear() { "" } else { "within noise" };
                [vec![short(&row.name)], numbers.to_vec(), vec![growth, figure(row.noise, 2), verdict.to_owned()]]
                    .concat()
            })
            .collect()
    };
    let mut text = format!("{}\n", grid(titles("kind of work"), rows(&difference.categories)));
    if shown.is_empty() {
        text += "\nNo function's time differs by more than the noise of counting.\n";
    } else {
        text += &format!("\n{}\n", grid(titles("innermost function"), rows(&shown)));
    }
    text
}
