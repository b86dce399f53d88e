//! A fleet in virtual time: the core that real workers have, over a queue in memory, with campaigns, agents, a store and faults by a
//! seed. What must hold is asserted as it happens and at the end.
//!
//! What a child is: a campaign that asks the bench's agent for its lease, carries out trial after trial, and stores each. What an
//! agent is: one holder at a time, which it forgets after 10 s of silence, and no fence smaller than the greatest it has seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use linerate_work::{
    Action, Bench, Broker, Bucket, CampaignEnd, Job, JobRecord, JobState, LeaseCard, Memory, Priority, Start, Times,
    Timing, Worker, cancel, submit,
};

/// How large, how long, how bad.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub benches: usize,
    pub workers: usize,
    pub jobs: usize,
    pub trials: u32,
    pub trial_ms: u64,
    /// Faults in all.
    pub faults: usize,
    /// Machines stand still, and nothing else fails.
    pub only_freezes: bool,
    /// What fails for all, the queue and the store, is well for so long at least before it fails again: faults are by campaigns, and
    /// a large fleet has so many a minute that it would never measure.
    pub peace_ms: u64,
    /// Whether agents look at fences.
    pub is_fenced: bool,
    /// Whether campaigns end by themselves when they do not hear of their lease, and workers end those whose lease is old.
    pub is_guarded: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub virtual_ms: u64,
    pub steps: u64,
    pub done: usize,
    pub dead: usize,
    pub cancelled: usize,
    pub faults: usize,
    pub refused_by_fence: usize,
    pub stored_twice: usize,
    pub overlaps: usize,
}

pub const LEASE_MS: u64 = 30_000;
/// An agent bears so long a silence.
const SILENCE_MS: u64 = 10_000;
/// After its holder's death a bench is free.
const FREE_MS: u64 = 60_000;
const CONNECT_MS: u64 = 300;
const STOP_MS: u64 = 800;
/// A morning in November 2026.
const EPOCH_MS: i64 = 1_795_500_000_000;

/// By a seed (Steele, Lea, Flood 2014).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Step(usize),
    /// Of a worker's child, by its token.
    Child(usize, u64),
    Submit(usize),
    Fault,
    /// A worker's machine, process, or way to the queue is well again.
    Well(usize),
    BrokerUp,
    /// The bench of a dead holder, and which.
    Free(usize, u64),
}

struct Place {
    core: Worker,
    name: u64,
    children: BTreeMap<u64, Child>,
    /// Until then: no process, no time, no way to the queue.
    dead_until: u64,
    frozen_until: u64,
    cut_until: u64,
    step_at: u64,
}

struct Child {
    start: Box<Start>,
    number: usize,
    bench: usize,
    phase: Phase,
    heard_ms: u64,
    /// The trial under way: index and beginning.
    trial: Option<(u32, u64)>,
    /// Its worker is there, and hears of its end.
    has_parent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Connects,
    Measures,
    /// Asked to end; it does at this time.
    Ends(u64),
}

#[derive(Default)]
struct Agent {
    holder: Option<(u64, u64)>,
    fence: u64,
    /// The end of the last trial that anybody carried out there.
    busy_until: u64,
}

pub struct World {
    shape: Shape,
    chance: Chance,
    now: u64,
    queue: Memory,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    places: Vec<Place>,
    agents: Vec<Agent>,
    store: HashMap<usize, (u64, bool)>,
    store_down_until: u64,
    /// Before then nothing fails for all.
    peace_until: u64,
    next_token: u64,
    submitted: usize,
    report: Report,
}

fn bench(number: usize) -> Bench {
    Bench::parse(&format!("name = 'b{number}'\ntarget = 'local'")).expect("a bench")
}

fn id(number: usize) -> String {
    format!("{number:026}")
}

fn job(shape: &Shape, number: usize) -> Job {
    Job {
        id: id(number),
        group: id(0),
        bench: format!("b{}", number % shape.benches),
        user: format!("u{}", number / shape.benches % 3),
        plan: "p".to_owned(),
        source: String::new(),
        sets: Vec::new(),
        seed: None,
        repeat: None,
        priority: Priority::ALL[number % 3],
        not_before_s: None,
        attempts: 20,
        submitted_ms: EPOCH_MS,
    }
}

