//! Files that a machine has to have besides a release: a folder with `files.json`, and the contents by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::files::digest::Digest;
use crate::files::manifest::{Component, octal};
use crate::files::root::NodePath;
use crate::files::{Found, found_at};
use crate::host::static_pods;

/// Its list in the folder.
const LIST: &str = "files.json";

/// What containerd reads of registries: a folder for each.
const REGISTRIES: &str = "/etc/containerd/certs.d/";

/// No list is longer.
const MOST_BYTES: u64 = 1 << 20;

/// A file of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    path: NodePath,
    /// Its name in the folder.
    source: String,
    sha256: Digest,
    #[serde(deserialize_with = "octal")]
    mode: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    files: Vec<Listed>,
}

/// A file with its place in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFile {
    /// On the node.
    pub path: NodePath,
    /// The step that writes it.
    pub component: Component,
    /// What is to be there.
    pub wanted: Found,
    /// Where its content lies.
    pub source: PathBuf,
}

/// Those of a folder, all there and whole.
///
/// # Errors
/// When the list cannot be read, or names a file that is none of a machine or not as it says.
pub fn read(folder: &Path) -> Result<Vec<MachineFile>, String> {
    let path = folder.join(LIST);
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if fs::metadata(&path).map_err(|error| told(&error))?.len() > MOST_BYTES {
        return Err(told(&"a list of files is shorter than 1 MiB"));
    }
    let bytes = fs::read(&path).map_err(|error| told(&error))?;
    let list: List = serde_json::from_slice(&bytes).map_err(|error| told(&error))?;
    let mut paths = BTreeSet::new();
    let mut files = Vec::new();
    for listed in list.files {
        if !paths.insert(listed.path.clone()) {
            return Err(told(&format!("{} is named twice", listed.path)));
        }
        files.push(whole(folder, listed).map_err(|error| told(&error))?);
    }
    Ok(files)
}

fn whole(folder: &Path, listed: Listed) -> Result<MachineFile, String> {
    let Listed { path, source, sha256, mode } = listed;
    let component =
        component(&path).ok_or_else(|| format!("{path} is no file that the node upgrader writes for a machine"))?;
    if source.contains('/') || source.starts_with('.') {
        return Err(format!("{source:?} is not a name in that folder"));
    }
    let source = folder.join(source);
    let found = found_at(&source).map_err(|error| format!("{error:#}"))?;
    let found = found.ok_or_else(|| format!("the content of {path} is missing"))?;
    if found.sha256 != sha256 {
        return Err(format!("the content of {path} is {}, and {sha256} is wanted", found.sha256));
    }
    if component == Component::VirtualAddress {
        let content = fs::read(&source).map_err(|error| format!("{path}: {error}"))?;
        static_pods::parse(&content, "kube-vip").map_err(|error| format!("{path}: {error:#}"))?;
    }
    Ok(MachineFile { path, component, wanted: Found { sha256, mode }, source })
}

fn component(path: &NodePath) -> Option<Component> {
    let text = path.as_str();
    if text == static_pods::path("kube-vip") {
        return Some(Component::VirtualAddress);
    }
    let is_of_registry = text.strip_prefix(REGISTRIES).is_some_and(|rest| rest.contains('/'));
    is_of_registry.then_some(Component::Registries)
}
