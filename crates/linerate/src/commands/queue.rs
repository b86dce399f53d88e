//! The team's queue, as the command line, the environment and files say where it is.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use linerate_machine::text::is_plain_name;
use linerate_work::{Access, Nats};

use crate::cli::QueueArgs;

/// Connects to the team's queue as a visitor.
pub(super) fn visit(arguments: &QueueArgs) -> Result<Nats> {
    Ok(Nats::visit(&access(arguments)?)?)
}

/// Reaches it, for a worker.
pub(super) fn open(arguments: &QueueArgs, lease: Option<Duration>) -> Result<Nats> {
    Ok(Nats::open(&access(arguments)?, lease)?)
}

fn access(arguments: &QueueArgs) -> Result<Access> {
    let given = given(arguments)?;
    given.context("which queue? Give --queue nats://HOST:4222, or set LINERATE_QUEUE")
}

/// Where it is, and who asks; `None`: nobody has said that there is one. Nothing is reached.
pub(super) fn given(arguments: &QueueArgs) -> Result<Option<Access>> {
    let variable = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
    let url = arguments.queue.clone().or_else(|| variable("LINERATE_QUEUE")?.into_string().ok());
    let Some(url) = url else { return Ok(None) };
    let credentials =
        arguments.queue_credentials.clone().or_else(|| variable("LINERATE_QUEUE_CREDENTIALS").map(PathBuf::from));
    let authorities = variable("LINERATE_QUEUE_AUTHORITIES").map(PathBuf::from);
    Ok(Some(Access::new(&url, credentials.as_deref(), authorities.as_deref())?))
}

/// Who asks: the name given, or the user's.
pub(crate) fn user(given: Option<&str>) -> Result<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let name = given.map(str::to_owned).or_else(|| variable("USER").or_else(|| variable("LOGNAME")));
    let name = name.unwrap_or_else(|| "somebody".to_owned());
    if given.is_some_and(|name| !is_plain_name(name)) {
        anyhow::bail!("--user: '{name}' is not a user; take letters, digits, - and _, 48 at most");
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    Ok(name.chars().map(plain).take(48).collect())
}
