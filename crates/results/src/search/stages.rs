//! What is measured around a search: delay at parts of what was found, loss from the highest load down, the longest burst of which
//! nothing is lost, and TCP's transfers. Each stage says its next trial from those before it.
//! Knows no machine and no sentences.

use std::time::Duration;

use linerate_machine::units::{OfferedLoad, format_duration};
use linerate_machine::words;

use super::{Purpose, SearchAsked, Step, TriedLoad};

words! {
    /// What is measured beside the bounds.
    Stage {
        /// The time from request to response beside the stream, at parts of the throughput (RFC 2544, section 26.2).
        Latency = "latency",
        /// What is lost from the highest load down, until nothing is, twice (RFC 2544, section 26.3).
        LossRate = "loss-rate",
        /// The longest burst at the highest load of which nothing is lost (RFC 2544, section 26.4; RFC 9004).
        BackToBack = "back-to-back",
        /// How long after an overload packets are still lost (RFC 2544, section 26.5).
        Recovery = "recovery",
        /// For how long nothing passes while the device is reset (RFC 2544, section 26.6; RFC 6201).
        Reset = "reset",
        /// TCP's transfers with windows below, at and above the bandwidth-delay product (RFC 6349).
        Windows = "windows",
    }
}

impl Stage {
    /// Whether it measures frames, and needs no sockets.
    pub const fn is_of_frames(self) -> bool {
        !matches!(self, Stage::Windows)
    }
}

/// Parts of the throughput at which the delay is measured.
const LATENCY_PARTS: [f64; 4] = [0.1, 0.5, 0.9, 1.0];
/// Loss is measured at tenths of the highest load (RFC 2544, section 26.3: steps of 10 % at most).
const TENTHS: u32 = 10;
/// Of the throughput, before and after.
const OVERLOAD: f64 = 1.1;
const AFTERWARDS: f64 = 0.5;
/// The longest burst, seconds (RFC 2544, section 26.4).
const BURST_S: f64 = 2.0;
/// How near the longest burst that is carried and the shortest that is not are to each other.
const BURST_WIDTH: f64 = 0.01;

/// Its next trial. `throughput_bps`: what was found for the strictest goal.
pub(super) fn after(
    stage: Stage,
    asked: &SearchAsked,
    tried: &[TriedLoad],
    throughput_bps: Option<f64>,
) -> Option<Step> {
    match stage {
        Stage::Latency => latency(asked, tried, throughput_bps?),
        Stage::LossRate => loss_rate(asked, tried),
        Stage::BackToBack => burst(asked, tried),
        Stage::Recovery => recovery_step(asked, tried, throughput_bps?),
        Stage::Reset => reset(asked, tried, throughput_bps?),
        Stage::Windows => super::rfc6349::window(asked, tried, throughput_bps?),
    }
}

/// The trials that were for this.
pub(super) fn of(tried: &[TriedLoad], purpose: Purpose) -> impl DoubleEndedIterator<Item = &TriedLoad> {
    tried.iter().filter(move |one| one.step.purpose == purpose)
}

pub(super) fn step(purpose: Purpose, rung: u32, load_bps: f64, trial_s: f64) -> Step {
    Step { purpose, rung, load_bps, trial_s, stop_at_loss: None, packets: None, options: Vec::new() }
}

