//! Agents that listen: the shared key, and what strangers can cost.
//! Knows nothing of what requests do. Everything is on the loopback.

use std::io::{self, Cursor, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Reply, Request};
use linerate_control::noise::{Keys, NoiseReader, NoiseWriter};
use linerate_control::{
    Client, ConnectOptions, ControlError, Endpoint, Limits, Listener, Psk, PskError, Server, serve,
};

const LONG: Duration = Duration::from_secs(20);
const KEY: Psk = Psk::new([7; 32]);

/// An agent that listens, answers every request with `Done`, and lives as long as the tests.
fn agent(limits: Limits) -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0", KEY, limits).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        listener.serve(|link, _from| {
            serve(link, &Server::new("listening 1"), |line, outlet| outlet.reply(line.id, Reply::Done));
        })
    });
    address
}

fn connect(address: SocketAddr, psk: Option<Psk>) -> Result<Client, ControlError> {
    let endpoint: Endpoint = format!("tcp:{address}").parse().unwrap();
    Client::connect(&endpoint, "target", &ConnectOptions { psk, ..ConnectOptions::default() })
}

#[track_caller]
fn check(error: &ControlError, parts: &[&str]) {
    let sentence = error.to_string();
    assert!(sentence.starts_with("the target (tcp:127.0.0.1:") && !sentence.contains('\n'), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "'{part}' is not in: {sentence}");
    }
}

/// The peer closes within `time`, without a word.
#[track_caller]
fn is_closed(mut socket: &TcpStream, time: Duration) {
    socket.set_read_timeout(Some(time)).unwrap();
    match socket.read(&mut [0; 64]) {
        Ok(0) => (),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (),
        other => panic!("not closed within {time:?}: {other:?}"),
    }
}

#[test]
fn a_shared_key_opens_a_conversation_and_another_does_not() {
    let address = agent(Limits::default());
    let client = connect(address, Some(KEY)).unwrap();
    assert_eq!(client.request(Request::Start, LONG), Ok(Reply::Done));
    // Longer than one Noise message.
    let long = Request::Counters { interface: "x".repeat(200_000) };
    assert_eq!(client.request(long, LONG), Ok(Reply::Done));

    let error = connect(address, Some(Psk::new([8; 32]))).unwrap_err();
    assert!(matches!(error, ControlError::Key { .. }), "{error}");
    check(&error, &["key is another", "same key file"]);
    let error = connect(address, None).unwrap_err();
    assert!(matches!(error, ControlError::Key { .. }), "{error}");
    check(&error, &["--psk-file"]);
}

#[test]
fn machines_that_do_not_answer_are_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect(closed, Some(KEY)).unwrap_err();
    assert!(matches!(error, ControlError::Unreachable { .. }), "{error}");
    check(&error, &["refused", "linerate-agent --listen"]);

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    check(&connect(silent.local_addr().unwrap(), Some(KEY)).unwrap_err(), &["handshake within 3 s"]);
    assert!(began.elapsed() < Duration::from_secs(5));

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    thread::spawn(move || other.accept().unwrap().0.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap());
    check(&connect(address, Some(KEY)).unwrap_err(), &["no linerate agent"]);
}

