//! AF_XDP sockets at a port: which queues they take, what hands frames to them, and why there are none.
//! Knows no frames.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use linerate_machine::end::End;
use linerate_machine::sync::Mutex;
use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::flow::Flow;
use linerate_trial::spec::Spec;
use linerate_wire::frame::TAG_LEN;
use linerate_wire::template::Template;

use super::outward::{XdpSender, lengths};
use crate::interfaces;
use crate::sys::ethtool::{Ethtool, IoctlWords};
use crate::sys::xdp_socket::{self, Incoming, MAX_FRAME, Outgoing, XdpSocketOptions};
use crate::traffic::TrafficError;
use crate::xdp::attach::{AttachPoint, PassProgram, has_zero_copy, is_older_than};
use crate::xdp::redirect::Redirect;

/// Memory that frames are received into where nothing was asked for, over all queues, octets: 4 ms of two million a second.
const MEMORY: usize = 16 << 20;
/// The least and the most frames that a queue's socket holds until they are read.
const HOLDS: [usize; 2] = [64, 1 << 16];
/// Octets of a frame's place in memory, at least.
const PLACE: usize = 2048;
/// Queues whose sockets one thread can look after.
const MOST_QUEUES: usize = 64;

/// How long a link may be down after its driver has made room for a program, or a socket.
const LINK_TIME: Duration = Duration::from_secs(8);

/// An interface of this machine.
#[derive(Clone, Copy, Debug)]
pub struct XdpInterface<'a> {
    /// Its name.
    pub interface: &'a str,
    /// Its number.
    pub index: u32,
}

impl XdpInterface<'_> {
    /// Whether the link is up.
    pub fn has_carrier(&self) -> bool {
        interfaces::carrier(self.interface) == Some(true)
    }

    /// Waits until the link is up again that a driver took down to make room for a program, or a socket.
    pub fn wait_for_link(&self, had_carrier: bool) {
        let until = Instant::now() + LINK_TIME;
        while had_carrier && interfaces::carrier(self.interface) == Some(false) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What is at a port that receives so: a socket for each queue, and the program before them.
pub struct XdpPort {
    incoming: Mutex<Option<Vec<Incoming>>>,
    /// The other halves of those sockets, for the streams that leave here, by their order.
    outgoing: Mutex<Vec<Option<Outgoing>>>,
    _redirect: Redirect,
}

impl fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("XdpPort")
    }
}

impl XdpPort {
    /// Whether `auto` is to receive so: where this process is to note the times, and a thread can wait for the only queue's socket.
    pub fn is_best(at: XdpInterface<'_>, spec: &Spec) -> bool {
        let is_free = spec.batch.is_none() && spec.socket_buffer.is_none();
        spec.timestamps == Some(Timestamps::Application) && is_free && queues(at.interface, INWARD) == 1
    }

    /// The only stream's frames that arrive at the port go to sockets from now on.
    pub fn open(
        at: XdpInterface<'_>,
        spec: &Spec,
        end: End,
        template: &Template,
        secret: u32,
    ) -> Result<XdpPort, TrafficError> {
        let refuse = |why: String| refuse_receiver(&why);
        if !matches!(spec.timestamps, None | Some(Timestamps::Application)) {
            return Err(refuse(
                "its times are the application's; leave timestamps out, or choose packet-ring".to_owned(),
            ));
        }
        let flows = Flow::of(spec);
        let mut arriving = flows.iter().filter(|flow| flow.source != end);
        let (Some(flow), None) = (arriving.next(), arriving.next()) else {
            return Err(refuse("it receives one stream; choose streams=1, or xdp, packet-ring or auto".to_owned()));
        };
        // A queue has one socket, which then has to send, too.
        let sends = spec.sender_api == Some(SenderApi::AfXdp);
        let leaving = if sends { flows.iter().filter(|flow| flow.source == end).count() } else { 0 };
        let queues = queues(at.interface, INWARD);
        if leaving > queues {
            return Err(refuse_streams(at, "receiver_api", ReceiverApi::AfXdp.name(), queues));
        }
        let memory = spec.socket_buffer.map_or(MEMORY, |octets| octets as usize);
        let holds = (memory / queues / PLACE).clamp(HOLDS[0], HOLDS[1]);
        let lens = lengths(template, spec);
        // What nobody asked for by name leaves the driver's rings, and what is attached elsewhere, alone.
        let by_name = spec.receiver_api.is_some();
        let (copy, place) = (!by_name || !has_zero_copy(at.index), (!by_name).then_some(AttachPoint::Driver));
        let had_carrier = at.has_carrier();
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        for queue in 0..queues {
            let wanted = XdpSocketOptions {
                interface: at.index,
                queue: queue as u32,
                outgoing: if queue < leaving { &lens } else { &[] },
                // The largest power of two in it.
                incoming: 1 << holds.ilog2(),
                longest: longest(template, spec),
                copy,
            };
            let (out, inward) = xdp_socket::open(&wanted).map_err(|error| refuse(why_not(at, &wanted, &error)))?;
            outgoing.push(out);
            incoming.extend(inward);
        }
        let redirect = Redirect::attach(at.interface, template.kind, secret, flow.id, &incoming, place);
        let redirect = redirect.map_err(|error| refuse(format!("{error}; or choose packet-ring or auto")))?;
        at.wait_for_link(had_carrier);
        Ok(XdpPort { incoming: Mutex::new(Some(incoming)), outgoing: Mutex::new(outgoing), _redirect: redirect })
    }

