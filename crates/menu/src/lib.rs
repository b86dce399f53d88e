//! Menus and utility screens as data, and as numbered text that any terminal, script or screen reader takes.
//! Knows no machine, no trial and no terminal's commands: what an item does is its user's.
#![forbid(unsafe_code)]

pub mod dialogue;
pub mod groups;
pub mod menu;
pub mod table;
pub mod text;
