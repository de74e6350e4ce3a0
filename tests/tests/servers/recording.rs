//! Watches a rollout from the side: what the clusters said, and what was committed by then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use policy::StagePolicy;
use rollout::{
    Condition, ConditionStatus, ControlPlaneExpectation, Expectation, GateHistory, KubeletVersions, MachineOrderRules,
    Observation, Reachability, WorkersExpectation, control_plane_gate, workers_gate,
};
use serde_json::{Value, json};
use tests::waiting::until;
use tokio::task::JoinHandle;

use super::machines::{CLUSTER, NAMESPACE, PARTS};
use super::scene::Scene;

/// Time between two readings. A machine is up after a second at the earliest.
const PERIOD: Duration = Duration::from_millis(500);

/// Stages that were committed, and what was seen right after.
#[derive(Clone)]
pub struct Seen {
    pub stages: Vec<String>,
    pub observation: Observation,
    /// The stages when the reading was complete.
    pub stages_after: Vec<String>,
}

impl Seen {
    fn is_read(&self) -> bool {
        self.observation.reachable == Reachability::Reachable && self.observation.unread.is_empty()
    }

    /// Version of every machine of a part, those on their way out included.
    fn versions(&self, part: &str) -> Vec<&str> {
        let group = |owner: &str| {
            let deployments = &self.observation.machine_deployments;
            deployments.iter().find(|known| known.name == owner).and_then(|known| known.group.as_ref())
        };
        let is_of = |machine: &&rollout::Machine| {
            let owner = machine.owner.as_deref().unwrap_or_default();
            if machine.control_plane {
                part == "control-plane"
            } else {
                group(owner).is_some_and(|known| known.as_str() == part)
            }
        };
        let machines = self.observation.machines.iter().filter(is_of);
        machines.map(|machine| machine.spec_version.as_deref().unwrap_or_default()).collect()
    }
}

/// A recording that goes on until it is finished.
pub struct Recorder {
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Recorder {
    pub async fn start(scene: &Scene, version: &str) -> anyhow::Result<Self> {
        let source = ConnectionSource::Kubeconfig { path: Some(scene.server.kubeconfig()), context: None };
        // A reading that hangs would hide what happens meanwhile; on a busy machine others take their time.
        let connection = Connection::open(&source).await?.with_timeout(Duration::from_secs(5));
        let cluster = KubernetesCluster::workload(connection, NAMESPACE, CLUSTER, scene.file("unused"));
        let expectations = expectations(version);
        let repository = scene.repository.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let stages = repository.stages()?;
                let request = ObserveRequest {
                    expectations: expectations.clone(),
                    kustomizations: Vec::new(),
                    deployed: Arc::default(),
                    freshness: Freshness::Fresh,
                    at: Timestamp::now(),
                };
                let observation = cluster.observe(&request).await;
                let stages_after = repository.stages()?;
                kept.lock().unwrap().push(Seen { stages, observation, stages_after });
                tokio::time::sleep(PERIOD).await;
            }
        });
        Ok(Self { seen, task })
    }

    /// Ends when it has seen the end twice in a row, as a gate has to: a busy machine reads more slowly than it rolls out.
    pub async fn finish(self) -> anyhow::Result<Vec<Seen>> {
        let asked = Timestamp::now();
        let is_seen = async || {
            ensure!(!self.task.is_finished(), "the recording has ended by itself");
            let seen = self.seen.lock().unwrap();
            let last: Vec<&Seen> = seen.iter().rev().take(2).collect();
            let is_later = |seen: &&Seen| seen.is_read() && seen.observation.read_at > asked;
            Ok((last.len() == 2 && last.iter().all(is_later)).then_some(()))
        };
        until("the end is recorded", is_seen).await?;
        self.task.abort();
        let seen = self.seen.lock().unwrap().clone();
        Ok(seen)
    }
}

