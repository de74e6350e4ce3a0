//! Which manifests and charts that bundles name a fleet needs.

use std::collections::{BTreeMap, BTreeSet};

use bundles::{Artifact, Bundles, KubernetesVersion};
use overlays::{Fleet, Provider};

/// The sections of infrastructure providers in a versionsBundle.
const PROVIDERS: [Provider; 6] = [
    Provider::Docker,
    Provider::VSphere,
    Provider::Tinkerbell,
    Provider::Nutanix,
    Provider::Snow,
    Provider::CloudStack,
];

/// Something to have in the mirror.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The name in lock and report; a chart is `oci://repository:tag`.
    pub uri: String,
    /// What the sources are asked for: with the digest of the chart's OCI manifest, where the bundle has it.
    pub address: String,
}

impl Wanted {
    fn manifest(uri: String) -> Self {
        Self { address: uri.clone(), uri }
    }

    fn chart(chart: &Artifact) -> Self {
        let uri = format!("oci://{}", chart.uri);
        Self { address: chart.digest.map_or_else(|| uri.clone(), |digest| format!("{uri}@{digest}")), uri }
    }
}

/// The infrastructure providers of a fleet's clusters.
#[derive(Debug, Default)]
pub struct NeededProviders {
    /// Sections of providers that some cluster has.
    sections: BTreeSet<&'static str>,
    /// How many clusters there are.
    clusters: usize,
}

impl NeededProviders {
    /// Those of this fleet.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        let sections = fleet.clusters.iter().filter_map(|cluster| cluster.provider.bundle_component()).collect();
        Self { sections, clusters: fleet.clusters.len() }
    }

    /// Whether a section of a bundle is that of a provider that no cluster has. Where there is no cluster to go by, none is.
    #[must_use]
    pub fn leaves_out(&self, section: &str) -> bool {
        let is_provider = PROVIDERS.iter().any(|provider| provider.bundle_component() == Some(section));
        self.clusters > 0 && is_provider && !self.sections.contains(section)
    }
}

/// The manifests that are needed of bundles, `only` of these Kubernetes versions where any are named, and the charts that
/// Stepgate renders, with who names each first; and the sections left out.
#[must_use]
pub fn wanted(
    bundles: &[Bundles],
    only: &[KubernetesVersion],
    leaves_out: &dyn Fn(&str) -> bool,
) -> (BTreeMap<Wanted, String>, BTreeSet<String>) {
    let (mut wanted, mut left_out) = (BTreeMap::new(), BTreeSet::new());
    let versions_bundles = bundles.iter().flat_map(|bundles| &bundles.versions_bundles);
    let chosen = |version: &KubernetesVersion| only.is_empty() || only.iter().any(|it| it.minor() == version.minor());
    for versions_bundle in versions_bundles.filter(|it| chosen(&it.kubernetes_version)) {
        for manifest in versions_bundle.manifests().filter(|it| it.uri.starts_with("http")) {
            if leaves_out(manifest.component) {
                left_out.insert(manifest.component.to_owned());
                continue;
            }
            let used_by = format!("{}.{}", manifest.component, manifest.artifact);
            wanted.entry(Wanted::manifest(manifest.uri.to_owned())).or_insert(used_by);
        }
        let chart = versions_bundle.component("cilium").and_then(|cilium| cilium.artifact("helmChart"));
        if let Some(chart) = chart.filter(|chart| !chart.is_placeholder()) {
            wanted.entry(Wanted::chart(chart)).or_insert_with(|| "cilium.helmChart".to_owned());
        }
        if let Some(version) = versions_bundle.component("flux").and_then(|flux| flux.version.as_ref()) {
            let uri = overlays::render::install_address(version.as_str());
            wanted.entry(Wanted::manifest(uri)).or_insert_with(|| "flux".to_owned());
        }
    }
    (wanted, left_out)
}
