//! All machines set as a trial wants them, and put back at the end.
//! Knows no trial's traffic. That settings go back when this process dies is the agents' business.

use std::time::{Duration, Instant};

use linerate_control::message::{Reply, Request, SETTINGS};
use linerate_control::{Client, ControlError, Pending};
use linerate_machine::change::{Change, Changed, PutBack, Reading};
use linerate_machine::end::{End, Party, PerEnd};
use linerate_machine::setting::{self, BOOT, DriverRequest, overlap};
use linerate_results::join::Route;
use linerate_trial::doubt::{Doubt, Doubted};
use linerate_trial::spec::Ip;

use super::error::{TrialError, of_control};
use super::pair::{ANSWER_TIME, Pair};
use crate::interrupt;
use linerate_plan::{PlannedTrial, WantedSetting};

/// An agent that hears nothing for so long after a change that may cut the conversation takes it back. Links come
/// up again within four seconds at 1000BASE-T; an ssh that hears nothing for six ends.
const CONFIRM_TIME: Duration = Duration::from_secs(5);
/// A conversation over TCP needs a while after the link is back: retransmissions double their distance (RFC 6298).
const AFTER_CUT: Duration = Duration::from_secs(7);
/// How long a link has to come back.
pub(super) const LINK_TIME: Duration = Duration::from_secs(15);
/// A command of the user's own has ten seconds on the machine, and a change needs three of them.
const CHANGE_TIME: Duration = Duration::from_secs(45);

/// What is changed at the moment.
#[derive(Default)]
pub(crate) struct Settings {
    applied: [Vec<Applied>; Scope::ALL.len()],
    /// A trial of frames was prepared: ends keep their ports silent for the next of them.
    has_silenced: bool,
}

/// Where settings are: on an end or, of the machine between the two, at one of its interfaces. What is of no interface is
/// at the one towards the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Target,
    Host,
    MiddleTowardsTarget,
    MiddleTowardsHost,
}

impl Scope {
    const ALL: [Scope; 4] = [Scope::Target, Scope::Host, Scope::MiddleTowardsTarget, Scope::MiddleTowardsHost];

    const fn of(end: End) -> Scope {
        match end {
            End::Target => Scope::Target,
            End::Host => Scope::Host,
        }
    }

    const fn party(self) -> Party {
        match self {
            Scope::Target => Party::Target,
            Scope::Host => Party::Host,
            Scope::MiddleTowardsTarget | Scope::MiddleTowardsHost => Party::Middle,
        }
    }

    fn takes(self, one: &WantedSetting) -> bool {
        let name = &one.change.name;
        one.end == self.party() && *name != BOOT && (self != Scope::MiddleTowardsHost || is_of_interface(name))
    }

    /// The agent there; `None`: there is no machine between the two.
    fn client(self, pair: &Pair) -> Option<&Client> {
        match self {
            Scope::Target => Some(&pair.target),
            Scope::Host => Some(&pair.host),
            Scope::MiddleTowardsTarget | Scope::MiddleTowardsHost => pair.middle.as_ref().map(|middle| &middle.client),
        }
    }
}

fn is_of_interface(name: &str) -> bool {
    setting::find(name).is_ok_and(|found| found.is_of_interface(name))
}

/// A change, the interface it was made for, and what came of it.
struct Applied {
    change: Change,
    interface: Option<String>,
    changed: Changed,
}

/// What machines have once they are set as a trial wants them.
pub(crate) struct AppliedSettings {
    /// The target and the host.
    pub(crate) ends: [Vec<Changed>; 2],
    /// The machine between the two, of none of its interfaces.
    pub(crate) middle: Vec<Changed>,
    /// Its interfaces towards the target and towards the host.
    pub(crate) ports: PerEnd<Vec<Changed>>,
}

impl Settings {
    /// Sets all machines as a trial wants them: what it does not name is what it was before the campaign, and what
    /// is already as wanted is left alone. What is told is what they have when all is done.
    pub(crate) fn reach(
        &mut self,
        pair: &Pair,
        route: Route,
        wanted: &[WantedSetting],
    ) -> Result<AppliedSettings, TrialError> {
        if let Some(sentence) = set_by_both(pair, route, wanted) {
            return Err(TrialError::Refused(sentence));
        }
        for (scope, interface) in self.seats(pair, route, wanted)? {
            let wanted = wanted.iter().filter(|one| scope.takes(one));
            let wanted: Vec<&Change> = wanted.map(|one| &one.change).collect();
            let Some(client) = scope.client(pair) else { continue };
            if self.reach_one(client, scope, interface, &wanted)? {
                wait_for_link(pair, route)?;
            }
        }
        // A later change may have undone an earlier one, as channels that are made anew forget their CPUs: that is set
        // once more, and what is read then is the truth.
        let mut undone = false;
        for scope in Scope::ALL {
            let Some(client) = scope.client(pair) else { continue };
            for (interface, change) in self.read_back(client, scope)? {
                let cut = may_cut(&change.name);
                set(client, interface, vec![change], cut)?;
                if cut {
                    wait_for_link(pair, route)?;
                }
                undone = true;
            }
        }
        if undone {
            for scope in Scope::ALL {
                scope.client(pair).map(|client| self.read_back(client, scope)).transpose()?;
            }
        }
        Ok(self.told())
    }

