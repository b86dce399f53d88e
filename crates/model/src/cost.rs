//! From a machine's numbers and settings to what `flow` counts with: how many octets are copied, invalidated, summed.
//! Operations decide, unit costs come second.

use crate::flow::{
    BESIDE_FRAME, Cpu, Dma, FCS, Fifo, Link, Outcome, Receiver, Sender, Spacing, Traffic, receive, send,
};
use crate::parameter::{Parameter as P, Values};
use crate::setting::{Align, Bounce, Buffers, RxBuffering, Settings};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// The machine receives datagrams.
    UdpRx,
    /// It sends them.
    UdpTx,
    /// It receives a stream.
    TcpRx,
    /// It sends one.
    TcpTx,
    /// It forwards a stream from one port to another, acknowledgements the other way.
    Bridge,
}

impl Workload {
    /// In tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Workload::UdpRx => "udp-rx",
            Workload::UdpTx => "udp-tx",
            Workload::TcpRx => "tcp-rx",
            Workload::TcpTx => "tcp-tx",
            Workload::Bridge => "bridge",
        }
    }

    /// Octets of headers between the payload and the frame's end, FCS left out; TCP with timestamps.
    pub fn headers(self) -> f64 {
        match self {
            Workload::UdpRx | Workload::UdpTx => ETHERNET + 20.0 + 8.0,
            Workload::TcpRx | Workload::TcpTx | Workload::Bridge => ETHERNET + 20.0 + 32.0,
        }
    }

    /// Whether the machine is an end of a stream.
    pub fn is_stream(self) -> bool {
        matches!(self, Workload::TcpRx | Workload::TcpTx)
    }

    pub(crate) fn is_tcp(self) -> bool {
        !matches!(self, Workload::UdpRx | Workload::UdpTx)
    }

    /// Whether the machine has only to send, acknowledgements left out.
    pub fn sends(self) -> bool {
        matches!(self, Workload::UdpTx | Workload::TcpTx)
    }
}

/// A load on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// What is measured.
    pub workload: Workload,
    /// Octets of payload in a frame.
    pub payload: f64,
    /// Mbit/s of payload that are offered; as much as goes where it is absent.
    pub offered_mbps: Option<f64>,
}

/// Octets of Ethernet's header.
const ETHERNET: f64 = 14.0;
/// An acknowledgement, octets without FCS: Ethernet, IPv4, TCP with timestamps.
const ACK: f64 = 66.0;
/// Acknowledgements a segment (RFC 1122, 4.2.3.2: at least every second full-sized one).
const ACKS: f64 = 0.5;
/// Beside the frame, what is in a socket's or ring's count.
const NS: f64 = 1e-3;

/// What the CPU does for received and sent frames, µs.
struct Work<'a> {
    values: &'a Values,
    settings: &'a Settings,
}

