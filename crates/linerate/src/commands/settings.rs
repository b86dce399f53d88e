//! `linerate target ENDPOINT get|set|restore`: the settings of one machine, by hand.
//! Knows no trials; what a campaign changes is its own to put back.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use linerate_control::message::{Request, SETTINGS};
use linerate_control::{Client, ConnectOptions, ControlError};
use linerate_machine::change::{CUSTOM, Change, Changed};
use linerate_machine::setting::{self, overlap};
use linerate_machine::text::shell_word;

use super::width;
use crate::measure::error::TrialError;
use crate::measure::pair::{ANSWER_TIME, holder};
use crate::measure::settings;
use crate::output::{out, say};
use crate::render::settings as render;
use crate::render::wrapped;

/// Sees that each of these is a setting, before a machine is touched.
pub(super) fn check_names<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<()> {
    for name in names {
        let name = bare(name);
        setting::find(name)?;
        if name.starts_with(CUSTOM) {
            bail!("{name} is for a plan to define, with how it is read and set; see docs/plans.md");
        }
    }
    Ok(())
}

/// The changes that the user wrote, each with its value written in one way.
pub(super) fn changes(written: &[(String, String)]) -> Result<Vec<Change>> {
    check_names(written.iter().map(|(name, _)| name))?;
    let mut changes: Vec<Change> = Vec::new();
    for (name, value) in written {
        let name = bare(name).to_owned();
        let value = setting::canonical(&name, value)?;
        if changes.iter().any(|other| other.name == name) {
            bail!("{name} is set twice; leave one of them out");
        }
        changes.push(Change { name, value, custom: None });
    }
    if let Some(overlap) = overlap::among(changes.iter().map(|change| change.name.as_str())) {
        bail!("{overlap}");
    }
    Ok(changes)
}

/// Plans write `target.mtu`; here there is one machine only, and both mean the same.
fn bare(name: &str) -> &str {
    name.strip_prefix("target.").unwrap_or(name)
}

/// Shows settings.
pub(super) fn get(client: &Client, interface: String, names: &[String], json: bool) -> Result<ExitCode> {
    can(client)?;
    let names: Vec<String> = names.iter().map(|name| bare(name).to_owned()).collect();
    let is_all = names.is_empty();
    let (readings, kept) = settings::get(client, Some(interface), names, Vec::new())?;
    out!("{}", render::readings(&readings, &kept, json, width()));
    let mut status = ExitCode::SUCCESS;
    if !is_all {
        for error in readings.iter().filter_map(|one| one.error.as_ref()) {
            say(format_args!("linerate: {}: {error}", client.machine()));
            status = ExitCode::from(2);
        }
    }
    Ok(status)
}

/// Changes settings, to stay.
pub(super) fn set(client: &Client, interface: String, changes: Vec<Change>, json: bool) -> Result<ExitCode> {
    can(client)?;
    lease(client)?;
    let changed = set_to_stay(client, Some(interface), changes)?;
    out!("{}", render::changed(&changed, json, width()));
    if !json {
        let endpoint = shell_word(&client.machine().endpoint);
        let stays = format!("This stays until `linerate target {endpoint} restore`, or until the machine restarts.\n");
        out!("\n{}", wrapped(&stays, width()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The same, on a machine whose lease is held.
pub(super) fn set_to_stay(client: &Client, interface: Option<String>, changes: Vec<Change>) -> Result<Vec<Changed>> {
    let cut = changes.iter().any(|change| settings::may_cut(&change.name));
    let changed = settings::set(client, interface, changes, cut).map_err(|error| match error {
        TrialError::Interrupted => anyhow!("interrupted; nothing is changed"),
        error => error.into(),
    })?;
    client.request(Request::Keep, ANSWER_TIME)?;
    Ok(changed)
}

/// Puts back what was changed to stay.
pub(super) fn restore(client: &Client, json: bool) -> Result<ExitCode> {
    can(client)?;
    lease(client)?;
    let told = settings::restore(client, &[], true)?;
    out!("{}", render::put_back(&told, json));
    for one in told.iter().filter(|one| one.error.is_some()) {
        say(format_args!("linerate: {}: {}", client.machine(), one.sentence()));
    }
    Ok(if told.iter().any(|one| one.error.is_some()) { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn lease(client: &Client) -> Result<(), ControlError> {
    client.request(Request::Lease { holder: holder(&ConnectOptions::default()) }, ANSWER_TIME).map(|_| ())
}

fn can(client: &Client) -> Result<()> {
    if !client.hello().capabilities.iter().any(|one| one == SETTINGS) {
        bail!("{}: its agent changes no settings; install the same version of linerate there", client.machine());
    }
    Ok(())
}
