//! Everything of a network namespace that other programs see, to be the same before a change and after it was undone.
//! Knows no settings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::namespaces::Pair;

/// What is seen, a name and its value each.
pub type Snapshot = BTreeMap<String, String>;

/// Each line is one thing. What counts, ages or is drawn by lot is left out: statistics, lifetimes, handles, secrets.
const SEES: &str = r#"
for what in addr link "route show table all" "-6 route show table all" rule "-6 rule" maddr token "neigh show nud permanent" \
    "neigh show proxy" "-6 neigh show proxy" netconf; do
    ip -d -o $what 2>/dev/null | sed -E "s/(expires|valid_lft|preferred_lft|users|refcnt) [0-9]+[a-z]*//g; s/^/ip $what: /"
done
tc -d qdisc 2>&1 | sed -E "s/ [0-9a-f]+:[0-9a-f]*( |$)/ /g; s/^/tc qdisc: /"
for link in $(ls /sys/class/net); do
    tc -d filter show dev $link 2>&1 | sed "s/^/tc filter $link: /"
    for what in k l g a c; do ethtool -$what $link 2>&1 | sed "s/^/ethtool -$what $link: /"; done
    ethtool --show-eee $link 2>&1 | sed "s/^/ethtool eee $link: /"
done
cd /proc/sys/net; grep -rs "" . | grep -Ev "stable_secret|fastopen_key|rss_key" | sed "s/^/sysctl /"
cd /sys/class/net; grep -s "" */* */queues/*/* | \
    grep -Ev "/(uevent|carrier_.*|traffic_class|tx_timeout|statistics.*):" | sed "s/^/sysfs /"
"#;

/// What is seen in a namespace now.
#[track_caller]
pub fn take(pair: &Pair, namespace: &str) -> Snapshot {
    let text = pair.must(&format!("ip netns exec {namespace} sh <<'END'\n{SEES}\nEND"));
    let mut seen = Snapshot::new();
    for line in text.lines() {
        // Lines have no order of their own: an address that was gone for a moment comes last.
        *seen.entry(line.trim().to_owned()).or_default() += "x";
    }
    seen
}

/// What is in one and not in the other, as lines with a sign.
pub fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let lacks = |of: &Snapshot, other: &Snapshot, sign: &str| -> Vec<String> {
        of.iter()
            .filter(|(line, times)| other.get(*line) != Some(times))
            .map(|(line, _)| format!("{sign}{line}"))
            .collect()
    };
    [lacks(before, after, "- "), lacks(after, before, "+ ")].concat()
}

/// Waits until a namespace is seen as it was: addresses and carriers come back after a moment.
#[track_caller]
pub fn check_same(pair: &Pair, namespace: &str, before: &Snapshot, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(4);
    loop {
        let differences = differences(before, &take(pair, namespace));
        if differences.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{what} is not undone:\n{}", differences.join("\n"));
        std::thread::sleep(Duration::from_millis(50));
    }
}
