//! Figures in documents, under the machine that they were measured on.

use std::fs;
use std::process::Command;

use crate::markdown::with_part;
use crate::program::{output_of, root};

/// Puts figures into their place in a document.
pub(crate) fn write_part(document: &str, place: &str, part: &str) -> Result<(), String> {
    let path = root().join(document);
    let text = fs::read_to_string(&path).map_err(|error| format!("{document}: {error}"))?;
    let part = format!("{}\n\n{part}", machine()?);
    let text = with_part(&text, place, &part).ok_or(format!("{document} has no line <!-- {place} -->"))?;
    fs::write(&path, text).map_err(|error| format!("{document} cannot be written: {error}"))
}

/// What was measured on, in a sentence.
fn machine() -> Result<String, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let cpus = read("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let processors = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease")?;
    let rustc = output_of(Command::new("rustc").arg("--version"))?;
    let day = output_of(Command::new("date").args(["-u", "+%F"]))?;
    Ok(format!(
        "{}, on {processors} CPUs ({}), Linux {}, {}.",
        day.trim(),
        model.unwrap_or("of no name"),
        kernel.trim(),
        rustc.split(" (").next().unwrap_or_default().trim(),
    ))
}
