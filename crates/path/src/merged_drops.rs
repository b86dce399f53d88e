//! How many datagrams a socket dropped, where the kernel counts messages into which it merged several.
//! Knows no sockets; messages and drop counts are arguments.

/// With UDP_GRO a socket whose buffer is full drops a merged message, of some dozens of datagrams, and counts one. How
/// many datagrams it held nobody counts; but each message that does arrive tells the count of drops as it stood when
/// the message was queued (SO_RXQ_OVFL, socket(7)), and its numbers tell how many datagrams are missing before it.
///
/// ```text
///   drops so far   0          2                          2     5
///   numbers        [0 … 43]   [132 … 175]   (44 missing) [220] …
///                          ^ 88 missing, 2 drops: at the socket
///                                            ^ 44 missing, no drop: elsewhere
/// ```
/// Of what is missing beside new drops, no more is held to be theirs than messages as large as the largest seen can
/// explain. The two may be a message or so apart, so they are compared over each stretch of trouble: one ends with
/// the first message before which nothing is missing and nothing new was dropped.
#[derive(Clone, Debug, Default)]
pub struct MergedDrops {
    /// Datagrams in the largest message.
    largest: u64,
    /// The number after the highest seen.
    next: u64,
    /// The count of drops, as last told.
    told: u32,
    /// Missing in this stretch of trouble.
    missing: u64,
    /// Drops in this stretch of trouble.
    drops: u64,
    /// Datagrams of the stretches before.
    settled: u64,
}

impl MergedDrops {
    /// A message of `count` datagrams arrived, numbers `first` and on; before it the socket had dropped `drops`
    /// messages in all (modulo 2^32).
    pub fn handle_message(&mut self, first: u64, count: u64, drops: u32) {
        self.largest = self.largest.max(count);
        let missing = first.saturating_sub(self.next);
        let new = drops.wrapping_sub(self.told);
        if missing == 0 && new == 0 {
            self.settle();
        } else {
            self.missing += missing;
            self.drops += u64::from(new);
            self.told = drops;
        }
        self.next = self.next.max(first.saturating_add(count));
    }

    /// Datagrams that the socket dropped, when the sender says that it sent `sent` in all and the socket that it
    /// dropped `drops` messages.
    pub fn finish(mut self, sent: Option<u64>, drops: u32) -> u64 {
        // No message may have come through: of a merged one nothing is known then but that it held one datagram.
        self.largest = self.largest.max(1);
        self.handle_message(sent.unwrap_or(self.next), 0, drops);
        self.settle();
        self.settled
    }

    fn settle(&mut self) {
        self.settled += self.missing.min(self.drops * self.largest);
        (self.missing, self.drops) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as (first number, datagrams, drops told); then the end mark and the drops in all.
    #[track_caller]
    fn check(messages: &[(u64, u64, u32)], sent: u64, drops: u32, expected: u64) {
        let mut merged = MergedDrops::default();
        for &(first, count, drops) in messages {
            merged.handle_message(first, count, drops);
        }
        assert_eq!(merged.finish(Some(sent), drops), expected);
    }

    #[test]
    fn drops_are_counted_in_datagrams() {
        check(&[], 0, 0, 0);
        check(&[(0, 44, 0), (44, 44, 0)], 88, 0, 0);
        check(&[(0, 44, 0), (132, 44, 2)], 176, 2, 88);
        check(&[(0, 44, 0)], 132, 2, 88);
        // Nothing arrived at all: two drops are two datagrams at least.
        check(&[], 88, 2, 2);
    }

    #[test]
    fn what_was_lost_elsewhere_stays_there() {
        check(&[(0, 44, 0), (88, 44, 0)], 132, 0, 0);
        check(&[(0, 44, 0), (132, 44, 1)], 176, 1, 44);
        check(&[(0, 44, 0), (132, 44, 2), (176, 44, 2), (264, 44, 2)], 308, 2, 88);
    }

    #[test]
    fn a_count_that_comes_a_message_late_is_matched() {
        check(&[(0, 44, 0), (88, 44, 0), (132, 44, 1), (176, 44, 1)], 220, 1, 44);
    }

    #[test]
    fn counts_wrap_and_numbers_go_back() {
        check(&[(0, 4, u32::MAX - 1), (4, 4, u32::MAX - 1), (16, 4, 0)], 20, 0, 8);
        check(&[(8, 4, 0), (0, 4, 0), (4, 4, 0), (12, 4, 0)], 16, 0, 0);
    }
}
