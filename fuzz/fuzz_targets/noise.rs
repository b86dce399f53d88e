//! Fuzz target: octets from a stranger against a listener's handshake, and against the stream that follows it.
//! Knows nothing of what is said on it.
#![no_main]

use std::io::{self, Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use linerate_control::Psk;
use linerate_control::noise::{Keys, NoiseReader, NoiseWriter};

const KEY: Psk = Psk::new([7; 32]);

fuzz_target!(|data: &[u8]| {
    let Some((&part, data)) = data.split_first() else { return };
    match part % 4 {
        0 => stranger(data),
        // A first message that was recorded: past it without the key, and no further.
        1 => stranger(&[first_message(), data].concat()),
        2 => {
            let mut text = Vec::new();
            assert!(NoiseReader::new(data, keys().0.clone()).read_to_end(&mut text).is_err() || data.is_empty());
            assert!(text.is_empty(), "nobody without the key is heard");
        }
        _ => {
            // What is written is read, however it is cut.
            let (ours, theirs) = keys();
            let mut octets = Vec::new();
            let mut writer = NoiseWriter::new(&mut octets, theirs.clone());
            for piece in data.chunks(usize::from(part) + 1) {
                writer.write_all(piece).unwrap();
            }
            let mut text = Vec::new();
            NoiseReader::new(&octets[..], ours.clone()).read_to_end(&mut text).unwrap();
            assert_eq!(text, data);
        }
    }
});

fn stranger(data: &[u8]) {
    let mut stream = Memory { input: Cursor::new(data), output: Vec::new() };
    assert!(Keys::respond(&mut stream, &KEY).is_err(), "nobody without the key gets in");
    assert!(stream.output.len() <= 50, "a stranger gets one message at most");
}

/// The keys of a listener and of a controller, after a real handshake.
fn keys() -> &'static (Keys, Keys) {
    static KEYS: OnceLock<(Keys, Keys)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let listener = std::thread::spawn(move || Keys::respond(&mut a, &KEY).unwrap());
        let controller = Keys::initiate(&mut b, &KEY).unwrap();
        (listener.join().unwrap(), controller)
    })
}

fn first_message() -> &'static [u8] {
    static MESSAGE: OnceLock<Vec<u8>> = OnceLock::new();
    MESSAGE.get_or_init(|| {
        let mut stream = Memory { input: Cursor::new(&[]), output: Vec::new() };
        assert!(Keys::initiate(&mut stream, &KEY).is_err(), "nobody answers");
        stream.output
    })
}

struct Memory<'a> {
    input: Cursor<&'a [u8]>,
    output: Vec<u8>,
}

impl Read for Memory<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.output.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
