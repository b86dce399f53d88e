//! Fuzz target: octets from a stranger on netperf's control connection, as a client's conversation with our server, and as
//! a netserver's answers to our client.
//! Knows no sockets.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linerate_machine::end::End;
use linerate_peers::limits::Limits;
use linerate_peers::netperf::mapping::{outcome_of, results_of, spec_of};
use linerate_peers::netperf::message::Message;
use linerate_peers::netperf::omni::{Request, Response};
use linerate_peers::netperf::results::Results;
use linerate_peers::netperf::server::{Command, command};
use linerate_peers::plausible::limit;
use linerate_trial::flow::Flow;
use linerate_trial::outcome::{FlowOutcome, Outcome, Role};
use linerate_trial::spec::{MAX_MESSAGE, Spec, Workload};

fuzz_target!(|data: &[u8]| {
    // The first octet says what the other end is, and how fast it may be.
    let Some((&first, mut data)) = data.split_first() else { return };
    let limits = Limits { rate: (first & 1 != 0).then_some(1_000_000), ..Limits::default() };
    while let Ok(Some(message)) = Message::read(&mut data) {
        assert_eq!(Message::parse(&message.emit()).as_ref(), Some(&message));
        if first & 2 != 0 {
            answered(&message, Workload::ALL[usize::from(first >> 2) % Workload::ALL.len()]);
        } else if let Command::Test(request) = command(&message) {
            asked(&request, first & 4 == 0, &limits);
        }
    }
});

/// A client's request: what becomes of it is bounded, and what was understood can be said again.
fn asked(request: &Request, is_ipv4: bool, limits: &Limits) {
    assert_eq!(Request::parse(&request.emit()), *request);
    let Ok(spec) = spec_of(request, is_ipv4, limits) else { return };
    assert!(
        spec.message_octets() <= MAX_MESSAGE && spec.request_size <= MAX_MESSAGE && spec.response_size <= MAX_MESSAGE
    );
    assert!(spec.expected_time().is_none_or(|time| time.as_secs() <= limits.time_s));
    assert!(spec.streams == 1 && spec.burst <= 1000 && spec.dscp <= 63);
    let role = match (spec.workload.is_stream(), Flow::of(&spec)[0].source) {
        (true, End::Target) => Role::Sender,
        (true, End::Host) => Role::Receiver,
        (false, _) => Role::Responder,
    };
    let mut flow = FlowOutcome::new(0, role);
    (flow.messages_total, flow.octets_total, flow.elapsed_ns) = (u64::from(u32::MAX), 1 << 40, 1);
    let results = results_of(request, &Outcome::of_flows(End::Target, vec![flow]), None);
    let _ = results.emit();
}

/// A netserver's answer, or its results: no more is believed than can be.
fn answered(message: &Message, workload: Workload) {
    let response = Response::parse(message);
    assert_eq!(Response::parse(&response.emit()).data_port, response.data_port);
    let results = Results::parse(message);
    assert_eq!(Results::parse(&results.emit()), results);
    let spec = Spec::new(workload);
    let flow = Flow::of(&spec)[0];
    let mut near = FlowOutcome::new(0, if workload.is_stream() { Role::Sender } else { Role::Requester });
    (near.messages, near.messages_total, near.octets, near.octets_total) = (100, 110, 147_000, 161_700);
    let ours = Outcome::of_flows(End::Host, vec![near]);
    let mut target = outcome_of(&spec, &[(flow, response, results)], &ours);
    limit(&spec, &ours, &mut target, Duration::from_secs(1_000_000));
    let [far] = target.flows.as_slice() else { panic!("one flow") };
    assert!(far.octets_total <= 161_700 || !workload.is_stream());
    assert!(far.messages_total <= 111 && far.elapsed_ns <= 1_000_000_000_000_000);
    assert!(target.cpu.is_none_or(|cpu| (0.0..=1.0).contains(&cpu.machine.busy) && cpu.cpus > 0));
}
