//! The way in: cable, FIFO, DMA, ring, CPU, socket, application. Each frame's times follow from those before it.

use std::collections::VecDeque;

use linerate_path::stage::Stage;

use super::source::Source;
use super::{Dma, Link, Outcome, Resource, Traffic};

/// The receiving MAC's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fifo {
    /// Octets.
    pub octets: f64,
    /// Pause frames are sent from this many octets on, and taken back below that many.
    pub pause: Option<(f64, f64)>,
    /// From when the sender reads a pause frame until it obeys, µs: what is on the way by then still comes.
    pub obeys_us: f64,
    /// A frame is handed on from so many octets on; 0 is when it is there as a whole.
    pub handover: f64,
    /// A frame that does not fit is cut, and what there is of it handed on; else it is dropped as a whole.
    pub cuts: bool,
}

/// What the CPU does for a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// In driver and stack, µs a frame.
    pub frame_us: f64,
    /// For a frame that the FIFO cut, µs.
    pub cut_us: f64,
    /// Octets that are copied of a frame.
    pub copied: f64,
    /// In the application, µs a frame.
    pub application_us: f64,
    /// The application has the CPU when driver and stack leave it; else a CPU of its own.
    pub shared: bool,
    /// After so many frames without a pause an application that waits for the same CPU has it for as long as they took.
    pub budget: Option<usize>,
    /// For an interrupt, µs.
    pub interrupt_us: f64,
    /// From an interrupt until an idle CPU answers, µs.
    pub wake_us: f64,
    /// Frames that interrupt together.
    pub coalesce_frames: usize,
    /// But no later than so many µs after the first.
    pub coalesce_us: f64,
}

/// A receiving machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Receiver {
    /// The cable to it.
    pub link: Link,
    /// Its MAC's memory.
    pub fifo: Fifo,
    /// Its MAC's DMA.
    pub dma: Dma,
    /// Receive descriptors, counted in frames.
    pub ring: usize,
    /// Without a free descriptor a frame waits in the FIFO; else it is dropped.
    pub waits_for_descriptor: bool,
    /// Its CPU.
    pub cpu: Cpu,
    /// Frames that the socket holds.
    pub socket: f64,
}

/// A frame that the CPU has not begun with.
#[derive(Clone, Copy)]
struct Filled {
    /// As the source counts.
    number: usize,
    /// As the ring counts.
    descriptor: usize,
    at_us: f64,
    cut: bool,
}

struct State<'a> {
    machine: &'a Receiver,
    outcome: Outcome,
    /// Frames in the FIFO: when the DMA begins and ends with each, and their octets.
    fifo: VecDeque<(f64, f64, f64)>,
    in_fifo: f64,
    /// When the CPU was done with the frames that had descriptors, by their number modulo the ring.
    done: Vec<f64>,
    filled: Vec<Filled>,
    cpu_free: f64,
    /// Frames that it took without a pause, and how long that was, µs.
    in_row: (usize, f64),
    /// Work that the application has still to do, µs.
    backlog_us: f64,
    application_free: f64,
    cpu_busy: f64,
    application_busy: f64,
    ring_us: f64,
    last: f64,
}

