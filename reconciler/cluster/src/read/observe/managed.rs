//! What lives in the management cluster: Flux, EKS Anywhere's Cluster, and the objects of Cluster API.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{DynamicObject, TypeMeta};
use rollout::{ControlPlaneKind, ControlPlaneReference, SourceKind};
use serde_json::Value;

use super::Reading;
use super::reads::Reads;
use crate::NotedCommit;
use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    CLUSTER, DEPLOYMENT, EKSA_CLUSTER, ETCDADM_CLUSTER, EXTENSION_CONFIG, GIT_REPOSITORY, HELM_RELEASE,
    KUBEADM_CONTROL_PLANE, KUSTOMIZATION, Kind, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, NAMESPACE,
    OCI_REPOSITORY,
};
use crate::client::request::{Selection, ServedVersions};
use crate::objects::{self, Contract};
use crate::read::etcd;
use rollout::FluxReference;

/// The source of a Kustomization and its kind.
pub(crate) fn source_of(kustomization: &DynamicObject) -> Option<(FluxReference, SourceKind)> {
    let reference = kustomization.data.get("spec")?.get("sourceRef")?;
    let text = |name: &str| reference.get(name).and_then(Value::as_str).map(str::to_owned);
    let namespace = text("namespace").or_else(|| kustomization.metadata.namespace.clone())?;
    Some((FluxReference { namespace, name: text("name")? }, text("kind")?.into()))
}

/// The kind of a source; none for one of which nothing is known.
pub(crate) fn kind_of(source: &SourceKind) -> Option<&'static Kind> {
    match source {
        SourceKind::GitRepository => Some(&GIT_REPOSITORY),
        SourceKind::OciRepository => Some(&OCI_REPOSITORY),
        SourceKind::Other(_) => None,
    }
}

/// The commits that Flux has applied of the folder of a cluster, or tried to, by whatever Kustomization.
pub(crate) async fn noted_by_flux(connection: &Connection, cluster: &str) -> Result<Vec<NotedCommit>, RequestError> {
    let served = connection.served_versions().await?;
    let listed = connection.list(&KUSTOMIZATION, served.version_of(&KUSTOMIZATION), None, None).await?;
    let folder = format!("clusters/{cluster}");
    let noted = |object: &DynamicObject| {
        let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
        let path = format!("/{}/", text("/spec/path")?.trim_start_matches("./").trim_matches('/'));
        let applied = objects::kustomization(object);
        let is_own = path.contains(&format!("/{folder}/"));
        let commit = applied.last_applied_revision.or(applied.last_attempted_revision).filter(|_| is_own)?;
        let revision = text("/status/lastAppliedRevision").or_else(|| text("/status/lastAttemptedRevision"))?;
        let branch = revision.rsplit_once('@').map(|(branch, _)| branch.to_owned());
        Some(NotedCommit { commit, branch, by: format!("Kustomization {}/{}", applied.namespace, applied.name) })
    };
    Ok(listed.iter().filter_map(noted).collect())
}

/// Which versions are served: as of now where kinds are listed, since the list of a kind that is served no more is empty and would say that
/// there is nothing. What is asked for by its name is missing then, which is why the versions of a short while ago are good enough for it.
async fn served(connection: &Connection, reads: &Reads<'_>) -> Result<ServedVersions, RequestError> {
    if reads.clusters.is_empty() {
        let lately = connection.lately_served_versions().await?;
        if lately.version_of(&KUSTOMIZATION).is_some() {
            return Ok(lately);
        }
    }
    connection.served_versions().await
}

