//! The link is slower than what both ends can do, and that is what limits.
//! Knows link modes by their names.

use super::case::{Case, Side, percent};
use super::{Finding, Rule, Sureness};

/// From this share of what the link carries, or offers to carry, on it is the limit.
const FULL: f64 = 0.7;

pub(super) const RULE: Rule = Rule {
    name: "link-speed",
    says: "The link runs slower than both ends can.",
    rests_on: "The link's speed, and a higher one among the modes that one end supports and the other offers (or supports), in a \
               trial that used at least 70 % of the link or was asked for more than it carries.",
    source: "IEEE 802.3, clause 28 (autonegotiation) and 40.5; ethtool(8).",
    suggests: &["autoneg", "speed"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    let line = case.line_bps()?;
    let used = case.throughput_bps()? / line;
    let is_limit = used >= FULL || (case.loss().is_some() && case.asked_bps().is_some_and(|asked| asked > line));
    let speed = [case.sender, case.receiver].into_iter().filter_map(|side| side.nic()?.speed_mbps).min()?;
    let best = best(case)?;
    if !is_limit || best <= speed {
        return None;
    }
    // Of those whose link is the slow one: who is forced, or else whose offer leaves the better speed out.
    let slow = |side: &Side<'_>| side.nic().is_some_and(|nic| nic.speed_mbps == Some(speed));
    let slow: Vec<Side<'_>> = [case.receiver, case.sender].into_iter().filter(slow).collect();
    let is_forced = |side: &&Side<'_>| side.nic().is_some_and(|nic| nic.autoneg == Some(false));
    let offers_less =
        |side: &&Side<'_>| Some(fastest(&side.nic()?.link_modes.as_ref()?.advertised).unwrap_or(0) < best);
    let side = *slow
        .iter()
        .find(is_forced)
        .or_else(|| slow.iter().find(|side| offers_less(side) == Some(true)))
        .or(slow.first())?;
    let is_forced = side.nic()?.autoneg == Some(false);
    let sentence = format!("The link runs at {speed} Mbit/s, and both ends can do {best}.");
    let finding = RULE
        .finds(case, Some(side.end), Sureness::Likely, used.clamp(0.5, 1.0), sentence)
        .because(format!("the trial used {} of what {speed} Mbit/s carry", percent(used)))
        .because(format!(
            "the {}'s autonegotiation is {}",
            side.end,
            if is_forced { "off" } else { "on; a cable with two pairs, or a bad one, leaves the slower speeds only" }
        ))
        .wrong_if("It is wrong if the link does not come up faster with another cable.");
    Some(match is_forced {
        true => finding.attempt(side.setting("autoneg"), "on", "throughput"),
        false => finding.attempt(side.setting("speed"), "auto", "throughput"),
    })
}

/// The fastest that both can, Mbit/s.
fn best(case: &Case<'_>) -> Option<u32> {
    let modes = |side: Side<'_>| side.nic()?.link_modes.clone();
    let (a, b) = (modes(case.sender), modes(case.receiver));
    let supported = |modes: &Option<linerate_machine::environment::LinkModes>| fastest(&modes.as_ref()?.supported);
    let partner = |modes: &Option<linerate_machine::environment::LinkModes>| fastest(&modes.as_ref()?.partner);
    match (supported(&a), supported(&b)) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (Some(own), None) => Some(own.min(partner(&a)?)),
        (None, Some(own)) => Some(own.min(partner(&b)?)),
        (None, None) => None,
    }
}

/// Of names like `1000baseT/Full`.
fn fastest(modes: &[String]) -> Option<u32> {
    let speed = |mode: &String| linerate_machine::setting::syntax::mode_of(mode).map(|(speed, _)| speed);
    modes.iter().filter_map(speed).max()
}
