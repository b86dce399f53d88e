//! Two agents, made to work by the control conversation, and what memory they use meanwhile.
//! Knows no limits.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::message::{Event, Holder, Prepare, Reply, Request, Secret};
use linerate_control::{AgentEvent, Client, ConnectOptions, Endpoint};
use linerate_machine::end::End;
use linerate_trial::outcome::Outcome;
use linerate_trial::spec::{Extent, Spec, Workload};

/// Where an agent is started, and its address there.
pub(crate) struct Machine {
    pub endpoint: Endpoint,
    pub address: IpAddr,
}

/// A target's agent and a host's.
pub(crate) struct Pair<'a> {
    agents: [Agent; 2],
    machines: &'a [Machine; 2],
}

struct Agent {
    client: Client,
    process: u32,
}

const ENDS: [End; 2] = [End::Target, End::Host];
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(20);

impl Pair<'_> {
    /// Starts both; the target's comes first.
    pub(crate) fn start<'a>(machines: &'a [Machine; 2], options: &ConnectOptions) -> Result<Pair<'a>, String> {
        let target = Agent::start(&machines[0].endpoint, End::Target, options, None)?;
        let host = Agent::start(&machines[1].endpoint, End::Host, options, Some(target.process))?;
        Ok(Pair { agents: [target, host], machines })
    }

    /// Octets resident while nothing is asked of the agents; the larger of the two.
    pub(crate) fn idle(&self) -> Result<u64, String> {
        thread::sleep(Duration::from_millis(500));
        Ok(self.agents[0].memory("VmRSS")?.max(self.agents[1].memory("VmRSS")?))
    }

    /// Carries out a trial as a controller does, and tells the most octets that were resident on target and
    /// host until its end. The host sends.
    ///
    /// That is VmHWM of proc_pid_status(5), or VmRSS where that was seen to be higher: the kernel counts both in
    /// batches for each CPU, and brings them together at different times.
    pub(crate) fn measure(&self, workload: Workload, time: Duration) -> Result<[u64; 2], String> {
        let spec = Spec { extent: Extent::Time(time), ..Spec::new(workload) };
        let name = "cargo xtask".to_owned();
        let holder = Holder { controller: format!("xtask-{}", std::process::id()), name, fence: None };
        self.ask(|_| Request::Lease { holder: holder.clone() })?;
        // What a controller asks in the course of a trial costs memory too.
        self.ask(|_| Request::Addresses)?;
        let prepared = self.ask(|at| {
            Request::Prepare(Box::new(Prepare {
                spec: spec.clone(),
                end: ENDS[at],
                hello: Secret(*b"xtask's one side"),
                answer: Secret(*b"and its other sd"),
                local: self.machines[at].address,
                interface: None,
                foreign: None,
                registers: None,
                stop_at_loss: None,
                silent_s: None,
            }))
        })?;
        let [(target_ports, interface), (host_ports, _)] = prepared.map(|reply| match reply {
            Reply::Prepared { ports, interface, .. } => (ports, interface),
            _ => (Vec::new(), None),
        });
        self.ask(|_| Request::Describe { interface: interface.clone(), modules: Vec::new() })?;
        let ports = [host_ports, target_ports];
        self.ask(|at| Request::Connect { peer: self.machines[1 - at].address, ports: ports[at].clone(), mac: None })?;
        self.ask(|_| Request::Start)?;

        let (mut memory, mut outcomes) = ([0; 2], [None, None]);
        let deadline = Instant::now() + time + PATIENCE;
        while outcomes.iter().any(Option::is_none) {
            if Instant::now() > deadline {
                return Err(format!("the trial of {workload} did not end in time"));
            }
            for (at, agent) in self.agents.iter().enumerate() {
                memory[at] = memory[at].max(agent.memory("VmRSS")?).max(agent.memory("VmHWM")?);
                outcomes[at] = outcomes[at].take().or(agent.outcome()?);
            }
        }
        let moved = outcomes.iter().flatten().all(|outcome| outcome.flows.iter().any(|flow| flow.octets > 0));
        if moved { Ok(memory) } else { Err(format!("the trial of {workload} moved nothing: this figure is void")) }
    }

    /// Asks both at the same time; `request` is told which.
    fn ask(&self, request: impl Fn(usize) -> Request) -> Result<[Reply; 2], String> {
        let [target, host] = [0, 1].map(|at| self.agents[at].client.send(request(at)));
        let answer = |pending: linerate_control::Pending| pending.wait(PATIENCE).map_err(|error| error.to_string());
        Ok([answer(target)?, answer(host)?])
    }
}

impl Agent {
    fn start(endpoint: &Endpoint, end: End, options: &ConnectOptions, other: Option<u32>) -> Result<Agent, String> {
        let client = Client::connect(endpoint, end.name(), options).map_err(|error| error.to_string())?;
        let program = options.agent_program.as_deref().expect("the agent under test is given");
        let process = children_that_run(program).into_iter().find(|process| Some(*process) != other);
        let process = process.ok_or_else(|| format!("the process of the {end}'s agent is not to be found in /proc"))?;
        Ok(Agent { client, process })
    }

    /// A figure of proc_pid_status(5), octets.
    fn memory(&self, name: &str) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.process);
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}; the agent is gone"))?;
        octets_of(&status, name).ok_or_else(|| format!("{path} has no {name}"))
    }

    /// What came of the trial, once it has ended; waits a moment for it.
    fn outcome(&self) -> Result<Option<Box<Outcome>>, String> {
        match self.client.events().recv_timeout(LOOK) {
            Ok(AgentEvent::Event(Event::Finished(outcome) | Event::FinishedWith { own: outcome, .. })) => {
                Ok(Some(outcome))
            }
            Ok(AgentEvent::Event(Event::TrialFailed { message, .. })) => Err(message),
            Ok(AgentEvent::Event(Event::Progress { .. } | Event::Profiled(_) | Event::LostTooMuch))
            | Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok(AgentEvent::Lost(error)) => Err(error.to_string()),
            Err(RecvTimeoutError::Disconnected) => Err("the agent is gone".to_owned()),
        }
    }
}

/// The child processes of this one that run this program. The control crate keeps their numbers to itself.
fn children_that_run(program: &Path) -> Vec<u32> {
    let this = format!("PPid:\t{}\n", std::process::id());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |number: &u32| fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|exe: PathBuf| exe == program);
    let ours = |number: &u32| fs::read_to_string(format!("/proc/{number}/status")).is_ok_and(|s| s.contains(&this));
    numbers.filter(|number| runs(number) && ours(number)).collect()
}

/// A line like `VmRSS:     1234 kB`; the unit is always this (proc_pid_status(5)) and means KiB.
fn octets_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_a_status() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(octets_of(status, "VmRSS"), Some(1 << 20));
        assert_eq!(octets_of(status, "VmHWM"), Some(2 << 20));
        assert_eq!(octets_of(status, "Vm"), None);
        assert_eq!(octets_of("VmRSS:\tmuch\n", "VmRSS"), None);
    }
}
