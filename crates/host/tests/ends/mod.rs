//! Both ends of a trial in this process, over loopback.
//! Knows no expectations; each test has its own.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use linerate_host::traffic::{Tokens, TrafficError, Trial};
use linerate_machine::end::End;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

/// What both ends know of each other.
pub const TOKENS: Tokens = Tokens { hello: *b"hello to the end", answer: *b"answer to begin." };

/// What came of one end.
pub type Ended = Result<Outcome, TrafficError>;

/// What is not as usual.
pub struct Unusual {
    /// What the host takes for the trial's tokens.
    pub host_tokens: Tokens,
    /// When both ends are told to stop, after their start.
    pub stop_after: Option<Duration>,
}

impl Default for Unusual {
    fn default() -> Unusual {
        Unusual { host_tokens: TOKENS, stop_after: None }
    }
}

/// Runs a trial between two ends at `address`: what came of the target, and of the host.
pub fn run(spec: &Spec, address: &str, unusual: &Unusual) -> (Ended, Ended) {
    let address: IpAddr = address.parse().unwrap();
    let prepare = |end, tokens| Trial::prepare(spec.clone(), end, address, Some("lo".to_owned()), tokens).unwrap();
    let (target, host) = (prepare(End::Target, TOKENS), prepare(End::Host, unusual.host_tokens));
    let (target_ports, host_ports) = (target.ports().unwrap(), host.ports().unwrap());
    let carry_out = |mut end: Trial, ports: &[(u16, u16)]| -> Ended {
        end.connect(address, ports, |_| {})?;
        end.start();
        if let Some(time) = unusual.stop_after {
            thread::sleep(time);
            end.stop();
        }
        end.join()
    };
    thread::scope(|scope| {
        let host = scope.spawn(|| carry_out(host, &target_ports));
        let target = carry_out(target, &host_ports);
        (target, host.join().unwrap())
    })
}
