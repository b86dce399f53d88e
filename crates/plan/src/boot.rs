//! `[boot.NAME]`: by which command a machine is booted, and how one sees that it is what was asked.
//! Knows the plan file and no machine; booting one is the business of `measure`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use linerate_machine::end::End;
use linerate_machine::environment::Environment;
use linerate_machine::pattern::fits_stars;
use linerate_machine::setting::{self, BOOT};
use linerate_machine::units::{format_duration, parse_duration};
use linerate_trial::options::setting_of;
use toml::Spanned;
use toml::de::DeValue;

use super::file::{Entry, Reader, entries, scalar};
use super::{Part, PlanError, PlannedTrial, WantedSetting};

/// A level of the factor `boot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The levels are named so.
    pub name: String,
    /// A program and its arguments, which the controller's machine runs.
    pub command: Vec<String>,
    /// What the machine must be afterwards.
    pub checks: Checks,
    /// How long the command and the machine have together.
    pub wait: Duration,
}

/// What is seen on a machine that was booted. Without any of it nobody can tell what is running there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The kernel's release, `uname -r`; a `*` stands for anything.
    pub kernel: Option<String>,
    /// When and how it was built, `uname -v`; a `*` stands for anything.
    pub build: Option<String>,
    /// Modules and the checksums of their sources, as /sys/module/NAME/srcversion has them.
    pub srcversion: Vec<(String, String)>,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is what was asked.
    Good,
    /// It is something else: half a sentence.
    Other(String),
    /// It cannot be told, or not yet: half a sentence.
    Unknown(String),
}

/// Servers that test their memory take this long, and boards a fifth of it.
const WAIT: Duration = Duration::from_secs(120);
const WAIT_ALLOWED: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
const KEYS: [&str; 5] = ["command", "kernel", "build", "srcversion", "wait"];

/// What is looked at, in words.
impl fmt::Display for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |what: &str, text: &Option<String>| text.as_ref().map(|text| format!("{what} {text}"));
        let mut parts: Vec<String> = one("kernel", &self.kernel).into_iter().chain(one("build", &self.build)).collect();
        parts.extend(self.srcversion.iter().map(|(module, version)| format!("{module} with srcversion {version}")));
        match parts.is_empty() {
            true => f.write_str("that it is what was asked is not checked"),
            false => write!(f, "it must come back with {}", parts.join(", ")),
        }
    }
}

impl Checks {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        *self == Checks::default()
    }

    /// The names of the modules that are looked at.
    pub fn modules(&self) -> Vec<String> {
        self.srcversion.iter().map(|(module, _)| module.clone()).collect()
    }

    /// Whether the machine is what was asked.
    pub fn check(&self, machine: &Environment) -> Checked {
        let release = (&self.kernel, &machine.kernel, "kernel");
        let build = (&self.build, &machine.kernel_version, "kernel's build");
        for (wanted, is, what) in [release, build] {
            match (wanted, is) {
                (Some(wanted), Some(is)) if !fits_stars(wanted, is) => {
                    return Checked::Other(format!("its {what} is {is}, and {wanted} was asked"));
                }
                (Some(_), None) => return Checked::Unknown(format!("its agent does not tell the {what}")),
                _ => {}
            }
        }
        for (module, wanted) in &self.srcversion {
            // The kernel writes a dash in a file's name as an underscore.
            match machine.modules.get(&module.replace('-', "_")) {
                Some(is) if is.eq_ignore_ascii_case(wanted) => {}
                Some(is) => {
                    return Checked::Other(format!("its module {module} has srcversion {is}, and {wanted} was asked"));
                }
                None => {
                    return Checked::Unknown(format!(
                        "it tells no srcversion of {module}: the module is not loaded, or built into the kernel, or \
                         built without CONFIG_MODULE_SRCVERSION_ALL, or the agent is of another version"
                    ));
                }
            }
        }
        Checked::Good
    }
}

impl PlannedTrial {
    /// What this trial wants the machine of an end booted as.
    pub fn boot(&self, end: End) -> Option<&str> {
        let boot = self.settings.iter().find(|one| one.end == end && one.change.name == BOOT);
        boot.map(|one| one.change.value.as_str())
    }
}

