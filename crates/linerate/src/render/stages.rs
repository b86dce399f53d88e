//! What was measured around a search: delay, loss from the highest load down, bursts, and TCP's windows.
//! Knows no trials but by what `results::search` makes of them.

use linerate_machine::units::format_size;
use linerate_results::search::rfc6349::{Rfc6349, Window};
use linerate_results::search::stages::{self, Bursts, Stage};
use linerate_results::search::{Purpose, SearchRecords, TriedLoad};

use super::forms::Piece;
use super::load::load;
use super::number::{count, figure, percent};
use super::table_model::{Cell, Table};

/// Each stage that was asked for, in its order.
pub(super) fn pieces(one: &SearchRecords) -> Vec<Piece> {
    let of = |stage: &Stage| match stage {
        Stage::Latency => latency(one),
        Stage::LossRate => loss_rate(one),
        Stage::BackToBack => back_to_back(one),
        Stage::Recovery => recovery(one),
        Stage::Reset => reset(one),
        Stage::Windows => windows(one),
    };
    one.asked.stages.iter().flat_map(of).collect()
}

fn of(one: &SearchRecords, purpose: Purpose) -> Vec<&TriedLoad> {
    one.tried.iter().filter(|tried| tried.step.purpose == purpose).collect()
}

fn mbit(bps: f64) -> Cell {
    Cell::number(bps / 1e6, 5)
}

fn known(value: Option<f64>, digits: i32) -> Cell {
    value.map_or_else(|| Cell::text("-"), |value| Cell::number(value, digits))
}

fn ratio(value: Option<f64>) -> Cell {
    value.map_or_else(|| Cell::text("-"), Cell::percent)
}

fn latency(one: &SearchRecords) -> Vec<Piece> {
    let row = |tried: &TriedLoad| {
        let delay = tried.seen.delay.unwrap_or_default();
        let us = |seconds: Option<f64>| known(seconds.map(|seconds| seconds * 1e6), 3);
        let part = one.throughput_bps().map(|bps| sent_bps(tried) / bps);
        vec![
            ratio(part),
            mbit(sent_bps(tried)),
            us(delay.p50_s),
            us(delay.p99_s),
            us(delay.max_s),
            ratio(tried.seen.loss_of_sent),
        ]
    };
    let rows: Vec<Vec<Cell>> = of(one, Purpose::Latency).into_iter().map(row).collect();
    let p50 = if one.asked.is_of_frames { "one way p50\nµs" } else { "round trip p50\nµs" };
    let titles = ["of what was found\n%", "load\nMbit/s", p50, "p99\nµs", "longest\nµs", "lost\n%"];
    let mut pieces = Piece::Table(Table::new(titles, rows)).under("Delay beside the stream");
    pieces.extend(fell_behind(one, Purpose::Latency, "delay"));
    pieces
}

/// Where less was sent than the load: of what the figure is.
fn fell_behind(one: &SearchRecords, purpose: Purpose, figure: &str) -> Option<Piece> {
    let unsent = of(one, purpose).into_iter().filter(|tried| sent_bps(tried) < tried.step.load_bps);
    let line = |tried: &TriedLoad| {
        let [asked, sent] = [tried.step.load_bps, sent_bps(tried)].map(|bps| load(&one.asked, bps));
        format!("The sender fell behind: of {asked} it sent {sent}, and the {figure} is that of what was sent.")
    };
    Piece::lines(unsent.map(line).collect::<Vec<_>>())
}

/// What a sentence says behind its loss where not all was sent.
pub(super) fn unsent(tried: &TriedLoad) -> String {
    let unsent = tried.seen.sent_ratio.map_or(0.0, |sent| 1.0 - sent);
    if unsent > 0.0 { format!("; the sender did not send {} %", percent(unsent)) } else { String::new() }
}

/// What was sent of a load.
fn sent_bps(tried: &TriedLoad) -> f64 {
    tried.step.load_bps * tried.seen.sent_ratio.unwrap_or(1.0)
}

