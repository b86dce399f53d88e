//! `cargo xtask COMMAND`: the one way to build, check and measure the project, for CI and for people.
//! Knows the commands by name; each is one file.

use std::process::ExitCode;

use xtask::{agent_size, agents, bench, ci, deny, faults, fresh, fuzz, picture, setup, test, tidy};

const HELP: &str = "\
cargo xtask test                            install what the tests need, then check and test everything
cargo xtask ci                              what CI runs: the above, then the fuzz targets, then agent-size and counts
cargo xtask setup [agents|boards]           only install what the tests, agents or emulated boards need (Debian)
cargo xtask tidy                            only the rules of ARCHITECTURE.md and of the files
cargo xtask deny                            licences, bans, sources and advisories of dependencies; installs cargo-deny
cargo xtask agents [MACHINE…] [--rustup]    build static agents for boards into target/agents; --smoke: try them
                                            under QEMU; --write: the table in docs/boards.md
cargo xtask agent                           only the one for x86_64
cargo xtask agent-size [--write]            measure it against its limits; --write: into docs/benchmarks/
cargo xtask bench peers [WORK…] [--write]   linerate and other tools on the same work; --rounds N, --seconds S
cargo xtask bench counts [--check|--write]  instructions of the hot loops; --check: fail where they rose
cargo xtask bench overhead [--write]        what is added to a trial
cargo xtask bench judging [--write]         how long compare and history take over large stores
cargo xtask bench profile [--write]         the throughput that a profile of 999 samples a second takes
cargo xtask bench drops [--write]           the throughput that counting drops by reason takes
cargo xtask bench sleeps [--write]          what a thread takes of a CPU that only sleeps, as often as a paced sender
cargo xtask faults [--seed N] [--cases M]    faults planted by chance, and what linerate says of each; --only NUMBER or
                                            FAMILY, --jobs J, --keep files, --program PATH
cargo xtask fuzz [TARGET] [--seconds N]     feed the fuzz targets, 60 s each unless told otherwise
cargo xtask fresh                           clone the last commit and run README.md's commands there
cargo xtask picture                         what stands on standard input, as an SVG picture of a terminal
";

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
        "faults" => faults::run(words),
        // Hidden: faults starts it.
        "relay" => faults::relay::run(words),
        "fuzz" => fuzz::run(words),
        "fresh" => fresh::run(words),
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
