//! What watches tell of the running gate's workloads: what there is to wait for, and that a reading is worth its cost.

use jiff::Timestamp;

use crate::expectation::Expectation;
use crate::observation::{DaemonSet, Deployment, Observation, WorkloadObservation};
use crate::stage::StageId;
use crate::verdict::Reason;
use crate::world::World;

use super::flux_precheck::taking_first_reads;

/// What watches tell of the running gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvidence {
    /// Its workloads are not there yet: what the stage waits for, and until when at the latest.
    Waits(StageId, Reason, Option<Timestamp>),
    /// It holds, with what was read of everything else before: the first of its reads. Its time is that of the older part.
    Holds(Box<Observation>),
}

/// What the running gate is at, by a reading of everything from before ([`running_gate`](super::running_gate)) and by what was told of that gate's
/// workloads since. None where that does not say it: where something else is missing, and where it has failed.
///
/// Watches may be behind. So it is no more than a reason to wait, for a while, or the first of the reads in which a gate holds; the one
/// that it passes on is a fresh one of all that it expects.
pub(super) fn told_of_gate(
    world: &World,
    rest: &Observation,
    told: &WorkloadObservation,
    now: Timestamp,
) -> Option<WatchEvidence> {
    let mut gate = taking_first_reads(world)?;
    let read = with_workloads(rest, told);
    if gate.as_gate().held(&read, now).is_some() {
        return Some(WatchEvidence::Holds(Box::new(read)));
    }
    // What could not be read before may well be there to be read now.
    if !gate.as_gate().is_trustworthy(&read, now) || !read.unread.is_empty() {
        return None;
    }
    gate.expectations.retain(is_told);
    let (stage, reason, until) = gate.waits(&Observation { read_at: now, ..read }, now)?;
    Some(WatchEvidence::Waits(stage, reason, until))
}

/// Whether watches have told what this expects: of workloads, and of Flux, which ties the gate to its commit.
fn is_told(expectation: &Expectation) -> bool {
    matches!(expectation, Expectation::Deployment { .. } | Expectation::DaemonSet { .. } | Expectation::Flux { .. })
}

