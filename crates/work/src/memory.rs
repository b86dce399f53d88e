//! A queue in this process, in virtual time: for the simulation, and what the other is held against.
//! Nothing here waits; the owner lets time pass by [`Memory::now_ms`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::broker::{Broker, Bucket, Claim, ClaimResult, Entry, Unavailable};
use crate::job::Ticket;

/// All of it.
#[derive(Debug, Default)]
pub struct Memory {
    /// The present.
    pub now_ms: u64,
    /// After how long leases, presences and claims end that nobody renews.
    pub lease_ms: u64,
    /// Nothing is answered, and nothing done.
    pub is_down: bool,
    /// What is asked is done, and not answered; then it is as before.
    pub loses_next_answer: bool,
    buckets: HashMap<Bucket, BTreeMap<String, Stored>>,
    revision: u64,
    unsettled: usize,
    tickets: BTreeMap<String, BTreeMap<String, Queued>>,
}

#[derive(Debug)]
struct Stored {
    revision: u64,
    written_ms: u64,
    value: Vec<u8>,
}

#[derive(Debug)]
struct Queued {
    ticket: Arc<Ticket>,
    payload: Vec<u8>,
    delivered: u32,
    /// Which delivery of all it is held by.
    handle: u64,
    /// Until then it is held, or not to be had.
    until_ms: u64,
    is_held: bool,
}

impl Memory {
    /// An empty one.
    pub fn new(lease_ms: u64) -> Memory {
        Memory { lease_ms, ..Memory::default() }
    }

    fn answers(&self) -> Result<(), Unavailable> {
        if self.is_down { Err(Unavailable::Silent("it is down".to_owned())) } else { Ok(()) }
    }

    /// What was done, unless the answer is lost.
    fn answer<T>(&mut self, value: T) -> Result<T, Unavailable> {
        if std::mem::take(&mut self.loses_next_answer) {
            Err(Unavailable::Silent("no answer".to_owned()))
        } else {
            Ok(value)
        }
    }

    fn is_there(&self, bucket: Bucket, stored: &Stored) -> bool {
        !bucket.vanishes() || self.now_ms < stored.written_ms + self.lease_ms
    }

    fn revision_of(&self, bucket: Bucket, key: &str) -> u64 {
        let stored = self.buckets.get(&bucket).and_then(|all| all.get(key));
        stored.filter(|stored| self.is_there(bucket, stored)).map_or(0, |stored| stored.revision)
    }

    fn queued(&mut self, claim: &Claim) -> Option<&mut Queued> {
        let queued = self.tickets.get_mut(&claim.ticket.bench)?.get_mut(&claim.ticket.id)?;
        // A later delivery is another's.
        (queued.is_held && claim.handle == queued.handle.to_string()).then_some(queued)
    }

    /// How many tickets are not settled.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }
}

impl Broker for Memory {
    fn get(&mut self, bucket: Bucket, key: &str) -> Result<Option<Entry>, Unavailable> {
        self.answers()?;
        let stored = self.buckets.get(&bucket).and_then(|all| all.get(key)).filter(|one| self.is_there(bucket, one));
        let found = stored.map(|one| Entry { key: key.to_owned(), revision: one.revision, value: one.value.clone() });
        self.answer(found)
    }

    fn put(&mut self, bucket: Bucket, key: &str, value: &[u8], expected: u64) -> Result<Option<u64>, Unavailable> {
        self.answers()?;
        if self.revision_of(bucket, key) != expected {
            return self.answer(None);
        }
        self.revision += 1;
        let (revision, written_ms) = (self.revision, self.now_ms);
        let all = self.buckets.entry(bucket).or_default();
        match all.get_mut(key) {
            Some(stored) => {
                (stored.revision, stored.written_ms) = (revision, written_ms);
                stored.value.clear();
                stored.value.extend_from_slice(value);
            }
            None => {
                all.insert(key.to_owned(), Stored { revision, written_ms, value: value.to_vec() });
            }
        }
        self.answer(Some(revision))
    }

    fn delete(&mut self, bucket: Bucket, key: &str, expected: u64) -> Result<(), Unavailable> {
        self.answers()?;
        if self.revision_of(bucket, key) == expected
            && let Some(all) = self.buckets.get_mut(&bucket)
        {
            all.remove(key);
            self.revision += 1;
        }
        self.answer(())
    }

