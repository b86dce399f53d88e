//! Raw words of a device's registers: which are wanted of a machine, and what was read.
//! Knows no register's name or meaning; the owner of the definitions asks for words and decodes them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most registers of a PHY in one request; each takes a fraction of a millisecond on the management bus.
pub const MOST_PHY: usize = 512;
/// The most words of physical memory in one request.
pub const MOST_MEMORY: usize = 4096;
/// The most words of a register dump; the largest devices have some ten thousand.
pub const MOST_DUMP: usize = 65_536;

/// Words that are wanted of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// The driver's register dump (ethtool's get-regs).
    #[serde(default)]
    pub dump: bool,
    /// The PHY's address on the management bus; absent: the one that the interface uses.
    pub phy_address: Option<u8>,
    /// Registers of the PHY, read in this order. One that stands twice is read twice.
    #[serde(default)]
    pub phy: Vec<PhyPlace>,
    /// Words of 32 bits at physical addresses, read in this order.
    #[serde(default)]
    pub memory: Vec<u64>,
}

/// A register of a PHY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhyPlace {
    /// The managed device of clause 45; absent: a register of clause 22.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u8>,
    /// Its number.
    pub register: u16,
}

/// What was read. What could not be read is absent, and a sentence says why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readings {
    /// Whose registers they are.
    #[serde(default)]
    pub device: Device,
    /// The register dump.
    pub dump: Option<Dump>,
    /// The PHY's address that was used.
    pub phy_address: Option<u8>,
    /// One for each wanted.
    #[serde(default)]
    pub phy: Vec<Option<u16>>,
    /// One for each wanted.
    #[serde(default)]
    pub memory: Vec<Option<u32>>,
    /// Why something is absent: a sentence each.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// A network device, as far as its registers' definitions are chosen by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver's name.
    pub driver: Option<String>,
    /// The device's name on its bus, such as `2188000.ethernet` or `0000:00:03.0`.
    pub name: Option<String>,
    /// What the device tree says that it is compatible with, the closest first.
    #[serde(default)]
    pub compatible: Vec<String>,
    /// The physical address of its first register.
    pub base: Option<u64>,
}

/// A driver's register dump (struct ethtool_regs), as words in the machine's order of octets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dump {
    /// What the driver says of its layout.
    pub version: u32,
    /// The words.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub words: Vec<u32>,
}

/// A device's registers before and after a trial, read alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AroundTrial {
    /// What was wanted.
    pub wanted: RegisterRequest,
    /// Before the traffic.
    pub before: Readings,
    /// After it.
    pub after: Readings,
}

impl RegisterRequest {
    /// Whether an agent may be asked so much; the error is one sentence.
    pub fn validate(&self) -> Result<(), String> {
        if self.phy.len() > MOST_PHY || self.memory.len() > MOST_MEMORY {
            return Err(format!(
                "{} PHY registers and {} words of memory are too many for one request; ask for {MOST_PHY} and \
                 {MOST_MEMORY} at most",
                self.phy.len(),
                self.memory.len()
            ));
        }
        let bad_phy = self.phy.iter().any(|place| match place.device {
            None => place.register > 31,
            Some(device) => device > 31,
        });
        if bad_phy || self.phy_address.is_some_and(|address| address > 31) {
            return Err("a PHY's address, a managed device and a register of clause 22 go from 0 to 31".to_owned());
        }
        if let Some(address) = self.memory.iter().find(|address| !address.is_multiple_of(4)) {
            return Err(format!("{address:#x} is not the address of a word; give multiples of 4"));
        }
        Ok(())
    }
}

impl Readings {
    /// These, if there are as many words as were wanted: an agent's answer is nobody's promise. Too many are dropped
    /// and too few are absent, with a sentence.
    pub fn fitted(mut self, wanted: &RegisterRequest) -> Readings {
        if self.phy.len() != wanted.phy.len() || self.memory.len() != wanted.memory.len() {
            self.missing.push(format!(
                "the agent answered {} of {} PHY registers and {} of {} words of memory; install the same version of \
                 linerate there",
                self.phy.len(),
                wanted.phy.len(),
                self.memory.len(),
                wanted.memory.len()
            ));
            // Which word would belong to which register is anybody's guess.
            self.phy = vec![None; wanted.phy.len()];
            self.memory = vec![None; wanted.memory.len()];
        }
        if !wanted.dump {
            self.dump = None;
        }
        self
    }
}

/// Eight digits a word, as people read them, and half of what an array of numbers would take.
fn to_hex<S: Serializer>(words: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut digits = String::with_capacity(words.len() * 8);
    for word in words {
        digits.push_str(&format!("{word:08x}"));
    }
    serializer.serialize_str(&digits)
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let digits = String::deserialize(deserializer)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !digits.len().is_multiple_of(8) || digits.len() / 8 > MOST_DUMP {
        return Err(serde::de::Error::custom("a register dump is words of eight hexadecimal digits, 65536 at most"));
    }
    let word = |at: usize| u32::from_str_radix(&digits[at..at + 8], 16).map_err(serde::de::Error::custom);
    (0..digits.len()).step_by(8).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_digits_that_people_can_read() {
        let dump = Dump { version: 2, words: vec![0x05ee_0264, 1] };
        let line = serde_json::to_string(&dump).unwrap();
        assert_eq!(line, r#"{"version":2,"words":"05ee026400000001"}"#);
        assert_eq!(serde_json::from_str::<Dump>(&line).unwrap(), dump);
    }

    #[test]
    fn digits_that_are_no_words_are_refused() {
        for words in ["05ee026", "05ee02640", "05ee026g", "+5ee0264", "é5ee026"] {
            let line = format!(r#"{{"version":2,"words":"{words}"}}"#);
            assert!(serde_json::from_str::<Dump>(&line).is_err(), "{words}");
        }
        let long = format!(r#"{{"version":2,"words":"{}"}}"#, "0".repeat((MOST_DUMP + 1) * 8));
        assert!(serde_json::from_str::<Dump>(&long).is_err());
    }

    #[test]
    fn an_answer_of_the_wrong_length_names_no_register() {
        let wanted = RegisterRequest {
            phy: vec![PhyPlace { device: None, register: 1 }],
            memory: vec![0x1000, 0x1004],
            ..RegisterRequest::default()
        };
        let answer =
            Readings { phy: vec![Some(1)], memory: vec![Some(7)], dump: Some(Dump::default()), ..Readings::default() };
        let fitted = answer.fitted(&wanted);
        assert_eq!((fitted.phy, fitted.memory, fitted.dump), (vec![None], vec![None, None], None));
        assert!(fitted.missing[0].contains("1 of 2 words"), "{:?}", fitted.missing);
    }

    #[test]
    fn what_is_wanted_is_bounded() {
        let phy = |device, register| RegisterRequest {
            phy: vec![PhyPlace { device, register }],
            ..RegisterRequest::default()
        };
        assert!(phy(None, 31).validate().is_ok() && phy(Some(31), 65_535).validate().is_ok());
        assert!(phy(None, 32).validate().is_err() && phy(Some(32), 0).validate().is_err());
        let memory = |memory| RegisterRequest { memory, ..RegisterRequest::default() };
        assert!(memory(vec![0x0218_8084]).validate().is_ok());
        assert!(memory(vec![0x0218_8086]).validate().unwrap_err().contains("multiples of 4"));
        assert!(memory(vec![0; MOST_MEMORY + 1]).validate().unwrap_err().contains("too many"));
    }
}
