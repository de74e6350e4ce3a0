//! The releases manifest of EKS Anywhere: which versions there are, and where their Bundles lie.
//!
//! It is not signed, so it is a hint and proves nothing: what it points to is looked at by itself.

use yaml::{Limits, Node};

use crate::error::BundleError;
use crate::field::{position, text, unsigned};
use crate::version::Version;

/// The published manifest has 200 releases in 300 KB.
const LIMITS: Limits = Limits { bytes: 8 << 20, documents: 16, depth: 32, nodes: 400_000 };

/// One version of EKS Anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRelease {
    /// `version`: `v0.25.0`.
    pub version: Version,
    /// `number`: that of its Bundles.
    pub number: u64,
    /// `date`, as written.
    pub date: Option<String>,
    /// `bundleManifestUrl`.
    pub bundle_manifest_url: String,
    /// `gitCommit`.
    pub git_commit: Option<String>,
}

/// Reads a releases manifest. Entries without a version that has an order are left out: `latest` is one.
///
/// # Errors
/// Text that is not YAML or too large, or holds no `Release` of EKS Anywhere; an entry without number or address.
pub fn parse_releases(path: &str, bytes: &[u8]) -> Result<Vec<PublishedRelease>, BundleError> {
    let yaml = |error| BundleError::yaml(path, &error);
    let source = yaml::decode(bytes).map_err(yaml)?;
    let documents = yaml::parse(&source, &LIMITS).map_err(yaml)?;
    let is_it = |root: &Node| {
        let field = |key| root.get(key).and_then(text).unwrap_or_default();
        field("kind") == "Release" && field("apiVersion").starts_with("anywhere.eks.amazonaws.com/")
    };
    let Some(document) = documents.into_iter().find(|document| is_it(&document.root)) else {
        let hint = "expected `apiVersion: anywhere.eks.amazonaws.com/v1alpha1` and `kind: Release`";
        return Err(BundleError::new(path, (1, 1), "the file holds no Release of EKS Anywhere", hint));
    };
    let items = document.root.at(&["spec", "releases"]).and_then(Node::as_sequence).unwrap_or_default();
    let mut releases = Vec::with_capacity(items.len());
    for item in items {
        let field = |key| item.get(key).and_then(text).filter(|text| !text.is_empty());
        let version = Version::new(field("version").unwrap_or_default());
        if version.is_opaque() {
            continue;
        }
        let (Some(number), Some(bundle_manifest_url)) = (unsigned(path, item, "number")?, field("bundleManifestUrl"))
        else {
            let message = format!("release {version} has no `number` or no `bundleManifestUrl`");
            return Err(BundleError::new(path, position(item), message, "take the manifest anew from where it is"));
        };
        let (date, git_commit) = (field("date"), field("gitCommit"));
        releases.push(PublishedRelease { version, number, date, bundle_manifest_url, git_commit });
    }
    Ok(releases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Release\n";

    #[test]
    fn releases_are_read_and_those_without_an_order_left_out() {
        let text = format!(
            "{HEAD}spec:\n  latestVersion: v0.25.0\n  releases:\n  \
             - {{version: v0.25.0, number: 81, date: \"2026-01-01T00:00:00Z\", bundleManifestUrl: \"https://a/b\"}}\n  \
             - {{version: latest, number: 1}}\n"
        );
        let releases = parse_releases("manifest.yaml", text.as_bytes()).unwrap();
        let [release] = releases.as_slice() else { panic!("{releases:?}") };
        assert_eq!((release.version.as_str(), release.number), ("v0.25.0", 81));
        assert_eq!(release.bundle_manifest_url, "https://a/b");
    }

    #[test]
    fn what_is_not_a_releases_manifest_is_refused() {
        let broken = format!("{HEAD}spec: {{releases: [{{version: v0.25.0}}]}}\n");
        for (text, expected) in [
            ("kind: Release\napiVersion: distro.eks.amazonaws.com/v1alpha1\n", "holds no Release of EKS Anywhere"),
            (&broken, "release v0.25.0 has no `number` or no `bundleManifestUrl`"),
            ("a: [", "manifest.yaml:"),
        ] {
            let error = parse_releases("manifest.yaml", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