/// Lets `traffic` arrive.
pub fn receive(machine: &Receiver, traffic: Traffic) -> Outcome {
    let mut source = Source::new(traffic);
    let mut state = State {
        machine,
        outcome: Outcome::default(),
        fifo: VecDeque::new(),
        in_fifo: 0.0,
        done: vec![0.0; machine.ring.max(1)],
        filled: Vec::new(),
        cpu_free: 0.0,
        in_row: (0, 0.0),
        backlog_us: 0.0,
        application_free: 0.0,
        cpu_busy: 0.0,
        application_busy: 0.0,
        ring_us: 0.0,
        last: 0.0,
    };
    let on_link = machine.link.frame_us(traffic.octets);
    let beside = (machine.link.overhead - super::FCS).max(0.0) * 8.0 / machine.link.mbps;
    let stored = traffic.octets + super::FCS;
    let (mut link_free, mut link_busy, mut dma_free, mut dma_busy) = (0.0f64, 0.0, 0.0f64, 0.0);
    let mut offered_until = 0.0;
    let mut paused = (f64::INFINITY, 0.0);
    let mut described = 0;
    for number in 0..traffic.frames {
        let offered = source.offer(number);
        state.outcome.sent += 1;
        state.last = state.last.max(offered);
        offered_until = offered;
        let mut begins = offered.max(link_free);
        if begins >= paused.0 && begins < paused.1 {
            begins = paused.1;
        }
        if begins - offered > machine.link.queue * on_link {
            state.outcome.lose(Stage::Link);
            source.acknowledge(number, offered);
            continue;
        }
        let ends = begins + on_link;
        (link_free, link_busy) = (ends, link_busy + on_link);
        // Preamble before it, gap behind: the octets themselves end here.
        let arrived = ends - beside;

        let slot = described % state.done.len();
        if state.filled.iter().any(|frame| frame.descriptor == described.wrapping_sub(state.done.len())) {
            state.serve(arrived, &mut source);
        }
        let handed = if machine.fifo.handover > 0.0 && machine.fifo.handover < stored {
            begins + (machine.fifo.handover + 8.0) * 8.0 / machine.link.mbps
        } else {
            arrived
        };
        if !machine.waits_for_descriptor && state.done[slot] > handed {
            state.outcome.lose(Stage::DriverRxRing);
            source.acknowledge(number, arrived);
            continue;
        }
        let dma_begins = handed.max(dma_free).max(state.done[slot]);
        state.empty_fifo(begins);
        let at_first = state.occupied(begins);
        state.empty_fifo(arrived);
        let of_own = if dma_begins < arrived { (arrived - dma_begins) * machine.dma.rate } else { 0.0 };
        let at_last = state.occupied(arrived) - of_own.min(stored);
        let cut = at_last + stored > machine.fifo.octets;
        // It fills the FIFO while the DMA empties it; where it is full, the frame's rest passes by.
        let until_full = (machine.fifo.octets - at_first) / (1.0 + (at_last - at_first) / stored).max(1e-9);
        let octets = if cut { until_full.clamp(0.0, stored) } else { stored };
        if cut && (!machine.fifo.cuts || octets < 1.0) {
            state.outcome.lose(Stage::MacRxFifo);
            source.acknowledge(number, arrived);
            continue;
        }
        let dma_ends = (dma_begins + machine.dma.frame_us(octets)).max(arrived);
        (dma_free, dma_busy) = (dma_ends, dma_busy + machine.dma.frame_us(octets));
        state.fifo.push_back((dma_begins, dma_ends, octets));
        state.in_fifo += octets;
        if let Some((xoff, xon)) = machine.fifo.pause
            && state.occupied(arrived) >= xoff
            && arrived >= paused.1
        {
            paused = (arrived + machine.fifo.obeys_us, state.empties_to(xon, arrived));
            state.outcome.pauses += 1;
        }
        if cut {
            state.outcome.lose(Stage::MacRxFifo);
            source.acknowledge(number, arrived);
        }
        state.fill(Filled { number, descriptor: described, at_us: dma_ends, cut }, &mut source);
        described += 1;
    }
    let end = state.last;
    state.serve(end, &mut source);
    // A frame that the FIFO cut keeps both busy, and is delivered to nobody.
    state.last = state.last.max(link_free).max(dma_free).max(state.cpu_free + state.backlog_us);
    state.finish(link_busy, dma_busy, offered_until)
}

