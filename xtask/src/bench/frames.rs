//! `cargo xtask bench peers frames`: frames as fast as they go, and as they were asked for, beside other generators of frames.
//! Knows which programs take part; what is measured is an example of `linerate-host`, for both ends are in one process there.

use std::process::Stdio;

use crate::measured::write_part;
use crate::program::{cargo, must, output_of};
use crate::setup;

const DOCUMENT: &str = "docs/benchmarks/frames.md";
const ROUNDS: u32 = 9;
const PROGRAMS: [(&str, &str); 4] =
    [("trafgen", "netsniff-ng"), ("tcpreplay", "tcpreplay"), ("dpdk-testpmd", "dpdk-dev"), ("nsenter", "util-linux")];
const HELP: &str = "it is: cargo xtask bench peers frames [--rounds N] [--write]";

/// Measures, prints, and with `--write` puts it into the document.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let (mut rounds, mut write) = (ROUNDS, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--write" => write = true,
            "--rounds" => {
                let number =
                    words.next().and_then(|word| word.parse().ok()).filter(|number| (1..=100).contains(number));
                rounds = number.ok_or(format!("--rounds takes a number from 1 to 100; {HELP}"))?;
            }
            other => return Err(format!("'{other}' means nothing here; {HELP}")),
        }
    }
    setup::install(&PROGRAMS)?;
    let example = ["--release", "--package", "linerate-host", "--example", "frames"];
    must(&mut cargo(&[&["build"], &example[..]].concat()))?;
    for (part, asked) in [
        ("frames-peers", format!("peers {rounds}")),
        ("frames-receive", "receive".to_owned()),
        ("frames-paced", "paced".to_owned()),
    ] {
        let asked: Vec<&str> = asked.split(' ').collect();
        let command = [&["run", "--quiet"], &example[..], &["--"], &asked].concat();
        let table = output_of(cargo(&command).stderr(Stdio::inherit()))?;
        println!("{table}");
        if write {
            write_part(DOCUMENT, part, table.trim_end())?;
        }
    }
    Ok(())
}
