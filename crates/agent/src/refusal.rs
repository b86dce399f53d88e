//! Why a request is not carried out.
//! Knows the kinds of refusal, and no request.

use linerate_control::message::RefusalKind;

/// Why a request was not carried out.
pub(crate) struct Refusal(pub(crate) RefusalKind, pub(crate) String);

/// The machine could not do it.
pub(crate) fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal(RefusalKind::Failed, error.to_string())
}

/// It comes before what must be done first.
pub(crate) fn out_of_order(sentence: &str) -> Refusal {
    Refusal(RefusalKind::OutOfOrder, sentence.to_owned())
}