impl Reading<'_> {
    /// Which versions the management cluster serves.
    pub(super) async fn served(&mut self, connection: &Connection, reads: &Reads<'_>) -> Option<ServedVersions> {
        match served(connection, reads).await {
            Ok(served) => Some(served),
            Err(error) => {
                self.unreachable = Some(error.to_string());
                None
            }
        }
    }

    /// Flux' word of what it has applied.
    pub(super) async fn flux(
        &self,
        connection: &Connection,
        served: Option<&ServedVersions>,
        reads: &Reads<'_>,
    ) -> Self {
        let mut part = self.part();
        if let Some(served) = served.filter(|_| !reads.kustomizations.is_empty()) {
            part.kustomizations(connection, served, reads).await;
        }
        part
    }

    /// EKS Anywhere's word, then Cluster API's, then the nodes that follow from it.
    pub(super) async fn machines(
        &self,
        management: &Connection,
        served: Option<&ServedVersions>,
        own: Option<&Connection>,
        reads: &Reads<'_>,
    ) -> Self {
        let mut part = self.part();
        if let Some(served) = served {
            if !reads.eksa_clusters.is_empty() {
                part.eksa_clusters(management, served, reads).await;
            }
            if part.unreachable.is_some() {
                return part;
            }
            if !reads.tanzu_clusters.is_empty() {
                Box::pin(part.tanzu_clusters(management, served, reads)).await;
            }
            if part.unreachable.is_some() {
                return part;
            }
            let (mut objects, mut machines) = (self.part(), self.part());
            let mut releases = self.part();
            futures::join!(
                releases.releases(management, served, reads),
                objects.objects(management, reads.managed()),
                async {
                    if !reads.clusters.is_empty() {
                        machines.cluster_api(management, served, reads).await;
                        if reads.drains {
                            machines.in_place(management, served).await;
                        }
                        if reads.drains || reads.checks.is_some() {
                            Box::pin(machines.runtime_extensions(management, served, reads)).await;
                        }
                    }
                }
            );
            part.add(machines);
            part.add(objects);
            part.add(releases);
        }
        if let Some(own) = own.filter(|_| part.unreachable.is_none()) {
            part.nodes(own, reads).await;
        }
        part
    }

    async fn releases(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        if reads.releases.is_empty() {
            return;
        }
        self.refuse_unknown_versions(&HELM_RELEASE, served);
        let Some(version) = served.version_of(&HELM_RELEASE) else { return };
        let resource = HELM_RELEASE.resource(version);
        let wanted = reads.releases.iter();
        let requests: Vec<_> =
            wanted.map(|(namespace, name)| connection.get(&resource, Some(namespace), name)).collect();
        for found in concurrently(requests).await {
            let found = self.took(HELM_RELEASE.kind, found);
            found.iter().for_each(|object| self.compare(&resource.api_version, HELM_RELEASE.kind, object));
            self.observation.flux.releases.extend(found.iter().map(objects::helm_release));
        }
    }

    async fn eksa_clusters(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        self.refuse_unknown_versions(&EKSA_CLUSTER, served);
        let Some(version) = served.version_of(&EKSA_CLUSTER) else { return };
        for (namespace, name) in &reads.eksa_clusters {
            if self.unreachable.is_some() {
                return;
            }
            let resource = EKSA_CLUSTER.resource(version);
            let found = connection.get(&resource, Some(namespace), name).await;
            let found = self.took(EKSA_CLUSTER.unread_name(), found);
            found.iter().for_each(|object| self.compare(&resource.api_version, &resource.kind, object));
            self.observation.eksa_clusters.extend(found.iter().map(objects::eksa_cluster));
        }
    }

    async fn cluster_api(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        // One list each, of the cluster that is asked for; of all of them where it is not known or several are.
        let named = match reads.clusters.iter().collect::<Vec<_>>().as_slice() {
            [one] if !one.is_empty() => Some((**one).to_owned()),
            _ => None,
        };
        let labels = named.as_ref().map(|one| format!("cluster.x-k8s.io/cluster-name={one}"));
        let labels = labels.as_deref();
        for kind in [&CLUSTER, &KUBEADM_CONTROL_PLANE, &MACHINE_DEPLOYMENT, &MACHINE_SET, &MACHINE, &ETCDADM_CLUSTER] {
            self.refuse_unknown_versions(kind, served);
        }
        let contract = |kind: &Kind| served.version_of(kind).map_or(Contract::V1Beta2, Contract::of);
        // A Cluster does not carry the label of its own name, and which namespace it is in is not known.
        let fields = named.as_ref().map(|one| format!("metadata.name={one}"));
        let by_name = Selection { fields: fields.as_deref(), managers: true, ..Selection::default() };
        let clusters = connection.list_selected(&CLUSTER, served.version_of(&CLUSTER), by_name).await;
        // Who owns what is asked of those kinds only that the deploy branch may hold.
        let owned = Selection { labels, managers: true, ..Selection::default() };
        let (control_planes, deployments, pools, sets, machines, etcd_clusters) = futures::join!(
            connection.list_selected(&KUBEADM_CONTROL_PLANE, served.version_of(&KUBEADM_CONTROL_PLANE), owned),
            connection.list_selected(&MACHINE_DEPLOYMENT, served.version_of(&MACHINE_DEPLOYMENT), owned),
            connection.list_selected(&MACHINE_POOL, served.version_of(&MACHINE_POOL), owned),
            connection.list(&MACHINE_SET, served.version_of(&MACHINE_SET), None, labels),
            connection.list(&MACHINE, served.version_of(&MACHINE), None, labels),
            connection.list(&ETCDADM_CLUSTER, served.version_of(&ETCDADM_CLUSTER), None, labels),
        );
        let is_wanted = |name: &str| labels.is_none() || reads.clusters.contains(name);
        let clusters = self.took(CLUSTER.kind, clusters);
        let control_planes = self.took(KUBEADM_CONTROL_PLANE.kind, control_planes);
        let deployments = self.took(MACHINE_DEPLOYMENT.kind, deployments);
        let pools = self.took(MACHINE_POOL.kind, pools);
        for (kind, listed) in [
            (&CLUSTER, &clusters),
            (&KUBEADM_CONTROL_PLANE, &control_planes),
            (&MACHINE_DEPLOYMENT, &deployments),
            (&MACHINE_POOL, &pools),
        ] {
            let Some(version) = served.version_of(kind) else { continue };
            let resource = kind.resource(version);
            listed.iter().for_each(|object| self.compare(&resource.api_version, &resource.kind, object));
        }
        self.observation.clusters = clusters
            .iter()
            .map(|object| objects::cluster(object, contract(&CLUSTER)))
            .filter(|cluster| is_wanted(&cluster.name))
            .collect();
        self.observation.control_planes = control_planes
            .iter()
            .map(|object| objects::control_plane(object, contract(&KUBEADM_CONTROL_PLANE)))
            .collect();
        self.contract_control_planes(connection, served).await;
        self.observation.machine_deployments = deployments
            .iter()
            .map(|object| objects::machine_deployment(object, contract(&MACHINE_DEPLOYMENT)))
            .collect();
        self.observation.machine_pools = pools.iter().map(objects::machine_pool).collect();
        let sets = self.took(MACHINE_SET.kind, sets);
        self.observation.machine_sets = sets.iter().map(objects::machine_set).collect();
        let machines = self.took(MACHINE.kind, machines);
        let infrastructure = self.infrastructure(connection, served, &machines, labels).await;
        let observation = &mut self.observation;
        observation.machines = machines
            .iter()
            .map(|object| objects::machine(object, contract(&MACHINE), &observation.machine_sets, &infrastructure))
            .collect();
        objects::fill_in_legacy_machines(
            &mut observation.machines,
            &observation.control_planes,
            &observation.machine_deployments,
        );
        let etcd_clusters = self.took(ETCDADM_CLUSTER.kind, etcd_clusters);
        if reads.survey {
            let owners = [&control_planes, &deployments, &pools, &sets, &etcd_clusters];
            self.templates(connection, served, owners.into_iter().flatten(), &reads.templates).await;
        }
        for object in etcd_clusters.iter().filter(|object| is_wanted(&objects::cluster_name(object))) {
            let mut known = objects::etcdadm_cluster(object);
            known.membership = Some(self.membership(connection, object, &known).await);
            self.observation.etcd_clusters.push(known);
        }
    }

    /// What upgrades in place tell of the machines that were read. One that cannot be read keeps no gate from passing.
    async fn in_place(&mut self, connection: &Connection, served: &ServedVersions) {
        for kind in objects::IN_PLACE_KINDS {
            if self.unreachable.is_some() {
                return;
            }
            let listed = connection.list(kind, served.version_of(kind), None, None).await;
            let listed = self.took(kind.kind, listed);
            let told = listed.iter().filter_map(|object| objects::in_place_upgrade(kind, object, &self.observation));
            let told: Vec<_> = told.collect();
            self.observation.in_place.extend(told);
        }
    }

    /// Whom Cluster API asks before it replaces machines.
    async fn runtime_extensions(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        if self.unreachable.is_some() {
            return;
        }
        let listed = connection.list(&EXTENSION_CONFIG, served.version_of(&EXTENSION_CONFIG), None, None).await;
        let listed = self.took(EXTENSION_CONFIG.kind, listed);
        let mut labels = BTreeMap::new();
        let own = self.observation.clusters.iter().map(|cluster| cluster.namespace.clone());
        for namespace in own.collect::<BTreeSet<_>>().into_iter().filter(|_| !listed.is_empty()) {
            let found = connection.get(&NAMESPACE.resource("v1"), None, &namespace).await;
            let found = self.took(NAMESPACE.kind, found);
            labels.insert(namespace, found.and_then(|found| found.metadata.labels).unwrap_or_default());
        }
        let mut read = objects::runtime_extensions(&listed, &labels);
        // Nobody switches a feature off in the middle of a stage.
        if reads.checks.is_some() && !read.extensions.is_empty() {
            let managers = connection.list(&DEPLOYMENT, Some("v1"), None, Some(objects::PROVIDER_LABEL)).await;
            let managers = self.took(DEPLOYMENT.kind, managers);
            read.managers_without = managers.iter().filter_map(objects::manager_without_in_place).collect();
        }
        self.observation.runtime_extensions = Some(read);
    }

    /// What the members of an external etcd say of themselves. Each machine is asked for the list
    /// until one has it.
    async fn membership(
        &self,
        connection: &Connection,
        object: &DynamicObject,
        known: &rollout::EtcdadmCluster,
    ) -> rollout::EtcdMembership {
        let mut addresses = objects::etcd_endpoints(object);
        let is_its = |machine: &&rollout::Machine| {
            machine.namespace == known.namespace && machine.etcd_cluster.as_ref() == Some(&known.name)
        };
        let machines = self.observation.machines.iter().filter(is_its);
        addresses.extend(machines.flat_map(|machine| machine.addresses.iter().cloned()));
        let asked = etcd::Asked { namespace: &known.namespace, cluster: &known.cluster, addresses };
        etcd::membership(connection, &asked).await
    }

    /// The control planes of other providers, which the Clusters refer to.
    async fn contract_control_planes(&mut self, connection: &Connection, served: &ServedVersions) {
        let references: Vec<(String, ControlPlaneReference)> = self
            .observation
            .clusters
            .iter()
            .filter_map(|cluster| Some((cluster.name.clone(), cluster.control_plane.clone()?)))
            .filter(|(_, reference)| reference.kind != ControlPlaneKind::Kubeadm)
            .collect();
        for (cluster, reference) in references {
            if self.unreachable.is_some() {
                return;
            }
            let kind = reference.kind.as_str();
            let address = connection.served_address(served, &reference.group, kind).await;
            let Some(address) = self.took(kind, address) else {
                let reason = format!("API group {} does not serve the kind", reference.group);
                self.observation.unread.entry(kind.to_owned()).or_insert(reason);
                continue;
            };
            let found = connection.get(&address.resource, Some(&reference.namespace), &reference.name).await;
            let found = self.took(kind, found);
            found.iter().for_each(|object| self.compare(&address.resource.api_version, kind, object));
            let control_planes =
                found.iter().map(|object| objects::contract_control_plane(object, &reference, &cluster));
            self.observation.control_planes.extend(control_planes);
        }
    }

    /// The infrastructure machines of those Machines that have no `MachineSet` to say which template they are made from.
    async fn infrastructure(
        &mut self,
        connection: &Connection,
        served: &ServedVersions,
        machines: &[DynamicObject],
        labels: Option<&str>,
    ) -> Vec<DynamicObject> {
        let kinds: BTreeSet<(String, String)> = machines
            .iter()
            .filter_map(objects::infrastructure_of_owner)
            .map(|reference| (reference.group, reference.kind))
            .collect();
        let mut found = Vec::new();
        for (group, kind) in kinds {
            if self.unreachable.is_some() {
                return found;
            }
            let address = connection.served_address(served, &group, &kind).await;
            // A template that is not known proves nothing: these Machines count as not read.
            let Some(address) = self.took(MACHINE.kind, address) else { continue };
            let attempt = format!("list {}", address.resource.plural);
            let selection = Selection { labels, ..Selection::default() };
            let listed = connection.list_resource(&address.resource, None, selection, &attempt).await;
            found.extend(self.took(MACHINE.kind, listed).into_iter().map(|mut object| {
                // Items of a list do not repeat their type.
                object.types = Some(TypeMeta { api_version: address.resource.api_version.clone(), kind: kind.clone() });
                object
            }));
        }
        found
    }

    async fn kustomizations(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        for kind in [&KUSTOMIZATION, &GIT_REPOSITORY] {
            self.refuse_unknown_versions(kind, served);
        }
        let Some(version) = served.version_of(&KUSTOMIZATION) else { return };
        let resource = KUSTOMIZATION.resource(version);
        let mut sources = BTreeSet::new();
        let requests = reads.kustomizations.iter();
        let requests: Vec<_> =
            requests.map(|known| connection.get(&resource, Some(&known.namespace), &known.name)).collect();
        for found in concurrently(requests).await {
            let found = self.took(KUSTOMIZATION.kind, found);
            found.iter().for_each(|object| self.compare(&resource.api_version, KUSTOMIZATION.kind, object));
            sources.extend(found.iter().filter_map(source_of));
            self.observation.flux.kustomizations.extend(found.iter().map(objects::kustomization));
        }
        for (reference, source) in sources {
            let Some(kind) = kind_of(&source) else { continue };
            let Some(version) = served.version_of(kind) else { continue };
            let resource = kind.resource(version);
            let found = connection.get(&resource, Some(&reference.namespace), &reference.name).await;
            // Gates know sources by one name.
            let found = self.took(GIT_REPOSITORY.kind, found);
            found.iter().for_each(|object| self.compare(&resource.api_version, kind.kind, object));
            let sources = &mut self.observation.flux.sources;
            sources.extend(found.iter().map(|object| objects::source(object, source.clone())));
        }
        self.observation.flux.name_commits();
    }
}
