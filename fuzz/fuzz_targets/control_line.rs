//! Fuzz target: octets from a stranger, as lines, as messages either way, and as a whole conversation with a server.
//! Knows nothing of what requests do.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use linerate_control::line::LineReader;
use linerate_control::message::{AgentLine, Hello, Reply, RequestLine};
use linerate_control::{Link, Server, read_request, serve};

const LONGEST: usize = 4096;

fuzz_target!(|data: &[u8]| {
    // The first octet says how the stream is cut into reads.
    let Some((&chunk, data)) = data.split_first() else { return };
    let mut lines = LineReader::new(Chunks(data.to_vec(), 0, usize::from(chunk % 64) + 1), LONGEST);
    while let Ok(Some(line)) = lines.next_line() {
        assert!(line.len() <= LONGEST && !line.contains('\n'));
        let _ = Hello::read(&line);
        match read_request(&line) {
            // What was understood can be said again, in one line.
            Ok(request) => again::<RequestLine>(&request),
            Err(unreadable) => assert!(unreadable.message.len() < 2 * LONGEST),
        }
        if let Ok(said) = serde_json::from_str::<AgentLine>(&line) {
            again::<AgentLine>(&said);
        }
    }
    // Threads make this part dear, so only some inputs get it.
    if chunk & 0x80 != 0 {
        let address_check: &[u8] = if chunk & 0x40 != 0 { b"{\"linerate\":2,\"program\":\"fuzz\"}\n" } else { b"" };
        let link = Link::of(Chunks([address_check, data].concat(), 0, 4096), io::sink());
        serve(link, &Server::new("fuzz"), |line, outlet| outlet.reply(line.id, Reply::Done));
    }
});

fn again<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) {
    let text = serde_json::to_string(message).expect("a message that was read can be written");
    assert!(!text.contains('\n'));
    if let Err(error) = serde_json::from_str::<T>(&text) {
        panic!("{text}: {error}");
    }
}

/// Memory, read in pieces of a fixed length.
struct Chunks(Vec<u8>, usize, usize);

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = &self.0[self.1..];
        let length = self.2.min(left.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.1 += length;
        Ok(length)
    }
}