pub(super) fn option(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn latency(asked: &SearchAsked, tried: &[TriedLoad], throughput_bps: f64) -> Option<Step> {
    let done = of(tried, Purpose::Latency).count();
    let part = LATENCY_PARTS.get(done)?;
    // Frames say themselves when they were sent; what is counted in the kernel has no times of single ones.
    let options = match asked.is_of_frames {
        true => vec![option("receiver_api", "packet-recvmmsg")],
        false => vec![option("probe", true)],
    };
    Some(Step { options, ..step(Purpose::Latency, done as u32, throughput_bps * part, asked.stage_s) })
}

fn loss_rate(asked: &SearchAsked, tried: &[TriedLoad]) -> Option<Step> {
    let done = of(tried, Purpose::LossRate).count() as u32;
    let is_clean = |one: &TriedLoad| one.loss_ratio == Some(0.0);
    let last_two: Vec<bool> = of(tried, Purpose::LossRate).rev().take(2).map(is_clean).collect();
    let load_bps = asked.most_bps * f64::from(TENTHS.saturating_sub(done)) / f64::from(TENTHS);
    (done < TENTHS && last_two != [true, true]).then(|| step(Purpose::LossRate, done, load_bps, asked.stage_s))
}

/// RFC 2544, section 26.5: 110 % of the throughput for 60 s at least, or the highest load where that is less, then half.
fn recovery_step(asked: &SearchAsked, tried: &[TriedLoad], throughput_bps: f64) -> Option<Step> {
    if of(tried, Purpose::Recovery).next().is_some() {
        return None;
    }
    let overload = OfferedLoad::BitsPerSecond((throughput_bps * OVERLOAD).min(asked.most_bps).round() as u64);
    let time = Duration::from_secs_f64(asked.stage_s);
    let mut options = vec![option("first_rate", overload), option("first_time", format_duration(time))];
    if asked.is_of_frames {
        // What sends and counts in the kernel keeps one load, and not which frame was the last that was lost.
        options.extend([option("sender_api", "packet-sendmmsg"), option("receiver_api", "packet-recvmmsg")]);
    }
    Some(Step { options, ..step(Purpose::Recovery, 0, throughput_bps * AFTERWARDS, 2.0 * asked.stage_s) })
}

/// How long after the overload packets were lost, seconds, and what part of those sent was lost in all. `None`: it was not measured.
pub fn recovery(tried: &[TriedLoad]) -> Option<(f64, f64)> {
    let one = of(tried, Purpose::Recovery).next_back()?;
    Some((one.seen.recovery_s?, one.seen.loss_of_sent?))
}

fn reset(asked: &SearchAsked, tried: &[TriedLoad], throughput_bps: f64) -> Option<Step> {
    let is_done = of(tried, Purpose::Reset).next().is_some();
    (asked.reset.is_some() && !is_done).then(|| step(Purpose::Reset, 0, throughput_bps, asked.stage_s))
}

/// For how long a device that was reset passed nothing, seconds: what was lost, at the load's rate (RFC 6201, section 3.3.2, the
/// frame-loss method). `None`: it was not measured.
pub fn reset_s(tried: &[TriedLoad]) -> Option<f64> {
    let one = of(tried, Purpose::Reset).next_back()?;
    Some(one.loss_ratio? * one.step.trial_s)
}

/// What the bursts at the highest load say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// The longest burst of which nothing was lost, packets; absent: there is none.
    pub carried: Option<u64>,
    /// The shortest longer one of which something was lost, twice; absent: there is none.
    pub lost: Option<u64>,
    /// The longest that is tried.
    pub longest: u64,
    /// Packets a second at the highest load.
    pub per_second: f64,
}

impl Bursts {
    /// From the trials of a search. `None`: nobody knows how large its packets are.
    pub fn of(asked: &SearchAsked, tried: &[TriedLoad]) -> Option<Bursts> {
        let octets = asked.packet_octets.filter(|octets| *octets > 0)?;
        let per_second = asked.most_bps / 8.0 / f64::from(octets);
        let longest = ((per_second * BURST_S) as u64).max(1);
        let mut bursts = Bursts { carried: None, lost: None, longest, per_second };
        let is_whole = |one: &TriedLoad| Some((one.step.packets?, one.loss_ratio? == 0.0));
        let mut all: Vec<(u64, bool)> = of(tried, Purpose::BackToBack).filter_map(is_whole).collect();
        all.sort_by_key(|(packets, _)| *packets);
        for group in all.chunk_by(|a, b| a.0 == b.0).take_while(|group| !is_lost(group)) {
            bursts.carried = group.iter().any(|(_, is_whole)| *is_whole).then_some(group[0].0).or(bursts.carried);
        }
        bursts.lost = all.chunk_by(|a, b| a.0 == b.0).find(|group| is_lost(group)).map(|group| group[0].0);
        Some(bursts)
    }

    /// For how long the path's buffer takes in what it cannot pass on, seconds: of the longest burst, what it did pass on
    /// meanwhile is left out (RFC 9004, section 5.4, the corrected buffer time). `None`: the longest burst was carried, too.
    pub fn buffer_s(&self, asked: &SearchAsked, throughput_bps: f64) -> Option<f64> {
        let carried = self.carried.filter(|carried| *carried < self.longest)? as f64;
        Some(carried / self.per_second * (1.0 - throughput_bps / asked.most_bps))
    }
}

/// A loss that does not come again is an accident (RFC 9004, section 5.3, loss verification).
fn is_lost(group: &[(u64, bool)]) -> bool {
    group.len() > 1 && group.iter().all(|(_, is_whole)| !is_whole)
}

fn burst(asked: &SearchAsked, tried: &[TriedLoad]) -> Option<Step> {
    let Bursts { carried, lost, longest, per_second } = Bursts::of(asked, tried)?;
    let last = of(tried, Purpose::BackToBack).next_back();
    let again = last.filter(|last| {
        let times = of(tried, Purpose::BackToBack).filter(|one| one.step.packets == last.step.packets).count();
        times == 1 && last.loss_ratio.is_some_and(|loss| loss > 0.0)
    });
    let packets = match (again, carried, lost) {
        (Some(again), ..) => again.step.packets?,
        (None, Some(carried), None) if carried >= longest => return None,
        (None, _, None) => longest,
        (None, carried, Some(lost)) => {
            let carried = carried.unwrap_or(0);
            if lost - carried <= ((lost as f64 * BURST_WIDTH) as u64).max(1) {
                return None;
            }
            // By the logarithm: nobody knows of which size it is.
            let middle = (carried.max(1) as f64 * lost as f64).sqrt().round() as u64;
            middle.clamp(carried + 1, lost - 1)
        }
    };
    let rung = u32::try_from(packets).unwrap_or(u32::MAX);
    let trial_s = packets as f64 / per_second;
    Some(Step { packets: Some(packets), ..step(Purpose::BackToBack, rung, asked.most_bps, trial_s) })
}

