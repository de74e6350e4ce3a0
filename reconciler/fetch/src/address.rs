//! Where an address lies in a mirror folder.

use std::path::{Path, PathBuf};

use bundles::ImageReference;

/// A place below the root of a mirror: host and path of an address, without its scheme.
///
/// Only normal names: never absolute, no `..`, nothing that could leave the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MirrorPath(PathBuf);

/// Why an address has no place in a mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` has no place in a mirror: {reason}")]
pub struct MirrorPathError {
    address: String,
    reason: &'static str,
}

impl MirrorPath {
    /// The place of a chart for `oci://…`, of a manifest for everything else.
    ///
    /// # Errors
    /// As [`MirrorPath::of_manifest`] and [`MirrorPath::of_chart`].
    pub fn of(uri: &str) -> Result<Self, MirrorPathError> {
        if uri.starts_with("oci://") { Self::of_chart(uri) } else { Self::of_manifest(uri) }
    }

    /// The place of a manifest: `https://host/path/file.yaml` lies at `host/path/file.yaml`.
    ///
    /// # Errors
    /// Another scheme than `https` or `http`, user information, a query or fragment, a path with empty or dot segments.
    pub fn of_manifest(uri: &str) -> Result<Self, MirrorPathError> {
        let error = |reason| MirrorPathError { address: uri.chars().take(300).collect(), reason };
        let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"));
        let rest = rest.ok_or_else(|| error("it does not begin with https://"))?;
        Self::of_segments(rest).map_err(error)
    }

    /// The place of a chart in a registry: `repository:tag` lies at `repository/tag.tgz`, whatever its digest.
    ///
    /// # Errors
    /// A text that is not a valid image reference, or has no tag.
    pub fn of_chart(reference: &str) -> Result<Self, MirrorPathError> {
        let error = |reason| MirrorPathError { address: reference.chars().take(300).collect(), reason };
        let plain = reference.strip_prefix("oci://").unwrap_or(reference);
        let image: ImageReference = plain.parse().map_err(|_| error("it is not a valid reference `repository:tag`"))?;
        let tag = image.tag().ok_or_else(|| error("it has no tag"))?;
        Self::of_segments(&format!("{}/{tag}.tgz", image.repository())).map_err(error)
    }

    fn of_segments(text: &str) -> Result<Self, &'static str> {
        if text.contains(['?', '#', '@', '\\', '\0', '%']) {
            return Err("user information, queries, fragments, escapes and backslashes are not served from a mirror");
        }
        let segments: Vec<&str> = text.split('/').collect();
        if segments.len() < 2 {
            return Err("it has no path behind the host");
        }
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err("its path has an empty or dot segment");
        }
        Ok(Self(segments.iter().collect()))
    }

    /// The relative path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_path_are_the_place() {
        let check = |uri: &str, expect: &str| {
            assert_eq!(MirrorPath::of_manifest(uri).unwrap().as_path(), Path::new(expect), "{uri}");
        };
        check(
            "https://distro.eks.amazonaws.com/kubernetes-1-31/kubernetes-1-31-eks-45.yaml",
            "distro.eks.amazonaws.com/kubernetes-1-31/kubernetes-1-31-eks-45.yaml",
        );
        check("https://localhost:8443/a.yaml", "localhost:8443/a.yaml");
    }

    #[test]
    fn charts_lie_by_repository_and_tag() {
        let check = |reference: &str, expect: &str| {
            assert_eq!(MirrorPath::of_chart(reference).unwrap().as_path(), Path::new(expect), "{reference}");
        };
        check("public.ecr.aws/eks/cilium/cilium:1.19.4-1", "public.ecr.aws/eks/cilium/cilium/1.19.4-1.tgz");
        check("oci://localhost:5000/cilium:1.0.0", "localhost:5000/cilium/1.0.0.tgz");
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        for uri in [
            "https://host/../secret",
            "https://../secret",
            "https://host/a/./b",
            "https://host//etc/passwd",
            "https://host/%2e%2e/secret",
            "https://host/a\\..\\b",
            "https://user@host/a",
            "https://host/a?b=c",
            "https://host",
            "https://host/",
            "file:///etc/passwd",
            "embed:///config/a.yaml",
            "/etc/passwd",
            "<placeholder>",
            "",
        ] {
            assert!(MirrorPath::of_manifest(uri).is_err(), "{uri}");
        }
        for reference in ["cilium", "../cilium:1", "a/../b:1", "https://host/a:1", ""] {
            assert!(MirrorPath::of_chart(reference).is_err(), "{reference}");
        }
    }
}
