//! `cargo xtask COMMAND`: the one way to build, check and measure the project, for CI and for people.
//! Knows the commands by name; each is one file.

use std::process::ExitCode;

use xtask::{
    agent_size, agents, bench, ci, deny, examples, faults, firmware, fresh, fuzz, licences, packages, picture, setup,
    test, tidy,
};

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let command = words.next().unwrap_or_default();
    let result = match command.to_str().unwrap_or_default() {
        "test" => test::run(words),
        "ci" => ci::run(words),
        "setup" => setup::run(words),
        "tidy" => tidy::run(words),
        "deny" => deny::run(words),
        "agent" => agents::run_one(words),
        "agents" => agents::run(words),
        "agent-size" => agent_size::run(words),
        "bench" => bench::run(words),
        "examples" => examples::run(words),
        "faults" => faults::run(words),
        "firmware" => firmware::run(words),
        "fuzz" => fuzz::run(words),
        "fresh" => fresh::run(words),
        "licences" => licences::run(words),
        "packages" => packages::run(words),
        "picture" => picture::run(words),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("there is no such command; these are:\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}
