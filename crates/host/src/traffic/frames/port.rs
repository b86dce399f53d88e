//! A port of this machine, as far as frames need it: its addresses, what counts before the stack, what it did not send.
//! Knows no streams.

use std::net::IpAddr;
use std::sync::Arc;

use linerate_machine::end::End;
use linerate_machine::mac::MacAddress;
use linerate_machine::sync::Mutex;
use linerate_trial::api::{ReceiverApi, SenderApi, Timestamps};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Unsent;
use linerate_trial::spec::Spec;

use super::super::TrafficError;
use super::super::sockets::Tokens;
use super::af_xdp::{XdpInterface, XdpPort};
use super::{secret, template};
use crate::interfaces;
use crate::qdiscs::{self, TC_H_ROOT};
use crate::sys::ethtool::Ethtool;
use crate::xdp::attach::{AttachPoint, PassProgram};
use crate::xdp::checker::{Checker, CheckerOptions, Expected, Times};
use crate::xdp::error::XdpError;

/// Drivers that take a program while the link stays up. Others may reset it, and a switch then holds traffic back for half a
/// minute: there a program is attached only when the user asks for it.
const KEEP_LINK: [&str; 3] = [VETH, "virtio_net", "tun"];
const VETH: &str = "veth";

/// A port of this machine, as far as frames need it.
#[derive(Clone, Debug)]
pub struct Port {
    interface: String,
    index: u32,
    mac: MacAddress,
    driver: Option<String>,
    checker: Option<Arc<Checker>>,
    /// What the trial's frames go to before the stack, where this process is to have them.
    xdp: Option<Arc<XdpPort>>,
    /// What a veth needs to take frames of programs, where nothing else is attached.
    _pass: Option<Arc<PassProgram>>,
    dropped: Arc<Mutex<Dropped>>,
}

/// The interface's `tx_dropped`, where it tells.
#[derive(Debug, Default)]
struct Dropped {
    at_start: Option<u64>,
    /// When the last stream was through with its warm-up.
    at_measured: Option<u64>,
    /// Those among them that the sender was told of and sent again: of the measured part, and over the whole trial.
    refused: [u64; 2],
}

/// The queueing discipline at the root of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Such as `tbf`.
    pub kind: String,
    /// Somebody put it there; the kernel did not by itself.
    pub is_chosen: bool,
}

impl Port {
    /// The port of this name. The error says what it lacks.
    pub fn find(interface: Option<&str>, local: IpAddr) -> Result<Port, TrafficError> {
        let Some(interface) = interface else { return Err(TrafficError::NoInterface { address: local }) };
        let link = interfaces::link(interface).map_err(TrafficError::System)?;
        let mac = link.mac.as_deref().and_then(|mac| mac.parse::<MacAddress>().ok()).filter(|mac| mac.is_of_one());
        let Some(mac) = mac else { return Err(TrafficError::NoEthernet { interface: interface.to_owned() }) };
        let driver =
            Ethtool::new(interface).and_then(|ethtool| ethtool.driver_info()).ok().and_then(|info| info.driver);
        Ok(Port {
            interface: interface.to_owned(),
            index: link.index,
            mac,
            driver,
            checker: None,
            xdp: None,
            _pass: None,
            dropped: Arc::default(),
        })
    }

