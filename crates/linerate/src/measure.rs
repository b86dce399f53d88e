//! Carries plans out: two machines are reached, trials run between them, and each becomes a record.
//! Knows no terminal, and no format of output: what happens are events.
//!
//! ```text
//!   pair (two agents, leased) ─→ route (addresses) ─→ campaign ─→ for each trial: settings ─→ conduct ─→ join ─→ store
//! ```

mod abort_policy;
pub(crate) mod agenda;
mod attempts;
pub(crate) mod boot;
pub(crate) mod campaign;
pub(crate) mod carrier;
pub(crate) mod check;
pub(crate) mod conduct;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod examine;
pub(crate) mod foreign;
pub(crate) mod ids;
pub(crate) mod live;
mod local_fallback;
pub(crate) mod middle;
pub(crate) mod pair;
pub(crate) mod precision;
mod reset;
pub(crate) mod route;
pub(crate) mod searching;
pub(crate) mod settings;
mod ssh_counters;
pub(crate) mod time_left;
#[cfg(any(feature = "web", feature = "nats"))]
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "a queue's list shows only a part of it"))]
pub(crate) mod watched;
