//! Versions of a cluster that have to fit to each other, and to those of the clusters beside it.

use std::collections::BTreeMap;

use overlays::{ClusterKind, ClusterSpec};
use rollout::{Chaining, GroupVersions, ProviderContracts, SkewFacts, StageName, VersionStep};

use super::Facts;
use crate::eksctl::way_back;
use crate::stage_tree::StageTree;
use crate::support;

pub(super) fn skew(facts: &Facts<'_>) -> SkewFacts {
    let step = |deployed: Option<&str>, target: &str| {
        Some(VersionStep { deployed: deployed.map(str::to_owned), target: target.to_owned() })
    };
    let eksa = |spec: &ClusterSpec| match &spec.bundle_reference {
        Some(overlays::BundleReference::EksaVersion(version)) => Some(version.clone()),
        _ => None,
    };
    // What keeps its version says none to hold against that of the control plane.
    let groups = facts.cluster.worker_groups.iter().filter(|group| !group.keeps_its_version());
    let workers = groups.filter_map(|group| {
        let before = facts.deployed.and_then(|spec| spec.worker_groups.iter().find(|known| known.name == group.name));
        let before = before.filter(|known| !known.keeps_its_version());
        Some(GroupVersions {
            group: group.name.parse().ok()?,
            version: VersionStep {
                deployed: before.map(|known| known.kubernetes_version.clone()),
                target: group.kubernetes_version.clone(),
            },
        })
    });
    let core = facts
        .changes
        .get(&StageName::Capi)
        .and_then(|changes| changes.iter().find(|change| change.component == "clusterAPI"));
    let others = |managed: bool| facts.deployed_eksa.iter().filter(move |(name, _)| managed && *name != facts.name);
    let manager = match &facts.cluster.management {
        overlays::Management::ManagedBy(name) => Some(name.as_str()),
        overlays::Management::SelfManaged | overlays::Management::Undeclared => None,
    };
    SkewFacts {
        control_plane: step(
            facts.deployed.map(|spec| spec.kubernetes_version.as_str()),
            &facts.cluster.kubernetes_version,
        ),
        minor_back: way_back::minor_back(facts),
        workers: workers.collect(),
        eksa: eksa(facts.cluster).and_then(|target| step(facts.deployed.and_then(eksa).as_deref(), &target)),
        management_eksa: manager.and_then(|manager| {
            facts.deployed_eksa.iter().find(|(name, _)| name.as_str() == manager).map(|(_, version)| version.clone())
        }),
        workload_eksa: others(facts.cluster.is_management())
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect(),
        management_components: support::management_components(facts.deployed, facts.cluster),
        cluster_api: core.and_then(|change| step(change.old_version.as_deref(), change.new_version.as_deref()?)),
        core_contracts: core_contracts(facts.parts),
        providers: providers(facts.parts),
        extended_support: support::extended_support(facts.fleet, facts.cluster, facts.today),
        chaining: match facts.cluster.kind {
            ClusterKind::EksAnywhere if facts.fleet.policy.chains_upgrades(&facts.cluster.name) => Chaining::On,
            ClusterKind::EksAnywhere => Chaining::Off,
            ClusterKind::ClusterApi | ClusterKind::ClusterClass | ClusterKind::Tanzu | ClusterKind::Eksctl => {
                Chaining::Unsupported
            }
        },
    }
}

/// Contracts that core accepts at the target: its own contract is the version that it stores Clusters at.
fn core_contracts(parts: &[StageTree]) -> Vec<String> {
    let objects = parts.iter().filter(|part| part.stage.name == StageName::Capi).flat_map(|part| &part.objects);
    let mut definitions = objects.filter_map(|object| object.crd.as_ref());
    let core = definitions.find(|known| known.group == "cluster.x-k8s.io" && known.kind == "Cluster");
    let accepted = overlays::facts::accepted_contracts(core.and_then(|core| core.storage_version()));
    accepted.iter().map(|contract| (*contract).to_owned()).collect()
}

/// Contracts of the providers, read off the labels of their definitions: Cluster API resolves by these.
fn providers(parts: &[StageTree]) -> Vec<ProviderContracts> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.stage.name == StageName::Capi) {
        for definition in part.objects.iter().filter_map(|object| object.crd.as_ref()) {
            let labels = groups.entry(definition.group.clone()).or_default();
            labels.extend(definition.contract_labels.iter().map(|(contract, _)| contract.clone()));
        }
    }
    let provider = |(name, mut labels): (String, Vec<String>)| {
        labels.sort();
        labels.dedup();
        // Core's own definitions carry no contract label.
        (!labels.is_empty()).then_some(ProviderContracts { name, labels, metadata: None })
    };
    groups.into_iter().filter_map(provider).collect()
}

#[cfg(test)]
mod tests {
    use overlays::{ComponentName, ObjectSummary, RenderedTree};

    use super::*;

    #[test]
    fn core_accepts_the_contracts_of_what_it_stores() {
        let of = |storage: Option<&str>| {
            let part = StageTree::unchanged(StageName::Capi.into(), ComponentName::Capi, RenderedTree::new());
            let text = storage.map(|version| {
                format!(
                    "{{kind: CustomResourceDefinition, metadata: {{name: c}}, spec: {{group: cluster.x-k8s.io, names: {{kind: \
                     Cluster}}, versions: [{{name: v1alpha4}}, {{name: {version}, storage: true}}]}}}}"
                )
            });
            let nodes = overlays::objects_of(text.unwrap_or_default().as_bytes());
            let objects = nodes.iter().filter_map(ObjectSummary::of).collect();
            core_contracts(&[StageTree { objects, ..part }])
        };
        assert_eq!(of(Some("v1beta1")), ["v1beta1"]);
        assert_eq!(of(Some("v1beta2")), ["v1beta1", "v1beta2"]);
        assert_eq!(of(None), ["v1beta1", "v1beta2"]);
    }
}
