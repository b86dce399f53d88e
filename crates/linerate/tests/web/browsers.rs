//! The pages in Chromium: who attacks them from elsewhere, who reads them without a mouse, and how soon they show what happens.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machines::audit::{OPEN, audited, axe, check, out_of_reach, violations};
use crate::machines::browser::Browser;
#[cfg(feature = "nats")]
use crate::machines::queue::Queue;
use crate::machines::served::served;
use crate::machines::{Bench, number};
use crate::server::{LONG, Server, keep_examples, pages};

/// The address of a page of another site's.
fn attacker(page: String) -> String {
    format!("http://localhost:{}/", served(page.into_bytes(), ""))
}

fn signed_in(browser: &Browser, server: &Server) {
    browser.open_url(&server.address());
    let deadline = Instant::now() + LONG;
    while browser.run("return document.title") == "Sign in – linerate" {
        assert!(Instant::now() < deadline, "{}", browser.run("return document.body.innerText"));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_token_leaves_the_address_and_no_script_reads_the_cookie() {
    let bench = Bench::bare("web-sign-in");
    keep_examples(&bench);
    let name = "the_token_leaves_the_address_and_no_script_reads_the_cookie";
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let server = Server::start(&bench, &[]);
    let page = browser.open_url(&format!("http://{}/records", server.host()));
    assert!(page.text.contains("Open the whole address") && !page.text.contains("udp-stream"), "{page:#?}");
    signed_in(&browser, &server);
    let told = browser.run("return [location.href, document.cookie, history.length, document.body.innerText]");
    assert_eq!((&told[0], &told[1]), (&format!("http://{}/", server.host()).into(), &"".into()), "{told}");
    assert!(told[3].as_str().unwrap().contains("The latest campaigns"), "{told}");
    // Who is signed in may open the whole address again.
    browser.open_url(&server.address());
    bench.wait_until("the address without the token", LONG, || browser.run("return location.hash") == "");
    // Or follow a link from elsewhere, with which a browser sends no cookie; and again.
    for _ in 0..2 {
        browser.open_url(&attacker(format!("<!DOCTYPE html><a id=link href='http://{}/records'>x</a>", server.host())));
        browser.run("document.getElementById('link').click()");
        bench.wait_until("the page", LONG, || browser.run("return document.title") == "Records – linerate");
    }
    // Who is not signed in any more stays where he is told how to be.
    browser.run("document.querySelector('footer form').submit()");
    bench.wait_until("the end", LONG, || browser.run("return document.title") == "Sign in – linerate");
    browser.open_url(&attacker(format!("<!DOCTYPE html><a id=link href='http://{}/records'>x</a>", server.host())));
    browser.run("document.getElementById('link').click()");
    bench.wait_until("the page", LONG, || browser.run("return document.title") == "Sign in – linerate");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(browser.run("return performance.getEntriesByType('navigation')[0].type"), "navigate");
    // Of another server's token it says so.
    let other = Bench::bare("web-sign-in-other");
    let other = Server::start(&other, &[]);
    browser.open_url(&format!("http://{}/#{}", other.host(), server.token));
    bench.wait_until("the refusal", LONG, || {
        browser.run("return document.body.innerText").as_str().unwrap().contains("not the token of this server")
    });
}

/// What a page of another's can have a browser do; each attack says what came of it.
fn attacks(server: &Server, host: &str) -> String {
    let base = format!("http://{host}:{}", server.port);
    format!(
        r#"<!DOCTYPE html><html lang=en><title>attacks</title><body>
<form id=f method=post action="{base}/runs" target=frame><input name=plan value=tcp><input name=target value=local></form>
<iframe name=frame></iframe><iframe id=page src="{base}/records"></iframe>
<script>
window.told = {{}};
const tell = (name, value) => {{ told[name] = String(value); }};
const asked = (name, promise) => promise.then(async one => tell(name, one.type + ' ' + one.status + ' ' + await one.text()), () => tell(name, 'refused'));
const form = new URLSearchParams({{plan: 'tcp', target: 'local'}});
asked('post', fetch('{base}/runs', {{method: 'POST', body: form, credentials: 'include', mode: 'no-cors'}}));
asked('post with cors', fetch('{base}/runs', {{method: 'POST', body: form, credentials: 'include', headers: {{authorization: 'Bearer x'}}}}));
asked('get', fetch('{base}/records', {{credentials: 'include'}}));
asked('get without cors', fetch('{base}/records', {{credentials: 'include', mode: 'no-cors'}}));
const picture = new Image(); picture.onload = () => tell('picture', 'seen'); picture.onerror = () => tell('picture', 'refused');
picture.src = '{base}/records?form=svg&figure=1';
const script = document.createElement('script'); script.src = '{base}/asset/page.js';
script.onload = () => tell('script', 'seen'); script.onerror = () => tell('script', 'refused'); document.body.append(script);
const source = new EventSource('{base}/run/1/live', {{withCredentials: true}});
source.onmessage = () => tell('events', 'seen'); source.onerror = () => {{ tell('events', 'refused'); source.close(); }};
document.getElementById('f').submit();
navigator.sendBeacon('{base}/runs', form);
</script></body></html>"#
    )
}

#[test]
fn other_sites_pages_get_nothing_and_do_nothing() {
    let bench = Bench::bare("web-attacks");
    keep_examples(&bench);
    let name = "other_sites_pages_get_nothing_and_do_nothing";
    // A name that was made to point here.
    let rule = "--host-resolver-rules=MAP rebound.example 127.0.0.1";
    let Some(browser) = Browser::start_with(name, &bench.folder.0, true, &[rule]) else { return };
    let server = Server::start(&bench, &["--machine", "local", "--allow-run"]);
    signed_in(&browser, &server);
    // The cookie of localhost goes along from any of its ports; sign in under that name too.
    browser.open_url(&format!("http://localhost:{}/#{}", server.port, server.token));
    bench.wait_until("the page", LONG, || browser.run("return document.title") != "Sign in – linerate");
    for host in ["localhost", "127.0.0.1", "rebound.example"] {
        browser.open_url(&attacker(attacks(&server, host)));
        bench.wait_until("the attacks' ends", LONG, || {
            browser.run("return Object.keys(told).length").as_u64() == Some(7)
        });
        let told = browser.run("return told");
        for attack in ["post with cors", "get", "picture", "script", "events"] {
            assert_eq!(told[attack], "refused", "{host}: {attack}: {told:#}");
        }
        // A request without CORS is made, and answered; its page sees nothing of the answer.
        for attack in ["post", "get without cors"] {
            assert!(told[attack] == "refused" || told[attack] == "opaque 0 ", "{host}: {attack}: {told:#}");
        }
        let framed = browser
            .run("try { return document.getElementById('page').contentDocument !== null } catch { return false }");
        assert_eq!(framed, json!(false), "{host}");
    }
    server.get("/runs").check(200, &["Nothing was started here"]);
    // By the rebound name everything is of one origin, and nothing is told.
    let page = browser.open_url(&format!("http://rebound.example:{}/records", server.port));
    assert!(page.text.contains("--name") && !page.text.contains("udp-stream"), "{page:#?}");
    let told = browser.run_to_its_end(
        "fetch('/runs', {method: 'POST', body: new URLSearchParams({plan: 'tcp', target: 'local'})})
             .then(one => arguments[0](one.status), () => arguments[0](0));",
    );
    assert_eq!(told, 421);
    // A link that somebody follows shows the page to him.
    let follow = format!(
        "<!DOCTYPE html><html lang=en><title>link</title><a href='http://localhost:{}/records'>look</a>",
        server.port
    );
    browser.open_url(&attacker(follow));
    browser.run("document.querySelector('a').click()");
    bench.wait_until("the page", LONG, || browser.run("return document.title") == "Records – linerate");
    server.get("/runs").check(200, &["Nothing was started here"]);
}

/// Of a screen, a tablet, a telephone and the narrowest that content must fit (WCAG 2.2, 1.4.10).
const WIDTHS: [u32; 4] = [1280, 800, 400, 320];
/// Those that axe-core judges: one of either style sheet.
const JUDGED: [u32; 2] = [1280, 320];
/// Tables and pictures that scroll and do not say so.
const UNSAID: &str = "return [...document.querySelectorAll('.wide')].filter(one =>
    one.scrollWidth > one.clientWidth + 1 && !one.hasAttribute('data-more')).length";
/// What short cells say that take more than a line.
const BROKEN: &str = "return [...document.querySelectorAll('tbody td:not(.long)')].filter(one => {
    const [lines, texts] = [new Set(), document.createTreeWalker(one, NodeFilter.SHOW_TEXT)];
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        [...range.getClientRects()].forEach(line => lines.add(Math.round(line.top)));
    }
    return lines.size > 1;
}).map(one => one.textContent)";
const FOLD: &str = "document.querySelectorAll('details').forEach(one => { one.open = false; });";

