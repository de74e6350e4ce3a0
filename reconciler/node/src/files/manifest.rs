//! What an upgrade consists of: `manifest.json` beside the files of one release for one architecture.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::STATE;
use crate::files::digest::Digest;
use crate::files::executable::{Architecture, why_not_executable};
use crate::files::root::NodePath;
use crate::version::KubernetesVersion;

/// Its name in the source folder.
pub const NAME: &str = "manifest.json";

/// No manifest is longer.
const MOST_BYTES: u64 = 4 << 20;

/// The step that installs a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// containerd, runc, their units and configuration.
    Containerd,
    /// The plugins that a network's own plugin calls.
    CniPlugins,
    /// kubeadm.
    Kubeadm,
    /// kubelet and kubectl, units and drop-ins.
    Kubelet,
    /// Of the machine: what containerd reads of registries.
    Registries,
    /// Of the machine: kube-vip's manifest.
    VirtualAddress,
}

impl Component {
    /// Whether its files come with a release.
    #[must_use]
    pub fn is_of_release(self) -> bool {
        match self {
            Self::Containerd | Self::CniPlugins | Self::Kubeadm | Self::Kubelet => true,
            Self::Registries | Self::VirtualAddress => false,
        }
    }
}

/// A file of the release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseFile {
    /// The step that installs it.
    pub component: Component,
    /// Where it lies in the source folder.
    pub source: String,
    /// Where it belongs on the node.
    pub path: NodePath,
    /// Of its content.
    pub sha256: Digest,
    /// Who may do what, in octal digits.
    #[serde(deserialize_with = "octal")]
    pub mode: u32,
}

/// An image that has to be on the node before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseImage {
    /// As static Pods name it.
    pub reference: String,
    /// What the registry calls its content; running containers are compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// The whole release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// What the node runs afterwards.
    pub kubernetes_version: KubernetesVersion,
    /// What its programs are made for.
    pub architecture: Architecture,
    /// What is installed.
    pub files: Vec<ReleaseFile>,
    /// What is pulled.
    #[serde(default)]
    pub images: Vec<ReleaseImage>,
}

/// A manifest, the folder it lies in, and its digest.
#[derive(Debug)]
pub struct Source {
    /// What it says.
    pub manifest: Manifest,
    /// Of its bytes.
    pub sha256: Digest,
    folder: PathBuf,
}

impl Source {
    /// Reads the manifest in `folder`, and looks whether it can be one.
    ///
    /// # Errors
    /// When it is missing, is not a manifest, or has no file that is needed.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(NAME);
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        if fs::metadata(&path).map_err(|error| told(&error))?.len() > MOST_BYTES {
            return Err(told(&"a manifest of an upgrade is shorter than 4 MiB"));
        }
        let bytes = fs::read(&path).map_err(|error| told(&error))?;
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| told(&error))?;
        manifest.check().map_err(|error| told(&error))?;
        Ok(Self { manifest, sha256: Digest::of(&bytes), folder })
    }

    /// Where a file of the release lies.
    ///
    /// # Errors
    /// When it is missing or lies outside the source folder.
    pub fn place(&self, file: &ReleaseFile) -> Result<PathBuf, String> {
        let told = |what: &str| format!("{} of the release {what}", file.source);
        let place = self.folder.join(file.source.trim_start_matches('/'));
        let place = place.canonicalize().map_err(|error| told(&format!("cannot be read: {error}")))?;
        if !place.starts_with(&self.folder) {
            return Err(told(&format!("leads out of {}", self.folder.display())));
        }
        if place.is_file() { Ok(place) } else { Err(told("is not a file")) }
    }

    /// Looks at every file: there, inside the folder, of the digest, for this architecture.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn check_files(&self) -> Result<(), Vec<String>> {
        let check = |file: &ReleaseFile| -> Result<(), String> {
            let place = self.place(file)?;
            let told = |what: &str| format!("{} of the release {what}", file.source);
            let mut content = File::open(&place).map_err(|error| told(&error.to_string()))?;
            let sha256 = Digest::of_content(&mut content).map_err(|error| told(&error.to_string()))?;
            if sha256 != file.sha256 {
                return Err(told(&format!("is {sha256}, and {} is wanted", file.sha256)));
            }
            let is_executable = file.mode & 0o111 != 0;
            let why =
                why_not_executable(&place, self.manifest.architecture).map_err(|error| told(&error.to_string()))?;
            why.filter(|_| is_executable).map_or(Ok(()), |why| Err(told(&why)))
        };
        let problems: Vec<String> = self.manifest.files.iter().filter_map(|file| check(file).err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Bytes of all its files.
    #[must_use]
    pub fn size(&self) -> u64 {
        let size =
            |file| self.place(file).ok().and_then(|place| fs::metadata(place).ok()).map_or(0, |found| found.len());
        self.manifest.files.iter().map(size).sum()
    }
}

impl Manifest {
    fn check(&self) -> Result<(), String> {
        let mut paths = BTreeSet::new();
        for file in &self.files {
            if !paths.insert(&file.path) {
                return Err(format!("{} is named twice", file.path));
            }
            if !file.component.is_of_release() {
                return Err(format!("{} is of no component of a release", file.path));
            }
            if file.path.as_str().starts_with(STATE) || file.path.as_str().starts_with("/proc/") {
                return Err(format!("{} is not a place for files of a release", file.path));
            }
        }
        for (component, name) in [(Component::Kubeadm, "kubeadm"), (Component::Kubelet, "kubelet")] {
            if self.program(component, name).is_none() {
                return Err(format!("no executable file is the program {name}"));
            }
        }
        Ok(())
    }

    /// The executable file of this name.
    #[must_use]
    pub fn program(&self, component: Component, name: &str) -> Option<&ReleaseFile> {
        let is_it = |file: &&ReleaseFile| file.path.name() == name && file.mode & 0o111 != 0;
        self.files.iter().filter(|file| file.component == component).find(is_it)
    }
}

pub(super) fn octal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if mode & !0o755 == 0 && mode & 0o400 != 0 => Ok(mode),
        _ => Err(serde::de::Error::custom(format!("{text:?} is not a mode such as \"0755\" or \"0644\""))),
    }
}
