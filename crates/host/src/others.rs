//! CPU time of programs that take no part in a trial, from /proc/PID/stat before and after it.
//! Knows no trial; a process is one of linerate's by its name, or by its parent's.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use linerate_machine::cpu::TICK_S;
use linerate_machine::map::map_of;

/// The processes of others at one moment.
#[derive(Debug)]
pub struct Others {
    at: Instant,
    processes: BTreeMap<u32, Process>,
}

/// What others did with a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct OthersCpu {
    /// The fraction of the machine's time.
    pub share: f64,
    /// The part of it that programs of real-time priority used (sched(7)): nothing else runs on a CPU meanwhile, not even softirqs that a
    /// thread of the kernel does.
    pub real_time: f64,
    /// The program that used most of it.
    pub most: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    /// Its own time.
    own: u64,
    /// That of children that it has waited for: of one that ends in between nothing is lost.
    children: u64,
    is_real_time: bool,
}

impl Process {
    fn ticks(&self) -> u64 {
        self.own.saturating_add(self.children)
    }
}

/// What processes have used between two looks.
#[derive(Debug, PartialEq, Eq)]
struct Growth {
    ticks: u64,
    real_time_ticks: u64,
    most: String,
}

/// From fewer clock ticks a share is chance.
const FEWEST_TICKS: u64 = 10;
/// A thread of the kernel (PF_KTHREAD, linux/sched.h): its time is often the trial's own.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Others {
    /// Looks now. What this user may not see is not counted.
    pub fn look() -> Others {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let stat = |number: u32| Some((number, parse(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)?));
        Others { at: Instant::now(), processes: without_ours(map_of(numbers.filter_map(stat))) }
    }

    /// What they have done since, of so many CPUs; `None`: too little to tell.
    pub fn busy_since(&self, cpus: u32) -> Option<OthersCpu> {
        let now = Others::look();
        let whole = (now.at - self.at).as_secs_f64() / TICK_S * f64::from(cpus);
        let Growth { ticks, real_time_ticks, most } = growth(&self.processes, &now.processes);
        let share = |ticks: u64| (ticks as f64 / whole).min(1.0);
        let is_told = ticks >= FEWEST_TICKS && whole > 0.0;
        is_told.then(|| OthersCpu { share: share(ticks), real_time: share(real_time_ticks), most })
    }
}

/// `number (name) state parent … flags … utime stime cutime cstime … rt_priority policy` (proc_pid_stat(5)); `None` for a kernel's
/// thread.
fn parse(text: &str) -> Option<Process> {
    let (start, rest) = text.rsplit_once(')')?;
    let fields: Vec<u64> = rest.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let (&parent, &flags, times) = (fields.first()?, fields.get(5)?, fields.get(10..14)?);
    (flags & KERNEL_THREAD == 0).then_some(())?;
    let name = start.split_once('(')?.1.to_owned();
    // SCHED_FIFO, SCHED_RR, SCHED_DEADLINE (linux/sched.h).
    let is_real_time = fields.get(37).is_some_and(|policy| matches!(policy, 1 | 2 | 6));
    let [own, children] = [&times[..2], &times[2..]].map(|times| times.iter().sum());
    Some(Process { name, parent: u32::try_from(parent).ok()?, own, children, is_real_time })
}

/// Agents, controllers, and what they have started, such as an emulated board, are part of the trial.
fn without_ours(all: BTreeMap<u32, Process>) -> BTreeMap<u32, Process> {
    let is_ours = |number: u32| all.get(&number).is_some_and(|process| process.name.starts_with("linerate"));
    all.iter()
        .filter(|(number, process)| !is_ours(**number) && !is_ours(process.parent))
        .map(|(number, process)| (*number, process.clone()))
        .collect()
}

/// Ticks that all have used, and who used most.
fn growth(before: &BTreeMap<u32, Process>, now: &BTreeMap<u32, Process>) -> Growth {
    let sum = |processes: &BTreeMap<u32, Process>| processes.values().map(Process::ticks).sum::<u64>();
    let grown =
        |number: &u32, process: &Process| process.ticks().saturating_sub(before.get(number).map_or(0, Process::ticks));
    let most = now.iter().max_by_key(|(number, process)| grown(number, process));
    let real_time = now.iter().filter(|(_, process)| process.is_real_time);
    Growth {
        ticks: sum(now).saturating_sub(sum(before)),
        real_time_ticks: real_time.map(|(number, process)| grown(number, process)).sum(),
        most: most.map_or_else(String::new, |(number, most)| who_used(*number, most, before, now)),
    }
}

