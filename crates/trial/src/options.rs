//! The options of a trial by name: help, parsing and writing follow from the rows in [`crate::spec`].
//! The command line, plan files, factors and the record's `asked` all speak through here; which text came from
//! where is for the caller to say.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

pub use crate::spec::OPTIONS;
use crate::spec::{Spec, Workload};
pub(crate) use kind::Access;
use linerate_machine::end::Party;
use linerate_machine::setting::{self, BOOT, BadSetting, BadSettingKind, RECEIVER_SCHEDULING};
use linerate_machine::text::nearest;
use linerate_machine::units::OfferedLoad;

pub(crate) mod kind;

/// One option: its row in the table.
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// What it does: the lines of its documentation, the first of which says it in short.
    pub about: &'static [&'static str],
    /// The workloads in which it does something.
    pub applies: Applies,
    pub(crate) field: &'static dyn Access,
}

impl fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for OptionRow {
    fn eq(&self, other: &OptionRow) -> bool {
        self.name == other.name
    }
}

impl Eq for OptionRow {}

impl OptionRow {
    /// What it does, in one sentence.
    pub fn in_short(&self) -> String {
        let about = self.in_words();
        about.split_once(". ").map_or(&*about, |(first, _)| first).trim_end_matches('.').to_owned()
    }

    /// All that is said of it; its lines are those of a source file.
    fn in_words(&self) -> String {
        self.about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// What may stand there.
    pub fn allowed(&self) -> String {
        self.field.allowed()
    }

    /// The words among what may stand there.
    pub fn words(&self) -> Vec<&'static str> {
        self.field.words()
    }

    /// What somebody writes, as it is written in records (`1024` and `1K` are both `1K`).
    pub fn canonical(&self, text: &str) -> Result<String, BadOption> {
        let mut spec = Spec::new(Workload::UdpStream);
        spec.set_row(self, text)?;
        if let ("rate", OfferedLoad::BitsPerSecond(bits @ ..LEAST_RATE)) = (self.name, spec.rate) {
            return Err(BadOption::NoLoad(text.to_owned(), bits));
        }
        Ok(self.field.get(&spec).unwrap_or_else(|| text.to_owned()))
    }
}

/// The workloads in which an option does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// In all.
    All,
    /// One-way traffic.
    Streams,
    /// Requests and responses.
    Requests,
    /// One-way traffic through sockets of TCP and UDP.
    SocketStreams,
    /// One-way traffic whose packets bear numbers.
    Numbered,
    /// One workload.
    Frames,
    /// What TCP carries.
    Tcp,
}

impl Applies {
    /// Whether it does something there.
    pub fn to(self, workload: Workload) -> bool {
        match self {
            Applies::All => true,
            Applies::Streams => workload.is_stream(),
            Applies::Requests => !workload.is_stream(),
            Applies::SocketStreams => matches!(workload, Workload::TcpStream | Workload::UdpStream),
            Applies::Numbered => workload.is_numbered(),
            Applies::Frames => workload == Workload::Frames,
            Applies::Tcp => workload.is_tcp(),
        }
    }

    /// As help and documentation say it.
    pub const fn words(self) -> &'static str {
        match self {
            Applies::All => "all",
            Applies::Streams => "streams",
            Applies::Requests => "requests and responses",
            Applies::SocketStreams => "tcp-stream and udp-stream",
            Applies::Numbered => "udp-stream and frames",
            Applies::Frames => "frames",
            Applies::Tcp => "TCP",
        }
    }
}

