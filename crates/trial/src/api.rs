//! The ways that data can go between an application and its socket, by name, which suits which workload, and what `auto`
//! becomes at which end.
//! Knows no system calls; what a kernel lacks is for the machine to find out.

use linerate_machine::end::End;
use linerate_machine::units::OfferedLoad;
use linerate_machine::words;
use serde::{Deserialize, Serialize};

use crate::pace::Pacing;
use crate::spec::{Spacing, Spec, Workload};

words! {
    /// How a sender hands its data to the socket.
    SenderApi {
        /// TCP: writev(2), several messages to a call unless paced or sized. UDP: one send(2) a datagram.
        Plain = "plain",
        /// TCP: sendfile(2) from a file in memory, whose pages the stack sends as they are.
        Sendfile = "sendfile",
        /// TCP: send(2) with MSG_ZEROCOPY; the kernel tells when it needs the octets no longer, and whether it had to
        /// copy them after all (Documentation/networking/msg_zerocopy.rst).
        Zerocopy = "zerocopy",
        /// TCP: vmsplice(2) into a pipe, and tee(2) and splice(2) from there to the socket.
        Splice = "splice",
        /// io_uring(7): several sends submitted with one system call.
        IoUring = "io-uring",
        /// TCP: io_uring's zero-copy send (IORING_OP_SEND_ZC) from registered buffers.
        IoUringZerocopy = "io-uring-zerocopy",
        /// UDP: sendmmsg(2), many datagrams to a system call.
        Sendmmsg = "sendmmsg",
        /// UDP: one buffer of many datagrams that the stack or the NIC cuts apart (UDP_SEGMENT, udp(7)).
        UdpSegment = "udp-segment",
        /// UDP: sendmmsg(2) of such buffers.
        SendmmsgUdpSegment = "sendmmsg-udp-segment",
        /// Frames: sendmmsg(2) on a packet socket (packet(7)), through the interface's queueing discipline.
        PacketSendmmsg = "packet-sendmmsg",
        /// Frames: the same with PACKET_QDISC_BYPASS: it jumps over the queueing discipline, to the driver.
        PacketBypass = "packet-bypass",
        /// Frames: an XDP program makes each and hands it to the driver, past the queueing discipline, in the kernel alone
        /// (BPF_PROG_TEST_RUN with live frames, Documentation/bpf/bpf_prog_run.rst).
        LiveFrames = "live-frames",
        /// Frames: an AF_XDP socket, from whose memory the driver sends, or the kernel copies, past the queueing discipline
        /// (Documentation/networking/af_xdp.rst).
        AfXdp = "af-xdp",
    }
}

words! {
    /// How a receiver takes its data from the socket.
    ReceiverApi {
        /// TCP: read(2). UDP: one recv(2) a datagram.
        Plain = "plain",
        /// TCP: recv(2) with MSG_TRUNC: the stack drops the octets instead of copying them (tcp(7)).
        Trunc = "trunc",
        /// TCP: splice(2) into a pipe and from there to /dev/null.
        Splice = "splice",
        /// TCP: TCP_ZEROCOPY_RECEIVE maps whole pages of payload; what fills no page is copied.
        Zerocopy = "zerocopy",
        /// TCP: io_uring(7), one receive submitted that completes again and again, into buffers that it picks.
        IoUring = "io-uring",
        /// UDP: recvmmsg(2), many datagrams to a system call.
        Recvmmsg = "recvmmsg",
        /// UDP: recvmmsg(2) of buffers into which the stack merged datagrams of one size (UDP_GRO, udp(7)).
        UdpGro = "udp-gro",
        /// recvmmsg(2) or recv(2) that polls the NIC's queue instead of waiting for its interrupt (SO_BUSY_POLL,
        /// socket(7)).
        BusyPoll = "busy-poll",
        /// Frames: recvmmsg(2) on a packet socket behind a filter for the trial's frames (packet(7)).
        PacketRecvmmsg = "packet-recvmmsg",
        /// Frames: a ring that the kernel fills and this process reads, without a system call for each (TPACKET_V3,
        /// Documentation/networking/packet_mmap.rst).
        PacketRing = "packet-ring",
        /// Frames: an XDP program counts them where the driver has them; none comes to this process.
        Xdp = "xdp",
        /// Frames: an XDP program hands them to AF_XDP sockets, in whose memory this process reads them
        /// (Documentation/networking/af_xdp.rst).
        AfXdp = "af-xdp",
    }
}

words! {
    /// Who notes when a datagram arrived (Documentation/networking/timestamping.rst).
    Timestamps {
        /// The application, when a receive has returned.
        Application = "application",
        /// The kernel, when the driver handed the packet over.
        Kernel = "kernel",
        /// The NIC, when the packet was on the wire.
        Hardware = "hardware",
    }
}

