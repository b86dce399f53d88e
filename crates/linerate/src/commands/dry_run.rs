//! `linerate run … --dry-run`: every trial in its order, what will be skipped and why, and the time it takes.
//! Knows no traffic, and changes nothing: both machines are asked what they have.

use std::process::ExitCode;

use anyhow::Result;
use linerate_control::ConnectOptions;
use linerate_trial::flow::End;
use linerate_trial::setting::BOOT;
use linerate_trial::units::format_duration;

use super::say_notes;
use crate::cli::RunArgs;
use crate::interrupt;
use crate::measure::boot::Boots;
use crate::measure::pair::{GivenAddresses, Pair};
use crate::measure::settings::foreseen;
use crate::output::out;
use crate::plan::{Boot, ExpectedTime, Plan, PlannedTrial, WantedSetting};

/// Shows what a run would do.
pub(super) fn dry_run(
    plan: &Plan,
    trials: &[PlannedTrial],
    arguments: &RunArgs,
    options: &ConnectOptions,
) -> Result<ExitCode> {
    interrupt::listen();
    let given = GivenAddresses { target: arguments.target_address, host: arguments.host_address };
    let pair = Pair::connect(&arguments.target, &arguments.host, given, options)?;
    for client in [&pair.target, &pair.host] {
        say_notes(client);
    }
    let refused = foreseen(&pair, trials)?;
    pair.end();
    out!("{}", shown(plan, trials, &refused));
    Ok(ExitCode::SUCCESS)
}

/// A line for each trial, then what it comes to.
fn shown(plan: &Plan, trials: &[PlannedTrial], refused: &[(u32, String)]) -> String {
    let mut text = String::new();
    let wide = trials.len().to_string().len();
    let mut before: &[WantedSetting] = &[];
    let mut changes = 0;
    for trial in trials {
        let why = refused.iter().find(|(index, _)| *index == trial.index).map(|(_, sentence)| sentence);
        let mut words = vec![format!("{} {}", trial.spec.workload, trial.spec.direction)];
        words.extend(
            trial
                .factors
                .iter()
                .filter(|(name, _)| name != "workload" && name != "direction")
                .map(|(name, level)| format!("{name}={level}")),
        );
        // What is fixed is a setting as well, and what is changed on a machine must be seen.
        for one in &trial.settings {
            let word = format!("{}.{}={}", one.end, one.change.name, one.change.value);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let skipped = why.map(|sentence| format!("  skipped: {sentence}")).unwrap_or_default();
        text += &format!("{:>wide$}  repeat {}  {}{skipped}\n", trial.index + 1, trial.repeat + 1, words.join(" "));
        if why.is_none() {
            let differs = |one: &&WantedSetting| one.change.name != BOOT && !before.contains(one);
            changes += trial.settings.iter().filter(differs).count();
            before = &trial.settings;
        }
    }
    let measured = trials.iter().filter(|trial| !refused.iter().any(|(index, _)| *index == trial.index));
    let time = ExpectedTime::of(measured.clone());
    text += &format!(
        "\nplan {}: {}, {} of them skipped; the traffic of the others takes {time}, and each costs a little beside it\n",
        plan.name,
        counted(trials.len(), "trial"),
        refused.len(),
    );
    text += &boots(plan, trials);
    if changes > 0 {
        text += &format!("{} on the way, all put back at the end\n", counted(changes, "change of a setting"));
    }
    text
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
        text += &format!("  boot.{}: {command}; {}\n", boot.name, boot.checks);
    }
    text
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((noun, rest))) => format!("{count} {noun}s {rest}"),
        (_, None) => format!("{count} {what}s"),
    }
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
        insta::assert_snapshot!(shown(&plan, &trials, &refused));
    }

    #[test]
    fn a_matrix_with_boots() {
        let text = "format = 'linerate.plan/1'\nworkload = 'udp-stream'\nrepeat = 2\n[factors]\n\
                    target.boot = ['vendor', 'mainline']\n[boot.vendor]\ncommand = 'ssh root@board ./boot vendor'\n\
                    [boot.mainline]\ncommand = ['relay', 'off-on']\nkernel = '6.6*'\nbuild = '#12 *'\n\
                    srcversion = { fec = '1F0E3D9C' }\nwait = '90s'\n";
        let plan = Plan::parse(text, "boot.toml", "boot").unwrap();
        insta::assert_snapshot!(shown(&plan, &plan.trials(&[], None).unwrap(), &[]));
    }
}
