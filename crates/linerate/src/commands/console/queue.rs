//! The team's queue as the console shows it, where one is given: benches, jobs and workers, as `linerate jobs` lists them.
//! Knows what is asked and how wide a line is. Without the feature `nats` there is none to give.

/// Which of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Benches,
    Jobs,
    Workers,
}

impl List {
    pub(super) const ALL: [List; 3] = [List::Benches, List::Jobs, List::Workers];

    pub(super) const fn title(self) -> &'static str {
        match self {
            List::Benches => "Benches",
            List::Jobs => "Jobs that wait or run",
            List::Workers => "Workers",
        }
    }
}

#[cfg(feature = "nats")]
mod given {
    use std::sync::Arc;

    use anyhow::Result;

    use super::List;
    use crate::cli::ConsoleArgs;
    use crate::commands::queue;
    use crate::measure::ids::now;
    use crate::render::jobs;
    use crate::team::Team;

    /// The queue.
    #[derive(Clone)]
    pub(in super::super) struct Queue {
        team: Arc<Team>,
        words: Vec<String>,
    }

    impl Queue {
        /// As the command line and the environment say.
        pub(in super::super) fn of(arguments: &ConsoleArgs) -> Result<Option<Queue>> {
            let asked = &arguments.queue;
            let mut words: Vec<String> = asked.queue.iter().map(|url| format!("--queue={url}")).collect();
            words.extend(asked.queue_credentials.iter().map(|file| format!("--queue-credentials={}", file.display())));
            Ok(queue::given(asked)?.map(|access| Queue { team: Arc::new(Team::new(access)), words }))
        }

        pub(in super::super) fn shown(&self) -> &str {
            self.team.shown()
        }

        /// By which commands find it.
        pub(in super::super) fn words(&self) -> &[String] {
            &self.words
        }

        /// A list as it is now; the first time, that takes a moment.
        pub(in super::super) fn lines(&self, list: List, width: usize) -> Vec<String> {
            let width = u16::try_from(width.max(20)).ok();
            let text = self.team.look(|known| {
                let progress = |id: &str| known.progress(id);
                let (queue, now_ms) = (&known.queue, now().as_millisecond());
                let shown = match list {
                    List::Benches => jobs::benches(queue, now_ms, &progress),
                    List::Jobs => jobs::open(queue, now_ms, &progress),
                    List::Workers => jobs::workers(&queue.workers, now_ms),
                };
                match &known.error {
                    Some(error) => crate::render::wrapped(&format!("{error}.\n\n"), width) + &shown.text(width),
                    None => shown.text(width),
                }
            });
            text.lines().map(str::to_owned).collect()
        }
    }

    impl std::fmt::Debug for Queue {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str(self.shown())
        }
    }
}

#[cfg(not(feature = "nats"))]
mod given {
    use anyhow::Result;

    use super::List;
    use crate::cli::ConsoleArgs;

    /// There is none.
    #[derive(Clone, Debug)]
    pub(in super::super) enum Queue {}

    impl Queue {
        pub(in super::super) fn of(_: &ConsoleArgs) -> Result<Option<Queue>> {
            Ok(None)
        }

        pub(in super::super) fn shown(&self) -> &str {
            match *self {}
        }

        pub(in super::super) fn words(&self) -> &[String] {
            match *self {}
        }

        pub(in super::super) fn lines(&self, _: List, _: usize) -> Vec<String> {
            match *self {}
        }
    }
}

pub(super) use given::Queue;
