//! What kernels from 2.6.32 to the newest have in /proc, and what is made of it: a row for each age.
//! Knows no other source than /proc. The newest is recorded; no machine here has the others, so their texts are written
//! from the kernel's source: net/ipv4/proc.c (snmp), net/core/dev.c and net-procfs.c (softnet_stat), fs/proc/stat.c,
//! fs/proc/softirqs.c, show_interrupts of arch/arm and arch/x86. Figures are put in.

use super::{Reading, interrupts, snmp, softnet};
use crate::cpu::StatReading;

/// What a kernel says, and what must come of it.
struct Kernel {
    version: &'static str,
    snmp: &'static str,
    softnet: &'static str,
    softirqs: &'static str,
    interrupts: &'static str,
    stat: &'static str,
    /// Counters that must be there with this value.
    has: &'static [(&'static str, u64)],
    /// Counters that this kernel does not have, and that must be absent.
    lacks: &'static [&'static str],
}

const KERNELS: [Kernel; 5] = [
    Kernel {
        version: "2.6.32",
        snmp: "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs \
               OutSegs RetransSegs InErrs OutRsts\nTcp: 1 200 120000 -1 5 3 0 0 1 900 800 7 2 1\n\
               Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 50 1 4 60 4 0\n",
        softnet: "00000064 00000005 00000002 00000000 00000000 00000000 00000000 00000000 00000000\n",
        softirqs: "                CPU0       \n        HI:          0\n     TIMER:       1000\n    NET_TX:         12\n    \
                   NET_RX:        345\n     BLOCK:          0\n   TASKLET:          9\n     SCHED:          0\n   \
                   HRTIMER:          0\n       RCU:          0\n",
        interrupts: "           CPU0       \n  1:          0     at91_aic  at91_tick\n 21:       4321     at91_aic  eth0\n\
                     Err:          0\n",
        stat: "cpu  100 5 200 3000 10 2 30 0 0\ncpu0 100 5 200 3000 10 2 30 0 0\nintr 5 5\nctxt 1\n",
        has: &[
            ("Tcp RetransSegs", 7),
            ("Udp RcvbufErrors", 4),
            ("dropped", 5),
            ("time_squeeze", 2),
            ("NET_RX", 345),
            ("21 eth0", 4321),
        ],
        lacks: &["Udp InCsumErrors", "received_rps", "flow_limit_count"],
    },
    Kernel {
        version: "3.0",
        snmp: "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 50 1 4 60 4 0\n",
        softnet: "00000064 00000005 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003\n",
        softirqs: "                CPU0       CPU1       \n      HI:          0          0\n  NET_TX:         12          3\n  \
                   NET_RX:        345          5\n   BLOCK_IOPOLL:          0          0\n",
        interrupts: "           CPU0       CPU1       \n150:       4000          1         GIC  enet\n151:         30          0   \
                     GIC  eth0\nIPI:          0          0\nErr:          0\n",
        stat: "cpu  100 5 200 3000 10 2 30 0 0 0\ncpu0 60 5 100 1500 10 2 30 0 0 0\ncpu1 40 0 100 1500 0 0 0 0 0 0\n",
        has: &[("Udp RcvbufErrors", 4), ("received_rps", 3), ("NET_RX", 350), ("NET_TX", 15), ("151 eth0", 30)],
        lacks: &["Udp InCsumErrors", "flow_limit_count", "150 enet"],
    },
    Kernel {
        version: "3.10",
        snmp: "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs \
               OutSegs RetransSegs InErrs OutRsts InCsumErrors\nTcp: 1 200 120000 -1 5 3 0 0 1 900 800 7 2 1 6\n\
               Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
               Udp: 50 1 4 60 4 0 2\n",
        softnet: "00000064 00000005 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003\n",
        softirqs: "                    CPU0       \n          HI:          0\n      NET_TX:         12\n      NET_RX:        345\n",
        interrupts: "           CPU0       \n 16:       4321      MIPS  4  eth0\nERR:          0\n",
        stat: "cpu  100 5 200 3000 10 2 30 0 0 0\ncpu0 100 5 200 3000 10 2 30 0 0 0\n",
        has: &[("Tcp InCsumErrors", 6), ("Udp InCsumErrors", 2), ("received_rps", 3), ("16 eth0", 4321)],
        lacks: &["Udp IgnoredMulti", "flow_limit_count"],
    },
    Kernel {
        version: "4.19",
        snmp: "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti\n\
               Udp: 50 1 4 60 4 0 2 8\n",
        softnet: "00000064 00000005 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000001\n",
        softirqs: "                    CPU0       CPU1       \n          HI:          0          0\n      NET_TX:         12          \
                   0\n      NET_RX:        345          0\n    IRQ_POLL:          0          0\n",
        interrupts: "           CPU0       CPU1       \n 40:       4321          0     GIC-0  59 Level     e000b000.ethernet, \
                     eth0\nIPI0:          0          0  CPU wakeup interrupts\n",
        stat: "cpu  100 5 200 3000 10 2 30 0 0 0\ncpu0 60 5 100 1500 10 2 30 0 0 0\ncpu1 40 0 100 1500 0 0 0 0 0 0\n",
        has: &[("Udp IgnoredMulti", 8), ("flow_limit_count", 1), ("NET_RX", 345), ("40 e000b000.ethernet,eth0", 4321)],
        lacks: &["Udp MemErrors"],
    },
    Kernel {
        version: "6.18",
        snmp: "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\n\
               Udp: 50 1 4 60 4 0 2 8 9\n",
        softnet: "00000064 00000005 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000001 00000000 \
                  00000000 00000000 00000000\n",
        softirqs: "                    CPU0       CPU1       \n          HI:          0          0\n      NET_TX:         12          \
                   0\n      NET_RX:        345          0\n",
        interrupts: "           CPU0       CPU1       \n 39:       3464          0 PCI-MSIX-0000:00:03.0   2-edge      eth0\n",
        stat: "cpu  100 5 200 3000 10 2 30 0 0 0\ncpu0 60 5 100 1500 10 2 30 0 0 0\ncpu1 40 0 100 1500 0 0 0 0 0 0\n",
        has: &[("Udp MemErrors", 9), ("flow_limit_count", 1), ("dropped", 5), ("39 eth0", 3464)],
        lacks: &[],
    },
];

