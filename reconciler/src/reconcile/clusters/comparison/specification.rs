//! The objects of a cluster's specification, and Flux that applies them, as the management cluster
//! has them.

use std::collections::BTreeSet;

use cluster::{AppliedByFlux, AppliedObject, Cluster};
use domain::RepoPath;
use overlays::ComponentName;
use planning::cluster_folder;
use planning::declared::other_values;
use planning::stage_tree::target_tree;
use rollout::ObjectReference;
use serde_json::Value;

use super::{Comparison, RunningDifference};
use crate::reconcile::planner::ClusterView;

/// Kinds by whose objects a cluster is there.
const CLUSTERS: [&str; 2] = ["Cluster", "TanzuKubernetesCluster"];

/// The objects of the specification on the source branch, Secrets left out.
fn declared(view: &ClusterView) -> Vec<(ObjectReference, Value)> {
    let folder = format!("{}/{}", cluster_folder(&view.name), ComponentName::Cluster.directory());
    let tree = target_tree(&view.directory.files, &view.parts);
    let files = tree.files.iter().filter(|(path, _)| path.is_below(&folder) && path.is_yaml());
    let nodes = files.flat_map(|(_, bytes): (&RepoPath, _)| overlays::objects_of(bytes));
    let objects = nodes.filter_map(|node| serde_json::from_str::<Value>(&yaml::json::to_json(&node)).ok());
    objects.filter_map(|object| Some((reference(&object)?, object))).collect()
}

fn reference(object: &Value) -> Option<ObjectReference> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let reference = ObjectReference {
        api_version: text("/apiVersion")?,
        kind: text("/kind")?,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name")?,
    };
    // Values of Secrets are not read, and kustomizations and eksctl's files are applied by nobody.
    let is_apart = reference.kind == "Secret"
        || reference.api_version.starts_with("kustomize.config.k8s.io/")
        || reference.api_version.starts_with("eksctl.io/");
    (!is_apart).then_some(reference)
}

/// Compares what the management cluster holds of the specification, and tells what Flux applies of
/// all that would be recorded.
pub(super) async fn compare(view: &ClusterView, cluster: &dyn Cluster, comparison: &mut Comparison) {
    let declared = declared(view);
    let references: Vec<ObjectReference> = declared.iter().map(|(reference, _)| reference.clone()).collect();
    let found = match cluster.found(&references).await {
        Ok(found) => found,
        Err(error) => {
            comparison.unknown.push(format!("the specification, and what Flux applies: {error}"));
            return;
        }
    };
    for ((_, wanted), (reference, found)) in declared.iter().zip(&found.objects) {
        object(reference, wanted, found, comparison);
    }
    match &found.flux {
        Ok(applied) => comparison.flux = told(view, &references, applied),
        Err(reason) => comparison.unknown.push(format!("what Flux applies: {reason}")),
    }
}

fn object(
    reference: &ObjectReference,
    wanted: &Value,
    found: &Result<Option<Value>, String>,
    comparison: &mut Comparison,
) {
    let namespace = reference.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let place = format!("{} {namespace}{}", reference.kind, reference.name);
    match found {
        Err(reason) => comparison.unknown.push(format!("{place}: {reason}")),
        Ok(None) => {
            comparison.compared += 1;
            let wanted = "that it is".to_owned();
            comparison.differences.push(RunningDifference { object: place, runs: None, wanted });
        }
        Ok(Some(object)) => {
            comparison.compared += 1;
            comparison.is_installed |= CLUSTERS.contains(&reference.kind.as_str());
            comparison.differences.extend(other_values(wanted, object).into_iter().map(|other| RunningDifference {
                object: format!("{place}: {}", other.field),
                runs: Some(other.is.unwrap_or_else(|| "nothing".to_owned())),
                wanted: other.declared,
            }));
        }
    }
}

/// One line for each Kustomization that applies something of it.
fn told(view: &ClusterView, specification: &[ObjectReference], applied: &[AppliedByFlux]) -> Vec<String> {
    let of_components = view.parts.iter().flat_map(|part| &part.objects);
    let of_components =
        of_components.map(|it| key(group(&it.api_version), &it.kind, it.namespace.as_deref(), &it.name));
    let of_specification =
        specification.iter().map(|it| key(group(&it.api_version), &it.kind, it.namespace.as_deref(), &it.name));
    let recorded: BTreeSet<_> = of_components.chain(of_specification).collect();
    let line = |it: &AppliedByFlux| {
        let is_recorded =
            |it: &&AppliedObject| recorded.contains(&key(&it.group, &it.kind, it.namespace.as_deref(), &it.name));
        let count = it.objects.iter().filter(is_recorded).count();
        let revision = it.revision.as_deref().unwrap_or("nothing yet");
        let trouble = it.trouble.as_ref().map(|trouble| format!("; it {trouble}")).unwrap_or_default();
        let (namespace, name) = (&it.kustomization.namespace, &it.kustomization.name);
        (count > 0).then(|| {
            format!(
                "Kustomization {namespace}/{name} applies {count} of these objects: {} of {}, at {revision}{trouble}",
                it.path, it.source
            )
        })
    };
    applied.iter().filter_map(line).collect()
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// An object apart from its version, as manifests and inventories name it: where they name no
/// namespace, that is `default` or none.
fn key<'a>(
    group: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
) -> (&'a str, &'a str, &'a str, &'a str) {
    (group, kind, namespace.filter(|namespace| *namespace != "default").unwrap_or_default(), name)
}
