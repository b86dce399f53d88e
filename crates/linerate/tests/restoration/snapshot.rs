//! All that a world is, as lines of text: read with ip(8), tc(8), ethtool(8) and from the kernel's files, never with
//! linerate.
//! Knows what changes by itself, and why that is left out.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::world::{NAMESPACES, World};

/// What one namespace is. A line `# KIND` stands before each part.
const READ: &str = r##"
say() { echo; echo "# $1"; }
# Each prints a line, in this order.
say ip4; ip -4 -d -j -batch - <<END
link show
address show
route show table all
rule show
neighbour show nud permanent
neighbour show proxy
nexthop show
maddress show
END
say ip6; ip -6 -d -j -batch - <<END
address show
route show table all
rule show
neighbour show nud permanent
neighbour show proxy
maddress show
END
say qdisc; tc -d -j qdisc
cd /sys/class/net
for dev in *; do
    [ $dev = lo ] && continue
    say "class $dev"; tc -d -j class show dev $dev
    say "filter $dev"; tc -d -j filter show dev $dev; echo; tc -d -j filter show dev $dev ingress
    if type ethtool >/dev/null; then
        for of in k l c g a; do say "ethtool -$of $dev"; ethtool -$of $dev; done
    fi
done
say sysfs
grep -s . */mtu */tx_queue_len */flags */ifalias */netdev_group */proto_down */threaded */gro_flush_timeout \
    */napi_defer_hard_irqs */queues/*/* */queues/*/byte_queue_limits/limit_m* */queues/*/byte_queue_limits/hold_time
say sysctl; cd /proc/sys; grep -rs . net
"##;

/// Of the machine's own namespace: our link there, and what every campaign may change.
const READ_OUTSIDE: &str = r##"
say() { echo; echo "# $1"; }
say link; ip -d -j link show dev LINK
say addr; ip -d -j addr show dev LINK
say qdisc; tc -d -j qdisc show dev LINK
if type ethtool >/dev/null; then
    for of in k l; do say "ethtool -$of LINK"; ethtool -$of LINK; done
fi
say sysfs; cd /sys/class/net
grep -s . LINK/mtu LINK/tx_queue_len LINK/threaded LINK/gro_flush_timeout LINK/napi_defer_hard_irqs LINK/queues/*/*
say sysctl; cd /proc/sys
grep -rs . net/ipv[46]/conf/LINK net/ipv[46]/neigh/LINK
grep -s . net/core/busy_poll net/core/busy_read net/core/rps_sock_flow_entries
"##;

/// The files of a world that belong to no namespace.
const MACHINE: [&str; 4] = ["/run/rig/cpu", "/run/rig/irq", "/run/rig/word", "/run/rig/number"];

/// Everything, as lines that are equal where nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(Vec<String>);

impl Snapshot {
    /// As the world is now.
    pub fn of(world: &World) -> Snapshot {
        let mut lines = machine(world);
        for namespace in NAMESPACES {
            lines.extend(parse(&world.shell(namespace, READ)).into_iter().map(|line| format!("{namespace} {line}")));
        }
        if let Some(link) = &world.outer_link {
            let text = world.shell_outside(&READ_OUTSIDE.replace("LINK", link));
            lines.extend(parse(&text).into_iter().map(|line| format!("outside {line}")));
        }
        lines.sort();
        Snapshot(lines)
    }

    /// Only what belongs to no namespace.
    pub fn of_machine(world: &World) -> Snapshot {
        let mut lines = machine(world);
        lines.sort();
        Snapshot(lines)
    }

    /// Without the lines in which `is_exempt` finds something.
    pub fn without(&self, is_exempt: impl Fn(&str) -> bool) -> Snapshot {
        Snapshot(self.0.iter().filter(|line| !is_exempt(line)).cloned().collect())
    }

    /// What is in one only: `-` in this, `+` in the later one.
    pub fn difference(&self, later: &Snapshot) -> Vec<String> {
        let (mut before, mut after) = (self.0.iter().peekable(), later.0.iter().peekable());
        let mut lines = Vec::new();
        loop {
            match (before.peek(), after.peek()) {
                (None, None) => return lines,
                (Some(a), Some(b)) if a == b => {
                    before.next();
                    after.next();
                }
                (Some(a), b) if b.is_none_or(|b| a < b) => {
                    lines.push(format!("- {a}"));
                    before.next();
                }
                (_, b) => {
                    lines.extend(b.map(|b| format!("+ {b}")));
                    after.next();
                }
            }
        }
    }

