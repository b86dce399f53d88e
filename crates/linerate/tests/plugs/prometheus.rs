//! `/metrics` of `linerate web` as Debian's Prometheus scrapes it, and the dashboard's queries in it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::installed;
use crate::machines::sshd::Helper;
use crate::machines::{Bench, Running};
use crate::server::{Server, keep_examples};

const LONG: Duration = Duration::from_secs(60);
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/linerate.json");

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

/// Every query of the dashboard: of panels, and of variables.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|octet| format!("%{octet:02X}")).collect()
}

#[test]
fn the_dashboard_can_be_provisioned() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert_eq!((&dashboard["id"], &dashboard["uid"]), (&Value::Null, &Value::from("linerate")));
    assert!(!DASHBOARD.contains("${DS_") && !DASHBOARD.contains("__inputs"), "provisioning fills no inputs");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!((&variables[0]["name"], &variables[0]["type"]), (&"datasource".into(), &"datasource".into()));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: std::collections::BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
    // Whatever is told is shown.
    let told = [
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
    let queries = queries().join("\n");
    told.iter().for_each(|name| assert!(queries.contains(&format!("linerate_{name}")), "{name}"));
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
    let mut command = Command::new("/bin/sh");
    let script = format!("'{}' check metrics < metrics", promtool.display());
    command.args(["-c", &script]).current_dir(&bench.folder.0);
    let ran = Running::start(command).wait(LONG);
    // Bits per second are everybody's unit of this, and none of Prometheus': docs/decisions/0090.
    let complaint = "linerate_throughput_bits_per_second use base unit \"bytes\" instead of \"bits\"";
    assert_eq!((ran.stdout + &ran.stderr).lines().collect::<Vec<_>>(), [complaint]);

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: linerate\n  authorization: \
         {{credentials_file: {file}}}\n  static_configs: [{{targets: ['{}']}}]\n",
        server.host()
    );
    let config = bench.folder.path("prometheus.yml");
    fs::write(&config, settings).unwrap();
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
        result("count_over_time(linerate_build_info[1m])").is_some_and(|all| {
            all.iter().any(|one| one["value"][1].as_str().and_then(|count| count.parse::<u32>().ok()) >= Some(2))
        })
    });
    for query in queries() {
        let asked = query.replace("$target", ".*").replace("$plan", ".*");
        let found = result(&asked).unwrap_or_default();
        assert!(!found.is_empty(), "{query} has no data\n{}", said());
    }
    // What variables offer.
    let labels = json(port, "/api/v1/label/target/values?match[]=linerate_last_trial_timestamp_seconds").unwrap();
    assert!(!labels["data"].as_array().unwrap().is_empty(), "{labels}");
}
