//! A TCP connection between two machines that share a key: encrypted and authenticated both ways.
//! Knows nothing of what is said on it. The cryptography is the Noise protocol's, by the snow library.
//!
//! `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`: fresh keys for each connection, and nobody without the shared key gets
//! past the first message. Every Noise message is preceded by its length, 16 bits, big-endian. The initiator sends
//! an empty message after the handshake: without it a replayed first message would pass for a controller.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::link::Link;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Both ends mix this into the handshake: a later framing is another protocol and does not get past it.
const PROLOGUE: &[u8] = b"linerate control over noise, 1";

/// Longest Noise message (The Noise Protocol Framework, section 3), tag included.
const LONGEST: usize = 65535;
const TAG: usize = 16;

/// Longest handshake message: a key of 32 octets and a tag. A stranger cannot make the reader allocate more.
const LONGEST_HANDSHAKE: usize = 48;

/// How long a handshake may take in all.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(3);

/// How long a write may take before the peer counts as gone.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// A key that two machines share. Debug output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Psk([u8; 32]);

/// Why there is no key; one sentence, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum PskError {
    /// Others could read it.
    #[error("the key file {} can be read by others; run: chmod 600 {}", .0.display(), .0.display())]
    Open(PathBuf),
    /// It is no key.
    #[error("{} is not a key file: it holds 64 hexadecimal digits and nothing else; make one with linerate-agent --new-psk FILE", .0.display())]
    NoKey(PathBuf),
    /// It is a folder, a device or a pipe.
    #[error("the key file {} is no regular file; name the one with the key", .0.display())]
    Irregular(PathBuf),
    /// A key is never overwritten.
    #[error("{} exists and is not overwritten; choose another name", .0.display())]
    Exists(PathBuf),
    /// The file cannot be read or written.
    #[error("the key file {}: {error}; check the path", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// There is no chance to be had.
    #[error("the system gives no random numbers: {0}; try again later")]
    Random(String),
}

impl Psk {
    /// A key of these octets.
    pub const fn new(octets: [u8; 32]) -> Psk {
        Psk(octets)
    }

    /// The key in a file of 64 hexadecimal digits that only its owner can read.
    pub fn read(path: &Path) -> Result<Psk, PskError> {
        let failed = |error| PskError::Io { path: path.to_owned(), error };
        // Opening a pipe would block until it has a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(PskError::Irregular(path.to_owned()));
        }
        let file = File::open(path).map_err(failed)?;
        // Of the open file, not of the name: it cannot be exchanged in between.
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(PskError::Open(path.to_owned()));
        }
        let mut text = Vec::new();
        file.take(1024).read_to_end(&mut text).map_err(failed)?;
        let digits = text.trim_ascii();
        let mut octets = [0; 32];
        if digits.len() != 64 {
            return Err(PskError::NoKey(path.to_owned()));
        }
        for (octet, pair) in octets.iter_mut().zip(digits.chunks(2)) {
            let digit = |c: u8| (c as char).to_digit(16);
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(PskError::NoKey(path.to_owned()));
            };
            *octet = (high << 4 | low) as u8;
        }
        Ok(Psk(octets))
    }

    /// Makes a random key and a new file for it that only its owner can read.
    pub fn generate_to(path: &Path) -> Result<Psk, PskError> {
        let mut octets = [0; 32];
        let text = draw(&mut octets)? + "\n";
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        match written {
            Ok(()) => Ok(Psk(octets)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(PskError::Exists(path.to_owned())),
            Err(error) => Err(PskError::Io { path: path.to_owned(), error }),
        }
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(…)")
    }
}

/// Fills these with random octets; gives them as hexadecimal digits too.
pub fn draw(octets: &mut [u8]) -> Result<String, PskError> {
    getrandom::fill(octets).map_err(|error| PskError::Random(error.to_string()))?;
    Ok(hexadecimal(octets))
}

/// A digest that may be published and identifies the secret: BLAKE2s, as hexadecimal digits. The handshake has that function
/// already, so an agent does not grow by it.
pub fn digest(secret: &str) -> String {
    let mut hash = Suite.resolve_hash(&HashChoice::Blake2s).expect("the suite has this function");
    let mut octets = [0; 32];
    hash.input(secret.as_bytes());
    hash.result(&mut octets);
    hexadecimal(&octets)
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Why two machines did not agree; each sentence ends in what to try.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// The peer does not have this key.
    #[error("its key is another; copy the same key file to both machines")]
    WrongKey,
    /// The peer closed the connection, which is all that a listener says to a wrong key.
    #[error(
        "it closed the connection during the handshake, as an agent does when the key is another; copy the same key \
         file to both machines (it does so too while it serves as many controllers as it can)"
    )]
    Closed,
    /// The peer took too long.
    #[error("it did not finish the handshake within {} s; see that linerate-agent listens on that port", HANDSHAKE_TIME.as_secs())]
    Late,
    /// What came is no handshake.
    #[error("what answers there is no linerate agent; check the port")]
    Nonsense,
    /// The connection broke.
    #[error("the connection broke: {0}; try again")]
    Io(io::Error),
}

