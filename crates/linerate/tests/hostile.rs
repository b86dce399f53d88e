//! Hostile clients against each of the five servers and the agent that listens, in a namespace of their own: nobody else
//! hears of it, the server takes no more and more of its machine, and an honest client is served every second.
//!
//! Only with `LINERATE_HOSTILE=SECONDS`, for so long each; `LINERATE_SEED=…` for the same clients again.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linerate_control::message::Request;
use linerate_control::noise::Keys;
use linerate_control::{Client, ConnectOptions, Psk};
use linerate_host::sys::namespace;
use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::netperf::message::Message;
use linerate_peers::{iperf2, netperf, nuttcp};
use linerate_trial::flow::Flow;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;
use socket2::{Domain, Protocol, Socket, Type};

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");
/// Where the server is, and the honest client. All of 10.88.0.0/16 is this machine's, and on one subnet with the server.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const HONEST: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
/// The longest that an honest client may ask again and again.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// Hostile clients at once.
const HOSTILE: usize = 4;
/// Connections that each of them holds.
const HELD: usize = 200;

/// What is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server(Tool),
    Agent,
}

/// xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 11) % most.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn octets(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// A number that somebody might not have thought of.
    fn absurd(&mut self) -> i64 {
        let near = self.below(3) as i64 - 1;
        let edges =
            [0, 1, 64, 1 << 10, 65_507, 65_536, 1 << 20, 1 << 24, 1 << 30, 1 << 31, 1 << 32, 1 << 53, i64::MAX - 1];
        match self.below(3) {
            0 => self.one(&edges) + near,
            1 => -self.one(&edges[..12]) - near,
            _ => self.below(20) as i64,
        }
    }
}

/// A network namespace, with its third parties, that goes with the value.
struct World(String);

impl World {
    fn make(name: &str) -> World {
        let world = World(format!("lh-{name}-{}", std::process::id()));
        let ip = |arguments: &[&str]| {
            let output = Command::new("ip").args(arguments).output().unwrap();
            assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        ip(&["netns", "add", &world.0]);
        ip(&["-n", &world.0, "link", "set", "lo", "up"]);
        ip(&["-n", &world.0, "addr", "add", "10.88.0.1/16", "dev", "lo"]);
        // Beyond a router, for the server; here for us.
        ip(&["-n", &world.0, "route", "add", "local", "10.66.0.0/16", "dev", "lo"]);
        namespace::enter(Path::new(&format!("/run/netns/{}", world.0))).unwrap();
        world
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

struct Running {
    program: Child,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What the server takes of its machine.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    memory_kib: u64,
    descriptors: u64,
    threads: u64,
    store_kib: u64,
}

impl Running {
    fn taken(&self) -> Taken {
        let id = self.program.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let field = |name: &str| {
            let line =
                status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("it is gone: {status}"));
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).map_or(0, |all| all.count() as u64);
        let files = fs::read_dir(&self.folder).unwrap().flatten();
        let store: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        Taken { memory_kib: field("VmRSS"), descriptors, threads: field("Threads"), store_kib: store / 1024 }
    }
}

fn key() -> Psk {
    Psk::new([0xab; 32])
}

/// Starts what is attacked.
fn start(victim: Victim, port: u16, folder: PathBuf) -> Running {
    fs::create_dir_all(&folder).unwrap();
    let mut program = Command::new(LINERATE);
    match victim {
        Victim::Server(tool) => {
            program.args(["serve", tool.name(), "--bind", "10.88.0.1", "--port", &port.to_string(), "--json"]);
            program.args(["--max-records", "20", "--max-time", "30s", "--store"]).arg(folder.join("records.sqlite"));
        }
        Victim::Agent => {
            let file = folder.join("key");
            fs::write(&file, "ab".repeat(32)).unwrap();
            Command::new("chmod").arg("600").arg(&file).status().unwrap();
            program.args(["agent", "--listen", &format!("10.88.0.1:{port}"), "--psk-file"]).arg(file);
        }
    }
    let log = |name: &str| fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).unwrap();
    let name = format!("linerate-hostile-{}", folder.file_name().unwrap().to_string_lossy());
    let program =
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log(&format!("{name}.log"))).spawn().unwrap();
    Running { program, folder }
}

