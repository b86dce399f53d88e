//! Which of those who connect keep a place, where there are fewer places than connections.
//! Knows no sockets and no clock; the owner of a connection closes it when it is told to.
//!
//! Nobody who comes is refused. Where all places are taken, one that is silent gives way: of the address that has the most
//! places, the one that has been there longest. So silence costs its own address, and somebody who says at once what it wants
//! has said it by then.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Whose connections count together: an IPv4 address, or an IPv6 network of 64 bits, of which one machine has as many
/// addresses as it likes.
pub fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        IpAddr::V4(address) => address.into(),
    }
}

/// The places, each with what it takes to close its connection.
#[derive(Debug)]
pub struct Admission<C> {
    most: usize,
    share: usize,
    count: u64,
    taken: Vec<Taken<C>>,
    closing: usize,
}

#[derive(Debug)]
struct Taken<C> {
    number: u64,
    party: IpAddr,
    busy: bool,
    connection: C,
}

/// Connections that gave way and have not left yet: where they are as many, others wait for that.
const MOST_CLOSING: usize = 64;

impl<C> Admission<C> {
    /// `most` places, of which one party has `share` at most.
    pub fn new(most: usize, share: usize) -> Admission<C> {
        Admission { most: most.max(1), share: share.max(1), count: 0, taken: Vec::new(), closing: 0 }
    }

    /// A place for a connection from this address: its number, which no other ever has, and the connection that gives way.
    pub fn admit(&mut self, address: IpAddr, connection: C) -> (u64, Option<C>) {
        let party = party(address);
        let of_party = self.taken.iter().filter(|taken| taken.party == party).count();
        let evicted = if of_party >= self.share {
            self.oldest_of(party)
        } else if self.taken.len() >= self.most {
            self.most_crowded().and_then(|crowded| self.oldest_of(crowded))
        } else {
            None
        };
        let evicted = evicted.map(|at| self.taken.remove(at).connection);
        self.closing += usize::from(evicted.is_some());
        self.count += 1;
        self.taken.push(Taken { number: self.count, party, busy: false, connection });
        (self.count, evicted)
    }

    /// Whether so many that gave way have not left yet that no other should come.
    pub fn is_congested(&self) -> bool {
        self.closing >= MOST_CLOSING
    }

    /// Whether this end is busy with what a connection said: it then gives way after all that are silent.
    pub fn set_busy(&mut self, number: u64, busy: bool) {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.number == number) {
            taken.busy = busy;
        }
    }

    /// A connection is gone, which had a place or has given way.
    pub fn leave(&mut self, number: u64) {
        match self.taken.iter().position(|taken| taken.number == number) {
            Some(at) => drop(self.taken.remove(at)),
            None => self.closing = self.closing.saturating_sub(1),
        }
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    fn oldest_of(&self, party: IpAddr) -> Option<usize> {
        let of_party = self.taken.iter().enumerate().filter(|(_, taken)| taken.party == party);
        of_party.min_by_key(|(_, taken)| (taken.busy, taken.number)).map(|(at, _)| at)
    }

    /// The party that has the most places, of those that have a silent one, if any has; of several, the one that has had
    /// one for longest.
    fn most_crowded(&self) -> Option<IpAddr> {
        let mut parties: HashMap<IpAddr, (bool, usize, Reverse<u64>)> = HashMap::new();
        for taken in &self.taken {
            let (is_silent, count, oldest) = parties.entry(taken.party).or_insert((false, 0, Reverse(taken.number)));
            *is_silent |= !taken.busy;
            *count += 1;
            *oldest = (*oldest).max(Reverse(taken.number));
        }
        parties.into_iter().max_by_key(|(_, rank)| *rank).map(|(party, _)| party)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn the_oldest_of_the_most_crowded_gives_way_and_nobody_else() {
        let mut admission = Admission::new(4, 3);
        let (honest, _) = admission.admit(address(1), "honest");
        for silent in ["first", "second"] {
            admission.admit(address(2), silent);
        }
        let (third, _) = admission.admit(address(2), "third");
        // Its share is taken, and then all places are.
        assert_eq!(admission.admit(address(2), "fourth").1, Some("first"));
        assert_eq!(admission.admit(address(3), "another").1, Some("second"));
        // What this end is busy with comes last.
        admission.set_busy(third, true);
        assert_eq!(admission.admit(address(2), "fifth").1, Some("fourth"));
        admission.leave(honest);
        assert_eq!((admission.taken(), admission.admit(address(1), "back").1), (3, None));
    }

    #[test]
    fn those_that_gave_way_are_waited_for() {
        let mut admission = Admission::new(1, 1);
        let numbers: Vec<u64> = (0..=MOST_CLOSING).map(|_| admission.admit(address(1), ()).0).collect();
        assert!(admission.is_congested());
        admission.leave(numbers[0]);
        assert!(!admission.is_congested());
        for number in numbers {
            admission.leave(number);
        }
        assert_eq!((admission.taken(), admission.closing), (0, 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_party() {
        let parties = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1"];
        let parties = parties.map(|text| party(text.parse().unwrap()));
        assert_eq!((parties[0] == parties[1], parties[0] == parties[2]), (true, false));
        assert_eq!(parties[3], parties[4]);
    }

    proptest! {
        /// Every newcomer has a place, no limit is exceeded, and a party loses a place only to its own, or while no other that
        /// has a silent one has more.
        #[test]
        fn limits_hold_and_nobody_loses_to_more_crowded(
            most in 1usize..20,
            share in 1usize..20,
            comes in proptest::collection::vec((0u8..6, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let mut admission = Admission::new(most, share);
            let mut held: Vec<(u64, u8, bool)> = Vec::new();
            for (from, leaves, busy) in comes {
                let count = |held: &[(u64, u8, bool)], from| held.iter().filter(|(_, party, _)| *party == from).count();
                let (number, evicted) = admission.admit(address(from), from);
                if let Some(loses) = evicted {
                    let gone = held.iter().position(|(number, ..)| !admission.taken.iter().any(|one| one.number == *number));
                    let gone = gone.unwrap();
                    let is_silent = |party| held.iter().any(|(_, one, busy)| *one == party && !busy);
                    let rank = |party| (is_silent(party), count(&held, party));
                    prop_assert!(loses == from || (0..6).all(|party| rank(party) <= rank(loses)));
                    prop_assert!(!held[gone].2 || !is_silent(loses), "a busy one before a silent one");
                    prop_assert_eq!(held.remove(gone).1, loses);
                }
                held.push((number, from, busy));
                admission.set_busy(number, busy);
                prop_assert!(held.len() <= most && count(&held, from) <= share);
                prop_assert_eq!(admission.taken(), held.len());
                if leaves {
                    let (number, ..) = held.remove(held.len() / 2);
                    admission.leave(number);
                }
            }
        }
    }
}