fn loss_rate(one: &SearchRecords) -> Vec<Piece> {
    let row = |tried: &TriedLoad| {
        let part = tried.step.load_bps / one.asked.most_bps;
        vec![Cell::percent(part), mbit(sent_bps(tried)), ratio(tried.seen.loss_of_sent)]
    };
    let rows: Vec<Vec<Cell>> = of(one, Purpose::LossRate).into_iter().map(row).collect();
    let titles = ["of the highest load\n%", "load\nMbit/s", "lost\n%"];
    let mut pieces = Piece::Table(Table::new(titles, rows)).under("Loss from the highest load down");
    pieces.extend(fell_behind(one, Purpose::LossRate, "loss"));
    pieces
}

fn back_to_back(one: &SearchRecords) -> Vec<Piece> {
    let Some(bursts) = Bursts::of(&one.asked, &one.tried) else { return Vec::new() };
    if of(one, Purpose::BackToBack).is_empty() {
        return Vec::new();
    }
    let load = load(&one.asked, one.asked.most_bps);
    let packets = if one.asked.is_of_frames { "frames" } else { "packets" };
    let ms = |packets: u64| format!("{} ms", figure(packets as f64 / bursts.per_second * 1000.0, 3));
    let mut lines = vec![match (bursts.carried, bursts.lost) {
        (Some(carried), Some(lost)) => format!(
            "Of {} {packets} at {load} ({}) nothing is lost; of {} something is, twice.",
            count(carried),
            ms(carried),
            count(lost)
        ),
        (Some(carried), None) => format!(
            "Of {} {packets} at {load} ({}) nothing is lost: longer bursts are not tried.",
            count(carried),
            ms(carried)
        ),
        (None, Some(lost)) => format!("Of {} {packets} at {load} something is lost, and of fewer, too.", count(lost)),
        (None, None) => format!("No burst at {load} was decided."),
    }];
    let buffer_s = one.throughput_bps().and_then(|bps| bursts.buffer_s(&one.asked, bps));
    lines.extend(buffer_s.map(|seconds| {
        format!(
            "The path's buffer holds {} ms of that load: what it passed on meanwhile is left out (RFC 9004, corrected buffer \
             time).",
            figure(seconds * 1000.0, 3)
        )
    }));
    Piece::Lines(lines).under("The longest burst")
}

fn recovery(one: &SearchRecords) -> Vec<Piece> {
    let Some(tried) = of(one, Purpose::Recovery).pop() else { return Vec::new() };
    let (after, unsent) = (load(&one.asked, tried.step.load_bps), unsent(tried));
    let line = match stages::recovery(&one.tried) {
        Some((_, 0.0)) => format!(
            "An overload of 110 % of what was found lost nothing, and neither did {after} after it: there was nothing to recover \
             from{unsent}."
        ),
        Some((0.0, lost)) => format!(
            "At 110 % of what was found, and then {after}, {} % was lost in all, and nothing of what was sent after the \
             overload{unsent}.",
            percent(lost)
        ),
        Some((seconds, lost)) => format!(
            "{} % was lost in all; once the load fell from 110 % of what was found to {after}, the last that was lost was sent {} s \
             later{unsent}.",
            percent(lost),
            figure(seconds, 3)
        ),
        None => "When the last packet was lost after an overload was not measured; the record says why.".to_owned(),
    };
    Piece::Lines(vec![line]).under("Recovery from an overload")
}

fn reset(one: &SearchRecords) -> Vec<Piece> {
    let Some(tried) = of(one, Purpose::Reset).pop() else { return Vec::new() };
    let load = load(&one.asked, tried.step.load_bps);
    let command = one.asked.reset.as_deref().unwrap_or("a command");
    let line = match stages::reset_s(&one.tried) {
        Some(0.0) => {
            format!("After '{command}' nothing was lost at {load}: the device went on, or was not what was reset.")
        }
        Some(seconds) => format!(
            "After '{command}' nothing passed for {} s: so much was lost at {load} (RFC 6201, frame-loss method){}.",
            figure(seconds, 3),
            unsent(tried)
        ),
        None => format!("After '{command}' nothing was measured; the record says why."),
    };
    Piece::Lines(vec![line]).under("A reset of the device")
}

