//! Boards without an operating system, a row each: linerate's own firmware on the bare MAC (docs/firmware.md).
//! Knows nothing of how a board is started.

use super::definition::{AgentPort, BareMetal, Board, Qemu, Software};

pub(super) static SABRELITE: Board = Board {
    name: "sabrelite-bare",
    about: "i.MX6 Quad SABRE Lite without an OS, ENET",
    driver: DRIVER,
    limits: LIMITS,
    qemu: Qemu { machine: &["-M", "sabrelite", "-smp", "1", "-m", "64"], ..QEMU },
    software: Software::Bare(BareMetal { firmware: "sabrelite", ..BARE }),
};

pub(super) static MCIMX6UL_EVK: Board = Board {
    name: "mcimx6ul-evk-bare",
    about: "i.MX6 UltraLite evaluation kit without an OS, ENET",
    driver: DRIVER,
    limits: LIMITS,
    qemu: Qemu { machine: &["-M", "mcimx6ul-evk", "-m", "64"], ..QEMU },
    software: Software::Bare(BareMetal { firmware: "mcimx6ul-evk", ..BARE }),
};

pub(super) static ZYNQ_A9: Board = Board {
    name: "zynq-a9-bare",
    about: "Zynq-7000 without an OS, GEM",
    driver: DRIVER,
    limits: LIMITS,
    qemu: Qemu { machine: &["-M", "xilinx-zynq-a9", "-m", "64"], ..QEMU },
    software: Software::Bare(BareMetal { firmware: "zynq-a9", ..BARE }),
};

pub(super) static ZCU102: Board = Board {
    name: "zcu102-bare",
    about: "Zynq UltraScale+ ZCU102 without an OS, GEM",
    driver: DRIVER,
    limits: GEM_LIMITS,
    qemu: Qemu { program: "qemu-system-aarch64", machine: &["-M", "xlnx-zcu102", "-smp", "1", "-m", "64"], ..QEMU },
    software: Software::Bare(BareMetal { firmware: "zcu102", ..BARE }),
};

pub(super) static SIFIVE_U: Board = Board {
    name: "sifive-u-bare",
    about: "SiFive's HiFive Unleashed without an OS, GEM",
    driver: DRIVER,
    limits: GEM_LIMITS,
    qemu: Qemu {
        program: "qemu-system-riscv64",
        package: "qemu-system-misc",
        machine: &["-M", "sifive_u", "-m", "64", "-bios", "none"],
        ..QEMU
    },
    software: Software::Bare(BareMetal { firmware: "sifive-u", ..BARE }),
};

pub(super) static MICROBLAZE_V: Board = Board {
    name: "microblaze-v-bare",
    about: "AMD's MicroBlaze V without an OS, AXI Ethernet",
    driver: DRIVER,
    limits: "a frame that comes while the receive ring is full is received twice; no frame above 4092 bytes",
    qemu: Qemu {
        program: "qemu-system-riscv32",
        package: "qemu-system-misc",
        machine: &["-M", "amd-microblaze-v-generic"],
        // There is another MAC, Ethernet Lite, which would get the first port.
        port: &["-net", "nic,netdev=n0,model=xlnx.axi-ethernet"],
        ..QEMU
    },
    software: Software::Bare(BareMetal {
        firmware: "microblaze-v",
        since: 10,
        loaded_by: ("-device", "loader,cpu-num=0,file="),
    }),
};

const DRIVER: &str = "nic";
/// Of the 14 bits of a length that is to be sent, QEMU looks at 13.
const GEM_LIMITS: &str = "no frame above 8191 bytes, no pause frames, no time on the bus";
const LIMITS: &str = "no pause frames, no time on the bus: a ring's bugs of order and caches do not show";

const QEMU: Qemu = Qemu {
    program: "qemu-system-arm",
    package: "qemu-system-arm",
    machine: &[],
    port: &["-net", "nic,netdev=n0"],
    agent_port: AgentPort::Nowhere,
};

const BARE: BareMetal = BareMetal { firmware: "", since: 7, loaded_by: ("-kernel", "") };
