//! Asks the kernel over netlink: one request, all its replies.
//! Knows the framing of messages and attributes, and callers what they mean.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys;
use crate::sys::option::RECEIVE_BUFFER_FORCED;

const HEADER_LEN: usize = 16;
/// The kernel fills dumps up to what the reader offers, 32 KiB at most (netlink_dump in net/netlink).
const BUFFER_LEN: usize = 32 * 1024;
/// The most that waits to be heard, as the kernel accounts for it.
const SUBSCRIPTION_LEN: libc::c_int = 1 << 20;
/// The kernel answers within the call; this bounds a kernel that never does.
const PATIENCE: Duration = Duration::from_secs(2);
const NETLINK_GENERIC: u16 = libc::NETLINK_GENERIC as u16;

/// A netlink socket of the thread's network namespace.
pub(crate) struct Netlink {
    /// Not a UDP socket: std has no type for this family, and this one has sending, receiving and time-outs.
    socket: UdpSocket,
    sequence: u32,
    /// Generic netlink's number of a family, by its name.
    families: Vec<(&'static [u8], u16)>,
    /// What the kernel said in words about the last request.
    said: Option<String>,
    buffer: Vec<u8>,
}

impl Netlink {
    /// A socket for links, addresses and queueing disciplines.
    pub(crate) fn route() -> io::Result<Netlink> {
        Netlink::open(libc::NETLINK_ROUTE as u16)
    }

    /// A socket for generic families, such as ethtool.
    pub(crate) fn generic() -> io::Result<Netlink> {
        Netlink::open(NETLINK_GENERIC)
    }

    fn open(protocol: u16) -> io::Result<Netlink> {
        let socket = UdpSocket::from(sys::netlink::open(i32::from(protocol))?);
        socket.set_read_timeout(Some(PATIENCE))?;
        // Words beside the error number, since Linux 4.12; an older kernel refuses, and does without.
        let _ = sys::netlink::ask_for_words(socket.as_fd());
        Ok(Netlink { socket, sequence: 0, families: Vec::new(), said: None, buffer: Vec::new() })
    }

    /// What the kernel said in words when it answered the last request (NLMSGERR_ATTR_MSG): why it refused, or a
    /// warning beside a success.
    pub(crate) fn said(&mut self) -> Option<String> {
        self.said.take()
    }

    /// Sends `payload`, which begins with struct genlmsghdr, to a generic family, and hands each reply's to
    /// `handle_reply`.
    pub(crate) fn generic_request(
        &mut self,
        family: &'static [u8],
        payload: &[u8],
        handle_reply: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let family = self.generic_family(family)?;
        self.request(family, 0, payload, handle_reply)
    }

    /// Sends a request of a kind that changes something: `payload` begins with the kind's own header.
    pub(crate) fn change(&mut self, message_type: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.request(message_type, flags, payload, |_| ())
    }

    /// The number of a generic family; ENOENT where the kernel has none of this name.
    pub(crate) fn generic_family(&mut self, name: &'static [u8]) -> io::Result<u16> {
        if let Some(&(_, id)) = self.families.iter().find(|(known, _)| *known == name) {
            return Ok(id);
        }
        // struct genlmsghdr: command, version, reserved.
        let mut payload = vec![libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0];
        push_attribute(&mut payload, libc::CTRL_ATTR_FAMILY_NAME as u16, &[name, &[0]].concat());
        let mut id = None;
        self.request(libc::GENL_ID_CTRL as u16, 0, &payload, |reply| {
            let told = attributes(reply.get(4..).unwrap_or_default());
            id = told
                .filter(|(kind, _)| i32::from(*kind) == libc::CTRL_ATTR_FAMILY_ID)
                .find_map(|(_, id)| Some(u16::from_ne_bytes(*id.first_chunk()?)));
        })?;
        let id = id.ok_or(io::ErrorKind::Unsupported)?;
        self.families.push((name, id));
        Ok(id)
    }

