//! A Linux machine: sockets and traffic, CPU accounting, counters, its environment.
//! Knows nothing of the conversation with a controller, of plans or of records.

pub mod agentless;
mod cgroup;
pub mod command;
pub mod counters;
pub mod cpu;
pub mod drop_reasons;
pub mod echo;
mod egress;
pub mod environment;
mod ethtool;
mod files;
pub mod guard;
pub mod interfaces;
pub mod middle;
mod namespaces;
mod netlink;
mod others;
pub mod probe;
pub mod profile;
mod qdiscs;
pub mod quiet;
pub mod registers;
mod schedstat;
pub mod scheduling;
pub mod screens;
pub mod settings;
pub mod soak;
pub mod sys;
pub mod traffic;
pub mod xdp;

/// The error without std's number behind it.
pub(crate) fn text_of(error: &std::io::Error) -> String {
    error.raw_os_error().and_then(sys::machine::error_text).unwrap_or_else(|| error.to_string())
}
