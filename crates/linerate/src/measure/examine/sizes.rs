//! The search for the largest packet that passes one way, in rounds of several sizes at once.
//! Knows no agents; what came of a round is an argument.

use std::net::IpAddr;

use linerate_machine::end::{End, PerEnd};
use linerate_machine::probe::{Packet, ProbeReport, WitnessReport};
use linerate_path::budget::{DropCause, LossLine};
use linerate_results::examination::{Failed, Passed, PerEndMtu, Place, StepResult, Unknown};

/// Sizes that links, tunnels and switches usually have.
const USUAL: [u32; 16] =
    [9000, 8000, 4352, 4000, 2000, 1500, 1496, 1492, 1480, 1472, 1450, 1420, 1400, 1380, 1280, 576];
/// Sizes at once.
const AT_ONCE: u32 = 18;
/// So often what does not pass is tried again, each time from another port: a way may lose one flow and not another, or everything
/// for a moment.
const CONFIRMED: u8 = 2;

/// The search for the largest packet that passes one way.
#[derive(Clone)]
pub(super) struct Search {
    pub(super) full: u32,
    passes: u32,
    fails: u32,
    /// What ICMP says, and who.
    told: Option<(u32, Option<IpAddr>)>,
    /// To try next; none: it is known.
    sizes: Vec<u32>,
    /// How many of the size that is known to pass had come before this round.
    came_before: u32,
    /// How often what fails was tried again, and how many rounds in a row not even what passes came.
    confirmed: u8,
    lost_rounds: u8,
}

impl Search {
    /// Of a way that packets of `small` octets pass, and whose links carry `full`.
    pub(super) fn new(small: u32, full: u32) -> Search {
        let (fails, sizes) = (full + 1, vec![full]);
        Search { full, passes: small, fails, told: None, sizes, came_before: 0, confirmed: 0, lost_rounds: 0 }
    }

    /// What to send now: the size that is known to pass first, without which a round says nothing of the others.
    pub(super) fn round(&self) -> Option<Vec<u32>> {
        let sizes = Some(&self.sizes).filter(|sizes| !sizes.is_empty())?;
        Some(std::iter::once(self.passes).chain(sizes.iter().copied()).collect())
    }

    pub(super) fn learn(&mut self, report: &ProbeReport, heard: &WitnessReport) {
        let arrived =
            |octets: u32| heard.datagrams.iter().find(|(one, _)| *one == octets).map_or(0, |(_, count)| *count);
        let is_witnessed = arrived(self.passes) > self.came_before || report.sizes.iter().any(|one| one.too_large);
        self.learn_late(heard);
        for one in &report.sizes {
            if is_witnessed && one.octets > self.passes && (one.sent > 0 || one.too_large) {
                self.fails = self.fails.min(one.octets);
            }
            self.told = self.told.or(one.told_mtu.map(|told| (told.octets, told.by)));
        }
        // Packets of one size may be lost by chance, and all of them with their flow; what passes decides.
        self.fails = self.fails.max(self.passes + 1);
        self.came_before = arrived(self.passes);
        self.lost_rounds = if is_witnessed { 0 } else { self.lost_rounds + 1 };
        let tried = |size: &u32| report.sizes.iter().any(|one| one.octets == *size);
        let is_told = self.told.is_some_and(|(told, _)| told == self.passes);
        self.sizes = match self.told {
            // What ICMP says is the answer, once that much has passed.
            _ if report.sizes.is_empty() || is_told || self.passes >= self.full || self.lost_rounds > CONFIRMED => {
                Vec::new()
            }
            _ if !is_witnessed => std::mem::take(&mut self.sizes),
            Some((told, _)) if told > self.passes && told < self.fails && !tried(&told) => vec![told],
            _ if self.fails - self.passes > 1 => self.between(),
            _ if self.confirmed < CONFIRMED && !report.sizes.iter().any(|one| one.too_large) => {
                self.confirmed += 1;
                if self.fails == self.full { vec![self.full] } else { vec![self.fails, self.full] }
            }
            _ => Vec::new(),
        };
    }

    /// What has come passes, though it may be of an earlier round: a slow way is late with it.
    pub(super) fn learn_late(&mut self, heard: &WitnessReport) {
        let sizes = heard.datagrams.iter().filter(|(octets, count)| *count > 0 && *octets <= self.full);
        self.passes = sizes.map(|(octets, _)| *octets).fold(self.passes, u32::max);
        if self.is_full() {
            self.sizes.clear();
        }
    }

    /// Whether all passes that the link carries.
    pub(super) fn is_full(&self) -> bool {
        self.passes >= self.full
    }

    /// Whether it came to an end: more of what is known to pass was lost than tells anything.
    fn is_known(&self) -> bool {
        self.lost_rounds == 0
    }

    /// Usual sizes first, then evenly between.
    fn between(&self) -> Vec<u32> {
        let inside = self.passes + 1..self.fails;
        let usual: Vec<u32> = USUAL.into_iter().filter(|size| inside.contains(size)).collect();
        let is_first = self.fails == self.full && self.passes < USUAL[USUAL.len() - 1];
        if is_first && !usual.is_empty() {
            return usual;
        }
        let room = self.fails - self.passes;
        let parts = room.min(AT_ONCE + 1);
        (1..parts).map(|part| self.passes + (u64::from(room) * u64::from(part) / u64::from(parts)) as u32).collect()
    }

