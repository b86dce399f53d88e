//! Archives whose octets depend on nothing but what is in them: by tar, gzip and sha256sum, which every Linux has.
//! Knows nothing of what is packed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::program::line_of;

/// What a release has one of: when it was made, for all of its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(pub(super) u64);

/// A tar of all that is in a folder: sorted, of root, of one time (the GNU tar manual, *Reproducibility*).
pub(super) fn tar(folder: &Path, epoch: Epoch) -> Result<Vec<u8>, String> {
    let mut command = Command::new("tar");
    command.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    command.arg(format!("--mtime=@{}", epoch.0)).arg("--directory").arg(folder);
    // Without "./" before each name, and without the folder itself.
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    names.sort();
    output_for(command.arg("--file=-").arg("--").args(names), &[])
}

/// Compressed; neither a name nor a time stands in it.
pub(super) fn gzip(octets: &[u8]) -> Result<Vec<u8>, String> {
    output_for(Command::new("gzip").args(["--best", "--no-name", "--stdout"]), octets)
}

/// As `sha256sum` writes it: 64 hexadecimal digits.
pub(super) fn sha256(octets: &[u8]) -> Result<String, String> {
    digest("sha256sum", octets)
}

/// As `md5sum` writes it, for formats that still ask for one.
pub(super) fn md5(octets: &[u8]) -> Result<String, String> {
    digest("md5sum", octets)
}

fn digest(program: &str, octets: &[u8]) -> Result<String, String> {
    let said = output_for(&mut Command::new(program), octets)?;
    let digits = String::from_utf8_lossy(&said).split_whitespace().next().map(str::to_owned);
    digits.ok_or_else(|| format!("{program} said nothing"))
}

/// What a program writes when it reads this.
fn output_for(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let line = line_of(command);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| {
            format!("{line} cannot be started: {error}; install it with this system's package manager")
        })?;
    let stdin = child.stdin.take();
    let output = thread::scope(|scope| {
        // It writes while it reads, and neither waits for the other.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    });
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{line} failed ({})", output.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standards() {
        // FIPS 180-4's example, and RFC 1321's.
        assert_eq!(sha256(b"abc").unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(md5(b"abc").unwrap(), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn much_goes_through_a_pipe() {
        let octets = vec![7; 1 << 20];
        assert!(gzip(&octets).unwrap().len() < 10_000);
    }
}
