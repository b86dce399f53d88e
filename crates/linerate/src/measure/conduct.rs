//! One trial between two agents, and through a third where there is one: prepared, connected, started, watched to its end.
//! Knows no plan and no record; what the machines saw is returned as they told it.

use std::cell::RefCell;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_control::message::{Event, Failure, MACHINE_PROFILE, Prepare, RefusalKind, Reply, Request, Secret};
use linerate_control::{AgentEvent, Client, ControlError, noise};
use linerate_machine::change::Changed;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::mac::MacAddress;
use linerate_registers::around;
use linerate_results::join::Route;
use linerate_trial::doubt::Doubted;
use linerate_trial::impossible::impossible;
use linerate_trial::line::Line;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Ip, Spec, Workload};

use super::carrier::{self, LinkDown};
use super::error::{TrialError, of_connecting, of_control};
use super::live::LiveCounts;
use super::pair::{ANSWER_TIME, Pair};
use super::reset::Reset;
use super::settings::Settings;
use super::ssh_counters::Reading;
use crate::interrupt;
use linerate_plan::WantedSetting;

type Conducted = linerate_results::join::EndedTrial<TrialError>;
/// What each end saw of a trial that failed.
type Partial = PerEnd<Option<Box<Outcome>>>;

/// Opening flows takes the agents up to five seconds before they give up.
const CONNECT_TIME: Duration = Duration::from_secs(12);
/// How long a machine has to show that it lives. Traffic that stops is noticed after five seconds, a silent machine
/// after six.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// What a trial may take beyond its own time: queues drain, counters are read.
const GRACE: Duration = Duration::from_secs(9);
/// How often the events are looked at in mid-trial, and near its end, where waiting costs time.
const FAR: Duration = Duration::from_millis(100);
const NEAR: Duration = Duration::from_millis(2);
/// A device is reset when this part of the trial is over, so that most of it is left to come back in.
const RESET_AT: u32 = 5;

/// What is heard of a trial that runs.
pub(crate) enum TrialProgress {
    /// So many seconds of it have passed.
    Elapsed(f64),
    /// What an end has moved until then.
    SoFar(End, LiveCounts),
}

/// What is done beside the traffic that is asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct TrialExtras<'a> {
    /// How the machines are set.
    pub(crate) settings: &'a [WantedSetting],
    /// The part of the datagrams with whose loss the trial is decided, and ends.
    pub(crate) stop_at_loss: Option<f64>,
    /// The device on the way is reset by this command, once.
    pub(crate) reset: Option<&'a str>,
}

/// Where an end is reached once it is prepared.
#[derive(Default)]
struct Ready {
    ports: Vec<(u16, u16)>,
    mac: Option<MacAddress>,
    /// What the end changed by itself, so that its port is silent.
    silenced: Vec<Changed>,
}

/// Runs one trial, with both machines set for it. `progress` hears how far it is.
pub(crate) fn conduct(
    pair: &Pair,
    spec: &Spec,
    beside: TrialExtras<'_>,
    settings: &mut Settings,
    progress: &dyn Fn(TrialProgress),
) -> Conducted {
    let mut conducted = Conducted::without(spec, TrialError::Interrupted);
    conducted.outcomes = run(pair, &mut conducted, beside, settings, progress)
        .and_then(|outcomes| believed(pair, &conducted.spec, outcomes));
    conducted
}

/// What both agents told, where it can be. Of another tool's end the crate that speaks with it has seen to that.
fn believed(pair: &Pair, spec: &Spec, outcomes: Box<[Outcome; 2]>) -> Result<Box<[Outcome; 2]>, TrialError> {
    match impossible(spec, outcomes.each_ref()).filter(|_| pair.foreign.is_none()) {
        Some(told) => Err(TrialError::Refused(told.to_string())),
        None => Ok(outcomes),
    }
}