/// Carries it out.
pub fn run(shape: Shape) -> Report {
    let mut world = World::new(shape);
    world.begin();
    while let Some(Reverse((at, _, event))) = world.heap.pop() {
        world.now = at;
        world.queue.now_ms = at;
        world.happens(event);
        if world.submitted == shape.jobs
            && world.queue.unsettled() == 0
            && world.places.iter().all(|place| place.core.is_idle() && place.children.is_empty())
        {
            break;
        }
        let most = 1000 * (shape.jobs as u64 + 10) * u64::from(shape.trials + 5) * shape.trial_ms;
        assert!(at < most + 7_200_000, "seed {}: it does not come to its end: {:?}", shape.seed, world.report);
    }
    world.judge();
    world.report
}

impl World {
    fn new(shape: Shape) -> World {
        assert!(shape.trials <= 64);
        let agents = (0..shape.benches).map(|_| Agent::default()).collect();
        World {
            shape,
            chance: Chance::new(shape.seed),
            now: 0,
            queue: Memory::new(LEASE_MS),
            heap: BinaryHeap::new(),
            order: 0,
            places: Vec::new(),
            agents,
            store: HashMap::new(),
            store_down_until: 0,
            peace_until: 0,
            next_token: 1,
            submitted: 0,
            report: Report::default(),
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.heap.push(Reverse((at.max(self.now), self.order, event)));
    }

    fn core(&mut self, place: usize) -> (Worker, u64) {
        let shape = self.shape;
        // Each bench has two workers, where there are two.
        let of_place = |number: &usize| (number % shape.workers == place) || ((number + 1) % shape.workers == place);
        let benches: Vec<Bench> = (0..shape.benches).filter(of_place).map(bench).collect();
        self.next_token += 1;
        let at_once = benches.len().max(1);
        let timing = Timing { lease_ms: LEASE_MS };
        (Worker::new(&format!("w{place}-{}", self.next_token), "0", benches, at_once, timing), self.next_token)
    }

    fn begin(&mut self) {
        for place in 0..self.shape.workers {
            let (core, name) = self.core(place);
            let (children, step_at) = (BTreeMap::new(), 0);
            self.places.push(Place { core, name, children, dead_until: 0, frozen_until: 0, cut_until: 0, step_at });
            self.at(place as u64 * 7 % 5000, Event::Step(place));
        }
        self.at(1, Event::Submit(0));
        let span = self.span();
        for _ in 0..self.shape.faults {
            let at = self.chance.below(span);
            self.at(at, Event::Fault);
        }
    }

    /// About how long the jobs take, were there no faults.
    fn span(&self) -> u64 {
        let each = CONNECT_MS + u64::from(self.shape.trials) * self.shape.trial_ms + 2000;
        (self.shape.jobs as u64).div_ceil(self.shape.benches as u64) * each
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Step(place) => self.step(place),
            Event::Child(place, token) => self.child(place, token),
            Event::Submit(number) => self.submit(number),
            Event::Fault => self.fault(),
            Event::Well(place) => {
                let at = self.now;
                self.places[place].step_at = 0;
                let tokens: Vec<u64> = self.places[place].children.keys().copied().collect();
                tokens.into_iter().for_each(|token| self.at(at, Event::Child(place, token)));
                self.at(at, Event::Step(place));
            }
            Event::BrokerUp => self.queue.is_down = false,
            Event::Free(bench, name) => self.is_free(bench, name),
        }
    }

    /// Whoever has died does not have the bench any more.
    fn is_free(&mut self, bench: usize, name: u64) {
        let was_down = std::mem::take(&mut self.queue.is_down);
        let was_losing = std::mem::take(&mut self.queue.loses_next_answer);
        let lease = self.queue.get(Bucket::Leases, &format!("b{bench}")).expect("it is up");
        (self.queue.is_down, self.queue.loses_next_answer) = (was_down, was_losing);
        let card = lease.and_then(|entry| serde_json::from_slice::<LeaseCard>(&entry.value).ok());
        let still = card.is_some_and(|card| card.worker.ends_with(&format!("-{name}")));
        assert!(!still, "seed {}: bench {bench} is held {FREE_MS} ms after its holder died", self.shape.seed);
    }

