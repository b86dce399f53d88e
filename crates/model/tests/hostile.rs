//! Files that nobody should write: each is refused in one sentence, and none takes long or brings the program down.

use linerate_model::cost::Workload;
use linerate_model::fit::{Effort, fit, unfitted};
use linerate_model::machine::Machine;
use linerate_model::predict::predict;
use linerate_model::setting::AXES;
use linerate_model::table::Table;
use proptest::prelude::*;

const EFFORT: Effort = Effort { sets: 40, generations: 4, frames: 50, seed: 1 };

/// A good table of one row and one question.
const GOOD: &str = "machine = \"ap135\"\n\n[[row]]\nid = \"one\"\nworkload = \"bridge\"\npayload = 1448\nthroughput = 130\nnoise = 0.04\n\n\
                    [[predict]]\nid = \"asked\"\nworkload = \"bridge\"\npayload = 1448\nset = { \"tx.bounce\" = \"never\" }\n";

#[track_caller]
fn check_refused(text: &str, part: &str) {
    let said = Table::parse(text).expect_err(part).to_string();
    assert!(said.contains(part), "'{part}' is not in: {said}");
    assert!(!said.contains('\n') && said.len() < 600, "no sentence: {said}");
}

#[track_caller]
fn check_changed(from: &str, to: &str, part: &str) {
    assert!(GOOD.contains(from), "{from}");
    check_refused(&GOOD.replacen(from, to, 1), part);
}

#[test]
fn a_table_with_what_cannot_be() {
    assert!(Table::parse(GOOD).is_ok());
    check_refused("", "missing field `machine`");
    check_refused("machine = \"ap135\"\n", "nothing is asked for");
    check_refused("throughput,noise\n130,0.04\n", "line 1: ");
    check_refused("\u{0}\u{1b}[2J", "line 1: ");
    for number in ["nan", "-130", "0", "inf", "1e300", "-0.0"] {
        check_changed(
            "throughput = 130",
            &format!("throughput = {number}"),
            "throughput must be a number from 0.001 to 10000000, in Mbit/s",
        );
        check_changed(
            "payload = 1448",
            &format!("payload = {number}"),
            "payload must be a number from 1 to 65535, in bytes",
        );
        check_changed("payload = 1448", &format!("payload = 1448\noffered = {number}"), "offered must be");
        check_changed("noise = 0.04", &format!("noise = {number}"), "noise must be a number from 0.000001 to 1, in");
    }
    check_changed("noise = 0.04", "noise = 4", "shares of the throughput");
    check_changed("noise = 0.04\n", "", "row 'one' has no noise; 0.03 where nothing was repeated");
    check_changed("throughput = 130\n", "", "row 'one' has no throughput; ask for it as a [[predict]]");
    check_changed(
        "throughput = 130",
        "throughput = \"130M\"",
        "line 7: invalid type: string \"130M\", expected a number without quotes and unit",
    );
    check_changed("throughput = 130", "throughput = 16.25\nunit = \"MB/s\"", "unknown field `unit`");
    check_changed("throughput = 130", "throughput = 130\nthroughput = 131", "line 8: duplicate key");
    check_changed("id = \"asked\"", "id = \"one\"", "two rows are called 'one'");
    check_changed("id = \"asked\"", "id = \"\"", "a row's id has 0 characters; give it 1 to 80");
    check_changed("\"never\"", &format!("\"{}\"", "x".repeat(3000)), "an axis's value has 3000 characters");
    check_changed("workload = \"bridge\"", "workload = \"bridges\"", "unknown variant `bridges`");
    check_changed("machine = \"ap135\"", "machine = \"ap136\"", "no machine is called 'ap136'; there are any, ");
    check_changed(
        "\"tx.bounce\" = \"never\"",
        "\"tx.bounce\" = [[1], {a = 2}]",
        "'tx.bounce' takes never, unaligned, always, not '",
    );
    check_changed(
        "\"tx.bounce\" = \"never\"",
        "\"cpu.speed\" = nan",
        "'cpu.speed' takes a number from 0.01 to 100, not 'nan'",
    );
    check_changed(
        "\"tx.bounce\" = \"never\"",
        "\"window.frames\" = 1e18",
        "'window.frames' takes a number from 0 to 1e9, in frames",
    );
    check_changed("\"tx.bounce\" = \"never\"", "\"bus.bits\" = 64", "does not say its 'bus.bits'");
    check_changed(
        "workload = \"bridge\"\npayload = 1448\nset = { \"tx.bounce\" = \"never\" }",
        "workload = \"udp-rx\"\npayload = 1470\nset = { mtu = 576 }",
        "does not fit an MTU of 576",
    );
}

#[test]
fn a_table_that_is_too_long() {
    let row = |nth: usize| {
        format!("[[row]]\nid = \"{nth}\"\nworkload = \"bridge\"\npayload = 1448\nthroughput = 1\nnoise = 1\n")
    };
    let rows: String = (0..201).map(row).collect();
    check_refused(&format!("machine = \"ap135\"\n{rows}"), "has 201 rows");
    // Nor does one that is nested without end take the stack.
    check_refused(&format!("machine = {}", "[".repeat(200_000)), "line 1: ");
}

