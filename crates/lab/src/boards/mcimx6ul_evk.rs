//! The i.MX6UL evaluation kit: a smaller chip with the FEC of the i.MX6.
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, Arch, Board, DeviceTree, LinuxSystem, Qemu, Software};

pub(super) static MCIMX6UL_EVK: Board = Board {
    name: "mcimx6ul-evk",
    about: "i.MX6 UltraLite evaluation kit, FEC, 1 CPU",
    driver: "fec",
    limits: "MIB counters stay 0, no pause frames; the MAC computes no checksum over IPv6, so that is off; coalescing is accepted and does nothing",
    qemu: Qemu {
        program: "qemu-system-arm",
        package: "qemu-system-arm",
        machine: &["-M", "mcimx6ul-evk", "-smp", "1", "-m", "512"],
        // QEMU 7.2 gives the second one to ENET2, which is the one with a PHY that the device tree finds.
        port: &["-net", "nic,netdev=n1", "-netdev", "hubport,id=n1,hubid=9", "-net", "nic,netdev=n0"],
        agent_port: AgentPort::Serial { agent: 1, console: 0 },
    },
    software: Software::Linux(LinuxSystem {
        arch: Arch::Armv7,
        kernel_package: "linux-image-armmp",
        command_line: "console=ttymxc0,115200 nohz=off iomem=relaxed",
        modules: &["gpio-mxc", "micrel", "fec"],
        tree: DeviceTree::Kernel {
            file: "imx6ul-14x14-evk.dtb",
            // QEMU runs the timer that the board's boot loader would start.
            changes: &[&["-t", "s", "/timer", "status", "okay"]],
        },
        console: "ttymxc0",
        agent_device: "/dev/ttymxc1",
        before_modules: "",
        // QEMU's FEC computes no checksum over IPv6 when the driver leaves it to the MAC: no packet would be valid.
        before_link: "ethtool -K eth0 tx-checksum-ipv6 off",
    }),
};
