//! Frames that an XDP program makes and sends by itself: BPF_PROG_TEST_RUN with live frames
//! (Documentation/bpf/bpf_prog_run.rst). Knows no headers; the program writes them.

use std::io;
use std::os::fd::AsRawFd;

use super::{Program, bpf, pointer, pointer_mut};

// linux/bpf.h.
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// The most frames that the kernel hands to a driver at once (TEST_XDP_MAX_BATCH, net/bpf/test_run.c).
pub const MAX_BATCH: u32 = 256;

/// The most octets that a live frame may have, FCS not counted: a page of 4 KiB, less the kernel's headroom and tailroom
/// (tools/testing/selftests/bpf/prog_tests/xdp_do_redirect.c: 3,408 on 64-bit x86, 3,368 elsewhere).
pub const MAX_FRAME: usize = 3368;

/// The part of union bpf_attr for BPF_PROG_TEST_RUN.
#[derive(Default)]
#[repr(C, align(8))]
struct TestRun {
    program: u32,
    returned: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

impl Program {
    /// Runs an XDP program `repeat` times on frames that begin as `frame`, on this thread, in its network namespace, and
    /// lets the kernel do with them what the program says; up to `batch` go to the driver at once. Pages are used again
    /// as the last receiver left them. Since Linux 5.18. EINTR once a signal has been handled by this thread.
    ///
    /// Each call costs some 50 ms beside its frames where `repeat` is more than 1.
    pub fn send_live(&self, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        let mut run = TestRun {
            program: self.0.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: pointer(frame.as_ptr()),
            repeat,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..TestRun::default()
        };
        bpf(BPF_PROG_TEST_RUN, &mut run)?;
        Ok(())
    }

    /// Runs an XDP program once on a frame that nobody sees: what it answers, and what it made of the frame. For its test;
    /// no program may be run so on fewer than 14 octets. Since Linux 4.12.
    pub fn run_on(&self, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let mut out = vec![0; frame.len()];
        let mut run = TestRun {
            program: self.0.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: pointer(frame.as_ptr()),
            data_size_out: out.len() as u32,
            data_out: pointer_mut(out.as_mut_ptr()),
            ..TestRun::default()
        };
        bpf(BPF_PROG_TEST_RUN, &mut run)?;
        out.truncate(run.data_size_out as usize);
        Ok((run.returned, out))
    }
}