/// One test of an honest client.
fn honest(victim: Victim, workload: Workload, at: SocketAddr) -> Result<(), String> {
    let tool = match victim {
        Victim::Server(tool) => tool,
        Victim::Agent => {
            let endpoint = format!("tcp:{at}").parse().unwrap();
            let options = ConnectOptions { psk: Some(key()), ..ConnectOptions::default() };
            let client = Client::connect(&endpoint, "target", &options).map_err(|error| error.to_string())?;
            let answer = client.request(Request::Ping, Duration::from_secs(5));
            return answer.map(drop).map_err(|error| error.to_string());
        }
    };
    let mut spec = Spec::new(workload);
    spec.extent = Extent::Octets(100_000);
    if workload == Workload::UdpStream {
        spec.message_size = Some(1000);
        spec.rate = "5M".parse().unwrap();
    }
    linerate_peers::fit(tool, &mut spec);
    // ttcp as a client sends to who cannot answer.
    let unanswered = (tool == Tool::Ttcp).then_some(UnprovenLimit { bits_per_second: 100_000_000 });
    let route = Route { local: HONEST.into(), interface: Some("lo".to_owned()), server: at, unanswered };
    let outcomes =
        linerate_peers::run(tool, &[], &spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())?;
    let sent = outcomes[1].flows.iter().map(|flow| flow.octets_total).sum::<u64>();
    if sent < 50_000 { Err(format!("{sent} bytes were sent")) } else { Ok(()) }
}

