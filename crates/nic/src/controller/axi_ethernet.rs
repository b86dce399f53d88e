//! Xilinx's AXI Ethernet (PG138) behind an AXI DMA in scatter/gather mode (PG021).

use super::{Clear, Controller, Doorbell, Interrupt, Mask, Register, Step, registers};
use crate::format;
use crate::options::StepCondition;

registers! { MAC_REGISTERS, mac:
    RCW1 "RCW1" 0x404 { RX_JUMBO "JUM" 30 RECEIVE "RX" 28 }
    TC "TC" 0x408 { TX_JUMBO "JUM" 30 TRANSMIT "TX" 28 }
    FCC "FCC" 0x40c { FCRX "FCRX" 29 }
    EMMC "EMMC" 0x410 { LINKSPEED "LINKSPEED" 30 }
    UAW0 "UAW0" 0x700
    UAW1 "UAW1" 0x704
}

registers! { DMA_REGISTERS, dma:
    MM2S_DMACR "MM2S_DMACR" 0x00 { RS "RS" 0 DMA_RESET "Reset" 2 IOC "IOC_IrqEn" 12 ERR "Err_IrqEn" 14 THRESHOLD "IRQThreshold" 16 }
    MM2S_DMASR "MM2S_DMASR" 0x04
    MM2S_CURDESC "MM2S_CURDESC" 0x08
    MM2S_TAILDESC "MM2S_TAILDESC" 0x10
    S2MM_DMACR "S2MM_DMACR" 0x30
    S2MM_DMASR "S2MM_DMASR" 0x34
    S2MM_CURDESC "S2MM_CURDESC" 0x38
    S2MM_TAILDESC "S2MM_TAILDESC" 0x40
}

/// The two cores together. FCS is stripped and added by the MAC.
pub const AXI_ETHERNET: Controller = Controller {
    name: "AXI Ethernet",
    format: &format::AXI_DMA,
    start: &[
        // Either channel's reset is the whole core's.
        Step::Write(MM2S_DMACR, DMA_RESET),
        Step::UntilClear(MM2S_DMACR, DMA_RESET),
        Step::Address(UAW0, &[(0, 0), (1, 8), (2, 16), (3, 24)]),
        Step::Address(UAW1, &[(4, 0), (5, 8)]),
        Step::Write(EMMC, 0),
        Step::When(StepCondition::Megabit, EMMC, LINKSPEED),
        Step::When(StepCondition::Gigabit, EMMC, 2 * LINKSPEED),
        Step::Write(FCC, 0),
        Step::When(StepCondition::Pause, FCC, FCRX),
        // The first descriptors can be written only while the channels stand.
        Step::RxRing(S2MM_CURDESC),
        Step::TxRing(MM2S_CURDESC),
        Step::Write(S2MM_DMACR, RS | THRESHOLD),
        Step::Write(MM2S_DMACR, RS | THRESHOLD),
        Step::Write(RCW1, 0),
        Step::Write(TC, 0),
        Step::When(StepCondition::Jumbo, RCW1, RX_JUMBO),
        Step::When(StepCondition::Jumbo, TC, TX_JUMBO),
        Step::Set(RCW1, RECEIVE),
        Step::Set(TC, TRANSMIT),
    ],
    stop: &[
        Step::Clear(RCW1, RECEIVE),
        Step::Clear(TC, TRANSMIT),
        Step::Clear(S2MM_DMACR, RS | IOC | ERR),
        Step::Clear(MM2S_DMACR, RS | IOC | ERR),
    ],
    tx_doorbell: Doorbell::Tail(MM2S_TAILDESC),
    rx_doorbell: Doorbell::Tail(S2MM_TAILDESC),
    interrupts: &[
        Interrupt {
            status: S2MM_DMASR,
            clear: Clear::Ones,
            mask: Mask::Enable(S2MM_DMACR),
            receive: IOC | ERR,
            transmit: 0,
        },
        Interrupt {
            status: MM2S_DMASR,
            clear: Clear::Ones,
            mask: Mask::Enable(MM2S_DMACR),
            receive: 0,
            transmit: IOC | ERR,
        },
    ],
    counted: None,
    rings_again: None,
};
