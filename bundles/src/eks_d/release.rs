//! The EKS-D Release object: what one release of the Kubernetes distribution is made of.

use yaml::Node;

use super::EksDVersion;
use crate::digest::Digest;
use crate::error::BundleError;
use crate::field::{name, position, text, unsigned};
use crate::kubernetes::KubernetesVersion;
use crate::version::Version;

/// An EKS-D `Release` object (upstream types `ReleaseSpec` and `ReleaseStatus`).
#[derive(Debug, Clone)]
pub struct EksdRelease {
    /// `metadata.name`: `kubernetes-1-31-eks-45`.
    pub name: String,
    /// `spec.channel`: `1-31`.
    pub channel: String,
    /// `spec.number`: 45.
    pub number: u64,
    /// `status.date`.
    pub date: Option<String>,
    /// `status.components`, in the order of the file.
    pub components: Vec<EksdComponent>,
    /// The whole object as it was read.
    pub node: Node,
}

/// A project in an EKS-D release.
#[derive(Debug, Clone)]
pub struct EksdComponent {
    /// `kubernetes`, `etcd`, `coredns`.
    pub name: String,
    /// `gitTag`.
    pub version: Option<Version>,
    /// `gitCommit`.
    pub git_commit: Option<String>,
    /// What it ships.
    pub assets: Vec<EksdAsset>,
}

/// An image or an archive of an [`EksdComponent`].
#[derive(Debug, Clone)]
pub struct EksdAsset {
    /// `kube-apiserver-image`.
    pub name: String,
    /// `Image` or `Archive`.
    pub kind: String,
    /// `linux`.
    pub os: Option<String>,
    /// `amd64`, `arm64`.
    pub arch: Vec<String>,
    /// `image.uri` or `archive.uri`.
    pub uri: Option<String>,
    /// `archive.sha256`; images carry none.
    pub digest: Option<Digest>,
}

impl EksdRelease {
    pub(crate) fn read(path: &str, root: Node) -> Result<Self, BundleError> {
        let empty = Node::default();
        let spec = root.get("spec").unwrap_or(&empty);
        let missing = |key: &str| {
            let message = format!("the EKS-D Release object has no `spec.{key}`");
            BundleError::new(path, position(&root), message, "take the file anew from the address in the bundle")
        };
        let channel = spec.get("channel").and_then(text).ok_or_else(|| missing("channel"))?;
        let number = unsigned(path, spec, "number")?.ok_or_else(|| missing("number"))?;
        let components = root.at(&["status", "components"]).and_then(Node::as_sequence).unwrap_or_default();
        Ok(Self {
            name: name(&root).unwrap_or_else(|| format!("kubernetes-{channel}-eks-{number}")),
            channel,
            number,
            date: root.at(&["status", "date"]).and_then(text),
            components: components.iter().map(EksdComponent::read).collect(),
            node: root,
        })
    }

    /// The component with this name.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&EksdComponent> {
        self.components.iter().find(|component| component.name == name)
    }

    /// The Kubernetes version: `gitTag` of the component `kubernetes`.
    #[must_use]
    pub fn kubernetes_version(&self) -> Option<KubernetesVersion> {
        self.component("kubernetes")?.version.as_ref()?.as_str().parse().ok()
    }

    /// Kubernetes version and release number together.
    #[must_use]
    pub fn version(&self) -> Option<EksDVersion> {
        EksDVersion::new(&self.kubernetes_version()?, self.number)
    }
}

impl EksdComponent {
    fn read(node: &Node) -> Self {
        let assets = node.get("assets").and_then(Node::as_sequence).unwrap_or_default();
        Self {
            name: node.get("name").and_then(text).unwrap_or_default(),
            version: node.get("gitTag").and_then(text).map(Version::new),
            git_commit: node.get("gitCommit").and_then(text),
            assets: assets.iter().map(EksdAsset::read).collect(),
        }
    }

    /// The asset with this name.
    #[must_use]
    pub fn asset(&self, name: &str) -> Option<&EksdAsset> {
        self.assets.iter().find(|asset| asset.name == name)
    }
}

impl EksdAsset {
    fn read(node: &Node) -> Self {
        let source = node.get("image").or_else(|| node.get("archive"));
        let arch = node.get("arch").and_then(Node::as_sequence).unwrap_or_default();
        Self {
            name: node.get("name").and_then(text).unwrap_or_default(),
            kind: node.get("type").and_then(text).unwrap_or_default(),
            os: node.get("os").and_then(text),
            arch: arch.iter().filter_map(text).collect(),
            uri: source.and_then(|source| source.get("uri")).and_then(text),
            digest: source.and_then(|source| source.get("sha256")).and_then(text).and_then(|it| it.parse().ok()),
        }
    }
}
