//! A profile as a flame graph: stacks joined where they begin alike, the dearest first.
//! Knows no form; a file that a browser can zoom in is `crate::render::flame`'s.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use linerate_chart::{Axis, Cell, Chart, Flame, Frame, Marks, Panel, Series, Table};
use linerate_results::profile::categories::Table as Categories;
use linerate_results::profile::functions::shown;
use linerate_results::profile::{Category, MachineProfile};
use linerate_results::record::Record;

use super::figures::{cell, trace, whole};
use crate::render::number::{count, figure};
use crate::render::profile::profiled;

/// Functions of less than this share are left to their callers, and so are the innermost of deeper stacks.
const LEAST: f64 = 0.02;
const DEEPEST: usize = 60;
/// The most kinds of work with a colour of their own; the rest are `OTHERS` together.
const KINDS: usize = 8;
const OTHERS: &str = "other kinds";

/// One of each machine that was sampled, in the colours of all.
pub(super) fn charts(record: &Record) -> Vec<Chart> {
    let all = profiled(record);
    let profiles = all.iter().map(|one| (one.party.name(), Stacks::of(one.profile, one.driver)));
    let profiles: Vec<(&str, Stacks)> = profiles.filter(|(_, stacks)| stacks.all > 0).collect();
    let kinds = Kinds::of(profiles.iter().map(|(_, stacks)| stacks));
    profiles.iter().map(|(end, stacks)| chart(record, end, stacks, &kinds)).collect()
}

/// The stacks of a machine while it was busy.
struct Stacks {
    /// Samples.
    all: u64,
    /// What was called by no other, and then whatever.
    functions: Vec<Called>,
    roots: HashMap<String, usize>,
    /// Samples by what they were for.
    by_category: BTreeMap<Category, u64>,
}

/// A function where it was called.
struct Called {
    name: String,
    category: Option<Category>,
    samples: u64,
    callees: HashMap<String, usize>,
}

impl Stacks {
    fn of(profile: &MachineProfile, driver: Option<&str>) -> Stacks {
        let reader = Categories::shipped().reader(&profile.taken, driver);
        let categories = reader.of_functions();
        let names: Vec<String> = profile.taken.functions.iter().map(shown).collect();
        let mut stacks = Stacks { all: 0, functions: Vec::new(), roots: HashMap::new(), by_category: BTreeMap::new() };
        for stack in &profile.taken.stacks {
            let category = reader.of(stack);
            if category == Category::Idle {
                continue;
            }
            stacks.all = stacks.all.saturating_add(stack.samples);
            let samples = stacks.by_category.entry(category).or_default();
            *samples = samples.saturating_add(stack.samples);
            let process = profile.taken.process(stack).map_or("?", |process| process.name.as_str());
            let frames = stack.frames.iter().rev().map(|frame| *frame as usize);
            let frames = frames.filter_map(|at| Some((names.get(at)?.as_str(), categories[at])));
            let mut caller = None;
            for (name, category) in std::iter::once((process, None)).chain(frames).take(DEEPEST) {
                let at = stacks.called(caller, name, category);
                let samples = &mut stacks.functions[at].samples;
                *samples = samples.saturating_add(stack.samples);
                caller = Some(at);
            }
        }
        stacks
    }

    /// The place of a function that this one called.
    fn called(&mut self, caller: Option<usize>, name: &str, category: Option<Category>) -> usize {
        let new = self.functions.len();
        let callees = match caller {
            Some(caller) => &mut self.functions[caller].callees,
            None => &mut self.roots,
        };
        if let Some(known) = callees.get(name) {
            return *known;
        }
        callees.insert(name.to_owned(), new);
        self.functions.push(Called { name: name.to_owned(), category, samples: 0, callees: HashMap::new() });
        new
    }

    /// Those that took a share worth showing, each before those that it called, the dearest first; with their depths.
    fn dear(&self) -> Vec<(usize, &Called)> {
        let mut dear = Vec::new();
        let mut open: Vec<(usize, usize)> = Vec::new();
        let add = |open: &mut Vec<(usize, usize)>, depth: usize, callees: &HashMap<String, usize>| {
            let is_dear = |at: &&usize| self.functions[**at].samples as f64 >= LEAST * self.all as f64;
            let mut callees: Vec<usize> = callees.values().filter(is_dear).copied().collect();
            // The last is taken first.
            callees.sort_by(|a, b| {
                let [a, b] = [a, b].map(|at| &self.functions[*at]);
                a.samples.cmp(&b.samples).then_with(|| b.name.cmp(&a.name))
            });
            open.extend(callees.into_iter().map(|at| (depth, at)));
        };
        add(&mut open, 0, &self.roots);
        while let Some((depth, at)) = open.pop() {
            let one = &self.functions[at];
            dear.push((depth, one));
            add(&mut open, depth + 1, &one.callees);
        }
        dear
    }
}

