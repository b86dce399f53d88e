//! Octets as text, as iperf3 and PEM write them (RFC 4648, section 4, with padding).
//! Knows no meaning of them.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes octets, in one line.
pub fn encode(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for chunk in octets.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (at, octet)| word | u32::from(*octet) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
}

/// Reads them; white space is nothing. `None`: it is no such text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let padding = digits.iter().rev().take(2).take_while(|digit| **digit == b'=').count();
    let (digits, whole) = (&digits[..digits.len() - padding], digits.len() / 4 * 3 - padding);
    let mut octets = Vec::with_capacity(whole);
    for chunk in digits.chunks(4) {
        let mut word = 0;
        for at in 0..4 {
            let value = match chunk.get(at) {
                Some(digit) => DIGITS.iter().position(|one| one == digit)? as u32,
                None => 0,
            };
            word = word << 6 | value;
        }
        octets.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples() {
        // RFC 4648, section 10.
        for (octets, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode(octets.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(octets.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(decode("Zm\n9v \n").as_deref(), Some(&b"foo"[..]));
    }

    #[test]
    fn what_is_none_is_none() {
        for text in ["Z", "Zg=", "Zg", "Z===", "====", "Zm9v!mFy", "Zg==Zg==", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
