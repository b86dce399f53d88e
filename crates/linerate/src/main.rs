//! `linerate`, the command.
//! Knows nothing yet: its parts come one by one.

#[allow(dead_code, unused_imports, reason = "the command line that uses the plans is still to come")]
mod plan;
#[allow(dead_code, reason = "the command line that chooses a renderer is not written yet")]
mod render;

fn main() {}
