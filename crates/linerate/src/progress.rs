//! What goes on, on standard error: a line for each trial that ended, and on a terminal one of what is being done and how
//! long it will take. Hears a campaign's events. Standard output is left to the answer, so that `> file` has that and no more.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_machine::printable::in_line;

use linerate_plan::ExpectedTime;

use crate::measure::events::CampaignEvent;
use crate::measure::time_left::TimeLeft;
use crate::output::{is_watched, out, say, unsignalled};
use crate::render::brief;

/// Progress on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// Trials that ended have a line each.
    has_lines: bool,
    /// So has what passes in a second.
    has_intervals: bool,
    /// Why the last trial that failed did.
    last_failure: RefCell<String>,
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
        Progress { bar, has_lines: !quiet, has_intervals: false, last_failure: RefCell::default() }
    }

    /// Without lines for trials: for an answer that comes piece by piece.
    pub(crate) fn without_lines(self) -> Progress {
        Progress { has_lines: false, ..self }
    }

    /// With a line for each second of a stream, or without.
    pub(crate) fn with_intervals(self, has_intervals: bool) -> Progress {
        Progress { has_intervals, ..self }
    }

    /// Shows what happens in a campaign.
    pub(crate) fn hear(&self, event: &CampaignEvent) {
        match event {
            CampaignEvent::Began { planned, left, .. } => self.begin(*planned, *left),
            CampaignEvent::Booting { end, level, elapsed_s, at_most_s } => {
                let [elapsed, wait] = [*elapsed_s, *at_most_s].map(|s| brief::time(Duration::from_secs_f64(s)));
                self.doing(&format!("booting the {end} as {level} · {elapsed} · at most {wait}"));
            }
            CampaignEvent::TrialBegan { place, planned, words, left, .. } => {
                self.trial(*place, *planned, words, *left);
            }
            CampaignEvent::Elapsed { elapsed_s, left } => self.tick(*elapsed_s, *left),
            CampaignEvent::Passed(interval) if self.has_intervals => self.line(&brief::interval(interval)),
            CampaignEvent::TrialEnded { place, planned, words, record } if record.error.is_none() => {
                let of = planned.map_or(String::new(), |planned| format!("/{planned}"));
                self.line(&format!("{place}{of}  {words}: {}", brief::line(record)));
            }
            CampaignEvent::Refused { words, sentence } => {
                let before = self.last_failure.replace(sentence.clone());
                let said = if before == *sentence { "failed for the same reason" } else { sentence };
                self.say(&format!("linerate: {words}: {said}"));
            }
            CampaignEvent::Said { sentence } => self.say(&format!("linerate: {sentence}")),
            CampaignEvent::Passed(_) | CampaignEvent::TrialEnded { .. } => {}
            CampaignEvent::Narrowed(_) | CampaignEvent::Ended { .. } => {}
        }
    }

    /// Begins with the number of trials to come, where that is known, and the time they take.
    fn begin(&self, trials: Option<usize>, left: Option<TimeLeft>) {
        let many = match trials {
            None => return,
            Some(1) => "1 trial".to_owned(),
            Some(trials) => format!("{trials} trials"),
        };
        let time = left.map_or(String::new(), |left| {
            let time = ExpectedTime { time: left.time, by_bytes: 0 };
            format!(", {} {time}", if left.at_most { "at most" } else { "about" })
        });
        self.line(&format!("{many}{time}"));
    }

    /// Something came of a trial.
    fn line(&self, text: &str) {
        if self.has_lines {
            self.say(&shown(text));
        }
    }

    /// A trial begins; `left` is the time that the campaign still takes, from here.
    fn trial(&self, place: usize, of: Option<usize>, what: &str, left: Option<TimeLeft>) {
        if let Some(bar) = &self.bar {
            let most = if left.is_some_and(|left| left.at_most) { "at most " } else { "" };
            let of = of.map_or(String::new(), |of| format!(" of {most}{of}"));
            bar.set_prefix(shown(&format!("trial {place}{of}: {what}")));
            self.tick(0.0, left);
        }
    }

    /// Some seconds of the present trial have passed.
    fn tick(&self, elapsed_s: f64, left: Option<TimeLeft>) {
        if let Some(bar) = &self.bar {
            let left = match left {
                None => "time left unknown yet".to_owned(),
                Some(TimeLeft { time, at_most }) => {
                    let most = if at_most { "at most " } else { "" };
                    format!("{most}{} left", brief::time(time.saturating_sub(Duration::from_secs_f64(elapsed_s))))
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

    /// What is being computed: the line moves by itself, for nothing is measured that its thread could be in the way of.
    pub(crate) fn computing(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        self.doing(what);
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