/// Whether every level of this factor or option, if it is `boot`, is one that the plan defines.
pub(super) fn defined(name: &str, levels: &[String], boots: &[Boot]) -> Result<(), String> {
    if setting_of(name).is_none_or(|(_, setting)| setting != BOOT) {
        return Ok(());
    }
    let is_unknown = |level: &&String| !level.starts_with("as ") && !boots.iter().any(|boot| boot.name == **level);
    match levels.iter().find(is_unknown) {
        Some(level) => Err(format!("{name}: the plan does not define boot.{level}; give it a [boot.{level}]")),
        None => Ok(()),
    }
}

/// What a part says of an option or factor.
pub(super) fn levels_of(part: &Part, name: &str) -> Vec<String> {
    let fixed = part.options.iter().filter(|(of, _)| of == name).map(|(_, level)| level);
    let varied = part.factors.iter().filter(|(of, _)| of == name).flat_map(|(_, levels)| levels);
    fixed.chain(varied).cloned().collect()
}

/// Puts blocks of trials that want the machines booted alike beside one another, where the first of them is: a boot is
/// dearer than whatever else changes between blocks.
pub(super) fn side_by_side(blocks: &mut [Vec<&WantedSetting>]) {
    let boots = |block: &[&WantedSetting]| -> Vec<(End, String)> {
        let boots = block.iter().filter(|one| one.change.name == BOOT);
        boots.map(|one| (one.end, one.change.value.clone())).collect()
    };
    let before: Vec<Vec<(End, String)>> = blocks.iter().map(|block| boots(block)).collect();
    blocks.sort_by_cached_key(|block| before.iter().position(|other| *other == boots(block)));
}

/// Whether the trials agree on who is booted: a machine does not go back to what it was before the campaign.
pub(super) fn agree(trials: &[PlannedTrial]) -> Result<(), String> {
    for end in End::BOTH {
        let booted = trials.iter().filter(|trial| trial.boot(end).is_some()).count();
        if booted != 0 && booted != trials.len() {
            return Err(format!(
                "{end}.boot: some trials say it and others do not, and nobody knows what those would run on; give it \
                 to every part"
            ));
        }
    }
    Ok(())
}

impl<'t> Reader<'t> {
    /// `[boot.NAME]`, each of them.
    pub(super) fn boots(&self, entry: &Entry<'t>) -> Result<Vec<Boot>, PlanError> {
        let wrong = |at: &Range<usize>| {
            let sentence = "what a machine is booted as is written as [boot.NAME], with a command";
            self.complaint(at, sentence.to_owned())
        };
        let mut read = Vec::new();
        for own in entries(entry.value.get_ref().as_table().ok_or_else(|| wrong(&entry.at))?) {
            setting::canonical(BOOT, own.key).map_err(|error| self.complaint(&own.at, error.to_string()))?;
            let keys = entries(own.value.get_ref().as_table().ok_or_else(|| wrong(&own.at))?);
            for key in &keys {
                self.known(key, &KEYS)?;
            }
            let find = |name: &str| keys.iter().find(|key| key.key == name);
            let text = |name: &str| find(name).map(|key| self.string(key).map(str::to_owned)).transpose();
            let checks = Checks {
                kernel: text("kernel")?,
                build: text("build")?,
                srcversion: find("srcversion").map(|key| self.srcversions(key)).transpose()?.unwrap_or_default(),
            };
            let command = self.boot_command(find("command").ok_or_else(|| wrong(&own.at))?)?;
            let wait = find("wait").map(|key| self.boot_wait(key)).transpose()?.unwrap_or(WAIT);
            read.push(Boot { name: own.key.to_owned(), command, checks, wait });
        }
        Ok(read)
    }

