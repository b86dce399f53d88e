//! The ways for frames: which there are at this port, and which one is taken.
//! Knows no frames; what sends and receives them in the kernel is made here, before any traffic.

use linerate_machine::units::OfferedLoad;
use linerate_trial::api::{NotLive, ReceiverApi, SenderApi, Timestamps};
use linerate_trial::flow::Flow;
use linerate_trial::spec::Spec;
use linerate_wire::frame::{ETHERNET_LEN, FCS_LEN, TAG_LEN};

use super::datagrams_in::choose_timestamps;
use super::{Chosen, refuse_receiver, refuse_sender};
use crate::interfaces;
use crate::sys::bpf::MAX_BATCH;
use crate::sys::frame_blocks::FrameBlocks;
use crate::sys::frames as packets;
use crate::sys::option::RECEIVE_BUFFER_FORCED;
use crate::sys::thread::allowed_cpus;
use crate::traffic::TrafficError;
use crate::traffic::frames::{FrameLink, is_sound_xdp_sender, pace, xdp_sender};
use crate::traffic::sockets::Open;
use crate::xdp::error::XdpError;
use crate::xdp::generator::{Generator, GeneratorOptions};

/// Where nothing was asked for, what all streams' receive buffers may hold together. The kernel charges the smallest frame 768
/// octets: some 20 ms of a million a second.
const BUFFERS: usize = 16 << 20;
/// The same of rings, in which the smallest takes about 160: the same time.
const RINGS: usize = 8 << 20;

/// Chooses how a stream's frames leave, and gets it ready.
pub fn choose_sender(spec: &Spec, open: &Open, auto: SenderApi) -> Result<Chosen, TrafficError> {
    let Some(link) = &open.frames else { return Ok(Chosen::Neither) };
    let api = match spec.sender_api {
        None if is_live_best(spec, open, link) && make_live(spec, open, link).is_ok() => SenderApi::LiveFrames,
        None if is_xdp_best(spec, open, link) && make_xdp(spec, open, link, true).is_ok() => SenderApi::AfXdp,
        None => auto,
        Some(SenderApi::LiveFrames) => {
            let api = SenderApi::LiveFrames;
            if NotLive::of(spec) == Some(NotLive::Spacing) {
                let why = "it spaces frames evenly; leave spacing and burst out, or choose packet-sendmmsg or auto";
                return Err(refuse_sender(api, why.to_owned()));
            }
            let refuse = |error| refuse_sender(api, format!("{error}; or choose packet-sendmmsg or auto"));
            make_live(spec, open, link).map_err(refuse)?;
            api
        }
        Some(SenderApi::AfXdp) => {
            check_size(spec, link)?;
            make_xdp(spec, open, link, false)?;
            return Ok(Chosen::FramesOut(SenderApi::AfXdp));
        }
        Some(api) => api,
    };
    check_size(spec, link)?;
    if api == SenderApi::PacketBypass {
        packets::bypass_qdisc(&link.out).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => {
                let why = "this kernel has no PACKET_QDISC_BYPASS (Linux 3.14 has); choose packet-sendmmsg or auto";
                refuse_sender(api, why.to_owned())
            }
            _ => refuse_sender(api, format!("PACKET_QDISC_BYPASS: {error}; choose packet-sendmmsg or auto")),
        })?;
    }
    if let Some(octets) = spec.socket_buffer {
        let set = link.out.set_send_buffer_size(octets as usize);
        set.map_err(|error| TrafficError::Option { option: "socket_buffer", error })?;
    }
    Ok(Chosen::FramesOut(api))
}