#[test]
fn a_machine_with_what_cannot_be() {
    const MACHINE: &str = include_str!("../machines/ap135.toml");
    let refused = |from: &str, to: &str, part: &str| {
        assert!(MACHINE.contains(from), "{from}");
        let said = Machine::parse(&MACHINE.replacen(from, to, 1)).expect_err(part).to_string();
        assert!(said.contains(part) && !said.contains('\n'), "'{part}' is not in: {said}");
    };
    for number in ["nan", "-1", "inf", "1e300", "0"] {
        refused("value = 1000\n", &format!("value = {number}\n"), "'cable.rate' must be a number from 0.001 to 1e9");
    }
    refused("value = 1000\n", "value = \"1000\"\n", "expected a number without quotes and unit");
    refused("value = 1000\n", "assume = [10, 1]\n", "one value where it is known");
    refused(
        "[setting.\"rx.hand_up\"]",
        "[setting.mtu]\nvalue = \"1500\"\nkind = \"code\"\nsource = \"x\"\n\n[setting.\"rx.hand_up\"]",
        "'mtu' is a row's",
    );
}

/// What an axis is given: what it may take, and what it may not.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "copy",
            "zero-copy",
            "copybreak=256",
            "copybreak=",
            "copybreak=-1",
            "fixup",
            "none",
            "offset2",
            "never",
            "always",
            "uncached",
            "poll",
            "poll=1",
            "poll=nan",
            "interrupt",
            "on",
            "off",
            "one",
            "own",
            "drop",
            "wait",
            "mac",
            "software",
            "",
            "=",
            "nan",
            "inf",
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_map(|number| number.to_string()),
        (0u32..100_000).prop_map(|number| number.to_string()),
        "\\PC{0,8}",
    ]
}

fn workload() -> impl Strategy<Value = Workload> {
    prop::sample::select(vec![Workload::UdpRx, Workload::UdpTx, Workload::TcpRx, Workload::TcpTx, Workload::Bridge])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is set to whatever: refused, or predicted with numbers.
    #[test]
    fn no_value_of_an_axis_brings_it_down(
        axes in prop::collection::vec((prop::sample::select(AXES.iter().map(|(name, _)| *name).collect::<Vec<_>>()), values()), 1..4),
        workload in workload(), payload in 1u32..9000, offered in prop::option::of(1e-3..1e7f64), name in prop::sample::select(Machine::names().collect::<Vec<_>>()),
    ) {
        let set: String = axes.iter().map(|(axis, value)| format!("\"{axis}\" = '''{}'''\n", value.replace('\'', ""))).collect();
        let offered = offered.map_or(String::new(), |mbps| format!("offered = {mbps:?}\n"));
        let text = format!(
            "machine = \"{name}\"\n[[predict]]\nid = \"asked\"\nworkload = \"{}\"\npayload = {payload}\n{offered}[predict.set]\n{set}",
            workload.name(),
        );
        match Table::parse(&text) {
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
            Ok(table) => {
                let machine = &table.machine;
                for one in predict(machine, &unfitted(machine, EFFORT), &[], &table.asked, EFFORT) {
                    prop_assert!(one.interval.0.is_finite() && one.interval.0 >= 0.0 && one.interval.0 <= one.interval.1, "{one:?}\n{text}");
                    prop_assert!(one.median.is_finite() && one.interval.1.is_finite(), "{one:?}\n{text}");
                }
            }
        }
    }

    /// A machine of any numbers, with any figures measured: the fit ends, with sets or without.
    #[test]
    fn a_fit_of_any_numbers_ends(scales in prop::collection::vec(0u8..4, 28), mbps in 1e-3..1e7f64, noise in 1e-6..1.0f64, payload in 1u32..9000) {
        let mut text = include_str!("../machines/any.toml").to_owned();
        for (nth, scale) in scales.iter().enumerate() {
            // The nth pair of bounds at one of the ends of what a file may say.
            let Some((at, _)) = text.match_indices("assume = [").nth(nth) else { break };
            let end = at + text[at..].find('\n').unwrap();
            let bounds = ["assume = [0.001, 0.001]", "assume = [1e9, 1e9]", "assume = [0.001, 1e9]"].get(usize::from(*scale));
            if let Some(bounds) = bounds {
                text.replace_range(at..end, bounds);
            }
        }
        let machine = Machine::parse(&text).unwrap();
        let table = Table::parse(&format!("machine = \"any\"\n[[row]]\nid = \"a\"\nworkload = \"udp-rx\"\npayload = {payload}\nthroughput = {mbps:?}\nnoise = {noise:?}\n[[predict]]\nid = \"b\"\nworkload = \"tcp-tx\"\npayload = 1448\n")).unwrap();
        if let Ok(ensemble) = fit(&machine, &table.measured, EFFORT) {
            prop_assert!(!ensemble.sets.is_empty() && ensemble.error.is_finite());
            let _ = predict(&machine, &ensemble, &table.measured, &table.asked, EFFORT);
        }
    }
}
