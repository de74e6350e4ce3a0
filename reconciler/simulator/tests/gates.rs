//! No gate opens on a reading in which its stage is not really rolled out, at any event of the rollout.

#[cfg(test)]
mod every_event {
    use std::collections::BTreeMap;

    use jiff::{SignedDuration, Timestamp};
    use rollout::{Binding, ClusterRole, CommitId, Gate, GateHistory, RolloutId, StageId, StageName, StagePolicy};
    use simulator::{
        ClusterShape, DeployedCommit, Etcd, Fault, Injection, SimulatedCluster, Trigger, WorkerGroup,
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
            },
            role: ClusterRole::Management,
            components: vec![
                StageName::Bundle,
                StageName::CertManager,
                StageName::Capi,
                StageName::Cilium,
                StageName::Flux,
            ],
            policy: StagePolicy::default(),
            after: Vec::new(),
            flux_waits: false,
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

    /// Reads at every event of a rollout of `stage`.
    fn see(stage: &StageName, external_etcd: bool, fault: Option<Fault>, seed: u64) -> Seen {
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
        let mut simulated = SimulatedCluster::new(&cluster.shape, seed, start() - SignedDuration::from_mins(10));
        let commit = |number, stage: Option<&StageName>, parts: &Parts| DeployedCommit {
            id: id(number),
            stage: stage.cloned(),
            desired: cluster.desired(parts),
        };
        simulated.install(&commit(1, None, &base), start() - SignedDuration::from_mins(10));
        simulated.advance(start());
        if let Some(fault) = fault {
            let lasts = Some(std::time::Duration::from_secs(200));
            simulated.inject(&Injection { fault, from: Trigger::Stage(stage.clone()), lasts });
        }
        let committed_at = start() + SignedDuration::from_secs(1);
        simulated.commit(&commit(2, Some(stage), &after), committed_at);
        let expectations = cluster.expectations(stage, &after);
        let stage = StageId::last(stage.clone());
        let rollout: RolloutId = "0123456789ab".parse().unwrap();
        let binding = Binding { commit: id(2), lineage: vec![id(2)], committed_at };
        let gate = Gate {
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
            let held = gate.held(&observation, next);
            let is_held = held.is_some();
            history = history.record(
                next,
                held.map(|settled| (gate.key(), settled)).into_iter().collect(),
                cluster.policy.maximum_age,
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
            Some(Fault::EtcdStuck),
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
                    let context = format!("{stage}, {fault:?}, seed {seed}");
                    let seen = see(&stage, external_etcd, fault, seed);
                    // An EtcdadmCluster says neither version nor template: until its controller has begun, it looks as it
                    // did before, and only the soak stands between that and a pass.
                    if stage != StageName::Etcd {
                        assert!(seen.held_early.is_empty(), "{context}: held early: {:#?}", seen.held_early);
                    }
                    assert!(seen.passed_early.is_empty(), "{context}: passed early: {:#?}", seen.passed_early);
                    assert!(seen.passed, "{context}: never passed");
                }
            }
        }
    }
}
