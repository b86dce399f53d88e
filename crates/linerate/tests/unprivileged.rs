//! What a user gets who is not root and has no capabilities: all that the kernel shows anybody, and a sentence about each
//! thing that it does not.
//! Knows loopback only: such a user makes no machines.

mod machines;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use linerate_lab::{Privilege, privilege};
use linerate_trial::doubt::DoubtKind;
use machines::{Bench, Running, records_in};

const LONG: Duration = Duration::from_secs(60);

/// The program, run by nobody, whose folder is that of the test. `None`, and a line that says so, where nobody cannot be
/// become.
fn program(bench: &Bench, name: &str, arguments: &[&str]) -> Option<Command> {
    if privilege() != Privilege::Root {
        eprintln!("SKIPPED {name}: only root becomes somebody else");
        return None;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("SKIPPED {name}: needs setpriv of util-linux");
        return None;
    }
    // The folder of the build may be nobody else's to read.
    let copy = bench.folder.path("linerate-of-nobody");
    fs::copy(env!("CARGO_BIN_EXE_linerate"), &copy).expect("a copy of the program");
    fs::set_permissions(&bench.folder.0, Permissions::from_mode(0o777)).expect("a folder for everybody");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--"]);
    command.arg(copy).args(arguments).current_dir("/");
    bench.dress(&mut command);
    Some(command)
}

/// kernel.perf_event_paranoid: from 1 on nobody but root samples what others do. Absent: there are no perf events.
fn paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

#[test]
fn all_that_can_be_asked_of_a_trial() {
    let name = "all_that_can_be_asked_of_a_trial";
    let bench = Bench::bare(name);
    let set = ["rate=20M", "duration=400ms", "warmup=0s", "profile=999", "drop_reasons=on", "registers=on"];
    let mut arguments = vec!["run", "udp-stream", "--target", "local", "--host", "local"];
    arguments.extend(set.iter().flat_map(|one| ["--set", one]));
    let Some(command) = program(&bench, name, &arguments) else { return };
    Running::start(command).wait(LONG).check_done();
    let record = records_in(&bench.store_path()).pop().expect("a record");
    assert_eq!(record.error, None);
    let evidence = format!("{:?}", record.path);
    assert!(evidence.contains("OutDatagrams"), "the counters of loopback are anybody's: {evidence}");
    let doubt =
        |kind: DoubtKind| record.doubts.iter().find(|doubt| doubt.kind() == kind).map(|doubt| doubt.to_string());
    let untraced = doubt(DoubtKind::CountersMissing).expect("drops are root's to trace");
    assert!(untraced.contains("skb:kfree_skb") && untraced.contains("as root"), "{untraced}");
    match paranoid() {
        Some(level) if level > 0 => {
            let reduced = doubt(DoubtKind::ProfileReduced).expect("others are root's to sample");
            assert!(reduced.contains("own threads") && reduced.contains("kernel.perf_event_paranoid"), "{reduced}");
        }
        _ => eprintln!("SKIPPED a part of {name}: kernel.perf_event_paranoid lets anybody sample everything"),
    }
    let explained = Running::start(program(&bench, name, &["explain", "last"]).expect("as above")).wait(LONG);
    explained.check_done();
    assert!(explained.stdout.contains("the PHY registers of lo need root"), "{}", explained.stdout);
}

#[test]
fn a_look_at_the_whole_machine() {
    let name = "a_look_at_the_whole_machine";
    let bench = Bench::bare(name);
    if paranoid().is_none_or(|level| level <= 0) {
        return eprintln!("SKIPPED {name}: kernel.perf_event_paranoid lets anybody sample everything, or nobody");
    }
    let Some(command) = program(&bench, name, &["target", "local", "profile", "500ms"]) else { return };
    Running::start(command).wait(LONG).check_sentence(&["run the agent as root", "perf_event_paranoid"]);
}
