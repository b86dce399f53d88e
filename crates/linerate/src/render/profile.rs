//! Profiles for people: a machine's time by kinds of work and by functions, and how two profiles differ.
//! Knows no samples one by one; `crate::profile` counts them.

use linerate_machine::end::Party;
use linerate_machine::profile::{ProfileClock, ProfileScope};
use linerate_results::profile::difference::{Difference, Row, Unit, by_sample};
use linerate_results::profile::functions::functions;
use linerate_results::profile::{Category, CategoryTime, MachineProfile};
use linerate_results::record::Record;
use linerate_results::total::Total;
use linerate_trial::doubt::DoubtKind;

use super::fitting::{Columns, grid};
use super::number::{count, figure, percent};
use super::table_model::{Cell, Table};
use super::{sentence, wrapped};

/// The most functions that are shown.
const FUNCTIONS: usize = 25;

/// A machine with a profile, and the driver of its interface.
pub(crate) struct Profiled<'a> {
    pub(crate) party: Party,
    pub(crate) profile: &'a MachineProfile,
    pub(crate) driver: Option<&'a str>,
}

/// The profiles of a record that tell something of their own: a middle that runs on an end's machine has that end's.
pub(crate) fn profiled(record: &Record) -> Vec<Profiled<'_>> {
    let is_shared = record.has_doubt(DoubtKind::MiddleSharesMachine);
    let mut all = Vec::new();
    for (party, machine) in record.parties().filter(|(party, _)| !(is_shared && *party == Party::Middle)) {
        let driver = match (&record.middle, party) {
            (Some(middle), Party::Middle) => middle.ports.target.driver(),
            _ => machine.environment.nic.as_ref().and_then(|nic| nic.driver.as_deref()),
        };
        all.extend(machine.profile.as_ref().map(|profile| Profiled { party, profile, driver }));
    }
    all
}

/// Kinds of work at both ends of a trial, and what the samples were; nothing where none were taken.
pub(super) fn of_record(record: &Record, width: Option<u16>) -> String {
    // One that both ends share is sampled once.
    let shared = record.target.environment.is_machine_of(&record.host.environment) && record.host.profile.is_none();
    let name = |party: Party| if shared && party == Party::Target { "machine" } else { party.name() };
    let taken: Vec<(&str, &MachineProfile)> =
        profiled(record).iter().map(|one| (name(one.party), one.profile)).collect();
    if taken.is_empty() {
        return String::new();
    }
    let unit = if record.workload.is_stream() { "µs/packet" } else { "µs/transaction" };
    let mut text = categories(&taken, unit, width);
    for (end, profile) in taken {
        text += &format!("\n{end}: {}", how(profile));
    }
    text
}

/// One profile in full: kinds of work, and the functions that took most.
pub(crate) fn whole(
    name: &str,
    profile: &MachineProfile,
    driver: Option<&str>,
    unit: &str,
    width: Option<u16>,
) -> String {
    let mut text = categories(&[(name, profile)], unit, width);
    text += &wrapped(&format!("\n\n{name}: {}\n", how(profile)), width);
    let share = by_sample(profile, |one| one.share);
    let by_packet = by_sample(profile, |one| one.us_per_packet);
    let all = functions(profile, driver);
    let rows = all.iter().take(FUNCTIONS).map(|one| {
        vec![
            Cell::text(short(&one.name)),
            share.map(|share| Cell::percent(share * one.samples as f64)).into(),
            by_packet.map(|us| Cell::number(us * one.samples as f64, 2)).into(),
            Cell::count(one.samples),
            Cell::text(one.category.title()),
        ]
    });
    text += &format!("\n{}\n", filled(["innermost function", "% of time", unit, "samples", "mostly for"], rows, width));
    if all.len() > FUNCTIONS {
        let rest = all[FUNCTIONS..].iter().map(|one| one.samples).total();
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
fn filled<T: AsRef<str>>(
    titles: impl IntoIterator<Item = T>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
    width: Option<u16>,
) -> String {
    Table::new(titles, rows).filled().text(width, &mut Columns::default())
}

fn categories(profiles: &[(&str, &MachineProfile)], packet: &str, width: Option<u16>) -> String {
    let mut titles = vec![String::new()];
    for (name, _) in profiles {
        titles.extend(["% of time", packet, "µs/KiB"].map(|unit| format!("{name}\n{unit}")));
    }
    let us = |value: Option<f64>| value.map(|value| Cell::number(value, 2)).into();
    let row = |title: &str, of: &dyn Fn(&MachineProfile) -> [Cell; 3]| {
        std::iter::once(Cell::text(title)).chain(profiles.iter().flat_map(|(_, profile)| of(profile))).collect()
    };
    let is_there = |category: &Category| {
        let mut times = profiles.iter().filter_map(|(_, profile)| profile.of(*category));
        times.any(|one| one.samples > 0 || one.share == Some(1.0))
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for category in Category::ALL.into_iter().filter(is_there) {
        rows.push(row(category.title(), &|profile| {
            let one = profile.of(category);
            let share = one.and_then(|one| one.share).map(Cell::percent).into();
            [share, us(one.and_then(|one| one.us_per_packet)), us(one.and_then(|one| one.us_per_kib))]
        }));
    }
    rows.push(row("all", &|profile| {
        let sum = |of: fn(&CategoryTime) -> Option<f64>, idle: bool| {
            let counted = profile.categories.iter().filter(|one| idle || one.category != Category::Idle);
            counted.map(of).sum::<Option<f64>>()
        };
        // Shares add up to one, but for what adding floating-point numbers takes.
        let whole = sum(|one| one.share, true).map(|whole| if (whole - 1.0).abs() < 1e-9 { 1.0 } else { whole });
        [whole.map(Cell::percent).into(), us(sum(|one| one.us_per_packet, false)), us(sum(|one| one.us_per_kib, false))]
    }));
    filled(titles, rows, width)
}

/// What the samples were, and what they cost.
pub(super) fn how(profile: &MachineProfile) -> String {
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
pub(crate) fn difference(difference: &Difference, width: Option<u16>) -> String {
    let unit = match difference.unit {
        Unit::MicrosecondsPerPacket => "µs/packet",
        Unit::PercentOfTime => "% of time",
    };
    let shown: Vec<Row> = difference.functions.iter().filter(|row| row.is_clear()).take(FUNCTIONS).cloned().collect();
    let titled = |first: &str, rows: &[Row]| {
        let titles = ["before", "after", "grew by", "± counting (95 %)"].map(|title| format!("{title}\n{unit}"));
        let titles = [vec![first.to_owned()], titles.to_vec(), vec![String::new()]].concat();
        let rows = rows.iter().map(|row| {
            let sign = if row.growth() > 0.0 { "+" } else { "" };
            vec![
                Cell::text(short(&row.name)),
                Cell::number(row.before, 3),
                Cell::number(row.after, 3),
                Cell::numbers(format!("{sign}{}", figure(row.growth(), 2))),
                Cell::number(row.noise, 2),
                Cell::text(if row.is_clear() { "" } else { "within noise" }),
            ]
        });
        grid(titles, rows, width)
    };
    let mut text = titled("kind of work", &difference.categories);
    if shown.is_empty() {
        text += "\nNo function's time differs by more than the noise of counting.\n";
    } else {
        text += &format!("\n{}", titled("innermost function", &shown));
    }
    text
}
