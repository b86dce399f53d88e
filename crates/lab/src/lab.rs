//! Two machines and the cable between them: made, changed while up, and gone when dropped.
//! Knows no rates of its own (`shape`) and no netlink attributes (`link`).

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::Shape;
pub use crate::link::QueueCounts;
use crate::link::{LOOPBACK, LinkIndex, Links, Ownership, TokenBucket};
use crate::sys::Namespace;

/// The name of the cable's end in both machines, as on a board.
pub const LINK_NAME: &str = "eth0";
/// The name of the link in the target whose queue stands for the board's receive ring.
pub const RECEIVE_QUEUE_NAME: &str = "ifb0";

/// The host's addresses. 198.18.0.0/15 is set aside for benchmarking (RFC 2544, appendix C.2.2), 2001:2::/48 is its
/// like for IPv6 (RFC 5180, section 8): neither is anybody's real network.
pub const HOST_IPV4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The host's IPv6 address.
pub const HOST_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1);
/// The target's IPv4 address.
pub const TARGET_IPV4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The target's IPv6 address.
pub const TARGET_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2);
/// The prefix length of both IPv4 addresses.
pub const IPV4_PREFIX: u8 = 24;
/// The prefix length of both IPv6 addresses.
pub const IPV6_PREFIX: u8 = 64;

/// A target and a host out of two network namespaces.
///
/// ```text
///        host                                   target
///   198.18.0.1  eth0 ───────── veth ───────── eth0  198.18.0.2
///                                  ◄── token bucket, long queue
///                                  ──► ifb0: token bucket, short queue ──► stack
/// ```
///
/// The namespaces have no names: they are open files of this process and end with it, however it ends. Programs
/// started in them keep them alive, so end those with the lab.
pub struct Lab {
    /// The host, in which [`Namespace::run`] runs.
    pub host: Namespace,
    /// The target, likewise.
    pub target: Namespace,
    host_link: LinkIndex,
    target_link: LinkIndex,
    shape: Shape,
    receive_queue: ReceiveQueue,
    notes: Vec<String>,
}

/// Where arrivals at the target wait and are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveQueue {
    /// Nowhere: not limited.
    None,
    /// In the queue of this link of the target.
    Target(LinkIndex),
    /// In the queue of the host's end of the cable, where the target could not have one.
    Host,
}

/// Why there is no lab, or why it could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Not allowed to make namespaces.
    #[error("{why}")]
    NotPermitted {
        /// One sentence with what to try.
        why: String,
    },
    /// [`enter_user_namespace`](crate::enter_user_namespace) came too late.
    #[error("a user namespace must be entered before the first thread is started; call it first thing in main")]
    Threads,
    /// The kernel refused a step.
    #[error("{doing} failed: {why}; the lab needs a kernel with veth links and the tbf queueing discipline")]
    Kernel {
        /// The step, as a clause.
        doing: String,
        /// The kernel's words.
        why: String,
    },
    /// The cable was made and plugged in, but never came up.
    #[error("the lab's link did not come up within {}; try again", format_args!("{} s", CARRIER_PATIENCE.as_secs()))]
    NoCarrier,
}

/// How long a link may take to come up. It takes a few milliseconds unless the machine is starved.
pub(crate) const CARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// Lets the last CPU take in what arrives at a link (receive packet steering, Documentation/networking/scaling.rst),
/// as a board's own processor would. Without it the sender's CPU does that too: with a timer for each packet that the
/// receive queue lets through, it had no time left to offer more than 457 Mbit/s to a link of 470, and with it 550,
/// in a virtual machine of two CPUs. Only real root may ask for it, also in a namespace of another user.
pub(crate) fn receive_on_last_cpu(link: &str) -> io::Result<()> {
    let last = thread::available_parallelism()?.get() - 1;
    // The mask's words of 32 CPUs each are written with commas between, the highest first.
    let mut mask = format!("{:x}", 1u32 << (last % 32));
    mask.push_str(&",00000000".repeat(last / 32));
    fs::write(format!("/sys/class/net/{link}/queues/rx-0/rps_cpus"), mask)
}