impl Work<'_> {
    fn cpu_us(&self, parameter: P) -> f64 {
        self.values.get(parameter) / self.settings.cpu_speed
    }

    fn memory_us(&self, parameter: P, octets: f64) -> f64 {
        self.values.get(parameter) * octets * NS / self.settings.bus_speed
    }

    fn copied(&self, octets: f64) -> f64 {
        match self.settings.hand_up {
            RxBuffering::Copy => octets,
            RxBuffering::ZeroCopy => 0.0,
            RxBuffering::Copybreak(limit) => {
                if octets <= limit {
                    octets
                } else {
                    0.0
                }
            }
        }
    }

    /// Reading octets of a receive buffer where they are.
    fn in_place_us(&self, octets: f64) -> f64 {
        if self.settings.buffers == Buffers::Uncached { self.memory_us(P::CpuUncached, octets) } else { 0.0 }
    }

    /// The driver's part before it looks at a frame's octets.
    fn taken_us(&self, octets: f64) -> f64 {
        let buffers = (octets / self.settings.rx_buffer).ceil().max(1.0);
        let invalidated = match self.settings.buffers {
            Buffers::Uncached => 0.0,
            Buffers::WriteBack | Buffers::WriteThrough => buffers * self.settings.rx_buffer,
        };
        self.cpu_us(P::CpuFragment) * buffers + self.memory_us(P::CpuInvalidate, invalidated)
    }

    fn aligned_us(&self, octets: f64) -> f64 {
        match self.settings.align {
            Align::None => self.cpu_us(P::CpuUnaligned),
            Align::Offset2 => 0.0,
            Align::Fixup => self.memory_us(P::CpuFixup, octets),
            Align::FixupWholeBuffer => self.memory_us(P::CpuFixup, self.settings.rx_buffer),
        }
    }

    /// From the ring to the stack.
    fn received_us(&self, octets: f64) -> f64 {
        let copied = self.copied(octets);
        let copying = self.memory_us(P::CpuCopy, copied) + self.in_place_us(copied);
        self.cpu_us(P::CpuFrame) + self.taken_us(octets) + self.aligned_us(octets) + copying
    }

    fn summed_us(&self, payload: f64) -> f64 {
        if self.settings.checksum_in_software { self.memory_us(P::CpuChecksum, payload) } else { 0.0 }
    }

    /// From the socket to the application's memory.
    fn read_us(&self, octets: f64, payload: f64) -> f64 {
        let in_place = if self.copied(octets) == 0.0 { self.in_place_us(payload) } else { 0.0 };
        self.cpu_us(P::CpuApplication) + self.memory_us(P::CpuCopy, payload) + in_place
    }

    fn bounced(&self, octets: f64) -> f64 {
        let moved = matches!(self.settings.align, Align::Fixup | Align::FixupWholeBuffer);
        match self.settings.bounce {
            Bounce::Always => octets,
            Bounce::Unaligned if !self.settings.realigns || moved => octets,
            Bounce::Unaligned | Bounce::Never => 0.0,
        }
    }

    /// From the stack to the ring.
    fn sent_us(&self, octets: f64) -> f64 {
        self.cpu_us(P::CpuSend) + self.memory_us(P::CpuCopy, self.bounced(octets))
    }
}

impl Load {
    /// The same where packets have at most so many octets: a stream's are that long. `None` where a datagram is longer.
    pub fn within(&self, mtu: f64) -> Option<Load> {
        let most = mtu - (self.workload.headers() - ETHERNET);
        match self.workload {
            Workload::UdpRx | Workload::UdpTx => (self.payload <= most).then_some(*self),
            Workload::TcpRx | Workload::TcpTx | Workload::Bridge => Some(Load { payload: most, ..*self }),
        }
    }

    /// What so much payload takes on a cable, Mbit/s: headers, FCS, preamble and gap counted.
    pub fn on_cable(&self, payload_mbps: f64) -> f64 {
        payload_mbps * (self.payload + self.workload.headers() + FCS + BESIDE_FRAME) / self.payload
    }
}

/// Throughput that a load comes to, Mbit/s of payload at the receiver's application. Of datagrams that arrive at a given
/// rate it is the share of that rate that the application reads: a run of some thousand frames has its own accidental rate, and
/// ends with queues that are full.
pub fn mbps(load: &Load, outcome: &Outcome) -> f64 {
    match (load.workload, load.offered_mbps) {
        (Workload::UdpRx, Some(offered)) => {
            offered * (outcome.delivered as f64 - outcome.waiting) / outcome.sent.max(1) as f64
        }
        _ => outcome.mbps(load.payload),
    }
}

