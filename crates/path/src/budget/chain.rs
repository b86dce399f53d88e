//! The way of one direction: who sends, who receives, and the machine between them where there is one.
//! Knows no counters; what they say is for [`MachineAccount`].

use super::leg::Leg;
use super::machine_account::MachineAccount;

/// The machines on the way of one direction.
///
/// ```text
///   sender ──────────────── link ───────────────► receiver
///   sender ── link ──► input │ middle │ output ── link ──► receiver
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// The end that sends.
    pub sender: &'a MachineAccount<'a>,
    /// The end that receives.
    pub receiver: &'a MachineAccount<'a>,
    /// The machine that forwards what goes from one to the other.
    pub middle: Option<MiddleMachine<'a>>,
}

/// The machine between the two ends, as it is for traffic of one direction: a receiver at one interface, up to where it
/// forwards, and a sender at the other from there on.
#[derive(Clone, Copy, Debug)]
pub struct MiddleMachine<'a> {
    /// At the interface that packets come in by.
    pub input: &'a MachineAccount<'a>,
    /// At the one that they leave by.
    pub output: &'a MachineAccount<'a>,
    /// It runs on the sender's kernel, as namespaces do.
    pub shares_with_sender: bool,
    /// It runs on the receiver's.
    pub shares_with_receiver: bool,
}

impl<'a> Chain<'a> {
    /// From one end to the other, with nothing between them that is known.
    pub fn direct(sender: &'a MachineAccount<'a>, receiver: &'a MachineAccount<'a>) -> Chain<'a> {
        Chain { sender, receiver, middle: None }
    }

    /// All that was seen, in the way's order; of the middle at both interfaces.
    pub(super) fn all(self) -> impl Iterator<Item = (Leg, &'a MachineAccount<'a>)> {
        let between = self.middle.map(|middle| [(Leg::MiddleIn, middle.input), (Leg::MiddleOut, middle.output)]);
        let sender = std::iter::once((Leg::Sender, self.sender));
        sender.chain(between.into_iter().flatten()).chain([(Leg::Receiver, self.receiver)])
    }
}