/// Why an option was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// There is no option of this name.
    #[error("there is no option '{0}'; {hint}", hint = hint(.0))]
    Unknown(String),
    /// The option exists; the value does not suit it.
    #[error("{name}: '{text}' is not allowed; write {allowed}")]
    Value {
        /// The option's name.
        name: &'static str,
        /// The value as given.
        text: String,
        /// What may stand there.
        allowed: String,
    },
    /// A rate that is no load: megabits or packets are meant.
    #[error(
        "rate: {0} is {1} bit/s, less than a packet a second; did you mean {number}M, or {number}pps?",
        number = .0.trim_end_matches(|unit: char| !unit.is_ascii_digit())
    )]
    NoLoad(String, u64),
    /// A setting of a machine, or its value.
    #[error("{end}.{bad}")]
    Setting {
        /// Whose.
        end: Party,
        /// What is wrong with it.
        bad: BadSetting,
    },
    /// The option does nothing in this workload. It is refused: who set it believes that the figures were taken with it.
    #[error("{name} is for {applies}; it does nothing in {workload}, leave it out", applies = .applies.words())]
    DoesNothing {
        /// The option's name.
        name: &'static str,
        /// In which it does something.
        applies: Applies,
        /// Where it was set.
        workload: Workload,
    },
    /// A range that steps past its end.
    #[error(
        "{name}: '{part}' steps past {last}; write {name}={reached}, and {last} behind a comma if it is wanted too"
    )]
    StepsPast {
        /// The option's name.
        name: String,
        /// The range.
        part: String,
        /// Its end, as it was written.
        last: String,
        /// The range up to the level before that.
        reached: String,
    },
    /// A range that cannot be counted through.
    #[error("{name}: '{part}' is not a range; {why}, like 50M..1G:50M")]
    Range {
        /// The option's name.
        name: String,
        /// What was to be a range.
        part: String,
        /// Why it is none.
        why: NoRange,
    },
    /// A level that stands there twice.
    #[error("{name}: the level {level} is there twice; leave one out")]
    Repeated {
        /// The option's name.
        name: String,
        /// The level.
        level: String,
    },
}

/// Why a text is no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRange {
    /// It has no step.
    #[error("write first..last:step")]
    NoStep,
    /// The option has no order.
    #[error("only options that count something have ranges; write a list, or")]
    NotCounted,
    /// `1M..5kpps:1M`.
    #[error("first, last and step must be of one kind")]
    OfSeveralKinds,
    /// It ends below its beginning, or never.
    #[error("it must rise, by a step above zero")]
    DoesNotRise,
    /// More levels than anybody means.
    #[error("it has more than {MAX_LEVELS} levels; take a larger step")]
    TooLong,
}

/// Bits per second. Less is a slip of who writes it, as 100 for 100M: a usual datagram has 12 kbit. Another tool's client
/// may ask for less, and its record is read as it is.
const LEAST_RATE: u64 = 10_000;

/// How often a plan measures each configuration: no option of a trial, and set like one.
pub const REPEAT: &str = "repeat";

