//! The boards, a row each, with their manuals' addresses. A build has the one whose feature is on.
#![allow(dead_code, reason = "each build has one of them")]

use linerate_nic::controller::{AXI_ETHERNET, Controller, ENET_ENHANCED, ENET_LEGACY, GEM};

use crate::board::{Board, Clock, Uart};
use crate::machine::Peripheral;

#[cfg(feature = "mcimx6ul-evk")]
pub use MCIMX6UL_EVK as BOARD;
#[cfg(feature = "microblaze-v")]
pub use MICROBLAZE_V as BOARD;
#[cfg(feature = "sabrelite")]
pub use SABRELITE as BOARD;
#[cfg(feature = "sifive-u")]
pub use SIFIVE_U as BOARD;
#[cfg(feature = "zcu102")]
pub use ZCU102 as BOARD;
#[cfg(feature = "zynq-a9")]
pub use ZYNQ_A9 as BOARD;

/// A board with a MAC whose DMA is no core of its own; what is not said is as on most.
const fn plain(name: &'static str, controller: &'static Controller, mac: usize, uart: Uart, clock: Clock) -> Board {
    Board {
        name,
        controller,
        mac: Peripheral(mac),
        dma: Peripheral(mac),
        buffer: 2048,
        jumbo: false,
        second_queue: false,
        gigabit: true,
        rgmii: true,
        rmii: false,
        polled: false,
        rewritten: None,
        uart,
        clock,
    }
}

/// NXP's UART (IMX6DQRM, "UART memory map"): UCR2 of IRTS, WS, TXEN, RXEN, SRST; then UCR1.UARTEN. UTS.TXFULL.
const fn imx_uart(at: usize) -> Uart {
    const UCR2: u32 = 1 << 14 | 1 << 5 | 1 << 2 | 1 << 1 | 1;
    Uart { at: Peripheral(at), start: &[(0x84, UCR2), (0x80, 1)], data: 0x40, full: (0xb4, 1 << 4) }
}

/// Cadence's UART (UG585, B.33): Control_reg0 with the transmitter on. Channel_sts_reg0.TFUL.
const fn cadence_uart(at: usize) -> Uart {
    Uart { at: Peripheral(at), start: &[(0x00, 1 << 4 | 1 << 2)], data: 0x30, full: (0x2c, 1 << 4) }
}

/// i.MX6Q. The timer's frequency is QEMU's; the chip's is half of the processor's.
pub static SABRELITE: Board = plain(
    "sabrelite",
    &ENET_LEGACY,
    0x0218_8000,
    imx_uart(0x0202_0000),
    Clock::CortexA9(Peripheral(0x00a0_0200), 100_000_000),
);

/// i.MX6UL, ENET1. Its port has 100 Mbit/s, behind an RMII.
pub static MCIMX6UL_EVK: Board = Board {
    gigabit: false,
    rgmii: false,
    rmii: true,
    ..plain("mcimx6ul-evk", &ENET_ENHANCED, 0x0218_8000, imx_uart(0x0202_0000), Clock::ArmGeneric)
};

/// Zynq-7000, GEM0, which takes no jumbo frames (UG585, 16.1.5). The timer's frequency as for the SABRE Lite.
pub static ZYNQ_A9: Board = plain(
    "zynq-a9",
    &GEM,
    0xe000_b000,
    cadence_uart(0xe000_0000),
    Clock::CortexA9(Peripheral(0xf8f0_0200), 100_000_000),
);

/// Zynq UltraScale+, GEM0: QEMU gives it the first port, where the board has the one of GEM3.
pub static ZCU102: Board = Board {
    jumbo: true,
    second_queue: true,
    ..plain("zcu102", &GEM, 0xff0b_0000, cadence_uart(0xff00_0000), Clock::ArmGeneric)
};

/// SiFive's FU540: UART of txdata.full, txctrl.txen; `mtime` of the CLINT.
pub static SIFIVE_U: Board = Board {
    jumbo: true,
    ..plain(
        "sifive-u",
        &GEM,
        0x1009_0000,
        Uart { at: Peripheral(0x1001_0000), start: &[(0x08, 1)], data: 0x00, full: (0x00, 1 << 31) },
        Clock::Mtime(Peripheral(0x0200_bff8), 1_000_000),
    )
};

/// AMD's generic MicroBlaze V design: AXI Ethernet, AXI DMA, UART Lite (PG142, STAT_REG.Tx FIFO Full), AXI Timer.
///
/// Polled, because to QEMU a writing of the DMA's status, by which an interrupt is acknowledged, is a writing of all of it:
/// a channel that has come to its tail forgets that, runs into a descriptor that is not its own, and halts for good.
/// A buffer holds any frame: QEMU says of each of a frame's descriptors that the frame ends there.
/// And RCW1 is rewritten: a frame that met a full ring stays in QEMU's queue, with all that follow, until it is.
pub static MICROBLAZE_V: Board = Board {
    dma: Peripheral(0x41e0_0000),
    buffer: 9216,
    jumbo: true,
    polled: true,
    rewritten: Some(0x404),
    ..plain(
        "microblaze-v",
        &AXI_ETHERNET,
        0x40c0_0000,
        Uart { at: Peripheral(0x4060_0000), start: &[], data: 0x04, full: (0x08, 1 << 3) },
        Clock::AxiTimer(Peripheral(0x41c0_0000), 100_000_000),
    )
};
