//! Machines: which there are, and one as it is: what it is, who measures on it, its counters, settings and registers.
//!
//! Nothing is asked of a machine on which somebody measures but who that is: a look would be a disturbance.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use linerate_control::message::{HOLDER, Reply as AgentReply, Request};
use linerate_control::{Client, Endpoint};
use linerate_machine::environment::Environment;
use maud::{Markup, html};

use super::super::Lab;
use super::super::reply::{Reply, kind};
use super::super::request::WebRequest;
use super::actions::{self, machine};
use super::plans::segment;
use super::{View, ViewReply, refused};
use crate::cli::InspectArgs;
use crate::commands::target::{addresses, counters, driver, interface};
use crate::measure::pair::ANSWER_TIME;
use crate::measure::settings;
use crate::render;
use crate::render::answer::Answer;

/// Between the two readings that make a rate.
const BETWEEN: Duration = Duration::from_secs(1);

/// The parts of a machine's page.
const PARTS: [(&str, &str); 3] = [("counters", "Counters"), ("settings", "Settings"), ("registers", "Registers")];

/// What is told of a machine in the list.
struct Seen {
    holder: String,
    kernel: String,
    link: String,
}

/// All of them; with `reach`, as they are.
pub(super) fn list(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let is_reached = asked.value("reach").is_some();
    let seen: Vec<Option<Result<Seen>>> = thread::scope(|scope| {
        let look = |(name, _): &(String, Endpoint)| {
            let name = name.clone();
            is_reached.then(|| scope.spawn(move || seen(lab, &name)))
        };
        let all: Vec<_> = lab.machines.iter().map(look).collect();
        all.into_iter()
            .map(|one| one.map(|one| one.join().unwrap_or_else(|_| bail!("it could not be looked at"))))
            .collect()
    });
    let rows = lab.machines.iter().zip(seen).map(|((name, _), seen)| {
        let link = format!("/machine/{}", segment(name));
        let [state, holder, kernel, its_link] = match seen {
            None => Default::default(),
            Some(Ok(seen)) => ["reached".to_owned(), seen.holder, seen.kernel, seen.link],
            Some(Err(error)) => [format!("not reached: {error:#}"), String::new(), String::new(), String::new()],
        };
        (link, [name.clone(), state, holder, kernel, its_link])
    });
    let answer = render::machine::answer_of_list(rows);
    let above = html! {
        @if lab.machines.is_empty() {
            p { "No machine is named: start linerate web with --machine ENDPOINT, or name a target in linerate.toml." }
        } @else if !is_reached {
            p { a href="/machines?reach=yes" { "Reach all of them now" } }
        } @else {
            p { a href="/machines?reach=yes" { "Look again" } }
        }
    };
    View::new("Machines", answer).above(above).shown()
}

fn reached(lab: &Lab, name: &str) -> Result<Client> {
    let endpoint = machine(lab, name)?;
    Client::connect(endpoint, "machine", &lab.connect).map_err(|error| refused(502, error.to_string()))
}

/// Who measures there; `None`: nobody.
fn holder(client: &Client) -> Result<Option<String>> {
    // An agent of before knows no such question.
    if !client.hello().capabilities.iter().any(|one| one == HOLDER) {
        return Ok(None);
    }
    match client.request(Request::Holder, ANSWER_TIME)? {
        AgentReply::Holder { holder, since_s } => {
            Ok(holder.map(|holder| format!("{}, for {} s", holder.name, since_s.unwrap_or(0))))
        }
        _ => Ok(None),
    }
}

/// A machine on which nobody measures is looked at; else the sentence says who does.
fn free(client: &Client) -> Result<()> {
    match holder(client)? {
        None => Ok(()),
        Some(holder) => Err(refused(409, format!("{holder}, measures there: it is looked at again when that is done"))),
    }
}

fn described(client: &Client) -> Result<(Environment, String)> {
    let known = addresses(client)?;
    let interface = interface(client, &InspectArgs::default(), &known)?;
    let request = Request::Describe { interface: Some(interface.clone()), modules: Vec::new() };
    match client.request(request, ANSWER_TIME)? {
        AgentReply::Environment(environment) => Ok((*environment, interface)),
        _ => bail!("{} did not describe itself; install the same version of linerate there", client.machine()),
    }
}

fn seen(lab: &Lab, name: &str) -> Result<Seen> {
    let client = reached(lab, name)?;
    if let Some(holder) = holder(&client)? {
        return Ok(Seen { holder, kernel: String::new(), link: String::new() });
    }
    let (environment, interface) = described(&client)?;
    let nic = environment.nic.as_ref();
    let link = match nic.and_then(|nic| nic.link_detected) {
        Some(false) => format!("{interface}: no carrier"),
        _ => match nic.and_then(|nic| nic.speed_mbps) {
            Some(mbps) => format!("{interface}: {mbps} Mbit/s"),
            None => interface,
        },
    };
    Ok(Seen { holder: "nobody".to_owned(), kernel: environment.kernel.unwrap_or_default(), link })
}

