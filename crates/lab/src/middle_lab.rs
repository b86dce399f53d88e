//! Three machines in a row: a host, a target, and between them one that forwards, as a bridge, a router or a NAT.
//! Knows no traffic and no limits: what the middle drops is for who sets it.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::LabError;
use crate::lab::{
    CARRIER_PATIENCE, IPV4_PREFIX, LINK_NAME, namespace_refused, receive_on_last_cpu, step, wait_until_up,
};
use crate::link::{LOOPBACK, Links};
use crate::sys::Namespace;

/// The middle's interfaces, towards the host and towards the target.
pub const PORTS: [&str; 2] = ["p0", "p1"];

/// How the machine in the middle forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwards {
    /// By Ethernet addresses; host and target are in one subnet.
    Bridge,
    /// By IP; host and target know it as their gateway.
    Router,
    /// By IP, in its own name towards the target, which knows nothing of the host.
    Nat,
}

impl Forwards {
    /// All of them.
    pub const ALL: [Forwards; 3] = [Forwards::Bridge, Forwards::Router, Forwards::Nat];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Forwards::Bridge => "bridge",
            Forwards::Router => "router",
            Forwards::Nat => "nat",
        }
    }
}

/// A host, a target and a middle out of three network namespaces.
///
/// ```text
///        host                    middle                    target
///   198.18.0.1  eth0 ── veth ── p0 │ p1 ── veth ── eth0  198.18.0.2     bridge
///                      .254 of 0 │ .254 of 1            198.18.1.2     router, NAT
/// ```
///
/// The namespaces have no names: they are open files of this process and end with it, however it ends.
pub struct MiddleLab {
    /// The host, in which [`Namespace::run`] runs.
    pub host: Namespace,
    /// The middle, likewise.
    pub middle: Namespace,
    /// The target, likewise.
    pub target: Namespace,
    notes: Vec<String>,
}

impl MiddleLab {
    /// Makes the three, and returns when packets pass.
    pub fn up(forwards: Forwards) -> Result<MiddleLab, LabError> {
        let make = || Namespace::new().map_err(namespace_refused);
        let (host, middle, target) = (make()?, make()?, make()?);
        let mut lab = MiddleLab { host, middle, target, notes: Vec::new() };
        let peer = lab.middle.fd();
        let ends = [(&lab.host, c"p0", 0, 1), (&lab.target, c"p1", u8::from(forwards != Forwards::Bridge), 2)];
        for (end, port, subnet, number) in ends {
            step("making a link", end.run(|| Links::new().add_pair_of(c"eth0", port, peer)))?;
            let address = Ipv4Addr::new(198, 18, subnet, number);
            step("setting an end up", end.run(|| set_up_end(address)))?;
        }
        step("setting the middle up", lab.middle.run(|| set_up_middle(forwards)))?;
        let deadline = Instant::now() + CARRIER_PATIENCE;
        // A bridge forwards at a port once it is up there, too.
        let watched: [(&Namespace, &[&CStr]); 3] =
            [(&lab.host, &[c"eth0"]), (&lab.target, &[c"eth0"]), (&lab.middle, &[c"p0", c"p1"])];
        for (machine, names) in watched {
            let are_up = || {
                let index = |name: &&CStr| Links::new().index(name);
                let links = names.iter().map(index).collect::<io::Result<Vec<_>>>()?;
                links.into_iter().try_fold(true, |all, link| Ok(wait_until_up(link, deadline)? && all))
            };
            if !step("watching a link", machine.run(are_up))? {
                return Err(LabError::NoCarrier);
            }
        }
        if forwards != Forwards::Bridge {
            let gateway = |subnet| IpAddr::V4(Ipv4Addr::new(198, 18, subnet, 254));
            step("giving the host its route", lab.host.run(|| Links::new().add_gateway(gateway(0))))?;
            match forwards {
                Forwards::Nat => step("making the NAT", lab.middle.run(masquerade))?,
                _ => step("giving the target its route", lab.target.run(|| Links::new().add_gateway(gateway(1))))?,
            }
        }
        // As a machine of its own would: else the CPU of each sender forwards too, and nothing is lost for want of one.
        if let Err(error) = lab.middle.run_with_sysfs(|| PORTS.iter().try_for_each(|port| receive_on_last_cpu(port))) {
            lab.notes.push(format!(
                "the middle forwards on the CPUs of those who send, because it may not choose its own ({error}): what it \
                 could drop for want of a CPU, the sender feels instead"
            ));
        }
        Ok(lab)
    }

    /// What is not as it should be, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Nothing of IPv6 is wanted, and its questions would be in everybody's counters.
fn no_ipv6(interface: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1");
}

fn set_up_end(address: Ipv4Addr) -> io::Result<()> {
    let mut links = Links::new();
    let link = links.index(c"eth0")?;
    no_ipv6(LINK_NAME);
    links.set_up(LOOPBACK, true)?;
    links.set_up(link, true)?;
    links.add_address(link, IpAddr::V4(address), IPV4_PREFIX)
}

fn set_up_middle(forwards: Forwards) -> io::Result<()> {
    let mut links = Links::new();
    links.set_up(LOOPBACK, true)?;
    let bridge = match forwards {
        Forwards::Bridge => {
            links.add_bridge(c"br0")?;
            no_ipv6("br0");
            Some(links.index(c"br0")?)
        }
        _ => None,
    };
    for (subnet, (name, port)) in [c"p0", c"p1"].into_iter().zip(PORTS).enumerate() {
        let link = links.index(name)?;
        no_ipv6(port);
        match bridge {
            Some(bridge) => links.set_master(link, bridge)?,
            None => links.add_address(link, IpAddr::V4(Ipv4Addr::new(198, 18, subnet as u8, 254)), IPV4_PREFIX)?,
        }
        links.set_up(link, true)?;
    }
    match bridge {
        Some(bridge) => links.set_up(bridge, true),
        None => fs::write("/proc/sys/net/ipv4/ip_forward", "1"),
    }
}

/// What leaves towards the target leaves in the middle's name.
fn masquerade() -> io::Result<()> {
    const RULES: &[u8] = b"table ip nat {\n chain out {\n  type nat hook postrouting priority 100;\n  oifname \"p1\" masquerade\n }\n}\n";
    let refused = |error: io::Error| io::Error::new(error.kind(), format!("nft: {error}; install nftables"));
    let mut nft = Command::new("nft");
    nft.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut nft = nft.spawn().map_err(refused)?;
    if let Some(mut rules) = nft.stdin.take() {
        rules.write_all(RULES)?;
    }
    let ended = nft.wait_with_output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}
