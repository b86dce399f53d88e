//! `cargo xtask bench peers`: linerate and other tools on the same work, in turn, between the same two machines.
//! Knows the rounds and the document; works, tools and tables are files beside this one.
//!
//! A B C, A B C: what disturbs the machine for a while disturbs all alike.

mod apis;
mod capture;
mod iperf;
mod iperf3;
mod linerate;
mod nuttcp;
mod others;
mod paced;
mod procfs;
mod requests;
mod run;
mod sampling;
mod sockperf;
mod table;
mod tcp;
mod tool;
mod udp;
mod work;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Bench;
use super::statistics::RESAMPLES;
use crate::measured::write_part;
use crate::setup;
use run::{Run, Who};
use table::Rounds;
use work::Work;

const DOCUMENT: &str = "docs/benchmarks/peers.md";
/// Fewer say too little of how far a median can be trusted.
const LEAST_ROUNDS: u32 = 7;
const SECONDS: u32 = 2;

/// Each program that a benchmark starts and no test does, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 7] = [
    ("iperf", "iperf"),
    ("iperf3", "iperf3"),
    ("nsenter", "util-linux"),
    ("nuttcp", "nuttcp"),
    ("setpriv", "util-linux"),
    ("sockperf", "sockperf"),
    ("tcpdump", "tcpdump"),
];

const HELP: &str = "it is: cargo xtask bench peers [WORK…] [--rounds N] [--seconds S] [--write]";

/// Measures, prints, and with `--write` puts it into the document.
pub(super) fn run(words: &[String]) -> Result<(), String> {
    let asked = Asked::read(words)?;
    let works = chosen(&asked.works)?;
    setup::install(&PROGRAMS)?;
    let bench = Bench::start()?;
    let versions = versions()?;
    println!("{versions}\n");
    let has_apis = has_apis(&bench)?;
    let idle = idle()?;
    if idle > run::MOST_IDLE {
        println!(
            "This machine is in use: {:.0} % of a core while nothing runs here. There is no CPU time by GiB, and the rest \
             is worth little; wait until it is quiet.\n",
            idle * 100.0
        );
    }
    let mut summary = String::new();
    for mut work in works {
        if !has_apis {
            without_apis(&mut work);
        }
        let rounds = measure(&bench, &work, &asked, idle);
        let table = table::tables(&work, &rounds);
        println!("## {}\n\n{table}", work.title);
        if !work.targets.is_empty() {
            summary += &format!("{}\n\n{}\n", work.title, table::verdicts(&work, &rounds));
        }
        if asked.write {
            let head = format!(
                "{versions} {} rounds of {} s each, in turn; of ratios, the median over the rounds and the range of 95 % of \
                 {RESAMPLES} resampled medians; idle, the machine took {:.1} % of one core.{}",
                asked.rounds,
                asked.seconds,
                idle * 100.0,
                if asked.rounds < LEAST_ROUNDS { NO_EVIDENCE } else { "" },
            );
            write_part(DOCUMENT, &format!("peers-{}", work.name), &format!("{head}\n\n{table}"))?;
        }
    }
    println!("# Targets\n\n{summary}");
    if asked.rounds < LEAST_ROUNDS {
        println!("{}", NO_EVIDENCE.trim());
    }
    Ok(())
}

const NO_EVIDENCE: &str = " Fewer than 7 rounds: this shows that the benchmark works, and is no evidence.";

struct Asked {
    works: Vec<String>,
    rounds: u32,
    seconds: u32,
    write: bool,
}

impl Asked {
    fn read(words: &[String]) -> Result<Asked, String> {
        let mut asked = Asked { works: Vec::new(), rounds: LEAST_ROUNDS, seconds: SECONDS, write: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let number =
                    words.next().and_then(|word| word.parse().ok()).filter(|number| (1..=600).contains(number));
                number.ok_or(format!("{word} takes a number from 1 to 600; {HELP}"))
            };
            match word.as_str() {
                "--rounds" => asked.rounds = number()?,
                "--seconds" => asked.seconds = number()?,
                "--write" => asked.write = true,
                other if other.starts_with('-') => return Err(format!("'{other}' means nothing here; {HELP}")),
                work => asked.works.push(work.to_owned()),
            }
        }
        Ok(asked)
    }
}

fn all() -> Vec<Work> {
    let families = [
        tcp::works(),
        udp::works(),
        requests::works(),
        paced::works(),
        sampling::works(),
        apis::works(),
        others::works(),
    ];
    families.into_iter().flatten().collect()
}

/// Those of these names, or whose family has the name; of no names, all but the long ones.
fn chosen(names: &[String]) -> Result<Vec<Work>, String> {
    let is_of = |work: &Work, name: &str| {
        work.name == name || work.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-') && name != "tcp")
    };
    for name in names {
        if !all().iter().any(|work| is_of(work, name)) {
            let known: Vec<&str> = all().iter().map(|work| work.name).collect();
            return Err(format!("there is no work '{name}'; there are {}", known.join(", ")));
        }
    }
    let wanted = |work: &Work| {
        if names.is_empty() { !work.on_demand } else { names.iter().any(|name| is_of(work, name)) }
    };
    Ok(all().into_iter().filter(wanted).collect())
}

