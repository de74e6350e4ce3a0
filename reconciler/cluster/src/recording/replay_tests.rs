use std::path::{Path, PathBuf};

use super::*;
use crate::recording::{Samples, read_dump};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(name)
}

fn replay(path: &Path, replay: GateReplay) -> Vec<(Sample, SampleVerdicts)> {
    let mut replay = replay;
    Samples::open(path)
        .unwrap()
        .map(|sample| {
            let sample = sample.unwrap();
            let verdicts = replay.judge(&sample);
            (sample, verdicts)
        })
        .collect()
}

/// One letter a sample: `p`ass, `w`ait, `f`ail, `.` for no such gate.
fn letters(samples: &[(Sample, SampleVerdicts)], gate: &str) -> String {
    let letter = |verdicts: &SampleVerdicts| match verdicts.gates.get(gate).map(|gate| gate.verdict) {
        Some(GateState::Pass) => 'p',
        Some(GateState::Wait) => 'w',
        Some(GateState::Fail) => 'f',
        None => '.',
    };
    samples.iter().map(|(_, verdicts)| letter(verdicts)).collect()
}

#[test]
fn gates_pass_in_the_second_sample_in_which_everything_holds() {
    let samples = replay(&fixture("upgrade.jsonl"), GateReplay::new("v1.34.1"));
    assert_eq!(letters(&samples, "control-plane"), "wwwwwwwwpppppppp");
    assert_eq!(letters(&samples, "workers/blue-pool"), "wwwwwwwwwwwwwppp");
}

#[test]
fn a_version_is_compared_as_far_as_it_is_known() {
    for (version, expected) in [("1.34", "p"), ("v1.34.1", "p"), ("1.34.2", "w"), ("v1.33.4", "w"), ("latest", "f")] {
        let samples = replay(&fixture("upgrade.jsonl"), GateReplay::new(version));
        assert!(letters(&samples, "control-plane").ends_with(expected), "{version}");
    }
}

#[test]
fn the_soak_counts_from_the_first_healthy_sample() {
    let samples = replay(&fixture("upgrade.jsonl"), GateReplay::new("1.34").soak(Duration::from_secs(5)));
    assert_eq!(letters(&samples, "control-plane"), "wwwwwwwwwwwwwppp");
}

#[test]
fn a_failed_sample_is_an_unreachable_cluster_and_breaks_the_streak() {
    let samples = replay(&fixture("failed-samples.jsonl"), GateReplay::new("1.34"));
    assert_eq!(letters(&samples, "control-plane"), "wwwwpwwp");
    let (_, failed) = &samples[2];
    assert!(failed.gates["control-plane"].reason.contains("connection refused"), "{failed:?}");
    let (_, failed) = &samples[5];
    assert!(failed.gates["workers/blue-pool"].reason.contains("request timed out"), "{failed:?}");
}

#[test]
fn a_paused_control_plane_waits_however_healthy_its_counts_are() {
    let samples = replay(&fixture("paused.jsonl"), GateReplay::new("1.34"));
    assert_eq!(letters(&samples, "control-plane"), "www");
    assert!(samples[2].1.gates["control-plane"].reason.contains("paused"), "{:?}", samples[2].1);
}

#[test]
fn clusters_of_one_recording_are_judged_together_or_one_alone() {
    let path = fixture("two-clusters.jsonl");
    let together = replay(&path, GateReplay::new("1.34"));
    assert_eq!(letters(&together, "control-plane"), "wwwwwwwwwwwwwwpppppppp");
    assert!(together[9].1.gates["control-plane"].reason.starts_with("cluster green: "), "{:?}", together[9].1);
    let blue = replay(&path, GateReplay::new("1.34").cluster(Some("blue".into())));
    assert_eq!(letters(&blue, "control-plane"), "wwwwwwwwpppppppppppppp");
    assert_eq!(letters(&blue, "workers/green-pool"), "......................");
    let green = replay(&path, GateReplay::new("1.34").cluster(Some("green".into())));
    assert_eq!(letters(&green, "control-plane"), "wwwwwwwwwwwwwwpppppppp");
}

#[test]
fn a_cluster_that_is_not_there_is_waited_for() {
    let mut replay = GateReplay::new("1.34").cluster(Some("red".into()));
    let sample = Samples::open(&fixture("upgrade.jsonl")).unwrap().next().unwrap().unwrap();
    assert_eq!(replay.judge(&sample).gates["control-plane"].verdict, GateState::Wait);
    assert_eq!(replay.clusters().into_iter().collect::<Vec<_>>(), ["blue"]);
}

#[test]
fn dumped_objects_are_judged_as_one_moment() {
    let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/clusters").join(name);
    for (name, version, gates) in [
        ("settled", "v1.34.1", [("control-plane", "pass"), ("workers/md-0", "pass")]),
        ("settled", "v1.35", [("control-plane", "wait"), ("workers/md-0", "wait")]),
        ("rolling", "v1.34.1", [("control-plane", "pass"), ("workers/md-0", "wait")]),
    ] {
        let verdicts = GateReplay::new(version).judge_dump(&read_dump(&folder(name)).unwrap());
        let seen: Vec<_> = verdicts.gates.iter().map(|(name, gate)| (name.as_str(), gate.verdict.as_str())).collect();
        assert_eq!(seen, gates, "{name} {version}: {verdicts:#?}");
    }
}

/// The recordings of real rollouts, where they are at hand.
fn shared(name: &str) -> Option<PathBuf> {
    skip::shared(&format!("data/cluster-api/recordings/{name}"))
}

