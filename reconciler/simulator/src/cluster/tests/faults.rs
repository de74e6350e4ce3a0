//! What each fault shows, and that it heals.

use super::*;

/// What is to be seen 900 s after a bump of everything with a fault, and 900 s after it was healed.
fn with_fault(fault: Fault, stage: &str) -> (Observation, Observation) {
    let mut cluster = cluster(11);
    cluster.inject(&Injection { fault, from: Trigger::Stage(stage.parse().unwrap()), lasts: None });
    let new = Versions { controller: 2, agent: 2, control_plane: "v1.34.1", workers: "v1.34.1", ..OLD };
    cluster.commit(&commit(2, Some(stage), new), after(1));
    let broken = cluster.observe(after(901));
    assert_eq!(cluster.faults(), [fault]);
    cluster.heal(after(902));
    assert_eq!(cluster.faults(), []);
    let healed = cluster.observe(after(2702));
    (broken, healed)
}

fn is_complete(observation: &Observation) -> bool {
    observation.machines.len() == 5
        && observation
            .machines
            .iter()
            .all(|machine| machine.spec_version.as_deref() == Some("v1.34.1") && !machine.deleting)
        && observation.deployments[0].updated_replicas == Some(2)
        && observation.deployments[0].running.iter().all(|running| running.ready)
        && observation.daemon_sets[0].updated_scheduled == Some(5)
        && observation.daemon_sets[0].available == Some(5)
}

#[test]
fn every_fault_shows_and_heals() {
    for fault in Fault::ALL {
        let (broken, healed) = with_fault(fault, "capi");
        assert!(is_complete(&healed), "{fault}: {healed:#?}");
        let waiting = |reason: &str| {
            let containers = broken.deployments.iter().flat_map(|deployment| &deployment.running);
            containers.filter(|running| running.waiting.as_deref() == Some(reason)).count()
        };
        let machines = |control_plane: bool, phase: &str| {
            broken
                .machines
                .iter()
                .filter(|machine| machine.control_plane == control_plane && machine.phase.as_deref() == Some(phase))
                .count()
        };
        let shows = match fault {
            Fault::SlowImage => waiting("ContainerCreating") == 1,
            Fault::FailingPod => {
                waiting("CrashLoopBackOff") == 1 && letter(&broken.deployments[0].conditions, "Progressing") == 'F'
            }
            // What is behind by no more than five minutes has caught up with what happened 900 s ago.
            Fault::StaleReads | Fault::LostEvents => !broken.confirmed,
            Fault::PartialReads => broken.unread.len() == 1,
            Fault::ApiOutage => {
                matches!(broken.reachable, Reachability::Unreachable { .. }) && broken.machines.is_empty()
            }
            Fault::ClockSkew => broken.read_at == after(1501),
            Fault::ControlPlaneStuck => machines(true, "Provisioning") == 1 && machines(true, "Running") == 3,
            Fault::ControlPlanePaused => {
                let control_plane = &broken.control_planes[0];
                control_plane.paused && control_plane.generation == 2 && control_plane.observed_generation == Some(1)
            }
            Fault::ClusterPaused => {
                let (cluster, workers) = (&broken.clusters[0], &broken.machine_deployments[0]);
                cluster.paused && workers.generation == 2 && workers.observed_generation == Some(1)
            }
            Fault::MachineStuck => machines(false, "Provisioning") == 1,
            Fault::DrainBlocked => machines(true, "Deleting") == 1,
            Fault::NodeNotReady => {
                broken.nodes.iter().filter(|node| node.ready == ConditionStatus::Unknown).count() == 1
            }
            // Nothing here has an external etcd, nothing takes a backup, nothing asks for Secrets, and the slowest controller has come
            // round by now.
            Fault::EtcdStuck
            | Fault::EtcdMemberBroken
            | Fault::EtcdQuorumLost
            | Fault::EtcdOrphan
            | Fault::BackupFailed
            | Fault::CertificatesLost
            | Fault::ControllerSlow => is_complete(&broken),
            // Another machine has taken its place by now.
            Fault::ControlPlaneMachineDeleted | Fault::MachineDeleted => is_complete(&broken),
            Fault::WebhookDown => matches!(broken.webhooks[0].outcome, WebhookOutcome::Unreachable { .. }),
            Fault::FluxSuspended => {
                broken.flux.kustomizations.iter().all(|known| known.suspended && known.suspended_by.is_some())
            }
            Fault::FluxError => {
                let ready = broken.flux.kustomizations[0].ready.as_ref().unwrap();
                ready.status == ConditionStatus::False && ready.message.contains("denied the request")
            }
            Fault::SourceError => broken.flux.sources[0].ready.as_ref().unwrap().status == ConditionStatus::False,
        };
        assert!(shows, "{fault}: {broken:#?}");
    }
}

