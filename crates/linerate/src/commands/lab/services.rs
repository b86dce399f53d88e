//! `linerate lab services up`: a team's servers, for a try.

use anyhow::{Context, Result, bail};
use linerate_lab::services::{Nats, Postgres};

use super::stay;
use crate::interrupt;
use crate::output::{out, say};

/// Starts those that are installed, and stays with them.
pub(super) fn up() -> Result<()> {
    if !Nats::is_installed() && !Postgres::is_installed() {
        bail!("neither PostgreSQL nor nats-server is installed; apt-get install postgresql nats-server");
    }
    interrupt::listen();
    let folder = std::env::temp_dir().join(format!("linerate-services-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let ended = stay_with(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    ended
}

fn stay_with(folder: &std::path::Path) -> Result<()> {
    let postgres = Postgres::is_installed().then(|| Postgres::start(&folder.join("postgres"))).transpose()?;
    let nats = Nats::is_installed().then(|| Nats::start(&folder.join("nats"))).transpose()?;
    out!("For this machine alone, until Ctrl-C. In another shell:\n\n");
    match &postgres {
        Some(postgres) => out!("export LINERATE_STORE={}\n", postgres.url()),
        None => say(format_args!("linerate: PostgreSQL is not installed; apt-get install postgresql")),
    }
    match &nats {
        Some(nats) => out!("export LINERATE_QUEUE={}\n", nats.url()),
        None => say(format_args!("linerate: nats-server is not installed; apt-get install nats-server")),
    }
    out!("\nlinerate worker --bench FILE, linerate submit and linerate jobs use them (docs/teams.md).\n");
    stay::to_the_end();
    Ok(())
}
