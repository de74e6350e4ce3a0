//! The gates on recordings of real and of hand-written rollouts.
//!
//! The real recordings lie in `shared/data/cluster-api/recordings`, beside the repository; where they (or the `xz` program) are absent the test
//! says so and does nothing. Our own lie in `fixtures/recordings`, in the same format, each sample with the verdicts it expects.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use policy::StagePolicy;
use rollout::{
    Condition, ConditionStatus, ControlPlane, ControlPlaneExpectation, GateHistory, GateVerdict, Identification,
    KubeletVersions, Machine, MachineDeployment, MachineOrderRules, MachineTopology, Observation, WorkersExpectation,
    control_plane_gate, workers_gate,
};
use serde_json::Value;

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn count(value: &Value, key: &str) -> Option<u32> {
    value.get(key)?.as_u64().map(|count| u32::try_from(count).unwrap())
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn conditions(value: &Value) -> BTreeMap<String, Condition> {
    let Some(pairs) = value.get("c").and_then(Value::as_object) else { return BTreeMap::new() };
    pairs
        .iter()
        .map(|(name, pair)| {
            let (status, reason) = pair.as_str().unwrap().split_once('/').unwrap();
            let status = match status {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            (
                name.clone(),
                Condition { status, reason: reason.to_owned(), message: String::new(), observed_generation: None },
            )
        })
        .collect()
}

/// A sample as an observation. Cluster, namespace and owners are not recorded; names tell them.
fn decode(sample: &Value) -> Observation {
    let milliseconds = (sample["t"].as_f64().unwrap() * 1000.0).round() as i64;
    let mut observation = Observation::empty(Timestamp::from_millisecond(milliseconds).unwrap());
    observation.identity = Identification::without_server("recording");
    let (namespace, cluster) = ("default".to_owned(), "recorded".to_owned());
    for value in list(sample, "kcp") {
        observation.control_planes.push(ControlPlane {
            namespace: namespace.clone(),
            name: text(value, "name").unwrap(),
            cluster: cluster.clone(),
            generation: value["gen"].as_i64().unwrap(),
            observed_generation: value["obs"].as_i64(),
            paused: flag(value, "paused"),
            deleting: flag(value, "del"),
            spec_version: text(value, "specver").unwrap(),
            status_version: text(value, "ver"),
            spec_replicas: count(value, "specrep"),
            replicas: count(value, "replicas"),
            up_to_date_replicas: count(value, "upToDateReplicas"),
            ready_replicas: count(value, "readyReplicas"),
            available_replicas: count(value, "availableReplicas"),
            conditions: conditions(value),
            ..ControlPlane::default()
        });
    }
    for value in list(sample, "md") {
        observation.machine_deployments.push(MachineDeployment {
            namespace: namespace.clone(),
            name: text(value, "name").unwrap(),
            cluster: cluster.clone(),
            rollout: None,
            group: Some("md-0".parse().unwrap()),
            generation: value["gen"].as_i64().unwrap(),
            observed_generation: value["obs"].as_i64(),
            paused: flag(value, "paused"),
            paused_in_place: false,
            deleting: flag(value, "del"),
            spec_version: text(value, "specver"),
            spec_replicas: count(value, "specrep"),
            replicas: count(value, "replicas"),
            up_to_date_replicas: count(value, "upToDateReplicas"),
            ready_replicas: count(value, "readyReplicas"),
            available_replicas: count(value, "availableReplicas"),
            conditions: conditions(value),
            infrastructure_template: None,
            bootstrap_template: None,
        });
    }
    for value in list(sample, "cl") {
        observation.clusters.push(MachineTopology {
            namespace: namespace.clone(),
            name: cluster.clone(),
            generation: value["gen"].as_i64(),
            paused: flag(value, "paused"),
            deleting: flag(value, "del"),
            lease: None,
            attempts: None,
            topology_version: text(value, "topver"),
            control_plane: None,
            conditions: conditions(value),
        });
    }
    let owners: Vec<String> = observation
        .control_planes
        .iter()
        .map(|known| known.name.clone())
        .chain(observation.machine_deployments.iter().map(|known| known.name.clone()))
        .collect();
    for value in list(sample, "m") {
        let name = text(value, "name").unwrap();
        observation.machines.push(Machine {
            namespace: namespace.clone(),
            cluster: cluster.clone(),
            generation: value["gen"].as_i64(),
            control_plane: flag(value, "cp"),
            owner: owners.iter().find(|owner| name.starts_with(owner.as_str())).cloned(),
            etcd_cluster: None,
            addresses: Vec::new(),
            pool: None,
            uid: None,
            created_at: None,
            rollout: None,
            certificates_end: None,
            deleted_at: None,
            deleting: flag(value, "del"),
            spec_version: text(value, "specver"),
            infrastructure_template: None,
            node: text(value, "node"),
            kubelet_version: text(value, "kv"),
            phase: text(value, "phase"),
            delete_first: None,
            brake: None,
            hardware: None,
            conditions: conditions(value),
            name,
        });
    }
    observation
}

struct Verdicts {
    control_plane: GateVerdict,
    workers: GateVerdict,
}

fn replay(samples: &[Value], version: &str, policy: &StagePolicy) -> Vec<(Observation, Verdicts)> {
    let control_plane = ControlPlaneExpectation {
        namespace: "default".into(),
        cluster: "recorded".into(),
        version: version.into(),
        replicas: None,
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::WhenReported,
        kube_vip: None,
        order: MachineOrderRules::default(),
        gate: policy::ControlPlaneGate::Whole,
    };
    let workers = WorkersExpectation {
        namespace: "default".into(),
        cluster: "recorded".into(),
        group: "md-0".parse().unwrap(),
        version: version.into(),
        replicas: None,
        infrastructure_template: None,
        bootstrap_template: None,
        kubelet_versions: KubeletVersions::WhenReported,
    };
    let (mut control_plane_history, mut workers_history) = (GateHistory::default(), GateHistory::default());
    samples
        .iter()
        .filter(|sample| sample.get("err").is_none())
        .map(|sample| {
            let observation = decode(sample);
            let verdicts;
            (verdicts, control_plane_history) =
                control_plane_gate(&control_plane, &observation, policy, &control_plane_history);
            let control_plane = verdicts;
            let verdicts;
            (verdicts, workers_history) = workers_gate(&workers, &observation, policy, &workers_history);
            (observation, Verdicts { control_plane, workers: verdicts })
        })
        .collect()
}

fn samples(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn above(path: &str) -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(path)).find(|path| path.exists())
}

fn real(name: &str) -> Option<Vec<Value>> {
    let path = skip::shared(&format!("data/cluster-api/recordings/{name}.jsonl.xz"))?;
    if !skip::has_programs(&["xz"]) {
        return None;
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(samples(&String::from_utf8(output.stdout).unwrap()))
}

fn without_soak() -> StagePolicy {
    StagePolicy { soak: std::time::Duration::ZERO, ..StagePolicy::default() }
}

/// The oracle, from the machines alone: all of one kind at the version, none on its way out.
fn old_machine_left(observation: &Observation, control_plane: bool, version: &str) -> bool {
    let mut machines = observation.machines.iter().filter(|machine| machine.control_plane == control_plane).peekable();
    machines.peek().is_none()
        || machines.any(|machine| machine.deleting || machine.spec_version.as_deref() != Some(version))
}

#[test]
fn no_gate_passes_before_the_last_old_machine_is_gone_and_each_passes_once_it_is() {
    // Which gates the recording runs long enough to see pass.
    for (name, control_plane_finishes, workers_finish) in
        [("upgrade", true, false), ("upgrade-md", true, true), ("fast", true, true)]
    {
        let Some(samples) = real(name) else { return };
        let replayed = replay(&samples, "v1.35.0", &without_soak());
        assert!(replayed.len() > 100, "{name}");
        for (observation, verdicts) in &replayed {
            let at = format!("{name} at {}", observation.read_at);
            if verdicts.control_plane.is_pass() {
                assert!(!old_machine_left(observation, true, "v1.35.0"), "{at}");
            }
            if verdicts.workers.is_pass() {
                assert!(!old_machine_left(observation, false, "v1.35.0"), "{at}");
                assert!(!old_machine_left(observation, true, "v1.35.0"), "workers before the control plane, {at}");
            }
        }
        let (_, last) = replayed.last().unwrap();
        assert_eq!(last.control_plane.is_pass(), control_plane_finishes, "{name}: {:?}", last.control_plane);
        assert_eq!(last.workers.is_pass(), workers_finish, "{name}: {:?}", last.workers);
        // Once open, a gate stays open: nothing flaps in an ordinary rollout.
        let passes = |pick: fn(&Verdicts) -> &GateVerdict| {
            replayed.iter().map(|(_, verdicts)| pick(verdicts).is_pass()).collect::<Vec<_>>()
        };
        assert!(passes(|verdicts| &verdicts.control_plane).is_sorted(), "{name}");
        assert!(passes(|verdicts| &verdicts.workers).is_sorted(), "{name}");
        // And it opens soon: within five seconds of the last old machine.
        for (finishes, control_plane) in [(control_plane_finishes, true), (workers_finish, false)] {
            if !finishes {
                continue;
            }
            let last_old =
                replayed.iter().rev().find(|(observation, _)| old_machine_left(observation, control_plane, "v1.35.0"));
            let first_pass = replayed.iter().find(|(_, verdicts)| {
                if control_plane { verdicts.control_plane.is_pass() } else { verdicts.workers.is_pass() }
            });
            let (Some((last_old, _)), Some((first_pass, _))) = (last_old, first_pass) else { continue };
            let seconds = first_pass.read_at.duration_since(last_old.read_at).as_secs();
            assert!(seconds <= 5, "{name}: {seconds} s");
        }
    }
}

#[test]
fn the_old_version_passes_only_while_nothing_rolls() {
    let Some(samples) = real("upgrade") else { return };
    let replayed = replay(&samples, "v1.34.0", &without_soak());
    assert!(replayed.iter().any(|(_, verdicts)| verdicts.control_plane.is_pass()));
    for (observation, verdicts) in &replayed {
        if verdicts.control_plane.is_pass() {
            assert!(!old_machine_left(observation, true, "v1.34.0"));
        }
    }
    assert!(!replayed.last().unwrap().1.control_plane.is_pass());
}

#[test]
fn a_cluster_that_is_being_created_passes_when_it_is_complete() {
    let Some(samples) = real("create") else { return };
    let replayed = replay(&samples, "v1.34.0", &without_soak());
    let first =
        replayed.iter().find(|(_, verdicts)| verdicts.control_plane.is_pass()).expect("the control plane passes");
    assert_eq!(first.0.machines.iter().filter(|machine| machine.control_plane).count(), 3);
    assert!(replayed.last().unwrap().1.workers.is_pass());
}

#[test]
fn every_wait_says_what_for() {
    let Some(samples) = real("fast") else { return };
    for (_, verdicts) in replay(&samples, "v1.35.0", &without_soak()) {
        for verdict in [verdicts.control_plane, verdicts.workers] {
            if let GateVerdict::Wait { reason, .. } = verdict {
                assert!(!reason.message.is_empty());
            }
        }
    }
}

#[test]
fn our_own_recordings_meet_the_verdicts_they_name() {
    let folder = above("fixtures/recordings").expect("fixtures/recordings lies in the repository");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut checked = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")) {
        let samples = samples(&std::fs::read_to_string(file).unwrap());
        for (index, (_, verdicts)) in replay(&samples, "v1.35.0", &without_soak()).iter().enumerate() {
            for (gate, verdict) in [("control-plane", &verdicts.control_plane), ("workers/md-0", &verdicts.workers)] {
                let Some(expected) = samples[index]["expect"].get(gate) else { continue };
                let seen = serde_json::to_value(verdict).unwrap()["verdict"].clone();
                assert_eq!(&seen, expected, "{} line {}, {gate}: {verdict:?}", file.display(), index + 1);
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
}
