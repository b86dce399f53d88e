//! Places for tests: so many of each server transfer at once, with one limit of memory for all servers together.
//! Knows no protocol.
//!
//! A test that transfers nothing takes no place of those that do, and where there are too many of them, the one that is idle
//! longest gives way: a client that opens half a test, or goes silent in the midst of one, keeps nobody out. Of those that
//! transfer, the slowest of the address that has the most gives way to who has less: a client that trickles keeps out its own
//! address at the most. Those of datagrams alone give way to every test whose client has proved its address.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_host::traffic::Progress;
use linerate_machine::sync::{Condvar, Mutex};
use linerate_trial::admission::party;
use linerate_trial::flow::Flow;
use linerate_trial::spec::{MAX_DATAGRAM, Spec};
use linerate_trial::tool::Tool;

/// A test that transfers nothing for so long is idle; what it transfers is told three times as often.
const IDLE_TIME: Duration = Duration::from_millis(300);
/// Fewer bytes from one time to the next are no transfer.
const LEAST_PROGRESS: u64 = 100;
/// How many tests of a server may be idle, or have not begun.
const MOST_IDLE: usize = 48;
/// How long a test that comes waits until another is over, or gives way to it; and how often it looks.
const LEAVING_TIME: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What a stream takes beside its messages: its threads, a receiver's buffer, and the kernel's own of its socket.
const STREAM: u64 = 1 << 20;

/// The most bytes of memory that tests take, where nobody says otherwise.
const USUAL_MEMORY: u64 = 768 << 20;

/// One limit of memory, and the tests that take of it; clones are the same one.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: u64,
    inside: Mutex<Inside>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    count: u64,
    /// Tests that wait for others to give way.
    waiting: usize,
    /// Those of them whose clients have proved their addresses: no other test takes the places that become free for them.
    proven_waiting: usize,
    tests: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    number: u64,
    server: Tool,
    /// Whose tests count together.
    party: IpAddr,
    memory: u64,
    /// Whether its client has an address that answered. Datagrams that come prove nothing: each may be forged.
    proven: bool,
    bytes: u64,
    began: Instant,
    active: Instant,
    over: bool,
    evicted: bool,
    control: Option<TcpStream>,
}

impl Running {
    /// Whether it counts among those that may transfer.
    fn transfers(&self) -> bool {
        self.bytes > 0 && !self.is_idle()
    }

    fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.began.elapsed().as_secs_f64()
    }

    /// Whether it has had its time to transfer something, or something more.
    fn is_idle(&self) -> bool {
        self.over || self.active.elapsed() >= IDLE_TIME
    }
}

/// What a test asks of the places.
#[derive(Clone, Copy, Debug)]
pub struct TestDemand<'a> {
    /// The server's tool: each has places of its own.
    pub server: Tool,
    /// Where the client is.
    pub peer: IpAddr,
    /// How many may transfer at once.
    pub most: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Whether the client's address has answered: that of datagrams may be forged.
    pub proven: bool,
    /// What is closed when the test has to give way.
    pub control: Option<&'a TcpStream>,
}

/// A test's place and memory, free again when the value goes.
#[derive(Debug)]
pub struct TestPermit {
    budget: MemoryBudget,
    number: u64,
}

impl Default for MemoryBudget {
    fn default() -> MemoryBudget {
        MemoryBudget::new(USUAL_MEMORY)
    }
}