/// Of the namespace of the thread that opens a file below it (ip-sysctl.rst).
const IPV6_SWITCHES: &str = "/proc/sys/net/ipv6/conf";

const LINK: &CStr = c"eth0";
const RECEIVE_LINK: &CStr = c"ifb0";

impl Lab {
    /// Makes both machines and the cable, and returns when packets pass over it, IPv4 and IPv6, both ways.
    pub fn up(shape: &Shape) -> Result<Lab, LabError> {
        let host = Namespace::new().map_err(namespace_refused)?;
        let target = Namespace::new().map_err(namespace_refused)?;
        let peer = target.fd();
        let offload = shape.segmentation_offload;
        let mut notes = Vec::new();

        step("making the link", host.run(|| Links::new().add_pair(LINK, peer)))?;
        let prepare = || {
            let mut links = Links::new();
            let link = links.index(LINK)?;
            links.set_up(LOOPBACK, true)?;
            if has_ipv6() {
                links.no_address_of_its_own(link)?;
            }
            // The first reports of multicast groups come within a second, at random, and would be counted with
            // somebody's test traffic. Better now; an old kernel without the switch is no worse than usual.
            let _ = fs::write(format!("{IPV6_SWITCHES}/{LINK_NAME}/mldv2_unsolicited_report_interval"), "1");
            let offload_off = if offload { Ok(()) } else { links.no_segmentation_offload(LINK) };
            Ok((link, offload_off.err()))
        };
        let (host_link, host_offload) = step("preparing the host's link", host.run(prepare))?;
        let (target_link, target_offload) = step("preparing the target's link", target.run(prepare))?;
        if !has_ipv6() {
            notes.push("the lab has IPv4 only, because IPv6 is off in this kernel".to_owned());
        }
        if let Some(error) = host_offload.or(target_offload) {
            notes.push(format!(
                "segmentation offload stays on, because the kernel would not turn it off ({error}): TCP arrives in \
                 trains of packets that a cable would not deliver, and loses more than on a board"
            ));
        }

        let mut lab = Lab {
            host,
            target,
            host_link,
            target_link,
            shape: Shape { tx_rate_bps: None, rx_rate_bps: None, ..*shape },
            receive_queue: ReceiveQueue::None,
            notes,
        };
        // Queues first, carrier second: a link that comes up with its final queue is activated at once, while a
        // queue put in later makes the kernel stop and start it.
        lab.set_tx_rate(shape.tx_rate_bps)?;
        lab.set_rx_rate(shape.rx_rate_bps)?;
        step("plugging in the target", lab.target.run(|| Links::new().set_up(target_link, true)))?;
        if shape.rx_rate_bps.is_some() {
            // A kindness to the sender, not a part of the shape: where it is refused the link is the same.
            let _ = lab.target.run_with_sysfs(|| receive_on_last_cpu(LINK_NAME));
        }
        lab.set_carrier(true)?;
        step(
            "giving the target its addresses",
            lab.target.run(|| add_addresses(target_link, TARGET_IPV4, TARGET_IPV6)),
        )?;
        Ok(lab)
    }

    /// What is not as the shape asked, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The shape as it is now.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Limits what the target sends, in bits per second of frames; counters of the queue may start anew.
    pub fn set_tx_rate(&mut self, rate_bps: Option<u64>) -> Result<(), LabError> {
        let (link, limit) = (self.target_link, self.shape.tx_queue_octets);
        let was_limited = self.shape.tx_rate_bps.is_some();
        step(
            "limiting what the target sends",
            self.target.run(|| match rate_bps {
                Some(rate_bps) => Links::new().set_token_bucket(link, bucket(rate_bps, limit)),
                None if was_limited => Links::new().remove_token_bucket(link),
                None => Ok(()),
            }),
        )?;
        self.shape.tx_rate_bps = rate_bps;
        Ok(())
    }

