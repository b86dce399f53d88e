//! Whether this process may make network namespaces, and the way to it without root.
//! Knows no links; a refusal is explained in the words of the switch that caused it.

use std::fmt;
use std::fs;

use crate::LabError;
use crate::sys::{self, UserNamespaceTrial};

/// What this process may do about labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It may make a [`Lab`](crate::Lab) as it is.
    Root,
    /// It may after [`enter_user_namespace`].
    UserNamespace,
    /// It may not.
    None {
        /// One sentence: what stands in the way and what to try.
        why: String,
    },
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Privilege::Root => f.write_str("with the rights of root"),
            Privilege::UserNamespace => f.write_str("in a user namespace, without root"),
            Privilege::None { why } => f.write_str(why),
        }
    }
}

/// Finds out what this process may do, by trying it in a short-lived child process.
pub fn privilege() -> Privilege {
    if may_make_namespaces(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        return Privilege::Root;
    }
    match sys::try_user_namespace() {
        Ok(UserNamespaceTrial::Works) => Privilege::UserNamespace,
        Ok(refusal) => Privilege::None { why: explain(refusal, |path| fs::read_to_string(path).ok()) },
        Err(error) => Privilege::None {
            why: format!("whether user namespaces are allowed could not be tried ({error}); run as root instead"),
        },
    }
}

/// Moves this process into a user namespace of its own, in which it is root over what it makes (and nothing else).
///
/// Call it first thing in `main`: the kernel refuses a process with a second thread (unshare(2)). There is no way
/// back, and files of other users and groups appear as nobody's from then on.
pub fn enter_user_namespace() -> Result<(), LabError> {
    let (uid, gid) = sys::effective_ids();
    sys::unshare_user().map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => LabError::Threads,
        Some(code) => LabError::NotPermitted {
            why: explain(UserNamespaceTrial::Refused(code), |path| fs::read_to_string(path).ok()),
        },
        None => LabError::Kernel { doing: "making a user namespace".to_owned(), why: error.to_string() },
    })?;
    // Mapped to 0, not to itself: programs started from here keep their rights over the lab only as uid 0
    // (capabilities(7), "Transformation of capabilities during execve"). setgroups must be denied before a gid map
    // is accepted from an unprivileged writer (user_namespaces(7)).
    let write = |path: &str, text: String| {
        fs::write(path, text)
            .map_err(|error| LabError::Kernel { doing: format!("writing {path}"), why: error.to_string() })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// CAP_SYS_ADMIN to unshare and setns, CAP_NET_ADMIN for the links; a root user inside a container may lack both.
fn may_make_namespaces(status: &str) -> bool {
    const CAP_NET_ADMIN: u64 = 1 << 12;
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    effective & (CAP_NET_ADMIN | CAP_SYS_ADMIN) == CAP_NET_ADMIN | CAP_SYS_ADMIN
}

/// Each switch that forbids user namespaces, the value that does, and where it comes from.
const SWITCHES: [(&str, &str, &str); 3] = [
    // Debian's and Arch's own patch.
    ("kernel.unprivileged_userns_clone", "0", "1"),
    // Ubuntu 23.10 and later: made, but without capabilities.
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    // namespaces(7), "The /proc/sys/user directory".
    ("user.max_user_namespaces", "0", "1000"),
];

fn explain(trial: UserNamespaceTrial, read: impl Fn(&str) -> Option<String>) -> String {
    for (name, forbids, allows) in SWITCHES {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        if read(&path).is_some_and(|value| value.trim() == forbids) {
            return format!(
                "the kernel forbids network namespaces to users without root ({name} = {forbids}); run as root, or \
                 allow them with 'sysctl -w {name}={allows}'"
            );
        }
    }
    let (what, code) = match trial {
        UserNamespaceTrial::Works => return String::new(),
        UserNamespaceTrial::Refused(code) => ("refuses a user namespace", code),
        UserNamespaceTrial::Powerless(code) => ("gives a user namespace no rights over its own network", code),
    };
    let error = std::io::Error::from_raw_os_error(code);
    let cause = match code {
        libc::ENOSPC | libc::EUSERS => "too many of them exist, or they are nested too deep",
        libc::EINVAL => "it was built without them",
        _ => "a container's seccomp filter or a security module forbids it",
    };
    format!("the kernel {what} ({error}): {cause}; run as root, or outside the container")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_not_guessed_from_the_user() {
        for (status, may) in [
            ("Name:\tx\nCapEff:\t000001ffffffffff\n", true),
            ("CapEff:\t0000000000201000\n", true),
            ("CapEff:\t0000000000001000\n", false),
            ("CapEff:\tgarbage\n", false),
            ("", false),
        ] {
            assert_eq!(may_make_namespaces(status), may, "{status:?}");
        }
    }

    #[test]
    fn a_refusal_names_its_switch() {
        for (name, value) in [
            ("kernel/unprivileged_userns_clone", "0"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1"),
            ("user/max_user_namespaces", "0"),
        ] {
            let read = |path: &str| Some(if path.ends_with(name) { format!("{value}\n") } else { "7\n".to_owned() });
            let sentence = explain(UserNamespaceTrial::Refused(libc::EPERM), read);
            assert!(sentence.contains(&format!("{} = {value}", name.replace('/', "."))), "{sentence}");
        }
        let sentence = explain(UserNamespaceTrial::Powerless(libc::EPERM), |_| None);
        assert!(sentence.contains("no rights over its own network"), "{sentence}");
        assert!(sentence.contains("run as root"), "{sentence}");
    }
}
