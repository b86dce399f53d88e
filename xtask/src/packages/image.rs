//! A container image without a root user, a shell or a package manager: an OCI layout in one file.
//! Knows the image format (OCI Image Format Specification 1.1), not how programs are built.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::archive::{Epoch, gzip, sha256, tar};
use super::release::{Controller, VERSION};
use super::tree::Tree;
use crate::program::{output_of, program};

/// Nobody's number on any machine; images without a root user have it by custom.
pub(super) const USER: &str = "65532:65532";
/// Where records are kept: a volume, if they are to outlive the container.
const DATA: &str = "data";

/// Packs an image into `folder`, and says where. `work` is for what is packed, and is made anew.
pub(super) fn pack(
    controller: &Controller,
    usr: &Tree,
    epoch: Epoch,
    work: &Path,
    folder: &Path,
) -> Result<PathBuf, String> {
    let mut files = Tree::default();
    files.graft("usr", usr);
    files.file("etc/passwd", "linerate:x:65532:65532:linerate:/data:/nonexistent\n");
    files.file("etc/group", "linerate:x:65532:\n");
    files.shared_folder("tmp");
    files.shared_folder(DATA);
    files.write(work)?;
    let plain = tar(work, epoch)?;
    let diff = sha256(&plain)?;

    let mut image = Tree::default();
    let layer = blob(&mut image, "application/vnd.oci.image.layer.v1.tar+gzip", gzip(&plain)?)?;
    let created = output_of(program("date", &["--utc", "+%FT%TZ"]).arg(format!("--date=@{}", epoch.0)))?;
    let labels = json!({
        "org.opencontainers.image.title": "linerate",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    });
    let config = json!({
        "architecture": controller.image,
        "os": "linux",
        "created": created.trim(),
        "config": {
            "User": USER,
            "Entrypoint": ["/usr/bin/linerate"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/bin", format!("HOME=/{DATA}"), format!("XDG_DATA_HOME=/{DATA}")],
            "WorkingDir": format!("/{DATA}"),
            "Volumes": { format!("/{DATA}"): {} },
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
    });
    let config = blob(&mut image, "application/vnd.oci.image.config.v1+json", config.to_string().into())?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] });
    let mut manifest = blob(&mut image, kind, manifest.to_string().into())?;
    manifest["platform"] = json!({ "architecture": controller.image, "os": "linux" });
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    image.file("index.json", index.to_string());
    image.file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    image.write(work)?;

    let file = folder.join(format!("linerate-{VERSION}-{}.oci.tar", controller.machine));
    fs::write(&file, tar(work, epoch)?).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    Ok(file)
}

/// Adds a part by its digest, and gives its descriptor.
fn blob(image: &mut Tree, kind: &str, octets: Vec<u8>) -> Result<Value, String> {
    let digest = sha256(&octets)?;
    let descriptor = json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": octets.len() });
    image.file(&format!("blobs/sha256/{digest}"), octets);
    Ok(descriptor)
}
