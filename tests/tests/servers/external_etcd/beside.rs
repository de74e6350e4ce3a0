//! The simulated etcd beside real members: of the same happenings the gate says the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use rollout::OldMembers;
use simulator::{
    ClusterShape, DeployedCommit, DesiredKustomization, DesiredMachines, DesiredObject, DesiredState, Etcd, Fault,
    Injection, MachineStrategy, SimulatedCluster, Trigger,
};
use tests::servers::isolated;

use super::bench::{Bench, CLUSTER, ETCD, NAMESPACE, NEEDED};
use super::judged;
use crate::verdicts::word;

/// A simulated cluster of the same names.
struct Simulated {
    cluster: SimulatedCluster,
    now: Timestamp,
    commits: u32,
}

impl Simulated {
    fn start(seed: u64) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let shape = ClusterShape {
            name: CLUSTER.parse().unwrap(),
            namespace: NAMESPACE.to_owned(),
            kubernetes_version: "v1.34.0".to_owned(),
            control_plane_replicas: 3,
            worker_groups: Vec::new(),
            etcd: Etcd::External { replicas: 3 },
            strategy: MachineStrategy::Rolling,
        };
        let mut simulated = Self { cluster: SimulatedCluster::new(&shape, seed, now), now, commits: 0 };
        simulated.commit("3.7.0", "v1.34.0");
        simulated
    }

    /// What the deploy branch says of etcd and of the control plane behind it.
    fn commit(&mut self, etcd: &str, kubernetes: &str) {
        let machines = |name: &str, version: &str| DesiredMachines {
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            replicas: 3,
            version: version.to_owned(),
            template: format!("{name}-{version}"),
            bootstrap_template: None,
        };
        let control_plane = DesiredObject::ControlPlane { machines: machines(CLUSTER, kubernetes), kube_vip: None };
        let kustomization = DesiredKustomization {
            namespace: "flux-system".to_owned(),
            name: CLUSTER.to_owned(),
            path: format!("./{CLUSTER}"),
            depends_on: Vec::new(),
            wait: false,
            objects: vec![control_plane, DesiredObject::Etcd(machines(ETCD, etcd))],
        };
        self.commits += 1;
        let desired = Arc::new(DesiredState { kustomizations: vec![kustomization] });
        let id = format!("{:040x}", self.commits).parse().unwrap();
        let commit = DeployedCommit { id, stage: None, desired };
        match self.commits {
            1 => self.cluster.install(&commit, self.now),
            _ => self.cluster.commit(&commit, self.now),
        }
    }

    fn inject(&mut self, fault: Fault) {
        self.cluster.inject(&Injection { fault, from: Trigger::At(self.now), lasts: None });
    }

    /// What the gate says in the next minutes: all of it, and the last.
    fn course(&mut self, old_members: OldMembers) -> (BTreeSet<String>, String) {
        let mut said = (BTreeSet::new(), String::new());
        for _ in 0..300 {
            self.now += SignedDuration::from_secs(1);
            said.1 = told(&judged(&self.cluster.observe_afresh(self.now), old_members));
            said.0.insert(said.1.clone());
        }
        said
    }
}

fn told(verdict: &rollout::GateVerdict) -> String {
    word(verdict).unwrap_or_else(|| "pass".to_owned())
}

/// The real gate says now what the simulated one ends with.
async fn ends_alike(bench: &Bench, simulated: &mut Simulated, old_members: OldMembers) -> anyhow::Result<String> {
    let real = told(&judged(&bench.read().await, old_members));
    let (course, end) = simulated.course(old_members);
    ensure!(real == end, "real: {real}; simulated: {end} of {course:?}");
    Ok(real)
}

#[test]
fn simulated_members_are_judged_as_real_ones_are() {
    isolated("external_etcd::beside::simulated_members_are_judged_as_real_ones_are", NEEDED, |programs| async {
        let mut bench = Bench::start(programs).await?;
        let mut simulated = Simulated::start(7);
        let may_stay = OldMembers::MayStay;
        assert_eq!(ends_alike(&bench, &mut simulated, may_stay).await?, "pass");
        let old: Vec<String> = bench.members.keys().cloned().collect();

        // Most of them fall silent, and come back.
        for name in &old[..2] {
            bench.kill(name)?;
        }
        simulated.inject(Fault::EtcdQuorumLost);
        let said = ends_alike(&bench, &mut simulated, may_stay).await?;
        ensure!(said.starts_with("fail: "), "{said}");
        for name in &old[..2] {
            bench.members.get_mut(name).unwrap().process.as_mut().unwrap().restart()?;
            bench.healthy(name).await?;
        }
        simulated.cluster.heal(simulated.now);
        assert_eq!(ends_alike(&bench, &mut simulated, may_stay).await?, "pass");

        // Each is replaced, and the old ones stay until the control plane has moved.
        bench.specify("etcd-2", "3.7.1").await?;
        simulated.commit("3.7.1", "v1.34.0");
        let mut seen = BTreeSet::from([told(&judged(&bench.read().await, may_stay))]);
        for (number, name) in old.iter().enumerate() {
            bench.disown(name).await?;
            bench.status(false).await?;
            seen.insert(told(&judged(&bench.read().await, may_stay)));
            bench.join(true).await?;
            bench.status(number == 2).await?;
            seen.insert(told(&judged(&bench.read().await, may_stay)));
        }
        let (course, end) = simulated.course(may_stay);
        ensure!(end == "pass" && seen.contains("pass"), "real: {seen:?}; simulated: {course:?}, {end}");
        ensure!(seen.is_subset(&course), "real: {seen:?}; simulated: {course:?}");
        let said = told(&judged(&bench.read().await, OldMembers::Gone));
        simulated.commit("3.7.1", "v1.34.1");
        let (course, end) = simulated.course(OldMembers::Gone);
        ensure!(course.contains(&said) && end == "pass", "real: {said}; simulated: {course:?}, {end}");
        for name in &old {
            bench.remove(name, true).await?;
        }
        assert_eq!(told(&judged(&bench.read().await, OldMembers::Gone)), "pass");

        // One that is made a member and never starts, and what is left of it. The simulated machine never boots, so it is told by the
        // count of members; the real one is told by its own health.
        let broken = bench.join(false).await?;
        bench.status(false).await?;
        let said = told(&judged(&bench.read().await, may_stay));
        simulated.inject(Fault::EtcdStuck);
        simulated.commit("3.7.2", "v1.34.1");
        let (course, end) = simulated.course(may_stay);
        ensure!(said.starts_with("wait: ") && end.starts_with("wait: "), "real: {said}; simulated: {course:?}, {end}");
        bench.remove(&broken, false).await?;
        bench.status(true).await?;
        simulated.cluster.heal(simulated.now);
        simulated.commit("3.7.1", "v1.34.1");
        let _ = simulated.course(may_stay);
        simulated.inject(Fault::EtcdOrphan);
        // Here a member without a machine is left, there a machine without a member: neither opens a gate.
        let said = told(&judged(&bench.read().await, may_stay));
        let (course, end) = simulated.course(may_stay);
        ensure!(said.starts_with("wait: ") && end.starts_with("wait: "), "real: {said}; simulated: {course:?}, {end}");
        bench.done();
        Ok(())
    });
}
