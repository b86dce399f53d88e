//! Who may not: strangers, other sites' pages, names that were made to point here, and requests that are none.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::machines::chance::Chance;
use crate::machines::{Bench, Running, number};
use crate::server::{LONG, Server, keep_examples, pages};

const EVIL: &str = "evil.example";

/// Every address that there is, and whether it does something.
const DOING: [&str; 7] = [
    "/runs",
    "/plans/try",
    "/run/1/stop",
    "/campaign/00000000000000000000000001/resume",
    "/machine/local/set",
    "/machine/local/restore",
    "/session/end",
];

#[test]
fn a_stranger_sees_how_to_sign_in_and_nothing_else() {
    let bench = Bench::bare("web-strangers");
    keep_examples(&bench);
    let server = Server::start(&bench, &["--machine", "local", "--allow-run", "--allow-settings", "--allow-commands"]);
    let empty = server.ask("GET", "/", &[], "").check(401, &["Sign in"]).body.clone();
    for page in pages() {
        // Nor whether there is such a page.
        assert_eq!(server.ask("GET", &page, &[], "").check(401, &[]).body, empty, "{page}");
        let wrong = format!("Bearer {}", "0".repeat(64));
        server.ask("GET", &page, &[("Authorization", &wrong)], "").check(401, &[]);
        let cookie = format!("linerate-{}={}", server.port, server.token);
        server.ask("GET", &page, &[("Cookie", &cookie)], "").check(401, &[]);
        for host in [EVIL, &format!("127.0.0.1.{EVIL}:{}", server.port), "127.0.0.1@evil", ""] {
            let bearer = format!("Bearer {}", server.token);
            let answer = server.ask("GET", &page, &[("Host", host), ("Authorization", &bearer)], "");
            answer.check(421, &["--name"]);
        }
        for site in ["cross-site", "same-site"] {
            let bearer = format!("Bearer {}", server.token);
            let fields = [("Sec-Fetch-Site", site), ("Authorization", bearer.as_str())];
            server.ask("GET", &page, &fields, "").check(403, &["Another site"]);
        }
        let answer = server.get(&page);
        for field in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "referrer-policy: same-origin",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
            "x-frame-options: deny",
        ] {
            assert!(answer.head.contains(field), "{page}: {field}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control-"), "{page}: {}", answer.head);
        assert!(!answer.body.contains(&server.token), "{page} tells the token");
    }
    let bearer = format!("Bearer {}", server.token);
    for page in DOING {
        // Without a browser, and without the token.
        server.ask("POST", page, &[], "plan=tcp&target=local").check(403, &["token"]);
        let own = format!("http://{}", server.host());
        let other = format!("http://127.0.0.1:{}", server.port.wrapping_add(1));
        for (site, origin) in [
            ("cross-site", "http://evil.example"),
            ("same-site", other.as_str()),
            ("same-origin", "null"),
            ("same-site", own.as_str()),
            ("none", own.as_str()),
        ] {
            let fields = [("Sec-Fetch-Site", site), ("Origin", origin), ("Authorization", bearer.as_str())];
            server.ask("POST", page, &fields, "plan=tcp&target=local").check(403, &["nothing was done"]);
        }
        let fields = [("Sec-Fetch-Site", "same-origin"), ("Origin", own.as_str())];
        server.ask("POST", page, &fields, "plan=tcp&target=local").check(401, &["Sign in"]);
        // Not by GET.
        let told = server.get(page);
        let wanted = if page == "/runs" { 200..=200 } else { 404..=405 };
        assert!(wanted.contains(&told.status), "{page}: {}", told.status);
    }
    server.get("/runs").check(200, &["Nothing was started here"]);
    // Twice the same field is none.
    let doubled = format!(
        "GET / HTTP/1.1\r\nHost: {0}\r\nHost: {0}\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n",
        server.host()
    );
    assert!(matches!(server.ask_raw(doubled.as_bytes()).map(|answer| answer.status), Some(400 | 421)));
}

