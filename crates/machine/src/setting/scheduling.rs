//! Scheduling class and priority of a thread, as settings write them.
//! Knows sched(7)'s names and limits, and no system call.

use std::fmt;
use std::str::FromStr;

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_OTHER, with a nice value of -20 to 19.
    Other {
        /// 0 is what everybody has; less is more of the CPU.
        nice: i8,
    },
    /// SCHED_FIFO, with a priority of 1 to 99.
    Fifo(u8),
    /// SCHED_RR, with a priority of 1 to 99.
    RoundRobin(u8),
}

impl Scheduling {
    /// It goes before everything that is not real-time.
    pub fn is_real_time(self) -> bool {
        !matches!(self, Scheduling::Other { .. })
    }
}

/// A text that is no scheduling; the table of settings says what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoScheduling;

impl FromStr for Scheduling {
    type Err = NoScheduling;

    fn from_str(text: &str) -> Result<Scheduling, NoScheduling> {
        if text == "other" {
            return Ok(Scheduling::Other { nice: 0 });
        }
        let (class, number) = text.split_once(':').ok_or(NoScheduling)?;
        if number.starts_with('+') {
            return Err(NoScheduling);
        }
        let number: i8 = number.parse().map_err(|_| NoScheduling)?;
        match (class, number) {
            ("nice", -20..=19) => Ok(Scheduling::Other { nice: number }),
            ("fifo", 1..=99) => Ok(Scheduling::Fifo(number.unsigned_abs())),
            ("rr", 1..=99) => Ok(Scheduling::RoundRobin(number.unsigned_abs())),
            _ => Err(NoScheduling),
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Other { nice: 0 } => f.write_str("other"),
            Scheduling::Other { nice } => write!(f, "nice:{nice}"),
            Scheduling::Fifo(priority) => write!(f, "fifo:{priority}"),
            Scheduling::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}
