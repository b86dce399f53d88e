//! How a NATS server is reached: its URL, who we are, and whom we trust. Nothing secret stands on a command line.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use linerate_machine::units::format_duration;
use tokio::sync::watch::Sender;

use crate::broker::Unavailable;

/// A file of credentials or a URL is no longer.
const LONGEST: u64 = 64 << 10;

/// Where the queue is, and who asks.
#[derive(Clone, Debug)]
pub struct Access {
    /// `host:port`, as the client takes it.
    address: String,
    /// As people see it.
    shown: String,
    /// Encrypted, or not at all.
    is_encrypted: bool,
    identity: Identity,
    authorities: Option<PathBuf>,
}

#[derive(Clone)]
enum Identity {
    Nobody,
    /// A user's file as `nsc` makes it: a signed name and the seed of its key.
    Credentials(String),
    Seed(String),
    Password(String, String),
    Token(String),
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Identity::Nobody => "nobody",
            Identity::Credentials(_) => "credentials",
            Identity::Seed(_) => "seed",
            Identity::Password(..) => "password",
            Identity::Token(_) => "token",
        })
    }
}

/// Why the queue cannot be had; one sentence, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The URL.
    #[error("'{url}' is not a queue: {why}")]
    BadUrl {
        /// As it may be shown.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The file of credentials.
    #[error("the queue's credentials: {}: {why}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The server.
    #[error(
        "the queue {url} cannot be reached: {why}; see that its server runs, with JetStream (nats-server --jetstream)"
    )]
    NoServer {
        /// As it may be shown.
        url: String,
        /// What the server or the system said.
        why: String,
    },
    /// The server does not let us in, or speaks another way.
    #[error("the queue {url}: {why}")]
    NotLetIn {
        /// As it may be shown.
        url: String,
        /// Why, and what to do.
        why: String,
    },
    /// What the server does not do.
    #[error(transparent)]
    Refused(Unavailable),
    /// Nobody has begun one.
    #[error("the queue has no benches yet; linerate worker --bench FILE --queue {url} brings some")]
    Empty {
        /// As it may be shown.
        url: String,
    },
    /// The lease's time.
    #[error("the leases of the queue {url} last {}, as its first worker said; leave --lease out", format_duration(*there))]
    OtherLease {
        /// As it may be shown.
        url: String,
        /// What was agreed on.
        there: Duration,
    },
    /// This machine.
    #[error("this program cannot start a thread ({0}); see the limits of this machine (ulimit -u)")]
    NoThread(std::io::Error),
}

impl QueueError {
    pub(super) fn of(access: &Access, error: Unavailable) -> QueueError {
        match error {
            Unavailable::Silent(why) => QueueError::NoServer { url: access.shown().to_owned(), why },
            refused => QueueError::Refused(refused),
        }
    }
}

const HOW: &str =
    "write nats://HOST:4222, tls://HOST:4222, or nats://HOST:4222?tls=off where nobody else is on the network";

impl Access {
    /// By a URL; `credentials` is a file that only its owner reads, `authorities` one of the certificates that are trusted instead of
    /// the system's.
    pub fn new(url: &str, credentials: Option<&Path>, authorities: Option<&Path>) -> Result<Access, QueueError> {
        // What may stand before an @ is shown to nobody.
        let shown: String = url.rsplit('@').next().unwrap_or_default().chars().take(200).collect();
        let bad = |why| QueueError::BadUrl { url: shown.escape_debug().to_string(), why };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad(HOW))?;
        if rest.contains('@') {
            return Err(bad(
                "who asks stands in it, where others of this machine can read it; name a file with --queue-credentials",
            ));
        }
        let (place, words) = rest.split_once('?').unwrap_or((rest, ""));
        let place = place.trim_end_matches('/');
        let is_well = !place.is_empty() && place.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_:[]%".contains(&c));
        let is_encrypted = match (scheme, words) {
            _ if !is_well => return Err(bad(HOW)),
            ("tls", "") => true,
            ("nats", "") => !is_near(place),
            ("nats", "tls=off") => false,
            _ => return Err(bad(HOW)),
        };
        let identity = credentials.map(identity).transpose()?.unwrap_or(Identity::Nobody);
        Ok(Access {
            address: format!("nats://{place}"),
            shown: format!("{scheme}://{place}"),
            is_encrypted,
            identity,
            authorities: authorities.map(Path::to_owned),
        })
    }

    /// The URL as people may see it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Why it was not reached.
    pub(super) fn refused(&self, error: &ConnectError) -> QueueError {
        let url = self.shown.clone();
        let why = error.to_string();
        let hint = match (error.kind(), &self.identity) {
            (ConnectErrorKind::AuthorizationViolation, Identity::Nobody) => {
                "it lets nobody in without a name; give a file with --queue-credentials"
            }
            (ConnectErrorKind::AuthorizationViolation, _) => {
                "it does not let this user in; see the file of --queue-credentials"
            }
            (ConnectErrorKind::Authentication, _) => {
                "these credentials cannot sign what it asks; see the file of --queue-credentials"
            }
            (ConnectErrorKind::Tls, _) | (ConnectErrorKind::Io, _) if is_of_tls(error) => {
                return QueueError::NotLetIn {
                    url,
                    why: format!(
                        "no encrypted conversation came about ({why}); give its authorities with --queue-authorities, or ?tls=off \
                         where it has no TLS and nobody else is on the network"
                    ),
                };
            }
            (ConnectErrorKind::ServerParse, _) => return QueueError::BadUrl { url, why: HOW },
            _ => return QueueError::NoServer { url, why },
        };
        QueueError::NotLetIn { url, why: hint.to_owned() }
    }

    /// `refusals`: what the server says that it does not do.
    pub(super) fn options(
        &self,
        patience: Duration,
        refusals: Sender<String>,
    ) -> Result<ConnectOptions, std::io::Error> {
        let options = match self.identity.clone() {
            Identity::Nobody => ConnectOptions::new(),
            Identity::Credentials(text) => ConnectOptions::with_credentials(&text)?,
            Identity::Seed(seed) => ConnectOptions::with_nkey(seed),
            Identity::Password(user, password) => ConnectOptions::with_user_and_password(user, password),
            Identity::Token(token) => ConnectOptions::with_token(token),
        };
        let options = options.name("linerate").require_tls(self.is_encrypted).connection_timeout(patience);
        // A lease has seconds: the usual pause between two tries grows to four.
        let options = options.reconnect_delay_callback(|tries| Duration::from_millis((50 * tries as u64).min(500)));
        // Of what a user may not publish, the server says no more than this, and to nobody who waits for an answer.
        let options = options.event_callback(move |event| {
            if let Event::ServerError(ServerError::Other(refusal)) = event {
                refusals.send_replace(refusal);
            }
            std::future::ready(())
        });
        Ok(match &self.authorities {
            Some(file) => options.add_root_certificates(file.clone()),
            None => options,
        })
    }
}

