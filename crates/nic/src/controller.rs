//! Controllers, a row of constants each: how one is started, stopped, told of descriptors, and what it interrupts for.
//! Knows what is written where; `driver` knows when.

mod arge;
mod axi_ethernet;
mod cadence;
mod enet;
mod ll_temac;

pub use arge::ARGE;
pub use axi_ethernet::AXI_ETHERNET;
pub use cadence::{GEM, MACB};
pub use enet::{ENET_ENHANCED, ENET_LEGACY};
pub use ll_temac::LL_TEMAC;

use crate::bus::Register;
use crate::format::Format;
use crate::options::StepCondition;

/// A kind of controller.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    /// A short name.
    pub name: &'static str,
    /// Its descriptors.
    pub format: &'static Format,
    /// What is done before it runs, in order.
    pub start: &'static [Step],
    /// What is done so that it touches no memory any more.
    pub stop: &'static [Step],
    /// How it is told of frames to send.
    pub tx_doorbell: Doorbell,
    /// How it is told of empty buffers.
    pub rx_doorbell: Doorbell,
    /// Where it says what happened.
    pub interrupts: &'static [Interrupt],
    /// What is written for each frame that is taken from a ring, where the controller counts them.
    pub counted: Option<Counted>,
    /// A doorbell that comes while the engine is going idle is lost: while frames wait and this register's bits are clear,
    /// it is rung again.
    pub rings_again: Option<(Register, u32)>,
}

/// One step of a start or a stop.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Writes a value.
    Write(Register, u32),
    /// Sets bits.
    Set(Register, u32),
    /// Clears bits.
    Clear(Register, u32),
    /// Sets bits where an option wants it.
    When(StepCondition, Register, u32),
    /// Replaces these bits by those where an option wants it.
    ReplaceWhen(StepCondition, Register, u32, u32),
    /// Reads and throws away.
    Read(Register),
    /// Reads until these bits are clear; gives up after [`PATIENCE`] readings.
    UntilClear(Register, u32),
    /// Reads until these bits are set; gives up as well.
    UntilSet(Register, u32),
    /// Writes the transmit ring's address.
    TxRing(Register),
    /// Writes the receive ring's address.
    RxRing(Register),
    /// Writes the address of the idle queue's descriptor, where there is such a queue.
    IdleQueue(Register),
    /// Sets a field to the size of receive buffers.
    BufferSize {
        /// Where.
        register: Register,
        /// The field's lowest bit.
        shift: u32,
        /// Octets that the field counts in.
        unit: u32,
    },
    /// Writes octets of the station's address, each at its bit.
    Address(Register, &'static [(usize, u32)]),
}

/// Readings of a register until its bits are taken to never change.
pub const PATIENCE: u32 = 100_000;

/// How a controller is told of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// This value is written.
    Write(Register, u32),
    /// These bits are set beside the others.
    Set(Register, u32),
    /// The last descriptor's address is written.
    Tail(Register),
}

/// A register that says what happened.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// Which.
    pub status: Register,
    /// How its bits are cleared.
    pub clear: Clear,
    /// How they are let through, and kept back.
    pub mask: Mask,
    /// A frame, or the ring's end, on the way in.
    pub receive: u32,
    /// A frame was sent.
    pub transmit: u32,
}

/// How an interrupt's bits are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// By writing ones.
    Ones,
    /// By reading.
    Read,
    /// By what causes them: see [`Counted`].
    Cause,
}

/// How interrupts are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Ones in this register let through.
    Enable(Register),
    /// Ones written here let through, ones written there keep back.
    Switches {
        /// Where to let through.
        on: Register,
        /// Where to keep back.
        off: Register,
    },
}

/// Where a controller counts frames until the driver has taken them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Written for each received frame.
    pub received: (Register, u32),
    /// Written for each sent frame.
    pub sent: (Register, u32),
    /// Written where the receiver ran out of descriptors.
    pub overflow: (Register, u32),
}

/// The registers and bits that a controller's rows use, with the manual's names.
macro_rules! registers {
    ($list:ident, $block:ident: $($register:ident $name:literal $offset:literal $({ $($bit:ident $field:literal $at:literal)* })?)*) => {
        $(pub(crate) const $register: Register = Register::$block($name, $offset);
          $($(pub(crate) const $bit: u32 = 1 << $at;)*)?)*
        /// Each with its fields and the lowest bits of those.
        #[cfg(test)]
        pub(crate) const $list: &[(Register, &[(&str, u32)])] = &[$(($register, &[$($(($field, $at)),*)?])),*];
    };
}
use registers;

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use linerate_registers::definition::RegisterPlace;

    use super::*;

    #[track_caller]
    fn check_places(device: &str, rows: &[(Register, &[(&str, u32)])]) {
        let shipped = linerate_registers::shipped();
        let device = shipped.iter().find(|one| one.name == device).expect("a definition that comes with linerate");
        for (register, fields) in rows {
            let Some(defined) = device.registers.iter().find(|one| one.name == register.name) else {
                panic!("{} has no {}", device.name, register.name);
            };
            assert_eq!(defined.place, RegisterPlace::Offset(register.offset.into()), "{}", register.name);
            for (name, at) in *fields {
                let field = defined.fields.iter().find(|field| field.name == *name);
                let field = field.unwrap_or_else(|| panic!("{} has no field {name}", register.name));
                assert_eq!(field.low, *at, "{}.{name}", register.name);
            }
        }
    }

    #[test]
    fn enets_registers_are_where_their_definition_has_them() {
        check_places("enet", enet::REGISTERS);
    }

    #[test]
    fn gems_registers_are_where_their_definition_has_them() {
        check_places("gem", cadence::gem::REGISTERS);
    }

    #[test]
    fn macbs_registers_are_where_their_definition_has_them() {
        check_places("macb", cadence::macb::REGISTERS);
    }

    #[test]
    fn ll_temacs_registers_are_where_their_definition_has_them() {
        check_places("ll-temac", ll_temac::MAC_REGISTERS);
        check_places("sdma", ll_temac::DMA_REGISTERS);
    }

    /// Of every list, those without a definition too.
    #[test]
    fn no_two_registers_are_at_one_place_and_no_two_fields_at_one_bit() {
        let lists = [
            enet::REGISTERS,
            cadence::gem::REGISTERS,
            cadence::macb::REGISTERS,
            axi_ethernet::MAC_REGISTERS,
            axi_ethernet::DMA_REGISTERS,
            ll_temac::MAC_REGISTERS,
            ll_temac::DMA_REGISTERS,
            arge::REGISTERS,
        ];
        for list in lists {
            for (nth, (register, fields)) in list.iter().enumerate() {
                assert!(list[..nth].iter().all(|(other, _)| other.offset != register.offset), "{}", register.name);
                let mut bits: Vec<u32> = fields.iter().map(|&(_, at)| at).collect();
                bits.sort_unstable();
                bits.dedup();
                assert_eq!(bits.len(), fields.len(), "{}", register.name);
            }
        }
    }

    /// A doorbell by tail pointer needs a spare descriptor, and no other does.
    #[test]
    fn a_tail_pointer_and_a_spare_descriptor_go_together() {
        for row in [ENET_LEGACY, ENET_ENHANCED, MACB, GEM, AXI_ETHERNET, LL_TEMAC, ARGE] {
            let tail = matches!(row.tx_doorbell, Doorbell::Tail(_));
            assert_eq!(tail, row.format.spare == 1, "{}", row.name);
            assert_eq!(tail, matches!(row.rx_doorbell, Doorbell::Tail(_)), "{}", row.name);
        }
    }
}
