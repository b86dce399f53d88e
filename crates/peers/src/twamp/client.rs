//! What a TWAMP sender does: test packets to a reflector, which proves its address first.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use linerate_host::traffic::reachability::{ProvenPeer, SendPermission};
use linerate_host::traffic::{Adopted, Framing};
use linerate_trial::flow::Flow;
use linerate_trial::outcome::Outcome;
use socket2::Socket;

use super::packet::{ANSWER_LEN, Packets, answered, emit};
use crate::client::Client;
use crate::error::Error;
use crate::protocol::Notify;
use crate::remote_end::remote_end;
use crate::socket_options::open;

/// How often a reflector is asked whether it is one, and how long it has each time.
const TRIES: u32 = 5;
const TRY_TIME: Duration = Duration::from_millis(300);
/// How long answers may take that are under way when the trial ends.
const LATE: Duration = Duration::from_secs(2);

/// One trial.
pub fn measure(client: &Client<'_>, notify: Notify) -> Result<[Outcome; 2], Error> {
    let mut flows = Vec::new();
    for flow in Flow::of(client.spec) {
        let socket = open(client.spec, client.route.local, client.route.server).map_err(|e| client.unreachable(e))?;
        let proven = prove(client, &socket)?;
        flows.push(Adopted::new(flow, socket, SendPermission::Proven(proven)));
    }
    let trial = client.adopt(client.spec.clone(), Framing::new(Packets), flows, notify)?;
    trial.start();
    let outcome = client.outcome(trial, LATE)?;
    // What it answered, its answers tell.
    Ok([remote_end(client.spec, &outcome), outcome])
}

/// A packet whose number and time are drawn at random, and the answer that repeats both.
fn prove(client: &Client<'_>, socket: &Socket) -> Result<ProvenPeer, Error> {
    let udp: UdpSocket = socket.try_clone()?.into();
    let mut said = [0; 12];
    getrandom::fill(&mut said).map_err(std::io::Error::other)?;
    let (number, time) = said.split_first_chunk().expect("four bytes of twelve");
    let said = (u32::from_be_bytes(*number), *time.first_chunk().expect("eight bytes are left"));
    let mut request = [0; ANSWER_LEN];
    emit(said.0, said.1, &mut request);
    let mut octets = [0; 2048];
    for _ in 0..TRIES {
        udp.send(&request).map_err(|error| client.unreachable(error))?;
        let until = Instant::now() + TRY_TIME;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if client.is_stopped() {
                return Err(Error::Stopped);
            }
            udp.set_read_timeout(Some(left))?;
            match udp.recv(&mut octets) {
                Ok(len) => {
                    let repeated = answered(&octets[..len]);
                    if let Some(proven) = repeated.and_then(|it| ProvenPeer::by_echo(client.route.server, &said, &it)) {
                        return Ok(proven);
                    }
                }
                Err(error) if crate::listener::is_passing(&error) => {}
                Err(error) => return Err(client.unreachable(error)),
            }
        }
    }
    Err(Error::Silent(client.server()))
}
