//! What a case lost, where and when, and how to say so.
//! Knows neither directions nor causes.

use linerate_path::budget::LossLine;

use super::side::is_of_root;
use super::words::{percent, tidy};

/// Loss that began in mid-trial, and stayed or ended; once or several times.
pub(super) struct LossFrom {
    pub(super) times: Vec<LossTime>,
    /// What came through the first time, bits per second.
    pub(super) bps: f64,
    /// Each time that varied by far less than chance makes.
    pub(super) is_steady: bool,
}

/// One of these times.
pub(super) struct LossTime {
    pub(super) at_s: f64,
    /// How long it lasted; absent: to the end.
    pub(super) for_s: Option<f64>,
    /// Lost of sent meanwhile.
    pub(super) ratio: f64,
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
        let told = |time: &LossTime| {
            let (at, share) = (tidy(time.at_s), percent(time.ratio));
            match time.for_s {
                None => format!("from {at} s on {share} were lost"),
                Some(for_s) => format!("from {at} s to {} s {share} were lost", tidy(time.at_s + for_s)),
            }
        };
        match &self.times[..] {
            [LossTime { at_s, for_s: None, ratio }] => {
                format!("until {} s next to nothing was lost, and {} from then on", tidy(*at_s), percent(*ratio))
            }
            [once] => format!("{}, and next to nothing before and after", told(once)),
            times => format!("{}, and next to nothing else", times.iter().map(told).collect::<Vec<_>>().join(", ")),
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
