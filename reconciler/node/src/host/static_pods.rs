//! The control plane's Pods as kubelet reads them from files.

use anyhow::Context as _;
use serde_json::Value;

use crate::api::credentials::document;
use crate::files::found_at;
use crate::files::root::{NodePath, Root};

/// Where kubelet reads them.
pub const FOLDER: &str = "/etc/kubernetes/manifests";

/// Those that kubeadm writes, in its order.
pub const CONTROL_PLANE: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// One file.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPod {
    /// Without node: `kube-apiserver`.
    pub name: String,
    /// Of its first container.
    pub image: String,
    /// The whole manifest.
    pub manifest: Value,
}

/// Where the manifest of this name lies.
#[must_use]
pub fn path(name: &str) -> String {
    format!("{FOLDER}/{name}.yaml")
}

/// The Pod of this name; none when the node has none.
///
/// # Errors
/// When its manifest cannot be read.
pub fn read(root: &Root, name: &str) -> anyhow::Result<Option<StaticPod>> {
    let path = path(name);
    let place = root.place(&path)?;
    if found_at(&place)?.is_none() {
        return Ok(None);
    }
    parse(&std::fs::read(&place)?, name).map(Some).with_context(|| format!("{path} of the node is not a static Pod"))
}

/// Reads one manifest.
///
/// # Errors
/// When it is not that of a Pod.
pub fn parse(bytes: &[u8], name: &str) -> anyhow::Result<StaticPod> {
    let manifest = document(bytes)?;
    let image = manifest.pointer("/spec/containers/0/image").and_then(Value::as_str);
    let image = image.context("its first container has no image")?.to_owned();
    Ok(StaticPod { name: name.to_owned(), image, manifest })
}

/// The manifests in the folder, hidden ones left out as kubelet does.
///
/// # Errors
/// When the folder cannot be read.
pub fn paths(root: &Root) -> anyhow::Result<Vec<NodePath>> {
    let folder = root.place(FOLDER)?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("could not read {FOLDER} of the node"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.file_type()?.is_file() {
            paths.push(NodePath::try_from(format!("{FOLDER}/{name}")).map_err(anyhow::Error::msg)?);
        }
    }
    paths.sort();
    Ok(paths)
}

/// What follows the last colon of an image, without digest: its tag.
#[must_use]
pub fn tag(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map_or("", |(_, tag)| tag)
}
