//! TLS of the server's own: what `openssl s_client` makes of it, and certificates that are none.

#[cfg(feature = "tls")]
use std::io::Write;
#[cfg(feature = "tls")]
use std::process::{Command, Stdio};

use crate::machines::{Bench, Running};
use crate::server::LONG;

/// A certificate of this name and its key, in files of the test's folder; `None`, and a line that says so, without openssl.
#[cfg(feature = "tls")]
fn certificate(bench: &Bench, test: &str, name: &str) -> Option<[String; 2]> {
    let [cert, key] = ["cert", "key"].map(|what| bench.folder.path(&format!("{name}.{what}.pem")));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName=DNS:{name}")]);
    let made = command.args(["-keyout", &key, "-out", &cert]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {test}: it needs openssl");
        return None;
    }
    Some([cert, key])
}

/// What the server answers to a client that trusts this certificate alone.
#[cfg(feature = "tls")]
fn asked(port: u16, cert: &str, more: &[&str], request: &str) -> Option<crate::server::Answer> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}"), "-CAfile", cert]);
    command.args(["-servername", NAME, "-verify_hostname", NAME, "-verify_return_error"]).args(more);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(request.as_bytes());
    // Its input stays open until the server closes: at its end the client would go.
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    crate::server::Answer::of(&output.stdout)
}

#[cfg(feature = "tls")]
const NAME: &str = "lab.example";

#[cfg(feature = "tls")]
#[test]
fn with_a_certificate_what_passes_is_encrypted() {
    use crate::server::{Server, keep_examples};
    let test = "with_a_certificate_what_passes_is_encrypted";
    let bench = Bench::bare("web-tls");
    keep_examples(&bench);
    let Some([cert, key]) = certificate(&bench, test, NAME) else { return };
    let options = ["--tls-cert", cert.as_str(), "--tls-key", &key, "--name", NAME];
    // At every address of this machine: others reach it.
    let server = Server::start_at(&bench, "0.0.0.0:0", &options);
    let host = format!("{NAME}:{}", server.port);
    // Who says nothing keeps nobody out, however many there are.
    let connect = |_| std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let silent: Vec<_> = (0..64).map(connect).collect();
    let ask = |more: &[&str], method: &str, path: &str, fields: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        asked(server.port, &cert, more, &request)
    };
    let bearer = format!("Authorization: Bearer {}\r\n", server.token);
    ask(&[], "GET", "/records", &bearer, "").unwrap().check(200, &["udp-stream"]);
    ask(&[], "GET", "/records", "", "").unwrap().check(401, &["Sign in"]);
    for protocol in ["-tls1_2", "-tls1_3"] {
        ask(&[protocol], "GET", "/campaigns", &bearer, "").unwrap().check(200, &[]);
    }
    assert!(ask(&["-tls1_1"], "GET", "/campaigns", &bearer, "").is_none(), "TLS 1.1 is none");
    // A cookie goes nowhere in the clear.
    let own = format!("Sec-Fetch-Site: same-origin\r\nOrigin: https://{host}\r\n");
    let signed_in = ask(&[], "POST", "/session", &own, &format!("token={}", server.token)).unwrap();
    assert!(signed_in.check(303, &[]).field("set-cookie").unwrap().ends_with("; secure"), "{}", signed_in.head);
    // Nor does anything else: who speaks plain HTTP is told nothing.
    assert!(server.ask_raw(format!("GET / HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n").as_bytes()).is_none());
    let elsewhere = format!("GET / HTTP/1.1\r\nHost: evil.example\r\n{bearer}Connection: close\r\n\r\n");
    asked(server.port, &cert, &[], &elsewhere).unwrap().check(421, &["--name"]);
    drop(silent);
    server.running.signal("INT");
    assert_eq!(server.running.wait(LONG).status.code(), Some(0));
}

#[cfg(feature = "tls")]
#[test]
fn a_certificate_that_is_none_is_one_sentence() {
    let test = "a_certificate_that_is_none_is_one_sentence";
    let bench = Bench::bare("web-tls-wrong");
    let Some([cert, key]) = certificate(&bench, test, NAME) else { return };
    let Some([_, other]) = certificate(&bench, test, "other.example") else { return };
    let nothing = bench.folder.path("nothing.pem");
    std::fs::write(&nothing, "no PEM\n").unwrap();
    let gone = bench.folder.path("gone.pem");
    for (cert, key, parts) in [
        (&cert, &other, ["do not belong together", "its own key"]),
        (&nothing, &key, ["--tls-cert", "BEGIN CERTIFICATE"]),
        (&cert, &nothing, ["--tls-key", "BEGIN PRIVATE KEY"]),
        (&gone, &key, ["--tls-cert", "cannot be read"]),
        (&cert, &gone, ["--tls-key", "cannot be read"]),
    ] {
        let words = ["web", "--listen", "127.0.0.1:0", "--tls-cert", cert.as_str(), "--tls-key", key];
        Running::start(bench.linerate(&words)).wait(LONG).check_sentence(&parts);
    }
    let words = ["web", "--listen", "0.0.0.0:0", "--tls-cert", cert.as_str(), "--tls-key", &key];
    Running::start(bench.linerate(&words)).wait(LONG).check_sentence(&["--name"]);
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_says_so() {
    let bench = Bench::bare("web-without-tls");
    let ran = Running::start(bench.linerate(&["web", "--tls-cert", "a.pem", "--tls-key", "b.pem"])).wait(LONG);
    ran.check_sentence(&["--features tls", "--behind-proxy"]);
}
