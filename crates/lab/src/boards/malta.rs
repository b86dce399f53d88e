//! The Malta: a MIPS reference board, with the network cards of PCs.
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, Arch, Board, DeviceTree, LinuxSystem, Qemu, Software};

pub(super) static MALTA: Board = Board {
    name: "malta",
    about: "MIPS Malta, 24Kf little-endian, Intel 82540EM, 1 CPU",
    driver: "e1000",
    limits: "no pause frames, no coalescing",
    qemu: QEMU,
    software: Software::Linux(SYSTEM),
};

pub(super) static MALTA_PCNET: Board = Board {
    name: "malta-pcnet",
    about: "MIPS Malta, 24Kf little-endian, AMD PCnet, 1 CPU",
    driver: "pcnet32",
    limits: "no pause frames, no coalescing",
    qemu: Qemu { port: &["-device", "pcnet,netdev=n0"], ..QEMU },
    software: Software::Linux(LinuxSystem { modules: &["pcnet32"], ..SYSTEM }),
};

const QEMU: Qemu = Qemu {
    program: "qemu-system-mipsel",
    package: "qemu-system-mips",
    machine: &["-M", "malta", "-cpu", "24Kf", "-m", "256"],
    port: &["-device", "e1000,netdev=n0"],
    agent_port: AgentPort::Serial { agent: 1, console: 0 },
};

const SYSTEM: LinuxSystem = LinuxSystem {
    arch: Arch::Mipsel,
    kernel_package: "linux-image-4kc-malta",
    command_line: "console=ttyS0,115200",
    modules: &["e1000"],
    tree: DeviceTree::Qemu,
    console: "ttyS0",
    agent_device: "/dev/ttyS1",
    before_modules: "",
    before_link: "",
};
