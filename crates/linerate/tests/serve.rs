//! `linerate serve` among strangers: who is heard, what becomes a record, and what is said of it.
//! Knows nothing of how a test goes; crate `peers` tests that.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// A server that ends with the value.
struct Serving {
    program: Child,
    at: SocketAddr,
    store: PathBuf,
    said: mpsc::Receiver<String>,
    printed: mpsc::Receiver<String>,
}

fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

impl Serving {
    /// Serves this tool, and waits until it says so.
    fn start(tool: &str, arguments: &[&str]) -> Serving {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let store = std::env::temp_dir().join(format!("linerate-serve-{tool}-{port}-{}.sqlite", std::process::id()));
        let mut program = Command::new(LINERATE)
            .args(["serve", tool, "--port", &port.to_string(), "--json", "--store"])
            .arg(&store)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = lines(program.stderr.take().unwrap());
        let printed = lines(program.stdout.take().unwrap());
        Serving { program, at: SocketAddr::new("127.0.0.1".parse().unwrap(), port), store, said, printed }
    }

    /// The next line on standard error.
    fn says(&self) -> String {
        self.said.recv_timeout(Duration::from_secs(20)).expect("a line")
    }

    /// Sends so many bytes as ttcp does, from this address of this machine; to iperf2 it is a client without a header.
    fn ttcp(&self, from: [u8; 4], bytes: usize) {
        let socket = socket(from);
        if socket.connect(&self.at.into()).is_ok() {
            let mut stream: TcpStream = socket.into();
            let _ = stream.write_all(&vec![0; bytes]);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let _ = stream.read(&mut [0]);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.program.try_wait().unwrap().is_some()
    }
}

fn socket(from: [u8; 4]) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(from.into(), 0).into()).unwrap();
    socket
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.store.display()));
        }
    }
}

#[test]
fn a_few_bytes_are_no_test_and_one_off_waits_for_one() {
    let mut serving = Serving::start("ttcp", &["--bind", "127.0.0.1", "--one-off"]);
    assert!(serving.says().contains("serving ttcp on port"));
    for bytes in [1, 0, 100] {
        serving.ttcp([127, 0, 0, 1], bytes);
        thread::sleep(Duration::from_millis(1100));
    }
    let said = serving.says();
    assert!(said.contains("was refused") && said.contains("it sent 1 bytes, which is no test"), "{said}");
    assert!(!serving.has_ended() && serving.printed.try_recv().is_err(), "no record, and it serves on");
    serving.ttcp([127, 0, 0, 1], 100_000);
    let record = serving.printed.recv_timeout(Duration::from_secs(20)).expect("a record");
    assert!(record.contains("\"ttcp:127.0.0.1\""), "{record}");
    let began = Instant::now();
    while !serving.has_ended() {
        assert!(began.elapsed() < Duration::from_secs(10), "the test was real");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_first_line_says_who_is_served_and_where() {
    #[track_caller]
    fn check(arguments: &[&str], contains: &str) {
        let said = Serving::start("ttcp", arguments).says();
        assert!(said.contains(contains), "{said}");
    }
    check(&[], ", on every address, for anybody; Ctrl-C ends it");
    check(&["--bind", "127.0.0.1"], ", at 127.0.0.1, for anybody;");
    check(&["--allow", "10.0.0.0/8", "--allow", "127.0.0.2"], ", on every address, for 10.0.0.0/8, 127.0.0.2;");
}

#[test]
fn those_who_are_not_allowed_hear_nothing() {
    let serving = Serving::start("iperf2", &["--bind", "127.0.0.1", "--allow", "127.0.0.2"]);
    serving.says();
    // Another's connection is closed before a word; its datagrams have no answer, of the port or of the kernel.
    let mut stream = TcpStream::connect(serving.at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    udp.connect(serving.at).unwrap();
    // Numbers of a stream, its end last, which iperf2 answers.
    for number in [0, 1, 2, 3, 4, 5, 6, 7, -8, -9, -10] {
        let mut datagram = [0; 1470];
        datagram[..4].copy_from_slice(&i32::to_be_bytes(number));
        udp.send(&datagram).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    let error = udp.recv(&mut [0; 2000]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
    // One that is allowed is served.
    serving.ttcp([127, 0, 0, 2], 100_000);
    let record = serving.printed.recv_timeout(Duration::from_secs(20)).expect("a record");
    assert!(record.contains("\"iperf2:127.0.0.2\""), "{record}");
}

#[test]
fn records_of_a_run_are_bounded_and_serving_goes_on() {
    let serving = Serving::start("ttcp", &["--bind", "127.0.0.1", "--max-records", "3"]);
    serving.says();
    for _ in 0..6 {
        serving.ttcp([127, 0, 0, 1], 50_000);
    }
    let said = serving.says();
    assert!(said.contains("3 tests have a record, which is as many as --max-records allows"), "{said}");
    // Whoever prints the last of them may come later than whoever says that there are no more.
    for _ in 0..3 {
        serving.printed.recv_timeout(Duration::from_secs(20)).expect("a record");
    }
    assert_eq!(serving.printed.try_iter().count(), 0);
    assert!(serving.said.recv_timeout(Duration::from_secs(1)).is_err(), "said once");
}

#[test]
fn a_store_that_keeps_nothing_ends_nothing() {
    let mut serving = Serving::start("ttcp", &["--bind", "127.0.0.1"]);
    serving.says();
    let test = || serving.ttcp([127, 0, 0, 1], 50_000);
    let record = || serving.printed.recv_timeout(Duration::from_secs(20)).expect("a record");
    test();
    record();
    let other = rusqlite::Connection::open(&serving.store).unwrap();
    other.execute_batch("ALTER TABLE records RENAME TO elsewhere").unwrap();
    test();
    let said = serving.says();
    assert!(said.contains("a test has no record: ") && said.contains("every 5 s"), "{said}");
    test();
    assert!(serving.said.recv_timeout(Duration::from_secs(1)).is_err(), "said once");
    other.execute_batch("ALTER TABLE elsewhere RENAME TO records").unwrap();
    thread::sleep(Duration::from_secs(5));
    test();
    record();
    assert_eq!(serving.printed.try_iter().count(), 0);
    assert!(!serving.has_ended());
}

#[test]
fn what_is_no_address_is_said() {
    let output = Command::new(LINERATE).args(["serve", "ttcp", "--allow", "board"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("write 10.0.0.5"), "{said}");
}
