//! How an agent is reached: `local`, `netns:NAME`, `exec:COMMAND`, `[ssh:][user@]host[:port]`, `tcp:host:port`,
//! `board:NAME`, `labgrid:PLACE`.
//! Knows nothing of the conversation that follows.

use std::fmt;
use std::fs::TryLockError;
use std::io::{self, IsTerminal, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use linerate_machine::end::End;
use linerate_machine::text::nearest;
use linerate_trial::tool::Tool;

use crate::address::{host_and_port, is_user};
use crate::carry;
use crate::connect_options::{ConnectOptions, receive_unless};
use crate::error::{ControlError, Machine};
use crate::labgrid::{self, Place};
use crate::link::{Hints, Link, Start};
use crate::noise::{self, NoiseError};
use crate::ssh::{Share, Ssh, shell};

/// How an agent is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process on this machine.
    Local,
    /// A child process in a network namespace of this machine: a name under /run/netns, or a path.
    Netns(String),
    /// A shell command whose standard input and output speak the control conversation.
    Exec(String),
    /// The system's ssh.
    Ssh {
        /// The user there; `None`: what ssh's configuration says.
        user: Option<String>,
        /// A name, an alias of ssh's configuration, or an address.
        host: String,
        /// The port; `None`: what ssh's configuration says.
        port: Option<u16>,
    },
    /// A machine of a labgrid place, which is acquired, reached by ssh, and released.
    Labgrid {
        /// The place's name, or the tags of any: `KEY=VALUE+KEY=VALUE`.
        place: String,
        /// Which of the place's NetworkServices; `None`: the only one.
        service: Option<String>,
    },
    /// An agent that listens, with a shared key.
    Tcp {
        /// A name or an address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Another tool's server, which is no agent: the agent at the other end speaks its protocol.
    Foreign {
        /// Whose.
        tool: Tool,
        /// A name or an address.
        host: String,
        /// Its port; `None`: the tool's usual one.
        port: Option<u16>,
    },
    /// An emulated board that runs on this machine, or the host at the other end of its cable.
    Board {
        /// The board's name.
        name: String,
        /// Which end of its cable: the board is the target.
        end: End,
    },
}

/// Why a text is no endpoint; one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

/// Kinds of endpoints that have an agent, and how each is written.
const KINDS: [(&str, &str); 6] = [
    ("netns", "netns:NAME"),
    ("exec", "exec:COMMAND"),
    ("ssh", "[ssh:][user@]host[:port]"),
    ("tcp", "tcp:host:port"),
    ("board", "board:NAME"),
    ("labgrid", "labgrid:PLACE[,NAME]"),
];

/// What an endpoint can be.
pub fn endpoint_forms() -> String {
    let tools = Tool::ALL.iter().map(|row| form_of_tool(row.name));
    let forms = KINDS.iter().map(|(_, form)| (*form).to_owned()).chain(tools);
    format!("local, {}", forms.collect::<Vec<_>>().join(", "))
}

fn form_of_tool(name: &str) -> String {
    format!("{name}:host[:port]")
}

/// How an endpoint of this kind is written; of no kind, how any is.
fn form(kind: &str) -> String {
    let known = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, form)| (*form).to_owned());
    let known = known.or_else(|| Tool::parse(kind).map(|tool| form_of_tool(tool.name())));
    known.map_or_else(|| format!("an endpoint is one of: {}", endpoint_forms()), |form| format!("write {form}"))
}

/// Whether `scheme:rest` looks like a kind of endpoint, and not like `host:port` or an IPv6 address.
fn is_kind(scheme: &str, rest: &str) -> bool {
    let is_word = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(char::is_alphanumeric);
    is_word && !rest.contains("::") && (rest.contains(['.', '/', '@']) || rest.starts_with(char::is_alphabetic))
}

