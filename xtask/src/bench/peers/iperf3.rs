//! iperf3: its arguments, and the receiver's figures in its JSON.
//! Knows nothing of its protocol.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::tool::{Account, Heard, Load, Peer, Server, unread, words};

pub(super) const IPERF3: Peer = Peer {
    name: "iperf3",
    endpoint: "iperf3",
    receives: false,
    program: "iperf3",
    serve,
    ask: |load, seconds, address| ask(load, seconds, address),
    read,
};

/// The server sends.
pub(super) const IPERF3_R: Peer = Peer {
    name: "iperf3 -R",
    receives: true,
    ask: |load, seconds, address| [ask(load, seconds, address), words("-R")].concat(),
    ..IPERF3
};

/// Sends by sendfile(2).
pub(super) const IPERF3_Z: Peer = Peer {
    name: "iperf3 -Z",
    ask: |load, seconds, address| {
        let mut arguments = ask(load, seconds, address);
        arguments.push("-Z".to_owned());
        arguments
    },
    ..IPERF3
};

/// Sends so, and has the kernel drop what arrives at the receiver (MSG_TRUNC).
pub(super) const IPERF3_Z_SKIP: Peer = Peer {
    name: "iperf3 -Z --skip-rx-copy",
    ask: |load, seconds, address| [(IPERF3_Z.ask)(load, seconds, address), words("--skip-rx-copy")].concat(),
    ..IPERF3
};

/// Has datagrams cut apart by the sender's kernel, and merged by the receiver's.
pub(super) const IPERF3_GSRO: Peer = Peer {
    name: "iperf3 --gsro",
    ask: |load, seconds, address| [ask(load, seconds, address), words("--gsro")].concat(),
    ..IPERF3
};

/// Whether the iperf3 of this machine has an option; Debian 12's 3.12 has neither of the two.
pub(super) fn has(option: &str) -> bool {
    let help = Command::new(IPERF3.program).arg("--help").stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains(option))
}

fn serve(_: Load) -> Server {
    Server { arguments: words("-s -1 -p 5201"), udp: false, port: 5201 }
}

fn ask(load: Load, seconds: u32, address: &str) -> Vec<String> {
    let mut arguments = words(&format!("-J -p 5201 -t {seconds} -c {address}"));
    if let Load::Udp { octets, rate_bps } = load {
        // A rate of 0 is none.
        arguments.extend(words(&format!("-u -l {octets} -b {}", rate_bps.unwrap_or(0))));
    }
    arguments
}

fn read(load: Load, heard: &Heard) -> Result<Account, String> {
    // It warns of large datagrams outside of its JSON.
    let start = heard.client.find('{').unwrap_or_default();
    let mut reports = serde_json::Deserializer::from_str(&heard.client[start..]).into_iter::<Value>();
    let report = reports.next().and_then(Result::ok).ok_or_else(|| unread("iperf3", heard))?;
    let received = &report["end"]["sum_received"];
    let figure = |name: &str| received[name].as_f64();
    let account = || {
        Some(Account {
            octets: figure("bytes")?,
            seconds: figure("seconds")?,
            lost: if matches!(load, Load::Udp { .. }) { figure("lost_packets") } else { None },
            ..Account::default()
        })
    };
    account().ok_or_else(|| match report["error"].as_str() {
        Some(error) => format!("iperf3: {error}"),
        None => unread("iperf3", heard),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: Load = Load::Udp { octets: 1470, rate_bps: None };

    #[test]
    fn the_receivers_sum_is_read() {
        let client = r#"{"end":{"sum":{"bytes":381729600,"seconds":1.000074,"packets":259680},
            "sum_sent":{"bytes":381729600,"seconds":1.000037},
            "sum_received":{"bytes":381059280,"seconds":1.000074,"lost_packets":456,"packets":259680,"sender":false}}}"#;
        let account = read(UDP, &Heard { client, server: "" }).unwrap();
        assert_eq!((account.octets, account.lost), (381_059_280.0, Some(456.0)));
        assert!((account.bps() - 3_048_248_669.6).abs() < 1.0);
    }

    #[test]
    fn an_error_is_told() {
        let heard = Heard { client: r#"{"end":{},"error":"unable to connect"}"#, server: "" };
        assert_eq!(read(Load::Tcp, &heard).unwrap_err(), "iperf3: unable to connect");
        let warned = "warning: large\n{\"end\":{},\"error\":\"x\"}\nwarning: large\n";
        assert_eq!(read(Load::Tcp, &Heard { client: warned, server: "" }).unwrap_err(), "iperf3: x");
        let heard = Heard { client: "no json", server: "x\n\n" };
        assert_eq!(read(Load::Tcp, &heard).unwrap_err(), "iperf3 gave no figure; it said: no json; its server: x");
    }

    #[test]
    fn arguments() {
        assert_eq!(ask(UDP, 2, "a").join(" "), "-J -p 5201 -t 2 -c a -u -l 1470 -b 0");
        assert_eq!((IPERF3_Z.ask)(Load::Tcp, 2, "a").join(" "), "-J -p 5201 -t 2 -c a -Z");
        let most = (IPERF3_Z_SKIP.ask)(Load::Tcp, 2, "a").join(" ");
        assert_eq!(most, "-J -p 5201 -t 2 -c a -Z --skip-rx-copy");
        assert!((IPERF3_GSRO.ask)(UDP, 2, "a").join(" ").ends_with("-u -l 1470 -b 0 --gsro"));
    }
}