/// What a hostile client says first: nonsense, or an opening with values that nobody has thought of.
fn opening(victim: Victim, random: &mut Random) -> Vec<u8> {
    let Victim::Server(tool) = victim else {
        return match random.below(4) {
            // What somebody overheard: the first message of a controller.
            0 => first_message(),
            1 => [&48u16.to_be_bytes()[..], &random.octets(49)].concat(),
            2 => [&(random.next() as u16).to_be_bytes()[..], &random.octets(300)].concat(),
            _ => [first_message(), random.octets(100)].concat(),
        };
    };
    match tool {
        Tool::Iperf3 => {
            let mut cookie = random.octets(38);
            cookie.resize(37, b'a');
            let names = [
                "time",
                "num",
                "blockcount",
                "parallel",
                "len",
                "omit",
                "MSS",
                "window",
                "bandwidth",
                "fqrate",
                "burst",
            ];
            let mut text = format!(r#"{{"{}":true"#, random.one(&["tcp", "udp", "sctp", "x"]));
            for name in names {
                if random.below(3) == 0 {
                    text += &format!(r#","{name}":{}"#, random.absurd());
                }
            }
            text +=
                random.one(&[r#","reverse":true}"#, r#","bidirectional":1,"len":1000}"#, r#","len":1000}"#, ",", "}"]);
            if random.below(10) == 0 {
                text = random.one(&["[", r#"{"a":"#, r#"{"congestion":"x"#]).repeat(1000);
            }
            let len = if random.below(5) == 0 { random.absurd() as u32 } else { text.len() as u32 };
            [&cookie[..37], &len.to_be_bytes(), text.as_bytes()].concat()
        }
        Tool::Iperf2 => {
            let direction = random.one(&[Direction::Rx, Direction::Tx, Direction::Both]);
            let workload = random.one(&[Workload::TcpStream, Workload::UdpStream]);
            let mut octets = iperf2::mapping::header_of(&Spec::new(workload), direction).emit().to_vec();
            mutate(&mut octets, random);
            octets
        }
        Tool::Netperf => {
            let workloads =
                [Workload::TcpStream, Workload::UdpStream, Workload::TcpRr, Workload::UdpRr, Workload::TcpCrr];
            let spec = Spec::new(random.one(&workloads));
            let mut octets = netperf::mapping::request_of(&spec, Flow::of(&spec)[0], true, 9).emit().emit().to_vec();
            mutate(&mut octets, random);
            octets
        }
        Tool::Nuttcp => {
            use nuttcp::line::{Request, Version, hello};
            let mut asked = Request::new(random.below(3) == 0);
            asked.timeout = Duration::from_secs(random.below(40));
            (asked.client_sends, asked.reverse) = (random.below(2) == 0, random.below(2) == 0);
            (asked.nstream, asked.port) = (random.one(&[1, 1, 2, 40, 128, 9999]), random.next() as u16);
            (asked.buflen, asked.win) = (random.absurd() as u32, random.absurd() as u32);
            let mut line = asked.emit(Version::OURS);
            if random.below(3) == 0 {
                line = line.replace(&asked.buflen.to_string(), &random.absurd().to_string());
            }
            [hello(), line].concat().into_bytes()
        }
        Tool::Ttcp | Tool::Twamp => random.octets(6000),
    }
}

/// Sets some words to values that nobody has thought of.
fn mutate(octets: &mut [u8], random: &mut Random) {
    for _ in 0..random.below(4) {
        let at = random.below(octets.len() as u64 / 4) as usize * 4;
        let word = (random.absurd() as u32).to_be_bytes();
        octets[at..at + 4].copy_from_slice(&word);
    }
}

/// A controller's first message, with the right key, as somebody who listens has it.
fn first_message() -> Vec<u8> {
    static OVERHEARD: OnceLock<Vec<u8>> = OnceLock::new();
    OVERHEARD.get_or_init(overhear).clone()
}

fn overhear() -> Vec<u8> {
    struct Heard(Vec<u8>);
    impl Read for Heard {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }
    }
    impl Write for Heard {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.extend_from_slice(octets);
            Ok(octets.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut heard = Heard(Vec::new());
    let _ = Keys::initiate(&mut heard, &key());
    heard.0
}

/// A hostile client's address: often another, sometimes the honest client's own.
fn address(random: &mut Random) -> Ipv4Addr {
    if random.below(20) == 0 {
        HONEST
    } else {
        Ipv4Addr::new(127, 0, random.below(4) as u8, 2 + random.below(200) as u8)
    }
}

fn connect(from: Ipv4Addr, at: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    socket.connect_timeout(&at.into(), Duration::from_secs(1)).ok()?;
    let _ = socket.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
    Some(socket.into())
}

/// Goes on where an opening was taken: data connections, and some data.
fn go_on(
    tool: Tool,
    said: &[u8],
    control: &mut TcpStream,
    at: SocketAddr,
    random: &mut Random,
    held: &mut Vec<TcpStream>,
) {
    let mut heard = [0; 1024];
    let len = control.read(&mut heard).unwrap_or(0);
    let from = control.local_addr().map_or(HONEST, |local| match local.ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => HONEST,
    });
    let data = match tool {
        Tool::Iperf3 => {
            let _ = control.read(&mut heard);
            connect(from, at).map(|mut stream| {
                let _ = stream.write_all(&said[..said.len().min(37)]);
                stream
            })
        }
        Tool::Netperf => {
            let response = Message::parse(&heard[..len]).map(|message| netperf::omni::Response::parse(&message));
            response.and_then(|response| connect(from, SocketAddr::new(at.ip(), response.data_port.try_into().ok()?)))
        }
        Tool::Nuttcp => {
            let _ = control.read(&mut heard);
            let line = String::from_utf8_lossy(said).into_owned();
            let request = line.lines().nth(1).and_then(nuttcp::line::Request::parse);
            request.and_then(|request| connect(from, SocketAddr::new(at.ip(), request.port)))
        }
        Tool::Iperf2 | Tool::Ttcp | Tool::Twamp => control.try_clone().ok(),
    };
    let Some(mut data) = data else { return };
    for _ in 0..random.below(5) {
        let _ = data.write_all(&random.octets(20_000));
    }
    // States that nobody waits for, results that nobody asked for.
    let _ = control.write_all(&[random.one(&[1, 2, 4, 9, 12, 13, 16, 0xff])]);
    if random.below(2) == 0 {
        held.push(data);
    }
}

/// A datagram for the victim's port, of one of the kinds that are known there.
fn datagram(victim: Victim, random: &mut Random) -> Vec<u8> {
    match random.below(5) {
        0 => random.octets(1473),
        1 => random.one(&[&b"BOD0"[..], b"BOD1", b"EOD0", b"9876", b"\0\0\0\0", b"0123", b""]).to_vec(),
        _ => {
            let mut octets = vec![0; 16];
            // An end has a negative number.
            octets[..4].copy_from_slice(&random.one(&[0i32, 1, -1, -2, i32::MIN]).to_be_bytes());
            octets.extend(opening(if victim == Victim::Agent { victim } else { Victim::Server(Tool::Iperf2) }, random));
            octets.resize(octets.len().max(random.below(1470) as usize), b'x');
            octets
        }
    }
}

/// A UDP datagram in IPv4, from whom it likes.
fn forged(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x45, 0];
    octets.extend((28 + payload.len() as u16).to_be_bytes());
    octets.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    octets.extend(from.ip().octets());
    octets.extend(to.ip().octets());
    for word in [from.port(), to.port(), 8 + payload.len() as u16, 0] {
        octets.extend(word.to_be_bytes());
    }
    octets.extend(payload);
    octets
}

/// Somebody who asked for nothing: near the server, or beyond a router.
fn third_party(random: &mut Random) -> SocketAddrV4 {
    let network = random.one(&[66, 88]);
    let address = Ipv4Addr::new(10, network, 1 + random.below(200) as u8, 1 + random.below(250) as u8);
    SocketAddrV4::new(address, 1024 + random.below(60_000) as u16)
}

fn is_third_party(address: Ipv4Addr) -> bool {
    let octets = address.octets();
    octets[0] == 10 && (octets[1] == 66 || octets[1] == 88) && octets[2] >= 1
}

/// One hostile client, until it is over.
fn attack(victim: Victim, at: SocketAddrV4, mut random: Random, over: &AtomicBool, done: &AtomicU64) {
    let to = SocketAddr::V4(at);
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    let mut held: Vec<TcpStream> = Vec::new();
    let mut replayed = Vec::new();
    while !over.load(Ordering::Relaxed) {
        done.fetch_add(1, Ordering::Relaxed);
        let from = address(&mut random);
        match random.below(9) {
            // Silence.
            0 => held.extend(connect(from, to)),
            // An octet now and then.
            1 => {
                for stream in held.iter_mut().take(50) {
                    let _ = stream.write(&random.octets(3));
                }
            }
            2 => {
                let mut stream = connect(from, to);
                if let Some(stream) = &mut stream {
                    let _ = stream.write_all(&random.octets(50_000));
                }
                held.extend(stream.filter(|_| random.below(2) == 0));
            }
            // An opening, whole or a part of it, once or again; abandoned in all ways.
            3..=5 => {
                let mut says = opening(victim, &mut random);
                if random.below(4) == 0 && !replayed.is_empty() {
                    says.clone_from(&replayed);
                }
                if random.below(3) == 0 {
                    says.truncate(random.below(says.len() as u64 + 1) as usize);
                }
                if let Some(mut stream) = connect(from, to) {
                    let _ = stream.write_all(&says);
                    if let Victim::Server(tool) = victim
                        && random.below(2) == 0
                    {
                        go_on(tool, &says, &mut stream, to, &mut random, &mut held);
                    }
                    match random.below(3) {
                        0 => held.push(stream),
                        1 => drop(Socket::from(stream).set_linger(Some(Duration::ZERO))),
                        _ => {}
                    }
                }
                replayed = says;
            }
            // Many at once.
            6 => {
                let many: Vec<_> = (0..random.below(60)).filter_map(|_| connect(from, to)).collect();
                held.extend(many.into_iter().filter(|_| random.below(4) == 0));
            }
            7 => {
                if let Ok(socket) = UdpSocket::bind((from, 0)) {
                    for _ in 0..random.below(10) {
                        let _ = socket.send_to(&datagram(victim, &mut random), to);
                    }
                }
            }
            // Of somebody who knows nothing of it, once or several times.
            _ => {
                for _ in 0..random.below(30) {
                    let from = third_party(&mut random);
                    let mut to = at;
                    if random.below(5) == 0 {
                        to.set_port(random.one(&[5000, 5001, 5002, 5201, 12_865, at.port() + 1]));
                    }
                    for _ in 0..1 + random.below(7) {
                        let octets = forged(from, to, &datagram(victim, &mut random));
                        let _ = raw.send_to(&octets, &SocketAddr::V4(to).into());
                    }
                }
            }
        }
        while held.len() > HELD {
            held.swap_remove(random.below(held.len() as u64) as usize);
        }
        thread::sleep(Duration::from_micros(random.below(4000)));
    }
}

/// Counts what comes to third parties by UDP, and shows the first of it.
fn listen(over: &AtomicBool) -> (u64, Vec<String>) {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
    raw.set_recv_buffer_size(4 << 20).unwrap();
    raw.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut raw = raw;
    let (mut count, mut shown, mut octets) = (0, Vec::new(), vec![0; 65_536]);
    while !over.load(Ordering::Relaxed) {
        let Ok(len) = raw.read(&mut octets) else { continue };
        if len < 28 {
            continue;
        }
        let to = Ipv4Addr::new(octets[16], octets[17], octets[18], octets[19]);
        if is_third_party(to) {
            count += 1;
            if shown.len() < 5 {
                let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
                let start = &octets[28..len.min(60)];
                shown.push(format!("{len} bytes from port {} to {to}:{}: {start:02x?}", port(20), port(22)));
            }
        }
    }
    (count, shown)
}

/// What an honest client saw.
#[derive(Default)]
struct Honest {
    served: u64,
    slowest: Duration,
    worst: Option<String>,
}

/// An honest client every second, which asks again when it is refused.
fn be_honest(victim: Victim, at: SocketAddr, over: &AtomicBool) -> Honest {
    let mut honest_one = Honest::default();
    let workloads: &[Workload] = match victim {
        Victim::Agent | Victim::Server(Tool::Netperf) => &[Workload::TcpStream],
        Victim::Server(_) => &[Workload::TcpStream, Workload::UdpStream],
    };
    for workload in workloads.iter().cycle() {
        let began = Instant::now();
        let mut last = None;
        while let Err(error) = honest(victim, *workload, at) {
            last = Some(format!("{workload}: {error}"));
            if began.elapsed() > SERVED_WITHIN {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        if began.elapsed() > honest_one.slowest {
            (honest_one.slowest, honest_one.worst) = (began.elapsed(), last);
        }
        honest_one.served += u64::from(began.elapsed() <= SERVED_WITHIN);
        if began.elapsed() > SERVED_WITHIN || over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
    }
    honest_one
}

/// The mean of a figure over a third of what was seen after the warm-up, its first fifth.
fn mean(seen: &[Taken], third: usize, of: fn(&Taken) -> u64) -> f64 {
    let warm = &seen[seen.len() / 5..];
    let part = &warm[warm.len() * third / 3..warm.len() * (third + 1) / 3];
    part.iter().map(of).sum::<u64>() as f64 / part.len().max(1) as f64
}

type Figure = (&'static str, fn(&Taken) -> u64, f64, u64);

/// What is flat: a figure's mean over the last third is above that over the first by no more than a quarter and this, and it
/// is never above that.
const FIGURES: [Figure; 4] = [
    ("memory, KiB", |taken| taken.memory_kib, 24_576.0, 400 << 10),
    ("descriptors", |taken| taken.descriptors, 800.0, 3000),
    ("threads", |taken| taken.threads, 200.0, 1500),
    // Twenty records, and the store's journal.
    ("store, KiB", |taken| taken.store_kib, 1024.0, 12 << 10),
];

/// From this on, a siege shows whether a server takes more and more; before, only that it does not take too much.
const SETTLES: Duration = Duration::from_secs(60);

/// One at a time in a process: each has the machine's processors to itself.
static ALONE: Mutex<()> = Mutex::new(());

fn besiege(victim: Victim, port: u16) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let name = match victim {
        Victim::Server(tool) => tool.name(),
        Victim::Agent => "agent",
    };
    if !Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n") {
        return eprintln!("SKIPPED {name}: a namespace of one's own needs root");
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(time) = number("LINERATE_HOSTILE").map(Duration::from_secs) else {
        eprintln!("SKIPPED {name}: LINERATE_HOSTILE=10 has hostile clients for ten seconds");
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("LINERATE_SEED").unwrap_or(now.as_nanos() as u64 | 1);
    println!("{name}: LINERATE_SEED={seed}, {} s", time.as_secs());
    let _world = World::make(name);
    let folder = std::env::temp_dir().join(format!("linerate-hostile-{name}-{}", std::process::id()));
    let running = start(victim, port, folder);
    let at = SocketAddrV4::new(SERVER, port);
    let began = Instant::now();
    while let Err(error) = honest(victim, Workload::TcpStream, at.into()) {
        assert!(began.elapsed() < Duration::from_secs(20), "before anybody is hostile: {error}");
        thread::sleep(Duration::from_millis(100));
    }
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = Mutex::new(Vec::new());
    let (honest_one, (count, shown)) = thread::scope(|scope| {
        let listening = scope.spawn(|| listen(&over));
        for number in 1..=HOSTILE as u64 {
            let random = Random(seed.wrapping_mul(number).rotate_left(17) | 1);
            let (over, done) = (&over, &done);
            scope.spawn(move || attack(victim, at, random, over, done));
        }
        let being_honest = scope.spawn(|| be_honest(victim, at.into(), &over));
        let began = Instant::now();
        while began.elapsed() < time && !being_honest.is_finished() {
            thread::sleep((time / 200).max(Duration::from_millis(200)));
            seen.lock().unwrap().push(running.taken());
        }
        over.store(true, Ordering::Relaxed);
        (being_honest.join().unwrap(), listening.join().unwrap())
    });
    let (seen, acts) = (seen.into_inner().unwrap(), done.into_inner());
    println!(
        "{name}: {acts} hostile acts, {} honest tests, the slowest after {:.1} s {:?}; {count} datagrams to third parties",
        honest_one.served,
        honest_one.slowest.as_secs_f64(),
        honest_one.worst
    );
    for (figure, of, _, _) in FIGURES {
        let means = [0, 1, 2].map(|third| mean(&seen, third, of));
        println!("{name}: {figure}: means {means:.0?}, most {}", seen.iter().map(of).max().unwrap());
    }
    // It lives, and is itself again.
    honest(victim, Workload::TcpStream, at.into())
        .or_else(|_| {
            thread::sleep(Duration::from_secs(4));
            honest(victim, Workload::TcpStream, at.into())
        })
        .unwrap_or_else(|error| panic!("{name}, when all hostile clients are gone: {error}"));
    assert!(honest_one.slowest <= SERVED_WITHIN, "{name}: an honest client was not served: {:?}", honest_one.worst);
    assert!(honest_one.served >= time.as_secs() / 5, "{name}: {} honest tests", honest_one.served);
    assert_eq!(count, 0, "{name}: datagrams came to those who had asked for nothing: {shown:#?}");
    for (figure, of, more, most) in FIGURES {
        let (first, last) = (mean(&seen, 0, of), mean(&seen, 2, of));
        // A server takes what it may take, one after the other, in its first minute.
        let flat = time < SETTLES || last <= first * 1.25 + more;
        assert!(flat, "{name}: {figure}: {first:.0} at first, {last:.0} at last");
        assert!(seen.iter().all(|taken| of(taken) <= most), "{name}: {figure}: {:?}", seen.iter().map(of).max());
    }
}

#[test]
fn an_iperf3_server_among_hostile_clients() {
    besiege(Victim::Server(Tool::Iperf3), 5201);
}

#[test]
fn an_iperf2_server_among_hostile_clients() {
    besiege(Victim::Server(Tool::Iperf2), 5001);
}

#[test]
fn a_netperf_server_among_hostile_clients() {
    besiege(Victim::Server(Tool::Netperf), 12_865);
}

#[test]
fn a_nuttcp_server_among_hostile_clients() {
    besiege(Victim::Server(Tool::Nuttcp), 5000);
}

#[test]
fn a_ttcp_server_among_hostile_clients() {
    besiege(Victim::Server(Tool::Ttcp), 5001);
}

#[test]
fn a_listening_agent_among_hostile_clients() {
    besiege(Victim::Agent, 9123);
}