fn hint(name: &str) -> String {
    if setting_of(name).is_some() {
        return "it is a setting of a machine, and no option of a trial".to_owned();
    }
    if name == REPEAT {
        return "it belongs to the plan, not to a trial".to_owned();
    }
    if setting::find(name).is_ok() {
        return format!("it is a setting of a machine; did you mean 'target.{name}' or 'host.{name}'?");
    }
    if let Some(near) = near_setting(name) {
        return format!("did you mean '{near}'?");
    }
    let names = || OPTIONS.iter().map(|option| option.name).chain([REPEAT]);
    match nearest(name, names()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!(
            "options are {}, and settings of a machine like target.mtu or host.gro",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// `target.mtu` of `trget.mtu`: the machine is misspelt.
fn near_setting(name: &str) -> Option<String> {
    let (machine, setting) = name.split_once('.')?;
    let end = nearest(machine, Party::ALL.map(Party::name))?;
    let known = match setting::find(setting) {
        Ok(_) => setting,
        Err(_) => nearest(setting, setting::SETTINGS.iter().map(|one| one.name))?,
    };
    Some(format!("{end}.{known}"))
}

/// The option's row; the error names the nearest ones.
pub fn find(name: &str) -> Result<&'static OptionRow, BadOption> {
    OPTIONS.iter().find(|option| option.name == name).ok_or_else(|| BadOption::Unknown(name.to_owned()))
}

/// The machine and the setting that a name like `target.mtu` means; `None`: it is an option of the trial, or nothing.
pub fn setting_of(name: &str) -> Option<(Party, &str)> {
    Party::ALL.into_iter().find_map(|party| {
        let setting = name.strip_prefix(party.name())?.strip_prefix('.')?;
        Some((party, setting))
    })
}

/// Whether this machine can have the setting: what is of the traffic's ends the one between them has not.
fn fits(party: Party, setting: &str) -> Result<(), BadOption> {
    if party == Party::Middle && [BOOT, RECEIVER_SCHEDULING].contains(&setting) {
        let bad = BadSetting { name: setting.to_owned(), why: BadSettingKind::OfAnEnd };
        return Err(BadOption::Setting { end: party, bad });
    }
    Ok(())
}

/// What may stand at an option, or at a setting of a machine; the error names the nearest ones.
pub fn allowed(name: &str) -> Result<String, BadOption> {
    match setting_of(name) {
        Some((end, setting)) => match fits(end, setting).map(|()| setting::find(setting))? {
            Ok(found) => Ok(found.allowed.to_owned()),
            Err(bad) => Err(BadOption::Setting { end, bad }),
        },
        None => find(name).map(OptionRow::allowed),
    }
}

/// A value of an option, or of a setting of a machine, written in one way only.
pub fn canonical(name: &str, text: &str) -> Result<String, BadOption> {
    match setting_of(name) {
        Some((end, name)) => {
            fits(end, name).and_then(|()| setting::canonical(name, text).map_err(|bad| BadOption::Setting { end, bad }))
        }
        None => find(name)?.canonical(text),
    }
}

impl Spec {
    /// The trial that a record's `asked` describes. What this version does not know is as usual.
    pub fn from_asked(workload: Workload, asked: &BTreeMap<String, String>) -> Spec {
        // Both in the order of names: a report asks for this a hundred thousand times.
        static BY_NAME: LazyLock<Vec<&OptionRow>> = LazyLock::new(|| {
            let mut rows: Vec<&OptionRow> = OPTIONS.iter().collect();
            rows.sort_by_key(|row| row.name);
            rows
        });
        let mut spec = Spec::new(workload);
        let mut rows = BY_NAME.iter().peekable();
        for (name, text) in asked {
            while rows.next_if(|row| row.name < name.as_str()).is_some() {}
            if let Some(row) = rows.next_if(|row| row.name == name) {
                let _ = spec.set_row(row, text);
            }
        }
        spec
    }

    /// Sets one option from its text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), BadOption> {
        self.set_row(find(name)?, text)
    }

    fn set_row(&mut self, option: &OptionRow, text: &str) -> Result<(), BadOption> {
        let bad = || BadOption::Value { name: option.name, text: text.to_owned(), allowed: option.allowed() };
        option.field.set(self, text).ok_or_else(bad)
    }

    /// Every option as understood, in the order of [`OPTIONS`], each as [`Spec::set`] reads it.
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        let understood = self.understood();
        OPTIONS.iter().filter_map(|option| Some((option.name, option.field.get(&understood)?))).collect()
    }
}

/// The levels of an option that a text names: one value, a list `1M,2M`, or a range `50M..1G:50M` whose steps reach
/// its end, of an option that counts something.
pub fn levels(name: &str, text: &str) -> Result<Vec<String>, BadOption> {
    allowed(name)?;
    // A list of CPUs has commas of its own.
    let is_cpus = |(_, setting): (Party, &str)| setting::find(setting).is_ok_and(|found| found.is_cpus());
    if setting_of(name).is_some_and(is_cpus) {
        return Ok(vec![text.trim().to_owned()]);
    }
    let mut levels = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => levels.push(part.trim().to_owned()),
            Some((first, rest)) => {
                let (found, reached) = range(name, first, rest).map_err(|why| BadOption::Range {
                    name: name.to_owned(),
                    part: part.to_owned(),
                    why,
                })?;
                if let Some((last, reached)) = reached {
                    return Err(BadOption::StepsPast { name: name.to_owned(), part: part.to_owned(), last, reached });
                }
                levels.extend(found);
            }
        }
    }
    Ok(levels)
}

/// The most levels that one range may name; more is a slip of the finger.
const MAX_LEVELS: u64 = 10_000;

/// The levels of a range; where it steps past its end, that end, and the range that ends before it.
type Ranged = (Vec<String>, Option<(String, String)>);

