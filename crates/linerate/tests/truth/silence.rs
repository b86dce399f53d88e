//! A port that frames are counted at: nothing of the kernel's own leaves it, whoever asks for what.
//! Knows no counts of frames; what passes, packet sockets of the test's own see.

use std::io;
use std::time::Duration;

use linerate_host::interfaces;
use linerate_host::sys::frames;
use linerate_host::sys::packet::{self, PacketType};
use linerate_lab::{LINK_NAME, Shape};
use linerate_machine::end::End;
use socket2::{SockFilter, Socket};

use super::rig::Rig;

const ARP: u16 = 0x0806;
/// Takes every packet whole (BPF_RET, linux/filter.h).
const ALL: [SockFilter; 1] = [SockFilter::new(6, 0, 0, u32::MAX)];

/// Has the host's kernel look for a neighbour that is not there, and asks the target's for its address.
fn provoke(rig: &Rig) {
    let stranger = || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        let _ = socket.send_to(&[0], "198.18.0.77:9");
        let ask = frames::open_sender(interfaces::number(LINK_NAME)?)?;
        let mut frame = [0; 60];
        frame[..6].fill(0xFF);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
        // Ethernet and IPv4, a request (RFC 826): who has 198.18.0.2, tell 198.18.0.78.
        frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
        frame[28..32].copy_from_slice(&[198, 18, 0, 78]);
        frame[38..42].copy_from_slice(&[198, 18, 0, 2]);
        ask.send(&frame).map(drop)
    };
    rig.lab.host.run(stranger).unwrap();
}

/// Questions and answers of ARP that the kernel sent from where the socket is, but for the test's own question.
fn sent(socket: &Socket) -> usize {
    let mut octets = [0; 2048];
    let mut count = 0;
    while let Ok(packet) = packet::receive(socket, &mut octets) {
        let is_own = octets[14..18] == [198, 18, 0, 78] && octets[7] == 1;
        count += usize::from(packet.way == PacketType::Left && packet.protocol == ARP && !is_own);
    }
    count
}

/// What keeps the ports of both ends silent.
fn sysctls(rig: &Rig) -> [Vec<String>; 2] {
    let read = || -> io::Result<Vec<String>> {
        let of = |file: &str| std::fs::read_to_string(format!("/proc/sys/net/{file}"));
        ["ipv4/neigh/eth0/mcast_solicit", "ipv4/neigh/eth0/ucast_solicit", "ipv4/conf/eth0/arp_ignore"]
            .into_iter()
            .map(of)
            .collect()
    };
    [rig.lab.target.run(read).unwrap(), rig.lab.host.run(read).unwrap()]
}

#[test]
fn a_port_is_silent_while_frames_are_counted_and_speaks_afterwards() {
    let Some(rig) = Rig::up("silence", &Shape::unshaped()) else { return };
    let watch = |end| {
        let watch = || packet::watch(&ALL);
        if end == End::Target { rig.lab.target.run(watch) } else { rig.lab.host.run(watch) }.unwrap()
    };
    let sysctls = || sysctls(&rig);
    let before = sysctls();
    let [target, host] = End::BOTH.map(watch);
    let settings = std::thread::scope(|scope| {
        let trial =
            scope.spawn(|| rig.trial("frames", &[("duration", "2s"), ("rate", "1kpps"), ("direction", "both")]));
        let begun = rig.link(End::Host).tx_packets;
        while rig.link(End::Host).tx_packets < begun + 100 {
            assert!(!trial.is_finished(), "no traffic");
            std::thread::sleep(Duration::from_millis(2));
        }
        provoke(&rig);
        let record = trial.join().unwrap();
        [record.target.settings, record.host.settings]
    });
    assert_eq!([sent(&target), sent(&host)], [0, 0], "{settings:?}");
    for settings in settings {
        let silenced = settings.iter().find(|one| one.name == "sysctl.net.ipv4.neigh.eth0.mcast_solicit").unwrap();
        assert_eq!((silenced.read_back.as_deref(), silenced.original.as_deref()), (Some("0"), Some("3")));
    }
    assert_eq!(sysctls(), before, "all is as it was");
    // The same now has both speak: what was silent could have spoken.
    provoke(&rig);
    std::thread::sleep(Duration::from_millis(200));
    let [of_target, of_host] = [sent(&target), sent(&host)];
    assert!(of_target > 0 && of_host > 0, "{of_target} {of_host}");
}

#[test]
fn what_the_user_set_stands() {
    let Some(rig) = Rig::up("silence_of_the_user", &Shape::unshaped()) else { return };
    let asked = ("target.sysctl.net.ipv4.conf.eth0.arp_ignore", "2");
    let record = rig.trial("frames", &[("duration", "50ms"), ("rate", "1kpps"), asked]);
    let of: Vec<_> = record.target.settings.iter().filter(|one| one.name.ends_with("arp_ignore")).collect();
    assert_eq!(of.len(), 1, "{of:?}");
    assert_eq!(of[0].read_back.as_deref(), Some("2"));
    assert!(!record.doubts.iter().any(|doubt| format!("{doubt:?}").contains("SettingNotTaken")), "{:?}", record.doubts);
}

/// As at a slow board: the agent learns of the conversation's end long after the program is gone, which cannot end it either.
#[test]
fn a_port_speaks_again_before_the_program_ends() {
    let Some(rig) = Rig::up("silence_ends", &Shape::unshaped()) else { return };
    let agent = format!("{} agent --stdio --netns {}", env!("CARGO_BIN_EXE_linerate"), rig.lab.target.path().display());
    let before = sysctls(&rig);
    let late = format!("exec:setsid --wait sh -c '(cat; sleep 3) | {agent}'");
    rig.run_with(&late, "frames", &[("duration", "200ms"), ("rate", "1kpps")], &[]);
    assert_eq!(sysctls(&rig), before);
}
