//! A case: two machines and what lies between, what is wrong with them, the trial, and what proves that it is wrong.
//! Knows no way to do any of it; that is `world` and `trial`, and what is right to say of it is `truth`.

use linerate_machine::end::End;

use super::relay::Impairment;

/// What lies between target and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// A veth pair.
    Cable,
    /// The user-space relay, which is a switch that can do harm.
    Relay,
    /// A bridge of the kernel.
    Bridge,
    /// A router, with a subnet at each side.
    Router,
    /// A router, the relay, a router.
    Routers,
}

impl Between {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Between::Cable => "cable",
            Between::Relay => "relay",
            Between::Bridge => "bridge",
            Between::Router => "router",
            Between::Routers => "routers",
        }
    }

    pub(super) const fn has_relay(self) -> bool {
        matches!(self, Between::Relay | Between::Routers)
    }

    pub(super) const fn is_routed(self) -> bool {
        matches!(self, Between::Router | Between::Routers)
    }
}

/// Where something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Target,
    Host,
    /// The only router, the one at the target, or the bridge.
    Middle,
}

impl From<End> for Place {
    fn from(end: End) -> Place {
        match end {
            End::Target => Place::Target,
            End::Host => Place::Host,
        }
    }
}

/// Something done to make the fault.
#[derive(Clone, Debug)]
pub(super) struct Action {
    /// Since the traffic began; `None`: before the trial.
    pub(super) after_ms: Option<u64>,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// Lines for sh(1), in the namespace.
    Shell(Place, String),
    /// The agent is stopped for so long.
    Stop(End, u64),
    /// A program that never rests on this CPU, from here to the end, with these words of chrt(1) or nice(1) before.
    Hog(usize, &'static str),
    /// A value of the whole machine (a file, a number), until the case ends.
    Machine(&'static str, u64),
}

/// A count by something that is not linerate's, which shows that the fault bit.
#[derive(Clone, Debug)]
pub(super) enum Witness {
    /// Of the relay's account: the way (0: what the target sends), these counts, at least so many.
    Relay(usize, &'static [&'static str], u64),
    /// What sh(1) prints in the namespace, after less before, is at least so much; with a name for the table.
    Shell(Place, String, u64, &'static str),
    /// The agent was seen stopped for so many milliseconds.
    Stopped(u64),
    /// The trial has no figures.
    Failed,
}

/// How a machine's agent is started.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// Words before the program, such as those of taskset(1).
    pub(super) words: String,
    /// Percent of one CPU that its control group may use.
    pub(super) quota: Option<u32>,
}

/// A trial, and what is wrong with its world.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) number: u64,
    /// Of the relay's chance.
    pub(super) seed: u64,
    /// A row of the table of truths each; two where two things are wrong.
    pub(super) families: Vec<&'static str>,
    /// What and where, for the table.
    pub(super) what: Vec<String>,
    pub(super) between: Between,
    pub(super) impairments: [Impairment; 2],
    pub(super) actions: Vec<Action>,
    pub(super) witnesses: Vec<Witness>,
    pub(super) starts: [Start; 2],
    pub(super) plan: &'static str,
    pub(super) set: Vec<String>,
    /// Who sends, or asks; `None`: both at once.
    pub(super) sender: Option<End>,
    /// The machine that the fault is at, if it is at one.
    pub(super) at: Option<End>,
    /// What the slowest part of the way carries, in bits per second of frames: of a relay, a shaper, a policer.
    pub(super) carries_bps: Option<u64>,
    /// How long the outage of datagrams, or the stop of an agent, lasts.
    pub(super) lasts_ms: Option<u64>,
    /// The direction that the fault is in, where traffic goes both ways.
    pub(super) way: Option<&'static str>,
    pub(super) is_ipv6: bool,
}

impl Case {
    /// The same over IPv4.
    pub(super) fn without_ipv6(&mut self) {
        self.is_ipv6 = false;
        self.set.retain(|set| set != IPV6);
    }
}

/// What asks for IPv6.
pub(super) const IPV6: &str = "ip=6";

/// The other machine.
pub(super) const fn other(end: End) -> End {
    match end {
        End::Target => End::Host,
        End::Host => End::Target,
    }
}

/// The relay's way for what this machine sends, and a place in `starts`.
pub(super) const fn way_of(end: End) -> usize {
    match end {
        End::Target => 0,
        End::Host => 1,
    }
}