impl State<'_> {
    /// Takes what the DMA has read by `at` out of the FIFO.
    fn empty_fifo(&mut self, at: f64) {
        while let Some(&(_, ends, octets)) = self.fifo.front()
            && ends <= at
        {
            self.in_fifo -= octets;
            self.fifo.pop_front();
        }
    }

    /// Octets in the FIFO at `at`, a time after the last emptying.
    fn occupied(&self, at: f64) -> f64 {
        let read = self.fifo.front().map_or(0.0, |&(begins, ends, octets)| {
            if at > begins { octets * (at - begins) / (ends - begins).max(1e-9) } else { 0.0 }
        });
        self.in_fifo - read
    }

    /// When no more than `octets` will be in it, if nothing more comes.
    fn empties_to(&self, octets: f64, now: f64) -> f64 {
        let mut left = self.in_fifo;
        for &(begins, ends, of_frame) in &self.fifo {
            if left - of_frame <= octets {
                let share = ((left - octets) / of_frame).clamp(0.0, 1.0);
                return (begins + share * (ends - begins)).max(now);
            }
            left -= of_frame;
        }
        self.fifo.back().map_or(now, |&(_, ends, _)| ends)
    }

    /// A descriptor is filled: the CPU begins when it is interrupted, or at once where it polls anyway.
    fn fill(&mut self, frame: Filled, source: &mut Source) {
        let cpu = &self.machine.cpu;
        if let Some(first) = self.filled.first()
            && first.at_us + cpu.coalesce_us <= frame.at_us
        {
            let at = first.at_us + cpu.coalesce_us;
            self.serve(at, source);
        }
        self.filled.push(frame);
        if self.filled.len() >= cpu.coalesce_frames || self.cpu_free > frame.at_us {
            self.serve(frame.at_us, source);
        }
    }

    /// The CPU takes every filled descriptor, interrupted at `at`.
    fn serve(&mut self, at: f64, source: &mut Source) {
        let cpu = self.machine.cpu;
        for frame in std::mem::take(&mut self.filled) {
            let ready = frame.at_us.max(at);
            let mut begins = ready.max(self.cpu_free);
            if self.cpu_free < ready {
                begins += cpu.wake_us + cpu.interrupt_us;
                self.cpu_busy += cpu.interrupt_us;
                if cpu.shared {
                    self.run_application(ready - self.cpu_free);
                }
                self.in_row = (0, 0.0);
            } else if cpu.shared && cpu.budget.is_some_and(|budget| self.in_row.0 >= budget) {
                begins += self.run_application(self.in_row.1);
                self.in_row = (0, 0.0);
            }
            let work = if frame.cut { cpu.cut_us } else { cpu.frame_us };
            self.cpu_free = begins + work;
            self.in_row = (self.in_row.0 + 1, self.in_row.1 + work);
            self.cpu_busy += work;
            let slot = frame.descriptor % self.done.len();
            self.done[slot] = self.cpu_free;
            if frame.cut {
                continue;
            }
            self.ring_us += begins - frame.at_us;
            self.outcome.copied += cpu.copied;
            self.deliver(frame.number, source);
        }
    }

    /// How long of that the application needed, µs.
    fn run_application(&mut self, free_us: f64) -> f64 {
        let done = self.backlog_us.min(free_us);
        self.backlog_us -= done;
        self.application_busy += done;
        done
    }

    /// A frame is in the socket.
    fn deliver(&mut self, number: usize, source: &mut Source) {
        let (cpu, socket) = (&self.machine.cpu, self.machine.socket);
        let waits = if cpu.shared { self.backlog_us } else { (self.application_free - self.cpu_free).max(0.0) };
        if cpu.application_us > 0.0 && waits > socket * cpu.application_us {
            self.outcome.lose(Stage::ReceiverSocket);
            source.acknowledge(number, self.cpu_free);
            return;
        }
        let at = if cpu.shared {
            self.backlog_us += cpu.application_us;
            self.cpu_free + self.backlog_us
        } else {
            self.application_free = self.application_free.max(self.cpu_free) + cpu.application_us;
            self.application_busy += cpu.application_us;
            self.application_free
        };
        self.outcome.delivered += 1;
        self.last = self.last.max(at);
        source.acknowledge(number, at);
    }

    fn finish(mut self, link_busy: f64, dma_busy: f64, offered_until: f64) -> Outcome {
        let cpu = self.machine.cpu;
        // What each could not have done until then, however it hurried: that share of what it passed was still before it.
        let delivered = self.outcome.delivered as f64;
        let late = |busy: f64| (delivered * (1.0 - offered_until / busy.max(f64::MIN_POSITIVE))).max(0.0);
        let of_cpu = if self.machine.waits_for_descriptor { Stage::MacRxFifo } else { Stage::DriverRxRing };
        let left = if cpu.shared { self.backlog_us } else { (self.application_free - self.cpu_free).max(0.0) };
        self.application_busy += self.backlog_us;
        let mut outcome = self.outcome;
        let at_socket = if cpu.application_us > 0.0 { (left / cpu.application_us).floor() } else { 0.0 };
        let waiting = [
            (late(link_busy), Stage::Link),
            (late(dma_busy), Stage::MacRxFifo),
            (late(self.cpu_busy), of_cpu),
            (at_socket, Stage::ReceiverSocket),
        ];
        let most = waiting.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(frames, _)| *frames >= 1.0);
        outcome.waiting = most.map_or(0.0, |(frames, _)| frames.min(delivered));
        outcome.waits_at = most.map(|(_, stage)| stage);
        outcome.duration_us = self.last;
        outcome.ring_us = if outcome.delivered > 0 { self.ring_us / outcome.delivered as f64 } else { 0.0 };
        let share = |busy: f64| if self.last > 0.0 { busy / self.last } else { 0.0 };
        let (cpu, application) = if self.machine.cpu.shared {
            // One CPU: whichever of the two has more of it is named, and it is busy with both.
            let both = share(self.cpu_busy + self.application_busy);
            if self.cpu_busy >= self.application_busy { (both, 0.0) } else { (0.0, both) }
        } else {
            (share(self.cpu_busy), share(self.application_busy))
        };
        outcome.busy = vec![
            (Resource::Link, share(link_busy)),
            (Resource::Dma, share(dma_busy)),
            (Resource::Cpu, cpu),
            (Resource::Application, application),
        ];
        outcome
    }
}