/// What is longer than the MTU, a header and a tag no interface takes; XDP's ways would drop it without a word.
fn check_size(spec: &Spec, link: &FrameLink) -> Result<(), TrafficError> {
    let (interface, octets) = (link.port.interface(), spec.frame_sizes().largest());
    let mtu = interfaces::link(interface).ok().and_then(|link| link.mtu);
    match mtu {
        Some(mtu) if octets as usize > mtu as usize + ETHERNET_LEN + TAG_LEN + FCS_LEN => {
            Err(TrafficError::FrameTooLarge { octets, interface: interface.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Whether `auto` is to be what jumps over the queueing discipline and takes a CPU whole: where nobody has put one there,
/// where a CPU is left for everything else, and at a veth: of other drivers nothing tells what their ring had no room for, and
/// one that sends no frames of XDP at all (ndo_xdp_xmit, which fec lacks) frees them without a word.
fn is_live_best(spec: &Spec, open: &Open, link: &FrameLink) -> bool {
    let senders = leaving(spec, open).count();
    let cpus = allowed_cpus().map_or(1, |cpus| cpus.len());
    // A load without a limit takes a CPU whole by any way.
    let has_cpu = senders < cpus || (senders == 1 && spec.rate == OfferedLoad::Unlimited);
    let is_plain = !is_shaped(link) && spec.socket_buffer.is_none();
    NotLive::of(spec).is_none() && has_cpu && link.port.is_veth() && is_plain
}

/// Whether `auto` is to be an AF_XDP socket: for so many frames that a packet socket may be too slow, and where nobody has put a
/// queueing discipline that it would jump over.
fn is_xdp_best(spec: &Spec, open: &Open, link: &FrameLink) -> bool {
    let is_sound = || is_sound_xdp_sender(link.port.at(), link.port.xdp(), leaving(spec, open).count());
    !NotLive::is_slow(spec) && !is_shaped(link) && spec.socket_buffer.is_none() && is_sound()
}

/// Whether somebody chose what queues before the driver.
fn is_shaped(link: &FrameLink) -> bool {
    link.port.qdisc().is_some_and(|qdisc| qdisc.is_chosen)
}

/// The streams that this end sends.
fn leaving(spec: &Spec, open: &Open) -> impl Iterator<Item = Flow> {
    let source = open.flow.source;
    Flow::of(spec).into_iter().filter(move |flow| flow.source == source)
}

/// `copy`: even where the driver says that it can do without.
fn make_xdp(spec: &Spec, open: &Open, link: &FrameLink, copy: bool) -> Result<(), TrafficError> {
    let nth = leaving(spec, open).take_while(|flow| flow.id != open.flow.id).count();
    let sender = xdp_sender(link.port.at(), link.port.xdp(), spec, &link.template, nth, copy)?;
    *link.xdp.lock() = Some(sender);
    Ok(())
}

fn make_live(spec: &Spec, open: &Open, link: &FrameLink) -> Result<(), XdpError> {
    let options = GeneratorOptions {
        template: link.template,
        sizes: spec.frame_sizes().sizes().to_vec(),
        secret: link.secret,
        stream: open.flow.id,
        flows: spec.flows,
        pace: pace(spec),
        batch: spec.batch.map(|batch| batch.min(MAX_BATCH)),
    };
    let generator = Generator::new(link.port.interface(), &options)?;
    // One flow, one generator.
    let _ = link.generator.set(generator);
    Ok(())
}

/// Chooses how a stream's frames come, and gets it ready. What counts before the stack is at the port already.
pub fn choose_receiver(
    spec: &Spec,
    open: &Open,
    interface: Option<&str>,
    auto: ReceiverApi,
) -> Result<Chosen, TrafficError> {
    let Some(link) = &open.frames else { return Ok(Chosen::Neither) };
    if link.port.checker().is_some() {
        return Ok(Chosen::FramesIn(ReceiverApi::Xdp, Timestamps::Kernel));
    }
    if link.port.xdp().is_some() {
        return Ok(Chosen::FramesIn(ReceiverApi::AfXdp, Timestamps::Application));
    }
    let socket = &open.socket;
    let streams = usize::from(spec.streams);
    let asked = spec.receiver_api;
    let ring = asked == Some(ReceiverApi::PacketRing);
    let stamps_fit = matches!(spec.timestamps, None | Some(Timestamps::Kernel));
    if ring && !stamps_fit {
        let why = "its times are the kernel's; leave timestamps out, or choose packet-recvmmsg";
        return Err(refuse_receiver(ReceiverApi::PacketRing, why.to_owned()));
    }
    let by_nic = || matches!(choose_timestamps(spec.timestamps, socket, interface), Ok(Timestamps::Hardware));
    if ring || (asked.is_none() && spec.batch.is_none() && stamps_fit && !by_nic()) {
        let octets = spec.socket_buffer.map_or(RINGS / streams, |octets| octets as usize);
        match FrameBlocks::new(socket, octets) {
            Ok(blocks) => {
                *link.ring.lock() = Some(blocks);
                return Ok(Chosen::FramesIn(ReceiverApi::PacketRing, Timestamps::Kernel));
            }
            Err(error) if ring => {
                let why = match error.raw_os_error() {
                    Some(libc::ENOPROTOOPT | libc::EINVAL) => {
                        "this kernel has no TPACKET_V3 (Linux 3.2 has)".to_owned()
                    }
                    Some(libc::ENOMEM) => format!("this machine has no room for {octets} bytes (ENOMEM)"),
                    _ => format!("TPACKET_V3: {error}"),
                };
                let why = format!("{why}; choose packet-recvmmsg or auto");
                return Err(refuse_receiver(ReceiverApi::PacketRing, why));
            }
            Err(_) => {}
        }
    }
    match spec.socket_buffer {
        Some(octets) => socket
            .set_recv_buffer_size(octets as usize)
            .map_err(|error| TrafficError::Option { option: "socket_buffer", error })?,
        // A process that may send frames may mostly do this too; the record has the size it became.
        None => drop(
            RECEIVE_BUFFER_FORCED
                .set(socket, (BUFFERS / streams) as i32)
                .or_else(|_| socket.set_recv_buffer_size(BUFFERS / streams)),
        ),
    }
    let api = asked.unwrap_or(auto);
    Ok(Chosen::FramesIn(api, choose_timestamps(spec.timestamps, socket, interface)?))
}
