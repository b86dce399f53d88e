//! What a driver is built and set to: the axes of a prediction, a row each.

use crate::parameter::Parameter;

/// How a received frame gets to the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RxBuffering {
    /// It is copied.
    Copy,
    /// Its buffer is handed on.
    ZeroCopy,
    /// It is copied up to so many octets, and else its buffer handed on.
    Copybreak(f64),
}

/// How the IP header comes to be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// It does not.
    None,
    /// The MAC puts two octets before the frame.
    Offset2,
    /// The driver copies the frame, as many octets as it has.
    Fixup,
    /// The driver copies the whole buffer whatever the frame has.
    FixupWholeBuffer,
}

/// When a frame is copied before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounce {
    /// Never.
    Never,
    /// Where its address is not the DMA's: which every frame's is that was fixed up, or began at an odd half word.
    Unaligned,
    /// Always.
    Always,
}

/// How the memory of buffers is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Not.
    Uncached,
    /// Written back.
    WriteBack,
    /// Written through.
    WriteThrough,
}

/// Everything that a driver is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `rx.hand_up`
    pub hand_up: RxBuffering,
    /// `align`
    pub align: Align,
    /// `tx.bounce`
    pub bounce: Bounce,
    /// `buffers`
    pub buffers: Buffers,
    /// `rx.buffer`, octets.
    pub rx_buffer: f64,
    /// `rings.rx`, descriptors.
    pub ring_rx: f64,
    /// `rings.tx`, descriptors.
    pub ring_tx: f64,
    /// `coalesce.frames`
    pub coalesce_frames: f64,
    /// `coalesce.usecs`, µs.
    pub coalesce_us: f64,
    /// `pause`: pause frames are sent, and the partner obeys.
    pub pause: bool,
    /// `truncate`: the FIFO cuts a frame that does not fit.
    pub truncate: bool,
    /// `drop_fifo_errors`: a cut frame is dropped before it is copied.
    pub drop_fifo_errors: bool,
    /// `checksum`: by software.
    pub checksum_in_software: bool,
    /// `dre`: the DMA reaches any address.
    pub realigns: bool,
    /// `cpu.speed`, a factor of the machine's; `cpu.mhz` changes it too.
    pub cpu_speed: f64,
    /// `bus.speed`, a factor of the machine's; `bus.bits` and `bus.mhz` change it too.
    pub bus_speed: f64,
    /// `cpu.mhz`, where the machine's file says it.
    pub cpu_mhz: Option<f64>,
    /// `bus.bits`, likewise.
    pub bus_bits: Option<f64>,
    /// `bus.mhz`, likewise.
    pub bus_mhz: Option<f64>,
    /// `mtu`, octets, where a row changes it.
    pub mtu: Option<f64>,
    /// `service`: frames after which an application that waits for the same CPU has it for as long; without, the driver goes on
    /// while frames come.
    pub budget: Option<f64>,
    /// `cpus`: driver and application have one each.
    pub own_cpu: bool,
    /// A frame waits in the FIFO for a descriptor.
    pub waits_for_descriptor: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hand_up: RxBuffering::Copy,
            align: Align::Offset2,
            bounce: Bounce::Never,
            buffers: Buffers::WriteBack,
            rx_buffer: 2048.0,
            ring_rx: 256.0,
            ring_tx: 256.0,
            coalesce_frames: 1.0,
            coalesce_us: 0.0,
            pause: false,
            truncate: false,
            drop_fifo_errors: true,
            checksum_in_software: false,
            realigns: true,
            cpu_speed: 1.0,
            bus_speed: 1.0,
            cpu_mhz: None,
            bus_bits: None,
            bus_mhz: None,
            mtu: None,
            budget: None,
            own_cpu: true,
            waits_for_descriptor: true,
        }
    }
}

