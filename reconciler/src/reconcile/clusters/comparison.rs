//! What runs in a cluster, beside what the source branch says of it: versions and images.

use std::collections::BTreeSet;
use std::fmt;

use bundles::{ImageReference, KubernetesVersion};
use jiff::Timestamp;
use rollout::{Expectation, Observation, Reachability};

use crate::reconcile::planner::ClusterView;
use cluster::{Cluster, Freshness, ObserveRequest};
use planning::expectation::of_objects;

/// What the comparison of a cluster with the source branch came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Workloads and machines that were compared.
    pub compared: usize,
    /// Where they differ.
    pub differences: Vec<RunningDifference>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// Something that runs otherwise than the source branch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningDifference {
    /// `Kind namespace/name`.
    pub object: String,
    /// What runs; none where nothing does.
    pub runs: Option<String>,
    /// What the source branch says.
    pub wanted: String,
}

impl fmt::Display for RunningDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.runs {
            Some(runs) => write!(formatter, "{}: runs {runs}, the source branch says {}", self.object, self.wanted),
            None => write!(formatter, "{}: is not there, the source branch says {}", self.object, self.wanted),
        }
    }
}

/// Reads what a cluster runs and compares it with what the source branch says.
///
/// # Errors
/// Why the cluster cannot be reached.
pub async fn compare(view: &ClusterView, cluster: &dyn Cluster, now: Timestamp) -> Result<Comparison, String> {
    let objects = view.parts.iter().flat_map(|part| &part.objects);
    let wanted: Vec<Expectation> = of_objects(&objects.cloned().collect::<Vec<_>>(), None)
        .into_iter()
        .filter(|wanted| matches!(wanted, Expectation::Deployment { .. } | Expectation::DaemonSet { .. }))
        .collect();
    let health = Expectation::ClusterHealthy { cluster: Some(view.cluster.name.clone()) };
    let request = ObserveRequest {
        expectations: wanted.iter().cloned().chain([health]).collect(),
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: now,
    };
    let observation = cluster.observe(&request).await;
    if let Reachability::Unreachable { reason } = &observation.reachable {
        return Err(reason.clone());
    }
    let mut comparison = Comparison::default();
    comparison.unread.extend(observation.unread.iter().map(|(kind, reason)| format!("{kind}: {reason}")));
    comparison.workloads(&wanted, &observation);
    comparison.machines(view, &observation);
    Ok(comparison)
}

impl Comparison {
    fn workloads(&mut self, wanted: &[Expectation], observation: &Observation) {
        for wanted in wanted {
            let (kind, namespace, name, images) = match wanted {
                Expectation::Deployment { namespace, name, images } => ("Deployment", namespace, name, images),
                Expectation::DaemonSet { namespace, name, images } => ("DaemonSet", namespace, name, images),
                _ => continue,
            };
            if observation.unread.contains_key(kind) {
                continue;
            }
            let deployments =
                observation.deployments.iter().map(|it| ("Deployment", &it.namespace, &it.name, &it.images));
            let daemon_sets =
                observation.daemon_sets.iter().map(|it| ("DaemonSet", &it.namespace, &it.name, &it.images));
            let found =
                deployments.chain(daemon_sets).find(|found| (found.0, found.1, found.2) == (kind, namespace, name));
            let running = found.map(|(.., images)| images);
            self.compared += 1;
            let (only_running, only_wanted) = apart(running.map(Vec::as_slice).unwrap_or_default(), images);
            if running.is_none() || !only_running.is_empty() || !only_wanted.is_empty() {
                self.differences.push(RunningDifference {
                    object: format!("{kind} {namespace}/{name}"),
                    runs: running.map(|_| listed(&only_running)),
                    wanted: listed(&only_wanted),
                });
            }
        }
    }

