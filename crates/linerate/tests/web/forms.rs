//! Every page in every form: the same as the commands print, whole, and nothing a record says is obeyed.

use linerate_machine::end::Direction;
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_results::store::Store;
use serde_json::Value;

use crate::machines::{Bench, Running};
use crate::server::{LONG, Server, keep_examples, pages};

fn printed(bench: &Bench, arguments: &[&str]) -> String {
    Running::start(bench.linerate(arguments)).wait(LONG).check_done().stdout.clone()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_page_in_its_forms_is_what_the_command_prints() {
    let bench = Bench::bare("web-forms");
    let records = keep_examples(&bench);
    let server = Server::start(&bench, &[]);
    let id = &records[3].id;
    let check = |path: &str, arguments: &[&str]| {
        let (told, printed) = (server.get(path), printed(&bench, arguments));
        assert_eq!(sorted(&told.check(200, &[]).body), sorted(&printed), "{path}");
    };
    check("/records?form=csv&limit=1000", &["records", "export", "--csv"]);
    check("/records?form=json&limit=1000", &["records", "export", "--json"]);
    check(
        "/records?q=last&workload=udp-stream&form=csv&limit=4",
        &["records", "list", "last", "--workload", "udp-stream", "--limit", "4", "--csv"],
    );
    check(&format!("/record/{id}?form=json"), &["records", "show", id, "--json"]);
    check(&format!("/record/{id}/explain?form=json"), &["explain", id, "--json"]);
    check(&format!("/record/{}?form=json", id.to_lowercase()), &["records", "show", id, "--json"]);
    check("/campaigns?form=json", &["records", "campaigns", "--json"]);
    let sides = "/compare?baseline=last~1&candidate=last";
    check(&format!("{sides}&form=json"), &["compare", "last~1", "last", "--json"]);
    check(&format!("{sides}&metric=loss&form=csv"), &["compare", "last~1", "last", "--metric", "loss", "--csv"]);
    let history = "/history?metric=throughput&records=%3Aplan%3Dexample";
    check(&format!("{history}&form=json"), &["history", "throughput", ":plan=example", "--json"]);
    check(&format!("{history}&form=csv"), &["history", "throughput", ":plan=example", "--csv"]);
    check(
        "/report?records=last~1&candidate=last",
        &["report", "--baseline", "last~1", "--candidate", "last", "--html"],
    );
    let report = server.get("/report?records=last");
    assert!(
        report.field("content-security-policy").unwrap().starts_with("sandbox; default-src 'none'"),
        "{}",
        report.head
    );
    // The page itself has the words of the command.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let page = server.get(&format!("/record/{id}/explain?form=text")).body.clone();
    let command = printed(&bench, &["explain", id]);
    for line in command.lines().filter(|line| !line.trim().is_empty()).take(4) {
        assert!(words(&page).windows(words(line).len()).any(|some| some == words(line)), "{line}: {page}");
    }
}

#[test]
fn tables_and_pictures_can_be_had_by_themselves() {
    let bench = Bench::bare("web-parts");
    keep_examples(&bench);
    let server = Server::start(&bench, &["--machine", "local"]);
    let (mut tables, mut figures) = (0, 0);
    for page in pages() {
        let whole = server.get(&page);
        // The page is what a strict reader takes, but for what HTML leaves open.
        assert_eq!(whole.body.matches("<main").count(), 1, "{page}");
        let links = whole.body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| link.contains("form=")).map(|link| link.replace("&amp;", "&")) {
            let told = server.get(&link);
            told.check(if page == "/nowhere" { 404 } else { 200 }, &[]);
            let kind = told.field("content-type").unwrap().to_owned();
            match link.rsplit("form=").next().unwrap() {
                "json" if kind == "application/json" => {
                    let value: Value =
                        serde_json::from_str(&told.body).unwrap_or_else(|error| panic!("{link}: {error}"));
                    tables += usize::from(value.is_array());
                }
                "svg" => {
                    roxmltree::Document::parse(&told.body).unwrap_or_else(|error| panic!("{link}: {error}"));
                    figures += 1;
                }
                "csv" => {
                    assert!(kind.starts_with("text/csv") && told.body.lines().count() > 1, "{link}: {}", told.body)
                }
                _ => assert!(!told.body.trim().is_empty(), "{link}"),
            }
        }
    }
    assert!(tables > 40 && figures > 8, "{tables} tables, {figures} figures");
    server.get("/records?form=csv&table=9").check(404, &["no such part"]);
    server.get("/records?form=svg&figure=1").check(404, &["no such part"]);
    server.get("/records?form=odd").check(404, &["no such part"]);
}