#[test]
fn the_token_is_exchanged_for_a_cookie_that_only_this_server_takes() {
    let bench = Bench::bare("web-cookie");
    keep_examples(&bench);
    let server = Server::start(&bench, &[]);
    let own = format!("http://{}", server.host());
    let browser = [("Sec-Fetch-Site", "same-origin"), ("Origin", own.as_str())];
    server.ask("POST", "/session", &browser, "token=0").check(401, &["not the token"]);
    server.ask("GET", &format!("/session?token={}", server.token), &[], "").check(401, &["Sign in"]);
    let answer = server.ask("POST", "/session", &browser, &format!("token={}", server.token));
    let set = answer.check(303, &[]).field("set-cookie").expect("a cookie").to_owned();
    for part in ["httponly", "samesite=strict", "path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with(&format!("linerate-{}=", server.port)), "{cookie}");
    server.ask("GET", "/records", &[("Cookie", &cookie)], "").check(200, &["udp-stream"]);
    // A browser that has the cookie does nothing for another port's page.
    let fields = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "same-site"), ("Origin", "http://localhost:1")];
    server.ask("POST", "/session/end", &fields, "").check(403, &[]);
    // Nor for a program that says nothing of itself.
    server.ask("POST", "/session/end", &[("Cookie", &cookie)], "").check(403, &["token"]);
    let fields = [("Cookie", cookie.as_str()), browser[0], browser[1]];
    server.ask("POST", "/session/end", &fields, "").check(303, &[]);
    server.ask("GET", "/records", &[("Cookie", &cookie)], "").check(401, &[]);
    let other = Bench::bare("web-cookie-other");
    let other = Server::start(&other, &[]);
    let moved = cookie.replace(&server.port.to_string(), &other.port.to_string());
    other.ask("GET", "/records", &[("Cookie", &moved)], "").check(401, &[]);
}

#[test]
fn what_is_not_allowed_names_its_flag() {
    let bench = Bench::bare("web-flags");
    keep_examples(&bench);
    let plans = bench.folder.0.join("plans");
    std::fs::create_dir_all(&plans).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(plans.join(name), format!("format = 'linerate.plan/1'\n{text}")).unwrap()
    };
    write("settings.toml", "workload = 'tcp-rr'\n[factors]\ntarget.mtu = [1400, 1500]\n");
    write("boot.toml", "workload = 'tcp-rr'\n[factors]\ntarget.boot = ['a']\n[boot.a]\ncommand = 'touch /tmp/never'\n");
    std::fs::write(bench.folder.0.join("other.toml"), "format = 'linerate.plan/1'\nworkload = 'tcp-rr'\n").unwrap();
    let folder = plans.display().to_string();
    let of = |name: &str| format!("plan={}&target=local", plans.join(name).display());
    let ssh = ["--machine", "root@127.0.0.1:9"];
    let machines =
        [&["--plans", &folder, "--machine", "local", "--machine", "exec:touch /tmp/never"], &ssh[..]].concat();
    let server = Server::start(&bench, &machines);
    for page in ["/runs", "/run/1/stop", "/campaign/00000000000000000000000001/resume"] {
        server.post(page, &of("settings.toml")).check(403, &["--allow-run"]);
    }
    for page in ["/machine/local/set", "/machine/local/restore"] {
        server.post(page, "set=mtu%3D1400").check(403, &["--allow-settings"]);
    }
    server.get("/plan/udp-sweep").check(200, &["--allow-run"]);
    server.get("/machine/exec%3Atouch%20%2Ftmp%2Fnever").check(403, &["--allow-commands"]);
    // As short as it was told: nothing listens there.
    server.get("/machine/root%40127.0.0.1%3A9").check(502, &[]);
    server.get("/machine/root%40127.0.0.1%3A8").check(404, &["--machine"]);
    drop(server);
    let server = Server::start(&bench, &[&["--allow-run"], &machines[..]].concat());
    server.post("/runs", &of("settings.toml")).check(403, &["--allow-settings", "target.mtu"]);
    server.post("/runs", "plan=tcp&target=local&set=target.mtu%3D1400").check(403, &["--allow-settings"]);
    server.post("/runs", &of("boot.toml")).check(403, &["--allow-commands"]);
    server.post("/runs", "plan=tcp&target=exec%3Atouch%20%2Ftmp%2Fnever").check(403, &["--allow-commands"]);
    // Nor anything that nobody named.
    server.post("/runs", "plan=tcp&target=ssh%3Aroot%40elsewhere").check(404, &["--machine"]);
    for name in ["../other.toml", "other.toml", "/etc/passwd", "./plans/settings.toml"] {
        let path = format!("plan={}&target=local", bench.folder.0.join(name).display());
        server.post("/runs", &path).check(404, &["--plans"]);
    }
    for (body, sentence) in [
        ("target=local", "which plan"),
        ("plan=tcp", "which machine"),
        ("plan=tcp&target=local&set=--store%3D%2Ftmp%2Fx", "NAME=VALUE"),
        ("plan=tcp&target=local&set=rate", "NAME=VALUE"),
        ("plan=tcp&target=local&set=rat%3D1M", "rat"),
        ("plan=tcp&target=local&repeat=0", "repeats"),
        ("plan=tcp&target=local&precision=abc", "percentage"),
        ("plan=tcp&target=local&set=rate%3D1%3A1000000000%3A1", "rate"),
    ] {
        server.post("/runs", body).check(400, &[sentence]);
    }
    // A text that is posted is a plan only where programs may run.
    for page in ["/runs", "/plans/try"] {
        server.post(page, "text=workload%3D%27tcp-rr%27&target=local").check(403, &["--allow-commands"]);
    }
    server.get("/plans").check(200, &["--allow-commands"]);
    server.get("/runs").check(200, &["Nothing was started here"]);
    server.get("/campaigns?form=json").check(200, &["\"planned\""]);
    server.post("/runs", &"x".repeat(65 << 10)).check(413, &["64 KiB"]);
}

