//! No gate opens on a reading in which its stage is not really rolled out, at any event of the rollout.

#[cfg(test)]
mod every_event {
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    use domain::{CommitId, RolloutId};
    use jiff::{SignedDuration, Timestamp};
    use policy::StagePolicy;
    use rollout::{Binding, ClusterRole, Expectation, Gate, GateHistory, Observation, StageId, StageName};
    use simulator::{
        ClusterShape, DeployedCommit, DesiredObject, DesiredState, Etcd, Fault, Injection, MachineStrategy,
        SimulatedCluster, Trigger, WorkerGroup, as_other_providers,
        model::{ModelCluster, Parts},
    };

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn described(external_etcd: bool) -> ModelCluster {
        ModelCluster {
            shape: ClusterShape {
                name: "prod".parse().unwrap(),
                namespace: "eksa-system".to_owned(),
                kubernetes_version: "v1.34.0".to_owned(),
                control_plane_replicas: 3,
                worker_groups: vec![WorkerGroup { name: "md-0".parse().unwrap(), replicas: 2 }],
                etcd: if external_etcd { Etcd::External { replicas: 3 } } else { Etcd::Stacked },
                strategy: MachineStrategy::Rolling,
            },
            role: ClusterRole::Management,
            components: vec![
                StageName::CertManager,
                StageName::Capi,
                StageName::Bundle,
                StageName::Cilium,
                StageName::Flux,
            ],
            policy: StagePolicy::default(),
            after: Vec::new(),
            flux_waits: false,
            rendered: None,
        }
    }

    fn id(number: u32) -> CommitId {
        format!("{number:040x}").parse().unwrap()
    }

    /// What the gate of a stage said while the stage was not rolled out, and at the end.
    struct Seen {
        /// Readings in which everything expected held, as seconds after the commit with what was not rolled out.
        held_early: Vec<String>,
        /// Verdicts that passed, soak and consecutive reads included.
        passed_early: Vec<String>,
        passed: bool,
    }

    /// A rollout of one stage, and everything around it.
    struct Rollout {
        cluster: ModelCluster,
        stage: StageName,
        before: Arc<DesiredState>,
        after: Arc<DesiredState>,
        expectations: Vec<Expectation>,
        fault: Option<Fault>,
        seed: u64,
        /// The kind of its control plane, where other providers than Cluster API's own make it and its workers.
        other: Option<&'static str>,
    }

    /// A new version of `stage`.
    fn of_versions(stage: &StageName, external_etcd: bool, fault: Option<Fault>, seed: u64) -> Rollout {
        let cluster = described(external_etcd);
        let before: Parts = cluster.stages().into_iter().map(|stage| (stage, 40)).collect();
        let mut after = before.clone();
        after.insert(stage.clone(), 41);
        // Workers follow their control plane.
        let base: BTreeMap<StageName, u32> = before
            .into_iter()
            .map(|(part, version)| {
                if matches!(stage, StageName::Workers(_)) && part == StageName::ControlPlane {
                    (part, 41)
                } else {
                    (part, version)
                }
            })
            .collect();
        after.extend(
            base.get(&StageName::ControlPlane)
                .filter(|_| *stage != StageName::ControlPlane)
                .map(|version| (StageName::ControlPlane, *version)),
        );
        Rollout {
            before: cluster.desired(&base),
            after: cluster.desired(&after),
            expectations: cluster.expectations(stage, &after),
            stage: stage.clone(),
            cluster,
            fault,
            seed,
            other: None,
        }
    }

    /// New machines of the same version: other memory, another image of the operating system.
    fn of_templates(stage: &StageName, fault: Option<Fault>, seed: u64) -> Rollout {
        let versions = of_versions(stage, true, fault, seed);
        let mut after = (*versions.before).clone();
        for object in after.kustomizations.iter_mut().flat_map(|known| &mut known.objects) {
            match (object, stage) {
                (DesiredObject::ControlPlane { machines, .. }, StageName::ControlPlane)
                | (DesiredObject::Etcd(machines), StageName::Etcd)
                | (DesiredObject::Workers { machines, .. }, StageName::Workers(_)) => {
                    machines.template.push_str("-larger");
                }
                // For etcd it is the machine configuration that changes, and the Cluster stays as it is.
                (DesiredObject::Object(object), _) if (object.kind == "Cluster") == (*stage != StageName::Etcd) => {
                    object.content.push_str("larger");
                }
                _ => {}
            }
        }
        let mut parts: Parts = versions.cluster.stages().into_iter().map(|stage| (stage, 40)).collect();
        if matches!(stage, StageName::Workers(_)) {
            parts.insert(StageName::ControlPlane, 41);
        }
        let expectations = versions.cluster.expectations(stage, &parts);
        Rollout { after: Arc::new(after), expectations, ..versions }
    }

