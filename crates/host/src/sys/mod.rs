//! System calls, each behind a safe function: the only address of `unsafe` in this crate.
//! Knows nothing of trials.
#![allow(unsafe_code)] // System calls go through libc, which can only be called so; each block says why it is sound.

pub mod thread;
