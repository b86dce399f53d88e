//! What the console keeps running beside itself: servers for other tools, and an agent for remote control.
//! Knows their children and the last lines they said; all end with it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::process::{Child, Stdio};
use std::sync::Arc;

use linerate_host::sys::child;
use linerate_machine::printable::in_line;
use linerate_machine::sync::Mutex;
use linerate_trial::tool::Tool;

use super::programs;
use crate::child_lines::child_lines;
use crate::cli::SharedArgs;

/// Lines of each that are kept.
const MOST_LINES: usize = 200;
/// The longest line that is kept.
const LONGEST_LINE: u64 = 4096;

/// What runs beside the console.
#[derive(Debug, Default)]
pub(super) struct Services {
    tools: BTreeMap<Tool, Service>,
    remote: Option<(String, Service)>,
}

#[derive(Debug)]
struct Service {
    child: Child,
    said: Arc<Mutex<VecDeque<String>>>,
    ended: bool,
}

impl Service {
    fn start(words: &[String], shared: &SharedArgs) -> io::Result<Service> {
        let mut command = programs::command(words, shared);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let said = Arc::clone(&said);
            // It ends with the child, whose end closes the stream.
            std::thread::Builder::new().name("service".to_owned()).spawn(move || keep_lines(stream, &said))?;
        }
        Ok(Service { child, said, ended: false })
    }

    fn runs(&mut self) -> bool {
        self.ended = self.ended || !matches!(self.child.try_wait(), Ok(None));
        !self.ended
    }

    /// Whether it is on, and where; where it ended by itself, why.
    fn state(&mut self, place: &str) -> String {
        match self.runs() {
            true => format!("on, {place}"),
            false => format!("off: {}", self.last().unwrap_or_else(|| "it ended".to_owned())),
        }
    }

    fn last(&self) -> Option<String> {
        self.said.lock().back().cloned()
    }

    fn lines(&self) -> Vec<String> {
        self.said.lock().iter().cloned().collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.runs() {
            child::ask_to_end(&self.child, false);
        }
        let _ = self.child.wait();
    }
}

fn keep_lines(stream: impl Read, said: &Mutex<VecDeque<String>>) {
    for line in child_lines(stream, LONGEST_LINE) {
        let mut said = said.lock();
        if said.len() == MOST_LINES {
            said.pop_front();
        }
        said.push_back(in_line(&String::from_utf8_lossy(&line), 2000).into_owned());
    }
}

/// How all of it stands, as menus show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct States {
    /// The servers that run.
    pub(super) running: String,
    /// Each tool's server.
    pub(super) tools: BTreeMap<Tool, String>,
    pub(super) remote: String,
    pub(super) remote_is_on: bool,
}

impl Services {
    /// How all of it stands.
    pub(super) fn states(&mut self) -> States {
        let running: Vec<String> =
            self.tools.iter_mut().filter_map(|(tool, service)| service.runs().then(|| tool.to_string())).collect();
        States {
            running: if running.is_empty() { "off".to_owned() } else { running.join(", ") },
            tools: Tool::ALL.iter().map(|row| (row.tool, self.serving(row.tool))).collect(),
            remote: self.remote(),
            remote_is_on: self.remote_is_on(),
        }
    }

    /// A server on or off. What came of it is a sentence.
    pub(super) fn serve(&mut self, tool: Tool, shared: &SharedArgs) -> String {
        if let Some(mut service) = self.tools.remove(&tool)
            && service.runs()
        {
            drop(service);
            return format!("The server for {tool} is off.");
        }
        match Service::start(&["serve".to_owned(), tool.to_string()], shared) {
            Ok(service) => {
                self.tools.insert(tool, service);
                format!(
                    "The server for {tool} starts on port {}; 'What they said' tells how it fares.",
                    tool.row().port
                )
            }
            Err(error) => format!("The server for {tool} could not be started: {error}; try again."),
        }
    }

    /// Remote control on, at this address with this key, or off.
    pub(super) fn toggle_remote(&mut self, address: &str, key: &str, shared: &SharedArgs) -> String {
        if self.remote_is_on() {
            self.remote = None;
            return "Remote control is off; settings that controllers had changed are put back.".to_owned();
        }
        let words = ["agent", "--listen", address, "--psk-file", key].map(str::to_owned);
        match Service::start(&words, shared) {
            Ok(service) => {
                self.remote = Some((address.to_owned(), service));
                format!("Remote control starts at {address}.")
            }
            Err(error) => format!("Remote control could not be started: {error}; try again."),
        }
    }

    /// Whether controllers can reach this machine.
    fn remote_is_on(&mut self) -> bool {
        self.remote.as_mut().is_some_and(|(_, service)| service.runs())
    }

    fn remote(&mut self) -> String {
        self.remote.as_mut().map_or("off".to_owned(), |(address, service)| service.state(address))
    }

    fn serving(&mut self, tool: Tool) -> String {
        self.tools
            .get_mut(&tool)
            .map_or("off".to_owned(), |service| service.state(&format!("port {}", tool.row().port)))
    }

    /// What all said last.
    pub(super) fn said(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let remote = self.remote.iter().map(|(_, service)| ("remote control".to_owned(), service));
        for (name, service) in self.tools.iter().map(|(tool, service)| (tool.to_string(), service)).chain(remote) {
            lines.extend(service.lines().into_iter().map(|line| format!("{name}: {line}")));
        }
        if lines.is_empty() {
            lines.push("No server has said anything.".to_owned());
        }
        lines
    }
}