    fn submit(&mut self, number: usize) {
        self.submitted = number;
        if number >= self.shape.jobs {
            return;
        }
        // A burst for all benches, then as fast as they are worked off.
        let burst = self.shape.benches * 3;
        let pause = if number < burst { 0 } else { (self.span() / self.shape.jobs as u64).max(1) };
        let job = job(&self.shape, number);
        match submit(&mut self.queue, &job) {
            Ok(()) => {
                let next = self.now + pause;
                self.at(next, Event::Submit(number + 1));
                if self.shape.faults > 0 && self.chance.below(50) == 0 {
                    // It may have been cancelled, or not, where the answer is lost: its end tells.
                    let _ = cancel(&mut self.queue, &job.id, "somebody");
                }
            }
            // Who submits tries again, with the same job.
            Err(_) => self.at(self.now + 500, Event::Submit(number)),
        }
    }

    fn step(&mut self, at: usize) {
        let now = self.now;
        let place = &mut self.places[at];
        if now < place.dead_until || now < place.frozen_until || (place.step_at > now) {
            return;
        }
        self.report.steps += 1;
        let was_down = self.queue.is_down;
        self.queue.is_down |= now < place.cut_until;
        let wall = EPOCH_MS + now as i64;
        let actions = place.core.step(&mut self.queue, Times { mono_ms: now, unix_ms: wall });
        self.queue.is_down = was_down;
        for action in actions {
            match action {
                Action::Start(start) => {
                    self.next_token += 1;
                    let token = self.next_token;
                    let number: usize = start.job.id.parse().expect("a number");
                    let bench = start.bench.name[1..].parse().expect("a number");
                    let (phase, heard_ms) = (Phase::Connects, now);
                    let child = Child { start, number, bench, phase, heard_ms, trial: None, has_parent: true };
                    self.places[at].children.insert(token, child);
                    self.at(now + CONNECT_MS, Event::Child(at, token));
                }
                Action::Renewed(id) => self.of_job(at, &id, |child, _| child.heard_ms = now),
                Action::Refused(_) => {}
                Action::Stop(_) | Action::Kill(_) if !self.shape.is_guarded => {}
                Action::Stop(id) => {
                    let token = self.token_of(at, &id);
                    self.of_job(at, &id, |child, _| child.phase = Phase::Ends(now + STOP_MS));
                    token.into_iter().for_each(|token| self.at(now + STOP_MS, Event::Child(at, token)));
                }
                Action::Kill(id) => {
                    if let Some(token) = self.token_of(at, &id) {
                        self.over(at, token, CampaignEnd::Stopped);
                    }
                }
            }
        }
        let next = self.places[at].core.next_step_ms().max(now + 1);
        self.places[at].step_at = next;
        self.at(next, Event::Step(at));
    }

    fn token_of(&self, at: usize, id: &str) -> Option<u64> {
        let of_job = |(_, child): &(&u64, &Child)| child.has_parent && child.start.job.id == id;
        self.places[at].children.iter().find(of_job).map(|(token, _)| *token)
    }

    fn of_job(&mut self, at: usize, id: &str, with: impl FnOnce(&mut Child, u64)) {
        if let Some(token) = self.token_of(at, id) {
            let child = self.places[at].children.get_mut(&token).expect("it is there");
            with(child, token);
        }
    }

    /// A child is gone: its agent sees the end of the conversation at once, and its worker hears of it.
    fn over(&mut self, at: usize, token: u64, came: CampaignEnd) {
        let Some(child) = self.places[at].children.remove(&token) else { return };
        let agent = &mut self.agents[child.bench];
        if agent.holder.is_some_and(|(holder, _)| holder == token) {
            agent.holder = None;
        }
        let place = &mut self.places[at];
        if child.has_parent && self.now >= place.dead_until {
            place.core.ended(&child.start.job.id, came);
            place.step_at = self.now;
            self.at(self.now, Event::Step(at));
        }
    }

