//! io_uring(7): several sends submitted with one system call, and a receive that completes again and again.
//! Knows no trials. Where the machine's kernel has no io_uring, or forbids it, opening a ring fails.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use super::datagrams::DatagramBatch;
use super::memory::{Mapping, page_octets};

/// Sends one message after the other on a TCP socket, several with one system call, in order: each is linked to the
/// one before (io_uring_enter(2), IOSQE_IO_LINK), and MSG_WAITALL makes the kernel go on with one that the send buffer
/// took only in part.
pub struct SendRing {
    ring: IoUring,
    message: Option<Mapping>,
    size: usize,
    batch: usize,
    zero_copy: bool,
    /// Sends that were submitted and have no result yet.
    under_way: usize,
    /// Sends whose octets the kernel may still need. For a moment below zero: of a send that was called back, the
    /// notification may come before the result.
    lent: isize,
    /// Sends of nothing, whose notification says nothing.
    called_back: u64,
    /// What went wrong after octets had been taken, for the next call.
    failed: Option<io::Error>,
    completions: u64,
    copied: u64,
}

/// Messages that the kernel may hold at once without a copy, for each of a batch.
const LENT: usize = 8;

impl SendRing {
    /// A ring that sends parts of the message, up to `batch` of them with one call; without a copy where asked
    /// (IORING_OP_SEND_ZC, since Linux 6.0).
    pub fn new(message: Mapping, batch: usize, zero_copy: bool) -> io::Result<SendRing> {
        let entries = batch.next_power_of_two();
        let ring = make(entries, entries * (LENT + 2) * 2)?;
        require(&ring, if zero_copy { opcode::SendZc::CODE } else { opcode::Send::CODE })?;
        if zero_copy {
            let octets = message.as_slice();
            let vector = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
            // SAFETY: the pages are mapped for as long as the ring: `drop` keeps them until nothing is under way.
            unsafe { ring.submitter().register_buffers(&[vector])? };
        }
        let size = message.as_slice().len();
        let mut ring = SendRing {
            ring,
            message: Some(message),
            size,
            batch,
            zero_copy,
            under_way: 0,
            lent: 0,
            called_back: 0,
            failed: None,
            completions: 0,
            copied: 0,
        };
        if zero_copy {
            ring.require_usage_reports()?;
        }
        Ok(ring)
    }

