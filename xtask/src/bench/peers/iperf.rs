//! iperf (2): its arguments, and the figures of its server's report.
//! Knows its table for people: its CSV has times to a tenth of a second only.

use super::tool::{Account, Heard, Load, Peer, Server, after, before, unread, words};

pub(super) const IPERF: Peer =
    Peer { name: "iperf", endpoint: "iperf2", receives: false, program: "iperf", serve, ask, read };

/// The server sends.
pub(super) const IPERF_R: Peer = Peer {
    name: "iperf -R",
    receives: true,
    ask: |load, seconds, address| [ask(load, seconds, address), words("-R")].concat(),
    read: |load, heard| read(load, &Heard { client: heard.server, server: heard.client }),
    ..IPERF
};

/// Version 2.1.8 has no smaller request that it answers without end; below it waits for ever.
pub(super) const LEAST_REQUEST: u32 = 100;

fn serve(load: Load) -> Server {
    match load {
        Load::Udp { octets, .. } => {
            Server { arguments: words(&format!("-s -u -p 5002 -f b -l {octets}")), udp: true, port: 5002 }
        }
        _ => Server { arguments: words("-s -p 5001 -f b"), udp: false, port: 5001 },
    }
}

fn ask(load: Load, seconds: u32, address: &str) -> Vec<String> {
    words(&match load {
        Load::Tcp => format!("-c {address} -p 5001 -t {seconds} -f b"),
        Load::Udp { octets, rate_bps } => {
            // It knows no unlimited rate; 100 Gbit/s is more than a kernel's UDP gives.
            let rate_bps = rate_bps.unwrap_or(100_000_000_000);
            format!("-u -l {octets} -b {rate_bps} -c {address} -p 5002 -t {seconds} -f b")
        }
        Load::Requests { octets, .. } => format!(
            "-c {address} -p 5001 -t {seconds} -f b --bounceback --bounceback-period 0 -l {}",
            octets.max(LEAST_REQUEST)
        ),
    })
}

fn read(load: Load, heard: &Heard) -> Result<Account, String> {
    let account = match load {
        Load::Requests { .. } => bounced(heard.client),
        // UDP clients repeat what the server said where they heard it; the server itself always says it.
        _ => heard.server.lines().rev().find_map(report),
    };
    account.ok_or_else(|| unread("iperf", heard))
}

/// `[  1] 0.0000-1.0000 sec  357653940 Bytes  2861285884 bits/sec   0.000 ms 10693/253995 (4.2%)`
fn report(line: &str) -> Option<Account> {
    let lost = line.split_whitespace().find_map(|word| word.split_once('/')?.0.parse().ok());
    Some(Account { octets: before(line, "Bytes")?, seconds: seconds(line)?, lost, ..Account::default() })
}

/// `[  1] 0.0000-1.0160 sec  10075000 Bytes  79326961 bits/sec    50375=0.019/0.015/5.099/0.098 ms …`
fn bounced(client: &str) -> Option<Account> {
    let line = client.lines().rev().find(|line| line.ends_with(" rps"))?;
    let count = line.split_whitespace().find_map(|word| word.split_once('=')?.0.parse::<f64>().ok())?;
    // Mean and least are all that it tells of the times.
    after(line, &format!("{count}="))?;
    Some(Account { transactions: Some(count), seconds: seconds(line)?, ..Account::default() })
}

fn seconds(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.iter().position(|word| *word == "sec")?;
    let (start, end) = words.get(place.checked_sub(1)?)?.split_once('-')?;
    Some(end.parse::<f64>().ok()? - start.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: Load = Load::Udp { octets: 1470, rate_bps: None };
    const TCP_REQUESTS: Load = Load::Requests { udp: false, octets: 1 };

    #[test]
    fn the_servers_report_is_read() {
        let server = "[  1] local 198.18.0.2 port 5001 connected with 198.18.0.1 port 40674 (icwnd/mss/irtt=14/1448/31)\n\
                      [ ID] Interval       Transfer     Bandwidth\n\
                      [  1] 0.0000-1.0004 sec  2190344252 Bytes  17516150427 bits/sec\n";
        let account = read(Load::Tcp, &Heard { client: "", server }).unwrap();
        assert_eq!((account.octets, account.seconds, account.lost), (2_190_344_252.0, 1.0004, None));
        let server = "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n\
                      [  1] 0.0000-1.0000 sec  357653940 Bytes  2861285884 bits/sec   0.000 ms 10693/253995 (4.2%)\n";
        let account = read(UDP, &Heard { client: "", server }).unwrap();
        assert_eq!((account.octets, account.lost), (357_653_940.0, Some(10_693.0)));
    }

    #[test]
    fn bounced_requests_are_counted() {
        let client = "[  1] 0.0000-1.0160 sec  10075000 Bytes  79326961 bits/sec    50375=0.019/0.015/5.099/0.098 ms    0  \
                      195K/1994 us    52170 rps\n[  1] 0.0000-1.0160 sec BB8(f)-PDF: bin(w=100us):cnt(50375)=1:50315\n";
        let account = read(TCP_REQUESTS, &Heard { client, server: "" }).unwrap();
        assert_eq!((account.transactions, account.seconds), (Some(50_375.0), 1.016));
    }

    #[test]
    fn no_report_is_no_figure() {
        let heard = Heard { client: "[  1] Sent 9 datagrams", server: "Server listening on UDP port 5002" };
        assert!(read(UDP, &heard).unwrap_err().contains("Sent 9 datagrams"));
        assert!(read(TCP_REQUESTS, &Heard { client: "bounce-back read failed", server: "" }).is_err());
    }
}
