//! Bounce-back: iperf2's requests and responses over TCP, which carry the times at which each end had them.
//! Knows no sockets.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linerate_host::traffic::Exchange;

use super::header::BOUNCE_BACK;

/// Octets that a request has at least: what the peer's header takes.
pub const MIN_LEN: u32 = 64;
/// The longest that a server waits before it answers, whatever it is asked.
const MOST_HOLD: Duration = Duration::from_secs(1);

/// Octets of the request's fields up to the time at which the server answered.
const HEAD_LEN: usize = 44;

/// How requests and responses are written.
pub const EXCHANGE: Exchange = Exchange { ask, answer, answered: |_| None };

/// What each request begins with.
pub fn head(size: u32) -> Vec<u8> {
    let mut octets = vec![0; MIN_LEN as usize];
    octets[..4].copy_from_slice(&BOUNCE_BACK.to_be_bytes());
    octets[4..8].copy_from_slice(&size.to_be_bytes());
    // Every answer at once: TCP_QUICKACK.
    octets[12] = 0x80;
    // The size of the answers, which versions before 2.2 take for payload.
    octets[60..64].copy_from_slice(&size.to_be_bytes());
    octets
}

/// The size of the requests that begin with these octets; `None` where they are none.
pub fn size(octets: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
    let (flags, size) = (word(0)?, word(4)?);
    (flags & BOUNCE_BACK != 0 && size >= MIN_LEN).then_some(size)
}

fn now() -> [u8; 8] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut octets = [0; 8];
    octets[..4].copy_from_slice(&(now.as_secs() as u32).to_be_bytes());
    octets[4..].copy_from_slice(&now.subsec_micros().to_be_bytes());
    octets
}

/// Numbers begin with 1.
fn ask(number: u64, request: &mut [u8]) {
    if request.len() >= HEAD_LEN {
        request[8..12].copy_from_slice(&(number as u32).wrapping_add(1).to_be_bytes());
        request[20..28].copy_from_slice(&now());
    }
}

fn answer(request: &[u8], response: &mut [u8]) {
    let arrived = now();
    let len = request.len().min(response.len());
    response[..len].copy_from_slice(&request[..len]);
    if len < HEAD_LEN + 4 {
        return;
    }
    let hold_us = u32::from_be_bytes([request[44], request[45], request[46], request[47]]);
    if hold_us > 0 {
        thread::sleep(Duration::from_micros(hold_us.into()).min(MOST_HOLD));
    }
    response[28..36].copy_from_slice(&arrived);
    response[36..44].copy_from_slice(&now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_request_with_the_servers_times() {
        let mut request = head(100);
        assert_eq!(
            (&request[4..8], &request[60..64]),
            (&[0, 0, 0, 100][..], &[0, 0, 0, 100][..]),
            "a server of 2.2 reads both"
        );
        request.resize(100, b'x');
        ask(6, &mut request);
        let mut response = vec![0; 100];
        answer(&request, &mut response);
        assert_eq!((&response[..28], &response[44..]), (&request[..28], &request[44..]));
        assert_eq!(response[8..12], [0, 0, 0, 7]);
        assert_ne!(response[28..36], [0; 8]);
        assert_eq!(size(&request), Some(100));
    }

    #[test]
    fn what_is_too_small_is_no_request() {
        assert_eq!(size(&head(63)), None);
        assert_eq!(size(&head(100)[..7]), None);
        assert_eq!(size(&[0; 64]), None);
        answer(&[1; 10], &mut [0; 10]);
        ask(1, &mut [0; 10]);
    }
}