fn run(
    pair: &Pair,
    conducted: &mut Conducted,
    beside: TrialExtras<'_>,
    settings: &mut Settings,
    progress: &dyn Fn(TrialProgress),
) -> Result<Box<[Outcome; 2]>, TrialError> {
    let route = pair.route(conducted.spec.ip).map_err(TrialError::Refused)?;
    conducted.route = Some(route);
    let told = settings.reach(pair, route, beside.settings)?;
    conducted.settings = told.ends;
    conducted.spec.ip = Some(if route.target.is_ipv4() { Ip::V4 } else { Ip::V6 });
    if let Some(foreign) = &pair.foreign {
        linerate_peers::fit(foreign.tool, &mut conducted.spec);
    }
    // What a trial before this one left unread is not of this one.
    for end in End::BOTH {
        while pair.client(end).events().try_recv().is_ok() {}
    }
    let describe = |end| {
        let interface = pair.interface(end, route);
        let modules = pair.modules[end].clone();
        pair.client(end).send(Request::Describe { interface, modules })
    };
    let descriptions = End::BOTH.map(describe);
    let described = descriptions.map(|pending| match pending.wait(ANSWER_TIME) {
        Ok(Reply::Environment(environment)) => *environment,
        _ => Environment::default(),
    });
    [conducted.target, conducted.host] = described;
    let line = line([&conducted.target, &conducted.host]);
    conducted.spec.at_line(line).map_err(|error| TrialError::Refused(error.to_string()))?;
    if let Some(middle) = &pair.middle {
        let mut described = middle.describe(&middle.ports(pair, route)?, &pair.modules[End::Target])?;
        described.machine.settings = told.middle;
        (described.ports.target.settings, described.ports.host.settings) = (told.ports.target, told.ports.host);
        conducted.middle = Some(Box::new(described));
    }
    let (hello, answer) = (secret()?, secret()?);
    let foreign = pair.foreign.as_ref().map(|foreign| foreign.at(route.target)).transpose();
    let foreign = foreign.map_err(TrialError::Refused)?;
    let prepare = |end, local| {
        let mut spec = conducted.spec.clone();
        if end == End::Host && is_sampled_by_target(pair, conducted) {
            spec.profile = None;
        }
        let registers = spec.registers.then(around::wanted);
        // The stand-in needs not know who asks.
        let foreign = foreign.clone().filter(|_| end == End::Host);
        let interface = pair.link_local_interface(end, local).map(str::to_owned);
        let interface = interface.or_else(|| pair.routed_interface(end, route));
        let stop_at_loss = beside.stop_at_loss;
        let silent_s = beside.reset.and_then(|_| Some(conducted.spec.expected_time()?.as_secs_f64()));
        let prepare =
            Prepare { spec, end, hello, answer, local, foreign, registers, interface, stop_at_loss, silent_s };
        pair.client(end).send(Request::Prepare(Box::new(prepare)))
    };
    if conducted.spec.workload == Workload::Frames {
        settings.silence();
    }
    let prepared = [prepare(End::Target, route.target), prepare(End::Host, route.host)];
    let mut ready = wait_both(prepared)?.map(|reply| match reply {
        Reply::Prepared { ports, mac, silenced, .. } => Ready { ports, mac, silenced },
        _ => Ready::default(),
    });
    for (settings, ready) in conducted.settings.iter_mut().zip(&mut ready) {
        settings.append(&mut ready.silenced);
    }
    let before = pair.look(route.target);
    if let Some(Ok(look)) = &before {
        conducted.target = look.environment.clone();
    }
    let mut partial = Partial::default();
    let time = conducted.spec.expected_time().unwrap_or_default();
    let reset = RefCell::new(beside.reset.map(|command| Reset::new(command, time / RESET_AT)));
    let mut ended = drive(
        pair,
        conducted,
        route,
        ready,
        &|heard| {
            if let (TrialProgress::Elapsed(elapsed_s), Some(reset)) = (&heard, &mut *reset.borrow_mut()) {
                reset.handle_elapsed(Duration::from_secs_f64(*elapsed_s), time);
            }
            progress(heard);
        },
        &mut partial,
    );
    if let Some(reset) = reset.into_inner().filter(|_| ended.is_ok()) {
        ended = reset.finish().and(ended);
    }
    ended = conclude(pair, conducted, ended);
    if !interrupt::requested() {
        conducted.overridden = settings.overridden(pair);
    }
    if let (Ok(outcomes), Some(before)) = (&mut ended, before) {
        let after = pair.look(route.target).expect("somebody has looked before");
        compare_looks(&mut outcomes[0], before, after);
    }
    if ended.is_err() && !interrupt::requested() {
        // Whatever happened, no traffic stays behind where an agent still hears. After an interrupt both agents end.
        for stop in [pair.target.send(Request::Stop), pair.host.send(Request::Stop)] {
            let _ = stop.wait(Duration::from_secs(3));
        }
        // An end answers when its trial is over, and has told before what it saw.
        for end in End::BOTH {
            while let Ok(event) = pair.client(end).events().try_recv() {
                keep(&mut partial, end, event);
            }
        }
        conducted.partial = partial;
    }
    ended
}

