//! Puts an XDP program before an interface's stack, and tells what the interface's driver can do with XDP.
//! Knows no programs but the one that lets everything pass.

use std::fmt;
use std::io;

use super::assembler::Assembler;
use super::error::XdpError;
use super::program::XDP_PASS;
use crate::interfaces;
use crate::netlink::{Netlink, attributes, push_attribute};
use crate::sys::bpf::{Attached, Program, ProgramKind};
use crate::sys::machine::kernel_name;

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachPoint {
    /// In the driver, on frames that nobody has copied yet ("native").
    Driver,
    /// In the stack, on any interface ("generic"). On a veth it sees no live frames.
    Stack,
}

impl fmt::Display for AttachPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            AttachPoint::Driver => "driver",
            AttachPoint::Stack => "stack",
        })
    }
}

/// Runs `program` on every frame that arrives at the interface until the value is dropped: where it is `wanted`, or in the
/// driver, and where that takes none, in the stack.
pub(crate) fn attach(
    program: &Program,
    interface: &str,
    wanted: Option<AttachPoint>,
) -> Result<(Attached, AttachPoint), XdpError> {
    let index = number(interface)?;
    let attach_at = |place: AttachPoint| {
        let attached =
            program.attach_to_interface(index, place == AttachPoint::Stack).map(|attached| (attached, place));
        attached.map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => XdpError::NotPermitted,
            Some(libc::EBUSY | libc::EEXIST) => XdpError::Taken(interface.to_owned()),
            Some(libc::EINVAL) if is_older_than((5, 9)) => {
                XdpError::TooOld { cannot: "cannot attach XDP programs so that they go with us", since: "5.9" }
            }
            _ => XdpError::Driver { interface: interface.to_owned(), said: error.to_string() },
        })
    };
    match wanted {
        Some(place) => attach_at(place),
        None => match attach_at(AttachPoint::Driver) {
            Err(XdpError::Driver { .. }) => attach_at(AttachPoint::Stack),
            other => other,
        },
    }
}

/// Whether this kernel is older than a version; what does not tell its version is not.
pub(crate) fn is_older_than(version: (u32, u32)) -> bool {
    let release = kernel_name().map(|name| name.release).unwrap_or_default();
    let mut numbers = release.split(['.', '-', '+']).map(|number| number.parse().ok());
    matches!((numbers.next(), numbers.next()), (Some(Some(major)), Some(Some(minor))) if (major, minor) < version)
}

/// The interface's number in the thread's network namespace.
pub(super) fn number(interface: &str) -> Result<u32, XdpError> {
    interfaces::number(interface).map_err(|_| XdpError::NoInterface(interface.to_owned()))
}

/// Lets every frame pass at the interface, through the driver's path for XDP. A veth hands live frames, and what an echo
/// sends back, to its other end only where that has a program, or GRO.
#[derive(Debug)]
pub struct PassProgram {
    _attached: Attached,
}

impl PassProgram {
    /// Until the value is dropped.
    pub fn attach(interface: &str) -> Result<PassProgram, XdpError> {
        let mut program = Assembler::new();
        program.exit_with(XDP_PASS);
        let program = Program::load(ProgramKind::Xdp, &program.finish()).map_err(XdpError::load)?;
        let (attached, _) = attach(&program, interface, Some(AttachPoint::Driver))?;
        Ok(PassProgram { _attached: attached })
    }
}

// linux/netdev.h.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 1 << 2;
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u64 = 1 << 3;

/// Whether the driver sends frames that a program redirects to the interface; `None`: the kernel does not tell (before
/// Linux 6.3). Of a veth it depends on its other end, and changes with it.
pub(super) fn sends_frames(index: u32) -> Option<bool> {
    features(index).map(|features| features & NETDEV_XDP_ACT_NDO_XMIT != 0)
}

/// Whether the driver says that AF_XDP sockets need no copy (from Linux 6.3 on).
pub(crate) fn has_zero_copy(index: u32) -> bool {
    features(index).is_some_and(|features| features & NETDEV_XDP_ACT_XSK_ZEROCOPY != 0)
}

fn features(index: u32) -> Option<u64> {
    let mut request = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    push_attribute(&mut request, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    let mut features = None;
    let asked: io::Result<()> = Netlink::generic().and_then(|mut netlink| {
        netlink.generic_request(b"netdev", &request, |reply| {
            let found = attributes(reply.get(4..).unwrap_or_default())
                .find(|(kind, _)| *kind == NETDEV_A_DEV_XDP_FEATURES)
                .and_then(|(_, content)| content.first_chunk().copied());
            features = features.or(found.map(u64::from_ne_bytes));
        })
    });
    asked.ok()?;
    features
}
