//! Asks a driver over ethtool's netlink.
//! Knows the commands' numbers; the attributes are decoded by netlink-bindings.
//!
//! The numbers stand here because those of netlink-bindings 0.3.5 are wrong from ETHTOOL_MSG_LINKMODES_GET on:
//! it counts the replies of SET commands as commands, so that its "get pause" sends FEC_SET and its "get link
//! modes" LINKINFO_SET. Its requests must not be sent; its replies are decoded rightly.

use std::io;

use netlink_bindings::traits::NetlinkRequest;

use crate::netlink::Netlink;

/// Commands that only read (linux/ethtool_netlink_generated.h, in the order of user to kernel messages).
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Get {
    LinkModes = 4,
    Features = 11,
    Rings = 15,
    Channels = 17,
    Coalesce = 19,
    Pause = 21,
}

// linux/ethtool_netlink.h: the header is attribute 1 of every command.
const HEADER: u16 = 1 | NESTED;
const NESTED: u16 = 0x8000;
const HEADER_DEV_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
/// Ask for statistics too.
pub(crate) const FLAG_STATS: u32 = 1 << 2;

/// Sends a command about `interface`; `R` is the generated type that decodes its reply. An `Ok(None)`: the
/// driver has no such thing, or the kernel no ethtool netlink (before Linux 5.6).
pub(crate) fn get<R: NetlinkRequest, T>(
    netlink: &mut Netlink,
    command: Get,
    interface: &str,
    flags: u32,
    read: impl Fn(R::ReplyType<'_>) -> T,
) -> io::Result<Option<T>> {
    let mut value = None;
    let asked = netlink.generic_request(b"ethtool", &payload(command, interface, flags), |reply| {
        value = Some(read(R::decode_reply(reply)));
    });
    match asked {
        Ok(()) => Ok(value),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// struct genlmsghdr, then the header with the interface's name and the flags.
fn payload(command: Get, interface: &str, flags: u32) -> Vec<u8> {
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let mut header = Vec::new();
    push_attribute(&mut header, HEADER_DEV_NAME, &name);
    push_attribute(&mut header, HEADER_FLAGS, &flags.to_ne_bytes());
    let mut payload = vec![command as u8, 1, 0, 0];
    push_attribute(&mut payload, HEADER, &header);
    payload
}

fn push_attribute(to: &mut Vec<u8>, kind: u16, content: &[u8]) {
    to.extend(((4 + content.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(content);
    to.resize(to.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use netlink_bindings::ethtool as generated;

    use super::*;

    #[test]
    fn the_kernel_answers_each_command_with_what_was_asked() {
        let mut netlink = Netlink::generic().unwrap();
        // Features are the one thing that every interface has, loopback included.
        let named = get::<generated::OpFeaturesGetDo, _>(&mut netlink, Get::Features, "lo", 0, |reply| {
            reply.get_header().ok().and_then(|header| header.get_dev_name().ok()).map(|name| name.to_owned())
        });
        assert_eq!(named.unwrap(), Some(Some(c"lo".to_owned())));
        let pause = get::<generated::OpPauseGetDo, _>(&mut netlink, Get::Pause, "lo", FLAG_STATS, |_| ());
        assert_eq!(pause.unwrap(), None, "loopback has no pause frames");
        let nobody = get::<generated::OpPauseGetDo, _>(&mut netlink, Get::Pause, "no-such-one", 0, |_| ());
        assert_eq!(nobody.unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
