//! The agent for those who build a board's whole system: a Yocto layer and a Buildroot tree that take it by its checksum.
//! Knows where versions and checksums stand in them; the files in packaging/ know the rest.

use std::fs;
use std::path::Path;

use super::archive::{md5, sha256};
use super::release::VERSION;
use super::tree::Tree;
use crate::licences;
use crate::program::root;

/// The Yocto layer and the Buildroot tree, as they are packed.
pub(super) struct Recipes {
    pub(super) yocto: Tree,
    pub(super) buildroot: Tree,
}

/// The recipe, whose version stands in its file's name.
const RECIPE: &str = "linerate-agent-bin.bb";

/// Fills in what belongs to this archive of agents.
pub(super) fn recipes(agents: &[u8]) -> Result<Recipes, String> {
    let read = |name: &str| fs::read(root().join(name)).map_err(|error| format!("{name}: {error}"));
    let (mit, apache, others) = (read("LICENSE-MIT")?, read("LICENSE-APACHE")?, read(licences::DOCUMENT)?);
    let values = [
        ("@VERSION@", VERSION.to_owned()),
        ("@AGENTS_SHA256@", sha256(agents)?),
        ("@LICENSE_MIT_MD5@", md5(&mit)?),
        ("@LICENSE_APACHE_MD5@", md5(&apache)?),
        ("@LICENSE_MIT_SHA256@", sha256(&mit)?),
        ("@LICENSE_APACHE_SHA256@", sha256(&apache)?),
        ("@THIRD_PARTY_SHA256@", sha256(&others)?),
    ];
    let filled = |text: String| values.iter().fold(text, |text, (name, value)| text.replace(name, value));
    let of = |folder: &str| {
        let mut tree = Tree::default();
        add(&root().join("packaging").join(folder), "", &filled, &mut tree)?;
        Ok::<_, String>(tree)
    };
    Ok(Recipes { yocto: of("yocto")?, buildroot: of("buildroot")? })
}

fn add(folder: &Path, above: &str, filled: &impl Fn(String) -> String, tree: &mut Tree) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            add(&path, &format!("{above}{name}/"), filled, tree)?;
        } else {
            let name =
                if name == RECIPE { RECIPE.replace(".bb", &format!("_{VERSION}.bb")) } else { name.into_owned() };
            tree.file(&format!("{above}{name}"), filled(fs::read_to_string(&path).map_err(wrong)?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_fill_in() {
        let recipes = recipes(b"agents").unwrap();
        let sum = sha256(b"agents").unwrap();
        for (tree, file) in [
            (recipes.yocto, format!("meta-linerate/recipes-benchmark/linerate-agent/linerate-agent-bin_{VERSION}.bb")),
            (recipes.buildroot, "package/linerate-agent/linerate-agent.hash".to_owned()),
        ] {
            let mut found = false;
            for (path, contents) in tree.files() {
                let text = String::from_utf8_lossy(contents);
                // "$(@D)" and "${@…}" are make's and BitBake's own.
                let left = text.split('@').find(|word| !word.is_empty() && word.chars().all(is_of_name));
                assert_eq!(left, None, "{path}");
                found |= path == file && text.contains(&sum);
            }
            assert!(found, "{file} has the checksum");
        }
    }

    fn is_of_name(sign: char) -> bool {
        sign.is_ascii_uppercase() || sign == '_' || sign.is_ascii_digit()
    }
}
