//! Which component belongs to which stage, and how it changed since what is deployed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bundles::{Bundles, ChangeClass, KubernetesVersion, Locks, VersionsBundle};
use overlays::ClusterSpec;
use rollout::{ComponentChange, StageName};

/// What of the bundle a cluster runs: the section of its Kubernetes version, where the bundle has it.
pub fn section<'a>(bundles: &'a Bundles, minor: &str) -> Option<&'a VersionsBundle> {
    bundles.versions_bundles.iter().find(|section| section.kubernetes_version.to_string() == minor)
}

/// How the components of one cluster change, by stage. Unchanged ones are left out.
///
/// The cluster moves from the old bundle's section of its deployed Kubernetes version to the new bundle's section of its target
/// version; sections of other versions have no part in it.
pub fn by_stage(
    old: &VersionsBundle,
    new: &VersionsBundle,
    locks: Locks<'_>,
    cluster: &ClusterSpec,
) -> BTreeMap<StageName, Vec<ComponentChange>> {
    let mut stages: BTreeMap<StageName, Vec<ComponentChange>> = BTreeMap::new();
    for change in bundles::compare_versions_bundles(old, new, locks) {
        if change.class == ChangeClass::Unchanged {
            continue;
        }
        if let Some(stage) = stage_of(&change.component, cluster) {
            stages.entry(stage).or_default().push(change.into());
        }
    }
    stages
}

/// The change of the Kubernetes version itself, which no component of a bundle stands for.
pub fn kubernetes(deployed: &str, target: &str) -> Option<ComponentChange> {
    let (old, new): (KubernetesVersion, KubernetesVersion) = (deployed.parse().ok()?, target.parse().ok()?);
    let is_one = new == old || Option::zip(new.patch(), old.patch()).is_none();
    let class = match new.minor().minors_above(old.minor()) {
        None if new.minor() > old.minor() => ChangeClass::Major,
        None => ChangeClass::Downgrade,
        // EKS Anywhere names minors; which patch one of them is its bundle says.
        Some(0) if is_one => return None,
        Some(0) => match new.order(&old) {
            Ordering::Less => ChangeClass::Downgrade,
            Ordering::Greater if new.patch() != old.patch() => ChangeClass::Patch,
            Ordering::Greater | Ordering::Equal => ChangeClass::Rebuild,
        },
        Some(1) => ChangeClass::Minor,
        Some(step) if step > 1 => ChangeClass::SkipMinor,
        Some(_) => ChangeClass::Downgrade,
    };
    Some(ComponentChange {
        component: "kubernetes".to_owned(),
        class,
        old_version: Some(deployed.to_owned()),
        new_version: Some(target.to_owned()),
        artifacts: Vec::new(),
    })
}

/// The stage that carries a component of the bundle; none for another provider's, which does not concern this cluster.
fn stage_of(component: &str, cluster: &ClusterSpec) -> Option<StageName> {
    match component {
        "certManager" => Some(StageName::CertManager),
        "clusterAPI" | "bootstrap" | "controlPlane" | "etcdadmBootstrap" | "etcdadmController" => Some(StageName::Capi),
        "eksa" => Some(StageName::EksA),
        "cilium" => Some(StageName::Cilium),
        "flux" => Some(StageName::Flux),
        "eksD" => Some(StageName::ControlPlane),
        "vSphere" | "docker" | "tinkerbell" | "nutanix" | "snow" | "cloudStack" | "aws" => {
            (cluster.provider.bundle_component() == Some(component)).then_some(StageName::Capi)
        }
        _ => Some(StageName::Bundle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubernetes_version_changes_by_minors_patches_and_builds() {
        let cases = [
            ("1.33", "1.33", None),
            ("v1.33.1", "v1.33.1", None),
            ("v1.33.1", "v1.33.9", Some(ChangeClass::Patch)),
            ("v1.33.9", "v1.33.1", Some(ChangeClass::Downgrade)),
            ("v1.33.1+rke2r1", "v1.33.1+rke2r2", Some(ChangeClass::Rebuild)),
            ("v1.33.1+rke2r2", "v1.33.1+rke2r1", Some(ChangeClass::Downgrade)),
            ("v1.33.1+rke2r1", "v1.33.1+k3s1", Some(ChangeClass::Rebuild)),
            ("v1.26.5---vmware.2-tkg.1", "v1.26.5---vmware.3-tkg.1", Some(ChangeClass::Rebuild)),
            ("1.33", "v1.33.4", None),
            ("1.34", "2.0", Some(ChangeClass::Major)),
            ("1.33", "1.34", Some(ChangeClass::Minor)),
            ("1.9", "1.10", Some(ChangeClass::Minor)),
            ("1.32", "1.34", Some(ChangeClass::SkipMinor)),
            ("1.34", "1.33", Some(ChangeClass::Downgrade)),
            ("1.10", "1.9", Some(ChangeClass::Downgrade)),
            ("", "1.34", None),
            ("1.33", "new", None),
        ];
        for (deployed, target, expected) in cases {
            let class = kubernetes(deployed, target).map(|change| change.class);
            assert_eq!(class, expected, "{deployed} to {target}");
        }
    }
}
