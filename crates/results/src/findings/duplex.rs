//! One end of the cable is half duplex, or half duplex limits both.
//! Knows what the two ends tell, and collisions.

use linerate_path::stage::Stage;

use super::case::{Case, tidy};
use super::{Finding, Rule, Sureness};
use crate::total::Total;

pub(super) const RULE: Rule = Rule {
    name: "duplex",
    says: "One end is full duplex and the other half, so that they collide; or the link is half duplex.",
    rests_on: "The duplex that each end tells. Two that differ at one speed are sure; half duplex is likely where collisions, or frames \
               with a wrong CRC, are counted, and possible else.",
    source: "IEEE 802.3, clause 28.2.3.1 (parallel detection): an end that cannot negotiate is taken for half duplex.",
    suggests: &["autoneg", "duplex"],
    find,
};

fn find(case: &Case<'_>) -> Option<Finding> {
    if !case.is_troubled() {
        return None;
    }
    fn duplex<'a>(side: super::case::Side<'a>) -> Option<&'a str> {
        side.nic()?.duplex.as_deref()
    }
    let both = [duplex(case.sender), duplex(case.receiver)];
    let half = case.sides().into_iter().find(|side| duplex(*side) == Some("half"))?;
    let is_mismatch = both.contains(&Some("full"));
    let collisions: u64 = case
        .sides()
        .iter()
        .filter_map(|side| side.sum(Stage::MacTx, |name| name.contains("collision") || name.ends_with("_col")))
        .total();
    let damaged: u64 =
        case.sides().iter().filter_map(|side| side.sum(Stage::Link, |name| name.starts_with("link rx_"))).total();
    // Link partners run at one speed: two that do not have something between them, and each its own partner.
    let speeds = case.sides().map(|side| side.nic().and_then(|nic| nic.speed_mbps));
    let is_mismatch = is_mismatch && speeds[0] == speeds[1];
    let sure = match (is_mismatch, collisions + damaged) {
        (true, _) => Sureness::Sure,
        (false, 1..) => Sureness::Likely,
        (false, 0) => Sureness::Possible,
    };
    let sentence = match is_mismatch {
        true => format!("The {}'s link is half duplex and the other end's full: they talk into each other.", half.end),
        false => format!("The {}'s link is half duplex: only one end of it can send at a time.", half.end),
    };
    let autoneg = half.nic()?.autoneg;
    let (setting, value) = if autoneg == Some(false) { ("autoneg", "on") } else { ("duplex", "full") };
    let speed = half.nic()?.speed_mbps.map_or("unknown".to_owned(), |mbit| tidy(mbit.into()));
    Some(
        RULE.finds(case, Some(half.end), sure, if is_mismatch { 1.0 } else { 0.8 }, sentence)
            .because(format!(
                "the {} tells half duplex at {speed} Mbit/s, autonegotiation {}; the other end tells {}",
                half.end,
                autoneg.map_or("unknown", |on| if on { "on" } else { "off" }),
                both.iter().flatten().find(|one| **one != "half").unwrap_or(&"half"),
            ))
            .because(format!("{collisions} collisions and {damaged} damaged frames were counted"))
            .attempt(half.setting(setting), value, case.metric())
            .wrong_if("It is wrong if both ends tell full duplex after negotiating, and nothing changes.")
            .explains(&["link-damage", "transmit-ring", "link-speed"]),
    )
}
