//! `linerate web` as browsers, programs and strangers meet it: by raw HTTP, and in Chromium.
//! Knows the commands and the addresses; what stands in an answer, the renderers' own tests know.
#![cfg(feature = "web")]

#[path = "../machines/mod.rs"]
mod machines;

mod browsers;
mod encrypted;
mod forms;
mod large;
mod runs;
mod server;
mod strangers;
#[cfg(feature = "nats")]
mod teams;

/// These mostly wait, for times that browsers and the server have: they wait together, each in a thread of its name.
#[test]
fn what_takes_its_time() {
    let all: [(&str, fn()); 4] = [
        ("what_happens_is_seen_soon_in_eight_tabs", browsers::what_happens_is_seen_soon_in_eight_tabs),
        ("a_server_that_nobody_asks_sleeps", large::a_server_that_nobody_asks_sleeps),
        ("machines_that_do_not_answer_leave_threads", strangers::machines_that_do_not_answer_leave_threads),
        ("connections_have_a_limit_and_an_end", strangers::connections_have_a_limit_and_an_end),
    ];
    std::thread::scope(|scope| {
        let begin =
            |(name, test): (&str, fn())| std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, test);
        let begun: Vec<_> = all.map(begin).into();
        begun.into_iter().for_each(|thread| thread.unwrap().join().unwrap());
    });
}