    /// Which machines are to be set, each with the interface; of the middle both interfaces, as soon as anything is wanted
    /// or changed there.
    fn seats(
        &self,
        pair: &Pair,
        route: Route,
        wanted: &[WantedSetting],
    ) -> Result<Vec<(Scope, Option<String>)>, TrialError> {
        let interface = |end| (Scope::of(end), pair.interface(end, route));
        let mut seats = End::BOTH.map(interface).to_vec();
        let of_middle = [Scope::MiddleTowardsTarget, Scope::MiddleTowardsHost];
        let is_touched = wanted.iter().any(|one| one.end == Party::Middle)
            || of_middle.iter().any(|scope| !self.applied[*scope as usize].is_empty());
        if let Some(middle) = pair.middle.as_ref().filter(|_| is_touched) {
            let ports = middle.ports(pair, route)?;
            let is_one = ports.target == ports.host;
            seats.push((Scope::MiddleTowardsTarget, Some(ports.target)));
            if !is_one {
                seats.push((Scope::MiddleTowardsHost, Some(ports.host)));
            }
        }
        Ok(seats)
    }

    fn told(&self) -> AppliedSettings {
        let told = |scope: Scope| -> Vec<Changed> {
            self.applied[scope as usize].iter().map(|one| one.changed.clone()).collect()
        };
        let of_port = |one: &Changed| is_of_interface(&one.name);
        let (target, middle) = told(Scope::MiddleTowardsTarget).into_iter().partition(of_port);
        AppliedSettings {
            ends: End::BOTH.map(|end| told(Scope::of(end))),
            middle,
            ports: PerEnd { target, host: told(Scope::MiddleTowardsHost) },
        }
    }

    /// Returns whether the link may have gone down.
    fn reach_one(
        &mut self,
        client: &Client,
        scope: Scope,
        interface: Option<String>,
        wanted: &[&Change],
    ) -> Result<bool, TrialError> {
        let applied = &mut self.applied[scope as usize];
        let is_wanted =
            |one: &Applied| one.interface == interface && wanted.iter().any(|change| change.name == one.change.name);
        let mut cut = false;
        let others = applied.iter().filter(|one| !is_wanted(one));
        // A driver may take only together what is one request: such a setting gets its original with the others.
        let is_with_wanted = |one: &&Applied| {
            let request = request_of(&one.change.name);
            request.is_some()
                && one.interface == interface
                && wanted.iter().any(|change| request_of(&change.name) == request)
        };
        let (with_wanted, alone): (Vec<&Applied>, Vec<&Applied>) = others.partition(is_with_wanted);
        let names = |of: &[&Applied]| of.iter().map(|one| one.change.name.clone()).collect::<Vec<String>>();
        let originals: Vec<Change> = with_wanted
            .iter()
            .filter_map(|one| Some(Change { value: one.changed.original.clone()?, ..one.change.clone() }))
            .collect();
        let (with_wanted, alone) = (names(&with_wanted), names(&alone));
        cut |= put_back(client, applied, &alone)?;
        let mut missing: Vec<Change> = wanted
            .iter()
            .filter(|change| !applied.iter().any(|one| one.change == ***change))
            .map(|change| (*change).clone())
            .collect();
        missing.extend(originals);
        if missing.is_empty() {
            return Ok(cut);
        }
        cut |= missing.iter().any(|change| may_cut(&change.name));
        for changed in set(client, interface.clone(), missing.clone(), cut)? {
            let Some(change) = missing.iter().find(|change| change.name == changed.name) else { continue };
            applied.retain(|one| one.change.name != change.name);
            applied.push(Applied { change: change.clone(), interface: interface.clone(), changed });
        }
        cut |= put_back(client, applied, &with_wanted)?;
        Ok(cut)
    }

