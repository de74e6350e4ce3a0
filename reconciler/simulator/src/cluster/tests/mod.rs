//! A small cluster for the tests of the simulation, and what is read of it as rows of a table.

mod faults;
mod machines;
mod order;
mod workloads;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rollout::{Condition, ConditionStatus, Reachability, WebhookOutcome};

pub(super) use super::*;
use crate::{
    desired::{
        DesiredDefinition, DesiredKustomization, DesiredMachines, DesiredObject, DesiredState, DesiredVersion,
        DesiredWebhook, DesiredWorkload,
    },
    shape::{MachineStrategy, WorkerGroup},
};

pub(super) const START: &str = "2026-01-01T00:00:00Z";

pub(super) fn after(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

pub(super) fn shape() -> ClusterShape {
    ClusterShape {
        name: "prod".parse().unwrap(),
        namespace: "eksa-system".to_owned(),
        kubernetes_version: "v1.34.0".to_owned(),
        control_plane_replicas: 3,
        worker_groups: vec![WorkerGroup { name: "md-0".parse().unwrap(), replicas: 2 }],
        etcd: Etcd::Stacked,
        strategy: MachineStrategy::Rolling,
    }
}

pub(super) fn image(name: &str, version: u32) -> String {
    format!("registry.example/{name}:v{version}@sha256:{version:064x}")
}

pub(super) fn workload(name: &str, replicas: u32, version: u32) -> DesiredWorkload {
    DesiredWorkload {
        namespace: "system".to_owned(),
        name: name.to_owned(),
        replicas,
        images: vec![image(name, version)],
        template: String::new(),
    }
}

pub(super) fn machines(name: &str, replicas: u32, version: &str) -> DesiredMachines {
    DesiredMachines {
        namespace: "eksa-system".to_owned(),
        name: name.to_owned(),
        replicas,
        version: version.to_owned(),
        template: format!("{name}-{version}"),
        bootstrap_template: None,
    }
}

/// Versions of the parts: controller, agent, control plane, workers, definition.
#[derive(Clone, Copy)]
pub(super) struct Versions {
    pub(super) controller: u32,
    pub(super) agent: u32,
    pub(super) control_plane: &'static str,
    pub(super) workers: &'static str,
    pub(super) stored: &'static str,
}

pub(super) const OLD: Versions =
    Versions { controller: 1, agent: 1, control_plane: "v1.34.0", workers: "v1.34.0", stored: "v1beta1" };

pub(super) fn desired(versions: Versions) -> Arc<DesiredState> {
    let kustomization = |name: &str, depends_on: &[&str], objects| DesiredKustomization {
        namespace: "flux-system".to_owned(),
        name: name.to_owned(),
        path: format!("clusters/prod/{name}"),
        depends_on: depends_on.iter().map(|&name| name.to_owned()).collect(),
        wait: false,
        objects,
    };
    let version = |name: &str| DesiredVersion { name: name.to_owned(), served: true, storage: name == versions.stored };
    let stored = if versions.stored == "v1beta2-only" {
        vec![version("v1beta2")]
    } else {
        vec![version("v1beta1"), version("v1beta2")]
    };
    Arc::new(DesiredState {
        kustomizations: vec![
            kustomization(
                "capi",
                &[],
                vec![
                    DesiredObject::CustomResourceDefinition(DesiredDefinition {
                        name: "machines.cluster.x-k8s.io".to_owned(),
                        versions: stored,
                    }),
                    DesiredObject::Deployment(workload("controller", 2, versions.controller)),
                    DesiredObject::Webhook(DesiredWebhook {
                        kind: "ValidatingWebhookConfiguration".to_owned(),
                        name: "validation".to_owned(),
                        deployment: Some(("system".to_owned(), "controller".to_owned())),
                    }),
                ],
            ),
            kustomization("cilium", &[], vec![DesiredObject::DaemonSet(workload("agent", 0, versions.agent))]),
            kustomization(
                "cluster",
                &["capi"],
                vec![
                    DesiredObject::ControlPlane {
                        machines: machines("prod", 3, versions.control_plane),
                        kube_vip: Some(image("kube-vip", 1)),
                    },
                    DesiredObject::Workers {
                        group: "md-0".parse().unwrap(),
                        machines: machines("prod-md-0", 2, versions.workers),
                    },
                ],
            ),
        ],
    })
}

pub(super) fn commit(number: u32, stage: Option<&str>, versions: Versions) -> DeployedCommit {
    DeployedCommit {
        id: format!("{number:040x}").parse().unwrap(),
        stage: stage.map(|stage| stage.parse().unwrap()),
        desired: desired(versions),
    }
}

/// A cluster on which version one of everything runs since long, at the start.
pub(super) fn cluster(seed: u64) -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(&shape(), seed, after(-600));
    cluster.install(&commit(1, None, OLD), after(-600));
    cluster.advance(after(0));
    cluster
}

pub(super) fn letter(conditions: &BTreeMap<String, Condition>, name: &str) -> char {
    conditions.get(name).map_or('-', |condition| match condition.status {
        ConditionStatus::True => 'T',
        ConditionStatus::False => 'F',
        ConditionStatus::Unknown => 'U',
    })
}

/// Every row seen after each event of the next `seconds`, repetitions left out.
pub(super) fn rows(cluster: &mut SimulatedCluster, seconds: i64, row: fn(&Observation) -> String) -> Vec<String> {
    let end = cluster.now() + SignedDuration::from_secs(seconds);
    let mut rows: Vec<String> = vec![row(&cluster.observe_afresh(cluster.now()))];
    while let Some(next) = cluster.next_event().filter(|next| *next <= end) {
        let row = row(&cluster.observe_afresh(next));
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }
    rows
}

/// Whether `wanted` appear in `rows`, in this order, other rows between them allowed.
pub(super) fn contains_in_order(rows: &[String], wanted: &[&str]) -> bool {
    let mut rest = rows.iter();
    wanted.iter().all(|wanted| rest.any(|row| row == wanted))
}

/// Generation/observed, spec, total, updated, ready, and the running containers as `version` or `version!` (not ready) or
/// `version-` (being deleted).
pub(super) fn controller_row(observation: &Observation) -> String {
    let deployment = &observation.deployments[0];
    let running: Vec<String> = deployment
        .running
        .iter()
        .map(|running| {
            let version = running.image.split(['v', '@']).nth(1).unwrap();
            format!(
                "{version}{}",
                if running.deleting {
                    "-"
                } else if running.ready {
                    ""
                } else {
                    "!"
                }
            )
        })
        .collect();
    format!(
        "{}/{} {} {} {} {}",
        deployment.generation,
        deployment.observed_generation.unwrap(),
        deployment.replicas.unwrap(),
        deployment.updated_replicas.unwrap(),
        deployment.ready_replicas.unwrap(),
        running.join(",")
    )
}
