//! Whether there is any use in going on when trials fail because traffic does not pass.
//! Knows configurations by number, and of each trial only whether it failed.

use std::collections::BTreeSet;

/// What failed lately. Some configurations may never work (a frame size that a switch in the middle drops, say): their
/// records say so, and the campaign goes on. It ends when a link that worked works no more, or never did.
#[derive(Debug, Default)]
pub(crate) struct AbortPolicy {
    /// Configurations that have worked.
    worked: BTreeSet<u32>,
    /// Those that failed since a trial last succeeded.
    failing: BTreeSet<u32>,
    /// How many trials that is, by whether their configuration had worked before.
    in_a_row: [u32; 2],
}

/// Trials in a row of configurations that had worked before.
const OF_WORKING: u32 = 2;
/// Trials in a row where nothing has worked at all. Each takes some twelve seconds to fail, and an interleaved campaign
/// may well begin with a few configurations that cannot work.
const OF_NEW: u32 = 6;

impl AbortPolicy {
    /// `worked`: the configurations that worked before, when a campaign is carried on.
    pub(crate) fn new(worked: BTreeSet<u32>) -> AbortPolicy {
        AbortPolicy { worked, ..AbortPolicy::default() }
    }

    pub(crate) fn worked(&mut self, configuration: u32) {
        self.worked.insert(configuration);
        self.failing.clear();
        self.in_a_row = [0, 0];
    }

    pub(crate) fn failed(&mut self, configuration: u32) {
        self.in_a_row[usize::from(self.worked.contains(&configuration))] += 1;
        self.failing.insert(configuration);
    }

    /// Why there is no use in going on, if there is none.
    pub(crate) fn has_left(&self) -> Option<String> {
        let [of_new, of_working] = self.in_a_row;
        if of_working >= OF_WORKING {
            return Some(format!("{} trials in a row failed that had worked before", of_working));
        }
        // One configuration that fails twice is all there is to know of a campaign that has no other so far.
        let alone = self.failing.len() == 1 && of_new >= OF_WORKING;
        if self.worked.is_empty() && (alone || of_new >= OF_NEW) {
            return Some(format!("trials fail one after the other, {of_new} so far, and none has worked"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A campaign in which trials of capitals work and those of small letters fail, a letter a configuration; how
    /// many trials there are when it ends, if it ends before the last.
    #[track_caller]
    fn check(trials: &str, ends_after: Option<usize>) {
        let mut policy = AbortPolicy::default();
        let mut ended = None;
        for (at, letter) in trials.chars().enumerate() {
            let configuration = u32::from(letter.to_ascii_lowercase());
            if letter.is_uppercase() {
                policy.worked(configuration)
            } else {
                policy.failed(configuration)
            }
            if policy.has_left().is_some() {
                ended = Some(at + 1);
                break;
            }
        }
        assert_eq!(ended, ends_after, "{trials}");
    }

    #[test]
    fn some_that_never_work_do_not_end_a_campaign() {
        check("AbCd", None);
        check("AbcdefghiAbcdefghiAbcdefghi", None);
        check("bcAcbAbcA", None);
        check("Aa", None);
        // What worked before and fails twice while nothing else works is the link.
        check("Abababab", Some(5));
    }

    #[test]
    fn a_link_that_is_gone_ends_it() {
        check("aa", Some(2));
        check("abcdefgh", Some(6));
        check("ABCabc", Some(5));
        check("ABCadb", Some(6));
        check("AaAaAaaB", Some(7));
    }
}
