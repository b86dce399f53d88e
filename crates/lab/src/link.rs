//! Links, addresses and queueing disciplines of the namespace that the calling thread is in, over rtnetlink.
//! Knows no topology: `lab` says what to make.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;

use netlink_bindings::traits::{NetlinkRequest, Pusher};
use netlink_bindings::utils::{finalize_nested_header, push_header, push_nested_header};
use netlink_bindings::{ethtool, rt_addr, rt_link, rt_route, tc};
use netlink_socket2::NetlinkSocket;

/// The index of a link in its namespace (`ifindex`).
pub(crate) type LinkIndex = i32;

/// The loopback link's index in every namespace.
pub(crate) const LOOPBACK: LinkIndex = 1;

/// A netlink conversation with the namespace in which it was opened.
pub(crate) struct Links {
    socket: NetlinkSocket,
}

/// A token bucket (tc-tbf(8)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    pub(crate) rate_bps: u64,
    pub(crate) burst_octets: u32,
    pub(crate) limit_octets: u32,
}

/// What a queueing discipline has counted since it was made (`struct gnet_stats_basic`, `gnet_stats_queue`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that left the queue.
    pub packets: u32,
    /// Octets of the frames that left the queue.
    pub octets: u64,
    /// Packets dropped because the queue was full.
    pub drops: u32,
    /// Packets waiting now.
    pub waiting: u32,
}

impl Links {
    pub(crate) fn new() -> Links {
        Links { socket: NetlinkSocket::new() }
    }

    /// Sends a request and waits for the kernel's word on it.
    fn ask<R: NetlinkRequest>(&mut self, request: &R) -> io::Result<()> {
        self.socket.request(request)?.recv_ack().map_err(plain)
    }

    /// Makes a veth pair: `name` here, `name` too in the namespace behind the descriptor `peer_namespace`.
    pub(crate) fn add_pair(&mut self, name: &CStr, peer_namespace: i32) -> io::Result<()> {
        self.add_pair_of(name, name, peer_namespace)
    }

    /// The same, with another name in the other namespace.
    pub(crate) fn add_pair_of(&mut self, name: &CStr, peer_name: &CStr, peer_namespace: i32) -> io::Result<()> {
        /// `VETH_INFO_PEER` of linux/veth.h.
        const VETH_INFO_PEER: u16 = 1;
        let mut request = rt_link::Request::new().set_create().set_excl().op_newlink_do(&Default::default());
        let mut attributes = request.encode().push_ifname(name).nested_linkinfo().push_kind(c"veth");
        let buffer = attributes.as_vec_mut();
        let data = push_nested_header(buffer, IFLA_INFO_DATA);
        let peer = push_nested_header(buffer, VETH_INFO_PEER);
        buffer.extend(rt_link::Ifinfomsg::default().as_slice());
        rt_link::PushLinkAttrs::new(&mut *buffer).push_ifname(peer_name).push_net_ns_fd(peer_namespace as u32);
        finalize_nested_header(buffer, peer);
        finalize_nested_header(buffer, data);
        drop(attributes);
        self.ask(&request)
    }

    /// Makes an intermediate functional block: a link that packets are sent to for the sake of its queue.
    pub(crate) fn add_ifb(&mut self, name: &CStr) -> io::Result<()> {
        let mut request = rt_link::Request::new().set_create().set_excl().op_newlink_do(&Default::default());
        request.encode().push_ifname(name).nested_linkinfo().push_kind(c"ifb");
        self.ask(&request)
    }

    /// Makes a bridge.
    pub(crate) fn add_bridge(&mut self, name: &CStr) -> io::Result<()> {
        let mut request = rt_link::Request::new().set_create().set_excl().op_newlink_do(&Default::default());
        request.encode().push_ifname(name).nested_linkinfo().push_kind(c"bridge");
        self.ask(&request)
    }

    /// Makes the link a port of a bridge.
    pub(crate) fn set_master(&mut self, link: LinkIndex, bridge: LinkIndex) -> io::Result<()> {
        let header = rt_link::Ifinfomsg { ifi_index: link, ..Default::default() };
        let mut request = rt_link::Request::new().op_newlink_do(&header);
        request.encode().push_master(bridge as u32);
        self.ask(&request)
    }

    /// Sends whatever is for nobody near to this machine.
    pub(crate) fn add_gateway(&mut self, gateway: IpAddr) -> io::Result<()> {
        /// linux/rtnetlink.h.
        const RT_TABLE_MAIN: u8 = 254;
        const RTPROT_BOOT: u8 = 3;
        const RTN_UNICAST: u8 = 1;
        let header = rt_route::Rtmsg {
            rtm_family: if gateway.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8,
            rtm_table: RT_TABLE_MAIN,
            rtm_protocol: RTPROT_BOOT,
            rtm_type: RTN_UNICAST,
            ..Default::default()
        };
        let mut request = rt_route::Request::new().set_create().op_newroute_do(&header);
        request.encode().push_gateway(gateway);
        self.ask(&request)
    }

