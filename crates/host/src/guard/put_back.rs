//! Puts settings back to what a journal says they were.
//! Knows no process: the agent does it at the end, its watchdog when it is dead, the next agent when both are.

use linerate_machine::change::PutBack;
use linerate_machine::setting::DriverRequest;

use super::journal::{Entry, Journal};
use super::location::{Location, LocationError};
use super::namespace::Namespace;

/// Puts back what the journal holds and `wanted` picks, the last change first. One that fails holds nobody up, and
/// stays in the journal, but for what is gone for good.
pub(super) fn put_back(
    journal: &mut Journal,
    wanted: impl Fn(&Entry) -> bool,
) -> Vec<(Entry, Result<(), LocationError>)> {
    let mut entries: Vec<Entry> = journal.entries().iter().rev().filter(|entry| wanted(entry)).cloned().collect();
    // Before any is put back, for one may change with another. A command is run once more for its own sake only.
    for entry in entries.iter_mut().filter(|entry| !entry.location.is_read_by_command()) {
        let Some(made) = &entry.made else { continue };
        entry.found = entry.location.read().ok().filter(|now| now != made && *now != entry.original);
    }
    let of_new: Vec<_> = entries.iter().flat_map(of_new_interfaces).collect();
    let results = values(&entries.iter().map(|entry| (&entry.location, entry.original.as_str())).collect::<Vec<_>>());
    for (entry, result) in entries.iter().zip(&results) {
        if matches!(result, Ok(()) | Err(LocationError::Gone(_))) {
            journal.strike(entry);
        }
    }
    entries.into_iter().zip(results).chain(of_new).collect()
}

/// Gives interfaces that were made while what they begin with was changed what they would have begun with. The kernel does not: they have
/// its mark that somebody chose the value, too (inetdev_init in net/ipv4/devinet.c).
pub(super) fn of_new_interfaces(entry: &Entry) -> Vec<(Entry, Result<(), LocationError>)> {
    let new = entry.location.of_new_interfaces(&entry.there, &entry.original).into_iter();
    new.map(|location| {
        let result = Location::put_back(&[(&location, entry.original.as_str())]).remove(0);
        (Entry { location, asked: false, found: None, ..entry.clone() }, result)
    })
    .collect()
}

/// Gives settings these values, in this order: what came of each.
pub(super) fn values(wanted: &[(&Location, &str)]) -> Vec<Result<(), LocationError>> {
    let mut results = vec![Ok(()); wanted.len()];
    // To look for a namespace that is gone is dear: once is enough.
    let mut missing: Vec<&Namespace> = Vec::new();
    // Settings hang together: a driver that is given back its channels may forget its rings, and one that refuses
    // a value may take it when another has been put back. So each is looked at again when all have had their turn.
    for _ in 0..2 {
        for turn in turns(wanted) {
            let first = wanted[turn[0]].0;
            let namespace = first.namespace.as_ref();
            // One that makes wait is not waited for twice.
            if turn.iter().any(|&at| matches!(results[at], Err(LocationError::Late(_)))) {
                continue;
            }
            let of_turn = match namespace {
                Some(namespace) if missing.contains(&namespace) => vec![Err(LocationError::Namespace); turn.len()],
                _ => Location::put_back(&turn.iter().map(|&at| wanted[at]).collect::<Vec<_>>()),
            };
            for (at, result) in turn.into_iter().zip(of_turn) {
                missing.extend(namespace.filter(|_| result == Err(LocationError::Namespace)));
                results[at] = result;
            }
        }
    }
    for (at, (location, _)) in wanted.iter().enumerate() {
        if matches!(results[at], Err(LocationError::Absent(_))) && is_put_back_by_others(location, wanted, &results) {
            results[at] = Ok(());
        }
    }
    results
}

/// Whether a setting that is not there has nothing left to put back, because others have been, all of them: settings of
/// queues that were there only while the interface had other channels, by its channels; one of all of several things, such
/// as `irq_affinity.all`, which a renamed interface may not lead to, by each of them.
fn is_put_back_by_others(
    location: &Location,
    wanted: &[(&Location, &str)],
    results: &[Result<(), LocationError>],
) -> bool {
    let by = |others: &dyn Fn(&Location) -> bool| {
        let mut others = wanted.iter().zip(results).filter(|((other, _), _)| others(other)).peekable();
        others.peek().is_some() && others.all(|(_, result)| result.is_ok())
    };
    let family = location.name.strip_suffix(".all");
    let is_part = |other: &Location| {
        let is_one = other.name.rsplit_once('.').is_some_and(|(of, which)| Some(of) == family && which != "all");
        is_one && (other.interface.is_none() || other.is_beside(location))
    };
    by(&|other| other.request() == Some(DriverRequest::Channels) && other.is_beside(location)) || by(&is_part)
}

/// Which are given their values together, by their places: what is one request to one driver, when the first of it has
/// its turn.
fn turns(wanted: &[(&Location, &str)]) -> Vec<Vec<usize>> {
    let mut turns: Vec<Vec<usize>> = Vec::new();
    for (at, (location, _)) in wanted.iter().enumerate() {
        let request = location.request();
        let is_with = |turn: &&mut Vec<usize>| {
            let first = wanted[turn[0]].0;
            request.is_some() && first.request() == request && first.is_beside(location)
        };
        match turns.iter_mut().find(is_with) {
            Some(turn) => turn.push(at),
            None => turns.push(vec![at]),
        }
    }
    turns
}

/// What is told of it: what somebody asked for, and what could not be put back.
pub(super) fn told(results: Vec<(Entry, Result<(), LocationError>)>) -> Vec<PutBack> {
    let is_told = |(entry, result): &(Entry, Result<(), LocationError>)| {
        entry.asked || !matches!(result, Ok(()) | Err(LocationError::Gone(_)))
    };
    let results = results.into_iter().filter(is_told);
    results.map(|(entry, result)| entry.put_back(result.err().map(|error| error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_request_has_one_turn() {
        let location = |name: &str| Location { name: name.to_owned(), interface: None, namespace: None, custom: None };
        let names = ["pause.rx", "mtu", "ring.rx", "pause.tx", "gro", "pause.autoneg", "ring.tx", "mtu"];
        let locations = names.map(location);
        let wanted: Vec<(&Location, &str)> = locations.iter().map(|location| (location, "on")).collect();
        assert_eq!(turns(&wanted), [vec![0, 3, 5], vec![1], vec![2, 6], vec![4], vec![7]]);
    }
}
