//! What differs between the pods of two dumps, owner by owner.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::compare::{Comparison, DifferenceKind};
use super::sidecars::missing_sidecars;
use super::{Dump, DumpedPod, PodOwner};

/// The pods of each owner.
fn by_owner(dump: &Dump) -> BTreeMap<&PodOwner, Vec<&DumpedPod>> {
    let mut owners: BTreeMap<&PodOwner, Vec<&DumpedPod>> = BTreeMap::new();
    for pod in &dump.pods {
        owners.entry(&pod.owner).or_default().push(pod);
    }
    owners
}

pub(super) fn compare(before: &Dump, now: &Dump, comparison: &mut Comparison) {
    if before.unread.contains_key("Pod") || now.unread.contains_key("Pod") {
        return;
    }
    let (was, is) = (by_owner(before), by_owner(now));
    let has_object = |dump: &Dump, owner: &PodOwner| dump.workloads.iter().any(|known| known.owner == *owner);
    for (owner, old) in &was {
        let current = is.get(owner).map(Vec::as_slice).unwrap_or_default();
        if !is_of_job(owner) && !has_object(before, owner) && !has_object(now, owner) {
            readiness(owner, old, current, comparison);
        }
        if !current.is_empty() {
            containers(owner, old, current, comparison);
            restarts(owner, before, old, current, comparison);
            moves(owner, before, now, old, current, comparison);
        }
    }
    for (owner, current) in &is {
        let old = was.get(owner).map(Vec::as_slice).unwrap_or_default();
        waiting(owner, old, current, comparison);
    }
    sidecars(&was, now, comparison);
}

fn is_of_job(owner: &PodOwner) -> bool {
    matches!(owner.kind.as_str(), "Job" | "CronJob")
}

/// Of owners that have no count of their own: bare pods, those of kubelets, and of kinds that are not read.
fn readiness(owner: &PodOwner, old: &[&DumpedPod], current: &[&DumpedPod], comparison: &mut Comparison) {
    let ready = |pods: &[&DumpedPod]| pods.iter().filter(|pod| pod.is_ready()).count();
    let alive = |pods: &[&DumpedPod]| pods.iter().filter(|pod| !pod.has_ended()).count();
    let in_words = |pods: &[&DumpedPod]| format!("{} of {} pods ready", ready(pods), alive(pods));
    if alive(old) == 0 {
        return;
    }
    if alive(current) == 0 {
        let help = (owner.kind == "Pod").then(|| "nothing makes it anew: create it again".to_owned());
        comparison.add(owner, DifferenceKind::Missing, in_words(old), "not there", help);
    } else if ready(current) < ready(old) && ready(current) < alive(current) {
        comparison.add(owner, DifferenceKind::NotReady, in_words(old), in_words(current), Some(look(owner, current)));
    }
}

/// Containers that wait for a reason, where none of the owner's did so before.
fn waiting(owner: &PodOwner, old: &[&DumpedPod], current: &[&DumpedPod], comparison: &mut Comparison) {
    let waits = |pods: &[&DumpedPod]| -> BTreeSet<(String, String, String)> {
        let containers = pods.iter().flat_map(|pod| &pod.containers);
        containers
            .filter_map(|it| {
                Some((it.name.clone(), it.waiting.clone().filter(|reason| is_trouble(reason))?, it.image.clone()))
            })
            .collect()
    };
    let before = waits(old);
    for (container, reason, image) in waits(current) {
        let now = format!("container {container} waits: {reason} ({image})");
        if before.iter().any(|(known, same, _)| (known, same) == (&container, &reason)) {
            comparison.remark(format!("{owner}: {now}, as before"));
        } else {
            comparison.add(owner, DifferenceKind::NotReady, "running", now, Some(look(owner, current)));
        }
    }
}

