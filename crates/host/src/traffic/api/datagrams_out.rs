//! Datagrams on their way to a socket, by the API that was chosen.
//! Knows neither numbers nor times; the caller fills the datagrams.

use std::io;

use linerate_trial::api::{ApiUse, SenderApi};
use linerate_trial::pace::Pacing;
use linerate_trial::spec::Spec;
use socket2::Socket;

use super::{ApiSelection, Chosen, is_paced, refuse_sender, why_not};
use crate::sys::datagrams::{self, DatagramBatch, MAX_PAYLOAD, MAX_SEGMENTS};
use crate::sys::uring::DatagramRing;
use crate::traffic::TrafficError;
use crate::traffic::buffer;
use crate::traffic::pacing::Paced;
use crate::traffic::sockets::Open;

/// Datagrams to one sendmmsg(2). From 32 to 512 of them the rate did not change (`linerate run udp-stream --set
/// sender_api=sendmmsg --set batch=8,32,128,512`), and each call stands longer between two looks at the clock.
const BATCH: usize = 32;
/// Messages to one sendmmsg(2) when each is cut into many datagrams.
const SEGMENTED_MESSAGES: usize = 4;
/// Memory of a batch: enough to make the system call cheap, little enough to stay in a small processor's cache.
const BATCH_OCTETS: usize = 256 << 10;

/// A batch of datagrams and the way they leave.
pub struct DatagramsOut {
    api: SenderApi,
    asked: ApiSelection,
    form: Form,
    batch: DatagramBatch,
    /// Of io_uring(7) only.
    ring: Option<Box<DatagramRing>>,
}

/// What a batch is to be like, whatever sends it.
struct Form {
    /// Octets of a datagram.
    size: usize,
    /// What each begins with.
    head: Vec<u8>,
    /// Datagrams to a call, at most.
    most: usize,
    /// Whether it was asked for that many.
    by_name: bool,
    alignment: usize,
    /// Each datagram bears its time of departure.
    times: bool,
}

impl Form {
    /// A batch for this API, its datagrams filled.
    fn batch(&self, api: SenderApi) -> DatagramBatch {
        let fit = (BATCH_OCTETS / self.size).max(1);
        let segments = MAX_SEGMENTS.min(MAX_PAYLOAD / self.size).min(self.most).max(1);
        let (messages, segments) = match api {
            SenderApi::UdpSegment => (1, segments),
            SenderApi::SendmmsgUdpSegment => {
                let usual = if self.by_name { usize::MAX } else { SEGMENTED_MESSAGES };
                (usual.min(self.most / segments).max(1), segments)
            }
            SenderApi::Sendmmsg | SenderApi::IoUring if self.by_name => (self.most, 1),
            SenderApi::Sendmmsg | SenderApi::IoUring => (BATCH.min(fit).min(self.most), 1),
            _ => (1, 1),
        };
        let mut batch = DatagramBatch::outgoing(messages, segments, self.size, self.alignment);
        if self.times {
            batch = batch.with_times();
        }
        for index in 0..batch.count() {
            let datagram = batch.datagram_mut(index);
            buffer::fill(datagram);
            let head = self.head.len().min(datagram.len());
            datagram[..head].copy_from_slice(&self.head[..head]);
        }
        batch
    }
}

/// Chooses the API; sees that the kernel has it and that the datagrams fit it. `auto` becomes the next best.
pub fn choose(spec: &Spec, open: &Open, auto: SenderApi) -> Result<Chosen, TrafficError> {
    let size = spec.message_octets();
    let cut = || can_cut(open, size);
    let Some(api) = spec.sender_api else {
        let many = auto != SenderApi::Plain && datagrams::has_many_calls(&open.socket);
        let api = match auto {
            SenderApi::SendmmsgUdpSegment if many && cut().is_ok() => auto,
            _ if many => SenderApi::Sendmmsg,
            _ => SenderApi::Plain,
        };
        return Ok(Chosen::DatagramsOut(api, ApiSelection::Auto));
    };
    match api {
        SenderApi::UdpSegment | SenderApi::SendmmsgUdpSegment => cut().map_err(|why| refuse_sender(api, why))?,
        SenderApi::Sendmmsg if !datagrams::has_many_calls(&open.socket) => {
            let why = "this kernel has no sendmmsg (Linux 3.0 has); choose plain or auto";
            return Err(refuse_sender(api, why.to_owned()));
        }
        SenderApi::IoUring => {
            DatagramRing::new(BATCH).map_err(|error| refuse_sender(api, why_not("io_uring", "5.11", &error)))?;
        }
        _ => {}
    }
    Ok(Chosen::DatagramsOut(api, ApiSelection::ByName))
}

