//! What agents have left changed whose watchdogs are dead as well: put back by the next agent of the machine.
//! Knows no controller; how long one bears to wait for that is a number here.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use linerate_machine::change::PutBack;
use linerate_machine::channel::{Receiver, channel};
use linerate_machine::printable::brief;
use linerate_machine::thread;

use super::journal::Journals;
use super::location::LocationError;
use super::put_back;

/// How long a new agent puts back what others have left before it says so and goes on with that in a thread: its
/// controller bears no longer silence (`connect_timeout` in control::ConnectOptions).
const RECOVERY_TIME: Duration = Duration::from_secs(4);

/// What others have left is put back, or still being put back.
#[derive(Debug)]
pub struct Recovery {
    /// A sentence for each journal that was found.
    pub notes: Vec<String>,
    news: Receiver<News>,
}

#[derive(Debug)]
enum News {
    /// This is begun.
    Begun(String),
    /// This came of it.
    Done(Vec<String>),
}

impl Recovery {
    /// Waits for its end no longer than that.
    pub fn wait(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.news.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

/// Puts back what agents have left whose watchdogs are dead as well, in whatever network namespace; a sentence for each
/// of them. What cannot be reached from here is left for an agent that can. What takes long goes on in a thread.
pub fn recover() -> Recovery {
    recover_within(RECOVERY_TIME, Journals::of_user().ok())
}

fn recover_within(time: Duration, journals: Option<Journals>) -> Recovery {
    let (teller, news) = channel(64);
    let mut recovery = Recovery { notes: Vec::new(), news };
    let Some(journals) = journals else { return recovery };
    // What nobody hears any more is not told.
    let work = move || recover_in(&journals, |news| drop(teller.try_send(news)));
    if let Err(error) = thread::start("recovery", 512 << 10, work) {
        let sentence =
            format!("what others may have left changed is not put back: no thread could be started ({error})");
        recovery.notes.push(sentence);
        return recovery;
    }
    let deadline = Instant::now() + time;
    let mut begun =
        "what an agent had left changed on this machine is still being put back by another process".to_owned();
    loop {
        match recovery.news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(News::Begun(sentence)) => begun = sentence,
            Ok(News::Done(sentences)) => recovery.notes.extend(sentences),
            Err(RecvTimeoutError::Disconnected) => return recovery,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    recovery.notes.push(begun);
    recovery
}

fn recover_in(journals: &Journals, tell: impl Fn(News)) {
    let (orphans, lost) = journals.orphans();
    tell(News::Done(lost));
    for mut journal in orphans {
        let mut sentences: Vec<String> = journal.set_unreadable_aside().into_iter().collect();
        if journal.kept {
            tell(News::Done(sentences));
            continue;
        }
        let custom = journal.entries().iter().filter(|entry| entry.location.custom.is_some());
        let custom = custom.map(|entry| entry.location.name.clone()).collect::<Vec<String>>().join(", ");
        tell(News::Begun(format!(
            "settings that an agent of {} had left changed are still being put back{}; what takes more than 10 s is given up \
             and stays in {}",
            journal.by,
            if custom.is_empty() { custom } else { format!(", among them {}", brief(&custom)) },
            journal.shown()
        )));
        let mut results = put_back::put_back(&mut journal, |_| true);
        // Those are for an agent that gets there. A command may have changed what is the machine's, too.
        results.retain(|(entry, result)| *result != Err(LocationError::Namespace) || entry.location.custom.is_some());
        let told = put_back::told(results);
        let (failed, done): (Vec<PutBack>, Vec<PutBack>) = told.into_iter().partition(|one| one.error.is_some());
        let all = |told: &[PutBack]| told.iter().map(PutBack::sentence).collect::<Vec<String>>().join("; ");
        if !done.is_empty() {
            let by = &journal.by;
            sentences.push(format!("settings that an agent of {by} had left changed were put back: {}", all(&done)));
        }
        if !failed.is_empty() {
            let again = match journal.entries() {
                [] => String::new(),
                _ => {
                    journal.is_told();
                    format!("; the next agent tries again, until you delete {}", journal.shown())
                }
            };
            let by = &journal.by;
            sentences.push(format!("settings that an agent of {by} had left changed: {}{again}", all(&failed)));
        }
        if journal.entries().is_empty() {
            journal.delete();
        }
        tell(News::Done(sentences));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linerate_machine::change::{Access, Custom};

    use super::super::location::Location;
    use super::*;

    #[test]
    fn one_that_makes_wait_holds_nobody_up_and_stays_noted() {
        let folder = std::env::temp_dir().join(format!("guard-recovery-{}", std::process::id()));
        fs::create_dir_all(folder.join("journals")).unwrap();
        let (journals, path) = (Journals::in_folder(folder.join("journals")), folder.join("word"));
        fs::write(&path, "one").unwrap();
        let location = |name: &str, access: Access| {
            Location::of(None, name, Some(&Custom { get: access.clone(), set: access })).unwrap()
        };
        let word = location("custom.word", Access::File(path.to_str().unwrap().to_owned()));
        let slow = location("custom.slow", Access::Command(vec!["sleep".to_owned(), "60".to_owned()]));
        let mut journal = journals.create("ann").unwrap();
        journal.note(&word, "zero", None).unwrap();
        journal.note(&slow, "7", None).unwrap();
        drop(journal);
        let began = Instant::now();
        let recovery = recover_within(Duration::from_millis(300), Some(journals.clone()));
        assert!(began.elapsed() < Duration::from_secs(5));
        let note = recovery.notes.concat();
        assert!(
            note.contains("of ann had left changed are still being put back, among them custom.word, custom.slow"),
            "{note}"
        );
        recovery.wait(Duration::from_secs(30));
        assert!(began.elapsed() < Duration::from_secs(20), "it is waited for once");
        assert_eq!(fs::read_to_string(&path).unwrap(), "zero");
        let (left, lost) = journals.orphans();
        let names: Vec<&str> = left[0].entries().iter().map(|entry| entry.location.name.as_str()).collect();
        assert_eq!((names.as_slice(), lost.len()), (["custom.slow"].as_slice(), 0));
        fs::remove_dir_all(&folder).unwrap();
    }
}
