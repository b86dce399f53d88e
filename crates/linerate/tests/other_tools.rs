//! The command with other tools' programs: iperf3 as the target of a run, and iperf3 served, each leaving a record.
//! Says so and passes where iperf3 is missing.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// One measurement at a time: this machine's agent has one lease.
static LEASE: Mutex<()> = Mutex::new(());

/// A program that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_iperf3() -> bool {
    let has = Command::new("iperf3").arg("--version").output().is_ok();
    if !has {
        println!("SKIPPED: iperf3 cannot be run here; apt-get install iperf3");
    }
    has
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens.
fn wait_for(port: u16) {
    let table = || std::fs::read_to_string("/proc/net/tcp").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !table().contains(&format!(":{port:04X} 00000000:0000 0A")) {
        assert!(Instant::now() < deadline, "nobody listens on {port}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn store(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("linerate-other-tools-{name}-{}.sqlite", std::process::id()))
}

fn records(output: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(output);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_iperf3_server_is_the_target_of_a_run() {
    if !has_iperf3() {
        return;
    }
    let port = free_port();
    let server = Command::new("iperf3")
        .args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Running(server);
    wait_for(port);
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let store = store("target");
    let output = Command::new(LINERATE)
        .args(["run", "udp-stream", "--target", &format!("iperf3:127.0.0.1:{port}"), "--json", "--quiet"])
        .args(["--set", "direction=rx,tx", "--set", "rate=2M", "--set", "duration=1s", "--store"])
        .arg(&store)
        .output()
        .unwrap();
    let _ = std::fs::remove_file(&store);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = records(&output.stdout);
    assert_eq!(records.len(), 2);
    for record in &records {
        let result = &record["result"];
        let mbit = result["throughput_bps"].as_f64().unwrap() / 1e6;
        assert!((1.5..2.5).contains(&mbit), "{result}");
        assert_eq!(result["packets_lost"], 0, "loopback loses nothing: {result}");
        assert!(record["target"].get("cpu").is_none(), "nothing is known of the server's machine");
        assert!(record["host"]["cpu"]["busy"].is_number());
    }
}

#[test]
fn what_a_server_cannot_do_is_said_and_so_is_one_that_is_not_there() {
    #[track_caller]
    fn check(arguments: &[&str], contains: &str) {
        let store = store("refused");
        let output = Command::new(LINERATE).args(arguments).arg("--store").arg(&store).output().unwrap();
        let _ = std::fs::remove_file(&store);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(contains), "{said}");
    }
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let target = format!("iperf3:127.0.0.1:{}", free_port());
    check(&["run", "tcp-rr", "--target", &target], "iperf3 has no tcp-rr; choose tcp-stream or udp-stream");
    check(&["run", "tcp-stream", "--target", &target], "start 'iperf3 -s' there");
}

#[test]
fn a_server_that_says_nothing_is_waited_for_once() {
    // Its kernel accepts connections.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("iperf3:{}", listener.local_addr().unwrap());
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let store = store("mute");
    let output =
        Command::new(LINERATE).args(["run", "tcp-stream", "--target", &target, "--store"]).arg(&store).output();
    let _ = std::fs::remove_file(&store);
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("first \"TCP stream, host sends\""), "{said}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("said nothing for 6 s"), "{said}");
    // Who waits for an iperf3 has said its cookie before.
    listener.set_nonblocking(true).unwrap();
    let clients = std::iter::from_fn(|| listener.accept().ok().map(|(client, _)| client));
    let has_asked = |mut client: TcpStream| client.read(&mut [0; 37]).is_ok_and(|len| len > 0);
    assert_eq!(clients.map(has_asked).filter(|has| *has).count(), 1);
}

/// Two namespaces whose link has link-local addresses; they go with the value.
struct LinkLocal([String; 2]);

impl LinkLocal {
    fn new() -> Option<LinkLocal> {
        let names = ["target", "host"].map(|end| format!("lr-ll-{end}-{}", std::process::id()));
        let [target, host] = &names;
        let ip = |arguments: String| {
            Command::new("ip")
                .args(arguments.split_whitespace())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        let made = LinkLocal(names.clone());
        let done = ip(format!("netns add {target}"))
            && ip(format!("netns add {host}"))
            && ip(format!("-n {target} link add port0 type veth peer name port0 netns {host}"))
            && [(target, "fe80::2"), (host, "fe80::1")].into_iter().all(|(name, address)| {
                ip(format!("-n {name} link set port0 addrgenmode none"))
                    && ip(format!("-n {name} link set port0 up"))
                    && ip(format!("-n {name} address add {address}/64 dev port0 nodad"))
            });
        if !done {
            println!("SKIPPED: no namespaces here without root");
        }
        done.then_some(made)
    }
}

impl Drop for LinkLocal {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
        }
    }
}

#[test]
fn a_link_local_server_is_at_an_interface_of_the_hosts_and_records_name_it() {
    let Some(names) = LinkLocal::new() else { return };
    let [target, host] = &names.0;
    let stores = [store("link-local"), store("link-local-served")];
    let port = "5333";
    let mut serve = Command::new("ip");
    serve.args([
        "netns",
        "exec",
        target,
        LINERATE,
        "serve",
        "iperf3",
        "--port",
        port,
        "--one-off",
        "--json",
        "--quiet",
    ]);
    let mut serving = Running(serve.arg("--store").arg(&stores[1]).stdout(Stdio::piped()).spawn().unwrap());
    thread::sleep(Duration::from_secs(2));
    let run = |at: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", LINERATE, "run", "tcp-stream", "--target", at, "--host", &format!("netns:{host}")]);
        command.args(["--set", "duration=1s", "--json", "--quiet"]).arg("--store").arg(&stores[0]).output().unwrap()
    };
    let missing = run(&format!("iperf3:[fe80::2]:{port}"));
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(said.contains("say which of the host's, as iperf3:[fe80::2%eth0]"), "{said}");
    let none = run(&format!("iperf3:[fe80::2%nothing0]:{port}"));
    let said = String::from_utf8_lossy(&none.stderr).into_owned() + &String::from_utf8_lossy(&none.stdout);
    assert!(said.contains("no link-local address at an interface nothing0"), "{said}");
    let done = run(&format!("iperf3:[fe80::2%port0]:{port}"));
    let record = records(&done.stdout).remove(0);
    assert!(record["error"].is_null(), "{record}");
    assert_eq!(record["target"]["endpoint"], format!("iperf3:[fe80::2%port0]:{port}"));
    assert_eq!(
        (&record["target"]["address"], &record["host"]["address"]),
        (&"fe80::2%port0".into(), &"fe80::1%port0".into())
    );
    let mut text = String::new();
    std::io::Read::read_to_string(serving.0.stdout.as_mut().unwrap(), &mut text).unwrap();
    let record = records(text.as_bytes()).remove(0);
    assert_eq!(record["host"]["endpoint"], "iperf3:[fe80::1%port0]");
    // A client tells what it retransmitted, and nothing else of TCP.
    let tcp = &record["result"]["tcp"];
    assert!(tcp["retransmissions"].is_u64(), "{tcp}");
    assert!(["rtt_s", "cwnd", "mss"].iter().all(|name| tcp[name].is_null()), "{tcp}");
    assert_eq!(
        (&record["target"]["address"], &record["host"]["address"]),
        (&"fe80::2%port0".into(), &"fe80::1%port0".into())
    );
    stores.iter().for_each(|store| drop(std::fs::remove_file(store)));
}

