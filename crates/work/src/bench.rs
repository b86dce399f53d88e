//! A bench: two machines that are measured between, and what others may do there. A TOML file describes it.
//! Knows endpoints as texts only; they are parsed where machines are reached.
//!
//! ```toml
//! name = "imx6-1"
//! target = "root@imx6-1.lab"
//! host = "local"
//! tags = { board = "imx6", speed = "1G" }
//! [limits]
//! users = ["ann", "ci"]                  # absent: everybody
//! hours = ["mon-fri 18:00-06:00"]        # UTC; absent: always
//! settings = ["target.mtu", "host.*"]    # absent: none
//! commands = false                       # programs that a plan names
//! ```

use std::collections::BTreeMap;

use linerate_machine::text::{is_plain_name, nearest};
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::hours::Hours;

/// The largest file.
const LONGEST: usize = 64 << 10;
/// The keys of a file, and those of its limits.
const KEYS: [&str; 8] = ["name", "about", "target", "host", "middle", "addresses", "tags", "limits"];
const LIMITS: [&str; 4] = ["users", "hours", "settings", "commands"];
const ADDRESSES: [&str; 2] = ["target", "host"];

/// Two machines, what lies between, and what others may do there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// What it is called, everywhere the same.
    pub name: String,
    /// In a line, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The endpoint of the machine under test.
    pub target: String,
    /// The endpoint of the machine at the other end.
    pub host: String,
    /// The machine between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub middle: Option<String>,
    /// The addresses of the test traffic, where they do not follow: of target and host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, String>,
    /// What it is picked by: `board=imx6`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// What others may do there.
    #[serde(default)]
    pub limits: Limits,
}

/// What a job may do on a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Whose jobs it takes; `None`: everybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<String>>,
    /// When a job may begin; none: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hours: Vec<Hours>,
    /// The settings that a plan may change: `target.mtu`, or all that begin so: `host.*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Programs that a plan names may run: to boot a machine, and for settings of its own.
    #[serde(default)]
    pub commands: bool,
}

/// What is wrong with a bench's file: its line, and one sentence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{line}: {why}")]
pub struct BadBench {
    /// From 1.
    pub line: usize,
    /// One sentence, ending in what to write.
    pub why: String,
}

impl Limits {
    /// Whether this user's jobs are taken.
    pub fn takes(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.iter().any(|one| one == user))
    }

    /// Whether a job may begin at this time, seconds since 1970.
    pub fn is_open(&self, unix_s: i64) -> bool {
        self.hours.is_empty() || self.hours.iter().any(|hours| hours.has(unix_s))
    }

    /// Whether a plan may change this setting, like `target.mtu`.
    pub fn allows(&self, setting: &str) -> bool {
        self.settings.iter().any(|one| match one.strip_suffix('*') {
            Some(beginning) => setting.starts_with(beginning),
            None => one == setting,
        })
    }
}

