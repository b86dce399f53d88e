//! Fuzz target: the file of a program that a profile found running, which anybody on the machine may have written.
//! Knows no profile.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use linerate_host::profile::elf::names;

/// What is read of a name at most.
const LONGEST_NAME: usize = 512;

// Two places, then the file.
fuzz_target!(|data: &[u8]| {
    let Some((places, file)) = data.split_at_checked(16) else { return };
    let place = |at: usize| u64::from_le_bytes(places[at..at + 8].try_into().expect("eight octets"));
    let places = [place(0), place(8)];
    let Ok(found) = names(&mut Cursor::new(file), &places) else { return };
    assert!(found.len() <= places.len(), "a place has one name at most");
    for (place, name) in found {
        assert!(places.contains(&place), "only what was asked for is named");
        assert!(!name.is_empty() && name.len() <= LONGEST_NAME);
    }
});
