//! `linerate echo`: test frames go back to where they came from, and what came is said every so often; with `--ask` the
//! frames of the other side.
//! Knows no frames; `host::echo` turns them round, and goes on whatever is printed here.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use linerate_host::cpu::CpuMeter;
use linerate_host::echo::ask::{AskCounts, AskOptions, EchoClient};
use linerate_host::echo::{Echo, EchoCounts, PortCounts};
use linerate_machine::mac::MacAddress;

use crate::cli::{EchoArgs, SharedArgs};
use crate::interrupt;
use crate::output::{out, say};
use crate::render::echo::{Span, heading, json, line};
use crate::render::echo_span::{self as render, EchoSpan};

/// How long Ctrl-C may take.
const LOOK: Duration = Duration::from_millis(20);

/// Answers until Ctrl-C.
pub(crate) fn echo(arguments: &EchoArgs, shared: &SharedArgs) -> Result<ExitCode> {
    if let Some(to) = arguments.ask {
        return ask(arguments, to);
    }
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

/// Sends frames to an echo until the time is over, or until Ctrl-C. The status is 1 where nothing came back.
fn ask(arguments: &EchoArgs, to: MacAddress) -> Result<ExitCode> {
    let Some(secret) = arguments.secret else { bail!("--ask needs the echo's --secret") };
    let (in_flight, frame_len) = (arguments.in_flight, arguments.frame_size);
    let mut asking = EchoClient::begin(&arguments.interface, AskOptions { to, secret, in_flight, frame_len })?;
    interrupt::listen();
    if !arguments.json {
        out!("{}", render::heading());
    }
    let began = Instant::now();
    let until = arguments.duration.map(|duration| began + duration);
    let (mut last, mut last_at, mut due) = (AskCounts::default(), began, began);
    let moving = || format!("sending frames on {} failed", arguments.interface);
    loop {
        due += arguments.interval;
        let end = until.map_or(due, |until| until.min(due));
        asking.ask_until(end, &interrupt::requested).with_context(moving)?;
        if interrupt::requested() || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let (now, counts) = (Instant::now(), asking.counts().with_context(moving)?);
        let span =
            EchoSpan { elapsed: now - began, length: now - last_at, now: &counts, before: &last, is_total: false };
        show(arguments, &span);
        (last, last_at) = (counts, now);
        // Lines that nobody read in time are not made up for.
        due = due.max(Instant::now() - arguments.interval);
    }
    let elapsed = began.elapsed();
    let (counts, nothing) = (asking.finish().with_context(moving)?, AskCounts::default());
    show(arguments, &EchoSpan { elapsed, length: elapsed, now: &counts, before: &nothing, is_total: true });
    if counts.returned == 0 {
        say(format_args!(
            "linerate: nothing came back from {to}; is the echo there running, with this secret, and is that its address?"
        ));
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(arguments: &EchoArgs, span: &EchoSpan<'_>) {
    if arguments.json { out!("{}", render::json(span)) } else { out!("{}", render::line(span)) }
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
