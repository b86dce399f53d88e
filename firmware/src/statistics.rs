//! What the board counted, and the line in which its console says so.

use core::fmt;

/// Frames received by their size with FCS, as RMON has them (RFC 2819, etherStatsPkts64Octets and the following): the
/// largest of each class.
pub const SIZES: [usize; 6] = [64, 127, 255, 511, 1023, 1518];
const FCS_LEN: usize = 4;

/// Counts since the board began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received, by size; the last class has those above 1518.
    pub sizes: [u64; SIZES.len() + 1],
    /// Frames sent back with their addresses swapped.
    pub echoed: u64,
    /// ARP requests answered.
    pub arp: u64,
    /// Pings answered.
    pub pings: u64,
    /// iperf2's datagrams.
    pub iperf2: u64,
    /// Frames for others, or that nothing here answers.
    pub ignored: u64,
}

impl Statistics {
    /// Counts a frame of so many bytes without FCS.
    pub fn count(&mut self, len: usize) {
        let class = SIZES.iter().position(|&most| len + FCS_LEN <= most).unwrap_or(SIZES.len());
        self.sizes[class] += 1;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statistics { sizes, echoed, arp, pings, iperf2, ignored } = self;
        let received: u64 = sizes.iter().sum();
        write!(f, "rx={received} echoed={echoed} arp={arp} pings={pings} iperf2={iperf2} ignored={ignored} sizes")?;
        for (count, most) in sizes.iter().zip(SIZES) {
            write!(f, " {most}={count}")?;
        }
        write!(f, " more={}", sizes[SIZES.len()])
    }
}
