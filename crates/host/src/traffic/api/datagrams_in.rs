//! Datagrams on their way from a socket, by the API that was chosen, and when each arrived.
//! Knows no numbers; the caller reads the datagrams.

use std::io;

use linerate_trial::api::{ApiUse, ReceiverApi, Timestamps};
use linerate_trial::spec::Spec;
use linerate_wire::HANDSHAKE_LEN;
use socket2::Socket;

use super::{Chosen, refuse_receiver, why_not};
use crate::sys::datagrams::{self, DatagramBatch, MAX_PAYLOAD, Received};
use crate::sys::ethtool::Ethtool;
use crate::traffic::TrafficError;
use crate::traffic::frames::HANDSHAKE_FRAME;
use crate::traffic::sockets::Open;

/// Datagrams to one recvmmsg(2); see DatagramsOut.
const BATCH: usize = 32;
/// Merged messages to one recvmmsg(2): each has room for the longest there is.
const MERGED_MESSAGES: usize = 4;
/// Memory of a batch; see DatagramsOut.
const BATCH_OCTETS: usize = 256 << 10;
/// Where nothing was asked for, what all streams' receive buffers may hold together: the system's usual 208 KiB are a
/// millisecond of a gigabit, and what a receiver loses that had to wait so long for a CPU is not the link's loss.
const BUFFERS: usize = 4 << 20;
/// A wall clock that moved by more than this against the trial's was set.
const CLOCK_STEP_NS: u64 = 1_000_000;

/// A batch of received messages, the way they come, and who notes when.
pub struct DatagramsIn {
    api: ReceiverApi,
    batch: DatagramBatch,
    clock: ArrivalClock,
}

/// Chooses the API; sees that the kernel has it, and that the NIC stamps if it is to. `auto` becomes the next best.
pub fn choose(spec: &Spec, open: &Open, interface: Option<&str>, auto: ReceiverApi) -> Result<Chosen, TrafficError> {
    let socket = &open.socket;
    let many = datagrams::has_many_calls(socket);
    let api = match spec.receiver_api {
        None if auto == ReceiverApi::UdpGro && many && datagrams::set_merging(socket, true).is_ok() => auto,
        None if auto != ReceiverApi::Plain && many => ReceiverApi::Recvmmsg,
        None => ReceiverApi::Plain,
        Some(api) => {
            if api != ReceiverApi::Plain && !many {
                let why = "this kernel has no recvmmsg (Linux 2.6.33 has); choose plain or auto";
                return Err(refuse_receiver(api, why.to_owned()));
            }
            if api == ReceiverApi::UdpGro {
                let why = |error| why_not("UDP_GRO", "5.0", &error);
                datagrams::set_merging(socket, true).map_err(|error| refuse_receiver(api, why(error)))?;
            }
            api
        }
    };
    if spec.socket_buffer.is_none() {
        // Clamped at net.core.rmem_max, and the record tells what it became; never less than the system gives.
        let wanted = BUFFERS / usize::from(spec.streams);
        if socket.recv_buffer_size().is_ok_and(|given| given < wanted) {
            let _ = socket.set_recv_buffer_size(wanted);
        }
    }
    Ok(Chosen::DatagramsIn(api, choose_timestamps(spec.timestamps, socket, interface)?))
}

pub(super) fn choose_timestamps(
    asked: Option<Timestamps>,
    socket: &Socket,
    interface: Option<&str>,
) -> Result<Timestamps, TrafficError> {
    let refuse = |who: Timestamps, why: String| TrafficError::Api { option: "timestamps", name: who.name(), why };
    if asked == Some(Timestamps::Application) {
        return Ok(Timestamps::Application);
    }
    let by_nic = interface
        .is_some_and(|name| Ethtool::new(name).and_then(|ethtool| ethtool.stamps_all_received()).unwrap_or(false));
    if asked == Some(Timestamps::Hardware) && !by_nic {
        let name = interface.unwrap_or("the interface");
        let why = format!(
            "{name} does not stamp what it receives; have it do so where it can (hwstamp_ctl -i {name} -r 1), or choose \
             kernel"
        );
        return Err(refuse(Timestamps::Hardware, why));
    }
    match datagrams::set_receive_timestamps(socket) {
        Ok(()) if by_nic && asked != Some(Timestamps::Kernel) => Ok(Timestamps::Hardware),
        Ok(()) => Ok(Timestamps::Kernel),
        Err(_) if asked.is_none() => Ok(Timestamps::Application),
        Err(error) => {
            let who = asked.unwrap_or(Timestamps::Kernel);
            Err(refuse(who, format!("SO_TIMESTAMPING: {error}; choose application or auto")))
        }
    }
}

