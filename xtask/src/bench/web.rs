//! `cargo xtask bench web`: how soon `linerate web` answers over a large store, what clients cost it, and what a measurement that is
//! watched loses. Knows HTTP as far as one server speaks it, and no figure of a record: sides are held against each other by
//! `linerate compare`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::Shape;

use super::statistics::{median, range};
use super::{Bench, target_folder};
use crate::program::{cargo, must};
use crate::scratch::Scratch;

const ROUNDS: usize = 9;
/// Campaigns, loads, repeats, and how many times more their figures: 100,000 records.
const STORE: [u32; 4] = [1000, 10, 10, 0];
const PAGES: [&str; 12] = [
    "/",
    "/records",
    "/records?page=9000&limit=10",
    "/records?sort=throughput",
    "/records?sort=loss&order=up",
    "/records?plan=example&workload=udp-stream",
    "/records?q=last",
    "/campaigns",
    "/campaign/LAST",
    "/compare?baseline=last~1&candidate=last",
    "/history",
    "/history?metric=loss&records=%3Aplan%3Dexample",
];
const CLIENTS: usize = 5;
/// As often a page asks while something runs (`assets/live.js`).
const ASKS: Duration = Duration::from_millis(400);
/// How long clients are counted, and a server without any.
const WATCHED: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(10);
const TRIALS: usize = 20;
const MARGIN: &str = "1%";

/// Measures all three; returns the text and its tables.
pub(super) fn run() -> Result<String, String> {
    let example =
        ["build", "--release", "--package", "linerate-results", "--features", "sample,postgres", "--example", "stores"];
    must(&mut cargo(&example))?;
    let bench = Bench::shaped(&Shape::modest_board())?;
    Ok([pages(&bench)?, clients(&bench)?, watched(&bench)?].join("\n"))
}

fn pages(bench: &Bench) -> Result<String, String> {
    let folder = Scratch::new("bench-web-pages")?;
    let store = folder.0.join("large.sqlite");
    let mut command = Command::new(target_folder().join("release/examples/stores"));
    command.arg(&store).args(STORE.map(|number| number.to_string())).stdout(Stdio::null());
    must(&mut command)?;
    let server = Server::start(bench, &folder, &store, &[])?;
    let mut client = server.client()?;
    let last = client.get("/campaigns?limit=1&form=json")?.body;
    let campaign = last.split("\"campaign\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let mut table = format!(
        "A store of {} records in {} campaigns; milliseconds from the question to the answer's first byte, {ROUNDS} times each.\n\n\
         | page | median ms | least and most ms | KiB |\n|---|--:|--:|--:|\n",
        STORE[..3].iter().product::<u32>(),
        STORE[0],
    );
    for page in PAGES {
        let page = page.replace("LAST", campaign);
        let mut times = Vec::new();
        let mut octets = 0;
        for _ in 0..ROUNDS {
            let answer = client.get(&page)?;
            if answer.status != 200 {
                return Err(format!(
                    "{page}: {}: {}",
                    answer.status,
                    answer.body.chars().take(300).collect::<String>()
                ));
            }
            times.push(answer.first_byte_ms);
            octets = answer.body.len();
        }
        let (least, most) = range(&times);
        let shown = page.replace(campaign, "ID");
        table += &format!("| `{shown}` | {:.0} | {least:.0} – {most:.0} | {} |\n", median(&times), octets / 1024);
    }
    Ok(table)
}

fn clients(bench: &Bench) -> Result<String, String> {
    let folder = Scratch::new("bench-web-clients")?;
    let server = Server::start(bench, &folder, &bench.store, &[])?;
    server.client()?.get("/records")?;
    // Threads that answered go after five seconds.
    thread::sleep(Duration::from_secs(6));
    let idle = server.used_within(|| {
        thread::sleep(IDLE);
        Ok(())
    })?;
    let seconds = WATCHED.as_secs() + 10;
    let number = server.begin(bench, &[("duration", &format!("{seconds}s")), ("rate", "50M")])?;
    thread::sleep(Duration::from_secs(3));
    let mut asked = 0;
    let busy = server.used_within(|| {
        asked = watch(&server, number, WATCHED)?;
        Ok(())
    })?;
    let table = format!(
        "A server, for {} s without a client, and for {} s with {CLIENTS} that asked each {} ms how a campaign goes ({asked} answers).\n\n\
         | clients | CPU, % of a core | times woken | memory, MiB | of them its own | \n|--:|--:|--:|--:|--:|\n",
        IDLE.as_secs(),
        WATCHED.as_secs(),
        ASKS.as_millis(),
    );
    server.ended(number)?;
    let row = |clients: usize, used: &Used| {
        format!(
            "| {clients} | {:.2} | {} | {:.1} | {:.1} |\n",
            used.cpu * 100.0,
            used.wakes,
            used.resident_kib as f64 / 1024.0,
            used.own_kib as f64 / 1024.0
        )
    };
    Ok(table + &row(0, &idle) + &row(CLIENTS, &busy))
}