    /// Of what is changed, what has another value now than it was set to, be it the one of before: a doubt each. It is put back all the
    /// same, and nobody would know.
    pub(crate) fn overridden(&self, pair: &Pair) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        for scope in Scope::ALL {
            let applied = &self.applied[scope as usize];
            // An agent that is gone is reported elsewhere.
            let Some(Ok(readings)) = scope.client(pair).and_then(|client| readings(client, applied)) else { continue };
            for reading in readings {
                let Some(one) = applied.iter().find(|one| one.change.name == reading.name) else { continue };
                // What could not be read when it was set may be what it was then.
                let (Some(found), Some(read_back)) = (&reading.value, &one.changed.read_back) else { continue };
                if found != read_back && !setting::agrees(&reading.name, &one.change.value, found) {
                    let (setting, asked) = (format!("{}.{}", scope.party(), reading.name), one.change.value.clone());
                    doubts.push(Doubted::SettingOverridden { setting, asked, read_back: reading.value }.into());
                }
            }
        }
        doubts
    }

    /// Reads what is changed on a machine, and returns what is no longer as it was when it was set.
    fn read_back(&mut self, client: &Client, scope: Scope) -> Result<Vec<(Option<String>, Change)>, TrialError> {
        let applied = &mut self.applied[scope as usize];
        let Some(readings) = readings(client, applied) else { return Ok(Vec::new()) };
        let mut undone = Vec::new();
        for reading in readings.map_err(of_control)? {
            let Some(one) = applied.iter_mut().find(|one| one.change.name == reading.name) else { continue };
            let is_same = reading.value == one.changed.read_back
                || reading.value.as_ref().is_some_and(|now| setting::agrees(&reading.name, &one.change.value, now));
            if !is_same {
                undone.push((one.interface.clone(), one.change.clone()));
            }
            one.changed.read_back = reading.value;
        }
        Ok(undone)
    }

    /// Puts back what is changed on a machine that is about to be booted: what is the user's own may outlive that. A
    /// sentence for each that could not be.
    pub(crate) fn leave(&mut self, pair: &Pair, end: End) -> Vec<String> {
        if std::mem::take(&mut self.applied[Scope::of(end) as usize]).is_empty() {
            return Vec::new();
        }
        not_put_back(pair.client(end), restore(pair.client(end), &[], false))
    }

    /// Notes that both ends are asked to keep their ports silent.
    pub(super) fn silence(&mut self) {
        self.has_silenced = true;
    }

    /// Puts everything back, on all machines at the same time, and waits for that: also what kept ports silent. A sentence for each
    /// that could not be.
    pub(crate) fn end(self, pair: &Pair) -> Vec<String> {
        let is_changed = |party: Party| {
            let mut seats = Scope::ALL.into_iter().filter(|scope| scope.party() == party);
            seats.any(|scope| !self.applied[scope as usize].is_empty()) || (self.has_silenced && party != Party::Middle)
        };
        let seats = [Scope::Target, Scope::Host, Scope::MiddleTowardsTarget];
        let changed = seats.into_iter().filter(|scope| is_changed(scope.party()));
        let clients: Vec<&Client> =
            changed.filter_map(|scope| scope.client(pair)).filter(|client| can(client)).collect();
        let asked: Vec<Pending> = clients.iter().map(|client| ask_restore(client, &[], false)).collect();
        clients.into_iter().zip(asked).flat_map(|(client, pending)| not_put_back(client, told(pending))).collect()
    }
}

/// What is changed on a machine, as it is now; `None` where nothing is.
fn readings(client: &Client, applied: &[Applied]) -> Option<Result<Vec<Reading>, ControlError>> {
    let interface = applied.first()?.interface.clone();
    let names = applied.iter().map(|one| one.change.name.clone()).collect();
    let custom = applied.iter().filter_map(|one| Some((one.change.name.clone(), one.change.custom.clone()?)));
    Some(get(client, interface, names, custom.collect()).map(|(readings, _)| readings))
}

/// Puts back what is applied by these names; returns whether that may have cut the link.
fn put_back(client: &Client, applied: &mut Vec<Applied>, names: &[String]) -> Result<bool, TrialError> {
    if names.is_empty() {
        return Ok(false);
    }
    let told = restore(client, names, false).map_err(of_control)?;
    applied.retain(|one| !names.contains(&one.change.name));
    match told.iter().find(|one| one.error.is_some()) {
        Some(failed) => Err(TrialError::Refused(format!("{}: {}", client.machine(), failed.sentence()))),
        None => Ok(names.iter().any(|name| may_cut(name))),
    }
}

/// The request to the driver that a setting is part of.
fn request_of(name: &str) -> Option<DriverRequest> {
    setting::find(name).ok()?.request()
}

