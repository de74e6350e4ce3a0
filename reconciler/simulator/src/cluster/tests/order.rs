//! The order of control-plane machines, told by a process that is killed over and over.

use rollout::{
    ControlPlaneExpectation, KubeVipExpectation, KubeletVersions, MachineOrderRules, RunningOrder, machine_order,
};

use super::*;

const NEW: &str = "v1.35.0";

/// What became of a bump: the old machines in the order in which they went, who held the address before and how often it was taken, and how long
/// machines were kept.
struct Course {
    gone: Vec<String>,
    holders: Vec<String>,
    transitions: u32,
    unproven: usize,
    left: usize,
}

/// Rolls the control plane. Each reading is decided on by itself; of what is decided only a part is done, as `seed` has it.
fn roll(seed: u64, brakes: bool) -> Course {
    let mut cluster = SimulatedCluster::new(&shape(), seed, after(0));
    let commit = |number: u32, versions| DeployedCommit {
        id: format!("{number:040x}").parse().unwrap(),
        stage: None,
        desired: desired(versions),
    };
    cluster.install(&commit(1, OLD), after(0));
    let transitions = |read: &Observation| read.virtual_address.as_ref().unwrap().transitions.unwrap();
    let before = transitions(&cluster.observe_afresh(after(1)));
    cluster.commit(&commit(2, Versions { control_plane: NEW, ..OLD }), after(2));
    let expectation = ControlPlaneExpectation {
        namespace: "eksa-system".to_owned(),
        cluster: "prod".to_owned(),
        version: NEW.to_owned(),
        replicas: Some(3),
        infrastructure_template: None,
        stacked_etcd: true,
        kubelet_versions: KubeletVersions::Required,
        kube_vip: Some(KubeVipExpectation { image: None, lease: None }),
        order: MachineOrderRules { lease: None, brakes },
        gate: ControlPlaneGate::Whole,
    };
    let rollout = "0123456789ab".parse().unwrap();
    let (mut course, mut kills) =
        (Course { gone: Vec::new(), holders: Vec::new(), transitions: 0, unproven: 0, left: 0 }, Random::new(seed));
    for second in 3..1200 {
        let read = cluster.observe_afresh(after(second));
        if let Some(holder) = read.virtual_address.as_ref().and_then(|address| address.holder.clone())
            && course.holders.last() != Some(&holder)
        {
            course.holders.push(holder);
        }
        for machine in read.machines.iter().filter(|machine| machine.control_plane && machine.deleting) {
            if !course.gone.contains(&machine.name) {
                course.gone.push(machine.name.clone());
            }
        }
        let running = RunningOrder { expectation: &expectation, rollout: &rollout, until: after(7200) };
        let order = machine_order("prod", Some(running), &read, after(second));
        course.unproven += usize::from(!order.notes.is_empty());
        let killed = if kills.chance(1, 3) { order.changes.len() / 2 } else { order.changes.len() };
        cluster.order_machines(order.changes.get(..killed).unwrap_or_default(), after(second));
    }
    let end = cluster.observe_afresh(after(1200));
    course.transitions = transitions(&end) - before;
    course.left = end.machines.iter().filter(|it| it.delete_first.is_some() || it.brake.is_some()).count();
    assert!(end.machines.iter().filter(|it| it.control_plane).all(|it| it.spec_version.as_deref() == Some(NEW)));
    course
}

#[test]
fn the_address_moves_once_and_nothing_is_left_however_often_the_process_is_killed() {
    for seed in 0..20 {
        for brakes in [false, true] {
            let course = roll(seed, brakes);
            let told = format!("seed {seed}: {:?}, held by {:?}", course.gone, course.holders);
            assert_eq!((course.gone.len(), course.left), (3, 0), "{told}");
            assert_eq!(course.gone.last(), course.holders.first(), "{told}");
            assert_eq!((course.holders.len(), course.transitions), (2, 1), "{told}");
        }
    }
}
