//! Holds the statistics against what SciPy says of the same samples; tests/data/reference.py wrote that down.
//! Knows no theory.

use serde_json::Value;

use crate::shift::{Shift, between, within_pairs};
use crate::{holm, normal_cdf, normal_upper};

fn reference() -> Value {
    serde_json::from_str(include_str!("../tests/data/reference.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn check(case: &Value, shift: Shift) {
    let name = case["name"].as_str().unwrap();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-3);
    assert!(near(shift.p, case["p"].as_f64().unwrap()), "{name}: p {} and not {}", shift.p, case["p"]);
    assert!(near(shift.estimate, case["estimate"].as_f64().unwrap()), "{name}: {shift:?} {}", case["estimate"]);
    match (shift.interval, case["interval"].is_null()) {
        (None, true) => {}
        (Some((low, high)), false) => {
            let want = numbers(&case["interval"]);
            assert!(near(low, want[0]) && near(high, want[1]), "{name}: {low} to {high}, and not {want:?}");
        }
        (interval, _) => panic!("{name}: {interval:?} and not {}", case["interval"]),
    }
}

#[test]
fn two_samples() {
    let reference = reference();
    let cases = reference["two_samples"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let (baseline, candidate) = (numbers(&case["baseline"]), numbers(&case["candidate"]));
        let shift = between(&baseline, &candidate).unwrap();
        check(case, shift);
        let turned = between(&candidate, &baseline).unwrap();
        assert!((turned.estimate + shift.estimate).abs() < 1e-9 && (turned.p - shift.p).abs() < 1e-9);
    }
}

#[test]
fn pairs() {
    let reference = reference();
    for case in reference["pairs"].as_array().unwrap() {
        check(case, within_pairs(&numbers(&case["differences"])).unwrap());
    }
}

#[test]
fn distributions_and_correction() {
    let reference = reference();
    for case in reference["normal"].as_array().unwrap() {
        let (z, below) = (case["z"].as_f64().unwrap(), case["below"].as_f64().unwrap());
        assert!((normal_cdf(z) / below - 1.0).abs() < 1e-9, "{z}: {} and not {below}", normal_cdf(z));
        assert!((normal_upper(below) + z).abs() < 1e-6, "{z}: {}", normal_upper(below));
    }
    let adjusted = holm(&numbers(&reference["holm"]["p"]));
    let want = numbers(&reference["holm"]["adjusted"]);
    assert!(adjusted.iter().zip(want).all(|(a, w)| (a - w).abs() < 1e-12), "{adjusted:?}");
}

#[test]
fn too_few_values_say_so() {
    let three = between(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]).unwrap();
    assert_eq!((three.p, three.interval), (0.1, None), "2 / C(6, 3)");
    assert_eq!(three.detectable(0.05), None);
    assert_eq!(three.repeats_for(6.0, 0.05), Some(4), "2 / C(8, 4) is below 0.05");
    assert_eq!(between(&[1.0], &[]), None);
    let one = between(&[1.0], &[2.0]).unwrap();
    assert_eq!((one.p, one.standard_error, one.repeats_for(1.0, 0.05)), (1.0, None, None));
    let alike = between(&[0.0; 5], &[0.0; 5]).unwrap();
    assert_eq!((alike.p, alike.interval, alike.estimate), (1.0, Some((0.0, 0.0)), 0.0));
}
