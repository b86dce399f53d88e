//! What a case lost, where and when, and how to say so.
//! Knows neither directions nor causes.

use linerate_path::budget::LossLine;

use super::side::is_of_root;
use super::words::{percent, tidy};

/// Loss that began in mid-trial, and stayed or ended; once or several times.
pub(super) struct LossFrom {
    /// When it began, and how long it lasted; absent: to the end.
    pub(super) times: Vec<(f64, Option<f64>)>,
    /// Lost of sent meanwhile, the first time.
    pub(super) ratio: f64,
    pub(super) bps: f64,
}

/// Transactions that waited for TCP's timer.
pub(super) struct TimerWaits {
    /// Of those that were answered, how many took as long as the timer at least.
    pub(super) timed: u64,
    /// And the last still waited when the trial ended.
    pub(super) is_left: bool,
    pub(super) answered: u64,
}

impl TimerWaits {
    pub(super) fn all(&self) -> u64 {
        self.timed.saturating_add(self.is_left.into())
    }

    /// Of how many.
    pub(super) fn of(&self) -> u64 {
        self.answered.saturating_add(self.is_left.into())
    }
}

impl LossFrom {
    /// A clause that says so.
    pub(super) fn clause(&self) -> String {
        let share = percent(self.ratio);
        let span = |(at_s, for_s): &(f64, Option<f64>)| match for_s {
            None => format!("from {} s on", tidy(*at_s)),
            Some(for_s) => format!("from {} s to {} s", tidy(*at_s), tidy(at_s + for_s)),
        };
        match &self.times[..] {
            [(at_s, None)] => format!("until {} s next to nothing was lost, and {share} from then on", tidy(*at_s)),
            [once] => format!("{} {share} were lost, and next to nothing before and after", span(once)),
            times => {
                let spans: Vec<String> = times.iter().map(span).collect();
                format!("{} times {share} were lost, and next to nothing else: {}", times.len(), spans.join(", "))
            }
        }
    }
}

/// What a stage lost of it.
pub(super) struct LostAt<'a> {
    pub(super) packets: u64,
    /// In them, of TCP; else as many.
    pub(super) segments: u64,
    /// Of all that was lost, 0 to 1; of segments that were retransmitted, for TCP.
    pub(super) part: f64,
    /// What says so.
    pub(super) lines: Vec<&'a LossLine>,
}

impl LostAt<'_> {
    /// A clause with the counters.
    pub(super) fn evidence(&self) -> String {
        self.lines.iter().map(|line| line.evidence()).collect::<Vec<_>>().join("; ")
    }

    /// The interface and the kind of the root discipline whose counter says most of it, where one does.
    pub(super) fn device_and_kind(&self) -> Option<(&str, &str)> {
        let counters = self.lines.iter().flat_map(|line| &line.counters);
        let counted =
            counters.filter(|counted| is_of_root(&counted.name, "drops")).max_by_key(|counted| counted.value)?;
        let mut words = counted.name.split_whitespace();
        Some((words.next()?, words.next()?))
    }

    /// Whether one of the lines is so.
    pub(super) fn any(&self, is: impl Fn(&LossLine) -> bool) -> bool {
        self.lines.iter().any(|line| is(line))
    }
}
