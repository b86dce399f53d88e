//! Memory between a CPU and a device: a store buffer, a write-back cache that no device looks into, and what lies behind.
//! Knows what may happen next, not when; `world` chooses.
//!
//! ```text
//!   CPU ──► store buffer ──► memory ◄──► device
//!    └────► cache lines ──────┘             (reads what is in memory, never what is before it)
//! ```

use std::ops::Range;

/// Octets of a cache line.
pub const LINE: u32 = 32;
const LINE_WORDS: usize = LINE as usize / 4;
/// Stores that wait at the same time.
const STORES: usize = 12;

/// In which order stores leave the CPU, and loads are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the program (x86): stores one after the other, device registers among them; loads in order.
    Program,
    /// As it comes (Arm, RISC-V, PowerPC): stores to different words in any order, device registers before all of them,
    /// and a load may have been answered before the one before it.
    Weak,
}

/// What the machine may do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The store at this place of the buffer reaches memory.
    Drain(usize),
    /// The cache writes a dirty line back.
    Evict(u32),
    /// The cache reads a line before it is asked for.
    Prefetch(u32),
}

/// A store on its way: one word, or a line that is being cleaned.
#[derive(Clone, Debug)]
struct Store {
    at: u32,
    words: [u32; LINE_WORDS],
    count: usize,
}

#[derive(Clone, Debug)]
struct Line {
    at: u32,
    words: [u32; LINE_WORDS],
    dirty: bool,
}

/// All memory of a machine, from address 0.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Vec<u32>,
    order: Order,
    cached: Vec<Range<u32>>,
    /// Lines that the cache may read by itself.
    prefetched: Vec<Range<u32>>,
    stores: Vec<Store>,
    lines: Vec<Line>,
    /// Words that the device wrote since the last barrier, as they were before.
    before: Vec<(u32, u32)>,
}

impl Memory {
    /// `octets` of zeroes, of which these ranges are cached, and these of them read ahead.
    pub fn new(octets: u32, order: Order, cached: Vec<Range<u32>>, prefetched: Vec<Range<u32>>) -> Memory {
        let words = vec![0; octets as usize / 4];
        Memory { words, order, cached, prefetched, stores: Vec::new(), lines: Vec::new(), before: Vec::new() }
    }

    /// The order of stores and loads.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether there are so many octets at `at`.
    pub fn has(&self, at: u32, octets: u32) -> bool {
        at.checked_add(octets).is_some_and(|end| end as usize <= self.words.len() * 4)
    }

    /// A word as the device reads it.
    pub fn device_read(&self, at: u32) -> u32 {
        self.words[at as usize / 4]
    }

    /// A word as the device writes it. The cache does not learn of it.
    pub fn device_write(&mut self, at: u32, value: u32) {
        if self.order == Order::Weak && !self.is_cached(at) && !self.before.iter().any(|&(word, _)| word == at) {
            self.before.push((at, self.words[at as usize / 4]));
        }
        self.words[at as usize / 4] = value;
    }

    /// Octets as the device reads them.
    pub fn device_load(&self, at: u32, octets: u32) -> Vec<u8> {
        (at..at + octets).map(|at| (self.device_read(at & !3) >> (at % 4 * 8)) as u8).collect()
    }

    /// Octets as the device writes them.
    pub fn device_store(&mut self, at: u32, octets: &[u8]) {
        for (&octet, at) in octets.iter().zip(at..) {
            let shift = at % 4 * 8;
            let word = self.device_read(at & !3) & !(0xff << shift) | u32::from(octet) << shift;
            self.device_write(at & !3, word);
        }
    }

    /// Whether the CPU's store has to wait for another to leave.
    pub fn is_full(&self) -> bool {
        self.stores.len() >= STORES
    }

    /// Whether every store has reached memory.
    pub fn is_drained(&self) -> bool {
        self.stores.is_empty()
    }

    /// A barrier of the CPU's, which has waited for the stores: what was read before it is not read again.
    pub fn pass_barrier(&mut self) {
        self.before.clear();
    }

    /// What the CPU may read at `at`: what is there, and what was there when the last barrier was passed, where a load may
    /// have been answered since.
    pub fn may_read(&self, at: u32) -> (u32, Option<u32>) {
        if let Some(line) = self.line(at) {
            return (line.words[at as usize % LINE as usize / 4], None);
        }
        let stored = self.stores.iter().rev().find_map(|store| {
            let nth = at.checked_sub(store.at)? as usize / 4;
            (nth < store.count).then(|| store.words[nth])
        });
        if let Some(value) = stored {
            return (value, None);
        }
        let old = self.before.iter().find(|&&(word, _)| word == at).map(|&(_, old)| old);
        (self.device_read(at), old)
    }

    /// The CPU has read `at` as it is: no later reading sees what was before.
    pub fn has_read(&mut self, at: u32) {
        self.before.retain(|&(word, _)| word != at);
        if self.is_cached(at) && self.line(at).is_none() {
            self.fill(at);
        }
    }

