//! What is known of each emulated board: QEMU's name for it, its kernel, its port, and its peculiarities.
//! Knows no files and starts nothing.

/// An emulated board.
#[derive(Debug)]
pub struct Board {
    /// Its name in `board:NAME`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The Linux driver of its port.
    pub driver: &'static str,
    /// What of it is not as on hardware, beside its speed.
    pub limits: &'static str,
    pub(crate) qemu: Qemu,
    pub(crate) system: System,
    /// Done in its init before the modules are loaded, and after the port is there: lines of a shell script.
    pub(crate) before_modules: &'static str,
    pub(crate) before_link: &'static str,
}

/// How QEMU makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Qemu {
    /// The program.
    pub(crate) program: &'static str,
    /// The Debian package that has it.
    pub(crate) package: &'static str,
    /// `-M`, and what else the machine needs.
    pub(crate) machine: &'static [&'static str],
    /// The port: what follows `-netdev tap,id=n0,…`.
    pub(crate) port: &'static [&'static str],
    pub(crate) agent_port: AgentPort,
}

/// Where the agent speaks, which is never the port under test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AgentPort {
    /// A serial port: QEMU's number of it, and that of the console.
    Serial {
        /// The agent's.
        agent: usize,
        /// The console's.
        console: usize,
    },
    /// A virtio console port beside the one serial port, which is the console.
    Virtio,
}

/// The software on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    pub(crate) arch: Arch,
    /// Debian's package that depends on the newest kernel.
    pub(crate) kernel_package: &'static str,
    /// The kernel's command line.
    pub(crate) command_line: &'static str,
    /// Modules that the port needs, without those that they depend on, in order.
    pub(crate) modules: &'static [&'static str],
    pub(crate) tree: DeviceTree,
    /// The console's device.
    pub(crate) console: &'static str,
    /// The device on which the agent speaks.
    pub(crate) agent_device: &'static str,
}

/// A processor architecture, by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 32-bit Arm with hardware floating point.
    Armv7,
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit MIPS, little-endian.
    Mipsel,
}

impl Arch {
    /// As agents are called.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Armv7 => "armv7",
            Arch::Aarch64 => "aarch64",
            Arch::Mipsel => "mipsel",
        }
    }

    /// As Debian calls it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Arch::Armv7 => "armhf",
            Arch::Aarch64 => "arm64",
            Arch::Mipsel => "mipsel",
        }
    }
}

/// Where the description of the board's hardware comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceTree {
    /// QEMU gives it, or the board needs none.
    Qemu,
    /// One of the kernel package's, changed by `fdtput` with these arguments.
    Kernel {
        /// The file's name.
        file: &'static str,
        /// For each change, what follows the file's name; a leading `-t s` or `-d` goes before it.
        changes: &'static [&'static [&'static str]],
    },
    /// Our own, compiled by `dtc`.
    Own(&'static str),
}

impl Board {
    /// Its processor, by which its agent is chosen.
    pub fn arch(&self) -> Arch {
        self.system.arch
    }

    /// QEMU's name of it, and its kernel: what it is made of.
    pub fn made_of(&self) -> String {
        format!("{} {}, {}", self.qemu.program, self.qemu.machine[..2].join(" "), self.system.kernel_package)
    }
}
