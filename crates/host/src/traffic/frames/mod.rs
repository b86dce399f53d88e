//! Test frames: the handshake that opens a stream of them through packet sockets, and who sends and receives afterwards.
//! Knows nothing of what is sent then; `send.rs` and `receive.rs` do, and in the kernel `live.rs` and `checked.rs`.
//!
//! ```text
//!   end that opens             end that was reached
//!     hello, 10 a second  ──→    knows the trial's secret
//!     knows it too        ←──  answer
//! ```
//! A sender, at either end, sends only where the other's secret came from.

mod af_xdp;
mod checked;
mod delay;
pub(crate) mod filter;
mod hop;
mod learning;
mod live;
mod outward;
mod port;
mod rate;
mod receive;
mod send;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use linerate_machine::end::End;
use linerate_machine::mac::MacAddress;
use linerate_machine::sync::Mutex;
use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::Spec;
use linerate_wire::frame::{FCS_LEN, StreamField, TEST_HEADER_LEN, TestFrame, TestHeader};
use linerate_wire::template::Template;
use linerate_wire::{HANDSHAKE_LEN, Handshake, HandshakeKind, Token};
use socket2::Socket;

use super::TrafficError;
use super::sockets::{OPENING_TIME, Open, Tokens, remaining};
use super::task::Task;
use crate::sys::datagrams::DatagramBatch;
use crate::sys::frame_blocks::FrameBlocks;
use crate::sys::frames;
use crate::sys::poll::wait_readable;
use crate::xdp::generator::Generator;

pub use af_xdp::{is_sound_sender as is_sound_xdp_sender, sender as xdp_sender};
pub use hop::Hop;
pub use outward::XdpSender;
pub use port::Port;
pub use rate::pace;

/// Between two hellos.
const HELLO_PERIOD: Duration = Duration::from_millis(100);
/// Hops of frames that have some, unless the user says otherwise.
const HOPS: u8 = 64;

/// How a stream's frames reach the other end.
pub struct FrameLink {
    /// Sends; `Open::socket` hears.
    pub out: Socket,
    /// The interface's number, and its name for people.
    pub port: Port,
    /// What the frames of the stream have in common, whichever end sends them.
    pub template: Template,
    /// What every frame of the trial bears.
    pub secret: u32,
    /// What sends them in the kernel, where that was chosen.
    pub generator: OnceLock<Generator>,
    /// What they are sent by instead of `out`, where that was chosen.
    pub xdp: Mutex<Option<XdpSender>>,
    /// Where the kernel puts those that come, where that was chosen.
    pub ring: Mutex<Option<FrameBlocks>>,
}

/// A port that waits for the other end to open a stream.
pub struct Waiting {
    link: FrameLink,
    socket: Socket,
    flow: Flow,
    tokens: Tokens,
}

/// Sends until the time is over, or the octets are sent, by the way that was chosen.
pub fn send(task: Task, api: SenderApi) -> Result<FlowOutcome, TrafficError> {
    match api {
        SenderApi::LiveFrames => live::send(task),
        _ => send::send(task, api),
    }
}

/// Receives until the sender's end mark, and a little longer for what is late, by the way that was chosen.
pub fn receive(task: Task, api: ReceiverApi, timestamps: Timestamps) -> Result<FlowOutcome, TrafficError> {
    match api {
        ReceiverApi::Xdp => checked::receive(task),
        _ => receive::receive(task, api, timestamps),
    }
}

/// Frames of a stream at this port are heard from now on.
pub fn listen(flow: Flow, spec: &Spec, port: &Port, tokens: Tokens) -> Result<Waiting, TrafficError> {
    // Whose address comes with the hello.
    let (link, socket) = make(flow, spec, port, MacAddress([0; 6]), &tokens)?;
    Ok(Waiting { link, socket, flow, tokens })
}

impl Waiting {
    /// Waits until the other end opens the stream with the trial's secret.
    pub fn accept(mut self, peer: IpAddr, hop: Hop) -> Result<Open, TrafficError> {
        self.link.template.ends = hop.ends;
        let deadline = Instant::now() + OPENING_TIME;
        loop {
            let left = remaining(deadline, self.flow)?;
            let heard = hear(&self.socket, left, self.flow, HandshakeKind::Hello, &self.tokens.hello)?;
            if let Some(from) = heard {
                self.link.template.to = from;
                self.link
                    .say(self.flow, HandshakeKind::Answer, &self.tokens.answer, 0)
                    .map_err(TrafficError::System)?;
                return Ok(open_at(self.socket, self.flow, peer, self.link));
            }
        }
    }
}

/// Opens a stream towards the port of this address, or towards a router before it, and returns once the other end has said the trial's secret.
pub fn open(
    flow: Flow,
    spec: &Spec,
    port: &Port,
    peer: IpAddr,
    mac: MacAddress,
    hop: Hop,
    tokens: &Tokens,
) -> Result<Open, TrafficError> {
    let (mut link, socket) = make(flow, spec, port, hop.mac.unwrap_or(mac), tokens)?;
    link.template.ends = hop.ends;
    let deadline = Instant::now() + OPENING_TIME;
    loop {
        remaining(deadline, flow)?;
        link.say(flow, HandshakeKind::Hello, &tokens.hello, 0).map_err(|error| link.cannot_send(spec, error))?;
        if let Some(from) = hear(&socket, HELLO_PERIOD, flow, HandshakeKind::Answer, &tokens.answer)? {
            // Where the secret came from: behind a router, the router's.
            link.template.to = from;
            return Ok(open_at(socket, flow, peer, link));
        }
    }
}

