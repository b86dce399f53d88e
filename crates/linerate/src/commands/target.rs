//! `linerate target`: one machine as it is, and its counters as they move.
//! Knows no trials, and changes nothing; [`super::settings`] does.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use linerate_control::message::{Address, Reply, Request};
use linerate_control::{Client, ControlError};
use linerate_machine::units::parse_duration;
use linerate_path::drivers;
use linerate_path::stage::Counters;

use super::registers::Registers;
use super::{boards, connect_options, profile, say_notes, settings, width};
use crate::cli::{InspectArgs, RegistersArgs, SharedArgs, TargetArgs, TargetCommand};
use crate::interrupt;
use crate::measure::pair::ANSWER_TIME;
use crate::output::{out, say};
use crate::progress::Progress;
use crate::render;

/// Looks at the machine.
pub(crate) fn look(arguments: &TargetArgs, shared: &SharedArgs) -> Result<ExitCode> {
    match &arguments.look {
        TargetCommand::Profile(profile) => return profile::of_machine(arguments, profile, shared),
        TargetCommand::Restore { json } => {
            interrupt::listen();
            let client = Client::connect(&arguments.endpoint, "target", &connect_options(shared)?)?;
            say_notes(&client);
            return settings::restore(&client, *json);
        }
        _ => {}
    }
    let (TargetCommand::Info(look)
    | TargetCommand::Counters(look)
    | TargetCommand::Watch { look, .. }
    | TargetCommand::Get { look, .. }
    | TargetCommand::Set { look, .. }
    | TargetCommand::Registers(RegistersArgs { look, .. })) = &arguments.look
    else {
        return Ok(ExitCode::SUCCESS);
    };
    // Bad input is told before a machine is touched.
    let changes = match &arguments.look {
        TargetCommand::Get { names, .. } => settings::check_names(names).map(|()| Vec::new())?,
        TargetCommand::Set { settings, .. } => settings::changes(settings)?,
        _ => Vec::new(),
    };
    let interval = match &arguments.look {
        TargetCommand::Watch { interval, .. } => {
            parse_duration(interval).map_err(|bad| anyhow::anyhow!("--interval: {bad}"))?
        }
        _ => Default::default(),
    };
    let registers = match &arguments.look {
        TargetCommand::Registers(arguments) => Some(Registers::prepare(arguments)?),
        _ => None,
    };
    let options = connect_options(shared)?;
    let _started = match &arguments.look {
        // A board that ends with this command would keep the setting for nothing.
        TargetCommand::Set { .. } => None,
        _ => boards::start_for(&[&arguments.endpoint], &options.agents, &Progress::new(false))?,
    };
    interrupt::listen();
    let client = Client::connect(&arguments.endpoint, "target", &options)?;
    say_notes(&client);
    let addresses = addresses(&client)?;
    let interface = interface(&client, look, &addresses)?;
    if let Some(registers) = registers {
        return registers.show(&client, &interface);
    }
    match &arguments.look {
        TargetCommand::Registers(_) => {}
        TargetCommand::Get { names, look } => return settings::get(&client, interface, names, look.json),
        TargetCommand::Set { look, .. } => return settings::set(&client, interface, changes, look.json),
        TargetCommand::Restore { .. } | TargetCommand::Profile(_) => {}
        TargetCommand::Info(_) => {
            let request = Request::Describe { interface: Some(interface), modules: Vec::new() };
            let Reply::Environment(environment) = client.request(request, ANSWER_TIME)? else {
                bail!("{} did not describe itself; install the same version of linerate there", client.machine());
            };
            out!("{}", render::machine::machine(&environment, &addresses, look.json, width()));
        }
        TargetCommand::Counters(_) => {
            let (counters, missing) = counters(&client, &interface, driver(&client, &interface)?.as_deref())?;
            out!("{}", render::machine::counters(&counters, look.json, width()));
            missing.iter().for_each(|sentence| say(format_args!("linerate: {sentence}")));
        }
        TargetCommand::Watch { count, .. } => {
            if interval.is_zero() {
                bail!("--interval must be longer than zero; write 1s or 200ms");
            }
            let driver = driver(&client, &interface)?;
            let (mut before, _) = counters(&client, &interface, driver.as_deref())?;
            let mut at = Instant::now();
            let mut looks = 0;
            while !interrupt::requested() && count.is_none_or(|count| looks < count) {
                while at.elapsed() < interval && !interrupt::requested() {
                    std::thread::sleep(
                        (interval - at.elapsed().min(interval)).min(std::time::Duration::from_millis(50)),
                    );
                }
                let (now, _) = counters(&client, &interface, driver.as_deref())?;
                let seconds = at.elapsed().as_secs_f64();
                at = Instant::now();
                out!("{}", render::machine::moved(&now.since(&before), seconds, look.json, width()));
                before = now;
                looks += 1;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn addresses(client: &Client) -> Result<Vec<Address>, ControlError> {
    Ok(match client.request(Request::Addresses, ANSWER_TIME)? {
        Reply::Addresses { addresses, .. } => addresses,
        _ => Vec::new(),
    })
}

/// The interface that the user named, or the first that is up and is no loopback, or the loopback.
pub(crate) fn interface(client: &Client, look: &InspectArgs, addresses: &[Address]) -> Result<String> {
    match &look.interface {
        // An interface may have no address at all, and be of interest for just that; the agent knows it or not.
        Some(name) => match client
            .request(Request::Describe { interface: Some(name.clone()), modules: Vec::new() }, ANSWER_TIME)?
        {
            Reply::Environment(environment) if environment.nic.is_none() => bail!(
                "{} has no interface {name}; {}, and 'ip link' there shows all",
                client.machine(),
                with_address(addresses)
            ),
            _ => Ok(name.clone()),
        },
        None => addresses
            .iter()
            .filter(|one| one.up)
            .min_by_key(|one| one.loopback)
            .map(|one| one.interface.clone())
            .with_context(|| format!("no interface is up ({}); name one with --interface", with_address(addresses))),
    }
}

/// Which interfaces have an address, as a part of a sentence.
fn with_address(addresses: &[Address]) -> String {
    // One may have several addresses, and they come by family.
    let names: BTreeSet<&str> = addresses.iter().map(|one| one.interface.as_str()).collect();
    if names.is_empty() {
        return "none has an address".to_owned();
    }
    format!("those with an address are {}", names.into_iter().collect::<Vec<_>>().join(", "))
}

/// The interface's driver, by whose table its statistics are placed.
pub(crate) fn driver(client: &Client, interface: &str) -> Result<Option<String>, ControlError> {
    Ok(
        match client
            .request(Request::Describe { interface: Some(interface.to_owned()), modules: Vec::new() }, ANSWER_TIME)?
        {
            Reply::Environment(environment) => environment.nic.and_then(|nic| nic.driver),
            _ => None,
        },
    )
}

pub(crate) fn counters(client: &Client, interface: &str, driver: Option<&str>) -> Result<(Counters, Vec<String>)> {
    let request = Request::Counters { interface: interface.to_owned() };
    match client.request(request, ANSWER_TIME)? {
        Reply::Counters { counters, missing } => Ok((drivers::table(driver).place(&counters), missing)),
        _ => bail!("{} did not tell its counters; install the same version of linerate there", client.machine()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_no_addresses_the_sentence_says_so() {
        let address = |interface: &str, address: &str| Address {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            prefix_len: 24,
            up: false,
            loopback: false,
        };
        assert_eq!(with_address(&[]), "none has an address");
        let some = [address("eth0", "10.0.0.1"), address("lan1", "10.1.0.1"), address("eth0", "fd00::1")];
        assert_eq!(with_address(&some), "those with an address are eth0, lan1");
    }
}
