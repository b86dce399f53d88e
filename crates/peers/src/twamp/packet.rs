//! TWAMP's unauthenticated test packets (RFC 4656, section 4.1.2; RFC 5357, section 4.2.1).
//! Knows no sockets.
//!
//! ```text
//!   of a sender     0 number  4 time  12 error  14 padding …
//!   of a reflector  0 number  4 time  12 error  16 received  24 number  28 time  36 error  40 TTL  41 padding …
//!                                                            └───── of the sender ─────┘
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linerate_host::traffic::{Codec, Exchange};

/// Bytes of a sender's packet at least.
pub const REQUEST_LEN: usize = 14;
/// Bytes of an answer at least.
pub const ANSWER_LEN: usize = 41;
/// Seconds from NTP's first to Unix's (RFC 868).
const NTP_EPOCH: u64 = 2_208_988_800;
/// Not synchronized, and right to 2^32 × 2^-32 s: scale 32, multiplier 1 (RFC 4656, section 4.1.2).
const ERROR_ESTIMATE: [u8; 2] = [32, 1];
/// Of a packet whose TTL the reflector cannot tell (RFC 5357, section 4.2.1).
const TTL_UNKNOWN: u8 = 255;

/// The wall clock as NTP has it: seconds, and parts of 2^32 of one.
pub fn now() -> [u8; 8] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    ((now.as_secs() + NTP_EPOCH) << 32 | fraction).to_be_bytes()
}

/// Writes a sender's number and time; the rest is padding.
pub fn emit(number: u32, time: [u8; 8], request: &mut [u8]) {
    if let Some(head) = request.first_chunk_mut::<REQUEST_LEN>() {
        head[..4].copy_from_slice(&number.to_be_bytes());
        head[4..12].copy_from_slice(&time);
        head[12..].copy_from_slice(&ERROR_ESTIMATE);
    }
}

/// The answer to a packet, of its own size; `None` where it is none, or so short that the answer would be longer.
pub fn answer(number: u32, received: [u8; 8], request: &[u8]) -> Option<Vec<u8>> {
    let head: &[u8; REQUEST_LEN] = request.first_chunk()?;
    if request.len() < ANSWER_LEN {
        return None;
    }
    let mut answer = vec![0; request.len()];
    answer[..4].copy_from_slice(&number.to_be_bytes());
    answer[12..14].copy_from_slice(&ERROR_ESTIMATE);
    answer[16..24].copy_from_slice(&received);
    answer[24..38].copy_from_slice(head);
    answer[40] = TTL_UNKNOWN;
    answer[4..12].copy_from_slice(&now());
    Some(answer)
}

/// The number and time of the packet that this answers; `None` where it is no answer.
pub fn answered(answer: &[u8]) -> Option<(u32, [u8; 8])> {
    let answer: &[u8; ANSWER_LEN] = answer.first_chunk()?;
    Some((u32::from_be_bytes(*answer[24..].first_chunk()?), *answer[28..].first_chunk()?))
}

/// Whether another reflector returns what this one sent: at the sender's place stands a time that this machine wrote not
/// longer ago than `most`. A service that returns all it hears brings it with the second packet.
pub fn is_returned(request: &[u8], now: [u8; 8], most: Duration) -> bool {
    let Some(head) = request.first_chunk::<ANSWER_LEN>() else { return false };
    let (time, error) = (u64::from_be_bytes(head[28..36].try_into().expect("eight bytes")), &head[36..38]);
    let age = u64::from_be_bytes(now).checked_sub(time);
    error == ERROR_ESTIMATE && age.is_some_and(|age| age <= most.as_secs() << 32)
}

/// Requests as a sender writes them.
pub struct Packets;

impl Codec for Packets {
    fn exchange(&self) -> Option<Exchange> {
        Some(Exchange {
            ask: |number, request| emit(number as u32, now(), request),
            answer: |_, _| {},
            answered: |response| answered(response).map(|(number, _)| (number.into(), u32::MAX.into())),
        })
    }

    fn is_bare(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_senders_words_where_the_rfc_says() {
        let mut request = vec![0xaa; 64];
        emit(7, [1, 2, 3, 4, 5, 6, 7, 8], &mut request);
        assert_eq!(request[..16], [0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 32, 1, 0xaa, 0xaa]);
        let answer = answer(9, [9; 8], &request).unwrap();
        assert_eq!((answer.len(), &answer[..4], &answer[12..16]), (64, &[0, 0, 0, 9][..], &[32, 1, 0, 0][..]));
        assert_eq!(answer[16..42], [[9; 8].as_slice(), &request[..14], &[0, 0, 255, 0]].concat());
        assert_eq!(answered(&answer), Some((7, [1, 2, 3, 4, 5, 6, 7, 8])));
    }

    #[test]
    fn no_answer_is_longer_than_what_it_answers() {
        for len in 0..ANSWER_LEN {
            assert_eq!(answer(0, [0; 8], &vec![0; len]), None, "{len}");
            assert_eq!(answered(&vec![0; len]), None, "{len}");
            emit(1, [0; 8], &mut vec![0; len]);
        }
        assert_eq!(answer(0, [0; 8], &[0; ANSWER_LEN]).map(|answer| answer.len()), Some(ANSWER_LEN));
    }

    #[test]
    fn what_a_reflector_or_an_echo_returns_is_known() {
        let most = Duration::from_secs(60);
        let mut request = vec![0; 64];
        emit(7, now(), &mut request);
        assert!(!is_returned(&request, now(), most));
        let ours = answer(0, now(), &request).unwrap();
        // Another reflector's answer to ours.
        let theirs = answer(0, [9; 8], &ours).unwrap();
        assert!(is_returned(&theirs, now(), most));
        // An echo returns what we answered to its first echo.
        assert!(is_returned(&answer(1, now(), &ours).unwrap(), now(), most));
        assert!(!is_returned(&theirs, [9; 8], most), "before it was written");
        let later = (u64::from_be_bytes(now()) + (70 << 32)).to_be_bytes();
        assert!(!is_returned(&theirs, later, most));
        assert!(!is_returned(&[0xff; 64], now(), most) && !is_returned(&theirs[..40], now(), most));
    }

    #[test]
    fn the_time_is_ntps() {
        let seconds = |time: [u8; 8]| u32::from_be_bytes(*time.first_chunk().unwrap());
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!((unix + NTP_EPOCH).abs_diff(seconds(now()).into()) <= 1);
    }
}
