//! The image of the node upgrader: our program, and the programs of one EKS-D release for one architecture.
//!
//! What is taken from where ([`downloads`]), where it belongs on a node ([`place`]), what may not be in an image
//! ([`why_not_program`]), and what `stepgate-node` reads of it ([`manifest`]).

mod download;
mod program;

use std::fmt;
use std::str::FromStr;

use bundles::{Digest, EksDVersion};
use serde_json::{Value, json};

pub use self::download::{Download, ImageProblem, Part, downloads, missing_programs};
pub use self::program::{why_not_program, why_not_static};

/// The program in the image.
pub const PROGRAM: &str = "stepgate-node";

/// The folder of the release in the image.
pub const RELEASE: &str = "release";

/// Of an image, in the words of container images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// `x86_64`.
    Amd64,
    /// `aarch64`.
    Arm64,
}

impl Architecture {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// In the words of container images.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
        known.ok_or_else(|| format!("{text} is not an architecture of nodes: amd64 or arm64"))
    }
}

/// The step of `stepgate-node` that installs a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// containerd and runc.
    Containerd,
    /// The plugins that a network's own plugin calls.
    CniPlugins,
    /// kubeadm.
    Kubeadm,
    /// kubelet and kubectl.
    Kubelet,
}

impl Component {
    /// In their order on the node, which is that of the image's layers.
    pub const ALL: [Self; 4] = [Self::Containerd, Self::CniPlugins, Self::Kubeadm, Self::Kubelet];

    /// In the words of the manifest.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::CniPlugins => "cni-plugins",
            Self::Kubeadm => "kubeadm",
            Self::Kubelet => "kubelet",
        }
    }
}

/// A file of the release; all of them are programs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseFile {
    /// The step that installs it.
    pub component: Component,
    /// Where it belongs on the node: `/usr/bin/kubelet`.
    pub path: String,
    /// Of its content.
    pub digest: Digest,
}

impl ReleaseFile {
    /// Where it lies in the image.
    #[must_use]
    pub fn source(&self) -> String {
        format!("{RELEASE}/{}", self.source_in_release())
    }

    fn source_in_release(&self) -> String {
        format!("files{}", self.path)
    }
}

/// Where a file of an archive belongs on a node; none for what is no program.
#[must_use]
pub fn place(part: Part, name: &str) -> Option<(Component, String)> {
    let name = name.trim_start_matches("./").trim_start_matches('/');
    let last = name.rsplit('/').next().filter(|last| !last.is_empty())?;
    match part {
        Part::Kubeadm => Some((Component::Kubeadm, String::from("/usr/bin/kubeadm"))),
        Part::Kubelet => Some((Component::Kubelet, String::from("/usr/bin/kubelet"))),
        Part::Kubectl => Some((Component::Kubelet, String::from("/usr/bin/kubectl"))),
        Part::CniPlugins if matches!(last, "LICENSE" | "README.md") => None,
        Part::CniPlugins => Some((Component::CniPlugins, format!("/opt/cni/bin/{last}"))),
        Part::Containerd => {
            let folder = name.strip_suffix(last).unwrap_or_default().trim_end_matches('/');
            // As the archive lies over the root of a node, or as containerd's own project packs it.
            let place = match folder {
                "usr/local/bin" | "usr/local/sbin" | "usr/bin" | "usr/sbin" => format!("/{folder}/{last}"),
                "bin" => format!("/usr/local/bin/{last}"),
                "sbin" => format!("/usr/local/sbin/{last}"),
                _ => return None,
            };
            Some((Component::Containerd, place))
        }
    }
}

/// Where a file of EKS Anywhere's own upgrader image belongs on a node: it holds roots of nodes, one for each component.
#[must_use]
pub fn place_in_eksa_upgrader(name: &str) -> Option<(Component, String)> {
    let name = name.trim_start_matches("./").trim_start_matches('/');
    let (folder, rest) = name.strip_prefix("eksa-upgrades/binaries/")?.split_once('/')?;
    match (folder, rest) {
        ("containerd", rest) => place(Part::Containerd, rest),
        ("cni-plugins", rest) => rest.strip_prefix("opt/cni/bin/").and_then(|name| place(Part::CniPlugins, name)),
        ("kubernetes", "usr/bin/kubeadm") => place(Part::Kubeadm, rest),
        ("kubernetes", "usr/bin/kubelet") => place(Part::Kubelet, rest),
        ("kubernetes", "usr/bin/kubectl") => place(Part::Kubectl, rest),
        _ => None,
    }
}

/// What `stepgate-node` reads: the same files have the same bytes, whatever order they came in.
#[must_use]
pub fn manifest(version: &EksDVersion, architecture: Architecture, files: &[ReleaseFile]) -> Value {
    let mut files = files.to_vec();
    files.sort();
    let entries = files.iter().map(|file| {
        json!({
            "component": file.component.as_str(),
            "source": file.source_in_release(),
            "path": file.path,
            "sha256": file.digest.to_string(),
            "mode": "0755",
        })
    });
    json!({
        "kubernetesVersion": version.to_string(),
        "architecture": architecture.as_str(),
        "files": entries.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
