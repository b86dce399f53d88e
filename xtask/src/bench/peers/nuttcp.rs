//! nuttcp: its arguments, and the figures of its line of key=value.
//! Knows that its client prints the receiver's account, which the server tells it.

use super::tool::{Account, Heard, Load, Peer, Server, after, unread, words};

pub(super) const NUTTCP: Peer =
    Peer { name: "nuttcp", endpoint: "nuttcp", receives: false, program: "nuttcp", serve, ask, read };

/// The server sends.
pub(super) const NUTTCP_R: Peer = Peer {
    name: "nuttcp -r",
    receives: true,
    ask: |load, seconds, address| [words("-r"), ask(load, seconds, address)].concat(),
    ..NUTTCP
};

fn serve(_: Load) -> Server {
    // One thread, in front: a server that forks would outlive its end.
    Server { arguments: words("-S --nofork --single-threaded -P 5000"), udp: false, port: 5000 }
}

fn ask(load: Load, seconds: u32, address: &str) -> Vec<String> {
    let udp = match load {
        Load::Udp { octets, rate_bps: None } => format!("-u -l{octets} -R0 "),
        // In Kbit/s, which is its unit.
        Load::Udp { octets, rate_bps: Some(rate_bps) } => format!("-u -l{octets} -R{} ", rate_bps / 1000),
        _ => String::new(),
    };
    words(&format!("{udp}-T{seconds} -fparse -P 5000 -p 5105 {address}"))
}

fn read(load: Load, heard: &Heard) -> Result<Account, String> {
    // It says megabytes and means 2^20 octets.
    let line = heard.client.lines().find(|line| line.starts_with("megabytes="));
    let account = |line: &str| {
        let (megabytes, rate) = (after(line, "megabytes=")?, after(line, "rate_Mbps=")?);
        let octets = megabytes * f64::from(1 << 20);
        // Seconds have two digits behind the point only, the rate has four.
        let seconds = octets * 8.0 / (rate * 1e6);
        let lost = if matches!(load, Load::Udp { .. }) { Some(after(line, " drop=")?) } else { None };
        Some(Account { octets, seconds, lost, ..Account::default() })
    };
    line.and_then(account).filter(|account| account.octets > 0.0).ok_or_else(|| unread("nuttcp", heard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_programs_is_read() {
        let client = "nuttcp-t: Warning=\"IP_frags_or_no_data_reception_since_buflen=1470_>_ctlconnmss=1448\"\n\
                      megabytes=335.4918 real_seconds=1.00 rate_Mbps=2821.5634 tx_cpu=97 rx_cpu=20 drop=4113 pkt=243425 \
                      data_loss=1.68963\n";
        let udp = Load::Udp { octets: 1470, rate_bps: None };
        let account = read(udp, &Heard { client, server: "" }).unwrap();
        assert_eq!(account.lost, Some(4113.0));
        assert!((account.octets / 1470.0 - (243_425.0 - 4113.0)).abs() < 1.0, "what arrived");
        assert!((account.seconds - 0.9974).abs() < 1e-3);
    }

    #[test]
    fn nothing_received_is_no_figure() {
        let client = "megabytes=0.0000 real_seconds=0.00 rate_Mbps=0.0000 tx_cpu=33 rx_cpu=0 retrans=0 rtt_ms=0.09\n";
        assert!(read(Load::Tcp, &Heard { client, server: "" }).is_err());
    }

    #[test]
    fn arguments() {
        let udp = Load::Udp { octets: 64, rate_bps: Some(10_000_000) };
        assert_eq!(ask(udp, 2, "a").join(" "), "-u -l64 -R10000 -T2 -fparse -P 5000 -p 5105 a");
    }
}