    /// A send without a copy on a socket that has none is refused with EOPNOTSUPP once its flags were understood, and
    /// with EINVAL where they were not: IORING_SEND_ZC_REPORT_USAGE came with Linux 6.2.
    fn require_usage_reports(&mut self) -> io::Result<()> {
        let (one, _other) = std::os::unix::net::UnixStream::pair()?;
        match self.send(&one, 0, 1, Duration::from_secs(1)) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Sends `want` octets, the first of them the one `at` in the message, and after the message's last its first
    /// again. Returns how many the kernel took. What an earlier call submitted and the kernel did not take in time
    /// is the first part of `want`.
    #[inline]
    pub fn send(&mut self, socket: &impl AsRawFd, at: usize, want: usize, timeout: Duration) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.under_way == 0 {
            let most_lent = (LENT * self.batch) as isize;
            if self.lent > most_lent {
                let taken = self.wait(1, timeout)?;
                debug_assert_eq!(taken, 0, "nothing was under way");
                if self.lent > most_lent {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            self.submit(socket, at, want);
        }
        let mut taken = 0;
        // Completions that tell of octets no longer needed come in between and end a wait too.
        while self.under_way > 0 {
            let before = self.under_way;
            match self.wait(self.under_way, timeout) {
                Ok(octets) => taken += octets,
                Err(error) if taken == 0 => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
            if self.under_way == before {
                break;
            }
        }
        match (taken, self.failed.is_some()) {
            (0, true) => Err(self.failed.take().unwrap_or_else(|| io::ErrorKind::WouldBlock.into())),
            (0, false) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    fn submit(&mut self, socket: &impl AsRawFd, mut at: usize, want: usize) {
        let Some(message) = &self.message else { return };
        let fd = Fd(socket.as_raw_fd());
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let mut left = want;
        let mut queue = self.ring.submission();
        while left > 0 && self.under_way < self.batch {
            let part = left.min(self.size - at);
            let octets = &message.as_slice()[at..at + part];
            let entry = if self.zero_copy {
                // A single registered buffer, the message.
                opcode::SendZc::new(fd, octets.as_ptr(), part as u32)
                    .buf_index(Some(0))
                    .flags(flags)
                    .zc_flags(SEND_ZC_REPORT_USAGE)
                    .build()
            } else {
                opcode::Send::new(fd, octets.as_ptr(), part as u32).flags(flags).build()
            };
            (left, at) = (left - part, 0);
            let last = left == 0 || self.under_way + 1 == self.batch;
            let entry = if last { entry } else { entry.flags(squeue::Flags::IO_LINK) };
            // SAFETY: the octets stand in the mapping, which lives until nothing is under way (see `drop`), and nobody
            // writes to it.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            self.under_way += 1;
        }
    }

    /// Submits what stands in the queue, waits for completions, and returns how many octets they took.
    fn wait(&mut self, completions: usize, timeout: Duration) -> io::Result<usize> {
        enter(&self.ring, completions, timeout)?;
        let mut taken = 0;
        for entry in self.ring.completion() {
            let result = entry.result();
            if entry.user_data() == CANCEL {
                continue;
            }
            if cqueue::notif(entry.flags()) {
                self.lent -= 1;
                self.completions += 1;
                self.copied += u64::from(result as u32 & NOTIF_USAGE_ZC_COPIED != 0);
                continue;
            }
            self.under_way -= 1;
            let notified = cqueue::more(entry.flags());
            self.lent += isize::from(notified);
            self.called_back += u64::from(notified && result < 0);
            match result {
                0.. => taken += result as usize,
                // The one before it in the chain was not sent whole; that one has the reason.
                _ if -result == libc::ECANCELED => {}
                _ => self.failed = Some(io::Error::from_raw_os_error(-result)),
            }
        }
        Ok(taken)
    }

    /// Waits until nothing is under way, at most `patience`, then calls back what is; returns the octets that were
    /// taken meanwhile. Then waits for the kernel to let go of the message, at most the same time again.
    pub fn finish(&mut self, patience: Duration, mut stopped: impl FnMut() -> bool) -> usize {
        const LOOK: Duration = Duration::from_millis(10);
        let mut taken = 0;
        let mut spent = Duration::ZERO;
        while self.under_way > 0 && spent < patience && !stopped() {
            taken += self.wait(self.under_way, LOOK).unwrap_or(0);
            spent += LOOK;
        }
        taken += self.cancel();
        spent = Duration::ZERO;
        while self.lent > 0 && spent < patience && !stopped() {
            taken += self.wait(1, LOOK).unwrap_or(0);
            spent += LOOK;
        }
        taken
    }

    fn cancel(&mut self) -> usize {
        let mut taken = 0;
        for _ in 0..100 {
            if self.under_way == 0 {
                break;
            }
            let all = opcode::AsyncCancel2::new(io_uring::types::CancelBuilder::any()).build().user_data(CANCEL);
            // SAFETY: the entry points at no memory.
            let _ = unsafe { self.ring.submission().push(&all) };
            taken += self.wait(1, Duration::from_millis(10)).unwrap_or(0);
        }
        taken
    }

    /// Sends without a copy that the kernel is through with, and those among them that it copied after all; `None`
    /// where copying was asked for.
    pub fn completions(&self) -> Option<(u64, u64)> {
        let completions = self.completions.saturating_sub(self.called_back);
        self.zero_copy.then_some((completions, self.copied.min(completions)))
    }
}

impl Drop for SendRing {
    fn drop(&mut self) {
        self.cancel();
        if self.under_way > 0 {
            // Rather lose some memory than let the kernel read what it has become.
            std::mem::forget(self.message.take());
        }
    }
}

/// Receives from a TCP socket with one request that completes again and again (IORING_RECV_MULTISHOT, since Linux
/// 6.0), each time into a buffer that the kernel picks out of a ring of them (io_uring_register_buf_ring(3)).
pub struct ReceiveRing {
    ring: IoUring,
    entries: Option<Mapping>,
    buffers: Option<Mapping>,
    count: u16,
    size: usize,
    tail: u16,
    armed: bool,
    ended: bool,
}

impl ReceiveRing {
    /// A ring of `count` buffers, a power of two, of `size` octets.
    pub fn new(count: u16, size: usize, alignment: usize) -> io::Result<ReceiveRing> {
        let ring = make(4, usize::from(count) * 2)?;
        // Came with the same kernel as the multishot receive, which itself cannot be asked for.
        require(&ring, opcode::SendZc::CODE)?;
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>(), page_octets())?;
        let octets = usize::from(count).checked_mul(size).filter(|_| u32::try_from(size).is_ok());
        let buffers = Mapping::new(octets.ok_or(io::ErrorKind::InvalidInput)?, alignment)?;
        // SAFETY: the entries are mapped at a page's start for as long as the ring: `drop` keeps them until then.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, count, GROUP, 0)? };
        let mut ring = ReceiveRing {
            ring,
            entries: Some(entries),
            buffers: Some(buffers),
            count,
            size,
            tail: 0,
            armed: false,
            ended: false,
        };
        for buffer in 0..count {
            ring.give(buffer);
        }
        Ok(ring)
    }

    /// Waits for octets, takes all that have come, and returns how many; 0: the far end has closed.
    #[inline]
    pub fn receive(&mut self, socket: &impl AsRawFd, timeout: Duration) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if !self.armed {
            let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
            // SAFETY: the request writes to the provided buffers only, which live until it has ended (see `drop`).
            self.armed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        }
        enter(&self.ring, 1, timeout)?;
        let taken = self.reap()?;
        if taken == 0 && !self.ended { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn reap(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        let mut failed = None;
        // One after the other, for giving a buffer back borrows the whole ring.
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            if entry.user_data() == CANCEL {
                continue;
            }
            if !cqueue::more(entry.flags()) {
                self.armed = false;
            }
            if let Some(buffer) = cqueue::buffer_select(entry.flags()) {
                self.give(buffer);
            }
            match entry.result() {
                0 => self.ended = true,
                octets @ 1.. => taken += octets as usize,
                // All buffers were full: they have been given back since, and the request is made again.
                error if -error == libc::ENOBUFS || -error == libc::ECANCELED => {}
                error => failed = Some(io::Error::from_raw_os_error(-error)),
            }
        }
        match failed {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    /// Gives the kernel a buffer to fill.
    fn give(&mut self, buffer: u16) {
        let (Some(entries), Some(buffers)) = (&self.entries, &self.buffers) else { return };
        let base = entries.as_ptr().cast_mut().cast::<BufRingEntry>();
        let octets = buffers.as_slice()[usize::from(buffer) * self.size..].as_ptr();
        // SAFETY: the index is below `count`, which is how many entries there is room for; all-zero octets, which the
        // mapping began with, are a valid entry; the kernel does not read this one before the tail is past it.
        let entry = unsafe { &mut *base.add(usize::from(self.tail % self.count)) };
        entry.set_addr(octets as u64);
        entry.set_len(self.size as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 within the first entry, which lives as long as the mapping; the kernel only
        // reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        for _ in 0..100 {
            if !self.armed {
                return;
            }
            let all = opcode::AsyncCancel2::new(io_uring::types::CancelBuilder::any()).build().user_data(CANCEL);
            // SAFETY: the entry points at no memory.
            let _ = unsafe { self.ring.submission().push(&all) };
            let _ = enter(&self.ring, 1, Duration::from_millis(10));
            let _ = self.reap();
        }
        // Rather lose some memory than let the kernel write to what it has become.
        std::mem::forget((self.entries.take(), self.buffers.take()));
    }
}

/// Sends datagrams on a UDP socket, many with one system call. Each is linked to the one before, so that they leave in
/// order, and that after one which the kernel refuses none follows: as with sendmmsg(2).
pub struct DatagramRing {
    ring: IoUring,
    batch: usize,
}

impl DatagramRing {
    /// How long a datagram may wait for room in the send buffer.
    const PATIENCE: Duration = Duration::from_millis(50);

    /// A ring for up to `batch` datagrams to a call.
    pub fn new(batch: usize) -> io::Result<DatagramRing> {
        let entries = batch.next_power_of_two();
        let ring = make(entries, entries * 2)?;
        require(&ring, opcode::Send::CODE)?;
        Ok(DatagramRing { ring, batch })
    }

    /// Sends the first `count` datagrams of a batch on a connected socket. Returns how many the kernel took (at least
    /// one); the error, if any, belongs to the first.
    #[inline]
    pub fn send(&mut self, socket: &impl AsRawFd, batch: &mut DatagramBatch, count: usize) -> io::Result<usize> {
        let count = count.min(self.batch).min(batch.count());
        let fd = Fd(socket.as_raw_fd());
        let mut queue = self.ring.submission();
        let mut submitted = 0;
        for index in 0..count {
            let octets = batch.datagram_mut(index);
            let entry = opcode::Send::new(fd, octets.as_ptr(), octets.len() as u32).flags(libc::MSG_NOSIGNAL).build();
            let entry = if index + 1 == count { entry } else { entry.flags(squeue::Flags::IO_LINK) };
            // SAFETY: the batch is borrowed until this returns, which is not before each of these has its result.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            submitted += 1;
        }
        drop(queue);
        let (mut results, mut taken, mut failed) = (0, 0, None);
        let mut entered = enter(&self.ring, submitted, Self::PATIENCE);
        loop {
            for entry in self.ring.completion() {
                if entry.user_data() == CANCEL {
                    continue;
                }
                results += 1;
                match entry.result() {
                    0.. => taken += 1,
                    // The first of them has the reason; those after it were called back.
                    error => failed = failed.or(Some(-error)),
                }
            }
            if results == submitted {
                break;
            }
            // The kernel ends what is called back at once, so this ends too.
            let all = opcode::AsyncCancel2::new(io_uring::types::CancelBuilder::any()).build().user_data(CANCEL);
            // SAFETY: the entry points at no memory.
            let _ = unsafe { self.ring.submission().push(&all) };
            entered = enter(&self.ring, 1, Self::PATIENCE);
        }
        match (taken, failed) {
            (0, Some(libc::ECANCELED)) => Err(io::ErrorKind::WouldBlock.into()),
            (0, Some(error)) => Err(io::Error::from_raw_os_error(error)),
            _ => entered.map(|()| taken),
        }
    }
}

/// Whether io_uring is known on this architecture.
pub const KNOWN: bool = true;

/// Marks the completion of a cancellation.
const CANCEL: u64 = u64::MAX;
/// The one group of provided buffers.
const GROUP: u16 = 0;
/// linux/io_uring.h: IORING_SEND_ZC_REPORT_USAGE, and the bit of a notification's result that answers it.
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

fn make(submissions: usize, completions: usize) -> io::Result<IoUring> {
    let of = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    // Completions then wait for the thread to ask for them instead of interrupting it (Linux 6.1).
    let quiet = IoUring::builder()
        .setup_cqsize(of(completions))
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(of(submissions));
    let ring = match quiet {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_cqsize(of(completions)).build(of(submissions))?
        }
        other => other?,
    };
    // Time-outs of a wait (5.11). What comes after is asked for by opcode.
    if ring.params().is_feature_ext_arg() { Ok(ring) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn require(ring: &IoUring, code: u8) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if probe.is_supported(code) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Submits and waits for so many completions. The end of the time, and a signal, are no errors.
fn enter(ring: &IoUring, completions: usize, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::from(timeout);
    let asked = SubmitArgs::new().timespec(&timeout);
    match ring.submitter().submit_with_args(completions, &asked) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn datagrams_leave_in_order_and_stop_at_the_first_that_is_refused() {
        let Ok(mut ring) = DatagramRing::new(8) else {
            println!("no io_uring on this machine");
            return;
        };
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let mut batch = DatagramBatch::outgoing(16, 1, 100, 64);
        for index in 0..16 {
            batch.datagram_mut(index).fill(index as u8);
        }
        assert_eq!(ring.send(&sender, &mut batch, 16).unwrap(), 8, "as many as the ring holds");
        receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut octets = [0; 200];
        for index in 0..8 {
            assert_eq!(receiver.recv(&mut octets).unwrap(), 100);
            assert_eq!(octets[0], index);
        }
        let mut long = DatagramBatch::outgoing(4, 1, 65_530, 64);
        let error = ring.send(&sender, &mut long, 4).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "no UDP datagram is that long");
        assert_eq!(ring.send(&sender, &mut batch, 1).unwrap(), 1, "the ring is as good as new");
    }

    #[test]
    fn a_full_socket_does_not_hold_a_sender_for_ever() {
        let message = || {
            let mut message = Mapping::new(100_000, 4096).unwrap();
            message.as_mut_slice().fill(1);
            message
        };
        let Ok(mut ring) = SendRing::new(message(), 4, false) else {
            println!("no io_uring on this machine");
            return;
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let look = Duration::from_millis(5);
        let mut taken = 0;
        let mut at = 0;
        // Nobody reads, so that the buffers are full after some megabytes.
        loop {
            match ring.send(&sender, at, 400_000, look) {
                Ok(octets) => (taken, at) = (taken + octets, (at + octets) % 100_000),
                Err(error) => break assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        taken += ring.finish(Duration::from_millis(20), || false);
        drop((ring, sender));
        let mut arrived = Vec::new();
        io::Read::read_to_end(&mut receiver, &mut arrived).unwrap();
        assert_eq!(arrived.len(), taken, "what was called back is counted as far as it went");
    }
}
