//! A trial whose other end is another tool's server.
//! Knows no protocol; crate `peers` does, where this agent was built with it.

use std::net::{IpAddr, SocketAddr};

use linerate_control::message::{Failure, Foreign, RefusalKind};
use linerate_host::interfaces;
use linerate_host::traffic::Progress;
#[cfg(feature = "peers")]
use linerate_host::traffic::reachability::UnprovenLimit;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::Spec;

use crate::refusal::{Refusal, check_of_one_machine};

/// A test that can be carried out.
pub(crate) struct Test {
    foreign: Foreign,
    spec: Spec,
    local: IpAddr,
    interface: Option<String>,
}

impl Test {
    /// Refused where the tool cannot do what is asked, or this agent cannot speak to it, or may not. `unanswered` is what may
    /// be sent here without an answer, in bits per second.
    pub(crate) fn prepare(
        mut foreign: Foreign,
        spec: Spec,
        local: IpAddr,
        interface: Option<String>,
        unanswered: Option<u64>,
    ) -> Result<Test, Refusal> {
        let refuse = |sentence| Refusal(RefusalKind::BadRequest, sentence);
        check_of_one_machine(foreign.server.ip())?;
        can(&foreign, &spec).map_err(refuse)?;
        if let Some(asked) = &mut foreign.unanswered {
            let most = unanswered.ok_or_else(|| {
                refuse(
                    "this agent sends nothing to a server that does not answer; start it with --allow-unanswered RATE, or \
                     leave that out here"
                        .to_owned(),
                )
            })?;
            *asked = most.min(*asked);
        }
        if let Some(name) = &foreign.interface {
            let number = interfaces::number(name).map_err(|error| {
                refuse(format!("the host has no interface {name}, which stands behind the server's address: {error}"))
            })?;
            if let SocketAddr::V6(server) = &mut foreign.server {
                server.set_scope_id(number);
            }
        }
        Ok(Test { foreign, spec, local, interface })
    }
}

#[cfg(feature = "peers")]
fn can(foreign: &Foreign, spec: &Spec) -> Result<(), String> {
    linerate_peers::check(foreign.tool, spec).map_err(|error| error.to_string())
}

#[cfg(not(feature = "peers"))]
fn can(foreign: &Foreign, _: &Spec) -> Result<(), String> {
    Err(format!(
        "this agent was built without other tools' protocols; build it with --features peers, or let the machine with \
         linerate speak to {}",
        foreign.tool
    ))
}

impl Test {
    /// Carries it out: what the server told of its end, the target, and what this end saw. `stopped` says whether it
    /// should end now.
    #[cfg(feature = "peers")]
    pub(crate) fn run(
        self,
        notify: impl Fn(Progress) + Send + 'static,
        stopped: &dyn Fn() -> bool,
    ) -> Result<[Outcome; 2], (String, Option<Failure>)> {
        let Test { foreign, spec, local, interface } = self;
        let unanswered = foreign.unanswered.map(|bits_per_second| UnprovenLimit { bits_per_second });
        let route = linerate_peers::Route { local, interface, server: foreign.server, unanswered };
        linerate_peers::run(foreign.tool, &foreign.tokens, &spec, &route, notify, stopped)
            .map_err(|error| (error.to_string(), error.is_no_server().then_some(Failure::NoServer)))
    }

    /// Never called: nothing was prepared.
    #[cfg(not(feature = "peers"))]
    pub(crate) fn run(
        self,
        _: impl Fn(Progress) + Send + 'static,
        _: &dyn Fn() -> bool,
    ) -> Result<[Outcome; 2], (String, Option<Failure>)> {
        let Test { foreign, spec, local, interface } = self;
        Err((format!("{} {local} {interface:?}: {}", foreign.tool, spec.workload), None))
    }
}