/// No gate passes while a machine of its kind is old or on its way out, and each passes once none is.
#[test]
fn on_real_rollouts_no_gate_passes_before_the_last_old_machine_is_gone() {
    for (name, control_plane, workers) in [
        ("create.jsonl.xz", false, false),
        ("upgrade.jsonl.xz", true, false),
        ("upgrade-md.jsonl.xz", true, true),
        ("fast.jsonl.xz", true, true),
    ] {
        let Some(path) = shared(name) else { return };
        let samples = replay(&path, GateReplay::new("v1.35.0"));
        let mut passed = BTreeSet::new();
        for (sample, verdicts) in &samples {
            for (gate, verdict) in verdicts.gates.iter().filter(|(_, gate)| gate.verdict == GateState::Pass) {
                passed.insert(gate.clone());
                let of_gate = |control_plane: bool| control_plane == (gate == "control-plane");
                for machine in sample.machines.iter().filter(|machine| of_gate(machine.control_plane == Some(true))) {
                    let current = machine.version.as_deref() == Some("v1.35.0") && !machine.deleting;
                    assert!(current, "{name} t={}: {gate} passes with {}: {verdict:?}", sample.t, machine.name);
                }
            }
        }
        let last = &samples.last().unwrap().1.gates;
        assert_eq!(last["control-plane"].verdict == GateState::Pass, control_plane, "{name}: {last:#?}");
        let group = last.keys().find(|gate| gate.starts_with("workers/")).unwrap();
        assert_eq!(last[group].verdict == GateState::Pass, workers, "{name}: {last:#?}");
        assert_eq!(passed.contains("control-plane"), control_plane, "{name}");
        assert_eq!(passed.contains(group), workers, "{name}");
    }
}

/// Once a gate passes in these undisturbed rollouts it stays passed: it neither flickers nor passes late.
#[test]
fn on_real_rollouts_gates_pass_soon_and_for_good() {
    for (name, gate, earliest, latest) in [
        ("upgrade.jsonl.xz", "control-plane", 100.0, 120.0),
        ("upgrade-md.jsonl.xz", "workers/c1-md-0-l6kf6", 13.0, 16.0),
    ] {
        let Some(path) = shared(name) else { return };
        let samples = replay(&path, GateReplay::new("1.35"));
        let letters = letters(&samples, gate);
        let first = letters.find('p').unwrap();
        assert!(letters[first..].bytes().all(|letter| letter == b'p'), "{name}: {letters}");
        let t = samples[first].0.t;
        assert!((earliest..=latest).contains(&t), "{name}: {gate} first passes at {t}");
    }
}

/// Every field of a sample, one at a time set to null: its name, and whether the gate passes without it in two reads.
fn without_each_field(sample: &serde_json::Value, gate: &str) -> Vec<(String, bool)> {
    let mut paths = Vec::new();
    find_leaves(sample, &mut String::new(), &mut paths);
    let judge = |path: &String| {
        let mut damaged = sample.clone();
        *damaged.pointer_mut(path)? = serde_json::Value::Null;
        let mut damaged: Sample = serde_json::from_value(damaged).ok()?;
        let mut replay = GateReplay::new("v1.34.1");
        replay.judge(&damaged);
        damaged.t += 1.0;
        let passes = replay.judge(&damaged).gates.get(gate).is_some_and(|gate| gate.verdict == GateState::Pass);
        Some((path.rsplit('/').next()?.to_owned(), passes))
    };
    paths.iter().filter_map(judge).collect()
}

fn find_leaves(value: &serde_json::Value, path: &mut String, paths: &mut Vec<String>) {
    let children: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        serde_json::Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        serde_json::Value::Null => Vec::new(),
        _ => {
            paths.push(path.clone());
            Vec::new()
        }
    };
    for (key, child) in children {
        let length = path.len();
        path.push('/');
        path.push_str(&key);
        find_leaves(child, path, paths);
        path.truncate(length);
    }
}

fn line(index: usize) -> serde_json::Value {
    let text = std::fs::read_to_string(fixture("upgrade.jsonl")).unwrap();
    serde_json::from_str(text.lines().nth(index).unwrap()).unwrap()
}

/// What gates look at is written down here: when any of it is lost on a finished upgrade, a gate waits.
#[test]
fn a_gate_waits_when_a_field_that_it_needs_is_lost() {
    for (gate, expected) in [
        (
            "control-plane",
            "Available CertificatesAvailable ControlPlaneComponentsHealthy Deleting EtcdClusterHealthy MachinesReady \
             MachinesUpToDate NodeHealthy Ready Remediating RollingOut ScalingDown ScalingUp TopologyReconciled UpToDate availableReplicas \
             gen node obs readyReplicas replicas specrep specver upToDateReplicas ver",
        ),
        (
            "workers/blue-pool",
            "Available MachinesReady MachinesUpToDate NodeHealthy Ready Remediating RollingOut ScalingDown ScalingUp TopologyReconciled UpToDate \
             availableReplicas gen node obs readyReplicas replicas specrep specver upToDateReplicas",
        ),
    ] {
        let needed: BTreeSet<String> = without_each_field(&line(15), gate)
            .into_iter()
            .filter(|(_, passes)| !passes)
            .map(|(field, _)| field)
            .collect();
        assert_eq!(needed.into_iter().collect::<Vec<_>>().join(" "), expected, "{gate}");
    }
}

/// A field that is lost opens no gate, in any sample in which the upgrade is not finished.
#[test]
fn a_lost_field_opens_no_gate() {
    for index in 0..12 {
        let gates: &[&str] = if index < 7 { &["control-plane", "workers/blue-pool"] } else { &["workers/blue-pool"] };
        for gate in gates {
            let opened: Vec<_> =
                without_each_field(&line(index), gate).into_iter().filter(|(_, passes)| *passes).collect();
            assert!(opened.is_empty(), "sample {index}: {gate} passes without {opened:?}");
        }
    }
}
