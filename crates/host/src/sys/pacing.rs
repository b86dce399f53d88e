//! What the kernel is told of a socket's pace: a rate, SO_MAX_PACING_RATE, or a time for each datagram, SO_TXTIME.
//! Knows no schedule, and not whether anything below the socket heeds it.

use std::io;
use std::os::fd::AsRawFd;

use super::option;

/// The most octets a second that TCP, or the fq queueing discipline, lets leave from this socket (socket(7); Linux 3.13).
/// A rate beyond 34 Gbit/s needs a kernel of 64 bits and Linux 5.0; others take it for what they can hold.
pub fn set_max_pacing_rate(socket: &impl AsRawFd, octets_per_s: u64) -> io::Result<()> {
    // All ones in 32 bits mean no limit.
    match u32::try_from(octets_per_s).ok().filter(|&rate| rate != u32::MAX) {
        Some(rate) => option::MAX_PACING_RATE_32.set(socket, rate),
        #[cfg(target_pointer_width = "64")]
        None => option::MAX_PACING_RATE_64.set(socket, octets_per_s),
        #[cfg(not(target_pointer_width = "64"))]
        None => option::MAX_PACING_RATE_32.set(socket, u32::MAX - 1),
    }
}

/// The rate that [`set_max_pacing_rate`] set, as the kernel reads it back: a word of the kernel's.
#[cfg(test)]
fn max_pacing_rate(socket: &impl AsRawFd) -> io::Result<u64> {
    #[cfg(target_pointer_width = "64")]
    return option::MAX_PACING_RATE_64.get(socket);
    #[cfg(not(target_pointer_width = "64"))]
    return option::MAX_PACING_RATE_32.get(socket).map(u64::from);
}

/// Announces that each datagram bears its time of departure by this clock (SO_TXTIME, Linux 4.19).
pub fn set_txtime(socket: &impl AsRawFd, clock: Clock) -> io::Result<()> {
    option::TXTIME.set(socket, option::SockTxtime { clockid: clock.0, flags: 0 })
}

/// The priority of what is sent on this socket from now on (SO_PRIORITY, socket(7); up to 6 without privilege).
pub fn set_priority(socket: &impl AsRawFd, priority: u32) -> io::Result<()> {
    option::PRIORITY.set(socket, priority as libc::c_int)
}

/// A clock of the kernel (clock_gettime(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(pub libc::clockid_t);

impl Clock {
    /// What fq goes by.
    pub const MONOTONIC: Clock = Clock(libc::CLOCK_MONOTONIC);

    /// What it says; nothing where there is no such clock.
    pub fn now_ns(self) -> io::Result<u64> {
        // SAFETY: a struct of integers, for which all zeroes is a value.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills the struct, which lives on.
        if unsafe { libc::clock_gettime(self.0, &raw mut time) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_rate_is_read_back() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut rates = vec![1, 1250, 125_000_000, u64::from(u32::MAX) - 1];
        if cfg!(target_pointer_width = "64") {
            rates.extend([u64::from(u32::MAX), 12_500_000_000]);
        }
        for rate in rates {
            set_max_pacing_rate(&socket, rate).unwrap();
            assert_eq!(max_pacing_rate(&socket).unwrap(), rate);
        }
    }

    #[test]
    fn tcp_keeps_to_its_rate_by_itself() {
        use std::io::{Read, Write};
        const RATE: u64 = 10_000_000;
        const OCTETS: usize = 4_000_000;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        set_max_pacing_rate(&sender, RATE).unwrap();
        let began = std::time::Instant::now();
        let writer = std::thread::spawn(move || sender.write_all(&vec![0; OCTETS]));
        receiver.read_exact(&mut vec![0; OCTETS]).unwrap();
        writer.join().unwrap().unwrap();
        // Ten segments go before the first acknowledgement, and loopback's are of 64 KiB.
        let least_s = (OCTETS - 10 * 65_536) as f64 / RATE as f64;
        assert!(began.elapsed().as_secs_f64() > 0.9 * least_s, "{:?}, not {least_s} s", began.elapsed());
    }

    #[test]
    fn a_clock_that_is_none_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_txtime(&socket, Clock(libc::CLOCK_TAI)).unwrap();
        set_txtime(&socket, Clock::MONOTONIC).unwrap();
        assert!(set_txtime(&socket, Clock(99)).is_err() && Clock(99).now_ns().is_err());
        assert!(Clock(libc::CLOCK_TAI).now_ns().unwrap() > 0);
    }
}
