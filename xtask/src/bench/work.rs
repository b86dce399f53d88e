//! `cargo xtask bench work`: what a team's queue costs by the size of the fleet, in virtual time and with faults.
//! Knows how the simulation is started; what must hold, it asserts itself.

use std::process::{Command, Stdio};

use super::target_folder;
use crate::program::{cargo, must};

/// Runs it; returns the table. `largest`: campaigns of the largest fleet.
pub fn run(largest: usize) -> Result<String, String> {
    must(&mut cargo(&["build", "--release", "--package", "linerate-work", "--example", "fleet"]))?;
    let mut fleet = Command::new(target_folder().join("release/examples/fleet"));
    let output = fleet.arg(largest.to_string()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("the fleet cannot be started: {error}"))?;
    if !output.status.success() {
        return Err("the fleet failed; what it says stands above".to_owned());
    }
    let mut text = "Leases of 30 s, campaigns of 4 trials of 5 s; a fault for every 50 campaigns, of nine kinds. What fails for all, the \
                    queue or the store, is well for 60 s before it fails again.\n\n\
                    | campaigns | benches | workers | faults | done | dead | taken back | virtual time h | steps | CPU s |\n\
                    |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let row: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let number = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        let hours = number("virtual_s") / 3600.0;
        let counts = ["jobs", "benches", "workers", "faults", "done", "dead", "cancelled"]
            .map(|field| format!("{:.0}", number(field)));
        text += &format!("| {} | {hours:.1} | {:.0} | {:.1} |\n", counts.join(" | "), number("steps"), number("cpu_s"));
    }
    Ok(text)
}