impl From<io::Error> for NoiseError {
    fn from(error: io::Error) -> NoiseError {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => NoiseError::Late,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                NoiseError::Closed
            }
            _ => NoiseError::Io(error),
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Opened,
    Listens,
}

/// The keys of one connection, after the handshake.
#[derive(Clone, Debug)]
pub struct Keys(Arc<StatelessTransportState>);

impl Keys {
    /// The handshake of the end that opened the connection.
    pub fn initiate(stream: &mut (impl Read + Write), psk: &Psk) -> Result<Keys, NoiseError> {
        Keys::agreed(stream, psk, Side::Opened)
    }

    /// The handshake of the end that listens.
    pub fn respond(stream: &mut (impl Read + Write), psk: &Psk) -> Result<Keys, NoiseError> {
        Keys::agreed(stream, psk, Side::Listens)
    }

    fn agreed(stream: &mut (impl Read + Write), psk: &Psk, side: Side) -> Result<Keys, NoiseError> {
        let builder = builder(psk);
        let state = match side {
            Side::Opened => builder.build_initiator(),
            Side::Listens => builder.build_responder(),
        };
        let mut state = state.map_err(|_| NoiseError::Nonsense)?;
        // Who opened begins.
        for turn in [Side::Opened, Side::Listens] {
            if turn == side { say(stream, &mut state)? } else { hear(stream, &mut state)? }
        }
        let keys = Keys::of(state)?;
        // Proves that the first message was no replay. Its nonce is 0; writers and readers begin with 1.
        if side == Side::Opened {
            let mut message = [0; TAG];
            keys.0.write_message(0, &[], &mut message).map_err(|_| NoiseError::Nonsense)?;
            write_frame(stream, &message)?;
        } else {
            let mut frame = [0; LONGEST_HANDSHAKE];
            let message = read_handshake_frame(stream, &mut frame)?;
            keys.0.read_message(0, message, &mut [0; LONGEST_HANDSHAKE]).map_err(|_| NoiseError::WrongKey)?;
        }
        Ok(keys)
    }

    fn of(state: HandshakeState) -> Result<Keys, NoiseError> {
        state.into_stateless_transport_mode().map(|state| Keys(Arc::new(state))).map_err(|_| NoiseError::Nonsense)
    }
}

/// The functions that the pattern names, and no other: with snow's own choice among all, all would be in the program.
struct Suite;

impl CryptoResolver for Suite {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        DefaultResolver.resolve_rng()
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        if *choice == DHChoice::Curve25519 { DefaultResolver.resolve_dh(&DHChoice::Curve25519) } else { None }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        if *choice == HashChoice::Blake2s { DefaultResolver.resolve_hash(&HashChoice::Blake2s) } else { None }
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        if *choice == CipherChoice::ChaChaPoly {
            DefaultResolver.resolve_cipher(&CipherChoice::ChaChaPoly)
        } else {
            None
        }
    }
}

fn builder(psk: &Psk) -> Builder<'_> {
    let pattern = PATTERN.parse().expect("snow's features include this pattern");
    let builder =
        Builder::with_resolver(pattern, Box::new(Suite)).prologue(PROLOGUE).and_then(|builder| builder.psk(0, &psk.0));
    builder.expect("prologue and key are set once each")
}

fn say(stream: &mut impl Write, state: &mut HandshakeState) -> Result<(), NoiseError> {
    let mut message = [0; LONGEST_HANDSHAKE];
    let length = state.write_message(&[], &mut message).map_err(|_| NoiseError::Nonsense)?;
    Ok(write_frame(stream, &message[..length])?)
}

fn hear(stream: &mut impl Read, state: &mut HandshakeState) -> Result<(), NoiseError> {
    let mut frame = [0; LONGEST_HANDSHAKE];
    let message = read_handshake_frame(stream, &mut frame)?;
    state.read_message(message, &mut [0; LONGEST_HANDSHAKE]).map_err(|_| NoiseError::WrongKey)?;
    Ok(())
}

