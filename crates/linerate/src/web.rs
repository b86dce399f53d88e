//! `linerate web`: the lab in a browser, with the words, numbers and pictures of the commands.
//!
//! ```text
//!   browser ─→ server (connections, limits) ─→ gate (who may ask) ─→ views (an answer each) ─→ page
//!                                                                     │
//!   `linerate run …`, a process of its own ─→ events ─→ runs ─────────┘
//! ```
//!
//! What serves has one thread and a runtime in it; views are plain functions on a few threads more, and a campaign is a process:
//! nothing here runs in the process that measures.

mod access;
mod assets;
mod connection_slots;
#[cfg(feature = "nats")]
mod counters;
mod head;
mod page;
mod reply;
mod request;
mod runs;
mod server;
mod sessions;
mod tls;
mod views;
mod work_slots;

use std::path::PathBuf;

use anyhow::Result;
use linerate_control::{ConnectOptions, Endpoint};
use linerate_machine::sync::Mutex;
use linerate_results::store::{CheckedRows, Store};
use linerate_results::tally::Tally;

#[cfg(feature = "nats")]
pub(crate) use counters::Counters;
#[cfg(feature = "nats")]
pub(crate) use server::Served;
pub(crate) use server::{WebListener, serve};
pub(crate) use sessions::{ScraperToken, Token};
pub(crate) use tls::Tls;

use self::access::Gate;
use self::runs::Runs;
use self::sessions::Sessions;
use crate::render;
#[cfg(feature = "nats")]
use crate::team::Team;

/// What may be done beside looking.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) run: bool,
    pub(crate) settings: bool,
    pub(crate) commands: bool,
}

/// What `linerate run` would take here where its command line says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunDefaults {
    pub(crate) host: Option<Endpoint>,
    pub(crate) middle: Option<Endpoint>,
}

/// All that the server knows.
pub(crate) struct Lab {
    store: PathBuf,
    checked: CheckedRows,
    /// The machines that may be looked at and measured: what the page calls each, and how it is reached.
    machines: Vec<(String, Endpoint)>,
    /// The host and the machine between the two where a request names none; both are among the machines.
    usual: RunDefaults,
    /// Where plan files are, beside the built-in ones.
    plans: Vec<PathBuf>,
    connect: ConnectOptions,
    allowed: Allowed,
    reach: Vec<String>,
    gate: Gate,
    sessions: Sessions,
    /// A client that has it may read /metrics, and nothing else.
    scraper: Option<ScraperToken>,
    /// What scrapers read, kept from one to the next.
    tally: Mutex<Tally>,
    runs: Runs,
    /// The team's queue, where one was given.
    #[cfg(feature = "nats")]
    team: Option<Team>,
}

/// What a server is started with.
pub(crate) struct Setup {
    pub(crate) store: PathBuf,
    pub(crate) machines: Vec<(String, Endpoint)>,
    pub(crate) usual: RunDefaults,
    pub(crate) plans: Vec<PathBuf>,
    pub(crate) connect: ConnectOptions,
    pub(crate) allowed: Allowed,
    /// Under which it may be reached, beside the names of the loopback.
    pub(crate) names: Vec<String>,
    /// Words by which every command that is started here reaches machines.
    pub(crate) reach: Vec<String>,
    pub(crate) scraper: Option<ScraperToken>,
    #[cfg(feature = "nats")]
    pub(crate) team: Option<Team>,
}

impl Lab {
    pub(crate) fn new(setup: Setup, token: &Token) -> Lab {
        #[cfg(feature = "nats")]
        let team = setup.team;
        let Setup { store, machines, usual, plans, connect, allowed, names, reach, scraper, .. } = setup;
        let runs = Runs::new(reach.iter().cloned().chain([format!("--store={}", store.display())]).collect());
        let (gate, sessions) = (Gate::new(names), Sessions::new(token));
        let tally = Mutex::new(Tally::new(render::metrics::wanted()));
        Lab {
            store,
            checked: CheckedRows::default(),
            machines,
            usual,
            plans,
            connect,
            allowed,
            reach,
            gate,
            sessions,
            scraper,
            tally,
            runs,
            #[cfg(feature = "nats")]
            team,
        }
    }

    /// Whether there are benches, jobs and workers to be seen.
    fn has_team(&self) -> bool {
        #[cfg(feature = "nats")]
        let has = self.team.is_some();
        #[cfg(not(feature = "nats"))]
        let has = false;
        has
    }

    fn store(&self) -> Result<Store> {
        Ok(Store::open_existing(&self.store)?.checking_once(&self.checked))
    }
}
