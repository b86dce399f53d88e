//! What can go wrong between controller and agent, one variant for each thing that a caller could do about it.
//! Knows no streams; every sentence names the machine and ends in what to try.

use std::time::Duration;

use crate::message::RefusalKind;

/// A machine as its user knows it: `the target (ssh:board)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its part: `target` or `host`.
    pub name: String,
    /// How it is reached, as the user wrote it.
    pub endpoint: String,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A command may be long and span lines; a sentence does not.
        const LONGEST: usize = 60;
        let words: Vec<&str> = self.endpoint.split_whitespace().collect();
        let words = words.join(" ").replace(char::is_control, "");
        write!(f, "the {} (", self.name)?;
        match words.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}…)", &words[..end]),
            None => write!(f, "{words})"),
        }
    }
}

/// Why a machine did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ControlError {
    /// There was no conversation at all.
    #[error("{machine} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        machine: Machine,
        /// What happened, and what to try.
        why: String,
    },
    /// The two machines do not share a key, or none was given.
    #[error("{machine} cannot be reached: {why}")]
    Key {
        /// Which.
        machine: Machine,
        /// What happened, and what to try.
        why: String,
    },
    /// The agent speaks another version of the conversation.
    #[error(
        "{machine} runs {program}, which speaks version {theirs} of the control conversation, and this program \
         speaks version {ours}: install the same version of linerate on both machines"
    )]
    WrongVersion {
        /// Which.
        machine: Machine,
        /// The agent's program.
        program: String,
        /// The agent's version of the conversation.
        theirs: u32,
        /// This program's.
        ours: u32,
    },
    /// Nobody wants it any more.
    #[error("interrupted")]
    Interrupted,
    /// Another controller measures.
    #[error("{machine} is busy: {message}")]
    Busy {
        /// Which.
        machine: Machine,
        /// Who measures, and since when.
        message: String,
    },
    /// The agent would not or could not.
    #[error("{machine} did not carry out '{request}': {message}")]
    Refused {
        /// Which.
        machine: Machine,
        /// The request's name.
        request: &'static str,
        /// The agent's kind of refusal.
        kind: RefusalKind,
        /// The agent's sentence.
        message: String,
    },
    /// The conversation broke off.
    #[error("{machine} was lost: {why}")]
    Lost {
        /// Which.
        machine: Machine,
        /// What happened, and what to try.
        why: String,
    },
    /// The agent lives and did not answer in time.
    #[error(
        "{machine} did not answer '{request}' within {} s although it is alive: see what keeps it busy, or try again",
        after.as_secs_f64()
    )]
    Timeout {
        /// Which.
        machine: Machine,
        /// The request's name.
        request: &'static str,
        /// How long it had.
        after: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_fits_a_sentence() {
        let machine = |endpoint: &str| Machine { name: "host".into(), endpoint: endpoint.into() }.to_string();
        assert_eq!(machine("ssh:board"), "the host (ssh:board)");
        assert_eq!(machine("exec:a\n  b\u{7}"), "the host (exec:a b)");
        assert_eq!(machine(&"é".repeat(100)), format!("the host ({}…)", "é".repeat(60)));
    }
}
