//! How a server is reached: by its URL, with a password that stands on no command line, and encrypted over a network.
//! Knows no table.

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, io, thread};

use ::postgres::config::{Host, SslMode};
use ::postgres::{Client, Config, NoTls};
use linerate_machine::sync::Mutex;

use crate::error::{StoreError, postgres_said as said};

/// As long as a person waits for a server that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What the server that this URL names answers in this time, and the URL as it may be shown.
pub(super) fn ask<T: Send + 'static>(
    url: &str,
    patience: Duration,
    question: impl FnOnce(Client) -> T + Send + 'static,
) -> Result<(T, PathBuf), StoreError> {
    let mut config = config(url)?;
    if config.get_user().is_none() {
        config.user(&env::var("PGUSER").or_else(|_| env::var("USER")).unwrap_or_else(|_| "root".to_owned()));
    }
    if config.get_hosts().is_empty() {
        config.host_path("/var/run/postgresql");
    }
    let shown = PathBuf::from(shown(&config));
    let no_access = |why: String| StoreError::NoAccess { url: shown.clone(), why };
    if let Some(password) = password(&config).map_err(|error| no_access(error.to_string()))? {
        config.password(password);
    }
    config.connect_timeout(patience).application_name("linerate").tcp_user_timeout(PATIENCE * 3);
    // What never leaves this machine is in the clear, unless it is asked otherwise; a socket in a folder always is, as with libpq.
    let is_asked = config.get_ssl_mode() == SslMode::Require;
    let is_near = config.get_hosts().iter().all(|host| is_near(host, is_asked));
    let tls = match config.get_ssl_mode() {
        SslMode::Disable => None,
        _ if is_near => {
            config.ssl_mode(SslMode::Disable);
            None
        }
        _ => {
            config.ssl_mode(SslMode::Require);
            Some(tls().map_err(|error| no_access(error.to_string()))?)
        }
    };
    let no_server = |why: String| StoreError::NoServer { url: shown.clone(), why };
    let answered = in_time(&shown, patience, move || {
        let client = match tls {
            Some(tls) => config.connect(tls),
            None => config.connect(NoTls),
        };
        client.map(question)
    });
    let answered = answered.ok_or_else(|| StoreError::Silent { url: shown.clone(), after: patience })?;
    let answer = answered.map_err(|error| no_server(said(&error)))?;
    Ok((answer, shown))
}

/// What an attempt to reach a server comes to; `None`: nothing, in this time. `connect_timeout` is over as soon as a kernel has
/// answered, and a server that stands still says nothing after that. Who waits for it is left alone, once for a server: until then
/// nobody waits there again.
fn in_time<T: Send + 'static>(
    server: &Path,
    patience: Duration,
    reach: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    static SILENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let silent = || SILENT.lock();
    if silent().iter().any(|one| one == server) {
        return None;
    }
    let (told, heard) = mpsc::channel();
    let name = server.to_owned();
    thread::spawn(move || {
        let reached = reach();
        let mut all = silent();
        if told.send(reached).is_err() {
            all.retain(|one| *one != name);
        }
    });
    match heard.recv_timeout(patience) {
        Ok(reached) => Some(reached),
        Err(_) => {
            // The list is held while it is settled who of the two is too late.
            let mut all = silent();
            let late = heard.try_recv().ok();
            if late.is_none() {
                all.push(server.to_owned());
            }
            drop(heard);
            late
        }
    }
}

/// What the URL says; one with a password in it is refused.
pub(super) fn config(url: &str) -> Result<Config, StoreError> {
    // A scheme is the same in capitals (RFC 3986, section 3.1).
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !["postgres", "postgresql"].iter().any(|one| scheme.eq_ignore_ascii_case(one)) {
        return Err(bad(format!("its scheme is {scheme}")));
    }
    let config: Config = format!("postgres://{rest}").parse().map_err(|error: ::postgres::Error| bad(said(&error)))?;
    if config.get_password().is_some() {
        return Err(bad("a password stands in it, where others of this machine can read it; keep it in ~/.pgpass \
                        (mode 0600) or in the file that PGPASSFILE names"
            .to_owned()));
    }
    Ok(config)
}

fn bad(why: String) -> StoreError {
    StoreError::BadUrl { why }
}

/// On this machine: nobody is between.
fn is_near(host: &Host, is_encrypted: bool) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(_) if is_encrypted => false,
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

/// The URL without secrets: user, the first host, port, database.
fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        // A folder, as a URL has it.
        Some(Host::Unix(folder)) => folder.display().to_string().replace('%', "%25").replace('/', "%2F"),
        None => String::new(),
    };
    let port =
        config.get_ports().first().filter(|port| **port != 5432).map_or(String::new(), |port| format!(":{port}"));
    let user = config.get_user().unwrap_or_default();
    format!("postgres://{user}@{host}{port}/{}", config.get_dbname().unwrap_or(user))
}

