//! `cargo xtask faults`: worlds drawn by a seed, with a fault planted or none, and what linerate says of each held against
//! the truth. Knows the order of things; each thing is a file.

mod case;
mod draw;
mod families;
mod judge;
mod relay;
mod table;
mod trial;
mod truth;
mod world;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linerate_lab::{Privilege, privilege};

use crate::at_once::at_once;
use crate::program::{is_installed, linerate};
use case::Case;
use judge::Judged;

/// The programs that make worlds, and the Debian packages that they are in.
const NEEDED: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("nft", "nftables"),
    ("setpriv", "util-linux"),
    ("taskset", "util-linux"),
];

/// What the folder of a case is called, and of one whose files are wanted.
const FOLDER: &str = "linerate-faults-";
const KEPT: &str = "linerate-kept-faults-";

/// What the command line asks.
struct Asked {
    seed: u64,
    cases: u64,
    only: Vec<u64>,
    family: Option<String>,
    jobs: usize,
    /// A case that misses is carried out so often: on a machine that others use, too, one may have no CPU when it needs it.
    tries: usize,
    keep: bool,
    program: Option<PathBuf>,
}

/// Draws cases, carries them out, prints a table, and fails where goals are missed.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut words = words.peekable();
    // Hidden: what this starts between two machines.
    if words.next_if(|word| word == relay::COMMAND).is_some() {
        return relay::run(words);
    }
    let asked = Asked::read(words)?;
    if privilege() != Privilege::Root {
        return Err("faults are planted in network namespaces, which needs root".to_owned());
    }
    if let Some((program, package)) = NEEDED.iter().find(|(program, _)| !is_installed(program)) {
        return Err(format!("faults needs {program}(8), of Debian's package {package}"));
    }
    let program = match &asked.program {
        Some(program) => program.clone(),
        None => linerate()?,
    };
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let numbers: Vec<u64> = if asked.only.is_empty() { (1..=asked.cases).collect() } else { asked.only.clone() };
    let mut cases: Vec<Case> =
        numbers.iter().map(|number| draw::case(asked.seed, *number, asked.family.as_deref())).collect();
    if !Path::new("/proc/net/if_inet6").exists() {
        say("this kernel has no IPv6: what would go over it goes over IPv4");
        cases.iter_mut().for_each(Case::without_ipv6);
    }
    remove_what_was_left();
    say(&table::heading(asked.seed));
    let results = at_once(asked.jobs, cases, |case| {
        let (mut row, mut judged) = carry_out(&case, &program, &asked);
        for _ in 1..asked.tries {
            if judged.as_ref().is_some_and(Judged::is_good) {
                break;
            }
            say(&format!("{row}\n       again:"));
            (row, judged) = carry_out(&case, &program, &asked);
        }
        say(&row);
        judged
    });
    let broken = results.iter().filter(|judged| judged.is_none()).count();
    let judged: Vec<Judged> = results.into_iter().flatten().collect();
    let summary = table::summary(&judged, broken);
    say(&format!("\n{}", summary.text));
    if summary.is_met { Ok(()) } else { Err("goals are missed".to_owned()) }
}

fn carry_out(case: &Case, program: &Path, asked: &Asked) -> (String, Option<Judged>) {
    let prefix = if asked.keep { KEPT } else { FOLDER };
    let folder = std::env::temp_dir().join(format!("{prefix}{}-{}", std::process::id(), case.number));
    let made = fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    let outcome = made.and_then(|()| trial::carry_out(case, program, &folder));
    match &outcome {
        Ok(outcome) => {
            let judged = judge::judge(case, outcome);
            let row = table::row(case, outcome, &judged);
            if asked.keep {
                let _ = fs::write(folder.join("account.json"), outcome.account.to_string());
                let _ = fs::write(folder.join("explanation.json"), outcome.explanation.to_string());
            }
            finish(row, Some(judged), &folder, asked.keep)
        }
        Err(why) => finish(table::broken(case, why), None, &folder, asked.keep),
    }
}

fn finish(mut row: String, judged: Option<Judged>, folder: &Path, keep: bool) -> (String, Option<Judged>) {
    if keep {
        row.push_str(&format!("\n       kept:    {}", folder.display()));
    } else {
        let _ = fs::remove_dir_all(folder);
    }
    (row, judged)
}

/// Folders of runs that were killed: all else ends with its process.
fn remove_what_was_left() {
    for folder in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

/// A closed screen must not end what cleans up.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

impl Asked {
    fn read(words: impl Iterator<Item = OsString>) -> Result<Asked, String> {
        let mut asked =
            Asked { seed: 1, cases: 20, only: Vec::new(), family: None, jobs: 1, tries: 1, keep: false, program: None };
        let mut parser = lexopt::Parser::from_args(words);
        let wrong = |error: lexopt::Error| error.to_string();
        let number = |parser: &mut lexopt::Parser| {
            parser.value().and_then(|value| lexopt::ValueExt::parse::<u64>(&value)).map_err(wrong)
        };
        while let Some(argument) = parser.next().map_err(wrong)? {
            use lexopt::prelude::*;
            match argument {
                Long("seed") => asked.seed = number(&mut parser)?,
                Long("cases") => asked.cases = number(&mut parser)?,
                Long("jobs") => asked.jobs = number(&mut parser)?.clamp(1, 64) as usize,
                Long("tries") => asked.tries = number(&mut parser)?.clamp(1, 10) as usize,
                Long("keep") => asked.keep = true,
                Long("only") => {
                    let value = parser.value().and_then(|value| value.string()).map_err(wrong)?;
                    match value.parse() {
                        Ok(number) => asked.only.push(number),
                        Err(_) => asked.family = Some(known(value)?),
                    }
                }
                Long("program") => asked.program = Some(parser.value().map_err(wrong)?.into()),
                other => return Err(wrong(other.unexpected())),
            }
        }
        Ok(asked)
    }
}

fn known(name: String) -> Result<String, String> {
    let names = || families::faults().chain(&families::HEALTHY).map(|family| family.name);
    if names().any(|one| one == name) {
        return Ok(name);
    }
    Err(format!("--only takes a case's number, or a family: {}", names().collect::<Vec<_>>().join(", ")))
}