#[test]
fn a_ttcp_gets_datagrams_only_where_that_is_allowed() {
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let store = store("ttcp");
    let target = format!("ttcp:127.0.0.1:{}", socket.local_addr().unwrap().port());
    let run = |more: &[&str]| {
        let mut command = Command::new(LINERATE);
        command.args(["run", "udp-stream", "--target", &target, "--set", "duration=1s", "--set", "rate=1M", "--quiet"]);
        let output = command.args(more).arg("--store").arg(&store).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = run(&[]);
    assert!(said.contains("--allow-unanswered RATE"), "{said}");
    assert!(socket.recv(&mut [0; 2000]).is_err(), "nothing came");
    let said = run(&["--allow-unanswered", "999K"]);
    assert!(said.contains("no more than --allow-unanswered 999K"), "{said}");
    assert!(socket.recv(&mut [0; 2000]).is_err(), "nothing came");
    run(&["--allow-unanswered", "1M"]);
    assert!(socket.recv(&mut [0; 2000]).is_ok());
    let _ = std::fs::remove_file(&store);
}

#[test]
fn a_served_client_leaves_a_record() {
    if !has_iperf3() {
        return;
    }
    let port = free_port();
    let store = store("served");
    let server = Command::new(LINERATE)
        .args(["serve", "iperf3", "--bind", "127.0.0.1", "--port", &port.to_string(), "--one-off", "--json", "--quiet"])
        .arg("--store")
        .arg(&store)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(port);
    let client = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port.to_string(), "-u", "-b", "20M", "-t", "1", "-J"])
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&client.stdout).unwrap();
    let output = server.wait_with_output().unwrap();
    let _ = std::fs::remove_file(&store);
    assert!(output.status.success());
    let records = records(&output.stdout);
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((&record["plan"], &record["direction"]), (&"serve".into(), &"rx".into()));
    assert_eq!(record["result"]["packets_received"], printed["end"]["sum"]["packets"], "{printed}");
    assert!(record["target"]["environment"]["kernel"].is_string());
}

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/tests/keys");

