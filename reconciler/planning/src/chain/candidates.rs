//! The bundles that a chain may go through.

use bundles::{Bundles, Version, VersionForm};
use overlays::{BundleFile, BundleReference, ClusterSpec, Fleet};
use rollout::ChainBundle;

use crate::updates;

/// From the deployed bundle to the wanted one, in the order of their versions, and of each minor in between the newest; none
/// where the wanted one is not known to be the later.
pub(super) fn between(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    deployed: (&Fleet, &BundleFile),
    wanted: &BundleFile,
) -> Option<Vec<ChainBundle>> {
    let (before, deployed) = deployed;
    let first = chain_bundle(before, cluster, deployed);
    if deployed.bundles.name == wanted.bundles.name {
        return Some(vec![chain_bundle(fleet, cluster, wanted)]);
    }
    let last = chain_bundle(fleet, cluster, wanted);
    let (Some(from), Some(to)) = (version_of(before, &deployed.bundles), version_of(fleet, &wanted.bundles)) else {
        return Some(vec![first, last]);
    };
    let (from, to) = (from.precedence()?, to.precedence()?);
    if from > to {
        return None;
    }
    let place = |file: &BundleFile| Some((version_of(fleet, &file.bundles)?.precedence()?, file.bundles.number));
    // By its name, a bundle is one of both ends already.
    let mut known: Vec<_> = fleet
        .bundles
        .iter()
        .filter(|file| ![&deployed.bundles.name, &wanted.bundles.name].contains(&&file.bundles.name))
        .filter(|file| can_be_named(fleet, cluster, &file.bundles))
        .filter_map(|file| Some((place(file)?, file.as_ref())))
        .filter(|((version, _), _)| from < *version && *version < to)
        .collect();
    known.sort_by(|(one, _), (other, _)| other.cmp(one));
    known.dedup_by_key(|((version, _), _)| (version.core.0, version.core.1));
    let middle = known.into_iter().rev().map(|(_, file)| chain_bundle(fleet, cluster, file));
    Some(std::iter::once(first).chain(middle).chain([last]).collect())
}

/// Whether the specification can say that it follows a bundle.
fn can_be_named(fleet: &Fleet, cluster: &ClusterSpec, bundles: &Bundles) -> bool {
    match cluster.bundle_reference {
        Some(BundleReference::EksaVersion(_)) => updates::declared_version(fleet, bundles).is_some(),
        Some(BundleReference::Bundles(_)) | None => true,
    }
}

/// The version of EKS Anywhere that a bundle belongs to.
fn version_of(fleet: &Fleet, bundles: &Bundles) -> Option<Version> {
    let declared = updates::declared_version(fleet, bundles);
    declared.or_else(|| updates::built_version(bundles)).filter(|version| !version.is_opaque())
}

pub(super) fn chain_bundle(fleet: &Fleet, cluster: &ClusterSpec, file: &BundleFile) -> ChainBundle {
    let version = version_of(fleet, &file.bundles);
    let eksa_minor = version.as_ref().and_then(|version| match version.form() {
        VersionForm::Semantic(version) => Some((version.major, version.minor)),
        VersionForm::EksD(_) | VersionForm::Opaque => None,
    });
    let nodes =
        file.bundles.versions_bundles.iter().map(|section| {
            (section.kubernetes_version.minor(), overlays::render::node_parts(section, &cluster.provider))
        });
    ChainBundle {
        name: file.bundles.name.clone(),
        eksa: version.map(|version| version.to_string()),
        eksa_minor,
        nodes: nodes.collect(),
    }
}