/// The name of what used the time that is counted for this process: of one that waited for a program that has ended meanwhile, that
/// program's, if it was there before.
fn who_used(number: u32, process: &Process, before: &BTreeMap<u32, Process>, now: &BTreeMap<u32, Process>) -> String {
    let (own, children) = before.get(&number).map_or((0, 0), |before| (before.own, before.children));
    let is_of_children = process.children.saturating_sub(children) > process.own.saturating_sub(own);
    // A child that has ended may have had children that ended before it.
    let is_below = |one: &Process| {
        let ended = |parent: &u32| before.get(parent).filter(|_| !now.contains_key(parent)).map(|one| one.parent);
        std::iter::successors(Some(one.parent), ended).take(before.len()).any(|parent| parent == number)
    };
    let ended = before.iter().filter(|(number, one)| !now.contains_key(number) && is_below(one)).map(|(_, one)| one);
    let who = ended.max_by_key(|one| one.own).filter(|_| is_of_children).unwrap_or(process);
    who.name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32, name: &str, parent: u32, flags: u64, times: [u64; 4]) -> (u32, String) {
        let [user, system, children, children_system] = times;
        // What a real-time program is called begins with rt.
        let policy = u8::from(name.starts_with("rt"));
        let line = format!(
            "{number} ({name}) R {parent} 1 1 0 -1 {flags} 9 9 9 9 {user} {system} {children} {children_system} 20 0 1 0 9 9 9 9 9 9 9 9 0 \
             0 0 0 0 0 0 0 17 1 50 {policy} 0 0 0"
        );
        (number, line)
    }

    fn read(lines: &[(u32, String)]) -> BTreeMap<u32, Process> {
        without_ours(lines.iter().filter_map(|(number, line)| Some((*number, parse(line)?))).collect())
    }

    #[test]
    fn time_of_others_is_counted_once_and_of_the_trial_not_at_all() {
        let before = read(&[
            line(2, "kthreadd", 0, 0x0020_8040, [9, 9, 0, 0]),
            line(10, "make", 1, 0, [1, 1, 50, 5]),
            line(11, "cc1 (x) 7", 10, 0, [30, 2, 0, 0]),
            line(13, "rt-loop", 1, 0, [7, 0, 0, 0]),
            line(20, "linerate", 1, 0, [100, 100, 0, 0]),
            line(21, "qemu-system-arm", 20, 0, [10, 10, 0, 0]),
        ]);
        assert_eq!(before.len(), 3, "{before:?}");
        // The compiler has used 10 more, and has ended; another has begun.
        let now = read(&[
            line(2, "kthreadd", 0, 0x0020_8040, [99, 99, 0, 0]),
            line(10, "make", 1, 0, [1, 1, 90, 7]),
            line(12, "cc1 (x) 7", 10, 0, [3, 1, 0, 0]),
            line(13, "rt-loop", 1, 0, [12, 0, 0, 0]),
            line(20, "linerate", 1, 0, [900, 900, 0, 0]),
            line(21, "qemu-system-arm", 20, 0, [910, 10, 0, 0]),
        ]);
        let want = Growth { ticks: 19, real_time_ticks: 5, most: "cc1 (x) 7".to_owned() };
        assert_eq!(growth(&before, &now), want);
        // A grandchild, whose parent has ended too; and one that had not begun before.
        let shells = |children| line(30, "sh", 1, 0, [1, 0, children, 0]);
        let before = read(&[shells(3), line(31, "sh", 30, 0, [1, 0, 0, 0]), line(32, "python3", 31, 0, [40, 0, 0, 0])]);
        let most = |before: &_, now: &[(u32, String)]| growth(before, &read(now)).most;
        assert_eq!(most(&before, &[shells(200)]), "python3");
        assert_eq!(most(&read(&[shells(3)]), &[shells(200)]), "sh");
        let again = [shells(3), line(31, "sh", 30, 0, [90, 0, 0, 0]), line(33, "other", 31, 0, [2, 0, 0, 0])];
        assert_eq!(most(&before, &again), "sh", "it used the time itself");
    }

    #[test]
    fn a_program_that_is_busy_is_seen() {
        let before = Others::look();
        // What this process starts itself is part of a trial; its grandchild is somebody else's once the child has ended.
        let script = "(while :; do :; done) >/dev/null 2>&1 & echo $!";
        let busy = std::process::Command::new("/bin/sh").args(["-c", script]).output().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(800));
        let found = before.busy_since(1);
        let number = String::from_utf8_lossy(&busy.stdout).trim().to_owned();
        let kill = format!("kill {number}");
        assert!(std::process::Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
        assert!(found.as_ref().is_some_and(|found| found.share > 0.1), "{found:?}");
    }
}
