//! QEMU's monitor: the cable pulled and put back, and the end.
//! Knows of QEMU's machine protocol what it needs: a command a line, an answer a line (QEMU, docs/interop/qmp-spec).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::BoardError;

/// A conversation with one QEMU.
pub(crate) struct Monitor {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

/// An emulator on a busy machine is slow; one that says nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(20);

impl Monitor {
    /// Opens the monitor of the board in this folder.
    pub(crate) fn open(folder: &Path) -> Result<Monitor, BoardError> {
        let path = folder.join("monitor");
        let failed = |error| BoardError::file(&path, error);
        let writer = UnixStream::connect(&path).map_err(failed)?;
        writer.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let reader = BufReader::new(writer.try_clone().map_err(failed)?);
        let mut monitor = Monitor { reader, writer };
        // It greets, and takes no command before its capabilities were asked for.
        monitor.line()?;
        monitor.execute(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    pub(crate) fn set_link(&mut self, up: bool) -> Result<(), BoardError> {
        self.execute(&json!({ "execute": "set_link", "arguments": { "name": "n0", "up": up } }))
    }

    /// Ends QEMU; returns when it has closed its monitor.
    pub(crate) fn quit(&mut self) -> Result<(), BoardError> {
        // It may be gone before it has answered.
        let _ = self.execute(&json!({ "execute": "quit" }));
        while self.line().is_ok() {}
        Ok(())
    }

    fn execute(&mut self, command: &Value) -> Result<(), BoardError> {
        let written = self.writer.write_all(format!("{command}\n").as_bytes());
        written.map_err(|error| BoardError::Dead(format!("the board's QEMU does not listen: {error}")))?;
        loop {
            let line = self.line()?;
            let answer: Value = serde_json::from_str(&line)
                .map_err(|error| BoardError::Dead(format!("the board's QEMU says what is no JSON: {error}")))?;
            // Events come between, at any time.
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                return Err(BoardError::Dead(format!("the board's QEMU refuses {command}: {error}")));
            }
        }
    }

    fn line(&mut self) -> Result<String, BoardError> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err(BoardError::Dead("the board's QEMU has ended".to_owned())),
            Err(error) => Err(BoardError::Dead(format!("the board's QEMU says nothing: {error}"))),
        }
    }
}