/// A word that an axis takes, and what it does.
type Word = (&'static str, fn(&mut Settings));

/// What an axis changes.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// One of these words.
    Words(&'static [Word]),
    /// One of these words, or the last one with a number after `=`, called so in help.
    WordsOr(&'static [Word], &'static str, &'static str, fn(&mut Settings, f64)),
    /// A number from the first to the last.
    Number(f64, f64, fn(&mut Settings, f64)),
    /// A number of the machine's own, and the speed that goes with it.
    Own(fn(&mut Settings) -> (&mut Option<f64>, &mut f64)),
    /// A parameter gets this value.
    Parameter(Parameter),
}

/// Numbers that a word can have after `=`.
const AFTER_WORD: (f64, f64) = (1.0, 65_535.0);
/// Numbers of a machine's own.
const OWN: (f64, f64) = (0.1, 1e6);
/// Numbers of a parameter.
const OF_PARAMETER: (f64, f64) = (0.0, 1e9);
/// Linux's NAPI_POLL_WEIGHT (include/linux/netdevice.h).
const NAPI_WEIGHT: f64 = 64.0;

fn cpu_mhz(settings: &mut Settings) -> (&mut Option<f64>, &mut f64) {
    (&mut settings.cpu_mhz, &mut settings.cpu_speed)
}

fn bus_bits(settings: &mut Settings) -> (&mut Option<f64>, &mut f64) {
    (&mut settings.bus_bits, &mut settings.bus_speed)
}

fn bus_mhz(settings: &mut Settings) -> (&mut Option<f64>, &mut f64) {
    (&mut settings.bus_mhz, &mut settings.bus_speed)
}

/// Every axis by name.
pub const AXES: &[(&str, Axis)] = &[
    (
        "rx.hand_up",
        Axis::WordsOr(
            &[
                ("copy", |set| set.hand_up = RxBuffering::Copy),
                ("zero-copy", |set| set.hand_up = RxBuffering::ZeroCopy),
            ],
            "copybreak",
            "BYTES",
            |set, octets| set.hand_up = RxBuffering::Copybreak(octets),
        ),
    ),
    (
        "align",
        Axis::Words(&[
            ("none", |set| set.align = Align::None),
            ("offset2", |set| set.align = Align::Offset2),
            ("fixup", |set| set.align = Align::Fixup),
            ("fixup-whole-buffer", |set| set.align = Align::FixupWholeBuffer),
        ]),
    ),
    (
        "tx.bounce",
        Axis::Words(&[
            ("never", |set| set.bounce = Bounce::Never),
            ("unaligned", |set| set.bounce = Bounce::Unaligned),
            ("always", |set| set.bounce = Bounce::Always),
        ]),
    ),
    (
        "buffers",
        Axis::Words(&[
            ("uncached", |set| set.buffers = Buffers::Uncached),
            ("write-back", |set| set.buffers = Buffers::WriteBack),
            ("write-through", |set| set.buffers = Buffers::WriteThrough),
        ]),
    ),
    (
        "service",
        Axis::WordsOr(
            &[("interrupt", |set| set.budget = None), ("poll", |set| set.budget = Some(NAPI_WEIGHT))],
            "poll",
            "BUDGET",
            |set, frames| set.budget = Some(frames),
        ),
    ),
    (
        "checksum",
        Axis::Words(&[
            ("software", |set| set.checksum_in_software = true),
            ("mac", |set| set.checksum_in_software = false),
        ]),
    ),
    ("cpus", Axis::Words(&[("one", |set| set.own_cpu = false), ("own", |set| set.own_cpu = true)])),
    (
        "without_descriptor",
        Axis::Words(&[
            ("wait", |set| set.waits_for_descriptor = true),
            ("drop", |set| set.waits_for_descriptor = false),
        ]),
    ),
    ("pause", Axis::Words(&[("on", |set| set.pause = true), ("off", |set| set.pause = false)])),
    ("truncate", Axis::Words(&[("on", |set| set.truncate = true), ("off", |set| set.truncate = false)])),
    (
        "drop_fifo_errors",
        Axis::Words(&[("on", |set| set.drop_fifo_errors = true), ("off", |set| set.drop_fifo_errors = false)]),
    ),
    ("dre", Axis::Words(&[("on", |set| set.realigns = true), ("off", |set| set.realigns = false)])),
    // Eight octets of payload are left in 68 (RFC 791, 3.2).
    ("mtu", Axis::Number(68.0, 65_535.0, |set, value| set.mtu = Some(value))),
    ("rx.buffer", Axis::Number(64.0, 16384.0, |set, value| set.rx_buffer = value)),
    ("rings.rx", Axis::Number(1.0, 65536.0, |set, value| set.ring_rx = value)),
    ("rings.tx", Axis::Number(1.0, 65536.0, |set, value| set.ring_tx = value)),
    ("coalesce.frames", Axis::Number(1.0, 1024.0, |set, value| set.coalesce_frames = value)),
    ("coalesce.usecs", Axis::Number(0.0, 100_000.0, |set, value| set.coalesce_us = value)),
    ("cpu.speed", Axis::Number(0.01, 100.0, |set, value| set.cpu_speed = value)),
    ("bus.speed", Axis::Number(0.01, 100.0, |set, value| set.bus_speed = value)),
    ("cpu.mhz", Axis::Own(cpu_mhz)),
    ("bus.bits", Axis::Own(bus_bits)),
    ("bus.mhz", Axis::Own(bus_mhz)),
    ("fifo.rx", Axis::Parameter(Parameter::FifoRx)),
    ("fifo.xoff", Axis::Parameter(Parameter::FifoXoff)),
    ("fifo.handover", Axis::Parameter(Parameter::FifoHandover)),
    ("partner.burst", Axis::Parameter(Parameter::PartnerBurst)),
    ("idle.wake_us", Axis::Parameter(Parameter::IdleWake)),
    ("window.frames", Axis::Parameter(Parameter::WindowFrames)),
];

/// An axis at a value, as asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Which.
    pub axis: String,
    /// Its value's text.
    pub value: String,
}

/// A value that no axis takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSet {
    /// There is no such axis.
    #[error("there is no axis '{0}'; there are {names}", names = axis_names())]
    NoAxis(String),
    /// It does not take this value.
    #[error("'{axis}' takes {takes}, not '{value}'")]
    Value {
        /// Which.
        axis: String,
        /// What it takes.
        takes: String,
        /// What was given.
        value: String,
    },
    /// The machine's own value is not known, so nothing is known to be faster or slower.
    #[error("the machine's file does not say its '{0}'; say it there, or give a factor by cpu.speed or bus.speed")]
    NoOwn(String),
    /// Datagrams would be cut.
    #[error(
        "a datagram of {payload} bytes does not fit an MTU of {mtu}, and fragments are not modelled; give a smaller one"
    )]
    Fragments {
        /// Its payload.
        payload: u32,
        /// The MTU.
        mtu: u32,
    },
}

