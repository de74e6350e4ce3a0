//! What differs between two dumps, by owner and not by the names of pods.
//!
//! Names of pods, ages, nodes that were replaced, what Jobs have ended, and what autoscalers do within their bounds are no
//! differences. What was broken before and is now is a remark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Dump, DumpedNode, DumpedWorkload, PodOwner, pods};
use crate::observation::ConditionStatus;

/// What differs between two dumps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// What is worse, the most telling first.
    pub differences: Vec<Difference>,
    /// What is told only: what was broken already, what is new, what nobody need look at.
    pub remarks: Vec<String>,
}

/// One thing that is worse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What it is about, as `Kind namespace/name` or `Kind name`.
    pub object: String,
    /// How it differs.
    pub kind: DifferenceKind,
    /// What it was before.
    pub before: String,
    /// What it is now.
    pub now: String,
    /// What helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// How something differs; the earlier ones are told first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// It is not there any more.
    Missing,
    /// It has fewer ready pods than it wants, or is not ready itself.
    NotReady,
    /// Its pods lack a sidecar that they ask for.
    NotInjected,
    /// Its pods have fewer containers.
    FewerContainers,
    /// It wants fewer pods.
    FewerReplicas,
    /// A claim is not bound, or a volume not attached.
    Volume,
    /// Its containers were started again.
    Restarted,
    /// Its pods are on other nodes, although theirs are there as they were.
    Moved,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Missing => "missing",
            Self::NotReady => "not ready",
            Self::NotInjected => "not injected",
            Self::FewerContainers => "fewer containers",
            Self::FewerReplicas => "fewer replicas",
            Self::Volume => "volume",
            Self::Restarted => "restarted",
            Self::Moved => "moved",
        })
    }
}

/// What differs between a dump and a later one.
#[must_use]
pub fn compare(before: &Dump, now: &Dump) -> Comparison {
    let mut comparison = Comparison::default();
    nodes(before, now, &mut comparison);
    workloads(before, now, &mut comparison);
    pods::compare(before, now, &mut comparison);
    volumes(before, now, &mut comparison);
    others(before, now, &mut comparison);
    comparison.differences.sort_by(|left, right| (left.kind, &left.object).cmp(&(right.kind, &right.object)));
    for (dump, when) in [(before, "before"), (now, "now")] {
        let unread = dump.unread.iter();
        comparison.remarks.extend(unread.map(|(kind, reason)| format!("{kind} could not be read {when}: {reason}")));
    }
    comparison
}

impl Comparison {
    pub(super) fn add(
        &mut self,
        object: impl fmt::Display,
        kind: DifferenceKind,
        before: impl fmt::Display,
        now: impl fmt::Display,
        help: Option<String>,
    ) {
        let (object, before, now) = (object.to_string(), before.to_string(), now.to_string());
        self.differences.push(Difference { object, kind, before, now, help });
    }

    pub(super) fn remark(&mut self, line: impl Into<String>) {
        self.remarks.push(line.into());
    }
}

fn nodes(before: &Dump, now: &Dump, comparison: &mut Comparison) {
    let is_ready = |node: &DumpedNode| node.ready == ConditionStatus::True;
    let of = |dump: &Dump, name: &str| dump.nodes.iter().find(|node| node.name == name).map(is_ready);
    for node in now.nodes.iter().filter(|node| !is_ready(node)) {
        if of(before, &node.name) == Some(false) {
            comparison.remark(format!("Node {} is not ready, as before", node.name));
            continue;
        }
        let was = if of(before, &node.name).is_some() { "ready" } else { "not there" };
        let help = format!("kubectl describe node {}", node.name);
        comparison.add(format!("Node {}", node.name), DifferenceKind::NotReady, was, node.ready, Some(help));
    }
    let groups = |dump: &Dump| {
        let mut groups: BTreeMap<String, u32> = BTreeMap::new();
        for node in dump.nodes.iter().filter(|node| is_ready(node)) {
            *groups.entry(node.group.clone().unwrap_or_default()).or_default() += 1;
        }
        groups
    };
    let (was, is) = (groups(before), groups(now));
    let total = |groups: &BTreeMap<String, u32>| groups.values().sum::<u32>();
    if total(&is) < total(&was) {
        comparison.add(
            "nodes",
            DifferenceKind::Missing,
            format!("{} ready", total(&was)),
            format!("{} ready", total(&is)),
            Some("kubectl get nodes".to_owned()),
        );
    }
    let versions = |dump: &Dump| {
        dump.nodes.iter().map(|node| format!("{} on {}", node.kubelet, node.os_image)).collect::<BTreeSet<_>>()
    };
    let (was, is) = (versions(before), versions(now));
    if was != is {
        let words = |versions: BTreeSet<String>| versions.into_iter().collect::<Vec<_>>().join(", ");
        comparison.remark(format!("nodes run {}; before: {}", words(is), words(was)));
    }
}

