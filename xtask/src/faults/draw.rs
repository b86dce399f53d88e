//! Cases drawn by a seed: half of them healthy, the other half with one fault or two, of families that stand in `families`.
//! Knows workloads and their parameters, and no fault.

use linerate_machine::end::End;
use linerate_trial::pace::SplitMix64;

use super::case::{Action, Between, Case, IPV6, Place, Start, What, Witness, other, way_of};
use super::families::{self, Family};
use super::relay::Impairment;

/// The case of this number. It depends on nothing but the seed and the number.
pub(super) fn case(seed: u64, number: u64, only_family: Option<&str>) -> Case {
    // Far apart, so that neighbouring seeds and numbers have nothing in common.
    let mut draft =
        Draft::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd134_2543_de82_ef95), number);
    let named = |family: &&Family| only_family.is_some_and(|name| name == family.name);
    let all = || families::faults().chain(&families::HEALTHY);
    if let Some(family) = all().find(named) {
        draft.plant(family);
        return draft.case;
    }
    // Healthy and not in turns, so that few cases have both.
    if number.is_multiple_of(2) {
        let family = draft.weighted(&families::HEALTHY);
        draft.plant(family);
    } else if number > FIRST && number % LATER_EVERY == 1 {
        let family = draft.weighted(&families::LATER);
        draft.plant(family);
    } else {
        let family = draft.weighted(&families::FAULTS);
        draft.plant(family);
        // Of two faults either may be named first, on whichever machine.
        if draft.takes_another() && draft.one_in(3) {
            let second = draft.weighted(&families::SECOND);
            if second.name != family.name {
                draft.plant(second);
                draft.case.at = None;
            }
        }
    }
    draft.case
}

/// Numbers above the first of which every so many-th draws a family that came later.
const FIRST: u64 = 10;
const LATER_EVERY: u64 = 10;

/// A case that is being drawn.
pub(super) struct Draft {
    pub(super) case: Case,
    chance: SplitMix64,
    /// Packets a second, about, the way that the traffic goes.
    pub(super) per_s: u64,
    pub(super) duration_ms: u64,
    /// Octets of a datagram's or a request's payload.
    pub(super) message: u64,
    /// Bits per second that are asked, of payload; `None`: as fast as it goes.
    pub(super) rate_bps: Option<u64>,
}

impl Draft {
    fn new(seed: u64, number: u64) -> Draft {
        let mut chance = SplitMix64::new(seed);
        let relay_seed = chance.below(1 << 32);
        let case = Case {
            number,
            seed: relay_seed,
            families: Vec::new(),
            what: Vec::new(),
            between: Between::Cable,
            impairments: [Impairment::default(); 2],
            actions: Vec::new(),
            witnesses: Vec::new(),
            starts: [Start::default(), Start::default()],
            plan: "udp-stream",
            set: Vec::new(),
            sender: Some(End::Host),
            at: None,
            carries_bps: None,
            lasts_ms: None,
            way: None,
            is_ipv6: false,
        };
        Draft { case, chance, per_s: 0, duration_ms: 0, message: 0, rate_bps: None }
    }

    /// A stream one way over the relay that is not over at once.
    fn takes_another(&self) -> bool {
        let families = ["loss", "burst-loss", "reordering", "duplicates", "damage", "policer", "lossy-far-path"];
        families.contains(&self.case.families[0]) && self.case.way.is_none()
    }

    fn weighted(&mut self, families: &'static [Family]) -> &'static Family {
        let mut left = self.chance.below(families.iter().map(|family| family.weight).sum());
        let of = |family: &&Family| {
            let is_it = left < family.weight;
            left = left.saturating_sub(family.weight);
            is_it
        };
        families.iter().find(of).expect("the weights' sum is larger than what is left")
    }

    fn plant(&mut self, family: &'static Family) {
        self.case.families.push(family.name);
        (family.draw)(self);
    }

    /// From `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.chance.below(most - least + 1)
    }

