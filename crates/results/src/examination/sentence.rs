//! What the steps of an examination say, each in a sentence without a full stop.
//! Knows no step's place among others.

use std::fmt::Write as _;
use std::net::IpAddr;

use linerate_machine::end::{End, Party, PerEnd};
use linerate_machine::probe::{Detection, IcmpError, Protocol, Refusal, RouteKind, TcpReached};
use linerate_path::budget::{DropCause, LossLine};
use linerate_path::stage::Stage;

use super::{Exhausted, Failed, LostAt, MiddleFault, Passed, PerEndMtu, Place, Probe, Silent, Unknown};

impl Passed {
    pub(super) fn sentence(&self) -> String {
        match self {
            Passed::Link { interface, driver, speed_mbps, duplex, mtu } => {
                let driver = driver.as_deref().map(|driver| format!(" ({driver})")).unwrap_or_default();
                let mut text = format!("{interface}{driver} is up");
                if let Some(speed) = speed_mbps {
                    let _ = write!(text, ", {speed} Mbit/s");
                }
                if let Some(duplex) = duplex {
                    let _ = write!(text, " {duplex} duplex");
                }
                if let Some(mtu) = mtu {
                    let _ = write!(text, ", MTU {mtu}");
                }
                text
            }
            Passed::Addresses { target, host } => format!("target {target}, host {host}"),
            Passed::Middle { target, host } => format!("{target} towards the target, {host} towards the host"),
            Passed::Address { address } => format!("nobody else answers for {address} (no duplicate address)"),
            Passed::Route { local: true, .. } => "on the machine itself".to_owned(),
            Passed::Route { interface, gateway, .. } => {
                let by = interface.as_deref().map_or("directly".to_owned(), |interface| format!("by {interface}"));
                gateway.map_or(by.clone(), |gateway| format!("{by}, over {gateway}"))
            }
            Passed::Neighbour { address, mac } => format!("{address} is at {mac}"),
            Passed::Arrivals { filter: Some(filter @ 1..) } => format!("accepted, rp_filter={filter} included"),
            Passed::Arrivals { .. } => "accepted".to_owned(),
            Passed::Room => "room for more connections and descriptors".to_owned(),
            Passed::Answered { answered, lost, median_s } => {
                let requests = if *answered == 1 { "request" } else { "requests" };
                let median = median_s.map(|median| format!(", median {}", short(median)));
                let lost = lost.filter(|lost| *lost > 0).map(|lost| format!("; {lost} lost"));
                format!("{answered} {requests} answered{}{}", median.unwrap_or_default(), lost.unwrap_or_default())
            }
            Passed::Connected { handshake_s, retransmitted } => {
                let within = handshake_s.map(|within| format!(" in {}", short(within))).unwrap_or_default();
                let again = retransmitted.filter(|again| *again > 0).map(|again| format!("; {again} retransmitted"));
                format!("connects{within}, and full segments pass{}", again.unwrap_or_default())
            }
            Passed::Flows { flows } => format!("requests from each of {flows} ports are answered"),
            Passed::Connections { open } => format!("{open} connections at once"),
            Passed::Closed => "the other end's FIN arrives".to_owned(),
            Passed::Size { told_by: None, .. } => "passes whole".to_owned(),
            Passed::Size { octets, told_by: Some(by) } => {
                format!(
                    "the path's MTU is {octets}, which {by} says by ICMP: larger packets are fragmented or made smaller"
                )
            }
            Passed::Ipv6 { target, host } => format!("all of it passes between {target} and {host}, too"),
            Passed::Carried { octets } => format!("{octets} bytes arrive"),
            Passed::Hops { routers: 0 } => "no router between".to_owned(),
            Passed::Hops { routers: 1 } => "1 router between".to_owned(),
            Passed::Hops { routers } => format!("{routers} routers between"),
        }
    }
}

