//! Client and server against each other and against peers that misbehave, over real processes and sockets.
//! Knows nothing of what requests do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Event, PROTOCOL, RefusalKind, Reply, Request};
use linerate_control::{
    AgentEvent, Client, ConnectOptions, ControlError, ConversationEnd, Endpoint, Link, Machine, Outbox, Server, serve,
};

const LONG: Duration = Duration::from_secs(20);
/// Reads, says nothing, and ends with its input.
const IDLE: &str = "while read line; do :; done";
const HELLO: &str = r#"{"linerate":2,"program":"fake 1"}"#;

fn quick() -> ConnectOptions {
    ConnectOptions {
        connect_timeout: Duration::from_secs(3),
        heartbeat: Duration::from_millis(100),
        silence: Duration::from_millis(600),
        ..ConnectOptions::default()
    }
}

fn machine() -> Machine {
    Machine { name: "target".into(), endpoint: "test".into() }
}

/// An agent that is a shell script. It gets the controller's greeting on its input first.
fn scripted(script: &str) -> Endpoint {
    format!("exec:{script}").parse().unwrap()
}

fn connect(script: &str, options: &ConnectOptions) -> Result<Client, ControlError> {
    Client::connect(&scripted(script), "target", options)
}

fn connect_to(endpoint: &str) -> Result<Client, ControlError> {
    Client::connect(&endpoint.parse().unwrap(), "target", &quick())
}

/// A client of a real server in this process.
fn served(
    server: Server,
    options: &ConnectOptions,
    handler: impl FnMut(linerate_control::message::RequestLine, &Outbox) + Send + 'static,
) -> (Client, mpsc::Receiver<ConversationEnd>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (ending_sent, ending) = mpsc::channel();
    thread::spawn(move || {
        let link = Link::of(theirs.try_clone().unwrap(), theirs);
        let _ = ending_sent.send(serve(link, &server, handler));
    });
    let link = Link::of(ours.try_clone().unwrap(), Closing(ours));
    (Client::over(link, machine(), options).unwrap(), ending)
}

/// A pipe of one socket: dropping the writer closes the conversation, as it does with a child's standard input.
struct Closing(UnixStream);

impl Write for Closing {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// Asserts that `error` is one sentence that holds all of `parts`.
#[track_caller]
fn check(error: &ControlError, parts: &[&str]) {
    let sentence = error.to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "'{part}' is not in: {sentence}");
    }
}

#[test]
fn requests_events_and_refusals_find_their_way() {
    let (client, ending) = served(Server::new("agent 1"), &quick(), |line, outlet| match line.request {
        Request::Start => {
            outlet.reply(line.id, Reply::Done);
            outlet.event(Event::Progress { elapsed_ns: 1, octets_sent: 2, octets_received: 3 });
        }
        Request::Lease { .. } => outlet.refuse(line.id, RefusalKind::Busy, "someone measures; wait"),
        _ => outlet.refuse(line.id, RefusalKind::OutOfOrder, "nothing was prepared; prepare first"),
    });
    assert_eq!(client.hello().program, "agent 1");
    assert_eq!(client.request(Request::Ping, LONG), Ok(Reply::Done));
    assert_eq!(client.request(Request::Start, LONG), Ok(Reply::Done));
    let event = client.events().recv_timeout(LONG).unwrap();
    assert_eq!(event, AgentEvent::Event(Event::Progress { elapsed_ns: 1, octets_sent: 2, octets_received: 3 }));
    let holder = linerate_control::message::Holder { controller: "c".into(), name: "n".into(), fence: None };
    let error = client.request(Request::Lease { holder }, LONG).unwrap_err();
    assert!(matches!(error, ControlError::Busy { .. }));
    check(&error, &["the target (test) is busy", "someone measures"]);
    let error = client.request(Request::Stop, LONG).unwrap_err();
    check(&error, &["the target (test) did not carry out 'stop'", "nothing was prepared"]);
    drop(client);
    assert_eq!(ending.recv_timeout(LONG), Ok(ConversationEnd::Closed));
}

