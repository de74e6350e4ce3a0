//! Pods that are deleted past their budget, where the policy lets that.
//!
//! Architecture Invariant: the budget counts the pod before it is deleted, as it was read: whoever dies in between, or decides
//! on an older reading, has forced too few and never too many.

use domain::RolloutId;
use kube::core::{DynamicObject, TypeMeta};
use rollout::ForcedPods;
use serde_json::{Value, json};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{POD, POD_DISRUPTION_BUDGET};

/// What the annotations of a budget begin with that count the pods of a group: `forced.stepgate.dev/<group>`, `<rollout>/<pods>`.
const FORCED: &str = "forced.stepgate.dev/";

/// What is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceRequest<'a> {
    /// Namespace of the pod and of its budget.
    pub namespace: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The node that it is to leave.
    pub node: &'a str,
    /// The budget that counts it.
    pub budget: &'a str,
    /// The worker group.
    pub group: &'a str,
    /// The rollout.
    pub rollout: &'a RolloutId,
    /// How many the budget has counted then.
    pub counted: u32,
}

/// Counts a pod, and deletes it with its own grace. One that has left its node, or is about to, is left alone.
///
/// # Errors
/// When the API server refuses, or the budget or the pod becomes another one meanwhile.
pub(crate) async fn force(own: &Connection, request: &ForceRequest<'_>) -> Result<(), RequestError> {
    let ForceRequest { namespace, pod, node, budget, group, rollout, counted } = request;
    let pods = POD.resource("v1");
    let Some(found) = own.get(&pods, Some(namespace), pod).await? else { return Ok(()) };
    // One of a StatefulSet comes back by the same name on another node, and nobody means that one.
    let is_there = found.data.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node);
    if !is_there || found.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let budgets = POD_DISRUPTION_BUDGET.resource("v1");
    let Some(known) = own.get(&budgets, Some(namespace), budget).await? else { return Ok(()) };
    let is_next = forced_by(&known)
        .iter()
        .all(|it| it.group != *group || it.rollout != **rollout || it.pods.saturating_add(1) == *counted);
    // Somebody else has counted meanwhile: the next reading tells.
    if !is_next {
        return Ok(());
    }
    let mark: Value = json!({"metadata": {
        "resourceVersion": known.metadata.resource_version,
        "annotations": {(format!("{FORCED}{group}")): format!("{rollout}/{counted}")},
    }});
    own.merge(&budgets, Some(namespace), budget, &mark, false).await?;
    // Its status changes all the time; that it is the same one is enough.
    let mut same = DynamicObject { types: Some(TypeMeta::default()), ..found };
    same.metadata.resource_version = None;
    own.delete(&pods, Some(namespace), &same).await
}

/// What a budget has counted.
pub(crate) fn forced_by(budget: &DynamicObject) -> Vec<ForcedPods> {
    let annotations = budget.metadata.annotations.iter().flatten();
    let counted = annotations.filter_map(|(key, value)| {
        let group = key.strip_prefix(FORCED)?;
        let (rollout, pods) = value.split_once('/')?;
        Some(ForcedPods {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            budget: budget.metadata.name.clone().unwrap_or_default(),
            rollout: rollout.parse().ok()?,
            group: group.to_owned(),
            pods: pods.parse().ok()?,
        })
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::server::{Answer, ApiServer, Script};

    const POD_PATH: &str = "/api/v1/namespaces/shop/pods/web-1";
    const BUDGET_PATH: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web";

    /// What is asked of a server whose budget has counted one pod, where so many are to be counted now and the pod is to leave this node.
    async fn asked(counted: u32, node: &str) -> Vec<String> {
        let budget = json!({"metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7",
            "annotations": {"forced.stepgate.dev/ng": "aaaaaaaaaaaa/1", "forced.stepgate.dev/other": "bbbbbbbbbbbb/9"}}});
        let pod = json!({"metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "9"},
            "spec": {"nodeName": "a"}});
        let script = Script::default()
            .object(POD_PATH, pod)
            .object(BUDGET_PATH, budget)
            .on(&format!("PATCH {BUDGET_PATH}"), Answer::Json(json!({"metadata": {"name": "web"}})))
            .on(&format!("DELETE {POD_PATH}"), Answer::Json(json!({"kind": "Status"})));
        let server = ApiServer::start(script).await;
        let rollout = "aaaaaaaaaaaa".parse().unwrap();
        let request = ForceRequest {
            namespace: "shop",
            pod: "web-1",
            node,
            budget: "web",
            group: "ng",
            rollout: &rollout,
            counted,
        };
        force(&server.connection(), &request).await.unwrap();
        server.lines()
    }

    #[tokio::test]
    async fn a_budget_counts_a_pod_before_it_is_deleted() {
        let (get_pod, get_budget) = (format!("GET {POD_PATH}"), format!("GET {BUDGET_PATH}"));
        let (count, delete) = (format!("PATCH {BUDGET_PATH}"), format!("DELETE {POD_PATH}"));
        assert_eq!(asked(2, "a").await, [get_pod.clone(), get_budget.clone(), count, delete]);
        // Decided on a reading from before somebody else has counted.
        assert_eq!(asked(1, "a").await, [get_pod.clone(), get_budget]);
        // It was evicted and made anew elsewhere since it was read.
        assert_eq!(asked(2, "b").await, [get_pod]);
    }
}
