//! One reading of a cluster: what the expectations look at, and no more.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use kube::core::{DynamicObject, TypeMeta};
use rollout::{
    Condition, ConditionStatus, Expectation, FluxKustomization, ObjectPresence, ObjectReference, Observation,
    Reachability, Survey,
};
use serde_json::Value;

use super::connection::Connection;
use super::error::RequestError;
use super::kind::{
    CLUSTER, CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, DEPLOYMENT, EKSA_CLUSTER, ETCDADM_CLUSTER, GIT_REPOSITORY,
    KUBEADM_CONTROL_PLANE, KUSTOMIZATION, Kind, LEASE, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET, NODE, OCI_REPOSITORY,
    POD, STATEFUL_SET,
};
use super::request::{Address, ServedVersions};
use super::{Applied, KubernetesCluster, probe};
use crate::cluster::objects::{self, Contract};
use crate::cluster::{FluxReference, ObserveRequest};

/// Requests under way at once to one server.
const CONCURRENT: usize = 8;

/// Where kube-vip runs and keeps its Lease.
const KUBE_SYSTEM: &str = "kube-system";
const KUBE_VIP: &str = "kube-vip";
const KUBE_VIP_LEASE: &str = "plndr-cp-lock";

/// Ends of the API groups whose objects live in the management cluster.
const MANAGED_GROUPS: [&str; 4] =
    ["cluster.x-k8s.io", "anywhere.eks.amazonaws.com", "toolkit.fluxcd.io", "distro.eks.amazonaws.com"];

/// What the expectations look at.
#[derive(Debug, Default)]
struct Reads<'a> {
    deployments: BTreeSet<(&'a str, &'a str)>,
    daemon_sets: BTreeSet<(&'a str, &'a str)>,
    definitions: BTreeSet<&'a str>,
    webhooks: BTreeSet<&'a str>,
    objects: BTreeSet<&'a ObjectReference>,
    kustomizations: BTreeSet<FluxReference>,
    clusters: BTreeSet<&'a str>,
    eksa_clusters: BTreeSet<(&'a str, &'a str)>,
    nodes: bool,
    kube_vip: bool,
    backup: bool,
    survey: bool,
}

impl<'a> Reads<'a> {
    fn of(request: &'a ObserveRequest) -> Self {
        let mut reads = Self { kustomizations: request.kustomizations.iter().cloned().collect(), ..Self::default() };
        for expectation in &request.expectations {
            reads.add(expectation);
        }
        reads
    }

    fn add(&mut self, expectation: &'a Expectation) {
        match expectation {
            Expectation::ClusterHealthy { cluster } => {
                self.nodes = true;
                self.clusters.extend(cluster.as_deref());
            }
            Expectation::Surveyed => {
                self.nodes = true;
                self.survey = true;
            }
            Expectation::BackupTaken => self.backup = true,
            Expectation::Object { object } | Expectation::Absent { object } => {
                self.objects.insert(object);
            }
            Expectation::Deployment { namespace, name, .. } => {
                self.deployments.insert((namespace, name));
            }
            Expectation::DaemonSet { namespace, name, .. } => {
                self.nodes = true;
                self.daemon_sets.insert((namespace, name));
            }
            Expectation::CustomResourceDefinition { name, .. } => {
                self.definitions.insert(name);
            }
            Expectation::Webhook { name } => {
                self.webhooks.insert(name);
            }
            Expectation::Flux { namespace, kustomizations } => {
                self.kustomizations.extend(
                    kustomizations
                        .iter()
                        .map(|name| FluxReference { namespace: namespace.clone(), name: name.clone() }),
                );
            }
            Expectation::EksaCluster(expected) => {
                self.eksa_clusters.insert((&expected.namespace, &expected.name));
                self.objects.extend(&expected.children);
            }
            // The etcd cluster carries its Cluster's name in a label that the expectation does not know: all of them are read.
            Expectation::Etcd(_) => {
                self.clusters.insert("");
            }
            Expectation::ControlPlane(expected) => {
                self.nodes = true;
                self.kube_vip |= expected.kube_vip.is_some();
                self.clusters.insert(&expected.cluster);
            }
            Expectation::Workers(expected) => {
                self.nodes = true;
                self.clusters.insert(&expected.cluster);
            }
            Expectation::Verified(expected) => {
                self.nodes = true;
                self.clusters.extend(expected.cluster.as_deref());
                self.objects.extend(&expected.leftovers);
            }
        }
    }

