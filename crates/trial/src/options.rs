//! The options of a trial by name: one table, one reader, one writer.
//! The command line, plan files, factors and the record's `asked` all speak through here; which text came from
//! where is for the caller to say.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::api::{ReceiverApi, SenderApi, Timestamps};
use crate::flow::End;
use crate::pace::Pacing;
use crate::setting;
use crate::spec::{CpuMethod, Direction, Extent, Ip, Spacing, Spec, USUAL_PROFILE_HZ, Workload};
use crate::units::{OfferedLoad, format_duration, format_size, parse_duration, parse_size};

/// One option, as help texts and error messages show it.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What may stand there.
    pub allowed: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

const fn info(name: &'static str, allowed: &'static str, about: &'static str) -> OptionInfo {
    OptionInfo { name, allowed, about }
}

/// Every option there is, in the order in which records and help texts show them.
pub const OPTIONS: [OptionInfo; 34] = [
    info("workload", "tcp-stream | udp-stream | tcp-rr | udp-rr | tcp-crr", "what traffic"),
    info("direction", "tx | rx | both", "who sends, seen from the target; of requests, who asks"),
    info("duration", "time like 10s or 500ms", "how long to measure, after the warm-up"),
    info("bytes", "size like 64M", "payload of each stream, instead of a duration"),
    info("warmup", "time", "time at the start that is left out of the figures"),
    info("interval", "time, at least 10ms", "length of the time slices in the record"),
    info(
        "rate",
        "bits per second like 100M, packets per second like 10kpps, or unlimited",
        "offered load of each stream",
    ),
    info("burst", "1 to 1000", "messages sent back to back under a limited rate"),
    info("spacing", "even | poisson", "how departures are spaced under a limited rate"),
    info("pacing", "auto | application | fq, for udp-stream also txtime", "who keeps a sender to its rate"),
    info("message_size", "size like 1470 or 128K, or auto", "payload of each write or datagram"),
    info("streams", "1 to 128", "parallel streams in each direction"),
    info("ip", "4 | 6 | auto", "the Internet Protocol"),
    info("socket_buffer", "size, or auto", "SO_SNDBUF and SO_RCVBUF"),
    info("mss", "octets, or auto", "TCP_MAXSEG"),
    info("nodelay", "true | false | auto", "TCP_NODELAY; auto: only for requests and responses"),
    info("congestion_control", "a name like cubic, or auto", "TCP_CONGESTION"),
    info("dscp", "0 to 63", "differentiated services code point"),
    info("request_size", "size", "payload of a request"),
    info("response_size", "size", "payload of a response"),
    info("outstanding", "1 to 256", "requests under way at once on each stream"),
    info(
        "sender_api",
        "auto | plain | sendfile | zerocopy | splice | io-uring | io-uring-zerocopy, for udp-stream: plain | sendmmsg | \
         udp-segment | sendmmsg-udp-segment | io-uring",
        "how data goes to the socket",
    ),
    info(
        "receiver_api",
        "auto | plain | trunc | splice | zerocopy | io-uring | busy-poll, for udp-stream: plain | recvmmsg | udp-gro | \
         busy-poll",
        "how data comes from the socket",
    ),
    info("batch", "1 to 1024, or auto", "messages to one system call, where the API takes many"),
    info("timestamps", "application | kernel | hardware, or auto", "who notes when a datagram arrived"),
    info("alignment", "a power of two up to 1M", "alignment of the data buffers in memory"),
    info("pin", "true | false", "pin each stream's thread to a CPU"),
    info("probe", "true | false", "a udp-rr beside the stream, for delay under load"),
    info("cpu_method", "stat | soak", "how CPU use is measured"),
    info("drop_reasons", "on | off", "count what the kernels drop, by their own reasons"),
    info("profile", "off | on | 1 to 10000", "samples a second of what each CPU does; on: 999"),
    info("registers", "on | off", "read the MACs' and PHYs' registers before and after, and record what changed"),
    info("seed", "a whole number", "seed of everything left to chance"),
    info("repeat", "1 to 100000", "how often to measure each configuration"),
];

/// Why an option was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// There is no option of this name.
    #[error("there is no option '{name}'; {hint}")]
    Unknown {
        /// The name as given.
        name: String,
        /// What to try.
        hint: String,
    },
    /// The option exists; the value does not suit it.
    #[error("{name}: {complaint}")]
    Value {
        /// The option's name.
        name: String,
        /// One sentence that says what is allowed.
        complaint: String,
    },
}

