//! Names of records and campaigns that sort by the time at which they were made.
//! Knows no clock and no source of chance: both are arguments.

/// Crockford's base 32: no I, L, O or U, so that an id can be read aloud and typed.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 128 bits in digits of 5 bits; the first digit holds only 3 of them.
/// Characters of an identifier.
pub const LEN: usize = 26;

/// An identifier of 26 characters, in the layout of a ULID: "48 bit integer, UNIX-time in milliseconds" and then
/// "80 bits" of chance, the most significant digit first (github.com/ulid/spec, "Components" and "Encoding").
/// Identifiers made in different milliseconds sort by time; within one millisecond the caller adds 1 to `random`
/// where order matters. Time past the year 10889 wraps round.
pub fn id(unix_ms: u64, random: [u8; 10]) -> String {
    let mut bytes = [0; 16];
    bytes[6..].copy_from_slice(&random);
    let value = u128::from_be_bytes(bytes) | u128::from(unix_ms) << 80;
    (0..LEN).rev().map(|place| DIGITS[(value >> (5 * place)) as usize & 31] as char).collect()
}

/// The smallest identifier that was made in this millisecond or later.
pub fn first_of(unix_ms: u64) -> String {
    id(unix_ms, [0; 10])
}

/// When an identifier was made, milliseconds since 1970; `None` of what is none.
pub fn made_at(id: &str) -> Option<u64> {
    let digit = |one: u8| DIGITS.iter().position(|digit| *digit == one).map(|place| place as u64);
    // 48 bits are the first ten digits, of which the first holds 3.
    is_id(id).then(|| id.bytes().take(10).try_fold(0, |made, one| Some(made << 5 | digit(one)?)))?
}

/// Whether the text is an identifier, as [`id`] writes it: capital letters, and no more than 128 bits.
pub fn is_id(text: &str) -> bool {
    text.len() == LEN && text.as_bytes()[0] <= b'7' && text.bytes().all(|digit| DIGITS.contains(&digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_specification_s() {
        // The specification's example: 01ARZ3NDEKTSV4RRFFQ69G5FAV was made at 1,469,922,850,259 ms.
        let id = id(1_469_922_850_259, [0xd6, 0x76, 0x4c, 0x61, 0xef, 0xb9, 0x93, 0x02, 0xbd, 0x5b]);
        assert_eq!(id, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert!(is_id(&id));
        assert_eq!((made_at(&id), made_at(&id[1..])), (Some(1_469_922_850_259), None));
        assert_eq!(made_at(&first_of((1 << 48) - 1)), Some((1 << 48) - 1));
    }

    #[test]
    fn identifiers_sort_by_time() {
        assert!(id(1, [255; 10]) < id(2, [0; 10]));
        assert!(id(7, [0; 10]) < id(7, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(id((1 << 48) - 1, [255; 10]), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(first_of(0), "0".repeat(26));
    }

    #[test]
    fn what_is_no_identifier() {
        for text in ["", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01arz3ndektsv4rrffq69g5fav", "81ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            assert!(!is_id(text), "{text:?}");
        }
        assert!(!is_id("01ARZ3NDEKTSV4RRFFQ69G5FAI"), "no letter that looks like a digit");
        assert!(!is_id("01ARZ3NDEKTSV4RRFFQ69G5Fé"), "26 bytes, 25 characters");
    }
}
