//! What a tool's server can do as the other end of a trial, as far as tools differ in the same way.

use std::time::Duration;

use linerate_machine::end::Direction;
use linerate_trial::spec::Workload::{self, TcpStream, UdpStream};
use linerate_trial::spec::{Spacing, Spec};
use linerate_trial::tool::Tool;

use crate::error::Error;
use crate::protocol::of;

/// What a tool can do.
pub struct Abilities {
    /// Its workloads.
    pub workloads: &'static [Workload],
    /// Streams both ways at once.
    pub both_directions: bool,
    /// Workloads that can have parallel streams.
    pub parallel: &'static [Workload],
    /// The smallest datagram of a stream.
    pub least_datagram: u32,
    /// Its server can be asked to space what it sends otherwise than evenly.
    pub spacing: bool,
    /// It can be asked to send bursts.
    pub bursts: bool,
    /// It can be asked for a congestion control, or for pacing.
    pub congestion_control: bool,
}

const STREAMS: &[Workload] = &[TcpStream, UdpStream];
/// Nothing that a client of its could not ask for.
pub const ANY: Abilities = Abilities {
    workloads: STREAMS,
    both_directions: true,
    parallel: STREAMS,
    least_datagram: 1,
    spacing: true,
    bursts: true,
    congestion_control: true,
};

/// What a tool has not, as an error; and what to choose instead.
pub fn cannot<T>(tool: Tool, what: impl Into<String>, instead: &'static str) -> Result<T, Error> {
    Err(Error::Unsupported { tool, what: what.into().into(), instead: instead.into() })
}

/// How long after a trial's time a server may end: less than the trial is waited for.
const LATE: Duration = Duration::from_secs(5);

/// Whether a server that sends by its own clock, and is not told to end, has ended with the trial: one that waits for the turn of its next
/// message does not look.
pub fn check_turns(tool: Tool, spec: &Spec) -> Result<(), Error> {
    let (Some(time), Some(gap_ns)) = (spec.expected_time(), spec.rate.gap_ns(spec.message_octets().into())) else {
        return Ok(());
    };
    if spec.direction == Direction::Rx || gap_ns <= (time + LATE).as_nanos() as f64 {
        return Ok(());
    }
    let what = format!("server that ends while it waits {:.0} s to send its next message", gap_ns / 1e9);
    cannot(tool, what, "choose a smaller message_size, a higher rate, or a longer duration")
}

/// Whether the tool's server can be the other end of such a trial, as far as the table tells.
pub fn check(tool: Tool, spec: &Spec) -> Result<(), Error> {
    let can = &of(tool).abilities;
    let unsupported =
        |what: String, instead: String| Err(Error::Unsupported { tool, what: what.into(), instead: instead.into() });
    if !can.workloads.contains(&spec.workload) {
        let names: Vec<&str> = can.workloads.iter().map(|workload| workload.name()).collect();
        let names = match names.split_last().expect("every tool has a workload") {
            (only, []) => (*only).to_owned(),
            (last, others) => format!("{} or {last}", others.join(", ")),
        };
        let instead = format!("choose {names}, or a target with linerate's agent");
        return unsupported(spec.workload.name().to_owned(), instead);
    }
    if spec.probe {
        return cannot(tool, "probe beside a stream", "leave probe out, or choose a target with linerate's agent");
    }
    if !spec.workload.is_stream() {
        return match spec.direction {
            Direction::Rx => Ok(()),
            _ => cannot(tool, "requests of its server's", "choose direction=rx"),
        };
    }
    if spec.direction == Direction::Both && !can.both_directions {
        return cannot(tool, "both directions at once", "choose direction=rx or direction=tx");
    }
    if spec.streams > 1 && !can.parallel.contains(&spec.workload) {
        return cannot(tool, format!("parallel streams of {}", spec.workload), "choose streams=1");
    }
    if spec.workload == UdpStream && spec.message_octets() < can.least_datagram {
        let least = can.least_datagram;
        return unsupported(format!("datagrams below {least} bytes"), format!("choose message_size={least}, or more"));
    }
    if spec.direction == Direction::Rx {
        return Ok(());
    }
    if (spec.spacing != Spacing::Even && !can.spacing) || (spec.burst != 1 && !can.bursts) {
        return cannot(
            tool,
            "spacing but an even one of its server's",
            "leave spacing and burst out, or choose direction=rx",
        );
    }
    if (spec.congestion_control.is_some() || spec.pacing.is_some()) && !can.congestion_control {
        return cannot(tool, "congestion_control or pacing of its server's", "leave them out, or choose direction=rx");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use linerate_trial::spec::Workload::{TcpRr, UdpRr};

    use super::*;

    #[test]
    fn what_a_tool_has_not_is_said() {
        #[track_caller]
        fn check(tool: Tool, workload: Workload, change: impl FnOnce(&mut Spec), contains: &str) {
            let mut spec = Spec::new(workload);
            change(&mut spec);
            let sentence = super::check(tool, &spec).unwrap_err().to_string();
            assert!(sentence.contains(contains), "{sentence}");
        }
        let both = |spec: &mut Spec| spec.direction = Direction::Both;
        let tx = |spec: &mut Spec| spec.direction = Direction::Tx;
        for tool in [Tool::Iperf3, Tool::Nuttcp, Tool::Ttcp] {
            check(
                tool,
                UdpRr,
                |_| {},
                "has no udp-rr; choose tcp-stream or udp-stream, or a target with linerate's agent",
            );
        }
        check(Tool::Iperf2, UdpRr, |_| {}, "iperf2 has no udp-rr; choose tcp-stream, udp-stream or tcp-rr, or");
        for tool in [Tool::Nuttcp, Tool::Ttcp] {
            check(tool, TcpStream, both, "choose direction=rx or direction=tx");
            check(tool, UdpStream, |spec| spec.message_size = Some(4), "message_size=5");
            check(tool, UdpStream, |spec| spec.streams = 2, "streams=1");
        }
        check(Tool::Ttcp, TcpStream, |spec| spec.streams = 2, "streams=1");
        check(Tool::Iperf2, UdpStream, |spec| spec.message_size = Some(17), "message_size=18");
        for tool in [Tool::Iperf2, Tool::Netperf] {
            check(tool, TcpRr, tx, "requests of its server's; choose direction=rx");
        }
        for row in &Tool::ALL {
            if of(row.tool).abilities.workloads.contains(&UdpStream) {
                check(row.tool, UdpStream, |spec| spec.probe = true, "leave probe out");
            }
            let first = of(row.tool).abilities.workloads[0];
            super::check(row.tool, &Spec::new(first)).unwrap();
        }
        for tool in [Tool::Iperf2, Tool::Nuttcp] {
            let bursts = |spec: &mut Spec| (spec.direction, spec.burst) = (Direction::Tx, 2);
            check(tool, TcpStream, bursts, "leave spacing and burst out");
        }
    }
}
