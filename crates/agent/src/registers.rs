//! The registers part of a conversation: who may read what.
//! Knows no register; [`linerate_host::registers`] reads the words.

use linerate_control::message::{RefusalKind, Reply};
use linerate_host::registers;
use linerate_machine::registers::RegisterRequest;

use crate::refusal::Refusal;

/// Whether a controller may have words of physical memory read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceMemory {
    /// It reached this machine by a way that runs commands anyway, or this machine's owner said so.
    Allowed,
    /// It has a key to measure with, and no more.
    Refused,
}

pub(crate) fn read(interface: &str, wanted: &RegisterRequest, memory: DeviceMemory) -> Result<Reply, Refusal> {
    allow(wanted, memory)?;
    Ok(Reply::Registers(Box::new(registers::read(interface, wanted))))
}

/// Whether this may be read at all.
pub(crate) fn allow(wanted: &RegisterRequest, memory: DeviceMemory) -> Result<(), Refusal> {
    wanted.validate().map_err(|sentence| Refusal(RefusalKind::BadRequest, sentence))?;
    if !wanted.memory.is_empty() && memory == DeviceMemory::Refused {
        let sentence = "this agent reads no physical memory for a key alone; start it with --allow-dev-mem, or reach it \
                        over ssh";
        return Err(Refusal(RefusalKind::Failed, sentence.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_alone_reads_no_memory() {
        let memory = RegisterRequest { memory: vec![0x0218_8084], ..RegisterRequest::default() };
        let Err(Refusal(kind, sentence)) = read("lo", &memory, DeviceMemory::Refused) else { panic!("it was read") };
        assert_eq!(kind, RefusalKind::Failed);
        assert!(sentence.contains("--allow-dev-mem"), "{sentence}");
        assert!(allow(&memory, DeviceMemory::Allowed).is_ok());
        assert!(allow(&RegisterRequest { dump: true, ..RegisterRequest::default() }, DeviceMemory::Refused).is_ok());
        let odd = RegisterRequest { memory: vec![1], ..RegisterRequest::default() };
        assert!(matches!(allow(&odd, DeviceMemory::Allowed), Err(Refusal(RefusalKind::BadRequest, _))));
    }
}