/// What the ends' links tell of the line between them.
pub(crate) fn line(ends: [&Environment; 2]) -> Line {
    let nics = || ends.into_iter().filter_map(|machine| machine.nic.as_ref());
    let mbps = nics().filter_map(|nic| nic.speed_mbps).min();
    Line { bits_per_s: mbps.map(|mbps| u64::from(mbps) * 1_000_000), mtu: nics().filter_map(|nic| nic.mtu).min() }
}

/// Asks the machine in the middle what it saw, of a trial that failed as well.
fn conclude(
    pair: &Pair,
    conducted: &mut Conducted,
    ended: Result<Box<[Outcome; 2]>, TrialError>,
) -> Result<Box<[Outcome; 2]>, TrialError> {
    let Some(middle) = pair.middle.as_ref().filter(|_| !interrupt::requested()) else { return ended };
    match middle.conclude() {
        Ok(outcome) => {
            conducted.middle_outcome = outcome;
            ended
        }
        // Why the ends failed is the news.
        Err(error) => ended.and(Err(error)),
    }
}

/// What the middle is asked: of a machine that an end's agent samples, a second profile would tell the same.
fn observe(pair: &Pair, conducted: &Conducted) -> Result<(), TrialError> {
    let (Some(middle), Some(described)) = (&pair.middle, &conducted.middle) else { return Ok(()) };
    let mut spec = conducted.spec.clone();
    let environment = &described.machine.environment;
    let ends = [(End::Target, &conducted.target), (End::Host, &conducted.host)];
    let is_sampled =
        ends.iter().any(|(end, of_end)| samples_machine(pair.client(*end)) && environment.is_machine_of(of_end));
    if is_sampled {
        spec.profile = None;
    }
    middle.observe(spec, PerEnd::of(|end| described.ports[end].interface.clone()))
}

/// Keeps what an end saw of a trial that failed.
fn keep(partial: &mut Partial, end: End, event: AgentEvent) {
    match event {
        AgentEvent::Event(Event::TrialFailed { seen: Some(seen), .. } | Event::Finished(seen)) => {
            partial[end] = Some(seen);
        }
        AgentEvent::Event(Event::FinishedWith { own, other }) => {
            (partial[end], partial[end.other()]) = (Some(own), Some(other));
        }
        _ => {}
    }
}

/// What the target's counters grew by between two readings over ssh, or why that is not known.
fn compare_looks(target: &mut Outcome, before: Result<Reading, String>, after: Result<Reading, String>) {
    let mut missing = match (before, after) {
        (Ok(before), Ok(after)) => {
            target.counters = after.counters.counters.since(&before.counters.counters);
            after.counters.missing
        }
        // One sentence: what could not be read before is not read after, for the same reason.
        (Err(sentence), _) | (_, Err(sentence)) => vec![sentence],
    };
    missing.dedup();
    if !missing.is_empty() {
        target.doubts.push(Doubted::CountersMissing { missing }.into());
    }
}

/// Whether a profile of the target is one of the host too: to sample a machine twice would cost twice and tell the same.
fn is_sampled_by_target(pair: &Pair, conducted: &Conducted) -> bool {
    samples_machine(&pair.target) && conducted.target.is_machine_of(&conducted.host)
}

