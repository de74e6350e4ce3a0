//! The `EKSARelease` object: which Bundles belong to a version of EKS Anywhere.

use yaml::Node;

use crate::error::BundleError;
use crate::field::{name, position, text};
use crate::version::Version;

/// An `EKSARelease` object (upstream type `EKSAReleaseSpec`).
#[derive(Debug, Clone)]
pub struct EksaRelease {
    /// `metadata.name`: the version with `.` as `-` and `+` as `-plus-`, behind `eksa-`.
    pub name: String,
    /// `spec.version`: what a cluster names as `eksaVersion`.
    pub version: Version,
    /// `spec.releaseDate`.
    pub release_date: Option<String>,
    /// `spec.gitCommit`.
    pub git_commit: Option<String>,
    /// `spec.bundleManifestUrl`.
    pub bundle_manifest_url: Option<String>,
    /// `spec.bundlesRef.name`: the Bundles object of this release.
    pub bundles_name: Option<String>,
    /// `spec.bundlesRef.namespace`.
    pub bundles_namespace: Option<String>,
    /// The whole object as it was read.
    pub node: Node,
}

impl EksaRelease {
    pub(crate) fn read(path: &str, root: Node) -> Result<Self, BundleError> {
        let field = |keys: &[&str]| root.at(keys).and_then(text).filter(|text| !text.is_empty());
        let Some(version) = field(&["spec", "version"]) else {
            let message = "the EKSARelease object has no `spec.version`";
            return Err(BundleError::new(
                path,
                position(&root),
                message,
                "write the version of EKS Anywhere that it describes",
            ));
        };
        Ok(Self {
            name: name(&root).unwrap_or_else(|| Self::name_of(&version)),
            version: Version::new(version),
            release_date: field(&["spec", "releaseDate"]),
            git_commit: field(&["spec", "gitCommit"]),
            bundle_manifest_url: field(&["spec", "bundleManifestUrl"]),
            bundles_name: field(&["spec", "bundlesRef", "name"]),
            bundles_namespace: field(&["spec", "bundlesRef", "namespace"]),
            node: root,
        })
    }

    /// The object name that EKS Anywhere gives to a version: `eksa-v0-25-0-dev-plus-build-17`.
    #[must_use]
    pub fn name_of(version: &str) -> String {
        format!("eksa-{}", version.replace('.', "-").replace('+', "-plus-"))
    }
}