fn range(name: &str, first: &str, rest: &str) -> Result<Ranged, NoRange> {
    let (last, step) = rest.split_once(':').ok_or(NoRange::NoStep)?;
    let scale = match find(name) {
        Ok(option) => option.field.scale(first).ok_or(NoRange::NotCounted)?,
        Err(_) => kind::NUMBERS,
    };
    // A rate of 0 is none, and as a step one that does not rise.
    let is_zero = step.starts_with('0') && !step.contains(|digit| matches!(digit, '1'..='9'));
    if is_zero {
        return Err(NoRange::DoesNotRise);
    }
    let read = |text: &str| (scale.read)(text).ok_or(NoRange::OfSeveralKinds);
    let (written, first, last, step) = ((first, last, step), read(first)?, read(last)?, read(step)?);
    if step == 0 || last < first {
        return Err(NoRange::DoesNotRise);
    }
    if (last - first) / step >= MAX_LEVELS {
        return Err(NoRange::TooLong);
    }
    let levels: Vec<String> = (0..=(last - first) / step).map(|k| (scale.write)(first + k * step)).collect();
    let past = levels.last().filter(|_| !(last - first).is_multiple_of(step)).map(|reached| match levels.len() {
        1 => (written.1.to_owned(), reached.clone()),
        _ => (written.1.to_owned(), format!("{}..{reached}:{}", written.0, written.2)),
    });
    Ok((levels, past))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_can_be_asked_again() {
        for workload in Workload::ALL {
            let mut spec = Spec::new(workload);
            for (name, text) in [("rate", "5kpps"), ("mss", "1000"), ("congestion_control", "reno"), ("ip", "6")] {
                spec.set(name, text).unwrap();
            }
            // Defaults are written out, so the second reading has them spelled and is then stable.
            let mut again = Spec::new(Workload::TcpStream);
            for (name, text) in spec.asked() {
                again.set(name, &text).unwrap();
            }
            assert_eq!(again.asked(), spec.asked());
            let asked = spec.asked().into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
            assert_eq!(Spec::from_asked(Workload::TcpStream, &asked), again);
        }
    }

    #[test]
    fn what_was_asked_is_read_as_if_each_option_were_set() {
        let mut random = crate::pace::SplitMix64::new(20_261_123);
        let strange = ["", "target.mtu", "rat", "rate2", "zz"];
        for _ in 0..200 {
            let mut asked: BTreeMap<String, String> =
                strange.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
            for (name, text) in Spec::new(Workload::UdpStream).asked() {
                match random.below(4) {
                    0 => {}
                    1 => drop(asked.insert(name.to_owned(), "no value".to_owned())),
                    2 => drop(asked.insert(name.to_owned(), "2".to_owned())),
                    _ => drop(asked.insert(name.to_owned(), text)),
                }
            }
            let mut each = Spec::new(Workload::UdpStream);
            asked.iter().for_each(|(name, text)| drop(each.set(name, text)));
            assert_eq!(Spec::from_asked(Workload::UdpStream, &asked), each, "{asked:?}");
        }
    }

    #[test]
    fn what_an_option_does_in_short_is_a_sentence() {
        for option in OPTIONS {
            let (short, whole) = (option.in_short(), option.in_words());
            let behind = whole.strip_prefix(&short).unwrap();
            assert!(behind.is_empty() || behind.starts_with('.'), "{}: '{short}' is broken off", option.name);
        }
        let said = |name| find(name).unwrap().in_short();
        assert!(
            said("first_rate").ends_with("an overload, say, that the path recovers from"),
            "{}",
            said("first_rate")
        );
        assert_eq!(said("message_size"), "Payload of each write or datagram");
    }

    /// The page's table of options is made of the rows.
    #[test]
    fn the_documentation_has_the_table() {
        let mut table = "| option | value | if not given | meaning | applies to |\n|---|---|---|---|---|\n".to_owned();
        for option in OPTIONS {
            let (about, applies) = (option.in_words(), option.applies.words());
            let allowed = option.allowed().replace(" | ", ", ");
            let is_needed = ["workload", "bytes"].contains(&option.name);
            let usual = option.field.get(&Spec::default()).filter(|_| !is_needed).unwrap_or_default();
            table +=
                &format!("| `{}` | {allowed} | {usual} | {} | {applies} |\n", option.name, about.trim_end_matches('.'));
        }
        linerate_machine::docs_tests::check("plans.md", "| option |", &table);
        let columns: Vec<String> = OPTIONS.iter().map(|option| format!("`asked_{}`", option.name)).collect();
        let line = format!("| {} | `asked`, as `--set` takes it |\n", columns.join(", "));
        linerate_machine::docs_tests::check_line("record-format.md", "| `asked_", &line);
    }

    #[track_caller]
    fn check_complaint(name: &str, text: &str, contains: &str) {
        let error = Spec::new(Workload::UdpStream).set(name, text).unwrap_err().to_string();
        assert!(error.contains(contains), "{error}");
    }

    #[test]
    fn complaints_say_what_is_allowed() {
        check_complaint("rate", "-5M", "write bits per second like 100M");
        check_complaint("direction", "up", "write tx | rx | both");
        check_complaint("strems", "4", "did you mean 'streams'?");
        check_complaint("target.mtu", "9000", "a setting of a machine");
        check_complaint("trget.mtu", "9000", "did you mean 'target.mtu'?");
        check_complaint("hsot.grro", "off", "did you mean 'host.gro'?");
        check_complaint("mtu", "9000", "did you mean 'target.mtu' or 'host.mtu'?");
        check_complaint("mss", "-1", "'-1' is not allowed");
        check_complaint("repeat", "3", "belongs to the plan");
        check_complaint("message_size", "5G", "not allowed");
    }

    #[test]
    fn a_slow_rate_is_a_slip_of_who_writes_it_and_not_of_a_record() {
        let complaint = canonical("rate", "100").unwrap_err().to_string();
        assert!(complaint.contains("100 is 100 bit/s, less than a packet a second; did you mean 100M, or 100pps?"));
        // As `iperf3 -u -b 5K` asked a server of ours.
        let asked = BTreeMap::from([("rate".to_owned(), "5K".to_owned())]);
        assert_eq!(Spec::from_asked(Workload::UdpStream, &asked).rate, OfferedLoad::BitsPerSecond(5000));
    }

    #[test]
    fn code_points_have_names() {
        for (name, point) in [
            ("ef", "46"),
            ("EF", "46"),
            ("cs0", "0"),
            ("cs6", "48"),
            ("af11", "10"),
            ("af43", "38"),
            ("le", "1"),
            ("va", "44"),
        ] {
            assert_eq!(canonical("dscp", name).as_deref(), Ok(point), "{name}");
        }
        for bad in ["cs8", "af14", "af51", "64", "e", ""] {
            assert!(canonical("dscp", bad).unwrap_err().to_string().contains("0 to 63, or a name like ef"), "{bad}");
        }
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(levels("rate", "50M..200M:50M").unwrap(), ["50M", "100M", "150M", "200M"]);
        assert_eq!(levels("rate", "1kpps..2kpps:500pps").unwrap(), ["1kpps", "1500pps", "2kpps"]);
        assert_eq!(levels("message_size", "64,1K..2K:1K").unwrap(), ["64", "1K", "2K"]);
        assert_eq!(levels("direction", "rx,tx").unwrap(), ["rx", "tx"]);
        assert_eq!(levels("target.mtu", "1500,4000..9000:5000").unwrap(), ["1500", "4000", "9000"]);
        assert_eq!(levels("host.rps.all", "0,2").unwrap(), ["0,2"], "a list of CPUs is one level");
        assert!(levels("target.mtuu", "1500").unwrap_err().to_string().contains("did you mean 'mtu'?"));
        let past = levels("rate", "5M..10M:3M").unwrap_err().to_string();
        assert_eq!(
            past,
            "rate: '5M..10M:3M' steps past 10M; write rate=5M..8M:3M, and 10M behind a comma if it is wanted too"
        );
        assert!(
            levels("target.mtu", "1500..2000:600").unwrap_err().to_string().contains("write target.mtu=1500, and 2000")
        );
        for bad in ["1M..2M", "2M..1M:1M", "1M..2M:0", "1..1G:1", "1M..x:1M"] {
            assert!(levels("rate", bad).is_err(), "{bad}");
        }
        for still in ["10M..50M:0M", "10M..50M:0", "10%..50%:0.0%"] {
            let why = levels("rate", still).unwrap_err().to_string();
            assert!(why.contains("by a step above zero"), "{why}");
        }
        assert!(levels("direction", "rx..tx:1").unwrap_err().to_string().contains("count something"));
    }
}