    /// Reads at every event of a rollout.
    fn see(planned: &Rollout) -> Seen {
        let Rollout { cluster, stage, expectations, seed, .. } = planned;
        let mut simulated = SimulatedCluster::new(&cluster.shape, *seed, start() - SignedDuration::from_mins(10));
        let commit = |number, stage: Option<&StageName>, desired: &Arc<DesiredState>| DeployedCommit {
            id: id(number),
            stage: stage.cloned(),
            desired: Arc::clone(desired),
        };
        simulated.install(&commit(1, None, &planned.before), start() - SignedDuration::from_mins(10));
        simulated.advance(start());
        if let Some(fault) = planned.fault {
            let lasts = Some(Duration::from_secs(200));
            simulated.inject(&Injection { fault, from: Trigger::Stage(stage.clone()), lasts });
        }
        // As the ledger records it with the commit.
        let generation = simulated.observe_afresh(start()).etcd_clusters.first().map(|etcd| etcd.generation);
        let mut expectations = expectations.clone();
        for expectation in &mut expectations {
            if let Expectation::Etcd(etcd) = expectation {
                etcd.above_generation = generation.filter(|_| etcd.rolls && stage == &StageName::Etcd);
            }
        }
        let committed_at = start() + SignedDuration::from_secs(1);
        simulated.commit(&commit(2, Some(stage), &planned.after), committed_at);
        let stage = StageId::last(stage.clone());
        let rollout: RolloutId = "0123456789ab".parse().unwrap();
        let binding =
            Binding { commit: id(2), lineage: vec![id(2)].into(), committed_at, landing: rollout::Landing::Pushed };
        let gate = Gate {
            cluster: cluster.shape.name.as_str(),
            identity: None,
            stage: &stage,
            rollout: &rollout,
            expectations: &expectations,
            binding: Some(&binding),
            policy: &cluster.policy,
        };
        let end = committed_at + SignedDuration::from_mins(20);
        let own = cluster.names_of(&stage.name);
        let mut seen = Seen { held_early: Vec::new(), passed_early: Vec::new(), passed: false };
        let mut history = GateHistory::default();
        while let Some(next) = simulated.next_event().filter(|next| *next <= end) {
            let observation = simulated.observe_afresh(next);
            let observation = match planned.other {
                Some(kind) => as_other_providers(observation, kind),
                None => observation,
            };
            let held = gate.held(&observation, next);
            let is_held = held.is_some();
            history = history.record(
                next,
                held.map(|settled| (gate.key(), settled)).into_iter().collect(),
                cluster.policy.maximum_age,
                next,
            );
            seen.passed = gate.evaluate(Some(&observation), &history, next).is_pass();
            let unfinished: Vec<String> =
                simulated.unfinished().into_iter().filter(|name| own.contains(name)).collect();
            if !unfinished.is_empty() {
                let text = format!("{:.1}: {}", next.duration_since(committed_at).as_secs_f64(), unfinished.join(", "));
                seen.held_early.extend(is_held.then(|| text.clone()));
                seen.passed_early.extend(seen.passed.then_some(text));
            }
        }
        seen
    }

    fn check(planned: &Rollout) {
        let context = format!("{}, {:?}, seed {}", planned.stage, planned.fault, planned.seed);
        let seen = see(planned);
        assert!(seen.held_early.is_empty(), "{context}: held early: {:#?}", seen.held_early);
        assert!(seen.passed_early.is_empty(), "{context}: passed early: {:#?}", seen.passed_early);
        assert!(seen.passed, "{context}: never passed");
    }

