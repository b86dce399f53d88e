//! A place of labgrid: acquired before it is used, and released in every end. Knows the words of labgrid-client (labgrid 25
//! and later), and no agent.
//!
//! ```text
//!  linerate ──its input──► keeper (/bin/sh) ──► labgrid-client acquire … release
//!     │                    the end of its input is the end of the hold, however linerate ended
//!     └────── ssh ───────► the address that a NetworkService of the place has
//! ```
//! The process that acquires is the one that releases, so that no end of linerate lies between the two.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv6Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use linerate_machine::sync::Mutex;

use crate::address::{host_and_port, is_user};
use crate::connect_options::{ConnectOptions, receive_unless};
use crate::error::{ControlError, Machine};

/// `keeper PARENT PLACE [KEY=VALUE…]`: waits for a place with these tags, where there are any, acquires it, says what
/// labgrid-client said of that, and releases it at the end of its input. A word on its input says that linerate ends in order;
/// without one, the machine gets a moment to put its settings back first.
const KEEPER: &str = r#"trap "" HUP INT QUIT PIPE TERM; trap "stop=1" USR1; unset LG_ENV LG_STATE
parent=$1; place=$2; shift 2; stop=; token=
tell() { echo "$1"; printf "%s\n" "$2"; echo .; }
cancel() { [ -z "$token" ] || labgrid-client cancel-reservation "$token" >/dev/null 2>&1; }
if [ $# -gt 0 ]; then
  out=$(labgrid-client reserve --shell "$@" 2>&1); code=$?
  token=$(printf "%s\n" "$out" | sed -n "s/^export LG_TOKEN=//p")
  if [ -z "$token" ]; then tell "$code" "$out"; exit; fi
  labgrid-client wait "$token" >/dev/null 2>&1 & child=$!
  while kill -0 $child 2>/dev/null; do
    if [ "$stop" ] || ! grep -q "^PPid:[^0-9]*$parent\$" /proc/$$/status; then kill -9 $child; cancel; exit; fi
    sleep 1
  done
  place=+$token
fi
out=$(labgrid-client -p "$place" acquire 2>&1); code=$?
name=$(printf "%s\n" "$out" | sed -n "s/^acquired place //p")
[ "$name" ] || cancel
tell "$code" "$out"
[ "$name" ] || exit
read -r word || sleep 2
for try in 1 2 3; do labgrid-client -p "$name" release >/dev/null 2>&1 && break; sleep 1; done
cancel"#;

/// How long labgrid-client has: it is written in Python, and asks the coordinator.
const ANSWER: Duration = Duration::from_secs(60);
/// How long is waited for a place that others use.
const QUEUE: Duration = Duration::from_secs(3600);
/// How long is waited for a release; the keeper goes on beyond that.
const RELEASE: Duration = Duration::from_secs(20);
/// What labgrid-client says is no longer.
const LONGEST: u64 = 256 << 10;

/// A place that is held; the last owner's end releases it.
#[derive(Debug)]
pub struct Place {
    /// As the endpoint has it.
    asked: String,
    name: String,
    services: Vec<Service>,
    /// None where its user had acquired it before: then it stays so.
    _keeper: Option<Keeper>,
}

/// A machine of a place that has a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    name: String,
    pub(crate) address: String,
    pub(crate) port: Option<u16>,
    pub(crate) user: String,
    /// The exporter through which it is reached, if it is reached no other way.
    proxy: Option<String>,
}

/// The places that this process holds, by what the endpoints call them.
static HELD: Mutex<Vec<(String, Weak<Place>)>> = Mutex::new(Vec::new());

/// Holds a place: `NAME`, or any with the tags `KEY=VALUE+KEY=VALUE`.
pub(crate) fn hold(place: &str, machine: &Machine, options: &ConnectOptions) -> Result<Arc<Place>, ControlError> {
    // Concurrent requests for one place share one hold.
    let mut held = HELD.lock();
    held.retain(|(_, place)| place.strong_count() > 0);
    if let Some(known) = held.iter().find(|(name, _)| name == place).and_then(|(_, place)| place.upgrade()) {
        return Ok(known);
    }
    if (options.interrupted)() {
        return Err(ControlError::Interrupted);
    }
    let new = Arc::new(Place::acquire(place, options).map_err(|why| match why {
        Some(why) => ControlError::Unreachable { machine: machine.clone(), why },
        None => ControlError::Interrupted,
    })?);
    held.push((place.to_owned(), Arc::downgrade(&new)));
    Ok(new)
}

/// A sentence; none where nobody wants it any more.
type Why = Option<String>;

