//! `linerate echo` between two machines: what it says, that it goes on while nobody reads it, and that nothing stays behind.
//! Knows no headers; crate `host` tests what comes back.

mod machines;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use linerate_host::xdp::attach::Place;
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
    let netns = format!("--net={}", bench.lab().target_netns().display());
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
    let netns = format!("--net={}", bench.lab().target_netns().display());
    let link = Command::new("nsenter").args([&netns, "ip", "link", "show", "eth0"]).output().unwrap();
    assert!(link.status.success());
    String::from_utf8_lossy(&link.stdout).contains("prog/xdp")
}

/// Counts at the host what comes back. `None`: this machine has no XDP, and says so.
fn checker(test: &str, bench: &Bench) -> Option<Checker> {
    let options = CheckerOptions { secret: SECRET, streams: 1, echoed: true };
    let attach = || Checker::attach("eth0", options, Some(Place::Driver)).map_err(io::Error::other);
    match bench.lab().in_host(attach) {
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
    let template =
        Template { kind: FrameKind::Udp4, vlans, to, from, frame_len: 64, reverse: false, hops: 64, dscp: 0 };
    let pace = Some(Pace::per_second(10_000));
    let options =
        GeneratorOptions { template, secret: SECRET, stream: 0, flows: 1, pace, batch: None, warmup: Duration::ZERO };
    // Each time the numbers begin again, so that later frames are copies of the first ones.
    let came = || checker.stream(0).unwrap().measured.received + checker.stream(0).unwrap().measured.duplicated;
    let before = came();
    let sent = bench.lab().in_host(|| {
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
            let pass = || linerate_host::xdp::attach::Pass::attach("eth0").map_err(io::Error::other);
            bench.lab().in_target(pass).unwrap()
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