    fn needs_management(&self) -> bool {
        !(self.kustomizations.is_empty() && self.clusters.is_empty() && self.eksa_clusters.is_empty())
            || self.objects.iter().any(|reference| lives_in_management(reference))
    }

    fn needs_own(&self) -> bool {
        self.nodes
            || self.kube_vip
            || !(self.deployments.is_empty() && self.daemon_sets.is_empty())
            || !(self.definitions.is_empty() && self.webhooks.is_empty())
            || self.objects.iter().any(|reference| !lives_in_management(reference))
    }
}

fn lives_in_management(reference: &ObjectReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    MANAGED_GROUPS.iter().any(|known| group == *known || group.ends_with(&format!(".{known}")))
}

/// Reads the cluster. Every read is a fresh GET or LIST without a `resourceVersion`, which the server answers from etcd.
pub(super) async fn observe(cluster: &KubernetesCluster, request: &ObserveRequest) -> Observation {
    let mut observation = Observation::empty(request.at);
    let reads = Reads::of(request);
    let mut reading = Reading { observation: &mut observation, unreachable: None };
    if reads.needs_management() {
        reading.management(&cluster.management, &reads).await;
    }
    if reads.needs_own() && reading.unreachable.is_none() {
        match cluster.own.connect(&cluster.management).await {
            Ok(connection) => reading.own(&connection, &reads).await,
            Err(error) => reading.unreachable = Some(error.to_string()),
        }
    }
    if let Some(reason) = reading.unreachable {
        observation.reachable = Reachability::Unreachable { reason };
    }
    if reads.backup {
        observation.backup = cluster.newest_backup();
    }
    let applied = cluster.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    add_applied(&applied, &mut observation);
    observation
}

/// The source of a Kustomization and its kind.
pub(super) fn source_of(kustomization: &DynamicObject) -> Option<(FluxReference, String)> {
    let reference = kustomization.data.get("spec")?.get("sourceRef")?;
    let text = |name: &str| reference.get(name).and_then(Value::as_str).map(str::to_owned);
    let namespace = text("namespace").or_else(|| kustomization.metadata.namespace.clone())?;
    Some((FluxReference { namespace, name: text("name")? }, text("kind")?))
}

struct Reading<'a> {
    observation: &'a mut Observation,
    unreachable: Option<String>,
}

