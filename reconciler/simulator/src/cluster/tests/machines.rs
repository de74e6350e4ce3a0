//! Machines: the status sequences of recorded upgrades, as our own tables.

use super::*;

/// A row: generation/observed, spec and status version, the four counts, then the
/// conditions `RollingOut`, `MachinesUpToDate`, `MachinesReady`, `ScalingDown`, `EtcdClusterHealthy`.
fn control_plane_row(observation: &Observation) -> String {
    let control_plane = &observation.control_planes[0];
    let count = |count: Option<u32>| count.map_or("-".to_owned(), |count| count.to_string());
    let conditions: Vec<String> =
        ["RollingOut", "MachinesUpToDate", "MachinesReady", "ScalingDown", "EtcdClusterHealthy"]
            .iter()
            .map(|name| letter(&control_plane.conditions, name).to_string())
            .collect();
    format!(
        "{}/{} {} {} {} {} {} {} {}",
        control_plane.generation,
        control_plane.observed_generation.unwrap(),
        control_plane.spec_version.strip_prefix('v').unwrap(),
        control_plane.status_version.as_ref().unwrap().strip_prefix('v').unwrap(),
        count(control_plane.replicas),
        count(control_plane.up_to_date_replicas),
        count(control_plane.ready_replicas),
        count(control_plane.available_replicas),
        conditions.join(" ")
    )
}

fn workers_row(observation: &Observation) -> String {
    let workers = &observation.machine_deployments[0];
    let old = observation
        .machines
        .iter()
        .filter(|machine| !machine.control_plane && machine.spec_version != workers.spec_version)
        .count();
    format!(
        "{}/{} {} {} {} {} {} {} old={old}",
        workers.generation,
        workers.observed_generation.unwrap(),
        workers.replicas.unwrap(),
        workers.up_to_date_replicas.unwrap(),
        workers.ready_replicas.unwrap(),
        workers.available_replicas.unwrap(),
        letter(&workers.conditions, "RollingOut"),
        letter(&workers.conditions, "MachinesUpToDate"),
    )
}

#[test]
fn a_control_plane_upgrade_shows_the_statuses_of_the_recording() {
    let mut cluster = cluster(3);
    cluster.commit(&commit(2, Some("control-plane"), Versions { control_plane: "v1.35.0", ..OLD }), after(1));
    let rows = rows(&mut cluster, 300, control_plane_row);
    let recorded = [
        "1/1 1.34.0 1.34.0 3 3 3 3 F T T F T",
        // Stale: looks finished.
        "2/1 1.35.0 1.34.0 3 3 3 3 F T T F T",
        "2/2 1.35.0 1.34.0 3 0 3 3 T F T F T",
        "2/2 1.35.0 1.34.0 4 1 3 3 T F U T T",
        // The node is up, its etcd member is not.
        "2/2 1.35.0 1.34.0 4 1 3 3 T F F T F",
        "2/2 1.35.0 1.34.0 3 1 3 3 T F T F T",
        "2/2 1.35.0 1.34.0 4 2 3 3 T F F T F",
        // As many up to date as wanted, and an old machine still there.
        "2/2 1.35.0 1.34.0 4 3 3 3 T F U T T",
        "2/2 1.35.0 1.35.0 3 3 3 3 F T T F T",
    ];
    assert!(contains_in_order(&rows, &recorded), "{rows:#?}");
    assert_eq!(rows.last().map(String::as_str), recorded.last().copied());
}

#[test]
fn some_control_planes_count_a_machine_as_up_to_date_that_is_going_away() {
    let blips = (0..20)
        .filter(|seed| {
            let mut cluster = cluster(*seed);
            cluster.commit(&commit(2, None, Versions { control_plane: "v1.35.0", ..OLD }), after(1));
            rows(&mut cluster, 300, control_plane_row)
                .iter()
                .any(|row| row.starts_with("2/2 1.35.0 1.34.0 4 4 3 3 F T"))
        })
        .count();
    assert!((1..20).contains(&blips), "{blips}");
}

