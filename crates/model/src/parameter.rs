//! The numbers of a machine, a row each: name, unit, meaning. Machine files give them, fits draw them.

macro_rules! parameters {
    ($($name:ident = $text:literal, $unit:literal, $about:literal;)*) => {
        /// A number of a machine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Parameter { $(#[doc = $about] $name,)* }

        impl Parameter {
            /// Every one, in the order of this table.
            pub const ALL: [Parameter; [$($text),*].len()] = [$(Parameter::$name),*];

            /// In files and on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Parameter::$name => $text,)* }
            }

            /// What it is counted in.
            pub fn unit(self) -> &'static str {
                match self { $(Parameter::$name => $unit,)* }
            }

            /// What it is.
            pub fn about(self) -> &'static str {
                match self { $(Parameter::$name => $about,)* }
            }
        }
    };
}

parameters! {
    CableRate = "cable.rate", "Mbit/s", "The machine's own cable, preamble and gap counted.";
    LinkRate = "link.rate", "Mbit/s", "What stands in the cable, such as a shaper; the cable's rate where nothing does.";
    LinkOverhead = "link.overhead", "bytes", "What the link's rate counts of a frame beside its bytes: 24 on a cable (FCS, preamble, gap), 0 in a queueing discipline.";
    LinkQueue = "link.queue", "frames", "What waits before the link: the switch's memory, or the shaper's queue.";
    PartnerRate = "partner.rate", "Mbit/s", "The most that the partner sends, preamble and gap counted.";
    PartnerBurst = "partner.burst", "frames", "Frames that the partner sends at once.";
    PartnerRtt = "partner.rtt", "us", "From a segment's delivery to its acknowledgement's effect, the machine's own time left out.";
    FifoRx = "fifo.rx", "bytes", "The MAC's receive FIFO.";
    FifoXoff = "fifo.xoff", "bytes", "Bytes in it from which on pause frames are sent.";
    FifoXon = "fifo.xon", "bytes", "Bytes in it below which they are taken back.";
    FifoHandover = "fifo.handover", "bytes", "A frame is handed on from here; 0 is store and forward.";
    FifoObeys = "fifo.obeys", "us", "From a pause frame to its effect.";
    DmaRate = "dma.rate", "bytes/us", "The MAC's DMA.";
    DmaFrame = "dma.frame", "us", "Its time for a frame beside the bytes.";
    CpuFrame = "cpu.frame", "us", "Driver and stack, a received frame, what is counted apart left out.";
    CpuFragment = "cpu.fragment", "us", "For each buffer of a received frame.";
    CpuCopy = "cpu.copy", "ns/byte", "Copying within cached memory.";
    CpuUncached = "cpu.uncached", "ns/byte", "Beside it, where what is read is not cached.";
    CpuInvalidate = "cpu.invalidate", "ns/byte", "Invalidating a buffer.";
    CpuChecksum = "cpu.checksum", "ns/byte", "Summing in software.";
    CpuFixup = "cpu.fixup", "ns/byte", "Copying a received frame in half words, so that its IP header is aligned.";
    CpuUnaligned = "cpu.unaligned", "us", "A frame whose IP header is not aligned.";
    CpuApplication = "cpu.application", "us", "The application's call, a frame.";
    CpuAck = "cpu.ack", "us", "Making or reading an acknowledgement.";
    CpuSend = "cpu.send", "us", "Application, stack and driver, a sent frame, what is counted apart left out.";
    CpuInterrupt = "cpu.interrupt", "us", "An interrupt.";
    IdleWake = "idle.wake_us", "us", "From an interrupt until an idle CPU answers.";
    SocketFrames = "socket.frames", "frames", "What the receiving socket holds.";
    WindowFrames = "window.frames", "frames", "TCP's window.";
}

impl Parameter {
    /// Whether something takes for ever where it is 0.
    pub fn is_rate(self) -> bool {
        matches!(self, Parameter::CableRate | Parameter::LinkRate | Parameter::PartnerRate | Parameter::DmaRate)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Parameter> {
        Parameter::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// A value for every parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values([f64; Parameter::ALL.len()]);

impl Values {
    /// One for each.
    pub fn of(value: impl FnMut(Parameter) -> f64) -> Values {
        Values(Parameter::ALL.map(value))
    }

    /// This one's.
    pub fn get(&self, parameter: Parameter) -> f64 {
        self.0[parameter as usize]
    }

    /// Sets this one's.
    pub fn set(&mut self, parameter: Parameter, value: f64) {
        self.0[parameter as usize] = value;
    }
}