#[test]
fn two_agents_are_asked_at_the_same_time_and_a_slow_one_is_not_lost() {
    let slow = |line: linerate_control::message::RequestLine, outlet: &Outbox| {
        thread::sleep(Duration::from_millis(1200));
        outlet.reply(line.id, Reply::Done);
    };
    let (a, _ending_a) = served(Server::new("a"), &quick(), slow);
    let (b, _ending_b) = served(Server::new("b"), &quick(), slow);
    let began = Instant::now();
    let (first, second) = (a.send(Request::Start), b.send(Request::Start));
    // Twice the silence that counts as loss: the server answers pings while its handler is busy.
    assert_eq!(first.wait(LONG), Ok(Reply::Done));
    assert_eq!(second.wait(LONG), Ok(Reply::Done));
    assert!(began.elapsed() < Duration::from_millis(2000), "{:?}", began.elapsed());
    let error = a.request(Request::Start, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, ControlError::Timeout { .. }));
    check(&error, &["the target (test)", "'start' within 0.05 s"]);
}

#[test]
fn an_agent_killed_in_the_middle_of_a_request_is_told_within_a_second() {
    let options = ConnectOptions { connect_timeout: LONG, ..ConnectOptions::default() };
    // It kills itself half a second after the greeting, with the request unanswered.
    let client = connect(&format!("echo '{HELLO}'; sleep 0.5; kill -9 $$"), &options).unwrap();
    let began = Instant::now();
    let (first, second) = (client.send(Request::Start), client.send(Request::Stop));
    let error = first.wait(LONG).unwrap_err();
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    assert!(matches!(error, ControlError::Lost { .. }));
    check(&error, &["the target (exec:echo", "was lost", "killed by signal 9", "dmesg"]);
    assert_eq!(second.wait(LONG).unwrap_err(), error, "every request is told the same");
    assert_eq!(client.events().recv_timeout(LONG), Ok(AgentEvent::Lost(error.clone())));
    assert_eq!(client.request(Request::Ping, LONG).unwrap_err(), error, "and so is every later one");
}