fn read_handshake_frame<'a>(
    stream: &mut impl Read,
    frame: &'a mut [u8; LONGEST_HANDSHAKE],
) -> Result<&'a [u8], NoiseError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let message = frame.get_mut(..u16::from_be_bytes(length).into()).ok_or(NoiseError::Nonsense)?;
    stream.read_exact(message)?;
    Ok(message)
}

fn write_frame(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(2 + message.len());
    frame.extend_from_slice(&(message.len() as u16).to_be_bytes());
    frame.extend_from_slice(message);
    stream.write_all(&frame)
}

/// Reads what the peer's [`NoiseWriter`] wrote.
pub struct NoiseReader<R> {
    read: R,
    keys: Keys,
    nonce: u64,
    cipher: Vec<u8>,
    /// The message that is being read, and how much of it has been.
    plain: Vec<u8>,
    taken: usize,
    length: usize,
}

impl<R: Read> NoiseReader<R> {
    /// Reads from `read`, after the handshake.
    pub fn new(read: R, keys: Keys) -> NoiseReader<R> {
        NoiseReader { read, keys, nonce: 1, cipher: Vec::new(), plain: Vec::new(), taken: 0, length: 0 }
    }

    /// Reads the next message; false at the end of the stream.
    fn next_message(&mut self) -> io::Result<bool> {
        let mut length = [0; 2];
        // The end is orderly only between two messages.
        if self.read.read(&mut length[..1])? == 0 {
            return Ok(false);
        }
        self.read.read_exact(&mut length[1..])?;
        self.cipher.resize(u16::from_be_bytes(length).into(), 0);
        self.read.read_exact(&mut self.cipher)?;
        self.plain.resize(self.cipher.len(), 0);
        self.length = self
            .keys
            .0
            .read_message(self.nonce, &self.cipher, &mut self.plain)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "what came was not encrypted with the key"))?;
        self.nonce += 1;
        self.taken = 0;
        Ok(true)
    }
}

impl<R: Read> Read for NoiseReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.length {
            if buffer.is_empty() || !self.next_message()? {
                return Ok(0);
            }
        }
        let length = buffer.len().min(self.length - self.taken);
        buffer[..length].copy_from_slice(&self.plain[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

/// Encrypts what is written.
pub struct NoiseWriter<W> {
    write: W,
    keys: Keys,
    nonce: u64,
    frame: Vec<u8>,
}

impl<W: Write> NoiseWriter<W> {
    /// Writes to `write`, after the handshake.
    pub fn new(write: W, keys: Keys) -> NoiseWriter<W> {
        NoiseWriter { write, keys, nonce: 1, frame: Vec::new() }
    }
}

impl<W: Write> Write for NoiseWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let data = &data[..data.len().min(LONGEST - TAG)];
        if data.is_empty() {
            return Ok(0);
        }
        let length = data.len() + TAG;
        self.frame.resize(2 + length, 0);
        self.frame[..2].copy_from_slice(&(length as u16).to_be_bytes());
        self.keys
            .0
            .write_message(self.nonce, data, &mut self.frame[2..])
            .map_err(|_| io::Error::other("it cannot be encrypted"))?;
        self.nonce += 1;
        // All or nothing: after half a message the stream is of no use, and the caller gives it up.
        self.write.write_all(&self.frame)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write.flush()
    }
}

/// The handshake on a connection that this machine opened.
pub fn initiate(socket: TcpStream, psk: &Psk) -> Result<Link, NoiseError> {
    handshake(socket, psk, Side::Opened)
}

/// The handshake on a connection that was accepted.
pub(crate) fn respond(socket: TcpStream, psk: &Psk) -> Result<Link, NoiseError> {
    handshake(socket, psk, Side::Listens)
}

fn handshake(socket: TcpStream, psk: &Psk, side: Side) -> Result<Link, NoiseError> {
    let mut hurried = Hurried { socket: &socket, deadline: Instant::now() + HANDSHAKE_TIME };
    let keys = Keys::agreed(&mut hurried, psk, side)?;
    let set_up = || {
        // Lines are short and answers are waited for: Nagle's algorithm would hold them back.
        socket.set_nodelay(true)?;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(WRITE_TIME))?;
        let reader = NoiseReader::new(socket.try_clone()?, keys.clone());
        let writer = NoiseWriter::new(socket.try_clone()?, keys);
        Ok((reader, writer))
    };
    let (reader, writer) = set_up().map_err(NoiseError::Io)?;
    Ok(Link::over_tcp(reader, writer, socket))
}

/// A socket whose reads and writes together end at a deadline. A time-out for each read alone would let a peer
/// that sends an octet now and then stay for ever.
struct Hurried<'a> {
    socket: &'a TcpStream,
    deadline: Instant,
}

impl Hurried<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Hurried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
