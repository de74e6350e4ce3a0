//! What keeps nodes from being drained, read while they roll: the pods on these nodes alone, and the budgets.

use std::collections::BTreeSet;

use futures::join;
use jiff::Timestamp;
use kube::core::DynamicObject;
use rollout::{DrainReading, DrainedPod, DrainingNode, FailingPod, Serving, Termination, UnattachedVolume};
use serde_json::Value;

use super::dump::{attachment, owner};
use super::inspect::evictions::{self, Budgets};
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{POD, POD_DISRUPTION_BUDGET, VOLUME_ATTACHMENT};
use crate::client::request::Selection;
use crate::write::force::forced_by;

/// Namespaces without whose pods nothing else runs on a new node.
const CRITICAL: [&str; 6] = ["kube-system", "calico-system", "cert-manager", "istio-system", "linkerd", "vault"];

/// So many nodes are looked at: drains go on a few at a time.
const NODES: usize = 20;

/// Reasons for which a container waits that has merely begun.
const BEGINNING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Reads what keeps these nodes, and what fails beside them. What cannot be read is noted.
pub(crate) async fn read(own: &Connection, mut nodes: Vec<DrainingNode>) -> DrainReading {
    nodes.truncate(NODES);
    let mut reading = DrainReading::default();
    let critical = async {
        let mut found = Vec::new();
        for namespace in CRITICAL {
            found.push(own.list(&POD, Some("v1"), Some(namespace), None).await);
        }
        found
    };
    let budgets = async {
        match nodes.is_empty() {
            true => Ok(Vec::new()),
            false => own.list(&POD_DISRUPTION_BUDGET, Some("v1"), None, None).await,
        }
    };
    let on_nodes = async {
        let mut found = Vec::new();
        for node in &nodes {
            let fields = format!("spec.nodeName={}", node.name);
            let selection = Selection { fields: Some(&fields), ..Selection::default() };
            found.push((node.name.clone(), own.list_selected(&POD, Some("v1"), selection).await));
        }
        found
    };
    let attachments = own.list(&VOLUME_ATTACHMENT, Some("v1"), None, None);
    let (critical, budgets, on_nodes, attachments) = join!(critical, budgets, on_nodes, attachments);
    let mut took = |listed: Result<Vec<DynamicObject>, RequestError>| {
        listed.unwrap_or_else(|error| {
            let error = error.to_string();
            if !reading.unread.contains(&error) {
                reading.unread.push(error);
            }
            Vec::new()
        })
    };
    let critical: Vec<DynamicObject> = critical.into_iter().flat_map(&mut took).collect();
    let budgets = took(budgets);
    let on_nodes: Vec<(String, Vec<DynamicObject>)> =
        on_nodes.into_iter().map(|(node, listed)| (node, took(listed))).collect();
    let attachments = took(attachments);
    reading.failing = critical.iter().flat_map(failing).collect();
    let by_namespace = Budgets::of(&budgets);
    for (node, pods) in &on_nodes {
        let drained = pods.iter().filter(|pod| evictions::is_drained(pod));
        reading.pods.extend(drained.map(|pod| drained_pod(pod, node, &by_namespace)));
    }
    let selecting: BTreeSet<(&str, &str)> = reading
        .pods
        .iter()
        .flat_map(|pod| pod.pod.budgets.iter().map(|budget| (pod.pod.namespace.as_str(), budget.as_str())))
        .collect();
    reading.forced = budgets.iter().flat_map(forced_by).collect();
    let budgets = budgets.iter().map(evictions::budget);
    reading.budgets =
        budgets.filter(|known| selecting.contains(&(known.namespace.as_str(), known.name.as_str()))).collect();
    let unattached = attachments.iter().filter_map(attachment).map(|known| UnattachedVolume {
        volume: known.volume,
        node: known.node,
        since: known.since,
        failed: known.failed,
    });
    reading.unattached = unattached.collect();
    reading.nodes = nodes;
    reading
}

fn drained_pod(pod: &DynamicObject, node: &str, budgets: &Budgets<'_>) -> DrainedPod {
    let metadata = &pod.metadata;
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let due: Option<Timestamp> = metadata.deletion_timestamp.as_ref().and_then(|time| time.0.to_string().parse().ok());
    let grace = jiff::SignedDuration::from_secs(metadata.deletion_grace_period_seconds.unwrap_or(0));
    let kserve = label("serving.kserve.io/inferenceservice").map(Serving::Kserve);
    DrainedPod {
        pod: evictions::judged(pod, node, false, budgets, &BTreeSet::new()),
        owner: owner(pod).to_string(),
        phase: pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned(),
        termination: due.map(|due| Termination { since: due.checked_sub(grace).unwrap_or(due), due }),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        serving: kserve.or_else(|| label("serving.knative.dev/service").map(Serving::Knative)),
    }
}

/// The containers of a pod that wait for a reason, or were started again.
fn failing(pod: &DynamicObject) -> Vec<FailingPod> {
    let list = |path: &str| pod.data.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let created = pod.metadata.creation_timestamp.as_ref().and_then(|time| time.0.to_string().parse().ok());
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"].into_iter().flat_map(list);
    let failing = statuses.filter_map(|status| {
        let waiting = text(status, "/state/waiting/reason").filter(|reason| !BEGINNING.contains(&reason.as_str()));
        let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
        if waiting.is_none() && restarts == 0 {
            return None;
        }
        let ended: Option<Timestamp> =
            text(status, "/lastState/terminated/finishedAt").and_then(|time| time.parse().ok());
        let name = text(status, "/name").unwrap_or_default();
        let written = ["/spec/containers", "/spec/initContainers"].into_iter().flat_map(list);
        let written = { written }.find(|it| it.get("name").and_then(Value::as_str) == Some(name.as_str()));
        Some(FailingPod {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            owner: owner(pod).to_string(),
            node: text(&pod.data, "/spec/nodeName"),
            image: written.and_then(|it| text(it, "/image")).or_else(|| text(status, "/image")).unwrap_or_default(),
            container: name,
            waiting,
            restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
            since: ended.or(created),
        })
    });
    failing.collect()
}
