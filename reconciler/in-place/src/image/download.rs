//! What is fetched for one image, by the manifests that say its digests.

use bundles::{Digest, EksdRelease, VersionsBundle};

use super::{Architecture, ReleaseFile};

/// What something fetched is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The program itself.
    Kubeadm,
    /// The program itself.
    Kubelet,
    /// The program itself.
    Kubectl,
    /// An archive of plugins.
    CniPlugins,
    /// An archive of containerd and runc.
    Containerd,
}

impl Part {
    /// Whether it is a compressed archive, and not a program.
    #[must_use]
    pub fn is_archive(self) -> bool {
        matches!(self, Self::CniPlugins | Self::Containerd)
    }
}

/// Something to fetch, and the digest that it has to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// What it is.
    pub part: Part,
    /// Where it is.
    pub uri: String,
    /// What it has to be.
    pub digest: Digest,
}

/// Why no image can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// A manifest does not name something that is needed.
    #[error("{manifest} has no {what} for linux/{architecture}")]
    NotNamed {
        /// Which manifest.
        manifest: String,
        /// What is needed.
        what: &'static str,
        /// For what.
        architecture: Architecture,
    },
    /// A manifest names it without what it is checked by.
    #[error("{manifest} names {uri} without a sha256 digest: it could be anything")]
    NoDigest {
        /// Which manifest.
        manifest: String,
        /// What it names.
        uri: String,
    },
}

/// All that an image of `release` is made of.
///
/// # Errors
/// Everything that is not named.
pub fn downloads(
    versions: &VersionsBundle,
    release: &EksdRelease,
    architecture: Architecture,
) -> Result<Vec<Download>, Vec<ImageProblem>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut take = |part, manifest: &str, what, named: Option<(&str, Option<Digest>)>| {
        let manifest = manifest.to_owned();
        match named {
            None => problems.push(ImageProblem::NotNamed { manifest, what, architecture }),
            Some((uri, None)) => problems.push(ImageProblem::NoDigest { manifest, uri: uri.to_owned() }),
            Some((uri, Some(digest))) => found.push(Download { part, uri: uri.to_owned(), digest }),
        }
    };
    for (part, what) in [(Part::Kubeadm, "kubeadm"), (Part::Kubelet, "kubelet"), (Part::Kubectl, "kubectl")] {
        let name = format!("bin/linux/{architecture}/{what}");
        let asset = release.component("kubernetes").and_then(|component| component.asset(&name));
        take(part, &release.name, what, asset.and_then(|asset| Some((asset.uri.as_deref()?, asset.digest))));
    }
    let plugins = release.component("cni-plugins").into_iter().flat_map(|component| &component.assets);
    let plugins = plugins.filter(|asset| asset.kind == "Archive" && asset.os.as_deref() == Some("linux"));
    let plugins = plugins.into_iter().find(|asset| asset.arch.iter().any(|name| name == architecture.as_str()));
    take(
        Part::CniPlugins,
        &release.name,
        "archive of CNI plugins",
        plugins.and_then(|asset| Some((asset.uri.as_deref()?, asset.digest))),
    );
    let containerd = versions.component("eksD").and_then(|component| component.artifact("containerd"));
    let containerd = containerd.filter(|artifact| {
        !artifact.is_placeholder() && artifact.uri.ends_with(&format!("linux-{architecture}.tar.gz"))
    });
    let bundle = format!("the Bundles section of {}", versions.kubernetes_version);
    take(
        Part::Containerd,
        &bundle,
        "archive of containerd",
        containerd.map(|artifact| (artifact.uri.as_str(), artifact.digest)),
    );
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Programs without which nodes do not work, and that the files of a release lack.
#[must_use]
pub fn missing_programs(files: &[ReleaseFile]) -> Vec<&'static str> {
    let needed = [
        "kubeadm",
        "kubelet",
        "kubectl",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "runc",
        "loopback",
        "host-local",
    ];
    let has = |name: &str| files.iter().any(|file| file.path.rsplit('/').next() == Some(name));
    needed.into_iter().filter(|name| !has(name)).collect()
}
