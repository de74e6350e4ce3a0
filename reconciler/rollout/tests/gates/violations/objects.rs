//! Violations of definitions, webhooks, other objects, what was inspected and saved.

use domain::PlanDigest;
use jiff::SignedDuration;
use rollout::{BackupFailure, Machine, MachineSet, Unfinished, WebhookOutcome};

use super::Violation;
use crate::healthy::*;

pub const OBJECTS: &[Violation] = &[
    ("definition gone", |o| o.custom_resource_definitions.clear(), "not found"),
    ("definition deleted", |o| o.custom_resource_definitions[0].deleting = true, "deleted"),
    ("definition not established", |o| o.custom_resource_definitions[0].established = false, "Established"),
    ("names not accepted", |o| o.custom_resource_definitions[0].names_accepted = false, "NamesAccepted"),
    ("a version not served", |o| drop(o.custom_resource_definitions[0].served_versions.remove(0)), "not served"),
    (
        "another storage version",
        |o| o.custom_resource_definitions[0].storage_version = Some("v1beta1".into()),
        "v1beta2 expected",
    ),
    (
        "stored at a dropped version",
        |o| o.custom_resource_definitions[0].stored_versions.push("v1alpha4".into()),
        "v1alpha4",
    ),
    ("stored versions unknown", |o| o.custom_resource_definitions[0].stored_versions.clear(), "storedVersions"),
    (
        "no authority in the conversion",
        |o| o.custom_resource_definitions[0].conversion_authority_injected = Some(false),
        "caBundle",
    ),
    ("webhook not called", |o| o.webhooks.clear(), "not called"),
    ("webhook called before", |o| o.webhooks[0].probed_at = second(-61), "before the commit"),
    (
        "webhook down",
        |o| o.webhooks[0].outcome = WebhookOutcome::Unreachable { message: "no endpoints".into() },
        "no endpoints",
    ),
    (
        "webhook unproven",
        |o| o.webhooks[0].outcome = WebhookOutcome::Unproven { message: "no endpoint".into() },
        "is not proven to answer: no endpoint",
    ),
    ("object not asked for", |o| o.objects.clear(), "was not read"),
    ("object absent", |o| o.objects[0].present = false, "not found"),
    ("object deleted", |o| o.objects[0].deleting = true, "deleted"),
    ("leftover", |o| o.objects[1].present = true, "still there"),
    (
        "an object that is not finished",
        |o| {
            let (field, message) = ("status.readyReplicas".into(), "1, 3 expected".into());
            o.objects[0].unfinished = Some(Unfinished { field, message, failed: false });
        },
        "1, 3 expected",
    ),
    ("a node that vanished", |o| drop(o.nodes.pop()), "is not there any more"),
    (
        "a machine that belongs to nothing",
        |o| {
            let lost = Machine { name: "lost".into(), owner: Some("gone".into()), ..o.machines[0].clone() };
            o.machines.push(Machine { control_plane: false, ..lost });
        },
        "belongs to no control plane, worker group or etcd cluster",
    ),
    (
        "a set of machines that belongs to nothing",
        |o| {
            let lost = MachineSet { name: "lost".into(), machine_deployment: None, ..o.machine_sets[0].clone() };
            o.machine_sets.push(MachineSet { replicas: Some(2), ..lost });
        },
        "belongs to no MachineDeployment, and still has 2 machines",
    ),
    ("workloads not surveyed", |o| o.survey = None, "were not looked at"),
    ("stateful sets not read", |o| drop(o.unread.insert("StatefulSet".into(), "forbidden".into())), "forbidden"),
    (
        "a workload was well before",
        |o| o.survey.as_mut().unwrap().broken.push("StatefulSet shop/orders".into()),
        "StatefulSet shop/orders: is not ready",
    ),
    ("nothing inspected", |o| o.inspection = None, "check nodes: the cluster was not looked at"),
    ("disk full", |o| o.nodes[0].pressures.push("DiskPressure".into()), "check nodes: DiskPressure is True"),
    (
        "certificates about to end",
        |o| o.machines[0].certificates_end = Some(second(3600)),
        "check certificates: API server and etcd certificates: ends at",
    ),
    ("no backup", |o| o.backup = None, "none yet"),
    (
        "another rollout's backup",
        |o| o.backup.as_mut().unwrap().rollout = PlanDigest::of([b"other".as_slice()]).rollout_id(),
        "of rollout",
    ),
    (
        "an old backup",
        |o| o.backup.as_mut().unwrap().taken_at = o.read_at - SignedDuration::from_hours(25),
        "taken 25 h ago, at most 24 h are allowed",
    ),
    (
        "a backup of tomorrow",
        |o| o.backup.as_mut().unwrap().taken_at = o.read_at + SignedDuration::from_hours(24),
        "is yet to come",
    ),
    (
        "no room for a backup",
        |o| {
            o.backup = None;
            let (rollout, message) = (rollout_id(), String::from("no space left"));
            o.backup_failure = Some(BackupFailure { rollout, at: o.read_at, volume_full: true, message });
        },
        "volume full at",
    ),
    ("an empty backup", |o| o.backup.as_mut().unwrap().objects = 0, "no object"),
    ("a backup not read back", |o| o.backup.as_mut().unwrap().read_back = false, "not read back"),
];
