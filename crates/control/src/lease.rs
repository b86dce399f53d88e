//! One controller measures on a machine at a time, also when each has an agent process of its own there.
//! Knows nothing of what the lease allows.
//!
//! The lease is an abstract Unix socket (unix(7)): its name belongs to one network namespace, which is what test
//! traffic shares too, and vanishes with the process, however that ends. Who holds it answers every connection with
//! a line that says so. Agents of one controller share the lease: both ends of a trial may be on one machine. What makes two of
//! them one controller's is its random name, so nobody is told more of it than a digest: anybody may ask who measures.
//!
//! Any user can bind any name, so a holder counts only if it is root's or this user's, as the kernel tells
//! (SO_PEERCRED). There are several names: where a stranger has one the next is taken, and all of them are looked at.
//! Where strangers have them all there is no lease, and nobody measures: two controllers would not see each other.

use std::fs;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::line::LineReader;
use crate::message::Holder;
use crate::noise::digest;

/// The right to measure. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    /// The name that is bound.
    name: String,
    released: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Connects to the abstract socket of this name without waiting, and tells which user listens there. An agent has it
/// from the system's calls, which this crate does not make.
pub type Connect = fn(&str) -> io::Result<(UnixStream, u32)>;

/// Why there is no lease; one sentence, ending in what to try.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another controller measures.
    #[error("{} has been measuring here for {since_s} s; wait until it is done, or stop it", holder.name)]
    Busy {
        /// Who.
        holder: Holder,
        /// For how long, seconds.
        since_s: u64,
    },
    /// Something holds the name and does not say who it is.
    #[error("a program that does not say who it is holds this machine's lease; 'ss -xlp | grep {name}' finds it")]
    Silent {
        /// The name of the abstract socket.
        name: String,
    },
    /// Other users' processes hold all of the names.
    #[error(
        "this machine's lease is not to be had: processes of {} hold all of its names; 'ss -xlp | grep {name}' finds them, end them",
        users(of)
    )]
    Squatted {
        /// The first of the names of the abstract sockets.
        name: String,
        /// Whose they are, as far as they take connections.
        of: Vec<u32>,
    },
    /// The others who ask could not be told a holder like this.
    #[error("the holder's {what} has {len} bytes, and at most {most} are allowed; take a shorter one")]
    TooLong {
        /// Which of its texts.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The longest.
        most: usize,
    },
    /// The system said no.
    #[error("the machine's lease cannot be had: {0}; try again")]
    Io(#[from] io::Error),
}

/// The name of a machine's lease.
const NAME: &str = "linerate-lease";

/// The longest texts of a holder. An answer fits the buffer of a socket, and the client's line ([`LONGEST_ANSWER`]).
const LONGEST_CONTROLLER: usize = 200;
const LONGEST_NAME: usize = 1000;
const LONGEST_BENCH: usize = 200;
const LONGEST_ANSWER: usize = 64 * 1024;

/// What the holder answers.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    /// With the digest of its name for agents.
    holder: Holder,
    since_s: u64,
}

/// How long a holder has to answer; it does nothing else.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// How many names there are. A user may bind thousands, so no number is enough, and looking at each takes time.
const NAMES: usize = 16;

/// What is found at one of the names.
enum Found {
    /// Nobody.
    Free,
    /// Somebody who does not count: this user, if it takes connections.
    Stranger(Option<u32>),
    /// A holder.
    Holder(Answer),
    /// Somebody who counts, and does not say who it is.
    Silent,
}

impl Lease {
    /// Takes the lease of this machine (of this network namespace).
    pub fn take(holder: &Holder, connect: Connect) -> Result<Lease, LeaseError> {
        Lease::take_named(NAME, holder, connect)
    }

    /// Takes the lease of another name; for tests.
    pub fn take_named(name: &str, holder: &Holder, connect: Connect) -> Result<Lease, LeaseError> {
        let bench = holder.fence.as_ref().map_or("", |fence| &fence.bench);
        let texts = [
            ("controller", holder.controller.as_str(), LONGEST_CONTROLLER),
            ("name", &holder.name, LONGEST_NAME),
            ("bench", bench, LONGEST_BENCH),
        ];
        if let Some((what, text, most)) = texts.into_iter().find(|(_, text, most)| text.len() > *most) {
            return Err(LeaseError::TooLong { what, len: text.len(), most });
        }
        // The owner of a process's folder is its effective user (proc(5)).
        let user = fs::metadata("/proc/self")?.uid();
        let names: Vec<String> = (0..NAMES).map(|at| name_at(name, at)).collect();
        let told = Holder { controller: digest(&holder.controller), ..holder.clone() };
        let free_but = |mine: Option<&String>| {
            let (mut free, mut of) = (None, Vec::new());
            for name in names.iter().filter(|name| Some(*name) != mine) {
                match find(name, user, connect)? {
                    Found::Free => free = free.or(Some(name.clone())),
                    Found::Stranger(user) => of.extend(user.filter(|user| !of.contains(user))),
                    Found::Holder(Answer { holder: other, since_s }) if other.controller != told.controller => {
                        return Err(LeaseError::Busy { holder: other, since_s });
                    }
                    Found::Holder(_) => {}
                    Found::Silent => return Err(LeaseError::Silent { name: name.clone() }),
                }
            }
            Ok((free, of))
        };
        // Another may take what was free just now.
        for _ in 0..20 {
            let (free, of) = free_but(None)?;
            let Some(free) = free else { return Err(LeaseError::Squatted { name: name.to_owned(), of }) };
            let listener = match bind(&free) {
                Ok(listener) => listener,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                Err(error) => return Err(error.into()),
            };
            // A stranger may have left another name to another controller meanwhile: of two, one at least sees the other.
            free_but(Some(&free))?;
            return Lease::hold(free, told, listener);
        }
        Err(LeaseError::Silent { name: name.to_owned() })
    }

