//! Frames in the kernel: BPF programs that send, count, answer and drop test frames where the driver has them.
//! Knows no trials. Every program is written by hand ([`assembler`]), so that no machine needs a compiler or type
//! information (BTF), and is gone with the process.
//!
//! [`generator`] sends ([`Generator::run`](generator::Generator::run) takes a thread whole), [`checker`] counts at the
//! receiving interface, [`redirect`] hands frames to AF_XDP sockets, [`double`] is a device whose limit is known, for tests. A
//! veth hands over what programs send only where its other end has a program too: one of these, or a [`PassProgram`](attach::PassProgram).

pub mod assembler;
pub mod attach;
pub mod checker;
pub mod double;
pub mod error;
pub mod generator;
pub(crate) mod program;
pub mod redirect;
