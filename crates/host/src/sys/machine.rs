//! What the kernel says of itself, and what it allows this process.
//! Knows uname(2), setrlimit(2) and the texts of errors only.

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

/// The text of an error's number, as strerror(3) has it.
pub fn error_text(number: i32) -> Option<String> {
    let mut text: [c_char; 256] = [0; 256];
    // SAFETY: the text is written to `text`, which is ours alone and as long as is said, with a zero at its end.
    (unsafe { libc::strerror_r(number, text.as_mut_ptr(), text.len()) } == 0).then(|| self::text(&text)).flatten()
}

/// Allows this process as many open files as it may have without asking anybody; what cannot be stays as it was. Programs
/// that use select(2) are why the usual limit is lower.
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours alone; the kernel fills it and keeps no pointer to it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the kernel reads `limit`, which it has filled itself but for the number.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

fn text(field: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).ok().map(|text| text.to_string_lossy().into_owned())
}
