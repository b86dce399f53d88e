//! What stands between a page and a reader who has no mouse, no colours, a narrow screen or a screen reader: axe-core's
//! judgement (WCAG 2.2, A and AA), and what it does not look at (`audit.js`).

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::browser::Browser;

/// Where `cargo xtask setup browser` keeps axe-core.
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/axe/node_modules/axe-core/axe.min.js");
/// Every rule of WCAG 2.0 to 2.2 of both levels; target-size (2.5.8) is off unless it is asked for.
const RUN: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, {
        runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']},
        rules: {'target-size': {enabled: true}}, resultTypes: ['violations'],
    }).then(found => done(found.violations.flatMap(rule => rule.nodes.map(node =>
        `${rule.id} (${rule.help}): ${node.target.join(' ')}: ${node.html.slice(0, 200)}: ${node.failureSummary}`))),
        error => done([`axe-core cannot run: ${error}`]));";

/// Opens whatever is folded.
pub const OPEN: &str = "document.querySelectorAll('details').forEach(one => { one.open = true; });";

/// That nothing was found on this page.
#[track_caller]
pub fn check(page: &str, found: &[String]) {
    let shown: Vec<&String> = found.iter().take(12).collect();
    assert!(found.is_empty(), "{page}: {} places, the first of which: {shown:#?}", found.len());
}

/// axe-core's text; `None`, and a line that says so, where it is not.
pub fn axe(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(AXE)).ok();
    if text.is_none() {
        eprintln!("SKIPPED a part of {name}: it needs axe-core; cargo xtask setup browser");
    }
    text
}

/// What axe-core finds on the page that is open: rule, element, and what to do.
#[track_caller]
pub fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(&format!("if (!window.axe) {{ {axe} }}"));
    sentences(&browser.run_to_its_end(RUN))
}

/// What the audit finds, and how many texts and pictures it looked at.
#[track_caller]
pub fn audited(browser: &Browser) -> (Vec<String>, [u64; 2]) {
    let told = browser.run(include_str!("audit.js"));
    (sentences(&told[0]), [&told[1], &told[2]].map(|count| count.as_u64().expect("a count")))
}

/// What of the page that is open the keyboard does not reach, or shows no sign of having reached.
#[track_caller]
pub fn out_of_reach(browser: &Browser) -> Vec<String> {
    let count = browser.run(
        "window.reach = Array.from(document.querySelectorAll(
             'a[href], summary, [tabindex=\"0\"], button, input:not([type=hidden]), select, textarea'))
             .filter(one => one.checkVisibility());
         window.reached = new Set(); document.activeElement.blur(); window.scrollTo(0, 0);
         window.unseen = [];
         document.addEventListener('focusin', event => {
             reached.add(event.target);
             if (getComputedStyle(event.target).outlineStyle === 'none') unseen.push(event.target);
         });
         return reach.length;",
    );
    for _ in 0..=count.as_u64().expect("a count") {
        browser.press("Tab", 9);
    }
    sentences(&browser.run(
        "return reach.filter(one => !reached.has(one)).map(one => `not reached: ${one.outerHTML.slice(0, 120)}`)
             .concat(unseen.map(one => `focus is not seen: ${one.outerHTML.slice(0, 120)}`));",
    ))
}

fn sentences(value: &Value) -> Vec<String> {
    let all = value.as_array().expect("a list").iter();
    all.map(|one| one.as_str().expect("a sentence").to_owned()).collect()
}