impl MemoryBudget {
    /// This many bytes for all tests together.
    pub fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget(Arc::new(Shared { most: bytes, inside: Mutex::default(), left: Condvar::new() }))
    }

    /// A place and memory, if there are some, or a test has them that gives way.
    pub fn take(&self, wanted: TestDemand<'_>) -> Option<TestPermit> {
        let until = Instant::now() + LEAVING_TIME;
        let control = wanted.control.and_then(|control| control.try_clone().ok());
        let mut inside = self.0.inside.lock();
        loop {
            let (moving, idle): (Vec<&Running>, Vec<&Running>) =
                inside.tests.iter().filter(|test| test.server == wanted.server).partition(|test| test.transfers());
            let memory: u64 = inside.tests.iter().map(|test| test.memory).sum();
            // All that have just begun count as one: who opens them and transfers nothing keeps nobody out.
            let begins = usize::from(idle.iter().any(|test| !test.is_idle()));
            let promised = if wanted.proven { 0 } else { inside.proven_waiting };
            let is_full = moving.len() + begins + promised >= wanted.most;
            let is_crowded = idle.len() >= MOST_IDLE;
            let is_short = memory.saturating_add(wanted.memory) > self.0.most;
            if !is_full && !is_crowded && !is_short {
                inside.count += 1;
                let number = inside.count;
                inside.tests.push(Running {
                    number,
                    server: wanted.server,
                    party: party(wanted.peer),
                    memory: wanted.memory,
                    proven: wanted.proven,
                    bytes: 0,
                    began: Instant::now(),
                    active: Instant::now(),
                    over: false,
                    evicted: false,
                    control,
                });
                return Some(TestPermit { budget: self.clone(), number });
            }
            let waiting = inside.waiting;
            let counts = |test: &&Running| is_short || test.server == wanted.server;
            let mut others: Vec<&Running> = inside.tests.iter().filter(counts).collect();
            // Those that give way already are for those that wait already.
            if others.iter().filter(|test| test.evicted).count() <= waiting {
                others.retain(|test| !test.evicted);
                let overload = if is_full { Some(Overload::Tests) } else { is_short.then_some(Overload::Memory) };
                let gives_way = idle_of(&others, &wanted, is_full)
                    .or_else(|| overload.and_then(|overload| overload.slowest_of(&others, &wanted)));
                match gives_way.map(|test| test.number) {
                    Some(number) => inside.evict(number),
                    // Those that transfer go on, for nobody knows how long.
                    None if is_full => return None,
                    None => {}
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inside.waiting += 1;
            inside.proven_waiting += usize::from(wanted.proven);
            inside = self.0.left.wait_timeout(inside, left.min(LOOK_AGAIN));
            inside.waiting -= 1;
            inside.proven_waiting -= usize::from(wanted.proven);
        }
    }
}

impl Inside {
    fn evict(&mut self, number: u64) {
        let Some(test) = self.tests.iter_mut().find(|test| test.number == number) else { return };
        test.evicted = true;
        if let Some(control) = &test.control {
            let _ = control.shutdown(Shutdown::Both);
        }
    }
}

/// Of these tests the one that is idle longest. Where too many transfer, only who may be forged gives way, and only to who
/// cannot be.
fn idle_of<'a>(tests: &[&'a Running], wanted: &TestDemand<'_>, is_full: bool) -> Option<&'a Running> {
    let is_forged = |test: &Running| wanted.proven && !test.proven;
    let idle = tests.iter().copied().filter(|test| is_forged(test) || (!is_full && test.is_idle()));
    idle.min_by_key(|test| (!test.over, test.active))
}

/// Of what tests that transfer have too much.
#[derive(Clone, Copy)]
enum Overload {
    Tests,
    Memory,
}

impl Overload {
    /// The slowest test of the party that has the most, if that is more than the newcomer's has with the one it wants: a place
    /// goes from who has many to who has few, and never back. Who may be forged has nobody's.
    fn slowest_of<'a>(self, tests: &[&'a Running], wanted: &TestDemand<'_>) -> Option<&'a Running> {
        let weight = |memory| match self {
            Overload::Tests => 1,
            Overload::Memory => memory,
        };
        let moving = || tests.iter().copied().filter(|test| test.transfers());
        let mut parties: HashMap<IpAddr, u64> = HashMap::new();
        for test in moving() {
            *parties.entry(test.party).or_default() += weight(test.memory);
        }
        let own = parties.get(&party(wanted.peer)).copied().unwrap_or_default();
        let (crowded, most) = parties.into_iter().max_by_key(|(_, holds)| *holds)?;
        let may = wanted.proven && most > own.saturating_add(weight(wanted.memory));
        let slowest = moving().filter(|test| test.party == crowded);
        slowest.min_by(|one, other| one.bytes_per_s().total_cmp(&other.bytes_per_s())).filter(|_| may)
    }
}

impl TestPermit {
    /// Whether the test is to end, because another has come to which it gives way.
    pub fn is_evicted(&self) -> bool {
        self.with(|test| test.evicted)
    }

    /// The test transfers nothing any more, and gives way to any that comes.
    pub fn set_over(&self) {
        if let Some(test) = self.budget.0.inside.lock().tests.iter_mut().find(|test| test.number == self.number) {
            test.over = true;
        }
    }