    /// From `least` to `most`, small ones as likely as large ones.
    pub(super) fn scaled(&mut self, least: u64, most: u64) -> u64 {
        let part = self.chance.below(1 << 20) as f64 / f64::from(1 << 20);
        (least as f64 * (most as f64 / least as f64).powf(part)).round() as u64
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.chance.below(choices.len() as u64) as usize]
    }

    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.chance.below(times) == 0
    }

    pub(super) fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.case.set.push(format!("{name}={value}"));
    }

    pub(super) fn say(&mut self, what: impl Into<String>) {
        self.case.what.push(what.into());
    }

    pub(super) fn lies_between(&mut self, choices: &[Between]) {
        self.case.between = self.of(choices);
        self.case.is_ipv6 = self.one_in(5);
        if self.case.is_ipv6 {
            self.case.set.push(IPV6.to_owned());
        }
    }

    /// Who sends, or asks: one of both.
    pub(super) fn one_way(&mut self) -> End {
        let sender = self.of(&[End::Target, End::Host]);
        self.case.sender = Some(sender);
        self.set("direction", if sender == End::Target { "tx" } else { "rx" });
        sender
    }

    pub(super) fn both_ways(&mut self) {
        self.case.sender = None;
        self.set("direction", "both");
    }

    pub(super) fn lasts(&mut self, least_ms: u64, most_ms: u64) {
        self.duration_ms = self.between(least_ms / 100, most_ms / 100) * 100;
        self.set("duration", format!("{}ms", self.duration_ms));
    }

    /// UDP at a rate that no machine here is hard put to.
    pub(super) fn udp(&mut self, least_mbps: u64, most_mbps: u64) {
        self.case.plan = "udp-stream";
        let mbps = self.scaled(least_mbps, most_mbps);
        self.message = self.of(&[400, 1000, 1200, 1400, 1432]);
        self.rate_bps = Some(mbps * 1_000_000);
        self.per_s = mbps * 125_000 / self.message;
        self.set("rate", format!("{mbps}M"));
        self.set("message_size", self.message);
    }

    /// TCP as fast as it goes, or at a rate.
    pub(super) fn tcp(&mut self, mbps: Option<u64>) {
        self.case.plan = "tcp-stream";
        self.message = 1448;
        self.rate_bps = mbps.map(|mbps| mbps * 1_000_000);
        self.per_s = mbps.unwrap_or(100) * 1_000_000 / 8 / 1448;
        if let Some(mbps) = mbps {
            self.set("rate", format!("{mbps}M"));
        }
    }

    /// Requests at a rate.
    pub(super) fn requests(&mut self, plans: &[&'static str]) {
        self.case.plan = self.of(plans);
        self.message = self.of(&[64, 64, 200, 1000]);
        self.per_s = if self.case.plan == "tcp-crr" { self.scaled(50, 200) } else { self.scaled(100, 800) };
        self.set("rate", format!("{}pps", self.per_s));
        self.set("request_size", self.message);
        self.set("response_size", self.message);
    }

    /// The relay does this to what `end` sends, and shows at least so many of the counts.
    pub(super) fn impair(
        &mut self,
        end: End,
        change: impl FnOnce(&mut Impairment),
        counts: &'static [&'static str],
        least: u64,
    ) {
        let way = way_of(end);
        change(&mut self.case.impairments[way]);
        self.case.witnesses.push(Witness::Relay(way, counts, least));
    }

    /// A delay each way: a path that is not a cable.
    pub(super) fn far(&mut self, least_us: u64, most_us: u64) -> u64 {
        let delay_us = self.scaled(least_us, most_us);
        for impairment in &mut self.case.impairments {
            impairment.delay_us = delay_us;
        }
        self.say(format!("{} ms each way", delay_us as f64 / 1000.0));
        delay_us
    }

    pub(super) fn before(&mut self, place: impl Into<Place>, lines: impl Into<String>) {
        self.case.actions.push(Action { after_ms: None, what: What::Shell(place.into(), lines.into()) });
    }

    pub(super) fn after(&mut self, ms: u64, what: What) {
        self.case.actions.push(Action { after_ms: Some(ms), what });
    }

    pub(super) fn witness(&mut self, place: impl Into<Place>, lines: &str, least: u64, name: &'static str) {
        self.case.witnesses.push(Witness::Shell(place.into(), lines.to_owned(), least, name));
    }

    pub(super) fn sender(&self) -> End {
        self.case.sender.unwrap_or(End::Host)
    }

    pub(super) fn receiver(&self) -> End {
        other(self.sender())
    }

    /// A share, of a million, that makes so many events of the trial's packets, and is no less than asked for.
    pub(super) fn enough_ppm(&self, ppm: u64, events: u64) -> u64 {
        let packets = (self.per_s * self.duration_ms / 1000).max(1);
        ppm.max(events * 1_000_000 / packets).min(200_000)
    }
}
