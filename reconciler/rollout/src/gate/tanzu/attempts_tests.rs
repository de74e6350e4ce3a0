use std::time::Duration;

use super::*;
use crate::observation::{ControlPlane, MachineDeployment, MachineTopology};
use crate::verdict::GateVerdict;

const LIMIT: i64 = 900;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn machine(name: &str, created: i64, is_up: bool) -> Machine {
    Machine {
        namespace: "fleet".into(),
        name: name.into(),
        uid: Some(format!("uid-{name}")),
        created_at: Some(at(created)),
        cluster: "depot".into(),
        control_plane: true,
        owner: Some("depot-control-plane".into()),
        spec_version: Some("v1.35.0".into()),
        infrastructure_template: Some("new".into()),
        node: is_up.then(|| format!("node-{name}")),
        ..Machine::default()
    }
}

/// A control plane of these machines, with what stands on the Cluster.
fn reading(second: i64, machines: Vec<Machine>, attempts: Option<Attempts>) -> Observation {
    let mut observation = Observation::empty(at(second));
    observation.control_planes.push(ControlPlane {
        namespace: "fleet".into(),
        name: "depot-control-plane".into(),
        cluster: "depot".into(),
        spec_version: "v1.35.0".into(),
        infrastructure_template: Some("new".into()),
        ..ControlPlane::default()
    });
    let (namespace, name) = ("fleet".into(), "depot".into());
    observation.clusters.push(MachineTopology { namespace, name, attempts, ..MachineTopology::default() });
    observation.machines = machines;
    observation
}

struct Stage {
    expectation: AttemptsExpectation,
    rollout: RolloutId,
    stage: StageId,
}

impl Stage {
    fn new() -> Self {
        Self {
            expectation: AttemptsExpectation {
                namespace: "fleet".into(),
                cluster: "depot".into(),
                part: AttemptedPart::ControlPlane,
                limit: Duration::from_secs(LIMIT.unsigned_abs()),
                retried_after: Vec::new(),
            },
            rollout: "0123456789ab".parse().unwrap(),
            stage: "control-plane".parse().unwrap(),
        }
    }

