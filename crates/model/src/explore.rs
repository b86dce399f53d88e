//! Every schedule of a program that asks what happens next: the whole run is repeated for each.
//! Knows no driver and no device; a schedule is a list of choices.

/// The choices of one run. A choice that is not the expected one costs, and only so many of them are made in a schedule:
/// the bugs of rings need two or three.
#[derive(Clone, Debug)]
pub struct Choices {
    /// What was chosen, and of how many.
    path: Vec<(usize, usize)>,
    at: usize,
    bound: usize,
    spent: usize,
}

/// What exploring came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explored<E> {
    /// No schedule fails.
    Clean {
        /// How many there are.
        schedules: u64,
    },
    /// One does.
    Fails {
        /// Which, counted from 1.
        schedule: u64,
        /// The choices that lead there.
        choices: Vec<usize>,
        /// How it fails.
        error: E,
    },
    /// There are more than were to be run, and none of those failed.
    Unfinished {
        /// How many were run.
        schedules: u64,
    },
}

impl Choices {
    /// One of `options`: 0 is what is expected, and the others each cost one deviation.
    pub fn deviate(&mut self, options: usize) -> usize {
        let options = if self.spent < self.bound { options } else { 1 };
        let chosen = self.choose(options);
        if chosen != 0 {
            self.spent += 1;
        }
        chosen
    }

    /// One of `options`, all of them as likely.
    pub fn choose(&mut self, options: usize) -> usize {
        if options <= 1 {
            return 0;
        }
        if self.at == self.path.len() {
            self.path.push((0, options));
        }
        let (chosen, of) = self.path[self.at];
        assert_eq!(of, options, "a run that asks otherwise under the same choices cannot be repeated");
        self.at += 1;
        chosen
    }

    /// Makes this the next schedule; false where there is none.
    fn advance(&mut self) -> bool {
        while let Some((chosen, of)) = self.path.pop() {
            if chosen + 1 < of {
                self.path.push((chosen + 1, of));
                (self.at, self.spent) = (0, 0);
                return true;
            }
        }
        false
    }
}

/// Runs every schedule with at most `bound` deviations, up to `most` of them, until one fails.
pub fn explore<E>(bound: usize, most: u64, mut run: impl FnMut(Choices) -> (Choices, Result<(), E>)) -> Explored<E> {
    let mut choices = Choices { path: Vec::new(), at: 0, bound, spent: 0 };
    let mut schedules = 0;
    loop {
        let result;
        (choices, result) = run(choices);
        schedules += 1;
        if let Err(error) = result {
            let choices = choices.path[..choices.at].iter().map(|&(chosen, _)| chosen).collect();
            return Explored::Fails { schedule: schedules, choices, error };
        }
        if !choices.advance() {
            return Explored::Clean { schedules };
        }
        if schedules == most {
            return Explored::Unfinished { schedules };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_choices_is_run_once() {
        let mut seen = Vec::new();
        let explored = explore(9, 100, |mut choices| {
            seen.push((choices.choose(2), choices.choose(3)));
            (choices, Ok::<(), ()>(()))
        });
        assert_eq!(explored, Explored::Clean { schedules: 6 });
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn deviations_are_bounded() {
        // Of four choices between two, at most one is another than the first: 1 + 4.
        let explored = explore(1, 100, |mut choices| {
            let sum: usize = (0..4).map(|_| choices.deviate(2)).sum();
            assert!(sum <= 1);
            (choices, Ok::<(), ()>(()))
        });
        assert_eq!(explored, Explored::Clean { schedules: 5 });
    }

    #[test]
    fn the_schedule_that_fails_is_told() {
        let explored = explore(9, 100, |mut choices| {
            let pair = [choices.choose(2), choices.choose(2)];
            (choices, if pair == [1, 0] { Err("so") } else { Ok(()) })
        });
        assert_eq!(explored, Explored::Fails { schedule: 3, choices: vec![1, 0], error: "so" });
    }
}