/// Whether a container that waits for this has not merely begun.
fn is_trouble(reason: &str) -> bool {
    !matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// The command that shows the first of these pods that is not ready.
fn look(owner: &PodOwner, pods: &[&DumpedPod]) -> String {
    let pod = pods.iter().find(|pod| !pod.is_ready()).or(pods.first());
    let name = pod.map_or(owner.name.as_str(), |pod| pod.name.as_str());
    format!("kubectl describe pod {name} -n {}", owner.namespace)
}

fn containers(owner: &PodOwner, old: &[&DumpedPod], current: &[&DumpedPod], comparison: &mut Comparison) {
    // What every pod had before, and one of now has not. Sidecars that are asked for are told by themselves.
    let names = |pod: &&DumpedPod| pod.containers.iter().map(|it| it.name.clone()).collect::<BTreeSet<String>>();
    let before = old.iter().map(names).reduce(|left, right| &left & &right).unwrap_or_default();
    let told = |pod: &&&DumpedPod| pod.injections.iter().any(|injection| !injection.missing.is_empty());
    let is_missing = |pod: &&DumpedPod| &before - &names(pod);
    let is_short = |pod: &&&DumpedPod| !pod.has_ended() && !is_missing(pod).is_empty();
    let short: Vec<&DumpedPod> = current.iter().filter(is_short).filter(|pod| !told(pod)).copied().collect();
    let missing: BTreeSet<String> = short.iter().flat_map(is_missing).collect();
    if !missing.is_empty() {
        let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
        let now = format!("{} of {} pods without {missing}", short.len(), current.len());
        comparison.add(
            owner,
            DifferenceKind::FewerContainers,
            format!("{} containers", before.len()),
            now,
            Some(restart(owner, &short)),
        );
    }
}

/// The command that makes these pods anew.
pub(super) fn restart(owner: &PodOwner, pods: &[&DumpedPod]) -> String {
    match owner.kind.as_str() {
        "Deployment" | "DaemonSet" | "StatefulSet" => {
            format!("kubectl rollout restart {}/{} -n {}", owner.kind.to_lowercase(), owner.name, owner.namespace)
        }
        _ => {
            let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
            format!("kubectl delete pod {} -n {}", names.join(" "), owner.namespace)
        }
    }
}

fn sidecars(was: &BTreeMap<&PodOwner, Vec<&DumpedPod>>, now: &Dump, comparison: &mut Comparison) {
    for lacking in missing_sidecars(&now.pods) {
        let lacks =
            |pod: &DumpedPod| pod.injections.iter().any(|it| it.injector == lacking.injector && !it.missing.is_empty());
        let old = was.get(&lacking.owner).map(Vec::as_slice).unwrap_or_default();
        if !old.is_empty() && old.iter().all(|pod| lacks(pod)) {
            comparison.remark(format!("{}: {lacking}, as before", lacking.owner));
            continue;
        }
        let was = format!("with {}", lacking.injector);
        let now = lacking.to_string();
        comparison.add(&lacking.owner, DifferenceKind::NotInjected, was, now, Some(lacking.restart));
    }
}

/// What was started again since: of a pod that there was, what it has more; of others, all that they have.
fn restarts(owner: &PodOwner, before: &Dump, old: &[&DumpedPod], current: &[&DumpedPod], comparison: &mut Comparison) {
    let known: BTreeMap<(&str, Option<Timestamp>), u32> =
        old.iter().map(|pod| ((pod.name.as_str(), pod.created_at), pod.restarts)).collect();
    let grown: u32 = current
        .iter()
        .map(|pod| pod.restarts.saturating_sub(known.get(&(pod.name.as_str(), pod.created_at)).copied().unwrap_or(0)))
        .sum();
    if grown > 0 && !is_of_job(owner) {
        let total: u32 = old.iter().map(|pod| pod.restarts).sum();
        let worst = current.iter().max_by_key(|pod| pod.restarts).map_or(owner.name.as_str(), |pod| pod.name.as_str());
        let help = format!("kubectl logs {worst} -n {} --previous", owner.namespace);
        comparison.add(
            owner,
            DifferenceKind::Restarted,
            format!("{total} restarts"),
            format!("{grown} more since {}", before.taken_at),
            Some(help),
        );
    }
}

/// Pods that are elsewhere, though the node that they were on is there, is ready, and runs what it ran.
fn moves(
    owner: &PodOwner,
    before: &Dump,
    now: &Dump,
    old: &[&DumpedPod],
    current: &[&DumpedPod],
    comparison: &mut Comparison,
) {
    if owner.kind == "DaemonSet" || owner.kind == "StaticPod" || is_of_job(owner) {
        return;
    }
    let is_same = |name: &&str| {
        let of = |dump: &Dump| {
            dump.nodes.iter().find(|node| node.name == *name).map(|node| (node.kubelet.clone(), node.unschedulable))
        };
        of(before).is_some() && of(before) == of(now)
    };
    let nodes = |pods: &[&DumpedPod]| {
        let mut nodes: Vec<String> =
            pods.iter().filter(|pod| !pod.has_ended()).filter_map(|pod| pod.node.clone()).collect();
        nodes.sort();
        nodes
    };
    let (was, is) = (nodes(old), nodes(current));
    let left: Vec<&str> = was
        .iter()
        .map(String::as_str)
        .filter(|name| {
            let on = |nodes: &[String]| nodes.iter().filter(|known| known.as_str() == *name).count();
            on(&is) < on(&was)
        })
        .filter(is_same)
        .collect();
    if !left.is_empty() && is.len() >= was.len() {
        comparison.add(
            owner,
            DifferenceKind::Moved,
            format!("on {}", was.join(", ")),
            format!("on {}", is.join(", ")),
            None,
        );
    }
}
