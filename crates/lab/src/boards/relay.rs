//! One controller after the other, carried to the agent on a board: from a socket to the board's serial line.
//! Knows of the conversation only where it begins and ends (`linerate_control::serial`).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use linerate_control::serial::{END, Opened, opening};

/// What a controller is told first, as a line: it has the agent, or why not.
const GRANTED: &str = "ok\n";

/// How long the agent has to end one conversation and begin the next. A trial that is ended drains its sockets.
const OPENING_TIME: Duration = Duration::from_secs(6);

/// The line to the board's agent, and who speaks on it.
pub(crate) struct Relay {
    line: Mutex<UnixStream>,
    speaker: Mutex<Speaker>,
}

/// The controller that has the line.
#[derive(Default)]
struct Speaker {
    /// Conversations so far: each has its number.
    number: u64,
    /// Its socket, and until the agent has begun the conversation, who waits for that.
    socket: Option<UnixStream>,
    waits: Option<(Opened, Sender<()>)>,
}

impl Relay {
    /// Carries what comes over `line` to the one that has it. `heard` is told whenever the agent is at a beginning.
    pub(crate) fn start(line: UnixStream, heard: Sender<()>) -> io::Result<Arc<Relay>> {
        let reader = line.try_clone()?;
        let relay = Arc::new(Relay { line: Mutex::new(line), speaker: Mutex::new(Speaker::default()) });
        let theirs = Arc::clone(&relay);
        thread::Builder::new().name("lab-line".to_owned()).spawn(move || theirs.read(reader, &heard))?;
        Ok(relay)
    }

    /// Takes controllers in, until the process ends.
    pub(crate) fn serve(self: Arc<Relay>, listener: UnixListener) -> io::Result<()> {
        thread::Builder::new().name("lab-target".to_owned()).spawn(move || {
            for socket in listener.incoming().filter_map(Result::ok) {
                let relay = Arc::clone(&self);
                // Without a thread the controller hears nothing, and says so.
                let _ = thread::Builder::new().name("lab-relay".to_owned()).spawn(move || relay.carry(socket));
            }
        })?;
        Ok(())
    }

    fn carry(&self, mut socket: UnixStream) {
        match self.open(&socket) {
            Ok(()) => {
                self.carry_to_line(&mut socket);
                self.release();
            }
            Err(sentence) => drop(socket.write_all(format!("{sentence}\n").as_bytes())),
        }
        let _ = socket.shutdown(Shutdown::Both);
    }

    /// Takes the line and begins a conversation; the error is a sentence.
    fn open(&self, socket: &UnixStream) -> Result<(), String> {
        let socket = socket.try_clone().map_err(|error| error.to_string())?;
        // One that does not read must not keep the board from being heard.
        socket.set_write_timeout(Some(OPENING_TIME)).map_err(|error| error.to_string())?;
        let (begun_sent, begun) = mpsc::channel();
        let number = {
            let mut speaker = self.speaker();
            if speaker.socket.is_some() {
                return Err("another controller speaks with this board; wait until it is done".to_owned());
            }
            speaker.number += 1;
            speaker.socket = Some(socket);
            speaker.waits = Some((Opened::waiting_for(speaker.number), begun_sent));
            speaker.number
        };
        let opened = self.write(&opening(number)).map_err(|error| error.to_string()).and_then(|()| wait(&begun));
        if opened.is_err() {
            self.release();
        }
        opened
    }

    fn carry_to_line(&self, socket: &mut UnixStream) {
        let mut octets = [0; 4096];
        while let Ok(count @ 1..) = socket.read(&mut octets) {
            // An end in the middle of what a controller says would be its own mischief.
            if octets[..count].contains(&END) || self.write(&octets[..count]).is_err() {
                return;
            }
        }
    }

    /// Ends the conversation on the board at once: its settings are put back, whatever became of the controller.
    fn release(&self) {
        let _ = self.write(&[END, b'\n']);
        let mut speaker = self.speaker();
        (speaker.socket, speaker.waits) = (None, None);
    }