    pub(crate) fn remove(&mut self, link: LinkIndex) -> io::Result<()> {
        let header = rt_link::Ifinfomsg { ifi_index: link, ..Default::default() };
        self.ask(&rt_link::Request::new().op_dellink_do(&header))
    }

    pub(crate) fn index(&mut self, name: &CStr) -> io::Result<LinkIndex> {
        let mut request = rt_link::Request::new().op_getlink_do(&Default::default());
        request.encode().push_ifname(name);
        let (header, _) = self.socket.request(&request)?.recv_one().map_err(plain)?;
        Ok(header.ifi_index)
    }

    pub(crate) fn set_up(&mut self, link: LinkIndex, up: bool) -> io::Result<()> {
        let header = rt_link::Ifinfomsg {
            ifi_index: link,
            ifi_flags: if up { libc::IFF_UP as u32 } else { 0 },
            ifi_change: libc::IFF_UP as u32,
            ..Default::default()
        };
        self.ask(&rt_link::Request::new().op_newlink_do(&header))
    }

    /// Stops the kernel from giving the link a link-local address of its own, which would be tentative for a second
    /// and bring router solicitations into everybody's counters.
    pub(crate) fn no_address_of_its_own(&mut self, link: LinkIndex) -> io::Result<()> {
        /// `IN6_ADDR_GEN_MODE_NONE` of linux/if_link.h.
        const NONE: u8 = 1;
        let header = rt_link::Ifinfomsg { ifi_index: link, ..Default::default() };
        let mut request = rt_link::Request::new().op_newlink_do(&header);
        request.encode().nested_af_spec().nested_inet6().push_addr_gen_mode(NONE);
        self.ask(&request)
    }

    /// Whether the kernel passes packets over the link: carrier seen *and* its queues activated, which happens a
    /// little later (Documentation/networking/operstates.rst).
    pub(crate) fn is_operational(&mut self, link: LinkIndex) -> io::Result<bool> {
        /// `IF_OPER_UP` of linux/if.h.
        const IF_OPER_UP: u8 = 6;
        let header = rt_link::Ifinfomsg { ifi_index: link, ..Default::default() };
        let request = rt_link::Request::new().op_getlink_do(&header);
        let mut reply = self.socket.request(&request)?;
        let (_, attributes) = reply.recv_one().map_err(plain)?;
        Ok(attributes.get_operstate().ok() == Some(IF_OPER_UP))
    }

    /// Whether the link sees a carrier, now (its operational state follows up to a second later).
    pub(crate) fn has_carrier(&mut self, link: LinkIndex) -> io::Result<bool> {
        let header = rt_link::Ifinfomsg { ifi_index: link, ..Default::default() };
        let request = rt_link::Request::new().op_getlink_do(&header);
        let mut reply = self.socket.request(&request)?;
        let (_, attributes) = reply.recv_one().map_err(plain)?;
        Ok(attributes.get_carrier().ok() == Some(1))
    }

