//! A server of ours, in a thread while something goes on against it.

use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_peers::served_test::ServedTest;
use linerate_peers::server::Server;

/// Has the server while `work` goes on with its address, and for as long after as `linger` takes, which is told how to ask how many tests
/// were served. Returns what `work` says, and what we saw.
pub fn serve<T>(
    server: &Server,
    address: IpAddr,
    work: impl FnOnce(SocketAddr) -> T,
    linger: impl FnOnce(&dyn Fn() -> usize),
) -> (T, Vec<ServedTest>) {
    let (served, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let at = SocketAddr::new(address, server.port().unwrap());
    let said = thread::scope(|scope| {
        let serving =
            scope.spawn(|| server.run(|_| over.load(Ordering::Relaxed), |one| served.lock().unwrap().push(one)));
        let said = catch_unwind(AssertUnwindSafe(|| work(at)));
        linger(&|| served.lock().unwrap().len());
        over.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        said
    });
    (said.unwrap_or_else(|panic| resume_unwind(panic)), served.into_inner().unwrap())
}

/// For [`serve`]: not at all.
#[allow(dead_code, reason = "not all tests have such clients")]
pub fn at_once(_: &dyn Fn() -> usize) {}

/// For [`serve`]: until so many tests were served, for so long at most. The client may be gone before its test is told of.
#[allow(dead_code, reason = "not all tests have such clients")]
pub fn until(tests: usize, patience: Duration) -> impl FnOnce(&dyn Fn() -> usize) {
    move |served| {
        let began = Instant::now();
        while served() < tests && began.elapsed() < patience {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
