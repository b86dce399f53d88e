//! A server for a test, with a store of examples, and requests as bytes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_results::store::Store;

use crate::machines::kept::keep;
use crate::machines::{Bench, Running};

pub const LONG: Duration = Duration::from_secs(60);

/// The real program, serving; it ends with the value.
pub struct Server {
    pub running: Running,
    pub port: u16,
    pub token: String,
    pub token_file: PathBuf,
}

impl Server {
    pub fn start(bench: &Bench, more: &[&str]) -> Server {
        Server::start_at(bench, "127.0.0.1:0", more)
    }

    pub fn start_at(bench: &Bench, listen: &str, more: &[&str]) -> Server {
        Server::of(bench, bench.linerate(&[&["web", "--listen", listen], more].concat()))
    }

    /// Of this command.
    pub fn of(bench: &Bench, mut command: Command) -> Server {
        command.env("XDG_RUNTIME_DIR", &bench.folder.0);
        let folder = bench.folder.0.join("linerate");
        // One that a killed server left.
        let _ = fs::create_dir_all(&folder);
        for file in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if file.extension().is_some_and(|end| end == "token") {
                let _ = fs::remove_file(file);
            }
        }
        let running = Running::start(command);
        let mut found = None;
        bench.wait_until("the token's file", LONG, || {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            found = files.filter(|path| path.extension().is_some_and(|end| end == "token")).find_map(|path| {
                let token = fs::read_to_string(&path).ok()?.trim().to_owned();
                (token.len() == 64).then_some((path, token))
            });
            found.is_some()
        });
        let (token_file, token) = found.expect("it was waited for");
        let name = token_file.file_stem().unwrap().to_string_lossy().into_owned();
        let port = name.rsplit('-').next().and_then(|port| port.parse().ok()).expect("its port");
        Server { running, port, token, token_file }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> String {
        format!("http://{}/#{}", self.host(), self.token)
    }

    /// A request with these fields, to its answer.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.host());
        }
        fields.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        if !body.is_empty() || method == "POST" {
            head += &format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
        }
        self.ask_raw(format!("{head}\r\n{body}").as_bytes()).expect("an answer")
    }

    /// Bytes, and what comes back until the server closes; `None`: nothing of HTTP.
    pub fn ask_raw(&self, bytes: &[u8]) -> Option<Answer> {
        self.ask_raw_within(bytes, LONG)
    }

    pub fn ask_raw_within(&self, bytes: &[u8], limit: Duration) -> Option<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(limit)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        // It may answer and close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        Answer::of(&told)
    }

    /// As a program with the token does.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.ask("GET", path, &[("Authorization", &bearer)], "")
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.ask("POST", path, &[("Authorization", &bearer)], body)
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn of(told: &[u8]) -> Option<Answer> {
        let text = String::from_utf8_lossy(told).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
    }

    #[track_caller]
    pub fn check(&self, status: u16, parts: &[&str]) -> &Answer {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body.chars().take(2000).collect::<String>());
        for part in parts {
            assert!(self.body.contains(part), "{part}: {}", self.body.chars().take(4000).collect::<String>());
        }
        self
    }

    /// A field of its head.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// Two campaigns with every kind of record: sweeps, requests, streams, events, registers, settings, failed trials.
pub fn keep_examples(bench: &Bench) -> Vec<Record> {
    let path = bench.store_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut store = Store::open(&path).unwrap();
    let mut all = Vec::new();
    for (number, part) in [(1_u64, 1.0), (2, 0.8)] {
        let mut records = Vec::new();
        for repeat in 0..3 {
            let noise = 1.0 + f64::from(repeat) / 100.0;
            let sweep = (1..=5).map(|step| {
                sample::udp(step, Direction::Rx, step * 100, f64::from(step * 100).min(430.0 * part * noise))
            });
            let rest = [sample::rr(7, "64"), sample::tcp(9, Direction::Tx, 900.0 * part * noise, true)];
            records.extend(sweep.chain(rest).map(|mut record| {
                record.trial.repeat = repeat;
                record
            }));
        }
        records.extend([sample::both(10), sample::full(), sample::failed(11), sample::examined(12)]);
        keep(&mut store, number, &mut records);
        all.extend(records);
    }
    all
}

/// Every page that there is, of the examples' store.
pub fn pages() -> Vec<String> {
    let record = format!("{:013}{:013}", 1, 3);
    let full = format!("{:013}{:013}", 1, 22);
    let campaign = format!("{:026}", 1);
    [
        "/",
        "/records",
        "/records?q=last:workload%3Dudp-stream&sort=loss&limit=5",
        &format!("/record/{record}"),
        &format!("/record/{full}?all=yes"),
        &format!("/record/{full}/explain"),
        "/campaigns",
        &format!("/campaign/{campaign}"),
        "/compare",
        "/compare?baseline=last~1&candidate=last",
        "/history?metric=throughput&records=%3Aplan%3Dexample",
        "/runs",
        "/plans",
        "/plan/udp-sweep",
        "/plan/udp-sweep/matrix?set=rate%3D10M%2C20M",
        "/machines",
        "/machine/local",
        "/machine/local/settings",
        "/nowhere",
    ]
    .map(str::to_owned)
    .to_vec()
}