/// Run with what else takes its time.
pub fn machines_that_do_not_answer_leave_threads() {
    let bench = Bench::bare("web-silent");
    keep_examples(&bench);
    let server = Server::start(&bench, &["--machine", "exec:sleep 60", "--allow-commands"]);
    let told = std::thread::scope(|scope| {
        let silent: Vec<_> = (0..8).map(|_| scope.spawn(|| server.get("/machine/exec%3Asleep%2060"))).collect();
        std::thread::sleep(Duration::from_millis(500));
        for page in ["/records", "/runs", "/campaigns"] {
            let began = Instant::now();
            server.get(page).check(200, &[]);
            assert!(began.elapsed() < Duration::from_secs(3), "{page}: {:?}", began.elapsed());
        }
        assert!(silent.iter().all(|one| !one.is_finished()), "they were asked meanwhile");
        silent.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let busy: Vec<_> = told.iter().filter(|one| one.status == 503).collect();
    assert!(!busy.is_empty() && busy.len() < 8, "{told:#?}");
    assert!(busy.iter().all(|one| one.field("retry-after").is_some() && one.body.contains("ask again")), "{busy:#?}");
}

#[test]
fn two_servers_on_one_port_have_a_token_each() {
    let bench = Bench::bare("web-two-addresses");
    let server = Server::start(&bench, &[]);
    let mut command = bench.linerate(&["web", "--listen", &format!("127.0.0.2:{}", server.port)]);
    command.env("XDG_RUNTIME_DIR", &bench.folder.0);
    let other = Running::start(command);
    let file = server.token_file.with_file_name(format!("web-127.0.0.2-{}.token", server.port));
    bench.wait_until("its token", LONG, || file.exists());
    other.signal("INT");
    assert!(other.wait(LONG).status.success() && !file.exists());
    assert_eq!(std::fs::read_to_string(&server.token_file).unwrap().trim(), server.token);
    server.get("/").check(200, &[]);
}

#[test]
fn what_others_reach_needs_a_proxy() {
    let bench = Bench::bare("web-listen");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let ran = Running::start(bench.linerate(&["web", "--listen", address])).wait(LONG);
        ran.check_sentence(&["reached by others", "ssh -L", "--tls-cert", "--behind-proxy"]);
    }
    let ran = Running::start(bench.linerate(&["web", "--name", "http://lab:80"])).wait(LONG);
    ran.check_sentence(&["--name", "without a scheme"]);
    // A password in a store's URL would stand on every page.
    let ran = Running::start(bench.linerate(&["web", "--store", "Postgres://ann:secret@127.0.0.1:1/lab"])).wait(LONG);
    let words: &[&str] =
        if cfg!(feature = "postgres") { &["URL", "password", ".pgpass"] } else { &["without PostgreSQL"] };
    ran.check_sentence(words);
    assert!(!ran.stderr.contains("secret"), "{ran:#?}");
    let server = Server::start(&bench, &[]);
    let busy = format!("127.0.0.1:{}", server.port);
    let ran = Running::start(bench.linerate(&["web", "--listen", &busy])).wait(LONG);
    ran.check_sentence(&["cannot listen", "--listen 127.0.0.1:0"]);
}

pub fn connections_have_a_limit_and_an_end() {
    let bench = Bench::bare("web-connections");
    keep_examples(&bench);
    let server = Server::start(&bench, &[]);
    let began = Instant::now();
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let mut known = connect();
    let mut ask_again = || {
        let fields = format!("Host: {}\r\nAuthorization: Bearer {}", server.host(), server.token);
        known.write_all(format!("HEAD /records HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes()).unwrap();
        let mut told = [0; 4096];
        let len = known.read(&mut told).unwrap();
        assert!(told[..len].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&told[..len]));
    };
    ask_again();
    // One sends half a head, the others nothing.
    let mut idle: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    idle[0].write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.get("/records").check(200, &[]);
    let mut oldest = idle.remove(0);
    oldest.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(!oldest.read(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it gives way");
    ask_again();
    // A head may take 15 s.
    for stream in &mut idle {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(25)).contains(&took), "{took:?}");
    server.get("/records").check(200, &[]);
}

#[test]
fn it_ends_at_once_and_leaves_nothing() {
    let bench = Bench::bare("web-end");
    keep_examples(&bench);
    for signal in ["INT", "TERM", "HUP"] {
        let server = Server::start(&bench, &[]);
        // Eight browsers with an answer and an open connection, and one in the middle of a question.
        let bearer = format!("Bearer {}", server.token);
        let head = format!("GET /campaigns HTTP/1.1\r\nHost: {}\r\nAuthorization: {bearer}\r\n\r\n", server.host());
        let mut open: Vec<TcpStream> =
            (0..8).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
        for stream in &mut open {
            stream.write_all(head.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 64]).unwrap() > 0);
        }
        open.push(TcpStream::connect(("127.0.0.1", server.port)).unwrap());
        open[8].write_all(b"POST /runs HTTP/1.1\r\nContent-Le").unwrap();
        let Server { mut running, token_file, .. } = server;
        let began = Instant::now();
        running.signal(signal);
        bench.wait_until("the server's end", LONG, || running.has_ended());
        let took = began.elapsed();
        println!("SIG{signal} with eight browsers: gone after {} ms", took.as_millis());
        assert!(took < Duration::from_secs(1), "{signal}: {took:?}");
        assert_eq!(running.wait(LONG).status.code(), Some(0), "{signal}");
        assert!(!token_file.exists());
    }
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn a_socket_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let bench = Bench::bare("web-socket");
    keep_examples(&bench);
    let path = bench.folder.0.join("web.sock");
    let mut command = bench.linerate(&["web", "--socket", &path.display().to_string()]);
    command.env("XDG_RUNTIME_DIR", &bench.folder.0);
    let running = Running::start(command);
    bench.wait_until("the socket", LONG, || path.exists());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost:4780\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 401") && told.contains("Sign in"), "{told}");
    running.signal("INT");
    assert_eq!(running.wait(LONG).status.code(), Some(0));
    assert!(!path.exists());
}

/// Requests by chance, for so many seconds: LINERATE_WEB_SECONDS, LINERATE_WEB_SEED.
#[test]
fn requests_by_chance_break_nothing() {
    let bench = Bench::bare("web-chance");
    keep_examples(&bench);
    let server = Server::start(&bench, &["--machine", "local"]);
    let seed = number("LINERATE_WEB_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let time = Duration::from_secs(number("LINERATE_WEB_SECONDS").unwrap_or(3));
    println!("LINERATE_WEB_SEED={seed}");
    let mut chance = Chance(seed);
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < time {
        let request = by_chance(&mut chance, &server);
        if let Some(answer) = server.ask_raw_within(&request, Duration::from_millis(300)) {
            let shown = String::from_utf8_lossy(&request).into_owned();
            assert!(answer.status < 500 || answer.status == 503, "{shown}\n{}\n{}", answer.head, answer.body);
            // Plain text may say what it was asked for: no browser takes it for anything else.
            let is_page = ["text/html", "image/svg+xml"].iter().any(|kind| answer.head.contains(kind));
            let is_clean = !answer.body.contains("<script>") && !answer.body.contains("<svg onload");
            let is_as_said = answer.head.contains("x-content-type-options: nosniff");
            assert!(is_clean || !is_page && is_as_said, "{shown}\n{}\n{}", answer.head, answer.body);
        }
        asked += 1;
    }
    println!("{asked} requests");
    server.get("/records").check(200, &["udp-stream"]);
}

/// An address of ours with values by chance, often broken.
fn by_chance(chance: &mut Chance, server: &Server) -> Vec<u8> {
    const NAMES: [&str; 18] = [
        "q",
        "plan",
        "workload",
        "since",
        "limit",
        "sort",
        "order",
        "page",
        "baseline",
        "candidate",
        "metric",
        "margin",
        "on",
        "records",
        "last",
        "form",
        "table",
        "figure",
    ];
    const VALUES: [&str; 32] = [
        "last",
        "last~1",
        "last~99999999999",
        ":",
        "last:rate=300M",
        ":plan=example",
        "00000000000000000000000001",
        "udp-stream",
        "throughput",
        "loss",
        "up",
        "0",
        "-1",
        "1e9",
        "18446744073709551616",
        "csv",
        "json",
        "svg",
        "markdown",
        "text",
        "2h",
        "2026-11-21",
        "1%",
        "NaN",
        "inf",
        "<script>alert(1)</script>",
        "\"><svg onload=alert(1)>",
        "'; DROP TABLE records; --",
        "\u{202e}\u{0}",
        "../../etc/passwd",
        "%",
        "last:since=1h,until=2h",
    ];
    let mut path = chance.of(&pages()).clone();
    path = path.split('?').next().unwrap_or("/").to_owned();
    let mut query = form_urlencoded::Serializer::new(String::new());
    for _ in 0..chance.below(5) {
        let (name, value) = (*chance.of::<&str>(&NAMES), *chance.of::<&str>(&VALUES));
        query.append_pair(name, value);
    }
    let mut body = String::new();
    let method = *chance.of(&["GET", "GET", "GET", "GET", "POST", "HEAD"]);
    if method == "POST" {
        path = (*chance.of(&DOING)).to_owned();
        body = query.finish();
        query = form_urlencoded::Serializer::new(String::new());
    }
    let query = query.finish();
    let mark = if query.is_empty() { "" } else { "?" };
    let length = if method == "POST" { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    let mut request = format!(
        "{method} {path}{mark}{query} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{length}Connection: close\r\n\r\n{body}",
        server.host(),
        server.token
    )
    .into_bytes();
    // Now and then bytes are others, or are not there.
    if chance.below(4) == 0 {
        for _ in 0..=chance.below(4) {
            let at = chance.below(request.len() as u64) as usize;
            request[at] = chance.below(256) as u8;
        }
    }
    if chance.below(16) == 0 {
        request.truncate(chance.below(request.len() as u64) as usize);
        // A head that has no end would be waited for.
        request.extend_from_slice(b"\r\n\r\n");
    }
    request
}
