//! A packet socket's receive ring (TPACKET_V3, Documentation/networking/packet_mmap.rst): the kernel fills blocks of memory
//! with frames, and this process reads them there, without a system call for each.
//! Knows no test header; frames are octets.
//!
//! ```text
//!   block 0          block 1          …    each belongs to the kernel until it is full, or some ms old;
//!   [head|frame|frame|…]                   then to this process until it is given back
//! ```

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::datagrams::Received;
use super::memory::Mapping;
use super::option;

/// Octets of a block: a multiple of the page size of every machine, and room for a frame of any size that is sent. No more than that: of
/// frames that come slowly each block holds what comes in [`RETIRE_MS`], so the ring is as long in time as it has blocks.
const BLOCK: usize = 64 << 10;
/// What the kernel takes for a unit of the ring; it only has to divide a block.
const FRAME: u32 = 2048;
/// A block that is not full is handed over after so long, milliseconds.
const RETIRE_MS: u32 = 2;
const TPACKET_V3: libc::c_int = 2;

// struct tpacket_block_desc: version, offset to private data, then struct tpacket_hdr_v1 (linux/if_packet.h).
const STATUS_AT: usize = 8;
const COUNT_AT: usize = 12;
const FIRST_AT: usize = 16;
const HEAD: usize = 48;
// struct tpacket3_hdr.
const NEXT_AT: usize = 0;
const SECONDS_AT: usize = 4;
const NANOSECONDS_AT: usize = 8;
const CAPTURED_AT: usize = 12;
const LENGTH_AT: usize = 16;
const MAC_AT: usize = 24;

/// The ring of one socket, which must live as long.
pub struct FrameBlocks {
    memory: Mapping,
    blocks: usize,
    /// The block that is filled next.
    at: usize,
    most: u32,
}

impl FrameBlocks {
    /// Has the kernel put what the socket hears into a ring of about so many octets from now on; what waits in the socket is
    /// lost. ENOPROTOOPT or EINVAL before Linux 3.2.
    pub fn new(socket: &impl AsRawFd, octets: usize) -> io::Result<FrameBlocks> {
        let blocks = blocks(octets);
        option::PACKET_VERSION.set(socket, TPACKET_V3)?;
        let frames = (blocks * BLOCK / FRAME as usize) as u32;
        // struct tpacket_req3: block size, blocks, frame size, frames, time, private data, features.
        option::PACKET_RX_RING.set(socket, [BLOCK as u32, blocks as u32, FRAME, frames, RETIRE_MS, 0, 0])?;
        let memory = Mapping::shared(socket, blocks * BLOCK).inspect_err(|_| {
            // Else the socket would hear nothing any more.
            let _ = option::PACKET_RX_RING.set(socket, [0; 7]);
        })?;
        Ok(FrameBlocks { memory, blocks, at: 0, most: 0 })
    }

    /// Hands the frames of the next block over, if the kernel has filled one, and returns how many; the socket is readable
    /// until it has none. A frame that does not lie within its block ends it.
    pub fn take(&mut self, mut handle: impl FnMut(Received<'_>)) -> u32 {
        let block = self.memory.as_ptr().wrapping_add(self.at * BLOCK);
        // SAFETY: within the mapping, which is writable, lives as long as `self` and begins at a page: four octets at a multiple
        // of four. The kernel too writes this word alone while the block is ours, and as a whole.
        let status = unsafe { AtomicU32::from_ptr(block.wrapping_add(STATUS_AT).cast_mut().cast()) };
        // Acquire: what the kernel wrote before it handed the block over.
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return 0;
        }
        // SAFETY: a block's octets are all mapped. While its status says so the block is ours alone: the kernel writes nothing
        // until it is given back below, when the slice is gone. The word of the status is read by the kernel only.
        let octets = unsafe { std::slice::from_raw_parts(block, BLOCK) };
        let count = word(octets, COUNT_AT).unwrap_or(0);
        let mut at = word(octets, FIRST_AT).unwrap_or(0) as usize;
        let mut handed = 0;
        for _ in 0..count {
            let Some((frame, next)) = frame_at(octets, at) else { break };
            handle(frame);
            handed += 1;
            at += next;
        }
        self.most = self.most.max(handed);
        // Release: nothing of the block is read behind this.
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = (self.at + 1) % self.blocks;
        handed
    }

    /// The most frames that a block held so far.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Frames that the ring had no room for since this was last asked: reading clears it (packet(7), PACKET_STATISTICS).
    pub fn drops(socket: &impl AsRawFd) -> io::Result<u64> {
        let [_packets, drops, _freezes] = option::PACKET_STATISTICS_3.get(socket)?;
        Ok(drops.into())
    }
}

/// Of how many blocks a ring of about so many octets is.
fn blocks(octets: usize) -> usize {
    (octets / BLOCK).clamp(2, 4096)
}

/// The frame whose header stands here, and how far it is to the next.
fn frame_at(block: &[u8], at: usize) -> Option<(Received<'_>, usize)> {
    let header = block.get(at..).filter(|_| at >= HEAD)?;
    let captured = word(header, CAPTURED_AT)? as usize;
    let mac = usize::from(u16::from_ne_bytes(*header.get(MAC_AT..)?.first_chunk()?));
    let octets = header.get(mac..)?.get(..captured)?;
    let stamped_ns = u64::from(word(header, SECONDS_AT)?) * 1_000_000_000 + u64::from(word(header, NANOSECONDS_AT)?);
    let len = word(header, LENGTH_AT)? as usize;
    let frame = Received { octets, len, segment: len, stamped_ns: Some(stamped_ns), nic_stamped_ns: None, drops: 0 };
    Some((frame, word(header, NEXT_AT)? as usize))
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_where_its_header_says_and_never_beyond_the_block() {
        let mut block = vec![0_u8; 256];
        let mut put = |at: usize, value: u32| block[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        for (at, value) in [(48 + SECONDS_AT, 2), (48 + NANOSECONDS_AT, 7), (48 + CAPTURED_AT, 3), (48 + LENGTH_AT, 60)]
        {
            put(at, value);
        }
        put(48 + NEXT_AT, 100);
        block[48 + MAC_AT..48 + MAC_AT + 2].copy_from_slice(&82_u16.to_ne_bytes());
        block[130..133].copy_from_slice(&[1, 2, 3]);
        let (frame, next) = frame_at(&block, 48).unwrap();
        assert_eq!((frame.octets, frame.len, frame.stamped_ns, next), (&[1, 2, 3][..], 60, Some(2_000_000_007), 100));
        assert!(frame_at(&block, 0).is_none(), "that is the block's own head");
        for (at, value) in [(CAPTURED_AT, u32::MAX), (CAPTURED_AT, 200)] {
            let mut bad = block.clone();
            bad[48 + at..48 + at + 4].copy_from_slice(&value.to_ne_bytes());
            assert!(frame_at(&bad, 48).is_none());
        }
        assert!((240..300).chain([usize::MAX]).all(|at| frame_at(&block, at).is_none()));
    }

    #[test]
    fn frames_that_come_slowly_wait_a_quarter_of_a_second_for_a_thread_without_a_cpu() {
        assert!(blocks(8 << 20) * RETIRE_MS as usize >= 250);
    }
}
