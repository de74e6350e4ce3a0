//! What runs in a cluster, beside what the source branch says of it: versions, images by digest,
//! definitions, the specification, and what Flux
//! applies of all that.
//!
//! What cannot be read is unknown and named: it is neither as the source branch says, nor
//! otherwise.

mod images;
mod specification;

use std::collections::BTreeSet;
use std::fmt;

use bundles::KubernetesVersion;
use jiff::Timestamp;
use rollout::{Expectation, Observation, Reachability, StageName};

use self::images::Workload;

use crate::reconcile::planner::ClusterView;
use cluster::{Cluster, Freshness, ObserveRequest};
use planning::expectation::of_objects;

/// What the comparison of a cluster with the source branch came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Workloads, definitions and machines that were compared.
    pub compared: usize,
    /// Whether any workload of the source branch is there, those of Flux apart, or the cluster's
    /// own specification. Definitions run nothing.
    pub is_installed: bool,
    /// Where they differ.
    pub differences: Vec<RunningDifference>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
    /// Images of which no pod says the digest, as `Kind namespace/name: image`.
    pub without_digest: Vec<String>,
    /// What Flux applies of all this, a line for each Kustomization.
    pub flux: Vec<String>,
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
    let of = |is_flux: bool| {
        // What pulls images before a bump is not there when nothing changes.
        let parts = view.parts.iter().filter(|part| part.stage.name != StageName::CiliumPreflight);
        let parts = parts.filter(|part| (part.stage.name == StageName::Flux) == is_flux);
        let objects: Vec<_> = parts.flat_map(|part| part.objects.iter().cloned()).collect();
        let mut wanted = of_objects(&objects, None);
        wanted.retain(|wanted| {
            matches!(
                wanted,
                Expectation::Deployment { .. }
                    | Expectation::DaemonSet { .. }
                    | Expectation::CustomResourceDefinition { .. }
            )
        });
        wanted
    };
    let (wanted, of_flux) = (of(false), of(true));
    let health = Expectation::ClusterHealthy { cluster: Some(view.cluster.name.clone()) };
    let request = ObserveRequest {
        expectations: wanted.iter().chain(&of_flux).cloned().chain([health]).collect(),
        kustomizations: Vec::new(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: now,
    };
    let observation = cluster.observe(&request).await;
    let mut comparison = Comparison::default();
    if let Reachability::Unreachable { reason } = &observation.reachable {
        specification::compare(view, cluster, &mut comparison).await;
        // Where its management cluster answers, and has nothing of it, there is nobody yet who could answer.
        let is_nowhere = comparison.unknown.is_empty() && comparison.compared > 0 && !comparison.is_installed;
        return if is_nowhere { Ok(comparison) } else { Err(reason.clone()) };
    }
    comparison.unknown.extend(observation.unread.iter().map(|(kind, reason)| format!("{kind}: {reason}")));
    // Flux is there before anything else is: by it nothing is installed yet.
    comparison.components(&of_flux, &observation);
    comparison.is_installed = false;
    comparison.components(&wanted, &observation);
    comparison.machines(view, &observation);
    specification::compare(view, cluster, &mut comparison).await;
    Ok(comparison)
}

