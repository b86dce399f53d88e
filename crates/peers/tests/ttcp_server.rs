//! Senders as classic ttcp is one, by its octets, by nuttcp's classic mode and by our own client, to our server.
//! Knows no records. Says so and passes where nuttcp is missing.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::FlowOutcome;
use linerate_trial::spec::{Extent, Workload};
use linerate_trial::tool::Tool;

mod serving;

/// Has a server of ours while `work` goes on with its address. Returns what we saw, once there are so many.
fn with_server(address: &str, limits: Limits, tests: usize, work: impl FnOnce(SocketAddr)) -> Vec<ServedTest> {
    let address: IpAddr = address.parse().unwrap();
    let server = Server::bind(Tool::Ttcp, Some(address), 0, limits).unwrap();
    let linger = match tests {
        0 => serving::until(usize::MAX, Duration::from_millis(300)),
        tests => serving::until(tests, Duration::from_secs(5)),
    };
    serving::serve(&server, address, work, linger).1
}

fn only(served: &[ServedTest]) -> &FlowOutcome {
    let [one] = served else { panic!("{served:?}") };
    &one.ended.as_ref().unwrap_or_else(|error| panic!("{error}"))[0].flows[0]
}

/// As `ttcp -t` writes: printable characters, buffer after buffer.
fn buffers(count: usize, size: usize) -> Vec<u8> {
    (0..count * size).map(|at| b' ' + (at % size % 95) as u8).collect()
}

#[test]
fn a_stream_is_counted_to_its_end() {
    for address in ["127.0.0.1", "::1"] {
        let served = with_server(address, Limits::default(), 1, |at| {
            let mut stream = TcpStream::connect(at).unwrap();
            // 2048 buffers of 8192, as it comes.
            stream.write_all(&buffers(2048, 8192)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "it is closed when it has been read");
        });
        let flow = only(&served);
        assert_eq!((flow.octets, flow.octets_total), (16 << 20, 16 << 20));
        assert!(flow.elapsed_ns > 0);
        assert_eq!((served[0].spec.workload, served[0].spec.extent), (Workload::TcpStream, Extent::Octets(16 << 20)));
        assert_eq!(served[0].version, None, "it says nothing of itself");
    }
}

/// A sender of datagrams: which of the start and the five end marks it says, and what is in them.
fn send(at: SocketAddr, mark: &[u8], starts: usize, count: usize, size: usize, ends: usize) {
    let local = if at.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(local).unwrap();
    socket.connect(at).unwrap();
    let data = buffers(1, size);
    for _ in 0..starts {
        socket.send(mark).unwrap();
    }
    for number in 0..count {
        socket.send(&data).unwrap();
        // So that no buffer on the way is full, unless the machine is busy with other things.
        if size > 4096 || number % 5 == 4 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    for _ in 0..ends {
        let _ = socket.send(mark);
    }
}

#[test]
fn datagrams_are_counted_between_the_marks() {
    for (address, mark, starts, size, ends) in [
        ("127.0.0.1", &b"0123"[..], 1, 8192, 5),
        ("::1", b"0123", 1, 1024, 5),
        // Whatever is short is a mark; some builds send zeroes, some fewer octets.
        ("127.0.0.1", b"\0\0\0\0", 1, 1000, 5),
        ("127.0.0.1", b"e", 1, 5, 2),
        // The start is lost; four of the ends are.
        ("127.0.0.1", b"0123", 0, 1000, 5),
        ("127.0.0.1", b"0123", 1, 1000, 1),
    ] {
        let what = format!("{address} {mark:?} {starts} {size} {ends}");
        println!("{what}");
        let served = with_server(address, Limits::default(), 1, |at| send(at, mark, starts, 200, size, ends));
        let flow = only(&served);
        let dropped = flow.socket_drops.unwrap_or_default();
        assert_eq!((flow.messages + dropped, flow.octets_total), (200, flow.messages * size as u64), "{what}");
        assert!(dropped < 20, "{what}: {dropped}");
        let arrivals = flow.arrivals.as_ref().unwrap();
        assert!(arrivals.unnumbered && arrivals.jitter_s.is_none() && arrivals.sent_by_end_mark.is_none(), "{what}");
        assert!((1..=ends as u64).contains(&flow.end_marks), "{what}: {}", flow.end_marks);
        assert!(flow.elapsed_ns < 2_000_000_000, "{what}: the pause after it is not its");
        let [_, far] = served[0].ended.as_ref().unwrap().as_ref();
        assert!(far.flows.is_empty(), "what was sent, nobody tells");
        assert_eq!(served[0].spec.message_size, Some(size as u32), "{what}");
    }
}

#[test]
fn the_time_begins_with_the_start() {
    let served = with_server("127.0.0.1", Limits::default(), 1, |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        socket.send(b"0123").unwrap();
        for _ in 0..3 {
            socket.send(&[b'x'; 100]).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
        socket.send(b"0123").unwrap();
    });
    let ms = only(&served).elapsed_ns / 1_000_000;
    assert!((590..900).contains(&ms), "{ms} ms, three gaps");
}

#[test]
fn datagrams_may_be_longer_than_the_first() {
    let served = with_server("127.0.0.1", Limits::default(), 1, |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        socket.send(b"0123").unwrap();
        for size in [100, 1000, 5, 9000, 65_507] {
            socket.send(&vec![b'x'; size]).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        socket.send(b"0123").unwrap();
    });
    let flow = only(&served);
    assert_eq!((flow.messages, flow.octets), (5, 75_612));
    assert_eq!(served[0].spec.message_size, Some(15_122), "the mean");
}

#[test]
fn nuttcps_classic_mode_is_a_sender() {
    if Command::new("nuttcp").arg("-V").output().is_err() {
        return println!("SKIPPED: nuttcp cannot be run here; apt-get install nuttcp");
    }
    let served = with_server("127.0.0.1", Limits::default(), 1, |at| {
        // Nobody is at its control port, so it does as ttcp does.
        let [port, nobody] = [at.port(), TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()];
        let [port, nobody] = [port, nobody].map(|port| port.to_string());
        let output = Command::new("timeout")
            .args(["10", "nuttcp", "-t", "-P", &nobody, "-p", &port, "-n100", "-l8192", "127.0.0.1"])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("0.7812 MB"), "{printed} {}", String::from_utf8_lossy(&output.stderr));
    });
    assert_eq!(only(&served).octets_total, 100 * 8192);
}

