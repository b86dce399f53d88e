//! The real program between two namespaces, and each kind of figure in its records held against something that did
//! not come from it. Needs root; every test says so and passes where it is not.
//! Knows no module of the program: what is compared is what a user sees with `--json`.

#[path = "../machines/backlog.rs"]
mod backlog;
mod cost;
mod delay;
mod extent;
mod frames;
mod kernel_counters;
mod losses;
mod pace;
mod peers;
mod refused;
mod rig;
mod shaped;
mod silence;
mod stops;
mod time;
