//! `linerate-agent`, the small program on a machine.
fn main() {}