fn expectations(version: &str) -> Vec<Expectation> {
    let mut expectations = vec![Expectation::ControlPlane(control_plane(version))];
    expectations.extend(PARTS[1..].iter().map(|(group, _)| Expectation::Workers(workers(group, version))));
    expectations
}

fn control_plane(version: &str) -> ControlPlaneExpectation {
    ControlPlaneExpectation {
        namespace: NAMESPACE.to_owned(),
        cluster: CLUSTER.to_owned(),
        version: version.to_owned(),
        replicas: Some(3),
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::WhenReported,
        kube_vip: None,
        order: MachineOrderRules::default(),
        gate: policy::ControlPlaneGate::Whole,
    }
}

fn workers(group: &str, version: &str) -> WorkersExpectation {
    WorkersExpectation {
        namespace: NAMESPACE.to_owned(),
        cluster: CLUSTER.to_owned(),
        group: group.parse().unwrap(),
        version: version.to_owned(),
        replicas: None,
        infrastructure_template: None,
        bootstrap_template: None,
        kubelet_versions: KubeletVersions::WhenReported,
    }
}

/// A part's stage is followed by another only when all its machines are new, and precedes every new machine of it.
pub fn assert_commits_follow_machines(seen: &[Seen], new: &str) -> anyhow::Result<()> {
    let mut known = 0;
    for seen in seen.iter().filter(|seen| seen.is_read()) {
        let stage = |part: &str| if part == "control-plane" { part.to_owned() } else { format!("workers/{part}") };
        for (part, count) in PARTS {
            let versions = seen.versions(part);
            let begun = seen.stages.contains(&stage(part));
            let last = seen.stages.last() == Some(&stage(part));
            let may_begin = seen.stages_after.contains(&stage(part));
            ensure!(
                may_begin || versions.iter().all(|version| *version != new),
                "{part} has begun at {:?}",
                seen.stages
            );
            // What is seen right after a commit cannot be older than what opened it.
            if seen.stages.len() > known && begun && !last {
                ensure!(versions == vec![new; count], "{part} is at {versions:?} at {:?}", seen.stages);
            }
        }
        known = seen.stages.len();
    }
    Ok(())
}

/// Every prefix of the recording is judged by the gates of these parts: none passes while an old machine is still to be seen.
pub fn assert_no_prefix_passes_early(seen: &[Seen], new: &str, parts: &[(&str, usize)]) -> anyhow::Result<()> {
    parts.iter().try_for_each(|(part, _)| assert_passes_late(seen, part, new, first_pass(seen, part, new)))
}

/// The first reading with which the gate of a part passes.
pub fn first_pass(seen: &[Seen], part: &str, new: &str) -> Option<usize> {
    let policy = StagePolicy { soak: Duration::ZERO, ..StagePolicy::default() };
    let mut history = GateHistory::default();
    seen.iter().position(|seen| {
        let (verdict, next) = if part == "control-plane" {
            control_plane_gate(&control_plane(new), &seen.observation, &policy, &history)
        } else {
            workers_gate(&workers(part, new), &seen.observation, &policy, &history)
        };
        history = next;
        verdict.is_pass()
    })
}

fn assert_passes_late(seen: &[Seen], part: &str, new: &str, first: Option<usize>) -> anyhow::Result<()> {
    let first = first.with_context(|| format!("the gate of {part} never passes"))?;
    let is_old = |seen: &Seen| seen.is_read() && seen.versions(part).iter().any(|version| *version != new);
    match seen.iter().rposition(is_old) {
        Some(last) if last >= first => {
            bail!("the gate of {part} passes at reading {first}, an old machine is seen at {last}")
        }
        Some(_) => Ok(()),
        None => bail!("{part} was never old"),
    }
}