    #[test]
    fn no_gate_holds_before_its_stage_is_rolled_out() {
        let faults = [
            None,
            Some(Fault::SlowImage),
            Some(Fault::FailingPod),
            Some(Fault::ControlPlaneStuck),
            Some(Fault::ControlPlanePaused),
            Some(Fault::MachineStuck),
            Some(Fault::DrainBlocked),
            Some(Fault::NodeNotReady),
            Some(Fault::ControllerSlow),
            Some(Fault::EtcdStuck),
            Some(Fault::EtcdMemberBroken),
            Some(Fault::EtcdOrphan),
            Some(Fault::WebhookDown),
            Some(Fault::FluxError),
            Some(Fault::FluxSuspended),
            Some(Fault::PartialReads),
            Some(Fault::ClockSkew),
            Some(Fault::SourceError),
        ];
        for external_etcd in [false, true] {
            for stage in described(external_etcd).stages() {
                for (seed, fault) in (0..).zip(faults.into_iter().cycle().take(30)) {
                    check(&of_versions(&stage, external_etcd, fault, seed));
                }
            }
        }
    }

    #[test]
    fn no_gate_of_other_providers_holds_before_its_stage_is_rolled_out() {
        let faults = [None, Some(Fault::MachineStuck), Some(Fault::NodeNotReady), Some(Fault::PartialReads)];
        for stage in [StageName::ControlPlane, "workers/md-0".parse().unwrap()] {
            for (seed, fault) in (0..).zip(faults.into_iter().cycle().take(24)) {
                check(&Rollout { other: Some("RKE2ControlPlane"), ..of_versions(&stage, false, fault, seed) });
            }
        }
    }

    /// Machines of another template and no other version: nothing but the controller's own word and the machines tell, and nothing soaks.
    #[test]
    fn a_slow_controller_and_no_soak_open_no_gate_early() {
        let stages: [StageName; 3] = [StageName::Etcd, StageName::ControlPlane, "workers/md-0".parse().unwrap()];
        for stage in stages {
            for seed in 0..20 {
                for fault in [None, Some(Fault::ControllerSlow)] {
                    let mut planned = of_templates(&stage, fault, seed);
                    planned.cluster.policy.soak = Duration::ZERO;
                    check(&planned);
                }
            }
        }
    }

    /// The evidence that the test above rests on is needed: without it a reading holds while
    /// nothing has begun. Of etcd it is the generation that its object had before.
    #[test]
    fn without_the_word_of_the_controller_a_gate_holds_early() {
        for stage in [StageName::Etcd, StageName::ControlPlane] {
            let mut planned = of_templates(&stage, Some(Fault::ControllerSlow), 1);
            planned.expectations.retain(|expectation| !matches!(expectation, Expectation::EksaCluster(_)));
            for expectation in &mut planned.expectations {
                if let Expectation::Etcd(etcd) = expectation {
                    etcd.rolls = false;
                }
            }
            planned.cluster.policy.soak = Duration::ZERO;
            let seen = see(&planned);
            assert!(!seen.held_early.is_empty() && !seen.passed_early.is_empty(), "{stage}");
        }
    }

    /// What the Cluster of EKS Anywhere says while its controller is slow, second by second: observed soon, carried out last.
    #[test]
    fn the_controller_says_that_it_is_done_only_when_it_is() {
        let planned = of_templates(&StageName::Etcd, None, 3);
        let mut simulated = SimulatedCluster::new(&planned.cluster.shape, 3, start());
        let commit = |number, desired: &Arc<DesiredState>| DeployedCommit {
            id: id(number),
            stage: None,
            desired: Arc::clone(desired),
        };
        simulated.install(&commit(1, &planned.before), start());
        let children = |observation: &Observation| {
            let cluster = &observation.eksa_clusters[0];
            assert_eq!((cluster.generation, cluster.reconciled_generation), (1, Some(1)), "the Cluster itself stays");
            let sum: i64 = observation
                .objects
                .iter()
                .filter(|known| known.reference.kind == "VSphereMachineConfig")
                .filter_map(|known| known.generation)
                .sum();
            (cluster.children_reconciled_generation, sum)
        };
        assert_eq!(children(&simulated.observe_afresh(start())), (Some(1), 1));
        simulated.commit(&commit(2, &planned.after), start());
        let mut behind = 0;
        for second in 1..600 {
            let observation = simulated.observe_afresh(start() + SignedDuration::from_secs(second));
            let (reconciled, sum) = children(&observation);
            if reconciled != Some(sum) {
                behind += 1;
            } else if sum == 2 {
                let new = observation.machines.iter().filter(|machine| {
                    machine.infrastructure_template.as_ref().is_some_and(|name| name.ends_with("larger"))
                });
                assert!(new.count() >= 3, "at {second}");
            }
        }
        assert!(behind > 10, "{behind}");
    }
}
