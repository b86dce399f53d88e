//! What a command answers, before it has a form: pieces, which a terminal, Markdown and a browser get alike.
//! Knows no address and no record.

use super::forms::{self, Piece};

/// Pieces, one below the other.
#[derive(Default)]
pub(crate) struct Answer {
    pub(super) pieces: Vec<Piece>,
}

impl Answer {
    pub(super) fn of(pieces: Vec<Piece>) -> Answer {
        Answer { pieces }
    }

    /// A sentence.
    #[cfg(any(feature = "web", feature = "nats"))]
    pub(crate) fn said(sentence: impl Into<String>) -> Answer {
        Answer::of(vec![Piece::Lines(vec![sentence.into()])])
    }

    /// For a terminal of this width.
    pub(crate) fn text(&self, width: Option<u16>) -> String {
        forms::text(&self.pieces, width)
    }

    /// Ready to paste.
    pub(crate) fn markdown(&self) -> String {
        forms::markdown(&self.pieces)
    }
}
