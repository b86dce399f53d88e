//! stub until the interfaces arrive
#![allow(missing_docs, reason = "stub")]
pub fn carrier(_: &str) -> Option<bool> {
    None
}
