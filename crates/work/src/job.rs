//! A job: a campaign that somebody wants on a bench; and its ticket, what a queue shows of it.
//! Knows a plan as text.

use linerate_machine::text::is_plain_name;
use linerate_machine::words;
use serde::{Deserialize, Serialize};

/// The longest plan; a queue's messages have a megabyte.
const LONGEST_PLAN: usize = 256 << 10;
const LONGEST_SET: usize = 4 << 10;
const MOST_SETS: usize = 200;
/// How often a job may be tried at most.
pub(crate) const MOST_ATTEMPTS: u32 = 20;

words! {
    /// Which of a user's own jobs comes first. Between users it says nothing, for everybody's are urgent.
    #[derive(Default)]
    Priority {
        /// Before the user's others.
        High = "high",
        /// As usual.
        #[default]
        Normal = "normal",
        /// When nothing else of the user's waits.
        Low = "low",
    }
}

/// A campaign on a bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's identifier, and its campaign's: of the form of a ULID, so that it sorts by time.
    pub id: String,
    /// What was submitted at once has one.
    pub group: String,
    /// Where.
    pub bench: String,
    /// Who wants it, as the submitter says.
    pub user: String,
    /// The plan's name, and its text.
    pub plan: String,
    /// The plan's text.
    pub source: String,
    /// Options set for it: `rate=300M`.
    #[serde(default)]
    pub sets: Vec<(String, String)>,
    /// The order's seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Repeats of each configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Among the user's own.
    #[serde(default)]
    pub priority: Priority,
    /// It does not begin before, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before_s: Option<u64>,
    /// How often it is begun at most, the first time counted: a worker that dies with it has used one.
    pub attempts: u32,
    /// When it was submitted, milliseconds since 1970, by the submitter's clock.
    pub submitted_ms: i64,
}

/// What is wrong with a job that came out of a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJob {
    /// It is no JSON of a job.
    #[error("it cannot be read ({0}); submit it with the same version of linerate")]
    Unreadable(String),
    /// A part of it cannot be.
    #[error("a job cannot have this {0}; change it, and submit it again")]
    Part(&'static str),
}

/// What a queue shows of a job without its text: enough to choose by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Where.
    pub bench: String,
    /// Whose.
    pub user: String,
    /// Among the user's own.
    pub priority: Priority,
    /// Not before, seconds since 1970; 0: at once.
    pub not_before_s: u64,
    /// How often at most.
    pub attempts: u32,
    /// The job's.
    pub id: String,
}

impl Job {
    /// Reads a job that came from wherever, with every part checked.
    pub fn read(octets: &[u8]) -> Result<Job, BadJob> {
        let job: Job = serde_json::from_slice(octets).map_err(|error| BadJob::Unreadable(error.to_string()))?;
        job.check()?;
        Ok(job)
    }

    /// Whether it can be queued.
    pub fn check(&self) -> Result<(), BadJob> {
        let is_id = |text: &str| text.len() == 26 && text.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        let is_line = |text: &str| !text.is_empty() && text.len() <= LONGEST_SET && !text.chars().any(char::is_control);
        // It becomes a file's, beside which a file of defaults has its meaning.
        let is_plan_name = |text: &str| {
            is_line(text) && text.len() <= 128 && !text.contains('/') && !text.starts_with('.') && text != "linerate"
        };
        let parts = [
            (is_id(&self.id), "identifier"),
            (is_id(&self.group), "group"),
            (is_plain_name(&self.bench), "bench"),
            (is_plain_name(&self.user), "user"),
            (is_plan_name(&self.plan), "plan's name"),
            (self.source.len() <= LONGEST_PLAN, "plan, for it is longer than 256K"),
            (self.sets.len() <= MOST_SETS, "list of options"),
            (
                self.sets.iter().all(|(name, value)| is_line(name) && is_line(value) && !name.starts_with('-')),
                "options",
            ),
            ((1..=MOST_ATTEMPTS).contains(&self.attempts), "number of attempts"),
        ];
        match parts.into_iter().find(|(is_well, _)| !is_well) {
            Some((_, part)) => Err(BadJob::Part(part)),
            None => Ok(()),
        }
    }