impl Reading<'_> {
    /// Notes what went wrong; the kind is unknown then, not absent.
    fn took<T: Default>(&mut self, kind: &str, result: Result<T, RequestError>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                if error.is_unreachable() {
                    self.unreachable.get_or_insert_with(|| error.to_string());
                }
                self.observation.unread.insert(kind.to_owned(), error.to_string());
                T::default()
            }
        }
    }

    /// A kind that is served only in versions of the future is unknown, not absent.
    fn refuse_unknown_versions(&mut self, kind: &Kind, served: &ServedVersions) {
        if let Some(versions) = served.not_understood(kind) {
            let reason = format!("served in {versions}, which this version of stepgate does not understand; update it");
            self.observation.unread.insert(kind.unread_name().to_owned(), reason);
        }
    }

    async fn management(&mut self, connection: &Connection, reads: &Reads<'_>) {
        let served = match connection.served_versions().await {
            Ok(served) => served,
            Err(error) => {
                self.unreachable = Some(error.to_string());
                return;
            }
        };
        // What causes something is read before what it causes: whoever says "done" is then followed by what was done, never by what was
        // there before.
        if !reads.kustomizations.is_empty() {
            self.flux(connection, &served, reads).await;
        }
        if !reads.eksa_clusters.is_empty() && self.unreachable.is_none() {
            self.eksa_clusters(connection, &served, reads).await;
        }
        if !reads.clusters.is_empty() && self.unreachable.is_none() {
            self.cluster_api(connection, &served, reads).await;
        }
        self.objects(connection, reads, lives_in_management).await;
    }

    async fn eksa_clusters(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        self.refuse_unknown_versions(&EKSA_CLUSTER, served);
        let Some(version) = served.version_of(&EKSA_CLUSTER) else { return };
        for (namespace, name) in &reads.eksa_clusters {
            if self.unreachable.is_some() {
                return;
            }
            let found = connection.get(&EKSA_CLUSTER.resource(version), Some(namespace), name).await;
            let found = self.took(EKSA_CLUSTER.unread_name(), found);
            self.observation.eksa_clusters.extend(found.iter().map(objects::eksa_cluster));
        }
    }

    async fn cluster_api(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        // One list each, of the cluster that is asked for; of all of them where it is not known or several are.
        let labels = match reads.clusters.iter().collect::<Vec<_>>().as_slice() {
            [one] if !one.is_empty() => Some(format!("cluster.x-k8s.io/cluster-name={one}")),
            _ => None,
        };
        let labels = labels.as_deref();
        for kind in [&CLUSTER, &KUBEADM_CONTROL_PLANE, &MACHINE_DEPLOYMENT, &MACHINE_SET, &MACHINE, &ETCDADM_CLUSTER] {
            self.refuse_unknown_versions(kind, served);
        }
        let contract = |kind: &Kind| served.version_of(kind).map_or(Contract::V1Beta2, Contract::of);
        // A Cluster does not carry the label of its own name.
        let clusters = connection.list(&CLUSTER, served.version_of(&CLUSTER), None, None).await;
        let (control_planes, deployments, sets, machines, etcd) = futures::join!(
            connection.list(&KUBEADM_CONTROL_PLANE, served.version_of(&KUBEADM_CONTROL_PLANE), None, labels),
            connection.list(&MACHINE_DEPLOYMENT, served.version_of(&MACHINE_DEPLOYMENT), None, labels),
            connection.list(&MACHINE_SET, served.version_of(&MACHINE_SET), None, labels),
            connection.list(&MACHINE, served.version_of(&MACHINE), None, labels),
            connection.list(&ETCDADM_CLUSTER, served.version_of(&ETCDADM_CLUSTER), None, labels),
        );
        let is_wanted = |name: &str| labels.is_none() || reads.clusters.contains(name);
        self.observation.clusters = self
            .took(CLUSTER.kind, clusters)
            .iter()
            .map(|object| objects::cluster(object, contract(&CLUSTER)))
            .filter(|cluster| is_wanted(&cluster.name))
            .collect();
        self.observation.control_planes = self
            .took(KUBEADM_CONTROL_PLANE.kind, control_planes)
            .iter()
            .map(|object| objects::control_plane(object, contract(&KUBEADM_CONTROL_PLANE)))
            .collect();
        self.observation.machine_deployments = self
            .took(MACHINE_DEPLOYMENT.kind, deployments)
            .iter()
            .map(|object| objects::machine_deployment(object, contract(&MACHINE_DEPLOYMENT)))
            .collect();
        self.observation.machine_sets = self.took(MACHINE_SET.kind, sets).iter().map(objects::machine_set).collect();
        let machines = self.took(MACHINE.kind, machines);
        let infrastructure = self.infrastructure(connection, served, &machines, labels).await;
        let observation = &mut *self.observation;
        observation.machines = machines
            .iter()
            .map(|object| objects::machine(object, contract(&MACHINE), &observation.machine_sets, &infrastructure))
            .collect();
        objects::fill_in_legacy_machines(
            &mut observation.machines,
            &observation.control_planes,
            &observation.machine_deployments,
        );
        self.observation.etcd_clusters =
            self.took(ETCDADM_CLUSTER.kind, etcd).iter().map(objects::etcdadm_cluster).collect();
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
            let Some(api_version) = served.api_version(&group) else { continue };
            let address = connection.address(&api_version, &kind).await;
            // A template that is not known proves nothing: these Machines count as not read.
            let Some(address) = self.took(MACHINE.kind, address) else { continue };
            let attempt = format!("list {}", address.resource.plural);
            let listed = connection.list_resource(&address.resource, None, labels, None, &attempt).await;
            found.extend(self.took(MACHINE.kind, listed).into_iter().map(|mut object| {
                // Items of a list do not repeat their type.
                object.types = Some(TypeMeta { api_version: api_version.clone(), kind: kind.clone() });
                object
            }));
        }
        found
    }

    async fn flux(&mut self, connection: &Connection, served: &ServedVersions, reads: &Reads<'_>) {
        for kind in [&KUSTOMIZATION, &GIT_REPOSITORY] {
            self.refuse_unknown_versions(kind, served);
        }
        let Some(version) = served.version_of(&KUSTOMIZATION) else { return };
        let resource = KUSTOMIZATION.resource(version);
        let mut sources = BTreeSet::new();
        for reference in &reads.kustomizations {
            if self.unreachable.is_some() {
                return;
            }
            let found = connection.get(&resource, Some(&reference.namespace), &reference.name).await;
            let found = self.took(KUSTOMIZATION.kind, found);
            sources.extend(found.iter().filter_map(source_of));
            self.observation.flux.kustomizations.extend(found.iter().map(objects::kustomization));
        }
        for (reference, kind) in sources {
            let kind = if kind == OCI_REPOSITORY.kind { &OCI_REPOSITORY } else { &GIT_REPOSITORY };
            let Some(version) = served.version_of(kind) else { continue };
            let found = connection.get(&kind.resource(version), Some(&reference.namespace), &reference.name).await;
            // Gates know sources by one name.
            let found = self.took(GIT_REPOSITORY.kind, found);
            self.observation.flux.sources.extend(found.iter().map(objects::source));
        }
    }

    async fn own(&mut self, connection: &Connection, reads: &Reads<'_>) {
        if reads.nodes {
            let nodes = connection.list(&NODE, Some("v1"), None, None).await;
            self.observation.nodes = self.took(NODE.kind, nodes).iter().map(objects::node).collect();
        }
        if self.unreachable.is_some() {
            return;
        }
        self.workloads(connection, reads).await;
        if reads.survey {
            self.survey(connection).await;
        }
        if reads.kube_vip {
            self.kube_vip(connection).await;
        }
        let definitions = CUSTOM_RESOURCE_DEFINITION.resource("v1");
        // Collected first: a stream that makes its futures as it goes cannot be sent between threads.
        let requests: Vec<_> = reads.definitions.iter().map(|name| connection.get(&definitions, None, name)).collect();
        let found = stream::iter(requests).buffered(CONCURRENT).collect::<Vec<_>>();
        for found in found.await {
            let found = self.took(CUSTOM_RESOURCE_DEFINITION.kind, found);
            self.observation.custom_resource_definitions.extend(found.iter().map(objects::custom_resource_definition));
        }
        self.objects(connection, reads, |reference| !lives_in_management(reference)).await;
        for name in &reads.webhooks {
            if self.unreachable.is_some() {
                return;
            }
            let probed_at = self.observation.read_at;
            let outcome = probe::probe(connection, name).await.map(Some);
            let outcome = self.took("Webhook", outcome);
            self.observation.webhooks.extend(outcome.map(|outcome| rollout::WebhookProbe {
                name: (*name).to_owned(),
                probed_at,
                outcome,
            }));
        }
    }

    async fn workloads(&mut self, connection: &Connection, reads: &Reads<'_>) {
        let namespaces: BTreeSet<&str> =
            reads.deployments.iter().chain(&reads.daemon_sets).map(|(namespace, _)| *namespace).collect();
        let mut pods = BTreeMap::new();
        for namespace in namespaces {
            if self.unreachable.is_some() {
                return;
            }
            let found = connection.list(&POD, Some("v1"), Some(namespace), None).await;
            pods.insert(namespace, self.took(POD.kind, found));
        }
        let pods_of = |namespace: &str| pods.get(namespace).map(Vec::as_slice).unwrap_or_default();
        for (namespace, name) in &reads.deployments {
            if self.unreachable.is_some() {
                return;
            }
            let found = connection.get(&DEPLOYMENT.resource("v1"), Some(namespace), name).await;
            let found = self.took(DEPLOYMENT.kind, found);
            self.observation
                .deployments
                .extend(found.iter().map(|object| objects::deployment(object, pods_of(namespace))));
        }
        for (namespace, name) in &reads.daemon_sets {
            if self.unreachable.is_some() {
                return;
            }
            let found = connection.get(&DAEMON_SET.resource("v1"), Some(namespace), name).await;
            let found = self.took(DAEMON_SET.kind, found);
            self.observation
                .daemon_sets
                .extend(found.iter().map(|object| objects::daemon_set(object, pods_of(namespace))));
        }
    }

    async fn survey(&mut self, connection: &Connection) {
        let mut survey = Survey::default();
        for kind in [&DEPLOYMENT, &DAEMON_SET, &STATEFUL_SET] {
            if self.unreachable.is_some() {
                return;
            }
            let listed = connection.list(kind, Some("v1"), None, None).await;
            let listed = self.took(kind.kind, listed);
            survey.workloads = survey.workloads.saturating_add(u32::try_from(listed.len()).unwrap_or(u32::MAX));
            survey.broken.extend(listed.iter().filter(|object| !objects::is_complete(object)).map(|object| {
                let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
                format!("{} {namespace}/{}", kind.kind, object.metadata.name.as_deref().unwrap_or_default())
            }));
        }
        self.observation.survey = Some(survey);
    }

    async fn kube_vip(&mut self, connection: &Connection) {
        let pods = connection.list(&POD, Some("v1"), Some(KUBE_SYSTEM), None).await;
        self.observation.pods = self
            .took(POD.kind, pods)
            .iter()
            .filter(|pod| objects::is_of_application(pod, KUBE_VIP))
            .map(|pod| objects::pod(pod, KUBE_VIP))
            .collect();
        let lease = connection.get(&LEASE.resource("v1"), Some(KUBE_SYSTEM), KUBE_VIP_LEASE).await;
        self.observation.virtual_address = self.took(LEASE.kind, lease).as_ref().map(objects::virtual_address);
    }

    /// Whether single objects exist. Kinds are looked up once for each version.
    async fn objects(&mut self, connection: &Connection, reads: &Reads<'_>, wanted: fn(&ObjectReference) -> bool) {
        let wanted: Vec<&ObjectReference> = reads.objects.iter().copied().filter(|known| wanted(known)).collect();
        let versions: BTreeSet<&str> = wanted.iter().map(|reference| reference.api_version.as_str()).collect();
        let mut kinds = BTreeMap::new();
        for api_version in versions {
            if self.unreachable.is_some() {
                return;
            }
            kinds.insert(api_version, connection.kinds(api_version).await);
        }
        let requests: Vec<_> = wanted.into_iter().map(|reference| presence(connection, &kinds, reference)).collect();
        let found = stream::iter(requests).buffered(CONCURRENT).collect::<Vec<_>>();
        for (kind, found) in found.await {
            let found = self.took(kind, found.map(Some));
            self.observation.objects.extend(found);
        }
    }
}