fn samples_machine(client: &Client) -> bool {
    client.hello().capabilities.iter().any(|one| one == MACHINE_PROFILE)
}

fn drive(
    pair: &Pair,
    conducted: &Conducted,
    route: Route,
    [target, host]: [Ready; 2],
    progress: &dyn Fn(TrialProgress),
    partial: &mut Partial,
) -> Result<Box<[Outcome; 2]>, TrialError> {
    let connects = [
        pair.target.send(Request::Connect { peer: route.host, ports: host.ports, mac: host.mac }),
        pair.host.send(Request::Connect { peer: route.target, ports: target.ports, mac: target.mac }),
    ];
    let [target, host] = connects.map(|pending| pending.wait_unless(CONNECT_TIME, interrupt::requested));
    if interrupt::requested() {
        return Err(TrialError::Interrupted);
    }
    let is_lost = |connected: &Result<Reply, ControlError>| matches!(connected, Err(ControlError::Lost { .. }));
    let is_told = |connected: &Result<Reply, ControlError>| {
        is_lost(connected) || matches!(connected, Err(ControlError::Refused { kind: RefusalKind::BadRequest, .. }))
    };
    if let (Err(_), Err(of_host)) = (&target, &host)
        && !is_told(&target)
        && !is_told(&host)
    {
        // Neither found the other: one sentence about both, with what each sees of its link.
        return Err(TrialError::NotOpened(with_links(pair, route, (of_host.to_string(), None))));
    }
    // A machine that is gone is the news, and then one that cannot; the other only misses it.
    let is_host = is_lost(&host) || is_told(&host) && !is_lost(&target);
    let connected = if is_host { [host, target] } else { [target, host] };
    for connected in connected {
        connected.map_err(of_connecting)?;
    }
    observe(pair, conducted)?;
    let observes = pair.middle.as_ref().map(|middle| middle.client.send(Request::Start));
    wait_both([pair.target.send(Request::Start), pair.host.send(Request::Start)])?;
    observes.map(|pending| pending.wait(ANSWER_TIME)).transpose().map_err(of_control)?;
    watch(pair, conducted, route, progress, partial)
}

/// Waits until both ends have finished.
fn watch(
    pair: &Pair,
    conducted: &Conducted,
    route: Route,
    progress: &dyn Fn(TrialProgress),
    outcomes: &mut Partial,
) -> Result<Box<[Outcome; 2]>, TrialError> {
    let began = Instant::now();
    let expected = conducted.spec.expected_time();
    let mut end = End::Target;
    loop {
        if interrupt::requested() {
            return Err(TrialError::Interrupted);
        }
        let elapsed = began.elapsed();
        progress(TrialProgress::Elapsed(elapsed.as_secs_f64()));
        if let Some(expected) = expected
            && elapsed > expected + GRACE
        {
            let late = End::BOTH.into_iter().filter(|end| outcomes[*end].is_none());
            let late: Vec<&str> = late.map(End::name).collect();
            let sentence = format!(
                "the {} did not finish within {} s after the trial's time; try again, and see what else keeps it busy",
                late.join(" and the "),
                GRACE.as_secs()
            );
            return Err(TrialError::Traffic(with_links(pair, route, (sentence, None))));
        }
        let far = expected.is_some_and(|expected| elapsed + 2 * FAR < expected);
        // The ends are looked at in turn; the one that has finished says nothing more.
        end = end.other();
        if outcomes[end].is_some() {
            end = end.other();
        }
        if let Some(middle) = &pair.middle
            && let Ok(AgentEvent::Lost(error)) = middle.client.events().try_recv()
        {
            return Err(of_control(error));
        }
        match pair.client(end).events().recv_timeout(if far { FAR } else { NEAR }) {
            Ok(AgentEvent::Event(Event::Finished(outcome))) => outcomes[end] = Some(outcome),
            Ok(AgentEvent::Event(Event::FinishedWith { own, other })) => {
                outcomes[end.other()] = Some(other);
                outcomes[end] = Some(own);
            }
            Ok(AgentEvent::Event(Event::Progress { elapsed_ns, octets_sent, octets_received })) => {
                progress(TrialProgress::SoFar(end, LiveCounts { elapsed_ns, octets_sent, octets_received }));
            }
            // An agent that does not know the request carries the trial on to its end.
            Ok(AgentEvent::Event(Event::LostTooMuch)) => drop(pair.client(end.other()).send(Request::EndSending)),
            Ok(AgentEvent::Event(Event::Profiled(_))) | Err(RecvTimeoutError::Timeout) => {}
            Ok(AgentEvent::Event(Event::TrialFailed { message, failure, seen })) => {
                outcomes[end] = seen;
                // When a machine goes, the other may feel it first; the one that is gone is the news.
                return Err(match lost_machine(pair) {
                    Some(lost) => lost,
                    None => {
                        let why = why_it_failed(pair, end, &message, failure, outcomes);
                        let is_found = why.1 != Some(Failure::NoServer);
                        let sentence = with_links(pair, route, why);
                        if is_found { TrialError::Traffic(sentence) } else { TrialError::NotOpened(sentence) }
                    }
                });
            }
            Ok(AgentEvent::Lost(error)) => return Err(of_control(error)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(TrialError::Lost(format!("{} was lost", pair.client(end).machine())));
            }
        }
        if outcomes.target.is_some()
            && outcomes.host.is_some()
            && let (Some(target), Some(host)) = (outcomes.target.take(), outcomes.host.take())
        {
            return Ok(Box::new([*target, *host]));
        }
    }
}