impl SenderApi {
    /// Whether this can carry the workload's data.
    pub const fn suits(self, workload: Workload) -> bool {
        use SenderApi::{AfXdp, LiveFrames, PacketBypass, PacketSendmmsg, UdpSegment, Zerocopy};
        use SenderApi::{IoUring, IoUringZerocopy, Plain, Sendfile, Sendmmsg, SendmmsgUdpSegment, Splice};
        match workload {
            Workload::TcpStream => matches!(self, Plain | Sendfile | Zerocopy | Splice | IoUring | IoUringZerocopy),
            Workload::UdpStream => matches!(self, Plain | Sendmmsg | UdpSegment | SendmmsgUdpSegment | IoUring),
            Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => matches!(self, Plain),
            Workload::Frames => matches!(self, PacketSendmmsg | PacketBypass | LiveFrames | AfXdp),
        }
    }
}

impl ReceiverApi {
    /// Whether this can carry the workload's data.
    pub const fn suits(self, workload: Workload) -> bool {
        use ReceiverApi::{AfXdp, PacketRecvmmsg, PacketRing, Xdp};
        use ReceiverApi::{BusyPoll, IoUring, Plain, Recvmmsg, Splice, Trunc, UdpGro, Zerocopy};
        match workload {
            Workload::TcpStream => matches!(self, Plain | Trunc | Splice | Zerocopy | IoUring | BusyPoll),
            Workload::UdpStream => matches!(self, Plain | Recvmmsg | UdpGro | BusyPoll),
            Workload::TcpRr | Workload::UdpRr | Workload::TcpCrr => matches!(self, Plain | BusyPoll),
            Workload::Frames => matches!(self, PacketRecvmmsg | PacketRing | Xdp | AfXdp),
        }
    }
}

/// What becomes of a buffer of many datagrams that a sender has the stack cut apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A cable: packets leave, whether the kernel or the device cut them.
    Cable,
    /// Another kernel on the same machine, or whatever else is no cable: the buffer may arrive as it is, one packet of many
    /// datagrams, and the receiver is spared the work of all but one.
    Memory,
}

impl SenderApi {
    /// What `auto` is, of frames what it is at least: faster ways depend on the machine. The target is under test, and does what an ordinary program does. The host is its load: it may hand
    /// over many datagrams at once, as long as the packets on the link are the same.
    pub fn auto(spec: &Spec, end: End, link: Link) -> SenderApi {
        let is_paced = spec.rate != OfferedLoad::Unlimited;
        let many_at_once = spec.batch.is_some_and(|batch| batch > 1);
        match (spec.workload, end) {
            (Workload::Frames, _) => SenderApi::PacketSendmmsg,
            (Workload::UdpStream, _) if spec.pacing == Some(Pacing::Txtime) => SenderApi::Sendmmsg,
            // What is cut apart leaves back to back, so a paced load is never cut.
            (Workload::UdpStream, End::Host) if !is_paced && link == Link::Cable => SenderApi::SendmmsgUdpSegment,
            (Workload::UdpStream, End::Host) if !is_paced || spec.burst > 1 || spec.pacing == Some(Pacing::Fq) => {
                SenderApi::Sendmmsg
            }
            (Workload::UdpStream, _) if many_at_once => SenderApi::Sendmmsg,
            _ => SenderApi::Plain,
        }
    }
}

impl ReceiverApi {
    /// What `auto` is; see [`SenderApi::auto`]. Octets are read at either end: a figure of data that nobody has read is none
    /// that an application will see.
    pub fn auto(spec: &Spec, end: End, link: Link) -> ReceiverApi {
        let many_at_once = spec.batch.is_some_and(|batch| batch > 1);
        match (spec.workload, end) {
            (Workload::Frames, _) => ReceiverApi::PacketRecvmmsg,
            // Merged datagrams have one time of arrival, which is the truth only of a load that nothing spaces.
            (Workload::UdpStream, End::Host) if spec.rate == OfferedLoad::Unlimited && link == Link::Cable => {
                ReceiverApi::UdpGro
            }
            (Workload::UdpStream, End::Host) => ReceiverApi::Recvmmsg,
            (Workload::UdpStream, End::Target) if many_at_once => ReceiverApi::Recvmmsg,
            _ => ReceiverApi::Plain,
        }
    }
}

/// What speaks against frames that an XDP program sends, where `auto` is to choose: they would not be what was asked, or a
/// socket serves as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLive {
    /// Departures at chance, in bursts, or at two rates: the program spaces them evenly.
    Spacing,
    /// So few frames a second that a thread which sleeps between them keeps time as well, and leaves a CPU free.
    Slow,
}

impl NotLive {
    /// Below this rate a thread that sleeps keeps time (docs/benchmarks/frames.md).
    const SLOW_PPS: f64 = 50_000.0;

