//! The world of a case: namespaces, cables, a relay, routers; gone with the value, however this program ends.
//! Knows no fault but what the relay is told.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_lab::Namespace;
use linerate_machine::end::End;
use serde_json::Value;

use super::case::{Between, Case, Place};
use super::relay::{COMMAND, PORTS, READY};

/// The interface of both ends.
pub(super) const LINK: &str = "eth0";
/// That of a bridge; its ports are called as the relay's are: left at the target, right at the host.
pub(super) const BRIDGE: &str = "br0";

/// ```text
///   target ── cable ─────────────────────────────── host       one subnet
///   target ── relay ─────────────────────────────── host       one subnet
///   target ── bridge ────────────────────────────── host       one subnet
///   target ── router ────────────────────────────── host       two subnets
///   target ── router ── relay ── second router ──── host       three subnets
/// ```
pub(super) struct World {
    target: Namespace,
    host: Namespace,
    /// The router, or the bridge.
    middle: Option<Namespace>,
    /// The router at the host, where there are two: kept, for nothing is done there.
    _second: Option<Namespace>,
    relay: Option<(Child, Namespace)>,
    between: Between,
    is_ipv6: bool,
}

/// Networks of 198.18.0.0/15, which is set aside for benchmarking (RFC 2544, appendix C.2.2), and of 2001:2::/48
/// (RFC 5180, section 8).
const TARGET_NET: u8 = 2;
const MIDDLE_NET: u8 = 3;
const HOST_NET: u8 = 1;

impl World {
    /// Makes it, and returns when packets pass.
    pub(super) fn up(case: &Case) -> Result<World, String> {
        let make = || Namespace::new().map_err(|error| format!("a network namespace: {error}"));
        let between = case.between;
        let mut world = World {
            target: make()?,
            host: make()?,
            middle: (between.is_routed() || between == Between::Bridge).then(make).transpose()?,
            _second: (between == Between::Routers).then(make).transpose()?,
            relay: None,
            between,
            is_ipv6: case.is_ipv6,
        };
        let relays = between.has_relay().then(make).transpose()?;
        // Without offloads a packet is what a cable would carry, and has its checksum.
        let plain = |link: &str| format!("ethtool -K {link} tso off gso off gro off tx off >/dev/null\n");
        let (target_net, host_net) = if between.is_routed() { (TARGET_NET, HOST_NET) } else { (0, 0) };
        let end = |net: u8, last: u8, router: Option<u8>| {
            let mut lines = format!("ip link set lo up\n{}", address(LINK, net, last));
            if between.has_relay() || between == Between::Bridge {
                lines.push_str(&plain(LINK));
            }
            if let Some(router) = router {
                lines.push_str(&format!(
                    "ip route add default via 198.18.{net}.{router}\nsix ip -6 route add default via 2001:2:0:{net}::{router}\n"
                ));
            }
            lines
        };
        let routed = between.is_routed().then_some(254);
        let target = &world.target;
        match (&world.middle, &world._second, &relays) {
            (Some(bridge), ..) if between == Between::Bridge => {
                cable(target, LINK, bridge, PORTS[0])?;
                cable(bridge, PORTS[1], &world.host, LINK)?;
            }
            (None, _, None) => cable(target, LINK, &world.host, LINK)?,
            (None, _, Some(middle)) => {
                cable(target, LINK, middle, PORTS[0])?;
                cable(middle, PORTS[1], &world.host, LINK)?;
            }
            (Some(router), Some(second), Some(middle)) => {
                cable(target, LINK, router, "near")?;
                cable(router, "far", middle, PORTS[0])?;
                cable(middle, PORTS[1], second, "far")?;
                cable(second, "near", &world.host, LINK)?;
            }
            (Some(router), ..) => {
                cable(target, LINK, router, "near")?;
                cable(router, "far", &world.host, LINK)?;
            }
        }
        shell(target, &end(target_net, 2, routed))?;
        shell(&world.host, &end(host_net, if routed.is_some() { 2 } else { 1 }, routed))?;
        let forwards = "sysctl -qw net.ipv4.ip_forward=1\nsix sysctl -qw net.ipv6.conf.all.forwarding=1\n";
        if let Some(bridge) = world.middle.as_ref().filter(|_| between == Between::Bridge) {
            let ports =
                PORTS.map(|port| format!("{}ip link set {port} master {BRIDGE}\nip link set {port} up\n", plain(port)));
            shell(bridge, &format!("ip link add {BRIDGE} type bridge\nip link set {BRIDGE} up\n{}", ports.concat()))?;
        } else if let Some(router) = &world.middle {
            let (net, last) = if between == Between::Routers { (MIDDLE_NET, 1) } else { (HOST_NET, 254) };
            let mut lines = format!("{forwards}{}{}", address("near", TARGET_NET, 254), address("far", net, last));
            if between == Between::Routers {
                lines.push_str(&plain("far"));
                lines.push_str(&plain("near"));
                lines.push_str(&format!("ip route add 198.18.{HOST_NET}.0/24 via 198.18.{MIDDLE_NET}.2\n"));
                lines.push_str(&format!("six ip -6 route add 2001:2:0:{HOST_NET}::/64 via 2001:2:0:{MIDDLE_NET}::2\n"));
            }
            shell(router, &lines)?;
        }
        if let Some(second) = &world._second {
            let mut lines = format!("{forwards}{}{}", address("near", HOST_NET, 254), address("far", MIDDLE_NET, 2));
            lines.push_str(&plain("far"));
            lines.push_str(&plain("near"));
            lines.push_str(&format!("ip route add 198.18.{TARGET_NET}.0/24 via 198.18.{MIDDLE_NET}.1\n"));
            lines.push_str(&format!("six ip -6 route add 2001:2:0:{TARGET_NET}::/64 via 2001:2:0:{MIDDLE_NET}::1\n"));
            shell(second, &lines)?;
        }
        if let Some(middle) = relays {
            let quiet = PORTS.map(|port| {
                format!("six sysctl -qw net.ipv6.conf.{port}.disable_ipv6=1\n{}ip link set {port} up\n", plain(port))
            });
            shell(&middle, &quiet.concat())?;
            let relay = start_relay(&middle, case)?;
            world.relay = Some((relay, middle));
        }
        world.wait_until_it_passes()?;
        Ok(world)
    }