/// The kinds of each version, as far as they could be read.
type Kinds<'a> = BTreeMap<&'a str, Result<Vec<Address>, RequestError>>;

/// An object of a kind that is not served is not there.
async fn presence<'a>(
    connection: &Connection,
    kinds: &Kinds<'_>,
    reference: &'a ObjectReference,
) -> (&'a str, Result<ObjectPresence, RequestError>) {
    let found = match kinds.get(reference.api_version.as_str()) {
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(kinds)) => match kinds.iter().find(|known| known.resource.kind == reference.kind) {
            Some(address) => {
                let namespace = reference.namespace.as_deref().filter(|_| address.namespaced);
                connection.get(&address.resource, namespace, &reference.name).await
            }
            None => Ok(None),
        },
        None => Ok(None),
    };
    let presence = found.map(|object| ObjectPresence {
        reference: reference.clone(),
        present: object.is_some(),
        generation: object.as_ref().and_then(|object| object.metadata.generation),
        deleting: object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()),
    });
    (&reference.kind, presence)
}

/// What was applied without Flux stands in the place of its Kustomization.
fn add_applied(applied: &BTreeMap<FluxReference, Applied>, observation: &mut Observation) {
    for (reference, applied) in applied {
        let status = if applied.problem.is_none() { ConditionStatus::True } else { ConditionStatus::False };
        let succeeded = applied.problem.is_none().then(|| applied.commit.clone());
        observation
            .flux
            .kustomizations
            .retain(|known| (&known.namespace, &known.name) != (&reference.namespace, &reference.name));
        observation.flux.kustomizations.push(FluxKustomization {
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            source: None,
            source_namespace: None,
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            reconcile_disabled: false,
            suspended_by: None,
            ready: Some(Condition {
                status,
                reason: String::from(if applied.problem.is_none() { "Applied" } else { "ApplyFailed" }),
                message: applied.problem.clone().unwrap_or_default(),
                observed_generation: Some(1),
            }),
            last_applied_revision: succeeded,
            last_attempted_revision: Some(applied.commit.clone()),
            ready_since: Some(applied.at),
        });
    }
}