    /// Bytes that the test has transferred, as far as its trials told.
    pub fn bytes(&self) -> u64 {
        self.with(|test| test.bytes)
    }

    /// What hears how far a trial of the test is.
    pub fn progress(&self) -> impl Fn(Progress) + Send + 'static {
        let (budget, number, last) = (self.budget.clone(), self.number, Mutex::new([0; 2]));
        move |progress| {
            let now = [progress.octets_sent, progress.octets_received];
            let last = &mut *last.lock();
            let [sent, received] = [0, 1].map(|way| now[way].saturating_sub(last[way]));
            *last = now;
            if let Some(test) = budget.0.inside.lock().tests.iter_mut().find(|test| test.number == number) {
                test.bytes += sent + received;
                if sent + received >= LEAST_PROGRESS {
                    (test.active, test.over) = (Instant::now(), false);
                }
            }
        }
    }

    fn with<T>(&self, of: impl FnOnce(&Running) -> T) -> T {
        let inside = self.budget.0.inside.lock();
        let test = inside.tests.iter().find(|test| test.number == self.number);
        of(test.expect("a place is there until its value goes"))
    }
}

impl Drop for TestPermit {
    fn drop(&mut self) {
        self.budget.0.inside.lock().tests.retain(|test| test.number != self.number);
        self.budget.0.left.notify_all();
    }
}

