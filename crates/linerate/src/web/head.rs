//! The fields of a request's head that decide who asks. Knows no rule; those are the gate's.

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};

use super::access::Head;

/// What the gate looks at. `knows` says whether a token is one of ours.
pub(super) fn head_of<'a>(request: &'a Request<Incoming>, knows: &dyn Fn(&str) -> bool, has_cookie: bool) -> Head<'a> {
    let headers = request.headers();
    let token = one(headers, &header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    Head {
        method: request.method().as_str(),
        host: one(headers, &header::HOST),
        authority: request.uri().authority().map(|authority| authority.as_str()),
        origin: one(headers, &header::ORIGIN),
        fetch_site: one(headers, &FETCH_SITE),
        fetch_mode: one(headers, &FETCH_MODE),
        fetch_dest: one(headers, &FETCH_DEST),
        has_token: token.is_some_and(knows),
        has_cookie,
    }
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// A field that is there once; of one that is there twice, or is no text, what no rule allows.
pub(super) fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let found = all.next()?;
    Some(if all.next().is_some() { "" } else { found.to_str().unwrap_or("") })
}
