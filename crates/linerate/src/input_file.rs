//! A file that somebody named: its text, or one sentence that says why it was not read.
//! Knows no form that a file can have.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use linerate_machine::units::format_size;

/// What people write has less; the bound keeps `--table /proc/kmsg` from filling the memory.
const MOST: u64 = 1 << 20;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {why}", path.display())]
pub(crate) struct NotRead {
    path: PathBuf,
    pub(crate) why: ReadError,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is a folder; name a file")]
    Folder,
    /// It may have no end, and nobody who writes to it.
    #[error("it is a device, a pipe or a socket; name a regular file")]
    Irregular,
    #[error("it is larger than {}; name the file that was meant", format_size(*.0))]
    Large(u64),
    #[error("it is no text; name the file that was meant")]
    NoText,
}

impl NotRead {
    /// There is no such file.
    pub(crate) fn is_absent(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(&self.why, ReadError::Io(error) if [NotFound, NotADirectory].contains(&error.kind()))
    }
}

/// The text of a file that people write.
pub(crate) fn text(path: &Path) -> Result<String, NotRead> {
    text_up_to(path, MOST)
}

/// The text of a file that has so many octets at most.
pub(crate) fn text_up_to(path: &Path, most: u64) -> Result<String, NotRead> {
    read(path, most).map_err(|why| NotRead { path: path.to_owned(), why })
}

fn read(path: &Path, most: u64) -> Result<String, ReadError> {
    // Before it is opened: opening a pipe blocks until it has a writer.
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(ReadError::Folder);
    }
    if !kind.is_file() && !is_handed_over(path) {
        return Err(ReadError::Irregular);
    }
    let mut octets = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        return Err(ReadError::Large(most));
    }
    String::from_utf8(octets).map_err(|_| ReadError::NoText)
}

/// Whether the parent process opened it: `/dev/stdin`, and what a shell makes of `<(…)`.
fn is_handed_over(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder)) || path == Path::new("/dev/stdin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_end_are_not_read() {
        let folder = std::env::temp_dir().join(format!("linerate-given-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let make = |name: &str, octets: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, octets).unwrap();
            path
        };
        assert_eq!(text(&make("good", "µs\n".as_bytes())).unwrap(), "µs\n");
        assert!(text_up_to(&make("four", b"four"), 4).is_ok());
        let said = |path: &Path| text_up_to(path, 4).unwrap_err().to_string();
        for (path, part) in [
            (make("five", b"five."), "it is larger than 4;"),
            (make("octets", b"\xff"), "it is no text"),
            (folder.clone(), "it is a folder"),
            ("/dev/zero".into(), "it is a device"),
        ] {
            assert!(said(&path).contains(part) && said(&path).contains("cannot be read"), "{}", said(&path));
        }
        let absent = text(&folder.join("absent")).unwrap_err();
        assert!(absent.is_absent() && !text(&folder).unwrap_err().is_absent());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
