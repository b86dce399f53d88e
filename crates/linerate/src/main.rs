//! `linerate`, the command.
//! Knows nothing yet of a command line.

#[allow(dead_code, reason = "the command line that chooses a renderer is not written yet")]
mod render;

fn main() {}