#[test]
fn five_of_six_worker_bumps_lie_for_a_second() {
    let lie = "2/2 2 2 2 2 F T old=2";
    let lying = (0..48)
        .filter(|seed| {
            let mut cluster = cluster(*seed);
            cluster.commit(&commit(2, None, Versions { workers: "v1.34.0", ..OLD }), after(0));
            // A later patch, so that the control plane allows it at once.
            cluster
                .commit(&commit(3, None, Versions { control_plane: "v1.34.1", workers: "v1.34.1", ..OLD }), after(1));
            let rows = rows(&mut cluster, 400, workers_row);
            assert!(
                contains_in_order(
                    &rows,
                    &[
                        "1/1 2 2 2 2 F T old=0",
                        "2/1 2 2 2 2 F T old=2",
                        "2/2 2 2 2 2 T F old=2",
                        "2/2 2 0 2 2 T F old=2",
                        "2/2 3 1 2 2 T F old=2",
                        "2/2 3 2 2 2 F T old=0",
                        "2/2 2 2 2 2 F T old=0",
                    ]
                ),
                "seed {seed}: {rows:#?}"
            );
            rows.iter().any(|row| row == lie)
        })
        .count();
    assert!((33..48).contains(&lying), "{lying}");
}

#[test]
fn workers_wait_for_every_machine_of_the_control_plane() {
    let mut cluster = cluster(5);
    cluster.commit(&commit(2, None, Versions { workers: "v1.35.0", ..OLD }), after(1));
    let seen = cluster.observe_afresh(after(1800));
    assert!(
        seen.machines.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.34.0")),
        "{:#?}",
        seen.machines
    );
    cluster.commit(&commit(3, None, Versions { control_plane: "v1.35.0", workers: "v1.35.0", ..OLD }), after(1801));
    let seen = cluster.observe_afresh(after(3600));
    assert!(
        seen.machines.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.35.0")),
        "{:#?}",
        seen.machines
    );
}

#[test]
fn the_virtual_address_always_ends_on_a_node_that_is_there() {
    for seed in 0..20 {
        let mut cluster = cluster(seed);
        cluster.commit(&commit(2, None, Versions { control_plane: "v1.35.0", ..OLD }), after(1));
        let mut unheld = false;
        for second in 0..300 {
            unheld |= cluster.observe_afresh(after(second)).virtual_address.unwrap().holder.is_none();
        }
        let seen = cluster.observe_afresh(after(400));
        let holder = seen.virtual_address.unwrap().holder.unwrap();
        assert!(seen.nodes.iter().any(|node| node.name == holder && node.control_plane), "seed {seed}");
        assert!(unheld, "seed {seed}: the old holder was replaced, so nobody held it for a moment");
        assert_eq!(seen.pods.len(), 3);
    }
}