#[test]
fn strangers_are_closed_and_cannot_keep_a_controller_out() {
    let address = agent(Limits { conversations: 2, handshakes: 4, handshakes_of_one: 4 });
    // Four that say nothing hold all places for strangers; the last of them says an octet now and then.
    let strangers: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let mut slow = strangers[3].try_clone().unwrap();
    thread::spawn(move || {
        while slow.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(400));
        }
    });
    // One more has the place of the first; all are closed in the end.
    let _another = TcpStream::connect(address).unwrap();
    is_closed(&strangers[0], Duration::from_secs(1));
    // And whoever has the key is heard, though no place is free.
    let first = connect(address, Some(KEY)).expect("the silent give way");
    let _second = connect(address, Some(KEY)).expect("and again");
    assert!(began.elapsed() < Duration::from_secs(3), "before the time of the silent is over: {:?}", began.elapsed());
    for stranger in &strangers {
        is_closed(stranger, Duration::from_secs(5));
    }
    let error = connect(address, Some(KEY)).expect_err("both places for conversations are taken");
    check(&error, &["as many controllers as it can"]);
    drop(first);
    let began = Instant::now();
    while connect(address, Some(KEY)).is_err() {
        assert!(began.elapsed() < LONG, "the place is free again");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_flood_costs_few_threads_and_its_address_alone() {
    let address = agent(Limits::default());
    let flood: Vec<_> = (0..300).map_while(|_| TcpStream::connect(address).ok()).collect();
    thread::sleep(Duration::from_millis(300));
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter(|task| {
        let name = task.as_ref().unwrap().path().join("comm");
        std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("linerate-visit"))
    });
    // The other tests of this process have agents of their own.
    assert!(threads.count() <= 32 + 16, "300 connections and no more threads than places");
    assert!(connect(address, Some(KEY)).is_ok(), "while the flood is there");
    for stranger in &flood {
        is_closed(stranger, Duration::from_secs(8));
    }
}

/// A stream whose two directions are memory.
struct Recorded {
    input: Cursor<Vec<u8>>,
    output: Vec<u8>,
}

impl Read for Recorded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Recorded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.output.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_replayed_first_message_is_no_controller() {
    let mut initiator = Recorded { input: Cursor::default(), output: Vec::new() };
    assert!(Keys::initiate(&mut initiator, &KEY).is_err(), "nobody answered");
    let replay = initiator.output;
    assert_eq!(replay.len(), 2 + 48);
    // Followed by anything, for instance a message of the right length.
    let mut listener = Recorded { input: Cursor::new([&replay[..], &[0, 16], &[0; 16]].concat()), output: Vec::new() };
    assert!(Keys::respond(&mut listener, &KEY).is_err());
    assert_eq!(listener.output.len(), 2 + 48, "the listener took the message itself for good");
}

#[test]
fn what_is_changed_on_the_way_is_not_read() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    let theirs = thread::spawn(move || Keys::respond(&mut b, &KEY).unwrap());
    let ours = Keys::initiate(&mut a, &KEY).unwrap();
    let theirs = theirs.join().unwrap();
    let mut octets = Vec::new();
    let mut writer = NoiseWriter::new(&mut octets, ours);
    writer.write_all(b"first").unwrap();
    writer.write_all(b"second").unwrap();
    let read = |octets: &[u8]| {
        let mut text = Vec::new();
        let result = NoiseReader::new(octets, theirs.clone()).read_to_end(&mut text);
        (text, result.is_ok())
    };
    assert_eq!(read(&octets), (b"firstsecond".to_vec(), true));
    for at in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at] ^= 1;
        let (text, ok) = read(&changed);
        assert!(!ok && b"first".starts_with(&text), "octet {at}");
    }
    // Messages in another order, and one left out.
    let (first, second) = octets.split_at(2 + 5 + 16);
    assert!(!read(&[second, first].concat()).1);
    assert!(!read(second).1);
    assert!(!read(&octets[..octets.len() - 1]).1);
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let path: PathBuf = std::env::temp_dir().join(format!("linerate-psk-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let made = Psk::generate_to(&path).unwrap();
    assert_eq!(Psk::read(&path).unwrap(), made);
    assert_eq!(format!("{made:?}"), "Psk(…)");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(Psk::generate_to(&path), Err(PskError::Exists(_))));

    let refuse = |mode: u32, text: &str, part: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let sentence = Psk::read(&path).unwrap_err().to_string();
        assert!(sentence.contains(part), "{sentence}");
    };
    let good = "0f".repeat(32);
    refuse(0o640, &good, "chmod 600");
    refuse(0o604, &good, "chmod 600");
    refuse(0o600, &good[1..], "64 hexadecimal digits");
    refuse(0o600, &format!("{good}0"), "64 hexadecimal digits");
    refuse(0o600, &good.replace('f', "g"), "64 hexadecimal digits");
    refuse(0o600, &"é".repeat(32), "64 hexadecimal digits");
    std::fs::remove_file(&path).unwrap();
    assert!(Psk::read(&path).unwrap_err().to_string().contains("check the path"));
}
