//! `linerate console` and the menu of a board's agent, as scripts and people use them: line by line, and in a terminal of tmux.
//! Knows no figures; that a test becomes a record, and that everything is as before afterwards.

mod machines;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_control::message::Holder;
use linerate_control::{Lease, Psk};
use linerate_host::sys::local;
use linerate_lab::Lab;
use machines::{Bench, Ran, Running};

const SOON: Duration = Duration::from_secs(60);

/// Runs a command with these lines as its input.
fn with_lines(command: Command, lines: &[&str]) -> Ran {
    begun_with(command, lines).wait(SOON)
}

/// The same, as long as it runs.
fn begun_with(mut command: Command, lines: &[&str]) -> Running {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (read, mut write) = std::io::pipe().unwrap();
    command.stdin(read);
    write.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let running = Running::start(command);
    // The end of the input is the end of the dialogue, had it not ended by then.
    drop(write);
    running
}

fn console(bench: &Bench, lines: &[&str]) -> Ran {
    let (target, host) = (bench.target(), bench.host());
    with_lines(bench.linerate(&["console", "--plain", "--target", &target, "--host", &host]), lines)
}

/// `linerate agent --menu` in a network namespace of the lab.
fn menu(bench: &Bench, netns: &std::path::Path, lines: &[&str]) -> Ran {
    with_lines(menu_command(bench, netns), lines)
}

fn menu_command(bench: &Bench, netns: &std::path::Path) -> Command {
    bench.linerate(&["agent", "--menu", "--netns", &netns.display().to_string()])
}

