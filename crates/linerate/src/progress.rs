//! What goes on, on standard error: a line for each trial that ended, and on a terminal one of what is being done and how
//! long it will take. Knows no trials. Standard output is left to the answer, so that `> file` has that and no more.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_machine::printable::in_line;

use crate::measure::time_left::TimeLeft;

use crate::output::{is_watched, out, say, unsignalled};

/// Progress on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// Trials that ended have a line each.
    has_lines: bool,
}

impl Progress {
    /// Lines unless the user asked for silence, the last of which moves if standard error is a terminal.
    pub(crate) fn new(quiet: bool) -> Progress {
        let wanted = !quiet && is_watched();
        let bar = wanted.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            bar.set_style(
                ProgressStyle::with_template("{spinner} {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        Progress { bar, has_lines: !quiet }
    }

    /// Without lines for trials: for an answer that comes piece by piece.
    pub(crate) fn without_lines(self) -> Progress {
        Progress { has_lines: false, ..self }
    }

    /// So many trials are to come, where that is known, and take so long.
    pub(crate) fn begin(&self, trials: Option<usize>, left: Option<TimeLeft>) {
        let many = match trials {
            None => return,
            Some(1) => "1 trial".to_owned(),
            Some(trials) => format!("{trials} trials"),
        };
        let time = left.map_or(String::new(), |left| {
            format!(", {} {}", if left.at_most { "at most" } else { "about" }, words(left.time))
        });
        self.line(&format!("{many}{time}"));
    }

    /// Something came of a trial.
    pub(crate) fn line(&self, text: &str) {
        if self.has_lines {
            self.say(&shown(text));
        }
    }

    /// A trial begins; `left` is the time that the campaign still takes, from here.
    pub(crate) fn trial(&self, place: usize, of: Option<usize>, what: &str, left: Option<TimeLeft>) {
        if let Some(bar) = &self.bar {
            let most = if left.is_some_and(|left| left.at_most) { "at most " } else { "" };
            let of = of.map_or(String::new(), |of| format!(" of {most}{of}"));
            bar.set_prefix(shown(&format!("trial {place}{of}: {what}")));
            self.tick(0.0, left);
        }
    }

    /// Some seconds of the present trial have passed.
    pub(crate) fn tick(&self, elapsed_s: f64, left: Option<TimeLeft>) {
        if let Some(bar) = &self.bar {
            let left = match left {
                None => "time left unknown yet".to_owned(),
                Some(TimeLeft { time, at_most }) => {
                    let most = if at_most { "at most " } else { "" };
                    format!("{most}{} left", words(time.saturating_sub(Duration::from_secs_f64(elapsed_s))))
                }
            };
            self.doing(&format!("{} · {elapsed_s:.0} s · {left}", bar.prefix()));
        }
    }

    /// What is being done before a trial can be.
    pub(crate) fn doing(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(shown(what));
            bar.tick();
        }
    }

    /// A machine is being booted, for so long, and may take so long.
    pub(crate) fn boot(&self, end: &str, level: &str, elapsed: Duration, wait: Duration) {
        self.doing(&format!("booting the {end} as {level} · {} · at most {}", words(elapsed), words(wait)));
    }

    /// Says a sentence on standard error, above the line.
    pub(crate) fn say(&self, sentence: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(format_args!("{sentence}"))),
            None => say(format_args!("{sentence}")),
        }
    }

    /// Prints to standard output, with the line out of the way.
    pub(crate) fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| out!("{text}")),
            None => out!("{text}"),
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What the line may hold, much of which a plan or a board has said; a terminal has no room for more.
fn shown(text: &str) -> String {
    unsignalled(&in_line(text, 500)).into_owned()
}

/// A time as people say it.
fn words(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}