#[cfg(not(feature = "authentication"))]
#[test]
fn passwords_are_for_a_build_that_has_them() {
    let files = [["--authorized-users", "users"], ["--rsa-private-key", "private.pem"]];
    let files = files.map(|[option, file]| [option.to_owned(), format!("{KEYS}/{file}")]).concat();
    let output = Command::new(LINERATE).args(["serve", "iperf3", "--port", "0"]).args(files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("build it with 'cargo build --release --features authentication'"), "{said}");
}

#[cfg(feature = "authentication")]
#[test]
fn a_user_is_known_by_a_password_that_no_command_line_shows() {
    let port = free_port();
    let (served, asked) = (store("users-served"), store("users-asked"));
    let server = Command::new(LINERATE)
        .args(["serve", "iperf3", "--bind", "127.0.0.1", "--port", &port.to_string(), "--one-off", "--json"])
        .args(["--authorized-users", &format!("{KEYS}/users"), "--rsa-private-key", &format!("{KEYS}/private.pem")])
        .arg("--store")
        .arg(&served)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(port);
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |password: Option<&str>| {
        let mut command = Command::new(LINERATE);
        command.args(["run", "tcp-stream", "--target", &format!("iperf3:127.0.0.1:{port}"), "--json", "--quiet"]);
        command.args(["--set", "rate=20M", "--set", "duration=200ms", "--set", "warmup=0s"]);
        command.args(["--username", "mario", "--rsa-public-key", &format!("{KEYS}/public.pem"), "--store"]);
        command.arg(&asked).env_remove("IPERF3_PASSWORD").envs(password.map(|password| ("IPERF3_PASSWORD", password)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (status, said) = run(None);
    assert!(status == Some(2) && said.contains("environment variable IPERF3_PASSWORD"), "{said}");
    let (status, said) = run(Some("verdi"));
    assert!(status == Some(2) && said.contains("see that user, password and public key"), "{said}");
    let (status, said) = run(Some("rossi"));
    assert!(status == Some(0) && said.contains("throughput_bps"), "{said}");
    let output = server.wait_with_output().unwrap();
    [&served, &asked].into_iter().for_each(|store| drop(std::fs::remove_file(store)));
    assert_eq!(records(&output.stdout).len(), 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a client of iperf3 at 127.0.0.1 was refused: it is no user that is allowed"), "{said}");
}

#[test]
fn a_netserver_of_ours_serves_a_run_of_ours() {
    let port = free_port();
    let stores = [store("netserver"), store("netperf")];
    let server = Command::new(LINERATE)
        .args([
            "serve",
            "netperf",
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--one-off",
            "--json",
            "--quiet",
        ])
        .arg("--store")
        .arg(&stores[0])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(port);
    let _lease = LEASE.lock().unwrap_or_else(PoisonError::into_inner);
    let client = Command::new(LINERATE)
        .args(["run", "udp-stream", "--target", &format!("netperf:127.0.0.1:{port}"), "--json", "--quiet"])
        .args(["--set", "rate=2M", "--set", "duration=1s", "--store"])
        .arg(&stores[1])
        .output()
        .unwrap();
    let output = server.wait_with_output().unwrap();
    stores.iter().for_each(|store| drop(std::fs::remove_file(store)));
    assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    let (asked, served) = (&records(&client.stdout)[0], &records(&output.stdout)[0]);
    assert_eq!(asked["result"]["packets_lost"], 0, "loopback loses nothing: {}", asked["result"]);
    assert_eq!(asked["result"]["packets_received"], served["result"]["packets_received"]);
    assert!(asked["result"].get("packets_reordered").is_none(), "datagrams without numbers have no order");
    assert!(served["result"].get("packets_lost").is_none(), "what was sent, no netperf tells: {}", served["result"]);
    assert_eq!(served["asked"]["message_size"], asked["asked"]["message_size"]);
    assert!(served["intervals"].as_array().is_some_and(|slices| !slices.is_empty()));
    // What a netserver tells of its machine.
    let target = &asked["target"];
    assert_eq!((&target["cpu"]["method"], &target["environment"]["nic"]["name"]), (&"/proc/stat".into(), &"lo".into()));
    let mbit = served["result"]["throughput_bps"].as_f64().unwrap() / 1e6;
    assert!((1.5..2.5).contains(&mbit), "{}", served["result"]);
}