fn mtu(lab: &Lab) -> String {
    lab.target
        .run(|| {
            let output = Command::new("ip").args(["-o", "link", "show", "eth0"]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok(text.split_once("mtu ").map_or("", |(_, rest)| rest.split(' ').next().unwrap_or("")).to_owned())
        })
        .unwrap()
}

#[test]
fn a_test_from_the_menu_is_a_record_with_its_settings() {
    let Some(bench) = Bench::new("a_test_from_the_menu_is_a_record_with_its_settings") else { return };
    // The MTU in tests is 1400; then a test of UDP towards the target for a second, 20 Mbit/s, and what it is explained by.
    let lines = ["4", "5", "1400", "0", "10", "1s", "1000", "", "", "20M", "16", "3", "", "0", "0"];
    let ran = console(&bench, &lines);
    ran.check_done();
    assert!(ran.stdout.contains("[1500; in tests 1400]"), "{}", ran.stdout);
    assert!(ran.stdout.contains("linerate run udp-stream --live --target"), "{}", ran.stdout);
    assert!(ran.stdout.contains("linerate explain last"), "{}", ran.stdout);
    let records = bench.records();
    assert_eq!(records.len(), 1, "{ran:?}");
    let asked = |name: &str| records[0].asked.get(name).map(String::as_str);
    assert_eq!((asked("message_size"), asked("rate"), asked("duration")), (Some("1000"), Some("20M"), Some("1s")));
    let set = records[0].target.settings.iter().find(|one| one.name == "mtu").expect("the MTU was set");
    assert_eq!(set.read_back.as_deref(), Some("1400"));
    assert_eq!(mtu(bench.lab()), "1500");
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn an_interface_can_be_chosen_where_there_are_several() {
    let Some(bench) = Bench::new("an_interface_can_be_chosen_where_there_are_several") else { return };
    // That of the target: first as usual, then the loopback, then one that is not there. The host's stays as it is.
    let lines = ["13", "5", "", "11", "lo", "5", "", "11", "gone0", "5", "", "1", "5", "", "0", "4", "0", "0"];
    let ran = console(&bench, &lines);
    ran.check_done();
    for part in
        ["[the first that is up]", "[lo]", "[gone0]", "65536", "no interface gone0", "Shown of gone0; tests go where"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("1500").count(), 2, "the target's first, and the host's: {}", ran.stdout);
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn screens_of_both_machines_are_shown() {
    let Some(bench) = Bench::new("screens_of_both_machines_are_shown") else { return };
    // Each screen, left with Enter; then the other machine's addresses.
    let mut lines = vec!["13"];
    for item in ["2", "3", "4", "5", "6", "7", "8", "9", "10"] {
        lines.extend([item, ""]);
    }
    lines.extend(["1", "9", "", "0", "0"]);
    let ran = console(&bench, &lines);
    ran.check_done();
    let [target, host] = [bench.lab().target.path(), bench.lab().host.path()].map(|path| path.display().to_string());
    for part in [
        "CPU, ms",
        "Nothing to show.",
        "sockets used",
        "pause frames",
        "Ip InReceives",
        "Udp InDatagrams",
        "Tcp InSegs",
        "127.0.0.1/8",
        "measures here",
        "nobody",
        &target,
        &host,
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn a_server_is_on_until_the_console_ends() {
    let bench = Bench::bare("a_server_is_on_until_the_console_ends");
    let lines = ["12", "4", "4", "5", "7", "0", "0"];
    let ran = with_lines(bench.linerate(&["console", "--plain", "--target", "local"]), &lines);
    ran.check_done();
    let row = &linerate_trial::tool::Tool::ALL[3];
    // On, off again; another one ends with the console.
    assert!(ran.stdout.contains(&format!("The server for {} starts on port", row.name)), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("The server for {} is off.", row.name)), "{}", ran.stdout);
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn what_is_missing_or_wrong_is_said_and_asked_again() {
    let bench = Bench::bare("what_is_missing_or_wrong_is_said_and_asked_again");
    let lines = ["7", "x", "forever", "2s", ".", "3", "1", "netns:", "netns:nowhere", "13", "2", "0", "", "?", "0"];
    let ran = with_lines(bench.linerate(&["console", "--plain"]), &lines);
    ran.check_done();
    for part in ["'x'", "Which machine is the target?", "is not an endpoint", "nowhere", "Choose 0 to 17"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    // Lines that no person types.
    let long = "9".repeat(10_000);
    let ran = with_lines(bench.linerate(&["console", "--plain"]), &["\u{1b}[2J", &long, "-1", "\0", "0"]);
    assert!(!ran.check_done().stdout.contains('\u{1b}'));
}

#[test]
fn a_board_changes_its_settings_for_as_long_as_its_menu_runs() {
    let Some(bench) = Bench::new("a_board_changes_its_settings_for_as_long_as_its_menu_runs") else { return };
    let netns = bench.lab().target.path();
    let ran = menu(&bench, &netns, &["2", "1", "1300", "0", "0"]);
    ran.check_done();
    assert!(ran.stdout.contains("mtu: asked 1300, reads 1300, was 1500."), "{}", ran.stdout);
    assert!(ran.stdout.contains("[1 changed]") && ran.stdout.contains("mtu is 1500 again."), "{}", ran.stdout);
    assert_eq!(mtu(bench.lab()), "1500");

    // Its line is lost in the middle, and its process is killed.
    assert!(menu(&bench, &netns, &["2", "1", "1300"]).check_done().stdout.contains("reads 1300"));
    assert_eq!(mtu(bench.lab()), "1500");
    let mut command = bench.linerate(&["agent", "--menu", "--netns", &netns.display().to_string()]);
    let (read, mut write) = std::io::pipe().unwrap();
    command.stdin(read);
    let running = Running::start(command);
    write.write_all(b"2\n1\n1300\n").unwrap();
    bench.wait_until("the MTU is changed", SOON, || mtu(bench.lab()) == "1300");
    running.signal("KILL");
    bench.wait_until("the watchdog puts it back", SOON, || mtu(bench.lab()) == "1500");
    drop(running);

    // While a controller measures, nothing is changed.
    let holder = Holder { controller: "other".to_owned(), name: "somebody at a desk".to_owned(), fence: None };
    let lease = bench.lab().target.run(|| Lease::take(&holder, local::connect).map_err(std::io::Error::other)).unwrap();
    let ran = menu(&bench, &netns, &["2", "1", "1300", "0", "5", "127.0.0.1:1", "", "0"]);
    ran.check_done();
    assert!(ran.stdout.contains("somebody at a desk has been measuring here"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Nothing is changed"), "{}", ran.stdout);
    assert_eq!(mtu(bench.lab()), "1500");
    give_back(&bench, lease);
    bench.check_nothing_runs(Duration::from_secs(5));
}

#[test]
fn a_board_measures_against_an_agent_that_listens() {
    let Some(mut bench) = Bench::new("a_board_measures_against_an_agent_that_listens") else { return };
    let key = bench.folder.path("key");
    Psk::generate_to(key.as_ref()).unwrap();
    let (target, host) = (bench.lab().target.path(), bench.lab().host.path());
    let address = bench.lab().host.run(|| {
        let output = Command::new("ip").args(["-o", "-4", "addr", "show", "eth0"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let word = text.split_whitespace().skip_while(|word| *word != "inet").nth(1).unwrap_or_default().to_owned();
        Ok(word.split('/').next().unwrap_or_default().to_owned())
    });
    let address = format!("{}:7799", address.unwrap());
    let listen = ["agent", "--netns", &host.display().to_string(), "--listen", &address, "--psk-file", &key];
    let listener = Running::start(bench.linerate(&listen));
    let in_host = || {
        bench.lab().host.run(|| {
            let table = fs::read_to_string("/proc/thread-self/net/tcp")?;
            Ok(table.lines().any(|line| line.split_whitespace().nth(3) == Some("0A")))
        })
    };
    bench.wait_until("the host's agent listens", SOON, || in_host().unwrap());
    // RX UDP at 20 Mbit/s, then TX TCP with what was asked last.
    let lines = ["8", &address, &key, "1s", "1000", "", "2", "10M", "5", "", "", "", "8K", "", "", "unlimited", "0"];
    let ran = menu(&bench, &target, &lines);
    ran.check_done();
    let figures: Vec<f64> = ran
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" Mbit/s of payload")?.0.rsplit(' ').next()?.parse().ok())
        .collect();
    assert_eq!(figures.len(), 2, "{}", ran.stdout);
    // Two streams of 10 Mbit/s; a cable of 200 Mbit/s.
    assert!((18.0..21.0).contains(&figures[0]) && (100.0..200.0).contains(&figures[1]), "{figures:?}");
    assert!(ran.stdout.contains("datagrams lost ("), "{}", ran.stdout);

    // Whoever measures at this machine is not disturbed.
    let holder = Holder { controller: "other".to_owned(), name: "somebody at a desk".to_owned(), fence: None };
    let lease = bench.lab().target.run(|| Lease::take(&holder, local::connect).map_err(std::io::Error::other)).unwrap();
    let ran = menu(&bench, &target, &["5", &address, &key, "1s", "", "", "", "", "0"]);
    assert!(
        ran.check_done().stdout.contains("On this machine: somebody at a desk has been measuring"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("Mbit/s of payload"), "{}", ran.stdout);
    give_back(&bench, lease);

    // The cable is pulled in the middle.
    let lines = ["7", &address, &key, "2s", "", "", "", "", "0"];
    let running = begun_with(menu_command(&bench, &target), &lines);
    bench.wait_for_traffic(1000);
    bench.lab_mut().set_carrier(false).unwrap();
    let ran = running.wait(SOON);
    assert!(ran.check_done().stdout.contains("did not end in time; see the cable"), "{}", ran.stdout);
    drop(listener);
    bench.check_nothing_runs(Duration::from_secs(15));
}

/// A lease is a name of its namespace, where it is given back.
fn give_back(bench: &Bench, lease: Lease) {
    bench
        .lab()
        .target
        .run(|| {
            drop(lease);
            Ok(())
        })
        .unwrap();
}

/// A terminal of tmux with a shell in it. It ends with this.
struct Tmux {
    name: String,
}

/// Tells which test is left out in a build without it.
fn has_full_screen(test: &str) -> bool {
    if !cfg!(feature = "console") {
        eprintln!("SKIPPED {test}: built without the feature console");
    }
    cfg!(feature = "console")
}

impl Tmux {
    /// `None`, and a line that says so, where there is no tmux, or no full screen is built in.
    fn start(test: &str, columns: u16, rows: u16, bench: &Bench) -> Option<Tmux> {
        if !has_full_screen(test) {
            return None;
        }
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("SKIPPED {test}: there is no tmux; cargo xtask setup installs it");
            return None;
        }
        let tmux = Tmux { name: format!("linerate-{test}-{}", std::process::id()) };
        let mut command = Command::new("tmux");
        bench.dress(&mut command);
        command.env_remove("TMUX").env_remove("COLUMNS").env("PS1", "shell> ").env("LC_ALL", "C.UTF-8");
        command.env("LINERATE_TEST_PANIC", "1").env("RUST_BACKTRACE", "0");
        let (x, y) = (columns.to_string(), rows.to_string());
        command.args(["-L", &tmux.name, "-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y]);
        assert!(command.args(["/bin/sh", "-i"]).status().unwrap().success());
        tmux.wait("shell>");
        Some(tmux)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.name]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn wait(&self, part: &str) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            let shown = self.shown();
            if shown.contains(part) {
                return shown;
            }
            assert!(Instant::now() < deadline, "'{part}' did not come:\n{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The console's process in this test.
fn process(bench: &Bench) -> u32 {
    let is_it = |command: &str| command.contains("linerate console");
    let found: Vec<_> = bench.processes().into_iter().filter(|(_, command)| is_it(command)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].0
}

/// What it has written so far, bytes, and used of the CPUs, ticks.
fn used(process: u32) -> (u64, u64) {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (written, fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

/// The command line in the terminal's shell.
fn in_shell() -> String {
    format!("{} console --target local", env!("CARGO_BIN_EXE_linerate"))
}

#[test]
fn the_full_screen_shows_the_same_and_gives_the_terminal_back() {
    let test = "the_full_screen_shows_the_same_and_gives_the_terminal_back";
    let bench = Bench::bare(test);
    let Some(tmux) = Tmux::start("whole", 80, 24, &bench) else { return };
    for how in ["q", "TERM", "HUP", "panic"] {
        tmux.line(&in_shell());
        let shown = tmux.wait("0  Exit");
        assert!(shown.contains("1  Target") && shown.contains("17  Remote control"), "{shown}");
        match how {
            "q" => tmux.keys(&["q"]),
            "panic" => tmux.keys(&["F12"]),
            signal => machines::signal(process(&bench), signal),
        }
        bench.wait_until("it has ended", SOON, || {
            bench.processes().iter().all(|(_, command)| !command.contains("linerate console"))
        });
        // The shell's screen is back, it echoes, and lines are lines.
        tmux.line(&format!("stty -a | grep -c ' echo ' ; echo back-{how}"));
        let shown = tmux.wait(&format!("\nback-{how}"));
        // What is typed early stands before the shell's first prompt.
        let echoes = shown.lines().any(|line| line.trim_start_matches("shell> ").trim() == "1");
        assert!(shown.contains("shell>") && echoes && !shown.contains("0  Exit"), "{how}: {shown}");
        assert_eq!(shown.contains("panicked"), how == "panic", "{shown}");
        tmux.line("clear");
        bench.wait_until("the screen is empty", SOON, || !tmux.shown().contains("back-"));
    }
}

/// Benches, jobs and workers of a queue, line by line and on a full screen, which shows what changes.
#[cfg(feature = "nats")]
#[test]
fn a_team_s_queue_is_shown_where_there_is_one() {
    use machines::queue::{Queue, id};
    let name = "a_team_s_queue_is_shown_where_there_is_one";
    let bench = Bench::bare(name);
    let Some(queue) = Queue::start(name, &bench).map(Queue::with_examples) else { return };
    let url = queue.nats.url();
    let lines = ["18", "1", "", "2", "", "3", "", "4", &id(3), "5", &id(2), "6", "0", "0"];
    let ran = with_lines(bench.linerate(&["console", "--plain", "--queue", &url]), &lines);
    ran.check_done();
    let show = format!("linerate jobs show {} --queue={url}", id(3));
    for part in [
        "18  Team",
        &url,
        "measures (lab-1)",
        "maintenance: new board (ann)",
        "Again every 5 s",
        "lab-1",
        &show,
        "Ended 2026-",
        "taken out of the queue",
        "the bench does not allow it",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(ran.stdout.contains("waiting"), "{}", ran.stdout);
    // One that cannot be reached is said, and the menu goes on.
    let mut command = bench.linerate(&["console", "--plain"]);
    command.env("LINERATE_QUEUE", "nats://127.0.0.1:1");
    let ran = with_lines(command, &["18", "1", "", "0", "0"]);
    assert!(ran.check_done().stdout.contains("cannot be reached"), "{}", ran.stdout);

    let Some(tmux) = Tmux::start(name, 80, 24, &bench) else { return };
    tmux.line(&format!("{} --queue {url}", in_shell()));
    tmux.wait("Team");
    tmux.keys(&["1", "8", "Enter"]);
    tmux.wait("Workers");
    tmux.keys(&["Enter"]);
    tmux.wait("measures (lab-1)");
    let began = serde_json::json!({"event": "trial_began", "place": 3, "planned": 24, "words": "tcp-stream", "index": 0,
        "repeat": 0, "configuration": 0, "expected_s": 2.0, "offered_bps": null, "left": null});
    queue.tell(&id(1), &began);
    let shown = tmux.wait("trial 3 of 24");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    tmux.keys(&["Escape"]);
    tmux.wait("Take a job back");
    tmux.keys(&["2", "Enter"]);
    let shown = tmux.wait("running");
    assert!(!shown.contains("waiting"), "it was taken back: {shown}");
    tmux.keys(&["Escape"]);
    tmux.wait("Take a job back");
    tmux.keys(&["q"]);
    tmux.wait("18  Team");
    tmux.keys(&["q"]);
    tmux.wait("shell>");
}

/// By `kill -TSTP`: the shell has a whole terminal meanwhile, and the console has it again after.
#[test]
fn the_full_screen_stands_still_and_goes_on() {
    let bench = Bench::bare("the_full_screen_stands_still_and_goes_on");
    let Some(tmux) = Tmux::start("stands", 80, 24, &bench) else { return };
    tmux.line("set -m");
    tmux.line(&in_shell());
    tmux.wait("0  Exit");
    machines::signal(process(&bench), "TSTP");
    // As the shell says it: what is typed before that, nobody may read.
    tmux.wait("Stopped");
    let is_whole = |shown: &str| {
        let echoes = shown.lines().any(|line| line.trim_start_matches("shell> ").trim() == "1");
        assert!(echoes && !shown.contains("0  Exit"), "{shown}");
    };
    tmux.line("stty -a | grep -c ' echo '; echo held");
    is_whole(&tmux.wait("\nheld"));
    tmux.line("clear; fg");
    tmux.wait("0  Exit");
    tmux.keys(&["Down"]);
    tmux.wait("the machine at the other end");
    tmux.keys(&["q"]);
    bench.wait_until("it has ended", SOON, || {
        bench.processes().iter().all(|(_, command)| !command.contains("linerate console"))
    });
    tmux.line("stty -a | grep -c ' echo '; echo after");
    is_whole(&tmux.wait("\nafter"));
}

/// On a serial line whose other end is a program, or slow, nobody answers what a terminal is asked.
#[test]
fn the_full_screen_needs_no_answer_of_the_terminal() {
    let test = "the_full_screen_needs_no_answer_of_the_terminal";
    if !has_full_screen(test) {
        return;
    }
    let bench = Bench::bare(test);
    let mut command = Command::new("script");
    bench.dress(&mut command);
    // Its pty answers nothing; what is typed there comes from here.
    let in_pty = format!("stty rows 24 cols 80; {}; stty -a", in_shell());
    command.args(["--quiet", "--command", &in_pty, "/dev/null"]).env("TERM", "xterm");
    let (read, mut keys) = std::io::pipe().unwrap();
    command.stdin(read).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    // What is typed before the terminal is taken may be thrown away.
    bench.wait_until("it has ended", SOON, || {
        let _ = keys.write_all(b"\x0cq");
        running.has_ended()
    });
    let ran = running.wait(SOON);
    assert!(!ran.stdout.contains("cannot be taken"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Enter chooses"), "{}", ran.stdout);
    let left = ran.stdout.rfind("\x1b[?1049l").expect("the shell's screen is back");
    assert!(ran.stdout[left..].contains(" echo ") && ran.stdout[left..].contains(" icanon "), "{}", ran.stdout);
}

#[test]
fn the_full_screen_measures_and_watches() {
    let test = "the_full_screen_measures_and_watches";
    let bench = Bench::bare(test);
    let Some(tmux) = Tmux::start("measures", 60, 20, &bench) else { return };
    tmux.line(&in_shell());
    tmux.wait("15  Plans");
    // RX UDP: a second of 10 Mbit/s over the loopback.
    tmux.keys(&["1", "0", "Enter"]);
    tmux.wait("How long [10s]:");
    for answer in ["1s", "1000", "", "", "10M"] {
        tmux.line(answer);
    }
    let shown = tmux.wait("Done.");
    assert!(shown.contains("Ctrl-C") || shown.contains("Esc goes back"), "{shown}");
    assert_eq!(bench.finished(), 1, "{shown}");
    tmux.keys(&["Escape"]);
    tmux.wait("[1s, message 1000, load 10M]");
    // A screen, and back.
    tmux.keys(&["1", "3", "Enter"]);
    tmux.wait("Buffer pools");
    tmux.keys(&["7", "Enter"]);
    tmux.wait("Udp InDatagrams");
    // Two at once would be one key with Alt.
    tmux.keys(&["Escape"]);
    tmux.wait("Buffer pools");
    tmux.keys(&["Escape"]);
    // A command that is ended.
    tmux.wait("1  Target");
    tmux.keys(&["9", "Enter"]);
    for answer in ["60s", "", "", "", "1M"] {
        tmux.line(answer);
    }
    let shown = tmux.wait("Trial 1 of 1: udp-stream");
    assert!(shown.contains("60s"), "{shown}");
    tmux.keys(&["C-c"]);
    tmux.wait("Ended");
    tmux.keys(&["C-c"]);
    bench.check_nothing_runs_but(&["tmux", "/bin/sh"], Duration::from_secs(10));
}

#[test]
fn the_full_screen_is_quiet_and_light() {
    let test = "the_full_screen_is_quiet_and_light";
    let bench = Bench::bare(test);
    let Some(tmux) = Tmux::start("quiet", 80, 24, &bench) else { return };
    tmux.line(&in_shell());
    tmux.wait("0  Exit");
    let process = process(&bench);
    let mut first = 0;
    bench.wait_until("it is drawn", SOON, || {
        let before = std::mem::replace(&mut first, used(process).0);
        std::thread::sleep(Duration::from_millis(200));
        first == before
    });
    let (first, before) = used(process);
    // At 9600 baud, 960 bytes a second, it is there in three seconds.
    assert!(first < 3000, "the first screen took {first} bytes");
    std::thread::sleep(Duration::from_secs(4));
    let (still, after) = used(process);
    // 0.5 % of a core in 4 s are two ticks of 10 ms.
    assert!(still == first && after - before <= 2, "{} bytes, {} ticks in 4 s", still - first, after - before);
    tmux.keys(&["Down"]);
    bench.wait_until("the next one is chosen", SOON, || used(process).0 > still);
    std::thread::sleep(Duration::from_millis(300));
    let moved = used(process).0 - still;
    println!(
        "first screen {first} bytes; {} bytes and {} ticks in 4 s; a key {moved} bytes",
        still - first,
        after - before
    );
    assert!(moved < 500, "a key took {moved} bytes");
}
