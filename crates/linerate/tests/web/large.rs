//! How long pages over a large store take to their first byte, and what watching costs the server.
//! `LINERATE_WEB_CAMPAIGNS` says how many campaigns of a hundred records there are (5; `cargo xtask bench web` has 1000).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use linerate_results::sample;

use crate::machines::{Bench, number};
use crate::server::Server;

const ROUNDS: usize = 3;

/// Milliseconds to the first byte.
fn first_byte(server: &Server, path: &str) -> f64 {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        server.host(),
        server.token
    );
    let began = Instant::now();
    stream.write_all(head.as_bytes()).unwrap();
    let mut told = [0; 15];
    stream.read_exact(&mut told).unwrap();
    let took = began.elapsed().as_secs_f64() * 1e3;
    assert!(told.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&told));
    let _ = stream.read_to_end(&mut Vec::new());
    took
}

#[test]
fn pages_over_a_large_store() {
    let bench = Bench::bare("web-large");
    let path = bench.store_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let campaigns = number("LINERATE_WEB_CAMPAIGNS").unwrap_or(5);
    let records = sample::fill(&path, campaigns, 10, 10).expect("a store");
    let server = Server::start(&bench, &[]);
    println!("{records} records, milliseconds to the first byte, median of {ROUNDS} and the most:");
    for path in [
        "/",
        "/records",
        "/records?page=40&limit=10",
        "/records?sort=throughput",
        "/records?q=last",
        "/campaigns",
        "/history?metric=throughput",
        "/compare?baseline=last~1&candidate=last",
    ] {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| first_byte(&server, path)).collect();
        times.sort_by(f64::total_cmp);
        println!("{path:<45} {:>6.0} {:>6.0}", times[ROUNDS / 2], times[ROUNDS - 1]);
        assert!(times[ROUNDS / 2] < 5000.0, "{path}: {times:?}");
    }
    println!("resident: {} KiB", status(&server, "VmRSS:"));
}

/// A field of /proc/PID/status.
fn status(server: &Server, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.running.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// How often the server's threads have run (a voluntary switch each time they went to sleep again).
fn wakes(server: &Server) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.running.id())).unwrap().flatten();
    let of = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| of(task.path())).sum()
}

pub fn a_server_that_nobody_asks_sleeps() {
    let bench = Bench::bare("web-idle");
    crate::server::keep_examples(&bench);
    // A queue is reached when somebody looks at it, and not before.
    let queue: &[&str] = if cfg!(feature = "nats") { &["--queue", "nats://127.0.0.1:1"] } else { &[] };
    let server = Server::start(&bench, queue);
    server.get("/records").check(200, &[]);
    // The threads of views go when they had nothing to do for 5 s.
    std::thread::sleep(Duration::from_millis(5500));
    let before = wakes(&server);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(wakes(&server), before, "nothing wakes it");
}
