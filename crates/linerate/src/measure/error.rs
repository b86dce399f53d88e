//! Why a trial has no figures.
//! Knows the kinds of failure, and what each means for the campaign.

use linerate_control::ControlError;
use linerate_control::message::RefusalKind;

/// Why a trial has no outcome. Each is one sentence.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TrialError {
    /// A machine refused this trial; others may go.
    #[error("{0}")]
    Refused(String),
    /// The ends did not find each other: no traffic began.
    #[error("{0}")]
    NotOpened(String),
    /// Traffic did not pass, or ended early.
    #[error("{0}")]
    Traffic(String),
    /// A machine is gone: nothing more can be measured.
    #[error("{0}")]
    Lost(String),
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
}

/// Why flows were not opened.
pub(super) fn of_connecting(error: ControlError) -> TrialError {
    match error {
        // A bad request fails whether or not the other end answers: it is no fault of the network.
        ControlError::Refused { kind, .. } if kind != RefusalKind::BadRequest => {
            TrialError::NotOpened(error.to_string())
        }
        _ => of_control(error),
    }
}

pub(super) fn of_control(error: ControlError) -> TrialError {
    match error {
        // Why an address that exists cannot be used is not known at once.
        ControlError::Refused { kind: RefusalKind::NoAddress, .. } => TrialError::NotOpened(error.to_string()),
        ControlError::Refused { .. } => TrialError::Refused(error.to_string()),
        ControlError::Interrupted => TrialError::Interrupted,
        _ => TrialError::Lost(error.to_string()),
    }
}
