//! QEMU's own 64-bit Arm machine: the quickest to start.
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, Arch, Board, DeviceTree, LinuxSystem, Qemu, Software};

pub(super) static VIRT: Board = Board {
    name: "virt",
    about: "QEMU's own 64-bit Arm machine, virtio, 2 CPUs",
    driver: "virtio_net",
    limits: "no MAC at all: virtio is a queue in memory",
    qemu: QEMU,
    software: Software::Linux(SYSTEM),
};

pub(super) static VIRT_E1000: Board = Board {
    name: "virt-e1000",
    about: "QEMU's own 64-bit Arm machine, Intel 82540EM, 2 CPUs",
    driver: "e1000",
    limits: "no pause frames, no coalescing",
    qemu: Qemu { port: &["-device", "e1000,netdev=n0,romfile="], ..QEMU },
    software: Software::Linux(LinuxSystem { modules: &["virtio_pci", "virtio_console", "e1000"], ..SYSTEM }),
};

const QEMU: Qemu = Qemu {
    program: "qemu-system-aarch64",
    package: "qemu-system-arm",
    machine: &["-M", "virt", "-cpu", "cortex-a57", "-smp", "2", "-m", "512"],
    port: &["-device", "virtio-net-pci,netdev=n0,romfile="],
    agent_port: AgentPort::Virtio,
};

const SYSTEM: LinuxSystem = LinuxSystem {
    arch: Arch::Aarch64,
    kernel_package: "linux-image-arm64",
    command_line: "console=ttyAMA0,115200",
    modules: &["virtio_pci", "virtio_console", "virtio_net"],
    tree: DeviceTree::Qemu,
    console: "ttyAMA0",
    agent_device: "/dev/vport0p1",
    before_modules: "",
    before_link: "",
};