/// Why `scheme:rest` is no endpoint.
fn unknown_kind(scheme: &str) -> String {
    let tools: Vec<&str> = Tool::ALL.iter().map(|row| row.name).collect();
    let mut meant: Vec<&str> =
        tools.iter().copied().filter(|tool| tool.trim_end_matches(char::is_numeric) == scheme).collect();
    if meant.is_empty() {
        meant.extend(nearest(scheme, KINDS.iter().map(|(name, _)| *name).chain(tools)));
    }
    let meant = meant.iter().map(|one| format!("{one}:")).collect::<Vec<_>>().join(" or ");
    let hint = if meant.is_empty() { form("") } else { format!("did you mean {meant}?") };
    format!("there is no kind '{}'; {hint}", scheme.escape_debug())
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        let refused = |why: &str| EndpointError(format!("'{}' is not an endpoint: {why}", text.escape_debug()));
        let nonsense = |why: &str| refused(&format!("{why}; {}", form(scheme)));
        if text == "local" {
            return Ok(Endpoint::Local);
        }
        if let Some(tool) = Tool::parse(scheme) {
            let (host, port) = host_and_port(rest).map_err(|why| nonsense(&why))?;
            return Ok(Endpoint::Foreign { tool, host, port });
        }
        match scheme {
            "netns" => match rest {
                "" => Err(nonsense("the name of the namespace is missing")),
                "." | ".." => Err(nonsense("that is no name of a namespace")),
                _ if rest.contains('\0') => Err(nonsense("a name has no NUL in it")),
                _ => Ok(Endpoint::Netns(rest.to_owned())),
            },
            "exec" => match rest.trim() {
                "" => Err(nonsense("the command is missing")),
                _ if rest.contains('\0') => Err(nonsense("a command has no NUL in it")),
                _ => Ok(Endpoint::Exec(rest.to_owned())),
            },
            "tcp" => match host_and_port(rest).map_err(|why| nonsense(&why))? {
                (host, Some(port)) => Ok(Endpoint::Tcp { host, port }),
                (_, None) => Err(nonsense("the port is missing")),
            },
            "labgrid" => {
                let (place, service) = rest.split_once(',').map_or((rest, None), |(place, name)| (place, Some(name)));
                match service {
                    _ if place.is_empty() => {
                        Err(nonsense("the place is missing; labgrid-client places shows those there are"))
                    }
                    _ if !labgrid::is_place(place) && !labgrid::are_tags(place) => {
                        Err(nonsense("that is neither a place's name nor KEY=VALUE+KEY=VALUE, the tags of one"))
                    }
                    Some(name) if !labgrid::is_place(name) => {
                        Err(nonsense("behind the comma stands a resource's name"))
                    }
                    service => Ok(Endpoint::Labgrid { place: place.to_owned(), service: service.map(str::to_owned) }),
                }
            }
            "board" => {
                let (name, end) = match rest.strip_suffix("/host") {
                    Some(name) => (name, End::Host),
                    None => (rest, End::Target),
                };
                // It is a folder's name, too.
                let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                match name {
                    "" => Err(nonsense("the name of the board is missing; linerate lab list shows those there are")),
                    _ if !name.chars().all(known) => Err(nonsense("that is no name of a board")),
                    _ => Ok(Endpoint::Board { name: name.to_owned(), end }),
                }
            }
            _ if scheme != "ssh" && is_kind(scheme, rest) => Err(refused(&unknown_kind(scheme))),
            _ => {
                let rest = text.strip_prefix("ssh:").unwrap_or(text);
                let (user, address) = match rest.rsplit_once('@') {
                    Some((user, address)) => (Some(user), address),
                    None => (None, rest),
                };
                if user.is_some_and(|user| !is_user(user)) {
                    return Err(nonsense("that is no user's name"));
                }
                let (host, port) = host_and_port(address).map_err(|why| nonsense(&why))?;
                Ok(Endpoint::Ssh { user: user.map(str::to_owned), host, port })
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        match self {
            Endpoint::Local => f.write_str("local"),
            Endpoint::Netns(name) => write!(f, "netns:{name}"),
            Endpoint::Exec(command) => write!(f, "exec:{command}"),
            Endpoint::Ssh { user, host, port } => {
                f.write_str("ssh:")?;
                if let Some(user) = user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&bracketed(host))?;
                port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
            Endpoint::Labgrid { place, service } => {
                write!(f, "labgrid:{place}")?;
                service.as_ref().map_or(Ok(()), |name| write!(f, ",{name}"))
            }
            Endpoint::Tcp { host, port } => write!(f, "tcp:{}:{port}", bracketed(host)),
            Endpoint::Foreign { tool, host, port } => {
                write!(f, "{tool}:{}", bracketed(host))?;
                port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
            Endpoint::Board { name, end: End::Target } => write!(f, "board:{name}"),
            Endpoint::Board { name, end: End::Host } => write!(f, "board:{name}/host"),
        }
    }
}

impl Endpoint {
    /// Opens a shell on a machine that is reached by ssh, in a connection of its own: its standard input takes commands,
    /// and what they print comes back. Nothing is installed there, and no agent asked for.
    pub fn shell(&self, name: &str, options: &ConnectOptions) -> Result<Link, ControlError> {
        let machine = Machine { name: name.to_owned(), endpoint: self.to_string() };
        let unreachable = |why: String| ControlError::Unreachable { machine: machine.clone(), why };
        let Endpoint::Ssh { user, host, port } = self else {
            return Err(unreachable("a shell is had by ssh only; write [ssh:][user@]host[:port]".to_owned()));
        };
        let (user, port, connect_timeout) = (user.as_deref(), *port, options.connect_timeout);
        let ssh = Ssh { user, host, port, connect_timeout, may_ask: io::stderr().is_terminal(), more: &[] };
        let not_found = format!("there is no /bin/sh on {host}, or no ssh here; install it");
        let hints = Hints { not_found, ..ssh.hints("/bin/sh") };
        Link::start(ssh.command(Share::Alone, "exec /bin/sh"), Start { may_ask: ssh.may_ask, hints })
            .map_err(|error| unreachable(format!("/bin/sh cannot be started: {error}; see that it is installed here")))
    }

    /// Opens a byte stream to the agent, starting it where the endpoint says so. `name` is the machine's part in
    /// sentences: `target` or `host`.
    pub fn connect(&self, name: &str, options: &ConnectOptions) -> Result<Link, ControlError> {
        let machine = Machine { name: name.to_owned(), endpoint: self.to_string() };
        let unreachable = |why: String| ControlError::Unreachable { machine: machine.clone(), why };
        let cannot_start = |program: &Path, error: io::Error| {
            unreachable(format!("{} cannot be started: {error}; see that it is installed there", program.display()))
        };
        match self {
            Endpoint::Local | Endpoint::Netns(_) => {
                let (program, first) = match &options.agent_program {
                    Some(program) => (program.clone(), None),
                    None => {
                        let program = std::env::current_exe()
                            .map_err(|error| unreachable(format!("this program cannot find itself: {error}")))?;
                        (program, Some("agent"))
                    }
                };
                let mut command = Command::new(&program);
                command.args(first).arg("--stdio");
                if let Endpoint::Netns(namespace) = self {
                    let path = namespace_path(namespace);
                    if !path.exists() {
                        return Err(unreachable(format!(
                            "there is no network namespace {}; 'ip netns list' shows those there are",
                            path.display()
                        )));
                    }
                    command.arg("--netns").arg(path);
                }
                let hint = format!("start {} --stdio by hand to see what it says", program.display());
                let hints = Hints { not_found: hint, ssh_failed: None };
                Link::start(command, Start { may_ask: false, hints }).map_err(|e| cannot_start(&program, e))
            }
            Endpoint::Exec(text) => {
                let may_ask = io::stderr().is_terminal();
                let mut command = shell(may_ask, "eval \"$1\"");
                command.arg(text);
                let not_found = "a program of the command was not found; check the command".to_owned();
                let hints = Hints { not_found, ssh_failed: None };
                Link::start(command, Start { may_ask, hints }).map_err(|e| cannot_start(Path::new("/bin/sh"), e))
            }
            Endpoint::Ssh { user, host, port } => {
                let (user, port, connect_timeout) = (user.as_deref(), *port, options.connect_timeout);
                let ssh = Ssh { user, host, port, connect_timeout, may_ask: io::stderr().is_terminal(), more: &[] };
                over_ssh(ssh, options, &unreachable)
            }
            Endpoint::Labgrid { place, service } => {
                let place = labgrid::hold(place, &machine, options)?;
                let found = place.service(service.as_deref()).map_err(unreachable)?;
                let (user, host, port, more) =
                    (Some(found.user.as_str()), &found.address, found.port, found.ssh_options());
                let (connect_timeout, may_ask) = (options.connect_timeout, io::stderr().is_terminal());
                let ssh = Ssh { user, host, port, connect_timeout, may_ask, more: &more };
                let mut link = over_ssh(ssh, options, &unreachable)?;
                link.guard.hold(place);
                Ok(link)
            }
            Endpoint::Foreign { tool, .. } => Err(unreachable(format!(
                "an {tool} server is no agent; it can be the target of a run, and a machine with linerate's agent is reached \
                 as ssh:host"
            ))),
            Endpoint::Tcp { host, port } => {
                let Some(psk) = &options.psk else {
                    let why = "a tcp: agent demands a shared key and none was given; name its file with --psk-file";
                    return Err(ControlError::Key { machine, why: why.to_owned() });
                };
                let socket = connect_tcp(host, *port, options).map_err(|error| {
                    if (options.interrupted)() {
                        return ControlError::Interrupted;
                    }
                    unreachable(format!(
                        "{error}; see that linerate-agent --listen runs there and no firewall is between"
                    ))
                })?;
                noise::initiate(socket, psk).map_err(|error| match error {
                    NoiseError::Io(_) | NoiseError::Late | NoiseError::Nonsense => unreachable(error.to_string()),
                    NoiseError::WrongKey | NoiseError::Closed => {
                        ControlError::Key { machine: machine.clone(), why: error.to_string() }
                    }
                })
            }
            Endpoint::Board { name, end } => {
                let folder = options.boards.as_deref().unwrap_or(Path::new("/nonexistent")).join(name);
                // Below /tmp, another user may have made a board of this name.
                let user =
                    std::fs::metadata("/proc/self").map_or(0, |found| std::os::unix::fs::MetadataExt::uid(&found));
                if folder.exists() && !crate::private::is_own(&folder, user) {
                    return Err(unreachable(format!("{} is another user's; remove it", folder.display())));
                }
                let socket = UnixStream::connect(folder.join(end.name())).map_err(|_| {
                    // The process that starts or runs the board holds its lock.
                    let lock = std::fs::File::open(folder.join("lock"));
                    let is_starting = lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
                    unreachable(match is_starting {
                        true => "it is starting, which takes a minute or so; try again when linerate lab list says that it runs".to_owned(),
                        false => format!("it does not run; start it with: linerate lab up {name}"),
                    })
                })?;
                granted(&socket, options.connect_timeout).map_err(unreachable)?;
                Link::over_unix(socket).map_err(|error| unreachable(error.to_string()))
            }
        }
    }

    /// A person may have to type a password before the agent can speak.
    pub(crate) fn may_ask(&self) -> bool {
        matches!(self, Endpoint::Ssh { .. } | Endpoint::Labgrid { .. } | Endpoint::Exec(_))
            && io::stderr().is_terminal()
    }
}

/// Holds the places of these endpoints as long as what it returns lives: each once, in the order of their names, and none
/// where one cannot be had. So two that want the same two places never wait for each other.
pub fn hold_places<'a>(
    machines: impl IntoIterator<Item = (&'a str, &'a Endpoint)>,
    options: &ConnectOptions,
) -> Result<Vec<Arc<Place>>, ControlError> {
    let place = |(name, endpoint): (&str, &Endpoint)| match endpoint {
        Endpoint::Labgrid { place, .. } => {
            Some((place.clone(), Machine { name: name.to_owned(), endpoint: endpoint.to_string() }))
        }
        _ => None,
    };
    let mut places: Vec<_> = machines.into_iter().filter_map(place).collect();
    places.sort_by(|(one, _), (other, _)| one.cmp(other));
    places.iter().map(|(place, machine)| labgrid::hold(place, machine, options)).collect()
}

/// Starts the machine's own agent or, where it has none, carries one there.
fn over_ssh(
    ssh: Ssh<'_>,
    options: &ConnectOptions,
    unreachable: &dyn Fn(String) -> ControlError,
) -> Result<Link, ControlError> {
    let Some(agent) = &options.remote_agent else {
        return carry::reach(ssh, options, unreachable);
    };
    let command = ssh.command(Share::Alone, &format!("{agent} --stdio"));
    Link::start(command, Start { may_ask: ssh.may_ask, hints: ssh.hints(agent) })
        .map_err(|error| unreachable(format!("/bin/sh cannot be started: {error}; see that it is installed here")))
}

/// Waits for the answer of the process that runs the board: "ok", or a sentence why not.
fn granted(mut socket: &UnixStream, timeout: Duration) -> Result<(), String> {
    /// A sentence is shorter.
    const LONGEST: usize = 400;
    let silent = |error: io::Error| format!("whoever runs it does not answer ({error}); end it with linerate lab down");
    socket.set_read_timeout(Some(timeout)).map_err(silent)?;
    let mut word = Vec::new();
    let mut octet = [0];
    // One by one: what follows the line is the agent's.
    while word.len() < LONGEST && socket.read(&mut octet).map_err(silent)? == 1 && octet[0] != b'\n' {
        word.push(octet[0]);
    }
    socket.set_read_timeout(None).map_err(silent)?;
    match word.as_slice() {
        b"ok" => Ok(()),
        b"" => Err("it ends just now; start it again".to_owned()),
        sentence => Err(String::from_utf8_lossy(sentence).chars().filter(|sign| !sign.is_control()).collect()),
    }
}

/// Where a namespace of this name is (ip-netns(8)); what has a '/' is a path already.
fn namespace_path(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) }
}

