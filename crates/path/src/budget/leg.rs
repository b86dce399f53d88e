//! The parts of a way, and where on it something was counted.
//! Knows no counters.

use linerate_machine::end::{Direction, Party};

use crate::stage::Stage;

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
