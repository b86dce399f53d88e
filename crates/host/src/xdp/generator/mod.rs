//! Test frames made and sent in the kernel: BPF_PROG_TEST_RUN with live frames, each with its number and its time, as fast
//! as the driver takes them or at an exact rate. Knows no receivers.
//!
//! ```text
//!   a page, as the last receiver left it ──► every octet of the headers anew ──► the driver's ndo_xdp_xmit
//!                     ▲                      number, time, flow, checksums
//!                     └── dropped, and tried again, until the next frame is due
//! ```

mod program;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::sync::Mutex;
use linerate_wire::frame::{FCS_LEN, StreamField, TestHeader};
use linerate_wire::template::Template;

use self::program::{State, program};
use super::attach::{number, sends_frames};
use super::error::XdpError;
use crate::sys::bpf::{Array, MAX_BATCH, MAX_FRAME, Program, ProgramKind};
use crate::sys::signals::{interrupt, interruptible};

/// What is to be sent.
#[derive(Clone, Debug)]
pub struct GeneratorOptions {
    /// What all frames are like. Up to [`MAX_FRAME`] octets without FCS.
    pub template: Template,
    /// Sizes that take turns, FCS counted, each at most the template's; none: all frames are as long as the template.
    pub sizes: Vec<u32>,
    /// Known to both ends of this trial, and to nobody else.
    pub secret: u32,
    /// Which stream this is, below 2^13.
    pub stream: u16,
    /// Each turn of the sizes is of the next flow, of so many: its source address and port differ. 1 and more; raw frames have one flow.
    pub flows: u16,
    /// When each frame is due; `None`: as fast as the driver takes them.
    pub pace: Option<Pace>,
    /// Frames that the driver is given at once, up to [`MAX_BATCH`]. A frame waits for the rest of its batch, so 1 keeps
    /// time best; `None`: the smallest that can keep the pace.
    pub batch: Option<u32>,
}

impl GeneratorOptions {
    /// Frames like this template, all of one flow of stream 0, as fast as the driver takes them.
    pub fn new(template: Template, secret: u32) -> GeneratorOptions {
        GeneratorOptions { template, sizes: Vec::new(), secret, stream: 0, flows: 1, pace: None, batch: None }
    }
}

/// A number of frames in a number of nanoseconds: a rate without a rounding error, however long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// At least 1.
    pub frames: u64,
    /// At least 1.
    pub in_ns: u64,
}

impl Pace {
    /// Frames in a second, at least 1.
    pub fn per_second(frames: u64) -> Pace {
        Pace { frames, in_ns: 1_000_000_000 }
    }

    /// The smallest batch that keeps the pace, as measured on a two-core virtual machine: single frames up to 1 M/s.
    fn batch(self) -> u32 {
        match u128::from(self.frames) * 1_000_000_000 / u128::from(self.in_ns.max(1)) {
            0..=500_000 => 1,
            500_001..=2_000_000 => 16,
            _ => BATCH,
        }
    }
}

/// Of frames that are not paced: more gain nothing (the kernel's own default).
const BATCH: u32 = 64;

/// When a phase of a run ends, counted from its first frame; whatever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// After this many frames.
    pub frames: Option<u64>,
    /// After this time. Paced frames that are due before then are sent, unless the driver is more than
    /// 20 ms behind.
    pub duration: Option<Duration>,
}

/// A part of a run, within one call of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Its frames are marked as the warm-up's.
    pub is_warmup: bool,
    /// When it ends.
    pub extent: Extent,
}

/// What an observer of a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Frames are sent.
    Going,
    /// A phase is over, all its frames are with the driver, and the next has not begun.
    PhaseOver,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunControl {
    /// It does.
    GoOn,
    /// It ends now.
    Stop,
}

/// What was sent so far, over all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeneratorCounts {
    /// Frames that were handed to the driver. What it has no room for is in the interface's `tx_dropped`, and nowhere
    /// where the interface is down or cannot send what a program redirects.
    pub frames: u64,
    /// When the last phase's first frame was made; `None` before it.
    pub first_ns: Option<u64>,
    /// When the last frame was made.
    pub last_ns: Option<u64>,
    /// How the last phase came to its end by itself; `None` where it goes on, or was stopped.
    pub ended: Option<RunEnd>,
}

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All frames that were asked for were sent, or all that were due in its time.
    Complete,
    /// Its time was over, and frames that were due before were not sent: the pace is more than this machine can keep.
    Behind,
}