/// Names may have several addresses, and a resolver knows no time-out: a thread does both, and may be left behind.
fn connect_tcp(host: &str, port: u16, options: &ConnectOptions) -> io::Result<TcpStream> {
    let timeout = options.connect_timeout;
    let (connected_sent, connected) = mpsc::sync_channel(1);
    let name = host.to_owned();
    std::thread::Builder::new().name("linerate-connect".to_owned()).spawn(move || {
        let _ = connected_sent.send(connect_first(&name, port, timeout));
    })?;
    receive_unless(&connected, timeout, options.interrupted)
        .unwrap_or_else(|_| Err(io::Error::other(format!("no answer within {} s", timeout.as_secs_f64()))))
}

fn connect_first(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other(format!("{host} has no address"));
    for address in (host, port).to_socket_addrs().map_err(|error| io::Error::other(format!("{host}: {error}")))? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Endpoint, written: &str) {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint, expected, "{text}");
        assert_eq!(endpoint.to_string(), written);
        assert_eq!(written.parse::<Endpoint>().unwrap(), expected, "what is written is read");
    }

    fn ssh(user: Option<&str>, host: &str, port: Option<u16>) -> Endpoint {
        Endpoint::Ssh { user: user.map(str::to_owned), host: host.to_owned(), port }
    }

    #[test]
    fn every_form_is_read() {
        check("local", Endpoint::Local, "local");
        check("netns:b", Endpoint::Netns("b".into()), "netns:b");
        check("netns:/proc/7/ns/net", Endpoint::Netns("/proc/7/ns/net".into()), "netns:/proc/7/ns/net");
        check("exec:ip vrf exec a:b c", Endpoint::Exec("ip vrf exec a:b c".into()), "exec:ip vrf exec a:b c");
        check("board1", ssh(None, "board1", None), "ssh:board1");
        let board = |end| Endpoint::Board { name: "sabrelite".to_owned(), end };
        check("board:sabrelite", board(End::Target), "board:sabrelite");
        check("board:sabrelite/host", board(End::Host), "board:sabrelite/host");
        check("ssh:local", ssh(None, "local", None), "ssh:local");
        check("root@10.0.0.2:2222", ssh(Some("root"), "10.0.0.2", Some(2222)), "ssh:root@10.0.0.2:2222");
        check("ssh:me@corp@jump", ssh(Some("me@corp"), "jump", None), "ssh:me@corp@jump");
        check("[fe80::1%eth0]:22", ssh(None, "fe80::1%eth0", Some(22)), "ssh:[fe80::1%eth0]:22");
        let labgrid = |place: &str, service: Option<&str>| Endpoint::Labgrid {
            place: place.to_owned(),
            service: service.map(str::to_owned),
        };
        check("labgrid:imx6", labgrid("imx6", None), "labgrid:imx6");
        check("labgrid:bench.1,host", labgrid("bench.1", Some("host")), "labgrid:bench.1,host");
        check("labgrid:board=imx6+lab=a,b", labgrid("board=imx6+lab=a", Some("b")), "labgrid:board=imx6+lab=a,b");
        check("tcp:[::1]:5201", Endpoint::Tcp { host: "::1".into(), port: 5201 }, "tcp:[::1]:5201");
        check("tcp:b.example:1", Endpoint::Tcp { host: "b.example".into(), port: 1 }, "tcp:b.example:1");
    }

    fn refuse(text: &str, part: &str) {
        let sentence = text.parse::<Endpoint>().expect_err(text).to_string();
        assert!(sentence.contains(part), "{text}: {sentence}");
        let has_next_step = ["an endpoint is one of: local, netns:NAME", "write ", "did you mean"];
        assert!(has_next_step.iter().any(|step| sentence.contains(step)) && !sentence.contains('\n'), "{sentence}");
    }

    #[test]
    fn nonsense_is_refused_in_one_sentence() {
        refuse("", "host is missing");
        refuse("a b", "no name of a host");
        refuse("-oProxyCommand=x", "begin with '-'");
        refuse("ssh:-oProxyCommand=x", "begin with '-'");
        refuse("root@-x", "begin with '-'");
        refuse("-lroot@board1", "no user's name");
        refuse("$(id)@board1", "no user's name");
        refuse("@board1", "no user's name");
        refuse("iperf:10.0.0.1", "there is no kind 'iperf'; did you mean iperf3: or iperf2:?");
        refuse("shh:root@board1", "there is no kind 'shh'; did you mean ssh:?");
        refuse("serial:/dev/ttyUSB0", "there is no kind 'serial'; an endpoint is");
        refuse("board1:", "not a port");
        refuse("board1:0", "not a port");
        refuse("board1:65536", "not a port");
        refuse("board1:+1", "not a port");
        refuse("fe80::1", "in brackets");
        refuse("[fe80::1", "not closed");
        refuse("[-oX]", "no IPv6 address");
        refuse("[::1]22", "after the bracket");
        refuse("tcp:board1", "port is missing");
        refuse("netns:", "missing");
        refuse("netns:..", "no name");
        refuse("exec: ", "missing");
        refuse("nuttcp:", "missing");
        refuse("board:", "name of the board is missing");
        refuse("labgrid:", "the place is missing");
        refuse("labgrid:-p", "neither a place's name");
        refuse("labgrid:a b", "neither a place's name");
        refuse("labgrid:board=", "neither a place's name");
        refuse("labgrid:x,", "a resource's name");
        refuse("labgrid:x,$(id)", "a resource's name");
        refuse("labgird:x", "did you mean labgrid:?");
        refuse("board:../x", "no name of a board");
        refuse("host\n", "no name of a host");
    }
}
