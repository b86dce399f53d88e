//! `linerate lab up double`: a device between two machines that forwards so many frames a second, and counts what it drops.
//! Knows what to show; `host::xdp::double` forwards.

use std::io;

use anyhow::{Context, Result, bail};
use linerate_host::xdp::attach::PassProgram;
use linerate_host::xdp::double::{Double, DoubleCounts, DoubleOptions, MOST_HELD_NS};
use linerate_host::xdp::generator::Pace;
use linerate_lab::{Forwards, MiddleLab, PORTS};
use linerate_machine::units::{OfferedLoad, format_duration};

use super::stay;
use crate::cli::DoubleArgs;
use crate::output::out;
use crate::render;

/// Its name.
pub(super) const NAME: &str = "double";

/// Makes it, and stays with it.
pub(super) fn up(asked: DoubleArgs) -> Result<()> {
    stay::who_may(NAME)?;
    let (capacity, depth, delay) = asked.parts();
    let OfferedLoad::PacketsPerSecond(frames) = capacity else {
        bail!("a double forwards so many frames a second, of whatever size; write --capacity 100kpps");
    };
    let hold_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    if hold_ns > MOST_HELD_NS {
        bail!("a double holds a frame for {} µs at most; write --delay 20us", MOST_HELD_NS / 1000);
    }
    let lab = MiddleLab::up(Forwards::Bridge)?;
    let options = DoubleOptions { capacity: Pace::per_second(frames), depth: depth.into(), hold_ns };
    let pass = || PassProgram::attach("eth0").map_err(io::Error::other);
    let forward = |from: &str, to: &str| Double::attach(from, to, options).map_err(io::Error::other);
    let lacking = "this kernel makes no double";
    // On a veth, frames that XDP sends arrive only where there is a program, too.
    let _ends = [lab.host.run(pass).context(lacking)?, lab.target.run(pass).context(lacking)?];
    let doubles =
        lab.middle.run(|| Ok([forward(PORTS[0], PORTS[1])?, forward(PORTS[1], PORTS[0])?])).context(lacking)?;
    let [target, host, middle] =
        [lab.target.path(), lab.host.path(), lab.middle.path()].map(|path| path.display().to_string());
    out!(
        "A double forwards {frames} frames a second each way between two machines, and may save up {depth}.{held} To find that:\n\n\
         linerate search frames --target netns:{target} --host netns:{host} --max-rate {most}\n\n\
         It forwards below the stack, where an agent in its namespace (netns:{middle}) counts no drop.\n\
         Ctrl-C ends it, and says what it dropped.\n",
        held = if hold_ns > 0 { format!(" It holds each for {}.", format_duration(delay)) } else { String::new() },
        most = OfferedLoad::PacketsPerSecond(frames.saturating_mul(2)),
    );
    stay::to_the_end();
    let counts: Vec<DoubleCounts> = doubles.iter().map(Double::counts).collect::<io::Result<_>>()?;
    let held = |counts: &DoubleCounts| {
        let us = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
        counts.held_ns.map_or_else(|| "–".to_owned(), |(least, most)| format!("{} to {}", us(least), us(most)))
    };
    let row = |(way, counts): (&str, &DoubleCounts)| {
        let frames = [counts.received, counts.forwarded, counts.dropped].map(|count| count.to_string());
        let [received, forwarded, dropped] = frames;
        [way.to_owned(), received, forwarded, dropped, held(counts)]
    };
    let rows = ["host to target", "target to host"].into_iter().zip(&counts).map(row);
    out!("{}", render::words(["", "received", "forwarded", "dropped", "held, µs"], rows, super::super::width()));
    Ok(())
}
