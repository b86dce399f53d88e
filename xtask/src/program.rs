//! Other programs: where the repository is, and running a program in it so that the reader sees which.
//! Knows no command of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's top folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the repository").to_owned()
}

/// A program that will run in the repository's top folder.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    command
}

/// The cargo that runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// With what the workspace's tests are built. What only few need is tested, too.
pub(crate) const TESTED: &str = "--features=linerate/authentication,linerate/postgres";

/// Builds `linerate` as the tests have it, so that nothing is built twice, and says where it is.
pub(crate) fn linerate() -> Result<PathBuf, String> {
    must(&mut cargo(&["build", "--quiet", "--workspace", "--bin=linerate", TESTED]))?;
    Ok(root().join("target/debug/linerate"))
}

/// Says what runs, runs it, and is content with status 0 only.
pub(crate) fn must(command: &mut Command) -> Result<(), String> {
    let line = line_of(command);
    eprintln!("xtask: {line}");
    let status = command.status().map_err(|error| format!("{line} cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line} failed ({status})")) }
}

/// What a program says on standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let line = line_of(command);
    let output = command.output().map_err(|error| format!("{line} cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("{line} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{line} said what is no text"))
}

/// The command as a person would type it.
pub(crate) fn line_of(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

/// Whether a program is installed. The folders of system programs count too: they are not in every user's PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(name).is_file())
}

/// For commands that take nothing more.
pub(crate) fn no_more(mut words: impl Iterator<Item = OsString>) -> Result<(), String> {
    match words.next() {
        None => Ok(()),
        Some(word) => Err(format!("'{}' means nothing here; see cargo xtask help", word.to_string_lossy())),
    }
}