#[cfg(test)]
mod tests {
    use super::super::TrialFigures;
    use super::super::tests::{asked, tried};
    use super::*;

    /// A path that carries so many bits per second and holds so many packets: what it makes of a step.
    fn lost(step: &Step, capacity_bps: f64, holds: f64) -> f64 {
        let packets = step.packets.map_or(step.load_bps * step.trial_s / 8.0 / 1000.0, |packets| packets as f64);
        let queued = packets * (1.0 - capacity_bps / step.load_bps).max(0.0);
        (queued - holds).max(0.0).floor() / packets
    }

    #[test]
    fn loss_is_measured_down_to_two_clean_trials() {
        let asked = SearchAsked { stages: vec![Stage::LossRate], ..asked() };
        for (capacity_bps, loads) in [
            (200e6, vec![100, 90]),
            (65e6, vec![100, 90, 80, 70, 60, 50]),
            (0.0, (1..=10).rev().map(|n| n * 10).collect()),
        ] {
            let mut all = Vec::new();
            while let Some(step) = after(Stage::LossRate, &asked, &all, None) {
                let loss = lost(&step, capacity_bps, 0.0);
                all.push(tried(step, loss));
            }
            let tried: Vec<i32> = all.iter().map(|one| (one.step.load_bps / 1e6).round() as i32).collect();
            assert_eq!(tried, loads, "{capacity_bps}");
        }
    }

    #[test]
    fn an_overload_is_followed_by_half_of_what_was_found() {
        let asked = SearchAsked { stages: vec![Stage::Recovery], stage_s: 60.0, is_of_frames: true, ..asked() };
        let step = after(Stage::Recovery, &asked, &[], Some(50e6)).unwrap();
        assert_eq!((step.load_bps, step.trial_s), (25e6, 120.0));
        let of = |name: &str| step.options.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!([of("first_rate"), of("first_time")], ["55M", "1m"]);
        // No more than the line carries.
        let step = after(Stage::Recovery, &asked, &[], Some(99e6)).unwrap();
        assert_eq!(step.options[0].1, "100M");
        let done = TriedLoad {
            seen: TrialFigures { recovery_s: Some(0.25), loss_of_sent: Some(0.01), ..TrialFigures::default() },
            ..tried(step, 0.01)
        };
        assert_eq!(recovery(std::slice::from_ref(&done)), Some((0.25, 0.01)));
        assert_eq!(after(Stage::Recovery, &asked, &[done], Some(99e6)), None);
        // A reset is measured once, and only with a command.
        assert_eq!(after(Stage::Reset, &asked, &[], Some(50e6)), None);
        let asked = SearchAsked { reset: Some("true".to_owned()), stage_s: 30.0, ..asked };
        let step = after(Stage::Reset, &asked, &[], Some(50e6)).unwrap();
        assert_eq!((step.load_bps, step.trial_s), (50e6, 30.0));
        assert_eq!(reset_s(&[tried(step, 0.25)]), Some(7.5));
    }

    /// Closed form: a burst of N at load L fills B where N (1 - c / L) = B.
    #[test]
    fn the_longest_burst_tells_the_buffer() {
        let asked = SearchAsked { packet_octets: Some(1000), stages: vec![Stage::BackToBack], ..asked() };
        for (capacity_bps, holds) in [(60e6, 50.0), (60e6, 1_000.0), (90e6, 512.0), (10e6, 3.0)] {
            let mut all = Vec::new();
            while let Some(step) = after(Stage::BackToBack, &asked, &all, None) {
                // One accident in seven.
                let loss = if all.len() % 7 == 3 { 0.1 } else { lost(&step, capacity_bps, holds) };
                all.push(tried(step, loss));
                assert!(all.len() < 80, "no end");
            }
            let bursts = Bursts::of(&asked, &all).unwrap();
            let longest = (holds + 1.0) / (1.0 - capacity_bps / asked.most_bps);
            let carried = bursts.carried.unwrap() as f64;
            assert!(carried <= longest && carried >= longest * 0.98 - 2.0, "{longest}: {bursts:?}");
            let buffer_s = bursts.buffer_s(&asked, capacity_bps).unwrap();
            assert!((buffer_s * bursts.per_second - holds).abs() <= 0.02 * holds + 2.0, "{holds}: {buffer_s}");
        }
        // What is carried for two seconds has no end that is known.
        let mut all = Vec::new();
        while let Some(step) = after(Stage::BackToBack, &asked, &all, None) {
            all.push(tried(step, 0.0));
        }
        let bursts = Bursts::of(&asked, &all).unwrap();
        assert_eq!((all.len(), bursts.carried, bursts.buffer_s(&asked, 60e6)), (1, Some(bursts.longest), None));
    }
}
