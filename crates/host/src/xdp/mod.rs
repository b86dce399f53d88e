//! Frames in the kernel: BPF programs that send, count, answer and drop test frames where the driver has them.
//! Knows no trials. Every program is written by hand ([`assembler`]), so that no machine needs a compiler or type
//! information (BTF), and is gone with the process.

pub mod assembler;
