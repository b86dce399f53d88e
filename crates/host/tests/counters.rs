//! Counters and the loss budget against known numbers of datagrams, over real network namespaces.
//! Needs root and `ip` and `tc` (iproute2); says so and passes where they are missing.
//!
//! ```text
//!   namespace a            namespace b
//!   10.98.0.1, fd98::1     10.98.0.2, fd98::2
//!        link0 ── veth ── link0
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use linerate_host::counters::snapshot;
use linerate_host::{environment, interfaces};
use linerate_machine::end::End;
use linerate_path::budget::{Chain, Datagrams, LossBudget, MachineAccount, loss_budget};
use linerate_path::stage::{Counters, Stage};
use namespaces::{LINK, Pair, within};

mod namespaces;

/// The two machines of the picture above.
fn pair(test: &str) -> Option<Pair> {
    Pair::make(
        test,
        "ip -n $A link add $LINK type veth peer name $LINK netns $B
         ip netns exec $A sysctl -qw net.ipv6.conf.$LINK.accept_dad=0
         ip netns exec $B sysctl -qw net.ipv6.conf.$LINK.accept_dad=0
         ip -n $A addr add 10.98.0.1/24 dev $LINK; ip -n $B addr add 10.98.0.2/24 dev $LINK
         ip -n $A addr add fd98::1/64 dev $LINK; ip -n $B addr add fd98::2/64 dev $LINK
         ip -n $A link set $LINK up; ip -n $B link set $LINK up; ip -n $A link set lo up; ip -n $B link set lo up",
    )
}

/// What the counters of both ends grew by while `traffic` ran.
fn deltas(pair: &Pair, traffic: impl FnOnce()) -> (Counters, Counters) {
    let both = || {
        let read = |name: &str| {
            let snapshot = within(name, || snapshot(LINK));
            assert_eq!(snapshot.missing, [""; 0]);
            snapshot.counters
        };
        (read(&pair.a), read(&pair.b))
    };
    let before = both();
    traffic();
    // What the last packet set off, such as a softirq, is over within a tick.
    thread::sleep(Duration::from_millis(50));
    let after = both();
    (after.0.since(&before.0), after.1.since(&before.1))
}

