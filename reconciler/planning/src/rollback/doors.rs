//! One-way doors between what is deployed and a state of before: what keeps from going back, by name.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClusterName;
use overlays::{ClusterSpec, ComponentName, ObjectSummary, RenderedTree};
use rollout::{Block, ComponentChange, StageId, StageName};
use yaml::Node;

use super::nodes;
use crate::directory::ClusterDirectory;

/// The components that have a directory of their own, with the stage that commits each.
const COMPONENTS: [(ComponentName, StageName); 6] = [
    (ComponentName::CertManager, StageName::CertManager),
    (ComponentName::Capi, StageName::Capi),
    (ComponentName::EksA, StageName::EksA),
    (ComponentName::Bundle, StageName::Bundle),
    (ComponentName::Cilium, StageName::Cilium),
    (ComponentName::Flux, StageName::Flux),
];

/// What keeps a cluster from going back to the state of before. Kubernetes and EKS Anywhere are told by the rules about versions.
pub fn doors(
    cluster: &ClusterName,
    deployed: &ClusterDirectory,
    before: &ClusterDirectory,
    spec: &ClusterSpec,
    changes: &BTreeMap<StageName, Vec<ComponentChange>>,
) -> Vec<Block> {
    let (now, then) = (deployed.deployed(cluster), before.deployed(cluster));
    let mut doors = Vec::new();
    for (name, stage) in COMPONENTS {
        let (now, then) = (now.below(name.directory()), then.below(name.directory()));
        if now == then {
            continue;
        }
        if then.is_empty() {
            doors.push(door(
                "component-added",
                stage,
                format!(
                    "{name} was not there before, and a rollback takes no component away: its objects would go with it"
                ),
                "keep it",
            ));
            continue;
        }
        let (now, then) = (definitions(&now), definitions(&then));
        doors.extend(stored(&stage, &now, &then));
    }
    doors.extend(etcd(&now, &then, spec));
    doors.extend(cilium(changes.get(&StageName::Cilium).map(Vec::as_slice).unwrap_or_default()));
    doors
}

fn door(code: &str, stage: StageName, message: String, instead: &str) -> Block {
    let help = format!(
        "{instead}: `--to {stage}` leaves that stage as it is and puts back what came after it; or repair it forward, by a newer \
         target on the source branch"
    );
    Block { code: code.to_owned(), stage: Some(StageId::last(stage)), message, help }
}

fn definitions(tree: &RenderedTree) -> BTreeMap<String, ObjectSummary> {
    let objects = nodes(tree);
    let summaries = objects.iter().filter_map(ObjectSummary::of).filter(|summary| summary.crd.is_some());
    summaries.map(|summary| (summary.name.clone(), summary)).collect()
}

/// Objects that may be stored in a version which the definition of before does not store, or does not know.
fn stored(
    stage: &StageName,
    now: &BTreeMap<String, ObjectSummary>,
    then: &BTreeMap<String, ObjectSummary>,
) -> Option<Block> {
    let mut moved: BTreeSet<String> = BTreeSet::new();
    for (name, summary) in now {
        let (Some(is), Some(was)) = (&summary.crd, then.get(name).and_then(|summary| summary.crd.as_ref())) else {
            continue;
        };
        if let (Some(new), Some(old)) = (is.storage_version(), was.storage_version())
            && new != old
        {
            moved.insert(format!("{} at {new} instead of {old}", is.kind));
        }
    }
    let kinds: Vec<String> = moved.into_iter().collect();
    (!kinds.is_empty()).then(|| {
        let message = format!(
            "objects are stored in versions that the definitions of before do not store ({}): once written, the controllers of \
             before cannot read them back",
            kinds.join(", ")
        );
        door("crd-storage-version", stage.clone(), message, "keep the definitions")
    })
}

/// Etcd that would have to read what a later schema has written.
fn etcd(now: &RenderedTree, then: &RenderedTree, spec: &ClusterSpec) -> Option<Block> {
    let (now, then) = (etcd_versions(now, spec), etcd_versions(then, spec));
    let stage = if spec.external_etcd.is_some() { StageName::Etcd } else { StageName::ControlPlane };
    let lower = now.into_iter().find_map(|(what, new)| {
        let old = then.get(&what)?;
        (minor(old)? < minor(&new)?).then(|| format!("{what}: etcd {new} to {old}"))
    })?;
    let message = format!("{lower}: data written by a later schema cannot be read by an earlier one");
    Some(door("etcd-schema", stage, message, "keep etcd; a backup of its data from before is the last resort"))
}

