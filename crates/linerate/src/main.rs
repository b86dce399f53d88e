//! `linerate`, the command.
fn main() {}