/// A reading of everything, with these workloads as they are by now.
fn with_workloads(whole: &Observation, told: &WorkloadObservation) -> Observation {
    let mut read = whole.clone();
    let deployment = |known: &Deployment| (known.namespace.clone(), known.name.clone());
    read.deployments.retain(|known| told.deployments.iter().all(|told| deployment(told) != deployment(known)));
    read.deployments.extend(told.deployments.iter().cloned());
    let daemon_set = |known: &DaemonSet| (known.namespace.clone(), known.name.clone());
    read.daemon_sets.retain(|known| told.daemon_sets.iter().all(|told| daemon_set(told) != daemon_set(known)));
    read.daemon_sets.extend(told.daemon_sets.iter().cloned());
    read
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::super::confirming::running_gate;
    use super::*;
    use crate::effect::Effect;
    use crate::observation::{Condition, ConditionStatus, Reachability};
    use crate::step::harness::RolloutHarness;
    use crate::step::{record, step};

    /// The second of three stages is committed and Flux has applied it; everything was read while its Deployment was not there yet.
    fn rolling_out() -> (RolloutHarness, World, Observation) {
        let mut laboratory = RolloutHarness::new(&[("cert-manager", 1, 2), ("capi", 1, 2), ("eks-a", 1, 2)]);
        laboratory.policy.soak = Duration::ZERO;
        laboratory.until("commit capi 2");
        laboratory.now += SignedDuration::from_secs(6);
        let mut whole = laboratory.read();
        whole.deployments[1].available_replicas = Some(0);
        laboratory.now += SignedDuration::from_secs(1);
        let world = laboratory.world();
        let (_, rest) = running_gate(&world, &whole, &laboratory.read().flux, laboratory.now).unwrap();
        (laboratory, world, rest)
    }

    /// What is told of the stage's Deployment, after this change.
    fn told(laboratory: &RolloutHarness, change: impl FnOnce(&mut Deployment)) -> WorkloadObservation {
        let mut deployments = laboratory.read().deployments;
        deployments.retain(|known| known.name == "capi");
        change(&mut deployments[0]);
        WorkloadObservation { deployments, ..WorkloadObservation::default() }
    }

    #[test]
    fn what_is_told_of_workloads_shows_what_a_gate_waits_for() {
        let (laboratory, world, rest) = rolling_out();
        type Change = fn(&mut Deployment);
        let changes: [(Change, &str); 3] = [
            (|known| known.available_replicas = Some(0), "status.availableReplicas: 0"),
            (|known| known.observed_generation = Some(0), "its status is stale"),
            (|known| known.running[0].waiting = Some("ImagePullBackOff".to_owned()), "ImagePullBackOff"),
        ];
        for (change, expected) in changes {
            let told = told_of_gate(&world, &rest, &told(&laboratory, change), laboratory.now);
            let Some(WatchEvidence::Waits(stage, reason, until)) = told else { panic!("{told:?}") };
            assert!(reason.to_string().contains(expected), "{reason}");
            let committed = laboratory.deploy.commits().last().unwrap().committed_at;
            assert_eq!((stage.to_string().as_str(), until), ("capi", Some(committed + SignedDuration::from_secs(600))));
        }
    }

    #[test]
    fn what_is_told_is_one_read_and_the_gate_passes_on_a_fresh_one() {
        let (mut laboratory, mut world, rest) = rolling_out();
        let decide = |world: &mut World, read: Observation, now: Timestamp| {
            world.observation = Some(Arc::new(read));
            world.history = record(world, now);
            step(world, now)
        };
        let mut at = laboratory.now;
        // However often it is told.
        for _ in 0..3 {
            let Some(WatchEvidence::Holds(read)) = told_of_gate(&world, &rest, &told(&laboratory, |_| ()), at) else {
                panic!()
            };
            assert_eq!(read.read_at, rest.read_at);
            world.rest = Some(Arc::new(rest.clone()));
            let effects = decide(&mut world, *read, at);
            assert!(matches!(effects.as_slice(), [Effect::Observe { .. }, Effect::Wait { .. }]), "{effects:?}");
            at += SignedDuration::from_millis(5);
        }
        laboratory.now = at;
        let mut broken = laboratory.read();
        broken.deployments[1].available_replicas = Some(0);
        let mut before = world.clone();
        assert!(!decide(&mut world, broken, at).iter().any(|effect| matches!(effect, Effect::Commit(_))));
        let effects = decide(&mut before, laboratory.read(), at);
        assert!(matches!(effects.as_slice(), [Effect::Commit(commit)] if commit.stage.to_string() == "eks-a"));
    }

    #[test]
    fn nothing_is_told_where_a_reading_has_to_say_it() {
        let (mut laboratory, world, rest) = rolling_out();
        let failed = told(&laboratory, |known| {
            let reason = "ProgressDeadlineExceeded".to_owned();
            let condition =
                Condition { status: ConditionStatus::False, reason, message: String::new(), observed_generation: None };
            known.conditions.insert("Progressing".to_owned(), condition);
        });
        let rolling = told(&laboratory, |known| known.available_replicas = Some(0));
        let done = told(&laboratory, |_| ());
        assert_eq!(told_of_gate(&world, &rest, &failed, laboratory.now), None);
        // After the stage's deadline.
        assert_eq!(told_of_gate(&world, &rest, &rolling, laboratory.now + SignedDuration::from_secs(600)), None);
        // Where the cluster was away, it may be there by now.
        let away = Reachability::Unreachable { reason: "connection refused".to_owned() };
        let away = Observation { reachable: away, ..rest.clone() };
        let mut unread = rest.clone();
        unread.unread.insert("Deployment".to_owned(), "forbidden".to_owned());
        assert_eq!([away, unread].map(|rest| told_of_gate(&world, &rest, &rolling, laboratory.now)), [None, None]);
        // What was missing and is no workload may be there by now too.
        let mut missing = world;
        let definition = Expectation::CustomResourceDefinition {
            name: "clusters.cluster.x-k8s.io".to_owned(),
            served: Vec::new(),
            storage: "v1".to_owned(),
        };
        for stage in &mut Arc::make_mut(&mut missing.plan).stages {
            stage.expectations.push(definition.clone());
        }
        assert_eq!(told_of_gate(&missing, &rest, &done, laboratory.now), None);
        // Where there is a soak, it would begin too early.
        laboratory.policy.soak = Duration::from_secs(10);
        assert_eq!(told_of_gate(&laboratory.world(), &rest, &done, laboratory.now), None);
    }
}
