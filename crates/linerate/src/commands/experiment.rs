//! `linerate explain --try`: does what a finding suggests help? Both ways in turns, on the machines of the record.
//! Knows no statistics and no settings: a plan with one factor is carried out, and its two sides are compared.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use linerate_control::{Client, Endpoint};
use linerate_machine::change::{CUSTOM, Change};
use linerate_machine::end::{Party, PerEnd};
use linerate_machine::text::shell_word;
use linerate_machine::units::{format_duration, parse_duration};
use linerate_results::compare::verdict::Verdict;
use linerate_results::compare::{self, CompareOptions, Comparison, Judged};
use linerate_results::figure::Metric;
use linerate_results::findings::Suggestion;
use linerate_results::observation::Observation;
use linerate_results::record::Record;
use linerate_results::store::{Store, TRIES};
use linerate_trial::options::setting_of;
use linerate_trial::spec::Spec;

use super::plan_request::PlanRequest;
use super::run::drawn_seed;
use super::settings::set_to_stay;
use super::{connect_options, say_notes, status, width};
use crate::cli::{ExplainArgs, SharedArgs};
use crate::interrupt;
use crate::measure::campaign;
use crate::measure::middle::{AskedMiddle, GivenPorts};
use crate::measure::pair::{GivenAddresses, Pair};
use crate::measure::settings;
use crate::output::{out, say};
use crate::progress::Progress;
use crate::render::compare as render;
use crate::render::explain::Explained;
use crate::render::wrapped;
use linerate_plan::Changes;

/// The longest that a trial of the comparison takes: many short ones tell more than few long ones.
const LONGEST: Duration = Duration::from_secs(3);
/// What is judged beside the metric that should get better.
const BESIDE: [&str; 3] = ["throughput", "loss", "latency_p50"];

