//! What the server answers: a status, a kind of content, and octets.

use std::borrow::Cow;

use crate::render::metrics::{Families, openmetrics, prometheus};

/// The kinds that are sent.
pub(super) mod kind {
    pub(crate) const HTML: &str = "text/html; charset=utf-8";
    pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
    pub(crate) const MARKDOWN: &str = "text/markdown; charset=utf-8";
    pub(crate) const CSV: &str = "text/csv; charset=utf-8";
    pub(crate) const JSON: &str = "application/json";
    pub(crate) const JSON_LINES: &str = "application/jsonl; charset=utf-8";
    pub(crate) const SVG: &str = "image/svg+xml";
    pub(crate) const CSS: &str = "text/css; charset=utf-8";
    /// OpenMetrics 1.0, "Protocol Negotiation"; and the format before it.
    pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    pub(crate) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
    pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Cow<'static, [u8]>,
    /// What stands in the head beside what every answer has.
    pub(super) head: Vec<(&'static str, String)>,
}

impl Reply {
    pub(super) fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Reply {
        Reply { status, kind, body: Cow::Owned(body.into()), head: Vec::new() }
    }

    /// For a scraper, in the form that it reads.
    pub(super) fn scraped(families: Families, reads_openmetrics: bool) -> Reply {
        match reads_openmetrics {
            true => Reply::new(200, kind::OPENMETRICS, openmetrics(families)),
            false => Reply::new(200, kind::PROMETHEUS, prometheus(families)),
        }
    }

    /// A sentence for a program or a person.
    pub(super) fn said(status: u16, sentence: &str) -> Reply {
        Reply::new(status, kind::TEXT, format!("{sentence}\n"))
    }

    /// The browser goes on there.
    pub(super) fn see(address: &str) -> Reply {
        Reply::said(303, "See the address in Location.").with("location", address)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        self.head.push((name, value.into()));
        self
    }
}
