//! `TanzuKubernetesCluster` (`run.tanzu.vmware.com`), and the recorded releases and images that it may name.

mod fields;
mod records;
mod release;
mod render;
mod written;

#[cfg(test)]
mod tests;

use yaml::Node;

use super::ReadCluster;
use super::other::{Facts, spec_of};
use crate::fleet::objects::naming::is_name;
use crate::fleet::objects::{FoundObject, Objects, count, field};
use crate::tanzu::ONLY_POOL;
use crate::{ClusterKind, Provider, WorkerGroup, WorkerGroupKind};
use domain::Problem;
use fields::Version;
pub(in crate::fleet) use records::{Records, is_record};
pub(in crate::fleet) use release::resolve;
use release::{requested, written_at};

/// v1alpha1 names a version and one size of workers, v1alpha2 and v1alpha3 releases and pools.
pub(super) fn read<'a>(
    object: &'a FoundObject,
    _: &Objects<'a>,
    problems: &mut Vec<Problem>,
) -> Result<ReadCluster<'a>, Box<Problem>> {
    let name = &object.name;
    let Some(version) = Version::of(object) else {
        let message = format!("TanzuKubernetesCluster {name:?} is of version {:?}, which is not read", object.version);
        let problem = object.problem(&["apiVersion"], name, message);
        return Err(Box::new(problem.hint("write v1alpha1, v1alpha2 or v1alpha3 of run.tanzu.vmware.com")));
    };
    let empty = Node::default();
    let spec = object.node.get("spec").unwrap_or(&empty);
    problems.extend(fields::check(object, version));
    let Some(request) = requested(object)? else {
        let message = format!("TanzuKubernetesCluster {name:?} names no Tanzu Kubernetes release");
        let hint = match version {
            Version::V1Alpha1 => "write its version under spec.distribution.fullVersion",
            Version::V1Alpha2 | Version::V1Alpha3 => {
                "write the name of a release under spec.topology.controlPlane.tkr.reference.name"
            }
        };
        return Err(Box::new(object.problem(&["spec"], name, message).hint(hint)));
    };
    let kubernetes_version = request.as_written().to_owned();
    let control_plane_count = control_plane_count(object, spec, version)?;
    let worker_groups = match version {
        Version::V1Alpha1 => only_pool(object, spec, &kubernetes_version)?,
        Version::V1Alpha2 | Version::V1Alpha3 => pools(object, spec, &kubernetes_version)?,
    };
    let facts = Facts {
        kubernetes_version,
        version_path: written_at(object),
        control_plane_count: Some(control_plane_count),
        worker_groups,
    };
    Ok(spec_of(object, ClusterKind::Tanzu, Provider::VSphere, facts))
}

/// How many machines the control plane has: 1 or 3, and 1 where v1alpha2 and later say nothing.
fn control_plane_count(object: &FoundObject, spec: &Node, version: Version) -> Result<u32, Box<Problem>> {
    let key = if version == Version::V1Alpha1 { "count" } else { "replicas" };
    let path = ["topology", "controlPlane", key];
    let is_absent = spec.at(&path).is_none_or(Node::is_null);
    match count(spec, &path) {
        Some(number @ (1 | 3)) => Ok(number),
        None if is_absent && version != Version::V1Alpha1 => Ok(1),
        found => {
            let said = found.map_or_else(|| "no valid number of".to_owned(), |number| number.to_string());
            let message = format!("cluster {:?}: a Supervisor refuses {said} control-plane machines", object.name);
            let problem = object.problem(&["spec", "topology", "controlPlane", key], &object.name, message);
            Err(Box::new(problem.hint(format!("write {key}: 1 or {key}: 3 under spec.topology.controlPlane"))))
        }
    }
}

fn only_pool(object: &FoundObject, spec: &Node, version: &str) -> Result<Vec<WorkerGroup>, Box<Problem>> {
    let path = ["topology", "workers"];
    if spec.at(&path).is_none_or(Node::is_null) {
        return Ok(Vec::new());
    }
    let Some(replicas) = count(spec, &["topology", "workers", "count"]) else {
        let message = format!("cluster {:?}: spec.topology.workers has no valid count", object.name);
        let problem = object.problem(&["spec", "topology", "workers"], &object.name, message);
        return Err(Box::new(problem.hint("write count: 3 under it")));
    };
    Ok(vec![group(ONLY_POOL.to_owned(), None, version, Some(replicas))])
}

fn pools(object: &FoundObject, spec: &Node, version: &str) -> Result<Vec<WorkerGroup>, Box<Problem>> {
    let items = spec.at(&["topology", "nodePools"]).and_then(Node::as_sequence).unwrap_or_default();
    let mut groups: Vec<WorkerGroup> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let refused = |message: String| {
            let place = object.place(item.span);
            Box::new(object.problem(&[], &object.name, message).at(place.line, place.column))
        };
        let Some(name) = field(item, &["name"]).filter(|name| is_name(name)) else {
            let message = format!("cluster {:?}: spec.topology.nodePools[{index}] has no valid name", object.name);
            return Err(refused(message).hint("write a name of lower-case letters, digits and hyphens").into());
        };
        if groups.iter().any(|group| group.name == name) {
            let message = format!("cluster {:?}: two node pools are called {name:?}", object.name);
            return Err(refused(message).hint("give each node pool its own name").into());
        }
        let own = field(item, &["tkr", "reference", "name"]);
        // Where nothing is said, an autoscaler decides.
        groups.push(group(name, own, version, count(item, &["replicas"])));
    }
    Ok(groups)
}

fn group(name: String, own: Option<String>, cluster: &str, replicas: Option<u32>) -> WorkerGroup {
    WorkerGroup {
        name,
        kind: WorkerGroupKind::NodePool,
        object: None,
        own_kubernetes_version: own.is_some(),
        kubernetes_version: own.unwrap_or_else(|| cluster.to_owned()),
        replicas,
        machine_config: None,
    }
}
