//! What the console knows: the machines, the values that were asked for last, and what tests run with.
//! Knows no menu and no terminal; a value is checked here before it is kept.

use std::collections::BTreeMap;

use linerate_control::{Endpoint, endpoint_forms};
use linerate_machine::change::Reading;
use linerate_machine::end::{End, PerEnd};
use linerate_machine::setting;
use linerate_menu::menu::Question;
use linerate_trial::options;
use linerate_trial::spec::{Spec, Workload};

use super::queue::Queue;
use crate::cli::EndsArgs;

/// What the console knows.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The machines, and the words of the command line that belong to them.
    pub(super) ends: PerEnd<Option<Endpoint>>,
    pub(super) further_words: Vec<String>,
    /// Settings of the target as they were when they were last read, or why they are not known.
    pub(super) readings: BTreeMap<String, Reading>,
    pub(super) unread: Option<String>,
    /// The team's queue, where there is one.
    pub(super) queue: Option<Queue>,
    values: BTreeMap<String, String>,
}

/// A question, and where its answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: String,
    prompt: String,
    pub(super) last: String,
    pub(super) allowed: String,
    check: Check,
}

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Endpoint,
    /// A name, or `auto`.
    Interface,
    Option(Workload, &'static str),
    /// Of the target, or `as it is`.
    Setting(&'static str),
    /// `NAME=VALUE` words, which may be none.
    Sets,
    /// A name of a plan, a record, a campaign.
    Name,
}

/// A setting that tests do not change.
pub(super) const AS_IT_IS: &str = "as it is";
/// An answer that says: none.
pub(super) const NONE: &str = "-";
/// The interface that an agent takes where none is named: the first that is up, and not the loopback.
const AUTO: &str = "auto";
/// IFNAMSIZ less the zero at its end (linux/if.h).
const LONGEST_INTERFACE: usize = 15;

/// What is usual where nothing was asked for yet. The text behind the last full stop is the option.
const USUAL: [(&str, &str); 16] = [
    ("duration", "10s"),
    ("message_size", "auto"),
    ("socket_buffer", "auto"),
    ("streams", "1"),
    ("rate", "unlimited"),
    ("sender_api", "auto"),
    ("receiver_api", "auto"),
    ("plan", "tcp"),
    ("sets", NONE),
    ("record", "last"),
    ("baseline", "last~1"),
    ("candidate", "last"),
    ("job", ""),
    ("listen", "[::]:7777"),
    ("key", "key"),
    ("canned", "15s"),
];

impl State {
    /// As the command line says.
    pub(super) fn new(ends: &EndsArgs) -> State {
        let mut words = Vec::new();
        let mut word = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if let Some(middle) = &ends.middle {
            word("--middle", middle.to_string());
        }
        if let Some(ports) = &ends.middle_interfaces {
            word("--middle-interfaces", format!("{},{}", ports.0.target, ports.0.host));
        }
        for (option, given) in [("--target-address", &ends.target_address), ("--host-address", &ends.host_address)] {
            if let Some(given) = given {
                let zone = given.zone.as_ref().map_or(String::new(), |zone| format!("%{zone}"));
                word(option, format!("{}{zone}", given.address));
            }
        }
        let ends = PerEnd { target: ends.target.clone(), host: ends.host.clone() };
        State { ends, further_words: words, ..State::default() }
    }

    /// What was asked for last, or what is usual.
    pub(super) fn value(&self, key: &str) -> &str {
        self.values.get(key).map_or_else(|| State::usual(key), String::as_str)
    }

    /// What is usual.
    pub(super) fn usual(key: &str) -> &'static str {
        let option = key.rsplit('.').next().unwrap_or(key);
        USUAL.iter().find(|(name, _)| *name == option).map_or("", |(_, usual)| *usual)
    }

    /// Keeps an answer that was checked.
    pub(super) fn keep(&mut self, field: &Field, answer: &str) {
        match (field.check, field.key.as_str()) {
            (Check::Endpoint, key) => {
                let endpoint = answer.parse().ok();
                let end = if key == End::Host.name() { End::Host } else { End::Target };
                if endpoint != self.ends[end] {
                    self.ends[end] = endpoint;
                    if end == End::Target {
                        // They are another machine's.
                        self.readings.clear();
                    }
                    self.values.remove(&interface_key(end));
                }
            }
            (Check::Interface, key) => {
                if key == interface_key(End::Target) && self.value(key) != answer {
                    self.readings.clear();
                }
                self.values.insert(key.to_owned(), answer.to_owned());
            }
            (Check::Setting(name), key) => {
                // Where it stands already there is nothing to set.
                let stands = self.readings.get(name).and_then(|reading| reading.value.as_deref()) == Some(answer);
                match answer == AS_IT_IS || stands {
                    true => drop(self.values.remove(key)),
                    false => drop(self.values.insert(key.to_owned(), answer.to_owned())),
                }
            }
            (_, key) => drop(self.values.insert(key.to_owned(), answer.to_owned())),
        }
    }

    /// The machine at this end; the host is where the console runs, unless said otherwise.
    pub(super) fn endpoint(&self, end: End) -> Option<Endpoint> {
        match end {
            End::Target => self.ends.target.clone(),
            End::Host => {
                let asked = self.ends.host.clone().unwrap_or(Endpoint::Local);
                Some(
                    self.ends
                        .target
                        .as_ref()
                        .map_or(asked.clone(), |target| super::super::boards::ends(target.clone(), asked).host),
                )
            }
        }
    }

    /// What tests change on the target: (setting, value).
    pub(super) fn changes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(|(key, value)| Some((key.strip_prefix("setting.")?, value.as_str())))
    }

    /// The question for a machine.
    pub(super) fn machine_field(&self, end: End) -> Field {
        let last = self.endpoint(end).map_or(String::new(), |endpoint| endpoint.to_string());
        let allowed = format!("one of: {}", endpoint_forms());
        let prompt = match end {
            End::Target => "Target, the machine under test",
            End::Host => "Host, at the other end of the cable",
        };
        field(end.name().to_owned(), prompt, last, allowed, Check::Endpoint)
    }

    /// The interface of this machine that is looked at; `None`: the first that is up.
    pub(super) fn interface(&self, end: End) -> Option<String> {
        let name = self.values.get(&interface_key(end))?;
        (name != AUTO).then(|| name.clone())
    }

    /// The question for it.
    pub(super) fn interface_field(&self, end: End) -> Field {
        let allowed = format!("a name like eth0, as 'Addresses' lists them, or {AUTO} for the first that is up");
        let last = self.interface(end).unwrap_or_else(|| AUTO.to_owned());
        field(interface_key(end), "Interface that is looked at", last, allowed, Check::Interface)
    }

    /// The question for an option of tests of this workload.
    pub(super) fn option_field(&self, workload: Workload, name: &'static str, prompt: &str) -> Field {
        self.option_field_at(&option_key(workload, name), workload, name, prompt)
    }

    /// The same, kept elsewhere.
    pub(super) fn option_field_at(&self, key: &str, workload: Workload, name: &'static str, prompt: &str) -> Field {
        let allowed = options::allowed(name).unwrap_or_default();
        field(key.to_owned(), prompt, self.value(key).to_owned(), allowed, Check::Option(workload, name))
    }

    /// The question for a setting of the target in tests.
    pub(super) fn setting_field(&self, name: &'static str, label: &str) -> Field {
        let key = setting_key(name);
        let last = self.values.get(&key).map_or(AS_IT_IS, String::as_str).to_owned();
        let allowed = setting::find(name).map_or("", |info| info.allowed);
        field(key, &format!("{label}, in tests"), last, format!("'{AS_IT_IS}', or {allowed}"), Check::Setting(name))
    }

    /// A question for a name or a text.
    pub(super) fn field(&self, key: &str, prompt: &str, allowed: &str, check: Check) -> Field {
        field(key.to_owned(), prompt, self.value(key).to_owned(), allowed.to_owned(), check)
    }
}