/// Sends test frames; [`Generator::run`] takes the calling thread and its CPU whole. It can be shared among threads.
#[derive(Debug)]
pub struct Generator {
    program: Program,
    state: Array,
    /// The first of the longest frames.
    frame: Vec<u8>,
    stream: u16,
    batch: u32,
    is_paced: bool,
    stopped: AtomicBool,
    running: Mutex<()>,
}

/// Time between two looks at how far a run is.
const LOOK: Duration = Duration::from_millis(2);
/// In which a batch is with the driver, however busy the machine is.
const FLUSH: Duration = Duration::from_millis(100);
/// Time between two looks at whether it is.
const GLANCE: Duration = Duration::from_micros(200);

impl Generator {
    /// Gets ready to send from an interface of the thread's network namespace. Sends nothing yet.
    pub fn new(interface: &str, options: &GeneratorOptions) -> Result<Generator, XdpError> {
        let index = number(interface)?;
        let octets = options.template.octets();
        if octets > MAX_FRAME {
            return Err(XdpError::TooLarge { octets, most: MAX_FRAME });
        }
        let frame = frame_of(options, octets);
        let batch = options.batch.unwrap_or(options.pace.map_or(BATCH, Pace::batch)).clamp(1, MAX_BATCH);
        let state = Array::new(1, State::WORDS).map_err(XdpError::map)?;
        let code = program(index, options, batch, state.number());
        let program = Program::load(ProgramKind::Xdp, &code).map_err(XdpError::load)?;
        let generator = Generator {
            program,
            state,
            frame,
            stream: options.stream,
            batch,
            is_paced: options.pace.is_some(),
            stopped: AtomicBool::new(false),
            running: Mutex::new(()),
        };
        generator.probe()?;
        if sends_frames(index) == Some(false) {
            return Err(XdpError::SendsNone(interface.to_owned()));
        }
        Ok(generator)
    }

