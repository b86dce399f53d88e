//! The browser that reports are opened in: it sees what a page asks for and complains of, and JavaScript can be off.
//! Knows no report: the pages are this test's own.

mod machines;

use std::fs;
use std::path::PathBuf;

use machines::Bench;
use machines::browser::Browser;

/// Everything stands in the file.
const QUIET: &str = "<!DOCTYPE html><html lang='en'><title>quiet</title><body><p>one</p>
<img alt='dot' src='data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E'>
<noscript>no script</noscript><script>document.querySelector('p').append(' two')</script></body></html>";

/// Asks for an image where nobody is, and complains.
const LOUD: &str = "<!DOCTYPE html><html lang='en'><title>loud</title><body>
<img alt='none' src='http://127.0.0.1:9/dot.png'><script>console.error('told')</script></body></html>";

fn page(bench: &Bench, name: &str, text: &str) -> PathBuf {
    let path = bench.folder.0.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_browser_tells_what_a_page_does() {
    let name = "a_browser_tells_what_a_page_does";
    let bench = Bench::bare("browser");
    let Some(browser) = Browser::start(name, &bench.folder.0, true) else { return };
    let quiet = page(&bench, "a page.html", QUIET);
    let loud = page(&bench, "loud.html", LOUD);
    for _ in 0..2 {
        let shown = browser.open(&quiet);
        assert_eq!((&shown.requests[..], &shown.console[..]), (&[][..], &[][..]), "{shown:#?}");
        assert!(shown.text.contains("one two") && !shown.text.contains("no script"), "{shown:#?}");
        assert!(shown.elements == 8 && shown.load_ms > 0.0, "{shown:#?}");
        let shown = browser.open(&loud);
        assert_eq!(shown.requests, ["http://127.0.0.1:9/dot.png"], "{shown:#?}");
        assert!(shown.console.iter().any(|line| line.contains("told")), "{shown:#?}");
    }
}

#[test]
fn javascript_can_be_off() {
    let bench = Bench::bare("browser-without-javascript");
    let Some(browser) = Browser::start("javascript_can_be_off", &bench.folder.0, false) else { return };
    let shown = browser.open(&page(&bench, "page.html", QUIET));
    assert!(
        shown.text.contains("one") && !shown.text.contains("two") && shown.text.contains("no script"),
        "{shown:#?}"
    );
    assert_eq!((&shown.requests[..], &shown.console[..]), (&[][..], &[][..]), "{shown:#?}");
}

#[test]
fn a_browser_ends_with_its_test() {
    let bench = Bench::bare("browser-ends");
    let Some(browser) = Browser::start("a_browser_ends_with_its_test", &bench.folder.0, true) else { return };
    assert!(!bench.processes().is_empty(), "Chromium has the folder in its command");
    drop(browser);
    bench.check_nothing_runs(std::time::Duration::from_secs(10));
}