/// What functions are shown to be for.
struct Kinds(Vec<Category>);

impl Kinds {
    /// The kinds that took most, in the order in which they are always shown.
    fn of<'a>(all: impl Iterator<Item = &'a Stacks>) -> Kinds {
        let mut samples: BTreeMap<Category, u64> = BTreeMap::new();
        for stacks in all {
            let shown: BTreeSet<Category> = stacks.dear().iter().filter_map(|(_, one)| one.category).collect();
            for category in shown {
                let samples = samples.entry(category).or_default();
                *samples = samples.saturating_add(stacks.by_category.get(&category).copied().unwrap_or(0));
            }
        }
        let mut kinds: Vec<Category> = samples.keys().copied().collect();
        if kinds.len() > KINDS {
            kinds.sort_by_key(|category| std::cmp::Reverse(samples[category]));
            kinds.truncate(KINDS - 1);
            kinds.sort();
        }
        Kinds(kinds)
    }

    /// The kind of a function, by its number.
    fn number(&self, category: Category) -> usize {
        self.0.iter().position(|one| *one == category).unwrap_or(self.0.len())
    }

    fn name(&self, number: usize) -> &'static str {
        self.0.get(number).map_or(OTHERS, |category| category.title())
    }
}

fn chart(record: &Record, end: &str, stacks: &Stacks, kinds: &Kinds) -> Chart {
    let from = trace(&[record]);
    let all = stacks.all as f64;
    let percent = |samples: u64| samples as f64 / all * 100.0;
    let mut table = Table::new(["level", "function", "samples", "% of busy time", "for"]).row([
        Cell::from("0"),
        Cell::from("all"),
        whole(all, &from),
        cell(Some(100.0), 3, &from),
        Cell::from(""),
    ]);
    let mut frames = Vec::new();
    for (depth, one) in stacks.dear() {
        let frame = Frame::new(depth, one.name.as_str(), one.samples as f64);
        let kind = one.category.map(|category| kinds.number(category));
        table = table.row([
            Cell::from((depth + 1).to_string()),
            Cell::from(one.name.as_str()),
            whole(one.samples as f64, &from),
            cell(Some(percent(one.samples)), 3, &from),
            Cell::from(kind.map_or("", |kind| kinds.name(kind))),
        ]);
        frames.push(Frame { kind, ..frame });
    }
    let last = frames.iter().filter_map(|frame| frame.kind).max();
    let names = last.map_or_else(Vec::new, |last| (0..=last).map(|kind| kinds.name(kind).to_owned()).collect());
    let most = stacks.by_category.iter().max_by_key(|(category, samples)| (**samples, std::cmp::Reverse(**category)));
    let most = most.map_or_else(String::new, |(category, samples)| {
        format!("Most went into {}: {} % of ", category.title(), figure(percent(*samples), 3))
    });
    let sentence = format!(
        "{most}{} samples of busy CPUs. Each function stands on its caller; what took less than {} % is left to that.",
        count(stacks.all),
        figure(LEAST * 100.0, 1)
    );
    let flame = Flame { unit: "samples".to_owned(), whole: all, kinds: names, frames };
    let series = Series::new("", Marks::Flame(flame), 0);
    Chart::new(format!("Flame graph of the {end}"), sentence, table).panel(Panel::new(Axis::default()).series(series))
}

#[cfg(test)]
mod tests {
    use linerate_machine::profile::{Function, Process, Stack};
    use linerate_results::sample;

    use super::*;

