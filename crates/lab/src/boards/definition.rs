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
    pub(crate) software: Software,
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
    /// Nowhere: there is none. The first serial port is the console.
    Nowhere,
}

/// The software on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Software {
    /// Linux, with an agent.
    Linux(LinuxSystem),
    /// linerate's own firmware, and nothing else.
    Bare(BareMetal),
}

/// A board without an operating system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BareMetal {
    /// As `cargo xtask firmware` calls it.
    pub(crate) firmware: &'static str,
    /// The first version of QEMU that has the board, with its bugs mended.
    pub(crate) since: u32,
    /// QEMU's option that loads the firmware, and what of its value comes before the file.
    pub(crate) loaded_by: (&'static str, &'static str),
}

/// A Linux system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinuxSystem {
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
    /// Done in its init before the modules are loaded, and after the port is there: lines of a shell script.
    pub(crate) before_modules: &'static str,
    pub(crate) before_link: &'static str,
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

/// What of linerate runs on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The agent for its processor.
    Agent(Arch),
    /// The firmware of this name: there is nothing else on it.
    Firmware(&'static str),
}

impl Board {
    /// What of linerate runs on it, which is to be found before it starts.
    pub fn runs(&self) -> Program {
        match self.software {
            Software::Linux(system) => Program::Agent(system.arch),
            Software::Bare(bare) => Program::Firmware(bare.firmware),
        }
    }

    /// Whether it has no operating system, and so no agent.
    pub fn is_bare(&self) -> bool {
        matches!(self.software, Software::Bare(_))
    }

    /// QEMU's name of it, and its kernel: what it is made of.
    pub fn made_of(&self) -> String {
        let software = match self.software {
            Software::Linux(system) => system.kernel_package,
            Software::Bare(_) => "linerate's firmware",
        };
        format!("{} {}, {software}", self.qemu.program, self.qemu.machine[..2].join(" "))
    }
}
