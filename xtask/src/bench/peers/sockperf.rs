//! sockperf: its arguments, and the figures in its prose.
//! Knows that its server counts what it received, and tells when it is interrupted.

use super::tool::{Account, Heard, Load, Peer, Server, after, unread, words};

pub(super) const SOCKPERF: Peer =
    Peer { name: "sockperf", endpoint: "", receives: false, program: "sockperf", serve, ask, read };

/// Its header; it takes no smaller message.
pub(super) const LEAST_REQUEST: u32 = 14;

fn serve(load: Load) -> Server {
    let udp = !matches!(load, Load::Tcp | Load::Requests { udp: false, .. });
    let tcp = if udp { "" } else { "--tcp" };
    Server { arguments: words(&format!("server {tcp} -i 0.0.0.0 -p 11111")), udp, port: 11111 }
}

fn ask(load: Load, seconds: u32, address: &str) -> Vec<String> {
    words(&match load {
        Load::Requests { udp, octets } => {
            let tcp = if udp { "" } else { "--tcp" };
            let octets = octets.max(LEAST_REQUEST);
            format!("ping-pong {tcp} -i {address} -p 11111 -m {octets} -t {seconds} --full-rtt")
        }
        Load::Udp { octets, .. } => format!("throughput -i {address} -p 11111 -m {octets} -t {seconds}"),
        Load::Tcp => format!("throughput --tcp -i {address} -p 11111 -m 1470 -t {seconds}"),
    })
}

fn read(load: Load, heard: &Heard) -> Result<Account, String> {
    let account = match load {
        Load::Requests { .. } => answered(heard.client),
        Load::Udp { octets, .. } => received(octets, heard),
        Load::Tcp => None,
    };
    account.ok_or_else(|| unread("sockperf", heard))
}

/// The count of the whole run, and the median of the part that it calls valid, after its own warm-up.
fn answered(client: &str) -> Option<Account> {
    let whole = client.lines().find(|line| line.contains("[Total Run]"))?;
    let median = client.lines().find_map(|line| line.split_once("percentile 50.000 =")?.1.trim().parse::<f64>().ok());
    Some(Account {
        seconds: after(whole, "RunTime=")?,
        transactions: Some(after(whole, "ReceivedMessages=")?),
        median_s: Some(median? / 1e6),
        ..Account::default()
    })
}

/// The server counts; it does not time, so the time is the client's. The handful of messages before the test counts
/// too, in favour of sockperf.
fn received(octets: u32, heard: &Heard) -> Option<Account> {
    let received = after(heard.server, "Total ").filter(|_| heard.server.contains("messages received and handled"))?;
    let sent = after(heard.client, "Total of ")?;
    let seconds = heard.client.split_once(" messages sent in ")?.1.split_whitespace().next()?.parse().ok()?;
    let lost = Some((sent - received).max(0.0));
    Some(Account { octets: received * f64::from(octets), seconds, lost, ..Account::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_over_the_whole_run() {
        let client = "sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=58285; ReceivedMessages=58284\n\
                      sockperf: [Valid Duration] RunTime=0.552 sec; SentMessages=33001; ReceivedMessages=33001\n\
                      sockperf: ---> percentile 75.000 =   11.777\nsockperf: ---> percentile 50.000 =   11.346\n";
        let account = read(Load::Requests { udp: true, octets: 1 }, &Heard { client, server: "" }).unwrap();
        assert_eq!((account.transactions, account.seconds), (Some(58_284.0), 1.0));
        assert!((account.median_s.unwrap() - 11.346e-6).abs() < 1e-12);
    }

    #[test]
    fn the_server_counts_datagrams() {
        let client = "sockperf: Total of 241989 messages sent in 1.000 sec\n";
        let server = "sockperf: Test end (interrupted by user)\nsockperf: Total 62647 messages received and handled\n";
        let udp = Load::Udp { octets: 1470, rate_bps: None };
        let account = read(udp, &Heard { client, server }).unwrap();
        assert_eq!((account.octets, account.lost), (62_647.0 * 1470.0, Some(179_342.0)));
        assert!(read(udp, &Heard { client, server: "sockperf: No messages were received" }).is_err());
    }
}
