//! `linerate lab up double`: a device between two machines that forwards so many frames a second, and counts what it drops.
//! Knows what to show; `host::xdp::double` forwards.

use std::io;

use anyhow::{Context, Result, bail};
use linerate_host::xdp::attach::Pass;
use linerate_host::xdp::double::{Double, DoubleCounts, DoubleOptions};
use linerate_host::xdp::generator::Pace;
use linerate_lab::{Between, Forwards, PORTS};
use linerate_machine::units::OfferedLoad;

use super::stay;
use crate::output::out;
use crate::render;

/// Its name.
pub(super) const NAME: &str = "double";

/// Makes it, and stays with it.
pub(super) fn up(capacity: OfferedLoad, depth: u32) -> Result<()> {
    stay::who_may(NAME)?;
    let OfferedLoad::PacketsPerSecond(frames) = capacity else {
        bail!("a double forwards so many frames a second, of whatever size; write --capacity 100kpps");
    };
    let lab = Between::up(Forwards::Bridge)?;
    let options = DoubleOptions { capacity: Pace::per_second(frames), depth: depth.into() };
    let pass = || Pass::attach("eth0").map_err(io::Error::other);
    let forward = |from: &str, to: &str| Double::attach(from, to, options).map_err(io::Error::other);
    let lacking = "this kernel makes no double";
    // On a veth, frames that XDP sends arrive only where there is a program, too.
    let _ends = [lab.in_host(pass).context(lacking)?, lab.in_target(pass).context(lacking)?];
    let doubles =
        lab.in_middle(|| Ok([forward(PORTS[0], PORTS[1])?, forward(PORTS[1], PORTS[0])?])).context(lacking)?;
    let [target, host, middle] =
        [lab.target_netns(), lab.host_netns(), lab.middle_netns()].map(|path| path.display().to_string());
    out!(
        "A double forwards {frames} frames a second each way between two machines, and may save up {depth}. To find that:\n\n\
         linerate search frames --target netns:{target} --host netns:{host} --max-rate {most}\n\n\
         It forwards below the stack, where an agent in its namespace (netns:{middle}) counts no drop.\n\
         Ctrl-C ends it, and says what it dropped.\n",
        most = OfferedLoad::PacketsPerSecond(frames.saturating_mul(2)),
    );
    stay::to_the_end();
    let counts: Vec<DoubleCounts> = doubles.iter().map(Double::counts).collect::<io::Result<_>>()?;
    let row = |(way, counts): (&str, &DoubleCounts)| {
        [way.to_owned(), counts.received.to_string(), counts.forwarded.to_string(), counts.dropped.to_string()]
    };
    let rows = ["host to target", "target to host"].into_iter().zip(&counts).map(row);
    out!("{}", render::words(["", "received", "forwarded", "dropped"], rows, super::super::width()));
    Ok(())
}
