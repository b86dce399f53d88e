//! Samples counted by their stacks, in a table that stays small.
//! Knows what a frame is by number only; whose numbers they are is for [`super::symbols`].

use std::collections::HashMap;

/// How often each stack was found.
#[derive(Debug, Default)]
pub struct Stacks {
    /// By process and frames, the innermost first. A stack begins with a word of its own, so that one look suffices.
    counts: HashMap<Box<[u64]>, u64>,
    /// Words in all keys together.
    words: usize,
    scratch: Vec<u64>,
    /// Samples told by their innermost frame alone.
    pub cut: u64,
}

/// The most stacks of their own, and the most words that all their frames may take: half a megabyte, for boards have
/// little.
const MOST_STACKS: usize = 4096;
const MOST_WORDS: usize = 64 << 10;
/// Room kept for stacks of one frame, once the table is full.
const MOST_CUT: usize = 1024;
/// The most frames of a stack: deeper ones lose their outermost.
pub const DEEPEST: usize = 64;

impl Stacks {
    /// Counts a sample of this process.
    pub fn count(&mut self, process: u32, frames: &[u64]) {
        let frames = &frames[..frames.len().min(DEEPEST)];
        if self.add(process, frames, MOST_STACKS, MOST_WORDS) {
            return;
        }
        self.cut += 1;
        let innermost = &frames[..frames.len().min(1)];
        if !self.add(process, innermost, MOST_STACKS + MOST_CUT, usize::MAX) {
            // A sample is never lost: where even this has no room, its process alone is known, or nothing.
            let known = self.add(process, &[], MOST_STACKS + 2 * MOST_CUT, usize::MAX);
            if !known {
                self.add(u32::MAX, &[], usize::MAX, usize::MAX);
            }
        }
    }

    fn add(&mut self, process: u32, frames: &[u64], most_stacks: usize, most_words: usize) -> bool {
        self.scratch.clear();
        self.scratch.push(process.into());
        self.scratch.extend_from_slice(frames);
        if let Some(count) = self.counts.get_mut(&self.scratch[..]) {
            *count += 1;
            return true;
        }
        if self.counts.len() >= most_stacks || self.words + self.scratch.len() > most_words {
            return false;
        }
        self.words += self.scratch.len();
        self.counts.insert(self.scratch.clone().into_boxed_slice(), 1);
        true
    }

    /// Each stack: process, frames, samples.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u64], u64)> {
        self.counts.iter().map(|(key, &samples)| (key[0] as u32, &key[1..], samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(stacks: &Stacks) -> u64 {
        stacks.iter().map(|(_, _, samples)| samples).sum()
    }

    #[test]
    fn the_same_stack_is_counted_once() {
        let mut stacks = Stacks::default();
        stacks.count(1, &[10, 11]);
        stacks.count(1, &[10, 11]);
        stacks.count(2, &[10, 11]);
        stacks.count(1, &[]);
        let mut all: Vec<_> = stacks.iter().collect();
        all.sort();
        assert_eq!(all, [(1, &[][..], 1), (1, &[10, 11], 2), (2, &[10, 11], 1)]);
        assert_eq!(stacks.cut, 0);
    }

    #[test]
    fn any_number_of_stacks_takes_bounded_room_and_loses_no_sample() {
        let mut stacks = Stacks::default();
        const SAMPLES: u64 = 50_000;
        for sample in 0..SAMPLES {
            let frames: Vec<u64> = (0..200).map(|depth| sample * 1000 + depth).collect();
            stacks.count(sample as u32 % 9000, &frames);
        }
        assert_eq!(total(&stacks), SAMPLES);
        assert!(stacks.counts.len() <= MOST_STACKS + 2 * MOST_CUT + 1, "{}", stacks.counts.len());
        assert!(stacks.words <= MOST_WORDS + 2 * stacks.counts.len(), "{}", stacks.words);
        assert!(stacks.cut > SAMPLES / 2);
        let (_, frames, _) = stacks.iter().max_by_key(|(_, frames, _)| frames.len()).unwrap();
        assert_eq!(frames.len(), DEEPEST);
    }
}
