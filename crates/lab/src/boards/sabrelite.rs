//! The SABRE Lite: an i.MX6Q, with its FEC.
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, Arch, Board, DeviceTree, LinuxSystem, Qemu, Software};

pub(super) static SABRELITE: Board = Board {
    name: "sabrelite",
    about: "i.MX6 Quad SABRE Lite, FEC, 1 CPU",
    driver: "fec",
    limits: "MIB counters stay 0, no pause frames; the MAC computes no checksum over IPv6, so that is off; reading the clock is slow (14 µs)",
    qemu: Qemu {
        program: "qemu-system-arm",
        package: "qemu-system-arm",
        machine: &["-M", "sabrelite", "-smp", "1", "-m", "512"],
        port: &["-net", "nic,netdev=n0"],
        agent_port: AgentPort::Serial { agent: 0, console: 1 },
    },
    software: Software::Linux(LinuxSystem {
        arch: Arch::Armv7,
        kernel_package: "linux-image-armmp",
        // Without nohz=off sleeps overshoot by 250 ms under QEMU; iomem=relaxed lets registers be read.
        command_line: "console=ttymxc1,115200 nohz=off iomem=relaxed",
        // Without gpio-mxc the PHY's reset line is missing, and the port waits for it for ever.
        modules: &["gpio-mxc", "smsc", "fec"],
        tree: DeviceTree::Kernel {
            file: "imx6q-sabrelite.dtb",
            // QEMU's model of the DMA controller moves nothing: the port must do without.
            changes: &[&["-d", "/soc/bus@2000000/spba-bus@2000000/serial@2020000", "dmas", "dma-names"]],
        },
        console: "ttymxc1",
        agent_device: "/dev/ttymxc0",
        before_modules: "",
        // QEMU's FEC computes no checksum over IPv6 when the driver leaves it to the MAC: no packet would be valid.
        before_link: "ethtool -K eth0 tx-checksum-ipv6 off",
    }),
};
