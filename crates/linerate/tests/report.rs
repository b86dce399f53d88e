//! Reports of what was just measured: written, verified, taken apart, forged, and opened in a browser.
//! Knows the commands; what stands in a report, the renderer's own tests know.

mod machines;

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_results::store::Store;
use machines::browser::Browser;
use machines::kept::keep;
use machines::{Bench, Ran, Running};

const LONG: Duration = Duration::from_secs(120);

fn linerate(bench: &Bench, arguments: &[&str]) -> Ran {
    Running::start(bench.linerate(arguments)).wait(LONG)
}

/// The report with other lines attached.
fn with_attached(html: &str, other: impl Fn(&str) -> String) -> String {
    let (before, rest) = html.split_once("base64,").unwrap();
    let (packed, after) = rest.split_once('"').unwrap();
    let mut lines = String::new();
    GzDecoder::new(&*STANDARD.decode(packed).unwrap()).read_to_string(&mut lines).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(other(&lines).as_bytes()).unwrap();
    format!("{before}base64,{}\"{after}", STANDARD.encode(packed.finish().unwrap()))
}

#[test]
fn a_run_makes_its_report_and_it_is_true() {
    let Some(bench) = Bench::new("report") else { return };
    let store = bench.store_path().display().to_string();
    let path = |name: &str| bench.folder.path(name);
    let html = path("report.html");
    let sweep = ["--set", "rate=20M,40M,60M", "--set", "duration=300ms", "--set", "direction=rx", "--report", &html];
    let expected = ["--expect", "throughput > 10M", "--expect", "throughput > 70M with rate=60M"];
    let ran = bench.run("udp-sweep", &[&sweep[..], &expected].concat(), LONG);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
    let report = |more: &[&str]| linerate(&bench, &[&["report", "--store", store.as_str()], more].concat());

    // Without records of its own it is held against the store.
    let said = report(&["verify", &html]);
    assert!(said.check_done().stdout.contains("all text are as the 3 records give them"), "{}", said.stdout);
    report(&["extract", &html]).check_sentence(&["no records are attached", "--attach"]);

    let attached = path("attached.html");
    report(&["last", "--html", "--attach", "-o", &attached]).check_done();
    let records = path("records.jsonl");
    report(&["extract", &attached, "-o", &records]).check_done();
    let exported = linerate(&bench, &["records", "export", "--json", "--store", &store]);
    assert_eq!(fs::read_to_string(&records).unwrap(), exported.check_done().stdout);
    // Where the store is not: a reader's machine.
    let elsewhere = path("none.sqlite");
    let alone = linerate(&bench, &["report", "verify", &attached, "--store", &elsewhere]);
    assert!(alone.check_done().stdout.contains("figures and all text"), "{}", alone.stdout);

    // From the store the same pseudonyms are drawn again.
    let hidden = path("hidden.html");
    report(&["last", "--html", "--anonymous", "-o", &hidden]).check_done();
    let said = report(&["verify", &hidden]);
    assert!(said.check_done().stdout.contains("all text are as the 3 records give them"), "{}", said.stdout);

    let text = fs::read_to_string(&attached).unwrap();
    let forged = path("forged.html");
    fs::write(&forged, text.replacen("\">60.0", "\">61.0", 1)).unwrap();
    let said = report(&["verify", &forged]);
    assert_eq!(said.status.code(), Some(1), "{}", said.stderr);
    assert!(said.stdout.starts_with("It differs: figure "), "{}", said.stdout);

    // A record of which one octet is another is noticed, also where it means the same.
    let respaced = path("respaced.html");
    fs::write(&respaced, with_attached(&text, |lines| lines.replacen("{\"", "{\t\"", 1))).unwrap();
    let said = report(&["verify", &respaced]);
    assert_eq!(said.status.code(), Some(1), "{}", said.stderr);
    assert!(said.stdout.contains("its SHA-256 is another"), "{}", said.stdout);
    report(&["--from", &respaced, "--text"])
        .check_sentence(&["its SHA-256 is another", "get the report as it was made"]);

    // Little that is packed may be much: it ends at the first line that is no record.
    let bomb = path("bomb.html");
    fs::write(&bomb, with_attached(&text, |_| "{\"a\":1}\n".repeat(1 << 20))).unwrap();
    report(&["extract", &bomb]).check_sentence(&["line 1 of the attached records is no record"]);

    // The same again is the same, and every form is there.
    let again = path("again.html");
    report(&["last", "--html", "--attach", "-o", &again]).check_done();
    assert_eq!(fs::read_to_string(&again).unwrap(), text);
    let markdown = report(&["last", "--markdown"]);
    assert!(markdown.check_done().stdout.starts_with("# udp-sweep: "), "{}", markdown.stdout);
    let first = markdown.stdout.lines().find(|line| line.starts_with("- ")).unwrap();
    assert!(first.starts_with("- Not as expected: throughput > 70M with rate=60M"), "{first}");
    assert!(markdown.stdout.contains("Of 4 expectations 3 are met, 1 is not."), "{}", markdown.stdout);
    let plain = report(&["last", "--ascii"]);
    assert!(plain.check_done().stdout.lines().all(|line| line.len() <= 74 && line.is_ascii()), "{}", plain.stdout);
    for wrong in [path("nothing.html"), records] {
        report(&["verify", &wrong]).check_sentence(&[]);
    }

    let other = path("report.pdf");
    report(&["last", "-o", &other]).check_sentence(&["report.pdf", "FILE.html, FILE.md or FILE.txt"]);
    assert!(!fs::exists(&other).unwrap(), "{other}");
    report(&["last", "--text", "-o", &other]).check_done();

    // A device or a pipe is not replaced by a file, and what cannot be written is known before anything is measured.
    let pipe = path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    report(&["last", "--html", "-o", &pipe]).check_sentence(&["no regular file"]);
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    let nowhere = path("nowhere/report.html");
    let before = bench.records().len();
    bench.run("tcp", &["--report", &nowhere], LONG).check_sentence(&["cannot be written"]);
    assert_eq!(bench.records().len(), before);
    assert_eq!(report(&["last", "--markdown", "-o", "-"]).check_done().stdout, markdown.stdout);

    let opened = |javascript: bool, file: &str| {
        let browser = Browser::start("a report in a browser", &bench.folder.0, javascript)?;
        Some(browser.open(file.as_ref()))
    };
    let Some(shown) = opened(true, &attached) else { return };
    assert_eq!((&shown.requests[..], &shown.console[..]), (&[][..], &[][..]), "{shown:#?}");
    assert!(shown.elements < 20_000 && text.len() < 400_000, "{} elements, {} octets", shown.elements, text.len());
    assert!(shown.text.contains("Offered load and what arrived"), "{}", shown.text);
    let without = opened(false, &attached).unwrap();
    assert_eq!(without.text, shown.text);
    // What Jenkins leaves of it: no style sheet.
    let bare = path("bare.html");
    let (before, after) = text.split_once("<style>").unwrap();
    fs::write(&bare, format!("{before}{}", after.split_once("</style>").unwrap().1)).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(&opened(false, &bare).unwrap().text), words(&shown.text));
}

