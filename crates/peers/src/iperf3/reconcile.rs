//! The accounts of both ends made to agree where each knows what the other does not.

use std::time::Duration;

use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::Extent;

/// For how long a datagram may be on its way, in the sender's queue too, when the client says that the test is over: beside the
/// round trip of a sender that hears of it, for those that leave before and come after.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// What each end alone cannot know: how many datagrams the sender sent, and how many of them are of the measured part.
/// Each end leaves its first seconds out by its own clock, so what was on its way at that moment would be lost, or never
/// sent: what counts is the receiver's part, by the numbers that it had seen until then. `hears_after` is the round trip in which this end
/// hears of the other's end of the test.
pub fn reconcile(ours: &mut Outcome, theirs: &mut Outcome, hears_after: Duration) {
    let longest = UNDER_WAY + hears_after;
    for flow in &mut ours.flows {
        let Some(other) = theirs.flows.iter_mut().find(|one| one.id == flow.id) else { continue };
        let is_sender = flow.role == Role::Sender;
        let (sender, receiver) = if is_sender { (flow, other) } else { (other, flow) };
        // A stranger's count makes none of what this end sent more.
        let received = if is_sender { receiver.messages.min(sender.messages_total) } else { receiver.messages };
        let Some(arrivals) = &mut receiver.arrivals else { continue };
        if let Some(highest) = arrivals.sent_by_end_mark.filter(|_| is_sender) {
            sender.under_way = under_way(sender, highest, longest);
        }
        arrivals.sent_by_end_mark = Some(sender.messages_total);
        // Numbers, not messages: a copy of a datagram was not sent.
        let before = arrivals.received_total.saturating_sub(arrivals.received);
        if before > 0
            && let Some(missing) = arrivals.missing_before
        {
            sender.messages = sender.messages_total.saturating_sub(before.saturating_add(missing)).max(received);
        }
    }
}

/// Gives what this end received of datagrams the time that was `asked` for, where they were sent for so long: a paced sender's
/// last pause is part of it, and after the last datagram nothing comes by which it could be timed.
pub fn last_pause(outcome: &mut Outcome, asked: Extent) {
    let Extent::Time(time) = asked else { return };
    let received = outcome.flows.iter_mut().filter(|flow| flow.arrivals.is_some() && flow.octets > 0);
    received.for_each(|flow| flow.elapsed_ns = flow.elapsed_ns.max(time.as_nanos() as u64));
}

/// Takes from the time of what a server received that in which nothing can have come: what `waited` is. Its clock runs once all
/// streams are open, and until it hears that the test is over: its word that data may flow has a way to go, which Nagle's algorithm
/// makes longer before 3.12; and so has the acknowledgement of what came last, before the end is said.
pub fn leave_out_start(theirs: &mut Outcome, ours: &Outcome, waited: Duration) {
    let waited_ns = waited.as_nanos() as u64;
    for far in theirs.flows.iter_mut().filter(|flow| flow.role == Role::Receiver) {
        let Some(near) = ours.flows.iter().find(|near| near.id == far.id) else { continue };
        let least = near.elapsed_ns.min(far.elapsed_ns);
        far.elapsed_ns = far.elapsed_ns.saturating_sub(waited_ns).max(least);
    }
}

/// Gives the far end's account the time that this end's knows, where it tells none, as before 3.2. What it received it counts for longer:
/// until it hears that the test is over, and where it leaves out a warm-up, from that one's end on its own clock, which ran before data
/// came: that is what `waited` is.
pub fn untold_time(theirs: &mut Outcome, ours: &Outcome, waited: Duration) {
    for far in theirs.flows.iter_mut().filter(|far| far.elapsed_ns == 0) {
        let Some(near) = ours.flows.iter().find(|near| near.id == far.id) else { continue };
        let waited = if far.role == Role::Receiver { waited } else { Duration::ZERO };
        far.elapsed_ns = near.elapsed_ns + waited.as_nanos() as u64;
    }
}

/// What this end had sent beyond the last datagram that the other end saw, as far as that may have been on its way when the
/// test was over, of the `longest` time before: it was sent, and not lost.
fn under_way(sender: &FlowOutcome, highest: u64, longest: Duration) -> u64 {
    if highest == 0 || sender.messages == 0 || sender.elapsed_ns == 0 {
        return 0;
    }
    let most = u128::from(sender.messages) * longest.as_nanos() / u128::from(sender.elapsed_ns);
    let most = u64::try_from(most).unwrap_or(u64::MAX).clamp(1, sender.messages);
    sender.messages_total.saturating_sub(highest).min(most)
}

#[cfg(test)]
mod tests {
    use linerate_machine::end::End;
    use linerate_trial::arrivals::Arrivals;
    use linerate_trial::outcome::FlowOutcome;

    use super::*;

