//! `[boot.NAME]`: by which command a machine is booted, and how one sees that it is what was asked.
//! Knows no machine; booting one is the business of `measure`.

use std::fmt;
use std::time::Duration;

use linerate_machine::end::{End, Party};
use linerate_machine::environment::Environment;
use linerate_machine::pattern::fits_stars;
use linerate_machine::setting::BOOT;
use linerate_trial::options::setting_of;

use super::{Part, PlannedTrial, WantedSetting};

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
    let boots = |block: &[&WantedSetting]| -> Vec<(Party, String)> {
        let boots = block.iter().filter(|one| one.change.name == BOOT);
        boots.map(|one| (one.end, one.change.value.clone())).collect()
    };
    let before: Vec<Vec<(Party, String)>> = blocks.iter().map(|block| boots(block)).collect();
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
        assert_eq!((old.wait, old.checks.is_empty()), (Duration::from_secs(120), true));
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