    fn trying(&self) -> Trying<'_> {
        let Self { expectation, rollout, stage } = self;
        Trying { cluster: "depot", expectation, rollout, stage, since: Some(at(0)) }
    }

    fn act(&self, observation: &Observation) -> Option<(Attempts, Vec<String>)> {
        match act(self.trying(), observation)? {
            ClusterAct::GiveUp { attempts, machines, .. } => {
                Some((attempts, machines.into_iter().map(|machine| machine.name).collect()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn verdict(&self, observation: &Observation) -> String {
        let mut findings = Findings::default();
        check(self.trying(), observation, &mut findings);
        match findings.into_verdict().map_err(|verdict| *verdict) {
            Ok((facts, _)) => facts.iter().map(|fact| fact.seen.clone()).collect(),
            Err(GateVerdict::Wait { reason, until }) => format!("waits until {until:?}: {reason}"),
            Err(GateVerdict::Fail { reasons }) => format!("failed: {}", reasons[0]),
            Err(verdict) => panic!("{verdict:?}"),
        }
    }
}

#[test]
fn a_machine_that_never_comes_up_is_made_anew_three_times() {
    let stage = Stage::new();
    let (mut attempts, mut second) = (None, 10);
    for number in 1..=4 {
        let name = format!("new-{number}");
        let machines = |second: i64| vec![machine("old", -9000, true), machine(&name, second, false)];
        let young = reading(second + LIMIT - 1, machines(second), attempts.clone());
        assert_eq!(stage.act(&young), None, "{number}");
        assert!(stage.verdict(&young).contains(&format!("attempt {number} of 4, 15 min each")));
        let over = reading(second + LIMIT, machines(second), attempts.clone());
        let (noted, deleted) = stage.act(&over).unwrap();
        assert_eq!(noted.failed.len(), number, "{noted:?}");
        assert_eq!(deleted, if number < 4 { vec![name.clone()] } else { Vec::new() });
        let again = reading(second + LIMIT + 5, machines(second), Some(noted.clone()));
        // Whoever was killed behind the note deletes it, and counts nothing twice.
        let repeated = (number < 4).then(|| (noted.clone(), vec![name.clone()]));
        assert_eq!(stage.act(&again), repeated);
        if number == 4 {
            let failed = stage.verdict(&again);
            assert!(failed.starts_with("failed: Machine fleet/new-4: updateFailed"), "{failed}");
        }
        (attempts, second) = (Some(noted), second + LIMIT + 10);
    }
}

#[test]
fn what_people_have_repaired_passes_after_all_attempts() {
    let stage = Stage::new();
    let failed = vec![FailedAttempt { at: at(0), machines: Vec::new() }; TRIES];
    let attempts = Attempts { rollout: stage.rollout.clone(), stage: stage.stage.clone(), failed };
    let made_anew = reading(9000, vec![machine("fifth", 8990, false)], Some(attempts.clone()));
    assert!(stage.verdict(&made_anew).contains("has no node yet, after 4 attempts that failed"));
    assert_eq!(stage.act(&made_anew), None);
    let up = reading(9100, vec![machine("fifth", 8990, true)], Some(attempts));
    assert_eq!(stage.verdict(&up), "its machines came up in attempt 4 of 4");
}

#[test]
fn people_who_want_another_attempt_grant_four_more() {
    let mut stage = Stage::new();
    let last = machine("last", 10, false);
    let mut failed = vec![FailedAttempt { at: at(0), machines: Vec::new() }; TRIES - 1];
    failed.push(FailedAttempt { at: at(0), machines: id(&last).into_iter().collect() });
    let attempts = Attempts { rollout: stage.rollout.clone(), stage: stage.stage.clone(), failed };
    let stopped = reading(9000, vec![machine("up", 5, true), last], Some(attempts.clone()));
    assert!(
        stage
            .verdict(&stopped)
            .starts_with("failed: Machine fleet/last: updateFailed: no machine came up in 4 attempts")
    );
    assert_eq!(stage.act(&stopped), None);
    // Meant for attempts that nobody has made yet.
    stage.expectation.retried_after = vec![8];
    assert_eq!(stage.act(&stopped), None);
    stage.expectation.retried_after = vec![4, 8];
    // The one that stopped it is made anew, and nothing is counted for that.
    assert_eq!(stage.act(&stopped), Some((attempts.clone(), vec!["last".to_owned()])));
    assert!(stage.verdict(&stopped).contains("attempt 5 of 8"));
    let young = reading(9100, vec![machine("fifth", 9050, false)], Some(attempts.clone()));
    assert_eq!(stage.act(&young), None);
    let over = reading(9050 + LIMIT, vec![machine("fifth", 9050, false)], Some(attempts));
    let (noted, deleted) = stage.act(&over).unwrap();
    assert_eq!((noted.failed.len(), deleted.as_slice()), (5, ["fifth".to_owned()].as_slice()));
}

#[test]
fn machines_of_before_and_attempts_of_other_stages_do_not_count() {
    let stage = Stage::new();
    let before = Machine { infrastructure_template: Some("old".into()), ..machine("old", -9000, false) };
    assert_eq!(stage.act(&reading(9000, vec![before], None)), None);
    let failed = vec![FailedAttempt { at: at(0), machines: Vec::new() }; TRIES];
    let of_another = Attempts { rollout: stage.rollout.clone(), stage: "workers/blue".parse().unwrap(), failed };
    let (noted, deleted) = stage.act(&reading(9000, vec![machine("a", 1, false)], Some(of_another))).unwrap();
    assert_eq!((noted.failed.len(), deleted.as_slice()), (1, ["a".to_owned()].as_slice()));
}

#[test]
fn what_a_stage_has_made_or_changed_says_which_rollout_it_was() {
    let stage = Stage::new();
    let before = machine("before", -9000, true);
    let signed = Machine { rollout: Some(stage.rollout.to_string()), ..machine("signed", 5, true) };
    let unsigned_ones = |machines: Vec<Machine>, owner: Option<&RolloutId>| {
        let mut observation = reading(100, machines, None);
        observation.control_planes[0].rollout = owner.map(ToString::to_string);
        match unsigned(stage.trying(), &observation) {
            Some(ClusterAct::Sign { machines, owners, .. }) => {
                (machines.into_iter().map(|machine| machine.name).collect(), owners)
            }
            Some(other) => panic!("{other:?}"),
            None => (Vec::new(), Vec::new()),
        }
    };
    let known = Some(&stage.rollout);
    let (machines, owners) = unsigned_ones(vec![before.clone(), signed.clone(), machine("new", 5, false)], known);
    assert_eq!((machines, owners), (vec!["new".to_owned()], Vec::new()));
    assert_eq!(unsigned_ones(vec![before.clone(), signed.clone()], known), (Vec::new(), Vec::new()));
    // Of the rollout before, or of none.
    let plane = MachineOwner::KubeadmControlPlane("depot-control-plane".to_owned());
    assert_eq!(unsigned_ones(vec![before, signed], None), (Vec::new(), vec![plane]));
}

#[test]
fn nothing_is_given_up_in_a_paused_or_unread_cluster() {
    let stage = Stage::new();
    let mut paused = reading(9000, vec![machine("a", 1, false)], None);
    paused.clusters[0].paused = true;
    assert_eq!(stage.act(&paused), None);
    let mut unread = reading(9000, vec![machine("a", 1, false)], None);
    unread.unread.insert("Machine".into(), "timeout".into());
    assert_eq!(stage.act(&unread), None);
}

#[test]
fn machines_of_a_worker_group_are_those_of_its_owner() {
    let mut stage = Stage::new();
    stage.expectation.part = AttemptedPart::Workers { group: "blue".parse().unwrap() };
    let worker = |name: &str, owner: &str| {
        let owner = Some(owner.to_owned());
        Machine { control_plane: false, owner, ..machine(name, 1, false) }
    };
    let mut observation =
        reading(9000, vec![worker("a", "depot-blue"), worker("b", "depot-green"), worker("c", "depot-blue")], None);
    for group in ["blue", "green"] {
        observation.machine_deployments.push(MachineDeployment {
            namespace: "fleet".into(),
            name: format!("depot-{group}"),
            group: group.parse().ok(),
            spec_version: Some("v1.35.0".into()),
            infrastructure_template: Some("new".into()),
            ..MachineDeployment::default()
        });
    }
    let (noted, deleted) = stage.act(&observation).unwrap();
    assert_eq!((noted.failed.len(), deleted.as_slice()), (1, ["a".to_owned(), "c".to_owned()].as_slice()));
}
