//! Commands of linerate's as children of the console: the same program, told the same store and keys.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use linerate_host::sys::{child, signals};
use linerate_machine::text::shell_word;

use crate::cli::{SharedArgs, means_something};

/// How often it is looked whether a child has ended, or a signal has come.
const LOOK: Duration = Duration::from_millis(50);

/// The options that a command shares with the console, as words.
pub(super) fn shared_words(shared: &SharedArgs, command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let given = [
        ("--store", "store", path(&shared.store)),
        ("--psk-file", "psk_file", path(&shared.psk_file)),
        ("--remote-agent", "remote_agent", shared.remote_agent.clone()),
        ("--agents", "agents", path(&shared.agents)),
    ];
    for (word, option, value) in given {
        if let Some(value) = value.filter(|_| means_something(option, command)) {
            words.extend([word.to_owned(), value]);
        }
    }
    if shared.keep_agent && means_something("keep_agent", command) {
        words.push("--keep-agent".to_owned());
    }
    words
}

/// A command as it is started: it ends with the console, and its terminal's Ctrl-C is the console's.
pub(super) fn command(words: &[String], shared: &SharedArgs) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).args(shared_words(shared, words.first().map_or("", String::as_str)));
    command.stdin(Stdio::null());
    child::end_with_us(&mut command);
    command
}

/// A command as a person would type it.
pub(super) fn typed(words: &[String], shared: &SharedArgs) -> String {
    let shared = shared_words(shared, words.first().map_or("", String::as_str));
    let all: Vec<String> = words.iter().chain(&shared).map(|word| shell_word(word)).collect();
    format!("linerate {}", all.join(" "))
}

/// Waits for a child. Ctrl-C is passed on to it, and is then done with; another signal is passed on and stays.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if signals::is_ctrl_c() {
            child::ask_to_end(child, true);
            signals::forget();
        } else if signals::came().is_some() && !told {
            child::ask_to_end(child, false);
            told = true;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_what_it_takes() {
        let shared = SharedArgs { store: Some("a b".into()), psk_file: Some("k".into()), ..SharedArgs::default() };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(typed(&words("run tcp"), &shared), "linerate run tcp --store 'a b' --psk-file k");
        assert_eq!(typed(&words("explain it's"), &shared), r"linerate explain 'it'\''s' --store 'a b' --psk-file k");
        assert_eq!(typed(&words("compare last~1 last"), &shared), "linerate compare last~1 last --store 'a b'");
        assert_eq!(typed(&words("plans"), &shared), "linerate plans");
        assert_eq!(typed(&words("target local watch"), &shared), "linerate target local watch --psk-file k");
    }
}
