//! Between which loads each configuration is searched: what the user says, or what the slower link carries.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use linerate_control::message::{Reply, Request};
use linerate_machine::end::End;
use linerate_machine::units::OfferedLoad;
use linerate_plan::{PlannedTrial, SearchPlan};
use linerate_results::search::SearchAsked;
use linerate_trial::spec::{Ip, Spec, Workload};
use linerate_trial::wire::EthernetOverhead;

use super::calibration::Calibrations;
use crate::measure::pair::{ANSWER_TIME, Pair};

/// The lowest load, as a part of the highest.
const LEAST: f64 = 0.001;
/// What was found is measured once more for so long, seconds (RFC 2544, section 24).
const CONFIRM_S: f64 = 60.0;
/// How long each trial of a stage is, unless somebody says otherwise.
const STAGE_TIME: Duration = Duration::from_secs(10);

/// What each configuration is searched for, and between which loads.
pub(super) fn asked(
    search: &SearchPlan,
    calibrates: bool,
    pair: &Pair,
    calibrations: &Calibrations,
    bases: Vec<PlannedTrial>,
) -> Result<Vec<(PlannedTrial, SearchAsked)>> {
    let mut links = BTreeMap::new();
    let mut one = |base: PlannedTrial| -> Result<(PlannedTrial, SearchAsked)> {
        let spec = Spec { ip: Some(family(pair, base.spec.ip)?), ..base.spec.clone() };
        let version = base.spec.ip.map(|ip| ip == Ip::V4);
        let line_bps = *links.entry(version).or_insert_with(|| slower_link_bps(pair, base.spec.ip));
        let bps = |rate: Option<OfferedLoad>| rate.and_then(|rate| rate.bits_per_second(spec.message_octets().into()));
        let most_bps = match (bps(search.most), line_bps) {
            (Some(bps), _) => bps,
            (None, Some(line_bps)) => carried_by(line_bps, &spec),
            (None, None) => {
                bail!("neither machine says how fast its link is; say the highest load to try, like --max-rate 1G")
            }
        };
        let packet_bits = f64::from(spec.message_octets()) * 8.0;
        if most_bps < packet_bits {
            bail!("the highest load, {most_bps} bit/s, is less than a packet a second; write it like 900M, or 10kpps");
        }
        let calibration = calibrations.of(&spec).filter(|_| search.tester_limit.is_none());
        let asked = SearchAsked {
            goals: search.goals.clone(),
            least_bps: bps(search.least).unwrap_or(most_bps * LEAST),
            most_bps,
            whole_trials: search.whole_trials,
            confirm_s: search.confirm.then_some(CONFIRM_S),
            tester_limit_bps: bps(search.tester_limit).or(calibration.as_ref().map(|(_, bps)| *bps)),
            calibration: calibration.map(|(campaign, _)| campaign),
            calibrates,
            stages: search.stages.clone(),
            stage_s: if search.stages.is_empty() { 0.0 } else { search.stage_time.unwrap_or(STAGE_TIME).as_secs_f64() },
            packet_octets: Some(spec.message_octets()),
            wire_octets: u32::try_from(wire_octets(&spec)).ok(),
            line_bps,
            reset: search.reset.clone(),
            is_of_frames: spec.workload == Workload::Frames,
        };
        Ok((base, asked))
    };
    bases.into_iter().map(&mut one).collect()
}

/// What a datagram, or a frame, of this trial takes of an Ethernet.
fn wire_octets(spec: &Spec) -> u64 {
    match spec.workload {
        Workload::Frames => EthernetOverhead::frame_wire_octets(spec.message_octets().into()),
        _ => EthernetOverhead::udp_wire_octets(spec.message_octets().into(), spec.ip_version()),
    }
}

/// The payload that a link carries in packets of this trial's size, bits per second.
fn carried_by(line_bps: f64, spec: &Spec) -> f64 {
    line_bps * f64::from(spec.message_octets()) / wire_octets(spec) as f64
}

/// By which Internet Protocol the trials go.
fn family(pair: &Pair, ip: Option<Ip>) -> Result<Ip> {
    let route = pair.route(ip).map_err(|complaint| anyhow!(complaint))?;
    Ok(if route.target.is_ipv4() { Ip::V4 } else { Ip::V6 })
}

/// What the slower of the two links does, bits per second.
fn slower_link_bps(pair: &Pair, ip: Option<Ip>) -> Option<f64> {
    let route = pair.route(ip).ok()?;
    let speed = |end| {
        let interface = pair.interface(end, route);
        let described =
            pair.client(end).request(Request::Describe { interface, modules: Vec::new() }, ANSWER_TIME).ok()?;
        let Reply::Environment(environment) = described else { return None };
        environment.nic?.speed_mbps
    };
    let speeds = End::BOTH.map(speed);
    speeds.into_iter().flatten().min().map(|mbps| f64::from(mbps) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_carries_depends_on_the_packets() {
        let of = |octets: u32, ip| Spec { message_size: Some(octets), ip, ..Spec::new(Workload::UdpStream) };
        let frames = |size: &str| Spec { frame_size: Some(size.parse().unwrap()), ..Spec::new(Workload::Frames) };
        // RFC 2544, appendix B, at 1 Gbit/s: 1,488,095 frames a second of 64 octets, 81,274 of 1518.
        for (spec, octets, packets) in [
            (of(18, Some(Ip::V4)), 18.0, 1_488_095.0),
            (of(1472, Some(Ip::V4)), 1472.0, 81_274.0),
            (frames("64"), 64.0, 1_488_095.0),
            (frames("1518"), 1518.0, 81_274.0),
        ] {
            let carried = carried_by(1e9, &spec) / 8.0 / octets;
            assert!((carried - packets).abs() < 1.0, "{octets}: {carried}");
        }
        assert!(carried_by(1e9, &of(1000, Some(Ip::V6))) < carried_by(1e9, &of(1000, Some(Ip::V4))));
    }
}