fn workloads(before: &Dump, now: &Dump, comparison: &mut Comparison) {
    if before
        .unread
        .keys()
        .chain(now.unread.keys())
        .any(|kind| ["Deployment", "DaemonSet", "StatefulSet"].contains(&kind.as_str()))
    {
        return;
    }
    let is: BTreeMap<&PodOwner, &DumpedWorkload> = now.workloads.iter().map(|known| (&known.owner, known)).collect();
    let was: BTreeMap<&PodOwner, &DumpedWorkload> =
        before.workloads.iter().map(|known| (&known.owner, known)).collect();
    let in_words = |known: &DumpedWorkload| format!("{} of {} ready", known.ready, known.desired);
    for known in &before.workloads {
        if !is.contains_key(&known.owner) {
            comparison.add(&known.owner, DifferenceKind::Missing, in_words(known), "not there", None);
        }
    }
    for known in &now.workloads {
        let old = was.get(&known.owner).copied();
        let help = || {
            Some(format!(
                "kubectl describe {} {} -n {}",
                known.owner.kind.to_lowercase(),
                known.owner.name,
                known.owner.namespace
            ))
        };
        let Some(old) = old else {
            comparison.remark(format!("{} is new, {}", known.owner, in_words(known)));
            if known.ready < known.desired {
                comparison.add(&known.owner, DifferenceKind::NotReady, "not there", in_words(known), help());
            }
            continue;
        };
        let missing = |known: &DumpedWorkload| known.desired.saturating_sub(known.ready);
        if missing(known) > missing(old) {
            comparison.add(&known.owner, DifferenceKind::NotReady, in_words(old), in_words(known), help());
        } else if missing(known) > 0 {
            comparison.remark(format!("{} is not ready, as before: {}", known.owner, in_words(known)));
        }
        let scaler = now.autoscalers.iter().find(|scaler| scaler.target == known.owner);
        let is_within = scaler.is_some_and(|scaler| (scaler.minimum..=scaler.maximum).contains(&known.desired));
        // A DaemonSet has a pod on each node: what nodes there are is told of nodes.
        if known.desired < old.desired && !is_within && known.owner.kind != "DaemonSet" {
            let replicas = |count: u32| format!("{count} wanted");
            comparison.add(
                &known.owner,
                DifferenceKind::FewerReplicas,
                replicas(old.desired),
                replicas(known.desired),
                None,
            );
        }
        if known.images != old.images {
            comparison.remark(format!(
                "{} has other images: {}; before: {}",
                known.owner,
                known.images.join(", "),
                old.images.join(", ")
            ));
        }
    }
}

fn volumes(before: &Dump, now: &Dump, comparison: &mut Comparison) {
    for claim in now.claims.iter().filter(|claim| claim.phase != "Bound") {
        let old = before.claims.iter().find(|known| (&known.namespace, &known.name) == (&claim.namespace, &claim.name));
        let object = format!("PersistentVolumeClaim {}/{}", claim.namespace, claim.name);
        if old.is_some_and(|old| old.phase == claim.phase) {
            comparison.remark(format!("{object} is {}, as before", claim.phase));
        } else {
            let was = old.map_or("not there", |old| old.phase.as_str());
            let help = format!("kubectl describe pvc {} -n {}", claim.name, claim.namespace);
            comparison.add(object, DifferenceKind::Volume, was, &claim.phase, Some(help));
        }
    }
    for old in &before.claims {
        if !now.unread.contains_key("PersistentVolumeClaim")
            && !now.claims.iter().any(|known| (&known.namespace, &known.name) == (&old.namespace, &old.name))
        {
            comparison.add(
                format!("PersistentVolumeClaim {}/{}", old.namespace, old.name),
                DifferenceKind::Missing,
                &old.phase,
                "not there",
                None,
            );
        }
    }
    for attachment in &now.attachments {
        let known =
            before.attachments.iter().any(|old| (&old.volume, &old.node) == (&attachment.volume, &attachment.node));
        let now = format!("not attached to Node {}", attachment.node);
        if known {
            comparison.remark(format!("PersistentVolume {} is {now}, as before", attachment.volume));
        } else {
            let help = format!("kubectl get volumeattachments | grep {}", attachment.volume);
            comparison.add(
                format!("PersistentVolume {}", attachment.volume),
                DifferenceKind::Volume,
                "attached, or not wanted",
                now,
                Some(help),
            );
        }
    }
}

/// Webhooks that are gone, and APIs that nobody serves.
fn others(before: &Dump, now: &Dump, comparison: &mut Comparison) {
    for webhook in &before.webhooks {
        if !now.webhooks.contains(webhook)
            && !now.unread.keys().any(|kind| webhook.configuration.starts_with(kind.as_str()))
        {
            comparison.add(
                &webhook.configuration,
                DifferenceKind::Missing,
                format!("webhook {}", webhook.name),
                "not there",
                None,
            );
        }
    }
    for service in &now.unavailable_api_services {
        if before.unavailable_api_services.contains(service) {
            comparison.remark(format!("APIService {service} is not available, as before"));
        } else {
            let help = format!("kubectl describe apiservice {service}");
            comparison.add(
                format!("APIService {service}"),
                DifferenceKind::NotReady,
                "available",
                "not available",
                Some(help),
            );
        }
    }
}
