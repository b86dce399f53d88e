//! A machine booted as a trial wants it: by the plan's command, waited for, and looked at.
//! Knows no traffic, and no setting but this one.

use std::time::{Duration, Instant};

use linerate_control::message::{Reply, Request};
use linerate_control::{Client, ControlError};
use linerate_host::command::{self, Children, CommandError};
use linerate_machine::change::Changed;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::environment::Environment;
use linerate_machine::setting::BOOT;
use linerate_machine::units::format_duration;
use linerate_results::join::Route;
use linerate_trial::spec::Ip;

use super::error::TrialError;
use super::events::{CampaignEvent, Listener};
use super::pair::{ANSWER_TIME, Pair};
use super::settings::{LINK_TIME, Settings, wait_for_link};
use crate::interrupt;
use linerate_plan::{Boot, Checked, PlannedTrial};

/// Between two tries to reach a machine that boots.
const PAUSE: Duration = Duration::from_millis(500);
/// What ssh says of a connection that broke, which is what a machine that goes down does to it.
const SSH_BROKE: i32 = 255;

/// What both machines are booted as.
#[derive(Default)]
pub(crate) struct Boots {
    now: PerEnd<Option<Booted>>,
    /// The last start of each kernel that was seen.
    seen: PerEnd<Option<String>>,
    /// What a boot has cost on average, and how many there were.
    took: Duration,
    count: u32,
}

/// A level that a machine was booted as, or was to be.
struct Booted {
    level: String,
    /// As records have it.
    changed: Changed,
    /// Why no trial of this level can be measured.
    failed: Option<String>,
}

impl Boots {
    /// Boots both machines as the trial wants them; one that is so since an earlier trial is left alone. A level that
    /// failed once is not tried again: its trials fail alike, and the next level has its own command.
    pub(crate) fn reach(
        &mut self,
        pair: &mut Pair,
        boots: &[Boot],
        trial: &PlannedTrial,
        settings: &mut Settings,
        tell: Listener<'_>,
    ) -> Result<(), TrialError> {
        for end in End::BOTH {
            let Some(level) = trial.boot(end) else { continue };
            if self.now[end].as_ref().is_none_or(|booted| booted.level != level) {
                let Some(boot) = boots.iter().find(|boot| boot.name == level) else { continue };
                for sentence in settings.leave(pair, end) {
                    tell(&CampaignEvent::Said { sentence });
                }
                let began = Instant::now();
                let mut under_way = UnderWay { pair, end, boot, began, tell };
                let failed = match under_way.boot(trial.spec.ip, &mut self.seen[end]) {
                    Ok(()) => None,
                    Err(TrialError::Interrupted) => return Err(TrialError::Interrupted),
                    Err(error) => Some(error.to_string()),
                };
                self.took += began.elapsed();
                self.count += 1;
                let taken = || Some(level.to_owned());
                let changed = Changed {
                    name: BOOT.to_owned(),
                    asked: level.to_owned(),
                    set: taken().filter(|_| failed.is_none()),
                    // Without anything to look at, that it booted is all one knows.
                    read_back: taken().filter(|_| failed.is_none() && !boot.checks.is_empty()),
                    original: None,
                };
                self.now[end] = Some(Booted { level: level.to_owned(), changed, failed });
            }
            if let Some(sentence) = self.now[end].as_ref().and_then(|booted| booted.failed.clone()) {
                return Err(TrialError::Refused(sentence));
            }
        }
        Ok(())
    }

    /// What records say of the boot of an end.
    pub(crate) fn changed(&self, end: End) -> Option<&Changed> {
        self.now[end].as_ref().map(|booted| &booted.changed)
    }

    /// What is left as it was booted last: a sentence for each machine.
    pub(crate) fn stays(&self) -> Vec<String> {
        let stays = |end: End| {
            let booted = self.now[end].as_ref().filter(|booted| booted.failed.is_none())?;
            Some(format!("the {end} stays booted as {}", booted.level))
        };
        End::BOTH.into_iter().filter_map(stays).collect()
    }