    fn write(&self, octets: &[u8]) -> io::Result<()> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).write_all(octets)
    }

    fn speaker(&self) -> std::sync::MutexGuard<'_, Speaker> {
        self.speaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that hears the board.
    fn read(&self, mut line: UnixStream, heard: &Sender<()>) {
        let mut octets = [0; 4096];
        while let Ok(count @ 1..) = line.read(&mut octets) {
            let mut rest = &octets[..count];
            if rest.contains(&END) {
                let _ = heard.send(());
            }
            let mut speaker = self.speaker();
            if let Some((mut opened, begun)) = speaker.waits.take() {
                match opened.handle(rest) {
                    Some(after) => {
                        // From this thread, so that it stands before what the agent says.
                        if let Some(socket) = &mut speaker.socket {
                            let _ = socket.write_all(GRANTED.as_bytes());
                        }
                        let _ = begun.send(());
                        rest = after;
                    }
                    None => {
                        speaker.waits = Some((opened, begun));
                        continue;
                    }
                }
            }
            let Some(socket) = &mut speaker.socket else { continue };
            let end = rest.iter().position(|&octet| octet == END);
            let written = socket.write_all(&rest[..end.unwrap_or(rest.len())]);
            if end.is_some() || written.is_err() {
                // The agent has ended the conversation, or has been started anew.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        if let Some(socket) = &self.speaker().socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn wait(begun: &Receiver<()>) -> Result<(), String> {
    match begun.recv_timeout(OPENING_TIME) {
        Ok(()) => Ok(()),
        Err(RecvTimeoutError::Timeout) => Err(format!(
            "the agent on the board did not answer within {} s; look at it with linerate lab shell",
            OPENING_TIME.as_secs()
        )),
        Err(RecvTimeoutError::Disconnected) => Err("the board has ended".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use linerate_control::serial::converse_in_turn;

    use super::*;

    /// A board that says back what it hears; its relay, on a socket.
    fn board() -> (tempdir::Folder, Receiver<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let answers = theirs.try_clone().unwrap();
        thread::spawn(move || {
            let _ = converse_in_turn(theirs, answers, |mut link| {
                let mut octets = [0; 100];
                while let Ok(count @ 1..) = link.reader.read(&mut octets) {
                    if octets[..count].contains(&b'!') {
                        return;
                    }
                    link.writer.write_all(&octets[..count]).unwrap();
                }
            });
        });
        let folder = tempdir::Folder::new();
        let listener = UnixListener::bind(folder.path().join("target")).unwrap();
        let (heard_sent, heard) = mpsc::channel();
        Relay::start(ours, heard_sent).unwrap().serve(listener).unwrap();
        (folder, heard)
    }

    mod tempdir {
        //! A folder that goes with its test.
        //! Knows nothing of what is in it.
        pub(super) struct Folder(std::path::PathBuf);

        impl Folder {
            pub(super) fn new() -> Folder {
                let path = std::env::temp_dir().join(format!("linerate-relay-{}", std::process::id()));
                std::fs::create_dir_all(&path).unwrap();
                Folder(path)
            }

            pub(super) fn path(&self) -> &std::path::Path {
                &self.0
            }
        }

        impl Drop for Folder {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }
    }

    fn say(socket: &mut UnixStream, text: &str) -> String {
        socket.write_all(text.as_bytes()).unwrap();
        hear(socket)
    }

    fn hear(socket: &UnixStream) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut line = String::new();
        let _ = io::BufReader::with_capacity(1, socket.try_clone().unwrap()).read_line(&mut line);
        line
    }

    #[test]
    fn one_controller_after_the_other_has_the_line() {
        let (folder, heard) = board();
        heard.recv_timeout(Duration::from_secs(20)).expect("the agent tells that it is there");
        let connect = || UnixStream::connect(folder.path().join("target")).unwrap();
        let mut first = connect();
        assert_eq!(hear(&first), "ok\n");
        assert_eq!(say(&mut first, "one\n"), "one\n");
        let second = connect();
        assert_eq!(hear(&second), "another controller speaks with this board; wait until it is done\n");
        assert_eq!(say(&mut first, "still\n"), "still\n");
        // A controller that is gone leaves the line.
        drop(first);
        let mut third = loop {
            let socket = connect();
            if hear(&socket) == "ok\n" {
                break socket;
            }
        };
        assert_eq!(say(&mut third, "three\n"), "three\n");
        // An agent that ends is heard at once.
        assert_eq!(say(&mut third, "!\n"), "");
    }
}
