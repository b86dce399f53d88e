//! What changes something, and whether it is allowed. A refusal names the flag that would allow it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linerate_control::Endpoint;
use linerate_plan::{Plan, PlannedTrial, needs};
use linerate_results::store::Campaign;
use maud::html;

use super::super::Lab;
use super::super::reply::Reply;
use super::super::request::WebRequest;
use super::{View, ViewReply, need, plans, refused};
use crate::commands::boards;
use crate::commands::compare::percentage;
use crate::commands::plan_request::PlannedMiddle;
use crate::commands::plan_request::check_idle;
use crate::commands::report::measured_by;
use crate::render::answer::Answer;

/// A command that looks at a machine or sets it takes no longer.
const TIME: Duration = Duration::from_secs(60);

/// The machine of this name, which the server was told of; an endpoint may be written as short as on the command line.
pub(super) fn machine<'a>(lab: &'a Lab, name: &str) -> Result<&'a Endpoint> {
    let whole = name.parse().map_or_else(|_| name.to_owned(), |endpoint: Endpoint| endpoint.to_string());
    let found = lab.machines.iter().find(|(other, _)| *other == whole).map(|(_, endpoint)| endpoint);
    let endpoint = found.ok_or_else(|| {
        refused(
            404,
            format!("'{name}' is none of the machines that linerate web was told of; --machine {name} tells it"),
        )
    })?;
    if matches!(endpoint, Endpoint::Exec(_)) {
        need(lab.allowed.commands, "--allow-commands", &format!("{name} is reached by a program that would run here"))?;
    }
    Ok(endpoint)
}

/// Puts a campaign into the queue.
pub(super) fn start(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need(lab.allowed.run, "--allow-run", "these pages are read-only")?;
    if asked.field("text").is_some() {
        plans::need_to_post(lab)?;
    }
    let (plan, name, input) = match plans::posted(asked)? {
        Some(plan) => {
            let text = plan.source.clone();
            (plan, plans::INPUT, Some(text))
        }
        None => {
            let name = asked.field("plan").ok_or_else(|| refused(400, "which plan?"))?;
            (plans::find(lab, name)?, name, None)
        }
    };
    let target = asked.field("target").ok_or_else(|| refused(400, "which machine is the target?"))?;
    let ends = Ends::asked(lab, target, asked.field("host"))?;
    let changes = plans::changes(asked)?;
    let trials = plan.trials_of(&changes)?;
    check_idle(&trials)?;
    allowed(lab, &plan, &trials)?;
    let mut words = begun(name, &plan, &ends);
    words.extend(changes.overrides.iter().map(|(name, value)| format!("--set={name}={value}")));
    words.extend(changes.repeat.map(|repeat| format!("--repeat={repeat}")));
    if let Some(precision) = asked.field("precision") {
        percentage("precision", precision).map_err(|error| refused(400, error.to_string()))?;
        words.push(format!("--precision={precision}"));
    }
    let number = lab.runs.add(&plan.name, words, input, &asked.who).map_err(|why| refused(503, why))?;
    Ok(ViewReply::Raw(Reply::see(&format!("/run/{number}"))))
}

/// The machines of a campaign: each is one that the server was told of, or the machine on which it runs.
struct Ends {
    target: Endpoint,
    host: Endpoint,
    /// Its words on the command line.
    middle: Vec<String>,
}

impl Ends {
    /// As a form names them; what it leaves out is as `linerate run` would find it here.
    fn asked(lab: &Lab, target: &str, host: Option<&str>) -> Result<Ends> {
        let usual = |end: &Option<Endpoint>| end.as_ref().map(Endpoint::to_string);
        let host = host.map(str::to_owned).or_else(|| usual(&lab.usual.host));
        let host = host.map_or(Ok(Endpoint::Local), |host| machine(lab, &host).cloned())?;
        let middle = usual(&lab.usual.middle).map(|middle| machine(lab, &middle)).transpose()?;
        let middle = middle.map(|middle| format!("--middle={middle}")).into_iter().collect();
        Ok(Ends { target: machine(lab, target)?.clone(), host, middle })
    }

    /// As a campaign was begun between them.
    fn begun(lab: &Lab, campaign: &Campaign, middle: Option<&PlannedMiddle>) -> Result<Ends> {
        let target = machine(lab, &campaign.target)?.clone();
        // Where nobody named a host, it is the other end of a board's cable, or this machine.
        let own = boards::ends(target.clone(), Endpoint::Local).host;
        let host = if campaign.host == own.to_string() { own } else { machine(lab, &campaign.host)?.clone() };
        middle.map(|middle| machine(lab, &middle.endpoint)).transpose()?;
        let middle = middle.into_iter().flat_map(PlannedMiddle::options);
        Ok(Ends { target, host, middle: middle.map(|(option, value)| format!("{option}={value}")).collect() })
    }
}

/// The words of a campaign's process. It fills nothing in by itself: what was checked here is all that there is.
fn begun(name: &str, plan: &Plan, ends: &Ends) -> Vec<String> {
    let mut words = vec!["run".to_owned()];
    words.extend(plans::words(name, plan));
    words.extend(["--no-defaults".to_owned(), format!("--target={}", ends.target), format!("--host={}", ends.host)]);
    words.extend(ends.middle.iter().cloned());
    words
}

