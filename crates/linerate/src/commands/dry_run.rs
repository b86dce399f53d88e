//! `linerate run … --dry-run`: every trial in its order, what will be skipped and why, and the time it takes.
//! Knows no traffic, and changes nothing: both machines are asked what they have.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use linerate_control::{ConnectOptions, Endpoint};
use linerate_machine::change::{Access, Custom};
use linerate_machine::end::{End, PerEnd};
use linerate_machine::printable::in_line;
use linerate_machine::setting::BOOT;
use linerate_machine::units::format_duration;

use super::connected;
use crate::cli::{OutputArgs, RunArgs};
use crate::measure::boot::Boots;
use crate::measure::campaign::Order;
use crate::measure::settings::foreseen;
use crate::output::{beside, data, out};
use crate::progress::Progress;
use crate::render::matrix::{self as render, Matrix};
use crate::render::number::counted;
use linerate_plan::{BESIDE_A_TRIAL, Boot, Changes, ExpectedTime, Plan, PlannedTrial, WantedSetting};

/// Shows what a run would do.
pub(super) fn dry_run(
    order: &Order<'_>,
    arguments: &RunArgs,
    ends: &PerEnd<Endpoint>,
    quiet: bool,
    options: &ConnectOptions,
) -> Result<ExitCode> {
    let (_started, pair) = connected(ends, &arguments.ends, options, &Progress::new(quiet))?;
    // What the plan reads and sets by programs and files of its own is shown and left alone: to run a stranger's plan dry
    // must be safe.
    let others: Vec<PlannedTrial> = order.trials.iter().map(without_own).collect();
    let refused = foreseen(&pair, &others)?;
    pair.end();
    show(&matrix(order.plan, &order.changes, &order.trials, &refused), arguments.output);
    Ok(ExitCode::SUCCESS)
}

fn without_own(trial: &PlannedTrial) -> PlannedTrial {
    let mut trial = trial.clone();
    trial.settings.retain(|one| one.change.custom.is_none());
    trial
}

/// The trials in the form that the user wants.
fn show(matrix: &Matrix<'_>, output: OutputArgs) {
    match output {
        OutputArgs { json: true, .. } => data!("{}", render::json(matrix)),
        OutputArgs { csv: true, .. } => {
            data!("{}", render::csv(matrix));
            beside(&matrix.conclusion);
        }
        OutputArgs { markdown: true, .. } => out!("{}", render::answer(matrix).markdown()),
        _ => super::show(&render::text(matrix), false),
    }
}

/// The trials, and what they come to.
pub(crate) fn matrix<'a>(
    plan: &'a Plan,
    changed: &Changes,
    trials: &'a [PlannedTrial],
    refused: &'a [(u32, String)],
) -> Matrix<'a> {
    let skipped = |trial: &&PlannedTrial| refused.iter().any(|(index, _)| *index == trial.index);
    let measured: Vec<&PlannedTrial> = trials.iter().filter(|trial| !skipped(trial)).collect();
    let mut text =
        format!("plan {}: {}, {} of them skipped\n", plan.name, counted(trials.len(), "trial"), refused.len());
    text += &match changed.seed {
        None => "order: the plan's\n".to_owned(),
        Some(seed) => format!("order: by chance in each round; --seed {seed} gives this one again\n"),
    };
    if let Some(precision) = changed.precision {
        let goal = (precision.part * 1e8).round() / 1e6;
        text += &format!("trials end for a configuration whose median is known to within {goal} %: fewer, then\n");
    }
    text += &boots(plan, trials);
    text += &own_programs(trials);
    let estimate = Estimate::of(&measured, plan);
    if estimate.changed > 0 {
        text += &format!("{} on the way, all put back at the end\n", counted(estimate.changed, "change of a setting"));
    }
    let conclusion = text + &estimate.sentence(changed.precision.is_some());
    Matrix { plan: &plan.name, order_seed: changed.seed, trials, refused, conclusion, time: estimate.all() }
}

/// How long it will take. What is known are the trials' own times; the rest is what such things took on machines that
/// were seen, and a machine may take twice that.
#[derive(Default)]
struct Estimate {
    traffic: ExpectedTime,
    beside: Duration,
    changed: usize,
    changes: Duration,
    boots: Duration,
}

/// A board, from its command to an agent that answers, unless its `wait` is shorter.
const BOOT_TIME: Duration = Duration::from_secs(60);

/// What a change of a setting takes, by how dear the table of settings says it is.
fn change_time(dear: u8) -> Duration {
    Duration::from_millis(match dear {
        0 | 1 => 50,
        2 => 500,
        // The driver makes its rings anew, and the PHY comes up again: two to four seconds (IEEE 802.3, 28.3.2).
        _ => 4000,
    })
}

