//! Single decisions.

use in_place::objects::{GroupUpgradeStatus, Lease, NodePhase};
use in_place::order::{Action, Architecture, ContainerState, Failure, Holder, Pause, Release, World, decide};
use jiff::Timestamp;
use serde_json::json;

use super::model::{Faults, Model, NEW, Shape, world};

const ALONE: Shape = Shape { control_plane: 1, workers: 0, hooks: false };

/// What a group says in the end, and what was begun.
fn told(change: impl Fn(&mut World)) -> (GroupUpgradeStatus, Vec<Action>) {
    let mut model = Model::new(0, ALONE, Faults::None);
    model.target(NEW);
    change(&mut model.world);
    let mut begun = Vec::new();
    for _ in 0..5 {
        let actions = decide(&model.world, model.now);
        for action in actions {
            if matches!(action, Action::CreateNode { .. } | Action::EnsurePod { .. } | Action::Adopt { .. }) {
                begun.push(action);
            } else {
                model.carry_out(action);
            }
        }
    }
    let group = model.world.group_upgrades.first().expect("a group");
    (group.status.clone(), begun)
}

#[test]
fn what_cannot_be_upgraded_is_named_and_nothing_begins() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 11] = [
        ("Machine cp-0 has no Node", |world| world.machines[0].node = None),
        ("operating system \"windows\" is not known", |world| node(world).operating_system = "windows".into()),
        ("Bottlerocket is not upgraded by kubeadm", |world| node(world).os_image = "Bottlerocket OS 1.19".into()),
        ("architecture \"arm\" has 32 bits", |world| node(world).architecture = "arm".into()),
        ("architecture \"riscv64\" is not known", |world| node(world).architecture = "riscv64".into()),
        ("is not built for amd64", |world| {
            world.releases.get_mut(NEW).unwrap().architectures = vec![Architecture::Arm64];
        }),
        ("\"not an image\" is not a valid image of the upgrader of v1.36.0", |world| {
            world.releases.get_mut(NEW).unwrap().image = "not an image".into();
        }),
        ("no upgrader image is known for v1.36.0", |world| world.releases.clear()),
        ("more than one minor version away", |world| node(world).kubelet_version = "v1.34.1".into()),
        ("runs v1.36.2: it does not go back to v1.36.0", |world| node(world).kubelet_version = "v1.36.2".into()),
        ("files[1].path", |world| world.owners[0].declined = vec!["spec.kubeadmConfigSpec.files[1].path".into()]),
    ];
    for (expected, change) in cases {
        let (status, begun) = told(change);
        assert!(
            status.message.contains(expected) && status.message.contains("nothing was begun"),
            "{}",
            status.message
        );
        let stalled = status.conditions.iter().find(|known| known.kind == "Stalled").unwrap();
        assert_eq!(stalled.status, "True", "{expected}");
        assert!(begun.is_empty(), "{expected}: {begun:?}");
        assert_eq!((status.require_upgrade, status.upgraded), (1, 0));
    }
}

fn node(world: &mut World) -> &mut in_place::order::Node {
    world.machines[0].node.as_mut().unwrap()
}

#[test]
fn nothing_begins_on_what_is_not_healthy() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 5] = [
        ("etcd on node node-cp-0 is not ready", |world| node(world).components[0].ready = false),
        ("kube-apiserver on node node-cp-0 is not ready", |world| {
            node(world).components.retain(|it| it.name == "etcd");
        }),
        ("too little disk space", |world| node(world).disk_pressure = true),
        ("node node-cp-0 is not ready", |world| node(world).ready = false),
        ("Cluster c is paused", |world| world.paused = true),
    ];
    for (expected, change) in cases {
        let (status, begun) = told(change);
        assert!(status.message.contains(expected), "{}", status.message);
        assert!(begun.is_empty(), "{expected}: {begun:?}");
    }
}

#[test]
fn who_holds_the_address_or_leads_etcd_goes_last_and_what_is_unknown_is_said() {
    let three = Shape { control_plane: 3, ..ALONE };
    let unknown = || Holder::Unknown(String::from("connection refused"));
    for (holder, leader, first, says) in [
        (Holder::Known("node-cp-0".into()), Holder::Known("cp-1".into()), "cp-2", ""),
        (Holder::Known("node-cp-1".into()), Holder::Known("cp-1".into()), "cp-0", ""),
        (Holder::Nobody, Holder::Known("cp-0".into()), "cp-1", ""),
        (Holder::Known("node-cp-0".into()), unknown(), "cp-1", "which member of etcd leads is not known"),
        (unknown(), Holder::Known("cp-0".into()), "cp-1", "which node holds the virtual address is not known"),
    ] {
        let mut model = Model::new(0, three, Faults::None);
        model.target(NEW);
        (model.world.address_holder, model.world.etcd_leader) = (holder, leader);
        let mut chosen = None;
        for _ in 0..5 {
            for action in decide(&model.world, model.now) {
                match action {
                    Action::CreateNode { spec } => chosen = Some(spec.machine.name.clone()),
                    action => model.carry_out(action),
                }
            }
        }
        assert_eq!(chosen.as_deref(), Some(first));
        let told = &model.world.group_upgrades[0].status.message;
        assert_eq!((told.contains(says), told.contains("not known")), (true, !says.is_empty()), "{told}");
    }
}