impl Bench {
    /// Whether all of these words are true of it: `board=imx6` of its tags, `bench=NAME` of itself.
    pub fn is_meant(&self, words: &[(String, String)]) -> bool {
        words.iter().all(|(key, value)| match key.as_str() {
            "bench" => *value == self.name,
            key => self.tags.get(key) == Some(value),
        })
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Result<Bench, BadBench> {
        let said = |at: usize, why: String| {
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            BadBench { line, why }
        };
        if text.len() > LONGEST {
            return Err(said(0, "it is larger than 64K; a bench has a few lines".to_owned()));
        }
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            said(error.span().map_or(0, |span| span.start), format!("this is not TOML: {message}"))
        })?;
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        let (mut tags, mut addresses, mut limits) = (BTreeMap::new(), BTreeMap::new(), Limits::default());
        for (key, value) in table.get_ref() {
            let (at, key) = (key.span().start, key.get_ref().as_ref());
            let said = |why| said(at, why);
            match key {
                "tags" => tags = pairs(key, value.get_ref()).map_err(said)?,
                "addresses" => {
                    addresses = pairs(key, value.get_ref()).map_err(said)?;
                    known("addresses", addresses.keys().map(String::as_str), &ADDRESSES).map_err(said)?;
                }
                "limits" => limits = limits_of(value.get_ref()).map_err(said)?,
                _ => {
                    known("a bench", std::iter::once(key), &KEYS).map_err(said)?;
                    let text = value
                        .get_ref()
                        .as_str()
                        .ok_or_else(|| said(format!("{key} is a text in quotes, like {key} = \"…\"")))?;
                    if text.is_empty() || text.len() > 1024 || text.chars().any(char::is_control) {
                        return Err(said(format!("{key} is one line of 1 to 1024 letters")));
                    }
                    texts.insert(KEYS[KEYS.iter().position(|one| *one == key).unwrap_or(0)], text.to_owned());
                }
            }
        }
        let mut take = |key: &str| texts.remove(key);
        let missing = |key: &str, like: &str| said(0, format!("{key} is missing; write {key} = \"{like}\""));
        let name = take("name").ok_or_else(|| missing("name", "imx6-1"))?;
        if !is_plain_name(&name) {
            return Err(said(
                0,
                format!("'{name}' is not a name for a bench; take letters, digits, - and _, 48 at most"),
            ));
        }
        if let Some(key) = tags.keys().find(|key| key.as_str() == "bench" || !is_plain_name(key)) {
            return Err(said(
                0,
                format!("'{key}' is not a name for a tag; take letters, digits, - and _, and not 'bench'"),
            ));
        }
        Ok(Bench {
            name,
            about: take("about").unwrap_or_default(),
            target: take("target").ok_or_else(|| missing("target", "root@board"))?,
            host: take("host").unwrap_or_else(|| "local".to_owned()),
            middle: take("middle"),
            addresses,
            tags,
            limits,
        })
    }
}

fn known<'a>(of: &str, mut keys: impl Iterator<Item = &'a str>, all: &[&'static str]) -> Result<(), String> {
    let Some(key) = keys.find(|key| !all.contains(key)) else { return Ok(()) };
    let near = nearest(key, all.iter().copied()).map(|near| format!("did you mean '{near}'? ")).unwrap_or_default();
    Err(format!("there is no '{}' in {of}; {near}it takes {}", key.escape_debug(), all.join(", ")))
}

fn pairs(key: &str, value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    let why = || format!("{key} is a table of texts, like {key} = {{ board = \"imx6\" }}");
    let table = value.as_table().ok_or_else(why)?;
    let pair = |(key, value): (&toml::Spanned<toml::de::DeString<'_>>, &toml::Spanned<DeValue<'_>>)| {
        let value = value.get_ref().as_str().ok_or_else(why)?;
        if value.is_empty() || value.len() > 256 || value.chars().any(char::is_control) {
            return Err(why());
        }
        Ok((key.get_ref().to_string(), value.to_owned()))
    };
    table.iter().map(pair).collect()
}

fn limits_of(value: &DeValue<'_>) -> Result<Limits, String> {
    let table = value.as_table().ok_or("limits is a table, begun by [limits]")?;
    known("limits", table.keys().map(|key| key.get_ref().as_ref()), &LIMITS)?;
    let list = |key: &str, like: &str| -> Result<Option<Vec<String>>, String> {
        let why = || format!("{key} is a list of texts, like {key} = [\"{like}\"]");
        let Some(value) = table.get(key) else { return Ok(None) };
        let texts = value.get_ref().as_array().ok_or_else(why)?;
        texts
            .iter()
            .map(|one| one.get_ref().as_str().map(str::to_owned).ok_or_else(why))
            .collect::<Result<_, _>>()
            .map(Some)
    };
    let users = list("users", "ann")?;
    if let Some(user) = users.iter().flatten().find(|user| !is_plain_name(user)) {
        return Err(format!("'{}' is not a user; take letters, digits, - and _, 48 at most", user.escape_debug()));
    }
    let settings = list("settings", "target.mtu")?.unwrap_or_default();
    if let Some(one) = settings.iter().find(|one| !is_pattern(one)) {
        return Err(format!(
            "'{}' is not a setting; write one like target.mtu, or host.* for all that begin so",
            one.escape_debug()
        ));
    }
    let hours = list("hours", "mon-fri 18:00-06:00")?.unwrap_or_default();
    let hours = hours.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let commands = match table.get("commands").map(|value| value.get_ref().as_bool()) {
        None => false,
        Some(Some(commands)) => commands,
        Some(None) => return Err("commands is true or false".to_owned()),
    };
    Ok(Limits { users, hours, settings, commands })
}