impl Estimate {
    fn of(measured: &[&PlannedTrial], plan: &Plan) -> Estimate {
        let mut estimate = Estimate { traffic: ExpectedTime::of(measured.iter().copied()), ..Estimate::default() };
        estimate.beside = BESIDE_A_TRIAL * measured.len() as u32;
        let mut before: &[WantedSetting] = &[];
        for trial in measured {
            for one in trial.settings.iter().filter(|one| !before.contains(one)) {
                if one.change.name == BOOT {
                    let wait = plan.boots.iter().find(|boot| boot.name == one.change.value).map(|boot| boot.wait);
                    estimate.boots += wait.unwrap_or(BOOT_TIME).min(BOOT_TIME);
                } else {
                    estimate.changed += 1;
                    estimate.changes += change_time(one.dear());
                }
            }
            before = &trial.settings;
        }
        estimate
    }

    fn all(&self) -> Duration {
        self.traffic.time + self.beside + self.changes + self.boots
    }

    fn sentence(&self, at_most: bool) -> String {
        let words = |time: Duration| ExpectedTime { time, by_bytes: 0 }.to_string();
        // Of a short run tenths of a second are a large part.
        let part = |time: Duration| match time {
            time if time < Duration::from_secs(10) => format!("{:.1} s", time.as_secs_f64()),
            time => words(time),
        };
        let mut parts =
            vec![format!("{} of traffic", part(self.traffic.time)), format!("{} beside it", part(self.beside))];
        if self.changed > 0 {
            parts.push(format!("{} for changing settings", part(self.changes)));
        }
        if !self.boots.is_zero() {
            parts.push(format!("{} for booting", words(self.boots)));
        }
        let most = if at_most { "at most " } else { "" };
        let bytes = match self.traffic.by_bytes {
            0 => String::new(),
            trials => format!(", and what {} by bytes take", counted(trials, "trial")),
        };
        format!("time in all, an estimate: {most}{} ({}){bytes}\n", words(self.all()), parts.join(", "))
    }
}

/// What boots machines, how often, and what is seen of it.
fn boots(plan: &Plan, trials: &[PlannedTrial]) -> String {
    let count = Boots::default().needed(trials) as usize;
    let is_wanted = |boot: &&Boot| {
        let name = Some(boot.name.as_str());
        trials.iter().any(|trial| trial.boot(End::Target) == name || trial.boot(End::Host) == name)
    };
    let wanted: Vec<&Boot> = plan.boots.iter().filter(is_wanted).collect();
    let Some(longest) = wanted.iter().map(|boot| boot.wait).max() else { return String::new() };
    let longest = format_duration(longest);
    let mut text =
        format!("{} beside it, each at most {longest}, by commands on this machine:\n", counted(count, "boot"));
    for boot in wanted {
        let command = boot.command.join(" ");
        let command = command.strip_prefix("/bin/sh -c ").unwrap_or(&command);
        let line = format!("boot.{}: {command}; {}", boot.name, boot.checks);
        text += &format!("  {}\n", in_line(&line, 1000));
    }
    text
}

/// The programs and files of the plan's own by which it would read and set a machine's settings; none is touched now.
fn own_programs(trials: &[PlannedTrial]) -> String {
    let way = |access: &Access| match access {
        Access::File(path) => format!("the file {path}"),
        Access::Command(words) => words.join(" "),
    };
    let lines: BTreeSet<String> = trials
        .iter()
        .flat_map(|trial| &trial.settings)
        .filter_map(|one| {
            let Custom { get, set } = one.change.custom.as_ref()?;
            let line = format!("{}.{}: read by {}, set by {}", one.end, one.change.name, way(get), way(set));
            Some(format!("  {}\n", in_line(&line, 1000)))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let head = "programs and files of the plan's own, used on that machine as its agent's user; not tried now:\n";
    head.to_owned() + &lines.into_iter().collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_with_a_machine_that_lacks_something() {
        let text = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\n[options]\nhost.gro = 'off'\n\
                    duration = '5s'\n[factors]\nrate = '100M,200M'\ntarget.mtu = [1500, 9000]\n";
        let plan = Plan::parse(text, "mtu.toml", "mtu").unwrap();
        let trials = plan.trials(&[], None).unwrap();
        let refused: Vec<(u32, String)> = trials
            .iter()
            .filter(|trial| trial.factors[1].1 == "9000")
            .map(|trial| (trial.index, "the target: mtu is not there; leave it out".to_owned()))
            .collect();
        let changes = Changes { seed: Some(482_913), ..Changes::default() };
        let matrix = matrix(&plan, &changes, &trials, &refused);
        insta::assert_snapshot!(render::text(&matrix));
        let other = [render::answer(&matrix).markdown(), render::csv(&matrix), render::json(&matrix)];
        insta::assert_snapshot!("in_other_forms", other.join("\n"));
    }

    #[test]
    fn a_matrix_with_boots() {
        let text = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\n[factors]\n\
                    target.boot = ['vendor', 'mainline']\n[boot.vendor]\ncommand = 'ssh root@board ./boot vendor'\n\
                    [boot.mainline]\ncommand = ['relay', 'off-on']\nkernel = '6.6*'\nbuild = '#12 *'\n\
                    srcversion = { fec = '1F0E3D9C' }\nwait = '90s'\n";
        let plan = Plan::parse(text, "boot.toml", "boot").unwrap();
        let trials = plan.trials(&[], None).unwrap();
        insta::assert_snapshot!(render::text(&matrix(&plan, &Changes::default(), &trials, &[])));
    }
}