    /// Of what was asked; `None`: nothing.
    pub fn of(spec: &Spec) -> Option<NotLive> {
        let is_even = spec.spacing == Spacing::Even && spec.burst == 1 && spec.first_rate.is_none();
        match spec.rate {
            OfferedLoad::Unlimited => None,
            _ if !is_even => Some(NotLive::Spacing),
            _ => NotLive::is_slow(spec).then_some(NotLive::Slow),
        }
    }

    /// Whether so few a second are asked for, on the mean, however they are spaced.
    pub fn is_slow(spec: &Spec) -> bool {
        let gap_ns = spec.rate.gap_ns(u64::from(spec.message_octets()));
        gap_ns.is_some_and(|gap_ns| 1e9 / gap_ns < NotLive::SLOW_PPS)
    }
}

/// What an end really used: what `auto` became, and what the kernel told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiUse {
    /// The name, as `sender_api` and `receiver_api` write it; of flows that differ, each of their names.
    pub name: String,
    /// The most messages (datagrams, writes, reads) to one system call.
    pub batch: u32,
    /// Octets of a message; the sender of a stream has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_octets: Option<u32>,
    /// The most datagrams to one buffer that the stack cuts apart; a sender with segmentation offload has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<u32>,
    /// Sends without a copy that the kernel has completed; a zero-copy sender has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
    /// Those among them whose octets the kernel copied after all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions_copied: Option<u64>,
    /// The queueing discipline at the root of the sender's interface that the frames jumped over, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jumped_over: Option<String>,
    /// Whether the driver sends or receives frames where they stand in this process's memory, rather than the kernel copying
    /// them; of `af-xdp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<bool>,
    /// Octets that arrived as whole pages and were not copied; a zero-copy receiver has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets_mapped: Option<u64>,
}

impl ApiUse {
    /// Whether it is what an ordinary program does.
    pub fn is_plain(&self) -> bool {
        self.name == SenderApi::Plain.name()
    }

