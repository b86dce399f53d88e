//! `--events`: what happens in a campaign as JSON Lines, for a program that watches it (docs/events.md).
//! Knows no event: each is an object that says what it is.
//!
//! Watching must not disturb: lines wait in a queue for a thread that writes them. Of a reader that is slow, or gone, the
//! campaign notices nothing; lines that find the queue full are left out, and their numbers (`n`) show which.

use std::cell::{Cell, OnceCell};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::measure::events::CampaignEvent;
use crate::measure::ids::now;
use crate::output::{reserve_stdout, say, terminal};
use crate::render::json;

/// So many lines wait at most: some minutes of a trial.
const QUEUE: usize = 512;
/// What a reader gets to take the last lines, before the process ends.
const LAST: Duration = Duration::from_secs(1);
/// What standard output is as a file.
const STDOUT: &str = "-";

/// Where events go; nowhere, where nobody wants them.
#[derive(Default)]
pub(super) struct EventLines {
    writer: OnceCell<Writer>,
    /// The file that [`EventLines::make_file`] makes anew.
    file: Option<PathBuf>,
    number: Cell<u64>,
    /// The last event was heard.
    is_over: Cell<bool>,
}

struct Writer {
    lines: SyncSender<String>,
    /// Why they could not all be written, if so.
    is_done: Receiver<std::io::Result<()>>,
    /// Where to.
    named: String,
}

/// Whether this is standard output.
pub(super) fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == STDOUT)
}

impl EventLines {
    /// For this file, a FIFO, or `-`; standard output has nothing else then. A file stays as it is until the command is known to be
    /// right: one that can do nothing takes no earlier campaign's events away. A pipe is opened at once, for its reader waits for the last event.
    pub(super) fn begin(path: Option<&Path>) -> Result<EventLines> {
        let mut lines = EventLines::default();
        match path {
            None => {}
            path if is_stdout(path) => {
                reserve_stdout();
                lines.write_to(terminal(), STDOUT.to_owned());
            }
            Some(path) if fs::metadata(path).map_or(true, |found| found.is_file()) => {
                lines.file = Some(path.to_owned());
            }
            Some(path) => lines.open(path)?,
        }
        Ok(lines)
    }

    /// Makes the file anew. Whatever goes wrong from here on, its last event says.
    pub(super) fn make_file(&self) -> Result<()> {
        self.file.as_deref().map_or(Ok(()), |path| self.open(path))
    }

    fn open(&self, path: &Path) -> Result<()> {
        let file = opened(path).map_err(|error| {
            anyhow!(
                "--events: {} cannot be written: {error}; name a file in a folder that is there and can be written",
                path.display()
            )
        })?;
        self.write_to(file, path.display().to_string());
        Ok(())
    }

    fn write_to(&self, to: impl Write + Send + 'static, named: String) {
        self.writer.get_or_init(|| Writer::begin(Box::new(to), named));
    }

    /// Writes an event, if there is room.
    pub(super) fn hear(&self, event: &CampaignEvent) {
        self.is_over.set(matches!(event, CampaignEvent::Ended { .. }));
        let Some(writer) = self.writer.get().filter(|_| !event.is_frequent()) else { return };
        self.number.set(self.number.get() + 1);
        let Ok(Value::Object(told)) = serde_json::to_value(event) else { return };
        let mut object = serde_json::Map::new();
        object.insert("n".to_owned(), self.number.get().into());
        object.insert("at".to_owned(), now().to_string().into());
        object.extend(told);
        // Full, or without a reader: the campaign goes on.
        let _ = writer.lines.try_send(json::line(Value::Object(object)));
    }

