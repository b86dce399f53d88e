//! Big-endian words in a frame, and the checksum over them.

/// The 16 bits at `at`; `None`: the frame ends before.
pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The 32 bits at `at`; `None`: the frame ends before.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Writes 16 bits.
pub(crate) fn put_half(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes 32 bits.
pub(crate) fn put_word(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Two neighbours of `count` bytes change places.
pub(crate) fn swap(bytes: &mut [u8], at: usize, count: usize) {
    let (one, other) = bytes[at..at + 2 * count].split_at_mut(count);
    one.swap_with_slice(other);
}

/// The Internet checksum of RFC 1071 over these bytes, after a sum that is there already.
pub(crate) fn checksum(bytes: &[u8], sum: u32) -> u16 {
    let mut sum = u64::from(sum);
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
