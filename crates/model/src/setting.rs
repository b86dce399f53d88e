//! What a driver is built and set to: the axes of a prediction, a row each.

use crate::parameter::Parameter;

/// How a received frame gets to the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HandUp {
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
    pub hand_up: HandUp,
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
    /// `cpu.mhz`, as a factor of the machine's.
    pub cpu_speed: f64,
    /// `bus.bits` and `bus.mhz`, as a factor of the machine's.
    pub bus_speed: f64,
    /// `cpus`: driver and application have one each.
    pub own_cpu: bool,
    /// A frame waits in the FIFO for a descriptor.
    pub waits_for_descriptor: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hand_up: HandUp::Copy,
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
            own_cpu: true,
            waits_for_descriptor: true,
        }
    }
}

/// What an axis changes.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// One of these words, or a number after `=`; and how it is taken.
    Word(&'static str, fn(&mut Settings, &str) -> bool),
    /// A number from the first to the last.
    Number(f64, f64, fn(&mut Settings, f64)),
    /// A parameter gets this value.
    Parameter(Parameter),
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    let found = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    found
}

/// Every axis by name, but for those that give a parameter its value.
pub const AXES: &[(&str, Axis)] = &[
    (
        "rx.hand_up",
        Axis::Word("copy, zero-copy, copybreak=OCTETS", |settings, text| {
            let value = match text {
                "copy" => Some(HandUp::Copy),
                "zero-copy" => Some(HandUp::ZeroCopy),
                _ => text
                    .strip_prefix("copybreak=")
                    .and_then(|n| n.parse::<u16>().ok())
                    .map(|n| HandUp::Copybreak(n.into())),
            };
            put(&mut settings.hand_up, value)
        }),
    ),
    (
        "align",
        Axis::Word("none, offset2, fixup, fixup-whole-buffer", |settings, text| {
            let value = match text {
                "none" => Some(Align::None),
                "offset2" => Some(Align::Offset2),
                "fixup" => Some(Align::Fixup),
                "fixup-whole-buffer" => Some(Align::FixupWholeBuffer),
                _ => None,
            };
            put(&mut settings.align, value)
        }),
    ),
    (
        "tx.bounce",
        Axis::Word("never, unaligned, always", |settings, text| {
            let value = match text {
                "never" => Some(Bounce::Never),
                "unaligned" => Some(Bounce::Unaligned),
                "always" => Some(Bounce::Always),
                _ => None,
            };
            put(&mut settings.bounce, value)
        }),
    ),
    (
        "buffers",
        Axis::Word("uncached, write-back, write-through", |settings, text| {
            let value = match text {
                "uncached" => Some(Buffers::Uncached),
                "write-back" => Some(Buffers::WriteBack),
                "write-through" => Some(Buffers::WriteThrough),
                _ => None,
            };
            put(&mut settings.buffers, value)
        }),
    ),
    (
        "checksum",
        Axis::Word("software, mac", |settings, text| {
            put(
                &mut settings.checksum_in_software,
                match text {
                    "software" => Some(true),
                    "mac" => Some(false),
                    _ => None,
                },
            )
        }),
    ),
    (
        "cpus",
        Axis::Word("one, own", |settings, text| {
            put(
                &mut settings.own_cpu,
                match text {
                    "one" => Some(false),
                    "own" => Some(true),
                    _ => None,
                },
            )
        }),
    ),
    (
        "without_descriptor",
        Axis::Word("wait, drop", |settings, text| {
            put(
                &mut settings.waits_for_descriptor,
                match text {
                    "wait" => Some(true),
                    "drop" => Some(false),
                    _ => None,
                },
            )
        }),
    ),
    ("pause", Axis::Word("on, off", |settings, text| put(&mut settings.pause, switch(text)))),
    ("truncate", Axis::Word("on, off", |settings, text| put(&mut settings.truncate, switch(text)))),
    ("drop_fifo_errors", Axis::Word("on, off", |settings, text| put(&mut settings.drop_fifo_errors, switch(text)))),
    ("dre", Axis::Word("on, off", |settings, text| put(&mut settings.realigns, switch(text)))),
    ("rx.buffer", Axis::Number(64.0, 16384.0, |settings, value| settings.rx_buffer = value)),
    ("rings.rx", Axis::Number(1.0, 65536.0, |settings, value| settings.ring_rx = value)),
    ("rings.tx", Axis::Number(1.0, 65536.0, |settings, value| settings.ring_tx = value)),
    ("coalesce.frames", Axis::Number(1.0, 1024.0, |settings, value| settings.coalesce_frames = value)),
    ("coalesce.usecs", Axis::Number(0.0, 100_000.0, |settings, value| settings.coalesce_us = value)),
    ("cpu.speed", Axis::Number(0.01, 100.0, |settings, value| settings.cpu_speed = value)),
    ("bus.speed", Axis::Number(0.01, 100.0, |settings, value| settings.bus_speed = value)),
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
}

fn axis_names() -> String {
    AXES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl Set {
    /// Carries it out: on settings, or on a parameter's value.
    pub fn apply(&self, settings: &mut Settings, fixed: &mut Vec<(Parameter, f64)>) -> Result<(), BadSet> {
        let Some((_, axis)) = AXES.iter().find(|(name, _)| *name == self.axis) else {
            return Err(BadSet::NoAxis(self.axis.clone()));
        };
        let bad = |takes: String| BadSet::Value { axis: self.axis.clone(), takes, value: self.value.clone() };
        let number = || self.value.parse::<f64>().ok().filter(|value| value.is_finite());
        match *axis {
            Axis::Word(words, take) => take(settings, &self.value).then_some(()).ok_or_else(|| bad(words.to_owned())),
            Axis::Number(low, high, take) => {
                let value = number().filter(|value| (low..=high).contains(value));
                let value = value.ok_or_else(|| bad(format!("a number from {low} to {high}")))?;
                take(settings, value);
                Ok(())
            }
            Axis::Parameter(parameter) => {
                let value = number().filter(|&value| value >= 0.0);
                fixed.push((parameter, value.ok_or_else(|| bad(format!("a number in {}", parameter.unit())))?));
                Ok(())
            }
        }
    }
}