impl Place {
    /// Its name, as labgrid-client's `-p` takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether an endpoint means this one by these words.
    pub fn is(&self, asked: &str) -> bool {
        self.asked == asked
    }

    fn acquire(place: &str, options: &ConnectOptions) -> Result<Place, Why> {
        let tags: Vec<&str> = if place.contains('=') { place.split('+').collect() } else { Vec::new() };
        let patience = if tags.is_empty() { ANSWER } else { QUEUE };
        let (keeper, code, said) = Keeper::start(place, &tags, patience, options.interrupted)?;
        let (name, keeper) = match acquired(&said) {
            Some(name) => (name.to_owned(), Some(keeper)),
            // By hand, on this computer: then it is used, and stays acquired.
            None if said.contains(&format!("You have already acquired place {place}.")) => (place.to_owned(), None),
            None => return Err(Some(not_acquired(place, code, &said))),
        };
        let (code, shown) = labgrid_client(&["-p", &name, "show"], options.interrupted)?;
        if code != Some(0) {
            return Err(Some(format!("labgrid-client cannot show place {name}: {}", words(&shown))));
        }
        Ok(Place { asked: place.to_owned(), name, services: services(&shown), _keeper: keeper })
    }

    /// The machine of this name, or the only one. The error is one sentence.
    pub(crate) fn service(&self, name: Option<&str>) -> Result<&Service, String> {
        let all: Vec<&str> = self.services.iter().map(|one| one.name.as_str()).collect();
        let place = &self.name;
        let found = match (name, self.services.as_slice()) {
            (_, []) => {
                return Err(format!(
                    "place {place} has no NetworkService, by which ssh would reach a machine; add one with \
                     'labgrid-client -p {place} add-match'"
                ));
            }
            (Some(name), services) => services
                .iter()
                .find(|one| one.name == name)
                .ok_or_else(|| format!("place {place} has no NetworkService '{name}'; it has {}", all.join(", ")))?,
            (None, [one]) => one,
            (None, _) => {
                return Err(format!(
                    "place {place} has {} machines; write labgrid:{place},NAME with one of {}",
                    all.len(),
                    all.join(", ")
                ));
            }
        };
        let is_name = !found.address.contains('%')
            && matches!(host_and_port(&found.address), Ok((host, None)) if host == found.address);
        if !is_name && found.address.parse::<Ipv6Addr>().is_err() {
            return Err(format!(
                "the NetworkService {} of place {place} has the address '{}', which ssh cannot take",
                found.name,
                found.address.escape_debug()
            ));
        }
        if !is_user(&found.user) {
            return Err(format!(
                "the NetworkService {} of place {place} has the user '{}', which is no user's name",
                found.name,
                found.user.escape_debug()
            ));
        }
        Ok(found)
    }
}

impl Service {
    /// What ssh is told beside what it is always: as `labgrid-client ssh` has it, for a board's key is another after each
    /// image.
    pub(crate) fn ssh_options(&self) -> Vec<String> {
        let always = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"].map(str::to_owned);
        let proxy = self.proxy.as_ref().map(|proxy| format!("ProxyJump={proxy}"));
        always.into_iter().chain(proxy).flat_map(|option| ["-o".to_owned(), option]).collect()
    }
}

/// The process that acquires and releases.
#[derive(Debug)]
struct Keeper {
    child: Child,
    input: Option<ChildStdin>,
}

impl Keeper {
    /// Starts one, and hears what came of it: labgrid-client's status and words.
    fn start(
        place: &str,
        tags: &[&str],
        patience: Duration,
        interrupted: fn() -> bool,
    ) -> Result<(Keeper, Option<i32>, String), Why> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", KEEPER, "linerate-labgrid", &std::process::id().to_string(), place]).args(tags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Neither Ctrl-C nor a kill of our process group takes it along.
        command.process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| Some(format!("/bin/sh cannot be started: {error}; see that it is there")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut keeper = Keeper { child, input };
        let (said, heard) = mpsc::sync_channel(1);
        if let Some(output) = output {
            let no_thread = |error| Some(format!("this program cannot start a thread ({error})"));
            crate::start_thread("linerate-labgrid", move || drop(said.send(answer(output)))).map_err(no_thread)?;
        }
        match receive_unless(&heard, patience, interrupted) {
            Ok((code, text)) => Ok((keeper, code, text)),
            Err(_) => {
                keeper.stop_waiting();
                Err((!interrupted()).then(|| late(patience)))
            }
        }
    }

