//! The Node object: cordoned with a name on it, so that only an own cordon is taken back.

use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::api::{Api, Verb};

/// On a Node that the upgrade to this version has cordoned.
pub const CORDONED_FOR: &str = "inplace.stepgate.dev/cordoned-for";

/// Whose cordon a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cordon {
    /// Pods may come.
    None,
    /// That of an upgrade, to this version.
    Ours(String),
    /// That of somebody else.
    Foreign,
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

/// The Node.
///
/// # Errors
/// When there is none, or no answer.
pub fn read(api: &Api, node: &str, deadline: Instant) -> anyhow::Result<Value> {
    let found = api.get(&path(node), deadline)?;
    found.with_context(|| format!("the cluster has no Node {node}: give its name with --node"))
}

/// Whose cordon it is.
#[must_use]
pub fn cordon_of(node: &Value) -> Cordon {
    let is_cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
    let owner = node.pointer("/metadata/annotations").and_then(|all| all.get(CORDONED_FOR)).and_then(Value::as_str);
    match (is_cordoned, owner) {
        (false, _) => Cordon::None,
        (true, Some(version)) => Cordon::Ours(version.to_owned()),
        (true, None) => Cordon::Foreign,
    }
}

/// Keeps new Pods away. Returns whose cordon the node has now.
///
/// # Errors
/// When there is no answer in time.
pub fn cordon(api: &Api, name: &str, version: &str, deadline: Instant) -> anyhow::Result<Cordon> {
    change(api, name, deadline, |node| match cordon_of(node) {
        Cordon::Foreign => None,
        Cordon::Ours(owner) if owner == version => None,
        Cordon::None | Cordon::Ours(_) => {
            Some(Patch { owner: Some(version.to_owned()), spec: json!({"unschedulable": true}) })
        }
    })
}

/// Takes an own cordon back, and no other. Returns whose cordon the node has now.
///
/// # Errors
/// When there is no answer in time.
pub fn uncordon(api: &Api, name: &str, deadline: Instant) -> anyhow::Result<Cordon> {
    change(api, name, deadline, |node| {
        let annotation = node.pointer("/metadata/annotations").and_then(|all| all.get(CORDONED_FOR));
        match cordon_of(node) {
            Cordon::Ours(_) => Some(Patch { owner: None, spec: json!({"unschedulable": null}) }),
            // Somebody uncordoned it: our name goes too.
            Cordon::None => annotation.map(|_| Patch { owner: None, spec: json!({}) }),
            Cordon::Foreign => None,
        }
    })
}

/// What is changed of a Node.
struct Patch {
    owner: Option<String>,
    spec: Value,
}

/// Changes the Node as it was read: who changes it meanwhile is not overwritten.
fn change(api: &Api, name: &str, deadline: Instant, patch: impl Fn(&Value) -> Option<Patch>) -> anyhow::Result<Cordon> {
    loop {
        let node = read(api, name, deadline)?;
        let Some(Patch { owner, spec }) = patch(&node) else { return Ok(cordon_of(&node)) };
        let version = node.pointer("/metadata/resourceVersion").context("the Node has no resourceVersion")?;
        let metadata = json!({"resourceVersion": version, "annotations": {CORDONED_FOR: owner}});
        let patch = json!({"metadata": metadata, "spec": spec});
        let response = api.request(Verb::MergePatch, &path(name), Some(&patch), deadline)?;
        match response.status {
            200..=299 => return Ok(cordon_of(&response.body)),
            409 if Instant::now() < deadline => {}
            status => bail!("Node {name} could not be changed: {status} {}", response.message()),
        }
    }
}