/// What came was no TLS, or its certificate is not trusted.
fn is_of_tls(error: &ConnectError) -> bool {
    let io = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    error.kind() == ConnectErrorKind::Tls || io.is_some_and(|io| io.kind() == ErrorKind::InvalidData)
}

/// On this machine: nobody is between.
fn is_near(place: &str) -> bool {
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Who we are, as a file says it: what `nsc` makes, a seed, `user:password`, or a token.
fn identity(path: &Path) -> Result<Identity, QueueError> {
    let bad = |why: String| QueueError::Credentials { path: path.to_owned(), why };
    let file = fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let mode = file.metadata().map_err(|error| bad(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(bad("others may read it, so it is not used; chmod 600 it".to_owned()));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(|error| bad(error.to_string()))?;
    let line = text.trim();
    Ok(match line.split_once(':') {
        _ if line.is_empty() => {
            return Err(bad("it is empty; it has a user's credentials, user:password or a token".to_owned()));
        }
        _ if line.starts_with("-----BEGIN NATS USER JWT-----") => Identity::Credentials(text),
        _ if line.lines().count() > 1 => return Err(bad("it is neither a user's credentials nor one line".to_owned())),
        _ if line.starts_with("SU") && line.len() == 58 => Identity::Seed(line.to_owned()),
        Some((user, password)) => Identity::Password(user.to_owned(), password.to_owned()),
        None => Identity::Token(line.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_what_is_wrong_with_it() {
        for (url, is_encrypted) in [
            ("nats://127.0.0.1:4222", false),
            ("nats://[::1]:4222/", false),
            ("nats://localhost", false),
            ("nats://broker.lab:4222", true),
            ("nats://broker.lab:4222?tls=off", false),
            ("tls://127.0.0.1:4222", true),
        ] {
            assert_eq!(Access::new(url, None, None).unwrap().is_encrypted, is_encrypted, "{url}");
        }
        for (url, part) in [
            ("broker.lab:4222", "write nats://"),
            ("http://broker.lab", "write nats://"),
            ("nats://", "write nats://"),
            ("nats://a b", "write nats://"),
            ("nats://a?tls=maybe", "write nats://"),
            ("nats://ann:secret@broker.lab", "--queue-credentials"),
        ] {
            let error = Access::new(url, None, None).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn credentials_are_read_from_a_file_of_the_owner_s() {
        let path = std::env::temp_dir().join(format!("linerate-queue-{}", std::process::id()));
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Access::new("nats://localhost", Some(&path), None)
        };
        let identity = |text: &str| format!("{:?}", read(text, 0o600).unwrap().identity);
        assert_eq!(identity("ann:se:cret\n"), "password");
        assert_eq!(identity("abcdef\n"), "token");
        assert_eq!(identity(&format!("SU{}\n", "A".repeat(56))), "seed");
        assert_eq!(identity("-----BEGIN NATS USER JWT-----\nx\n"), "credentials");
        assert!(read("ann:secret", 0o640).unwrap_err().to_string().contains("chmod 600"));
        assert!(read("", 0o600).unwrap_err().to_string().contains("empty"));
        assert!(read("a\nb", 0o600).unwrap_err().to_string().contains("neither"));
        fs::remove_file(&path).unwrap();
        assert!(Access::new("nats://localhost", Some(&path), None).is_err());
    }
}