    fn child(&mut self, at: usize, token: u64) {
        let (now, place) = (self.now, &self.places[at]);
        if now < place.frozen_until {
            return;
        }
        let Some(child) = place.children.get(&token) else { return };
        let (bench, number, fence) = (child.bench, child.number, child.start.fence);
        let alone = Timing { lease_ms: LEASE_MS }.stop_ms();
        match child.phase {
            Phase::Ends(at_ms) if now >= at_ms => return self.over(at, token, CampaignEnd::Stopped),
            Phase::Ends(_) => return,
            // Its own clock: it was told nothing for too long.
            _ if self.shape.is_guarded && now >= child.heard_ms + alone => {
                self.places[at].children.get_mut(&token).expect("it is there").phase = Phase::Ends(now + STOP_MS);
                return self.at(now + STOP_MS, Event::Child(at, token));
            }
            Phase::Connects => {}
            Phase::Measures => {
                let Some((index, began)) = child.trial else { return };
                if now < began + self.shape.trial_ms {
                    return;
                }
                // Frozen meanwhile: the conversation may be over. It asks for the lease anew, as for a machine that was booted.
                let has_it = self.agents[bench].holder.is_some_and(|(holder, _)| holder == token);
                if !has_it {
                    return self.connect(at, token);
                }
                if now < self.store_down_until {
                    return self.over(at, token, CampaignEnd::HandedBack("down".to_owned()));
                }
                let agent = &mut self.agents[bench];
                self.report.overlaps += usize::from(began < agent.busy_until);
                agent.busy_until = now;
                let (stored, _) = self.store.entry(number).or_default();
                self.report.stored_twice += usize::from(*stored & (1 << index) != 0);
                *stored |= 1 << index;
            }
        }
        if self.places[at].children[&token].phase == Phase::Connects {
            return self.connect(at, token);
        }
        self.next_trial(at, token, fence);
    }

    fn connect(&mut self, at: usize, token: u64) {
        let (now, child) = (self.now, &self.places[at].children[&token]);
        let (bench, fence) = (child.bench, child.start.fence);
        let agent = &mut self.agents[bench];
        // A holder is silent when its machine is frozen, or was switched off.
        let is_silent = |holder: u64, heard: u64| {
            let is_alive =
                self.places.iter().any(|place| place.children.contains_key(&holder) && now >= place.frozen_until);
            !is_alive && now >= heard + SILENCE_MS
        };
        if agent.holder.is_some_and(|(holder, heard)| holder != token && is_silent(holder, heard)) {
            agent.holder = None;
        }
        if agent.holder.is_some_and(|(holder, _)| holder != token) {
            return self.over(at, token, CampaignEnd::Failed("busy".to_owned()));
        }
        if self.shape.is_fenced && fence < agent.fence {
            self.report.refused_by_fence += 1;
            return self.over(at, token, CampaignEnd::Failed("stale".to_owned()));
        }
        agent.fence = agent.fence.max(fence);
        agent.holder = Some((token, now));
        let child = self.places[at].children.get_mut(&token).expect("it is there");
        // A trial that was under way when the conversation was lost is begun anew.
        let again = child.trial.map(|(index, _)| index);
        child.phase = Phase::Measures;
        child.trial = again.map(|index| (index, now));
        match again {
            Some(_) => self.at(now + self.shape.trial_ms, Event::Child(at, token)),
            None => self.next_trial(at, token, fence),
        }
    }

    fn next_trial(&mut self, at: usize, token: u64, _: u64) {
        let (now, number) = (self.now, self.places[at].children[&token].number);
        if now < self.store_down_until {
            return self.over(at, token, CampaignEnd::HandedBack("down".to_owned()));
        }
        let (stored, is_finished) = self.store.entry(number).or_default();
        let child = self.places[at].children.get_mut(&token).expect("it is there");
        // What is in the store is read once, at the beginning; a campaign does not ask again what it has done.
        let after = child.trial.map_or(0, |(index, _)| index + 1);
        let next = match child.trial {
            None => (0..self.shape.trials).find(|index| *stored & (1 << index) == 0),
            Some(_) => Some(after).filter(|index| *index < self.shape.trials),
        };
        match next {
            Some(index) if !*is_finished => {
                child.trial = Some((index, now));
                if let Some((_, heard)) = &mut self.agents[child.bench].holder {
                    *heard = now;
                }
                self.at(now + self.shape.trial_ms, Event::Child(at, token));
            }
            _ => {
                *is_finished = true;
                self.over(at, token, CampaignEnd::Done { failed_trials: 0 });
            }
        }
    }

