//! Whether anything comes through between two machines, from the bottom up: what an examination tries and, where an end's
//! agent sends no probes, short trials. Measures nothing, and keeps no record.

use linerate_machine::end::End;
use linerate_results::examination::{Examination, Failed, Passed, Probe, Step, StepResult, Unknown};
use linerate_trial::spec::Ip;

use super::attempts::Attempts;
use super::error::TrialError;
use super::examine::{examine, is_able};
use super::pair::Pair;

/// Tries everything that makes sense after what came before; `heard` gets each step as it is done.
pub(crate) fn check(pair: &Pair, heard: &mut dyn FnMut(&Step)) -> Result<Examination, TrialError> {
    let mut examination = examine(pair, None, None, heard)?;
    let unable = End::BOTH.into_iter().find(|end| !is_able(pair, *end));
    if let (Some(end), Ok(route), None) = (unable, pair.route(None), examination.cause()) {
        let foreign = pair.foreign.is_some() && end == End::Target;
        let mtu = smallest_mtu(&examination);
        let mut attempts = Attempts::new(pair, heard);
        let unknown = if foreign { Unknown::NoAgent { end } } else { Unknown::OldAgent { end } };
        attempts.tell(Probe::Route { from: end }, StepResult::Unknown(unknown));
        attempts.all(route, mtu)?;
        examination.steps.extend(attempts.steps);
        examination.cause = examination.steps.iter().position(Step::has_failed);
    }
    if unable.is_none()
        && examination.cause().is_none()
        && let Some((step, seconds)) = over_ipv6(pair)?
    {
        heard(&step);
        examination.steps.push(step);
        examination.seconds += seconds;
        examination.cause = examination.steps.iter().position(Step::has_failed);
    }
    Ok(examination)
}

/// Where the ends have addresses of both versions, of which IPv4's were tried: all of it over IPv6, as one step, and how long it took.
fn over_ipv6(pair: &Pair) -> Result<Option<(Step, f64)>, TrialError> {
    let (Ok(first), Ok(second)) = (pair.route(None), pair.route(Some(Ip::V6))) else { return Ok(None) };
    if pair.is_one() || first.target.is_ipv6() {
        return Ok(None);
    }
    let examination = examine(pair, Some(Ip::V6), None, &mut |_| {})?;
    let came = match examination.cause() {
        Some(step) => StepResult::Failed(Failed::Ipv6 { step: Box::new(step.clone()) }),
        None => StepResult::Passed(Passed::Ipv6 { target: second.target, host: second.host }),
    };
    Ok(Some((Step { probe: Probe::Ipv6, came }, examination.seconds)))
}

/// The largest packet that both links carry, where they say so.
fn smallest_mtu(examination: &Examination) -> Option<u32> {
    let mtus = examination.steps.iter().filter_map(|step| match &step.came {
        StepResult::Passed(Passed::Link { mtu, .. }) => *mtu,
        _ => None,
    });
    // The loopback's packets are larger than any that a trial sends.
    mtus.min().map(|mtu| mtu.min(65_000))
}