    /// Sends a request like [`Netlink::change`], and hands each reply to `handle_reply`, until the kernel says that was all.
    pub(crate) fn request(
        &mut self,
        message_type: u16,
        flags: u16,
        payload: &[u8],
        mut handle_reply: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.said = None;
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut message = Vec::with_capacity(HEADER_LEN + payload.len());
        message.extend(((HEADER_LEN + payload.len()) as u32).to_ne_bytes());
        message.extend(message_type.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(payload);
        self.socket.send(&message)?;
        self.buffer.resize(BUFFER_LEN, 0);
        let buffer = &mut self.buffer;
        loop {
            let length = match self.socket.recv(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for message in messages(&buffer[..length]) {
                let message = message?;
                if message.sequence != self.sequence {
                    continue;
                }
                match i32::from(message.message_type) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        if i32::from(message.message_type) == libc::NLMSG_ERROR {
                            self.said = words(message.flags, message.payload);
                        }
                        return match read_i32(message.payload) {
                            None | Some(0) => Ok(()),
                            Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                        };
                    }
                    libc::NLMSG_NOOP => {}
                    libc::NLMSG_OVERRUN => return Err(io::Error::other("netlink data was lost")),
                    _ => handle_reply(message.payload),
                }
            }
        }
    }
}

/// Hears of what changes in the thread's network namespace (rtnetlink(7)).
pub(crate) struct Subscription {
    socket: UdpSocket,
    buffer: Vec<u8>,
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// All that there was.
    All,
    /// More waits than is read at a time.
    NotYetAll,
    /// The kernel had more to say than the socket holds, and threw some of it away.
    Missed,
}

impl Subscription {
    /// Of these groups: RTNLGRP_… of linux/rtnetlink.h, up to 32.
    pub(crate) fn route(groups: &[u32]) -> io::Result<Subscription> {
        let socket = UdpSocket::from(sys::netlink::open(libc::NETLINK_ROUTE)?);
        sys::netlink::bind(socket.as_fd(), groups.iter().fold(0, |all, group| all | 1 << (group - 1)))?;
        socket.set_nonblocking(true)?;
        // What changes on a busy router within a slice is more than a socket holds by default; who may not have more
        // misses some of it, and hears that.
        let _ = RECEIVE_BUFFER_FORCED.set(&socket, SUBSCRIPTION_LEN);
        Ok(Subscription { socket, buffer: vec![0; BUFFER_LEN] })
    }

    /// Hands type and content of what was said since the last time to `handle`, of so many reads at most. Waits for
    /// nothing.
    pub(crate) fn drain(&mut self, most: usize, mut handle: impl FnMut(u16, &[u8])) -> Received {
        for _ in 0..most {
            let length = match self.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Received::Missed,
                Err(_) => return Received::All,
            };
            for message in messages(&self.buffer[..length]).flatten() {
                handle(message.message_type, message.payload);
            }
        }
        Received::NotYetAll
    }
}

struct Message<'a> {
    message_type: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

/// The messages in what one read returned; an error ends them.
fn messages(mut buffer: &[u8]) -> impl Iterator<Item = io::Result<Message<'_>>> {
    std::iter::from_fn(move || {
        if buffer.is_empty() {
            return None;
        }
        let length = read_i32(buffer).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        if length < HEADER_LEN || length > buffer.len() {
            buffer = &[];
            return Some(Err(io::Error::other("a netlink message was cut short")));
        }
        let (message, _) = buffer.split_at(length);
        buffer = &buffer[length.next_multiple_of(4).min(buffer.len())..];
        Some(Ok(Message {
            message_type: u16::from_ne_bytes([message[4], message[5]]),
            flags: u16::from_ne_bytes([message[6], message[7]]),
            sequence: u32::from_ne_bytes([message[8], message[9], message[10], message[11]]),
            payload: &message[HEADER_LEN..],
        }))
    })
}