/// Tries the first suggestion there is. The status is 0 if it helped, and 1 if it did not or cannot be told.
pub(super) fn experiment(
    arguments: &ExplainArgs,
    shared: &SharedArgs,
    record: &Record,
    explained: &Explained,
    store: &mut Store,
) -> Result<ExitCode> {
    let first = explained.findings().iter().find_map(|one| Some((one, one.tries.first()?)));
    let Some((finding, suggestion)) = first else {
        bail!(
            "record {} has no finding that suggests a setting to try; linerate explain {} says what it has",
            record.id,
            record.id
        );
    };
    let [target, host] =
        [&record.target, &record.host].map(|machine| endpoint(&machine.endpoint, arguments.allow_exec));
    let (target, host) = (target?, host?);
    let options = connect_options(shared)?;

    interrupt::listen();
    let given = |address: &Option<String>| address.as_ref().and_then(|text| text.parse().ok());
    let given = GivenAddresses { target: given(&record.target.address), host: given(&record.host.address) };
    let mut pair = Pair::connect(&target, &host, given, &options)?;
    if let Some(middle) = &record.middle {
        let interfaces = Some(GivenPorts(PerEnd::of(|end| middle.ports[end].interface.clone())));
        let endpoint = endpoint(&middle.machine.endpoint, arguments.allow_exec)?;
        pair.reach_middle(Some(&AskedMiddle { endpoint, interfaces }))?;
    }
    for client in pair.clients() {
        say_notes(client);
    }
    let before = value_before(&pair, record, suggestion)?;
    if before == suggestion.value {
        bail!("{} is {before} already; measure again, for the record is of another state", suggestion.name);
    }
    let sides = [before.as_str(), suggestion.value.as_str()];
    let text = plan_text(record, &suggestion.name, sides, arguments.repeat)?;
    // In a balanced order left to chance, so that a drift is on both sides alike.
    let changes = Changes { seed: Some(drawn_seed()?), ..Changes::default() };
    let wanted = PlanRequest { name: "try".to_owned(), source: text, changes, search: Vec::new(), middle: None };
    let mut order = wanted.begin().context("what the record was asked cannot be asked again")?;
    TRIES.clone_into(&mut order.plan.name);
    if !shared.quiet {
        let tried = format!("{}={} instead of {before}, in turns", suggestion.name, suggestion.value);
        say(format_args!("linerate: trying {tried}, for the finding {}: {}", finding.name, finding.sentence));
    }
    let progress = Progress::new(shared.quiet);
    let mut records = Vec::new();
    let ended =
        campaign::run(&order.borrow(), &mut pair, store, &|event| progress.hear(event), &mut |record: &Record| {
            records.push(Observation::of(record));
        });
    progress.clear();
    let sides = order.levels_of(&suggestion.name);
    let comparison = match compared(&records, &suggestion.name, &sides, suggestion) {
        Ok(comparison) => comparison,
        // Why it ended early tells more than what is missing then.
        Err(missing) => return status(ended).and(Err(missing)),
    };
    let helped = verdict(&comparison, suggestion);
    let kept = arguments.keep && helped.is_ok();
    let done = status(ended).and_then(|_| if kept { keep(&pair, suggestion) } else { Ok(()) });
    pair.end();
    show(arguments, &comparison, &sides, suggestion);
    if !arguments.output.json {
        let conclusion = match &helped {
            Ok(words) => format!("It helped: {words}. That bears out the finding {}.", finding.name),
            Err(words) => format!("{words} {}", finding.wrong_if),
        };
        let measured = throughput_of(&comparison);
        let guess = explained.guess.as_ref().zip(measured).map(|(guess, mbps)| guess.did(mbps));
        let left = match (&done, kept) {
            (Ok(()), true) => {
                let machine = endpoint_of(record, &suggestion.name).unwrap_or_default();
                Some(format!(
                    "{}={} stays, until linerate target {machine} restore.",
                    suggestion.name, suggestion.value
                ))
            }
            (Ok(()), false) if helped.is_ok() && setting_of(&suggestion.name).is_some() => {
                let again = format!("linerate explain {} --try --keep tries it again, and keeps it", record.id);
                Some(format!("Nothing is left changed; {again}."))
            }
            (Ok(()), false) => Some("Nothing is left changed.".to_owned()),
            // What is left then, the error says.
            (Err(_), _) => None,
        };
        let lines: String = [Some(conclusion), guess, left].into_iter().flatten().map(|line| line + "\n").collect();
        out!("\n{}", wrapped(&lines, width().filter(|_| !arguments.output.markdown)));
    }
    done?;
    Ok(if helped.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// How the machine of a setting is reached, as a shell takes it.
fn endpoint_of(record: &Record, setting: &str) -> Option<String> {
    let (party, _) = setting_of(setting)?;
    let (_, machine) = record.parties().find(|(other, _)| *other == party)?;
    Some(shell_word(&machine.endpoint))
}

/// How a machine of the record is reached. A record may be anybody's, and `exec:` is a command of its maker's.
fn endpoint(text: &str, allow_exec: bool) -> Result<Endpoint> {
    match text.parse() {
        Ok(Endpoint::Exec(command)) if !allow_exec => bail!(
            "the record's machine is reached by a command that would run here: {command}; if it is one of yours, give \
             --allow-exec"
        ),
        Ok(endpoint) => Ok(endpoint),
        Err(error) => {
            Err(anyhow!("the record's machine '{text}' cannot be reached again ({error}); run the plan anew"))
        }
    }
}

/// The suggested option's value in the record, or the setting's on its machine now.
fn value_before(pair: &Pair, record: &Record, suggestion: &Suggestion) -> Result<String> {
    let Some((party, setting)) = setting_of(&suggestion.name) else {
        let asked = record.asked.get(&suggestion.name);
        return asked.cloned().with_context(|| format!("the record does not say what {} was", suggestion.name));
    };
    let (client, interface) = at(pair, party)?;
    let (readings, _) = settings::get(client, interface, vec![setting.to_owned()], Vec::new())?;
    let reading = readings.into_iter().next().with_context(|| format!("{} could not be read", suggestion.name))?;
    match (reading.value, reading.error) {
        (Some(value), _) => Ok(value),
        (None, error) => bail!(
            "{} cannot be tried: {}",
            suggestion.name,
            error.unwrap_or_else(|| "the machine does not have it".to_owned())
        ),
    }
}

fn at(pair: &Pair, party: Party) -> Result<(&Client, Option<String>)> {
    let route = pair.route(None).map_err(|complaint| anyhow!(complaint))?;
    settings::at(pair, party, route).map_err(|complaint| anyhow!(complaint))
}

/// A plan of the record's trial, with the suggestion as its factor.
fn plan_text(record: &Record, factor: &str, sides: [&str; 2], repeat: u32) -> Result<String> {
    // What is as usual need not be said, and may not suit the workload.
    let usual: Vec<(&str, String)> = Spec::new(record.workload).asked();
    let is_usual = |name: &str, text: &str| usual.iter().any(|(other, usual)| *other == name && usual == text);
    let mut options = toml::Table::new();
    for (name, text) in &record.asked {
        if name == factor || name == "workload" || is_usual(name, text) {
            continue;
        }
        let longer = name == "duration" && parse_duration(text).is_ok_and(|time| time > LONGEST);
        let text = if longer { format_duration(LONGEST) } else { text.clone() };
        options.insert(name.clone(), text.into());
    }
    if !record.asked.contains_key("bytes") && !options.contains_key("duration") {
        options.insert("duration".to_owned(), format_duration(LONGEST).into());
    }
    for (end, _, settings) in record.settings() {
        for one in settings.iter().filter(|one| format!("{end}.{}", one.name) != factor) {
            if one.name.starts_with(CUSTOM) {
                bail!(
                    "the record's {end}.{} is of a plan's own making; add {factor} to that plan as a factor",
                    one.name
                );
            }
            options.insert(format!("{end}.{}", one.name), one.asked.clone().into());
        }
    }
    let levels: toml::Value = sides.map(toml::Value::from).to_vec().into();
    let plan = toml::Table::from_iter([
        ("format".to_owned(), "linerate.plan/1".into()),
        ("name".to_owned(), "try".into()),
        ("about".to_owned(), format!("does {factor}={} help?", sides[1]).into()),
        ("repeat".to_owned(), toml::Value::Integer(repeat.into())),
        ("workload".to_owned(), record.workload.name().into()),
        ("options".to_owned(), options.into()),
        ("factors".to_owned(), toml::Table::from_iter([(factor.to_owned(), levels)]).into()),
    ]);
    Ok(toml::to_string(&plan)?)
}

fn compared(records: &[Observation], factor: &str, sides: &[String], suggestion: &Suggestion) -> Result<Comparison> {
    let [before, after] = sides else { bail!("{factor} has one level only; there is nothing to compare") };
    let side = |level: &String| -> Vec<&Observation> {
        records.iter().filter(|one| one.around.asked.factors.get(factor) == Some(level)).collect()
    };
    let mut metrics: Vec<&'static Metric> = Vec::new();
    for metric in [suggestion.metric].into_iter().chain(BESIDE).filter_map(Metric::find) {
        if !metrics.iter().any(|other| other.name == metric.name) {
            metrics.push(metric);
        }
    }
    let options = CompareOptions { compared: vec![factor.to_owned()], metrics, ..CompareOptions::default() };
    let comparison = compare::compare(&side(before), &side(after), &options);
    if comparison.judged.is_empty() {
        bail!("no trial of one side has figures, so nothing can be compared; their records say why");
    }
    Ok(comparison)
}

/// The candidate's throughput, Mbit/s.
fn throughput_of(comparison: &Comparison) -> Option<f64> {
    let judged = comparison.judged.iter().find(|judged| judged.metric.name == "throughput")?;
    judged.candidate.median.map(|bps| bps / 1e6)
}

/// In words, how it helped, or why that cannot be said.
fn verdict(comparison: &Comparison, suggestion: &Suggestion) -> Result<String, String> {
    let wanted = Metric::find(suggestion.metric).map_or("", |metric| &metric.name);
    let said = |judged: &Judged| format!("{}: {}", judged.metric.title, judged.verdict.words(judged.metric));
    let judged = comparison.judged.iter().find(|judged| judged.metric.name == wanted);
    let Some(judged) = judged else { return Err("No trial has the figure that it should have helped.".to_owned()) };
    let worse: Vec<String> = comparison.judged.iter().filter(|one| one.verdict == Verdict::Worse).map(said).collect();
    match judged.verdict {
        Verdict::Better if worse.is_empty() => Ok(said(judged)),
        Verdict::Better => Err(format!("It helped and hurt: {}; {}.", said(judged), worse.join("; "))),
        Verdict::CannotTell { .. } => {
            Err(format!("That it helped cannot be told ({}); --repeat asks for more.", said(judged)))
        }
        _ => Err(format!("It did not help ({}).", said(judged))),
    }
}

/// Sets it once more, to stay.
fn keep(pair: &Pair, suggestion: &Suggestion) -> Result<()> {
    let Some((party, setting)) = setting_of(&suggestion.name) else {
        bail!("{} is an option of each trial, and no setting that a machine could keep", suggestion.name);
    };
    let change = Change { name: setting.to_owned(), value: suggestion.value.clone(), custom: None };
    let (client, interface) = at(pair, party)?;
    set_to_stay(client, interface, vec![change]).map(drop)
}

fn show(arguments: &ExplainArgs, comparison: &Comparison, sides: &[String], suggestion: &Suggestion) {
    let names = [0, 1].map(|side| format!("{}={}", suggestion.name, sides.get(side).cloned().unwrap_or_default()));
    let shown = render::ComparisonView { comparison, names, gates: &[] };
    match arguments.output {
        output if output.json => out!("{}", render::json(&shown)),
        output if output.markdown => out!("{}", render::markdown(&shown)),
        _ => out!("{}", render::text(&shown, width())),
    }
}

#[cfg(test)]
mod tests {
    use linerate_machine::change::Changed;
    use linerate_machine::end::Direction;
    use linerate_results::sample;

    use super::*;
    use linerate_plan::Plan;

    #[test]
    fn the_records_trial_is_asked_again() {
        let mut record = sample::udp(0, Direction::Tx, 300, 200.0);
        record.host.settings = vec![Changed {
            name: "gro".to_owned(),
            asked: "off".to_owned(),
            set: None,
            read_back: None,
            original: None,
        }];
        let text = plan_text(&record, "target.ring.rx", ["256", "4096"], 5).unwrap();
        let trials = Plan::parse(&text, "try", "try").unwrap().trials(&[], None).unwrap();
        assert_eq!(trials.len(), 10);
        let asked: std::collections::BTreeMap<_, _> = trials[0].spec.asked().into_iter().collect();
        assert_eq!(
            (asked["rate"].as_str(), asked["direction"].as_str(), asked["duration"].as_str()),
            ("300M", "tx", "2s")
        );
        assert_eq!(trials[0].settings.len(), 2);
        for record in [sample::rr(0, "64"), sample::ttcp(0, 0), sample::tcp(0, Direction::Rx, 100.0, true)] {
            let text = plan_text(&record, "streams", ["1", "2"], 2).unwrap();
            assert_eq!(Plan::parse(&text, "try", "try").unwrap().trials(&[], None).unwrap().len(), 4);
        }
        record.host.settings[0].name = "custom.turbo".to_owned();
        assert!(plan_text(&record, "streams", ["1", "2"], 2).unwrap_err().to_string().contains("custom.turbo"));
    }

    #[test]
    fn a_long_trial_is_cut_short() {
        let mut record = sample::udp(0, Direction::Tx, 300, 200.0);
        record.asked.insert("duration".to_owned(), "60s".to_owned());
        assert!(plan_text(&record, "streams", ["1", "2"], 2).unwrap().contains("duration = \"3s\""));
    }
}