    /// What came of a campaign, also of one that did not begin, is the last event. An error, too, where lines could not be written,
    /// but for a reader that is slow or gone.
    pub(super) fn end(mut self, ended: Result<ExitCode>) -> Result<ExitCode> {
        if let Err(error) = &ended
            && !self.is_over.get()
        {
            self.hear(&CampaignEvent::Ended { failed: None, error: Some(format!("{error:#}")), not_put_back: 0 });
        }
        match (ended, self.finish()) {
            (ended, Ok(())) => ended,
            (Ok(_), Err(error)) => Err(error),
            (Err(first), Err(error)) => {
                say(format_args!("linerate: {error:#}"));
                Err(first)
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        let Some(Writer { lines, is_done, named }) = self.writer.take() else { return Ok(()) };
        drop(lines);
        match is_done.recv_timeout(LAST) {
            Ok(Err(error)) if error.kind() != ErrorKind::BrokenPipe => Err(anyhow!(
                "--events: {named} could not be written to its end: {error}; make room, or name another file"
            )),
            _ => Ok(()),
        }
    }
}

impl Writer {
    fn begin(mut to: Box<dyn Write + Send>, named: String) -> Writer {
        let (lines, wanted) = sync_channel::<String>(QUEUE);
        let (done, is_done) = sync_channel(1);
        thread::spawn(move || {
            let mut write = |line: String| to.write_all(line.as_bytes()).and_then(|()| to.flush());
            let _ = done.send(wanted.into_iter().try_for_each(&mut write));
        });
        Writer { lines, is_done, named }
    }
}

impl Drop for EventLines {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The file, empty. To open a FIFO for writing alone would wait for its reader.
fn opened(path: &Path) -> std::io::Result<File> {
    let is_fifo = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let mut options = OpenOptions::new();
    options.write(true).read(is_fifo).create(!is_fifo).truncate(!is_fifo);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            thread::sleep(Duration::from_secs(3600));
            Ok(0)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn to(where_to: impl Write + Send + 'static) -> EventLines {
        let lines = EventLines::default();
        lines.write_to(where_to, String::new());
        lines
    }

    fn said(sentence: &str) -> CampaignEvent {
        CampaignEvent::Said { sentence: sentence.to_owned() }
    }

    #[test]
    fn a_line_an_event_and_none_for_those_that_only_move_a_line() {
        let kept = Kept::default();
        let lines = to(kept.clone());
        lines.hear(&said("one\u{202e}\ntwo"));
        lines.hear(&CampaignEvent::Elapsed { elapsed_s: 1.0, left: None });
        lines.hear(&CampaignEvent::Ended { failed: Some(0), error: None, not_put_back: 0 });
        drop(lines);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read.len(), 2, "{text}");
        assert_eq!((&read[0]["n"], &read[0]["event"], &read[1]["n"]), (&1.into(), &"said".into(), &2.into()));
        assert_eq!(read[0]["sentence"], "one\u{202e}\ntwo");
        assert!(!text.contains('\u{202e}') && read[1]["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{text}");
    }

    #[test]
    fn what_ended_a_campaign_is_told_once_whether_or_not_it_began() {
        for is_told in [false, true] {
            let kept = Kept::default();
            let lines = to(kept.clone());
            let error = || anyhow!("cannot be reached").context("the target");
            if is_told {
                lines.hear(&CampaignEvent::Ended {
                    failed: None,
                    error: Some("it is gone".to_owned()),
                    not_put_back: 1,
                });
            }
            assert!(lines.end(Err(error())).is_err());
            let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
            let read: Value = serde_json::from_str(&text).expect("one line");
            let want = if is_told { "it is gone" } else { "the target: cannot be reached" };
            assert_eq!((&read["event"], &read["error"]), (&"ended".into(), &want.into()));
        }
    }

    #[test]
    fn a_reader_that_is_stuck_keeps_nobody_waiting() {
        let lines = to(Stuck);
        let began = std::time::Instant::now();
        for _ in 0..10 * QUEUE {
            lines.hear(&said("x"));
        }
        drop(lines);
        assert!(began.elapsed() < 5 * LAST, "{:?}", began.elapsed());
    }

    #[test]
    fn a_full_disk_is_told_and_a_reader_that_is_gone_is_not() {
        struct Broken(ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        for (kind, is_told) in [(ErrorKind::StorageFull, true), (ErrorKind::BrokenPipe, false)] {
            let lines = EventLines::default();
            lines.write_to(Broken(kind), "events.jsonl".to_owned());
            lines.hear(&said("one"));
            let ended = lines.end(Ok(ExitCode::SUCCESS)).map_err(|error| error.to_string());
            assert_eq!(ended.is_err_and(|error| error.contains("events.jsonl")), is_told, "{kind}");
        }
    }
}