#[test]
fn certificates_are_lost_and_put_back_as_another_secret() {
    let mut cluster = cluster(1);
    let (namespace, name) = (cluster.observe(after(1)).clusters[0].namespace.clone(), "ca");
    let name = format!("{}-{name}", cluster.observe(after(1)).clusters[0].name);
    let reference =
        ObjectReference { api_version: "v1".into(), kind: "Secret".into(), namespace: Some(namespace), name };
    cluster.ask_for([reference.clone()]);
    let seen = |cluster: &mut SimulatedCluster, second: i64| {
        let objects = cluster.observe(after(second)).objects;
        let found = objects.into_iter().find(|known| known.reference == reference).unwrap();
        found.origin.map(|origin| (origin.uid, origin.made_by.unwrap()))
    };
    let before = seen(&mut cluster, 2).unwrap();
    cluster.inject(&Injection { fault: Fault::CertificatesLost, from: Trigger::At(after(3)), lasts: None });
    assert_eq!(seen(&mut cluster, 5), None);
    cluster.heal(after(6));
    let again = seen(&mut cluster, 8).unwrap();
    assert!(again.0 != before.0 && again.1 == "stepgate", "{again:?}");
}

#[test]
fn images_that_ran_before_the_fault_go_on_starting() {
    let mut cluster = cluster(1);
    cluster.inject(&Injection { fault: Fault::FailingPod, from: Trigger::Stage("capi".parse().unwrap()), lasts: None });
    cluster.commit(&commit(2, Some("capi"), Versions { controller: 2, ..OLD }), after(1));
    assert_eq!(controller_row(&cluster.observe(after(300))), "2/2 3 1 2 1,1,2!");
    cluster.commit(&commit(3, None, OLD), after(301));
    assert_eq!(controller_row(&cluster.observe(after(600))), "3/3 2 2 2 1,1");
}

#[test]
fn a_fault_can_begin_at_a_time_and_end_by_itself() {
    let mut cluster = cluster(1);
    cluster.inject(&Injection {
        fault: Fault::ApiOutage,
        from: Trigger::At(after(10)),
        lasts: Some(Duration::from_secs(5)),
    });
    for (second, reachable) in [(9, true), (10, false), (14, false), (15, true)] {
        assert_eq!(cluster.observe(after(second)).reachable == Reachability::Reachable, reachable, "{second}");
    }
}

#[test]
fn stale_reads_are_of_the_past_and_fresh_ones_are_not() {
    let mut cluster = cluster(1);
    cluster.inject(&Injection { fault: Fault::StaleReads, from: Trigger::At(after(0)), lasts: None });
    cluster.observe(after(0));
    cluster.commit(&commit(2, None, Versions { controller: 2, ..OLD }), after(1));
    let mut cached = BTreeSet::new();
    for second in 90..120 {
        cached.insert(cluster.observe(after(second)).deployments[0].generation);
        let fresh = cluster.observe_afresh(after(second));
        assert!(fresh.confirmed);
        assert_eq!(fresh.deployments[0].generation, 2);
    }
    assert_eq!(cached, BTreeSet::from([1, 2]));
    let caught_up: BTreeSet<i64> =
        (300..320).map(|second| cluster.observe(after(second)).deployments[0].generation).collect();
    assert_eq!(caught_up, BTreeSet::from([2]));
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed: u64| {
        let mut cluster = cluster(seed);
        cluster.inject(&Injection {
            fault: Fault::StaleReads,
            from: Trigger::At(after(50)),
            lasts: Some(Duration::from_secs(100)),
        });
        cluster
            .commit(&commit(2, None, Versions { controller: 2, agent: 2, control_plane: "v1.35.0", ..OLD }), after(1));
        (0..60).map(|step| cluster.observe(after(step * 10))).collect::<Vec<_>>()
    };
    assert_eq!(history(9), history(9));
    assert_ne!(history(9), history(10));
}