/// Whether the stack can cut datagrams of this size apart on the way to this peer.
fn can_cut(open: &Open, size: u32) -> Result<(), String> {
    let means = |error| why_not("UDP_SEGMENT", "4.18", &error);
    // Set and taken back: the handshake's datagrams must stay whole.
    datagrams::set_segment_size(&open.socket, size).map_err(means)?;
    datagrams::set_segment_size(&open.socket, 0).map_err(means)?;
    let headers = if open.peer.is_ipv4() { 28 } else { 48 };
    match datagrams::path_mtu(&open.socket, open.peer.is_ipv4()) {
        Ok(mtu) if size + headers > mtu => Err(format!(
            "datagrams of {size} bytes do not fit the MTU of {mtu} whole; choose a message_size of {} or less, or \
             sendmmsg",
            mtu - headers
        )),
        _ => Ok(()),
    }
}

impl DatagramsOut {
    /// The buffers, filled, each with `head` at its start, and the socket made ready; no other datagrams may be sent on it until
    /// [`DatagramsOut::finish`].
    pub fn begin(
        api: SenderApi,
        asked: ApiSelection,
        spec: &Spec,
        head: &[u8],
        paced: Option<Paced>,
        socket: &Socket,
    ) -> io::Result<DatagramsOut> {
        let size = spec.message_octets() as usize;
        let times = paced.is_some_and(|paced| paced.pacing == Pacing::Txtime);
        // Under a limited load only a burst leaves in one call, so that the pace on the wire is the pacer's, unless it is
        // the kernel that spaces them.
        let spaced_below = paced.is_some_and(|paced| paced.lead_ns > 0);
        let most = spec.batch.map_or(usize::MAX, |batch| batch as usize);
        let most = if is_paced(spec) && !spaced_below { most.min(spec.burst as usize) } else { most };
        let form = Form {
            size,
            head: head.to_vec(),
            most,
            by_name: spec.batch.is_some(),
            alignment: spec.alignment as usize,
            times,
        };
        let batch = form.batch(api);
        if batch.segments() > 1 {
            datagrams::set_segment_size(socket, size as u32)?;
        }
        let ring = (api == SenderApi::IoUring).then(|| DatagramRing::new(batch.count())).transpose()?;
        Ok(DatagramsOut { api, asked, form, batch, ring: ring.map(Box::new) })
    }

    /// The most datagrams that one call takes.
    pub fn count(&self) -> usize {
        self.batch.count()
    }

    /// The buffer of one datagram.
    #[inline]
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        self.batch.datagram_mut(index)
    }

    /// The time that one datagram bears, where the kernel spaces them by time.
    #[inline]
    pub fn set_time(&mut self, index: usize, at_ns: u64) {
        self.batch.set_time(index, at_ns);
    }

    /// Sends the first `count` datagrams with one system call. Returns how many the kernel took (at least one); the
    /// error, if any, belongs to the first [`DatagramsOut::refused`].
    #[inline]
    pub fn send(&mut self, socket: &Socket, count: usize) -> io::Result<usize> {
        if let Some(ring) = &mut self.ring {
            return ring.send(socket, &mut self.batch, count);
        }
        match self.api {
            SenderApi::Plain => datagrams::send_one(socket, self.batch.datagram_mut(0)).map(|()| 1),
            _ => self.batch.send(socket, count),
        }
    }

    /// How many of `count` datagrams an error costs: those of the first message.
    pub fn refused(&self, count: usize) -> usize {
        count.min(self.batch.segments())
    }

    /// After an error: becomes plain sendmmsg where it was `auto` that chose to have the datagrams cut apart and the
    /// way out turns out not to do it: the kernel says EIO where the device computes no checksums (udp_send_skb).
    pub fn falls_back(&mut self, error: &io::Error, socket: &Socket) -> bool {
        let cannot_cut = matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE));
        if self.asked == ApiSelection::ByName || self.batch.segments() == 1 || !cannot_cut {
            return false;
        }
        self.api = SenderApi::Sendmmsg;
        self.batch = self.form.batch(self.api);
        datagrams::set_segment_size(socket, 0).is_ok()
    }

    /// Gives the socket back for other datagrams.
    pub fn finish(&self, socket: &Socket) -> io::Result<()> {
        if self.batch.segments() > 1 { datagrams::set_segment_size(socket, 0) } else { Ok(()) }
    }

    /// What was used.
    pub fn api_use(&self) -> ApiUse {
        let segments = self.batch.segments() as u32;
        let cut = matches!(self.api, SenderApi::UdpSegment | SenderApi::SendmmsgUdpSegment);
        ApiUse {
            name: self.api.name().to_owned(),
            batch: self.batch.count() as u32,
            message_octets: Some(self.form.size as u32),
            segments: cut.then_some(segments),
            ..ApiUse::default()
        }
    }
}
