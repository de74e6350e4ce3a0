//! Cordon, then evict: never by force, and it is said which Pod and which budget is in the way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};

use crate::api::Verb;
use crate::api::node_object::{self, Cordon};
use crate::api::pods::{self, Part};
use crate::host::virtual_address;
use crate::work::Work;

/// How much of their names is told.
const NAMED: usize = 250;

/// Between two requests to evict the same Pod.
const PAUSE: Duration = Duration::from_secs(2);

/// Cordons and drains.
///
/// # Errors
/// Before anything is changed: Pods that would be lost. When the time is over: what is left, and why.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    let lost = sorted(work, &list(work)?).1;
    if !lost.is_empty() {
        bail!("the node is not drained: {}", lost.join("; "));
    }
    let version = work.journal.target.kubernetes_version.to_string();
    let cordon = node_object::cordon(work.api()?, &work.journal.node, &version, work.deadline)?;
    let mut blocked_before = String::new();
    let mut asked_last: Option<Instant> = None;
    loop {
        let (leaving, lost) = sorted(work, &list(work)?);
        if !lost.is_empty() {
            bail!("the drain stopped: {}", lost.join("; "));
        }
        if leaving.is_empty() {
            break;
        }
        if asked_last.is_some_and(|asked| asked.elapsed() < PAUSE) {
            std::thread::sleep(PAUSE.min(work.time_left()));
        }
        asked_last = Some(Instant::now());
        let blocked = evict(work, &leaving)?;
        let told = blocked.iter().map(|(pod, why)| format!("{pod}: {why}")).collect::<Vec<_>>().join("; ");
        if told != blocked_before {
            // `status` names it while this goes on.
            work.journal.steps.entry(crate::step::Step::Drain).or_default().message = told.clone();
            work.save()?;
            blocked_before = told;
        }
        if work.time_left().is_zero() {
            let names: Vec<String> =
                leaving.iter().map(pods::name).filter(|name| !blocked.contains_key(name)).collect();
            let told = if blocked_before.is_empty() { String::new() } else { format!("; {blocked_before}") };
            let leaving = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            bail!("the node is not drained in time; leaving: {leaving}{told}");
        }
    }
    let has_left = work.choices.leaves_virtual_address && virtual_address::leave(work)?;
    Ok(format!(
        "{} Pods evicted{}{}{}",
        work.journal.drained.len(),
        named(&work.journal.drained),
        if cordon == Cordon::Foreign { ", cordoned by somebody else" } else { "" },
        if has_left { ", kube-vip moved aside" } else { "" },
    ))
}

/// Their names, as many as there is room for.
fn named(pods: &[String]) -> String {
    let mut text = String::new();
    for (place, pod) in pods.iter().enumerate() {
        if text.len() + pod.len() > NAMED {
            return format!("{text} and {} more", pods.len() - place);
        }
        text.push_str(if place == 0 { ": " } else { ", " });
        text.push_str(pod);
    }
    text
}

fn list(work: &Work<'_>) -> anyhow::Result<Vec<Value>> {
    work.api()?.list(&pods::path_of_node(&work.journal.node), work.deadline)
}

/// What is to leave, and what would be lost.
fn sorted(work: &Work<'_>, all: &[Value]) -> (Vec<Value>, Vec<String>) {
    let (mut leaving, mut lost) = (Vec::new(), Vec::new());
    for pod in all {
        match pods::part(pod, work.choices.own_pod.as_deref(), work.choices.deletes_empty_dir_data) {
            Part::Stays => {}
            Part::Evict => leaving.push(pod.clone()),
            Part::Lost(_) if pod.pointer("/metadata/deletionTimestamp").is_some() => leaving.push(pod.clone()),
            Part::Lost(why) => lost.push(format!("Pod {}: {why}", pods::name(pod))),
        }
    }
    (leaving, lost)
}

/// Asks for each Pod once. Returns those that may not leave, and why.
fn evict(work: &mut Work<'_>, leaving: &[Value]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut blocked = BTreeMap::new();
    for pod in leaving.iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none()) {
        let full = pods::name(pod);
        let (namespace, name) = full.split_once('/').unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            // A later Pod of the same name is not meant.
            "deleteOptions": {"preconditions": {"uid": pods::uid(pod)}},
        });
        let response = work.api()?.once(Verb::Post, &path, Some(&body));
        match response {
            Ok(response) if matches!(response.status, 200..=299) => {
                if !work.journal.drained.contains(&full) {
                    work.journal.drained.push(full);
                    work.save()?;
                }
            }
            Ok(response) if matches!(response.status, 404 | 409) => {}
            Ok(response) => {
                let _gone = blocked.insert(full, why_blocked(&response.body));
            }
            Err(error) => {
                let _gone = blocked.insert(full, format!("{error:#}"));
            }
        }
    }
    Ok(blocked)
}

/// The API server names the budget in a cause of its own.
fn why_blocked(status: &Value) -> String {
    let text = |value: &Value| value.get("message").and_then(Value::as_str).map(str::to_owned);
    let causes = status.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut told: Vec<String> = causes.iter().filter_map(text).collect();
    if told.is_empty() {
        told.extend(text(status));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicted_pods_are_named_as_far_as_there_is_room() {
        assert_eq!(named(&[]), "");
        assert_eq!(named(&["a/b".to_owned(), "c/d".to_owned()]), ": a/b, c/d");
        let many: Vec<String> = (0..40).map(|number| format!("shop/cart-{number:02}")).collect();
        assert!(named(&many).ends_with(" and 22 more"), "{}", named(&many));
    }
}
