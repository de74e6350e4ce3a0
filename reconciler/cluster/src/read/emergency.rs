//! Objects that carry `stepgate.dev/emergency`: whoever changes them is not refused by the guard of `stepgate install --guard`.
//!
//! What the guard refuses is no object, and no API tells of it but the API server's audit log and metrics. What it lets pass stands on the object.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::{ApiResource, DynamicObject};

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::CUSTOM_RESOURCE_DEFINITION;
use crate::objects;

/// The annotation, which gives the reason.
pub const EMERGENCY: &str = "stepgate.dev/emergency";

/// API groups of which every kind is guarded.
const GUARDED_GROUPS: [&str; 3] =
    ["anywhere.eks.amazonaws.com", "controlplane.cluster.x-k8s.io", "etcdcluster.cluster.x-k8s.io"];

/// API groups of which those kinds are guarded that no single machine has.
const GROUPS_OF_MACHINES: [&str; 2] = ["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"];

/// How these kinds end.
const SHARED_KINDS: [&str; 4] = ["Template", "Cluster", "ControlPlane", "MachinePool"];

const CORE_GROUP: &str = "cluster.x-k8s.io";

/// The kinds of Cluster API's own group that are guarded.
const CORE_KINDS: [&str; 4] = ["Cluster", "ClusterClass", "MachineDeployment", "MachinePool"];

/// An object that the guard lets anybody change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emergency {
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// The cluster that it is of; none where it belongs to none in particular, as a definition.
    pub cluster: Option<String>,
    /// Why, as the annotation says.
    pub reason: String,
    /// The field manager that wrote the annotation.
    pub manager: Option<String>,
    /// When it wrote the object last.
    pub at: Option<Timestamp>,
}

impl Emergency {
    /// Whether it concerns this cluster.
    #[must_use]
    pub fn is_of(&self, cluster: &str) -> bool {
        self.cluster.as_deref().is_none_or(|of| of == cluster)
    }
}

impl std::fmt::Display for Emergency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { object, reason, manager, at, .. } = self;
        write!(formatter, "{object}: {reason} ({EMERGENCY}")?;
        if let Some(manager) = manager {
            write!(formatter, ", written by {manager}")?;
        }
        if let Some(at) = at {
            write!(formatter, " at {at}")?;
        }
        formatter.write_str(")")
    }
}

/// Every guarded object of a management cluster that carries the annotation, by its name. Metadata alone is read.
///
/// # Errors
/// When a kind cannot be listed: that nothing carries it is not known then.
pub async fn emergencies(connection: &Connection) -> Result<Vec<Emergency>, RequestError> {
    let served = connection.served_versions().await?;
    let groups = served.preferred(is_guarded_group);
    let kinds = concurrently(groups.iter().map(|group| connection.kinds(group)).collect()).await;
    let kinds: Vec<ApiResource> =
        kinds.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().map(|it| it.resource).collect();
    let mut resources: Vec<ApiResource> = kinds.into_iter().filter(is_guarded).collect();
    resources.push(CUSTOM_RESOURCE_DEFINITION.resource("v1"));
    let mut found = Vec::new();
    let lists = resources.iter().map(|resource| connection.list_all_metadata(resource)).collect();
    for (resource, listed) in resources.iter().zip(concurrently(lists).await) {
        found.extend(listed?.iter().filter_map(|object| emergency(resource, object)));
    }
    found.sort_by(|one, other| one.object.cmp(&other.object));
    Ok(found)
}

fn is_guarded_group(group: &str) -> bool {
    group == CORE_GROUP || GUARDED_GROUPS.contains(&group) || GROUPS_OF_MACHINES.contains(&group)
}

fn is_guarded(resource: &ApiResource) -> bool {
    match resource.group.as_str() {
        CORE_GROUP => CORE_KINDS.contains(&resource.kind.as_str()),
        group if GROUPS_OF_MACHINES.contains(&group) => SHARED_KINDS.iter().any(|end| resource.kind.ends_with(end)),
        _ => true,
    }
}

fn emergency(resource: &ApiResource, object: &DynamicObject) -> Option<Emergency> {
    let metadata = &object.metadata;
    let reason = metadata.annotations.as_ref()?.get(EMERGENCY)?.trim();
    let name = metadata.name.as_deref().unwrap_or_default();
    let writer = metadata.managed_fields.iter().flatten().find(|entry| has_written(entry));
    let at = writer.and_then(|entry| entry.time.as_ref()?.0.to_string().parse().ok());
    let place = metadata.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let cluster = if resource.kind == "Cluster" { name.to_owned() } else { objects::cluster_name(object) };
    (!reason.is_empty()).then(|| Emergency {
        object: format!("{} {place}{name}", resource.kind),
        cluster: (!cluster.is_empty()).then_some(cluster),
        reason: reason.to_owned(),
        manager: writer.and_then(|entry| entry.manager.clone()),
        at,
    })
}

/// Whether the annotation is one of the fields of this entry.
fn has_written(entry: &ManagedFieldsEntry) -> bool {
    let annotations = entry.fields_v1.as_ref().and_then(|fields| fields.0.pointer("/f:metadata/f:annotations"));
    annotations.is_some_and(|annotations| annotations.get(format!("f:{EMERGENCY}")).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::server::{ApiServer, Script};

    #[tokio::test]
    async fn what_carries_the_annotation_is_told_with_who_wrote_it_and_when() {
        let fields = json!({"f:metadata": {"f:annotations": {"f:stepgate.dev/emergency": {}}}});
        let entry = json!({"manager": "kubectl-annotate", "operation": "Update", "time": "2026-03-01T12:00:00Z", "fieldsV1": fields});
        let carrying = |name: &str, reason: &str, labels: serde_json::Value| {
            json!({"metadata": {"name": name, "namespace": "fleet", "labels": labels,
                "annotations": {"stepgate.dev/emergency": reason}, "managedFields": [entry]}})
        };
        let of = json!({"cluster.x-k8s.io/cluster-name": "prod"});
        let script = Script::default()
            .serves(&[
                ("cluster.x-k8s.io/v1beta2", &[("clusters", "Cluster", true), ("machines", "Machine", true)]),
                ("controlplane.cluster.x-k8s.io/v1beta2", &[("kubeadmcontrolplanes", "KubeadmControlPlane", true)]),
                (
                    "infrastructure.cluster.x-k8s.io/v1beta2",
                    &[("devmachines", "DevMachine", true), ("devmachinetemplates", "DevMachineTemplate", true)],
                ),
            ])
            .list("/apis/cluster.x-k8s.io/v1beta2/clusters", &[carrying("prod", "etcd is full", json!({}))])
            .list(
                "/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes",
                &[carrying("blank", "  ", of.clone()), carrying("cp", "etcd is full", of.clone())],
            )
            .list("/apis/infrastructure.cluster.x-k8s.io/v1beta2/devmachinetemplates", &[])
            .list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &[]);
        let server = ApiServer::start(script).await;
        let found = emergencies(&server.connection()).await.unwrap();
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let told = "etcd is full (stepgate.dev/emergency, written by kubectl-annotate at 2026-03-01T12:00:00Z)";
        assert_eq!(lines, [format!("Cluster fleet/prod: {told}"), format!("KubeadmControlPlane fleet/cp: {told}")]);
        assert!(found.iter().all(|emergency| emergency.is_of("prod") && !emergency.is_of("other")));
        assert!(server.lines().iter().all(|line| !line.contains("/machines") && !line.contains("devmachines")));
    }
}