/// The option's entry in the table; the error names the nearest ones.
pub fn find(name: &str) -> Result<&'static OptionInfo, BadOption> {
    if let Some(found) = OPTIONS.iter().find(|option| option.name == name) {
        return Ok(found);
    }
    let hint = if setting_of(name).is_some() {
        "it is a setting of a machine, and no option of a trial".to_owned()
    } else {
        match nearest(name, OPTIONS.map(|option| option.name)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!(
                "options are {}, and settings of a machine like target.mtu or host.gro",
                OPTIONS.map(|option| option.name).join(", ")
            ),
        }
    };
    Err(BadOption::Unknown { name: name.to_owned(), hint })
}

/// The machine and the setting that a name like `target.mtu` means; `None`: it is an option of the trial, or nothing.
pub fn setting_of(name: &str) -> Option<(End, &str)> {
    [End::Target, End::Host].into_iter().find_map(|end| {
        let setting = name.strip_prefix(end.name())?.strip_prefix('.')?;
        Some((end, setting))
    })
}

/// What may stand at an option, or at a setting of a machine; the error names the nearest ones.
pub fn allowed(name: &str) -> Result<&'static str, BadOption> {
    match setting_of(name) {
        Some((_, setting)) => match setting::find(setting) {
            Ok(found) => Ok(found.allowed),
            Err(complaint) => Err(BadOption::Value { name: name.to_owned(), complaint }),
        },
        None => find(name).map(|found| found.allowed),
    }
}

impl Spec {
    /// The trial that a record's `asked` describes. What this version does not know is as usual.
    pub fn from_asked(asked: &BTreeMap<String, String>) -> Spec {
        let mut spec = Spec::new(Workload::TcpStream);
        for (name, text) in asked {
            let _ = spec.set(name, text);
        }
        spec
    }

