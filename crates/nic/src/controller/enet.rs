//! NXP's ENET (in Linux fec). Names are those of the i.MX 6 reference manual (IMX6DQRM).

use super::{Clear, Controller, Doorbell, Interrupt, Mask, Register, Step, registers};
use crate::format;
use crate::options::StepCondition;

registers! { REGISTERS, mac:
    EIR "ENET_EIR" 0x004 { TXF "TXF" 27 RXF "RXF" 25 }
    EIMR "ENET_EIMR" 0x008
    RDAR "ENET_RDAR" 0x010 { RX_ACTIVE "RDAR" 24 }
    TDAR "ENET_TDAR" 0x014 { TX_ACTIVE "TDAR" 24 }
    ECR "ENET_ECR" 0x024 { DBSWP "DBSWP" 8 SPEED "SPEED" 5 EN1588 "EN1588" 4 ETHEREN "ETHEREN" 1 RESET "RESET" 0 }
    RCR "ENET_RCR" 0x084 { MAX_FL "MAX_FL" 16 RMII_MODE "RMII_MODE" 8 RGMII_EN "RGMII_EN" 6 FCE "FCE" 5 MII_MODE "MII_MODE" 2 }
    TCR "ENET_TCR" 0x0c4 { FDEN "FDEN" 2 }
    PALR "ENET_PALR" 0x0e4
    PAUR "ENET_PAUR" 0x0e8
    TFWR "ENET_TFWR" 0x144 { STRFWD "STRFWD" 8 }
    RDSR "ENET_RDSR" 0x180
    TDSR "ENET_TDSR" 0x184
    MRBR "ENET_MRBR" 0x188
    RACC "ENET_RACC" 0x1c4 { SHIFT16 "SHIFT16" 7 }
}

/// The longest frame that is received, octets with FCS.
const LONGEST: u32 = 1518;

const LEGACY_START: &[Step] = &[
    Step::Write(ECR, RESET),
    Step::UntilClear(ECR, RESET),
    Step::Write(EIMR, 0),
    Step::Write(EIR, !0),
    Step::Address(PALR, &[(0, 24), (1, 16), (2, 8), (3, 0)]),
    Step::Address(PAUR, &[(4, 24), (5, 16)]),
    Step::Write(RCR, (LONGEST * MAX_FL) | MII_MODE),
    Step::When(StepCondition::Pause, RCR, FCE),
    Step::When(StepCondition::Rgmii, RCR, RGMII_EN),
    Step::When(StepCondition::Rmii, RCR, RMII_MODE),
    Step::Write(TCR, FDEN),
    Step::Write(TFWR, STRFWD),
    Step::Write(RACC, 0),
    Step::When(StepCondition::Offset, RACC, SHIFT16),
    Step::BufferSize { register: MRBR, shift: 0, unit: 1 },
    Step::RxRing(RDSR),
    Step::TxRing(TDSR),
    // Descriptors in the CPU's byte order, which is little-endian wherever this MAC is.
    Step::Write(ECR, DBSWP),
    Step::When(StepCondition::Gigabit, ECR, SPEED),
    Step::Set(ECR, ETHEREN),
];

/// With legacy descriptors.
pub const ENET_LEGACY: Controller = Controller {
    name: "ENET legacy",
    format: &format::ENET_LEGACY,
    start: LEGACY_START,
    stop: &[Step::Write(EIMR, 0), Step::Clear(ECR, ETHEREN)],
    tx_doorbell: Doorbell::Write(TDAR, TX_ACTIVE),
    rx_doorbell: Doorbell::Write(RDAR, RX_ACTIVE),
    interrupts: &[Interrupt { status: EIR, clear: Clear::Ones, mask: Mask::Enable(EIMR), receive: RXF, transmit: TXF }],
    counted: None,
    // ERR006358: a descriptor that was seen not ready while the frame before it was sent makes the MAC clear TDAR at that
    // frame's end, though the descriptor is ready by then and TDAR was written.
    rings_again: Some((TDAR, TX_ACTIVE)),
};

/// With enhanced descriptors.
pub const ENET_ENHANCED: Controller = Controller {
    name: "ENET enhanced",
    format: &format::ENET_ENHANCED,
    start: &{
        // As with the legacy ones, and what makes the descriptors enhanced before the MAC runs.
        let mut start = [Step::Set(ECR, EN1588); LEGACY_START.len() + 1];
        let mut at = 0;
        while at < LEGACY_START.len() - 1 {
            start[at] = LEGACY_START[at];
            at += 1;
        }
        start[LEGACY_START.len()] = LEGACY_START[LEGACY_START.len() - 1];
        start
    },
    ..ENET_LEGACY
};
