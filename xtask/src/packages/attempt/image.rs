//! The image, read by another program (umoci), and its files run as whoever runs images does: as nobody, in its root alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{check_controller, here};
use crate::packages::VERSION;
use crate::packages::image::USER;
use crate::program::must;

/// Of the whole file, and so of what is fetched.
const LIMIT: u64 = 25 << 20;

pub(super) fn check(folder: &Path, scratch: &Path, is_whole: bool) -> Result<(), String> {
    let archive = folder.join(format!("linerate-{VERSION}-{}.oci.tar", here()?));
    let wrong = |what: String| format!("{}: {what}", archive.display());
    let bytes = fs::metadata(&archive).map_err(|error| wrong(error.to_string()))?.len();
    if is_whole && bytes > LIMIT {
        return Err(wrong(format!("{bytes} bytes, and {LIMIT} are allowed")));
    }
    let (layout, bundle) = (scratch.join("layout"), scratch.join("bundle"));
    fs::create_dir(&layout).map_err(|error| wrong(error.to_string()))?;
    must(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&layout))?;
    let image = format!("{}:{VERSION}", layout.display());
    // It checks each part's digest and length. Only root can give files to others; all of these are root's.
    must(Command::new("umoci").args(["unpack", "--rootless", "--image", &image]).arg(&bundle))?;
    let config = fs::read(bundle.join("config.json")).map_err(|error| wrong(error.to_string()))?;
    let config: Value = serde_json::from_slice(&config).map_err(|error| wrong(error.to_string()))?;
    if config["process"]["args"] != serde_json::json!(["/usr/bin/linerate", "--help"]) {
        return Err(wrong(format!("starts {}", config["process"]["args"])));
    }
    let (user, group) = USER.split_once(':').unwrap_or((USER, USER));
    let stated = fs::read_to_string(layout.join("index.json")).map_err(|error| wrong(error.to_string()))?;
    let stated = user_of(&layout, &stated).ok_or_else(|| wrong("its configuration names no user".to_owned()))?;
    if stated != USER {
        return Err(wrong(format!("runs as {stated}")));
    }
    let root = bundle.join("rootfs");
    for folder in ["bin", "sbin", "usr/bin", "usr/sbin"] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            if entry.file_name() != "linerate" {
                return Err(wrong(format!("has a program beside linerate: {}", entry.path().display())));
            }
        }
    }
    check_controller(&root, &["--unshare-user", "--uid", user, "--gid", group], "/usr/bin/linerate")
}

/// What the image's configuration says, by its descriptors.
fn user_of(layout: &Path, index: &str) -> Option<String> {
    let follow = |descriptor: &Value| -> Option<Value> {
        let digest = descriptor["digest"].as_str()?.replace(':', "/");
        serde_json::from_slice(&fs::read(layout.join("blobs").join(digest)).ok()?).ok()
    };
    let index: Value = serde_json::from_str(index).ok()?;
    let manifest = follow(&index["manifests"][0])?;
    Some(follow(&manifest["config"])?["config"]["User"].as_str()?.to_owned())
}