    /// A line for the shell, or a program with its arguments.
    fn boot_command(&self, entry: &Entry<'t>) -> Result<Vec<String>, PlanError> {
        let wrong = || {
            let sentence = "command: write a line for the shell like \"ssh root@board reboot\", or a program with its \
                            arguments, like [\"./relay\", \"off-on\"]";
            self.complaint(&entry.value.span(), sentence.to_owned())
        };
        match entry.value.get_ref() {
            DeValue::String(line) if !line.trim().is_empty() => Ok(["/bin/sh", "-c", line].map(str::to_owned).to_vec()),
            DeValue::Array(words) if !words.is_empty() => {
                let words = words.iter().map(|word| word.get_ref().as_str().map(str::to_owned));
                words.collect::<Option<_>>().ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn srcversions(&self, entry: &Entry<'t>) -> Result<Vec<(String, String)>, PlanError> {
        let wrong = |at: Range<usize>| {
            let sentence = "srcversion: write modules and what `modinfo -F srcversion MODULE` prints, like { fec = \
                            \"1F0E3D9C0B5A7E2D4C6B8A9\" }";
            self.complaint(&at, sentence.to_owned())
        };
        let table = entry.value.get_ref().as_table().ok_or_else(|| wrong(entry.value.span()))?;
        let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let read = |(module, version): (&Spanned<_>, &Spanned<DeValue<'t>>)| {
            let module: &std::borrow::Cow<'_, str> = module.get_ref();
            let version_text = version.get_ref().as_str().filter(|text| is_word(text));
            match version_text {
                Some(text) if is_word(&module.replace('-', "_")) => Ok((module.to_string(), text.to_owned())),
                _ => Err(wrong(version.span())),
            }
        };
        table.iter().map(read).collect()
    }

    fn boot_wait(&self, entry: &Entry<'t>) -> Result<Duration, PlanError> {
        let text = scalar(entry.value.get_ref());
        let wait = text.and_then(|text| parse_duration(&text).ok()).filter(|wait| WAIT_ALLOWED.contains(wait));
        wait.ok_or_else(|| {
            let (least, most) = (format_duration(*WAIT_ALLOWED.start()), format_duration(*WAIT_ALLOWED.end()));
            let sentence = format!("wait: write a time like \"120s\", {least} to {most}");
            self.complaint(&entry.value.span(), sentence)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    const HEAD: &str = "format = 'linerate.plan/1'\nworkload = 'tcp-rr'\n";

    #[test]
    fn a_machine_is_what_was_asked_or_not() {
        let checks = Checks {
            kernel: Some("6.6*".to_owned()),
            build: Some("#12 *".to_owned()),
            srcversion: vec![("dwmac-generic".to_owned(), "1F0E".to_owned())],
        };
        let machine = |kernel: &str, build: Option<&str>, srcversion: Option<&str>| Environment {
            kernel: Some(kernel.to_owned()),
            kernel_version: build.map(str::to_owned),
            modules: srcversion.map(|text| ("dwmac_generic".to_owned(), text.to_owned())).into_iter().collect(),
            ..Environment::default()
        };
        let check = |machine: &Environment| match checks.check(machine) {
            Checked::Good => "good".to_owned(),
            Checked::Other(what) => what,
            Checked::Unknown(what) => format!("unknown: {what}"),
        };
        assert_eq!(check(&machine("6.6.1", Some("#12 SMP"), Some("1f0e"))), "good");
        assert_eq!(check(&machine("5.15", None, None)), "its kernel is 5.15, and 6.6* was asked");
        assert!(check(&machine("6.6.1", Some("#11 SMP"), None)).contains("build is #11 SMP, and #12 * was asked"));
        assert!(check(&machine("6.6.1", None, None)).starts_with("unknown: its agent does not tell"));
        assert!(check(&machine("6.6.1", Some("#12 SMP"), Some("2F"))).contains("dwmac-generic has srcversion 2F"));
        assert!(check(&machine("6.6.1", Some("#12 SMP"), None)).starts_with("unknown: it tells no srcversion"));
        assert_eq!(Checks::default().check(&Environment::default()), Checked::Good);
    }

    #[test]
    fn what_a_plan_may_say() {
        let text = format!(
            "{HEAD}[factors]\ntarget.boot = ['old', 'new']\nstreams = [1, 2]\n[boot.old]\ncommand = 'ssh b reboot'\n\
             [boot.new]\ncommand = ['relay', '1']\nkernel = '6.6*'\nsrcversion = {{ fec = 'AB' }}\nwait = '30s'\n"
        );
        let plan = Plan::parse(&text, "my.toml", "my").unwrap();
        let [new, old] = &plan.boots[..] else { panic!("{:?}", plan.boots) };
        let (new, old) = if new.name == "new" { (new, old) } else { (old, new) };
        assert_eq!(old.command, ["/bin/sh", "-c", "ssh b reboot"]);
        assert_eq!((old.wait, old.checks.is_empty()), (WAIT, true));
        assert_eq!((new.command.len(), new.wait), (2, Duration::from_secs(30)));
        assert_eq!(new.checks.modules(), ["fec"]);
        // The dearest change comes least often, whatever stands before it.
        let trials = plan.trials(&[("streams".to_owned(), "1,2".to_owned())], Some(3)).unwrap();
        let boots: Vec<&str> = trials.iter().filter_map(|trial| trial.boot(End::Target)).collect();
        assert_eq!(boots.len(), 12);
        assert_eq!(boots.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{boots:?}");
        let one = plan.trials(&[("target.boot".to_owned(), "new".to_owned())], None).unwrap();
        assert!(one.iter().all(|trial| trial.boot(End::Target) == Some("new") && trial.boot(End::Host).is_none()));
        let none = plan.trials(&[("target.boot".to_owned(), "newer".to_owned())], None).unwrap_err();
        assert!(none.to_string().contains("give it a [boot.newer]"), "{none}");
    }

    #[test]
    fn parts_share_a_boot() {
        let part = "[[part]]\nworkload = 'tcp-rr'\n[part.options]\ntarget.speed = 'SPEED'\n[part.factors]\ntarget.boot = \
                    ['a', 'b']\n";
        let text = format!(
            "format = 'linerate.plan/1'\n[boot.a]\ncommand = 'x'\n[boot.b]\ncommand = 'x'\n{}{}",
            part.replace("SPEED", "100"),
            part.replace("SPEED", "1000")
        );
        let trials = Plan::parse(&text, "my.toml", "my").unwrap().trials(&[], None).unwrap();
        let boots: Vec<&str> = trials.iter().filter_map(|trial| trial.boot(End::Target)).collect();
        assert_eq!(boots, ["a", "a", "b", "b"]);
    }

    #[track_caller]
    fn check_refused(text: &str, place: &str, contains: &str) {
        let error = Plan::parse(&format!("{HEAD}{text}"), "my.toml", "my").unwrap_err().to_string();
        assert!(error.starts_with(&format!("my.toml:{place}:")) && error.contains(contains), "{error}");
    }

    #[test]
    fn what_it_may_not() {
        check_refused("[factors]\ntarget.boot = ['old']\n", "4:8", "give it a [boot.old]");
        check_refused("[options]\nhost.boot = 'a b'\n", "4:13", "a name that the plan defines as [boot.NAME]");
        check_refused("boot = 1\n", "3:1", "as [boot.NAME], with a command");
        check_refused("[boot.x]\nkernel = '6'\n", "3:7", "as [boot.NAME], with a command");
        check_refused("[boot.x]\ncomand = 'x'\n", "4:1", "did you mean 'command'?");
        check_refused("[boot.x]\ncommand = []\n", "4:11", "a line for the shell");
        check_refused("[boot.x]\ncommand = 'x'\nwait = '3h'\n", "5:8", "to 1h");
        check_refused("[boot.x]\ncommand = 'x'\nsrcversion = { fec = 5 }\n", "5:22", "modinfo");
        check_refused("[boot.'a b']\ncommand = 'x'\n", "3:7", "[boot.NAME]");
        let parts = "format = 'linerate.plan/1'\n[boot.x]\ncommand = 'x'\n[[part]]\nworkload = 'tcp-rr'\n\
                     [part.options]\ntarget.boot = 'x'\n[[part]]\nworkload = 'udp-rr'\n";
        let error = Plan::parse(parts, "my.toml", "my").unwrap().trials(&[], None).unwrap_err().to_string();
        assert!(error.contains("give it to every part"), "{error}");
    }
}