    /// The CPU writes a word.
    pub fn write(&mut self, at: u32, value: u32) {
        if self.is_cached(at) {
            let line = match self.lines.iter().position(|line| line.at == at & !(LINE - 1)) {
                Some(place) => &mut self.lines[place],
                None => self.fill(at),
            };
            line.words[at as usize % LINE as usize / 4] = value;
            line.dirty = true;
        } else {
            let mut words = [0; LINE_WORDS];
            words[0] = value;
            self.stores.push(Store { at, words, count: 1 });
        }
    }

    /// The CPU cleans the lines of these octets: what is dirty of them is on its way to memory.
    pub fn clean(&mut self, at: u32, octets: u32) {
        for line in self.lines.iter_mut().filter(|line| line.dirty && touches(line.at, at, octets)) {
            line.dirty = false;
            self.stores.push(Store { at: line.at, words: line.words, count: LINE_WORDS });
        }
    }

    /// The CPU drops the lines of these octets, dirty ones too.
    pub fn invalidate(&mut self, at: u32, octets: u32) {
        self.lines.retain(|line| !touches(line.at, at, octets));
    }

    /// What the machine may do now.
    pub fn actions(&self, into: &mut Vec<Action>) {
        for place in 0..self.stores.len() {
            let free = match self.order {
                Order::Program => place == 0,
                Order::Weak => {
                    let store = &self.stores[place];
                    let overlaps = |other: &Store| {
                        store.at < other.at + other.count as u32 * 4 && other.at < store.at + store.count as u32 * 4
                    };
                    !self.stores[..place].iter().any(overlaps)
                }
            };
            if free {
                into.push(Action::Drain(place));
            }
        }
        into.extend(self.lines.iter().filter(|line| line.dirty).map(|line| Action::Evict(line.at)));
        for range in &self.prefetched {
            let lines = range.clone().step_by(LINE as usize);
            into.extend(lines.filter(|&at| self.line(at).is_none()).map(Action::Prefetch));
        }
    }

    /// Does one of them.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Drain(place) => {
                let store = self.stores.remove(place);
                let first = store.at as usize / 4;
                self.words[first..first + store.count].copy_from_slice(&store.words[..store.count]);
                self.before.retain(|&(word, _)| word < store.at || word >= store.at + store.count as u32 * 4);
            }
            Action::Evict(at) => {
                let Some(line) = self.lines.iter_mut().find(|line| line.at == at) else { return };
                line.dirty = false;
                let first = at as usize / 4;
                self.words[first..first + LINE_WORDS].copy_from_slice(&line.words);
            }
            Action::Prefetch(at) => {
                self.fill(at);
            }
        }
    }

    fn is_cached(&self, at: u32) -> bool {
        self.cached.iter().any(|range| range.contains(&at))
    }

    fn line(&self, at: u32) -> Option<&Line> {
        self.lines.iter().find(|line| line.at == at & !(LINE - 1))
    }

    fn fill(&mut self, at: u32) -> &mut Line {
        let at = at & !(LINE - 1);
        let first = at as usize / 4;
        let mut words = [0; LINE_WORDS];
        words.copy_from_slice(&self.words[first..first + LINE_WORDS]);
        self.lines.push(Line { at, words, dirty: false });
        self.lines.last_mut().expect("it was just put there")
    }
}

fn touches(line: u32, at: u32, octets: u32) -> bool {
    line < at + octets && at < line + LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain_places(memory: &Memory) -> Vec<usize> {
        let mut actions = Vec::new();
        memory.actions(&mut actions);
        let place = |action| if let Action::Drain(place) = action { Some(place) } else { None };
        actions.into_iter().filter_map(place).collect()
    }

    #[test]
    fn stores_leave_in_order_or_as_it_comes_but_never_past_their_own_word() {
        for (order, expected) in [(Order::Program, vec![0]), (Order::Weak, vec![0, 1])] {
            let mut memory = Memory::new(64, order, Vec::new(), Vec::new());
            memory.write(0, 1);
            memory.write(4, 2);
            memory.write(0, 3);
            assert_eq!(drain_places(&memory), expected);
            assert_eq!(memory.may_read(0), (3, None), "the CPU sees its own stores");
            assert_eq!(memory.device_read(0), 0, "and the device does not");
        }
    }

    #[test]
    fn a_dirty_line_hides_what_the_device_wrote_and_writes_over_it() {
        let cached = 0..64;
        let mut memory = Memory::new(64, Order::Program, vec![cached], Vec::new());
        memory.write(0, 1);
        memory.device_write(4, 2);
        assert_eq!(memory.may_read(4), (0, None));
        memory.act(Action::Evict(0));
        assert_eq!(memory.device_read(4), 0, "the device's word is lost");
    }

    #[test]
    fn a_load_may_be_older_than_the_one_before_it_until_a_barrier() {
        let mut memory = Memory::new(64, Order::Weak, Vec::new(), Vec::new());
        memory.device_write(0, 7);
        assert_eq!(memory.may_read(0), (7, Some(0)));
        memory.pass_barrier();
        assert_eq!(memory.may_read(0), (7, None));
    }
}