/// Versions of etcd by what names them: releases of EKS-D, control planes, external clusters.
fn etcd_versions(tree: &RenderedTree, spec: &ClusterSpec) -> BTreeMap<String, String> {
    let channel = spec.kubernetes_minor().replace('.', "-");
    let mut versions = BTreeMap::new();
    for node in nodes(tree) {
        let text = |path: &[&str]| node.at(path).and_then(Node::as_str).map(str::to_owned);
        let name = text(&["metadata", "name"]).unwrap_or_default();
        let found = match text(&["kind"]).as_deref() {
            Some("Release") if text(&["spec", "channel"]).as_deref() == Some(&channel) => {
                let components = node.at(&["status", "components"]).and_then(Node::as_sequence);
                let etcd = components
                    .into_iter()
                    .flatten()
                    .find(|component| component.at(&["name"]).and_then(Node::as_str) == Some("etcd"));
                let tag = etcd.and_then(|etcd| etcd.at(&["gitTag"])?.as_str().map(str::to_owned));
                tag.map(|tag| (format!("EKS-D {channel}"), tag))
            }
            Some(kind @ "KubeadmControlPlane") => {
                let path = ["spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "local", "imageTag"];
                text(&path).map(|tag| (format!("{kind} {name}"), tag))
            }
            Some(kind @ "EtcdadmCluster") => {
                let version = text(&["spec", "etcdadmConfigSpec", "cloudInitConfig", "version"]);
                version.map(|version| (format!("{kind} {name}"), version))
            }
            _ => None,
        };
        versions.extend(found);
    }
    versions
}

fn minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Cilium goes back one minor at a time, as it goes up.
fn cilium(changes: &[ComponentChange]) -> Option<Block> {
    let (old, new) = changes.iter().find_map(|change| {
        let (old, new) = (change.old_version.as_deref()?, change.new_version.as_deref()?);
        let (from, to) = (minor(old)?, minor(new)?);
        (change.component == "cilium" && (to.0 < from.0 || to.1 + 1 < from.1)).then_some((old, new))
    })?;
    let message = format!("cilium would go from {old} to {new}: it goes back one minor at a time");
    Some(door("cilium-minor-step", StageName::Cilium, message, "go back to a state in between"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{DeployedLedger, path};

    fn directory(files: &[(&str, &str)]) -> ClusterDirectory {
        let file =
            |(name, text): &(&str, &str)| (path(&format!("clusters/a/{name}")).unwrap(), text.as_bytes().to_vec());
        let files = files.iter().map(file).collect();
        ClusterDirectory { files, ledger: DeployedLedger::Absent, ..ClusterDirectory::absent() }
    }

    fn definition(versions: &[(&str, bool)]) -> String {
        let versions: String = versions
            .iter()
            .map(|(name, storage)| format!("  - {{name: {name}, served: true, storage: {storage}}}\n"))
            .collect();
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.example.com}}\nspec:\n  \
             group: example.com\n  names: {{kind: Widget, plural: widgets}}\n  scope: Namespaced\n  versions:\n{versions}"
        )
    }

    const CLUSTER: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  \
                           kubernetesVersion: \"1.33\"\n  controlPlaneConfiguration: {count: 1}\n  \
                           datacenterRef: {kind: DockerDatacenterConfig, name: a}\n  managementCluster: {name: a}\n";

    fn codes(now: &[(&str, &str)], then: &[(&str, &str)]) -> Vec<(String, String)> {
        let (now, then) = (directory(now), directory(then));
        let fleet = overlays::read_fleet(&directory(&[("cluster/a.yaml", CLUSTER)]).files);
        let found = doors(&"a".parse().unwrap(), &now, &then, &fleet.clusters[0], &BTreeMap::new());
        found.into_iter().map(|block| (block.code, block.stage.unwrap().to_string())).collect()
    }

    fn code(code: &str, stage: &str) -> Vec<(String, String)> {
        vec![(code.to_owned(), stage.to_owned())]
    }

    #[test]
    fn what_is_stored_at_another_version_keeps_from_going_back() {
        let (old, new) = (definition(&[("v1", true)]), definition(&[("v1", false), ("v2", true)]));
        let served = definition(&[("v1", true), ("v2", false)]);
        fn file(text: &str) -> [(&str, &str); 1] {
            [("capi/a.yaml", text)]
        }
        assert_eq!(codes(&file(&new), &file(&old)), code("crd-storage-version", "capi"));
        assert_eq!(codes(&file(&served), &file(&old)), []);
        assert_eq!(codes(&file(&new), &file(&new)), []);
    }

    #[test]
    fn an_earlier_minor_of_etcd_keeps_from_going_back() {
        let release = |channel: &str, tag: &str| {
            format!(
                "apiVersion: distro.eks.amazonaws.com/v1alpha1\nkind: Release\nmetadata: {{name: r}}\nspec: {{channel: {channel}}}\n\
                 status:\n  components:\n  - {{name: etcd, gitTag: {tag}}}\n"
            )
        };
        let compare = |channel: &str, new: &str, old: &str| {
            let (new, old) = (release(channel, new), release(channel, old));
            codes(&[("bundle/r.yaml", &new)], &[("bundle/r.yaml", &old)])
        };
        assert_eq!(compare("1-33", "v3.6.1", "v3.5.21"), code("etcd-schema", "control-plane"));
        assert_eq!(compare("1-33", "v3.5.22", "v3.5.21"), []);
        assert_eq!(compare("1-34", "v3.6.1", "v3.5.21"), []);
    }

    #[test]
    fn a_component_that_was_not_there_is_not_taken_away() {
        assert_eq!(codes(&[("cilium/a.yaml", "kind: A")], &[]), code("component-added", "cilium"));
    }
}
