//! `/metrics` of `linerate web` as Debian's Prometheus scrapes it, and the dashboard's queries in it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
#[cfg(feature = "nats")]
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::installed;
use crate::machines::sshd::Helper;
use crate::machines::{Bench, Running};
use crate::server::{Server, keep_examples};

const LONG: Duration = Duration::from_secs(60);
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/linerate.json");
const WORKERS: &str = include_str!("../../../../packaging/grafana/workers.json");

fn scraped(server: &Server, path: &str, token: &str, accept: &str) -> crate::server::Answer {
    let bearer = format!("Bearer {token}");
    server.ask("GET", path, &[("Authorization", &bearer), ("Accept", accept)], "")
}

#[test]
fn a_scraper_reads_metrics_and_nothing_else() {
    let bench = Bench::bare("metrics");
    let file = bench.folder.path("scraper");
    // Before anything was measured, too.
    let server = Server::start(&bench, &["--metrics", &file]);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    scraped(&server, "/metrics", &token, "")
        .check(200, &["linerate_build_info{version=\"", "linerate_campaigns_total"]);
    keep_examples(&bench);
    let old = scraped(&server, "/metrics", &token, "text/plain");
    old.check(200, &["# TYPE linerate_trials_total counter", "linerate_throughput_bits_per_second{target="]);
    assert_eq!(old.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let new = scraped(&server, "/metrics", &token, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    new.check(200, &["# TYPE linerate_trials counter", "# UNIT linerate_loss_ratio ratio"]);
    assert!(new.body.ends_with("# EOF\n"));
    assert_eq!(new.field("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    // The server's own token, and a browser, may read it as well.
    server.get("/metrics").check(200, &["linerate_trials_total"]);

    for path in ["/", "/records", "/metrics/", "//metrics", "/metrics/x", "/campaigns?form=json", "/session"] {
        let answer = scraped(&server, path, &token, "");
        assert!(matches!(answer.status, 401 | 404), "{path}: {answer:?}");
        assert!(!answer.body.contains("example"), "{path}: {answer:?}");
    }
    let bearer = format!("Bearer {token}");
    for (method, path, status) in [("POST", "/metrics", 403), ("POST", "/runs", 403), ("PUT", "/metrics", 405)] {
        server.ask(method, path, &[("Authorization", &bearer)], "").check(status, &[]);
    }
    // It opens no session.
    server.ask("POST", "/session", &[("Authorization", &bearer)], &format!("token={token}")).check(403, &[]);
    for wrong in ["", "x", &token[..63], &token.to_uppercase()] {
        let answer = scraped(&server, "/metrics", wrong, "");
        assert_eq!(answer.status, 401, "{wrong}: {answer:?}");
    }
    server.ask("GET", "/metrics", &[("Host", "evil.example"), ("Authorization", &bearer)], "").check(421, &[]);
    drop(server);

    // The next server has the same one, and none that others could know.
    let server = Server::start(&bench, &["--metrics", &file]);
    scraped(&server, "/metrics", &token, "").check(200, &["linerate_trials_total"]);
    drop(server);
    fs::write(&file, "guessed\n").unwrap();
    let ran = Running::start(bench.linerate(&["web", "--listen", "127.0.0.1:0", "--metrics", &file])).wait(LONG);
    ran.check_sentence(&["--metrics:", "no token of 32 characters"]);
}

/// An answer's JSON of a server on the loopback.
fn json(port: u16, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}

/// Every query of a dashboard's panels.
fn queries(dashboard: &str) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02X}")).collect()
}

#[test]
fn the_dashboards_can_be_provisioned() {
    // Whatever is told is shown.
    let of_web = [
        "throughput_bits_per_second",
        "loss_ratio",
        "transactions_per_second",
        "latency_p50",
        "latency_p99",
        "cpu_busy",
        "cpu_time_per_packet",
        "last_trial_timestamp",
        "trials_total",
        "doubts_total",
        "campaigns_total",
        "settings_not_put_back_total",
    ];
    let of_workers = [
        "worker_bench_leased",
        "worker_lease_age_seconds",
        "worker_campaigns_running",
        "worker_jobs_begun_total",
        "worker_jobs_total",
        "worker_trials_failed_total",
        "worker_queue_connected",
        "worker_queue_reconnects_total",
        "settings_not_put_back_total",
    ];
    for (text, uid, told) in [(DASHBOARD, "linerate", &of_web[..]), (WORKERS, "linerate-workers", &of_workers)] {
        let dashboard: Value = serde_json::from_str(text).unwrap();
        assert_eq!((&dashboard["id"], &dashboard["uid"]), (&Value::Null, &Value::from(uid)));
        assert!(!text.contains("${DS_") && !text.contains("__inputs"), "provisioning fills no inputs");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!((&variables[0]["name"], &variables[0]["type"]), (&"datasource".into(), &"datasource".into()));
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: std::collections::BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        for panel in panels {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
        let queries = queries(text).join("\n");
        told.iter().for_each(|name| assert!(queries.contains(&format!("linerate_{name}")), "{name}"));
    }
}

/// A worker that measures over the loopback for as long as this is there, and tells a scraper of it.
#[cfg(feature = "nats")]
struct Working {
    worker: Option<Running>,
    port: u16,
    token: String,
    nats: linerate_lab::services::Nats,
}

#[cfg(feature = "nats")]
impl Working {
    fn start(bench: &Bench) -> Option<Working> {
        use linerate_lab::services::Nats;
        if !Nats::is_installed() {
            println!("SKIPPED a worker's metrics: nats-server is not installed (cargo xtask setup servers)");
            return None;
        }
        let nats = Nats::start(&bench.folder.0.join("nats")).unwrap();
        let (url, file, token) = (nats.url(), bench.folder.path("b.toml"), bench.folder.path("worker.token"));
        fs::write(&file, "name = \"b\"\ntarget = \"local\"\n").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let words = ["worker", "--bench", &file, "--queue", &url, "--metrics", &token, "--metrics-listen", &listen];
        let worker = Some(Running::start(bench.linerate(&words)));
        let said =
            |words: &[&str]| Running::start(bench.linerate(&[words, &["--queue", &url]].concat())).wait(LONG).stdout;
        bench.wait_until("the worker is there", LONG, || said(&["jobs", "benches"]).contains("free"));
        let sets = ["--set", "duration=60s", "--set", "rate=1M", "--set", "direction=rx"];
        said(&[&["submit", "udp-stream", "--on", "bench=b"], &sets[..]].concat());
        let token = fs::read_to_string(&token).unwrap().trim().to_owned();
        let working = Working { worker, port, token, nats };
        bench.wait_until("its lease", LONG, || {
            working.metrics("").contains("linerate_worker_bench_leased{bench=\"b\"} 1.0")
        });
        Some(working)
    }

    fn ask(&self, path: &str, token: &str, accept: &str) -> crate::server::Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut told = Vec::new();
        stream.read_to_end(&mut told).unwrap();
        crate::server::Answer::of(&told).expect("an answer")
    }

    fn metrics(&self, accept: &str) -> String {
        self.ask("/metrics", &self.token, accept).check(200, &[]).body.clone()
    }
}

#[cfg(feature = "nats")]
impl Drop for Working {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.signal("INT");
            if !thread::panicking() {
                worker.wait(LONG).check_done();
            }
        }
    }
}

