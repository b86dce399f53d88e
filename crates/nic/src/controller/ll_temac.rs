//! Xilinx's LL TEMAC (XPS_LL_TEMAC) behind the scatter/gather DMA of its memory controller (SDMA), all on the Processor Local Bus.
//! Names and places as in Linux' `drivers/net/ethernet/xilinx/ll_temac.h`.

use super::{Clear, Controller, Doorbell, Interrupt, Mask, Register, Step, registers};
use crate::format;
use crate::options::StepCondition;

registers! { MAC_REGISTERS, mac:
    LSW0 "LSW0" 0x24
    CTL0 "CTL0" 0x28 { WRITE "WEN" 15 }
    RDY0 "RDY0" 0x2c { READY "HARD_ACS_RDY" 16 }
}

registers! { DMA_REGISTERS, dma:
    TX_CURDESC "TX_CURDESC_PTR" 0x0c
    TX_TAILDESC "TX_TAILDESC_PTR" 0x10
    TX_CONTROL "TX_CHNL_CTRL" 0x14 { COUNT "IrqCount" 16 ONE_BIT "Use1BitCnt" 10 LOAD "LdIrqCnt" 8 IRQ_EN "IrqEn" 7 ERROR "IrqErrEn" 2 PACKETS "IrqCoalEn" 0 }
    TX_INTERRUPT "TX_IRQ_REG" 0x18
    RX_CURDESC "RX_CURDESC_PTR" 0x2c
    RX_TAILDESC "RX_TAILDESC_PTR" 0x30
    RX_CONTROL "RX_CHNL_CTRL" 0x34
    RX_INTERRUPT "RX_IRQ_REG" 0x38
    CONTROL "DMA_CONTROL_REG" 0x40 { NO_RX_OVERFLOW "RxOcEid" 4 NO_TX_OVERFLOW "TxOcEid" 3 TAIL "TailPtrEn" 2 DMA_RESET "SwReset" 0 }
}

// The MAC's own registers, which are reached through LSW0 and CTL0.
const RXC1: u32 = 0x240;
const TXC: u32 = 0x280;
const FCC: u32 = 0x2c0;
const EMCFG: u32 = 0x300;
const UAW0: u32 = 0x380;
const UAW1: u32 = 0x384;
/// Of RXC1 and TXC.
const ENABLE: u32 = 1 << 28;
const JUMBO: u32 = 1 << 30;
/// Of FCC: pause frames are obeyed.
const RXFLO: u32 = 1 << 29;
/// Of EMCFG: two bits of speed, one for each of 100 and 1000.
const MEGABIT: u32 = 1 << 30;
const GIGABIT: u32 = 1 << 31;

const fn put(register: u32) -> Step {
    Step::Write(CTL0, WRITE | register)
}

const fn get(register: u32) -> Step {
    Step::Write(CTL0, register)
}

const DONE: Step = Step::UntilSet(RDY0, READY);
/// An interrupt for each packet. Counters of one bit: what was cleared is not told again.
const EACH: u32 = COUNT | ONE_BIT | LOAD | IRQ_EN;

/// The cores together. FCS is stripped and added by the MAC.
pub const LL_TEMAC: Controller = Controller {
    name: "LL TEMAC",
    format: &format::SDMA,
    start: &[
        Step::Write(LSW0, 0),
        put(RXC1),
        DONE,
        Step::Write(LSW0, 0),
        put(TXC),
        DONE,
        Step::Write(CONTROL, DMA_RESET),
        Step::UntilClear(CONTROL, DMA_RESET),
        // A driver that is late with clearing is no error.
        Step::Write(CONTROL, TAIL | NO_TX_OVERFLOW | NO_RX_OVERFLOW),
        Step::Write(TX_CONTROL, EACH),
        Step::Write(RX_CONTROL, EACH),
        Step::RxRing(RX_CURDESC),
        Step::TxRing(TX_CURDESC),
        Step::Address(LSW0, &[(0, 0), (1, 8), (2, 16), (3, 24)]),
        put(UAW0),
        DONE,
        Step::Address(LSW0, &[(4, 0), (5, 8)]),
        put(UAW1),
        DONE,
        // Its other bits are the board's.
        get(EMCFG),
        DONE,
        Step::ReplaceWhen(StepCondition::Megabit, LSW0, MEGABIT | GIGABIT, MEGABIT),
        Step::ReplaceWhen(StepCondition::Gigabit, LSW0, MEGABIT | GIGABIT, GIGABIT),
        put(EMCFG),
        DONE,
        Step::Write(LSW0, 0),
        Step::ReplaceWhen(StepCondition::Pause, LSW0, !0, RXFLO),
        put(FCC),
        DONE,
        Step::Write(LSW0, ENABLE),
        Step::ReplaceWhen(StepCondition::Jumbo, LSW0, !0, ENABLE | JUMBO),
        put(TXC),
        DONE,
        Step::Write(LSW0, ENABLE),
        Step::ReplaceWhen(StepCondition::Jumbo, LSW0, !0, ENABLE | JUMBO),
        put(RXC1),
        DONE,
    ],
    stop: &[
        Step::Write(LSW0, 0),
        put(RXC1),
        DONE,
        Step::Write(LSW0, 0),
        put(TXC),
        DONE,
        Step::Write(CONTROL, DMA_RESET),
        Step::UntilClear(CONTROL, DMA_RESET),
    ],
    tx_doorbell: Doorbell::Tail(TX_TAILDESC),
    rx_doorbell: Doorbell::Tail(RX_TAILDESC),
    interrupts: &[
        Interrupt {
            status: RX_INTERRUPT,
            clear: Clear::Ones,
            mask: Mask::Enable(RX_CONTROL),
            receive: PACKETS | ERROR,
            transmit: 0,
        },
        Interrupt {
            status: TX_INTERRUPT,
            clear: Clear::Ones,
            mask: Mask::Enable(TX_CONTROL),
            receive: 0,
            transmit: PACKETS | ERROR,
        },
    ],
    counted: None,
    rings_again: None,
};
