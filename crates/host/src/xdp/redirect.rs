//! An XDP program that hands a stream's frames to AF_XDP sockets, one for each receive queue, past the stack.
//! Knows no rings; who reads the frames does. Handshakes, and what is not the stream's, go on to the stack.

use std::os::fd::AsRawFd;

use linerate_wire::frame::{FrameKind, StreamField, TestHeader};

use super::assembler::Reg::{R1, R2, R3, R6, R7};
use super::assembler::Width::{W16, W32};
use super::assembler::{Alu, Assembler, Helper, JumpCondition};
use super::attach::{AttachPoint, attach};
use super::error::XdpError;
use super::program::{Kinds, XDP_PASS, network, network_16, network_32};
use crate::sys::bpf::{Attached, Instruction, Program, ProgramKind, Sockets};

/// Where struct xdp_md has the receive queue's number.
const QUEUE: i16 = 16;

/// Frames of one stream go to sockets until this is dropped.
#[derive(Debug)]
pub struct Redirect {
    place: AttachPoint,
    _sockets: Sockets,
    _attached: Attached,
}

impl Redirect {
    /// From now on, frames of this kind with this secret and this stream's number that arrive at the interface go to the sockets:
    /// those of the first queue to the first, and so on. Where it is `wanted`, or in the driver, and where that takes no
    /// program, in the stack.
    pub fn attach(
        interface: &str,
        kind: FrameKind,
        secret: u32,
        stream: u16,
        sockets: &[impl AsRawFd],
        wanted: Option<AttachPoint>,
    ) -> Result<Redirect, XdpError> {
        let map = Sockets::new(sockets.len().max(1) as u32).map_err(XdpError::map)?;
        for (queue, socket) in (0..).zip(sockets) {
            map.set(queue, socket).map_err(|error| XdpError::general("handing frames to an AF_XDP socket", error))?;
        }
        let code = program(kind, secret, stream, map.number(), XDP_PASS);
        let program = Program::load(ProgramKind::Xdp, &code).map_err(XdpError::load)?;
        let (attached, place) = attach(&program, interface, wanted)?;
        Ok(Redirect { place, _sockets: map, _attached: attached })
    }

    /// Where the program runs.
    pub fn place(&self) -> AttachPoint {
        self.place
    }
}

/// r6 is the context, r7 the test header. Of a queue without a socket the answer is `otherwise`, from Linux 5.3 on.
fn program(kind: FrameKind, secret: u32, stream: u16, sockets: i32, otherwise: i32) -> Vec<Instruction> {
    let a = &mut Assembler::new();
    a.copy(R6, R1);
    let kinds = Kinds::new(a);
    network(a, &kinds);
    let header = a.label();
    for (one, label) in [(FrameKind::Udp6, kinds.udp6), (FrameKind::Udp4, kinds.udp4), (FrameKind::Raw, kinds.raw)] {
        a.place(label);
        if one == kind {
            a.alu_number(Alu::Add, R7, kind.headers_len() as i32);
            a.jump(header);
        } else {
            a.jump(kinds.other);
        }
    }
    a.place(header);
    a.load(W32, R1, R7, TestHeader::SECRET_AT as i16);
    a.jump_if_number_32(JumpCondition::NotEqual, R1, network_32(secret), kinds.other);
    // Straight from the sender, of either part, and no handshake.
    a.load(W16, R1, R7, TestHeader::STREAM_AT as i16);
    a.alu_number(Alu::And, R1, network_16(!StreamField::WARMUP));
    a.jump_if_number(JumpCondition::NotEqual, R1, network_16(StreamField(stream).stream()), kinds.other);
    a.map(R1, sockets);
    a.load(W32, R2, R6, QUEUE);
    a.set(R3, otherwise);
    a.call(Helper::RedirectMap);
    a.exit();
    a.place(kinds.other);
    a.exit_with(XDP_PASS);
    std::mem::take(a).finish()
}

#[cfg(test)]
mod tests {
    use linerate_wire::template::{Template, Vlans};

    use super::*;
    use crate::xdp::program::XDP_DROP;

    /// No socket is at the queue, so what would go to one is dropped instead, and all else passes.
    #[test]
    fn only_the_streams_own_frames_leave_the_stack() {
        const TEST: &str = "only_the_streams_own_frames_leave_the_stack";
        for kind in [FrameKind::Raw, FrameKind::Udp4, FrameKind::Udp6] {
            let map = match Sockets::new(1) {
                Ok(map) => map,
                Err(error) => return println!("SKIPPED {TEST}: {error}; run as root"),
            };
            let program = match Program::load(ProgramKind::Xdp, &program(kind, 7, 3, map.number(), XDP_DROP)) {
                Ok(program) => program,
                Err(refused) if refused.error.raw_os_error() == Some(libc::EPERM) => {
                    return println!("SKIPPED {TEST}: {refused}; run as root");
                }
                Err(refused) => panic!("{refused}"),
            };
            let answer = |kind: FrameKind, secret: u32, field: u16| {
                let (to, from, vlans) = ([2; 6], [4; 6], Vlans::new(&[5]).unwrap());
                let template =
                    Template { kind, vlans, to, from, frame_len: 128, reverse: false, ends: None, hops: 64, dscp: 0 };
                let mut frame = vec![0; template.octets()];
                template.write(0, &mut frame).unwrap();
                let stream = StreamField(field);
                template.stamp(&TestHeader { secret, stream, sequence: 1, sent_at_ns: 2 }, &mut frame);
                program.run_on(&frame).unwrap().0
            };
            let (ours, passes) = (XDP_DROP as u32, XDP_PASS as u32);
            assert_eq!([answer(kind, 7, 3), answer(kind, 7, 3 | StreamField::WARMUP)], [ours; 2], "{kind:?}");
            for (secret, field) in [(8, 3), (7, 2), (7, 3 | StreamField::HANDSHAKE), (7, 3 | StreamField::ECHOED)] {
                assert_eq!(answer(kind, secret, field), passes, "{kind:?} {secret} {field:#x}");
            }
            let other = if kind == FrameKind::Raw { FrameKind::Udp4 } else { FrameKind::Raw };
            assert_eq!(answer(other, 7, 3), passes, "{kind:?}");
        }
    }
}
