//! Where packets and sockets have their memory: sockstat, its limits, the backlog, the driver's page pools.
//! Knows the files' shapes; what is not there is left out.

use linerate_machine::screen::{Kind, View};

use crate::counters;
use crate::files::Files;
use crate::sys::ethtool::{Ethtool, StatisticsOf};

/// Limits beside what is used. Those with three numbers: low, pressure, high, in pages.
const LIMITS: [&str; 7] = [
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
];

/// What drivers call their page pools' statistics (Documentation/networking/page_pool.rst).
const PAGE_POOL: &str = "pp_";

/// Memory of sockets and queues.
pub(super) fn read(files: &Files, interface: Option<&str>) -> View {
    let mut view = View::new(&[("buffers", Kind::Text), ("value", Kind::Counter)]);
    for path in ["/proc/net/sockstat", "/proc/net/sockstat6"] {
        let Ok(text) = files.text(path) else { continue };
        view.rows.extend(pairs(&text).into_iter().map(|(name, value)| vec![name.into(), value.into()]));
    }
    if view.rows.is_empty() {
        view.missing.push("/proc/net/sockstat could not be read: see whether /proc is there.".to_owned());
    }
    for name in LIMITS {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let Some(text) = files.line(&path) else { continue };
        // Namespaces other than the first have no limit of their own for some of them.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        view.rows.push(vec![name.into(), text.parse::<u64>().map_or_else(|_| text.clone().into(), Into::into)]);
    }
    let queues = counters::snapshot_of_machine();
    let queues = queues.counters.iter().filter(|(_, name, _)| name.starts_with("softnet "));
    view.rows.extend(queues.map(|(_, name, value)| vec![name.into(), value.into()]));
    let statistics =
        interface.and_then(|name| Ethtool::new(name).and_then(|one| one.statistics(StatisticsOf::Driver)).ok());
    let pools = statistics.into_iter().flatten().filter(|(name, _)| name.contains(PAGE_POOL));
    view.rows.extend(pools.map(|(name, value)| vec![format!("page pool {name}").into(), value.into()]));
    view
}

/// `TCP: inuse 5 orphan 0 mem 1` as names and numbers; memory is in pages.
fn pairs(text: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((group, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            let unit = if pair[0] == "mem" { ", pages" } else { "" };
            found.extend(pair[1].parse().ok().map(|value| (format!("{group} {}{unit}", pair[0]), value)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_line() {
        let text = "sockets: used 70\nTCP: inuse 5 orphan 0 tw 2 alloc 7 mem 1\nFRAG: inuse 0 memory x\nnothing\n";
        let found = pairs(text);
        assert_eq!(found[0], ("sockets used".to_owned(), 70));
        assert_eq!(found[5], ("TCP mem, pages".to_owned(), 1));
        assert_eq!(found.len(), 7);
    }

    #[test]
    fn this_machine_has_some() {
        let view = read(&Files::here(), None);
        assert!(view.rows.iter().any(|row| row[0] == "sockets used".into()), "{view:?}");
        assert!(view.rows.iter().any(|row| row[0] == "softnet processed".into()), "{view:?}");
    }
}