    pub(super) fn came(
        &self,
        from: End,
        heard: &PerEnd<WitnessReport>,
        mtus: PerEndMtu,
        drops: &[LossLine],
        interfaces: &PerEnd<Option<String>>,
        routed: bool,
    ) -> StepResult {
        if self.is_full() {
            return StepResult::Passed(Passed::Size { octets: self.full, told_by: None });
        }
        if let Some((told, Some(by))) = self.told
            && self.passes >= told
        {
            return StepResult::Passed(Passed::Size { octets: self.passes, told_by: Some(by) });
        }
        if !self.is_known() {
            return StepResult::Unknown(Unknown::Lossy);
        }
        let full = |end: End, left: bool| {
            let packets = heard[end].packets.as_ref()?;
            let is_it = |what: Packet| matches!(what, Packet::Datagram { octets } if octets == self.full);
            Some(packets.iter().find(|seen| seen.left == left && is_it(seen.what)))
        };
        let place = match (full(from, true), full(from.other(), false)) {
            (Some(None), _) => Some(Place::NotOut { interface: interfaces[from].clone() }),
            (_, Some(Some(seen))) => Some(Place::NotUp { interface: seen.interface.clone(), expected: None }),
            // What an XDP program drops in the driver is not seen arriving.
            _ => interfaces[from.other()]
                .clone()
                .filter(|_| drops.iter().any(|line| is_of_program(line, from.other())))
                .map(|interface| Place::Program { interface }),
        };
        StepResult::Failed(Failed::Size { largest: self.passes, mtus, place, drops: drops.to_vec(), routed })
    }
}

/// Whether counters of this end say that a program dropped what came.
fn is_of_program(line: &LossLine, end: End) -> bool {
    line.end == end && matches!(line.cause, Some(DropCause::Xdp | DropCause::Ingress | DropCause::RedirectQueue))
}

#[cfg(test)]
mod tests {
    use linerate_machine::probe::SizeTried;

    use super::*;

    /// Searches a way that lets these pass, given the round and the size; what came of it, and in how many rounds.
    fn search(full: u32, passes: impl Fn(usize, u32) -> bool) -> (Search, usize) {
        let (mut search, mut heard, mut rounds) = (Search::new(68, full), WitnessReport::default(), 0);
        while let Some(sizes) = search.round() {
            assert!(rounds < 30 && sizes.len() <= 20, "{sizes:?}");
            let tried = |octets: &u32| SizeTried { octets: *octets, sent: 1, too_large: false, told_mtu: None };
            let report = ProbeReport { sizes: sizes.iter().map(tried).collect(), ..ProbeReport::default() };
            for octets in sizes.into_iter().filter(|octets| passes(rounds, *octets)) {
                match heard.datagrams.iter_mut().find(|(one, _)| *one == octets) {
                    Some((_, count)) => *count += 1,
                    None => heard.datagrams.push((octets, 1)),
                }
            }
            search.learn(&report, &heard);
            rounds += 1;
        }
        (search, rounds)
    }

    #[test]
    fn the_largest_packet_is_found_to_the_octet() {
        for most in [68, 576, 577, 1399, 1400, 1472, 1499] {
            let (found, rounds) = search(1500, |_, octets| octets <= most);
            assert_eq!((found.passes, found.is_known()), (most, true));
            assert!(rounds <= 7, "{most}: {rounds}");
        }
        assert_eq!(search(1500, |_, _| true).1, 1);
        assert_eq!(search(9000, |_, octets| octets <= 4_096).0.passes, 4_096);
    }

    #[test]
    fn what_comes_a_round_late_passes() {
        let mut search = Search::new(68, 1500);
        let report = |sizes: &[u32]| {
            let tried = |octets: &u32| SizeTried { octets: *octets, sent: 2, too_large: false, told_mtu: None };
            ProbeReport { sizes: sizes.iter().map(tried).collect(), ..ProbeReport::default() }
        };
        let heard = |datagrams: &[(u32, u32)]| WitnessReport { datagrams: datagrams.to_vec(), ..Default::default() };
        search.learn(&report(&[68, 1500]), &heard(&[(68, 2)]));
        assert!(!search.is_full());
        search.learn(&report(&[68, 576, 1480]), &heard(&[(68, 4), (576, 1), (1500, 2)]));
        assert!(search.is_full() && search.round().is_none());
        let mut search = Search::new(68, 1500);
        search.learn(&report(&[68, 1500]), &heard(&[(68, 2)]));
        search.learn_late(&heard(&[(68, 2), (1500, 1)]));
        assert!(search.is_full());
    }

    #[test]
    fn a_way_that_loses_flows_or_moments_has_no_smaller_mtu() {
        // Each second port, and each of three rounds in a row of which the first is lost.
        for dead in [0, 1] {
            assert_eq!(search(1500, |round, octets| octets <= 200 || round % 2 == dead).0.passes, 1500, "{dead}");
        }
        for alive in 0..3 {
            assert_eq!(search(1500, |round, _| round % 3 == alive).0.passes, 1500, "{alive}");
        }
        let (found, rounds) = search(1500, |_, _| false);
        assert!(!found.is_known() && rounds == 3, "{rounds}");
    }
}