    fn fault(&mut self) {
        self.report.faults += 1;
        let at = self.chance.below(self.shape.workers as u64) as usize;
        let long = 1000 + self.chance.below(90_000);
        let now = self.now;
        let kinds = if now < self.peace_until { 6 } else { 9 };
        let kind = if self.shape.only_freezes { 3 } else { self.chance.below(kinds) };
        if kind >= 6 && self.shape.peace_ms > 0 {
            self.peace_until = now + long + self.shape.peace_ms;
        }
        match kind {
            // The process, by SIGKILL: its children see the end of their input.
            0 | 1 => self.dies(at, long, true),
            // The machine, by its switch: agents hear nothing more.
            2 => self.dies(at, long, false),
            3 | 4 => {
                let place = &mut self.places[at];
                if now >= place.dead_until {
                    place.frozen_until = place.frozen_until.max(now + long);
                    let until = place.frozen_until;
                    self.at(until, Event::Well(at));
                }
            }
            5 => {
                self.places[at].cut_until = now + long;
            }
            6 => {
                self.queue.is_down = true;
                self.at(now + long, Event::BrokerUp);
            }
            7 => {
                self.store_down_until = now + long;
            }
            _ => self.queue.loses_next_answer = true,
        }
    }

    fn dies(&mut self, at: usize, long: u64, is_process_only: bool) {
        let now = self.now;
        if now < self.places[at].dead_until || now < self.places[at].frozen_until {
            return;
        }
        self.places[at].dead_until = now + long;
        let name = self.places[at].name;
        let held: Vec<usize> =
            self.places[at].core.runs().map(|(bench, _)| bench[1..].parse().expect("a number")).collect();
        held.into_iter().for_each(|bench| self.at(now + FREE_MS, Event::Free(bench, name)));
        let tokens: Vec<u64> = self.places[at].children.keys().copied().collect();
        for token in tokens {
            let child = self.places[at].children.get_mut(&token).expect("it is there");
            child.has_parent = false;
            if is_process_only {
                child.phase = Phase::Ends(now + STOP_MS);
                self.at(now + STOP_MS, Event::Child(at, token));
            } else {
                // The agent keeps the holder until it has been silent.
                let bench = child.bench;
                self.places[at].children.remove(&token);
                if let Some((_, heard)) = self.agents[bench].holder.as_mut().filter(|(holder, _)| *holder == token) {
                    *heard = now;
                }
            }
        }
        // Nothing of it is left when it comes again.
        let (core, new) = self.core(at);
        (self.places[at].core, self.places[at].name, self.places[at].step_at) = (core, new, 0);
        self.at(now + long, Event::Well(at));
    }

    fn count(&mut self) -> BTreeMap<usize, JobRecord> {
        self.queue.is_down = false;
        self.queue.loses_next_answer = false;
        let all = self.queue.all(Bucket::Jobs).expect("it is up");
        let record = |value: &[u8]| serde_json::from_slice::<JobRecord>(value).expect("a record");
        all.iter().map(|entry| (entry.key.parse().expect("a number"), record(&entry.value))).collect()
    }

    fn judge(&mut self) {
        let seed = self.shape.seed;
        self.report.virtual_ms = self.now;
        let records = self.count();
        assert_eq!(records.len(), self.shape.jobs, "seed {seed}: a job is lost");
        let all = if self.shape.trials == 64 { u64::MAX } else { (1 << self.shape.trials) - 1 };
        for (number, record) in &records {
            assert!(record.state.has_ended(), "seed {seed}: job {number} has not ended: {record:?}");
            match record.state {
                JobState::Done => self.report.done += 1,
                JobState::Dead => self.report.dead += 1,
                _ => self.report.cancelled += 1,
            }
            if record.state == JobState::Done {
                let stored = self.store.get(number).map_or(0, |(stored, _)| *stored);
                assert_eq!(stored, all, "seed {seed}: job {number} is done, and trials are missing");
            }
        }
    }
}