#[test]
fn an_external_etcd_makes_new_members_first_and_keeps_the_old_ones_for_the_control_plane() {
    let shape = ClusterShape { etcd: Etcd::External { replicas: 3 }, ..shape() };
    let state = |etcd: &str, control_plane: &'static str| {
        let mut state = DesiredState::clone(&desired(Versions { control_plane, ..OLD }));
        state.kustomizations[2].objects.push(DesiredObject::Etcd(machines("prod-etcd", 3, etcd)));
        Arc::new(state)
    };
    let of =
        |number: u32, desired| DeployedCommit { id: format!("{number:040x}").parse().unwrap(), stage: None, desired };
    let mut cluster = SimulatedCluster::new(&shape, 4, after(-600));
    cluster.install(&of(1, state("1", "v1.34.0")), after(-600));
    let seen = cluster.observe_afresh(after(0));
    assert_eq!((seen.etcd_clusters[0].ready, seen.etcd_clusters[0].ready_replicas), (Some(true), Some(3)));
    cluster.commit(&of(2, state("2", "v1.34.0")), after(1));
    let mut unready = false;
    for second in 1..300 {
        unready |= cluster.observe_afresh(after(second)).etcd_clusters[0].ready == Some(false);
    }
    let seen = cluster.observe_afresh(after(300));
    assert!(unready);
    assert_eq!((seen.etcd_clusters[0].ready, seen.etcd_clusters[0].generation), (Some(true), 2));
    assert_eq!(letter(&seen.etcd_clusters[0].conditions, "Ready"), 'F');
    assert_eq!(seen.machines.iter().filter(|machine| machine.name.starts_with("prod-etcd-")).count(), 6);
    cluster.commit(&of(3, state("2", "v1.34.1")), after(301));
    let seen = cluster.observe_afresh(after(700));
    assert_eq!(seen.machines.iter().filter(|machine| machine.name.starts_with("prod-etcd-")).count(), 3);
    assert_eq!(letter(&seen.etcd_clusters[0].conditions, "Ready"), 'T');
}

#[test]
fn machines_that_were_there_run_what_the_branch_says_and_not_what_the_shape_says() {
    let mut cluster = SimulatedCluster::new(&shape(), 6, after(-600));
    let newer = Versions { control_plane: "v1.35.0", workers: "v1.33.0", ..OLD };
    cluster.install(&commit(1, None, newer), after(-600));
    for machine in cluster.observe_afresh(after(0)).machines {
        assert_eq!(machine.kubelet_version, machine.spec_version, "{}", machine.name);
    }
}

#[test]
fn a_machine_that_somebody_deletes_is_replaced_by_one_of_the_same_version() {
    for (fault, control_plane) in [(Fault::ControlPlaneMachineDeleted, true), (Fault::MachineDeleted, false)] {
        let mut cluster = cluster(7);
        let before = cluster.observe_afresh(after(1)).machines;
        cluster.inject(&Injection { fault, from: Trigger::At(after(2)), lasts: None });
        let deleting: Vec<_> =
            cluster.observe_afresh(after(3)).machines.into_iter().filter(|machine| machine.deleting).collect();
        assert_eq!(
            deleting.iter().map(|machine| machine.control_plane).collect::<Vec<_>>(),
            [control_plane],
            "{fault}"
        );
        let now = cluster.observe_afresh(after(300)).machines;
        assert!(now.iter().all(|machine| machine.name != deleting[0].name), "{fault}");
        assert_eq!(now.len(), before.len(), "{fault}");
        assert!(now.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.34.0")), "{fault}");
    }
}

#[test]
fn nothing_acts_on_a_paused_cluster_and_everything_goes_on_when_it_is_resumed() {
    let mut cluster = cluster(8);
    cluster.inject(&Injection { fault: Fault::ClusterPaused, from: Trigger::At(after(1)), lasts: None });
    cluster.commit(&commit(2, None, Versions { control_plane: "v1.35.0", workers: "v1.35.0", ..OLD }), after(2));
    let seen = cluster.observe_afresh(after(600));
    assert!(seen.clusters[0].paused);
    assert!(seen.machines.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.34.0")));
    for (generation, observed, conditions) in [
        (
            seen.control_planes[0].generation,
            seen.control_planes[0].observed_generation,
            &seen.control_planes[0].conditions,
        ),
        (
            seen.machine_deployments[0].generation,
            seen.machine_deployments[0].observed_generation,
            &seen.machine_deployments[0].conditions,
        ),
    ] {
        assert_eq!((generation, observed, letter(conditions, "Paused")), (2, Some(1), 'T'));
    }
    cluster.heal(after(600));
    let seen = cluster.observe_afresh(after(1200));
    assert_eq!(letter(&seen.machine_deployments[0].conditions, "Paused"), 'F');
    assert!(seen.machines.iter().all(|machine| machine.spec_version.as_deref() == Some("v1.35.0")));
}