fn allowed(lab: &Lab, plan: &Plan, trials: &[PlannedTrial]) -> Result<()> {
    for one in needs(plan, trials) {
        let (is_allowed, flag) = match one.is_program() {
            true => (lab.allowed.commands, "--allow-commands"),
            false => (lab.allowed.settings, "--allow-settings"),
        };
        need(is_allowed, flag, &one.to_string())?;
    }
    Ok(())
}

/// Asks a campaign to end, or takes it out of the queue.
pub(super) fn stop(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need(lab.allowed.run, "--allow-run", "these pages are read-only")?;
    let text = asked.path()[1].to_owned();
    let told = text.parse().ok().and_then(|number| lab.runs.stop(number));
    told.ok_or_else(|| refused(404, format!("there is no campaign '{text}' among those that were started here")))?;
    Ok(ViewReply::Raw(Reply::see(&format!("/run/{text}"))))
}

/// Why nobody may carry this campaign on, here and now.
pub(super) fn why_not_resumed(lab: &Lab, campaign: &Campaign) -> Option<&'static str> {
    if campaign.finished_at.is_some() {
        return Some("the campaign is finished; nothing of it is left to do");
    }
    let is_on = lab.runs.look(|runs| runs.iter().any(|run| run.is_alive() && run.is_of(&campaign.id)));
    is_on.then_some("the campaign runs already, or waits for its turn; the list of what runs has it")
}

/// Carries an unfinished campaign on.
pub(super) fn resume(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need(lab.allowed.run, "--allow-run", "these pages are read-only")?;
    let id = asked.path()[1].to_ascii_uppercase();
    let campaign = lab.store()?.campaign(&id)?.ok_or_else(|| refused(404, format!("there is no campaign {id}")))?;
    if let Some(why) = why_not_resumed(lab, &campaign) {
        return Err(refused(409, why));
    }
    let wanted = crate::commands::plan_request::PlanRequest::read(&campaign.plan_text)
        .context("the campaign's plan cannot be read")?;
    if wanted.is_search() {
        return Err(refused(
            409,
            "it is a search; linerate search --resume with the words that began it carries it on",
        ));
    }
    let (name, input) = match plans::of_source(lab, &campaign.plan, &wanted.source) {
        Some(name) => (name, None),
        // It was posted, or its file is gone.
        None => {
            plans::need_to_post(lab)?;
            (plans::INPUT.to_owned(), Some(wanted.source.clone()))
        }
    };
    let ends = Ends::begun(lab, &campaign, wanted.middle.as_ref())?;
    let order = wanted.begin()?;
    allowed(lab, &order.plan, order.trials())?;
    let mut words = begun(&name, &order.plan, &ends);
    // The one that was looked at, whatever was begun since the page was shown.
    words.push(format!("--resume={id}"));
    let plan = campaign.plan.clone();
    let (command, _) = measured_by(campaign);
    let number =
        lab.runs.add(&plan, words, input, &asked.who).map_err(|why| refused(503, format!("{why} ({command})")))?;
    Ok(ViewReply::Raw(Reply::see(&format!("/run/{number}"))))
}

/// Changes settings of a machine, to stay until they are put back.
pub(super) fn set(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need(lab.allowed.settings, "--allow-settings", "settings are left alone here")?;
    let changes = plans::changes(asked)?.overrides;
    if changes.is_empty() {
        return Err(refused(400, "which setting? Write NAME=VALUE, like mtu=1500"));
    }
    let words = changes.iter().map(|(name, value)| format!("{name}={value}"));
    changed(lab, asked, std::iter::once("set".to_owned()).chain(words).collect())
}

/// Puts back what was changed to stay.
pub(super) fn restore(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    need(lab.allowed.settings, "--allow-settings", "settings are left alone here")?;
    changed(lab, asked, vec!["restore".to_owned()])
}

fn changed(lab: &Lab, asked: &WebRequest, words: Vec<String>) -> Result<ViewReply> {
    let name = asked.path()[1].to_owned();
    let endpoint = machine(lab, &name)?;
    let told = target(lab, endpoint, words)?;
    let above = html! { p { a href=(format!("/machine/{}", plans::segment(&name))) { "Back to the machine" } } };
    View::new(format!("Settings of {name}"), Answer::laid_out(told)).above(above).shown()
}

/// What `linerate target ENDPOINT …` says; its complaint is the error.
pub(super) fn target(lab: &Lab, endpoint: &Endpoint, words: Vec<String>) -> Result<String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("linerate").args(&lab.reach).arg("target").arg(endpoint.to_string()).args(words);
    command.process_group(0).env("COLUMNS", "120").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("linerate could not be started once more")?;
    let (mut out, mut said) = (child.stdout.take(), child.stderr.take());
    let deadline = Instant::now() + TIME;
    std::thread::scope(|scope| {
        let (stdout, stderr) = (read_all(scope, out.take()), read_all(scope, said.take()));
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(refused(504, format!("{endpoint} did not answer within {} s", TIME.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let [stdout, stderr] = [stdout, stderr].map(|thread| thread.join().unwrap_or_default());
        if status.success() { Ok(stdout + &stderr) } else { Err(refused(502, stderr.trim().to_owned())) }
    })
}

fn read_all<'s, R: Read + Send + 's>(
    scope: &'s std::thread::Scope<'s, '_>,
    from: Option<R>,
) -> std::thread::ScopedJoinHandle<'s, String> {
    scope.spawn(move || {
        let mut text = Vec::new();
        if let Some(from) = from {
            let _ = from.take(1 << 20).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}
