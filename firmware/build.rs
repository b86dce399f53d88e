//! Links the firmware for the memory of the board whose feature is on.

use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=boards");
    let folder = format!("{}/boards", env::var("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    for entry in fs::read_dir(&folder).expect("the boards' memories are there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(board) = name.strip_suffix(".ld") else { continue };
        let feature = format!("CARGO_FEATURE_{}", board.to_uppercase().replace('-', "_"));
        if env::var_os(feature).is_some() {
            println!("cargo::rustc-link-arg-bins=-L{folder}");
            println!("cargo::rustc-link-arg-bins=-T{name}");
        }
    }
}
