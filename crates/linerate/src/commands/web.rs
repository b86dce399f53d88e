//! `linerate web`: the lab in a browser.
//! Knows the command line, and where the token is kept; what is served, `web` knows.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use linerate_control::Endpoint;
use linerate_results::store::check_name;

use super::{connect_options, reach};
use crate::cli::{SharedArgs, WebArgs};
use crate::default_store;
use crate::defaults::Defaults;
use crate::interrupt;
use crate::output::{out, say};
use crate::web::{self, Allowed, Lab, RunDefaults, ScraperToken, Setup, Tls, Token, WebListener};

/// Serves until Ctrl-C.
pub(crate) fn web(arguments: &WebArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let ip = arguments.listen.ip();
    let is_encrypted = arguments.tls_cert.is_some() || arguments.behind_proxy;
    if arguments.socket.is_none() && !ip.is_loopback() && !is_encrypted {
        bail!(
            "{} is reached by others too, and what passes there is in the clear: listen on 127.0.0.1 and let ssh -L lead there, \
             give --tls-cert and --tls-key, or --behind-proxy where a proxy of yours stands before it and speaks TLS",
            arguments.listen
        );
    }
    if arguments.tls_cert.is_some() && ip.is_unspecified() && arguments.name.is_empty() {
        bail!("{} is no address that a browser can be told: give --name NAME, the one that the certificate has", ip);
    }
    let files = arguments.tls_cert.as_ref().zip(arguments.tls_key.as_ref());
    let tls = files.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
    if let Some(name) = arguments.name.iter().find(|name| !is_name(name)) {
        bail!("--name: '{name}' is not a host's name; write it without a scheme and a port, like lab.example.org");
    }
    if let Some(folder) = arguments.plans.iter().find(|folder| !folder.is_dir()) {
        bail!("--plans: {} is no folder", folder.display());
    }
    let defaults = Defaults::find(None)?;
    let store = shared.store.clone().or(defaults.store).map_or_else(default_store::path, Ok)?;
    check_name(&store)?;
    let shared = SharedArgs {
        psk_file: shared.psk_file.clone().or(defaults.psk_file),
        remote_agent: shared.remote_agent.clone(),
        agents: shared.agents.clone(),
        store: Some(store.clone()),
        ..*shared
    };
    let mut machines: Vec<(String, Endpoint)> = Vec::new();
    let usual = RunDefaults { host: defaults.host, middle: defaults.middle };
    let all = [&defaults.target, &usual.host, &usual.middle].into_iter().flatten();
    for endpoint in arguments.machine.iter().chain(all).cloned() {
        let name = endpoint.to_string();
        if !machines.iter().any(|(other, _)| *other == name) {
            machines.push((name, endpoint));
        }
    }
    let allowed =
        Allowed { run: arguments.allow_run, settings: arguments.allow_settings, commands: arguments.allow_commands };
    let connect = connect_options(&shared)?;
    let scraper = arguments.metrics.as_deref().map(ScraperToken::of).transpose()?;
    #[cfg(feature = "nats")]
    let team = super::queue::given(&arguments.queue)?.map(crate::team::Team::new);
    interrupt::listen();
    let door = match &arguments.socket {
        Some(path) => WebListener::unix(path)?,
        None => WebListener::tcp(arguments.listen, tls)?,
    };
    let file = token_file(&door)?;
    let token = Token::make(&file)?;
    let setup = Setup {
        store,
        machines,
        usual,
        plans: arguments.plans.clone(),
        connect,
        allowed,
        names: names(arguments),
        reach: reach(&shared),
        scraper,
        #[cfg(feature = "nats")]
        team,
    };
    let lab = Lab::new(setup, &token);
    match (&arguments.socket, door.address()) {
        (Some(path), _) => out!(
            "linerate web listens at {}: ssh -L 4780:{} HOST, and then http://127.0.0.1:4780/#{}\n",
            path.display(),
            path.display(),
            token.text()
        ),
        (None, address) => {
            let scheme = if arguments.tls_cert.is_some() { "https" } else { "http" };
            let host = match arguments.name.first().filter(|_| arguments.behind_proxy || !ip.is_loopback()) {
                Some(name) => name.clone(),
                None => bracketed(ip),
            };
            out!("linerate web: {scheme}://{host}:{}/#{}\n", address.map_or(0, |address| address.port()), token.text());
        }
    }
    let may = [
        (true, "look"),
        (arguments.allow_run, "start campaigns"),
        (arguments.allow_settings, "change settings"),
        (arguments.allow_commands, "run programs"),
    ];
    let may: Vec<&str> = may.into_iter().filter_map(|(is_allowed, what)| is_allowed.then_some(what)).collect();
    say(format_args!(
        "linerate: whoever has this address may {}; the token is in {} too. Ctrl-C ends it",
        may.join(", "),
        file.display()
    ));
    if let Some(file) = &arguments.metrics {
        say(format_args!("linerate: a scraper reads /metrics with the token in {}", file.display()));
    }
    web::serve(lab, door, &|sentence| say(format_args!("{sentence}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Under which browsers reach it. An address where it listens is one too: no name that is made to point there is that address.
fn names(arguments: &WebArgs) -> Vec<String> {
    let ip = arguments.listen.ip();
    let own = (!ip.is_unspecified()).then(|| bracketed(ip));
    arguments.name.iter().cloned().chain(own).collect()
}

/// An address as it stands in a URL.
fn bracketed(ip: IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 254 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// In a folder that is this user's alone: that of the session, or the data folder.
fn token_file(door: &WebListener) -> Result<PathBuf> {
    let name = match door.address() {
        // Another address of the loopback has the same ports once more.
        Some(address) if address.ip() != Ipv4Addr::LOCALHOST => {
            format!("web-{}-{}.token", address.ip(), address.port())
        }
        Some(address) => format!("web-{}.token", address.port()),
        None => format!("web-{}.token", std::process::id()),
    };
    let folder = match default_store::session_folder() {
        Some(session) => session.join("linerate"),
        None => default_store::folder().context("there is no home folder to keep the token in; set XDG_RUNTIME_DIR")?,
    };
    let said = || format!("cannot make the folder {} for the token; set XDG_RUNTIME_DIR to another", folder.display());
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(said)?;
    let own = fs::metadata("/proc/self")?.uid();
    if fs::metadata(&folder)?.uid() != own {
        bail!("{} is another user's; set XDG_RUNTIME_DIR to a folder of your own", folder.display());
    }
    Ok(folder.join(name))
}