fn open_at(socket: Socket, flow: Flow, peer: IpAddr, link: FrameLink) -> Open {
    Open { frames: Some(Box::new(link)), ..Open::new(socket, flow, SocketAddr::new(peer, 0)) }
}

fn make(
    flow: Flow,
    spec: &Spec,
    port: &Port,
    to: MacAddress,
    tokens: &Tokens,
) -> Result<(FrameLink, Socket), TrafficError> {
    let template = template(spec, to, port.mac(), flow.source);
    let secret = secret(tokens);
    let wanted = filter::FrameMatch { kind: template.kind, tags: template.vlans.count(), secret };
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::EPERM) => TrafficError::NoRawSockets,
        _ => TrafficError::System(error),
    };
    let socket = frames::open_receiver(port.index(), &filter::of_stream(wanted, flow.id)).map_err(refused)?;
    let out = frames::open_sender(port.index()).map_err(refused)?;
    let (generator, xdp, ring) = (OnceLock::new(), Mutex::default(), Mutex::default());
    Ok((FrameLink { out, port: port.clone(), template, secret, generator, xdp, ring }, socket))
}

/// What the frames that this end sends are like, whichever flow they are of.
fn template(spec: &Spec, to: MacAddress, from: MacAddress, source: End) -> Template {
    Template {
        kind: spec.frame_kind().on_the_wire(),
        vlans: spec.vlan.0,
        to: to.0,
        from: from.0,
        frame_len: spec.frame_sizes().largest() as usize,
        reverse: source == End::Host,
        ends: None,
        hops: spec.ttl.unwrap_or(HOPS),
        dscp: spec.dscp,
    }
}

/// What frames bear of the trial's secret: enough to tell them from others'. What proves that an end takes part is the
/// rest of it.
fn secret(tokens: &Tokens) -> u32 {
    u32::from_be_bytes(*tokens.hello.first_chunk().expect("sixteen octets"))
}

/// Octets of the largest frame of a handshake, without FCS.
pub const HANDSHAKE_FRAME: usize = 70 + TEST_HEADER_LEN + HANDSHAKE_LEN;

impl FrameLink {
    /// Sends one message of the handshake.
    fn say(&self, flow: Flow, kind: HandshakeKind, token: &Token, value: u64) -> io::Result<()> {
        let message = Handshake { kind, flow: flow.id, token: *token, value }.emit();
        let at = self.template.header_at() + TEST_HEADER_LEN;
        let template = Template { frame_len: at + HANDSHAKE_LEN + FCS_LEN, ..self.template };
        let mut frame = [0; HANDSHAKE_FRAME];
        let frame = &mut frame[..template.octets()];
        template.write(0, frame).ok_or(io::ErrorKind::InvalidInput)?;
        // UDP's checksum is made of what it stands on: the message first, as nothing but the test header changes later.
        let header = TestHeader {
            secret: self.secret,
            stream: StreamField(flow.id | StreamField::HANDSHAKE),
            sequence: 0,
            sent_at_ns: 0,
        };
        template.stamp(&header, frame);
        template.append(&message, frame);
        self.out.send(frame).map(|_| ())
    }

    /// Why a frame did not leave.
    fn cannot_send(&self, spec: &Spec, error: io::Error) -> TrafficError {
        let interface = self.port.interface();
        let what = match error.raw_os_error() {
            Some(libc::EMSGSIZE) => {
                return TrafficError::FrameTooLarge {
                    octets: spec.frame_sizes().largest(),
                    interface: interface.to_owned(),
                };
            }
            Some(libc::ENETDOWN) => format!("{interface} is down"),
            _ => format!("sending frames on {interface} failed"),
        };
        TrafficError::Moving { what, error }
    }
}

/// Answers what a receiver hears of the handshake: the other end may not have heard the answer before. Of an end mark, how many
/// frames were sent.
fn answer(frame: &TestFrame<'_>, task: &Task, link: &FrameLink) -> Option<u64> {
    let (flow, tokens) = (task.open.flow, &task.tokens);
    if expect(frame, HandshakeKind::Hello, flow, &tokens.hello).is_some() {
        let _ = link.say(flow, HandshakeKind::Answer, &tokens.answer, 0);
    }
    let end = expect(frame, HandshakeKind::End, flow, &tokens.hello)?;
    let _ = link.say(flow, HandshakeKind::EndHeard, &tokens.answer, 0);
    Some(end.value)
}

/// The message of a handshake in a frame, if it is of this kind, of this stream, and bears this token.
fn expect(frame: &TestFrame<'_>, kind: HandshakeKind, flow: Flow, token: &Token) -> Option<Handshake> {
    if !frame.header.stream.has(StreamField::HANDSHAKE) {
        return None;
    }
    Handshake::parse(frame.rest.get(..HANDSHAKE_LEN)?)?.expect(kind, flow.id, token)
}

/// Waits for one message of the handshake, at most this long. Returns the Ethernet address that it came from.
fn hear(
    socket: &Socket,
    wait: Duration,
    flow: Flow,
    kind: HandshakeKind,
    token: &Token,
) -> Result<Option<[u8; 6]>, TrafficError> {
    let mut batch = DatagramBatch::incoming(1, HANDSHAKE_FRAME, 1);
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if !wait_readable(socket, left).map_err(TrafficError::System)? || batch.receive(socket).is_err() {
            continue;
        }
        let received = batch.received(0);
        if let Some(frame) = TestFrame::parse(received.octets)
            && MacAddress(frame.from).is_of_one()
            && expect(&frame, kind, flow, token).is_some()
        {
            return Ok(Some(frame.from));
        }
    }
    Ok(None)
}
