//! Reports as readers meet them who have no mouse, no colours, a narrow screen, paper, or Jenkins between: in Chromium,
//! by axe-core and by eye's rules. Knows the commands and the pages; the records are examples, measured by nobody.

mod machines;

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_results::record::{Counted, Interval, Losses, Record};
use linerate_results::sample;
use linerate_results::store::Store;

use machines::audit::{OPEN, audited, axe, check, out_of_reach, violations};
use machines::browser::Browser;
use machines::kept::keep;
use machines::served::served;
use machines::{Bench, Running};

const LONG: Duration = Duration::from_secs(120);
/// Of a screen, and the narrowest that content must fit (WCAG 2.2, 1.4.10).
const WIDTHS: [u32; 2] = [1100, 320];
/// A4 with margins of a centimetre, upright and across, in CSS pixels.
const SHEET: [u32; 2] = [718, 1047];
/// Jenkins' policy for what it serves of a workspace.
const JENKINS: &str = "Content-Security-Policy: sandbox; default-src 'none'; img-src 'self'; style-src 'self'\r\n";

/// Every kind of record: sweeps, requests, streams, both directions at once, events, registers, settings, failed trials.
fn examples(part: f64) -> Vec<Record> {
    let mut records = Vec::new();
    for repeat in 0..3 {
        let noise = 1.0 + f64::from(repeat) / 100.0;
        let mut round: Vec<Record> = (1..=6)
            .map(|step| {
                let through = f64::from(step * 100).min(430.0 * part * noise);
                in_slices(sample::udp(step, Direction::Rx, step * 100, through))
            })
            .chain([
                sample::rr(7, "64"),
                sample::rr(8, "1K"),
                sample::tcp(9, Direction::Tx, 900.0 * part * noise, true),
            ])
            .collect();
        round.iter_mut().for_each(|record| record.trial.repeat = repeat);
        records.append(&mut round);
    }
    records.extend([sample::both(10), sample::full(), sample::failed(11), sample::examined(12)]);
    records
}

/// The stream in slices of 400 ms with events among them, and with its losses by stage.
fn in_slices(mut record: Record) -> Record {
    let whole = record.intervals[0].clone();
    let slice = |at: u32| Interval {
        start_s: f64::from(at) * 0.4,
        end_s: f64::from(at + 1) * 0.4,
        // Of one nothing is known.
        throughput_bps: whole.throughput_bps.filter(|_| at != 2),
        ..whole.clone()
    };
    record.intervals = (0..5).map(slice).collect();
    record.events = sample::full().events;
    let flow = &record.result.as_ref().expect("figures").flow;
    let (sent, arrived) = (flow.packets_sent.expect("a count"), flow.packets_received.expect("a count"));
    let unaccounted = record.unaccounted.expect("a count");
    record.losses = vec![Losses { direction: record.direction, of: Counted::Datagrams, sent, arrived, unaccounted }];
    record
}

/// The pages of this test, in its folder.
fn pages(bench: &Bench) -> Vec<String> {
    let path = bench.store_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut store = Store::open(&path).unwrap();
    keep(&mut store, 1, &mut examples(1.0));
    keep(&mut store, 2, &mut examples(0.8));
    keep(&mut store, 3, &mut [sample::failed(0), sample::examined(1)]);
    let hundred = (0..100).map(|at| sample::udp(at, Direction::Rx, 50 + at % 20 * 25, f64::from(at % 20 * 20 + 50)));
    keep(&mut store, 4, &mut hundred.collect::<Vec<_>>());
    let notes = bench.folder.path("notes.md");
    fs::write(&notes, "Does it help?\n\n- once\n- twice\n\n# Figures\nThe most: {{rx throughput max}}.\n").unwrap();
    let all: [(&str, &[&str]); 4] = [
        ("campaign.html", &["last~2", "--attach", "--notes", &notes]),
        ("sides.html", &["--baseline", "last~3", "--candidate", "last~2"]),
        ("failed.html", &["last~1"]),
        ("hundred.html", &["last"]),
    ];
    let made = all.map(|(name, words)| {
        let file = bench.folder.path(name);
        let arguments = [&["report", "--html", "-o", &file], words].concat();
        Running::start(bench.linerate(&arguments)).wait(LONG).check_done();
        file
    });
    if let Some(kept) = std::env::var_os("LINERATE_PAGES") {
        made.iter().for_each(|file| drop(fs::copy(file, Path::new(&kept).join(Path::new(file).file_name().unwrap()))));
    }
    made.to_vec()
}

#[test]
fn a_report_is_for_everybody() {
    let name = "a_report_is_for_everybody";
    let bench = Bench::bare("accessibility");
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let axe = axe(name);
    let mut pictures = 0;
    for file in pages(&bench) {
        for (width, colours, folded) in
            [(WIDTHS[0], "light", true), (WIDTHS[0], "dark", false), (WIDTHS[1], "light", false)]
        {
            browser.lay_out(width, "screen", colours);
            let page = browser.open(file.as_ref());
            if !folded {
                browser.run(OPEN);
            }
            let what = format!("{file} at {width}, {colours}, {}", if folded { "folded" } else { "open" });
            if let Some(axe) = &axe {
                check(&what, &violations(&browser, axe));
            }
            let (found, [texts, drawn]) = audited(&browser);
            check(&what, &found);
            eprintln!(
                "{what}: load {:.0} ms, {} elements, {texts} texts, {drawn} pictures",
                page.load_ms, page.elements
            );
            assert!(texts > 20);
            pictures += drawn;
        }
    }
    assert!(pictures > 20, "{pictures} pictures were looked at");
}