#[test]
fn a_dead_agent_whose_pipe_a_grandchild_holds_is_noticed() {
    let options = ConnectOptions { connect_timeout: LONG, ..ConnectOptions::default() };
    let client = connect(&format!("echo '{HELLO}'; sleep 7 & sleep 0.2; kill -9 $$"), &options).unwrap();
    let began = Instant::now();
    let error = client.request(Request::Start, LONG).unwrap_err();
    check(&error, &["killed by signal 9"]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_silent_agent_is_lost() {
    let client = connect(&format!("echo '{HELLO}'; {IDLE}"), &quick()).unwrap();
    let began = Instant::now();
    let error = client.request(Request::Start, LONG).unwrap_err();
    assert!(matches!(error, ControlError::Lost { .. }));
    check(&error, &["the target (exec:", "silent for 0.6 s", "check the cable"]);
    assert!((500..2000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[test]
fn an_agent_that_stops_reading_holds_nobody_up() {
    let options = ConnectOptions { silence: LONG, ..quick() };
    let client = connect(&format!("echo '{HELLO}'; exec sleep 30"), &options).unwrap();
    let began = Instant::now();
    let big = Request::Counters { interface: "x".repeat(200_000) };
    let errors: Vec<_> = (0..4).map(|_| client.request(big.clone(), Duration::from_millis(10)).unwrap_err()).collect();
    assert!(matches!(errors[3], ControlError::Lost { .. }), "{errors:?}");
    check(&errors[3], &["stopped reading"]);
    drop(client);
    assert!(began.elapsed() < Duration::from_secs(4), "the agent was killed: {:?}", began.elapsed());
}

#[test]
fn a_request_that_is_too_long_is_refused_here() {
    let (client, _ending) = served(Server::new("a"), &quick(), |_, _| ());
    let error = client.request(Request::Counters { interface: "x".repeat(300_000) }, LONG).unwrap_err();
    check(&error, &["accepts 262144"]);
    assert_eq!(client.request(Request::Ping, LONG), Ok(Reply::Done), "the conversation goes on");
}

#[test]
fn agents_that_cannot_be_talked_to_are_told_apart() {
    for other in [1, 3] {
        let agent = format!(
            r#"echo '{{"linerate":{other},"program":"linerate-agent 9","later":[]}}'; while read line; do :; done"#
        );
        let error = connect(&agent, &quick()).unwrap_err();
        assert!(matches!(error, ControlError::WrongVersion { theirs, ours: PROTOCOL, .. } if theirs == other));
        let version = format!("version {other}");
        check(&error, &["the target (exec:", "linerate-agent 9", &version, "version 2", "install the same"]);
    }

    let error = connect("echo 'no such board' >&2; exit 3", &quick()).unwrap_err();
    assert!(matches!(error, ControlError::Unreachable { .. }));
    check(&error, &["cannot be reached", "status 3", "no such board"]);

    check(&connect("linerate-no-such-program --stdio", &quick()).unwrap_err(), &["status 127", "not found"]);
    check(
        &connect(&format!("echo Welcome; {IDLE}"), &quick()).unwrap_err(),
        &["it said \"Welcome\" and no first line of an agent's within 3 s; see that what"],
    );
    check(&connect(IDLE, &quick()).unwrap_err(), &["it said nothing within 3 s"]);
    for first in [r#"{"linerate":2,"linerate":2,"program":"x"}"#, r#"{"linerate":-2,"program":"x"}"#] {
        let error = connect(&format!("echo '{first}'; {IDLE}"), &quick()).unwrap_err();
        check(&error, &[&format!("it said \"{}\" and no first line", first.escape_debug())]);
    }
    check(&connect("echo Welcome; exec 1>&-; cat >/dev/null", &quick()).unwrap_err(), &["it said \"Welcome\""]);
    check(&connect("cat /dev/zero", &quick()).unwrap_err(), &["limit of 16777216 bytes"]);
    check(&connect(":", &quick()).unwrap_err(), &["its agent ended"]);

    // Without ssh on this machine, the shell says so.
    let refused = connect_to("ssh:127.0.0.1:1").unwrap_err();
    let part = if refused.to_string().contains("127;") {
        "(or ssh not here)"
    } else {
        "refused\"; see that 'ssh -p 1 127.0.0.1' works"
    };
    check(&refused, &["the target (ssh:127.0.0.1:1) cannot be reached", part]);

    let nobody = Endpoint::Netns(format!("linerate-none-{}", std::process::id()));
    check(&Client::connect(&nobody, "host", &quick()).unwrap_err(), &["the host (netns:", "no network namespace"]);
    // It says `--stdio` and ends.
    let options = ConnectOptions { agent_program: Some("/bin/echo".into()), ..quick() };
    check(&Client::connect(&Endpoint::Local, "host", &options).unwrap_err(), &["its agent ended; start it by hand"]);
    let options = ConnectOptions { agent_program: Some("/no/such/agent".into()), ..quick() };
    check(&Client::connect(&Endpoint::Local, "host", &options).unwrap_err(), &["the host (local)", "/no/such/agent"]);
}

#[test]
fn a_login_greeting_before_the_first_line_does_no_harm() {
    let client = connect(&format!("echo Welcome; echo; echo '{HELLO}'; {IDLE}"), &quick()).unwrap();
    assert_eq!(client.hello().program, "fake 1");
}

#[test]
fn answers_and_events_of_a_later_version_are_survived() {
    let script = format!(
        r#"echo '{HELLO}'; echo '{{"event":{{"aurora":{{"kp":7}}}}}}'; read hello; read request
        echo '{{"reply":{{"re":1,"reply":"poem"}}}}'; {IDLE}"#
    );
    let options = ConnectOptions { heartbeat: LONG, silence: LONG, ..quick() };
    let client = connect(&script, &options).unwrap();
    let error = client.request(Request::Start, LONG).unwrap_err();
    check(&error, &["did not carry out 'start'", "cannot be read", "install the same version"]);
}

#[test]
fn an_agent_that_talks_nonsense_is_lost() {
    let client = connect(&format!("echo '{HELLO}'; echo 'driver: debug'; {IDLE}"), &quick()).unwrap();
    let Ok(AgentEvent::Lost(error)) = client.events().recv_timeout(LONG) else { panic!("no news") };
    check(&error, &["it said \"driver: debug\"", "standard output"]);
}

#[test]
fn a_closed_conversation_leaves_no_process_behind() {
    let file = std::env::temp_dir().join(format!("linerate-control-{}", std::process::id()));
    // Ignores the end of its input, and has a child of its own.
    let script = format!("echo '{HELLO}'; sleep 60 & echo $! > {}; wait; sleep 60", file.display());
    let client = connect(&script, &quick()).unwrap();
    let began = Instant::now();
    let grandchild = loop {
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => thread::sleep(Duration::from_millis(5)),
        }
        assert!(began.elapsed() < LONG);
    };
    let _ = std::fs::remove_file(&file);
    let began = Instant::now();
    drop(client);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let alive = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while alive() {
        assert!(began.elapsed() < LONG, "process {grandchild} was left behind");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What the server answers to raw lines, and why it ends.
fn told(lines: &[u8], answers: usize, silence: Duration) -> (Vec<String>, ConversationEnd) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let server = Server { silence, ..Server::new("agent 1") };
    let serving = thread::spawn(move || {
        let link = Link::of(theirs.try_clone().unwrap(), theirs);
        serve(link, &server, |line, outlet| outlet.reply(line.id, Reply::Done))
    });
    let copy = ours.try_clone().unwrap();
    copy.set_read_timeout(Some(LONG)).unwrap();
    let lines = lines.to_vec();
    let writing = thread::spawn(move || {
        let _ = ours.write_all(&lines);
        ours
    });
    let said: Vec<String> = BufReader::new(copy).lines().take(1 + answers).map(|line| line.unwrap()).collect();
    let ours = writing.join().unwrap();
    if silence >= LONG {
        drop(ours);
    }
    (said, serving.join().unwrap())
}

#[test]
fn a_server_refuses_by_name_and_bounds_what_it_reads() {
    let hello = format!("{HELLO}\n");
    let (said, ending) = told(format!("{hello}{{\"id\":5,\"request\":\"fly\"}}\n").as_bytes(), 1, LONG);
    assert!(said[0].contains(r#""linerate":2"#), "{said:?}");
    assert!(said[1].contains(r#""re":5,"kind":"unknown-message""#) && said[1].contains("'fly'"), "{said:?}");
    assert_eq!(ending, ConversationEnd::Closed);

    let (said, _) = told(format!("{hello}junk\n{{\"id\":6,\"request\":\"start\"}}\n").as_bytes(), 2, LONG);
    assert!(said[1].contains(r#""re":null,"kind":"bad-request""#), "{said:?}");
    assert!(said[2].contains(r#""re":6"#), "the conversation goes on: {said:?}");

    let long = [hello.as_bytes(), &vec![b'x'; 300_000]].concat();
    let (said, ending) = told(&long, 1, LONG);
    assert!(said[1].contains("limit of 262144 bytes"), "{said:?}");
    assert!(matches!(ending, ConversationEnd::Nonsense(_)), "{ending}");

    // As deep as a line is long, where either of two forms is taken: the reader's small stack bears it.
    let start = r#"{"id":5,"request":{"set":{"changes":[{"name":"custom.x","value":"1","custom":{"get":"#;
    let deep = format!("{hello}{start}{}\n", "[".repeat(200_000));
    let (said, _) = told(deep.as_bytes(), 1, LONG);
    assert!(said[1].contains("bad-request") && said[1].contains("recursion"), "{said:?}");

    assert_eq!(told(b"{\"linerate\":7}\n", 0, LONG).1, ConversationEnd::WrongVersion(7));
    assert!(matches!(told(b"GET / HTTP/1.1\n", 0, LONG).1, ConversationEnd::Nonsense(_)));
}

#[test]
fn a_silent_controller_is_left() {
    let silence = Duration::from_millis(300);
    assert_eq!(told(b"", 0, silence).1, ConversationEnd::Silent(silence), "even before its greeting");
    assert_eq!(told(format!("{HELLO}\n").as_bytes(), 0, silence).1, ConversationEnd::Silent(silence));
}

#[test]
fn a_busy_handler_sees_that_its_controller_is_gone() {
    let (seen_sent, seen) = mpsc::channel();
    let (client, _ending) = served(Server::new("a"), &quick(), move |_, outlet| {
        let began = Instant::now();
        while !outlet.has_ended() && began.elapsed() < LONG {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = seen_sent.send(began.elapsed());
    });
    let pending = client.send(Request::Start);
    thread::sleep(Duration::from_millis(100));
    drop(pending);
    drop(client);
    assert!(seen.recv_timeout(LONG).unwrap() < Duration::from_secs(3));
}