    /// A run that is over before it begins: the kernel takes such calls, or not.
    fn probe(&self) -> Result<(), XdpError> {
        self.write(|state| state[State::ENDED] = State::COMPLETE).map_err(XdpError::map)?;
        self.program.send_live(&self.frame, 1, 1).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::E2BIG) => {
                XdpError::TooOld { cannot: "cannot send the frames of BPF programs", since: "5.18" }
            }
            _ => XdpError::general("sending frames by a BPF program", error),
        })
    }

    /// Frames that the driver is given at once.
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// Sends until the run is over, or [`Generator::stop`]ped; some 25 ms pass before the first frame and after the last.
    /// A further run goes on with the numbers. One run at a time: a second fails.
    pub fn run(&self, extent: Extent) -> io::Result<()> {
        self.run_phases(&[Phase { is_warmup: false, extent }], |_, _| RunControl::GoOn)
    }

    /// The same in phases that follow each other within some milliseconds. `watch` is called every 2 ms, on another thread.
    pub fn run_phases(
        &self,
        phases: &[Phase],
        mut watch: impl FnMut(Moment, &GeneratorCounts) -> RunControl + Send,
    ) -> io::Result<()> {
        let Some(_running) = self.running.try_lock() else { return Err(io::ErrorKind::ResourceBusy.into()) };
        let Some((first, rest)) = phases.split_first().filter(|_| !self.stopped.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        self.begin(first)?;
        // One call a run where its length is known: each costs 50 ms.
        let repeat = match (first.extent.frames, rest) {
            (Some(frames), []) if !self.is_paced => u32::try_from(frames).unwrap_or(u32::MAX).max(1),
            _ => u32::MAX,
        };
        let (over, sent) = (AtomicBool::new(false), AtomicBool::new(false));
        let thread = interruptible();
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let watched = self.watch(rest, &sent, &mut watch);
                over.store(true, Ordering::Release);
                // A signal to a thread that is not in the system call yet is lost, so it is sent again.
                while !sent.load(Ordering::Acquire) {
                    interrupt(thread);
                    thread::park_timeout(LOOK);
                }
                watched
            });
            let mut result = Ok(());
            while !over.load(Ordering::Acquire) {
                match self.program.send_live(&self.frame, repeat, self.batch) {
                    Err(error) if error.raw_os_error() != Some(libc::EINTR) => {
                        result = Err(error);
                        break;
                    }
                    _ => {}
                }
                // A call that has ended by itself may have been the last.
                if repeat != u32::MAX && self.is_over().unwrap_or(true) {
                    break;
                }
            }
            sent.store(true, Ordering::Release);
            watching.thread().unpark();
            let watched = watching.join().unwrap_or_else(|_| Err(io::Error::other("who watches a run panicked")));
            result.and(watched)
        })
    }

    /// Has the phases follow each other, until the last is over or somebody has ended them.
    fn watch(
        &self,
        rest: &[Phase],
        sent: &AtomicBool,
        watch: &mut impl FnMut(Moment, &GeneratorCounts) -> RunControl,
    ) -> io::Result<()> {
        let mut rest = rest.iter();
        loop {
            let has_sent = sent.load(Ordering::Acquire);
            let mut moment = Moment::Going;
            if self.is_over()? {
                moment = Moment::PhaseOver;
                self.wait_for_flush(sent)?;
            }
            let then = watch(moment, &self.counts()?);
            // The program is not told, for it counts where that would be written; the signal ends it.
            if then == RunControl::Stop || self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            match (moment, has_sent) {
                (Moment::Going, true) => return Ok(()),
                (Moment::Going, false) => thread::park_timeout(LOOK),
                (Moment::PhaseOver, _) => match rest.next() {
                    Some(next) => self.begin(next)?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Frames go to the driver when their batch is full, and the next begins after that: once the program has run idle for more
    /// than a batch, all of them have.
    fn wait_for_flush(&self, sent: &AtomicBool) -> io::Result<()> {
        let until = Instant::now() + FLUSH;
        let has_idled = || Ok::<_, io::Error>(self.state.read(0)?[State::IDLE] > 2 * u64::from(self.batch));
        while !has_idled()? && !sent.load(Ordering::Acquire) && Instant::now() < until {
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Opens a phase: from now on the program makes its frames.
    fn begin(&self, phase: &Phase) -> io::Result<()> {
        let Extent { frames, duration } = phase.extent;
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(FOREVER_NS);
        self.write(|state| {
            state[State::STARTED] = 0;
            state[State::FRACTION] = 0;
            state[State::MOST] = frames.map_or(u64::MAX, |frames| state[State::FRAMES].saturating_add(frames));
            state[State::DURATION] = duration.map_or(FOREVER_NS, nanoseconds);
            state[State::ENDED] = State::COMPLETE;
            state[State::IDLE] = 0;
            state[State::STREAM] = u64::from(self.stream | if phase.is_warmup { StreamField::WARMUP } else { 0 });
        })?;
        // Last, and alone: the program may be looking at the words while they are written.
        self.write(|state| state[State::ENDED] = 0)
    }

    /// Ends the run, and every later one, from any thread; [`Generator::run`] returns within some 30 ms.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// What was sent so far; of a run that goes on, too.
    pub fn counts(&self) -> io::Result<GeneratorCounts> {
        let state = self.state.read(0)?;
        let time = |at: usize| Some(state[at]).filter(|ns| *ns > 0);
        Ok(GeneratorCounts {
            frames: state[State::FRAMES],
            first_ns: time(State::STARTED),
            last_ns: time(State::LAST),
            ended: match state[State::ENDED] {
                State::COMPLETE => Some(RunEnd::Complete),
                State::BEHIND => Some(RunEnd::Behind),
                _ if state[State::FRAMES] >= state[State::MOST] => Some(RunEnd::Complete),
                _ => None,
            },
        })
    }

    fn is_over(&self) -> io::Result<bool> {
        let state = self.state.read(0)?;
        Ok(state[State::ENDED] != 0 || state[State::FRAMES] >= state[State::MOST])
    }

    /// Changes the state while no program runs.
    fn write(&self, change: impl FnOnce(&mut [u64])) -> io::Result<()> {
        let mut state = self.state.read(0)?;
        change(&mut state);
        self.state.write(0, &state)
    }
}

/// The first frame of this length, without FCS.
fn frame_of(options: &GeneratorOptions, octets: usize) -> Vec<u8> {
    let template = Template { frame_len: octets + FCS_LEN, ..options.template };
    let mut frame = vec![0; octets];
    // A template that is too small for its kind is its maker's bug.
    template.write(0, &mut frame).expect("a template is large enough for its headers");
    let stream = StreamField(options.stream);
    template.stamp(&TestHeader { secret: options.secret, stream, sequence: 0, sent_at_ns: 0 }, &mut frame);
    frame
}

/// No clock comes to twice this.
const FOREVER_NS: u64 = 1 << 62;
