//! What lives in the cluster itself: nodes, workloads, definitions, webhooks.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};
use rollout::Survey;

use super::super::connection::Connection;
use super::super::error::RequestError;
use super::super::kind::{CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, DEPLOYMENT, LEASE, NODE, POD, STATEFUL_SET};
use super::super::probe;
use super::reads::{Reads, lives_in_management};
use super::{CONCURRENT, Reading};
use crate::cluster::objects;

/// Where kube-vip runs and keeps its Lease.
const KUBE_SYSTEM: &str = "kube-system";
const KUBE_VIP: &str = "kube-vip";
const KUBE_VIP_LEASE: &str = "plndr-cp-lock";

/// Group and version of the kinds of workloads.
const APPS: &str = "apps/v1";

impl Reading<'_> {
    pub(super) async fn own(&mut self, connection: &Connection, reads: &Reads<'_>) {
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
            found.iter().for_each(|object| self.compare(APPS, DEPLOYMENT.kind, object));
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
            found.iter().for_each(|object| self.compare(APPS, DAEMON_SET.kind, object));
            self.observation
                .daemon_sets
                .extend(found.iter().map(|object| objects::daemon_set(object, pods_of(namespace))));
        }
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
        let lease = connection.get(&LEASE.resource("v1"), Some(KUBE_SYSTEM), KUBE_VIP_LEASE).await;
        self.observation.virtual_address = self.took(LEASE.kind, lease).as_ref().map(objects::virtual_address);
    }
}
