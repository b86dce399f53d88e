//! Registers by their vendors' names: definitions, what a machine's words mean by them, and what changed.
//! Reads no register; agents bring the words, for registers have side effects and agents know no names.
//!
//! ```text
//!   *.regs ──parse──→ Definitions ──of a device──→ Chosen ──names──→ selection ──→ Wanted ──→ agent
//!                                                                        └──────── decode ←── Readings
//! ```
#![forbid(unsafe_code)]

pub mod around;
pub mod changes;
pub mod chosen;
pub mod decode;
pub mod definition;
pub mod difference;
mod parse;

use definition::{Definitions, DeviceDefinition};
pub use parse::BadDefinition;

/// The definitions that come with linerate.
const SHIPPED: [(&str, &str); 6] = [
    ("imx-enet.regs", include_str!("../definitions/imx-enet.regs")),
    ("cadence-gem.regs", include_str!("../definitions/cadence-gem.regs")),
    ("atmel-emac.regs", include_str!("../definitions/atmel-emac.regs")),
    ("intel-8254x.regs", include_str!("../definitions/intel-8254x.regs")),
    ("xilinx-ll-temac.regs", include_str!("../definitions/xilinx-ll-temac.regs")),
    ("ieee-phy.regs", include_str!("../definitions/ieee-phy.regs")),
];

/// The user's definitions, each a file's name and its text, then those that come with linerate: the first that has a name
/// is asked.
pub fn definitions(own: &[(String, String)]) -> Result<Definitions, BadDefinition> {
    let mut all = Definitions::default();
    for (name, text) in own {
        all.devices.extend(parse::parse(name, text)?);
    }
    all.devices.extend(shipped());
    Ok(all)
}

/// The definitions that come with linerate alone.
pub fn shipped() -> Vec<DeviceDefinition> {
    let parse = |(name, text)| parse::parse(name, text).expect("a test parses each of them");
    SHIPPED.into_iter().flat_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_come_first() {
        let own = |text: &str| definitions(&[("mine.regs".to_owned(), text.to_owned())]);
        let all = own("device mine\nmanual my board's, page 1\nMINE 0x020c4000 rw Mine\n").unwrap();
        assert_eq!(all.devices[0].name, "mine");
        assert_eq!(all.devices.len(), 1 + shipped().len());
        let error = own("device mine\nMINE\n").unwrap_err().to_string();
        assert!(error.contains("mine.regs, line 2: "), "{error}");
    }
}