/// As by a bad sector, or by a newer version.
#[test]
fn a_record_that_cannot_be_read_is_named_and_the_others_are_told() {
    let bench = Bench::bare("report-damaged");
    let mut records: Vec<_> = (0..3).map(|at| sample::udp(at, Direction::Rx, 100 + 100 * at, 150.0)).collect();
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    keep(&mut Store::open(&bench.store_path()).unwrap(), 1, &mut records);
    let store = bench.store_path().display().to_string();
    let report = |more: &[&str]| linerate(&bench, &[&["report", "--store", store.as_str()], more].concat());
    let damage = |id: &str| {
        let statement = format!("UPDATE records SET packed = x'00' WHERE id = '{id}'");
        rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(&statement).unwrap();
    };
    let writable = "DROP TRIGGER records_are_never_changed";
    rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(writable).unwrap();
    damage(&records[1].id);

    let said = format!("the record {} cannot be read", records[1].id);
    let told = report(&["last"]);
    assert_eq!(told.status.code(), Some(2), "{}", told.stderr);
    assert!(told.stderr.contains(&format!("left out: {said}")), "{}", told.stderr);
    for part in ["One more record was picked", "Records that are left out", "99.9", &records[1].id] {
        assert!(told.stdout.contains(part), "{part}: {}", told.stdout);
    }
    // What is attached, and what is in the store, is enough to recompute all that is told.
    for (more, name) in [(&["--attach"][..], "attached"), (&[], "bare"), (&["--anonymous", "--attach"], "hidden")] {
        let file = bench.folder.path(name);
        let made = report(&[&["last", "--html", "-o", &file], more].concat());
        assert_eq!(made.status.code(), Some(2), "{name}: {}", made.stderr);
        let verified = report(&["verify", &file]);
        assert!(
            verified.check_done().stdout.contains("all text are as the 2 records give them"),
            "{}",
            verified.stdout
        );
        let html = fs::read_to_string(&file).unwrap();
        // Words of a record that nobody could read may be a name.
        assert_eq!(html.contains(&said), name != "hidden", "{name}");
    }
    let notes = bench.folder.path("notes.md");
    fs::write(&notes, "Is it so?\n").unwrap();
    let again = report(&["--from", &bench.folder.path("attached"), "--notes", &notes]);
    assert!(again.check_done().stdout.contains("Records that are left out"), "{}", again.stdout);

    let [first, last] = [&records[0], &records[2]].map(|record| record.id.as_str());
    let sides = ["--baseline", first, "--candidate", last];
    report(&sides).check_done();
    damage(last);
    report(&sides).check_sentence(&[last, "cannot be read"]);
    report(&["verify", &bench.folder.path("bare")]).check_sentence(&["the store has not all of them"]);
}