    /// It need not wait for a place any more.
    fn stop_waiting(&mut self) {
        // std cannot send a signal. The child is not yet waited for, so its number cannot be another's.
        let kill = format!("kill -USR1 {}", self.child.id());
        let _ = Command::new("/bin/sh").args(["-c", &kill]).stderr(Stdio::null()).status();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(b"done\n");
        }
        let until = Instant::now() + RELEASE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What the keeper says first: a status, and words up to a line with a point alone.
fn answer(output: ChildStdout) -> (Option<i32>, String) {
    let mut lines = BufReader::new(output.take(LONGEST)).lines().map_while(Result::ok);
    let code = lines.next().and_then(|line| line.parse().ok());
    let words: Vec<String> = lines.take_while(|line| line != ".").collect();
    (code, words.join("\n"))
}

/// Runs labgrid-client, and hears its status and all that it says.
fn labgrid_client(arguments: &[&str], interrupted: fn() -> bool) -> Result<(Option<i32>, String), Why> {
    let mut command = Command::new("labgrid-client");
    command.args(arguments).env_remove("LG_ENV").env_remove("LG_STATE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|_| Some(NOT_THERE.to_owned()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (said, heard) = mpsc::sync_channel(1);
    let read = move || {
        let mut text = String::new();
        let _ = stdout.map(|stdout| stdout.take(LONGEST).read_to_string(&mut text));
        let _ = stderr.map(|stderr| stderr.take(LONGEST).read_to_string(&mut text));
        drop(said.send(text));
    };
    let no_thread = |error| Some(format!("this program cannot start a thread ({error})"));
    crate::start_thread("linerate-labgrid", read).map_err(no_thread)?;
    let heard = receive_unless(&heard, ANSWER, interrupted);
    if heard.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().ok().and_then(|status| status.code());
    heard.map(|text| (status, text)).map_err(|_| (!interrupted()).then(|| late(ANSWER)))
}

const NOT_THERE: &str =
    "labgrid-client was not found here; install labgrid 25 or later (pip install labgrid), and have it in PATH";

fn late(patience: Duration) -> String {
    format!(
        "labgrid had no answer within {} s; see that the coordinator that LG_COORDINATOR names runs, and who has its places: \
         labgrid-client who",
        patience.as_secs()
    )
}

fn acquired(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("acquired place ")).map(str::trim).filter(|name| is_place(name))
}

/// Whether a place may have this name: no option, and nothing that a shell or a terminal would obey.
pub(crate) fn is_place(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./@".contains(c))
}

/// Whether this is `KEY=VALUE`, one or several with a plus between (labgrid's `TAG_KEY`, and what its values are).
pub(crate) fn are_tags(text: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    text.split('+').all(|tag| {
        tag.split_once('=').is_some_and(|(key, value)| {
            key.len() > 1
                && key.starts_with(|c: char| c.is_ascii_lowercase())
                && is_word(key)
                && !value.is_empty()
                && is_word(value)
        })
    })
}

fn not_acquired(place: &str, code: Option<i32>, said: &str) -> String {
    match code {
        Some(127) => NOT_THERE.to_owned(),
        _ => format!(
            "labgrid place {place} cannot be acquired: {}; labgrid-client who shows who has which, and \
             labgrid:KEY=VALUE waits for one with that tag",
            words(said)
        ),
    }
}

/// The last of what a program said, on one line.
fn words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    let last: String = last.chars().filter(|c| !c.is_control()).take(300).collect();
    let last = last.strip_prefix("labgrid-client: Error: ").unwrap_or(&last).trim_end_matches('.');
    if last.is_empty() { "it did not say why".to_owned() } else { last.to_owned() }
}

/// The machines of a place, as `labgrid-client show` prints what was acquired: a line that names each resource, and its fields
/// beneath as Python writes a dictionary.
fn services(shown: &str) -> Vec<Service> {
    let mut found = Vec::new();
    let mut lines = shown.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, path)) = line.strip_prefix("Acquired resource '").and_then(|rest| rest.split_once("' ("))
        else {
            continue;
        };
        let mut fields = String::new();
        while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
            fields.push_str(more);
        }
        if path.split('/').nth(2) != Some("NetworkService") {
            continue;
        }
        let is_behind = field(&fields, "proxy_required").as_deref() == Some("True");
        found.push(Service {
            name: name.to_owned(),
            address: field(&fields, "address").unwrap_or_default(),
            port: field(&fields, "port").and_then(|port| port.parse().ok()).filter(|port| *port > 0),
            user: field(&fields, "username").unwrap_or_default(),
            proxy: field(&fields, "proxy").filter(|proxy| is_behind && is_place(proxy)),
        });
    }
    found
}