/// The same through `stepgate gate replay`, on the recording in its own form.
pub fn assert_replay_agrees(scene: &Scene, seen: &[Seen], new: &str) -> anyhow::Result<()> {
    let path = scene.file("recording.jsonl");
    write(&path, seen)?;
    let file = path.display().to_string();
    let output = scene.stepgate(&["gate", "replay", &file, "--kubernetes-version", new, "-o", "json"]).output()?;
    ensure!(output.status.success(), "stepgate gate replay: {}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> =
        String::from_utf8(output.stdout)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(lines.len() == seen.len(), "{} verdicts for {} readings", lines.len(), seen.len());
    for (part, _) in PARTS {
        let passes = |line: &Value| {
            let gates = line.get("gates").and_then(Value::as_object).into_iter().flatten();
            // Recordings name a group by its MachineDeployment, which Cluster API names after cluster and group.
            let gate = |name: &str| name == part || name.starts_with(&format!("workers/{CLUSTER}-{part}-"));
            gates.filter(|(name, _)| gate(name)).any(|(_, gate)| gate.get("verdict") == Some(&json!("pass")))
        };
        assert_passes_late(seen, part, new, lines.iter().position(passes))?;
    }
    Ok(())
}

/// Writes the recording in the form of `fixtures/recordings`.
fn write(path: &Path, seen: &[Seen]) -> anyhow::Result<()> {
    let start = seen.first().map(|seen| seen.observation.read_at).context("nothing was recorded")?;
    let mut text = String::new();
    for Seen { observation, .. } in seen {
        let t = observation.read_at.duration_since(start).as_secs_f64();
        let line = match &observation.reachable {
            Reachability::Unreachable { reason } => json!({"t": t, "err": reason}),
            Reachability::Reachable => sample(t, observation),
        };
        text.push_str(&format!("{line}\n"));
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn sample(t: f64, observation: &Observation) -> Value {
    let control_planes: Vec<Value> = observation.control_planes.iter().map(|known| json!({
        "name": known.name, "cluster": known.cluster, "gen": known.generation, "obs": known.observed_generation, "del": known.deleting,
        "specver": known.spec_version, "specrep": known.spec_replicas, "ver": known.status_version, "replicas": known.replicas,
        "upToDateReplicas": known.up_to_date_replicas, "readyReplicas": known.ready_replicas,
        "availableReplicas": known.available_replicas, "paused": known.paused, "c": conditions(&known.conditions),
    })).collect();
    let deployments: Vec<Value> = observation.machine_deployments.iter().map(|known| json!({
        "name": known.name, "cluster": known.cluster, "gen": known.generation, "obs": known.observed_generation, "del": known.deleting,
        "specver": known.spec_version, "specrep": known.spec_replicas, "replicas": known.replicas,
        "upToDateReplicas": known.up_to_date_replicas, "readyReplicas": known.ready_replicas,
        "availableReplicas": known.available_replicas, "paused": known.paused, "c": conditions(&known.conditions),
    })).collect();
    let clusters: Vec<Value> = observation
        .clusters
        .iter()
        .map(|known| {
            json!({
                "name": known.name, "gen": known.generation, "del": known.deleting, "topver": known.topology_version,
                "paused": known.paused, "c": conditions(&known.conditions),
            })
        })
        .collect();
    let machines: Vec<Value> = observation.machines.iter().map(|known| json!({
        "name": known.name, "cluster": known.cluster, "owner": known.owner, "gen": known.generation, "del": known.deleting,
        "specver": known.spec_version, "phase": known.phase, "node": known.node, "kv": known.kubelet_version,
        "cp": known.control_plane, "c": conditions(&known.conditions),
    })).collect();
    json!({"t": t, "kcp": control_planes, "md": deployments, "cl": clusters, "m": machines})
}

fn conditions(conditions: &BTreeMap<String, Condition>) -> BTreeMap<&str, String> {
    let text = |condition: &Condition| {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        format!("{status}/{}", condition.reason)
    };
    conditions.iter().map(|(name, condition)| (name.as_str(), text(condition))).collect()
}