/// Where the value of an option of such tests is kept.
pub(super) fn option_key(workload: Workload, name: &str) -> String {
    format!("{}.{name}", workload.name())
}

fn interface_key(end: End) -> String {
    format!("interface.{}", end.name())
}

/// Where the value of a setting in tests is kept.
pub(super) fn setting_key(name: &str) -> String {
    format!("setting.{name}")
}

fn field(key: String, prompt: &str, last: String, allowed: String, check: Check) -> Field {
    Field { key, prompt: prompt.to_owned(), last, allowed, check }
}

impl Field {
    pub(super) fn question(&self) -> Question<'_> {
        Question { prompt: &self.prompt, last: &self.last, allowed: &self.allowed }
    }

    /// Whether this is an answer; the error is a sentence.
    pub(super) fn check(&self, answer: &str) -> Result<(), String> {
        match self.check {
            Check::Endpoint => answer.parse::<Endpoint>().map(|_| ()).map_err(|error| error.to_string()),
            Check::Interface => {
                let is_name = |c: char| !c.is_whitespace() && !c.is_control() && !"/:".contains(c);
                match (1..=LONGEST_INTERFACE).contains(&answer.len())
                    && answer.chars().all(is_name)
                    && !answer.starts_with('-')
                {
                    true => Ok(()),
                    false => Err(format!("'{answer}' is not an interface's name; write one like eth0, or {AUTO}")),
                }
            }
            Check::Option(workload, name) => {
                let mut spec = Spec::new(workload);
                spec.set(name, answer).map_err(|error| error.to_string())?;
                spec.validate().map_err(|error| error.to_string())
            }
            Check::Setting(_) if answer == AS_IT_IS => Ok(()),
            Check::Setting(name) => setting::canonical(name, answer).map(|_| ()).map_err(|error| error.to_string()),
            Check::Sets if answer == NONE => Ok(()),
            Check::Sets => match answer.split_whitespace().find(|word| !word.contains('=')) {
                Some(word) => Err(format!("'{word}' is not NAME=VALUE; write it like duration=5s, or {NONE} for none")),
                None => Ok(()),
            },
            // What begins so would be an option of the command.
            Check::Name if answer.starts_with('-') || answer.is_empty() => {
                Err(format!("'{answer}' is not a name; ? says what can stand here"))
            }
            Check::Name => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_checked_and_kept() {
        let mut state = State::default();
        let size = state.option_field(Workload::UdpStream, "message_size", "Message size");
        assert_eq!(size.last, "auto");
        assert!(size.check("1470").is_ok() && size.check("many").is_err());
        state.keep(&size, "1470");
        assert_eq!(state.option_field(Workload::UdpStream, "message_size", "").last, "1470");
        assert_eq!(state.option_field(Workload::TcpStream, "message_size", "").last, "auto");

        let api = state.option_field(Workload::TcpStream, "sender_api", "");
        assert!(api.check("zerocopy").is_ok() && api.check("sendmmsg").is_err(), "{:?}", api.check("sendmmsg"));

        let target = state.machine_field(End::Target);
        assert!(target.check("netns:b").is_ok() && target.check("netns:").is_err() && target.check("").is_err());
        state.keep(&target, "netns:b");
        assert_eq!(state.endpoint(End::Target).unwrap().to_string(), "netns:b");
        assert_eq!(state.endpoint(End::Host), Some(Endpoint::Local));
    }

    #[test]
    fn a_setting_in_tests_differs_from_what_it_is() {
        let mut state = State::default();
        let reading = Reading { name: "mtu".to_owned(), value: Some("1500".to_owned()), error: None };
        state.readings.insert("mtu".to_owned(), reading);
        let mtu = state.setting_field("mtu", "MTU");
        assert!(mtu.check("9000").is_ok() && mtu.check("x").is_err() && mtu.check(AS_IT_IS).is_ok());
        for (answer, want) in [("9000", 1), ("1500", 0), ("9000", 1), (AS_IT_IS, 0)] {
            state.keep(&mtu, answer);
            assert_eq!(state.changes().count(), want, "{answer}");
        }
    }

    #[test]
    fn an_interface_is_of_one_machine() {
        let mut state = State::default();
        let field = state.interface_field(End::Target);
        assert_eq!((field.last.as_str(), state.interface(End::Target)), ("auto", None));
        for (name, is_good) in [("eth0.100", true), ("auto", true), ("", false), ("--store", false), ("a b", false)] {
            assert_eq!(field.check(name).is_ok(), is_good, "{name}");
        }
        assert!(field.check("sixteen_letters_").is_err());
        state.keep(&field, "eth1");
        assert_eq!((state.interface(End::Target).as_deref(), state.interface(End::Host)), (Some("eth1"), None));
        let machine = state.machine_field(End::Target);
        state.keep(&machine, "netns:c");
        assert_eq!(state.interface(End::Target), None, "another machine has others");
    }

    #[test]
    fn a_name_is_no_option() {
        let state = State::default();
        let name = state.field("record", "Record", "", Check::Name);
        assert!(name.check("--store").is_err() && name.check("").is_err() && name.check("last").is_ok());
        let sets = state.field("sets", "", "", Check::Sets);
        assert!(sets.check("duration=1s rate=1M").is_ok() && sets.check("-").is_ok() && sets.check("fast").is_err());
    }
}