    /// What a boot takes, by those that were; `None` before the first.
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.took.checked_div(self.count)
    }

    /// How many boots these trials still need.
    pub(crate) fn needed<'t>(&self, trials: impl IntoIterator<Item = &'t PlannedTrial>) -> u32 {
        let mut now = PerEnd::of(|end| self.now[end].as_ref().map(|booted| booted.level.as_str()));
        let mut needed = 0;
        for trial in trials {
            for end in End::BOTH {
                let level = trial.boot(end);
                needed += u32::from(level.is_some() && level != now[end]);
                now[end] = level.or(now[end]);
            }
        }
        needed
    }
}

/// A machine that is being booted.
struct UnderWay<'a> {
    pair: &'a mut Pair,
    end: End,
    boot: &'a Boot,
    began: Instant,
    tell: Listener<'a>,
}

impl UnderWay<'_> {
    /// Boots the machine, and returns when it is what was asked and its link is there again. `seen`: the start of its
    /// kernel that was seen last.
    fn boot(&mut self, ip: Option<Ip>, seen: &mut Option<String>) -> Result<(), TrialError> {
        let route = self.pair.route(ip).ok();
        if let Some(machine) = describe(self.pair.client(self.end), &[]) {
            *seen = machine.boot_id;
        }
        self.pair.client(self.end).end("it is being booted");
        self.run_command()?;
        let machine = self.wait_for_agent(seen.as_deref())?;
        self.check(machine, seen)?;
        self.wait_for_traffic(ip, route)
    }

    fn run_command(&mut self) -> Result<(), TrialError> {
        let name = &self.boot.name;
        let mut environment = vec![
            ("LINERATE_BOOT", name.as_str()),
            ("LINERATE_MACHINE", self.end.name()),
            ("LINERATE_ENDPOINT", &self.pair.names[self.end]),
        ];
        // So labgrid-client knows which place is meant, as with -p.
        environment.extend(self.pair.place(self.end).map(|place| ("LG_PLACE", place.name())));
        // It may have left something for later: a relay that is switched on again, a TFTP server.
        let ended = command::run(&self.boot.command, &environment, Children::Stay, self.boot.wait, || {
            self.tell();
            interrupt::requested()
        });
        let refused = |what: String| Err(TrialError::Refused(format!("{what}; run it by hand to see what it does")));
        match ended {
            Ok(ended) if ended.status.success() || ended.status.code() == Some(SSH_BROKE) => Ok(()),
            Ok(ended) => {
                let said = ended.complaint().map(|complaint| format!(": {complaint}")).unwrap_or_default();
                refused(format!("the command of boot.{name} failed ({}){said}", ended.status))
            }
            Err(CommandError::Stopped) => Err(TrialError::Interrupted),
            Err(error) => refused(format!("the command of boot.{name} came to nothing: {error}")),
        }
    }

    /// Waits until an agent answers in another boot than the one `before`; it becomes the pair's.
    fn wait_for_agent(&mut self, before: Option<&str>) -> Result<Environment, TrialError> {
        let modules = self.boot.checks.modules();
        self.pair.modules[self.end].clone_from(&modules);
        // Of a machine that does not tell its boots, being gone for a while is all there is to see.
        let (mut was_away, mut last) = (false, None);
        loop {
            match self.pair.reconnect(self.end, self.left()) {
                Ok(client) => {
                    let machine = describe(&client, &modules);
                    let boot_id = machine.as_ref().and_then(|machine| machine.boot_id.as_deref());
                    let is_another = match (before, boot_id) {
                        (Some(before), Some(now)) => before != now,
                        _ => was_away,
                    };
                    match machine {
                        Some(machine) if is_another => match self.pair.adopt(self.end, client) {
                            Ok(()) => return Ok(machine),
                            Err(error) => last = Some(error),
                        },
                        Some(_) => last = None,
                        None => was_away = true,
                    }
                }
                Err(ControlError::Interrupted) => return Err(TrialError::Interrupted),
                Err(error) => {
                    was_away = true;
                    last = Some(error);
                }
            }
            if self.left().is_zero() {
                break;
            }
            self.pause()?;
        }
        let (name, wait) = (&self.boot.name, format_duration(self.boot.wait));
        let machine = self.pair.client(self.end).machine();
        Err(TrialError::Refused(match last {
            Some(error) => format!(
                "{machine} was not back within {wait} of boot.{name}; see its console, or give boot.{name} a longer \
                 wait (the last try: {error})"
            ),
            None => format!(
                "{machine} has not rebooted within {wait} of boot.{name}: it is in the same boot as before; see what \
                 the command does"
            ),
        }))
    }

    /// Sees that the machine is what was asked. A module may be loaded a while after the agent can be reached.
    fn check(&self, mut machine: Environment, seen: &mut Option<String>) -> Result<(), TrialError> {
        let modules = self.boot.checks.modules();
        let name = &self.boot.name;
        loop {
            seen.clone_from(&machine.boot_id);
            let client = self.pair.client(self.end);
            match self.boot.checks.check(&machine) {
                Checked::Good => return Ok(()),
                Checked::Other(what) => {
                    let of = client.machine();
                    return Err(TrialError::Refused(format!(
                        "{of} came back from boot.{name} as another: {what}; see what its boot loader starts"
                    )));
                }
                Checked::Unknown(what) if self.left().is_zero() => {
                    let of = client.machine();
                    return Err(TrialError::Refused(format!(
                        "{of} came back from boot.{name} as nobody knows what: {what}; leave the check out, or have \
                         the machine tell it"
                    )));
                }
                Checked::Unknown(_) => {}
            }
            self.pause()?;
            machine = describe(client, &modules).ok_or_else(|| {
                TrialError::Refused(format!("{} came back from boot.{name} and is gone again", client.machine()))
            })?;
        }
    }

    /// Waits until the addresses and the link of the test traffic are there again.
    fn wait_for_traffic(&mut self, ip: Option<Ip>, before: Option<Route>) -> Result<(), TrialError> {
        let until = Instant::now() + self.left().max(LINK_TIME);
        // By another address of the other machine the traffic would take another cable.
        let other = |route: Route| if self.end == End::Target { route.host } else { route.target };
        let route = loop {
            let found = self.pair.route(ip);
            match found {
                Ok(route) if before.is_none_or(|before| other(before) == other(route)) => break route,
                found if Instant::now() >= until => {
                    let why = match found {
                        Ok(route) => format!(
                            "the way between the machines would be another ({} to {})",
                            route.target, route.host
                        ),
                        Err(sentence) => sentence,
                    };
                    let name = &self.boot.name;
                    return Err(TrialError::Refused(format!("the {} is back from boot.{name}, but {why}", self.end)));
                }
                _ => {}
            }
            self.pause()?;
            self.pair.look_up_addresses(self.end).map_err(super::error::of_control)?;
        };
        wait_for_link(self.pair, route)
    }

    fn left(&self) -> Duration {
        self.boot.wait.saturating_sub(self.began.elapsed())
    }

    fn tell(&self) {
        (self.tell)(&CampaignEvent::Booting {
            end: self.end,
            level: self.boot.name.clone(),
            elapsed_s: self.began.elapsed().as_secs_f64(),
            at_most_s: self.boot.wait.as_secs_f64(),
        });
    }

    /// Waits a moment.
    fn pause(&self) -> Result<(), TrialError> {
        let until = Instant::now() + PAUSE;
        while Instant::now() < until {
            self.tell();
            if interrupt::requested() {
                return Err(TrialError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// The machine without an interface; `None` if it does not answer.
fn describe(client: &Client, modules: &[String]) -> Option<Environment> {
    match client.request(Request::Describe { interface: None, modules: modules.to_vec() }, ANSWER_TIME) {
        Ok(Reply::Environment(environment)) => Some(*environment),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::Plan;

    #[test]
    fn boots_that_trials_need() {
        let text = "format = 'linerate.plan/1'\nworkload = 'tcp-rr'\nrepeat = 2\n[factors]\nstreams = [1, 2]\n\
                    target.boot = ['a', 'b', 'c']\n[boot.a]\ncommand = 'x'\n[boot.b]\ncommand = 'x'\n[boot.c]\n\
                    command = 'x'\n";
        let trials = Plan::parse(text, "my.toml", "my").unwrap().trials(&[], None).unwrap();
        let mut boots = Boots::default();
        assert_eq!((trials.len(), boots.needed(&trials), boots.usual()), (12, 3, None));
        assert_eq!(boots.needed(&[]), 0);
        let changed =
            Changed { name: BOOT.to_owned(), asked: "a".to_owned(), set: None, read_back: None, original: None };
        boots.now.target = Some(Booted { level: "a".to_owned(), changed, failed: None });
        assert_eq!(boots.needed(&trials), 2);
        assert_eq!(boots.stays(), ["the target stays booted as a"]);
    }
}
