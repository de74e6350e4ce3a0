use crate::observation::{
    Attempts, Condition, ControlPlane, FailedAttempt, Machine, MachineId, MachineTopology, TanzuCluster, conditions,
};
use jiff::Timestamp;

use super::*;
use crate::stage::StageName;

fn machine(version: &str, node: bool) -> Machine {
    Machine {
        namespace: "fleet".into(),
        name: "a".into(),
        uid: Some("uid-a".into()),
        cluster: "depot".into(),
        control_plane: true,
        owner: Some("depot-control-plane".into()),
        spec_version: Some(version.into()),
        node: node.then(|| "node-a".into()),
        ..Machine::default()
    }
}

/// A control plane of one machine that is settled.
fn settled() -> Observation {
    let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
    observation.clusters.push(MachineTopology {
        namespace: "fleet".into(),
        name: "depot".into(),
        conditions: conditions([("ControlPlaneInitialized", ConditionStatus::True)]),
        ..MachineTopology::default()
    });
    observation.control_planes.push(ControlPlane {
        namespace: "fleet".into(),
        name: "depot-control-plane".into(),
        cluster: "depot".into(),
        generation: 2,
        observed_generation: Some(2),
        spec_version: "v1.35.0".into(),
        spec_replicas: Some(1),
        replicas: Some(1),
        up_to_date_replicas: Some(1),
        ..ControlPlane::default()
    });
    observation.machines.push(machine("v1.35.0", true));
    observation
}

fn phase(change: impl FnOnce(&mut Observation)) -> Option<&'static str> {
    let mut observation = settled();
    change(&mut observation);
    rendered_phase("fleet", "depot", &observation).map(TanzuPhase::as_str)
}

#[test]
fn the_phase_of_a_rendered_cluster_follows_from_its_objects() {
    let attempts = |observation: &mut Observation, number: usize| {
        observation.machines[0].node = None;
        let machines = vec![MachineId { name: "a".into(), uid: "uid-a".into() }];
        let failed = vec![FailedAttempt { at: Timestamp::UNIX_EPOCH, machines }; number];
        let (rollout, stage) = ("0123456789ab".parse().unwrap(), StageName::ControlPlane.into());
        observation.clusters[0].attempts = Some(Attempts { rollout, stage, failed });
    };
    let uninitialized = |observation: &mut Observation| {
        observation.clusters[0].conditions = conditions([("ControlPlaneInitialized", ConditionStatus::False)]);
    };
    assert_eq!(phase(|_| {}), Some("running"));
    assert_eq!(phase(|read| read.machines[0].spec_version = Some("v1.34.0".into())), Some("updating"));
    assert_eq!(phase(|read| read.control_planes[0].generation = 3), Some("updating"));
    assert_eq!(phase(|read| read.control_planes[0].up_to_date_replicas = Some(0)), Some("updating"));
    assert_eq!(phase(|read| attempts(read, 3)), Some("updating"));
    assert_eq!(phase(|read| attempts(read, 4)), Some("updateFailed"));
    assert_eq!(phase(|read| (attempts(read, 4), uninitialized(read)).1), Some("failed"));
    assert_eq!(phase(uninitialized), Some("creating"));
    assert_eq!(phase(|read| read.machines[0].phase = Some("Failed".into())), Some("failed"));
    assert_eq!(phase(|read| read.clusters[0].deleting = true), Some("deleting"));
    assert_eq!(phase(|read| drop(read.unread.insert("Machine".into(), "timeout".into()))), None);
    assert_eq!(phase(|read| read.clusters.clear()), None);
}

#[test]
fn the_phase_in_front_of_a_supervisor_is_its_own_or_follows_from_conditions() {
    let phase = |cluster: TanzuCluster| {
        let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
        observation.tanzu_clusters.push(TanzuCluster { namespace: "n".into(), name: "t".into(), ..cluster });
        front_phase("n", "t", &observation).map(TanzuPhase::as_str)
    };
    for word in ["creating", "running", "updating", "updateFailed", "deleting", "failed"] {
        assert_eq!(phase(TanzuCluster { phase: Some(word.into()), ..TanzuCluster::default() }), Some(word));
    }
    let ready = |status| TanzuCluster { conditions: conditions([("Ready", status)]), ..TanzuCluster::default() };
    assert_eq!(phase(ready(ConditionStatus::True)), Some("running"));
    assert_eq!(phase(ready(ConditionStatus::False)), Some("updating"));
    let failure = Some("no class".to_owned());
    assert_eq!(phase(TanzuCluster { failure, ..ready(ConditionStatus::False) }), Some("updateFailed"));
    assert_eq!(phase(TanzuCluster::default()), None);
}

#[test]
fn each_add_on_says_how_far_it_is() {
    let flux = |name: &str, ready: Option<Condition>| {
        let known = serde_json::json!({"namespace": "fleet", "name": name, "generation": 1, "ready": ready});
        serde_json::from_value::<crate::observation::FluxKustomization>(known).unwrap()
    };
    let said = |status, message: &str| {
        Some(Condition { status, reason: "a".into(), message: message.into(), observed_generation: None })
    };
    let mut observation = settled();
    observation.flux.kustomizations = vec![
        flux("well", said(ConditionStatus::True, "")),
        flux("broken", said(ConditionStatus::False, "denied")),
        flux("begun", said(ConditionStatus::Unknown, "")),
    ];
    let addon =
        |name: &str, state: ExpectedAddonState| ExpectedAddon { name: name.into(), version: "v1".into(), state };
    let applied = |name: &str| {
        let kustomization = Some(("fleet".to_owned(), name.to_owned()));
        standing(&addon(name, ExpectedAddonState::Applied { kustomization }), &observation)
    };
    let addons = vec![
        applied("well"),
        applied("broken"),
        applied("begun"),
        standing(&addon("others", ExpectedAddonState::Unmanaged), &observation),
        standing(&addon("odd", ExpectedAddonState::Unreadable { message: "not YAML".into() }), &observation),
    ];
    let standing = TanzuStanding { phase: Some(TanzuPhase::Updating), addons };
    assert_eq!(standing.summary(), "2 error, 1 pending, 1 applied, 1 unmanaged");
    let line = "updating; add-ons: well v1 applied, broken v1 error (denied), begun v1 pending, others v1 unmanaged, odd v1 error \
                (not YAML)";
    assert_eq!(standing.line(), line);
}
