//! What a pod belongs to, under a name that stays when pods are made anew.

use std::collections::BTreeMap;

use super::PodOwner;

/// The owner of a pod: by the object that controls it (kind and name), its labels, and the node it runs on.
///
/// A `ReplicaSet` stands for its Deployment, a Job for its `CronJob`, and a pod that a kubelet runs by itself for all of
/// that name on other nodes.
#[must_use]
pub fn owner_of_pod(
    namespace: &str,
    name: &str,
    controller: Option<(&str, &str)>,
    labels: &BTreeMap<String, String>,
    node: Option<&str>,
) -> PodOwner {
    let owner = |kind: &str, name: &str| PodOwner {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let of_template = |set: &str| {
        let hash = labels.get("pod-template-hash")?;
        set.strip_suffix(hash.as_str())?.strip_suffix('-').map(str::to_owned)
    };
    match controller {
        None => owner("Pod", name),
        Some(("ReplicaSet", set)) => match of_template(set) {
            Some(deployment) => owner("Deployment", &deployment),
            None => owner("ReplicaSet", set),
        },
        Some(("Job", job)) => match job.rsplit_once('-').filter(|(_, minute)| is_minute(minute)) {
            Some((cron, _)) => owner("CronJob", cron),
            None => owner("Job", job),
        },
        Some(("Node", of)) => {
            let suffix = format!("-{}", node.unwrap_or(of));
            owner("StaticPod", name.strip_suffix(&suffix).unwrap_or(name))
        }
        Some((kind, name)) => owner(kind, name),
    }
}

/// Whether this is the minute that a `CronJob` appends to the name of its Job.
fn is_minute(text: &str) -> bool {
    text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}