/// The words in an acknowledgement, struct nlmsgerr: the error, the request's header, the request itself unless it
/// was left out, then attributes (Documentation/userspace-api/netlink/intro.rst, "Ext ACK").
fn words(flags: u16, payload: &[u8]) -> Option<String> {
    // linux/netlink.h.
    const NLM_F_CAPPED: u16 = 0x100;
    const NLM_F_ACK_TLVS: u16 = 0x200;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = payload.get(4..)?;
    let request_len = match flags & NLM_F_CAPPED {
        0 => usize::try_from(read_i32(request)?).ok()?.checked_next_multiple_of(4)?,
        _ => HEADER_LEN,
    };
    let (_, text) = attributes(request.get(request_len..)?).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG)?;
    let text = String::from_utf8_lossy(text);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

/// An address as attributes have it.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

/// An address's family, as headers have it.
pub(crate) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// Appends an attribute: length, type, content, and what makes its length a multiple of four.
pub(crate) fn push_attribute(to: &mut Vec<u8>, kind: u16, content: &[u8]) {
    to.extend(((4 + content.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(content);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// The 32 bits at an offset.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

/// The text in an attribute.
pub(crate) fn text(content: &[u8]) -> String {
    String::from_utf8_lossy(content).trim_end_matches('\0').to_owned()
}

fn read_i32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|chunk| i32::from_ne_bytes(*chunk))
}

/// The attributes in `bytes`, type and content, for those whose length tells something: the generated types
/// fill up what an older kernel did not send with zeros. Stops at the first that makes no sense.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header: [u8; 4] = *bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let content = bytes.get(4..length)?;
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        // The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        Some((u16::from_ne_bytes([header[2], header[3]]) & 0x3fff, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, kind, content);
        bytes
    }

    #[test]
    fn the_kernels_words_are_found_behind_the_request() {
        let mut request = 18u32.to_ne_bytes().to_vec();
        request.resize(20, 9);
        let mut whole = (-22i32).to_ne_bytes().to_vec();
        whole.extend(&request);
        whole.extend(attribute(2, &[0; 4]));
        whole.extend(attribute(1, b"too large\0"));
        assert_eq!(words(0x200, &whole).as_deref(), Some("too large"));
        assert_eq!(words(0, &whole), None);
        let mut capped = (-22i32).to_ne_bytes().to_vec();
        capped.extend([0; HEADER_LEN]);
        capped.extend(attribute(1, b"too large\0"));
        assert_eq!(words(0x300, &capped).as_deref(), Some("too large"));
        for cut in 0..whole.len() {
            assert_eq!(words(0x200, &whole[..cut]).filter(|words| words.len() > 9), None);
        }
    }

    #[test]
    fn attributes_are_read_up_to_the_first_nonsense() {
        let mut bytes = attribute(3, b"lo\0");
        bytes.extend(attribute(0x8000 | 7, &[1, 2, 3, 4, 5]));
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(3, &b"lo\0"[..]), (7, &[1, 2, 3, 4, 5])]);
        for cut in 0..bytes.len() {
            assert!(attributes(&bytes[..cut]).count() <= 2);
        }
        for garbage in [&[0u8; 16][..], &[0xff; 16], &[3, 0, 1, 0], &[4, 0, 1, 0, 9]] {
            assert!(attributes(garbage).count() <= 1, "{garbage:?}");
        }
    }

    #[test]
    fn messages_that_make_no_sense_are_errors_and_end() {
        for garbage in [&[0u8; 40][..], &[0xff; 40], &[16, 0, 0]] {
            let got: Vec<_> = messages(garbage).take(9).collect();
            assert_eq!(got.len(), 1);
            assert!(got[0].is_err());
        }
    }

    #[test]
    fn the_kernel_says_no_with_its_own_error() {
        // struct ifinfomsg with an index that no interface has.
        let header: Vec<u8> = [0, i32::MAX as u32, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let asked = Netlink::route().unwrap().request(libc::RTM_GETLINK, 0, &header, |_| panic!("no such link"));
        assert_eq!(asked.unwrap_err().raw_os_error(), Some(libc::ENODEV));
        let mut generic = Netlink::generic().unwrap();
        assert_eq!(generic.generic_family(b"nlctrl").unwrap(), libc::GENL_ID_CTRL as u16);
        assert_eq!(generic.generic_family(b"no-such-family").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
