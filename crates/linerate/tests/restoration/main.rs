//! Random campaigns in random worlds, killed anywhere: a full snapshot of the machine before equals the one after.
//! Needs root, iproute2 and util-linux; says so and passes where it has none.
//!
//! `LINERATE_CAMPAIGNS` says how many (a dozen; CI: 100), `LINERATE_SEED` begins with what was seen, else the time does,
//! `LINERATE_FAULTS=none` leaves nobody killed, `LINERATE_MINIMISE=1` takes away what a failure does not need,
//! `LINERATE_VERBOSE=1` shows all campaigns, and `LINERATE_PROGRAM` is another build of linerate.

mod campaign;
mod fault;
#[path = "../machines/mod.rs"]
mod machines;
mod snapshot;
mod wanted;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Instant, SystemTime};

use campaign::{Outcome, Spec};
use fault::Fault;
use linerate_lab::{Privilege, privilege};
use machines::number;
use snapshot::Snapshot;
use wanted::Sysctls;
use world::World;

fn is_there(program: &str) -> bool {
    let found = std::process::Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// The sysctls of a namespace with an eth0, as it comes, without those that are an address's or a key.
fn sysctls() -> Vec<(String, String)> {
    let world = World::build(&[]);
    let snapshot = Snapshot::of(&world);
    let all = snapshot.sysctls("target");
    let of_use = |name: &str| ["net.core.", "net.ipv4.", "net.ipv6."].iter().any(|tree| name.starts_with(tree));
    all.filter(|(name, _)| of_use(name)).map(|(name, value)| (name, value.to_owned())).collect()
}

/// The seed of campaigns of which nobody has said how many.
const USUAL_SEED: u64 = 20_000;
/// Campaigns that once left something: settings of a queue that another setting makes and takes away.
const ONCE_FAILED: [u64; 6] =
    [1_795_362_202, 1_795_362_547, 1_795_378_164, 1_795_378_416, 1_795_378_970, 1_795_379_691];

#[test]
fn a_campaign_leaves_the_machine_as_it_was() {
    wanted::check_table();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let (campaigns, seed) = match number("LINERATE_CAMPAIGNS") {
        Some(campaigns) => (campaigns, number("LINERATE_SEED").unwrap_or(now)),
        // Among all other tests, the same ones each time.
        None => (12, number("LINERATE_SEED").unwrap_or(USUAL_SEED)),
    };
    let seeds: Vec<u64> = (0..campaigns).map(|at| seed.wrapping_add(at)).chain(ONCE_FAILED).collect();
    println!("LINERATE_CAMPAIGNS={campaigns} LINERATE_SEED={seed}");
    if privilege() != Privilege::Root || !["ip", "tc", "unshare", "nsenter"].into_iter().all(is_there) {
        eprintln!("SKIPPED restoration: it needs root, iproute2 and util-linux");
        return;
    }
    let sysctls = sysctls();
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let jobs = number("LINERATE_JOBS").unwrap_or(thread::available_parallelism().map_or(2, |n| n.get() as u64));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let spec = spec(*seed, &sysctls);
                    let outcome = campaign::run(&spec);
                    if !outcome.failures.is_empty() {
                        print_minimised(&spec, &outcome);
                    } else if number("LINERATE_VERBOSE").is_some() {
                        print(&spec, &outcome);
                    }
                    outcomes.lock().unwrap().push((spec, outcome));
                }
            });
        }
    });
    report(&outcomes.into_inner().unwrap(), began);
}

fn spec(seed: u64, sysctls: &Sysctls) -> Spec {
    let mut spec = Spec::of(seed, sysctls);
    if std::env::var("LINERATE_FAULTS").is_ok_and(|faults| faults == "none") {
        spec.fault = Fault::None;
    }
    spec
}

fn print(spec: &Spec, outcome: &Outcome) {
    let failures: Vec<String> = outcome.failures.iter().map(|one| one.replace('\n', "\n    ")).collect();
    let verdict = if failures.is_empty() { "passed" } else { "FAILED" };
    println!(
        "{verdict} {spec}\n  status {:?}, {} measured, said: {}\n  {}\n",
        outcome.status,
        outcome.measured,
        outcome.stderr.trim().replace('\n', "\n    "),
        failures.join("\n  ")
    );
}

/// Takes away one part after the other, if asked to, as long as it fails without.
fn print_minimised(spec: &Spec, outcome: &Outcome) {
    if number("LINERATE_MINIMISE").is_none() {
        return print(spec, outcome);
    }
    let mut least = spec.clone();
    let mut last = None;
    let mut attempt = |least: &mut Spec, smaller: Spec| {
        let again = campaign::run(&smaller);
        let fails = !again.failures.is_empty();
        if fails {
            *least = smaller;
            last = Some(again);
        }
        fails
    };
    for at in (0..least.wanted.len()).rev() {
        let mut smaller = least.clone();
        smaller.wanted.remove(at);
        if attempt(&mut least, smaller) {
            continue;
        }
        for level in (0..least.wanted[at].levels.len()).rev() {
            let mut smaller = least.clone();
            smaller.wanted[at].levels.remove(level);
            if !smaller.wanted[at].levels.is_empty() {
                attempt(&mut least, smaller);
            }
        }
    }
    for at in (0..least.kept.len()).rev() {
        let mut smaller = least.clone();
        smaller.kept.remove(at);
        attempt(&mut least, smaller);
    }
    for at in (0..least.steps.len()).rev() {
        let mut smaller = least.clone();
        smaller.steps.remove(at);
        attempt(&mut least, smaller);
    }
    print(&least, last.as_ref().unwrap_or(outcome));
}

fn report(outcomes: &[(Spec, Outcome)], began: Instant) {
    let took = began.elapsed().as_secs_f64();
    let failed: Vec<u64> = outcomes.iter().filter(|(_, one)| !one.failures.is_empty()).map(|(s, _)| s.seed).collect();
    let mut by_status: BTreeMap<String, usize> = BTreeMap::new();
    for (spec, outcome) in outcomes {
        let of = if spec.fault == Fault::None { "no fault" } else { "a fault" };
        *by_status.entry(format!("{of}, status {:?}", outcome.status)).or_default() += 1;
    }
    let changed = outcomes.iter().filter(|(_, one)| one.was_changed).count();
    let measured: usize = outcomes.iter().map(|(_, one)| one.measured).sum();
    println!(
        "{} campaigns in {took:.0} s, {measured} trials measured; {changed} faults while settings were changed; \
         {by_status:?}",
        outcomes.len()
    );
    assert!(failed.is_empty(), "{} of {} campaigns left something: seeds {failed:?}", failed.len(), outcomes.len());
}