    /// What a sender of 1000 datagrams is taken to have sent in the measured part.
    fn sent(arrivals: Arrivals) -> u64 {
        let mut receiver = FlowOutcome::new(0, Role::Receiver);
        receiver.messages = arrivals.received;
        receiver.messages_total = arrivals.received_total + arrivals.duplicated_total;
        receiver.arrivals = Some(arrivals);
        let mut sender = FlowOutcome::new(0, Role::Sender);
        (sender.messages, sender.messages_total) = (1000, 1000);
        let mut ours = Outcome::of_flows(End::Target, vec![receiver]);
        let mut theirs = Outcome::of_flows(End::Host, vec![sender]);
        reconcile(&mut ours, &mut theirs, Duration::ZERO);
        theirs.flows[0].messages
    }

    #[test]
    fn what_is_on_its_way_at_the_end_was_sent_and_not_lost() {
        for (highest, round_trip_ms, under_way, what) in [
            (990, 0, 10, "10 were under way, none was lost"),
            (700, 0, 100, "those of the last 0.1 s were under way at most: nothing came for longer"),
            (700, 240, 300, "this end heard of the end 0.24 s after it was said, and sent until then"),
            (600, 240, 340, "nothing came for longer"),
            (0, 240, 0, "nothing came at all"),
            (u64::MAX, 0, 0, "nobody saw what was not sent"),
        ] {
            let mut sender = FlowOutcome::new(0, Role::Sender);
            (sender.messages, sender.messages_total, sender.elapsed_ns) = (1000, 1000, 1_000_000_000);
            (sender.octets, sender.octets_total) = (64_000, 64_000);
            let mut receiver = FlowOutcome::new(0, Role::Receiver);
            receiver.arrivals = Some(Arrivals { sent_by_end_mark: Some(highest), ..Arrivals::default() });
            let mut ours = Outcome::of_flows(End::Target, vec![sender]);
            let mut theirs = Outcome::of_flows(End::Host, vec![receiver]);
            reconcile(&mut ours, &mut theirs, Duration::from_millis(round_trip_ms));
            let (ours, theirs) = (&ours.flows[0], theirs.flows[0].arrivals.as_ref().unwrap());
            assert_eq!((ours.under_way, theirs.sent_by_end_mark), (under_way, Some(1000)), "{what}");
            assert_eq!((ours.messages_total, ours.octets_total), (1000, 64_000), "{what}");
        }
    }

    #[test]
    fn a_time_that_is_not_told_is_that_of_this_end() {
        let flow = |id, role, elapsed_ns| FlowOutcome { elapsed_ns, ..FlowOutcome::new(id, role) };
        let ours = vec![flow(0, Role::Sender, 1000), flow(1, Role::Receiver, 1100), flow(2, Role::Sender, 1000)];
        let theirs = vec![flow(0, Role::Receiver, 0), flow(1, Role::Sender, 0), flow(2, Role::Receiver, 1030)];
        let (ours, mut theirs) = (Outcome::of_flows(End::Host, ours), Outcome::of_flows(End::Target, theirs));
        untold_time(&mut theirs, &ours, Duration::from_nanos(44));
        let elapsed_ns: Vec<u64> = theirs.flows.iter().map(|flow| flow.elapsed_ns).collect();
        assert_eq!(elapsed_ns, [1044, 1100, 1030]);
        leave_out_start(&mut theirs, &ours, Duration::from_nanos(44));
        assert_eq!(theirs.flows[0].elapsed_ns, 1000, "without a warm-up nothing came while it waited");
    }

    #[test]
    fn copies_are_no_datagrams_of_the_part_that_is_left_out() {
        let arrivals = Arrivals {
            received: 700,
            received_total: 790,
            duplicated: 150,
            duplicated_total: 160,
            missing_before: Some(10),
            ..Arrivals::default()
        };
        assert_eq!(sent(arrivals.clone()), 900, "200 of them lost");
        assert_eq!(sent(Arrivals { missing_before: Some(u64::MAX), ..arrivals }), 700);
    }

    #[test]
    fn the_pause_after_the_last_datagram_is_of_the_time_asked_for() {
        for (elapsed_ms, octets, want_ms) in [(900, 1, 1000), (1100, 1, 1100), (0, 0, 0)] {
            let mut receiver = FlowOutcome::new(0, Role::Receiver);
            (receiver.elapsed_ns, receiver.octets) = (elapsed_ms * 1_000_000, octets);
            receiver.arrivals = Some(Arrivals::default());
            let mut outcome = Outcome::of_flows(End::Target, vec![receiver]);
            last_pause(&mut outcome, Extent::Time(Duration::from_secs(1)));
            assert_eq!(outcome.flows[0].elapsed_ns, want_ms * 1_000_000, "{elapsed_ms}");
        }
    }
}
