//! What a management cluster says, read once for all of its clusters.

use std::collections::BTreeSet;

use in_place::objects::{CONTROLLER, GroupKind, STRATEGY};
use kube::core::DynamicObject;

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    CLUSTER, CONTROL_PLANE_UPGRADE, KUBEADM_CONFIG, KUBEADM_CONTROL_PLANE, Kind, MACHINE, MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK, MACHINE_SET, NODE_KUBEADM_UPGRADE, WORKERS_UPGRADE,
};
use crate::client::request::ServedVersions;
use crate::objects;

/// On a Machine: the hooks of Cluster API that have to answer before it goes on.
const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Namespace and name of a Cluster.
pub(super) type ClusterKey = (String, String);

/// Everything of Cluster API and of our own kinds.
pub(super) struct Snapshot {
    pub(super) served: ServedVersions,
    pub(super) clusters: Vec<DynamicObject>,
    pub(super) control_planes: Vec<DynamicObject>,
    pub(super) deployments: Vec<DynamicObject>,
    pub(super) sets: Vec<DynamicObject>,
    pub(super) machines: Vec<DynamicObject>,
    pub(super) configurations: Vec<DynamicObject>,
    pub(super) health_checks: Vec<DynamicObject>,
    pub(super) nodes: Vec<DynamicObject>,
    pub(super) groups: Vec<(GroupKind, DynamicObject)>,
}

impl Snapshot {
    pub(super) async fn read(connection: &Connection) -> Result<Self, RequestError> {
        let served = connection.served_versions().await?;
        let list = async |kind: &Kind| connection.list(kind, served.version_of(kind), None, None).await;
        let mut groups = Vec::new();
        for (group, kind) in [(GroupKind::ControlPlane, &CONTROL_PLANE_UPGRADE), (GroupKind::Workers, &WORKERS_UPGRADE)]
        {
            groups.extend(list(kind).await?.into_iter().map(|object| (group, object)));
        }
        Ok(Self {
            clusters: list(&CLUSTER).await?,
            control_planes: list(&KUBEADM_CONTROL_PLANE).await?,
            deployments: list(&MACHINE_DEPLOYMENT).await?,
            sets: list(&MACHINE_SET).await?,
            machines: list(&MACHINE).await?,
            configurations: list(&KUBEADM_CONFIG).await?,
            health_checks: list(&MACHINE_HEALTH_CHECK).await?,
            nodes: list(&NODE_KUBEADM_UPGRADE).await?,
            groups,
            served,
        })
    }

    /// The clusters in which something is to be done, or was begun.
    pub(super) fn wanting(&self) -> BTreeSet<ClusterKey> {
        let owners = self.control_planes.iter().chain(&self.deployments).filter(|owner| is_ours(owner));
        let asked = self.machines.iter().filter(|machine| waits_for_hook(machine));
        let by_objects = owners.chain(asked).map(|object| (namespace(object), objects::cluster_name(object)));
        let by_upgrades = self.nodes.iter().filter_map(|object| {
            let cluster = object.data.pointer("/spec/clusterName")?.as_str()?;
            Some((namespace(object), cluster.to_owned()))
        });
        let is_there = |(wanted, name): &ClusterKey| {
            self.clusters.iter().any(|known| namespace(known) == *wanted && known.metadata.name.as_ref() == Some(name))
        };
        by_objects.chain(by_upgrades).filter(is_there).collect()
    }

    /// Those of a list that are of a cluster.
    pub(super) fn of<'a>(
        list: &'a [DynamicObject],
        cluster: &'a ClusterKey,
    ) -> impl Iterator<Item = &'a DynamicObject> {
        list.iter().filter(move |object| namespace(object) == cluster.0 && objects::cluster_name(object) == cluster.1)
    }
}

/// Whether our controller has the machines of an owner upgraded.
pub(super) fn is_ours(owner: &DynamicObject) -> bool {
    annotation(owner, STRATEGY) == Some(CONTROLLER)
}

/// Whether Cluster API waits for our hook.
pub(super) fn waits_for_hook(machine: &DynamicObject) -> bool {
    annotation(machine, PENDING_HOOKS).is_some_and(|hooks| hooks.split(',').any(|hook| hook.trim() == "UpdateMachine"))
}

pub(super) fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

pub(super) fn namespace(object: &DynamicObject) -> String {
    object.metadata.namespace.clone().unwrap_or_default()
}

/// The text at a place of an object.
pub(super) fn text<'a>(object: &'a DynamicObject, place: &str) -> Option<&'a str> {
    object.data.pointer(place)?.as_str().filter(|text| !text.is_empty())
}
