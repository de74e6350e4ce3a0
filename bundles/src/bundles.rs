//! The Bundles object: one versionsBundle for each Kubernetes minor.

use std::collections::BTreeMap;

use yaml::{Node, Value};

use crate::component::{Artifact, ArtifactKind, Component};
use crate::eks_d::{EksDVersion, release_number};
use crate::error::BundleError;
use crate::field::{name, position, text, unsigned};
use crate::kubernetes::KubernetesVersion;

/// A `Bundles` object of EKS Anywhere (upstream type `BundlesSpec`).
///
/// Sections and fields that this package does not know are kept in [`Bundles::node`] and, where they are maps, in
/// [`VersionsBundle::components`].
#[derive(Debug, Clone)]
pub struct Bundles {
    /// `metadata.name`; `bundles-<number>` where the file names none, as in 2021.
    pub name: String,
    /// `spec.number`: rises within one release line only. 0 where absent.
    pub number: u64,
    /// `spec.cliMinVersion`.
    pub cli_min_version: Option<String>,
    /// `spec.cliMaxVersion`.
    pub cli_max_version: Option<String>,
    /// `spec.versionsBundles`, by Kubernetes version. Never empty, never two of one version.
    pub versions_bundles: Vec<VersionsBundle>,
    /// `metadata.annotations`; the signature is one of them.
    pub annotations: BTreeMap<String, String>,
    /// The whole object as it was read.
    pub node: Node,
}

/// What belongs to one Kubernetes minor.
#[derive(Debug, Clone)]
pub struct VersionsBundle {
    /// `kubeVersion`: `1.30`, as written.
    pub kubernetes_version: KubernetesVersion,
    /// `endOfStandardSupport`: `2027-08-31`.
    pub end_of_standard_support: Option<String>,
    /// Every section that is a map, by name.
    pub components: Vec<Component>,
    /// What the section `eksD` says beyond its artifacts.
    pub eks_d: Option<EksDReference>,
}

/// The section `eksD`: which EKS-D release a versionsBundle is built on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksDReference {
    /// `kubernetes-1-31-eks-34`.
    pub name: Option<String>,
    /// `1-31`.
    pub channel: Option<String>,
    /// `v1.31.13`.
    pub kubernetes_version: Option<KubernetesVersion>,
    /// 34: from the name, else from the address of the manifest.
    pub number: Option<u64>,
    /// Address of the EKS-D Release manifest.
    pub manifest_url: Option<String>,
    /// Address of the custom resource definitions.
    pub components: Option<String>,
}

/// A YAML file that a bundle points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestReference<'a> {
    /// The address, verbatim.
    pub uri: &'a str,
    /// The component that names it first.
    pub component: &'a str,
    /// The dotted path inside that component.
    pub artifact: &'a str,
}

impl Bundles {
    pub(crate) fn read(path: &str, root: Node) -> Result<Self, BundleError> {
        let empty = Node::default();
        let spec = root.get("spec").unwrap_or(&empty);
        let number = unsigned(path, spec, "number")?.unwrap_or_default();
        let mut bundles = Self {
            name: name(&root).unwrap_or_else(|| format!("bundles-{number}")),
            number,
            cli_min_version: spec.get("cliMinVersion").and_then(text),
            cli_max_version: spec.get("cliMaxVersion").and_then(text),
            versions_bundles: read_versions_bundles(path, &root, spec)?,
            annotations: read_annotations(&root),
            node: empty,
        };
        bundles.node = root;
        Ok(bundles)
    }

    /// The versionsBundle of a Kubernetes version; only its minor counts, so `v1.30.14` finds `1.30`.
    #[must_use]
    pub fn versions_bundle(&self, version: &KubernetesVersion) -> Option<&VersionsBundle> {
        self.versions_bundles.iter().find(|it| it.kubernetes_version.minor() == version.minor())
    }

    /// The section of a component as it was read, with every field.
    #[must_use]
    pub fn component_node(&self, version: &KubernetesVersion, component: &str) -> Option<&Node> {
        let sections = self.node.at(&["spec", "versionsBundles"])?.as_sequence()?;
        let section = sections.iter().find(|section| {
            let found = section.get("kubeVersion").and_then(text).and_then(|it| it.parse::<KubernetesVersion>().ok());
            found.is_some_and(|found| found.minor() == version.minor())
        })?;
        section.get(component)
    }

    /// Every manifest that the bundle points to, each address once, by address: artifacts of kind
    /// [`ArtifactKind::Manifest`] with a real address, and the two addresses of `eksD`.
    #[must_use]
    pub fn manifests(&self) -> Vec<ManifestReference<'_>> {
        let mut found = BTreeMap::new();
        for versions_bundle in &self.versions_bundles {
            for reference in versions_bundle.manifests() {
                found.entry(reference.uri).or_insert(reference);
            }
        }
        found.into_values().collect()
    }
}

