//! Settings of the kernel's network stack that matter to throughput: one table.
//! Knows their names; /proc/sys/net shows those of the reading thread's network namespace (proc(5)).

use std::collections::BTreeMap;

/// Names as sysctl(8) writes them, from Documentation/admin-guide/sysctl/net.rst and
/// Documentation/networking/ip-sysctl.rst. `INTERFACE` stands for the trial's. A kernel has some of them.
const SYSCTLS: &[&str] = &[
    "net.core.rmem_max",
    "net.core.rmem_default",
    "net.core.wmem_max",
    "net.core.wmem_default",
    "net.core.optmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.dev_weight",
    "net.core.default_qdisc",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.somaxconn",
    "net.core.rps_sock_flow_entries",
    "net.core.gro_normal_batch",
    "net.core.high_order_alloc_disable",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.udp_mem",
    "net.ipv4.udp_rmem_min",
    "net.ipv4.udp_wmem_min",
    "net.ipv4.ip_forward",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv4.ipfrag_time",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.INTERFACE.rp_filter",
    "net.ipv4.neigh.INTERFACE.unres_qlen_bytes",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv6.neigh.default.gc_thresh3",
    "net.ipv6.ip6frag_high_thresh",
    "net.ipv6.ip6frag_time",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.INTERFACE.disable_ipv6",
    "net.ipv6.conf.INTERFACE.mtu",
];

/// Those of the table that a kernel has whose files are read so, with `interface` in its place.
pub(super) fn of(interface: Option<&str>, read: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    SYSCTLS
        .iter()
        .filter_map(|name| {
            let path = path(name, interface)?;
            // Fields are separated by tabs in the files.
            let value = read(&path)?.split_whitespace().collect::<Vec<_>>().join(" ");
            Some((name.replace("INTERFACE", interface.unwrap_or_default()), value))
        })
        .collect()
}

/// The file behind a name. Only the table's dots separate: an interface may have dots of its own (`eth0.5`).
fn path(name: &str, interface: Option<&str>) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    match interface {
        // A slash, or `..`, is no interface and must not become a path.
        Some(interface) if !interface.contains('/') && interface != ".." => Some(path.replace("INTERFACE", interface)),
        _ => (!path.contains("INTERFACE")).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (name, interface, want) in [
            ("net.core.rmem_max", None, Some("/proc/sys/net/core/rmem_max")),
            ("net.ipv6.conf.INTERFACE.mtu", Some("eth0.5"), Some("/proc/sys/net/ipv6/conf/eth0.5/mtu")),
            ("net.ipv6.conf.INTERFACE.mtu", None, None),
            ("net.ipv6.conf.INTERFACE.mtu", Some("../x"), None),
            ("net.ipv6.conf.INTERFACE.mtu", Some(".."), None),
        ] {
            assert_eq!(path(name, interface).as_deref(), want);
        }
    }

    #[test]
    fn values_are_read_with_single_spaces() {
        let sysctls = of(Some("lo"), |path| std::fs::read_to_string(path).ok());
        assert_eq!(sysctls["net.ipv4.tcp_rmem"].split(' ').count(), 3);
        assert!(sysctls.keys().all(|name| !name.contains("INTERFACE")));
    }
}
