//! The per-CPU receive queues, from /proc/net/softnet_stat, all CPUs together.
//! Knows its columns by number: the file has no header, and grew to the right over the years.

use super::{Reading, per_cpu};

/// Columns that count (net/core/net-procfs.c, softnet_seq_show). Columns 3-7 are zero today and counted other
/// things once; 11, 13 and 14 are queue lengths and 12 is the CPU's number.
const COLUMNS: [(usize, &str); 5] =
    [(0, "processed"), (1, "dropped"), (2, "time_squeeze"), (9, "received_rps"), (10, "flow_limit_count")];

/// The sums over all CPUs of the columns that every row has. The kernel prints 32 bits of each, so a sum may
/// jump backwards; [`linerate_path::stage::Counters::since`] then leaves the counter out.
pub(super) fn parse(text: &str) -> Vec<Reading> {
    per_cpu::sums(text, COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[(&str, u64)]) {
        let want: Vec<Reading> = want.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(parse(text), want);
    }

    #[test]
    fn columns_by_age_of_the_kernel() {
        // Recorded on Linux 6.18, two CPUs; figures put in.
        check(
            "00000020 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000004 \
             00000000 00000000 00000000 00000000\n\
             000017a5 00000010 00000020 00000000 00000000 00000000 00000000 00000000 00000000 00000030 00000040 \
             00000000 00000001 00000000 00000000\n",
            &[
                ("processed", 0x17c5),
                ("dropped", 0x11),
                ("time_squeeze", 0x22),
                ("received_rps", 0x33),
                ("flow_limit_count", 0x44),
            ],
        );
        // Nine columns, from the source of Linux 2.6.32; ten, from that of 3.0.
        check(
            "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000\n",
            &[("processed", 10), ("dropped", 1), ("time_squeeze", 2)],
        );
        check(
            "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000007\n",
            &[("processed", 10), ("dropped", 1), ("time_squeeze", 2), ("received_rps", 7)],
        );
    }

    #[test]
    fn what_makes_no_sense_is_absent() {
        check("", &[]);
        check("\n\n", &[]);
        check("hello\n", &[]);
        check("00000001 zz 00000002\n", &[("processed", 1), ("time_squeeze", 2)]);
        check("00000001 00000001\n00000001\n", &[("processed", 2)]);
    }
}