#[test]
fn pages_are_for_everybody() {
    let name = "pages_are_for_everybody";
    let bench = Bench::bare("web-accessibility");
    keep_examples(&bench);
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let axe = axe(name);
    let may = ["--allow-run", "--allow-settings", "--allow-commands"];
    let mut all = vec!["/session".to_owned()];
    all.extend(pages());
    let plans = bench.folder.path("plans");
    fs::create_dir(&plans).unwrap();
    // Links beneath one another, each a line as short as they are.
    ["one", "two", "three"].iter().for_each(|name| fs::write(format!("{plans}/{name}.toml"), "").unwrap());
    let words = [&["--machine", "local", "--plans", "plans"], &may[..]].concat();
    #[cfg(feature = "nats")]
    let queue = Queue::start(name, &bench).map(Queue::with_examples);
    #[cfg(feature = "nats")]
    let words: Vec<String> = {
        let url = queue.iter().map(|queue| format!("--queue={}", queue.nats.url()));
        all.extend(queue.iter().flat_map(|_| crate::teams::pages()));
        words.into_iter().map(str::to_owned).chain(url).collect()
    };
    #[cfg(feature = "nats")]
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = bench.linerate(&[&["web", "--listen", "127.0.0.1:0"], &words[..]].concat());
    command.current_dir(&bench.folder.0);
    let server = Server::of(&bench, command);
    let own = format!("http://{}/", server.host());
    let mut paints = Vec::new();
    for (at, page) in all.iter().enumerate() {
        if at == 1 {
            signed_in(&browser, &server);
        }
        browser.lay_out(WIDTHS[0], "screen", "light");
        let told = browser.open_url(&format!("{own}{}", page.trim_start_matches('/')));
        // A status that is an error is told in the console, and is what was asked for here.
        let console: Vec<&String> =
            told.console.iter().filter(|line| !line.contains("the server responded with a status of 40")).collect();
        assert!(console.is_empty(), "{page}: {console:#?}");
        let foreign: Vec<&String> = told.requests.iter().filter(|url| !url.starts_with(&own)).collect();
        assert!(foreign.is_empty(), "{page}: {foreign:#?}");
        let paint = browser.run("const paint = performance.getEntriesByName('first-contentful-paint')[0]; return paint ? paint.startTime : null");
        paints.extend(paint.as_f64().map(|paint| (paint, page)));
        check(&format!("{page} by keyboard"), &out_of_reach(&browser));
        browser.run(OPEN);
        for width in WIDTHS {
            let what = format!("{page} at {width}");
            browser.lay_out(width, "screen", "light");
            if let Some(kept) = std::env::var_os("LINERATE_PAGES") {
                let file = format!("{}-{width}.png", page.replace(['/', '?', '&', '=', '%', ':', '~'], "_"));
                browser.picture(&Path::new(&kept).join(file));
            }
            if let Some(axe) = axe.as_ref().filter(|_| JUDGED.contains(&width)) {
                check(&what, &violations(&browser, axe));
            }
            let (found, _) = audited(&browser);
            check(&what, &found);
            bench.wait_until(&format!("what is wider says so, {what}"), LONG, || browser.run(UNSAID) == 0);
            if page.starts_with("/records") {
                assert_eq!(browser.run(BROKEN), Value::Array(Vec::new()), "{what}: short cells of several lines");
            }
            if page.ends_with("/settings") && width == 400 {
                let left = browser.run("return document.querySelector('td:nth-child(2)').getBoundingClientRect().left");
                assert!(left.as_f64().unwrap() < 260.0, "{what}: values begin at {left}");
            }
        }
        browser.run(FOLD);
    }
    if axe.is_some() {
        println!("axe-core, WCAG 2.2 AA: 0 violations on {} pages at {JUDGED:?} px", all.len());
    }
    paints.sort_by(|one, other| one.0.total_cmp(&other.0));
    let within = paints.iter().filter(|(paint, _)| *paint <= PAINT_MS).count();
    let (most, page) = paints[paints.len() - 1];
    println!(
        "first contentful paint: median {:.0} ms, most {most:.0} ms ({page}); {within} of {} pages within {PAINT_MS} ms",
        paints[paints.len() / 2].0,
        paints.len()
    );
}