/// As by a bad sector, or by a newer version.
#[test]
fn what_is_made_of_many_records_names_those_that_cannot_be_read() {
    let bench = Bench::bare("damaged");
    let sizes = [64, 256, 1024, 128, 512];
    let mut records: Vec<_> = (0..).zip(sizes).map(|(at, size)| sender_of(at, size)).collect();
    fs::create_dir_all(bench.store_path().parent().unwrap()).unwrap();
    keep(&mut Store::open(&bench.store_path()).unwrap(), 1, &mut records);
    let bad = &records[1].id;
    let change =
        format!("DROP TRIGGER records_are_never_changed; UPDATE records SET packed = x'00' WHERE id = '{bad}'");
    rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(&change).unwrap();
    let others = |form: &str| linerate(&bench, &["records", "export", form]).stdout.lines().count();
    assert_eq!(others("--json"), 4);
    let other = bench.folder.path("other.sqlite");
    for (command, told) in [
        (&["cost", "last"][..], "1,024"),
        (&["cost", "--csv"], "1024"),
        (&["predict", "last", "--set", "message_size=1400"], "Mbit/s"),
        (&["predict", "last", "last:direction=tx", "--check", "last"], "Mbit/s"),
        (&["report"], "Mbit/s"),
        (&["records", "export", "--csv"], "id,started_at"),
        (&["records", "push", &other], "4 records copied"),
    ] {
        let ran = linerate(&bench, command);
        assert_eq!(ran.status.code(), Some(2), "{command:?}: {}", ran.stderr);
        let left_out = ran.stderr.lines().filter(|line| line.starts_with("linerate: left out: ")).count();
        assert_eq!(left_out, 1, "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("left out: the record {bad} cannot be read")), "{}", ran.stderr);
        assert!(ran.stdout.contains(told), "{command:?}: {}", ran.stdout);
    }
    for command in ["cost", "predict"] {
        linerate(&bench, &[command, bad]).check_sentence(&[bad, "cannot be read"]);
    }
}

/// A stream of a sender to whom a datagram costs 2 µs, and an octet 1 ns.
fn sender_of(index: u32, size: u64) -> Record {
    let mut record = sample::udp(index, Direction::Tx, 100, 100.0);
    record.asked.insert("rate".to_owned(), "unlimited".to_owned());
    record.asked.insert("message_size".to_owned(), size.to_string());
    record.target.environment.nic.as_mut().unwrap().speed_mbps = Some(10_000);
    let figures = record.result.as_mut().unwrap();
    let us = 2.0 + 0.001 * size as f64;
    let bps = size as f64 * 8e6 / us;
    let flow = &mut figures.flow;
    (flow.throughput_bps, flow.achieved_load_bps, flow.loss_ratio) = (Some(bps), Some(bps), Some(0.0));
    let demand = figures.service_demand.as_mut().unwrap();
    (demand.target_us_per_packet, demand.target_us_per_kib) = (Some(us), Some(us * 1024.0 / size as f64));
    record
}