#[cfg(feature = "nats")]
#[test]
fn a_worker_tells_what_it_does() {
    let bench = Bench::bare("worker-metrics");
    let Some(mut working) = Working::start(&bench) else { return };
    let text = working.metrics("application/openmetrics-text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    for part in [
        "linerate_worker_jobs_begun_total{} 1\n",
        "linerate_worker_jobs_total{outcome=\"done\"} 0\n",
        "linerate_worker_campaigns_running{} 1.0\n",
        "linerate_worker_queue_connected{} 1.0\n",
        "linerate_worker_queue_reconnects_total{} 0\n",
        "# UNIT linerate_worker_lease_age_seconds seconds",
        "linerate_worker_lease_age_seconds{bench=\"b\"} ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // No name of a job or a record is a label.
    let id = |word: &str| word.len() == 26 && word.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    assert!(!text.split(|c: char| !c.is_ascii_alphanumeric()).any(id), "{text}");
    for (path, token, status) in
        [("/metrics", "x".repeat(64), 401), ("/", working.token.clone(), 404), ("/jobs", working.token.clone(), 404)]
    {
        assert_eq!(working.ask(path, &token, "").status, status, "{path}");
    }
    // A server that goes and comes back is seen as such.
    working.nats.kill().unwrap();
    bench.wait_until("that it is away", LONG, || {
        working.metrics("").contains("linerate_worker_queue_connected{} 0.0\n")
    });
    working.nats.again().unwrap();
    bench.wait_until("that it is back", LONG, || {
        let text = working.metrics("");
        text.contains("linerate_worker_queue_connected{} 1.0\n")
            && !text.contains("linerate_worker_queue_reconnects_total{} 0\n")
    });
    let words = ["worker", "--bench", &bench.folder.path("b.toml"), "--metrics", "x", "--metrics-listen", "0.0.0.0:0"];
    let mut command = bench.linerate(&words);
    command.env("LINERATE_QUEUE", working.nats.url());
    Running::start(command).wait(LONG).check_sentence(&["--metrics-listen:", "in the clear"]);
}

#[test]
fn prometheus_scrapes_and_the_dashboard_has_data() {
    let Some(prometheus) = installed("Prometheus", "readers", "readers/debian/usr/bin/prometheus") else { return };
    let bench = Bench::bare("prometheus");
    keep_examples(&bench);
    let file = bench.folder.path("scraper");
    let server = Server::start(&bench, &["--metrics", &file]);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();

    let promtool = prometheus.with_file_name("promtool");
    let old = scraped(&server, "/metrics", &token, "");
    fs::write(bench.folder.path("metrics"), &old.body).unwrap();
    let checked = || {
        let mut command = Command::new("/bin/sh");
        let script = format!("'{}' check metrics < metrics", promtool.display());
        command.args(["-c", &script]).current_dir(&bench.folder.0);
        command
    };
    let ran = Running::start(checked()).wait(LONG);
    // Bits per second are everybody's unit of this, and none of Prometheus': docs/decisions/0090.
    let complaint = "linerate_throughput_bits_per_second use base unit \"bytes\" instead of \"bits\"";
    assert_eq!((ran.stdout + &ran.stderr).lines().collect::<Vec<_>>(), [complaint]);

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: linerate\n  authorization: \
         {{credentials_file: {file}}}\n  static_configs: [{{targets: ['{}']}}]\n",
        server.host()
    );
    let all = queries(DASHBOARD);
    #[cfg(feature = "nats")]
    let working = Working::start(&bench);
    #[cfg(feature = "nats")]
    let (settings, all) = working.iter().fold((settings, all), |(mut settings, mut all), working| {
        let token = bench.folder.path("worker.token");
        settings += &format!(
            "- job_name: workers\n  authorization: {{credentials_file: {token}}}\n  static_configs: [{{targets: \
             ['127.0.0.1:{}']}}]\n",
            working.port
        );
        all.extend(queries(WORKERS));
        fs::write(bench.folder.path("metrics"), working.metrics("")).unwrap();
        let ran = Running::start(checked()).wait(LONG);
        assert_eq!(ran.stdout + &ran.stderr, "", "a worker's are well named");
        (settings, all)
    });
    let config = bench.folder.path("prometheus.yml");
    fs::write(&config, &settings).unwrap();
    let mut command = Command::new(&prometheus);
    let options = [
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={}", bench.folder.path("tsdb")),
        format!("--web.listen-address=127.0.0.1:{port}"),
        format!("--web.console.libraries={}", bench.folder.0.display()),
        format!("--web.console.templates={}", bench.folder.0.display()),
    ];
    command.args(options).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(bench.folder.path("said")).unwrap());
    let _prometheus = Helper(command.spawn().unwrap());
    let said = || fs::read_to_string(Path::new(&bench.folder.path("said"))).unwrap_or_default();
    let result = |query: &str| {
        let answer = json(port, &format!("/api/v1/query?query={}", encoded(query)))?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"]["result"].as_array()?.clone())
    };
    bench.wait_until("two scrapes", LONG, || {
        result("count_over_time(linerate_build_info[1m])").is_some_and(|found| {
            let twice = |one: &Value| one["value"][1].as_str().and_then(|count| count.parse::<u32>().ok()) >= Some(2);
            found.iter().filter(|one| twice(one)).count() == settings.matches("job_name").count()
        })
    });
    for query in all {
        let asked = query.replace("$target", ".*").replace("$plan", ".*").replace("$bench", ".*");
        let found = result(&asked).unwrap_or_default();
        assert!(!found.is_empty(), "{query} has no data\n{}", said());
    }
    // What variables offer.
    let labels = json(port, "/api/v1/label/target/values?match[]=linerate_last_trial_timestamp_seconds").unwrap();
    assert!(!labels["data"].as_array().unwrap().is_empty(), "{labels}");
}