/// A value of a dictionary as Python's `repr` writes it: a text without its quotes, or a word.
fn field(fields: &str, name: &str) -> Option<String> {
    let (_, rest) = fields.split_once(&format!("'{name}': "))?;
    let quote = rest.chars().next().filter(|c| "'\"".contains(*c));
    let Some(quote) = quote else {
        return rest.split([',', '}']).next().map(|word| word.trim().to_owned());
    };
    let (mut value, mut characters) = (String::new(), rest.chars().skip(1));
    loop {
        match characters.next()? {
            '\\' => value.push(characters.next()?),
            c if c == quote => return Some(value),
            c => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As labgrid-client 26.0.1 prints it.
    const SHOWN: &str = "Place 'bench':\n  tags: board=imx6\n  matches:\n    lab/bench/*\n  acquired: pc/ann\n\
        Acquired resource 'target' (lab/bench/NetworkService/target):\n  {'acquired': 'bench',\n   'avail': True,\n   \
        'cls': 'NetworkService',\n   'params': {'address': '192.0.2.7',\n              'extra': {'proxy': 'lab.example', \
                                    'proxy_required': False},\n              'port': 2222,\n              'username': 'root'}}\n\
        Acquired resource 'power' (lab/bench/NetworkPowerPort/power):\n  {'cls': 'NetworkPowerPort', 'params': {'host': 'x'}}\n\
        Acquired resource 'host' (lab/bench/NetworkService/host):\n  {'params': {'address': '2001:db8::7', 'extra': {'proxy': \
        'lab.example', 'proxy_required': True}, 'username': \"o'neill\"}}\n";

    fn place() -> Place {
        Place { asked: "bench".to_owned(), name: "bench".to_owned(), services: services(SHOWN), _keeper: None }
    }

    #[test]
    fn the_machines_of_a_place_are_read() {
        let place = place();
        assert_eq!(place.services.len(), 2);
        let target = place.service(Some("target")).unwrap();
        assert_eq!((target.address.as_str(), target.port, target.user.as_str()), ("192.0.2.7", Some(2222), "root"));
        assert_eq!(target.ssh_options().len(), 6);
        let host = &place.services[1];
        assert_eq!((host.address.as_str(), host.port, host.user.as_str()), ("2001:db8::7", None, "o'neill"));
        assert!(host.ssh_options().contains(&"ProxyJump=lab.example".to_owned()));
    }

    #[track_caller]
    fn refused(shown: &str, name: Option<&str>, part: &str) {
        let place = Place { services: services(shown), ..place() };
        let sentence = place.service(name).unwrap_err();
        assert!(sentence.contains(part) && !sentence.contains('\n'), "{sentence}");
    }

    #[test]
    fn what_cannot_be_reached_is_said() {
        refused(SHOWN, None, "has 2 machines; write labgrid:bench,NAME with one of target, host");
        refused(SHOWN, Some("x"), "has no NetworkService 'x'; it has target, host");
        refused(SHOWN, Some("host"), "which is no user's name");
        refused("Place 'bench':\n", None, "has no NetworkService");
        let hostile = |address: &str| SHOWN.replace("192.0.2.7", address);
        for address in ["-oProxyCommand=x", "a b", "", "a;b", "x:22", "$(id)", "[::1]"] {
            refused(&hostile(address), Some("target"), "which ssh cannot take");
        }
    }

    #[test]
    fn names_and_tags() {
        for name in ["imx6", "imx6-rev.b", "ann/imx6", "a_b@lab"] {
            assert!(is_place(name), "{name}");
        }
        for name in ["", "-p", "a b", "a;b", "+token", "$x", "a\n", "ä"] {
            assert!(!is_place(name), "{name}");
        }
        for tags in ["board=imx6", "board=imx6+lab=a_1"] {
            assert!(are_tags(tags), "{tags}");
        }
        for tags in ["board", "=x", "board=", "Board=x", "board=x+", "board=a b", "b=x", "board=x=y"] {
            assert!(!are_tags(tags), "{tags}");
        }
    }

    #[test]
    fn what_labgrid_said_is_one_line() {
        let said = "labgrid-client: Error: Place x is already acquired by pc/ann.\n";
        assert_eq!(words(said), "Place x is already acquired by pc/ann");
        assert_eq!(words("\u{1b}[31m\n\n"), "[31m");
        assert_eq!(words(""), "it did not say why");
        assert_eq!(acquired("Selected role a\nacquired place imx6\n"), Some("imx6"));
        assert_eq!(acquired("acquired place -p\n"), None);
    }
}