    /// Of several flows: their names, the largest batch, sums of counts. `None` of none.
    pub fn combine<'a>(uses: impl IntoIterator<Item = &'a ApiUse>) -> Option<ApiUse> {
        let sum = |a: Option<u64>, b: Option<u64>| a.map(|a| a + b.unwrap_or(0)).or(b);
        uses.into_iter().filter(|one| !one.name.is_empty()).cloned().reduce(|all, one| ApiUse {
            name: if all.name.split(", ").any(|name| name == one.name) {
                all.name
            } else {
                format!("{}, {}", all.name, one.name)
            },
            batch: all.batch.max(one.batch),
            message_octets: all.message_octets.max(one.message_octets),
            segments: all.segments.max(one.segments),
            completions: sum(all.completions, one.completions),
            completions_copied: sum(all.completions_copied, one.completions_copied),
            octets_mapped: sum(all.octets_mapped, one.octets_mapped),
            jumped_over: all.jumped_over.or(one.jumped_over),
            zero_copy: match (all.zero_copy, one.zero_copy) {
                (Some(all), Some(one)) => Some(all && one),
                (all, one) => all.or(one),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for api in SenderApi::ALL {
            assert_eq!(SenderApi::parse(api.name()), Some(api));
            assert_eq!(serde_json::to_string(&api).unwrap(), format!("\"{api}\""));
        }
        for api in ReceiverApi::ALL {
            assert_eq!(ReceiverApi::parse(api.name()), Some(api));
        }
        assert_eq!(SenderApi::parse("fastest"), None);
    }

    #[test]
    fn several_flows_are_summed() {
        let one = ApiUse { name: "zerocopy".to_owned(), batch: 1, completions: Some(5), ..ApiUse::default() };
        let two = ApiUse { batch: 2, completions_copied: Some(1), ..one.clone() };
        let both = ApiUse::combine([&ApiUse::default(), &one, &two]).unwrap();
        assert_eq!((both.batch, both.completions, both.completions_copied), (2, Some(10), Some(1)));
        assert_eq!(both.name, "zerocopy");
        let other = ApiUse { name: "plain".to_owned(), ..ApiUse::default() };
        assert_eq!(ApiUse::combine([&other, &one, &other]).unwrap().name, "plain, zerocopy");
        assert!(other.is_plain() && !one.is_plain());
        assert_eq!(ApiUse::combine([&ApiUse::default()]), None);
    }

    /// What becomes of `auto` at sender and receiver, the host on a cable.
    fn auto(spec: &Spec, sender: End, link: Link) -> [&'static str; 2] {
        [SenderApi::auto(spec, sender, link).name(), ReceiverApi::auto(spec, sender.other(), link).name()]
    }

    #[test]
    fn the_target_does_what_an_ordinary_program_does() {
        for workload in Workload::over_ip() {
            for rate in [OfferedLoad::Unlimited, OfferedLoad::BitsPerSecond(1_000_000)] {
                for (link, burst) in [(Link::Cable, 1), (Link::Memory, 1), (Link::Cable, 10)] {
                    let spec = Spec { rate, burst, ..Spec::new(workload) };
                    assert_eq!(SenderApi::auto(&spec, End::Target, link), SenderApi::Plain, "{spec:?}");
                    assert_eq!(ReceiverApi::auto(&spec, End::Target, link), ReceiverApi::Plain, "{spec:?}");
                }
            }
        }
    }

    #[test]
    fn the_host_puts_the_same_packets_on_the_link() {
        let tcp = Spec::new(Workload::TcpStream);
        let udp = Spec::new(Workload::UdpStream);
        let paced = Spec { rate: OfferedLoad::BitsPerSecond(1_000_000), ..udp.clone() };
        let bursts = Spec { burst: 8, ..paced.clone() };
        for end in [End::Target, End::Host] {
            assert_eq!(auto(&tcp, end, Link::Cable), ["plain", "plain"], "what arrives is read");
        }
        assert_eq!(auto(&udp, End::Host, Link::Cable), ["sendmmsg-udp-segment", "plain"]);
        assert_eq!(auto(&udp, End::Host, Link::Memory), ["sendmmsg", "plain"], "merged datagrams would stay merged");
        assert_eq!(auto(&paced, End::Host, Link::Cable), ["plain", "plain"]);
        assert_eq!(auto(&bursts, End::Host, Link::Cable), ["sendmmsg", "plain"]);
        assert_eq!(auto(&udp, End::Target, Link::Cable), ["plain", "udp-gro"]);
        assert_eq!(auto(&udp, End::Target, Link::Memory), ["plain", "recvmmsg"]);
        assert_eq!(auto(&paced, End::Target, Link::Cable), ["plain", "recvmmsg"]);
        // Who asks for many to a call has them, and the figures say so.
        let many = Spec { batch: Some(64), ..udp.clone() };
        assert_eq!(auto(&many, End::Target, Link::Memory), ["sendmmsg", "recvmmsg"]);
        assert_eq!(auto(&many, End::Host, Link::Memory), ["sendmmsg", "recvmmsg"]);
        let timed = Spec { pacing: Some(Pacing::Txtime), ..paced };
        assert_eq!(auto(&timed, End::Target, Link::Cable), ["sendmmsg", "recvmmsg"]);
    }

    #[test]
    fn an_xdp_program_spaces_evenly_and_is_for_many_frames() {
        let check = |change: fn(&mut Spec), want| {
            let mut spec = Spec::new(Workload::Frames);
            change(&mut spec);
            assert_eq!(NotLive::of(&spec), want, "{spec:?}");
        };
        check(|_| (), None);
        check(|s| s.spacing = Spacing::Poisson, None);
        check(|s| s.rate = OfferedLoad::PacketsPerSecond(50_000), None);
        check(|s| s.rate = OfferedLoad::PacketsPerSecond(49_999), Some(NotLive::Slow));
        // 64 octets are 512 bits.
        check(|s| s.rate = OfferedLoad::BitsPerSecond(25_600_000), None);
        check(|s| s.rate = OfferedLoad::BitsPerSecond(25_000_000), Some(NotLive::Slow));
        let fast = OfferedLoad::PacketsPerSecond(1_000_000);
        check(|s| (s.rate, s.burst) = (OfferedLoad::PacketsPerSecond(1_000_000), 2), Some(NotLive::Spacing));
        let poisson = Spec { rate: fast, spacing: Spacing::Poisson, ..Spec::new(Workload::Frames) };
        assert_eq!(NotLive::of(&poisson), Some(NotLive::Spacing));
        let slow = Spec { rate: OfferedLoad::PacketsPerSecond(49_999), ..poisson.clone() };
        assert_eq!([&poisson, &slow, &Spec::new(Workload::Frames)].map(NotLive::is_slow), [false, true, false]);
    }

    #[test]
    fn every_api_suits_some_stream_and_every_workload_has_the_plain_one() {
        let streams = [Workload::TcpStream, Workload::UdpStream, Workload::Frames];
        assert!(SenderApi::ALL.iter().all(|api| streams.iter().any(|&workload| api.suits(workload))));
        assert!(ReceiverApi::ALL.iter().all(|api| streams.iter().any(|&workload| api.suits(workload))));
        for workload in Workload::ALL {
            let plain = SenderApi::Plain.suits(workload) && ReceiverApi::Plain.suits(workload);
            assert_eq!(plain, workload != Workload::Frames, "what a program does with a socket is no way for frames");
        }
    }
}