    /// Limits what the target receives, in bits per second of frames; counters of the queue may start anew.
    pub fn set_rx_rate(&mut self, rate_bps: Option<u64>) -> Result<(), LabError> {
        match rate_bps {
            None => self.remove_receive_queue()?,
            Some(rate_bps) => {
                if self.receive_queue == ReceiveQueue::None {
                    self.receive_queue = self.make_receive_queue(rate_bps);
                }
                self.limit_receive_queue(rate_bps)?;
            }
        }
        self.shape.rx_rate_bps = rate_bps;
        Ok(())
    }

    /// Pulls the cable at the host's end, or puts it back and waits until packets pass again. The target's link then
    /// has no carrier, as if its own plug had been pulled; the host's link is down.
    pub fn set_carrier(&mut self, on: bool) -> Result<(), LabError> {
        let (host_link, target_link) = (self.host_link, self.target_link);
        let doing = if on { "plugging in the host" } else { "pulling the cable" };
        step(doing, self.host.run(|| Links::new().set_up(host_link, on)))?;
        if !on {
            return Ok(());
        }
        let deadline = Instant::now() + CARRIER_PATIENCE;
        let host_up = step("watching the host's link", self.host.run(|| wait_until_up(host_link, deadline)))?;
        let target_up = step("watching the target's link", self.target.run(|| wait_until_up(target_link, deadline)))?;
        if !(host_up && target_up) {
            return Err(LabError::NoCarrier);
        }
        // Again each time: a link that is taken down forgets its IPv6 addresses (keep_addr_on_down is 0).
        step("giving the host its addresses", self.host.run(|| add_addresses(host_link, HOST_IPV4, HOST_IPV6)))
    }

    /// Whether the target's link sees a carrier.
    pub fn has_carrier(&self) -> Result<bool, LabError> {
        step("looking for the target's carrier", self.target.run(|| Links::new().has_carrier(self.target_link)))
    }

    /// What the queue behind which the target receives has let through and dropped; `None` if it is not limited.
    pub fn receive_queue_counts(&self) -> Result<Option<QueueCounts>, LabError> {
        let doing = "reading the receive queue's counters";
        match self.receive_queue {
            ReceiveQueue::None => Ok(None),
            ReceiveQueue::Target(link) => step(doing, self.target.run(|| Links::new().queue_counts(link))),
            ReceiveQueue::Host => step(doing, self.host.run(|| Links::new().queue_counts(self.host_link))),
        }
    }

    /// What the queue through which the target sends has let through and dropped; `None` if it is not limited.
    pub fn transmit_queue_counts(&self) -> Result<Option<QueueCounts>, LabError> {
        if self.shape.tx_rate_bps.is_none() {
            return Ok(None);
        }
        step("reading the transmit queue's counters", self.target.run(|| Links::new().queue_counts(self.target_link)))
    }

    /// In the target where the kernel can, so that the loss is the target's; else before the cable, and noted.
    fn make_receive_queue(&mut self, rate_bps: u64) -> ReceiveQueue {
        let (link, limit) = (self.target_link, self.shape.rx_queue_octets);
        let made = self.target.run(|| {
            let mut links = Links::new();
            links.add_ifb(RECEIVE_LINK)?;
            let queue = links.index(RECEIVE_LINK)?;
            // A queue is no interface: what IPv6 itself sends over it would be counted in it.
            let _ = fs::write(format!("{IPV6_SWITCHES}/{RECEIVE_QUEUE_NAME}/disable_ipv6"), "1");
            let built = links.set_up(queue, true).and_then(|()| {
                links.set_token_bucket(queue, bucket(rate_bps, limit))?;
                links.redirect_arrivals(link, queue)
            });
            built.map(|ownership| (queue, ownership)).inspect_err(|_| {
                // Half a detour would swallow packets.
                let _ = links.stop_redirecting(link);
                let _ = links.remove(queue);
            })
        });
        match made {
            Ok((queue, ownership)) => {
                if ownership == Ownership::Sender {
                    self.notes.push(
                        "a UDP flood towards the target is held back in the sender's socket instead of lost, because \
                         this kernel lacks the bpf classifier; give the sender a large socket buffer to see loss"
                            .to_owned(),
                    );
                }
                ReceiveQueue::Target(queue)
            }
            Err(error) => {
                self.notes.push(format!(
                    "the target's receive queue stands at the host's end of the cable, because this kernel cannot \
                     redirect arrivals to an ifb link ({error}): what it drops shows in the host's counters, not in \
                     the target's"
                ));
                ReceiveQueue::Host
            }
        }
    }

