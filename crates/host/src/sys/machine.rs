//! What the kernel says of itself.
//! Knows uname(2) only.

use std::ffi::{CStr, c_char};

/// Release, version and machine, as `uname -r`, `-v` and `-m` print them.
#[derive(Clone, Debug)]
pub struct KernelName {
    /// The release.
    pub release: String,
    /// When and how it was built.
    pub version: String,
    /// The instruction set.
    pub architecture: String,
}

/// Asks the running kernel.
pub fn kernel_name() -> Option<KernelName> {
    // SAFETY: a utsname is arrays of octets, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a utsname that is ours alone; the kernel fills it and keeps no pointer to it.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return None;
    }
    Some(KernelName {
        release: text(&name.release)?,
        version: text(&name.version)?,
        architecture: text(&name.machine)?,
    })
}

fn text(field: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).ok().map(|text| text.to_string_lossy().into_owned())
}
