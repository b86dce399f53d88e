//! What other machines, peers, records, plans and command lines say, as the program writes it to a terminal.
//! Knows no form of output: whatever it is, no control character but newline is in it.

mod machines;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_control::message::{AgentLine, Hello, PROTOCOL, RefusalKind, Reply};
use linerate_machine::printable::is_printable;
use linerate_results::store::{Campaign, Store};
use linerate_results::{id, sample};
use machines::Bench;

/// A title, a cleared screen by either way to write an escape, a forged line, an order turned around.
const HOSTILE: &str =
    "x\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}2J\rlinerate: forged\nlinerate: forged\r\n\u{202e}\u{8}\u{7f}\u{2028}y";

/// Runs it, and sees that what it writes, to either side, is printable and forges no line. Returns both, as text.
#[track_caller]
fn check(mut command: Command) -> String {
    let told = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{told}");
    let both = [stdout, stderr].map(|octets| String::from_utf8(octets).unwrap());
    for text in &both {
        // CSV ends its lines with CR LF (RFC 4180).
        let odd = text.replace("\r\n", "\n").chars().find(|c| *c != '\n' && !is_printable(*c));
        assert_eq!(odd, None, "{told}\n{text:?}");
        let is_forged = |line: &str| line.starts_with("linerate: forged");
        // Within quotes a cell of CSV has lines of its own.
        assert!(told.contains("--csv") || !text.lines().any(is_forged), "{told}\n{text:?}");
    }
    both.concat()
}