    fn limit_receive_queue(&self, rate_bps: u64) -> Result<(), LabError> {
        let bucket = bucket(rate_bps, self.shape.rx_queue_octets);
        let doing = "limiting what the target receives";
        match self.receive_queue {
            ReceiveQueue::None => Ok(()),
            ReceiveQueue::Target(link) => step(doing, self.target.run(|| Links::new().set_token_bucket(link, bucket))),
            ReceiveQueue::Host => step(doing, self.host.run(|| Links::new().set_token_bucket(self.host_link, bucket))),
        }
    }

    fn remove_receive_queue(&mut self) -> Result<(), LabError> {
        let doing = "taking the receive limit away";
        let link = self.target_link;
        match self.receive_queue {
            ReceiveQueue::None => {}
            ReceiveQueue::Target(queue) => step(
                doing,
                self.target.run(|| {
                    let mut links = Links::new();
                    links.stop_redirecting(link)?;
                    links.remove(queue)
                }),
            )?,
            ReceiveQueue::Host => step(doing, self.host.run(|| Links::new().remove_token_bucket(self.host_link)))?,
        }
        self.receive_queue = ReceiveQueue::None;
        Ok(())
    }
}

fn bucket(rate_bps: u64, limit_octets: u32) -> TokenBucket {
    TokenBucket { rate_bps, burst_octets: Shape::burst_octets(rate_bps), limit_octets }
}

/// Gives a link its addresses and waits until it can be found by them.
fn add_addresses(link: LinkIndex, v4: Ipv4Addr, v6: Ipv6Addr) -> io::Result<()> {
    let mut links = Links::new();
    links.add_address(link, IpAddr::V4(v4), IPV4_PREFIX)?;
    if !has_ipv6() {
        return Ok(());
    }
    links.add_address(link, IpAddr::V6(v6), IPV6_PREFIX)?;
    // The kernel joins the address's solicited-node group (RFC 4291, section 2.7.1) a moment later, from a work
    // queue. A neighbour who asks before is not heard and asks again only after a second.
    let [.., a, b, c] = v6.octets();
    let group = format!("ff0200000000000000000001ff{a:02x}{b:02x}{c:02x}");
    let deadline = Instant::now() + CARRIER_PATIENCE;
    while !fs::read_to_string("/proc/thread-self/net/igmp6")?.contains(&group) {
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the link did not join its multicast group"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Absent where the kernel was built or started (`ipv6.disable=1`) without.
fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

pub(crate) fn wait_until_up(link: LinkIndex, deadline: Instant) -> io::Result<bool> {
    let mut links = Links::new();
    while !links.is_operational(link)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}

pub(crate) fn step<T>(doing: &str, result: io::Result<T>) -> Result<T, LabError> {
    result.map_err(|error| LabError::Kernel { doing: doing.to_owned(), why: error.to_string() })
}

pub(crate) fn namespace_refused(error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => LabError::NotPermitted {
            why: "making a network namespace needs root, or a user namespace that is entered first; run as root".into(),
        },
        _ => LabError::Kernel { doing: "making a network namespace".to_owned(), why: error.to_string() },
    }
}
