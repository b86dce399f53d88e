//! The cost of packets and bytes as people and programs read it: the fit, what it implies, what it takes for granted.
//! Knows no records, and fits nothing.

use linerate_results::cost::{PacketCost, Size};
use linerate_stats::cost::{Cost, Estimate};

use super::answer::Answer;
use super::csv::{self, Column, field};
use super::forms::Piece;
use super::json;
use super::number::{count, figure};
use super::table_model::{Cell, Table};

/// What stands under every fit.
const ASSUMPTIONS: &str = "Taken for granted: CPU time grows by the same for each packet and for each byte, between the \
                           sizes that were measured; all of a machine's busy time is the traffic's; the work fits on one \
                           CPU; and a packet costs as much when that CPU is full as it did here. Batching makes packets \
                           cheaper under load, full caches make them dearer. Bytes are payload.";

/// One object, figures in microseconds, bytes and bits per second.
pub(crate) fn json(campaign: &str, costs: &[PacketCost]) -> String {
    json::line(serde_json::json!({"format": "linerate.cost/1", "campaign": campaign, "costs": costs}))
}

/// A line for each size of each configuration at each end.
pub(crate) fn csv(costs: &[PacketCost]) -> String {
    let columns: [Column<(&PacketCost, &Size)>; 10] = [
        ("configuration", |(cost, _)| field(&cost.configuration)),
        ("end", |(cost, _)| field(whose(cost))),
        ("role", |(cost, _)| field(cost.role.words())),
        ("bytes", |(_, size)| field(size.bytes)),
        ("trials", |(_, size)| field(size.trials)),
        ("us_per_packet", |(_, size)| field(size.us_per_packet)),
        ("copy_us_per_packet", |(_, size)| field(size.copy_us_per_packet?)),
        ("fitted_us_per_packet", |(_, size)| field(size.fitted_us_per_packet?.value)),
        ("saturates_at_bps", |(_, size)| field(size.saturates_at_bps?)),
        ("saturates_without_copy_at_bps", |(_, size)| field(size.saturates_without_copy_at_bps?)),
    ];
    csv::table(&columns, costs.iter().flat_map(|cost| cost.sizes.iter().map(move |size| (cost, size))))
}

fn whose(cost: &PacketCost) -> &'static str {
    cost.end.map_or("both ends", |end| end.name())
}

/// For people. Configurations of which no trial tells anything are said in a line each, at the end.
pub(crate) fn answer(costs: &[PacketCost]) -> Answer {
    let (empty, told): (Vec<&PacketCost>, Vec<&PacketCost>) = costs.iter().partition(|cost| cost.sizes.is_empty());
    let mut pieces: Vec<Piece> = told.iter().flat_map(|cost| one(cost)).collect();
    let mut last: Vec<String> = empty.iter().flat_map(|cost| left_out(cost, &format!("{}: ", title(cost)))).collect();
    if told.iter().any(|cost| cost.fit.is_some()) {
        last.push(ASSUMPTIONS.to_owned());
    }
    pieces.extend(Piece::Lines(last).under("What to know"));
    Answer::of(pieces)
}

fn title(cost: &PacketCost) -> String {
    match cost.end {
        Some(end) => format!("{end} {}, {}", cost.role.words(), cost.configuration),
        None => format!("both ends together, {}", cost.configuration),
    }
}

fn left_out(cost: &PacketCost, before: &str) -> Vec<String> {
    cost.left_out
        .iter()
        .map(|(why, trials)| format!("{before}Trials left out: {trials}, because they {why}."))
        .collect()
}

fn one(cost: &PacketCost) -> Vec<Piece> {
    let mut lines = match (&cost.fit, &cost.refused) {
        (Some(fit), _) => fitted(fit, &cost.sizes),
        (None, why) => vec![format!("No cost is told: {}.", why.as_deref().unwrap_or("nothing was measured"))],
    };
    lines.extend(cost.doubts.iter().map(|doubt| (*doubt).to_owned()));
    lines.extend(left_out(cost, ""));
    vec![Piece::Heading(title(cost)), Piece::Lines(lines), sizes(cost)]
}

/// The cost with its intervals, and what it implies at the largest size.
fn fitted(fit: &Cost, sizes: &[Size]) -> Vec<String> {
    let between = |one: Estimate, scale: f64| {
        format!("{} ({} to {})", figure(one.value * scale, 3), figure(one.low * scale, 3), figure(one.high * scale, 3))
    };
    let (packet, byte) = (between(fit.per_packet, 1.0), between(fit.per_byte, 1e3));
    let mut lines =
        vec![format!("{packet} µs a packet and {byte} ns a byte, by {} trials; intervals of 95 %.", fit.trials)];
    if fit.per_byte.low <= 0.0 {
        lines.push("What a byte costs cannot be told from nothing; measure longer, or more repeats.".to_owned());
    }
    lines.extend(sizes.last().and_then(implied));
    lines
}