/// Why traffic ended, by the end that ended it: one that sees nothing arrive for long closes its connections, and all that
/// the other end knows is that they broke.
fn why_it_failed(
    pair: &Pair,
    end: End,
    message: &str,
    failure: Option<Failure>,
    outcomes: &mut Partial,
) -> (String, Option<Failure>) {
    let broke = Some(Failure::ConnectionBroke);
    let said = (format!("the {end}: {message}"), failure);
    if failure != broke {
        return said;
    }
    let deadline = Instant::now() + SIGN_OF_LIFE;
    loop {
        match pair.client(end.other()).events().recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(AgentEvent::Event(Event::TrialFailed { message, failure, seen })) if failure != broke => {
                outcomes[end.other()] = seen;
                return (format!("the {}: {message}", end.other()), failure);
            }
            Ok(AgentEvent::Event(Event::Progress { .. } | Event::LostTooMuch | Event::Profiled(_))) => {}
            Ok(event) => {
                keep(outcomes, end.other(), event);
                return said;
            }
            Err(_) => return said,
        }
    }
}

/// Whether one of the machines is gone. One that is silent gets the time in which silence is noticed.
fn lost_machine(pair: &Pair) -> Option<TrialError> {
    let pings: Vec<_> = pair.clients().map(|client| client.send(Request::Ping)).collect();
    let lost: Vec<ControlError> = pings.into_iter().filter_map(|ping| ping.wait(SIGN_OF_LIFE).err()).collect();
    lost.into_iter().next().map(|error| TrialError::Lost(error.to_string()))
}

/// The sentence, with what the ends say of their links where one is down and the sentence does not say so.
fn with_links(pair: &Pair, route: Route, (sentence, failure): (String, Option<Failure>)) -> String {
    let first = || carrier::down(pair, route).into_iter().next();
    match first().filter(|_| failure != Some(Failure::NoCarrier)) {
        Some(LinkDown { end, interface }) => format!("{sentence} (the {end}'s interface {interface} has no carrier)"),
        None => sentence,
    }
}

fn wait_both(pending: [linerate_control::Pending; 2]) -> Result<[Reply; 2], TrialError> {
    let [target, host] = pending.map(|pending| pending.wait(ANSWER_TIME));
    Ok([target.map_err(of_control)?, host.map_err(of_control)?])
}

/// A secret of one trial.
pub(super) fn secret() -> Result<Secret, TrialError> {
    let mut octets = [0; 16];
    noise::draw(&mut octets).map_err(|error| TrialError::Refused(error.to_string()))?;
    Ok(Secret(octets))
}
