//! What /proc says while a tool runs: CPU time of the machine, of a process, of a thread; ports; namespaces.
//! Knows no tool.

use std::fs;
use std::path::Path;

/// USER_HZ, in which /proc counts, is 100 on every architecture that these benchmarks run on (time(7)).
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds that this machine was busy since it started: neither idle, nor waiting, nor stolen.
pub(super) fn busy_s() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    busy_in(&text).ok_or_else(|| "/proc/stat is not as proc(5) has it".to_owned())
}

fn busy_in(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq: proc(5). Guests' time is part of user's.
    (ticks.len() >= 7).then(|| (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / TICKS_PER_S)
}

/// CPU seconds of a process, all its threads, those that ended too; `None`: it is gone.
pub(super) fn process_cpu_s(pid: u32) -> Option<f64> {
    cpu_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn cpu_in(stat: &str) -> Option<f64> {
    // The name may have spaces and parentheses; after its last one comes the third field.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_S)
}

/// CPU seconds of the threads of this name in a process, to the nanosecond (the first figure of schedstat,
/// Documentation/scheduler/sched-stats.rst).
pub(super) fn thread_cpu_s(pid: u32, name: &str) -> Option<f64> {
    let mut sum = None;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == name
            && let Some(ns) = read("schedstat").split_whitespace().next().and_then(|word| word.parse::<f64>().ok())
        {
            sum = Some(sum.unwrap_or(0.0) + ns / 1e9);
        }
    }
    sum
}

/// The processes in this network namespace.
pub(super) fn processes_in(namespace: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|name| name == namespace)).collect()
}

/// The name of a process, at most 15 octets of it.
pub(super) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Whether somebody in this process's network namespace listens on a port.
pub(super) fn listens(pid: u32, udp: bool, port: u16) -> bool {
    let files = if udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    files.iter().any(|file| {
        fs::read_to_string(format!("/proc/{pid}/net/{file}")).is_ok_and(|text| has_listener(&text, udp, port))
    })
}

fn has_listener(text: &str, udp: bool, port: u16) -> bool {
    const LISTEN: &str = "0A";
    text.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let local = words.get(1).and_then(|local| local.rsplit_once(':')).map(|(_, port)| port);
        local == Some(format!("{port:04X}").as_str()) && (udp || words.get(3) == Some(&LISTEN))
    })
}

/// Packets that a link sent, and those that it received, by its own counters (/proc/net/dev).
pub(super) fn link_packets(text: &str, link: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(link)?.strip_prefix(':'))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some((*fields.get(9)?, *fields.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_neither_idle_nor_waiting_nor_stolen() {
        assert_eq!(busy_in("cpu  100 10 200 9000 50 5 85 7 3 0\ncpu0 1 1 1 1 1 1 1\n"), Some(4.0));
        assert_eq!(busy_in("cpu  100 10\n"), None);
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 100 1 1";
        assert_eq!(cpu_in(stat), Some(3.0));
        assert_eq!(cpu_in("77 (a"), None);
    }

    #[test]
    fn this_process_has_used_a_cpu_and_has_a_namespace() {
        let pid = std::process::id();
        assert!(process_cpu_s(pid).is_some());
        let namespace = fs::read_link("/proc/self/ns/net").unwrap();
        assert!(processes_in(&namespace).contains(&pid));
        assert_eq!(thread_cpu_s(pid, "no such thread"), None);
    }

    #[test]
    fn listeners_and_only_they() {
        let tcp = "  sl  local_address rem_address   st\n   0: 0100007F:1451 00000000:0000 0A 0\n   \
                   1: 0100007F:1389 0100007F:1451 01 0\n";
        assert!(has_listener(tcp, false, 5201) && !has_listener(tcp, false, 5001) && has_listener(tcp, true, 5001));
    }

    #[test]
    fn a_links_packets() {
        let text = "Inter-|\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0\n  eth0: 500 20 0 0 0 0 0 0 700 30 0 0\n";
        assert_eq!(link_packets(text, "eth0"), Some((30, 20)));
        assert_eq!(link_packets(text, "eth1"), None);
    }
}