fn windows(one: &SearchRecords) -> Vec<Piece> {
    let Some(found) = Rfc6349::of(one) else { return Vec::new() };
    if let Some(unfit) = found.unfit {
        let jitter =
            unfit.jitter_s.map_or_else(String::new, |s| format!(", arrivals vary by {} ms", figure(s * 1000.0, 3)));
        let sentence = format!(
            "Not measured: at {} Mbit/s {} % is lost{jitter}. With more than 5 % lost or 150 ms of jitter TCP's throughput says \
             nothing of the path (RFC 6349, section 2); find that loss first, with linerate explain.",
            figure(unfit.load_bps / 1e6, 4),
            percent(unfit.loss_ratio)
        );
        return Piece::Lines(vec![sentence]).under(TCP);
    }
    let mut facts = Vec::new();
    facts.extend(found.baseline_rtt_s.map(|s| format!("round trip of the idle path {} ms", figure(s * 1000.0, 3))));
    facts.extend(found.bottleneck_bps.map(|bps| format!("{} Mbit/s on the wire", figure(bps / 1e6, 4))));
    facts.extend(found.bdp_octets.map(|octets| format!("product of both {} bytes", count(octets.round() as u64))));
    facts.extend(found.path_mtu.map(|mtu| format!("path MTU {mtu}")));
    let mut lines = vec![format!("{}.", facts.join(", "))];
    if let Some(timestamps) = found.windows.iter().find_map(|window| window.timestamps) {
        let with = if timestamps { "with" } else { "without" };
        lines.push(format!(
            "The ideal is what windows and the wire leave to full segments {with} TCP's timestamps (12 bytes of each)."
        ));
    }
    if found.windows.iter().any(|window| window.efficiency.is_some() && !window.is_of_bytes) {
        lines.push(
            "Efficiency is counted in segments: the sender's kernel does not count bytes (before 4.19).".to_owned(),
        );
    }
    let row = |window: &Window| {
        vec![
            Cell::text(format_size(window.octets as u64)),
            mbit(window.throughput_bps),
            window.ideal_bps.map_or_else(|| Cell::text("-"), mbit),
            known(window.transfer_time_ratio, 3),
            ratio(window.efficiency),
            ratio(window.buffer_delay),
        ]
    };
    let titles = [
        "window\nbytes",
        "throughput\nMbit/s",
        "ideal\nMbit/s",
        "transfer time ratio",
        "efficiency\n%",
        "buffer delay\n%",
    ];
    let mut pieces = Piece::Lines(lines).under(TCP);
    if !found.windows.is_empty() {
        pieces.push(Piece::Table(Table::new(titles, found.windows.iter().map(row))));
    }
    pieces
}

const TCP: &str = "TCP's throughput (RFC 6349)";

/// The stages as one object.
pub(super) fn json(one: &SearchRecords) -> serde_json::Value {
    let bursts = Bursts::of(&one.asked, &one.tried).filter(|_| !of(one, Purpose::BackToBack).is_empty());
    let latency = |tried: &TriedLoad| {
        let delay = tried.seen.delay.unwrap_or_default();
        serde_json::json!({
            "record": tried.record,
            "load_bps": tried.step.load_bps,
            "sent_bps": sent_bps(tried),
            "loss_ratio": tried.seen.loss_of_sent,
            "p50_s": delay.p50_s,
            "p99_s": delay.p99_s,
            "max_s": delay.max_s,
        })
    };
    let loss = |tried: &TriedLoad| {
        serde_json::json!({
            "record": tried.record,
            "load_bps": tried.step.load_bps,
            "sent_bps": sent_bps(tried),
            "loss_ratio": tried.seen.loss_of_sent,
        })
    };
    serde_json::json!({
        "latency": of(one, Purpose::Latency).into_iter().map(latency).collect::<Vec<_>>(),
        "loss_rate": of(one, Purpose::LossRate).into_iter().map(loss).collect::<Vec<_>>(),
        "back_to_back": bursts.map(|bursts| serde_json::json!({
            "load_bps": one.asked.most_bps,
            "carried_packets": bursts.carried,
            "lost_packets": bursts.lost,
            "longest_packets": bursts.longest,
            "buffer_s": one.throughput_bps().and_then(|bps| bursts.buffer_s(&one.asked, bps)),
        })),
        "recovery": stages::recovery(&one.tried).map(|(recovery_s, loss_ratio)| {
            serde_json::json!({"recovery_s": recovery_s, "loss_ratio": loss_ratio})
        }),
        "reset": one.asked.reset.as_ref().map(|command| serde_json::json!({
            "command": command,
            "blocked_s": stages::reset_s(&one.tried),
        })),
        "rfc6349": Rfc6349::of(one),
    })
}
