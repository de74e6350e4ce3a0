//! What lives in the cluster itself: nodes, workloads, definitions, webhooks.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::Survey;

use super::pods::ToldPods;
use super::reads::Reads;
use super::{Reading, pods};
use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, DEPLOYMENT, Kind, LEASE, NODE, POD, STATEFUL_SET};
use crate::objects;
use crate::read::{probe, sidecars};

/// Where kube-vip runs, and its Lease is.
const KUBE_SYSTEM: &str = "kube-system";
const KUBE_VIP: &str = "kube-vip";

/// Up to so many definitions are asked for one by one: a list tells of every definition of the cluster.
const SINGLY: usize = 8;

/// Group and version of the kinds of workloads.
const APPS: &str = "apps/v1";

/// Of which definitions an answer tells whether they are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nothing,
    OfThese,
    OfAll,
}

impl Reading<'_> {
    /// Nodes, and what runs on those of the control plane.
    pub(super) async fn nodes(&mut self, connection: &Connection, reads: &Reads<'_>) {
        if reads.nodes {
            let nodes = connection.list(&NODE, Some("v1"), None, None).await;
            self.observation.nodes = self.took(NODE.kind, nodes).iter().map(objects::node).collect();
        }
        if reads.server_version && self.unreachable.is_none() {
            let version = connection.version().await.map(Some);
            self.observation.server_version = self.took("Version", version);
        }
        if reads.kube_vip && self.unreachable.is_none() {
            self.kube_vip(connection).await;
        }
        if let Some(lease) = reads.lease.filter(|_| self.unreachable.is_none()) {
            let lease = connection.get(&LEASE.resource("v1"), Some(KUBE_SYSTEM), lease).await;
            self.observation.virtual_address = self.took(LEASE.kind, lease).as_ref().map(objects::virtual_address);
        }
    }

    /// Workloads with the webhooks that they answer for, definitions, and single objects: nothing of one follows from another.
    pub(super) async fn own(&self, connection: Option<&Connection>, reads: &Reads<'_>, told: &ToldPods) -> Vec<Self> {
        let Some(connection) = connection else { return Vec::new() };
        let (mut workloads, mut definitions, mut objects) = (self.part(), self.part(), self.part());
        let mut pods = self.part();
        futures::join!(
            pods.sidecars(connection, reads),
            workloads.workloads_and_webhooks(connection, reads, told),
            definitions.definitions(connection, &reads.definitions),
            objects.objects(connection, reads.owned()),
        );
        vec![workloads, definitions, objects, pods]
    }

    /// Sidecars that pods ask for and lack.
    async fn sidecars(&mut self, connection: &Connection, reads: &Reads<'_>) {
        let Some(rules) = reads.sidecars else { return };
        match sidecars::read(connection, rules).await {
            Ok(reading) => self.observation.sidecars = Some(reading),
            Err(error) => self.unreachable = Some(error.to_string()),
        }
    }

    async fn workloads_and_webhooks(&mut self, connection: &Connection, reads: &Reads<'_>, told: &ToldPods) {
        self.workloads(connection, reads, told).await;
        if reads.survey && self.unreachable.is_none() {
            self.survey(connection).await;
        }
        if self.unreachable.is_some() {
            return;
        }
        let probed_at = self.observation.read_at;
        let probes: Vec<_> = reads.webhooks.iter().map(|name| probe::probe(connection, name, probed_at)).collect();
        for (name, outcome) in reads.webhooks.iter().zip(concurrently(probes).await) {
            let outcome = self.took("Webhook", outcome.map(Some));
            self.observation.webhooks.extend(outcome.map(|outcome| rollout::WebhookProbe {
                name: (*name).to_owned(),
                probed_at,
                outcome,
            }));
        }
    }

    /// Definitions are the largest objects there are, and there are many: only those are read whole whose version was not read before.
    async fn definitions(&mut self, connection: &Connection, wanted: &BTreeSet<&str>) {
        let resource = CUSTOM_RESOURCE_DEFINITION.resource("v1");
        let (listed, tells) = match wanted.len() {
            0 | 1 => (Ok(Vec::new()), Tells::Nothing),
            2..=SINGLY => {
                let requests = wanted.iter().map(|name| connection.get_metadata(&resource, None, name)).collect();
                let found: Result<Vec<_>, _> = concurrently(requests).await.into_iter().collect();
                (found.map(|found| found.into_iter().flatten().collect()), Tells::OfThese)
            }
            _ => match connection.list_metadata(&resource, None).await {
                Ok((listed, true)) => (Ok(listed), Tells::OfAll),
                Ok((listed, false)) => (Ok(listed), Tells::Nothing),
                // Whoever may not list may well get.
                Err(RequestError::Forbidden { .. }) => (Ok(Vec::new()), Tells::Nothing),
                Err(error) => (Err(error), Tells::Nothing),
            },
        };
        let listed: Vec<DynamicObject> = self.took(CUSTOM_RESOURCE_DEFINITION.kind, listed);
        if self.unreachable.is_some() {
            return;
        }
        let listed: BTreeMap<&str, &DynamicObject> =
            listed.iter().filter_map(|object| Some((object.metadata.name.as_deref()?, object))).collect();
        let mut changed = Vec::new();
        for name in wanted {
            let object = listed.get(name).copied();
            match object.and_then(|object| connection.known.definition(object)) {
                Some(known) => self.observation.custom_resource_definitions.push(known),
                None if tells != Tells::Nothing && object.is_none() => {}
                None => changed.push(connection.get(&resource, None, name)),
            }
        }
        for found in concurrently(changed).await {
            if let Some(object) = self.took(CUSTOM_RESOURCE_DEFINITION.kind, found) {
                let definition = objects::custom_resource_definition(&object);
                connection.known.remember_definition(&object, &definition);
                self.observation.custom_resource_definitions.push(definition);
            }
        }
        connection.known.forget_definitions(|name| tells != Tells::OfAll || listed.contains_key(name));
    }

    async fn workloads(&mut self, connection: &Connection, reads: &Reads<'_>, told: &ToldPods) {
        // What says "done" first, then the pods that it speaks of; those whose names are known, where the order tells nothing any more.
        let (mut of_deployments, mut of_daemon_sets) = (self.part(), self.part());
        let (deployments, daemon_sets, named) = futures::join!(
            of_deployments.all(connection, &DEPLOYMENT, &reads.deployments),
            of_daemon_sets.all(connection, &DAEMON_SET, &reads.daemon_sets),
            told.read(connection),
        );
        self.add(of_deployments);
        self.add(of_daemon_sets);
        let mut namespaces: BTreeMap<&str, Vec<(&'static str, &DynamicObject)>> = BTreeMap::new();
        for (namespace, _) in reads.deployments.iter().chain(&reads.daemon_sets) {
            namespaces.entry(namespace).or_default();
        }
        let kinds = deployments.iter().map(|object| (DEPLOYMENT.kind, object));
        for (kind, object) in kinds.chain(daemon_sets.iter().map(|object| (DAEMON_SET.kind, object))) {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            namespaces.entry(namespace).or_default().push((kind, object));
        }
        if self.unreachable.is_some() {
            return;
        }
        let of = namespaces.iter();
        let requests = of.map(|(namespace, of)| pods::pods(connection, namespace, of, told, &named)).collect();
        let mut pods = BTreeMap::new();
        for (namespace, found) in namespaces.keys().copied().zip(concurrently(requests).await) {
            pods.insert(namespace, self.took(POD.kind, found));
        }
        let pods_of = |object: &DynamicObject| {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            pods.get(namespace).map(Vec::as_slice).unwrap_or_default()
        };
        let deployments = deployments.iter().map(|object| objects::deployment(object, pods_of(object)));
        self.observation.deployments.extend(deployments);
        let daemon_sets = daemon_sets.iter().map(|object| objects::daemon_set(object, pods_of(object)));
        self.observation.daemon_sets.extend(daemon_sets);
    }

    /// Those of these objects that there are.
    async fn all(
        &mut self,
        connection: &Connection,
        kind: &Kind,
        wanted: &BTreeSet<(&str, &str)>,
    ) -> Vec<DynamicObject> {
        if self.unreachable.is_some() {
            return Vec::new();
        }
        let resource = kind.resource("v1");
        let requests: Vec<_> =
            wanted.iter().map(|(namespace, name)| connection.get(&resource, Some(namespace), name)).collect();
        let mut objects = Vec::new();
        for found in concurrently(requests).await {
            objects.extend(self.took(kind.kind, found));
        }
        objects.iter().for_each(|object| self.compare(&resource.api_version, kind.kind, object));
        objects
    }

    /// Every workload of the cluster. A kind that the server does not serve has no objects.
    async fn survey(&mut self, connection: &Connection) {
        let mut survey = Survey::default();
        // Servers that stand in for clusters do not serve all of them, and answer a list of such a kind with any error.
        let served = match connection.kinds(APPS).await {
            // Every cluster serves some of them: an empty answer proves nothing.
            Ok(kinds) if kinds.is_empty() => Err(RequestError::NotServed {
                attempt: String::from("list all workloads"),
                server: connection.server().to_owned(),
                kind: APPS.to_owned(),
            }),
            served => served,
        };
        for kind in [&DEPLOYMENT, &DAEMON_SET, &STATEFUL_SET] {
            if self.unreachable.is_some() {
                return;
            }
            let listed = match &served {
                Ok(served) if served.iter().any(|known| known.resource.kind == kind.kind) => {
                    connection.list(kind, Some("v1"), None, None).await
                }
                Ok(_) => Ok(Vec::new()),
                Err(error) => Err(error.clone()),
            };
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
    }
}