/// Lets a load run on a machine: so many frames.
pub fn run(values: &Values, settings: &Settings, load: &Load, frames: usize) -> Outcome {
    let work = Work { values, settings };
    let octets = load.payload + load.workload.headers();
    let wire = |payload_mbps: f64| payload_mbps / (load.payload * 8.0);
    let most = values.get(P::PartnerRate);
    let of_partner = most / ((octets + FCS + BESIDE_FRAME) * 8.0);
    let asked = load.offered_mbps.map_or(f64::INFINITY, wire);
    let dma = Dma { rate: values.get(P::DmaRate) * settings.bus_speed, frame_us: values.get(P::DmaFrame) };
    let window =
        load.workload.is_tcp().then(|| ((values.get(P::WindowFrames) as usize).max(1), values.get(P::PartnerRtt)));
    let cable = Link::cable(values.get(P::CableRate));
    let between = Link { mbps: values.get(P::LinkRate), overhead: values.get(P::LinkOverhead), ..cable };
    let slower = if between.frame_us(octets) > cable.frame_us(octets) { between } else { cable };
    // A stream has no recovery here, so it meets no queue that is full.
    let link = Link { queue: if load.workload.is_tcp() { f64::INFINITY } else { values.get(P::LinkQueue) }, ..slower };
    let acks = if load.workload.is_tcp() { ACKS } else { 0.0 };
    let traffic = Traffic {
        frames,
        octets,
        // What was offered was sent, whatever the partner could do at most.
        rate: if load.workload.sends() || load.offered_mbps.is_some() { asked } else { of_partner },
        spacing: Spacing::Bursts(if load.workload.sends() { 1.0 } else { values.get(P::PartnerBurst) }),
        partner_mbps: values.get(P::CableRate),
        window,
    };
    if load.workload.sends() {
        let user = work.memory_us(P::CpuCopy, load.payload) + work.summed_us(load.payload);
        let sender = Sender {
            frame_us: work.sent_us(octets) + user + acks * work.cpu_us(P::CpuAck),
            copied: load.payload + work.bounced(octets),
            ring: settings.ring_tx as usize,
            dma,
            other_way_us: acks * (dma.frame_us + ACK / dma.rate),
            cable_mbps: values.get(P::CableRate),
            link,
        };
        return send(&sender, traffic);
    }
    let whole = |frame_us: f64, application_us: f64, copied: f64| {
        let cut_us = if settings.drop_fifo_errors { work.cpu_us(P::CpuFragment) } else { frame_us };
        let cpu = Cpu {
            frame_us,
            cut_us,
            copied,
            application_us,
            shared: !settings.own_cpu,
            budget: settings.budget.map(|frames| frames as usize),
            interrupt_us: work.cpu_us(P::CpuInterrupt),
            wake_us: values.get(P::IdleWake),
            coalesce_frames: settings.coalesce_frames as usize,
            coalesce_us: settings.coalesce_us,
        };
        let xoff = values.get(P::FifoXoff);
        let fifo = Fifo {
            octets: values.get(P::FifoRx),
            pause: settings.pause.then_some((xoff, values.get(P::FifoXon).min(xoff))),
            obeys_us: values.get(P::FifoObeys),
            handover: values.get(P::FifoHandover),
            cuts: settings.truncate,
        };
        let ring = (settings.ring_rx / (octets / settings.rx_buffer).ceil()).max(1.0) as usize;
        let waits_for_descriptor = settings.waits_for_descriptor;
        Receiver { link, fifo, dma, ring, waits_for_descriptor, cpu, socket: values.get(P::SocketFrames) }
    };
    let receiver = match load.workload {
        Workload::Bridge => {
            // The frame in and out, and every second time an acknowledgement in and out the other way.
            let through = |octets: f64| work.received_us(octets) + work.sent_us(octets);
            let copied = work.copied(octets) + work.bounced(octets);
            whole(through(octets) + acks * through(ACK), 0.0, copied)
        }
        _ => {
            let stack = work.received_us(octets) + work.summed_us(load.payload) + acks * work.cpu_us(P::CpuAck);
            let read = work.read_us(octets, load.payload);
            if load.workload.is_tcp() && !settings.own_cpu {
                // The window closes while the application does not read, so the driver never takes its CPU for long.
                whole(stack + read, 0.0, work.copied(octets))
            } else {
                whole(stack, read, work.copied(octets))
            }
        }
    };
    receive(&receiver, traffic)
}