    /// Sets one option from its text. `repeat` is no part of a trial and refused here as unknown.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), BadOption> {
        let option = find(name)?;
        let bad = |complaint: String| BadOption::Value { name: name.to_owned(), complaint };
        let not_allowed = || bad(format!("'{text}' is not allowed; write {}", option.allowed));
        let size = || -> Result<u32, BadOption> {
            let octets = parse_size(text).map_err(|e| bad(e.0))?;
            u32::try_from(octets).map_err(|_| not_allowed())
        };
        match name {
            "workload" => self.workload = parse_workload(text).ok_or_else(not_allowed)?,
            "direction" => self.direction = parse_direction(text).ok_or_else(not_allowed)?,
            "duration" => self.extent = Extent::Time(parse_duration(text).map_err(|e| bad(e.0))?),
            "bytes" => self.extent = Extent::Octets(parse_size(text).map_err(|e| bad(e.0))?),
            "warmup" => self.warmup = parse_duration(text).map_err(|e| bad(e.0))?,
            "interval" => self.interval = parse_duration(text).map_err(|e| bad(e.0))?,
            "rate" => self.rate = text.parse::<OfferedLoad>().map_err(|e| bad(e.0))?,
            "burst" => self.burst = number(text).ok_or_else(not_allowed)?,
            "spacing" => {
                self.spacing = match text {
                    "even" => Spacing::Even,
                    "poisson" => Spacing::Poisson,
                    _ => return Err(not_allowed()),
                }
            }
            "pacing" => {
                self.pacing = if text == "auto" { None } else { Some(Pacing::parse(text).ok_or_else(not_allowed)?) }
            }
            "message_size" => self.message_size = if text == "auto" { None } else { Some(size()?) },
            "streams" => self.streams = number(text).ok_or_else(not_allowed)?,
            "ip" => {
                self.ip = match text {
                    "4" => Some(Ip::V4),
                    "6" => Some(Ip::V6),
                    "auto" => None,
                    _ => return Err(not_allowed()),
                }
            }
            "socket_buffer" => self.socket_buffer = if text == "auto" { None } else { Some(size()?) },
            "mss" => self.mss = if text == "auto" { None } else { Some(number(text).ok_or_else(not_allowed)?) },
            "nodelay" => {
                self.nodelay = if text == "auto" { None } else { Some(boolean(text).ok_or_else(not_allowed)?) }
            }
            "congestion_control" => self.congestion_control = (text != "auto").then(|| text.to_owned()),
            "dscp" => self.dscp = number(text).ok_or_else(not_allowed)?,
            "request_size" => self.request_size = size()?,
            "response_size" => self.response_size = size()?,
            "outstanding" => self.outstanding = number(text).ok_or_else(not_allowed)?,
            "sender_api" => {
                self.sender_api =
                    if text == "auto" { None } else { Some(SenderApi::parse(text).ok_or_else(not_allowed)?) }
            }
            "receiver_api" => {
                self.receiver_api =
                    if text == "auto" { None } else { Some(ReceiverApi::parse(text).ok_or_else(not_allowed)?) }
            }
            "batch" => self.batch = if text == "auto" { None } else { Some(number(text).ok_or_else(not_allowed)?) },
            "timestamps" => {
                self.timestamps =
                    if text == "auto" { None } else { Some(Timestamps::parse(text).ok_or_else(not_allowed)?) }
            }
            "alignment" => self.alignment = size()?,
            "pin" => self.pin = boolean(text).ok_or_else(not_allowed)?,
            "probe" => self.probe = boolean(text).ok_or_else(not_allowed)?,
            "cpu_method" => {
                self.cpu_method = match text {
                    "stat" => CpuMethod::Stat,
                    "soak" => CpuMethod::Soak,
                    _ => return Err(not_allowed()),
                }
            }
            "drop_reasons" => self.drop_reasons = boolean(text).ok_or_else(not_allowed)?,
            "profile" => {
                self.profile = match text {
                    "off" => None,
                    "on" => Some(USUAL_PROFILE_HZ),
                    _ => Some(number(text).ok_or_else(not_allowed)?),
                }
            }
            "registers" => self.registers = boolean(text).ok_or_else(not_allowed)?,
            "seed" => self.seed = number(text).ok_or_else(not_allowed)?,
            _ => {
                return Err(BadOption::Unknown {
                    name: name.to_owned(),
                    hint: "it belongs to the plan, not to a trial".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Every option as understood, in the order of [`OPTIONS`], each as [`Spec::set`] reads it.
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        let auto = |text: Option<String>| text.unwrap_or_else(|| "auto".to_owned());
        // An unlimited TCP stream's depends on the connection's segments: the record's sender_api tells what it became.
        let message_size = match (self.workload, self.rate, self.message_size) {
            (Workload::TcpStream, OfferedLoad::Unlimited, None) => auto(None),
            _ => format_size(self.message_octets().into()),
        };
        let (extent, extent_text) = match self.extent {
            Extent::Time(time) => ("duration", format_duration(time)),
            Extent::Octets(octets) => ("bytes", format_size(octets)),
        };
        vec![
            ("workload", self.workload.name().to_owned()),
            ("direction", self.direction.name().to_owned()),
            (extent, extent_text),
            ("warmup", format_duration(self.warmup)),
            ("interval", format_duration(self.interval)),
            ("rate", self.rate.to_string()),
            ("burst", self.burst.to_string()),
            ("spacing", if self.spacing == Spacing::Even { "even" } else { "poisson" }.to_owned()),
            ("pacing", auto(self.pacing.map(|pacing| pacing.name().to_owned()))),
            ("message_size", message_size),
            ("streams", self.streams.to_string()),
            ("ip", auto(self.ip.map(|ip| if ip == Ip::V4 { "4" } else { "6" }.to_owned()))),
            ("socket_buffer", auto(self.socket_buffer.map(|octets| format_size(octets.into())))),
            ("mss", auto(self.mss.map(|mss| mss.to_string()))),
            ("nodelay", self.nodelay().to_string()),
            ("congestion_control", auto(self.congestion_control.clone())),
            ("dscp", self.dscp.to_string()),
            ("request_size", format_size(self.request_size.into())),
            ("response_size", format_size(self.response_size.into())),
            ("outstanding", self.outstanding.to_string()),
            ("sender_api", auto(self.sender_api.map(|api| api.name().to_owned()))),
            ("receiver_api", auto(self.receiver_api.map(|api| api.name().to_owned()))),
            ("batch", auto(self.batch.map(|batch| batch.to_string()))),
            ("timestamps", auto(self.timestamps.map(|who| who.name().to_owned()))),
            ("alignment", format_size(self.alignment.into())),
            ("pin", self.pin.to_string()),
            ("probe", self.probe.to_string()),
            ("cpu_method", if self.cpu_method == CpuMethod::Stat { "stat" } else { "soak" }.to_owned()),
            ("drop_reasons", if self.drop_reasons { "on" } else { "off" }.to_owned()),
            ("profile", self.profile.map_or_else(|| "off".to_owned(), |hz| hz.to_string())),
            ("registers", if self.registers { "on" } else { "off" }.to_owned()),
            ("seed", self.seed.to_string()),
        ]
    }
}

/// The workload of this name.
pub fn parse_workload(text: &str) -> Option<Workload> {
    Workload::ALL.into_iter().find(|workload| workload.name() == text)
}

fn parse_direction(text: &str) -> Option<Direction> {
    [Direction::Tx, Direction::Rx, Direction::Both].into_iter().find(|direction| direction.name() == text)
}

pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    // `+5` and the like parse in Rust and are a slip of the finger here.
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "yes" => Some(true),
        "false" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// The levels of an option that a text names: one value, a list `1M,2M`, or a range `50M..1G:50M` whose end is
/// reached at most, of an option that counts something.
pub fn levels(name: &str, text: &str) -> Result<Vec<String>, BadOption> {
    allowed(name)?;
    // A list of CPUs has commas of its own.
    let is_cpus = |(_, setting): (End, &str)| setting::find(setting).is_ok_and(|found| found.is_cpus());
    if setting_of(name).is_some_and(is_cpus) {
        return Ok(vec![text.trim().to_owned()]);
    }
    let mut levels = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => levels.push(part.trim().to_owned()),
            Some((first, rest)) => levels.extend(range(name, part, first, rest)?),
        }
    }
    Ok(levels)
}

/// The most levels that one range may name; more is a slip of the finger.
const MAX_LEVELS: u64 = 10_000;

fn range(name: &str, part: &str, first: &str, rest: &str) -> Result<Vec<String>, BadOption> {
    let bad = |complaint: &str| BadOption::Value {
        name: name.to_owned(),
        complaint: format!("'{part}' is no range; {complaint}, like 50M..1G:50M"),
    };
    let (last, step) = rest.split_once(':').ok_or_else(|| bad("write first..last:step"))?;
    type Scale = (fn(&str) -> Option<u64>, fn(u64) -> String);
    let (read, write): Scale = match name {
        "rate" if first.ends_with("pps") => (
            |text| match text.parse() {
                Ok(OfferedLoad::PacketsPerSecond(packets)) => Some(packets),
                _ => None,
            },
            |packets| OfferedLoad::PacketsPerSecond(packets).to_string(),
        ),
        "rate" => (
            |text| match text.parse() {
                Ok(OfferedLoad::BitsPerSecond(bits)) => Some(bits),
                _ => None,
            },
            |bits| OfferedLoad::BitsPerSecond(bits).to_string(),
        ),
        "duration" | "warmup" | "interval" => (
            |text| u64::try_from(parse_duration(text).ok()?.as_nanos()).ok(),
            |ns| format_duration(Duration::from_nanos(ns)),
        ),
        "bytes" | "message_size" | "socket_buffer" | "request_size" | "response_size" | "alignment" => {
            (|text| parse_size(text).ok(), format_size)
        }
        "burst" | "streams" | "mss" | "dscp" | "outstanding" | "batch" | "profile" | "seed" => {
            (number, |n| n.to_string())
        }
        _ if setting_of(name).is_some() => (number, |n| n.to_string()),
        _ => return Err(bad("only options that count something have ranges; write a list, or")),
    };
    let read = |text: &str| read(text).ok_or_else(|| bad("first, last and step must be of one kind"));
    let (first, last, step) = (read(first)?, read(last)?, read(step)?);
    if step == 0 || last < first {
        return Err(bad("it must rise, by a step above zero"));
    }
    if (last - first) / step >= MAX_LEVELS {
        return Err(bad("it has more than 10000 levels; take a larger step"));
    }
    Ok((0..=(last - first) / step).map(|k| write(first + k * step)).collect())
}

/// The candidate that `name` was likely meant to be, if one is near enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(candidate, name), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + name.len() / 3)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
            assert_eq!(Spec::from_asked(&asked), again);
        }
    }

    #[test]
    fn the_table_names_every_option_of_a_trial() {
        let spec = Spec::new(Workload::TcpStream);
        let named: Vec<&str> = OPTIONS.iter().map(|o| o.name).filter(|n| !["bytes", "repeat"].contains(n)).collect();
        assert_eq!(spec.asked().iter().map(|(name, _)| *name).collect::<Vec<_>>(), named);
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
        check_complaint("mss", "-1", "'-1' is not allowed");
        check_complaint("repeat", "3", "belongs to the plan");
        check_complaint("message_size", "5G", "not allowed");
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(levels("rate", "50M..200M:50M").unwrap(), ["50M", "100M", "150M", "200M"]);
        assert_eq!(levels("rate", "1kpps..2kpps:600pps").unwrap(), ["1kpps", "1600pps"]);
        assert_eq!(levels("message_size", "64,1K..2K:1K").unwrap(), ["64", "1K", "2K"]);
        assert_eq!(levels("direction", "rx,tx").unwrap(), ["rx", "tx"]);
        assert_eq!(levels("target.mtu", "1500,4000..9000:5000").unwrap(), ["1500", "4000", "9000"]);
        assert_eq!(levels("host.rps.all", "0,2").unwrap(), ["0,2"], "a list of CPUs is one level");
        assert!(levels("target.mtuu", "1500").unwrap_err().to_string().contains("did you mean 'mtu'?"));
        for bad in ["1M..2M", "2M..1M:1M", "1M..2M:0", "1..1G:1", "1M..x:1M"] {
            assert!(levels("rate", bad).is_err(), "{bad}");
        }
        assert!(levels("direction", "rx..tx:1").unwrap_err().to_string().contains("count something"));
    }
}
