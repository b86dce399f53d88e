//! Our iperf3 client against servers whose words take their time, as those of one far away do: what is on its way is neither
//! lost nor time of the test. Knows no iperf3 program.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

const TEST: Duration = Duration::from_millis(500);

fn spec(workload: Workload, direction: Direction) -> Spec {
    let mut spec = Spec::new(workload);
    (spec.direction, spec.extent, spec.rate) = (direction, Extent::Time(TEST), "8M".parse().unwrap());
    spec
}

fn run(spec: &Spec, server: SocketAddr) -> [Outcome; 2] {
    let local = "127.0.0.1".parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Iperf3, &[], spec, &route, |_| {}, &|| false).unwrap()
}

/// A server's control connection.
struct Control(TcpStream);

impl Control {
    /// Up to the moment at which the client may open streams.
    fn accept(listener: &TcpListener) -> io::Result<Control> {
        let (mut control, _) = listener.accept()?;
        control.set_read_timeout(Some(Duration::from_secs(10)))?;
        control.read_exact(&mut [0; 37])?;
        control.write_all(b"\x09")?;
        let mut control = Control(control);
        control.skip_text()?;
        control.0.write_all(b"\x0a")?;
        Ok(control)
    }

    fn skip_text(&mut self) -> io::Result<()> {
        let mut len = [0; 4];
        self.0.read_exact(&mut len)?;
        io::copy(&mut (&self.0).take(u32::from_be_bytes(len).into()), &mut io::sink()).map(drop)
    }

    fn await_end(&mut self) -> io::Result<()> {
        let mut word = [0];
        self.0.read_exact(&mut word)?;
        assert_eq!(word, [4]);
        Ok(())
    }

    fn exchange(&mut self, stream: &str) -> io::Result<()> {
        self.0.write_all(b"\x0d")?;
        self.skip_text()?;
        let told = format!(r#"{{"streams":[{{"id":1,{stream}}}]}}"#);
        self.0.write_all(&[&(told.len() as u32).to_be_bytes()[..], told.as_bytes(), b"\x0e"].concat())?;
        self.0.read_exact(&mut [0])
    }
}

#[test]
fn a_stream_that_the_server_closes_before_this_end_knows_took_until_then() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || -> io::Result<()> {
        let mut control = Control::accept(&listener)?;
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0; 37])?;
        control.0.write_all(b"\x01\x02")?;
        for _ in 0..20 {
            stream.write_all(&[0; 10_000])?;
            thread::sleep(Duration::from_millis(10));
        }
        drop(stream);
        control.await_end()?;
        control.exchange(r#""bytes":200000,"end_time":0.5"#)
    });
    let [_, ours] = run(&spec(Workload::TcpStream, Direction::Tx), at);
    serving.join().unwrap().unwrap();
    let near = &ours.flows[0];
    let elapsed = Duration::from_nanos(near.elapsed_ns);
    assert_eq!(near.octets, 200_000);
    // On a busy machine either end may come late; the longest that there may be is 40 s more than was asked.
    assert!((Duration::from_millis(20)..Duration::from_secs(20)).contains(&elapsed), "{elapsed:?}");
}

#[test]
fn the_server_s_clock_runs_before_data_can_come() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serving = thread::spawn(move || -> io::Result<Duration> {
        let mut control = Control::accept(&listener)?;
        let (mut stream, _) = listener.accept()?;
        let began = Instant::now();
        thread::sleep(Duration::from_millis(300));
        control.0.write_all(b"\x01\x02")?;
        let reading = thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        control.await_end()?;
        let elapsed = began.elapsed();
        // The stream is closed once results are awaited.
        control.exchange(&format!(r#""bytes":500000,"end_time":{}"#, elapsed.as_secs_f64()))?;
        drop(control);
        reading.join().unwrap()?;
        Ok(elapsed)
    });
    let [theirs, ours] = run(&spec(Workload::TcpStream, Direction::Rx), at);
    let told = serving.join().unwrap().unwrap();
    let [near, far] = [&ours, &theirs].map(|end| Duration::from_nanos(end.flows[0].elapsed_ns));
    assert!(told > TEST + Duration::from_millis(300), "{told:?}");
    assert!(
        far >= near && far <= told.saturating_sub(Duration::from_millis(300)),
        "{far:?} of {told:?}, {near:?} here"
    );
}

#[test]
fn datagrams_that_were_on_their_way_are_not_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(at).unwrap();
    let serving = thread::spawn(move || -> io::Result<()> {
        let mut control = Control::accept(&listener)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let (_, client) = socket.recv_from(&mut [0; 64])?;
        socket.send_to(b"6789", client)?;
        control.0.write_all(b"\x01\x02")?;
        let mut number = 0_u64;
        let mut send = |times| -> io::Result<()> {
            for _ in 0..times {
                number += 1;
                let mut datagram = [0; 1470];
                datagram[8..12].copy_from_slice(&(number as u32).to_be_bytes());
                socket.send_to(&datagram, client)?;
                thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        };
        send(20)?;
        control.await_end()?;
        // What left before the end was heard here comes when the word would have come to a far server, and gone back.
        thread::sleep(Duration::from_millis(200));
        send(20)?;
        control.exchange(r#""bytes":58800,"packets":40,"end_time":0.5"#)
    });
    let [theirs, ours] = run(&spec(Workload::UdpStream, Direction::Tx), at);
    serving.join().unwrap().unwrap();
    let arrivals = ours.flows[0].arrivals.as_ref().unwrap();
    assert_eq!((arrivals.received_total, theirs.flows[0].messages_total), (40, 40), "{arrivals:?}");
}

#[test]
fn a_first_datagram_that_is_lost_is_no_failed_trial() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(at).unwrap();
    let serving = thread::spawn(move || -> io::Result<u8> {
        let mut room = [0; 1470];
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut given_up = Control::accept(&listener)?;
        socket.recv_from(&mut room)?;
        // What comes again on the socket that a server has connected is data to it: the client has to begin anew.
        let mut word = [0];
        given_up.0.read_exact(&mut word)?;
        let mut control = Control::accept(&listener)?;
        let (_, client) = socket.recv_from(&mut room)?;
        socket.send_to(b"6789", client)?;
        control.0.write_all(b"\x01\x02")?;
        control.await_end()?;
        control.exchange(r#""bytes":1470,"packets":1,"end_time":0.5"#)?;
        Ok(word[0])
    });
    run(&spec(Workload::UdpStream, Direction::Rx), at);
    assert_eq!(serving.join().unwrap().unwrap(), 12, "the first test is ended");
}
