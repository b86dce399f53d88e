//! The probing part of a conversation: to whom a handful of probes may go, and how often.
//! Knows no conclusions; [`linerate_host::probe`] sends and hears.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{ProbeOrder, RefusalKind, Reply, Secret};
use linerate_host::probe::{MOST_SIZES, Order, ProbeObserver, probe};
use linerate_host::traffic::refused_by_system;

use crate::refusal::{Refusal, check_of_one_machine, failed, out_of_order};

/// Between two orders: each is some twenty packets, or forty of several sizes to an address that has answered.
const APART: Duration = Duration::from_millis(100);
const WITNESS_TIME: Duration = Duration::from_secs(20);

/// The witness, if there is one, and who has answered probes.
#[derive(Default)]
pub(crate) struct Probing {
    witness: Option<ProbeObserver>,
    /// It has answered: it repeated a secret that only the other end's agent was told.
    proven: Option<IpAddr>,
    last: Option<Instant>,
}

impl Probing {
    pub(crate) fn witness(
        &mut self,
        local: IpAddr,
        peer: IpAddr,
        interface: Option<&str>,
        secret: Secret,
    ) -> Result<Reply, Refusal> {
        check_of_one_machine(peer)?;
        self.witness = None;
        let witness = ProbeObserver::open(local, peer, interface, secret.0, WITNESS_TIME)
            .map_err(|error| failed(refused_by_system(&error)))?;
        let (udp, tcp) = witness.ports;
        self.witness = Some(witness);
        Ok(Reply::Witnessing { udp, tcp })
    }

    pub(crate) fn probe(&mut self, order: &ProbeOrder) -> Result<Reply, Refusal> {
        check_of_one_machine(order.peer)?;
        if order.sizes.len() > MOST_SIZES {
            let sentence = format!("at most {MOST_SIZES} sizes are tried at once; ask for fewer");
            return Err(Refusal(RefusalKind::BadRequest, sentence));
        }
        if !order.sizes.is_empty() && self.proven != Some(order.peer) {
            return Err(out_of_order(
                "large packets go to an address that has answered small ones; probe with those first",
            ));
        }
        let wait = self.last.map(|last| APART.saturating_sub(last.elapsed()));
        thread::sleep(wait.unwrap_or_default());
        let report = probe(&Order {
            local: order.local,
            peer: order.peer,
            interface: order.interface.as_deref(),
            secret: order.secret.0,
            echo: order.echo,
            arp: order.arp,
            udp: order.udp,
            flows: order.flows,
            tcp: order.tcp,
            connections: order.connections,
            sizes: &order.sizes,
            size_time: Duration::try_from_secs_f64(order.size_time_s).unwrap_or_default(),
            patience: Duration::try_from_secs_f64(order.patience_s).unwrap_or_default(),
            hops: order.hops,
            dscp: order.dscp,
            ecn: order.ecn,
        });
        self.last = Some(Instant::now());
        if report.udp.as_ref().is_some_and(|udp| udp.answered > 0) {
            self.proven = Some(order.peer);
        }
        Ok(Reply::Probed(Box::new(report)))
    }

    pub(crate) fn heard(&self) -> Result<Reply, Refusal> {
        match &self.witness {
            Some(witness) => Ok(Reply::Heard(Box::new(witness.report()))),
            None => Err(out_of_order("there is no witness; ask for one first")),
        }
    }

    /// Ends the witness.
    pub(crate) fn end(&mut self) {
        (self.witness, self.proven) = (None, None);
    }
}
