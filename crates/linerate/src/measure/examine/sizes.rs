//! The search for the largest packet that passes one way, in rounds of several sizes at once.
//! Knows no agents; what came of a round is an argument.

use std::net::IpAddr;

use linerate_machine::end::{End, PerEnd};
use linerate_machine::probe::{Packet, ProbeReport, WitnessReport};
use linerate_path::budget::{DropCause, LossLine};
use linerate_results::examination::{Failed, Passed, PerEndMtu, Place, StepResult};

/// Sizes that links, tunnels and switches usually have.
const USUAL: [u32; 16] =
    [9000, 8000, 4352, 4000, 2000, 1500, 1496, 1492, 1480, 1472, 1450, 1420, 1400, 1380, 1280, 576];
/// Sizes at once.
const AT_ONCE: u32 = 18;
/// The search for the largest packet that passes one way.
#[derive(Clone)]
pub(super) struct Search {
    pub(super) full: u32,
    pub(super) passes: u32,
    pub(super) fails: u32,
    /// What ICMP says, and who.
    pub(super) told: Option<(u32, Option<IpAddr>)>,
    /// To try next; none: it is known.
    pub(super) sizes: Vec<u32>,
}

impl Search {
    pub(super) fn learn(&mut self, report: &ProbeReport, heard: &WitnessReport) {
        let arrived = |octets: u32| heard.datagrams.iter().any(|(one, _)| *one == octets);
        for one in &report.sizes {
            if arrived(one.octets) {
                self.passes = self.passes.max(one.octets);
            } else if one.sent > 0 || one.too_large {
                self.fails = self.fails.min(one.octets);
            }
            self.told = self.told.or(one.told_mtu.map(|told| (told.octets, told.by)));
        }
        // Packets of one size may be lost by chance; what passes decides.
        self.fails = self.fails.max(self.passes + 1);
        let tried = |size: &u32| report.sizes.iter().any(|one| one.octets == *size);
        self.sizes = match self.told {
            _ if self.fails - self.passes <= 1 => Vec::new(),
            Some((told, _)) if told > self.passes && told < self.fails && !tried(&told) => vec![told],
            _ => self.between(),
        };
        if report.sizes.is_empty() {
            self.sizes.clear();
        }
        // What ICMP says is the answer, once that much has passed.
        if self.told.is_some_and(|(told, _)| told == self.passes) {
            self.sizes.clear();
        }
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
    ) -> StepResult {
        if self.passes >= self.full {
            return StepResult::Passed(Passed::Size { octets: self.full, told_by: None });
        }
        if let Some((told, Some(by))) = self.told
            && self.passes >= told
        {
            return StepResult::Passed(Passed::Size { octets: self.passes, told_by: Some(by) });
        }
        let full = |end: End, left: bool| {
            let packets = heard[end].packets.as_ref()?;
            let is_it = |what: Packet| matches!(what, Packet::Datagram { octets } if octets == self.full);
            Some(packets.iter().find(|seen| seen.left == left && is_it(seen.what)))
        };
        let place = match (full(from, true), full(from.other(), false)) {
            (Some(None), _) => Some(Place::NotOut { interface: interfaces[from].clone() }),
            (_, Some(Some(seen))) => Some(Place::NotUp { interface: seen.interface.clone(), expected: None }),
            // What a program in the driver drops nobody sees come.
            _ => interfaces[from.other()]
                .clone()
                .filter(|_| drops.iter().any(|line| is_of_program(line, from.other())))
                .map(|interface| Place::Program { interface }),
        };
        StepResult::Failed(Failed::Size { largest: self.passes, mtus, place, drops: drops.to_vec() })
    }
}

/// Whether counters of this end say that a program dropped what came.
fn is_of_program(line: &LossLine, end: End) -> bool {
    line.end == end && matches!(line.cause, Some(DropCause::Xdp | DropCause::Ingress | DropCause::RedirectQueue))
}
