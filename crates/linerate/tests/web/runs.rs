//! Campaigns that are started from a page: carried out, watched, stopped, queued, ended with the server.

use std::time::Duration;

use linerate_results::select::Filter;
use linerate_results::store::{Campaign, Store};
use serde_json::Value;

use crate::machines::{Bench, Running};
use crate::server::{LONG, Server};

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A server that may run plans between the two machines.
fn started(bench: &Bench, more: &[&str]) -> (Server, String) {
    let (target, host) = (bench.target(), bench.host());
    let words = ["--machine", target.as_str(), "--machine", &host, "--allow-run"];
    let server = Server::start(bench, &[&words[..], more].concat());
    let ends = format!("target={}&host={}", encoded(&target), encoded(&host));
    (server, ends)
}

#[test]
fn a_campaign_runs_and_is_watched() {
    let Some(bench) = Bench::new("web-run") else { return };
    let (server, ends) = started(&bench, &[]);
    let sets = encoded("rate=20M,40M\nduration=1500ms\ndirection=rx");
    let begun = server.post("/runs", &format!("plan=udp-stream&{ends}&set={sets}"));
    assert_eq!(begun.check(303, &[]).field("location"), Some("/run/1"));
    // One more waits, and is taken out.
    server.post("/runs", &format!("plan=tcp&{ends}")).check(303, &[]);
    server.get("/runs").check(200, &["waits", "127.0.0.1"]);
    server.post("/run/2/stop", "").check(303, &[]);
    let (mut versions, mut seen) = (Vec::new(), String::new());
    bench.wait_until("the campaign's end", LONG, || {
        let told = server.get(&format!("/run/1/live?v={}", versions.last().cloned().unwrap_or_default()));
        if told.status == 200 {
            versions.push(told.field("x-version").expect("a version").to_owned());
            seen += &told.body;
        }
        std::thread::sleep(Duration::from_millis(100));
        told.field("x-over").is_some()
    });
    for part in [
        "Trial 1 of 2: ",
        "Trial 2 of 2: ",
        "What passes in this trial",
        " left for all trials",
        "The trial that ended last",
        "Trial 1 ended: ",
        "How well each configuration is known",
        "It is done: all trials were measured.",
        "linerate explain ",
        "action=\"/run/1/stop\"",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(versions.len() > 5, "{versions:?}");
    assert_eq!(server.get(&format!("/run/1/live?v={}", versions.last().unwrap())).status, 204);
    let over = server.get("/run/1/live");
    assert!(!over.check(200, &["is done"]).body.contains("/run/1/stop"), "{}", over.body);
    let store = Store::open(&bench.store_path()).unwrap();
    let campaign = store.latest_campaign().unwrap().unwrap();
    assert!(campaign.finished_at.is_some() && bench.finished() == 2);
    server.get("/run/1").check(200, &[&format!("/campaign/{}", campaign.id), "is done"]);
    server.get(&format!("/campaign/{}", campaign.id)).check(200, &["/run/1", "Measured by", "--set rate=20M,40M"]);
    server.get("/run/2").check(200, &["was taken out of the queue"]);
    // Lists show the beginning of an identifier, and commands take it.
    let short = server.get(&format!("/campaign/{}?form=csv", campaign.id[..12].to_lowercase()));
    // The head is read in small letters here.
    let whole = format!("/campaign/{}?form=csv", campaign.id.to_lowercase());
    assert_eq!(short.check(303, &[]).field("location"), Some(whole.as_str()));
    let record = store.identifiers(&Filter::default()).unwrap().remove(0);
    let short = server.get(&format!("/record/{}/explain", &record[..20]));
    assert_eq!(
        short.check(303, &[]).field("location"),
        Some(format!("/record/{}/explain", record.to_lowercase()).as_str())
    );
    server.get("/record/7ZZ").check(404, &["the store has no campaign, record or plan '7ZZ'"]);
    // So does what else commands take; the address it leads to means the same tomorrow.
    let leads_to = |from: &str, to: String| {
        assert_eq!(server.get(from).check(303, &[]).field("location"), Some(to.to_lowercase().as_str()), "{from}");
    };
    for word in ["last", "udp-stream"] {
        leads_to(&format!("/campaign/{word}?form=csv"), format!("/campaign/{}?form=csv", campaign.id));
    }
    leads_to("/record/last:rate=20M/explain", format!("/record/{record}/explain"));
    server.get("/campaign/last~1").check(404, &["there is no last~1: there is 1 campaign"]);
    bench.check_quiet();
}

/// A server without machines but this one, and a folder of plans.
fn bare(bench: &Bench, more: &[&str], environment: &[(&str, &str)]) -> Server {
    let plans = bench.folder.0.join("plans");
    std::fs::create_dir_all(&plans).unwrap();
    let plans = plans.display().to_string();
    let words = ["web", "--listen", "127.0.0.1:0", "--machine", "local", "--allow-run", "--plans", &plans];
    let mut command = bench.linerate(&[&words[..], more].concat());
    command.envs(environment.iter().copied());
    Server::of(bench, command)
}

fn wait_for_end(bench: &Bench, server: &Server, run: &str) {
    bench.wait_until("the campaign's end", LONG, || server.get(&format!("{run}/live")).field("x-over").is_some());
}

/// A plan that a machine alone carries out in no time: both its ends are here.
const SHORT: &str =
    "format = 'linerate.plan/1'\nname = 'mine'\nworkload = 'tcp-rr'\n[options]\nduration = '100ms'\nwarmup = '0s'\n";

#[test]
fn machines_that_nobody_asked_for_are_named_machines_too() {
    let bench = Bench::bare("web-usual");
    let ran_it = bench.folder.path("ran");
    let program = format!("exec:touch {ran_it}");
    let mine = bench.folder.path("plans/mine.toml");
    let form = format!("plan={}&target=local", encoded(&mine));
    for key in ["LINERATE_HOST", "LINERATE_MIDDLE"] {
        let server = bare(&bench, &[], &[(key, &program)]);
        std::fs::write(&mine, SHORT).unwrap();
        server.post("/runs", &form).check(403, &["--allow-commands"]);
        server.get("/runs").check(200, &["Nothing was started here"]);
    }
    // Nor does a file beside the plan say where it is measured.
    let beside = bench.folder.path("plans/linerate.toml");
    std::fs::write(beside, "host = 'netns:nowhere'\nmiddle = 'netns:nowhere'\npsk_file = 'nowhere'\n").unwrap();
    let server = bare(&bench, &[], &[("LINERATE_TARGET", &program)]);
    assert!(!server.get("/plans").check(200, &["mine.toml"]).body.contains("linerate.toml</a>"));
    server.post("/runs", &form).check(303, &[]);
    wait_for_end(&bench, &server, "/run/1");
    let told = server.get("/run/1");
    assert!(
        !told.check(200, &["--store=", "--no-defaults --target=local --host=local"]).body.contains("nowhere"),
        "{}",
        told.body
    );
    assert!(!std::path::Path::new(&ran_it).exists(), "a program has run");
}

#[test]
fn a_plan_that_was_edited_in_the_queue_is_not_carried_out() {
    let bench = Bench::bare("web-edited");
    let slow = "exec:sleep 60";
    let server = bare(&bench, &["--machine", slow, "--allow-commands"], &[]);
    let mine = bench.folder.path("plans/mine.toml");
    std::fs::write(&mine, SHORT).unwrap();
    server.post("/runs", &format!("plan=tcp&target={}", encoded(slow))).check(303, &[]);
    server.post("/runs", &format!("plan={}&target=local", encoded(&mine))).check(303, &[]);
    server.get("/run/2").check(200, &["It waits", "--plan-sha256="]);
    std::fs::write(&mine, format!("{SHORT}target.mtu = 1400\n")).unwrap();
    server.post("/run/1/stop", "").check(303, &[]);
    wait_for_end(&bench, &server, "/run/2");
    server.get("/run/2").check(200, &["was changed since it was checked; look at it, and start it again"]);
}

#[test]
fn the_campaign_that_was_looked_at_is_carried_on() {
    let bench = Bench::bare("web-resume");
    let server = bare(&bench, &[], &[]);
    std::fs::write(bench.folder.path("plans/mine.toml"), SHORT).unwrap();
    let id = |number: u32| format!("{number:026}");
    let mut store = Store::open(&bench.store_path()).unwrap();
    // The newer one changes a setting, which nobody has allowed here.
    for (number, sets) in [(1, serde_json::json!([])), (2, serde_json::json!([["target.mtu", "1400"]]))] {
        let text = serde_json::json!({"name": "mine", "source": SHORT, "overrides": sets, "repeat": null});
        let campaign = Campaign {
            id: id(number),
            plan: "mine".to_owned(),
            plan_text: text.to_string(),
            target: "local".to_owned(),
            host: "local".to_owned(),
            started_at: "2026-11-21T03:00:00Z".to_owned(),
            planned: 1,
            finished_at: None,
        };
        store.campaign_begin(&campaign).unwrap();
    }
    let resume = |number: u32| server.post(&format!("/campaign/{}/resume", id(number)), "");
    server.get(&format!("/campaign/{}", id(1))).check(200, &["Resume"]);
    resume(2).check(403, &["--allow-settings", "target.mtu"]);
    resume(3).check(404, &[]);
    resume(1).check(303, &[]);
    wait_for_end(&bench, &server, "/run/1");
    server.get("/run/1").check(200, &[&format!("--resume={}", id(1)), &format!("/campaign/{}", id(1))]);
    assert!(!store.records_of(&id(1)).unwrap().0.is_empty() && store.records_of(&id(2)).unwrap().0.is_empty());
    // A page that is older than the campaign's end has the button still.
    store.campaign_finish(&id(1), "2026-11-21T04:00:00Z").unwrap();
    resume(1).check(409, &["is finished"]);
}

#[test]
fn a_campaign_that_is_stopped_puts_settings_back() {
    let Some(bench) = Bench::new("web-stop") else { return };
    let (server, ends) = started(&bench, &["--allow-settings"]);
    let mtu = || {
        let target = bench.target();
        let words = ["target", target.as_str(), "get", "mtu", "--json"];
        let ran = Running::start(bench.linerate(&words)).wait(LONG);
        ran.check_done().json()[0]["settings"]["mtu"].clone()
    };
    let before = mtu();
    let sets = encoded("target.mtu=1400\nduration=30s\nrate=10M\nmessage_size=1000");
    let form = format!("plan=udp-stream&{ends}&set={sets}");
    for end in ["stop", "server"] {
        let number = server.post("/runs", &form).check(303, &[]).field("location").unwrap().to_owned();
        bench.wait_for_traffic(bench.packets() + 50);
        assert_eq!(mtu(), Value::from("1400"));
        if end == "server" {
            break;
        }
        server.post(&format!("{number}/stop"), "").check(303, &[]);
        bench
            .wait_until("the campaign's end", LONG, || server.get(&format!("{number}/live")).field("x-over").is_some());
        server.get(&number).check(200, &["ended: interrupted"]);
        assert_eq!(mtu(), before);
    }
    server.running.signal("INT");
    let ran = server.running.wait(LONG);
    assert!(ran.status.success() && ran.stderr.contains("its settings are put back first"), "{}", ran.stderr);
    assert_eq!(mtu(), before);
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn a_plan_that_is_posted_is_tried_out_and_carried_out() {
    let Some(bench) = Bench::new("web-posted") else { return };
    let (server, ends) = started(&bench, &["--allow-commands"]);
    let text = "format = 'linerate.plan/1'\r\nname = 'mine'\r\nworkload = 'udp-stream'\r\n[options]\r\nduration = '300ms'\r\n\
                warmup = '0s'\r\n[factors]\r\nrate = ['10M', '20M']\r\n";
    let form = |text: &str, set: &str| format!("text={}&{ends}&set={}", encoded(text), encoded(set));
    let tried = server.post("/plans/try", &form(text, "direction=rx"));
    tried.check(200, &["Its trials", "10M", "20M", "No machine was asked", "name = 'mine'", "direction=rx"]);
    // What is wrong stands above the text, which is kept.
    let wrong = text.replace("rate = ", "rat = ");
    server.post("/plans/try", &form(&wrong, "")).check(400, &["plan:8:1", "rat", "name = 'mine'"]);
    server.post("/plans/try", &form("", "")).check(400, &["Write its text"]);
    server.post("/runs", &form(&wrong, "")).check(400, &["plan:8:1"]);
    server.post("/runs", &form("</textarea><script>alert(1)</script>", "")).check(400, &[]);
    let begun = server.post("/runs", &form(text, "direction=rx"));
    assert_eq!(begun.check(303, &[]).field("location"), Some("/run/1"));
    bench.wait_until("the campaign's end", LONG, || server.get("/run/1/live").field("x-over").is_some());
    server.get("/run/1").check(200, &["is done", "Campaign of mine"]);
    let campaign = Store::open(&bench.store_path()).unwrap().latest_campaign().unwrap().unwrap();
    assert_eq!((campaign.plan.as_str(), campaign.planned, bench.finished()), ("mine", 2, 2));
    // One that changes settings needs to be allowed that, too.
    let sets = text.replace("rate = ", "target.mtu = [1400]\r\nrate = ");
    server.post("/runs", &form(&sets, "")).check(403, &["--allow-settings", "target.mtu"]);
    // Stopped, it is carried on by its text.
    server.post("/runs", &form(&text.replace("300ms", "20s"), "")).check(303, &[]);
    bench.wait_for_traffic(bench.packets() + 50);
    server.post("/run/2/stop", "").check(303, &[]);
    bench.wait_until("the campaign's end", LONG, || server.get("/run/2/live").field("x-over").is_some());
    let campaign = Store::open(&bench.store_path()).unwrap().latest_campaign().unwrap().unwrap();
    let resumed = server.post(&format!("/campaign/{}/resume", campaign.id), "");
    assert_eq!(resumed.check(303, &[]).field("location"), Some("/run/3"));
    bench.wait_for_traffic(bench.packets() + 50);
    server.get("/run/3").check(200, &["Campaign of mine", "--resume"]);
    server.post("/run/3/stop", "").check(303, &[]);
    bench.wait_until("the campaign's end", LONG, || server.get("/run/3/live").field("x-over").is_some());
}

#[test]
fn settings_by_hand_and_machines() {
    let Some(bench) = Bench::new("web-machines") else { return };
    let (server, ends) = started(&bench, &["--allow-settings"]);
    let page = format!("/machine/{}", encoded(&bench.target()).replace('+', "%20"));
    server.get("/machines?reach=yes").check(200, &["reached", "nobody"]);
    server.get(&page).check(200, &["Nobody measures there", "mtu"]);
    server.get(&format!("{page}/counters")).check(200, &["driver RX ring", "Since the machine started"]);
    server.get(&format!("{page}/counters/live")).check(200, &["data-part"]);
    server.get(&format!("{page}/registers")).check(200, &[]);
    server.post(&format!("{page}/set"), "set=mtu%3D1300").check(200, &["1300"]);
    server.get(&format!("{page}/settings")).check(200, &["1300", "restore puts that back"]);
    server.post(&format!("{page}/restore"), "").check(200, &["mtu"]);
    server.post(&format!("{page}/set"), "set=mtx%3D1300").check(502, &["mtx"]);
    // While somebody measures nothing is read there.
    let sets = encoded("duration=20s\nrate=10M");
    server.post("/runs", &format!("plan=udp-stream&{ends}&set={sets}")).check(303, &[]);
    bench.wait_for_traffic(bench.packets() + 50);
    for part in ["counters", "counters/live", "settings", "registers"] {
        server.get(&format!("{page}/{part}")).check(409, &["measures there"]);
    }
    server.get(&page).check(200, &["measures there", "linerate, process"]);
    server.get("/machines?reach=yes").check(200, &["linerate, process"]);
    server.post("/run/1/stop", "").check(303, &[]);
}