    fn mark(&mut self, _: Bucket) -> Result<u64, Unavailable> {
        self.answers()?;
        self.answer(self.revision)
    }

    fn all(&mut self, bucket: Bucket) -> Result<Vec<Entry>, Unavailable> {
        self.answers()?;
        let all = self.buckets.get(&bucket).into_iter().flatten().filter(|(_, one)| self.is_there(bucket, one));
        let entries = all
            .map(|(key, one)| Entry { key: key.clone(), revision: one.revision, value: one.value.clone() })
            .collect();
        self.answer(entries)
    }

    fn queue(&mut self, ticket: &Ticket, payload: &[u8]) -> Result<(), Unavailable> {
        self.answers()?;
        let of_bench = self.tickets.entry(ticket.bench.clone()).or_default();
        if !of_bench.contains_key(&ticket.id) {
            let (id, ticket, payload) = (ticket.id.clone(), Arc::new(ticket.clone()), payload.to_vec());
            of_bench.insert(id, Queued { ticket, payload, delivered: 0, handle: 0, until_ms: 0, is_held: false });
            self.unsettled += 1;
        }
        self.answer(())
    }

    fn tickets(&mut self, benches: Option<&BTreeSet<String>>) -> Result<Vec<Arc<Ticket>>, Unavailable> {
        self.answers()?;
        let found = match benches {
            None => self.tickets.values().flatten().map(|(_, one)| Arc::clone(&one.ticket)).collect(),
            Some(benches) => {
                let of = benches.iter().filter_map(|bench| self.tickets.get(bench));
                of.flatten().map(|(_, one)| Arc::clone(&one.ticket)).collect()
            }
        };
        self.answer(found)
    }

    fn claim(&mut self, ticket: &Ticket) -> Result<ClaimResult, Unavailable> {
        self.answers()?;
        self.revision += 1;
        let (now, lease, handle) = (self.now_ms, self.lease_ms, self.revision);
        let queued = self.tickets.get_mut(&ticket.bench).and_then(|all| all.get_mut(&ticket.id));
        let claimed = match queued {
            None => ClaimResult::Gone,
            Some(one) if now < one.until_ms => ClaimResult::Held,
            Some(one) if one.delivered >= one.ticket.attempts => ClaimResult::Exhausted(one.payload.clone()),
            Some(one) => {
                one.delivered += 1;
                (one.until_ms, one.is_held, one.handle) = (now + lease, true, handle);
                ClaimResult::Yes(Box::new(Claim {
                    ticket: Ticket::clone(&one.ticket),
                    payload: one.payload.clone(),
                    attempt: one.delivered,
                    handle: handle.to_string(),
                }))
            }
        };
        self.answer(claimed)
    }

    fn extend(&mut self, claim: &Claim) -> Result<(), Unavailable> {
        self.answers()?;
        let until = self.now_ms + self.lease_ms;
        if let Some(one) = self.queued(claim) {
            one.until_ms = until;
        }
        self.answer(())
    }

    fn settle(&mut self, claim: &Claim) -> Result<(), Unavailable> {
        self.remove(&claim.ticket)
    }

    fn again(&mut self, claim: &Claim, after_ms: u64, counts: bool) -> Result<(), Unavailable> {
        self.answers()?;
        let now = self.now_ms;
        if let Some(one) = self.queued(claim) {
            (one.until_ms, one.is_held) = (now + after_ms, false);
            if !counts {
                one.delivered = 0;
            }
        }
        self.answer(())
    }

    fn remove(&mut self, ticket: &Ticket) -> Result<(), Unavailable> {
        self.answers()?;
        if let Some(all) = self.tickets.get_mut(&ticket.bench) {
            self.unsettled -= usize::from(all.remove(&ticket.id).is_some());
            if all.is_empty() {
                self.tickets.remove(&ticket.bench);
            }
        }
        self.answer(())
    }

    /// Nothing is queued here but tickets.
    fn clear(&mut self) -> Result<Vec<String>, Unavailable> {
        self.answers()?;
        self.answer(Vec::new())
    }
}