    /// The sockets, for the receiver; once.
    pub fn take_incoming(&self) -> Vec<Incoming> {
        self.incoming.lock().take().unwrap_or_default()
    }

    fn take_outgoing(&self, nth: usize) -> Option<Outgoing> {
        self.outgoing.lock().get_mut(nth)?.take()
    }
}

/// Whether a sender that copies can be at each stream's queue without anybody else noticing, and what it was given is what
/// leaves. Binding such a socket asks nothing of the driver: no ring is reset, and no program is touched.
pub fn is_sound_sender(at: XdpInterface<'_>, at_port: Option<&XdpPort>, streams: usize) -> bool {
    // One that receives has the queue, and may be bound without a copy. Older kernels drop what the driver's ring has no room
    // for, and count it nowhere.
    at_port.is_none() && streams <= queues(at.interface, OUTWARD) && !is_older_than((5, 10))
}

/// What sends the `nth` stream that leaves at the port: by the socket that is at its queue already, or by one of its own,
/// which copies where that is wanted, or where the driver does not say that it can do without.
pub fn sender(
    at: XdpInterface<'_>,
    at_port: Option<&XdpPort>,
    spec: &Spec,
    template: &Template,
    nth: usize,
    copy: bool,
) -> Result<XdpSender, TrafficError> {
    let name = SenderApi::AfXdp.name();
    let sender = match at_port {
        Some(at_port) => {
            let outgoing = at_port.take_outgoing(nth);
            let outgoing =
                outgoing.ok_or_else(|| refuse_streams(at, "sender_api", name, queues(at.interface, INWARD)))?;
            XdpSender { outgoing, pass: None }
        }
        None => own_sender(at, &lengths(template, spec), nth, copy || !has_zero_copy(at.index))?,
    };
    if let Some(octets) = spec.socket_buffer {
        let set = sender.outgoing.set_buffer(octets as usize);
        set.map_err(|error| TrafficError::Option { option: "socket_buffer", error })?;
    }
    Ok(sender)
}

fn own_sender(at: XdpInterface<'_>, lens: &[usize], nth: usize, copy: bool) -> Result<XdpSender, TrafficError> {
    let name = SenderApi::AfXdp.name();
    let (interface, queue) = (at.index, nth as u32);
    let wanted = XdpSocketOptions { interface, queue, outgoing: lens, incoming: 0, longest: 0, copy };
    let had_carrier = at.has_carrier();
    // Where one is attached already, that will do.
    let pass = if copy { None } else { PassProgram::attach(at.interface).ok() };
    let (outgoing, _) = xdp_socket::open(&wanted).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) if nth > 0 => refuse_streams(at, "sender_api", name, nth),
        _ => TrafficError::Api { option: "sender_api", name, why: why_not(at, &wanted, &error) },
    })?;
    at.wait_for_link(had_carrier);
    // A socket that is to send some has it.
    Ok(XdpSender { outgoing: outgoing.ok_or(TrafficError::Stopped)?, pass })
}

/// The longest frame that may come, without FCS: a tag more than was sent is no reason to drop it.
fn longest(template: &Template, spec: &Spec) -> usize {
    (lengths(template, spec).into_iter().max().unwrap_or(0) + TAG_LEN).min(MAX_FRAME)
}

/// Where struct ethtool_channels has the number of queues of one direction alone: after four maxima rx, tx, other, combined.
const INWARD: usize = 4;
const OUTWARD: usize = 5;
const COMBINED: usize = 7;

/// The interface's queues of a direction: combined ones, and those for it alone.
fn queues(interface: &str, direction: usize) -> usize {
    let words = Ethtool::new(interface).and_then(|ethtool| ethtool.words(IoctlWords::Channels)).unwrap_or_default();
    let now = |at: usize| words.get(at).copied().unwrap_or(0) as usize;
    (now(direction) + now(COMBINED)).clamp(1, MOST_QUEUES)
}

fn refuse_receiver(why: &str) -> TrafficError {
    TrafficError::Api { option: "receiver_api", name: ReceiverApi::AfXdp.name(), why: why.to_owned() }
}

fn refuse_streams(at: XdpInterface<'_>, option: &'static str, name: &'static str, queues: usize) -> TrafficError {
    let interface = at.interface;
    let why = format!("each stream takes a queue, and {interface} has {queues}; choose fewer streams, or auto");
    TrafficError::Api { option, name, why }
}

/// What the kernel's refusal means, and what to do.
fn why_not(at: XdpInterface<'_>, wanted: &XdpSocketOptions<'_>, error: &io::Error) -> String {
    let (interface, queue) = (at.interface, wanted.queue);
    let octets = wanted.outgoing.iter().copied().max().unwrap_or(0).max(wanted.longest);
    let what = match error.raw_os_error() {
        None if octets > MAX_FRAME => {
            format!("a frame of {octets} bytes is too large for AF_XDP, which takes up to {MAX_FRAME} without FCS")
        }
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT) => {
            "this kernel has no AF_XDP (Linux 4.18 has, with CONFIG_XDP_SOCKETS)".to_owned()
        }
        Some(libc::EPERM) => "AF_XDP wants CAP_NET_RAW; run the agent as root".to_owned(),
        Some(libc::EBUSY) => format!("another program's AF_XDP socket is at queue {queue} of {interface}; end it"),
        Some(libc::ENOBUFS) => "no more memory may be locked (RLIMIT_MEMLOCK); raise that limit".to_owned(),
        _ => format!("AF_XDP at queue {queue} of {interface}: {error}"),
    };
    format!("{what}; or choose packet-bypass, packet-ring or auto")
}
