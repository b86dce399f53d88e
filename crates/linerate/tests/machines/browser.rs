//! Chromium, as a reader of a report has it: opens a file, and tells what it shows, asks of the network and complains of.
//! Speaks WebDriver (W3C, HTTP and JSON) to chromedriver by itself: three requests are no reason for an asynchronous client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The most that anything of a browser takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A browser under way; it ends with the value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

/// What became of a file that was opened.
#[derive(Debug)]
pub struct Page {
    /// The text that is seen.
    pub text: String,
    /// What was asked of the network, but for the file itself and what it holds in itself (`data:`).
    pub requests: Vec<String>,
    /// What stands in the console.
    pub console: Vec<String>,
    /// Elements of the document.
    pub elements: u64,
    /// From the beginning to the end of `load`.
    pub load_ms: f64,
}

impl Browser {
    /// Starts one with its profile in this folder; `None`, and a line that says so, where there is none.
    pub fn start(name: &str, folder: &Path, javascript: bool) -> Option<Browser> {
        Browser::start_with(name, folder, javascript, &[])
    }

    /// The same with more words on its command line.
    pub fn start_with(name: &str, folder: &Path, javascript: bool, more: &[&str]) -> Option<Browser> {
        let is_there = |program: &str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
        };
        if !is_there("chromedriver") || !is_there("chromium") {
            eprintln!("SKIPPED {name}: it needs Chromium; cargo xtask setup browser");
            return None;
        }
        let mut command = Command::new("chromedriver");
        // A group of its own, so that the browser ends with its driver however the test ends.
        command.arg("--port=0").current_dir(folder).process_group(0);
        let mut driver =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("chromedriver");
        let stdout = driver.stdout.take().expect("a pipe");
        let mut browser = Browser { driver, port: 0, session: String::new() };
        browser.port = port(stdout);
        let profile = folder.join(if javascript { "profile" } else { "profile-without-javascript" });
        let own = format!("--user-data-dir={}", profile.display());
        let mut words = vec![
            // Root has no sandbox; a container's /dev/shm may be small.
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--window-size=1280,1024",
            &own,
        ];
        words.extend(more);
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {
                "args": words,
                "prefs": {"profile.managed_default_content_settings.javascript": if javascript { 1 } else { 2 }},
            },
        }}});
        let session = browser.ask("POST", "/session", &capabilities);
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        Some(browser)
    }

    /// Opens a file, and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, file: &Path) -> Page {
        self.open_url(&escaped(file))
    }

    /// Opens an address, and waits until it is loaded.
    #[track_caller]
    pub fn open_url(&self, address: &str) -> Page {
        // What an earlier page said is not this one's.
        self.log("browser");
        self.log("performance");
        self.ask_session("url", &json!({ "url": address }));
        // Scripts of WebDriver run where the page's own do not.
        let told = self.run(
            "const load = performance.getEntriesByType('navigation')[0];
             return [document.body.innerText, document.getElementsByTagName('*').length, load.loadEventEnd];",
        );
        let own = |url: &str| url.starts_with("data:") || url.split('#').next() == Some(address);
        let requests = self.log("performance").into_iter().filter_map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let (method, params) = (&event["message"]["method"], &event["message"]["params"]);
            // The page of a new tab is the browser's own, and may still be busy.
            let is_page = params["documentURL"].as_str().is_some_and(|url| !url.starts_with("chrome:"));
            let url = params["request"]["url"].as_str().unwrap_or_default().to_owned();
            (method == "Network.requestWillBeSent" && is_page).then_some(url)
        });
        Page {
            text: told[0].as_str().expect("text").to_owned(),
            requests: requests.filter(|url| !own(url)).collect(),
            console: self.log("browser").iter().map(|entry| entry["message"].to_string()).collect(),
            elements: told[1].as_u64().expect("a number"),
            load_ms: told[2].as_f64().expect("a time"),
        }
    }

    /// What a script returns of the page that is open.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.ask_session("execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script hands to its last argument, a function, when it is done.
    #[track_caller]
    pub fn run_to_its_end(&self, script: &str) -> Value {
        self.ask_session("execute/async", &json!({"script": script, "args": []}))
    }

    /// The tab that is open.
    #[track_caller]
    pub fn tab(&self) -> String {
        let told = self.ask("GET", &format!("/session/{}/window", self.session), &Value::Null);
        told.as_str().expect("a handle").to_owned()
    }

    /// Opens a tab, and goes there.
    #[track_caller]
    pub fn new_tab(&self) -> String {
        let told = self.ask_session("window/new", &json!({"type": "tab"}));
        let tab = told["handle"].as_str().expect("a handle").to_owned();
        self.go_to(&tab);
        tab
    }

    #[track_caller]
    pub fn go_to(&self, tab: &str) {
        self.ask_session("window", &json!({ "handle": tab }));
    }

    /// A picture of the whole page that is open, as a PNG file.
    #[track_caller]
    pub fn picture(&self, file: &Path) {
        use base64::Engine;
        let size = self.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1].as_f64().unwrap_or(0.0).min(6000.0), "scale": 1});
        let told = self.ask_session(
            "goog/cdp/execute",
            &json!({"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": true, "clip": clip}}),
        );
        let octets = base64::engine::general_purpose::STANDARD
            .decode(told["data"].as_str().expect("a picture"))
            .expect("base64");
        std::fs::write(file, octets).expect("a picture is written");
    }

    /// Lays the page out for a screen or a sheet of this width, whose reader prefers these colours ("light", "dark").
    #[track_caller]
    pub fn lay_out(&self, width: u32, medium: &str, colours: &str) {
        let size = json!({"width": width, "height": 1024, "deviceScaleFactor": 1, "mobile": false});
        self.tell("Emulation.setDeviceMetricsOverride", &size);
        let colours = json!([{"name": "prefers-color-scheme", "value": colours}]);
        self.tell("Emulation.setEmulatedMedia", &json!({"media": medium, "features": colours}));
    }

    /// Stops all that the tab does, as with one that was left for long, and lets it go on.
    #[track_caller]
    pub fn freeze(&self, is_frozen: bool) {
        let state = if is_frozen { "frozen" } else { "active" };
        self.tell("Page.setWebLifecycleState", &json!({ "state": state }));
    }

    /// Presses a key, by the name and the number that the DOM has for it.
    #[track_caller]
    pub fn press(&self, key: &str, number: u32) {
        // Only Enter is a character too; that a key comes up again, no page of ours waits for.
        let event = json!({"key": key, "code": key, "windowsVirtualKeyCode": number});
        let of_kind = |kind: &str, text: &str| {
            let mut event = event.clone();
            (event["type"], event["text"]) = (kind.into(), text.into());
            event
        };
        self.tell("Input.dispatchKeyEvent", &of_kind("rawKeyDown", ""));
        if key == "Enter" {
            self.tell("Input.dispatchKeyEvent", &of_kind("char", "\r"));
        }
    }

    /// One command of the Chrome DevTools Protocol, which chromedriver hands on.
    #[track_caller]
    fn tell(&self, command: &str, params: &Value) {
        self.ask_session("goog/cdp/execute", &json!({"cmd": command, "params": params}));
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.ask_session("se/log", &json!({ "type": kind })).as_array().cloned().unwrap_or_default()
    }

    #[track_caller]
    fn ask_session(&self, what: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{what}", self.session), body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = exchange(self.port, method, path, body).expect("chromedriver answers");
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {answer:#}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = exchange(self.port, "DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        super::signal_group(self.driver.id(), "KILL");
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it listens on.
fn port(stdout: impl Read + Send + 'static) -> u16 {
    let (sender, port) = mpsc::channel();
    thread::spawn(move || {
        // To the end, so that the driver never waits for its reader.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let number = line.split_once("started successfully on port ").map(|(_, rest)| rest.trim_end_matches('.'));
            number.and_then(|number| number.parse().ok()).map(|number| sender.send(number));
        }
    });
    port.recv_timeout(LIMIT).expect("chromedriver says its port")
}

/// A file as a URL has it.
fn escaped(file: &Path) -> String {
    format!("file://{}", file.display().to_string().replace('%', "%25").replace(' ', "%20"))
}

/// One request of HTTP/1.1 and its answer, by their lengths (RFC 9112, section 6).
fn exchange(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) =
            line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse().map_err(|_| std::io::Error::other(format!("{name}: {value}")))?;
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    serde_json::from_slice(&answer).map_err(std::io::Error::other)
}