impl Failed {
    pub(super) fn sentence(&self, probe: Probe) -> String {
        match self {
            Failed::SetDown { interface } => {
                let end = probe.end().map_or(String::new(), |end| format!("the {end}'s "));
                format!("{end}{interface} is set down; bring it up there: ip link set {interface} up")
            }
            Failed::NoCarrier { interface } => {
                let end = probe.end().map_or(String::new(), |end| format!("the {end}'s "));
                format!(
                    "{end}{interface} has no carrier: see the cable, the other end's port, and `ip link set {interface} up`"
                )
            }
            Failed::NoAddresses { sentence } => sentence.clone(),
            Failed::AddressGone { address, interface } => format!(
                "the {} has the address {address} no more; give it back: ip address add {address}/… dev {interface}",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Middle { fault } => middle(fault),
            Failed::Duplicate { address, others } => format!(
                "another machine has {address} too: {} answers for it (ARP); give one of them another address",
                others.join(" and ")
            ),
            Failed::Detection { address, detection: Detection::Failed } => format!(
                "another machine has {address} too, says duplicate address detection, so it is not used; give one of them \
                 another address"
            ),
            Failed::Detection { address, detection: Detection::Tentative } => {
                format!("{address} is not used yet, since duplicate address detection goes on; try again in 2 s")
            }
            Failed::Flows { pass, lost } => some_flows(probe, *pass, lost.as_ref()),
            Failed::Ecn { lost } => ecn(probe, lost.as_ref()),
            Failed::Retransmitted { segments, retransmitted } => {
                let asker = probe.end().unwrap_or(End::Host);
                format!(
                    "a TCP connection from the {asker} to the {} opens, and what is sent over it passes when it is retransmitted only \
                     ({retransmitted} of {segments} segments are retransmissions), where no datagram is lost: something on the way \
                     drops what it alone has, such as ECN (net.ipv4.tcp_ecn), or what comes at once",
                    asker.other()
                )
            }
            Failed::FirstSyn { handshake_s, answer_s } => {
                let asker = probe.end().unwrap_or(End::Host);
                format!(
                    "a TCP connection from the {asker} to the {} opens in {} only, when its SYN is sent again, where datagrams are \
                     answered within {}: something on the way drops the first one, by what it alone has, such as ECN \
                     (net.ipv4.tcp_ecn), or by how many come at once",
                    asker.other(),
                    short(*handshake_s),
                    short(*answer_s)
                )
            }
            Failed::NotClosed => {
                let asker = probe.end().unwrap_or(End::Host);
                format!(
                    "a TCP connection from the {asker} to the {to} opens and carries what is sent over it, and the {to}'s end of it (FIN) \
                     does not arrive, so that it never closes: a filter of either end or between drops it (nft list ruleset, \
                     iptables-save)",
                    to = asker.other()
                )
            }
            Failed::Connections { open, refusal: Some(Refusal::NoDescriptors), .. } => format!(
                "{open} connections at once are open from the {}, and its agent has no descriptor left for more (EMFILE); raise the \
                 limit there (ulimit -n), or take fewer streams",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Connections { open, refusal: Some(Refusal::NoPort), .. } => format!(
                "{open} connections at once are open from the {}, and it has no local port left for more (EADDRNOTAVAIL); see \
                 net.ipv4.ip_local_port_range and `ss -s` there",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Connections { open: 0, .. } => format!(
                "one connection from the {} passes, and none of several at once: a filter, a NAT or connection tracking, of either \
                 end or between, counts them, and for a while those that have ended (nft list ruleset, conntrack -L)",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Connections { open, doubled, .. } => {
                let asker = probe.end().map_or("machine", End::name);
                let (connections, pass) = if *open == 1 { ("connection", "passes") } else { ("connections", "pass") };
                let next = match (doubled, open / 2) {
                    (false, _) => format!("try streams={open}"),
                    (true, 0) => "a stream of tcp-crr takes 2".to_owned(),
                    (true, streams) => format!("a stream of tcp-crr takes 2: try streams={streams}"),
                };
                format!(
                    "{open} {connections} at once {pass} from the {asker}, and no more: a filter, a NAT or connection tracking, \
                     of either end or between, counts them (nft list ruleset, conntrack -L); {next}"
                )
            }
            Failed::SameAddress { address } => {
                format!("both ends have the address {address}; give one of them another")
            }
            Failed::Astray { to, interface, expected } => format!(
                "the {}'s route to {to} leads to {interface}, its own address is at {expected}, and nothing arrives; see \
                 `ip route get {to}` there",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Route { to, kind, protocol } => route(probe, *to, *kind, *protocol),
            Failed::NoNeighbour { address, interface, silent: Some(silent), .. } => {
                let to = probe.end().unwrap_or(End::Host).other();
                let (why, next) = match silent {
                    Silent::NoArp { interface } => {
                        (format!("{interface} has no ARP (NOARP)"), format!("ip link set {interface} arp on"))
                    }
                    Silent::ArpIgnore { interface, value } => (
                        format!("arp_ignore={value} has it answer none"),
                        format!("set net.ipv4.conf.{interface}.arp_ignore and .all.arp_ignore to 0"),
                    ),
                };
                format!("nobody on {interface} answers for {address} (ARP): the {to}'s {why}; correct it there: {next}")
            }
            Failed::NoNeighbour { address, interface, is_router, silent: None } => {
                let how = if address.is_ipv4() { "ARP" } else { "neighbour discovery" };
                let who = if *is_router { ", the router on the way" } else { "" };
                format!(
                    "nobody on {interface} answers for {address} ({how}){who}: the machine that has it is off, is at another \
                     cable, has another address, or a filter drops its answers; check the cable and the addresses of both ends"
                )
            }
            Failed::WrongNeighbour { address, interface, mac, permanent, right } => {
                let right = right.join(" or ");
                match probe.end().filter(|_| *permanent) {
                    Some(from) => format!(
                        "the {from} has a permanent neighbour entry that says {address} is at {mac}, and it is at {right}; \
                         remove it: ip neigh del {address} dev {interface}"
                    ),
                    None => format!(
                        "{mac} answers for {address} on {interface}, and the machine that is meant is {right}: another machine \
                         has that address, or answers for it (proxy ARP)"
                    ),
                }
            }
            Failed::SameMac { address, interface, mac } => {
                let from = probe.end().map_or("machine", End::name);
                format!(
                    "{address} is at {mac}, and so is the {from}'s own {interface}: between two interfaces with one Ethernet address \
                     a bridge or a switch forwards nothing; give one of them another (ip link set {interface} address)"
                )
            }
            Failed::Arrivals { interface, filter, back_by } => arrivals(probe, interface, *filter, back_by.as_deref()),
            Failed::Full { room: Exhausted::TrackedConnections, used, of, .. } => format!(
                "the {} tracks {used} connections of {of} that it may, and drops what would be another; raise \
                 net.netfilter.nf_conntrack_max",
                probe.end().map_or("machine", End::name)
            ),
            Failed::Full { room: Exhausted::Descriptors, used, of, needs } => {
                let needs = needs.map(|needs| format!(", and the trial's streams need {needs} more (EMFILE)"));
                format!(
                    "the {}'s agent has {used} descriptors open of {of} that it may{}; raise the limit there (ulimit -n), or take \
                     fewer streams",
                    probe.end().map_or("machine", End::name),
                    needs.unwrap_or_default()
                )
            }
            Failed::Lost { from, is_answer, place, everything, drops, dscp } => {
                let mut text = lost(probe, *from, *is_answer, place, *everything, drops);
                if let Some(dscp) = dscp {
                    let _ = write!(text, "; without dscp={dscp} they pass: look for a rule that goes by it");
                }
                text.push_str(&dropped(drops));
                text
            }
            Failed::Size { largest, mtus, place, drops, routed } => {
                let mut text = too_large(probe, *largest, *mtus, place.as_ref(), *routed);
                text.push_str(&dropped(drops));
                text
            }
            Failed::Hops { sent, routers, asked } => {
                let who =
                    if *asked { format!("the trial's ttl={sent}") } else { format!("the sender's TTL of {sent}") };
                let next =
                    if *asked { "ask for a larger ttl" } else { "raise net.ipv4.ip_default_ttl or hop_limit there" };
                let s = if *routers == 1 { "" } else { "s" };
                format!("{who} does not get over the {routers} router{s} between the ends; {next}")
            }
            Failed::Ipv6 { step } => format!("{}: {}", step.name(), step.sentence()),
            Failed::NoSocket { sentence } => sentence.clone(),
            Failed::Requests { sentence, largest, drops } => {
                let nothing = if matches!(probe, Probe::Stream { .. }) {
                    "nothing of it arrives"
                } else {
                    "not one request was answered"
                };
                let mut text = sentence.clone().unwrap_or_else(|| nothing.to_owned());
                match (probe, largest) {
                    (Probe::Requests { there, back, .. }, Some(largest)) => {
                        let _ = write!(text, "; {}", smaller_mtu(*largest, there.max(back)));
                    }
                    (Probe::Requests { .. }, None) if drops.is_empty() => text.push_str(
                        "; no counter of either end saw a drop: see firewalls, and what is between the two machines",
                    ),
                    _ => {}
                }
                text.push_str(&dropped(drops));
                text
            }
        }
    }
}

impl Probe {
    /// What is sent.
    fn packets(self) -> &'static str {
        match self {
            Probe::Echo { .. } => "ICMP echo requests",
            Probe::Transport { transport: Protocol::Tcp, .. } => "TCP segments",
            Probe::Transport { .. } => "UDP datagrams",
            _ => "packets",
        }
    }
}

fn some_flows(probe: Probe, pass: u16, lost: Option<&LostAt>) -> String {
    let asker = probe.end().map_or("machine", End::name);
    let all = if let Probe::Flows { flows, .. } = probe { flows } else { 0 };
    let text = format!("flows from {pass} of {all} of the {asker}'s ports pass, and the others never do:");
    let what = |lost: &LostAt| if lost.is_answer { "answers to them" } else { "they" };
    match lost.map(|lost| (lost, lost.from.other(), &lost.place)) {
        Some((lost, to, Place::NotUp { interface, .. })) => format!(
            "{text} {} arrive at the {to}'s {interface} and no socket gets them; {} goes by ports or counts flows",
            what(lost),
            input(to)
        ),
        Some((lost, _, Place::NotOut { .. })) => format!(
            "{text} {} do not leave the {}; its output filter ({OUTPUT}) goes by ports or counts flows",
            what(lost),
            lost.from
        ),
        _ => format!(
            "{text} something on the way spreads flows over several links or routers (ECMP, link aggregation) and one of them \
             is dead, or a filter goes by ports or counts flows; look at each member's link, counters and next hop"
        ),
    }
}

fn ecn(probe: Probe, lost: Option<&LostAt>) -> String {
    let asker = probe.end().unwrap_or(End::Host);
    let to = asker.other();
    let whose = match lost.map(|lost| &lost.place) {
        Some(Place::NotUp { interface, .. }) => {
            format!("they arrive at the {to}'s {interface} and no socket gets them: {}", input(to))
        }
        Some(Place::NotOut { .. }) => {
            format!("they do not leave the {asker}: its output filter ({OUTPUT})")
        }
        _ => "a filter, a router or a switch between the two".to_owned(),
    };
    format!(
        "datagrams from the {asker} to the {to} are answered, and none of those that say that they are ECN-capable: {whose} drops \
         them, and TCP, which agrees on ECN here, gets its data through by retransmissions only; correct that, or set \
         net.ipv4.tcp_ecn=0 on both ends"
    )
}

/// What may drop packets that arrived.
fn input(end: End) -> String {
    format!("the {end}'s input filter (nft list ruleset, iptables or ip6tables -nvL INPUT)")
}

/// What shows the rules for packets that leave.
const OUTPUT: &str = "nft list ruleset, iptables or ip6tables -nvL OUTPUT";

fn middle(fault: &MiddleFault) -> String {
    match fault {
        MiddleFault::NoCarrier { interface } => {
            format!("the middle's {interface} has no carrier: see the cable, and `ip link set {interface} up` there")
        }
        MiddleFault::Off { sysctl } => format!("the middle does not forward: set {sysctl} to 1 there"),
        MiddleFault::Blocked { interface } => format!(
            "the middle's bridge does not forward at {interface}, which STP or a person has set so; see `bridge link` there"
        ),
        MiddleFault::Isolated { interfaces: [one, other] } => format!(
            "{one} and {other} of the middle's bridge are both isolated, so that nothing passes between them; bridge link set dev \
             {one} isolated off"
        ),
        MiddleFault::NoBroadcasts { interface } => format!(
            "the middle's bridge sends no broadcasts by {interface}, such as ARP's requests; bridge link set dev {interface} \
             bcast_flood on"
        ),
        MiddleFault::Unlearnt { interface } => format!(
            "the middle's bridge learns no Ethernet addresses at {interface}, and sends nothing there that it has not learnt; bridge \
             link set dev {interface} learning on"
        ),
        MiddleFault::Moves { end, interfaces } => format!(
            "the middle's bridge finds the {end}'s Ethernet address at {} by turns: another machine has that address too, or there is a \
             loop (bridge fdb show there)",
            interfaces.join(" and at ")
        ),
    }
}

fn route(probe: Probe, to: IpAddr, kind: RouteKind, protocol: Option<Protocol>) -> String {
    let from = probe.end().map_or("machine", End::name);
    let what = protocol.map_or(String::new(), |protocol| format!(" of {}", protocol.name()));
    let rule = if protocol.is_some() { ", by a policy rule" } else { "" };
    let look = if protocol.is_some() { "ip rule" } else { "ip route get" };
    let look = if protocol.is_some() { look.to_owned() } else { format!("{look} {to}") };
    match kind {
        RouteKind::Blackhole => {
            format!("a blackhole route{rule} of the {from} swallows packets{what} to {to}; see `{look}` there")
        }
        RouteKind::Unreachable => {
            format!("an unreachable route{rule} of the {from} refuses packets{what} to {to}; see `{look}` there")
        }
        RouteKind::Prohibit => {
            format!("a prohibit route{rule} of the {from} refuses packets{what} to {to}; see `{look}` there")
        }
        _ => format!(
            "the {from} has no route for packets{what} to {to}; give both ends addresses in one subnet, or add a route there: \
             ip route add {to} via ROUTER"
        ),
    }
}

fn arrivals(probe: Probe, interface: &str, filter: Option<u8>, back_by: Option<&str>) -> String {
    let end = probe.end().map_or("machine", End::name);
    match filter {
        Some(filter @ 1..) => {
            let back = match back_by {
                Some(back) => format!("answers would leave by {back}"),
                None => "no route leads back".to_owned(),
            };
            format!(
                "the {end}'s reverse path filter (rp_filter={filter}) drops what arrives at {interface}: {back}; correct the \
                 route, or set net.ipv4.conf.{interface}.rp_filter and .all.rp_filter to 0 (2 where a route leads back)"
            )
        }
        _ => format!(
            "the {end}'s kernel takes nothing from the other end's address at {interface}: it counts as impossible there (a \
             martian); see that no address is on both machines"
        ),
    }
}

fn lost(probe: Probe, from: End, is_answer: bool, place: &Place, everything: bool, drops: &[LossLine]) -> String {
    let to = from.other();
    let what = match probe {
        _ if everything => "packets".to_owned(),
        Probe::Transport { transport, .. } if is_answer => format!("{} answers", transport.name()),
        Probe::Echo { .. } if is_answer => "ICMP echo replies".to_owned(),
        probe => probe.packets().to_owned(),
    };
    let is_policy = |line: &LossLine| line.end == Party::from(from) && line.cause == Some(DropCause::PolicyOut);
    let is_counted = |line: &LossLine| line.end == Party::from(to) && line.stage == Stage::ReceiverStack;
    match place {
        Place::Refused { refusal: Refusal::NotPermitted } if drops.iter().any(is_policy) => {
            format!("the {from} refuses to send {what} to the {to} (EPERM)")
        }
        Place::Refused { refusal: Refusal::NotPermitted } => format!(
            "the {from} refuses to send {what} to the {to} (EPERM): a rule of its own output filter does ({OUTPUT})"
        ),
        Place::Refused { refusal: Refusal::NoDescriptors } => format!(
            "the {from}'s agent has no descriptor left for a socket (EMFILE); raise the limit there (ulimit -n)"
        ),
        Place::Refused { refusal: Refusal::NoPort } => format!(
            "the {from} has no local port left, or not this address (EADDRINUSE, EADDRNOTAVAIL); see \
             net.ipv4.ip_local_port_range and `ss -s` there"
        ),
        Place::Refused { refusal } => {
            let why = match refusal {
                Refusal::Refused => "connection refused".to_owned(),
                Refusal::HostUnreachable => "host unreachable".to_owned(),
                Refusal::NetUnreachable => "network unreachable".to_owned(),
                Refusal::Prohibited => "permission denied".to_owned(),
                Refusal::Invalid => "invalid argument, as of a blackhole route".to_owned(),
                Refusal::Reset => "connection reset".to_owned(),
                Refusal::TimedOut => "timed out".to_owned(),
                Refusal::Other(words) => words.clone(),
                Refusal::NotPermitted | Refusal::NoDescriptors | Refusal::NoPort => String::new(),
            };
            format!("the {from} cannot send {what} to the {to}: {why}; see its routes and filters")
        }
        Place::NoNeighbour { address } => {
            format!("{what} from the {from} to the {to} wait for {address}, for which nobody answers, and do not leave")
        }
        Place::Unused { address } => format!(
            "the {from} sends no {what} to the {to}: it does not use {address}, as duplicate address detection has it"
        ),
        Place::NotOut { interface } => {
            let at = interface.as_deref().unwrap_or("an interface");
            format!(
                "the {from}'s kernel takes {what} to the {to} and none leaves by {at}: its output filter or a queueing \
                 discipline drops them ({OUTPUT}; tc -s qdisc show dev {at})"
            )
        }
        Place::Icmp { said, end: Some(end) } if said.what == IcmpError::PortUnreachable && *end == to => format!(
            "the {to} rejects {what} from the {from} (ICMP port unreachable), though a socket is open there: {} does",
            input(to)
        ),
        Place::Icmp { said, end: Some(end) } => {
            format!("the {end} rejects {what} from the {from} (ICMP {}): see its filters and routes", said.what.words())
        }
        Place::Icmp { said, end: None } => {
            let by = said.by.map_or("a machine on the way".to_owned(), |by| by.to_string());
            let next = match said.what {
                IcmpError::Prohibited => "a filter there forbids it",
                IcmpError::NetUnreachable => "it has no route there",
                IcmpError::HostUnreachable => "it finds nobody who has that address",
                IcmpError::TimeExceeded => "their TTL is too small, or they go in a circle (traceroute)",
                IcmpError::TooBig => "they are too large for the next link",
                _ => "a filter there rejects it",
            };
            format!("{by} on the way rejects {what} from the {from} to the {to} (ICMP {}): {next}", said.what.words())
        }
        Place::Reset { end: Some(end) } => {
            format!("the {end} resets connections though a socket listens there: {} does", input(*end))
        }
        Place::Reset { end: None } => {
            format!("connections from the {from} to the {to} are reset, and not by the {to}: a filter on the way does")
        }
        Place::Between { left_by, expected, arrives_at } => {
            let by = left_by.join(" and ");
            let astray = expected.as_deref().filter(|expected| !left_by.iter().any(|by| by == expected));
            let at = arrives_at.as_deref().map_or(String::new(), |at| format!("'s {at}"));
            let next = match astray {
                Some(expected) => {
                    format!("its address is at {expected}, so they leave by another way; see `ip route get` there")
                }
                None => "a filter, a router that does not forward, or a switch between the two drops them".to_owned(),
            };
            let be = if astray.is_some() { "the sender's route decides: " } else { "" };
            format!("{what} leave the {from} by {by} and do not arrive at the {to}{at}: {be}{next}")
        }
        Place::Back { interface } => format!(
            "{what} from the {from} to the {to} come back to the {from}'s {interface}: a router on the way sends them back, so that \
             they go in a circle; see the routes of the routers (traceroute)"
        ),
        Place::Program { interface } => {
            format!(
                "{what} from the {from} arrive at the {to}'s {interface}, and {} before its stack",
                program(interface)
            )
        }
        Place::ForAnother { interface } => format!(
            "{what} arrive at the {to}'s {interface} addressed to another Ethernet address: the neighbour entry on the way, of \
             the {from} or of a router, is wrong (ip neigh)"
        ),
        Place::WrongChecksum { interface } => format!(
            "{what} from the {from} arrive at the {to}'s {interface} with a wrong checksum, and its stack drops them: the {from} \
             leaves checksums to its MAC, and neither that nor the next link fills them in; try {from}.tx_checksum=off"
        ),
        Place::NotUp { interface, expected } => {
            let elsewhere = expected.as_ref().filter(|expected| *expected != interface);
            match elsewhere {
                Some(expected) => format!(
                    "{what} from the {from} arrive at the {to}'s {interface}, its address is at {expected}, and no socket gets \
                     them: {} or rp_filter drops them",
                    input(to)
                ),
                // The counters that say who it was come behind.
                None if drops.iter().any(is_counted) => {
                    format!("{what} from the {from} arrive at the {to}'s {interface} and no socket gets them")
                }
                None => format!(
                    "{what} from the {from} arrive at the {to}'s {interface} and no socket gets them: {} drops them, and says \
                     nothing",
                    input(to)
                ),
            }
        }
        Place::Lossy { lost, sent } => format!(
            "{what} from the {from} to the {to} come to nothing, and so did {lost} of {sent} other requests: the way loses packets, \
             whatever they are; linerate run udp-stream says how many"
        ),
        Place::Stalled { reached, reset: true, .. } => {
            let then = if *reached == TcpReached::Open { "and" } else { "small segments pass, and then it" };
            format!(
                "a TCP connection from the {from} to the {to} opens, {then} is reset: a filter or a middlebox between the two \
                 breaks it off"
            )
        }
        Place::Stalled { reached: TcpReached::Open, .. } => format!(
            "a TCP connection from the {from} to the {to} opens, and nothing passes over it: a filter or a middlebox between \
             the two lets the handshake through alone"
        ),
        Place::Stalled { acknowledged: Some(acknowledged), .. } => format!(
            "a TCP connection from the {from} to the {to} opens, and of the full segments sent over it {acknowledged} bytes are \
             acknowledged within some seconds, and not all: the way is slow, or loses most of them"
        ),
        Place::Stalled { full_datagrams: true, .. } => format!(
            "a TCP connection from the {from} to the {to} opens and small segments pass, and full ones not within some seconds, \
             though datagrams of their size pass: the way is slow, or something on it treats full segments otherwise"
        ),
        Place::Stalled { .. } => format!(
            "a TCP connection from the {from} to the {to} opens and small segments pass, full ones do not: see the MTU on the \
             way"
        ),
        Place::Late { within_s } => format!(
            "{what} from the {from} to the {to} are not there within {within_s:.1} s: packets and their answers take long on this way, \
             and come later"
        ),
        Place::Unseen => format!(
            "{what} from the {from} to the {to} come to nothing, and nobody says why; an agent with CAP_NET_RAW on both ends \
             can tell where. See firewalls, and what is between the two machines"
        ),
    }
}

fn smaller_mtu(largest: u32, size: u32) -> String {
    format!(
        "packets of up to {largest} bytes pass, and the links say {size}: something on the way has a smaller MTU and drops \
         what is larger without a word; find it, or set the MTU of both ends to {largest}"
    )
}

fn too_large(probe: Probe, largest: u32, mtus: PerEndMtu, place: Option<&Place>, routed: bool) -> String {
    let Probe::Size { from, octets } = probe else { return smaller_mtu(largest, largest) };
    let to = from.other();
    let mtus = PerEnd { target: mtus.target, host: mtus.host };
    let text = format!("packets of more than {largest} bytes do not pass from the {from} to the {to}");
    match (mtus[to], place) {
        // What a link takes is a VLAN's header or two larger than what it says.
        (Some(theirs), _) if (theirs..theirs + 16).contains(&largest) && largest < octets && !routed => {
            format!("{text}: the {to}'s MTU is {theirs}, and the {from}'s is {octets}; give both the same")
        }
        (_, Some(Place::NotOut { interface })) => {
            let at = interface.as_deref().unwrap_or("its interface");
            format!(
                "{text}: packets of up to {largest} bytes pass, and the links say {octets}; larger ones do not leave the \
                 {from}'s {at}: see its queueing discipline and output filter (tc -s qdisc show dev {at}, nft list ruleset)"
            )
        }
        (_, Some(Place::NotUp { interface, .. })) => format!(
            "{text}: packets of up to {largest} bytes pass, and the links say {octets}; larger ones arrive at {interface} and \
             no socket gets them: see {}",
            input(to)
        ),
        (_, Some(Place::Program { interface })) => format!(
            "{text}: packets of up to {largest} bytes pass, and the links say {octets}; larger ones arrive at the {to}'s \
             {interface}, and {} before its stack",
            program(interface)
        ),
        _ if routed => format!(
            "{text}, and no ICMP says so: a router on the way has a link with a smaller MTU than the {from}'s {octets}, and what it \
             says of it is lost; let ICMP pass (fragmentation needed, packet too big), or set the {from}'s MTU to {largest}"
        ),
        _ => format!("{text}, and no ICMP says so: {}", smaller_mtu(largest, octets)),
    }
}

fn program(interface: &str) -> String {
    format!(
        "an XDP program or a filter of tc there drops them (ip -d link show dev {interface}, tc filter show dev {interface} ingress)"
    )
}

fn dropped(lines: &[LossLine]) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = write!(
            text,
            "; meanwhile {} packets were dropped at the {}'s {}: {}",
            line.packets,
            line.end,
            line.stage,
            line.evidence()
        );
    }
    text
}

/// A time that a packet takes there and back, or one that was sent again.
fn short(seconds: f64) -> String {
    if seconds < 0.01 { format!("{:.0} µs", seconds * 1e6) } else { format!("{:.0} ms", seconds * 1e3) }
}

impl Unknown {
    pub(super) fn sentence(&self) -> String {
        match self {
            Unknown::OldAgent { end } => {
                format!("not known: the {end}'s agent is of an older version; install this one there")
            }
            Unknown::NoAgent { end } => format!("not known: the {end} has no agent"),
            Unknown::NotPermitted { end } => format!("not known: the {end} does not permit its agent (CAP_NET_RAW)"),
            Unknown::NoArp { end, interface } => format!("not asked: the {end}'s {interface} has no ARP"),
            Unknown::EchoIgnored { end } => {
                format!("not answered: the {end} is set to ignore it (icmp_echo_ignore_all)")
            }
            Unknown::EchoFiltered => "not answered, which is no fault: other traffic passes".to_owned(),
            Unknown::NotAnswered => "not answered: a filter may drop it, or nothing comes through".to_owned(),
            Unknown::NotTried => "not tried: what comes before does not pass".to_owned(),
            Unknown::NotTold => "not known: the kernel does not say".to_owned(),
            Unknown::NoPorts { target, host } => {
                let known = |port: &Option<String>| port.clone().unwrap_or_else(|| "unknown".to_owned());
                format!(
                    "not known: by which interfaces the middle forwards was not found (towards the target: {}, towards the host: {}); \
                     name them with --middle-interfaces, the one towards the target first",
                    known(target),
                    known(host)
                )
            }
            Unknown::NotSpoken { sentence } => format!("not known: {sentence}"),
            Unknown::Lossy => "not known: packets of a size that had passed before were lost, too".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_none_of_several_connections_passes_no_number_of_streams_is_advised() {
        let says = |open: u16| {
            let probe = Probe::Connections { asker: End::Host, connections: 6 };
            Failed::Connections { open, refusal: None, doubled: false }.sentence(probe)
        };
        assert!(says(3).contains("3 connections at once pass from the host, and no more"), "{}", says(3));
        assert!(says(3).ends_with("try streams=3"), "{}", says(3));
        assert!(says(0).starts_with("one connection from the host passes, and none of several at once"), "{}", says(0));
        assert!(!says(0).contains("streams="), "{}", says(0));
    }
}