    /// Who measures on this machine, with the digest of its name for agents, and for how many seconds; `None`: nobody.
    pub fn holder(connect: Connect) -> io::Result<Option<(Holder, u64)>> {
        let user = fs::metadata("/proc/self")?.uid();
        for at in 0..NAMES {
            if let Found::Holder(Answer { holder, since_s }) = find(&name_at(NAME, at), user, connect)? {
                return Ok(Some((holder, since_s)));
            }
        }
        Ok(None)
    }

    fn hold(name: String, told: Holder, listener: UnixListener) -> Result<Lease, LeaseError> {
        let released = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&released);
        let since = Instant::now();
        let answer = move || answer_all(&listener, &told, since, &flag);
        let thread = crate::start_thread("linerate-lease", answer)?;
        Ok(Lease { name, released, thread: Some(thread) })
    }
}

/// Whose processes, in a sentence.
fn users(of: &[u32]) -> String {
    match of {
        [] => "another user".to_owned(),
        [one] => format!("the user with the uid {one}"),
        all => format!("the users with the uids {}", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The names that belong to one.
fn name_at(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}-{at}") }
}

/// What is at a name. A user's own processes and root's count.
fn find(name: &str, user: u32, connect: Connect) -> io::Result<Found> {
    let deadline = Instant::now() + ANSWER_TIME;
    loop {
        match connect(name) {
            Ok((_, other)) if other != 0 && other != user => return Ok(Found::Stranger(Some(other))),
            Ok((stream, _)) => match ask(stream) {
                Some(answer) => return Ok(Found::Holder(answer)),
                // It may have ended while it was asked; then nobody is there.
                None if matches!(connect(name), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused) => {
                    return Ok(Found::Free);
                }
                None => return Ok(Found::Silent),
            },
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Found::Free),
            // A holder accepts every connection at once; a process that does not is no holder.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() >= deadline => {
                return Ok(Found::Stranger(None));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.released.store(true, Ordering::Release);
        // The thread waits in accept(2), which a connection wakes; only when it has ended is the name free.
        while !thread.is_finished() {
            let _ = address(&self.name).and_then(|address| UnixStream::connect_addr(&address));
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

fn bind(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&address(name)?)
}

fn answer_all(listener: &UnixListener, holder: &Holder, since: Instant, released: &AtomicBool) {
    for stream in listener.incoming() {
        if released.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut stream) = stream else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let answer = Answer { holder: holder.clone(), since_s: since.elapsed().as_secs() };
        let mut line = serde_json::to_vec(&answer).expect("an answer is strings and a number");
        line.push(b'\n');
        // A stranger that does not read gets what fits the socket's buffer and holds nobody up.
        let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&line));
    }
}

fn ask(stream: UnixStream) -> Option<Answer> {
    stream.set_read_timeout(Some(ANSWER_TIME)).ok()?;
    let line = LineReader::new(stream, LONGEST_ANSWER).next_line().ok()??;
    serde_json::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(controller: &str) -> Holder {
        Holder { controller: controller.to_owned(), name: format!("user of {controller}"), fence: None }
    }

    fn name(test: &str) -> String {
        format!("linerate-test-{test}-{}", std::process::id())
    }

    /// As the agent does; std alone cannot tell whose the other end is.
    const CONNECT: Connect = linerate_host::sys::local::connect;

    fn take(name: &str, controller: &str) -> Result<Lease, LeaseError> {
        Lease::take_named(name, &holder(controller), CONNECT)
    }

    #[test]
    fn a_second_controller_is_told_who_measures() {
        let name = name("busy");
        let lease = take(&name, "a").unwrap();
        let shared = take(&name, "a").unwrap();
        let error = take(&name, "b").unwrap_err();
        assert!(matches!(error, LeaseError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("user of a has been measuring here for 0 s"), "{error}");
        drop(lease);
        assert!(take(&name, "b").is_err(), "the second agent still measures");
        let lease = take(&name, "a").unwrap();
        drop(shared);
        assert!(take(&name, "b").is_err());
        drop(lease);
        let _next = take(&name, "b").expect("the lease was given back");
    }

    #[test]
    fn what_is_told_of_a_holder_is_no_right_to_its_lease() {
        let name = name("told");
        let _lease = take(&name, "a").unwrap();
        let user = fs::metadata("/proc/self").unwrap().uid();
        let Found::Holder(Answer { holder, .. }) = find(&name, user, CONNECT).unwrap() else { panic!("it is held") };
        assert_eq!((holder.controller == "a", holder.name.as_str()), (false, "user of a"));
        assert!(matches!(take(&name, &holder.controller), Err(LeaseError::Busy { .. })));
    }

    #[test]
    fn a_holder_that_others_could_not_be_told_is_none() {
        let some = name("long");
        // Of those that are allowed, one whose answer is the longest: each of these is six bytes in JSON.
        let longest = Holder { controller: "x".repeat(200), name: "\u{1}".repeat(1000), fence: None };
        let lease = Lease::take_named(&some, &longest, CONNECT).unwrap();
        let error = take(&some, "b").unwrap_err();
        assert!(matches!(&error, LeaseError::Busy { holder, .. } if holder.name == longest.name), "{error}");
        drop(lease);
        let controller = Holder { controller: "x".repeat(201), ..longest.clone() };
        let named = Holder { name: "x".repeat(1001), ..longest };
        for (holder, what) in [(controller, "controller has 201 bytes"), (named, "name has 1001 bytes")] {
            let error = Lease::take_named(&some, &holder, CONNECT).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }

    #[test]
    fn a_squatter_that_says_nothing_is_noticed() {
        let name = name("silent");
        let _squatter = bind(&name).unwrap();
        let error = take(&name, "a").unwrap_err();
        assert!(matches!(error, LeaseError::Silent { .. }), "{error}");
    }

    #[test]
    fn of_many_at_once_one_has_it() {
        for round in 0..20 {
            let name = name(&format!("many-{round}"));
            let taken: Vec<_> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..6).map(|at| (at, name.clone())).collect();
                let running: Vec<_> =
                    all.into_iter().map(|(at, name)| scope.spawn(move || take(&name, &at.to_string()))).collect();
                running.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let held = taken.iter().filter(|one| one.is_ok()).count();
            assert!(held <= 1, "{held} hold it");
        }
    }

    /// Another user's process that listens at these names and answers as a holder would.
    struct Squatter(std::process::Child);

    impl Drop for Squatter {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    const SQUATTER: &str = "LINERATE_LEASE_SQUATTER";

    /// No test by itself: this program again, as another user.
    #[test]
    fn squat() {
        let Ok(name) = std::env::var(SQUATTER) else { return };
        let (prefix, count) = name.split_once(' ').unwrap();
        let answer = "{\"holder\":{\"controller\":\"x\",\"name\":\"nobody\"},\"since_s\":9}\n";
        for at in 0..count.parse().unwrap() {
            let name = if at == 0 { prefix.to_owned() } else { format!("{prefix}-{at}") };
            let listener = bind(&name).unwrap();
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
        println!("squats");
        // Bounded, should nobody end it.
        std::thread::sleep(Duration::from_secs(60));
    }

    fn squatter(name: &str, count: usize) -> Squatter {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::CommandExt;
        // Where another user may start it, and as a file of its own: the build's folder may be this user's alone.
        let program = std::env::temp_dir().join(format!("linerate-squatter-{}-{count}", std::process::id()));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = std::process::Command::new(&program);
        command.args(["lease::tests::squat", "--exact", "--nocapture"]).env(SQUATTER, format!("{name} {count}"));
        command.current_dir("/").uid(65534).gid(65534).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let squats = said.lines().map_while(Result::ok).any(|line| line.contains("squats"));
        let squatter = Squatter(child);
        let _ = fs::remove_file(&program);
        assert!(squats);
        squatter
    }

    #[test]
    fn another_users_process_holds_no_lease() {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            eprintln!("SKIPPED another_users_process_holds_no_lease: only root can be another user");
            return;
        }
        let some = name("squatted");
        let _squatter = squatter(&some, 3);
        let lease = take(&some, "a").expect("root's own lease");
        let error = take(&some, "b").unwrap_err();
        assert!(error.to_string().contains("user of a has been measuring"), "{error}");
        drop(lease);
        drop(take(&some, "b").expect("the lease was given back"));

        let all = name("all-squatted");
        let _squatter = squatter(&all, NAMES);
        let error = take(&all, "a").unwrap_err();
        assert!(matches!(&error, LeaseError::Squatted { of, .. } if *of == [65534]), "{error}");
        assert!(
            error.to_string().contains("processes of the user with the uid 65534 hold all of its names"),
            "{error}"
        );
    }

    #[test]
    fn one_that_takes_no_connection_holds_nobody_up() {
        let name = name("full");
        let listener = bind(&name).unwrap();
        // Until no more fit: std listens for 128 and a few.
        let mut waiting = Vec::new();
        let full = loop {
            match CONNECT(&name) {
                Ok(stream) if waiting.len() < 10_000 => waiting.push(stream),
                Ok(_) => break false,
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        if full {
            let began = Instant::now();
            drop(take(&name, "a").unwrap());
            assert!(began.elapsed() < 20 * ANSWER_TIME);
        }
        drop(listener);
    }
}
