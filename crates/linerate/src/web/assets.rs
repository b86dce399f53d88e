//! Style sheet and scripts, as they are in the source: no build step, and nothing from elsewhere.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use hyper::header::HeaderValue;

use super::reply::{Reply, kind};

const ALL: [(&str, &str, &str); 4] = [
    ("style.css", kind::CSS, include_str!("assets/style.css")),
    ("page.js", kind::SCRIPT, include_str!("assets/page.js")),
    ("live.js", kind::SCRIPT, include_str!("assets/live.js")),
    ("sign_in.js", kind::SCRIPT, include_str!("assets/sign_in.js")),
];

/// The file at `/asset/NAME`; who has it already is told that.
pub(super) fn answer(path: &[&str], has: Option<&HeaderValue>) -> Option<Reply> {
    let ["asset", name] = path else { return None };
    let (_, kind, text) = ALL.iter().find(|(other, ..)| other == name)?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let is_known = has.is_some_and(|has| has.as_bytes() == tag.as_bytes());
    let (status, body) = if is_known { (304, &b""[..]) } else { (200, text.as_bytes()) };
    let reply = Reply { status, kind, body: Cow::Borrowed(body), head: Vec::new() };
    Some(reply.with("etag", tag).with("cache-control", "no-cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_few_and_small() {
        let all: usize = ALL.iter().map(|(.., text)| text.len()).sum();
        let scripts: usize = ALL.iter().filter(|(_, of, _)| *of == kind::SCRIPT).map(|(.., text)| text.len()).sum();
        assert!(all <= 120_000 && scripts <= 40_000, "{all} bytes, {scripts} of scripts");
        for (name, _, text) in ALL {
            for foreign in ["http:", "https:", "eval(", "innerHTML", "@import", "url("] {
                assert!(!text.contains(foreign), "{name} has {foreign}");
            }
        }
    }

    #[test]
    fn who_has_it_gets_nothing() {
        let reply = answer(&["asset", "style.css"], None).unwrap();
        let tag = reply.head.iter().find(|(name, _)| *name == "etag").unwrap().1.clone();
        let again = answer(&["asset", "style.css"], Some(&HeaderValue::try_from(tag).unwrap())).unwrap();
        assert_eq!((reply.status, again.status, again.body.len()), (200, 304, 0));
        assert!(answer(&["asset", "../web.rs"], None).is_none() && answer(&["asset"], None).is_none());
    }
}