/// A setting of a party, or the beginning of several.
fn is_pattern(text: &str) -> bool {
    let whole = text.strip_suffix('*').unwrap_or(text);
    let party = whole.split('.').next().unwrap_or_default();
    ["target", "host", "middle"].contains(&party)
        && whole.len() > party.len()
        && whole.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_".contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "name = 'imx6-1'\ntarget = 'root@imx6'\ntags = { board = 'imx6' }\n[limits]\nusers = ['ann']\n\
                         hours = ['mon-fri 18:00-06:00']\nsettings = ['target.mtu', 'host.*']\n";

    #[test]
    fn a_bench_and_what_is_allowed_there() {
        let bench = Bench::parse(WHOLE).unwrap();
        assert_eq!((bench.name.as_str(), bench.host.as_str(), bench.limits.commands), ("imx6-1", "local", false));
        assert!(bench.limits.takes("ann") && !bench.limits.takes("bob"));
        for (setting, is_allowed) in [
            ("target.mtu", true),
            ("target.mtu2", false),
            ("host.ring.rx", true),
            ("target.gro", false),
            ("middle.mtu", false),
        ] {
            assert_eq!(bench.limits.allows(setting), is_allowed, "{setting}");
        }
        let words = |text: &str| vec![text.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap()];
        assert!(bench.is_meant(&words("board=imx6")) && bench.is_meant(&words("bench=imx6-1")) && bench.is_meant(&[]));
        assert!(!bench.is_meant(&words("board=imx8")) && !bench.is_meant(&words("speed=1G")));
        let told = serde_json::to_string(&bench).unwrap();
        assert_eq!(serde_json::from_str::<Bench>(&told).unwrap(), bench);
        let bare = Bench::parse("name='a'\ntarget='local'").unwrap();
        assert!(bare.limits.takes("anybody") && bare.limits.is_open(0) && !bare.limits.allows("target.mtu"));
    }

    #[test]
    fn what_is_wrong_is_said_at_its_line() {
        let check = |text: &str, line: usize, part: &str| {
            let bad = Bench::parse(text).unwrap_err();
            assert!(bad.line == line && bad.why.contains(part), "{text:?}: {bad}");
        };
        check("", 1, "name is missing; write name =");
        check("name = 'a'", 1, "target is missing");
        check("name = 'a'\ntarget = 3", 2, "target is a text in quotes");
        check("name = 'a'\ntargte = 'x'", 2, "did you mean 'target'?");
        check("name = 'a b'\ntarget = 'x'", 1, "is not a name for a bench");
        check("name = 'a'\ntarget = \"x\\ny\"", 2, "one line");
        check("name = 'a'\ntarget = 'x'\ntags = 'imx6'", 3, "table of texts");
        check("name = 'a'\ntarget = 'x'\ntags = {bench='b'}", 1, "not 'bench'");
        check("name = 'a'\ntarget = 'x'\n[limits]\nuser = ['a']", 3, "did you mean 'users'?");
        check("name = 'a'\ntarget = 'x'\n[limits]\nusers = 'a'", 3, "users is a list");
        check("name = 'a'\ntarget = 'x'\n[limits]\nsettings = ['*']", 3, "is not a setting");
        check("name = 'a'\ntarget = 'x'\n[limits]\nsettings = ['target']", 3, "is not a setting");
        check("name = 'a'\ntarget = 'x'\n[limits]\nhours = ['late']", 3, "hours");
        check("name = 'a'\ntarget = 'x'\n[limits]\ncommands = 'yes'", 3, "true or false");
        check("name = ", 1, "this is not TOML");
        check(&"#".repeat(LONGEST + 1), 1, "larger than 64K");
    }
}
