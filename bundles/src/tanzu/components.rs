//! The images that nodes of a release run besides their kubelets.

use yaml::Node;

use crate::field;

/// An image of a component: where it is, and at which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentImage {
    /// Its repository, without the name of the image.
    pub repository: String,
    /// Its version, as `v1.6.2_vmware.6`.
    pub tag: String,
}

/// What kubeadm sets up on a node of a release; each is absent where nothing says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Components {
    /// Kubernetes itself.
    pub kubernetes: Option<ComponentImage>,
    /// etcd.
    pub etcd: Option<ComponentImage>,
    /// `CoreDNS`.
    pub coredns: Option<ComponentImage>,
}

/// A tag of an image cannot hold `+`.
fn tag(version: &str) -> String {
    version.replace('+', "_")
}

impl Components {
    /// Of the JSON of a distribution property.
    pub(super) fn of_distribution(root: &Node) -> Self {
        let read = |name: &str| {
            let text = |key: &str| root.at(&[name, key]).and_then(field::text).filter(|text| !text.is_empty());
            Some(ComponentImage { repository: text("imageRepository")?, tag: tag(&text("version")?) })
        };
        Self { kubernetes: read("kubernetes"), etcd: read("etcd"), coredns: read("coredns") }
    }

    /// Of `spec.kubernetes` of a release (v1alpha3, and `KubernetesRelease`): what names no repository is in that of Kubernetes.
    pub(super) fn of_release(release: &Node) -> Self {
        let text = |path: &[&str]| {
            let path: Vec<&str> = ["spec", "kubernetes"].iter().chain(path).copied().collect();
            release.at(&path).and_then(field::text).filter(|text| !text.is_empty())
        };
        let own = text(&["imageRepository"]);
        let read = |name: &str| {
            let repository = text(&[name, "imageRepository"]).or_else(|| own.clone())?;
            Some(ComponentImage { repository, tag: tag(&text(&[name, "imageTag"])?) })
        };
        let kubernetes = own
            .clone()
            .zip(text(&["version"]))
            .map(|(repository, version)| ComponentImage { repository, tag: tag(&version) });
        Self { kubernetes, etcd: read("etcd"), coredns: read("coredns") }
    }
}
