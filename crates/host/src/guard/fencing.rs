//! Which giving of a bench was here last: a controller that was given it before, and wakes up late, is refused.
//! Knows no queue; a bench is a name, and its givings are numbers that grow.
//!
//! A file for each bench stands beside the journals, and is gone when the machine starts anew. It is the log of who had the machine:
//!
//! ```text
//!   taken 1795530000123 4711 86400.250 4026531833-1      number, the agent's process, seconds since the machine started,
//!   given 1795530000123 4711 86431.500 4026531833-1      network namespace: a machine of its own, of which one kernel has several
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use linerate_machine::text::is_plain_name;

use super::journal::Journals;
use super::namespace::Namespace;

/// The most benches that have a file; a machine is in one or two.
const MOST: usize = 64;
/// A log of so many octets begins anew, with the last number.
const LONGEST: u64 = 64 << 10;
const PREFIX: &str = "fence-";

/// A controller of this giving is here. Dropping it notes its end.
#[derive(Debug)]
pub struct Passed {
    path: PathBuf,
    number: u64,
}

/// Why a controller is not let in; one sentence, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// A later one was here.
    #[error(
        "the bench {bench} was given to another controller since (this one has {number}, the last {last}); let the queue start \
         the job anew, or, where the queue has lost its memory, remove {} on this machine", path.display()
    )]
    Stale {
        /// The bench.
        bench: String,
        /// What the controller has.
        number: u64,
        /// The greatest that was here.
        last: u64,
        /// Where that is written.
        path: PathBuf,
    },
    /// No bench is called so.
    #[error("'{0}' is not a name for a bench; take letters, digits, - and _, 48 at most")]
    BadName(String),
    /// It cannot be read or written.
    #[error("which controller has the bench cannot be noted ({0}); make room or make it writable")]
    Io(#[from] io::Error),
}

/// Lets a controller of this giving in, unless a later one was here. To be called under the machine's lease.
pub fn pass(bench: &str, number: u64) -> Result<Passed, FenceError> {
    pass_in(&Journals::of_user()?, bench, number)
}

fn pass_in(journals: &Journals, bench: &str, number: u64) -> Result<Passed, FenceError> {
    if !is_plain_name(bench) {
        return Err(FenceError::BadName(bench.chars().take(48).collect::<String>().escape_debug().to_string()));
    }
    let _lock = journals.lock().map_err(io::Error::other)?;
    let path = journals.folder().join(format!("{PREFIX}{bench}"));
    let log = match File::open(&path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(2 * LONGEST).read_to_string(&mut text)?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_fence = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
            if fs::read_dir(journals.folder())?.flatten().filter(is_fence).count() >= MOST {
                return Err(io::Error::other(format!("{MOST} benches are noted there already")).into());
            }
            String::new()
        }
        Err(error) => return Err(error.into()),
    };
    let last = log.lines().filter_map(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).max().unwrap_or(0);
    if number < last {
        return Err(FenceError::Stale { bench: bench.to_owned(), number, last, path });
    }
    let is_long = log.len() as u64 > LONGEST;
    note(&path, "taken", number, is_long)?;
    Ok(Passed { path, number })
}

fn note(path: &PathBuf, what: &str, number: u64, anew: bool) -> io::Result<()> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let seconds = uptime.split(' ').next().unwrap_or("0");
    let line = format!("{what} {number} {} {seconds} {}\n", std::process::id(), Namespace::here()?);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    let options = if anew { options.write(true).truncate(true) } else { options.append(true) };
    options.open(path)?.write_all(line.as_bytes())
}

impl Drop for Passed {
    fn drop(&mut self) {
        // What is not noted is missing in the log, and nothing else.
        let _ = note(&self.path, "given", self.number, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_number_is_refused() {
        let folder = std::env::temp_dir().join(format!("linerate-fences-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let journals = Journals::in_folder(folder.clone());
        let pass = |bench: &str, number| pass_in(&journals, bench, number);
        let first = pass("a", 5).unwrap();
        let again = pass("a", 5).expect("both ends of a bench may be on one machine");
        drop((first, again));
        let _other = pass("b", 1).expect("another bench");
        let _later = pass("a", 7).unwrap();
        let error = pass("a", 6).unwrap_err();
        assert!(matches!(error, FenceError::Stale { number: 6, last: 7, .. }), "{error}");
        let log = fs::read_to_string(folder.join("fence-a")).unwrap();
        let words: Vec<&str> = log.lines().map(|line| line.rsplitn(4, ' ').nth(3).unwrap()).collect();
        assert_eq!(words, ["taken 5", "taken 5", "given 5", "given 5", "taken 7"]);
        for bad in ["", "../a", "a/b", "a b", &"x".repeat(49)] {
            assert!(matches!(pass(bad, 1), Err(FenceError::BadName(_))), "{bad}");
        }
        fs::write(folder.join("fence-c"), format!("taken 9 1 0\n{}", "x\n".repeat(LONGEST as usize))).unwrap();
        assert!(pass("c", 8).is_err());
        drop(pass("c", 10).unwrap());
        assert!(fs::metadata(folder.join("fence-c")).unwrap().len() < 200, "it began anew");
        assert!(pass("c", 9).is_err());
        (0..MOST).for_each(|at| drop(pass(&format!("n{at}"), 1)));
        assert!(pass("one-more", 1).unwrap_err().to_string().contains("noted there already"));
        fs::remove_dir_all(folder).unwrap();
    }
}
