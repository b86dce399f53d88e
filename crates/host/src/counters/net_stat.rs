//! What tables of the kernel gave up, from /proc/net/stat: neighbours (ARP, and IPv6's neighbour discovery), connections.
//! Knows their shape: a line of names, then a line of hexadecimal numbers a CPU.

use super::{Reading, per_cpu};

/// What a table of neighbours gave up (net/core/neighbour.c, neigh_stat_seq_show); `entries` is a present state, and
/// the rest is everyday work. The tables are the machine's; only the first network namespace has the files.
pub(super) fn neighbours(text: &str) -> Vec<Reading> {
    sums(text, &["res_failed", "forced_gc_runs", "unresolved_discards", "table_fulls"])
}

/// What connection tracking dropped, and what it made room by (net/netfilter/nf_conntrack_standalone.c, ct_cpu_seq_show):
/// packets of a full table count as `drop`, those of two that wanted one entry as `insert_failed`.
pub(super) fn connections(text: &str) -> Vec<Reading> {
    sums(text, &["drop", "early_drop", "insert_failed", "invalid"])
}

/// The sums over all CPUs of those columns that the kernel has.
fn sums(text: &str, columns: &[&'static str]) -> Vec<Reading> {
    let (names, rows) = text.split_once('\n').unwrap_or((text, ""));
    let at = |name: &&'static str| Some((names.split_whitespace().position(|other| other == *name)?, *name));
    per_cpu::sums(rows, columns.iter().filter_map(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[(&str, u64)]) {
        let want: Vec<Reading> = want.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(neighbours(text), want);
    }

    #[test]
    fn columns_by_their_names() {
        // The shape of Linux 6.18; figures put in.
        check(
            "entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast rcv_probes_ucast \
             periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n\
             00000003 00000010 00000001 00000000 00000001 00000001 00000002 00000000 00000000 000012f5 00000001 00000010 0000000f\n\
             00000003 00000010 00000001 00000000 00000001 00000001 00000001 00000000 00000000 000012f5 00000000 00000001 00000001\n",
            &[("res_failed", 3), ("forced_gc_runs", 1), ("unresolved_discards", 17), ("table_fulls", 16)],
        );
        // Linux 3.10 has no table_fulls.
        check("entries res_failed unresolved_discards\n1 a b\n", &[("res_failed", 10), ("unresolved_discards", 11)]);
    }

    #[test]
    fn packets_that_found_no_room_among_the_connections() {
        // Recorded on Linux 6.18, shortened; figures put in.
        let text = "entries  clashres found new invalid ignore insert insert_failed drop early_drop icmp_error\n\
                    00000002 00000000 00000001 00000000 00000003 00000000 00000000 00000004 00000010 00000001 00000000\n\
                    00000002 00000000 00000001 00000000 00000001 00000000 00000000 00000000 00000001 00000000 00000000\n";
        let want = [("drop", 17), ("early_drop", 1), ("insert_failed", 4), ("invalid", 4)];
        assert_eq!(connections(text), want.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_makes_no_sense_is_absent() {
        check("", &[]);
        check("res_failed table_fulls\n", &[]);
        check("res_failed table_fulls\nzz 1\n\n", &[("table_fulls", 1)]);
    }
}
