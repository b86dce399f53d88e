//! What a child process writes, line by line.

use std::io::{BufRead, BufReader, Read};

/// Every line to the stream's end, without white space at its own end. What is longer than this, in bytes, comes in pieces.
pub(crate) fn child_lines(stream: impl Read, longest: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut stream = BufReader::new(stream);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let Ok(1..) = stream.by_ref().take(longest).read_until(b'\n', &mut line) else { return None };
        line.truncate(line.trim_ascii_end().len());
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_octets() {
        let lines: Vec<Vec<u8>> = child_lines(&b"one\r\n\xff\n\nlonger than it may be\nlast"[..], 16).collect();
        assert_eq!(lines, [&b"one"[..], b"\xff", b"", b"longer than it m", b"ay be", b"last"]);
    }
}
