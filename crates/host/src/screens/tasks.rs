//! Processes and threads of the kernel, from /proc/PID/stat.
//! Knows its columns by number (proc_pid_stat(5)).

use std::fs;

use linerate_machine::printable::in_line;
use linerate_machine::screen::{Kind, Value, View};

use crate::files::Files;

/// Rows whose stack is looked up in a file of their own.
const MOST_STACKS: usize = 60;
/// A process has a name of 15 signs at most; workers of the kernel say longer what they are about.
const LONGEST_NAME: usize = 16;
/// Of USER_HZ, which is 100 wherever Linux runs.
const MS_PER_TICK: u64 = 10;

struct Task {
    number: u64,
    name: String,
    state: String,
    threads: u64,
    priority: String,
    ticks: u64,
    resident_pages: u64,
}

/// Those that used most CPU time first.
pub(super) fn read(files: &Files) -> View {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let mut tasks: Vec<Task> =
        numbers.filter_map(|number| parse(&files.text(&format!("/proc/{number}/stat")).ok()?)).collect();
    tasks.sort_by(|a, b| b.ticks.cmp(&a.ticks).then(a.number.cmp(&b.number)));
    let page_kib = crate::sys::memory::page_octets() as u64 / 1024;
    let row = |(at, task): (usize, Task)| {
        let stack = if at < MOST_STACKS { stack_kib(files, task.number) } else { None };
        vec![
            task.number.into(),
            in_line(&task.name, LONGEST_NAME).into_owned().into(),
            task.state.into(),
            task.priority.into(),
            task.threads.into(),
            (task.ticks * MS_PER_TICK).into(),
            (task.resident_pages * page_kib).into(),
            Value::from(stack),
        ]
    };
    let mut view = View::new(&[
        ("task", Kind::Number),
        ("name", Kind::Text),
        ("state", Kind::Text),
        ("prio", Kind::Text),
        ("thr", Kind::Number),
        ("CPU, ms", Kind::CpuTime),
        ("KiB", Kind::Number),
        ("stack", Kind::Number),
    ]);
    view.rows = tasks.into_iter().enumerate().map(row).collect();
    if view.rows.is_empty() {
        view.missing.push("No task could be read: /proc is not there, or is another's.".to_owned());
    }
    view
}

/// `number (name) state …`; the name may have blanks and brackets in it.
fn parse(text: &str) -> Option<Task> {
    const UTIME: usize = 11;
    const NICE: usize = 16;
    const THREADS: usize = 17;
    const RSS: usize = 21;
    const RT_PRIORITY: usize = 37;
    const POLICY: usize = 38;
    let (start, rest) = text.rsplit_once(')')?;
    let (number, name) = start.split_once('(')?;
    // The first of these is the third of the file.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let at = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok());
    let priority = match at(POLICY) {
        Some(1) => format!("fifo:{}", at(RT_PRIORITY)?),
        Some(2) => format!("rr:{}", at(RT_PRIORITY)?),
        _ => fields.get(NICE)?.to_string(),
    };
    Some(Task {
        number: number.trim().parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.to_string(),
        threads: at(THREADS)?,
        priority,
        ticks: at(UTIME)? + at(UTIME + 1)?,
        resident_pages: at(RSS).unwrap_or(0),
    })
}

/// The stack of the process's first thread, KiB; the kernel's threads have none.
fn stack_kib(files: &Files, number: u64) -> Option<u64> {
    let text = files.text(&format!("/proc/{number}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmStk:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_behind_any_name() {
        // Recorded on Linux 6.18, with another name and policy.
        let text = "1746 (a b) (c)) S 1 1746 1746 0 -1 4194560 154 0 0 0 12 30 0 0 20 -5 3 0 43 2596864 301 \
                    18446744073709551615 1 1 0 0 0 0 0 0 65536 0 0 0 17 1 40 1 0 0 0 0 0 0 0 0 0 0 0";
        let task = parse(text).unwrap();
        assert_eq!((task.number, task.name.as_str(), task.state.as_str()), (1746, "a b) (c)", "S"));
        assert_eq!((task.threads, task.ticks, task.resident_pages), (3, 42, 301));
        assert_eq!(task.priority, "fifo:40");
        let other = text.replace(" 17 1 40 1 0", " 17 1 0 0 0");
        assert_eq!(parse(&other).unwrap().priority, "-5");
        assert!(parse("1746 (a").is_none() && parse("").is_none() && parse("x (y) S 1").is_none());
    }

    #[test]
    fn this_program_is_a_task() {
        let view = read(&Files::here());
        let own = view.rows.iter().find(|row| row[0] == Value::Number(std::process::id().into()));
        let own = own.expect("this program");
        assert!(matches!(own[4], Value::Number(threads) if threads >= 1), "{own:?}");
        assert_eq!(own.len(), view.columns.len());
    }
}