    /// Gives the link an address that can be used at once: without duplicate address detection.
    pub(crate) fn add_address(&mut self, link: LinkIndex, address: IpAddr, prefix: u8) -> io::Result<()> {
        let header = rt_addr::Ifaddrmsg {
            ifa_family: if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8,
            ifa_prefixlen: prefix,
            ifa_flags: if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 },
            ifa_index: link as u32,
            ..Default::default()
        };
        let mut request = rt_addr::Request::new().set_create().set_replace().op_newaddr_do(&header);
        request.encode().push_local(address).push_address(address);
        self.ask(&request)
    }

    /// Turns off what hands packets larger than the MTU to the link.
    pub(crate) fn no_segmentation_offload(&mut self, name: &CStr) -> io::Result<()> {
        /// `ETHTOOL_MSG_FEATURES_SET` of linux/ethtool_netlink_generated.h. The bindings number the kernel's answers
        /// and our requests in one row and say 16 here, which is RINGS_SET.
        const FEATURES_SET: u8 = 12;
        let mut request = ethtool::Request::new().op_features_set_do();
        request.header_mut().cmd = FEATURES_SET;
        let bits = request.encode().nested_header().push_dev_name(name).end_nested().nested_wanted().nested_bits();
        // Named in the mask and without the value flag: off (ethtool-netlink.rst, "Bit sets").
        let bits = bits.nested_bit().push_name(c"tx-generic-segmentation").end_nested();
        let bits = bits.nested_bit().push_name(c"tx-tcp-segmentation").end_nested();
        let bits = bits.nested_bit().push_name(c"tx-tcp6-segmentation").end_nested();
        bits.nested_bit().push_name(c"tx-udp-segmentation").end_nested().end_nested();
        let mut reply = self.socket.request(&request)?;
        while let Some(answer) = reply.recv() {
            answer.map_err(plain)?;
        }
        Ok(())
    }

    /// Puts a token bucket at the root of what the link sends, in place of what was there.
    pub(crate) fn set_token_bucket(&mut self, link: LinkIndex, bucket: TokenBucket) -> io::Result<()> {
        let octets_per_second = (bucket.rate_bps / 8).max(1);
        let parameters = tc::TcTbfQopt {
            rate: tc::TcRatespec {
                // TC_LINKLAYER_ETHERNET: else the kernel looks for a rate table, as before Linux 3.8.
                linklayer: 1,
                rate: u32::try_from(octets_per_second).unwrap_or(u32::MAX),
                ..Default::default()
            },
            limit: bucket.limit_octets,
            ..Default::default()
        };
        let mut request = tc::Request::new().set_create().set_replace().op_newqdisc_do(&root_of(link));
        let mut attributes = request.encode().nested_options_tbf().push_parms(parameters);
        if octets_per_second >= u64::from(u32::MAX) {
            attributes = attributes.push_rate64(octets_per_second);
        }
        attributes.push_burst(bucket.burst_octets).end_nested();
        self.ask(&request)
    }

    /// Takes away what [`set_token_bucket`](Links::set_token_bucket) put there.
    pub(crate) fn remove_token_bucket(&mut self, link: LinkIndex) -> io::Result<()> {
        self.ask(&tc::Request::new().op_delqdisc_do(&root_of(link)))
    }

    /// Sends everything that arrives on `from` through the queue of `to` first (tc-mirred(8)).
    ///
    /// A packet that crosses a veth pair still belongs to the socket that sent it, as long as nobody copies it: a
    /// queue here would then fill the *sender's* send buffer, and a flood would be held back where a cable loses it
    /// (measured with SO_SNDBUF = 32 KiB at 100 Mbit/s: 8 299 datagrams a second sent, with the clone 263 293).
    /// So what goes to `to` is a clone, which belongs to nobody, and the original ends at a second filter.
    /// Answers whether that second filter could be had; without it the packet itself is sent.
    pub(crate) fn redirect_arrivals(&mut self, from: LinkIndex, to: LinkIndex) -> io::Result<Ownership> {
        let ingress = tc::Tcmsg { ifindex: from, handle: INGRESS_HANDLE, parent: TC_H_INGRESS, ..Default::default() };
        let mut request = tc::Request::new().set_create().set_excl().op_newqdisc_do(&ingress);
        request.encode().nested_options_ingress();
        self.ask(&request)?;
        // The end first: as long as nothing is sent to `to`, whatever arrives is lost, as with the cable out.
        let (ownership, verdict) = match self.add_end(from) {
            Ok(()) => (Ownership::Nobody, TC_ACT_UNSPEC),
            Err(_) => (Ownership::Sender, TC_ACT_STOLEN),
        };
        // A kernel may have been built with either of the two classifiers that can match everything.
        self.add_redirect(from, to, verdict, Classifier::U32)
            .or_else(|_| self.add_redirect(from, to, verdict, Classifier::Matchall))?;
        Ok(ownership)
    }

    /// The first filter: "send it out of `to`", then `verdict` on the packet itself.
    fn add_redirect(&mut self, from: LinkIndex, to: LinkIndex, verdict: i32, by: Classifier) -> io::Result<()> {
        let header = filter_of(from, 1);
        let mut request = tc::Request::new().set_create().set_excl().op_newtfilter_do(&header);
        let attributes = request.encode();
        match by {
            Classifier::U32 => {
                // One key whose mask is zero: always true. TC_U32_TERMINAL = 1.
                let everything = tc::TcU32Sel { flags: 1, nkeys: 1, ..Default::default() };
                let mut options = attributes.nested_options_u32().push_sel(everything);
                push_redirect(options.as_vec_mut(), TCA_U32_ACT, to, verdict);
            }
            Classifier::Matchall => {
                let mut options = attributes.nested_options_matchall();
                push_redirect(options.as_vec_mut(), TCA_MATCHALL_ACT, to, verdict);
            }
        }
        self.ask(&request)
    }

    /// The second filter: the packet ends here, uncounted. A classic BPF program of one instruction, because it
    /// needs no rights of its own in a user namespace, as eBPF does.
    fn add_end(&mut self, link: LinkIndex) -> io::Result<()> {
        /// `BPF_RET | BPF_K` of linux/bpf_common.h, `TCA_BPF_FLAG_ACT_DIRECT`: its value is the verdict.
        const BPF_RET_K: u16 = 0x06;
        const ACT_DIRECT: u32 = 1;
        let mut program = Vec::new(); // struct sock_filter
        program.extend(BPF_RET_K.to_ne_bytes());
        program.extend([0, 0]);
        program.extend(TC_ACT_STOLEN.to_ne_bytes());
        let header = filter_of(link, 2);
        let mut request = tc::Request::new().set_create().set_excl().op_newtfilter_do(&header);
        let options = request.encode().nested_options_bpf().push_ops_len(1).push_ops(&program);
        options.push_name(c"end").push_flags(ACT_DIRECT).end_nested();
        self.ask(&request)
    }

    /// Takes away what [`redirect_arrivals`](Links::redirect_arrivals) put there.
    pub(crate) fn stop_redirecting(&mut self, from: LinkIndex) -> io::Result<()> {
        let ingress = tc::Tcmsg { ifindex: from, handle: INGRESS_HANDLE, parent: TC_H_INGRESS, ..Default::default() };
        self.ask(&tc::Request::new().op_delqdisc_do(&ingress))
    }

    /// What the queue at the root of the link has counted; `None` if it has no queue.
    pub(crate) fn queue_counts(&mut self, link: LinkIndex) -> io::Result<Option<QueueCounts>> {
        let request = tc::Request::new().op_getqdisc_dump(&Default::default());
        let mut reply = self.socket.request(&request)?;
        let mut counts = None;
        while let Some(answer) = reply.recv() {
            let (header, attributes) = answer.map_err(plain)?;
            if header.ifindex != link || header.parent != TC_H_ROOT {
                continue;
            }
            let Ok(stats) = attributes.get_stats2() else { continue };
            if let (Ok(basic), Ok(queue)) = (stats.get_basic(), stats.get_queue()) {
                counts = Some(QueueCounts {
                    packets: basic.packets,
                    octets: basic.bytes,
                    drops: queue.drops,
                    waiting: queue.qlen,
                });
            }
        }
        Ok(counts)
    }
}