/// What a first contentful paint over the loopback shall take at most: printed, and no gate, for the machine may be busy.
const PAINT_MS: f64 = 200.0;

#[test]
fn keys_lead_everywhere_and_can_be_switched_off() {
    let bench = Bench::bare("web-keys");
    keep_examples(&bench);
    let Some(browser) = Browser::start("keys_lead_everywhere_and_can_be_switched_off", &bench.folder.0, true) else {
        return;
    };
    let server = Server::start(&bench, &[]);
    signed_in(&browser, &server);
    let title = || browser.run("return document.title");
    browser.press("g", 71);
    browser.press("r", 82);
    bench.wait_until("the records", LONG, || title() == "Records – linerate");
    browser.press("/", 191);
    assert_eq!(browser.run("return document.activeElement.name"), "q");
    browser.run("document.activeElement.blur()");
    browser.press("?", 191);
    assert_eq!(browser.run("return document.getElementById('keys').open"), true);
    browser.run("document.getElementById('keys-on').click(); document.querySelector('dialog button').click();");
    browser.press("g", 71);
    browser.press("p", 80);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(title(), "Records – linerate");
}

/// Notes of each answer when it came and how old the newest event was then, and when the picture was there.
const NOTE: &str = "window.ages = []; const own = window.fetch;
    window.fetch = async (...all) => {
        const answer = await own(...all);
        const age = answer.headers.get('x-age-ms');
        if (age !== null) {
            const came = performance.now();
            setTimeout(() => requestAnimationFrame(() => ages.push(Number(age) + performance.now() - came)), 0);
        }
        return answer;
    };";