fn axis_names() -> String {
    AXES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl Axis {
    /// What it takes, in words.
    fn takes(&self) -> String {
        let list = |words: &[Word]| words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        match self {
            Axis::Words(words) => list(words),
            Axis::WordsOr(words, word, number, _) => format!("{}, {word}={number}", list(words)),
            Axis::Number(low, high, _) => format!("a number from {low} to {high}"),
            Axis::Own(_) => format!("a number from {} to {}", OWN.0, OWN.1),
            Axis::Parameter(parameter) => {
                let (low, high) = OF_PARAMETER;
                format!("a number from {low} to {high:e}, in {}", parameter.unit())
            }
        }
    }
}

impl Set {
    /// Carries it out: on settings, or on a parameter's value.
    pub fn apply(&self, settings: &mut Settings, fixed: &mut Vec<(Parameter, f64)>) -> Result<(), BadSet> {
        self.done(settings, fixed, |own, speed, value| {
            *speed *= value / own.replace(value)?;
            Some(())
        })
    }

    /// Says what a machine has, before anything is changed.
    pub fn describe(&self, settings: &mut Settings, fixed: &mut Vec<(Parameter, f64)>) -> Result<(), BadSet> {
        self.done(settings, fixed, |own, _, value| {
            *own = Some(value);
            Some(())
        })
    }

    fn done(
        &self,
        settings: &mut Settings,
        fixed: &mut Vec<(Parameter, f64)>,
        of_machine: impl Fn(&mut Option<f64>, &mut f64, f64) -> Option<()>,
    ) -> Result<(), BadSet> {
        let Some((_, axis)) = AXES.iter().find(|(name, _)| *name == self.axis) else {
            return Err(BadSet::NoAxis(self.axis.clone()));
        };
        let bad = || BadSet::Value { axis: self.axis.clone(), takes: axis.takes(), value: self.value.clone() };
        let number = |text: &str, (low, high): (f64, f64)| {
            text.parse::<f64>().ok().filter(|value| (low..=high).contains(value)).ok_or_else(bad)
        };
        let word = |words: &[Word]| words.iter().find(|(word, _)| *word == self.value).map(|(_, set)| *set);
        match *axis {
            Axis::Words(words) => word(words).ok_or_else(bad)?(settings),
            Axis::WordsOr(words, prefix, _, take) => match word(words) {
                Some(set) => set(settings),
                None => {
                    let text = self.value.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('='));
                    take(settings, number(text.ok_or_else(bad)?, AFTER_WORD)?);
                }
            },
            Axis::Number(low, high, take) => take(settings, number(&self.value, (low, high))?),
            Axis::Own(places) => {
                let value = number(&self.value, OWN)?;
                let (own, speed) = places(settings);
                of_machine(own, speed, value).ok_or_else(|| BadSet::NoOwn(self.axis.clone()))?;
            }
            Axis::Parameter(parameter) => fixed.push((parameter, number(&self.value, OF_PARAMETER)?)),
        }
        Ok(())
    }
}
