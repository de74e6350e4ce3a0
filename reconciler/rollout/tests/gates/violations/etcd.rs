//! Violations of external etcd.

use rollout::{ConditionStatus, EtcdHealth, EtcdMember, EtcdMembership, Machine, Observation, conditions};

use super::Violation;
use crate::healthy::*;

/// What the members of etcd say of themselves.
fn words(observation: &mut Observation) -> &mut Vec<EtcdMember> {
    match observation.etcd_clusters[0].membership.as_mut().unwrap() {
        EtcdMembership::Known { members } => members,
        EtcdMembership::Unknown { reason } => panic!("{reason}"),
    }
}

pub const ETCD: &[Violation] = &[
    ("etcd gone", |o| o.etcd_clusters.clear(), "not found"),
    ("etcd paused", |o| o.etcd_clusters[0].paused = true, "paused"),
    ("etcd deleted", |o| o.etcd_clusters[0].deleting = true, "deleted"),
    ("etcd stale", |o| o.etcd_clusters[0].observed_generation = Some(1), "stale"),
    ("etcd not ready", |o| o.etcd_clusters[0].ready = None, "status.ready"),
    ("a member missing", |o| o.etcd_clusters[0].ready_replicas = Some(2), "status.replicas"),
    ("another member count", |o| o.etcd_clusters[0].spec_replicas = Some(5), "spec.replicas"),
    ("etcd being created", |o| o.etcd_clusters[0].creation_complete = Some(false), "creationComplete"),
    (
        "a member of the old template",
        |o| o.machines[5].infrastructure_template = Some("etcd-template-1".into()),
        "made from",
    ),
    ("a member being deleted", |o| o.machines[6].deleting = true, "Machine eksa-system/etcd-1"),
    ("a member gone", |o| drop(o.machines.pop()), "EtcdadmCluster eksa-system/prod-etcd: machines: 2, 3 expected"),
    ("a member without owner", |o| o.machines[7].owner = None, "EtcdadmCluster eksa-system/prod-etcd: machines: 2"),
    (
        "members that could not be asked",
        |o| {
            let reason = String::from("Secret eksa-system/prod-etcd is not there");
            o.etcd_clusters[0].membership = Some(EtcdMembership::Unknown { reason });
        },
        "its members could not be asked: Secret eksa-system/prod-etcd is not there",
    ),
    ("members that were not asked", |o| o.etcd_clusters[0].membership = None, "its members were not asked yet"),
    ("etcd as before the commit", |o| o.etcd_clusters[0].generation = 1, "as before the commit"),
    (
        "members of the old specification",
        |o| o.etcd_clusters[0].conditions = conditions([("EtcdMachinesSpecUpToDate", ConditionStatus::False)]),
        "EtcdMachinesSpecUpToDate",
    ),
    (
        "a member that is not healthy",
        |o| words(o)[1].health = EtcdHealth::Unhealthy { reason: "alarm NOSPACE".into() },
        "Machine eksa-system/etcd-1: /health: not healthy: alarm NOSPACE",
    ),
    (
        "a member that does not answer",
        |o| words(o)[1].health = EtcdHealth::Down { reason: "connection refused".into() },
        "Machine eksa-system/etcd-1: /health: does not answer",
    ),
    (
        "a member that could not be asked",
        |o| words(o)[1].health = EtcdHealth::Unknown { reason: "no answer within 5 s".into() },
        "Machine eksa-system/etcd-1: /health: not known",
    ),
    ("a member that learns", |o| words(o)[2].learner = true, "still learns"),
    ("a member of the old version", |o| words(o)[0].version = Some("3.5.15".into()), "/version: 3.5.15"),
    ("a member of no known version", |o| words(o)[0].version = None, "/version: not reported"),
    ("a machine that is no member", |o| drop(words(o).pop()), "Machine eksa-system/etcd-2: members: is not among"),
    (
        "a member without a machine",
        |o| words(o).push(EtcdMember { hosts: vec!["192.0.2.9".into()], ..word("etcd-9") }),
        "EtcdadmCluster eksa-system/prod-etcd: members: etcd-9 (etcd-9) at 192.0.2.9 is among the members",
    ),
    (
        "old machines without end",
        |o| {
            for name in ["etcd-3", "etcd-4", "etcd-5", "etcd-6"] {
                o.machines.push(Machine { owner: None, ..member(name) });
                words(o).push(word(name));
            }
        },
        "4 machines without an owner, at most 3",
    ),
    (
        "quorum lost",
        |o| {
            for word in words(o).iter_mut() {
                word.health = EtcdHealth::Unhealthy { reason: "RAFT NO LEADER".into() };
            }
        },
        "has lost its quorum: 0 of 3 members can vote, 2 are needed",
    ),
    (
        "etcd of another template",
        |o| {
            o.etcd_clusters[0].infrastructure_template = Some("etcd-template-1".into());
            o.machines[5..].iter_mut().for_each(|m| m.infrastructure_template = Some("etcd-template-1".into()));
        },
        "spec.infrastructureTemplate.name: etcd-template-1",
    ),
];