    /// Its ticket.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            bench: self.bench.clone(),
            user: self.user.clone(),
            priority: self.priority,
            not_before_s: self.not_before_s.unwrap_or(0),
            attempts: self.attempts,
            id: self.id.clone(),
        }
    }
}

impl Ticket {
    /// As words of a queue's subject, divided by dots.
    pub fn words(&self) -> String {
        let priority = Priority::ALL.iter().position(|one| *one == self.priority).unwrap_or(1);
        format!("{}.{}.{priority}.{}.{}.{}", self.bench, self.user, self.not_before_s, self.attempts, self.id)
    }

    /// From such words, which may be anybody's.
    pub fn read(words: &str) -> Option<Ticket> {
        let parts: Vec<&str> = words.split('.').collect();
        let [bench, user, priority, not_before, attempts, id] = parts[..] else { return None };
        let priority = *Priority::ALL.get(priority.parse::<usize>().ok()?)?;
        let attempts = attempts.parse().ok().filter(|count| (1..=MOST_ATTEMPTS).contains(count))?;
        let is_well = is_plain_name(bench) && is_plain_name(user) && is_plain_name(id);
        is_well.then(|| {
            Some(Ticket {
                bench: bench.to_owned(),
                user: user.to_owned(),
                priority,
                not_before_s: not_before.parse().ok()?,
                attempts,
                id: id.to_owned(),
            })
        })?
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job of this user; `number` makes its identifier.
    pub(crate) fn job(bench: &str, user: &str, number: u32) -> Job {
        Job {
            id: format!("{number:026}"),
            group: "0".repeat(26),
            bench: bench.to_owned(),
            user: user.to_owned(),
            plan: "tcp".to_owned(),
            source: "format = \"linerate.plan/1\"".to_owned(),
            sets: vec![("duration".to_owned(), "1s".to_owned())],
            seed: Some(7),
            repeat: None,
            priority: Priority::Normal,
            not_before_s: None,
            attempts: 3,
            submitted_ms: 1,
        }
    }

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let job = job("imx6-1", "ann", 4);
        assert_eq!(Job::read(&serde_json::to_vec(&job).unwrap()), Ok(job.clone()));
        assert_eq!(Ticket::read(&job.ticket().words()), Some(job.ticket()));
    }

    #[test]
    fn what_anybody_may_have_queued_is_checked() {
        type Change = fn(&mut Job);
        let changes: [(Change, &str); 10] = [
            (|job| job.id = "../../etc".to_owned(), "identifier"),
            (|job| job.bench = "a.b".to_owned(), "bench"),
            (|job| job.user = "a>".to_owned(), "user"),
            (|job| job.plan = "../x".to_owned(), "plan's name"),
            (|job| job.plan = "a\nb".to_owned(), "plan's name"),
            (|job| job.plan = "linerate".to_owned(), "plan's name"),
            (|job| job.source = "x".repeat(LONGEST_PLAN + 1), "plan"),
            (|job| job.sets.push(("--target".to_owned(), "x".to_owned())), "options"),
            (|job| job.sets.push(("a".to_owned(), "x\u{1b}".to_owned())), "options"),
            (|job| job.attempts = 0, "attempts"),
        ];
        for (change, part) in changes {
            let mut job = job("a", "b", 1);
            change(&mut job);
            let error = Job::read(&serde_json::to_vec(&job).unwrap()).unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(matches!(Job::read(b"{}"), Err(BadJob::Unreadable(_))));
        for words in ["", "a.b.1.0.3", "a.b.3.0.3.X", "a.b.1.x.3.X", "a.b.1.0.0.X", "a.b.1.0.3.X.Y", "a.*.1.0.3.X"] {
            assert_eq!(Ticket::read(words), None, "{words}");
        }
    }
}
