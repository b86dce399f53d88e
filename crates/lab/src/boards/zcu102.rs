//! The ZCU102: a Zynq UltraScale+, with its GEM.
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, Arch, Board, DeviceTree, LinuxSystem, Qemu, Software};

pub(super) static ZCU102: Board = Board {
    name: "zcu102",
    about: "Zynq UltraScale+ ZCU102, GEM, 2 CPUs",
    driver: "macb",
    limits: "byte counters come out shifted left by 32 bits; reception stalls for good once a small receive ring was full; the MAC computes no checksum over IPv6, so that is off",
    qemu: Qemu {
        program: "qemu-system-aarch64",
        package: "qemu-system-arm",
        machine: &["-M", "xlnx-zcu102", "-smp", "2", "-m", "1024"],
        port: &["-net", "nic,netdev=n0"],
        agent_port: AgentPort::Serial { agent: 1, console: 0 },
    },
    software: Software::Linux(LinuxSystem {
        arch: Arch::Aarch64,
        kernel_package: "linux-image-arm64",
        command_line: "console=ttyPS0,115200 iomem=relaxed",
        modules: &["macb"],
        tree: DeviceTree::Own(include_str!("zcu102.dts")),
        console: "ttyPS0",
        agent_device: "/dev/ttyPS1",
        before_modules: "",
        // QEMU's GEM stops receiving for good once it has found the ring full, and computes no checksum over IPv6.
        before_link: "ethtool -G eth0 rx 4096; ethtool -K eth0 tx off",
    }),
};