#[test]
fn records_are_filtered_sorted_and_paged() {
    let bench = Bench::bare("web-list");
    let records = keep_examples(&bench);
    let server = Server::start(&bench, &[]);
    let ids = |query: &str| -> Vec<String> {
        let told = server.get(&format!("/records?form=json&{query}")).check(200, &[]).body.clone();
        told.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut newest: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    newest.reverse();
    assert_eq!(ids("limit=1000"), newest);
    assert_eq!([ids("limit=7"), ids("limit=7&page=1")].concat(), newest[..14]);
    assert_eq!(ids("limit=1000&sort=time&order=up").first().map(String::as_str), newest.last().copied());
    let value = |id: &String| {
        let record = records.iter().find(|record| record.id == *id).unwrap();
        record.result.as_ref().and_then(|figures| figures.flow.throughput_bps)
    };
    for (order, is_down) in [("down", true), ("up", false)] {
        let all: Vec<Option<f64>> =
            ids(&format!("limit=1000&sort=throughput&order={order}")).iter().map(value).collect();
        let known: Vec<f64> = all.iter().copied().flatten().collect();
        assert!(
            known.len() > 20 && known.windows(2).all(|two| two[0] == two[1] || (two[0] > two[1]) == is_down),
            "{known:?}"
        );
        assert!(all[known.len()..].iter().all(Option::is_none), "what has no figure comes last: {all:?}");
    }
    for (query, sentence) in [
        ("q=nothing", "no campaign, record or plan"),
        ("q=last:x%3D1", "none has a x"),
        ("workload=udp", "there is no workload"),
        ("limit=many", "limit is a number"),
        ("limit=100000", "limit is a number"),
        ("sort=weight", "sorted by"),
        ("since=yesterday", "is not a time"),
    ] {
        server.get(&format!("/records?{query}")).check(400, &[sentence]);
        server.get(&format!("/records?{query}&form=csv")).check(400, &[sentence]);
    }
    server.get("/record/00000000000000000000000000").check(404, &["no record"]);
    server.get("/campaign/%3Cb%3E").check(404, &["&lt;b&gt;"]);
}

/// What a machine, a plan or a tool may be called by whoever means harm.
const HOSTILE: &str = "</script><script>alert(1)</script>\"><svg onload=alert(1)> ' {{7*7}} \u{202e}|`\u{2028}";

#[test]
fn what_a_record_says_is_text() {
    let bench = Bench::bare("web-hostile");
    keep_examples(&bench);
    let mut store = Store::open(&bench.store_path()).unwrap();
    let mut record = sample::udp(0, Direction::Rx, 600, 400.0);
    record.id = format!("{:026}", 7);
    record.plan = HOSTILE.to_owned();
    record.target.endpoint = HOSTILE.to_owned();
    record.target.environment.kernel = Some(HOSTILE.to_owned());
    record.target.environment.command_line = Some(HOSTILE.to_owned());
    record.trial.factors.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    record.error = None;
    let failed = Record { id: format!("{:026}", 8), error: Some(HOSTILE.to_owned()), result: None, ..record.clone() };
    store.insert(&record).unwrap();
    store.insert(&failed).unwrap();
    let server = Server::start(&bench, &[]);
    for page in [
        "/records?limit=1000",
        "/record/00000000000000000000000007",
        "/record/00000000000000000000000007?all=yes",
        "/record/00000000000000000000000007/explain",
        "/record/00000000000000000000000008",
        "/compare?baseline=00000000000000000000000007&candidate=00000000000000000000000001",
        &format!("/plan/udp-sweep?set={}", form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>()),
        &format!("/records?q={}", form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>()),
        &format!(
            "/plan/{}",
            form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect::<String>().replace('+', "%20")
        ),
    ] {
        let told = server.get(page);
        for part in ["<script>", "<svg onload", "onload=alert(1)>", "\u{202e}", "\u{2028}"] {
            assert!(!told.body.contains(part), "{page}: {part}");
        }
        // A comparison of one record has nothing to show.
        assert!(told.body.contains("alert(1)") || told.status == 400, "{page} does not show it: {}", told.status);
    }
}

/// As by a bad sector, or by a newer version.
#[test]
fn a_record_that_cannot_be_read_hides_none_of_the_others() {
    let bench = Bench::bare("web-damaged");
    let records = keep_examples(&bench);
    let bad = &records.last().unwrap().id;
    let change = |statements: &str| rusqlite::Connection::open(bench.store_path()).unwrap().execute_batch(statements);
    change(&format!("DROP TRIGGER records_are_never_changed; UPDATE records SET packed = x'00' WHERE id = '{bad}'"))
        .unwrap();
    let server = Server::start(&bench, &["--machine", "local"]);
    let campaign = &records.last().unwrap().campaign;
    let said = format!("the record {bad} cannot be read");
    server
        .get(&format!("/campaign/{campaign}"))
        .check(200, &["Mbit/s", "Left out: ", &said, "a newer linerate may read it"]);
    server.get("/report?records=last").check(200, &["Records that are left out", &said]);
    server.get(&format!("/record/{bad}")).check(500, &[&said]);
    let others = records.len() - 1;
    for (form, lines) in [("json", others), ("csv", others + 1)] {
        let told = server.get(&format!("/records?limit=1000&form={form}"));
        assert_eq!(told.check(200, &[]).body.lines().count(), lines, "{form}");
        assert_eq!(told.field("linerate-left-out"), Some("1"), "{form}");
    }
    assert_eq!(server.get(&format!("/report?records={bad}")).status, 500);
    // What is asked and cannot be is nobody's fault but the asker's.
    server.get("/records?q=nothing").check(400, &["no campaign, record or plan"]);
    // Whoever scrapes reads no page, nor is a store of another version his fault.
    change("PRAGMA user_version = 999").unwrap();
    let told = server.get("/metrics");
    assert!(
        told.check(500, &["has layout 999"]).field("content-type").unwrap().starts_with("text/plain"),
        "{}",
        told.head
    );
    server.get("/records").check(500, &["has layout 999"]);
}

/// Whoever asks first for a history would wait for it.
#[test]
fn a_server_looks_over_its_store_before_anybody_asks() {
    let bench = Bench::bare("web-checked");
    keep_examples(&bench);
    let store = rusqlite::Connection::open(bench.store_path()).unwrap();
    store.busy_timeout(LONG).unwrap();
    store.execute_batch("UPDATE figures SET doubts = 'forged'").unwrap();
    let forged = "SELECT count(*) FROM figures WHERE doubts = 'forged'";
    let _server = Server::start(&bench, &[]);
    bench.wait_until("rows that do not fit their records are made anew", LONG, || {
        store.query_row(forged, [], |row| row.get(0)) == Ok(0)
    });
}

#[test]
fn what_is_asked_first_is_in_sight_first_and_long_pages_have_an_end() {
    let bench = Bench::bare("web-in-sight");
    keep_examples(&bench);
    let server = Server::start(&bench, &[]);
    for (page, table, first) in [
        ("/records?", 1, "record,campaign,Mbit/s,lost %,transactions 1/s,"),
        ("/compare?baseline=last~1&candidate=last&", 1, "configuration,metric,verdict,unit,"),
    ] {
        let told = server.get(&format!("{page}table={table}&form=csv"));
        assert!(
            told.check(200, &[]).body.starts_with(first),
            "{page}: {}",
            told.body.lines().next().unwrap_or_default()
        );
    }
    let matrix = "/plan/udp-stream/matrix?repeat=2500";
    let page = server.get(matrix);
    page.check(200, &["These are the first 2000; ", " more are not shown", "All of them"]);
    assert_eq!(page.body.matches("<tr>").count(), 2001, "with the headings");
    let all: Value = serde_json::from_str(&server.get(&format!("{matrix}&form=json")).check(200, &[]).body).unwrap();
    assert!(all["trials"].as_array().unwrap().len() >= 2500);
}
