//! Other tools whose servers can be one end of a trial, or whose clients can: a row for each.
//!
//! What a tool's protocol says is in crate `peers`, in a folder of its name.

use serde::{Deserialize, Serialize};

/// Another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// iperf3 (esnet/iperf).
    Iperf3,
    /// iperf2 (sourceforge.net/projects/iperf2).
    Iperf2,
    /// netperf (HewlettPackard/netperf).
    Netperf,
    /// nuttcp (nuttcp.net).
    Nuttcp,
    /// Classic ttcp.
    Ttcp,
    /// TWAMP Light (RFC 5357, appendix I).
    Twamp,
}

/// What everybody needs to know of a tool.
#[derive(Debug)]
pub struct Row {
    /// The tool.
    pub tool: Tool,
    /// The name, as endpoints and records write it.
    pub name: &'static str,
    /// The port that its server listens on, unless told otherwise.
    pub port: u16,
    /// Its clients that can be served.
    pub clients: &'static str,
    /// Its server, in a sentence.
    pub server: &'static str,
    /// The command that starts the server.
    pub start: &'static str,
    /// What the command has besides where datagrams are to come.
    pub start_udp: &'static str,
    /// What a server may have been started with that ends it after one test.
    pub one_off: Option<&'static str>,
    /// Whether a server answers before a test has its data, on a control connection or to each datagram. Without it, the
    /// data's first octets may be any program's, and nothing may ever come back.
    pub answers_first: bool,
    /// Whether its client can ask for datagrams without proving its address.
    pub asks_unproven: bool,
    /// Whether its server can ask for a user and a password.
    pub has_users: bool,
}

/// What most of them have in common.
const USUAL: Row = Row {
    tool: Tool::Iperf3,
    name: "",
    port: 0,
    clients: "",
    server: "",
    start: "",
    start_udp: "",
    one_off: None,
    answers_first: true,
    asks_unproven: false,
    has_users: false,
};

impl Tool {
    /// Every one, in the order of the enumeration.
    pub const ALL: [Row; 6] = [
        Row {
            tool: Tool::Iperf3,
            name: "iperf3",
            port: 5201,
            clients: "iperf3, of any version from 3.0 on",
            server: "iperf3 server",
            start: "iperf3 -s",
            one_off: Some("-1"),
            has_users: true,
            ..USUAL
        },
        Row {
            tool: Tool::Iperf2,
            name: "iperf2",
            port: 5001,
            clients: "iperf2, of any version from 2.0.5 on",
            server: "iperf2 server",
            start: "iperf -s",
            start_udp: " -u",
            one_off: Some("-1"),
            answers_first: false,
            asks_unproven: true,
            ..USUAL
        },
        Row {
            tool: Tool::Netperf,
            name: "netperf",
            port: 12_865,
            clients: "netperf, of any version from 2.5 on",
            server: "netserver",
            start: "netserver",
            ..USUAL
        },
        Row {
            tool: Tool::Nuttcp,
            name: "nuttcp",
            port: 5000,
            clients: "nuttcp, of any version from 3.3.2 on",
            server: "nuttcp server",
            start: "nuttcp -S",
            one_off: Some("-1"),
            ..USUAL
        },
        Row {
            tool: Tool::Ttcp,
            name: "ttcp",
            port: 5001,
            clients: "ttcp as it sends: 'ttcp -t' of any kind",
            server: "ttcp",
            start: "ttcp -r -s",
            start_udp: " -u",
            answers_first: false,
            ..USUAL
        },
        Row {
            tool: Tool::Twamp,
            name: "twamp",
            port: 862,
            clients: "TWAMP Light senders without authentication (RFC 5357, appendix I)",
            server: "TWAMP Light reflector",
            start: "linerate serve twamp --allow-unproven-udp 10M",
            asks_unproven: true,
            ..USUAL
        },
    ];

    /// Its row.
    pub const fn row(self) -> &'static Row {
        &Tool::ALL[self as usize]
    }

    /// The name, as endpoints and records write it.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The tool of this name.
    pub fn parse(name: &str) -> Option<Tool> {
        Tool::ALL.iter().find(|row| row.name == name).map(|row| row.tool)
    }

    /// The names of those that `are`, as a sentence lists them: "ttcp or iperf2".
    pub fn names(are: impl Fn(&Row) -> bool) -> String {
        let names: Vec<&str> = Tool::ALL.iter().filter(|row| are(row)).map(|row| row.name).collect();
        names.join(" or ")
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enumeration() {
        for row in &Tool::ALL {
            assert_eq!((row.tool.row().name, Tool::parse(row.name)), (row.name, Some(row.tool)));
        }
    }

    #[test]
    fn the_page_has_the_table() {
        let head = "| target | its server, started with | port | clients that `linerate serve` knows |";
        let mut table = format!("{head}\n|---|---|---|---|\n");
        for Row { name, port, clients, start, start_udp, .. } in &Tool::ALL {
            let udp = if start_udp.is_empty() { String::new() } else { format!(", datagrams `{start}{start_udp}`") };
            table += &format!("| `{name}:host` | `{start}`{udp} | {port} | {clients} |\n");
        }
        linerate_machine::docs_tests::check("peers.md", head, &table);
    }
}
