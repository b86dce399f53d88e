//! `linerate echo`: test frames go back to where they came from, and what came is said every so often.
//! Knows no frames; `host::echo` turns them round, and goes on whatever is printed here.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linerate_host::cpu::CpuMeter;
use linerate_host::echo::{Echo, EchoCounts, PortCounts};

use crate::cli::{EchoArgs, SharedArgs};
use crate::interrupt;
use crate::output::{out, say};
use crate::render::echo::{Span, heading, json, line};

/// How long Ctrl-C may take.
const LOOK: Duration = Duration::from_millis(20);

/// Answers until Ctrl-C.
pub(crate) fn echo(arguments: &EchoArgs, shared: &SharedArgs) -> Result<ExitCode> {
    let interface = &arguments.interface;
    let secret = match arguments.secret {
        Some(secret) => secret,
        None => drawn()?,
    };
    let echo = Echo::start(interface, secret, arguments.way.map(Into::into))?;
    interrupt::listen();
    // Who has drawn a secret must say it.
    if !shared.quiet || arguments.secret.is_none() {
        say(format_args!(
            "linerate: {interface} answers test frames with the secret {secret:08x}, {}; Ctrl-C ends it",
            echo.way()
        ));
    }
    if !arguments.json {
        out!("{}", heading());
    }
    let began = Instant::now();
    let first = Seen::now(&echo)?;
    let (mut last, mut cpu) = (first, CpuMeter::start().ok());
    let mut due = began + arguments.interval;
    loop {
        while Instant::now() < due && !interrupt::requested() {
            thread::sleep(LOOK);
        }
        let is_over = interrupt::requested();
        let busy = cpu.as_mut().and_then(|cpu| cpu.read_and_restart().ok()).map(|used| used.machine.busy);
        let now = Seen::now(&echo).with_context(|| format!("{interface} is gone, or cannot be looked at"))?;
        let span = now.since(&last, began, busy);
        if arguments.json {
            out!("{}", json(&span))
        } else {
            out!("{}", line(&span))
        }
        last = now;
        if is_over {
            break;
        }
        // Lines that nobody read in time are not made up for: one has what came meanwhile.
        while due <= Instant::now() {
            due += arguments.interval;
        }
    }
    if !arguments.json {
        let total = Span { is_total: true, ..last.since(&first, began, None) };
        out!("{}", line(&total));
    }
    Ok(ExitCode::SUCCESS)
}

fn drawn() -> Result<u32> {
    let mut octets = [0; 4];
    getrandom::fill(&mut octets).context("this machine gives no random numbers; give the secret with --secret")?;
    Ok(u32::from_be_bytes(octets))
}

/// What was counted at one moment.
#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    counts: EchoCounts,
    port: PortCounts,
}

impl Seen {
    fn now(echo: &Echo) -> Result<Seen> {
        let counts = echo.counts()?;
        let Some(port) = echo.port() else { bail!("the kernel tells nothing of its counters") };
        Ok(Seen { at: Instant::now(), counts, port })
    }

    fn since(&self, before: &Seen, began: Instant, busy: Option<f64>) -> Span {
        Span {
            elapsed: self.at - began,
            length: self.at - before.at,
            busy,
            counts: self.counts.since(&before.counts),
            port: self.port.since(&before.port),
            is_total: false,
        }
    }
}
