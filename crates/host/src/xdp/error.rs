//! Why frames cannot be sent, counted or answered in the kernel here.
//! Knows no programs.

use std::io;

use crate::sys::bpf::LoadError;

/// What keeps a BPF program from its work, each with what to try.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// EPERM.
    #[error("BPF programs are not allowed here; run as root, or with CAP_BPF and CAP_NET_ADMIN")]
    NotPermitted,
    /// ENOSYS.
    #[error("this kernel has no BPF; it needs CONFIG_BPF_SYSCALL")]
    NoBpf,
    /// The kernel is too old for this.
    #[error("this kernel {cannot}, which came with Linux {since}")]
    TooOld {
        /// As "cannot attach …".
        cannot: &'static str,
        /// The first version that can.
        since: &'static str,
    },
    /// There is no such interface in this network namespace.
    #[error("this machine has no interface {0}; 'ip link' shows those it has")]
    NoInterface(String),
    /// Another XDP program is attached there.
    #[error("{0} has an XDP program already, and takes one alone; 'bpftool net' shows whose it is")]
    Taken(String),
    /// The driver takes no XDP programs, or not as the interface is set.
    #[error(
        "the driver of {interface} takes no XDP program ({said}); a smaller MTU, or the stack instead of the driver"
    )]
    Driver {
        /// Which interface.
        interface: String,
        /// What the kernel said.
        said: String,
    },
    /// The driver sends no frames of XDP programs.
    #[error(
        "the driver of {0} sends no frames of XDP programs (ndo_xdp_xmit); of a veth the other end needs an XDP program in \
         its driver, or GRO"
    )]
    SendsNone(String),
    /// The frame is larger than a page has room for.
    #[error("a frame of {octets} bytes is too large for a BPF program, which sends up to {most}; send it by a socket")]
    TooLarge {
        /// Its length, without FCS.
        octets: usize,
        /// The longest, without FCS.
        most: usize,
    },
    /// The kernel's verifier took no program.
    #[error("the kernel refused the BPF program: {0}")]
    Refused(#[source] LoadError),
    /// Anything else.
    #[error("{doing} failed: {error}")]
    Kernel {
        /// The step, as a clause.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        error: io::Error,
    },
}

impl XdpError {
    /// Of a map.
    pub(crate) fn map(error: io::Error) -> XdpError {
        XdpError::general("making a BPF map", error)
    }

    /// Of a program.
    pub(crate) fn load(refused: LoadError) -> XdpError {
        match refused.error.raw_os_error() {
            Some(libc::EPERM) => XdpError::NotPermitted,
            Some(libc::ENOSYS) => XdpError::NoBpf,
            _ => XdpError::Refused(refused),
        }
    }

    /// Of a step that fails without rights and without BPF as every other.
    pub(crate) fn general(doing: &'static str, error: io::Error) -> XdpError {
        match error.raw_os_error() {
            Some(libc::EPERM) => XdpError::NotPermitted,
            Some(libc::ENOSYS) => XdpError::NoBpf,
            _ => XdpError::Kernel { doing, error },
        }
    }
}