#[test]
fn many_senders_at_once_are_a_record_each() {
    let served = with_server("127.0.0.1", Limits::default(), 8, |at| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || send(at, b"0123", 1, 100, 1000, 5));
                scope.spawn(move || TcpStream::connect(at).unwrap().write_all(&buffers(10, 8192)).unwrap());
            }
        });
    });
    let mut octets: Vec<u64> = served.iter().map(|one| one.ended.as_ref().unwrap()[0].flows[0].octets_total).collect();
    octets.sort_unstable();
    assert_eq!(octets, [81_920, 81_920, 81_920, 81_920, 100_000, 100_000, 100_000, 100_000]);
}

#[test]
fn strangers_leave_the_server_serving_and_no_record() {
    let served = with_server("127.0.0.1", Limits::default(), 1, |at| {
        let mut open = Vec::new();
        for _ in 0..10 {
            // Connections without a word, some of them closed, and marks without data.
            open.push(TcpStream::connect(at).unwrap());
            drop(TcpStream::connect(at).unwrap());
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for len in [0, 1, 4, 4] {
                let _ = socket.send_to(&[0; 4][..len], at);
            }
        }
        send(at, b"0123", 1, 50, 1000, 5);
    });
    assert_eq!(only(&served).messages, 50);
}

#[test]
fn limits_hold() {
    // What a sender will send it does not say, so it may be more than is allowed.
    let slow = Limits { rate: Some(1_000_000), ..Limits::default() };
    let served = with_server("127.0.0.1", slow, 0, |at| {
        send(at, b"0123", 1, 10, 1000, 5);
        let mut stream = TcpStream::connect(at).unwrap();
        let _ = stream.write_all(&[0; 1000]);
        let _ = stream.read(&mut [0; 10]);
    });
    assert!(served.is_empty(), "{served:?}");
    // A sender that does not end is ended.
    let short = Limits { time_s: 1, ..Limits::default() };
    let served = with_server("127.0.0.1", short, 1, |at| {
        let mut stream = TcpStream::connect(at).unwrap();
        let began = Instant::now();
        while stream.write_all(&[0; 1000]).is_ok() && began.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it is closed");
    });
    assert!(served.len() == 1 && served[0].ended.is_ok(), "{served:?}");
}
