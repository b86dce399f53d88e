//! What a person looks at on this machine: a file a screen or two, each read when it is looked at.
//! Knows no conversation and no drawing. Who measures here, the conversation's side knows.

mod addresses;
mod buffers;
mod interface;
mod sockets;
mod stack;
mod tasks;

use linerate_machine::screen::{Screen, View};

use crate::files::Files;

/// More rows than a person reads on a screen, or a serial line carries in a breath.
const MOST_ROWS: usize = 200;

/// A screen, now; of an interface where one is named. Reads only what costs nothing to the machine: no register that
/// reading clears.
pub fn read(screen: Screen, interface: Option<&str>) -> View {
    let files = Files::here();
    let view = match screen {
        Screen::Tasks => tasks::read(&files),
        Screen::Sockets => sockets::read(&files),
        Screen::Buffers => buffers::read(&files, interface),
        Screen::Interface => interface::read(interface),
        Screen::Ip => stack::read(&["Ip", "Ip6", "Icmp", "Icmp6"], &["IpExt"]),
        Screen::Udp => stack::read(&["Udp", "Udp6"], &["UdpLite", "UdpLite6"]),
        Screen::Tcp => stack::read(&["Tcp"], &["TcpExt"]),
        Screen::Addresses => addresses::read(),
        Screen::Statistics => interface::statistics(interface),
        // The agent makes this one, for it holds the conversation.
        Screen::RemoteControl => View::default(),
    };
    view.at_most(MOST_ROWS)
}