    pub(super) fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Target => &self.target,
            End::Host => &self.host,
        }
    }

    /// An end's address, if both do not share a subnet.
    pub(super) fn address(&self, end: End) -> Option<String> {
        let net = match end {
            End::Target => TARGET_NET,
            End::Host => HOST_NET,
        };
        let text = if self.is_ipv6 { format!("2001:2:0:{net}::2") } else { format!("198.18.{net}.2") };
        self.between.is_routed().then_some(text)
    }

    /// Lines for sh(1); what they print.
    pub(super) fn shell(&self, place: Place, lines: &str) -> Result<String, String> {
        let namespace = match place {
            Place::Target => &self.target,
            Place::Host => &self.host,
            Place::Middle => self.middle.as_ref().ok_or("this world has neither router nor bridge")?,
        };
        shell(namespace, lines)
    }

    /// Packets over the target's link so far, both ways.
    pub(super) fn packets(&self) -> u64 {
        let dev = self.target.run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap_or_default();
        let line = dev.lines().find_map(|line| line.trim().strip_prefix(LINK)?.strip_prefix(':')).unwrap_or_default();
        let figures: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        figures.first().map_or(0, |_| figures[1] + figures[9])
    }

    /// Ends the relay and returns its account; `Null` where there is none.
    pub(super) fn account(&mut self) -> Result<Value, String> {
        let Some((mut relay, _middle)) = self.relay.take() else { return Ok(Value::Null) };
        drop(relay.stdin.take());
        let mut said = String::new();
        relay.stdout.take().ok_or("the relay has no output")?.read_to_string(&mut said).map_err(no_account)?;
        let status = relay.wait().map_err(no_account)?;
        serde_json::from_str(&said).map_err(|error| format!("the relay's account ({status}): {error}"))
    }

    /// A closed port of the target refuses a connection from the host once the way is there and back.
    fn wait_until_it_passes(&self) -> Result<(), String> {
        let net = if self.between.is_routed() { TARGET_NET } else { 0 };
        let to = if self.is_ipv6 { format!("[2001:2:0:{net}::2]:9") } else { format!("198.18.{net}.2:9") };
        let address: SocketAddr = to.parse().map_err(|error| format!("{to}: {error}"))?;
        let deadline = Instant::now() + Duration::from_secs(5);
        let refuses = || match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        };
        while let Err(error) = self.host.run(refuses) {
            if Instant::now() > deadline {
                return Err(format!("{to} does not answer in a world of {}: {error}", self.between.name()));
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((relay, _)) = &mut self.relay {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

fn no_account(error: io::Error) -> String {
    format!("the relay's account: {error}")
}

fn cable(one: &Namespace, one_name: &str, other: &Namespace, other_name: &str) -> Result<(), String> {
    let to = other.path();
    let line = format!("ip link add {one_name} type veth peer name {other_name} netns {}", to.display());
    shell(one, &line).map(drop)
}

/// Lines that give an interface its addresses and set it up.
fn address(link: &str, net: u8, last: u8) -> String {
    format!(
        "six sysctl -qw net.ipv6.conf.{link}.accept_dad=0 net.ipv6.conf.{link}.keep_addr_on_down=1\n\
         ip address add 198.18.{net}.{last}/24 dev {link}\n\
         six ip address add 2001:2:0:{net}::{last}/64 dev {link} nodad\n\
         ip link set {link} up\n"
    )
}

/// `six COMMAND` does what a kernel without IPv6 cannot.
const PRELUDE: &str = "six() { [ ! -e /proc/net/if_inet6 ] || \"$@\"; }\n";

/// Lines for sh(1) in a namespace; what they print. /proc/sys/net is that of the shell's namespace.
fn shell(namespace: &Namespace, lines: &str) -> Result<String, String> {
    let script = format!("{PRELUDE}{lines}");
    let done = namespace
        .run(|| Command::new("timeout").args(["20", "sh", "-ec", &script]).stdin(Stdio::null()).output())
        .map_err(|error| format!("sh: {error}"))?;
    if !done.status.success() {
        return Err(format!("{}: {}", lines.trim(), String::from_utf8_lossy(&done.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn start_relay(middle: &Namespace, case: &Case) -> Result<Child, String> {
    let itself = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    // Before all that shares the CPUs: a cable waits for no CPU.
    let mut command = Command::new("chrt");
    command.args(["-f", "10"]).arg(itself).args(["faults", COMMAND, &case.seed.to_string()]);
    command.args(case.impairments.map(|impairment| impairment.write().to_string()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    middle.confine(&mut command).map_err(|error| format!("the relay's namespace: {error}"))?;
    let mut relay = command.spawn().map_err(|error| format!("chrt(1) cannot be started: {error}"))?;
    let mut said = String::new();
    let mut lines = BufReader::with_capacity(1, relay.stdout.take().ok_or("the relay has no output")?);
    lines.read_line(&mut said).map_err(no_account)?;
    relay.stdout = Some(lines.into_inner());
    if said.trim() != READY {
        let _ = relay.kill();
        let _ = relay.wait();
        return Err(format!("the relay does not forward: {said}"));
    }
    Ok(relay)
}
