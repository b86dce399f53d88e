//! Kernels that lack something: a program started on this one, which answers it as that one would.
//! Knows what each answers; what a program makes of it is decided where it is started.

use std::process::Command;

use crate::sys::{self, RefusedCall};

/// What a kernel lacks. Its answer is what old sources say, or those built without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFeature {
    /// Before Linux 5.18: BPF_PROG_TEST_RUN takes no flags.
    LiveFrames,
    /// Drivers that take no XDP program, nor does the stack.
    Xdp,
    /// Built without CONFIG_BPF_SYSCALL.
    Bpf,
    /// BPF is there and not allowed: no CAP_BPF, or kernel.unprivileged_bpf_disabled.
    BpfRights,
    /// Built without CONFIG_XDP_SOCKETS.
    AfXdp,
    /// Before Linux 3.2: packet sockets have no TPACKET_V3.
    PacketRing,
    /// Before Linux 3.14: they have no PACKET_QDISC_BYPASS.
    QdiscBypass,
}

impl MissingFeature {
    const fn refused(self) -> RefusedCall {
        // linux/bpf.h, linux/if_packet.h.
        const TEST_RUN: &[(u32, u32)] = &[(0, 10)];
        const LINK_CREATE: &[(u32, u32)] = &[(0, 28)];
        const OF_AF_XDP: &[(u32, u32)] = &[(0, libc::AF_XDP as u32)];
        const VERSION: &[(u32, u32)] = &[(1, libc::SOL_PACKET as u32), (2, libc::PACKET_VERSION as u32)];
        const BYPASS: &[(u32, u32)] = &[(1, libc::SOL_PACKET as u32), (2, 20)];
        match self {
            MissingFeature::LiveFrames => RefusedCall { call: libc::SYS_bpf, arguments: TEST_RUN, errno: libc::EINVAL },
            MissingFeature::Xdp => RefusedCall { call: libc::SYS_bpf, arguments: LINK_CREATE, errno: libc::EOPNOTSUPP },
            MissingFeature::Bpf => RefusedCall { call: libc::SYS_bpf, arguments: &[], errno: libc::ENOSYS },
            MissingFeature::BpfRights => RefusedCall { call: libc::SYS_bpf, arguments: &[], errno: libc::EPERM },
            MissingFeature::AfXdp => {
                RefusedCall { call: libc::SYS_socket, arguments: OF_AF_XDP, errno: libc::EAFNOSUPPORT }
            }
            MissingFeature::PacketRing => {
                RefusedCall { call: libc::SYS_setsockopt, arguments: VERSION, errno: libc::EINVAL }
            }
            MissingFeature::QdiscBypass => {
                RefusedCall { call: libc::SYS_setsockopt, arguments: BYPASS, errno: libc::ENOPROTOOPT }
            }
        }
    }

    /// Has a program, and all that it starts, be answered as by a kernel that lacks all of these. It needs root, and a
    /// kernel with seccomp filters: else the program does not start.
    pub fn all(lacks: &[MissingFeature], command: &mut Command) {
        let refused: Vec<RefusedCall> = lacks.iter().map(|lack| lack.refused()).collect();
        sys::refuse(command, &refused);
    }
}
