//! What `web` is asked. Knows no other command.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use linerate_control::Endpoint;

use crate::complete;

/// Where to listen.
pub(super) fn place(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, like 127.0.0.1:4780 or [::1]:4780".to_owned())
}

#[derive(Args, Debug)]
pub(crate) struct WebArgs {
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4780", conflicts_with = "socket", value_parser = place)]
    pub(crate) listen: SocketAddr,
    /// Listen on a Unix socket instead, which only you can reach; a browser reaches it through ssh -L 4780:PATH
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// A name under which browsers reach this server, beside localhost; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Listen on an address that others reach too, because a proxy that you trust stands before it and speaks TLS
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// Speak TLS with the certificate in this file (PEM, the server's own first): others may reach the address then
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", conflicts_with_all = ["behind_proxy", "socket"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A machine that may be looked at, and measured where that is allowed; may be given several times
    /// [default: target, host and middle of LINERATE_TARGET and the like, and of linerate.toml]
    #[arg(long, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub(crate) machine: Vec<Endpoint>,
    /// A folder whose plan files (.toml) are shown beside the built-in plans; may be given several times
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) plans: Vec<PathBuf>,
    /// Let a scraper read /metrics, and nothing else, with the token in this file: made if it is not there, and kept
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) metrics: Option<PathBuf>,
    /// Allow campaigns to be started, stopped and resumed
    #[arg(long)]
    pub(crate) allow_run: bool,
    /// Allow machines' settings to be changed, by plans and by hand
    #[arg(long)]
    pub(crate) allow_settings: bool,
    /// Allow running the programs that an endpoint (exec:) or a plan ([boot], custom settings) names, and posting plans as text
    #[arg(long)]
    pub(crate) allow_commands: bool,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(crate) queue: super::QueueArgs,
}

/// What it looks like.
pub(super) const WEB_HELP: &str = "Examples:\n  linerate web\n  linerate web --machine root@board --machine local \
                                   --allow-run\n  linerate web --socket ~/linerate.sock";