/// What can match every packet and carry an action.
#[derive(Clone, Copy)]
enum Classifier {
    U32,
    Matchall,
}

/// linux/if_link.h, linux/pkt_cls.h, linux/pkt_sched.h.
const IFLA_INFO_DATA: u16 = 2;
const TCA_U32_ACT: u16 = 7;
const TCA_MATCHALL_ACT: u16 = 2;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const INGRESS_HANDLE: u32 = 0xffff_0000;
const TC_H_INGRESS: u32 = 0xffff_fff1;
const TC_H_ROOT: u32 = 0xffff_ffff;

const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_STOLEN: i32 = 4;

/// A filter for everything that arrives at the link, by its place in the order of filters.
fn filter_of(link: LinkIndex, place: u32) -> tc::Tcmsg {
    const ETH_P_ALL: u16 = 3;
    tc::Tcmsg {
        ifindex: link,
        parent: INGRESS_HANDLE,
        info: place << 16 | u32::from(ETH_P_ALL.to_be()),
        ..Default::default()
    }
}

fn root_of(link: LinkIndex) -> tc::Tcmsg {
    tc::Tcmsg { ifindex: link, handle: 0x0001_0000, parent: TC_H_ROOT, ..Default::default() }
}

/// Whose a packet is while it waits in the queue it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// As on a board: the sender has long forgotten it.
    Nobody,
    /// It counts against the sender's socket buffer.
    Sender,
}

/// One action, "send it out of `to`". By hand, because the bindings number a list of actions
/// from 0, and the kernel reads it from 1 (`tcf_action_init`).
fn push_redirect(buffer: &mut Vec<u8>, list: u16, to: LinkIndex, verdict: i32) {
    const TCA_EGRESS_REDIR: i32 = 1;
    let list = push_nested_header(buffer, list);
    let first = push_nested_header(buffer, 1);
    push_header(buffer, TCA_ACT_KIND, c"mirred".to_bytes_with_nul().len() as u16);
    buffer.extend(c"mirred".to_bytes_with_nul());
    let options = push_nested_header(buffer, TCA_ACT_OPTIONS);
    // struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex.
    let parameters = [0, 0, verdict, 0, 0, TCA_EGRESS_REDIR, to];
    push_header(buffer, TCA_MIRRED_PARMS, (parameters.len() * 4) as u16);
    buffer.extend(parameters.iter().flat_map(|word| word.to_ne_bytes()));
    for header in [options, first, list] {
        finalize_nested_header(buffer, header);
    }
}

/// The error number and the kernel's own explanation where it gave one.
fn plain(error: netlink_socket2::ReplyError) -> io::Error {
    let kind = error.as_io_error().kind();
    match error
        .ext_ack()
        .and_then(|attributes| attributes.get_msg().ok().map(|text| text.to_string_lossy().into_owned()))
    {
        Some(text) => io::Error::new(kind, format!("{} ({text})", error.as_io_error())),
        None => error.into(),
    }
}
