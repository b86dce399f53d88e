//! Every emulated board there is, a file each.
//! Knows their names.

use super::definition::Board;

/// Every board there is.
pub static BOARDS: [&Board; 13] = [
    &super::sabrelite::SABRELITE,
    &super::mcimx6ul_evk::MCIMX6UL_EVK,
    &super::zcu102::ZCU102,
    &super::malta::MALTA,
    &super::malta::MALTA_PCNET,
    &super::virt::VIRT,
    &super::virt::VIRT_E1000,
    &super::bare::SABRELITE,
    &super::bare::MCIMX6UL_EVK,
    &super::bare::ZYNQ_A9,
    &super::bare::ZCU102,
    &super::bare::SIFIVE_U,
    &super::bare::MICROBLAZE_V,
];

impl Board {
    /// The board of this name; the error is a sentence that lists those there are.
    pub fn find(name: &str) -> Result<&'static Board, String> {
        BOARDS.iter().copied().find(|board| board.name == name).ok_or_else(|| {
            let names: Vec<&str> = BOARDS.iter().map(|board| board.name).collect();
            format!("there is no board '{}'; there are: {}", name.escape_debug(), names.join(", "))
        })
    }
}