fn watched(bench: &Bench) -> Result<String, String> {
    let folder = Scratch::new("bench-web-watched")?;
    let store = folder.0.join("watched.sqlite");
    let server = Server::start(bench, &folder, &store, &[])?;
    for trial in 0..TRIALS {
        let is_watched = trial % 2 == 1;
        // By the seed the two sides are told apart; a stream has no other use for one.
        let seed = if is_watched { "2" } else { "1" };
        let number = server.begin(bench, &[("duration", "2s"), ("seed", seed), ("direction", "tx")])?;
        if is_watched {
            watch(&server, number, Duration::from_secs(60))?;
        } else {
            // Nobody asks until its end is near.
            thread::sleep(Duration::from_secs(3));
        }
        server.ended(number)?;
    }
    let mut command = Command::new(&bench.program);
    command.args(["compare", ":plan=tcp-stream,seed=1", ":plan=tcp-stream,seed=2", "--csv", "--margin", MARGIN]);
    let output = command.arg("--store").arg(&store).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("linerate compare: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let headings = rows.next().ok_or("linerate compare said nothing")?;
    let mut table = format!(
        "{TRIALS} trials of tcp-stream, 2 s each, over a shaped link; every second one was watched by {CLIENTS} clients. `linerate \
         compare --margin {MARGIN}`:\n\n\
         | figure | not watched | watched | shift, 95 % interval, % | verdict |\n|---|--:|--:|--:|---|\n"
    );
    for row in rows {
        let of = |name: &str| headings.iter().position(|one| *one == name).and_then(|at| row.get(at)).copied();
        let percent = |name: &str| of(name).and_then(|text| text.parse::<f64>().ok()).map(|value| value * 100.0);
        let shift = match [percent("relative"), percent("relative_low"), percent("relative_high")] {
            [Some(shift), Some(low), Some(high)] => format!("{shift:+.2} ({low:+.2} to {high:+.2})"),
            _ => "-".to_owned(),
        };
        let rounded = |name: &str| of(name).and_then(|text| text.parse::<f64>().ok()).map_or("-".to_owned(), short);
        let [baseline, candidate] = ["baseline_median", "candidate_median"].map(rounded);
        let (metric, verdict) = (of("metric").unwrap_or("-"), of("verdict").unwrap_or("-"));
        table += &format!("| {metric} | {baseline} | {candidate} | {shift} | {verdict} |\n");
    }
    Ok(table)
}

/// Four digits.
fn short(value: f64) -> String {
    let digits = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

/// Clients that ask how a campaign goes, until it is over or for so long; how many answers they had.
fn watch(server: &Server, number: u32, time: Duration) -> Result<usize, String> {
    let until = Instant::now() + time;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(move || -> Result<usize, String> {
                    let mut client = server.client()?;
                    let (mut asked, mut version) = (0, String::new());
                    while Instant::now() < until {
                        let answer = client.get(&format!("/run/{number}/live?v={version}"))?;
                        asked += 1;
                        version = answer.field("x-version").unwrap_or(&version).to_owned();
                        if answer.field("x-over").is_some() {
                            break;
                        }
                        thread::sleep(ASKS);
                    }
                    Ok(asked)
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("a client failed".to_owned()))).sum()
    })
}

/// `linerate web` with a store of its own; it ends with the value.
struct Server {
    child: Child,
    port: u16,
    token: String,
}

/// What a server used within a time.
struct Used {
    /// Seconds of CPU a second.
    cpu: f64,
    wakes: u64,
    resident_kib: u64,
    own_kib: u64,
}

