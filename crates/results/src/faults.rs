//! A store whose writer is killed at random moments, and one on a disk that fills up: every record that was
//! acknowledged is there, and no half of one.
//! Knows no loss of power; what that leaves rests on SQLite's synchronous=FULL.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linerate_machine::end::Direction;

use crate::sample;
use crate::select::Filter;
use crate::store::Store;

const KILLS: u32 = 50;
/// Kills come after fewer acknowledged records than this, and a random time.
const LATEST: u32 = 5;
/// In the child's environment: the store, and the number of its first record.
const CHILD: &str = "LINERATE_TEST_STORE_CHILD";
/// Gives a run the seed of an earlier one.
const SEED: &str = "LINERATE_TEST_SEED";

#[test]
fn killed_at_any_moment_the_store_keeps_what_it_acknowledged() {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_nanos() as u64
    });
    println!("{SEED}={seed}");
    let mut chance = seed | 1;
    let folder = std::env::temp_dir().join(format!("linerate-results-kill-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("records.db");
    let mut acknowledged = Vec::new();
    for kill in 0..KILLS {
        // Xorshift (Marsaglia 2003); any spread of moments will do.
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        let first = kill * 100_000;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::child", "--ignored", "--nocapture"])
            .env(CHILD, format!("{first} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        // The test harness may have begun the first line.
        let mut ids = said.map_while(Result::ok).filter_map(|line| Some(line.rsplit_once("kept ")?.1.to_owned()));
        // Some moments lie in the opening of the store, the others behind a few records: by the clock alone, a machine
        // that is slow to start a program would see none of these.
        let awaited = (kill % LATEST) as usize;
        let before = acknowledged.len();
        acknowledged.extend(ids.by_ref().take(awaited));
        assert_eq!(acknowledged.len(), before + awaited, "child {kill} ended by itself");
        std::thread::sleep(Duration::from_micros(chance % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(ids);
        if path.exists() {
            let check = rusqlite::Connection::open(&path).unwrap();
            let whole: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(whole, "ok", "after kill {kill}");
        }
    }
    let kept = Store::open(&path).unwrap().select(&Filter::default()).unwrap();
    for id in &acknowledged {
        assert!(kept.iter().any(|record| record.id == *id), "{id} was acknowledged and is lost");
    }
    // Each kill can fall between the commit and the word of it, and leave one record that nobody heard of.
    assert!(kept.len() <= acknowledged.len() + KILLS as usize);
    assert!(acknowledged.len() > KILLS as usize, "{} records are too few to lose one", acknowledged.len());
    println!("{} acknowledged, {} kept", acknowledged.len(), kept.len());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_full_disk_ends_in_a_sentence_and_keeps_what_was_acknowledged() {
    let folder = std::env::temp_dir().join(format!("linerate-results-disk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A disk of one megabyte, seen by the child only and gone with it.
    let mount = "mount -t tmpfs -o size=1m none \"$1\" && exec \"$2\" --exact faults::child --ignored --nocapture";
    let Ok(child) = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        .args([&folder, &std::env::current_exe().unwrap()])
        .env(CHILD, format!("0 {}", folder.join("records.db").display()))
        .output()
    else {
        println!("skipped: there is no unshare(1) here");
        return;
    };
    std::fs::remove_dir(&folder).unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    if !said.contains("kept ") {
        println!("skipped: no file system can be mounted here: {}", String::from_utf8_lossy(&child.stderr));
        return;
    }
    let acknowledged = said.matches("kept ").count();
    let sentence = said.lines().find_map(|line| line.strip_prefix("refused: ")).unwrap();
    assert!(sentence.contains("is full"), "{sentence}");
    assert!(sentence.contains(&format!("; {acknowledged} finished trials of this campaign are kept")), "{sentence}");
    assert!(said.contains(&format!("read again: {acknowledged}")), "{said}");
}

#[test]
#[ignore = "the child of the tests above"]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let (first, path) = order.split_once(' ').unwrap();
    let mut store = Store::open(path.as_ref()).unwrap();
    let say = |text: String| writeln!(std::io::stdout(), "{text}").unwrap();
    for index in first.parse::<u32>().unwrap().. {
        let record = sample::udp(index, Direction::Rx, 600, 400.0);
        match store.insert(&record) {
            Ok(()) => say(format!("kept {}", record.id)),
            Err(error) => {
                say(format!("refused: {error}"));
                break;
            }
        }
    }
    drop(store);
    let read = Store::open(path.as_ref()).unwrap().select(&Filter::default()).unwrap();
    say(format!("read again: {}", read.len()));
}