fn measure(bench: &Bench, work: &Work, asked: &Asked, idle: f64) -> Rounds {
    let mut rounds: Rounds = work.contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..asked.rounds {
        for (contender, runs) in work.contenders.iter().zip(&mut rounds) {
            let run = Run::once(bench, &contender.who, contender.load, asked.seconds, work.look, idle);
            let said = match &run {
                Ok(run) => {
                    let figure = |metric: &work::Metric| {
                        (metric.of)(run, contender).map(|value| format!("{value:.*} {}", metric.digits, metric.name))
                    };
                    work.metrics.iter().filter_map(figure).collect::<Vec<_>>().join("; ")
                }
                Err(error) => format!("failed: {error}"),
            };
            eprintln!("xtask: {} {round}: {}: {said}", work.name, contender.name);
            runs.push(run);
        }
    }
    rounds
}

/// Whether this linerate lets its user choose the socket interfaces.
fn has_apis(bench: &Bench) -> Result<bool, String> {
    let refused = bench.linerate("tcp-stream", &[("sender_api", "no such")], &[]);
    let Err(sentence) = refused else { return Err("linerate accepts sender_api='no such'".to_owned()) };
    Ok(!sentence.contains("there is no option"))
}

/// What is left of a work for a linerate without that choice, told in the names.
fn without_apis(work: &mut Work) {
    if work.on_demand {
        work.contenders.truncate(1);
    }
    for contender in &mut work.contenders {
        if let Who::Linerate(options) = &mut contender.who
            && options.iter().any(|(name, _)| name.ends_with("_api"))
        {
            options.retain(|(name, _)| !name.ends_with("_api"));
            contender.name += " (not to be had: as it comes)";
        }
    }
}

/// CPUs that are busy while nothing runs.
fn idle() -> Result<f64, String> {
    let (began, before) = (Instant::now(), procfs::busy_s()?);
    sleep(Duration::from_secs(2));
    Ok((procfs::busy_s()? - before) / began.elapsed().as_secs_f64())
}

/// The peers' versions, in a sentence. Some tell it with an exit status that is not 0, some on standard error.
fn versions() -> Result<String, String> {
    let ask = |name: &str, option: &str| {
        let output = Command::new(name).arg(option).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{name} cannot be started: {error}"))?;
        let said = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&said).into_owned();
        Ok::<String, String>(version(&text).unwrap_or("of unknown version").to_owned())
    };
    let mut all = Vec::new();
    for (name, option) in [("iperf3", "--version"), ("iperf", "--version"), ("nuttcp", "-V"), ("sockperf", "--version")]
    {
        all.push(format!("{name} {}", ask(name, option)?));
    }
    Ok(format!("{}.", all.join(", ")))
}

/// The first word that looks like `3.12`, or `nuttcp-6.1.2`.
fn version(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches("nuttcp-");
        let dotted = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        dotted.then(|| word.trim_end_matches(','))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::with_part;
    use crate::program::root;

    fn names(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        chosen(&names).unwrap().iter().map(|work| work.name).collect()
    }

    #[test]
    fn works_are_chosen_by_name_and_by_family() {
        assert_eq!(names(&["tcp", "udp-64"]), ["tcp", "udp-64"]);
        assert_eq!(names(&["paced"]), ["paced-10m", "paced-100m", "paced-400m", "paced-1g"]);
        assert!(names(&[]).contains(&"sampling") && !names(&[]).contains(&"apis-tcp"));
        assert!(chosen(&["tpc".to_owned()]).is_err());
    }

    #[test]
    fn the_document_has_a_place_for_each_work() {
        let text = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        for work in all() {
            assert!(with_part(&text, &format!("peers-{}", work.name), "").is_some(), "{}", work.name);
        }
    }

    #[test]
    fn targets_name_what_there_is() {
        for work in all() {
            for target in &work.targets {
                assert!(work.contenders[target.contender].is_linerate(), "{}: {}", work.name, target.text);
                assert!(target.metric < work.metrics.len(), "{}: {}", work.name, target.text);
            }
        }
    }

    #[test]
    fn what_is_asked() {
        let words: Vec<String> = ["tcp", "--rounds", "2", "--write"].map(str::to_owned).into();
        let asked = Asked::read(&words).unwrap();
        assert_eq!((asked.works, asked.rounds, asked.seconds, asked.write), (vec!["tcp".to_owned()], 2, SECONDS, true));
        assert!(Asked::read(&["--rounds".to_owned()]).is_err() && Asked::read(&["--x".to_owned()]).is_err());
    }

    #[test]
    fn versions_are_found() {
        assert_eq!(version("iperf 3.12 (cJSON 1.7.15)"), Some("3.12"));
        assert_eq!(version("iperf version 2.1.8 (12 August 2022) pthreads"), Some("2.1.8"));
        assert_eq!(version("nuttcp-6.1.2\n"), Some("6.1.2"));
        assert_eq!(version("sockperf, version 3.7-no.git"), Some("3.7-no.git"));
    }
}