impl Server {
    fn start(bench: &Bench, folder: &Scratch, store: &Path, more: &[&str]) -> Result<Server, String> {
        let mut command = Command::new(&bench.program);
        command.args(["web", "--listen", "127.0.0.1:0", "--allow-run", "--store"]).arg(store).args(more);
        command.args(["--machine", &bench.target(), "--machine", &bench.host()]).env("XDG_RUNTIME_DIR", &folder.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("linerate web: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let found = line.trim().rsplit_once(":").and_then(|(_, rest)| rest.split_once("/#"));
        let found = found.and_then(|(port, token)| Some((port.parse().ok()?, token.to_owned())));
        let Some((port, token)) = found else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("linerate web said no address: {line}"));
        };
        Ok(Server { child, port, token })
    }

    fn client(&self) -> Result<Client, String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
        let reader = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
        let fields = format!("Host: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n", self.port, self.token);
        Ok(Client { stream, reader, fields })
    }

    /// Starts a campaign of one stream; its number.
    fn begin(&self, bench: &Bench, options: &[(&str, &str)]) -> Result<u32, String> {
        let sets: Vec<String> = options.iter().map(|(name, value)| format!("set={name}%3D{value}")).collect();
        let end = |endpoint: String| endpoint.replace(':', "%3A").replace('/', "%2F");
        let body =
            format!("plan=tcp-stream&target={}&host={}&{}", end(bench.target()), end(bench.host()), sets.join("&"));
        let answer = self.client()?.ask("POST", "/runs", &body)?;
        let number = answer.field("location").and_then(|place| place.strip_prefix("/run/"));
        number.and_then(|number| number.parse().ok()).ok_or_else(|| format!("{}: {}", answer.status, answer.body))
    }

    /// Waits for a campaign's end.
    fn ended(&self, number: u32) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut client = self.client()?;
        while Instant::now() < deadline {
            if client.get(&format!("/run/{number}/live"))?.field("x-over").is_some() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
        Err(format!("campaign {number} has no end"))
    }

    fn used_within(&self, work: impl FnOnce() -> Result<(), String>) -> Result<Used, String> {
        let (before, began) = (self.counters()?, Instant::now());
        work()?;
        let (after, took) = (self.counters()?, began.elapsed().as_secs_f64());
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).map_err(|e| e.to_string())?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
        };
        Ok(Used {
            cpu: (after.0 - before.0) as f64 / 1e9 / took,
            wakes: after.1.saturating_sub(before.1),
            resident_kib: kib("VmRSS:"),
            own_kib: kib("RssAnon:"),
        })
    }

    /// Nanoseconds on a CPU of all its threads (Documentation/scheduler/sched-stats.rst), and how often one went to sleep.
    fn counters(&self) -> Result<(u64, u64), String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).map_err(|error| error.to_string())?;
        let (mut spent, mut sleeps) = (0, 0);
        for task in tasks.flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            spent += read("schedstat").split(' ').next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            let status = read("status");
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sleeps += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok((spent, sleeps))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By Ctrl-C, so that a campaign of its own ends with it.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// One connection, which stays.
struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    fields: String,
}

struct Answer {
    status: u16,
    head: Vec<String>,
    body: String,
    first_byte_ms: f64,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.ask("GET", path, "")
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        let said = |error: std::io::Error| format!("{path}: {error}");
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len())
        };
        let request = format!("{method} {path} HTTP/1.1\r\n{}{length}\r\n{body}", self.fields);
        let began = Instant::now();
        self.stream.write_all(request.as_bytes()).map_err(said)?;
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(said)?;
        let first_byte_ms = began.elapsed().as_secs_f64() * 1e3;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or(format!("{path}: {line}"))?;
        let mut answer = Answer { status, head: Vec::new(), body: String::new(), first_byte_ms };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).map_err(said)? == 0 || line == "\r\n" {
                break;
            }
            answer.head.push(line.trim_end().to_owned());
        }
        let length = answer.field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut octets = vec![0; length];
        self.reader.read_exact(&mut octets).map_err(said)?;
        answer.body = String::from_utf8_lossy(&octets).into_owned();
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn figures_have_four_digits() {
        for (value, want) in [(429_600_000.0, "429600000"), (12.3456, "12.35"), (0.0123, "0.01230"), (0.0, "0.000000")]
        {
            assert_eq!(short(value), want);
        }
    }
}