/// Bytes of memory that a test takes while it goes.
pub fn memory_of(spec: &Spec) -> u64 {
    let message = if spec.workload.is_stream() {
        spec.message_octets()
    } else {
        spec.request_size.saturating_add(spec.response_size)
    };
    // Datagrams are kept until a trial has threads for them, up to a limit that counts as the stream's.
    let message = if spec.workload.is_udp() { message.min(MAX_DATAGRAM) } else { message };
    Flow::of(spec).len() as u64 * (STREAM + u64::from(message))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use linerate_trial::spec::Workload;

    use super::*;

    fn wanted(server: Tool, most: usize, memory: u64) -> TestDemand<'static> {
        TestDemand { server, peer: [192, 0, 2, 1].into(), most, memory, proven: true, control: None }
    }

    fn progress(sent: u64, received: u64) -> Progress {
        Progress { elapsed_ns: 1, octets_sent: sent, octets_received: received, lost_too_much: false }
    }

    fn transferring(budget: &MemoryBudget, wanted: TestDemand) -> TestPermit {
        let place = budget.take(wanted).unwrap();
        place.progress()(progress(1, 999));
        place
    }

    fn age(budget: &MemoryBudget, place: &TestPermit) {
        let mut inside = budget.0.inside.lock();
        let test = inside.tests.iter_mut().find(|test| test.number == place.number).unwrap();
        test.active = test.active.checked_sub(IDLE_TIME * 2).unwrap();
    }

    /// A place that is given up when it is taken away.
    fn take_from(place: TestPermit, budget: &MemoryBudget, wanted: TestDemand) -> Option<TestPermit> {
        thread::scope(|scope| {
            let taken = scope.spawn(|| budget.take(wanted));
            while !place.is_evicted() && !taken.is_finished() {
                thread::yield_now();
            }
            assert!(place.is_evicted(), "it has to give way");
            drop(place);
            taken.join().unwrap()
        })
    }

    #[test]
    fn servers_have_places_of_their_own_and_memory_together() {
        let budget = MemoryBudget::new(100);
        let one = transferring(&budget, wanted(Tool::Iperf3, 1, 60));
        assert!(budget.take(wanted(Tool::Iperf3, 1, 0)).is_none(), "no place");
        assert!(budget.take(wanted(Tool::Nuttcp, 1, u64::MAX)).is_none(), "no memory");
        let other = budget.clone().take(wanted(Tool::Nuttcp, 1, 40)).unwrap();
        drop((one, other));
        assert!(budget.0.inside.lock().tests.is_empty());
    }

    #[test]
    fn an_idle_test_takes_no_place_and_gives_its_memory() {
        let budget = MemoryBudget::new(100);
        let [busy, idle] = [0, 1].map(|_| transferring(&budget, wanted(Tool::Iperf3, 2, 50)));
        age(&budget, &idle);
        assert!(budget.take(wanted(Tool::Iperf3, 2, 0)).is_some(), "one of two transfers");
        age(&budget, &busy);
        busy.progress()(progress(0, 99));
        assert!(!budget.0.inside.lock().tests[0].transfers(), "that is nothing");
        busy.progress()(progress(1, 1998));
        assert_eq!((busy.bytes(), idle.bytes()), (1000 + 99 + 1999, 1000));
        assert!(take_from(idle, &budget, wanted(Tool::Nuttcp, 1, 20)).is_some(), "for its memory");
        assert!(!busy.is_evicted());
    }

    #[test]
    fn of_many_idle_ones_the_longest_gives_way() {
        let budget = MemoryBudget::new(100);
        let mut all: Vec<TestPermit> =
            (0..MOST_IDLE).map(|_| budget.take(wanted(Tool::Iperf3, 2, 0)).unwrap()).collect();
        assert!(budget.take(wanted(Tool::Nuttcp, 1, 0)).is_some());
        let longest = all.remove(0);
        assert!(take_from(longest, &budget, wanted(Tool::Iperf3, 2, 0)).is_some());
    }

    #[test]
    fn a_test_of_forged_datagrams_gives_way_to_one_that_answered() {
        let budget = MemoryBudget::new(100);
        let forged = TestDemand { proven: false, ..wanted(Tool::Iperf3, 1, 10) };
        let place = budget.take(forged).unwrap();
        place.progress()(progress(1 << 20, 0));
        assert!(take_from(place, &budget, wanted(Tool::Iperf3, 1, 10)).is_some(), "what is sent to it proves nothing");
        let stream = transferring(&budget, forged);
        assert!(take_from(stream, &budget, wanted(Tool::Iperf3, 1, 10)).is_some(), "nor what came in its name");
        let stream = transferring(&budget, forged);
        assert!(budget.take(forged).is_none(), "one forged client displaces no other");
        stream.set_over();
        assert!(budget.take(forged).is_some(), "it is over");
    }

    #[test]
    fn a_place_that_becomes_free_goes_to_who_waits_for_it() {
        let budget = MemoryBudget::new(100);
        let forged = TestDemand { proven: false, ..wanted(Tool::Iperf3, 1, 10) };
        let place = transferring(&budget, forged);
        budget.0.inside.lock().proven_waiting = 1;
        drop(place);
        assert!(budget.take(forged).is_none(), "it is promised");
        assert!(budget.take(wanted(Tool::Iperf3, 1, 10)).is_some());
    }

    #[test]
    fn the_slowest_of_who_has_the_most_gives_way_to_who_has_less() {
        let budget = MemoryBudget::new(100);
        let from = |last, memory| TestDemand { peer: [192, 0, 2, last].into(), ..wanted(Tool::Iperf3, 3, memory) };
        let [fast, slow] = [0, 1].map(|_| transferring(&budget, from(1, 30)));
        fast.progress()(progress(0, 1 << 20));
        let other = transferring(&budget, from(2, 20));
        assert!(budget.take(from(1, 0)).is_none(), "who has the most has no more");
        assert!(budget.take(from(2, 0)).is_none(), "nor who would have as many");
        assert!(budget.take(TestDemand { proven: false, ..from(3, 0) }).is_none(), "nor who may be forged");
        let third = take_from(slow, &budget, from(3, 20)).expect("a place");
        third.progress()(progress(0, 1000));
        assert!(budget.take(from(4, 0)).is_none(), "each has one");
        assert!(!fast.is_evicted() && !other.is_evicted());
        // The same of memory, also for another server.
        let large = transferring(&budget, TestDemand { server: Tool::Nuttcp, ..from(1, 30) });
        let wanted = TestDemand { server: Tool::Netperf, ..from(4, 30) };
        assert!(take_from(large, &budget, wanted).is_some(), "memory");
    }

    #[test]
    fn what_a_test_takes_is_known_before_it_takes_it() {
        let mut spec = Spec::new(Workload::TcpStream);
        (spec.streams, spec.message_size) = (128, Some(2 << 20));
        assert_eq!(memory_of(&spec), 128 * (3 << 20));
        let spec = Spec { request_size: 4 << 20, response_size: 4 << 20, ..Spec::new(Workload::TcpRr) };
        assert_eq!(memory_of(&spec), 9 << 20);
    }
}
