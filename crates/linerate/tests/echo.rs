//! `linerate echo` between two machines: what it says, that it goes on while nobody reads it, and that nothing stays behind.
//! Knows no headers; crate `host` tests what comes back.

mod machines;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::xdp::attach::AttachPoint;
use linerate_host::xdp::checker::{Checker, CheckerOptions};
use linerate_host::xdp::generator::{Extent, Generator, GeneratorOptions, Pace};
use linerate_lab::Shape;
use linerate_wire::frame::FrameKind;
use linerate_wire::template::{Template, Vlans};
use machines::Bench;
use serde_json::Value;

const SECRET: u32 = 0x1c0f_fee1;

/// `linerate echo` in the target, from when it says that it answers.
fn start(bench: &Bench, arguments: &[&str], stdout: impl Into<Stdio>) -> (Child, String) {
    let netns = format!("--net={}", bench.lab().target.path().display());
    let mut command = Command::new("nsenter");
    command.args([&netns, env!("CARGO_BIN_EXE_linerate"), "echo", "--interface", "eth0"]).args(arguments);
    bench.dress(&mut command);
    let mut echo = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(echo.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    (echo, said)
}

fn interrupt(echo: &Child) {
    let killed = Command::new("kill").args(["-INT", &echo.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Whether a program is attached to the target's interface.
fn is_attached(bench: &Bench) -> bool {
    let netns = format!("--net={}", bench.lab().target.path().display());
    let link = Command::new("nsenter").args([&netns, "ip", "link", "show", "eth0"]).output().unwrap();
    assert!(link.status.success());
    String::from_utf8_lossy(&link.stdout).contains("prog/xdp")
}

/// Counts at the host what comes back. `None`: this machine has no XDP, and says so.
fn checker(test: &str, bench: &Bench) -> Option<Checker> {
    let options = CheckerOptions { echoed: true, ..CheckerOptions::new(SECRET, 1) };
    let attach = || Checker::attach("eth0", &options, Some(AttachPoint::Driver)).map_err(io::Error::other);
    match bench.lab().host.run(attach) {
        Ok(checker) => Some(checker),
        Err(lacking) => {
            eprintln!("SKIPPED {test}: {lacking}");
            None
        }
    }
}

/// Sends 500 frames from the host within 50 ms, and waits until `came` has as many more; they may be fewer on a machine
/// without CPU time.
fn send(bench: &Bench, checker: &Checker) -> u64 {
    let (to, from) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let vlans = Vlans::NONE;
    let template = Template {
        kind: FrameKind::Udp4,
        vlans,
        to,
        from,
        frame_len: 64,
        reverse: false,
        ends: None,
        hops: 64,
        dscp: 0,
    };
    let pace = Some(Pace::per_second(10_000));
    let options = GeneratorOptions { pace, ..GeneratorOptions::new(template, SECRET) };
    // Each time the numbers begin again, so that later frames are copies of the first ones.
    let came = || checker.stream(0).unwrap().measured.received + checker.stream(0).unwrap().measured.duplicated;
    let before = came();
    let sent = bench.lab().host.run(|| {
        let generator = Generator::new("eth0", &options).map_err(io::Error::other)?;
        generator.run(Extent { frames: Some(500), duration: None })?;
        Ok(generator.counts()?.frames)
    });
    let until = Instant::now() + Duration::from_secs(2);
    while came() < before + sent.as_ref().unwrap() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    came() - before
}

#[test]
fn an_echo_goes_on_while_nobody_reads_what_it_says() {
    const TEST: &str = "an_echo_goes_on_while_nobody_reads_what_it_says";
    let Some(bench) = Bench::of(TEST, &Shape::unshaped()) else { return };
    for way in ["driver", "socket"] {
        let Some(checker) = checker(TEST, &bench) else { return };
        // Live frames arrive where there is a program, which the echo by a socket is not.
        let pass = (way == "socket").then(|| {
            let pass = || linerate_host::xdp::attach::PassProgram::attach("eth0").map_err(io::Error::other);
            bench.lab().target.run(pass).unwrap()
        });
        // As much as a pipe holds, so that the first line waits for a reader.
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(&[b'\n'; 65_536]).unwrap();
        let (mut echo, said) =
            start(&bench, &["--secret", "1c0ffee1", "--way", way, "--interval", "100ms", "--json"], writer);
        assert!(said.contains("eth0 answers test frames with the secret 1c0ffee1"), "{said}");
        let mut came = 0;
        for _ in 0..3 {
            let now = send(&bench, &checker);
            assert!(now > 100, "{way}: {now} came back");
            came += now;
            thread::sleep(Duration::from_millis(120));
        }
        assert_eq!(echo.try_wait().unwrap(), None);
        interrupt(&echo);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(echo.wait().unwrap().success());
        let lines: Vec<Value> = text.trim().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let sum = |name: &str| lines.iter().map(|line| line[name].as_u64().unwrap()).sum::<u64>();
        assert!(sum("sent") >= came && sum("sent") == sum("received") && sum("received") <= 1500, "{text}");
        assert_eq!((sum("errors"), lines[0]["refused"]["returned"].as_u64()), (0, Some(0)), "{text}");
        // The first line was about when nobody read yet; the last had waited for Ctrl-C.
        assert!(lines.len() >= 2 && lines.iter().all(|line| line["elapsed_s"].as_f64() > Some(0.09)), "{text}");
        drop(pass);
        assert!(!is_attached(&bench), "{way}");
    }
}

#[test]
fn nothing_stays_behind_however_it_ends() {
    const TEST: &str = "nothing_stays_behind_however_it_ends";
    let Some(bench) = Bench::of(TEST, &Shape::unshaped()) else { return };
    if checker(TEST, &bench).is_none() {
        return;
    }
    let (mut killed, said) = start(&bench, &[], Stdio::piped());
    let secret = said.split(' ').find(|word| word.len() == 9 && word.ends_with(',')).map(|word| &word[..8]);
    assert!(secret.is_some_and(|secret| u32::from_str_radix(secret, 16).is_ok()), "{said}");
    assert!(is_attached(&bench), "{said}");
    // A second one is told that the place is taken.
    let mut second = start(&bench, &["--way", "driver"], Stdio::piped());
    assert!(second.1.contains("eth0 has an XDP program already"), "{}", second.1);
    assert_eq!(second.0.wait().unwrap().code(), Some(2));
    killed.kill().unwrap();
    killed.wait().unwrap();
    bench.wait_until("the program to be taken off", Duration::from_secs(5), || !is_attached(&bench));

    let (mut ended, _) = start(&bench, &["--interval", "100ms"], Stdio::piped());
    thread::sleep(Duration::from_millis(250));
    interrupt(&ended);
    let mut text = String::new();
    ended.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(ended.wait().unwrap().success());
    assert!(!is_attached(&bench));
    let first: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(first.len() >= 4 && first[0] == "time" && first.last() == Some(&"total"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn what_is_missing_is_said_in_a_sentence() {
    let bench = Bench::bare("what_is_missing_is_said_in_a_sentence");
    let said = |arguments: &[&str], user: Option<u32>| {
        let mut command = bench.linerate(&["echo"]);
        command.args(arguments);
        user.map(|user| command.uid(user).gid(user));
        let output = command.output().ok()?;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        Some(String::from_utf8(output.stderr).unwrap())
    };
    let none = said(&["--interface", "none0"], None).unwrap();
    assert_eq!(none, "linerate: this machine has no interface none0; 'ip link' shows those it has\n");
    assert!(said(&["--interface", "lo", "--secret", "12"], None).unwrap().contains("write 8 hexadecimal digits"));
    // As nobody, where this process may become that, and nobody may run the program.
    if let Some(said) = said(&["--interface", "lo"], Some(65_534)) {
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("run as root") || said.contains("lo is down"), "{said}");
    }
}

/// The host's side: frames sent to the echo at the target, and what came of them.
fn asked(bench: &Bench, options: &[&str]) -> Value {
    let in_target = format!("--net={}", bench.lab().target.path().display());
    let address = Command::new("nsenter").args([&in_target, "ip", "-o", "link", "show", "eth0"]).output().unwrap();
    let said = String::from_utf8(address.stdout).unwrap();
    let mac = said.split("link/ether ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let netns = format!("--net={}", bench.lab().host.path().display());
    let mut command = Command::new("nsenter");
    command.args([&netns, env!("CARGO_BIN_EXE_linerate"), "echo", "--interface", "eth0", "--secret", "1c0ffee1"]);
    command.args(["--ask", &mac, "--json"]).args(options);
    bench.dress(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(text.trim().lines().last().unwrap()).unwrap();
    assert_eq!(last["total"], true, "{text}");
    last
}

/// One frame at a time, and a hundred: what is sent comes back, or somebody has counted it; the kernel answers much faster.
#[test]
fn what_is_asked_comes_back_from_the_kernel_sooner_than_from_a_socket() {
    const TEST: &str = "what_is_asked_comes_back_from_the_kernel_sooner_than_from_a_socket";
    let Some(bench) = Bench::of(TEST, &Shape::unshaped()) else { return };
    if checker(TEST, &bench).is_none() {
        return;
    }
    // An hour of it is what docs/echo.md says; longer than a second in CI.
    let many = machines::number("LINERATE_ECHO_SECONDS").unwrap_or(1);
    let is_faster = (0..3).any(|_| {
        let took = ["driver", "socket"].map(|way| {
            let (echo, said) = start(&bench, &["--secret", "1c0ffee1", "--way", way, "--json"], Stdio::piped());
            assert!(said.contains("answers"), "{said}");
            let number =
                |value: &Value, name: &str| value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value:#}"));
            let one = asked(&bench, &["--duration", "500ms"]);
            let time = format!("{many}s");
            let hundred = asked(&bench, &["--in-flight", "100", "--frame-size", "128", "--duration", &time]);
            interrupt(&echo);
            let output = echo.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let lines: Vec<Value> = text.trim().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let echoed = |name: &str| lines.iter().map(|line| number(line, name)).sum::<u64>();
            let sum = |name: &str| number(&one, name) + number(&hundred, name);
            let (rate, p50_s) = (&one["returned_per_s"], &one["p50_s"]);
            println!("{way}: one at a time {rate} a second, {p50_s} s; of a hundred {} came back", hundred["returned"]);
            assert_eq!(sum("sent"), sum("returned") + sum("lost"));
            assert_eq!((sum("strays"), sum("late")), (0, 0), "{hundred:#}");
            // To the frame: what did not come back, the echo could not send, or the socket here had no room for.
            assert_eq!(sum("lost"), echoed("dropped") + sum("overrun") + sum("sent") - echoed("received"), "{text}");
            one["p50_s"].as_f64().unwrap()
        });
        // Of one at a time, how long half of them take is how many there are in a second, whatever else the machine does now and then.
        took[1] >= 3.0 * took[0]
    });
    assert!(is_faster, "less than three times as many as by a socket, three times");
}

#[test]
fn an_echo_that_is_not_there_is_asked_ten_times_a_second() {
    const TEST: &str = "an_echo_that_is_not_there_is_asked_ten_times_a_second";
    let Some(bench) = Bench::of(TEST, &Shape::unshaped()) else { return };
    let netns = format!("--net={}", bench.lab().host.path().display());
    let mut command = Command::new("nsenter");
    command.args([&netns, env!("CARGO_BIN_EXE_linerate"), "echo", "--interface", "eth0", "--secret", "1c0ffee1"]);
    command.args(["--ask", "02:00:00:00:00:77", "--in-flight", "256", "--duration", "500ms"]);
    bench.dress(&mut command);
    let output = command.output().unwrap();
    let (said, text) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing came back from 02:00:00:00:00:77"), "{said}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let total: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    let (sent, lost): (u64, u64) = (total[total.len() - 2].parse().unwrap(), total[total.len() - 1].parse().unwrap());
    assert!(sent == lost && (3..=6).contains(&sent), "{text}");
}