fn around(lab: &Lab, name: &str) -> Markup {
    let address = format!("/machine/{}", segment(name));
    html! {
        p {
            a href=(address) { "What it is" }
            @for (part, title) in PARTS { " · " a href=(format!("{address}/{part}")) { (title) } }
        }
        @if lab.machines.len() > 1 { p { a href="/machines" { "All machines" } } }
    }
}

/// What it is.
pub(super) fn one(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let name = asked.path()[1].to_owned();
    let client = reached(lab, &name)?;
    let holder = holder(&client)?;
    let above = html! {
        (around(lab, &name))
        @match &holder {
            Some(holder) => p class="said" { (holder) ", measures there: it is looked at again when that is done." },
            None => p { "Nobody measures there." },
        }
    };
    let answer = match holder {
        Some(_) => Answer::default(),
        None => {
            let (environment, _) = described(&client)?;
            render::machine::answer(&environment, &addresses(&client)?)
        }
    };
    View::new(format!("Machine {name}"), answer).above(above).shown()
}

/// Its counters, settings or registers.
pub(super) fn part(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let [_, name, part] = asked.path()[..] else { bail!("three parts") };
    match part {
        "counters" => counted(lab, asked, name),
        "settings" => set(lab, name),
        "registers" => registers(lab, name),
        _ => Err(refused(404, format!("a machine has no page '{part}'"))),
    }
}

fn grown(client: &Client) -> Result<(Answer, Answer)> {
    let (_, interface) = described(client)?;
    let driver = driver(client, &interface)?;
    let (before, _) = counters(client, &interface, driver.as_deref())?;
    let began = Instant::now();
    thread::sleep(BETWEEN);
    let (now, _) = counters(client, &interface, driver.as_deref())?;
    let seconds = began.elapsed().as_secs_f64();
    let rates = render::machine::answer_of_counters(&now.since(&before), Some(seconds));
    Ok((rates, render::machine::answer_of_counters(&now, None)))
}

fn counted(lab: &Lab, asked: &WebRequest, name: &str) -> Result<ViewReply> {
    let client = reached(lab, name)?;
    free(&client)?;
    let (rates, all) = grown(&client)?;
    let title = format!("Counters of {name}");
    if asked.value("form").is_some() {
        return View::new(title, all.followed_by(rates)).shown();
    }
    let (open, behind) = (asked.open_address(), all.tables() + 1);
    let above = html! {
        (around(lab, name))
        p id="news" class="news" role="status" aria-live="polite" {}
        h2 { "What moves, per second" }
        div data-live=(format!("/machine/{}/counters/live", segment(name))) data-version="" {
            section data-part="rates" data-mark="" { (rates.inner()) }
        }
        @if rates.tables() > 0 {
            p class="forms" {
                "Within another second, as "
                @for (form, name) in [("csv", "CSV"), ("json", "JSON"), ("markdown", "Markdown")] {
                    a href=(format!("{open}table={behind}&form={form}")) { (name) } " "
                }
            }
        }
        h2 { "Since the machine started" }
    };
    View::new(title, all).above(above).shown()
}

/// What moved in the last second.
pub(super) fn live(lab: &Lab, asked: &WebRequest) -> Result<ViewReply> {
    let client = reached(lab, asked.path()[1])?;
    free(&client)?;
    let (rates, _) = grown(&client)?;
    let mark = format!("{:?}", Instant::now());
    let markup = html! { section data-part="rates" data-mark=(mark) { (rates.inner()) } };
    Ok(ViewReply::Raw(Reply::new(200, kind::HTML, markup.into_string()).with("x-version", "1").with("x-over", "yes")))
}

fn set(lab: &Lab, name: &str) -> Result<ViewReply> {
    let client = reached(lab, name)?;
    free(&client)?;
    let (_, interface) = described(&client)?;
    let (readings, kept) = settings::get(&client, Some(interface), Vec::new(), Vec::new())?;
    let address = format!("/machine/{}", segment(name));
    let above = html! {
        (around(lab, name))
        @if lab.allowed.settings {
            form class="fields" method="post" action=(format!("{address}/set")) {
                label { "Settings, one a line" textarea name="set" rows="3" cols="30" placeholder="mtu=1500\ngro=off" required {} }
                button type="submit" { "Set" }
            }
            form method="post" action=(format!("{address}/restore")) { button type="submit" { "Restore settings" } }
        } @else {
            p class="said" { "Read-only: start linerate web with --allow-settings to change them." }
        }
    };
    View::new(format!("Settings of {name}"), render::settings::answer(&readings, &kept)).above(above).shown()
}

fn registers(lab: &Lab, name: &str) -> Result<ViewReply> {
    let client = reached(lab, name)?;
    free(&client)?;
    drop(client);
    let told =
        actions::target(lab, machine(lab, name)?, vec!["registers".to_owned()]).map_err(|error| anyhow!("{error:#}"));
    let above = around(lab, name);
    let answer = match told {
        Ok(text) => Answer::laid_out(text),
        Err(error) => Answer::said(format!("{error:#}")),
    };
    View::new(format!("Registers of {name}"), answer).above(above).shown()
}
