//! How often this thread did what takes long of a record: for tests that hold a command to doing it once.
//! Never in a program.

use std::cell::Cell;

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// [`crate::observation::Observation::of`].
    pub observations: u64,
    /// [`crate::findings::findings`].
    pub findings: u64,
    /// [`crate::record::Record::to_json`].
    pub texts: u64,
}

thread_local! {
    static EFFORT: Cell<Effort> = const { Cell::new(Effort { observations: 0, findings: 0, texts: 0 }) };
}

/// Of this thread.
pub fn effort() -> Effort {
    EFFORT.get()
}

pub(crate) fn count(more: impl FnOnce(&mut Effort)) {
    let mut effort = EFFORT.get();
    more(&mut effort);
    EFFORT.set(effort);
}
