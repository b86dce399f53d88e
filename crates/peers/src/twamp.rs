//! TWAMP Light (RFC 5357, appendix I), unauthenticated: numbered test packets, and a reflector that returns each with its times.
//! Many routers and switches have the reflector; it holds no conversation, so there is nothing to agree on beforehand.

pub mod client;
pub mod packet;
pub mod server;

use linerate_trial::spec::{Spec, Workload};
use linerate_trial::tool::Tool;

use crate::abilities::{ANY, Abilities, cannot};
use crate::error::Error;
use crate::protocol::Protocol;

/// The protocol.
pub const PROTOCOL: Protocol = Protocol {
    abilities: Abilities { workloads: &[Workload::UdpRr], both_directions: false, ..ANY },
    fit: |_| (),
    check,
    measure: client::measure,
    server: || Box::new(server::Server::default()),
};

fn check(spec: &Spec) -> Result<(), Error> {
    if spec.request_size < packet::ANSWER_LEN as u32 {
        return cannot(Tool::Twamp, "requests of less than an answer's 41 bytes", "choose request_size=41, or more");
    }
    if spec.response_size != spec.request_size {
        return cannot(Tool::Twamp, "answers of another size", "choose response_size as request_size");
    }
    Ok(())
}
