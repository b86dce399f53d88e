//! What goes wrong in a campaign, and when.
//! Knows processes and shell lines; what must hold afterwards is judged elsewhere.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::machines::Bench;
use crate::machines::chance::Chance;
use crate::machines::parent;
use crate::world::World;

/// Who is sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Controller,
    TargetAgent,
    HostAgent,
    /// The target's agent with its watchdog.
    TargetAgentAndWatchdog,
    HostAgentAndWatchdog,
    BothAgentsAndWatchdogs,
    Everything,
}

/// What happens to the target's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Renamed,
    Deleted,
    /// And another of its name takes its place.
    Replaced,
    /// To another namespace.
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A signal by its name.
    Signal(Victim, &'static str),
    /// The journal's folder has so many pages left.
    Full {
        pages: u64,
    },
    Interface(Interface),
    /// Somebody does this to the journals, and then these are killed.
    Journals(&'static str, Victim),
    /// The journals' file system takes nothing more.
    ReadOnly,
}

/// What is done to journals: all of them, or each.
const TIDY_UPS: [&str; 4] = [
    "rm -f /run/linerate/*.journal",
    "rm -rf /run/linerate",
    "for one in /run/linerate/*.journal; do : >$one; done",
    "for one in /run/linerate/*.journal; do truncate -s $(($(wc -c <$one) * 2 / 3)) $one; done",
];

/// When it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since the start, or else since the first setting was written down.
    pub from_start: bool,
    pub after: Duration,
}

impl Fault {
    pub fn any(chance: &mut Chance) -> Fault {
        let agents = [
            Victim::TargetAgent,
            Victim::HostAgent,
            Victim::TargetAgentAndWatchdog,
            Victim::HostAgentAndWatchdog,
            Victim::BothAgentsAndWatchdogs,
            Victim::Everything,
        ];
        match chance.below(10) {
            0 | 1 => Fault::None,
            2 => Fault::Signal(Victim::Controller, chance.of::<&str>(&["KILL", "TERM", "INT"])),
            3..=6 => Fault::Signal(*chance.of(&agents), "KILL"),
            7 => Fault::Full { pages: chance.below(4) },
            _ => Fault::Interface(*chance.of(&[
                Interface::Renamed,
                Interface::Deleted,
                Interface::Replaced,
                Interface::Moved,
            ])),
        }
    }

    /// What comes more seldom.
    pub fn rare(chance: &mut Chance) -> Fault {
        if chance.one_in(4) {
            return Fault::ReadOnly;
        }
        let victims = [Victim::TargetAgent, Victim::BothAgentsAndWatchdogs, Victim::Everything, Victim::Controller];
        Fault::Journals(chance.of::<&str>(&TIDY_UPS), *chance.of(&victims))
    }

    /// Whether its journals have a file system of their own.
    pub fn mounts(self) -> bool {
        matches!(self, Fault::Full { .. } | Fault::ReadOnly)
    }

    /// Whether nobody may be left who would put settings back, so that the next agent has to.
    pub fn wants_next_agent(self) -> bool {
        use Victim::{BothAgentsAndWatchdogs, Everything, HostAgentAndWatchdog, TargetAgentAndWatchdog};
        match self {
            Fault::None => false,
            Fault::Signal(victim, _) | Fault::Journals(_, victim) => {
                matches!(victim, TargetAgentAndWatchdog | HostAgentAndWatchdog | BothAgentsAndWatchdogs | Everything)
            }
            // What could not be put back is tried again by the next agent.
            Fault::Full { .. } | Fault::Interface(_) | Fault::ReadOnly => true,
        }
    }

    /// Makes it happen.
    pub fn strike(self, bench: &Bench, world: &World, controller: u32) {
        match self {
            Fault::None => {}
            Fault::Signal(victim, signal) => {
                let victims = victim.processes(bench, controller);
                let list: Vec<String> = victims.iter().map(u32::to_string).collect();
                let kill = format!("kill -{signal} {}", list.join(" "));
                let _ = Command::new("/bin/sh").args(["-c", &kill]).stderr(Stdio::null()).status();
            }
            Fault::Full { .. } => {
                let path = world.path("/run/linerate/filler");
                // As much as there is place for.
                let _ = fs::write(path, vec![0; 1 << 16]);
            }
            Fault::Interface(of) => {
                world.shell("target", of.lines());
            }
            Fault::Journals(lines, victim) => {
                world.shell("target", lines);
                Fault::Signal(victim, "KILL").strike(bench, world, controller);
            }
            Fault::ReadOnly => {
                world.shell_outside("mount -o remount,ro /run/linerate");
            }
        }
    }
}

impl Interface {
    /// What somebody does to it.
    pub fn lines(self) -> &'static str {
        match self {
            Interface::Renamed => "ip link set eth0 name eth7",
            Interface::Deleted => "ip link del eth0",
            Interface::Replaced => {
                "ip link del eth0\n\
                 ip link add eth0 address 02:00:00:00:55:02 mtu 1300 numrxqueues 2 numtxqueues 2 \
                 type veth peer name eth0 netns host address 02:00:00:00:55:01\n\
                 ip link set eth0 up txqueuelen 55; ip addr add 198.18.0.2/24 dev eth0\n\
                 echo 2 >/sys/class/net/eth0/queues/rx-0/rps_cpus; sysctl -qw net.ipv4.conf.eth0.rp_filter=2"
            }
            Interface::Moved => "ip link set eth0 netns other",
        }
    }

    /// What undoes it, where something does.
    pub fn undo(self) -> Option<&'static str> {
        (self == Interface::Renamed).then_some("ip link set eth7 name eth0")
    }
}

impl Moment {
    pub fn any(chance: &mut Chance) -> Moment {
        let from_start = chance.one_in(4);
        Moment { from_start, after: Duration::from_micros(chance.below(if from_start { 500_000 } else { 300_000 })) }
    }
}

impl Victim {
    fn processes(self, bench: &Bench, controller: u32) -> Vec<u32> {
        let all = bench.processes();
        let is_watchdog = |command: &str| command.starts_with("linerate-watchdog");
        let children = |of: u32| all.iter().filter(move |(id, _)| parent(*id) == Some(of));
        let agents = |end: &str| {
            let netns = format!("/run/netns/{end}");
            let found = children(controller).filter(move |(_, command)| command.contains(&netns));
            found.map(|(id, _)| *id).collect::<Vec<u32>>()
        };
        // The watchdogs first: an agent's death is what they wait for.
        let and_watchdogs = |agents: Vec<u32>| {
            let watchdogs = agents.iter().flat_map(|agent| children(*agent));
            let watchdogs: Vec<u32> = watchdogs.filter(|(_, c)| is_watchdog(c)).map(|(id, _)| *id).collect();
            [watchdogs, agents].concat()
        };
        match self {
            Victim::Controller => vec![controller],
            Victim::TargetAgent => agents("target"),
            Victim::HostAgent => agents("host"),
            Victim::TargetAgentAndWatchdog => and_watchdogs(agents("target")),
            Victim::HostAgentAndWatchdog => and_watchdogs(agents("host")),
            Victim::BothAgentsAndWatchdogs => and_watchdogs([agents("target"), agents("host")].concat()),
            Victim::Everything => {
                let mut found: Vec<u32> = all.iter().map(|(id, _)| *id).collect();
                found.sort_by_key(|id| !all.iter().any(|(other, c)| other == id && is_watchdog(c)));
                found
            }
        }
    }
}
