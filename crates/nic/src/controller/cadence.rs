//! Cadence's GEM, with the names of the Zynq-7000 manual (UG585), and Atmel's EMAC, with those of the AT91SAM9260 datasheet.

use super::{Clear, Controller, Doorbell, Interrupt, Mask, Register, Step, registers};
use crate::format;
use crate::options::StepCondition;

/// Octets before each frame: the field's value for 2.
const TWO: u32 = 2;
/// A station's address in its two registers.
const LOW: &[(usize, u32)] = &[(0, 0), (1, 8), (2, 16), (3, 24)];
const HIGH: &[(usize, u32)] = &[(4, 0), (5, 8)];

pub(super) mod gem {
    use super::*;

    registers! { REGISTERS, mac:
        NET_CTRL "net_ctrl" 0x000 { START_TX "start_tx" 9 CLEAR_STAT "clear_stat_regs" 5 MGMT "mgmt_port_en" 4 TX_EN "tx_en" 3 RX_EN "rx_en" 2 }
        NET_CFG "net_cfg" 0x004 { FCS_REMOVE "fcs_remove" 17 OFFSET "rx_buf_offset" 14 PAUSE_EN "pause_en" 13 GIGE_EN "gige_en" 10 FRAMES_1536 "rx_1536_byte_frames" 8 JUMBO_EN "jumbo_en" 3 FULL_DUPLEX "full_duplex" 1 SPEED "speed" 0 }
        DMA_CFG "dma_cfg" 0x010 { TX_MEMORY "tx_pktbuf_memsz_sel" 10 RX_MEMORY "rx_pktbuf_memsz_sel" 8 BURST "ahb_fixed_burst_len" 0 }
        TX_STATUS "tx_status" 0x014
        RX_QBAR "rx_qbar" 0x018
        TX_QBAR "tx_qbar" 0x01c
        RX_STATUS "rx_status" 0x020
        INTR_STATUS "intr_status" 0x024 { OVERRUN "rx_overrun" 10 TX_COMPLETE "tx_complete" 7 RX_USED "rx_used_read" 2 RX_COMPLETE "rx_complete" 1 }
        INTR_EN "intr_en" 0x028
        INTR_DIS "intr_dis" 0x02c
        ADDRESS_LOW "spec_addr1_bot" 0x088
        ADDRESS_HIGH "spec_addr1_top" 0x08c
        TX_Q1BAR "transmit_q1_ptr" 0x440
        RX_Q1BAR "receive_q1_ptr" 0x480
    }
}

pub(super) mod macb {
    use super::*;

    registers! { REGISTERS, mac:
        NCR "EMAC_NCR" 0x00 { TSTART "TSTART" 9 CLRSTAT "CLRSTAT" 5 MPE "MPE" 4 TE "TE" 3 RE "RE" 2 }
        NCFGR "EMAC_NCFGR" 0x04 { DRFCS "DRFCS" 17 RBOF "RBOF" 14 PAE "PAE" 13 BIG "BIG" 8 FD "FD" 1 SPD "SPD" 0 }
        TSR "EMAC_TSR" 0x14
        RBQP "EMAC_RBQP" 0x18
        TBQP "EMAC_TBQP" 0x1c
        RSR "EMAC_RSR" 0x20
        ISR "EMAC_ISR" 0x24 { ROVR "ROVR" 10 TCOMP "TCOMP" 7 RXUBR "RXUBR" 2 RCOMP "RCOMP" 1 }
        IER "EMAC_IER" 0x28
        IDR "EMAC_IDR" 0x2c
        SA1B "EMAC_SA1B" 0x98
        SA1T "EMAC_SA1T" 0x9c
    }
}

/// The gigabit MAC.
pub const GEM: Controller = {
    use gem::*;
    Controller {
        name: "GEM",
        format: &format::GEM,
        start: &[
            Step::Write(NET_CTRL, CLEAR_STAT),
            Step::Write(INTR_DIS, !0),
            Step::Read(INTR_STATUS),
            Step::Write(TX_STATUS, !0),
            Step::Write(RX_STATUS, !0),
            // All but the bus width and the clock of MDIO, which are the board's.
            Step::Clear(NET_CFG, !(7 << 18 | 3 << 21)),
            Step::Set(NET_CFG, FCS_REMOVE | FRAMES_1536 | FULL_DUPLEX),
            Step::When(StepCondition::Offset, NET_CFG, TWO * OFFSET),
            Step::When(StepCondition::Jumbo, NET_CFG, JUMBO_EN),
            Step::When(StepCondition::Pause, NET_CFG, PAUSE_EN),
            Step::When(StepCondition::Gigabit, NET_CFG, GIGE_EN),
            Step::When(StepCondition::Megabit, NET_CFG, SPEED),
            Step::Write(DMA_CFG, TX_MEMORY | (3 * RX_MEMORY) | (16 * BURST)),
            Step::BufferSize { register: DMA_CFG, shift: 16, unit: 64 },
            Step::RxRing(RX_QBAR),
            Step::TxRing(TX_QBAR),
            Step::IdleQueue(RX_Q1BAR),
            Step::IdleQueue(TX_Q1BAR),
            Step::Address(ADDRESS_LOW, LOW),
            // Writing the upper half makes the address valid.
            Step::Address(ADDRESS_HIGH, HIGH),
            Step::Write(NET_CTRL, MGMT | TX_EN | RX_EN),
        ],
        stop: &[Step::Write(INTR_DIS, !0), Step::Clear(NET_CTRL, TX_EN | RX_EN)],
        tx_doorbell: Doorbell::Set(NET_CTRL, START_TX),
        // The MAC looks at the ring by itself with the next frame; QEMU's only after a writing of this register.
        rx_doorbell: Doorbell::Set(NET_CTRL, RX_EN),
        interrupts: &[Interrupt {
            status: INTR_STATUS,
            clear: Clear::Read,
            mask: Mask::Switches { on: INTR_EN, off: INTR_DIS },
            receive: RX_COMPLETE | RX_USED | OVERRUN,
            transmit: TX_COMPLETE,
        }],
        counted: None,
        rings_again: None,
    }
};

/// The 10/100 MAC, with receive buffers of 128 octets.
pub const MACB: Controller = {
    use macb::*;
    Controller {
        name: "MACB",
        format: &format::MACB,
        start: &[
            Step::Write(NCR, CLRSTAT),
            Step::Write(IDR, !0),
            Step::Read(ISR),
            Step::Write(TSR, !0),
            Step::Write(RSR, !0),
            Step::Clear(NCFGR, !(3 << 10)),
            Step::Set(NCFGR, DRFCS | BIG | FD),
            Step::When(StepCondition::Offset, NCFGR, TWO * RBOF),
            Step::When(StepCondition::Pause, NCFGR, PAE),
            Step::When(StepCondition::Megabit, NCFGR, SPD),
            Step::RxRing(RBQP),
            Step::TxRing(TBQP),
            Step::Address(SA1B, LOW),
            Step::Address(SA1T, HIGH),
            Step::Write(NCR, MPE | TE | RE),
        ],
        stop: &[Step::Write(IDR, !0), Step::Clear(NCR, TE | RE)],
        tx_doorbell: Doorbell::Set(NCR, TSTART),
        rx_doorbell: Doorbell::Set(NCR, RE),
        interrupts: &[Interrupt {
            status: ISR,
            clear: Clear::Read,
            mask: Mask::Switches { on: IER, off: IDR },
            receive: RCOMP | RXUBR | ROVR,
            transmit: TCOMP,
        }],
        counted: None,
        rings_again: None,
    }
};