impl DatagramsIn {
    /// The buffers, for the spec's datagrams.
    pub fn begin(api: ReceiverApi, timestamps: Timestamps, spec: &Spec) -> DatagramsIn {
        let room = match api {
            ReceiverApi::UdpGro => MAX_PAYLOAD,
            ReceiverApi::PacketRecvmmsg => (spec.frame_sizes().largest() as usize).max(HANDSHAKE_FRAME),
            _ => (spec.message_octets() as usize).max(HANDSHAKE_LEN),
        };
        let usual = match api {
            ReceiverApi::Plain => 1,
            ReceiverApi::UdpGro => MERGED_MESSAGES,
            _ => BATCH.min(BATCH_OCTETS / room).max(1),
        };
        let messages = match spec.batch {
            Some(batch) if api != ReceiverApi::Plain => batch as usize,
            _ => usual,
        };
        DatagramsIn {
            api,
            batch: DatagramBatch::incoming(messages, room, spec.alignment as usize),
            clock: ArrivalClock { who: timestamps, offset_ns: None },
        }
    }

    /// The most messages that one call takes.
    pub fn count(&self) -> usize {
        self.batch.count()
    }

    /// The most octets of a message that holds datagrams of this size.
    pub fn message_octets(&self, size: usize) -> usize {
        if self.api == ReceiverApi::UdpGro { MAX_PAYLOAD } else { size }
    }

    /// Receives at least one message, by one system call. Returns how many.
    #[inline]
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        match self.api {
            ReceiverApi::Plain => self.batch.receive_one(socket),
            _ => self.batch.receive(socket),
        }
    }

    /// A message of the last call: one datagram, or several of one size.
    #[inline]
    pub fn received(&self, index: usize) -> Received<'_> {
        self.batch.received(index)
    }

    /// Looks at the clock of the arrivals before the messages of a call are read: whether times before and after it
    /// cannot be held against each other, for somebody set it, or the NIC left a message without a stamp and the
    /// kernel's clock takes over for good. `now_ns` is the trial's clock.
    #[inline]
    pub fn clock_changed(&mut self, count: usize, now_ns: u64) -> bool {
        if self.clock.who == Timestamps::Hardware
            && (0..count).any(|index| self.batch.received(index).nic_stamped_ns.is_none())
        {
            self.clock.who = Timestamps::Kernel;
            return true;
        }
        self.clock.was_set(now_ns)
    }

    /// When a message arrived, by the clock that was chosen; `now_ns` is the trial's.
    #[inline]
    pub fn arrived_ns(&self, message: &Received<'_>, now_ns: u64) -> u64 {
        let stamp = match self.clock.who {
            Timestamps::Application => return now_ns,
            Timestamps::Kernel => message.stamped_ns,
            Timestamps::Hardware => message.nic_stamped_ns,
        };
        // The kernel begins to stamp a moment after the first socket on the machine asks. Until then the time is that of
        // reading, which is what SO_TIMESTAMPNS tells in that case too (__sock_recv_timestamp).
        stamp.unwrap_or_else(datagrams::realtime_ns)
    }

    /// Who noted the arrivals.
    pub fn timestamps(&self) -> Timestamps {
        self.clock.who
    }

    /// What was used.
    pub fn api_use(&self) -> ApiUse {
        ApiUse { name: self.api.name().to_owned(), batch: self.batch.count() as u32, ..ApiUse::default() }
    }
}

/// The clock in which arrivals are noted. The kernel's stamps are of the wall clock, which somebody may set; the
/// gaps between arrivals must not jump with it.
struct ArrivalClock {
    who: Timestamps,
    /// The wall clock less the trial's, as last seen.
    offset_ns: Option<u64>,
}

impl ArrivalClock {
    #[inline]
    fn was_set(&mut self, now_ns: u64) -> bool {
        if self.who != Timestamps::Kernel {
            return false;
        }
        let offset_ns = datagrams::realtime_ns().wrapping_sub(now_ns);
        let last = self.offset_ns.replace(offset_ns);
        // A thread that was held up between the two readings looks the same, and costs one gap.
        last.is_some_and(|last| offset_ns.wrapping_sub(last).cast_signed().unsigned_abs() > CLOCK_STEP_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let mut clock = ArrivalClock { who: Timestamps::Kernel, offset_ns: None };
        let now_ns = datagrams::realtime_ns();
        assert!(!clock.was_set(now_ns));
        // Seconds between the two readings of this test would be needed to fail here.
        clock.offset_ns = Some(3_600_000_000_000);
        assert!(clock.was_set(datagrams::realtime_ns()));
        clock.who = Timestamps::Application;
        clock.offset_ns = Some(3_600_000_000_000);
        assert!(!clock.was_set(datagrams::realtime_ns()));
    }
}
