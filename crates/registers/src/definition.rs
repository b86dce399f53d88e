//! What a register is: its name, its place, its fields, and what reading does to it.
//! Knows no machine and no text; [`super::parse`] makes these of files.

use linerate_machine::words;

/// All that are known, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// The user's before those that come with linerate.
    pub devices: Vec<DeviceDefinition>,
}

/// The registers of one kind of device.
#[derive(Clone, Debug, Default)]
pub struct DeviceDefinition {
    /// A short name, such as `enet`.
    pub name: String,
    /// What it is, for people.
    pub about: String,
    /// The drivers whose devices are such.
    pub drivers: Vec<String>,
    /// What the device tree calls such devices.
    pub compatible: Vec<String>,
    /// Where such devices are: physical address, and on which chip.
    pub bases: Vec<(u64, String)>,
    /// Which PHYs, by registers 2 and 3: value and mask.
    pub phy_id: Option<(u32, u32)>,
    /// How the driver's register dump is laid out.
    pub dump: Option<DumpLayout>,
    /// In the order of the file.
    pub registers: Vec<Register>,
}

/// How a driver lays its register dump out. Which word is a register's stands at the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpLayout {
    /// What the dump's version must be, under this mask.
    pub version: (u32, u32),
}

/// One register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The vendor's name.
    pub name: String,
    /// Other names for it.
    pub aka: Vec<String>,
    /// Where it is.
    pub place: RegisterPlace,
    /// What reading and writing do.
    pub access: Access,
    /// Its word in the register dump; `None`: it is not there.
    pub dump: Option<usize>,
    /// What it is for.
    pub about: String,
    /// Where that is written.
    pub manual: String,
    /// From the highest bit to the lowest.
    pub fields: Vec<Field>,
}

/// Where a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegisterPlace {
    /// So many octets behind the device's first.
    Offset(u64),
    /// At this physical address.
    Address(u64),
    /// A PHY's register of clause 22.
    Mii(u16),
    /// A PHY's register of clause 45: managed device, register.
    Mmd(u8, u16),
}

impl RegisterPlace {
    /// Bits of a register there.
    pub fn width(self) -> u32 {
        match self {
            RegisterPlace::Offset(_) | RegisterPlace::Address(_) => 32,
            RegisterPlace::Mii(_) | RegisterPlace::Mmd(..) => 16,
        }
    }

    /// A PHY's register.
    pub fn is_phy(self) -> bool {
        self.width() == 16
    }
}

/// What reading and writing do to a register or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What reading and writing do.
    pub mode: Mode,
    /// It counts.
    pub counter: bool,
    /// It stays at its highest value rather than begin again.
    pub sticks: bool,
}

words! {
    /// What reading and writing do, with its word in definition files.
    Mode {
        /// Writing changes nothing.
        ReadOnly = "ro",
        /// It reads as it was written.
        ReadWrite = "rw",
        /// What is read there is not what was written.
        WriteOnly = "wo",
        /// Reading clears it.
        ReadClears = "rc",
        /// Writing a one clears it.
        WriteOneClears = "w1c",
        /// Stays 0 from the event until it is read (LL of IEEE 802.3).
        LatchLow = "ll",
        /// Stays 1 from the event until it is read (LH of IEEE 802.3).
        LatchHigh = "lh",
    }
}

impl Mode {
    /// Whether reading destroys something.
    pub fn clears(self) -> bool {
        matches!(self, Mode::ReadClears | Mode::LatchLow | Mode::LatchHigh)
    }
}

/// Some bits of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The vendor's name.
    pub name: String,
    /// The highest bit.
    pub high: u32,
    /// The lowest bit.
    pub low: u32,
    /// Its own, or the register's.
    pub access: Access,
    /// What it is for; may be empty.
    pub about: String,
    /// What some of its values mean.
    pub values: Vec<(u32, String)>,
}

impl Register {
    /// Whether reading it destroys something.
    pub fn clears(&self) -> bool {
        self.access.mode.clears() || self.fields.iter().any(|field| field.access.mode.clears())
    }

    /// Whether there is anything to read.
    pub fn readable(&self) -> bool {
        self.access.mode != Mode::WriteOnly
    }

    /// Whether it goes by this name, whatever the case of its letters.
    pub fn is_called(&self, name: &str) -> bool {
        std::iter::once(&self.name).chain(&self.aka).any(|one| one.eq_ignore_ascii_case(name))
    }
}

impl Field {
    /// Bits of the field, right-aligned.
    pub fn mask(&self) -> u32 {
        u32::MAX >> (31 - (self.high - self.low))
    }

    /// The field's value in a register's.
    pub fn of(&self, value: u32) -> u32 {
        value >> self.low & self.mask()
    }

    /// What this value of the field means.
    pub fn meaning(&self, value: u32) -> Option<&str> {
        self.values.iter().find(|(one, _)| *one == value).map(|(_, text)| text.as_str())
    }

    /// As manuals write them: `29-16`, `5`.
    pub fn bits(&self) -> String {
        if self.high == self.low { self.high.to_string() } else { format!("{}-{}", self.high, self.low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_its_bits() {
        let field = |high, low| Field {
            name: String::new(),
            high,
            low,
            access: Access { mode: Mode::ReadWrite, counter: false, sticks: false },
            about: String::new(),
            values: Vec::new(),
        };
        // The frame length and the flow control bit of report 1's ENET_RCR.
        assert_eq!((field(29, 16).of(0x05ee_0264), field(29, 16).bits()), (1518, "29-16".to_owned()));
        assert_eq!((field(5, 5).of(0x05ee_0264), field(5, 5).bits()), (1, "5".to_owned()));
        assert_eq!(field(5, 5).of(0x05ee_0244), 0);
        assert_eq!((field(31, 0).of(u32::MAX), field(31, 0).mask()), (u32::MAX, u32::MAX));
        assert_eq!(field(31, 31).of(1 << 31), 1);
    }
}