    /// The document's example, with these stacks: functions by name, the outermost first.
    fn record(stacks: &[(&[&str], u64)]) -> Record {
        let mut record = sample::full();
        let profile = record.target.profile.as_mut().expect("a profile");
        let mut names: Vec<&str> = stacks.iter().flat_map(|(frames, _)| frames.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        let function = |name: &&str| Function { name: Some((*name).to_owned()), object: "kernel".to_owned() };
        profile.taken.functions = names.iter().map(function).collect();
        profile.taken.processes = vec![Process { name: "agent".to_owned(), agent: true }];
        let place = |name: &&str| names.binary_search(name).expect("it is one of them") as u32;
        let stack = |(frames, samples): &(&[&str], u64)| Stack {
            process: 0,
            frames: frames.iter().rev().map(place).collect(),
            samples: *samples,
        };
        profile.taken.stacks = stacks.iter().map(stack).collect();
        record
    }

    fn flame(chart: &Chart) -> &Flame {
        match &chart.panels[0].series[0].marks {
            Marks::Flame(flame) => flame,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn stacks_join_where_they_begin_alike() {
        let record = record(&[
            (&["do_syscall_64", "udp_recvmsg", "_copy_to_iter"], 300),
            (&["do_syscall_64", "udp_recvmsg"], 100),
            (&["do_syscall_64", "udp_sendmsg"], 595),
            (&["do_syscall_64", "udp_sendmsg", "kfree"], 5),
            (&["default_idle"], 4_000),
        ]);
        let [chart] = &charts(&record)[..] else { panic!("one machine was sampled") };
        let flame = flame(chart);
        let shown: Vec<(usize, &str, f64, &str)> = flame
            .frames
            .iter()
            .map(|one| (one.depth, one.name.as_str(), one.count, one.kind.map_or("", |kind| &flame.kinds[kind])))
            .collect();
        // Idle time is left out, and what took half a percent is its caller's.
        let wanted = [
            (0, "agent", 1_000.0, ""),
            (1, "do_syscall_64", 1_000.0, "socket and system call"),
            (2, "udp_sendmsg", 600.0, "protocol"),
            (2, "udp_recvmsg", 400.0, "protocol"),
            (3, "_copy_to_iter", 300.0, "copy"),
        ];
        assert_eq!((flame.whole, &shown[..]), (1_000.0, &wanted[..]));
        assert!(chart.sentence.starts_with("Most went into protocol: 69.5 % of 1,000 samples"), "{}", chart.sentence);
        let row: Vec<&str> = chart.table.rows[5].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(row, ["4", "_copy_to_iter", "300", "30.0", "copy"]);
        assert!(chart.table.rows.iter().flatten().all(|cell| cell.value.is_none() || cell.trace == record.id));
    }

    #[test]
    fn no_profile_is_too_odd() {
        let deep = vec!["udp_rcv"; 5_000];
        let mut odd = record(&[(&deep, u64::MAX), (&["kfree"], u64::MAX), (&[], 3)]);
        let [chart] = &charts(&odd)[..] else { panic!("one machine was sampled") };
        assert!(flame(chart).frames.iter().map(|one| one.depth).max() < Some(DEEPEST));
        let profile = odd.target.profile.as_mut().expect("a profile");
        profile.taken.stacks.iter_mut().for_each(|stack| (stack.process, stack.frames) = (9, vec![u32::MAX; 3]));
        assert_eq!(flame(&charts(&odd)[0]).frames.len(), 1);
        let profile = odd.target.profile.as_mut().expect("a profile");
        profile.taken.stacks.clear();
        assert!(charts(&odd).is_empty());
        odd.target.profile = None;
        assert!(charts(&odd).is_empty());
    }

    #[test]
    fn of_many_kinds_the_largest_have_a_look_of_their_own() {
        let all = [
            "_copy_to_iter",
            "csum_partial",
            "kfree",
            "veth_xmit",
            "net_rx_action",
            "udp_rcv",
            "do_syscall_64",
            "__dev_queue_xmit",
            "native_queued_spin_lock_slowpath",
            "exc_page_fault",
        ];
        let stacks: Vec<(&[&str], u64)> =
            all.iter().zip(20..).map(|(name, samples)| (std::slice::from_ref(name), samples)).collect();
        let charts = charts(&record(&stacks));
        let flame = flame(&charts[0]);
        assert_eq!((flame.kinds.len(), flame.kinds.last().map(String::as_str)), (KINDS, Some(OTHERS)));
        let others = flame.frames.iter().filter(|one| one.kind == Some(KINDS - 1)).map(|one| one.name.as_str());
        assert_eq!(others.collect::<Vec<_>>(), ["kfree", "csum_partial", "_copy_to_iter"]);
    }
}
