//! What `echo` is asked.

use std::time::Duration;

use clap::{Args, ValueEnum};
use linerate_host::echo::EchoWay;
use linerate_host::xdp::attach::AttachPoint;
use linerate_machine::mac::MacAddress;

use super::between;

#[derive(Args, Debug)]
pub(crate) struct EchoArgs {
    /// Where frames come from and go back to, as eth0
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: String,
    /// What frames must bear to be answered: 8 hexadecimal digits, as the other side was told; drawn and printed, when
    /// it is not given
    #[arg(long, value_name = "DIGITS", value_parser = secret)]
    pub(crate) secret: Option<u32>,
    /// Where frames turn round; by default the first of these that can be had
    #[arg(long, value_name = "WAY")]
    pub(crate) way: Option<EchoWayArg>,
    /// Be the other side instead: send frames to the echo at this Ethernet address, and say how long they take to come back
    #[arg(long, value_name = "ADDRESS", requires = "secret", conflicts_with = "way")]
    pub(crate) ask: Option<MacAddress>,
    /// With --ask: frames that are on their way at once, 1 to 256
    #[arg(long, value_name = "N", value_parser = between::<u16>(1, 256), default_value_t = 1, requires = "ask")]
    pub(crate) in_flight: u16,
    /// With --ask: size of each frame, FCS counted
    #[arg(long, value_name = "BYTES", value_parser = between::<u32>(64, 9022), default_value_t = 64, requires = "ask")]
    pub(crate) frame_size: u32,
    /// With --ask: for how long; without it until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = linerate_machine::units::parse_duration, requires = "ask")]
    pub(crate) duration: Option<Duration>,
    /// Time between two lines
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "5s")]
    pub(crate) interval: Duration,
    /// Print each line as a JSON object, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum EchoWayArg {
    /// In the driver (XDP): the fastest
    Driver,
    /// In the kernel's stack (XDP), with any driver
    Stack,
    /// By a packet socket: for frames of any length, with any kernel
    Socket,
}

impl From<EchoWayArg> for EchoWay {
    fn from(argument: EchoWayArg) -> EchoWay {
        match argument {
            EchoWayArg::Driver => EchoWay::Xdp(AttachPoint::Driver),
            EchoWayArg::Stack => EchoWay::Xdp(AttachPoint::Stack),
            EchoWayArg::Socket => EchoWay::Socket,
        }
    }
}

fn secret(text: &str) -> Result<u32, String> {
    let is_hexadecimal = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = is_hexadecimal.then(|| u32::from_str_radix(text, 16).ok()).flatten();
    digits.ok_or_else(|| "write 8 hexadecimal digits, like 1c0ffee1".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = linerate_machine::units::parse_duration(text).map_err(|error| error.to_string())?;
    if interval < SHORTEST { Err("two lines are 100 ms apart at least".to_owned()) } else { Ok(interval) }
}

/// The kernel counts CPU time in ticks of up to 10 ms.
const SHORTEST: Duration = Duration::from_millis(100);

/// What an echo looks like.
pub(super) const ECHO_HELP: &str = "\
Examples:
  linerate echo --interface eth0
  linerate echo --interface eth0 --secret 1a2b3c4d --ask 02:00:00:00:00:02";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_eight_digits() {
        assert_eq!(secret("1c0FFEE1"), Ok(0x1c0f_fee1));
        for text in ["", "1", "1c0ffee", "1c0ffee12", "+c0ffee1", "0x1c0ffe", "1c0ffeeé"] {
            assert!(secret(text).is_err(), "{text}");
        }
        assert!(interval("5s").is_ok() && interval("1ms").is_err() && interval("soon").is_err());
    }
}
