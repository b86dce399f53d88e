//! `cargo xtask examples`: the reports in docs/examples/, each measured by its script on machines that are made here.
//! Knows scripts by name, and nothing of what they measure; documents are linerate's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_lab::{Privilege, privilege};

use crate::program::{cargo, is_installed, must, root};

/// Where the reports are, with each author's words.
const FOLDER: &str = "docs/examples";

/// The programs that scripts make machines with, and the Debian packages that they are in.
const NEEDED: [(&str, &str); 4] = [("ip", "iproute2"), ("tc", "iproute2"), ("bash", "bash"), ("unshare", "util-linux")];

/// A report: its files' name, how it is measured, and whether on an emulated board.
struct Example {
    name: &'static str,
    script: &'static str,
    board: bool,
}

const EXAMPLES: [Example; 5] = [
    Example { name: "1-sweep", script: include_str!("examples/1-sweep.sh"), board: true },
    Example { name: "2-regression", script: include_str!("examples/2-regression.sh"), board: false },
    Example { name: "3-suite", script: include_str!("examples/3-suite.sh"), board: true },
    Example { name: "4-patches", script: include_str!("examples/4-patches.sh"), board: true },
    Example { name: "5-bridge", script: include_str!("examples/5-bridge.sh"), board: false },
];

/// Between these the list of reports says what is in them.
const LIST: [&str; 2] =
    ["<!-- Written by `cargo xtask examples`, out of the reports. -->\n", "<!-- The end of what is written. -->\n"];

/// Measures and writes those that are named, or all; with `--again` only writes them, from the records that are in them.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut again = false;
    let mut wanted: Vec<&Example> = Vec::new();
    for word in words {
        match word.to_str().unwrap_or_default() {
            "--again" => again = true,
            name => wanted.push(known(name)?),
        }
    }
    if wanted.is_empty() {
        wanted.extend(&EXAMPLES);
    }
    if !again {
        may_measure()?;
    }
    must(&mut cargo(&["build", "--quiet", "-p", "linerate", "--features", "authentication"]))?;
    for example in wanted {
        if !again {
            measure(example)?;
        }
        write(example.name)?;
    }
    list()
}

fn known(name: &str) -> Result<&'static Example, String> {
    EXAMPLES.iter().find(|one| one.name == name).ok_or_else(|| {
        let names = EXAMPLES.map(|one| one.name).join(", ");
        format!("there is no example '{name}'; there are {names}, and --again")
    })
}

fn may_measure() -> Result<(), String> {
    if privilege() != Privilege::Root {
        return Err(
            "the examples are measured between network namespaces, which needs root; --again does not".to_owned()
        );
    }
    match NEEDED.iter().find(|(program, _)| !is_installed(program)) {
        None => Ok(()),
        Some((program, package)) => Err(format!("examples needs {program}, of Debian's package {package}")),
    }
}

/// Where the program that this repository builds is.
fn programs() -> PathBuf {
    root().join("target/debug")
}

/// Runs a script where it can leave nothing behind: its processes, mounts and networks end with it.
fn measure(example: &Example) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("linerate-examples-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs()).chain(std::env::split_paths(&path)));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !example.board {
        // Boards make a network of their own, and ask for packages over this machine's.
        command.arg("--net");
    }
    let script = format!("mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns\n{}", example.script);
    command.args(["bash", "-euo", "pipefail", "-c", &script]).current_dir(&folder);
    for key in ["TARGET", "HOST", "STORE", "PSK_FILE"] {
        command.env_remove(format!("LINERATE_{key}"));
    }
    command
        .env("PATH", path.map_err(|error| error.to_string())?)
        .env("XDG_DATA_HOME", &folder)
        .env("XDG_RUNTIME_DIR", &folder)
        .env("LINERATE_AGENTS", root().join("target/agents"))
        .env("REPORT", format!("--html --attach --anonymous --output {}", file(example.name, "html").display()))
        .env("NOTES", file(example.name, "md"));
    eprintln!("xtask: measuring {}", example.name);
    let status = command.status().map_err(|error| format!("unshare cannot be started: {error}"));
    let removed =
        fs::remove_dir_all(&folder).map_err(|error| format!("{} cannot be removed: {error}", folder.display()));
    match status? {
        status if status.success() => removed,
        status => Err(format!("{} was not measured ({status})", example.name)),
    }
}

fn file(name: &str, extension: &str) -> PathBuf {
    root().join(FOLDER).join(format!("{name}.{extension}"))
}

/// Both forms, from the records in the report, with the author's words as they are now.
fn write(name: &str) -> Result<(), String> {
    let [html, text, notes] = ["html", "txt", "md"].map(|extension| file(name, extension));
    let report = |form: &[&str], to: &Path| {
        let mut command = Command::new(programs().join("linerate"));
        command.arg("report").arg("--from").arg(&html).arg("--notes").arg(&notes).args(form).arg("--output").arg(to);
        must(&mut command)
    };
    report(&["--html"], &html)?;
    report(&["--text"], &text)
}

/// The question and the answer of each report, as they stand in it.
fn list() -> Result<(), String> {
    let path = root().join(FOLDER).join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parts = LIST.map(|sign| text.split_once(sign).ok_or_else(|| format!("README.md has no line {sign}")));
    let [(before, _), (_, after)] = [parts[0].clone()?, parts[1].clone()?];
    let mut said = String::new();
    for Example { name, .. } in &EXAMPLES {
        let mut command = Command::new(programs().join("linerate"));
        let [html, notes] = ["html", "md"].map(|extension| file(name, extension));
        command.arg("report").arg("--markdown").arg("--from").arg(html).arg("--notes").arg(notes);
        let output = command.output().map_err(|error| format!("linerate cannot be started: {error}"))?;
        let report = String::from_utf8_lossy(&output.stdout);
        // A title, the question, the answer; then the author's words.
        let parts: Vec<&str> = report.split("\n\n").skip(1).take(2).collect();
        if !output.status.success() || parts.len() < 2 {
            return Err(format!("{name} has no answer: {}", String::from_utf8_lossy(&output.stderr)));
        }
        said += &format!("\n### {name}: [HTML]({name}.html), [text]({name}.txt)\n\n{}\n", parts.join("\n\n"));
    }
    let [begin, end] = LIST;
    fs::write(&path, format!("{before}{begin}{said}\n{end}{after}")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_words_of_its_author() {
        for example in &EXAMPLES {
            assert!(file(example.name, "md").is_file(), "{}", example.name);
        }
    }

    #[test]
    fn at_most_three_commands_are_shown() {
        for example in &EXAMPLES {
            let commands = example.script.lines().filter(|line| line.trim_start().starts_with("linerate "));
            assert!((1..=3).contains(&commands.count()), "{}", example.name);
        }
    }
}
