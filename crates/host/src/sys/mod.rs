//! Every system call that std and socket2 do not offer, behind safe functions: the crate's one place for `unsafe`.
//! Knows no trials; numbers go in, numbers come out.
#![allow(unsafe_code, reason = "this module is the crate's one address for unsafe; each block carries its proof")]

pub mod bpf;
pub mod child;
pub mod datagrams;
pub mod device_memory;
pub mod ethtool;
pub mod frame_batch;
pub mod frame_blocks;
pub mod frames;
pub mod local;
pub mod machine;
pub mod memory;
pub mod message;
pub mod namespace;
pub mod netlink;
pub mod option;
pub mod pacing;
pub mod packet;
pub mod perf;
pub mod pipe;
pub mod poll;
pub mod signals;
pub mod socket_state;
pub mod thread;
// The crate io-uring knows the layout of these only.
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "powerpc64"
    )),
    path = "uring_absent.rs"
)]
pub mod uring;
pub mod xdp_socket;
pub mod zero_copy;