impl Kernel {
    fn readings(&self) -> Vec<Reading> {
        let mut all = snmp::parse_pairs(self.snmp);
        all.extend(softnet::parse(self.softnet));
        all.extend(interrupts::parse_softirqs(self.softirqs));
        all.extend(interrupts::parse(self.interrupts, &["eth0"]));
        all
    }
}

#[test]
fn each_age_of_kernel_is_read_as_far_as_it_tells() {
    for kernel in &KERNELS {
        let readings = kernel.readings();
        let value = |name: &str| readings.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        for (name, want) in kernel.has {
            assert_eq!(value(name), Some(*want), "{name} of Linux {}: {readings:?}", kernel.version);
        }
        for name in kernel.lacks {
            assert_eq!(value(name), None, "{name} of Linux {}", kernel.version);
        }
        // What is a setting or a present state is a counter in none of them.
        for name in ["Tcp MaxConn", "Tcp CurrEstab"] {
            assert_eq!(value(name), None, "{name} of Linux {}", kernel.version);
        }
    }
}

#[test]
fn cpu_times_of_each_age_are_the_same_figures() {
    for kernel in &KERNELS {
        let times = StatReading::parse(kernel.stat).expect(kernel.version).machine();
        let softirq = (times.shares().expect(kernel.version).softirq * 1000.0).round();
        // 30 ticks of 3347; the column has stood in the same place since 2.6.0.
        assert_eq!(softirq, 9.0, "Linux {}", kernel.version);
    }
}
