//! The stack's counters, from /proc/net/snmp, netstat (both in pairs of lines) and snmp6 (a counter a line).
//! Knows the two shapes and which numbers in them are no counters; names come from the files.

use super::Reading;

/// Numbers that are settings or present states, and do not count anything (RFC 4293, RFC 4022).
const NOT_COUNTERS: [&str; 7] =
    ["Ip Forwarding", "Ip DefaultTTL", "Tcp RtoAlgorithm", "Tcp RtoMin", "Tcp RtoMax", "Tcp MaxConn", "Tcp CurrEstab"];

/// The groups of /proc/net/snmp6, the longest first where one begins as another.
const GROUPS6: [&str; 4] = ["UdpLite6", "Icmp6", "Udp6", "Ip6"];

/// Lines `Udp: InDatagrams NoPorts` and `Udp: 94 0`: names, then values in the same order.
pub(super) fn parse_pairs(text: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(names) = lines.next() {
        let Some((group, names)) = names.split_once(':') else { continue };
        let Some((_, values)) = lines.peek().and_then(|next| next.split_once(':')).filter(|(next, _)| *next == group)
        else {
            continue;
        };
        // Multipath TCP is no workload here, and its seventy counters would fill every record with zeros.
        if group == "MPTcpExt" {
            lines.next();
            continue;
        }
        readings.extend(names.split_whitespace().zip(values.split_whitespace()).filter_map(|(name, value)| {
            let name = format!("{group} {name}");
            // A value may be negative (MaxConn is -1), and is no counter then.
            let value = value.parse().ok()?;
            (!NOT_COUNTERS.contains(&name.as_str())).then_some((name, value))
        }));
        lines.next();
    }
    readings
}

/// Lines `Udp6InDatagrams   17`.
pub(super) fn parse_lines(text: &str) -> Vec<Reading> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            let (group, rest) = GROUPS6.iter().find_map(|group| Some((group, name.strip_prefix(group)?)))?;
            (!rest.is_empty()).then_some((format!("{group} {rest}"), value.trim().parse().ok()?))
        })
        .collect()
}

/// Lines `XfrmInPolBlock   17`.
pub(super) fn parse_names(text: &str) -> Vec<Reading> {
    let reading = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(readings: Vec<Reading>, want: &[(&str, u64)]) {
        let want: Vec<Reading> = want.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(readings, want);
    }

    #[test]
    fn names_and_values() {
        // Recorded on Linux 6.18, shortened.
        let text = "XfrmInError             \t0\nXfrmInPolBlock          \t204\nXfrmOutPolBlock\n";
        check(parse_names(text), &[("XfrmInError", 0), ("XfrmInPolBlock", 204)]);
    }

    #[test]
    fn pairs_of_lines() {
        // Recorded on Linux 6.18, shortened.
        check(
            parse_pairs(
                "Ip: Forwarding DefaultTTL InReceives\nIp: 2 64 6050\n\
                 Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab InSegs\nTcp: 1 200 120000 -1 46 0 5955\n\
                 Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 94 0 3\n",
            ),
            &[
                ("Ip InReceives", 6050),
                ("Tcp ActiveOpens", 46),
                ("Tcp InSegs", 5955),
                ("Udp InDatagrams", 94),
                ("Udp NoPorts", 0),
                ("Udp RcvbufErrors", 3),
            ],
        );
        // The shape of Linux 2.6.32, from its source: no SndbufErrors' successors, no UdpLite.
        check(
            parse_pairs(
                "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 5 1 2 6 2 0\n\
                 IpExt: InNoRoutes InTruncatedPkts\nIpExt: 0 0\n",
            ),
            &[
                ("Udp InDatagrams", 5),
                ("Udp NoPorts", 1),
                ("Udp InErrors", 2),
                ("Udp OutDatagrams", 6),
                ("Udp RcvbufErrors", 2),
                ("Udp SndbufErrors", 0),
                ("IpExt InNoRoutes", 0),
                ("IpExt InTruncatedPkts", 0),
            ],
        );
    }

    #[test]
    fn one_counter_a_line() {
        // Recorded on Linux 6.18, shortened.
        check(
            parse_lines(
                "Ip6InReceives                   \t1\nUdp6RcvbufErrors\t4\nUdpLite6InErrors\t0\nIcmp6InMsgs 7\n",
            ),
            &[("Ip6 InReceives", 1), ("Udp6 RcvbufErrors", 4), ("UdpLite6 InErrors", 0), ("Icmp6 InMsgs", 7)],
        );
    }

    #[test]
    fn what_makes_no_sense_is_absent() {
        check(parse_pairs("Udp: A B C\nUdp: 1 x\n"), &[("Udp A", 1)]);
        check(parse_pairs("Udp: A\nTcp: B\nTcp: 2\nrubbish\nUdp: C\n"), &[("Tcp B", 2)]);
        check(parse_pairs("MPTcpExt: A\nMPTcpExt: 1\nTcp: B\nTcp: 2\n"), &[("Tcp B", 2)]);
        check(parse_pairs(":\n:\n\0\u{fffd}"), &[]);
        check(parse_lines("\nUdp6\t1\nOther 5\nIp6InReceives many\nIp6InReceives"), &[]);
    }
}