impl VersionsBundle {
    /// The component with this key.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.name == name)
    }

    /// Every manifest that this versionsBundle points to, in the order of components and artifacts.
    pub fn manifests(&self) -> impl Iterator<Item = ManifestReference<'_>> {
        let artifacts = self.components.iter().flat_map(|component| {
            let reference =
                |artifact: &'_ Artifact| artifact.kind == ArtifactKind::Manifest && has_scheme(&artifact.uri);
            component.artifacts.iter().filter(move |it| reference(it)).map(|artifact| ManifestReference {
                uri: &artifact.uri,
                component: &component.name,
                artifact: &artifact.name,
            })
        });
        let eks_d = self.eks_d.iter().flat_map(|eks_d| {
            let reference = |uri, artifact| ManifestReference { uri, component: "eksD", artifact };
            let manifest = eks_d.manifest_url.as_deref().map(|uri| reference(uri, "manifestUrl"));
            let components = eks_d.components.as_deref().map(|uri| reference(uri, "components"));
            manifest.into_iter().chain(components).filter(|it| has_scheme(it.uri))
        });
        artifacts.chain(eks_d)
    }
}

impl EksDReference {
    fn read(section: &Node) -> Self {
        let field = |key: &str| section.get(key).and_then(text).filter(|text| !text.is_empty());
        let (name, manifest_url) = (field("name"), field("manifestUrl"));
        let number = [&name, &manifest_url].into_iter().flatten().find_map(|it| release_number(it));
        Self {
            number,
            channel: field("channel"),
            kubernetes_version: field("kubeVersion").and_then(|it| it.parse().ok()),
            components: field("components"),
            name,
            manifest_url,
        }
    }

    /// Kubernetes version and release number together, where the section names both.
    #[must_use]
    pub fn version(&self) -> Option<EksDVersion> {
        EksDVersion::new(self.kubernetes_version.as_ref()?, self.number?)
    }
}

/// Whether an address can be fetched: image references and placeholders have no scheme.
fn has_scheme(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
}

fn read_annotations(root: &Node) -> BTreeMap<String, String> {
    let annotations = root.at(&["metadata", "annotations"]).and_then(Node::as_mapping);
    let entries = annotations.into_iter().flatten();
    entries.filter_map(|entry| Some((entry.key.to_string(), text(&entry.value)?))).collect()
}

fn read_versions_bundles(path: &str, root: &Node, spec: &Node) -> Result<Vec<VersionsBundle>, BundleError> {
    let hint =
        "a Bundles object needs at least one entry below `spec.versionsBundles`; take the file anew from its release";
    let Some(list) = spec.get("versionsBundles").filter(|list| !list.is_null()) else {
        return Err(BundleError::new(path, position(root), "the Bundles object has no `spec.versionsBundles`", hint));
    };
    let items = list.as_sequence().unwrap_or_default();
    if items.is_empty() {
        let found = if matches!(list.value, Value::Sequence(_)) { "is empty" } else { "is not a list" };
        return Err(BundleError::new(path, position(list), format!("`spec.versionsBundles` {found}"), hint));
    }
    let mut lines = BTreeMap::new();
    let mut versions_bundles = Vec::with_capacity(items.len());
    for item in items {
        let versions_bundle = VersionsBundle::read(path, item)?;
        let version = &versions_bundle.kubernetes_version;
        if let Some(first) = lines.insert(version.minor(), item.span.line()) {
            let message =
                format!("Kubernetes version {version} has a second versionsBundle, after the one in line {first}");
            return Err(BundleError::new(
                path,
                position(item),
                message,
                "keep one versionsBundle for each Kubernetes version",
            ));
        }
        versions_bundles.push(versions_bundle);
    }
    versions_bundles.sort_by(|left, right| left.kubernetes_version.cmp(&right.kubernetes_version));
    Ok(versions_bundles)
}

impl VersionsBundle {
    fn read(path: &str, item: &Node) -> Result<Self, BundleError> {
        let hint = "write the Kubernetes minor as text: `kubeVersion: \"1.30\"`";
        let Some(mapping) = item.as_mapping() else {
            let message = "an entry of `spec.versionsBundles` is not a map";
            return Err(BundleError::new(
                path,
                position(item),
                message,
                "each entry holds `kubeVersion` and its components",
            ));
        };
        let Some(node) = mapping.get("kubeVersion").filter(|node| !node.is_null()) else {
            return Err(BundleError::new(path, position(item), "a versionsBundle has no `kubeVersion`", hint));
        };
        let kubernetes_version = text(node)
            .unwrap_or_default()
            .parse()
            .map_err(|error| BundleError::new(path, position(node), format!("`kubeVersion`: {error}"), hint))?;
        let mut components: Vec<_> =
            mapping.iter().filter_map(|entry| Some(Component::read(&entry.key, entry.value.as_mapping()?))).collect();
        components.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Self {
            kubernetes_version,
            end_of_standard_support: mapping.get("endOfStandardSupport").and_then(text),
            components,
            eks_d: mapping.get("eksD").filter(|section| section.as_mapping().is_some()).map(EksDReference::read),
        })
    }
}
