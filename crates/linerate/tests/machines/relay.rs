//! A way to a PostgreSQL server on which, when it is told so, whoever comes is let in and hears nothing more: as of a server whose
//! processes stand still, or a pooler whose server is gone. Knows of the protocol what lets a client in.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

/// AuthenticationOk and ReadyForQuery (PostgreSQL's documentation, 55.7).
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// The socket's name in a server's folder.
const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Default)]
struct State {
    is_silent: bool,
    open: Vec<UnixStream>,
}

/// It ends with the test's process: nothing waits for it.
pub struct Relay {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Relay {
    /// To the server that listens in one folder, from another.
    pub fn start(server: &Path, folder: &Path) -> io::Result<Relay> {
        fs::create_dir(folder)?;
        let (listener, server) = (UnixListener::bind(folder.join(SOCKET))?, server.join(SOCKET));
        let state = Arc::new(Mutex::new(State::default()));
        let relay = Relay { folder: folder.to_owned(), state: Arc::clone(&state) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = state.lock().unwrap();
                state.open.extend(client.try_clone());
                if state.is_silent {
                    thread::spawn(move || welcome(client));
                } else if let Ok(server) = UnixStream::connect(&server) {
                    for (from, to) in [(&client, &server), (&server, &client)] {
                        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                        thread::spawn(move || carry(from, to));
                    }
                }
            }
        });
        Ok(relay)
    }

    /// The URL of the server's database by this way.
    pub fn url(&self) -> String {
        format!("postgres://linerate@{}/postgres", self.folder.display().to_string().replace('/', "%2F"))
    }

    /// From now on. Conversations that there are end.
    pub fn be_silent(&self, is_silent: bool) {
        let mut state = self.state.lock().unwrap();
        state.is_silent = is_silent;
        for open in state.open.drain(..) {
            let _ = open.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: UnixStream, mut to: UnixStream) {
    let _ = io::copy(&mut from, &mut to);
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn welcome(mut client: UnixStream) {
    let mut octets = [0; 4096];
    if client.read(&mut octets).is_ok_and(|read| read > 0) && client.write_all(WELCOME).is_ok() {
        while client.read(&mut octets).is_ok_and(|read| read > 0) {}
    }
}