/// Why these cannot be set where both ends are one machine and use one interface: they set the same thing twice.
fn set_by_both(pair: &Pair, route: Route, wanted: &[WantedSetting]) -> Option<String> {
    let interface = pair.interface(End::Target, route)?;
    if !pair.is_one() || pair.interface(End::Host, route).as_ref() != Some(&interface) {
        return None;
    }
    let of = |end: End| wanted.iter().filter(move |one| one.end == end).map(|one| one.change.name.as_str());
    let mut pairs = of(End::Target).flat_map(|target| of(End::Host).map(move |host| (target, host)));
    let (target, host) = pairs.find(|(target, host)| target == host || overlap::between(target, host).is_some())?;
    Some(format!(
        "target.{target} and host.{host} set the same thing, for both ends are one machine and use {interface}; set it \
         on one of them"
    ))
}

/// A sentence for each setting that could not be put back.
fn not_put_back(client: &Client, told: Result<Vec<PutBack>, ControlError>) -> Vec<String> {
    match told {
        Ok(back) => {
            let failed = back.iter().filter(|one| one.error.is_some());
            failed.map(|one| format!("{}: {}", client.machine(), one.sentence())).collect()
        }
        // An agent that is gone restores its settings by itself.
        Err(ControlError::Lost { .. }) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

/// Why each trial that cannot be measured cannot, as far as that is known before: (index, sentence).
pub(crate) fn foreseen(pair: &Pair, trials: &[PlannedTrial]) -> Result<Vec<(u32, String)>, ControlError> {
    let mut asked: Vec<(Party, Option<String>, Change, Option<String>)> = Vec::new();
    let mut refused = Vec::new();
    let mut routes: Vec<(Option<Ip>, Result<Route, String>)> = Vec::new();
    for trial in trials {
        let known = routes.iter().position(|(ip, _)| *ip == trial.spec.ip);
        let place = known.unwrap_or_else(|| {
            routes.push((trial.spec.ip, pair.route(trial.spec.ip)));
            routes.len() - 1
        });
        let route = match &routes[place].1 {
            Ok(route) => *route,
            Err(sentence) => {
                refused.push((trial.index, sentence.clone()));
                continue;
            }
        };
        if let Some(sentence) = set_by_both(pair, route, &trial.settings) {
            refused.push((trial.index, sentence));
            continue;
        }
        // What a machine has that is yet to be booted is not known.
        let known = |party: Party| party.end().is_none_or(|end| trial.boot(end).is_none());
        for WantedSetting { end, change } in trial.settings.iter().filter(|one| known(one.end)) {
            let (client, interface) = match at(pair, *end, route) {
                Ok(at) => at,
                Err(sentence) => {
                    refused.push((trial.index, sentence));
                    break;
                }
            };
            let known = asked.iter().find(|(e, i, c, _)| e == end && *i == interface && c == change);
            let error = match known {
                Some((.., error)) => error.clone(),
                None => {
                    let error = error_of(client, interface.clone(), change)?;
                    asked.push((*end, interface, change.clone(), error.clone()));
                    error
                }
            };
            if let Some(error) = error {
                refused.push((trial.index, format!("the {end}: {error}")));
                break;
            }
        }
    }
    Ok(refused)
}

/// The agent of a machine, and the interface whose settings are meant; of the middle the one towards the target. The error
/// is one sentence.
pub(crate) fn at(pair: &Pair, party: Party, route: Route) -> Result<(&Client, Option<String>), String> {
    match (party.end(), &pair.middle) {
        (Some(end), _) => Ok((pair.client(end), pair.interface(end, route))),
        (None, Some(middle)) => {
            let ports = middle.ports(pair, route).map_err(|error| error.to_string())?;
            Ok((&middle.client, Some(ports.target)))
        }
        (None, None) => Err("there is no machine in the middle; give --middle ENDPOINT".to_owned()),
    }
}

/// Why this setting is not there, or cannot have this value; `None`: nobody can tell before it is tried.
fn error_of(client: &Client, interface: Option<String>, change: &Change) -> Result<Option<String>, ControlError> {
    if !can(client) {
        return Ok(Some(CANNOT.to_owned()));
    }
    let custom = change.custom.iter().map(|how| (change.name.clone(), how.clone())).collect();
    let request =
        Request::Get { interface, names: vec![change.name.clone()], custom, values: vec![change.value.clone()] };
    match client.send(request).wait_unless(CHANGE_TIME, interrupt::requested) {
        Ok(Reply::Settings { settings, .. }) => Ok(settings.into_iter().find_map(|one| one.error)),
        Ok(_) => Ok(None),
        Err(ControlError::Refused { message, .. }) => Ok(Some(message)),
        Err(error) => Err(error),
    }
}

/// Settings of a machine, and those among all that were changed to stay: (name, original).
type Readings = (Vec<Reading>, Vec<(String, String)>);

/// Reads settings; all that the machine has, when none is named.
pub(crate) fn get(
    client: &Client,
    interface: Option<String>,
    names: Vec<String>,
    custom: Vec<(String, linerate_machine::change::Custom)>,
) -> Result<Readings, ControlError> {
    let values = Vec::new();
    match client.request(Request::Get { interface, names, custom, values }, CHANGE_TIME)? {
        Reply::Settings { settings, kept } => Ok((settings, kept)),
        _ => Ok((Vec::new(), Vec::new())),
    }
}

/// Makes these changes, and sees that the machine can still be reached. `cut`: that is in question.
pub(crate) fn set(
    client: &Client,
    interface: Option<String>,
    changes: Vec<Change>,
    cut: bool,
) -> Result<Vec<Changed>, TrialError> {
    if !can(client) {
        return Err(TrialError::Refused(format!("{}: {CANNOT}", client.machine())));
    }
    let confirm_within_s = cut.then(|| CONFIRM_TIME.as_secs_f64());
    let names: Vec<String> = changes.iter().map(|change| format!("{}={}", change.name, change.value)).collect();
    if cut {
        client.bear_silence(CONFIRM_TIME + AFTER_CUT);
    }
    let reply =
        client.request(Request::Set { interface, changes, confirm_within_s }, CHANGE_TIME).map_err(of_control)?;
    let Reply::Changed { settings } = reply else { return Ok(Vec::new()) };
    if cut {
        // That this arrives is the proof; an agent that did not hear it has taken the changes back.
        client.request(Request::Confirm, CONFIRM_TIME + AFTER_CUT).map_err(|error| match error {
            ControlError::Refused { machine, .. } => TrialError::Refused(format!(
                "{machine} could not be reached for {} s after {}, and took that back; choose a value that the link \
                 bears, or reach the machine by another way",
                CONFIRM_TIME.as_secs(),
                names.join(" and ")
            )),
            other => of_control(other),
        })?;
    }
    Ok(settings)
}

/// Puts settings back. `kept`: also what was changed to stay.
pub(crate) fn restore(client: &Client, names: &[String], kept: bool) -> Result<Vec<PutBack>, ControlError> {
    told(ask_restore(client, names, kept))
}

fn ask_restore(client: &Client, names: &[String], kept: bool) -> Pending {
    client.bear_silence(CONFIRM_TIME + AFTER_CUT);
    client.send(Request::Restore { names: names.to_vec(), kept })
}

fn told(pending: Pending) -> Result<Vec<PutBack>, ControlError> {
    match pending.wait(CHANGE_TIME)? {
        Reply::Restored { settings } => Ok(settings),
        _ => Ok(Vec::new()),
    }
}

/// Whether a change of this setting may cut the conversation or take the link down.
pub(crate) fn may_cut(name: &str) -> bool {
    setting::find(name).is_ok_and(|found| found.may_cut_link)
}

const CANNOT: &str = "its agent changes no settings; install the same version of linerate there";

fn can(client: &Client) -> bool {
    client.hello().capabilities.iter().any(|one| one == SETTINGS)
}

/// Waits until both ends have a carrier and their addresses.
pub(super) fn wait_for_link(pair: &Pair, route: Route) -> Result<(), TrialError> {
    let deadline = Instant::now() + LINK_TIME;
    for end in End::BOTH {
        let Some(interface) = pair.interface(end, route) else { continue };
        loop {
            let client = pair.client(end);
            let request = Request::Describe { interface: Some(interface.clone()), modules: Vec::new() };
            let described = client.request(request, ANSWER_TIME).map_err(of_control)?;
            let has_carrier = match described {
                Reply::Environment(environment) => environment.nic.is_none_or(|nic| nic.link_detected != Some(false)),
                _ => true,
            };
            let has_address = match client.request(Request::Addresses, ANSWER_TIME).map_err(of_control)? {
                Reply::Addresses { addresses, .. } => addresses.iter().any(|one| one.up && one.address == route[end]),
                _ => true,
            };
            if has_carrier && has_address {
                break;
            }
            if Instant::now() >= deadline {
                let missing =
                    if has_carrier { format!("its address {}", route[end]) } else { "its carrier".to_owned() };
                return Err(TrialError::Refused(format!(
                    "the {end}'s interface {interface} did not get {missing} back within {} s after the settings were \
                     changed; choose values that both ends of the cable can have",
                    LINK_TIME.as_secs()
                )));
            }
            if crate::interrupt::requested() {
                return Err(TrialError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}