/// The password that libpq would take: of PGPASSWORD, or of the line of ~/.pgpass that fits.
fn password(config: &Config) -> io::Result<Option<String>> {
    if let Ok(password) = env::var("PGPASSWORD") {
        return Ok(Some(password));
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
    let Some(file) = env::var_os("PGPASSFILE").map(PathBuf::from).or_else(home) else { return Ok(None) };
    of_file(&file, config)
}

fn of_file(file: &Path, config: &Config) -> io::Result<Option<String>> {
    let Ok(opened) = fs::File::open(file) else { return Ok(None) };
    if opened.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "others may read {}, so the password in it is not used; chmod 600 it",
            file.display()
        )));
    }
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let wanted = [host.as_str(), &port, config.get_dbname().unwrap_or(user), user];
    for line in io::BufReader::new(opened).lines() {
        let fields = fields(&line?);
        let fits = fields.len() == 5 && fields.iter().zip(wanted).all(|(field, want)| field == "*" || field == want);
        if fits {
            return Ok(fields.into_iter().next_back());
        }
    }
    Ok(None)
}

/// `host:port:database:user:password`; a colon or backslash within a field has a backslash before it.
fn fields(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, all.len()) {
            (':', 1..5) => all.push(String::new()),
            ('\\', _) => all.last_mut().expect("one at least").extend(letters.next()),
            (letter, _) => all.last_mut().expect("one at least").push(letter),
        }
    }
    all
}

/// Certificates are checked against those of PGSSLROOTCERT, or of this system.
fn tls() -> io::Result<tokio_postgres_rustls::MakeRustlsConnect> {
    let file = env::var_os("PGSSLROOTCERT").map_or_else(|| "/etc/ssl/certs/ca-certificates.crt".into(), PathBuf::from);
    let named = |error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}; PGSSLROOTCERT names a file of trusted certificates", file.display()))
    };
    let text = fs::read(&file).map_err(|error| named(&error))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::pem_slice_iter(&text)
    {
        let certificate = certificate.map_err(|error| named(&error))?;
        roots.add(certificate).map_err(|error| named(&error))?;
    }
    if roots.is_empty() {
        return Err(named(&"it has no certificate"));
    }
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| named(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_read_as_libpq_does() {
        assert_eq!(fields(r"a:1:b:c:d:e\\\:f"), ["a", "1", "b", "c", r"d:e\:f"]);
        assert_eq!(fields(r"a\:b:1"), ["a:b", "1"]);
        let file = env::temp_dir().join(format!("linerate-pgpass-{}", std::process::id()));
        fs::write(&file, "other:*:*:*:no\n# nothing\ndb:5433:*:ann:yes\ndb:*:*:*:late\n").unwrap();
        let config: Config = "postgres://ann@db:5433/lab".parse().unwrap();
        let set = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        set(0o644);
        assert!(of_file(&file, &config).unwrap_err().to_string().contains("chmod 600"));
        set(0o600);
        assert_eq!(of_file(&file, &config).unwrap().as_deref(), Some("yes"));
        fs::remove_file(&file).unwrap();
        assert_eq!(of_file(&file, &config).unwrap(), None);
    }

    /// As one whose processes stand still: its kernel answers, and nothing comes after that.
    #[test]
    fn a_server_that_says_nothing_is_given_up_and_waited_for_once() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://ann@{}/lab", silent.local_addr().unwrap());
        let patience = Duration::from_millis(300);
        let tried = || {
            let began = std::time::Instant::now();
            let error = ask(&url, patience, drop).map(drop).unwrap_err().to_string();
            assert!(error.contains("no answer within 0.3 s"), "{error}");
            began.elapsed()
        };
        assert!(tried() >= patience);
        for _ in 0..20 {
            assert!(tried() < patience);
        }
        // It ends at last, and is tried again.
        drop(silent);
        let is_tried = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            !ask(&url, patience, drop).map(drop).unwrap_err().to_string().contains("no answer")
        });
        assert!(is_tried);
    }

    #[test]
    fn a_url_with_a_password_is_refused_and_never_shown() {
        for (url, why) in [
            ("postgres://ann:secret@127.0.0.1:1/lab", ".pgpass"),
            ("POSTGRES://ann:secret@127.0.0.1:1/lab", ".pgpass"),
            ("postgresql://ann@127.0.0.1:1/lab?password=secret", ".pgpass"),
            ("http://ann:secret@127.0.0.1:1/lab", "its scheme is http"),
        ] {
            assert!(super::super::super::is_url(url));
            let error = super::super::check(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
            assert_eq!(ask(url, PATIENCE, drop).map(drop).unwrap_err().to_string(), error);
        }
        let error = ask("postgres://ann@127.0.0.1:1/lab", PATIENCE, drop).map(drop).unwrap_err().to_string();
        assert!(error.contains("postgres://ann@127.0.0.1:1/lab") && error.contains("refused"), "{error}");
    }
}