/// Whoever looks for faults finds these.
#[test]
fn faults_are_found() {
    let name = "faults_are_found";
    let bench = Bench::bare("accessibility-faults");
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let file = bench.folder.path("faults.html");
    let picture = "<svg viewBox='0 0 100 50'><title>p</title><rect width='100' height='50' fill='#fff'/>\
                   <text x='2' y='20'>over</text><text x='9' y='21'>under</text><text x='90' y='40'>reaches out</text>\
                   <path d='M1 1h9' stroke='#dde' fill='none'><title>faint</title></path></svg>";
    let text = format!(
        "<!DOCTYPE html><html><title>t</title><body><p style='color:#999'>faint</p><img src='data:,'>\
         <div style='overflow-x:auto;width:50px'>averyverylongwordwithoutanend</div>\
         <p style='width:2000px'>wide</p><a href='#x' style='outline:none'>unseen</a>{picture}</body></html>"
    );
    fs::write(&file, text).unwrap();
    browser.lay_out(WIDTHS[1], "screen", "light");
    browser.open(file.as_ref());
    let (found, _) = audited(&browser);
    let all = found.join("\n");
    for part in [
        "the page is",
        "keyboard's order",
        "text rgb(153",
        "texts overlap",
        "reaches out of",
        "a mark rgb(221, 221, 238)",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(out_of_reach(&browser).iter().any(|one| one.starts_with("focus is not seen")));
    let Some(axe) = axe(name) else { return };
    let all = violations(&browser, &axe).join("\n");
    for rule in ["image-alt", "html-has-lang", "color-contrast", "scrollable-region-focusable"] {
        assert!(all.contains(&format!("{rule} (")), "{rule}: {all}");
    }
}

#[test]
fn a_report_needs_no_mouse() {
    let bench = Bench::bare("accessibility-keyboard");
    let Some(browser) = Browser::start("a_report_needs_no_mouse", &bench.folder.0, true) else { return };
    browser.lay_out(WIDTHS[0], "screen", "light");
    let file = &pages(&bench)[0];
    browser.open(file.as_ref());
    check(file, &out_of_reach(&browser));
    browser.open(file.as_ref());
    browser.run(OPEN);
    check(file, &out_of_reach(&browser));
    // A folded part opens by Enter.
    browser.open(file.as_ref());
    let opened = browser.run(
        "const first = document.querySelector('summary'); first.focus();
         return [first === document.activeElement, first.parentElement.open];",
    );
    assert_eq!(opened, serde_json::json!([true, false]));
    browser.press("Enter", 13);
    assert_eq!(browser.run("return document.querySelector('details').open"), true);
}

#[test]
fn a_report_fits_on_paper() {
    let bench = Bench::bare("accessibility-paper");
    let Some(browser) = Browser::start("a_report_fits_on_paper", &bench.folder.0, true) else { return };
    for file in pages(&bench) {
        browser.open(file.as_ref());
        browser.lay_out(SHEET[0], "print", "light");
        let folded = browser.run(
            "return Array.from(document.querySelectorAll('details > :not(summary)'))
                 .filter(one => !one.closest('figure') && !one.checkVisibility()).map(one => one.textContent.slice(0, 80))",
        );
        assert_eq!(folded, serde_json::json!([]), "{file}: paper unfolds nothing");
        browser.run(OPEN);
        let cut = browser.run(
            "const paper = one => one.closest('.many') ? arguments[1] : arguments[0];
             const wide = one => one.getBoundingClientRect().width > paper(one)
                 || one.tagName !== 'svg' && one.scrollWidth > one.clientWidth + 1;
             return Array.from(document.querySelectorAll('table, td, th, pre, svg, p, li'))
                 .filter(one => one.checkVisibility() && wide(one))
                 .map(one => `${one.tagName} ${one.getBoundingClientRect().width} ${one.textContent.trim().slice(0, 80)}`);"
                .replace("arguments[0]", &SHEET[0].to_string())
                .replace("arguments[1]", &SHEET[1].to_string())
                .as_str(),
        );
        let cut: Vec<String> = cut.as_array().unwrap().iter().map(ToString::to_string).collect();
        check(&format!("{file} on paper"), &cut);
    }
}

#[test]
fn jenkins_takes_nothing_away() {
    let bench = Bench::bare("accessibility-jenkins");
    let Some(browser) = Browser::start("jenkins_takes_nothing_away", &bench.folder.0, true) else { return };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for file in pages(&bench) {
        browser.lay_out(WIDTHS[0], "screen", "light");
        browser.open(file.as_ref());
        let opened = "return document.body.innerText";
        let whole = browser.run(&format!("{OPEN} {opened}"));
        let port = served(fs::read(&file).unwrap(), JENKINS);
        browser.open_url(&format!("http://127.0.0.1:{port}/report.html"));
        assert_eq!(
            browser.run("return getComputedStyle(document.body).marginTop"),
            "8px",
            "the style sheet is refused"
        );
        let bare = browser.run(&format!("{OPEN} {opened}"));
        assert_eq!(words(bare.as_str().unwrap()), words(whole.as_str().unwrap()), "{file}");
        let (found, _) = audited(&browser);
        // Without a style sheet nothing scrolls by itself.
        let found: Vec<String> = found.into_iter().filter(|one| !one.starts_with("the page is ")).collect();
        check(&format!("{file} under Jenkins' policy"), &found);
    }
}