impl Comparison {
    fn components(&mut self, wanted: &[Expectation], observation: &Observation) {
        self.workloads(wanted, observation);
        self.definitions(wanted, observation);
    }

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
            let deployments = observation.deployments.iter().map(|it| {
                ("Deployment", &it.namespace, &it.name, Workload { template: &it.images, running: &it.running })
            });
            let daemon_sets = observation.daemon_sets.iter().map(|it| {
                ("DaemonSet", &it.namespace, &it.name, Workload { template: &it.images, running: &it.running })
            });
            let is_it =
                |found: &(&str, &String, &String, Workload<'_>)| (found.0, found.1, found.2) == (kind, namespace, name);
            let found = deployments.chain(daemon_sets).find(is_it).map(|(.., workload)| workload);
            self.is_installed |= found.is_some();
            self.compared += 1;
            let nothing = Workload { template: &[], running: &[] };
            let difference = found.unwrap_or(nothing).compare(images);
            let object = format!("{kind} {namespace}/{name}");
            let without = difference.without_digest.iter().map(|image| format!("{object}: {image}"));
            self.without_digest.extend(without);
            if found.is_none() || !difference.running.is_empty() || !difference.wanted.is_empty() {
                self.differences.push(RunningDifference {
                    object,
                    runs: found.map(|_| listed(&difference.running)),
                    wanted: listed(&difference.wanted),
                });
            }
        }
    }

    /// Versions of definitions, and versions that objects may still be stored at.
    fn definitions(&mut self, wanted: &[Expectation], observation: &Observation) {
        if observation.unread.contains_key("CustomResourceDefinition") {
            return;
        }
        for wanted in wanted {
            let Expectation::CustomResourceDefinition { name, served, storage } = wanted else { continue };
            let found = observation.custom_resource_definitions.iter().find(|found| found.name == *name);
            self.compared += 1;
            let versions = |served: &[String], storage: &str| {
                let served: BTreeSet<&str> = served.iter().map(String::as_str).collect();
                format!("{}, stored at {storage}", served.into_iter().collect::<Vec<_>>().join(", "))
            };
            let runs = found.map(|found| {
                versions(&found.served_versions, found.storage_version.as_deref().unwrap_or("no version"))
            });
            let wanted_versions = versions(served, storage);
            let object = format!("CustomResourceDefinition {name}");
            if runs.as_ref() != Some(&wanted_versions) {
                self.differences.push(RunningDifference { object, runs, wanted: wanted_versions });
                continue;
            }
            let stored = found.map(|found| found.stored_versions.as_slice()).unwrap_or_default();
            let lost: Vec<&str> =
                stored.iter().filter(|version| !served.contains(version)).map(String::as_str).collect();
            if !lost.is_empty() {
                let runs = Some(format!("objects that may be stored at {}", lost.join(", ")));
                self.differences.push(RunningDifference { object, runs, wanted: wanted_versions });
            }
        }
    }

    /// What makes a record of the source branch untrue. Of a cluster on which nothing is installed
    /// yet a record is no word of what runs: there
    /// only machines count.
    pub fn untrue(&self) -> impl Iterator<Item = &RunningDifference> {
        self.differences.iter().filter(|difference| self.is_installed || difference.runs.is_some())
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

/// Whether what an object declares is the version wanted, which may name the minor alone (`1.34`).
fn is_declared(declared: &str, wanted: &str) -> bool {
    wanted.parse().is_ok_and(|wanted: KubernetesVersion| wanted.is_met_by_declared(declared))
}

/// Whether a kubelet that reports this runs the version wanted.
fn is_run_by_kubelet(reported: &str, wanted: &str) -> bool {
    wanted.parse().is_ok_and(|wanted: KubernetesVersion| wanted.is_met_by_kubelet(reported))
}

fn listed(images: &[String]) -> String {
    if images.is_empty() { "no other image".to_owned() } else { images.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_differ_by_served_and_stored_versions() {
        let wanted = |storage: &str| Expectation::CustomResourceDefinition {
            name: "clusters.cluster.x-k8s.io".to_owned(),
            served: vec!["v1beta1".to_owned(), "v1beta2".to_owned()],
            storage: storage.to_owned(),
        };
        let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
        let compare = |storage: &str, observation: &Observation| {
            let mut comparison = Comparison::default();
            comparison.definitions(&[wanted(storage)], observation);
            let untrue: Vec<String> = comparison.untrue().map(ToString::to_string).collect();
            (comparison.differences.len(), untrue)
        };
        assert_eq!(compare("v1beta2", &observation), (1, Vec::new()), "nothing is installed yet");
        observation.custom_resource_definitions.push(rollout::CustomResourceDefinition {
            name: "clusters.cluster.x-k8s.io".to_owned(),
            established: true,
            names_accepted: true,
            deleting: false,
            versions: Vec::new(),
            served_versions: vec!["v1beta2".to_owned(), "v1beta1".to_owned()],
            storage_version: Some("v1beta2".to_owned()),
            stored_versions: Vec::new(),
            conversion_authority_injected: None,
        });
        assert_eq!(compare("v1beta2", &observation), (0, Vec::new()));
        observation.custom_resource_definitions[0].stored_versions = vec!["v1alpha4".to_owned()];
        let (_, untrue) = compare("v1beta2", &observation);
        assert!(
            untrue[0].contains("runs objects that may be stored at v1alpha4, the source branch says"),
            "{untrue:?}"
        );
        let (_, untrue) = compare("v1beta1", &observation);
        assert_eq!(
            untrue,
            [
                "CustomResourceDefinition clusters.cluster.x-k8s.io: runs v1beta1, v1beta2, stored at v1beta2, the source branch says v1beta1, \
              v1beta2, stored at v1beta1"
            ]
        );
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