#[test]
fn workers_begin_behind_a_control_plane_that_is_further() {
    for (runs, wanted, is_told) in [
        ("v1.36.0", "v1.36.0", false),
        ("v1.36.1", "v1.36.0", false),
        ("v1.36.0-eks-6f07bbc", "v1.36.0-eks-1-36-2", false),
        ("v1.36.0", "v1.36.1", true),
        ("v1.35.9", "v1.36.0", true),
    ] {
        let mut world = world(Shape { control_plane: 1, workers: 1, hooks: true });
        let release = Release { image: "registry.test/upgrader:1".to_owned(), architectures: Vec::new() };
        world.releases = [(wanted.to_owned(), release)].into();
        node(&mut world).kubelet_version = runs.to_owned();
        let worker = &mut world.machines[1];
        (worker.version, worker.updated_by_hook) = (Some(wanted.parse().unwrap()), true);
        let mut model = Model::new(0, ALONE, Faults::None);
        model.world = world;
        for _ in 0..2 {
            let actions = decide(&model.world, model.now);
            actions.into_iter().for_each(|action| model.carry_out(action));
        }
        let told = &model.world.node_upgrades[0].status.message;
        assert_eq!(told.contains("workers come after it"), is_told, "{runs} {wanted}: {told}");
    }
}

#[test]
fn an_owner_that_somebody_else_has_paused_is_left_alone() {
    let (status, begun) = told(|world| world.owners[0].pause = Pause::Others);
    assert!(status.message.contains("paused by somebody else"), "{}", status.message);
    assert!(begun.is_empty());
}

#[test]
fn an_owner_that_is_not_paused_yet_is_paused_first() {
    let mut world = world(ALONE);
    world.owners[0].version = Some(NEW.parse().unwrap());
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let actions = decide(&world, now);
    assert!(matches!(actions.as_slice(), [Action::PauseOwner { .. }]), "{actions:?}");
    // A pause is renewed long before it ends.
    world.owners[0].pause = Pause::Ours(Lease { until: now, ..Lease::new("a", now) });
    assert!(matches!(decide(&world, now).first(), Some(Action::PauseOwner { .. })));
}

#[test]
fn a_group_says_what_kubeadm_reads_and_is_made_anew_when_that_changes() {
    let mut model = Model::new(0, ALONE, Faults::None);
    model.target(NEW);
    let configuration = |tag: &str| json!({"etcd": {"local": {"imageTag": tag}}, "dns": {"imageTag": "v1.13.1"}});
    for tag in ["3.6.8-0", "3.6.9-0"] {
        model.world.owners[0].cluster_configuration = Some(configuration(tag));
        for _ in 0..3 {
            let made = decide(&model.world, model.now);
            let groups = made.into_iter().filter(|action| !matches!(action, Action::CreateNode { .. }));
            groups.for_each(|action| model.carry_out(action));
        }
        let [group] = model.world.group_upgrades.as_slice() else { panic!("one group") };
        assert_eq!(group.spec.etcd_version.as_deref(), Some(tag));
        assert_eq!(group.spec.core_dns_version.as_deref(), Some("v1.13.1"));
        assert_eq!(group.spec.kubeadm_cluster_config, Some(configuration(tag)));
        assert_eq!(group.spec.kubelet_version, Some(NEW.parse().unwrap()));
    }
}

#[test]
fn an_image_without_the_program_is_named_and_nothing_is_begun() {
    let mut model = Model::new(0, ALONE, Faults::None);
    model.target(NEW);
    for _ in 0..20 {
        decide(&model.world, model.now).into_iter().for_each(|action| model.carry_out(action));
        for pod in model.world.pods.values_mut() {
            let first = &mut pod.containers[0];
            let message = "exec: \"/stepgate-node\": no such file or directory".to_owned();
            (first.state, first.failures) = (ContainerState::Failed, 3);
            first.last_failure = Some(Failure { exit_code: 128, finished: None, message });
        }
    }
    let status = &model.world.node_upgrades[0].status;
    assert_eq!(status.phase, NodePhase::Failed);
    let expected = "nothing was begun: step copy failed: exec: \"/stepgate-node\"";
    assert!(status.message.starts_with(expected), "{}", status.message);
}

#[test]
fn a_machine_that_cluster_api_waits_for_says_what_is_missing() {
    let mut model = Model::new(0, Shape { hooks: true, ..ALONE }, Faults::None);
    let releases = std::mem::take(&mut model.world.releases);
    let machine = &mut model.world.machines[0];
    (machine.version, machine.updated_by_hook) = (Some(NEW.parse().unwrap()), true);
    let turn = |model: &mut Model| {
        let actions = decide(&model.world, model.now);
        assert!(!actions.iter().any(|action| matches!(action, Action::EnsurePod { .. })), "{actions:?}");
        actions.into_iter().for_each(|action| model.carry_out(action));
    };
    (0..3).for_each(|_| turn(&mut model));
    let told = &model.world.node_upgrades[0].status.message;
    assert!(told.contains("no upgrader image is known for v1.36.0"), "{told}");
    // Once there is one, the object that knew none is made anew.
    model.world.releases = releases;
    for _ in 0..6 {
        let actions = decide(&model.world, model.now);
        actions.into_iter().for_each(|action| model.carry_out(action));
    }
    assert!(!model.world.node_upgrades[0].spec.image.is_empty());
}
