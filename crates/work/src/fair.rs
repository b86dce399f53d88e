//! Whose job is next: start-time fair queueing between users (Goyal, Vin, Cheng 1996), by the time that a bench spends on them.
//!
//! Each user has a finish tag, the bench a virtual time. A job starts at the later of both; the user whose next start is the least is
//! served, and what the job took is added to its tag. So users who want more than there is have equal shares, and one who was away
//! has no credit for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::Ticket;

/// What a bench has spent on its users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// The start of the last job that was begun.
    now_ms: u64,
    /// The finish tag of each user that is later than that.
    finish_ms: BTreeMap<String, u64>,
}

impl Shares {
    fn start(&self, user: &str) -> u64 {
        self.finish_ms.get(user).copied().unwrap_or(0).max(self.now_ms)
    }

    /// The tickets in the order in which they should be begun: of the least served user the most urgent, then the oldest.
    pub fn order<'a>(&self, tickets: impl IntoIterator<Item = &'a Ticket>) -> Vec<&'a Ticket> {
        let mut all: Vec<&Ticket> = tickets.into_iter().collect();
        // An identifier begins with the time at which it was made.
        all.sort_by(|a, b| {
            let of_user = self.start(&a.user).cmp(&self.start(&b.user));
            of_user.then_with(|| a.priority.cmp(&b.priority)).then_with(|| a.id.cmp(&b.id))
        });
        all
    }

    /// A job of this user took so long.
    pub fn charge(&mut self, user: &str, took_ms: u64) {
        let start = self.start(user);
        self.now_ms = start;
        self.finish_ms.insert(user.to_owned(), start.saturating_add(took_ms.max(1)));
        self.finish_ms.retain(|_, finish| *finish > start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Priority;
    use crate::job::tests::job;

    fn ticket(user: &str, number: u32) -> Ticket {
        job("b", user, number).ticket()
    }

    /// Serves until one user has nothing left; the time that each had by then.
    fn served(mut waiting: Vec<(Ticket, u64)>) -> BTreeMap<String, u64> {
        let mut shares = Shares::default();
        let mut had: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            let next = shares.order(waiting.iter().map(|(ticket, _)| ticket))[0].clone();
            let at = waiting.iter().position(|(ticket, _)| *ticket == next).unwrap();
            let (_, took) = waiting.remove(at);
            shares.charge(&next.user, took);
            *had.entry(next.user.clone()).or_default() += took;
            if !waiting.iter().any(|(ticket, _)| ticket.user == next.user) {
                return had;
            }
        }
    }

    #[test]
    fn two_users_have_equal_shares_of_a_thousand_jobs() {
        // Ann submits all of hers first, each three times as long as one of Ben's.
        let ann = (0..250).map(|at| (ticket("ann", at), 30_000));
        let ben = (0..750).map(|at| (ticket("ben", 1000 + at), 10_000 + u64::from(at % 7)));
        let had = served(ann.chain(ben).collect());
        let (ann, ben) = (had["ann"] as f64, had["ben"] as f64);
        assert!((ann / ben - 1.0).abs() < 0.1, "{ann} {ben}");
        // By turns, as a queue would without shares, Ann has three times as much.
    }

    #[test]
    fn who_was_away_has_no_credit() {
        let mut shares = Shares::default();
        for _ in 0..100 {
            shares.charge("ann", 1000);
        }
        shares.charge("ben", 1000);
        let (a, b) = (ticket("ann", 1), ticket("ben", 2));
        // Ben came late; after one job each is as far as the other, and not ninety-nine behind.
        assert_eq!(shares.order([&a, &b])[0], &a);
        assert!(shares.finish_ms.len() <= 2, "{shares:?}");
    }

    #[test]
    fn a_user_s_own_jobs_go_by_priority_and_age() {
        let with = |number, priority| Ticket { priority, ..ticket("ann", number) };
        let all = [with(1, Priority::Low), with(2, Priority::Normal), with(3, Priority::High), with(4, Priority::High)];
        let order: Vec<&str> = Shares::default().order(&all).iter().map(|one| &one.id[25..]).collect();
        assert_eq!(order, ["3", "4", "2", "1"]);
    }
}