/// The record's strings, each with something hostile in it wherever the format takes any text.
fn spoilt(record: &linerate_results::record::Record) -> linerate_results::record::Record {
    fn spoil(value: &mut serde_json::Value, path: &mut Vec<String>, try_it: &mut dyn FnMut(&[String])) {
        match value {
            serde_json::Value::String(_) => try_it(path),
            serde_json::Value::Array(items) => items.iter_mut().enumerate().for_each(|(at, one)| {
                path.push(at.to_string());
                spoil(one, path, try_it);
                path.pop();
            }),
            serde_json::Value::Object(members) => members.iter_mut().for_each(|(name, one)| {
                path.push(name.replace('~', "~0").replace('/', "~1"));
                spoil(one, path, try_it);
                path.pop();
            }),
            _ => {}
        }
    }
    let mut paths = Vec::new();
    spoil(&mut record.to_json(), &mut Vec::new(), &mut |path| paths.push(format!("/{}", path.join("/"))));
    let mut value = record.to_json();
    for path in paths.iter().filter(|path| !["/id", "/campaign", "/started_at", "/format"].contains(&path.as_str())) {
        let mut changed = value.clone();
        *changed.pointer_mut(path).unwrap() = HOSTILE.into();
        if serde_json::from_value::<linerate_results::record::Record>(changed.clone()).is_ok() {
            value = changed;
        }
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_store_of_somebody_elses() {
    let bench = Bench::bare("printable-store");
    let path = bench.folder.path("theirs.sqlite");
    let mut store = Store::open(path.as_ref()).unwrap();
    for (at, plain) in [sample::full(), sample::failed(1), sample::ttcp(2, 0), sample::rr(3, "64")].iter().enumerate() {
        let mut record = spoilt(plain);
        record.id = id::id(1_795_230_000_000 + at as u64, [3; 10]);
        record.campaign = id::id(1_795_230_000_000, [2; 10]);
        store.insert(&record).unwrap();
    }
    let campaign = Campaign {
        id: id::id(1_795_230_000_000, [2; 10]),
        plan: HOSTILE.to_owned(),
        plan_text: HOSTILE.to_owned(),
        target: HOSTILE.to_owned(),
        host: HOSTILE.to_owned(),
        started_at: "2026-11-21T03:00:00Z".to_owned(),
        planned: 4,
        finished_at: None,
    };
    store.campaign_begin(&campaign).unwrap();
    drop(store);
    let show = |arguments: &[&str]| check(bench.linerate(&[arguments, &["--store", &path]].concat()));
    let listed = show(&["records", "list"]);
    assert!(listed.contains("\u{fffd}") && listed.lines().count() > 4, "{listed}");
    for number in 0..4 {
        let one = id::id(1_795_230_000_000 + number, [3; 10]);
        assert!(show(&["records", "show", &one]).contains("record "));
        show(&["records", "show", &one, "--json"]);
        show(&["records", "profile", &one]);
        show(&["records", "profile", &one, "--folded"]);
        show(&["explain", &one]);
        show(&["explain", &one, "--markdown"]);
        show(&["explain", &one, "--json"]);
        show(&["explain", &one, "--try"]);
    }
    for form in ["--csv", "--json", "--markdown"] {
        assert!(show(&["records", "export", form]).len() > 1000);
        show(&["compare", "--null", "last", form]);
        show(&["history", "throughput", form]);
        show(&["cost", "last", form]);
    }
    show(&["compare", "--null", "last"]);
    show(&["history", "throughput"]);
    show(&["cost"]);
    let svg = bench.folder.path("theirs.svg");
    show(&["records", "profile", &id::id(1_795_230_000_000, [3; 10]), "--svg", &svg]);
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.chars().all(|c| c == '\n' || is_printable(c)), "{svg:?}");
}

/// An agent that says only what a stranger would: `reply` to all requests of these kinds, a refusal to others.
fn agent(bench: &Bench, replies: &[(&str, Reply)]) -> String {
    let hello = Hello {
        linerate: PROTOCOL,
        program: HOSTILE.to_owned(),
        capabilities: vec![HOSTILE.to_owned(), "settings".to_owned()],
        notes: vec![HOSTILE.to_owned(); 3],
    };
    let file = |name: &str, line: String| {
        let path = bench.folder.path(name);
        // The one number in it is the request's.
        fs::write(&path, line.replace("4242424242", "ID") + "\n").unwrap();
        path
    };
    let mut script = format!("cat {}\n", file("hello", serde_json::to_string(&hello).unwrap()));
    script += "while read -r line; do id=${line#*'\"id\":'}; id=${id%%,*}; case $line in\n";
    for (at, (kind, reply)) in replies.iter().enumerate() {
        let reply = AgentLine::Reply { re: 4_242_424_242, reply: reply.clone() };
        let path = file(&format!("reply-{at}"), serde_json::to_string(&reply).unwrap());
        script += &format!("*'\"request\":{{\"{kind}\"'*|*'\"request\":\"{kind}\"'*) sed \"s/ID/$id/\" {path};;\n");
    }
    let refusal =
        AgentLine::Refusal { re: Some(4_242_424_242), kind: RefusalKind::Failed, message: HOSTILE.repeat(200) };
    let path = file("refusal", serde_json::to_string(&refusal).unwrap());
    script += &format!("*) sed \"s/ID/$id/\" {path};;\nesac; done\nprintf '\\033[2Jlast words\\033]0;t\\007\\n' >&2\n");
    let path = bench.folder.path("agent.sh");
    fs::write(&path, script).unwrap();
    format!("exec:sh {path}")
}

#[test]
fn an_agent_of_somebody_elses() {
    let bench = Bench::bare("printable-agent");
    let full = spoilt(&sample::full());
    let address = linerate_control::message::Address {
        interface: HOSTILE.to_owned(),
        address: "127.0.0.1".parse().unwrap(),
        prefix_len: 8,
        up: true,
        loopback: false,
    };
    let replies = [
        ("describe", Reply::Environment(Box::new(full.target.environment.clone()))),
        ("addresses", Reply::Addresses { addresses: vec![address], reached_at: None }),
        ("counters", Reply::Counters { counters: full.target.counters.clone(), missing: vec![HOSTILE.to_owned()] }),
        (
            "get",
            Reply::Settings {
                settings: vec![linerate_machine::change::Reading {
                    name: HOSTILE.to_owned(),
                    value: Some(HOSTILE.to_owned()),
                    error: None,
                }],
                kept: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
            },
        ),
        ("set", Reply::Changed { settings: full.target.settings.clone() }),
    ];
    let endpoint = agent(&bench, &replies);
    let look = |more: &[&str]| check(bench.linerate(&[&["target", endpoint.as_str()], more].concat()));
    assert!(look(&["info"]).contains("last words") || !look(&["info"]).is_empty());
    look(&["info", "--json"]);
    look(&["counters"]);
    look(&["get"]);
    look(&["get", "mtu"]);
    look(&["get", "--json"]);
    look(&["set", "mtu=1500"]);
    look(&["restore"]);
    look(&["registers"]);
    let notes = look(&["profile", "1"]);
    assert!(notes.contains("forged") && notes.contains("x\u{fffd}]0;t"), "what it says is said: {notes}");
    // The longest refusal does not fill a screen.
    assert!(notes.chars().count() < 20_000, "{}", notes.len());
    check(bench.linerate(&["run", "tcp", "--target", &endpoint, "--host", "local"]));
    check(bench.linerate(&["run", "tcp", "--target", &endpoint, "--host", "local", "--dry-run"]));
    // One that says it before it is an agent.
    let words = bench.folder.path("words");
    fs::write(&words, HOSTILE).unwrap();
    check(bench.linerate(&["target", &format!("exec:cat {words}"), "info"]));
    check(bench.linerate(&["target", &format!("exec:cat {words} >&2; exit 3"), "info"]));
}

#[test]
fn words_of_a_command_line_and_of_a_plan() {
    let bench = Bench::bare("printable-words");
    for arguments in [
        &[HOSTILE][..],
        &["run", HOSTILE],
        &["run", HOSTILE, "--target", "local"],
        &["run", "tcp", "--target", HOSTILE],
        &["run", "tcp", "--target", "local", "--set", HOSTILE],
        &["run", "tcp", "--target", "local", "--set", &format!("rate={HOSTILE}")],
        &["run", "tcp", "--target", "local", &format!("--{HOSTILE}")],
        &["run", "tcp", "--target", &format!("exec:{HOSTILE}")],
        &["run", "tcp", "--target", &format!("netns:{HOSTILE}")],
        &["plans", HOSTILE],
        &["explain", "--finding", HOSTILE],
        &["compare", HOSTILE, HOSTILE],
        &["records", "show", HOSTILE, "--store", &bench.folder.path(HOSTILE)],
        &["lab", "up", HOSTILE],
        &["agent", "--listen", HOSTILE, "--psk-file", HOSTILE],
        &["agent", HOSTILE],
    ] {
        assert!(!check(bench.linerate(arguments)).is_empty(), "{arguments:?}");
    }
    let mut command = bench.linerate(&[]);
    command.arg(std::ffi::OsStr::from_bytes(b"a\xff\x1b[2J"));
    assert!(check(command).contains("a\u{fffd}\u{fffd}[2J"));

    let quoted = serde_json::to_string(HOSTILE).unwrap().replace("\\u007f", "\\u007F");
    let path = bench.folder.path("theirs.toml");
    for body in [
        "about = 1".to_owned(),
        format!("about = {quoted}\nname = {quoted}"),
        format!(
            "about = {quoted}\nworkload = \"udp-stream\"\n[options]\nduration = \"1s\"\n[factors]\nrate = [{quoted}]"
        ),
        format!("workload = \"udp-stream\"\n[options]\n{quoted} = 1"),
        format!("workload = {quoted}"),
        "\u{9b}2J = \"\u{202e}\u{9d}".to_owned(),
        format!(
            "workload = \"tcp-stream\"\n[options]\ntarget.custom.{quoted} = 1\n[custom.{quoted}]\nget = [{quoted}]\nset = [{quoted}]"
        ),
    ] {
        fs::write(&path, format!("format = \"linerate.plan/1\"\n{body}\n")).unwrap();
        check(bench.linerate(&["plans", &path]));
        check(bench.linerate(&["run", &path, "--target", "local", "--dry-run"]));
    }
}
