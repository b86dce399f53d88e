//! Atheros' MAC of AR71xx and its successors. There is no public manual: names and places as in FreeBSD's
//! `sys/mips/atheros/if_argevar.h` and `ar71xxreg.h`.

use super::{Clear, Controller, Counted, Doorbell, Interrupt, Mask, Register, Step, registers};
use crate::format;
use crate::options::StepCondition;

registers! { REGISTERS, mac:
    CFG1 "MAC_CFG1" 0x00 { TX_ENABLE "TX_ENABLE" 0 RX_ENABLE "RX_ENABLE" 2 RX_FLOW "RX_FLOW" 5 }
    CFG2 "MAC_CFG2" 0x04 { FULL_DUPLEX "FULL_DUPLEX" 0 CRC "CRC_ENABLE" 1 PAD "PADCRC_ENABLE" 2 INTERFACE "IFACE_MODE" 8 PREAMBLE "PREAMBLE_LEN" 12 }
    MAX_FRAME "MAC_MAX_FRAME_LEN" 0x10
    ADDRESS1 "MAC_STA_ADDR1" 0x40
    ADDRESS2 "MAC_STA_ADDR2" 0x44
    FIFO0 "MAC_FIFO_CFG0" 0x48
    FIFO1 "MAC_FIFO_CFG1" 0x4c
    FIFO2 "MAC_FIFO_CFG2" 0x50
    TX_CONTROL "DMA_TX_CONTROL" 0x180 { RUN "EN" 0 }
    TX_DESCRIPTOR "DMA_TX_DESC" 0x184
    TX_STATUS "DMA_TX_STATUS" 0x188 { DONE "PKT_SENT" 0 }
    RX_CONTROL "DMA_RX_CONTROL" 0x18c
    RX_DESCRIPTOR "DMA_RX_DESC" 0x190
    RX_STATUS "DMA_RX_STATUS" 0x194 { OVERFLOW "OVERFLOW" 2 }
    INTR_MASK "DMA_INTR" 0x198
    INTR_STATUS "DMA_INTR_STATUS" 0x19c { RX_OVERFLOW "RX_OVERFLOW" 6 RX_PKT_RCVD "RX_PKT_RCVD" 4 TX_PKT_SENT "TX_PKT_SENT" 0 }
}

/// AR71xx, AR72xx, AR91xx, QCA95xx.
pub const ARGE: Controller = Controller {
    name: "arge",
    format: &format::ARGE,
    start: &[
        Step::Write(INTR_MASK, 0),
        Step::Write(RX_CONTROL, 0),
        Step::Write(TX_CONTROL, 0),
        Step::Write(CFG1, 0),
        Step::Write(CFG2, FULL_DUPLEX | CRC | PAD | (7 * PREAMBLE)),
        Step::When(StepCondition::Megabit, CFG2, INTERFACE),
        Step::When(StepCondition::Gigabit, CFG2, 2 * INTERFACE),
        Step::Write(MAX_FRAME, 1536),
        Step::Write(FIFO0, 0x1f << 8),
        Step::Write(FIFO1, 0x0fff_0000),
        Step::Write(FIFO2, 0x0000_1fff),
        Step::Address(ADDRESS1, &[(2, 24), (3, 16), (4, 8), (5, 0)]),
        Step::Address(ADDRESS2, &[(0, 8), (1, 0)]),
        Step::RxRing(RX_DESCRIPTOR),
        Step::TxRing(TX_DESCRIPTOR),
        Step::When(StepCondition::Pause, CFG1, RX_FLOW),
        Step::Set(CFG1, TX_ENABLE | RX_ENABLE),
    ],
    stop: &[
        Step::Write(INTR_MASK, 0),
        Step::Write(RX_CONTROL, 0),
        Step::Write(TX_CONTROL, 0),
        Step::Clear(CFG1, TX_ENABLE | RX_ENABLE),
    ],
    // The engines stop at a descriptor that is not theirs, and only this starts them again.
    tx_doorbell: Doorbell::Write(TX_CONTROL, RUN),
    rx_doorbell: Doorbell::Write(RX_CONTROL, RUN),
    interrupts: &[Interrupt {
        status: INTR_STATUS,
        clear: Clear::Cause,
        mask: Mask::Enable(INTR_MASK),
        receive: RX_PKT_RCVD | RX_OVERFLOW,
        transmit: TX_PKT_SENT,
    }],
    counted: Some(Counted { received: (RX_STATUS, DONE), sent: (TX_STATUS, DONE), overflow: (RX_STATUS, OVERFLOW) }),
    rings_again: None,
};
