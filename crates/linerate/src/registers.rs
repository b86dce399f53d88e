//! Registers by their vendors' names: definitions, what a machine's words mean by them, and what changed.
//! Reads no register; agents bring the words, for registers have side effects and agents know no names.
//!
//! ```text
//!   *.regs ──parse──→ Definitions ──of a device──→ Chosen ──names──→ selection ──→ Wanted ──→ agent
//!                                                                        └──────── decode ←── Readings
//! ```

pub(crate) mod around;
pub(crate) mod chosen;
pub(crate) mod decode;
pub(crate) mod definition;
pub(crate) mod difference;
mod parse;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use definition::Definitions;

/// The definitions that come with linerate.
const SHIPPED: [(&str, &str); 5] = [
    ("imx-enet.regs", include_str!("../registers/imx-enet.regs")),
    ("cadence-gem.regs", include_str!("../registers/cadence-gem.regs")),
    ("atmel-emac.regs", include_str!("../registers/atmel-emac.regs")),
    ("intel-8254x.regs", include_str!("../registers/intel-8254x.regs")),
    ("ieee-phy.regs", include_str!("../registers/ieee-phy.regs")),
];

/// The user's definitions, then those that come with linerate: the first that has a name is asked.
pub(crate) fn definitions(own: &[PathBuf]) -> Result<Definitions> {
    let mut all = Definitions::default();
    for path in own {
        for file in files(path)? {
            let text = fs::read_to_string(&file)
                .with_context(|| format!("cannot read the definitions {}; see docs/registers.md", file.display()))?;
            all.devices.extend(parse::parse(&file.display().to_string(), &text)?);
        }
    }
    all.devices.extend(shipped());
    Ok(all)
}

/// The definitions that come with linerate alone.
pub(crate) fn shipped() -> Vec<definition::DeviceDefinition> {
    let parse = |(name, text)| parse::parse(name, text).expect("a test parses each of them");
    SHIPPED.into_iter().flat_map(parse).collect()
}

/// The file, or the `.regs` files of the folder, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read the folder {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "regs"))
        .collect();
    files.sort();
    anyhow::ensure!(!files.is_empty(), "the folder {} has no file *.regs; see docs/registers.md", path.display());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_come_first_and_from_folders_too() {
        let folder = std::env::temp_dir().join(format!("linerate-regs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(definitions(std::slice::from_ref(&folder)).unwrap_err().to_string().contains("no file *.regs"));
        let own = "device mine\nmanual my board's, page 1\nMINE 0x020c4000 rw Mine\n";
        fs::write(folder.join("mine.regs"), own).unwrap();
        fs::write(folder.join("notes.txt"), "no definitions").unwrap();
        let all = definitions(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(all.devices[0].name, "mine");
        assert_eq!(all.devices.len(), 1 + SHIPPED.len());
        fs::write(folder.join("mine.regs"), "device mine\nMINE\n").unwrap();
        let error = definitions(std::slice::from_ref(&folder)).unwrap_err().to_string();
        assert!(error.contains("mine.regs, line 2: "), "{error}");
        fs::remove_dir_all(&folder).unwrap();
        assert!(definitions(&[folder]).is_err());
    }
}
