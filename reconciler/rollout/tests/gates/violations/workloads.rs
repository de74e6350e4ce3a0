//! Violations of Deployments and `DaemonSets`.

use rollout::{ConditionStatus, ObjectReference, RunningImage, TakenField};

use super::{Violation, set};
use crate::healthy::*;

pub const WORKLOADS: &[Violation] = &[
    ("deployment gone", |o| o.deployments.clear(), "not found"),
    ("deployment deleted", |o| o.deployments[0].deleting = true, "deleted"),
    ("deployment paused", |o| o.deployments[0].paused = true, "paused"),
    ("deployment stale", |o| o.deployments[0].observed_generation = Some(1), "stale"),
    ("deployment scaled to zero", |o| o.deployments[0].spec_replicas = 0, "zero"),
    ("deployment not updated", |o| o.deployments[0].updated_replicas = Some(1), "updatedReplicas"),
    ("deployment with old pods", |o| o.deployments[0].replicas = Some(3), "status.replicas"),
    ("deployment not ready", |o| o.deployments[0].ready_replicas = None, "readyReplicas"),
    ("deployment not available", |o| o.deployments[0].available_replicas = Some(1), "availableReplicas"),
    (
        "deployment Available False",
        |o| set(&mut o.deployments[0].conditions, "Available", ConditionStatus::False),
        "Available",
    ),
    (
        "deadline exceeded",
        |o| o.deployments[0].conditions.get_mut("Progressing").unwrap().reason = "ProgressDeadlineExceeded".into(),
        "Progress",
    ),
    (
        "another image",
        |o| o.deployments[0].images = vec!["registry.example/manager:v1".into()],
        "is expected and not there",
    ),
    ("a further image", |o| o.deployments[0].images.push("registry.example/sidecar:v1".into()), "not expected"),
    ("an old digest runs", |o| o.deployments[0].running[0].digest = Some(DIGEST.replace('a', "b")), "was not rendered"),
    ("no digest", |o| o.deployments[0].running[0].digest = None, "no digest"),
    ("a pod too few", |o| drop(o.deployments[0].running.pop()), "1 of 2 pods"),
    ("a pod not ready", |o| o.deployments[0].running[0].ready = false, "not ready"),
    (
        "a pod in back-off",
        |o| o.deployments[0].running[0].waiting = Some("ImagePullBackOff".into()),
        "ImagePullBackOff",
    ),
    (
        "an old pod",
        |o| o.deployments[0].running.push(RunningImage { deleting: true, ..running("z") }),
        "still being deleted",
    ),
    (
        "a second writer",
        |o| {
            let object = o.objects[0].reference.clone();
            let (field, manager) = (String::from("spec.replicas"), String::from("kubectl"));
            o.taken.push(TakenField { object, field, added: false, manager, at: None });
        },
        "taken over by `kubectl`",
    ),
    (
        "a patch that somebody added",
        |o| {
            let object = ObjectReference {
                api_version: "kustomize.toolkit.fluxcd.io/v1".into(),
                kind: "Kustomization".into(),
                namespace: Some("flux-system".into()),
                name: "capi".into(),
            };
            let (field, manager) = (String::from("spec.patches"), String::from("kubectl"));
            o.taken.push(TakenField { object, field, added: true, manager, at: None });
        },
        "added by `kubectl`",
    ),
    ("daemon set gone", |o| o.daemon_sets.clear(), "not found"),
    ("daemon set deleted", |o| o.daemon_sets[0].deleting = true, "deleted"),
    ("daemon set stale", |o| o.daemon_sets[0].observed_generation = None, "not set"),
    (
        "daemon set wants none",
        |o| {
            let set = &mut o.daemon_sets[0];
            (set.desired_scheduled, set.current_scheduled, set.updated_scheduled) = (Some(0), Some(0), Some(0));
            (set.ready, set.available) = (Some(0), Some(0));
        },
        "although the cluster has nodes",
    ),
    ("daemon set not counted", |o| o.daemon_sets[0].desired_scheduled = None, "not set"),
    ("daemon set not updated", |o| o.daemon_sets[0].updated_scheduled = Some(1), "updatedNumberScheduled"),
    ("daemon set not scheduled", |o| o.daemon_sets[0].current_scheduled = Some(1), "currentNumberScheduled"),
    ("daemon set not ready", |o| o.daemon_sets[0].ready = None, "numberReady"),
    ("daemon set not available", |o| o.daemon_sets[0].available = Some(1), "numberAvailable"),
    (
        "daemon set with an old digest",
        |o| o.daemon_sets[0].running[1].digest = Some("sha256:0".into()),
        "was not rendered",
    ),
];