    /// Sysctls of a namespace: name and value.
    pub fn sysctls<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (String, &'a str)> + 'a {
        let lines = self.0.iter().filter_map(move |line| line.strip_prefix(namespace)?.strip_prefix(" sysctl "));
        lines.filter_map(|line| line.split_once(':')).map(|(path, value)| (path.replace('/', "."), value))
    }
}

fn machine(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for path in MACHINE {
        read_below(&world.path(path), path, &mut lines);
    }
    lines
}

fn read_below(path: &Path, name: &str, lines: &mut Vec<String>) {
    match fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries.flatten() {
                let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                read_below(&entry.path(), &name, lines);
            }
        }
        Err(_) => lines.push(format!("machine {name}: {}", fs::read_to_string(path).unwrap_or_default().trim())),
    }
}

/// What the lines of the two batches are.
const IP4: [&str; 8] = ["link", "addr", "route4", "rule4", "neigh4", "proxy4", "nexthop", "maddr"];
const IP6: [&str; 6] = ["addr", "route6", "rule6", "neigh6", "proxy6", "maddr"];

/// A namespace's lines out of what [`READ`] printed.
fn parse(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut part, mut place) = ("", 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(next) = line.strip_prefix("# ") {
            (part, place) = (next, 0);
            continue;
        }
        let kind = match part {
            "ip4" => IP4.get(place).copied().unwrap_or(part),
            "ip6" => IP6.get(place).copied().unwrap_or(part),
            part => part,
        };
        place += 1;
        match serde_json::from_str::<Value>(line) {
            Ok(Value::Array(all)) => all.into_iter().for_each(|one| of_json(kind, one, &mut lines)),
            _ if changes_by_itself(kind, line) => {}
            // Handles of queues, which stand among the words of a class.
            _ if kind.starts_with("class ") => {
                let words = line.split_whitespace().map(|word| if is_automatic(word) { "any" } else { word });
                lines.push(format!("{kind} {}", words.collect::<Vec<_>>().join(" ")));
            }
            _ => lines.push(format!("{kind} {}", line.trim())),
        }
    }
    lines
}

/// Lines of text that change without anybody's doing.
fn changes_by_itself(kind: &str, line: &str) -> bool {
    match kind {
        // A counter.
        "sysfs" => line.contains("/tx_timeout:"),
        // Connections at the moment.
        "sysctl" => line.starts_with("net/netfilter/nf_conntrack_count:"),
        _ => false,
    }
}

fn of_json(kind: &str, mut value: Value, lines: &mut Vec<String>) {
    normalise(&mut value);
    let Some(object) = value.as_object_mut().filter(|object| !object.is_empty()) else { return };
    let name = object.get("ifname").or(object.get("dev")).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        // One line each, so that a difference is short.
        "link" => lines.extend(object.iter().map(|(key, value)| format!("link {name} {key} {value}"))),
        "addr" => {
            let all = object.remove("addr_info").unwrap_or_default();
            lines.extend(all.as_array().into_iter().flatten().map(|one| format!("addr {name} {one}")));
        }
        "maddr" => {
            let all = object.remove("maddr").unwrap_or_default();
            lines.extend(all.as_array().into_iter().flatten().map(|one| format!("maddr {name} {one}")));
        }
        _ => lines.push(format!("{kind} {}", Value::Object(object.clone()))),
    }
}

fn normalise(value: &mut Value) {
    match value {
        Value::Array(all) => {
            // A route whose link has no carrier says so.
            all.retain(|one| !matches!(one.as_str(), Some("linkdown" | "dead")));
            all.iter_mut().for_each(normalise);
        }
        Value::Object(object) => {
            // Timers of a bridge tick, and queues count.
            let is_count = |key: &str| matches!(key, "refcnt" | "direct_packets_stat" | "usedbcqueuelen");
            // Duplicate address detection comes and goes by itself.
            let is_passing = |key: &str| matches!(key, "tentative" | "dadfailed" | "optimistic");
            object.retain(|key, _| !key.ends_with("_timer") && !is_count(key) && !is_passing(key));
            for (key, value) in object {
                let is_handle = matches!(key.as_str(), "handle" | "parent" | "leaf" | "root");
                if is_handle && value.as_str().is_some_and(is_automatic) {
                    *value = Value::from("any");
                }
                normalise(value);
            }
        }
        _ => {}
    }
}

/// Whether a handle was chosen by the kernel, which counts up from 8000:, or by linerate, which counts down from there:
/// nobody refers to it. One that somebody gave must come back.
fn is_automatic(handle: &str) -> bool {
    handle
        .split_once(':')
        .map(|(major, _)| major)
        .and_then(|major| u32::from_str_radix(major, 16).ok())
        .is_some_and(|major| major >= 0x7f00)
}
