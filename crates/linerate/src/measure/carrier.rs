//! The links of both ends: named where one is down, and waited for before the next trial.
//! Knows no trials; each end is asked what it sees.

use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Reply, Request};
use linerate_machine::end::End;
use linerate_results::join::Route;

use super::pair::Pair;
use crate::interrupt;

/// How long a link may be away before a campaign gives up: a board restarts, a cable is put back.
pub(crate) const LINK_TIME: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A link that has just come back loses its first packets: a switch learns, a bridge listens.
const SETTLE: Duration = Duration::from_millis(500);

/// An end whose interface has no carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkDown {
    pub(crate) end: End,
    pub(crate) interface: String,
}

/// The ends whose links are down, as far as they can tell.
pub(crate) fn down(pair: &Pair, route: Route) -> Vec<LinkDown> {
    let mut found = Vec::new();
    for end in End::BOTH {
        let Some(interface) = pair.interface(end, route) else { continue };
        let request = Request::Describe { interface: Some(interface.clone()), modules: Vec::new() };
        if let Ok(Reply::Environment(environment)) = pair.client(end).request(request, Duration::from_secs(1))
            && environment.nic.and_then(|nic| nic.link_detected) == Some(false)
        {
            found.push(LinkDown { end, interface });
        }
    }
    found
}

/// What became of a link that was down when a trial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarrierWait {
    /// None was: the trial failed for another reason.
    WasUp,
    /// It came back.
    IsBack,
    /// It stayed away.
    StaysDown,
}

/// Waits for links that are down, at most [`LINK_TIME`]. `say` hears what is waited for.
pub(crate) fn wait(pair: &Pair, route: Route, say: &dyn Fn(&str)) -> CarrierWait {
    let mut is_down = down(pair, route);
    let Some(first) = is_down.first() else { return CarrierWait::WasUp };
    say(&format!(
        "the {}'s interface {} has no carrier; the next trial waits for it, at most {} s",
        first.end,
        first.interface,
        LINK_TIME.as_secs()
    ));
    let began = Instant::now();
    while !is_down.is_empty() {
        if interrupt::requested() || began.elapsed() >= LINK_TIME {
            return CarrierWait::StaysDown;
        }
        thread::sleep(LOOK_EVERY);
        is_down = down(pair, route);
    }
    thread::sleep(SETTLE);
    CarrierWait::IsBack
}
