//! Whoever has come to a server and has not said yet what they want: a thread for each, and not too many.
//! Knows no protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope};

/// Strangers at once, beside the tests. The kernel's queue holds some more.
const MOST: usize = 64;
/// Threads wait and copy little; the data has threads of its own.
const STACK: usize = 256 << 10;

/// Those whose first words are awaited.
#[derive(Default)]
pub struct Strangers(AtomicUsize);

impl Strangers {
    /// A thread for one, who [leaves](Strangers::leave) there. `false`: they are too many, and nobody hears this one.
    pub fn hear<'scope>(&self, scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
        let full = self.0.fetch_add(1, Ordering::Relaxed) >= MOST;
        let heard = !full && Builder::new().stack_size(STACK).spawn_scoped(scope, work).is_ok();
        if !heard {
            self.leave();
        }
        heard
    }

    /// One is no stranger any more, or gone.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn too_many_are_not_heard_until_one_has_left() {
        let strangers = Strangers::default();
        let (speak, spoken) = mpsc::channel::<()>();
        let spoken = std::sync::Mutex::new(spoken);
        thread::scope(|scope| {
            let silent = || {
                let _ = spoken.lock().unwrap().recv();
                strangers.leave();
            };
            for _ in 0..MOST {
                assert!(strangers.hear(scope, silent));
            }
            assert!(!strangers.hear(scope, silent));
            speak.send(()).unwrap();
            while strangers.0.load(Ordering::Relaxed) == MOST {
                thread::yield_now();
            }
            assert!(strangers.hear(scope, silent));
            drop(speak);
        });
    }
}