    /// Its name and its number.
    pub fn at(&self) -> XdpInterface<'_> {
        XdpInterface { interface: &self.interface, index: self.index }
    }

    /// Its name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// What counts the trial's frames before the stack, where that is how they are received.
    pub fn checker(&self) -> Option<&Checker> {
        self.checker.as_deref()
    }

    /// What receives the trial's frames before the stack, where that is how they are received.
    pub fn xdp(&self) -> Option<&XdpPort> {
        self.xdp.as_deref()
    }

    /// Whether it is an end of a veth, which counts what it did not send.
    pub fn is_veth(&self) -> bool {
        self.driver.as_deref() == Some(VETH)
    }

    /// The same port, with what has to be at it before the other end looks whether it can send: what counts, or lets pass.
    pub fn arm(self, spec: &Spec, end: End, tokens: &Tokens) -> Result<Port, TrafficError> {
        let Some(source) = Flow::of(spec).iter().map(|flow| flow.source).find(|source| *source != end) else {
            return Ok(self);
        };
        let keeps_link = self.driver.as_deref().is_some_and(|driver| KEEP_LINK.contains(&driver));
        let is_auto = spec.receiver_api.is_none();
        if spec.receiver_api == Some(ReceiverApi::AfXdp) || (is_auto && keeps_link && XdpPort::is_best(self.at(), spec))
        {
            let nobody = MacAddress([0; 6]);
            match XdpPort::open(self.at(), spec, end, &template(spec, nobody, nobody, source), secret(tokens)) {
                Ok(xdp) => return Ok(Port { xdp: Some(Arc::new(xdp)), ..self }),
                Err(error) if !is_auto => return Err(error),
                Err(_) => {}
            }
        }
        let by_name = spec.receiver_api == Some(ReceiverApi::Xdp);
        let is_stamped_so = matches!(spec.timestamps, None | Some(Timestamps::Kernel));
        let refuse = |why: String| TrafficError::Api { option: "receiver_api", name: ReceiverApi::Xdp.name(), why };
        if by_name && !is_stamped_so {
            let why = "its times are the kernel's; leave timestamps out, or choose packet-recvmmsg";
            return Err(refuse(why.to_owned()));
        }
        if by_name || (is_auto && is_stamped_so && keeps_link) {
            let place = (!by_name).then_some(AttachPoint::Driver);
            match self.attach(spec, source, tokens, place) {
                Ok(checker) => return Ok(Port { checker: Some(Arc::new(checker)), ..self }),
                Err(error) if by_name => return Err(refuse(format!("{error}; or choose packet-ring or auto"))),
                Err(_) => {}
            }
        }
        // Without it a veth takes no frames of programs. Where it cannot be, the sender says so.
        let wants_pass = spec.sender_api == Some(SenderApi::LiveFrames) && self.is_veth();
        let pass = wants_pass.then(|| PassProgram::attach(&self.interface).ok()).flatten();
        Ok(Port { _pass: pass.map(Arc::new), ..self })
    }

    fn attach(
        &self,
        spec: &Spec,
        source: End,
        tokens: &Tokens,
        place: Option<AttachPoint>,
    ) -> Result<Checker, XdpError> {
        let nobody = MacAddress([0; 6]);
        let options = CheckerOptions {
            secret: secret(tokens),
            streams: Flow::of(spec).iter().map(|flow| flow.id).max().unwrap_or(0) + 1,
            echoed: false,
            expected: Some(Expected {
                template: template(spec, nobody, nobody, source),
                sizes: spec.frame_sizes().sizes().to_vec(),
            }),
            times: Times::Gaps,
            flows: spec.flows,
        };
        let had_carrier = self.at().has_carrier();
        let checker = Checker::attach(&self.interface, &options, place)?;
        self.at().wait_for_link(had_carrier);
        Ok(checker)
    }

    /// What queues before the driver; `None` where nothing does, or it cannot be told.
    pub fn qdisc(&self) -> Option<Qdisc> {
        let disciplines = qdiscs::of(&self.interface).ok()?;
        let root = disciplines.into_iter().find(|one| one.parent == TC_H_ROOT)?;
        (root.kind != "noqueue").then_some(Qdisc { is_chosen: root.handle != 0, kind: root.kind })
    }

    /// No frame of the trial has left yet.
    pub fn handle_start(&self) {
        let now = self.tx_dropped();
        *self.dropped.lock() = Dropped { at_start: now, at_measured: now, refused: [0; 2] };
    }

    /// A stream is through with its warm-up, all of which is with the driver.
    pub fn handle_measured(&self) {
        let now = self.tx_dropped();
        let mut dropped = self.dropped.lock();
        dropped.at_measured = dropped.at_measured.max(now);
    }

    /// A stream had so many frames refused, of the measured part and in all, which it sent again. Where there is a queueing
    /// discipline, it was that which refused them, and the interface never had them.
    pub fn handle_refused(&self, api: SenderApi, refused: [u64; 2]) {
        if api == SenderApi::PacketBypass || self.qdisc().is_none() {
            let mut dropped = self.dropped.lock();
            dropped.refused = [0, 1].map(|at| dropped.refused[at].saturating_add(refused[at]));
        }
    }

    /// Frames that the interface took and dropped instead of sending them; `None` where it does not tell.
    pub fn unsent(&self) -> Option<Unsent> {
        let now = self.tx_dropped()?;
        let dropped = self.dropped.lock();
        let since = |then: u64, refused: u64| now.saturating_sub(then).saturating_sub(refused);
        Some(Unsent {
            measured: since(dropped.at_measured?, dropped.refused[0]),
            total: since(dropped.at_start?, dropped.refused[1]),
        })
    }

    /// The eighth of struct rtnl_link_stats64.
    fn tx_dropped(&self) -> Option<u64> {
        let statistics = interfaces::link(&self.interface).ok()?.statistics64?;
        statistics.get(7 * 8..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets))
    }
}
