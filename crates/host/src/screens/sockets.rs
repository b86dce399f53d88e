//! Open sockets of TCP, UDP and raw IP, from /proc/net.
//! Knows the tables' columns, and how the kernel writes addresses there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_machine::screen::{Kind, Value, View};

use crate::files::Files;

/// The kernel's tables.
const TABLES: [&str; 6] = ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"];

/// States of TCP by number (include/net/tcp_states.h).
const STATES: [&str; 12] = [
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "new-syn",
];

struct Socket {
    protocol: &'static str,
    local: SocketAddr,
    remote: SocketAddr,
    state: Option<&'static str>,
    to_send: u64,
    to_read: u64,
    drops: Option<u64>,
}

/// Those that hold data first.
pub(super) fn read(files: &Files) -> View {
    let mut view = View::new(&[
        ("protocol", Kind::Text),
        ("state", Kind::Text),
        ("to send", Kind::Number),
        ("to read", Kind::Number),
        ("drops", Kind::Number),
        ("local", Kind::Text),
        ("remote", Kind::Text),
    ]);
    let mut all = Vec::new();
    for table in TABLES {
        // A kernel without IPv6 has no tcp6.
        let Ok(text) = files.text(&format!("/proc/net/{table}")) else { continue };
        all.extend(text.lines().skip(1).filter_map(|line| parse(table, line)));
    }
    if all.is_empty() && files.text("/proc/net/udp").is_err() {
        view.missing.push("The kernel's tables of sockets could not be read: see whether /proc is there.".to_owned());
    }
    all.sort_by_key(|socket| std::cmp::Reverse(socket.to_send + socket.to_read));
    view.rows = all.into_iter().map(row).collect();
    view
}

fn row(socket: Socket) -> Vec<Value> {
    vec![
        socket.protocol.into(),
        Value::from(socket.state),
        socket.to_send.into(),
        socket.to_read.into(),
        socket.drops.into(),
        end(socket.local).into(),
        end(socket.remote).into(),
    ]
}

/// An address and a port; nothing is `*`.
fn end(address: SocketAddr) -> String {
    match (address.ip().is_unspecified(), address.port()) {
        (true, 0) => "*".to_owned(),
        (true, port) => format!("*:{port}"),
        _ => address.to_string(),
    }
}

/// `sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops`.
fn parse(table: &'static str, line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_tcp = table.starts_with("tcp");
    let state = u8::from_str_radix(fields.get(3)?, 16).ok()?;
    let (to_send, to_read) = fields.get(4)?.split_once(':')?;
    let state = if is_tcp { STATES.get(usize::from(state).wrapping_sub(1)).copied() } else { None };
    let queue = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Socket {
        protocol: table,
        local: address(fields.get(1)?)?,
        remote: address(fields.get(2)?)?,
        state,
        to_send: queue(to_send)?,
        // Of a listener it counts connections that nobody has accepted.
        to_read: queue(to_read)?,
        drops: if is_tcp { None } else { fields.get(12).and_then(|text| text.parse().ok()) },
    })
}

/// `0100007F:1F90`: words of 32 bits as the machine reads them, which are big-endian in memory.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len())
        .step_by(8)
        .map(|at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let ip = match words?.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(*word)),
        [a, b, c, d] => {
            let octets: Vec<u8> = [a, b, c, d].into_iter().flatten().copied().collect();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_as_the_kernel_writes_them() {
        for (text, want) in [
            ("0100007F:1F90", "127.0.0.1:8080"),
            ("00000000:0000", "0.0.0.0:0"),
            ("00000000000000000000000001000000:0016", "[::1]:22"),
            ("0000000000000000FFFF00000100007F:0016", "127.0.0.1:22"),
            ("000080FE00000000FF005452FE563412:0001", "[fe80::5254:ff:1234:56fe]:1"),
        ] {
            assert_eq!(address(text).map(|one| one.to_string()).as_deref(), Some(want), "{text}");
        }
        for text in ["", ":", "0100007F", "01007F:1F90", "0100007Fx:1F90", "0100007ä:1F90", "0100007F:FFFFF"] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn sockets_of_this_process_are_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.send_to(&[0; 700], datagrams.local_addr().unwrap()).unwrap();
        let view = read(&Files::here());
        let of = |address: SocketAddr| {
            let row =
                view.rows.iter().find(|row| row[5] == Value::Text(address.to_string())).expect("a socket of ours");
            row.iter().map(Value::text).collect::<Vec<_>>()
        };
        let tcp = of(listener.local_addr().unwrap());
        assert_eq!((tcp[0].as_str(), tcp[1].as_str(), tcp[6].as_str()), ("tcp", "listen", "*"));
        let udp = of(datagrams.local_addr().unwrap());
        // What waits is counted with its book-keeping.
        assert!(udp[0] == "udp" && udp[1] == "-" && udp[3].parse::<u64>().unwrap() >= 700, "{udp:?}");
    }

    #[test]
    fn nonsense_is_passed_over() {
        for line in [
            "",
            "sl local",
            "0: 0100007F:1F90 00000000:0000 0A",
            "0: x:y z 0A 0:0",
            "0: 0100007F:1F90 00000000:0000 0A 1",
        ] {
            assert!(parse("tcp", line).is_none(), "{line}");
        }
    }
}
