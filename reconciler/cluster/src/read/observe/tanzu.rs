//! `TanzuKubernetesCluster`s of a Supervisor, the images of their releases, and their machines.

use std::collections::BTreeSet;

use kube::core::{DynamicObject, TypeMeta};

use super::Reading;
use super::reads::Reads;
use crate::client::connection::Connection;
use crate::client::kind::{MACHINE_SET, TANZU_CLUSTER, TANZU_MACHINE};
use crate::client::request::{Selection, ServedVersions};
use crate::objects::{self, Contract};

/// Where releases are served, newer Supervisors last.
const RELEASES: [(&str, &str); 2] =
    [("run.tanzu.vmware.com", "TanzuKubernetesRelease"), ("kubernetes.vmware.com", "KubernetesRelease")];

/// Where images of nodes are served: of the whole Supervisor, and of a namespace.
const IMAGES: [(&str, &str); 2] =
    [("vmoperator.vmware.com", "VirtualMachineImage"), ("vmoperator.vmware.com", "ClusterVirtualMachineImage")];

impl Reading<'_> {
    /// The cluster's own word first, then its machines: what says that it is done is never newer than what it has done.
    pub(super) async fn tanzu_clusters(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        for kind in [&TANZU_CLUSTER, &TANZU_MACHINE] {
            self.refuse_unknown_versions(kind, served);
        }
        let Some(version) = served.version_of(&TANZU_CLUSTER) else { return };
        let resource = TANZU_CLUSTER.resource(version);
        for (namespace, name) in &reads.tanzu_clusters {
            let found = connection.get(&resource, Some(namespace), name).await;
            let Some(object) = self.took(TANZU_CLUSTER.kind, found) else { continue };
            self.compare(&resource.api_version, TANZU_CLUSTER.kind, &object);
            let mut cluster = objects::tanzu_cluster(&object, version);
            let release = cluster.release.as_deref().unwrap_or_default().replacen('+', "---", 1);
            if let Some(image) = self.image_of(connection, served, namespace, &release).await {
                cluster.image = objects::tanzu_image(&image);
            }
            self.observation.tanzu_clusters.push(cluster);
            self.tanzu_machines(connection, served, namespace, name).await;
            if self.unreachable.is_some() {
                return;
            }
        }
    }

    /// The image of a release; none where the release names none, as those of packages, or it is not served.
    async fn image_of(
        &mut self,
        connection: &Connection,
        served: &ServedVersions,
        namespace: &str,
        release: &str,
    ) -> Option<DynamicObject> {
        if release.is_empty() {
            return None;
        }
        let mut named = None;
        for (group, kind) in RELEASES {
            let address = connection.served_address(served, group, kind).await;
            let Some(address) = self.took(kind, address) else { continue };
            let found = connection.get(&address.resource, None, release).await;
            named = named.or_else(|| self.took(kind, found));
        }
        let (own, name) = objects::node_image(&named?)?;
        for (group, kind) in IMAGES {
            let address = connection.served_address(served, group, kind).await;
            let Some(address) = self.took(kind, address) else { continue };
            let namespace = address.namespaced.then_some(own.as_deref().unwrap_or(namespace));
            let found = connection.get(&address.resource, namespace, &name).await;
            if let Some(found) = self.took(kind, found) {
                return Some(found);
            }
        }
        None
    }

    async fn tanzu_machines(&mut self, connection: &Connection, served: &ServedVersions, namespace: &str, name: &str) {
        let labels = format!("cluster.x-k8s.io/cluster-name={name}");
        let labels = Some(labels.as_str());
        let version = served.version_of(&TANZU_MACHINE);
        let machines = connection.list(&TANZU_MACHINE, version, Some(namespace), labels).await;
        let machines = self.took(TANZU_MACHINE.kind, machines);
        let kinds: BTreeSet<(String, String)> = machines
            .iter()
            .filter_map(objects::infrastructure_reference)
            .map(|reference| (reference.group, reference.kind))
            .collect();
        let mut infrastructure = Vec::new();
        for (group, kind) in kinds {
            let address = connection.served_address(served, &group, &kind).await;
            // What is not served is not found: its machines wait for it.
            let Some(address) = self.took(TANZU_MACHINE.kind, address) else { continue };
            let attempt = format!("list {}", address.resource.plural);
            let listed =
                connection.list_resource(&address.resource, Some(namespace), Selection::default(), &attempt).await;
            infrastructure.extend(self.took(TANZU_MACHINE.kind, listed).into_iter().map(|mut object| {
                // Items of a list do not repeat their type.
                object.types = Some(TypeMeta { api_version: address.resource.api_version.clone(), kind: kind.clone() });
                object
            }));
        }
        self.observation.machines.extend(machines.iter().map(|object| {
            let mut machine = objects::machine(object, Contract::V1Beta1, &[], &[]);
            machine.owner = machine.owner.or_else(|| objects::owner(object, MACHINE_SET.kind));
            machine.hardware = objects::hardware(object, &infrastructure);
            machine
        }));
    }
}
