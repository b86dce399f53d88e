//! Where the packets of a stream went: the path and the loss budget of each direction, from both outcomes.
//! Knows which machine sends; what counters mean is for `linerate_path::budget`.

use linerate_machine::end::End;
use linerate_machine::environment::Environment;
use linerate_path::budget::{Datagrams, LossBudget, Seen, Trial, drops_seen, loss_budget, path};
use linerate_trial::doubt::Doubt;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Workload};

use crate::record::{PathLine, Record};

use super::formulas::{Joined, Pair, fragments, sending};

impl Joined<'_> {
    /// Fills in the record's path, budget and benign drops; what is doubted of them comes back.
    pub(super) fn follow_packets(&self, main: &[Pair<'_>], shared_kernel: bool, record: &mut Record) -> Vec<Doubt> {
        let udp = self.spec.workload == Workload::UdpStream;
        let (mut lines, mut benign, mut unaccounted, mut doubts) = (Vec::new(), Vec::new(), 0i64, Vec::new());
        let environments = [record.target.environment.clone(), record.host.environment.clone()];
        for source in [End::Target, End::Host] {
            let pairs: Vec<&Pair<'_>> = main.iter().filter(|pair| pair.flow.source == source).collect();
            let Some(direction) = pairs.first().map(|pair| pair.flow.direction()) else { continue };
            let target = seen(End::Target, self.target, &environments[0]);
            let host = seen(End::Host, self.host, &environments[1]);
            let (sender, receiver) = if source == End::Target { (target, host) } else { (host, target) };
            let fragments = fragments(self.spec, sending(pairs[0], [&environments[0], &environments[1]]));
            let datagrams = self.datagrams(&pairs, fragments, shared_kernel);
            let trial = if udp {
                Trial::Udp { asked: self.asked_datagrams(pairs.len()), datagrams: &datagrams }
            } else {
                let segments = |of: fn(&Pair<'_>) -> Option<u64>| pairs.iter().map(|pair| of(pair)).sum();
                Trial::Tcp {
                    sent: segments(|pair| pair.source.tcp.as_ref()?.segments_sent),
                    received: segments(|pair| pair.sink.tcp.as_ref()?.segments_received),
                }
            };
            record
                .path
                .extend(path(trial, &sender, &receiver).into_iter().map(|passage| PathLine { direction, passage }));
            let budget = match udp {
                true => loss_budget(&datagrams, &sender, &receiver),
                false => drops_seen(shared_kernel, &sender, &receiver),
            };
            let LossBudget { lines: more, unaccounted: rest, benign_drops, disagreements } = budget;
            lines.extend(more);
            benign.extend(benign_drops);
            unaccounted += rest;
            // With both directions at once each machine's counters are looked at twice.
            for doubt in disagreements.into_iter().map(Doubt::from) {
                if !doubts.contains(&doubt) {
                    doubts.push(doubt);
                }
            }
        }
        record.loss_budget = Some(lines);
        record.unaccounted = udp.then_some(unaccounted);
        record.benign_drops = benign;
        doubts
    }

    fn datagrams(&self, pairs: &[&Pair<'_>], fragments: u32, shared_kernel: bool) -> Datagrams {
        Datagrams {
            sent: pairs.iter().map(|pair| pair.source.messages_total).sum(),
            send_errors: pairs.iter().map(|pair| pair.source.send_errors).sum(),
            send_retries: pairs.iter().map(|pair| pair.source.send_retries).sum(),
            received_unique: pairs.iter().filter_map(|p| Some(p.sink.arrivals.as_ref()?.received_total)).sum(),
            socket_drops: pairs.iter().map(|pair| pair.sink.socket_drops).sum(),
            marks_lost: pairs.iter().map(|p| p.source.end_marks.saturating_sub(p.sink.end_marks)).sum(),
            fragments,
            segments: pairs.iter().filter_map(|pair| pair.source.api.segments).max().unwrap_or(0),
            shared_kernel,
        }
    }

    /// What a limited offered load comes to over a trial of known length.
    fn asked_datagrams(&self, streams: usize) -> Option<u64> {
        let octets = u64::from(self.spec.message_octets());
        let per_second = self.spec.rate.bits_per_second(octets)? / (8 * octets.max(1)) as f64;
        match self.spec.extent {
            Extent::Time(time) => {
                let seconds = (time + self.spec.warmup).as_secs_f64();
                Some((per_second * seconds * streams as f64).round() as u64)
            }
            Extent::Octets(_) => None,
        }
    }
}

fn seen<'a>(end: End, outcome: &'a Outcome, environment: &Environment) -> Seen<'a> {
    let driver = environment.nic.as_ref().and_then(|nic| nic.driver.as_deref());
    Seen::new(end, &outcome.counters, driver).with_reasons(outcome.drop_reasons.as_deref().unwrap_or_default())
}
