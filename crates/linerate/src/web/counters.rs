//! `/metrics` and nothing else, of a program that has no pages: `linerate worker`.
//! Knows who may read it; what is told, a function says that is asked for each scrape.

use hyper::Request;
use hyper::body::Incoming;
use hyper::header;

use super::access::{Gate, Passed};
use super::connection_slots::ConnectionSlot;
use super::head::{head_of, one};
use super::reply::Reply;
use super::request::reads_openmetrics;
use super::sessions::ScraperToken;
use crate::render::metrics::Families;

/// The counters that a scraper with the token reads.
pub(crate) struct Counters {
    gate: Gate,
    scraper: ScraperToken,
    told: Box<dyn Fn() -> Families + Send + Sync>,
}

impl Counters {
    pub(crate) fn new(scraper: ScraperToken, told: impl Fn() -> Families + Send + Sync + 'static) -> Counters {
        Counters { gate: Gate::new(Vec::new()), scraper, told: Box::new(told) }
    }

    pub(super) fn answered(&self, request: &Request<Incoming>, place: &ConnectionSlot) -> Reply {
        let head = head_of(request, &|token| self.scraper.is(token), false);
        match self.gate.passes(&head) {
            Err((status, sentence)) => Reply::said(status, sentence),
            Ok(_) if request.uri().path() != "/metrics" => Reply::said(404, "Here is /metrics, and nothing else."),
            Ok(_) if head.method == "POST" => Reply::said(405, "This address is for GET."),
            Ok(Passed::Unknown) => Reply::said(401, "This needs the scraper's token: Authorization: Bearer TOKEN."),
            Ok(Passed::Known) => {
                place.set_known();
                let accept = one(request.headers(), &header::ACCEPT);
                Reply::scraped((self.told)(), reads_openmetrics(accept))
            }
        }
    }
}