    fn machines(&mut self, view: &ClusterView, observation: &Observation) {
        let cluster = view.cluster.as_ref();
        for found in observation.control_planes.iter().filter(|found| found.cluster == cluster.name) {
            let object = format!("{} {}/{}", found.kind, found.namespace, found.name);
            self.version(object, &found.spec_version, &[&cluster.kubernetes_version], is_declared);
        }
        let deployments = observation.machine_deployments.iter().filter(|found| found.cluster == cluster.name);
        let deployments = deployments
            .map(|found| ("MachineDeployment", &found.namespace, &found.name, &found.group, &found.spec_version));
        let pools = observation.machine_pools.iter().filter(|found| found.cluster == cluster.name);
        let pools =
            pools.map(|found| ("MachinePool", &found.namespace, &found.name, &found.group, &found.spec_version));
        for (kind, namespace, name, group, version) in deployments.chain(pools) {
            let group = group.as_ref().map(ToString::to_string);
            let known = cluster.worker_groups.iter().find(|known| Some(&known.name) == group.as_ref());
            let (Some(known), Some(version)) = (known, version) else { continue };
            let object = format!("{kind} {namespace}/{name}");
            self.version(object, version, &[&known.kubernetes_version], is_declared);
        }
        // Which group a node is of is not said on it, and a group that names no version has nodes of any.
        let is_any = cluster.worker_groups.iter().any(overlays::WorkerGroup::keeps_its_version);
        let groups = cluster.worker_groups.iter().filter(|_| !is_any);
        let workers: Vec<&String> = groups.map(|group| &group.kubernetes_version).collect();
        for node in &observation.nodes {
            let wanted = if node.control_plane { vec![&cluster.kubernetes_version] } else { workers.clone() };
            if let Some(version) = node.kubelet_version.as_ref().filter(|_| !wanted.is_empty()) {
                self.version(format!("Node {}", node.name), version, &wanted, is_run_by_kubelet);
            }
        }
    }

    fn version(&mut self, object: String, runs: &str, wanted: &[&String], is_version: fn(&str, &str) -> bool) {
        self.compared += 1;
        if wanted.iter().any(|wanted| is_version(runs, wanted)) {
            return;
        }
        let wanted: BTreeSet<&str> = wanted.iter().map(|wanted| wanted.as_str()).collect();
        let wanted = wanted.into_iter().collect::<Vec<_>>().join(" or ");
        self.differences.push(RunningDifference { object, runs: Some(runs.to_owned()), wanted });
    }
}

/// Images that run and are not wanted, and those that are wanted and do not run.
fn apart<'a>(running: &'a [String], wanted: &'a [String]) -> (Vec<&'a str>, Vec<&'a str>) {
    let missing = |from: &'a [String], others: &[String]| {
        let without = from.iter().filter(|image| !others.iter().any(|other| is_image(image, other)));
        without.map(String::as_str).collect()
    };
    (missing(running, wanted), missing(wanted, running))
}

/// Whether two references are of one image: by digest where both have one, else by repository and tag.
fn is_image(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (Ok(one), Ok(other)) = (one.parse::<ImageReference>(), other.parse::<ImageReference>()) else { return false };
    match (one.digest(), other.digest()) {
        (Some(one), Some(other)) => one == other,
        _ => one.repository() == other.repository() && one.tag() == other.tag(),
    }
}

/// Whether what an object declares is the version wanted, which may name the minor alone (`1.34`).
fn is_declared(declared: &str, wanted: &str) -> bool {
    wanted.parse().is_ok_and(|wanted: KubernetesVersion| wanted.is_met_by_declared(declared))
}

/// Whether a kubelet that reports this runs the version wanted.
fn is_run_by_kubelet(reported: &str, wanted: &str) -> bool {
    wanted.parse().is_ok_and(|wanted: KubernetesVersion| wanted.is_met_by_kubelet(reported))
}

fn listed(images: &[&str]) -> String {
    if images.is_empty() { "no other image".to_owned() } else { images.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_one_by_digest_or_else_by_tag() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        for (left, right, same) in [
            ("example.com/a:v1", "example.com/a:v1", true),
            ("example.com/a:v1", "example.com/a:v2", false),
            ("example.com/a:v1", "example.com/b:v1", false),
            (&format!("example.com/a:v1@sha256:{one}"), "example.com/a:v1", true),
            (&format!("example.com/a:v1@sha256:{one}"), &format!("example.com/a:v1@sha256:{two}"), false),
            (&format!("example.com/a:v1@sha256:{one}"), &format!("mirror.local/a:v1-1@sha256:{one}"), true),
            ("not an image", "example.com/a:v1", false),
        ] {
            assert_eq!(is_image(left, right), same, "{left} {right}");
        }
    }

    #[test]
    fn a_minor_is_every_patch_of_it() {
        for (runs, wanted, same) in [
            ("v1.34.1-eks-1-34-9", "1.34", true),
            ("v1.34.1", "v1.34.1", true),
            ("v1.34.1+rke2", "v1.34.1", true),
            ("v1.34.10", "v1.34.1", false),
            ("v1.3.1", "1.34", false),
            ("v1.35.0", "1.34", false),
        ] {
            assert_eq!(is_declared(runs, wanted), same, "{runs} {wanted}");
            assert_eq!(is_run_by_kubelet(runs, wanted), same, "{runs} {wanted}");
        }
    }
}