/// Sends from namespace a as fast as it goes; the neighbour is known first, for a packet that waits for its
/// address may be dropped where no counter tells.
fn send(pair: &Pair, to: SocketAddr, count: u64, octets: usize) -> u64 {
    within(&pair.a, || {
        let socket = UdpSocket::bind((if to.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).unwrap();
        (0..count).map(|_| socket.send_to(&vec![0; octets], to)).filter(io::Result::is_err).count() as u64
    })
}

fn learn_neighbours(pair: &Pair, address: IpAddr) {
    let listener = within(&pair.b, || UdpSocket::bind((address, 9)).unwrap());
    listener.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    send(pair, (address, 9).into(), 1, 1);
    listener.recv(&mut [0; 8]).expect("the first datagram arrives once the neighbour is known");
}

fn received(socket: &UdpSocket) -> u64 {
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffer = [0; 65536];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64
}

#[track_caller]
fn check(counters: &Counters, stage: Stage, name: &str, want: u64) {
    assert_eq!(counters.get(stage, name), Some(want), "{stage}: {name}");
}

#[track_caller]
fn check_budget(datagrams: Datagrams, ends: &(Counters, Counters), want: &[(Stage, u64)]) -> LossBudget {
    let budget = {
        let seen = |end, counters| MachineAccount::new(end, counters, Some("veth"));
        loss_budget(
            &Datagrams { shared_kernel: true, ..datagrams },
            Chain::direct(&seen(End::Host, &ends.0), &seen(End::Target, &ends.1)),
        )
    };
    let lines: Vec<(Stage, u64)> = budget.lines.iter().map(|line| (line.stage, line.packets)).collect();
    assert_eq!((lines.as_slice(), budget.unaccounted), (want, 0), "{budget:#?}");
    budget
}

const V4: &str = "10.98.0.2";
const V6: &str = "fd98::2";

#[test]
fn datagrams_to_nobody_are_counted_one_by_one() {
    let Some(pair) = pair("datagrams_to_nobody_are_counted_one_by_one") else { return };
    for (address, udp) in [(V4, "Udp"), (V6, "Udp6")] {
        let address: IpAddr = address.parse().unwrap();
        learn_neighbours(&pair, address);
        let mut errors = 0;
        let ends = deltas(&pair, || errors = send(&pair, (address, 9999).into(), 500, 1000));
        assert_eq!(errors, 0);
        check(&ends.0, Stage::SenderStack, &format!("{udp} OutDatagrams"), 500);
        check(&ends.1, Stage::ReceiverStack, &format!("{udp} NoPorts"), 500);
        check(&ends.1, Stage::ReceiverSocket, &format!("{udp} RcvbufErrors"), 0);
        // Neighbours and routers may be looked for in between, so frames are not exact.
        let frames = ends.1.get(Stage::DriverRxRing, "link rx_packets").unwrap();
        assert!((500..520).contains(&frames), "{frames}");
        check_budget(Datagrams { sent: 500, ..Datagrams::default() }, &ends, &[(Stage::ReceiverStack, 500)]);
    }
}

#[test]
fn a_full_socket_buffer_is_the_receiver_sockets_loss() {
    let Some(pair) = pair("a_full_socket_buffer_is_the_receiver_sockets_loss") else { return };
    for (address, udp) in [(V4, "Udp"), (V6, "Udp6")] {
        let address: IpAddr = address.parse().unwrap();
        learn_neighbours(&pair, address);
        let listener = within(&pair.b, || UdpSocket::bind((address, 9999)).unwrap());
        // Nobody reads meanwhile: what fits the buffer stays in it.
        let ends = deltas(&pair, || assert_eq!(send(&pair, (address, 9999).into(), 2000, 1000), 0));
        let received = received(&listener);
        let lost = 2000 - received;
        assert!(lost > 1000, "the usual buffer holds a few hundred, not {received}");
        check(&ends.1, Stage::ReceiverSocket, &format!("{udp} RcvbufErrors"), lost);
        check(&ends.1, Stage::ReceiverStack, &format!("{udp} InErrors"), lost);
        let datagrams = Datagrams { sent: 2000, received_unique: received, ..Datagrams::default() };
        check_budget(datagrams, &ends, &[(Stage::ReceiverSocket, lost)]);
        check_budget(Datagrams { socket_drops: Some(lost), ..datagrams }, &ends, &[(Stage::ReceiverSocket, lost)]);
    }
}

/// `dropped` of the device's root qdisc, as tc prints it: something independent to hold the counters against.
fn tc_dropped(namespace: &str, device: &str) -> u64 {
    let output = Command::new("tc").args(["-n", namespace, "-s", "qdisc", "show", "dev", device]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = text.split_once("(dropped ").expect(&text);
    rest.split_once(',').unwrap().0.parse().unwrap()
}

#[test]
fn a_shaped_sender_loses_at_its_qdisc() {
    let Some(pair) = pair("a_shaped_sender_loses_at_its_qdisc") else { return };
    let address: IpAddr = V4.parse().unwrap();
    learn_neighbours(&pair, address);
    pair.must("tc -n $A qdisc add dev $LINK root tbf rate 10mbit burst 5k limit 10k");
    // 4000 octets travel as three fragments.
    for (octets, fragments) in [(1000, 1), (4000, 3)] {
        let listener = within(&pair.b, || UdpSocket::bind((address, 9999)).unwrap());
        let dropped = tc_dropped(&pair.a, LINK);
        let ends = deltas(&pair, || {
            send(&pair, (address, 9999).into(), 100, octets);
        });
        let received = received(&listener);
        assert!(received < 100, "the shaper held nothing back");
        check(&ends.0, Stage::Qdisc, "link0 tbf drops", tc_dropped(&pair.a, LINK) - dropped);
        let datagrams = Datagrams { sent: 100, received_unique: received, fragments, ..Datagrams::default() };
        let budget = check_budget(datagrams, &ends, &[(Stage::Qdisc, 100 - received)]);
        assert!(budget.lines[0].evidence().starts_with("host: link0 tbf drops "), "{budget:?}");
    }
}

#[test]
fn a_redirect_through_an_ifb_is_the_receive_ring() {
    let Some(pair) = pair("a_redirect_through_an_ifb_is_the_receive_ring") else { return };
    let address: IpAddr = V4.parse().unwrap();
    learn_neighbours(&pair, address);
    let made = pair.run(
        "ip -n $B link add ifb9 type ifb; ip -n $B link set ifb9 up; tc -n $B qdisc add dev $LINK ingress; \
         tc -n $B filter add dev $LINK parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb9; \
         tc -n $B qdisc add dev ifb9 root tbf rate 10mbit burst 5k limit 10k",
    );
    if let Err(error) = made {
        println!("SKIPPED a_redirect_through_an_ifb_is_the_receive_ring: this kernel lacks a part of it ({error})");
        return;
    }
    // 4000 octets travel as three fragments; one that is dropped costs its datagram.
    for (octets, fragments) in [(1000, 1), (4000, 3)] {
        let listener = within(&pair.b, || UdpSocket::bind((address, 9999)).unwrap());
        let dropped = tc_dropped(&pair.b, "ifb9");
        let ends = deltas(&pair, || assert_eq!(send(&pair, (address, 9999).into(), 200, octets), 0));
        let received = received(&listener);
        assert!(received < 200, "the queue held everything");
        check(&ends.1, Stage::DriverRxRing, "ifb9 tbf drops", tc_dropped(&pair.b, "ifb9") - dropped);
        let datagrams = Datagrams { sent: 200, received_unique: received, fragments, ..Datagrams::default() };
        let budget = check_budget(datagrams, &ends, &[(Stage::DriverRxRing, 200 - received)]);
        assert!(budget.lines[0].evidence().starts_with("target: ifb9 tbf drops "), "{budget:?}");
    }
}

#[test]
fn interfaces_and_environment_are_those_of_the_threads_namespace() {
    let Some(pair) = pair("interfaces_and_environment_are_those_of_the_threads_namespace") else { return };
    pair.must("ip -n $B link set $LINK mtu 1400; ip netns exec $B sysctl -qw net.ipv4.tcp_congestion_control=reno");
    let addresses = within(&pair.b, || interfaces::addresses().unwrap());
    let found = |address: &str| addresses.iter().find(|known| known.address == address.parse::<IpAddr>().unwrap());
    let four = found(V4).expect("the IPv4 address");
    assert_eq!((four.interface.as_str(), four.prefix_len, four.up, four.loopback), (LINK, 24, true, false));
    assert!(!found(V6).expect("the IPv6 address").scope_link);
    assert!(found("10.98.0.1").is_none(), "the other namespace's");
    let own = addresses.iter().filter(|known| known.interface == LINK && known.scope_link);
    assert!(own.count() >= 1, "IPv6 gives every interface an address of its link");

    assert_eq!(within(&pair.b, || interfaces::carrier(LINK)), Some(true));
    pair.must("ip -n $A link set $LINK down");
    assert_eq!(within(&pair.b, || interfaces::carrier(LINK)), Some(false), "the peer is down, so the cable is out");

    let described = within(&pair.b, || environment::describe(Some(LINK), &[]));
    assert_eq!(described.sysctls["net.ipv4.tcp_congestion_control"], "reno");
    assert_eq!(described.sysctls["net.ipv6.conf.link0.mtu"], "1400");
    let nic = described.nic.unwrap();
    assert_eq!((nic.driver.as_deref(), nic.kind.as_deref()), (Some("veth"), Some("veth")));
    assert_eq!((nic.mtu, nic.speed_mbps, nic.duplex.as_deref()), (Some(1400), Some(10_000), Some("full")));
    assert_eq!((nic.autoneg, nic.link_detected), (Some(false), Some(false)));
    assert_eq!(nic.qdisc.as_deref(), Some("noqueue"));
    assert_eq!(nic.channels["rx"].current, 1);
    assert!(nic.offloads.contains_key("rx-gro"), "{:?}", nic.offloads);
    assert_eq!(nic.mac.unwrap().len(), 17);
}
