//! What `TanzuKubernetesCluster` and eksctl's `ClusterConfig` have in common.

use super::ReadCluster;
use crate::fleet::objects::FoundObject;
use crate::{ClusterKind, ClusterSpec, Management, Places, Provider, WorkerGroup};

pub(super) struct Facts<'a> {
    pub kubernetes_version: String,
    pub version_path: &'a [&'a str],
    pub control_plane_count: Option<u32>,
    pub worker_groups: Vec<WorkerGroup>,
}

pub(super) fn spec_of<'a>(
    object: &'a FoundObject,
    kind: ClusterKind,
    provider: Provider,
    facts: Facts<'_>,
) -> ReadCluster<'a> {
    let cluster = ClusterSpec {
        name: object.name.clone(),
        namespace: object.namespace.clone(),
        kind,
        management: Management::Undeclared,
        provider,
        external_etcd: None,
        control_plane_count: facts.control_plane_count,
        control_plane: None,
        bundle_reference: None,
        paused: false,
        skip_cilium_upgrade: true,
        tanzu: None,
        cilium: false,
        places: Places {
            name: object.place_of(&["metadata", "name"]),
            kubernetes_version: Some(object.place_of(facts.version_path)),
            bundle_reference: None,
        },
        kubernetes_version: facts.kubernetes_version,
        worker_groups: facts.worker_groups,
        node: object.node.clone(),
        files: Vec::new(),
    };
    (cluster, vec![object])
}
