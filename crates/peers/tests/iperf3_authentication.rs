//! Users and passwords of iperf3, against the real program in both roles and against our own.
//! Knows no records. Says so and passes where iperf3 is missing, or was built without authentication.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linerate_machine::end::Direction;
use linerate_peers::Route;
use linerate_peers::iperf3::authentication::{Credentials, Guard};
use linerate_peers::limits::Limits;
use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};
use linerate_trial::tool::Tool;

mod serving;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keys");

fn key(name: &str) -> String {
    std::fs::read_to_string(format!("{KEYS}/{name}")).unwrap()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn tokens(user: &str, password: &str) -> Vec<String> {
    Credentials::new(&key("public.pem"), user, password).unwrap().tokens(now_s()).unwrap()
}

fn run(tokens: &[String], server: SocketAddr) -> Result<[Outcome; 2], String> {
    let mut spec = Spec::new(Workload::TcpStream);
    (spec.direction, spec.extent) = (Direction::Rx, Extent::Time(Duration::from_millis(200)));
    spec.rate = "10M".parse().unwrap();
    let local: IpAddr = "127.0.0.1".parse().unwrap();
    let route = Route { local, interface: Some("lo".to_owned()), server, unanswered: None };
    linerate_peers::run(Tool::Iperf3, tokens, &spec, &route, |_| {}, &|| false).map_err(|error| error.to_string())
}

fn has_authentication() -> bool {
    let said = Command::new("iperf3").arg("--version").output();
    let has = said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("authentication"));
    if !has {
        println!("SKIPPED: iperf3 cannot be run here, or knows no users; apt-get install iperf3");
    }
    has
}

/// A program that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_real_server_knows_us_and_says_when_it_does_not() {
    if !has_authentication() {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("iperf3");
    server.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
    server.args(["--rsa-private-key-path", &format!("{KEYS}/private.pem")]);
    server.args(["--authorized-users-path", &format!("{KEYS}/users")]).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running(server.spawn().unwrap());
    let at = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    // Its listener may not be open yet.
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut said = run(&tokens("mario", "rossi"), at);
    while said.is_err() && Instant::now() < deadline {
        said = run(&tokens("mario", "rossi"), at);
    }
    assert!(said.unwrap()[0].flows[0].octets > 0);
    let sentence = run(&tokens("mario", "verdi"), at).unwrap_err();
    assert!(sentence.contains("error 142") && sentence.contains("see that user, password"), "{sentence}");
    let sentence = run(&[], at).unwrap_err();
    assert!(sentence.contains("give --username"), "{sentence}");
}

/// Has a guarded server of ours while `work` goes on with its port. Returns what that says, and what we saw.
fn guarded<T>(work: impl FnOnce(SocketAddr) -> T) -> (T, Vec<ServedTest>) {
    let guard = Guard::new(Guard::key(&key("private.pem")).unwrap(), Guard::users(&key("users")).unwrap()).unwrap();
    let address: IpAddr = "127.0.0.1".parse().unwrap();
    let mut server = Server::bind(Tool::Iperf3, Some(address), 0, Limits::default()).unwrap();
    server.guard(Box::new(move |token| guard.user(token, now_s()).is_some()));
    serving::serve(&server, address, work, serving::at_once)
}

fn is_measured(served: &ServedTest) -> bool {
    served.ended.is_ok()
}

#[test]
fn the_real_client_is_known_to_us_or_told_in_its_own_words() {
    if !has_authentication() {
        return;
    }
    let (printed, served) = guarded(|at| {
        ["rossi", "verdi"].map(|password| {
            let mut client = Command::new("timeout");
            client.args(["20", "iperf3", "-c", "127.0.0.1", "-p", &at.port().to_string(), "-t", "1", "-b", "10M"]);
            client.args(["--username", "mario", "--rsa-public-key-path", &format!("{KEYS}/public.pem")]);
            let output = client.env("IPERF3_PASSWORD", password).output().unwrap();
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        })
    });
    assert!(printed[0].contains("iperf Done"), "{}", printed[0]);
    assert!(printed[1].contains("test authorization failed"), "{}", printed[1]);
    assert_eq!(served.iter().filter(|one| is_measured(one)).count(), 1);
}

#[test]
fn our_own_ends_agree_in_either_padding_and_refuse_after_the_same_time() {
    let (times, served) = guarded(|at| {
        let mut both = tokens("mario", "rossi");
        run(&both, at).unwrap();
        both.reverse();
        run(&both[..1], at).unwrap();
        let wrong = tokens("mario", "verdi");
        let nobody = tokens("luigi", "rossi");
        [&wrong[..1], &wrong[1..], &nobody[..1], &["Zm9v".to_owned()], &[]].map(|tokens| {
            let began = Instant::now();
            let sentence = run(tokens, at).unwrap_err();
            assert!(sentence.contains("error 142"), "{sentence}");
            began.elapsed()
        })
    });
    assert_eq!(served.iter().filter(|one| is_measured(one)).count(), 2);
    assert!(times.iter().all(|time| *time >= Duration::from_millis(200)), "{times:?}");
}

#[test]
fn those_who_are_silent_keep_no_user_out() {
    use std::io::{Read, Write};
    let ((), served) = guarded(|at| {
        // As many as there may be tests, each with a cookie and no parameters; then each with parameters and no token.
        let text = r#"{"tcp":true,"time":60,"parallel":1,"len":1000}"#;
        let parameters = [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        for asks in [&[][..], &parameters] {
            let open: Vec<_> = (0..40)
                .map(|number| {
                    let mut stream = std::net::TcpStream::connect(at).unwrap();
                    stream.write_all(format!("{number:036}\0").as_bytes()).unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                    stream.write_all(asks).unwrap();
                    stream
                })
                .collect();
            let began = Instant::now();
            run(&tokens("mario", "rossi"), at).unwrap();
            assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
            drop(open);
        }
    });
    assert_eq!(served.len(), 2, "{served:?}");
}