/// How soon what an agent says shall be seen.
const SOON_MS: f64 = 500.0;

/// When each row of what passes ended, in seconds.
const PASSED: &str = "return [...document.querySelectorAll('[data-part=passing] tbody tr')].map(row => Number(row.cells[0].textContent))";

/// The seconds that the tab shows; each is there, from the trial's first on.
#[track_caller]
fn passed(browser: &Browser) -> usize {
    let rows: Vec<f64> = browser.run(PASSED).as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let whole = std::iter::once(0.0).chain(rows.iter().copied()).collect::<Vec<_>>();
    assert!(whole.windows(2).all(|two| (0.5..1.6).contains(&(two[1] - two[0]))), "a gap: {rows:?}");
    rows.len()
}

/// One of the tabs is frozen, as a browser does with one that was left for long or a computer with all of them:
/// LINERATE_WEB_ASLEEP says for how many seconds.
pub fn what_happens_is_seen_soon_in_eight_tabs() {
    let name = "what_happens_is_seen_soon_in_eight_tabs";
    let Some(bench) = Bench::new("web-live") else { return };
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let (target, host) = (bench.target(), bench.host());
    let server = Server::start(&bench, &["--machine", &target, "--machine", &host, "--allow-run"]);
    signed_in(&browser, &server);
    let asleep = Duration::from_secs(number("LINERATE_WEB_ASLEEP").unwrap_or(8).max(4));
    let trial = asleep.as_secs() + 11;
    // Started as a person does.
    browser.open_url(&format!("http://{}/plan/udp-stream", server.host()));
    browser.run(&format!(
        "const form = document.querySelector('form.fields');
         form.target.value = {}; form.host.value = {}; form.set.value = 'rate=20M\\nduration={trial}s\\ndirection=rx';
         form.querySelector('button[formaction]').click();",
        json!(target),
        json!(host)
    ));
    bench.wait_until("the campaign's page", LONG, || browser.run("return location.pathname") == "/run/1");
    browser.run(NOTE);
    let first = browser.tab();
    let run = format!("http://{}/run/1", server.host());
    let mut tabs = vec![first.clone()];
    for _ in 1..8 {
        tabs.push(browser.new_tab());
        browser.open_url(&run);
    }
    bench.wait_for_traffic(bench.packets() + 50);
    browser.go_to(&tabs[1]);
    bench.wait_until("a row", LONG, || passed(&browser) > 0);
    browser.freeze(true);
    let fell_asleep = Instant::now();
    browser.go_to(&first);
    // What came while nobody saw the tab was not to be seen soon.
    thread::sleep(Duration::from_millis(1500));
    browser.run("window.ages = []");
    thread::sleep(asleep.saturating_sub(fell_asleep.elapsed()));
    let ages: Vec<f64> = browser.run("return ages").as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let most = ages.iter().copied().fold(0.0, f64::max);
    let within = ages.iter().filter(|age| **age <= SOON_MS).count();
    println!("from an agent's word to the picture: most {most:.0} ms; {within} of {} within {SOON_MS} ms", ages.len());
    // A busy machine takes longer; a page that waits for something takes seconds.
    assert!(ages.len() >= 3 && most < 5.0 * SOON_MS, "{ages:?}");
    // Whoever slept has missed nothing 2 s after waking.
    let here = passed(&browser);
    browser.go_to(&tabs[1]);
    browser.freeze(false);
    let woke = Instant::now();
    bench.wait_until("a tab that is whole again", Duration::from_secs(2), || passed(&browser) >= here);
    println!("{:.0} s asleep, whole again after {} ms", asleep.as_secs_f64(), woke.elapsed().as_millis());
    assert!(here as u64 + 1 >= asleep.as_secs(), "{here} s were shown elsewhere");
    // Each of the others shows what goes on as soon as it is seen.
    for tab in &tabs[2..] {
        browser.go_to(tab);
        bench.wait_until("a tab that is live", Duration::from_secs(2), || passed(&browser) >= here);
    }
    bench.wait_until("the end", LONG, || {
        browser.run("return document.body.innerText").as_str().unwrap().contains("It is done")
    });
    let shown = passed(&browser) as u64;
    assert!((trial - 3..=trial + 1).contains(&shown), "every second of the trial is there: {shown}");
}