fn implied(size: &Size) -> Option<String> {
    let mbit = |bps: f64| figure(bps / 1e6, 3);
    let mut text = format!(
        "At {} B one CPU saturates at {} Mbit/s",
        count(size.bytes.round() as u64),
        mbit(size.saturates_at_bps?)
    );
    if let Some(bps) = size.saturates_without_copy_at_bps {
        text += &format!("; without the copy at {}", mbit(bps));
    }
    Some(text + ".")
}

fn sizes(cost: &PacketCost) -> Piece {
    let us = |value: Option<f64>| value.map(|us| Cell::number(us, 3)).into();
    let mbit = |bps: Option<f64>| us(bps.map(|bps| bps / 1e6));
    let between = |fitted: Estimate| Cell::numbers(format!("{} – {}", figure(fitted.low, 3), figure(fitted.high, 3)));
    let rows = cost.sizes.iter().map(|size| {
        vec![
            Cell::count(size.bytes.round() as u64),
            Cell::count(size.trials as u64),
            us(Some(size.us_per_packet)),
            us(size.fitted_us_per_packet.map(|fitted| fitted.value)),
            size.fitted_us_per_packet.map(between).into(),
            mbit(size.saturates_at_bps),
            us(size.copy_us_per_packet),
            mbit(size.saturates_without_copy_at_bps),
        ]
    });
    let titles = [
        "bytes",
        "trials",
        "µs/packet",
        "fitted",
        "95 % of trials within",
        "one CPU full at Mbit/s",
        "µs copying",
        "without copies Mbit/s",
    ];
    // What was not fitted or profiled has fewer columns.
    Piece::Table(Table::new(titles, rows).filled())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use linerate_machine::end::End;
    use linerate_results::cost::Role;

    use super::*;

    /// A receiver of 4.1 µs and 0.9 ns a byte that was profiled, a bent one, and a sender that was paced.
    fn found() -> Vec<PacketCost> {
        let points: Vec<(f64, f64)> = [64.0, 512.0, 1472.0]
            .into_iter()
            .flat_map(|size: f64| [0.99, 1.0, 1.01].map(|noise| (size, (4.1 + 0.0009 * size) * noise)))
            .collect();
        let fit = Cost::fit(&points).unwrap();
        let size = |bytes: f64, fit: Option<&Cost>| Size {
            bytes,
            trials: 3,
            us_per_packet: 4.1 + 0.0009 * bytes,
            copy_us_per_packet: fit.map(|_| 0.0004 * bytes),
            fitted_us_per_packet: fit.map(|fit| fit.at(bytes)),
            saturates_at_bps: fit.and_then(|fit| fit.saturates_at_bps(bytes, 0.0)),
            saturates_without_copy_at_bps: fit.and_then(|fit| fit.saturates_at_bps(bytes, 0.0004 * bytes)),
        };
        let sizes = |fit: Option<&Cost>| [64.0, 512.0, 1472.0].map(|bytes| size(bytes, fit)).to_vec();
        let good = PacketCost {
            configuration: "udp-stream rx rate=5kpps".to_owned(),
            end: Some(End::Target),
            role: Role::Receives,
            sizes: sizes(Some(&fit)),
            fit: Some(fit),
            refused: None,
            left_out: BTreeMap::from([("sent fragments; choose sizes within the MTU", 1)]),
            doubts: vec!["These trials were profiled, and the profile's own time is in the cost."],
        };
        let bent = PacketCost {
            configuration: "udp-stream tx".to_owned(),
            end: None,
            role: Role::SendsAndReceives,
            fit: None,
            refused: Some("a line does not fit; look where it bends".to_owned()),
            sizes: sizes(None),
            left_out: BTreeMap::new(),
            doubts: Vec::new(),
        };
        let paced = PacketCost {
            end: Some(End::Host),
            role: Role::Sends,
            refused: Some("every trial was left out".to_owned()),
            sizes: Vec::new(),
            left_out: BTreeMap::from([("kept their sender to a schedule; measure it with rate=unlimited", 9)]),
            ..bent.clone()
        };
        vec![good, bent, paced]
    }

    #[test]
    fn costs_for_people() {
        insta::assert_snapshot!(answer(&found()).text(None));
        insta::assert_snapshot!("costs_ready_to_paste", answer(&found()).markdown());
    }

    #[test]
    fn costs_for_programs() {
        assert_eq!(csv(&found()).lines().count(), 7);
        let json: serde_json::Value = serde_json::from_str(&json("01C", &found())).unwrap();
        let cost = &json["costs"][0];
        assert!((cost["fit"]["per_packet"]["value"].as_f64().unwrap() - 4.1).abs() < 1e-6, "{json}");
        assert_eq!((&cost["end"], &cost["role"]), (&"target".into(), &"receives".into()));
    }
}
