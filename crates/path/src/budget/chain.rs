//! The way of one direction: who sends, who receives, and the machine between them where there is one.
//! Knows no counters; what they say is for [`Seen`].

use linerate_machine::end::{Direction, Party};

use super::seen::Seen;
use crate::stage::Stage;

/// The machines on the way of one direction.
///
/// ```text
///   sender ──────────────── link ───────────────► receiver
///   sender ── link ──► input │ middle │ output ── link ──► receiver
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// The end that sends.
    pub sender: &'a Seen<'a>,
    /// The end that receives.
    pub receiver: &'a Seen<'a>,
    /// The machine that forwards what goes from one to the other.
    pub middle: Option<Between<'a>>,
}

/// The machine between the two ends, as it is for traffic of one direction: a receiver at one interface, up to where it
/// forwards, and a sender at the other from there on.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    /// At the interface that packets come in by.
    pub input: &'a Seen<'a>,
    /// At the one that they leave by.
    pub output: &'a Seen<'a>,
    /// It runs on the sender's kernel, as namespaces do.
    pub shares_with_sender: bool,
    /// It runs on the receiver's.
    pub shares_with_receiver: bool,
}

impl<'a> Chain<'a> {
    /// From one end to the other, with nothing between them that is known.
    pub fn direct(sender: &'a Seen<'a>, receiver: &'a Seen<'a>) -> Chain<'a> {
        Chain { sender, receiver, middle: None }
    }

    /// All that was seen, in the way's order; of the middle at both interfaces.
    pub(super) fn all(self) -> impl Iterator<Item = (Leg, &'a Seen<'a>)> {
        let between = self.middle.map(|middle| [(Leg::MiddleIn, middle.input), (Leg::MiddleOut, middle.output)]);
        let sender = std::iter::once((Leg::Sender, self.sender));
        sender.chain(between.into_iter().flatten()).chain([(Leg::Receiver, self.receiver)])
    }
}

/// A part of the way, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leg {
    /// The sender, down to its link.
    Sender,
    /// The middle, from its link up.
    MiddleIn,
    /// The middle, down to its other link.
    MiddleOut,
    /// The receiver, from its link up.
    Receiver,
}

impl Leg {
    /// The stages of a way, each with the part that it is in, in order.
    pub fn stages(through_middle: bool) -> Vec<(Leg, Stage)> {
        let of = |leg: Leg, from: Stage, to: Stage| {
            Stage::PATH.into_iter().filter(move |stage| (from..=to).contains(stage)).map(move |stage| (leg, stage))
        };
        let mut stages: Vec<(Leg, Stage)> = of(Leg::Sender, Stage::SenderApplication, Stage::MacTx).collect();
        if through_middle {
            stages.extend(of(Leg::MiddleIn, Stage::Link, Stage::ReceiverStack));
            stages.extend(of(Leg::MiddleOut, Stage::SenderStack, Stage::MacTx));
        }
        stages.extend(of(Leg::Receiver, Stage::Link, Stage::ReceiverApplication));
        stages
    }

    /// A stage's name in this part: those of the middle are named with it.
    pub fn title(self, stage: Stage) -> String {
        match self {
            Leg::Sender | Leg::Receiver => stage.name().to_owned(),
            Leg::MiddleIn | Leg::MiddleOut => format!("middle: {stage}"),
        }
    }

    /// The part that this stage of this machine is in. A link belongs to the machine that it leads to.
    pub(super) fn of(party: Party, stage: Stage) -> Leg {
        match (party, stage < Stage::Link) {
            (Party::Middle, false) => Leg::MiddleIn,
            (Party::Middle, true) => Leg::MiddleOut,
            (_, true) => Leg::Sender,
            (_, false) => Leg::Receiver,
        }
    }
}

/// Where something was counted: of packets that went which way, on which machine.
#[derive(Clone, Debug)]
pub(super) struct SeenAt {
    pub(super) direction: Direction,
    pub(super) party: Party,
    pub(super) interface: Option<String>,
}
