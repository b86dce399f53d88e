//! What `console` is asked.

use clap::Args;

use super::EndsArgs;

#[derive(Args, Debug)]
pub(crate) struct ConsoleArgs {
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
    /// Numbered lines instead of a full screen: for serial lines, scripts and screen readers
    ///
    /// So it is also with TERM=dumb, and where standard input or output is no terminal.
    #[arg(long)]
    pub(crate) plain: bool,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(crate) queue: super::QueueArgs,
}
