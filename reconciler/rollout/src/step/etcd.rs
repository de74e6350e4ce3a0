//! The first member of an external etcd is taken back before its commit is reverted.
//!
//! etcd's controller would go on otherwise: it makes yet another machine for the specification of
//! before, and the endpoints that change with it roll the control plane. So it is paused first; the
//! machines that it owned before are its own again, those made since go, and only then the commit
//! is reverted. When that is applied, the controller goes on and finds everything as it was.

use crate::effect::{Effect, EtcdAct};
use crate::expectation::{EtcdExpectation, Expectation};
use crate::ledger::{EtcdBefore, StageRecord};
use crate::observation::{EtcdadmCluster, Machine, Observation};
use crate::plan::{Plan, StagePlan};
use crate::stage::StageName;
use crate::verdict::Reason;
use crate::world::World;
use domain::ClusterName;
use jiff::Timestamp;

use super::gates::{self, OwnedGate};

fn expected(expectations: &[Expectation]) -> Option<&EtcdExpectation> {
    expectations.iter().find_map(|expectation| match expectation {
        Expectation::Etcd(etcd) => Some(etcd),
        _ => None,
    })
}

fn found<'a>(expected: &EtcdExpectation, observation: &'a Observation) -> Option<&'a EtcdadmCluster> {
    let is_it = |known: &&EtcdadmCluster| known.namespace == expected.namespace && known.name == expected.name;
    observation.etcd_clusters.iter().find(is_it)
}

/// Every machine that is or was a member, whoever owns it.
fn machines<'a>(etcd: &'a EtcdadmCluster, observation: &'a Observation) -> impl Iterator<Item = &'a Machine> {
    observation.machines.iter().filter(|machine| {
        machine.namespace == etcd.namespace
            && !machine.control_plane
            && (machine.etcd_cluster.as_ref() == Some(&etcd.name) || machine.owner.as_ref() == Some(&etcd.name))
    })
}

/// What the external etcd is before a stage that changes it.
pub(super) fn before(world: &World, next: &StagePlan) -> Option<EtcdBefore> {
    let expected = expected(&next.expectations).filter(|_| next.stage.name == StageName::Etcd)?;
    let read = world.rest.as_deref().or(world.observation.as_deref())?;
    let etcd = found(expected, read)?;
    let generation = expected.rolls.then_some(etcd.generation);
    let mut machines: Vec<String> = machines(etcd, read).map(|machine| machine.name.clone()).collect();
    machines.sort();
    Some(EtcdBefore { generation, machines })
}

/// What the external etcd is when a stage that changed it is reverted: its generation, and the machines from before the stage.
pub(super) fn before_revert(world: &World, failed: &StageRecord, stage: &StagePlan) -> Option<EtcdBefore> {
    let before = failed.etcd.as_ref()?;
    let etcd = found(expected(&stage.deployed_expectations)?, world.observation.as_deref()?)?;
    Some(EtcdBefore { generation: Some(etcd.generation), machines: before.machines.clone() })
}

/// What has to be done, and what a person can do, before the commit is reverted; none where the
/// cluster is as it was.
pub(super) fn taken_back_first(
    plan: &Plan,
    record: &StageRecord,
    gate: &OwnedGate,
    observation: &Observation,
) -> Option<(Option<Effect>, Reason)> {
    let before = record.etcd.as_ref()?;
    let etcd = found(expected(&gate.expectations)?, observation)?;
    let is_old = |machine: &&Machine| before.machines.contains(&machine.name);
    let names = |machines: Vec<&Machine>| machines.iter().map(|machine| machine.name.clone()).collect::<Vec<_>>();
    let (old, new): (Vec<&Machine>, Vec<&Machine>) = machines(etcd, observation).partition(is_old);
    let give_back = names(old.into_iter().filter(|machine| machine.owner.is_none()).collect());
    let delete = names(new.into_iter().filter(|machine| !machine.deleting).collect());
    let going = machines(etcd, observation).any(|machine| machine.deleting);
    if give_back.is_empty() && delete.is_empty() && !going {
        return None;
    }
    let EtcdadmCluster { namespace, name, .. } = etcd;
    let message = format!(
        "taken back before its commit: {} new and {} of the machines before that it owns no more",
        delete.len(),
        give_back.len()
    );
    let object = format!("EtcdadmCluster {namespace}/{name}");
    let reason = Reason::on(object, message).help(commands(namespace, name, &give_back, &delete));
    let (cluster, namespace, name) = (plan.cluster.clone(), namespace.clone(), name.clone());
    // What is on its way already is only waited for.
    let is_due = !give_back.is_empty() || !delete.is_empty();
    let before = before.machines.clone();
    let act = EtcdAct::TakeBack { cluster, namespace, name, before, give_back, delete };
    Some((is_due.then_some(Effect::Etcd(act)), reason))
}

/// What does the same by hand, where Stepgate may not.
fn commands(namespace: &str, name: &str, give_back: &[String], delete: &[String]) -> String {
    let mut lines =
        vec![format!("kubectl annotate etcdadmcluster {name} -n {namespace} cluster.x-k8s.io/paused=stepgate")];
    lines.extend(give_back.iter().map(|machine| {
        let get = format!("kubectl get etcdadmcluster {name} -n {namespace} -o jsonpath={{.metadata.uid}}");
        let owner = format!(
            "{{\"apiVersion\":\"etcdcluster.cluster.x-k8s.io/v1beta1\",\"kind\":\"EtcdadmCluster\",\"name\":\"{name}\",\
             \"uid\":\"$({get})\",\"controller\":true}}"
        );
        let patch = format!("{{\"metadata\":{{\"ownerReferences\":[{owner}]}}}}");
        format!("kubectl patch machine {machine} -n {namespace} --type merge -p {patch:?}")
    }));
    lines.extend(delete.iter().map(|machine| format!("kubectl delete machine {machine} -n {namespace}")));
    lines.join(" && ")
}

/// Lets etcd's controller go on that Stepgate has paused, once the specification of the gate's commit is applied: the one
/// of before, or a new one that has come before the first member was taken back.
///
/// Flux is not asked for its health: where it waits for etcd, etcd waits for us.
pub(super) fn goes_on(
    world: &World,
    cluster: &ClusterName,
    record: &StageRecord,
    gate: &OwnedGate,
    now: Timestamp,
) -> Option<Effect> {
    let observation = world.observation.as_deref().filter(|_| record.stage.name == StageName::Etcd)?;
    // What could not be read may still be taken back: that there is no way back is not known then.
    if ["EtcdadmCluster", "Machine", "KubeadmControlPlane"].iter().any(|kind| observation.unread.contains_key(*kind)) {
        return None;
    }
    let etcd = found(expected(&gate.expectations)?, observation).filter(|etcd| etcd.paused_by_us)?;
    // EKS Anywhere's controller writes the object itself, some time after Flux, and says that it is done once etcd is ready.
    let is_by_controller = gate.expectations.iter().any(|one| matches!(one, Expectation::EksaCluster(_)));
    let noted = record.etcd.as_ref().and_then(|before| before.generation).filter(|_| is_by_controller);
    let is_written = noted.is_none_or(|before| etcd.generation > before);
    let (namespace, name) = (etcd.namespace.clone(), etcd.name.clone());
    let resume = EtcdAct::Resume { cluster: cluster.clone(), namespace, name };
    (is_written && gate.as_gate().is_applied(observation, now)).then_some(Effect::Etcd(resume))
}

/// The same where a repair has taken over while the first member was being taken back: nothing is reverted on that way, and
/// no gate asks for the stage any more for which etcd's controller was paused.
pub(super) fn left_standing(
    world: &World,
    observation: &Observation,
    effects: &[Effect],
    now: Timestamp,
) -> Option<EtcdAct> {
    let record = world.ledger.as_deref()?.stages.last()?;
    let is_at_work = effects.iter().any(|effect| matches!(effect, Effect::Etcd(_) | Effect::Revert(_)));
    if is_at_work || record.stage.name == StageName::Etcd {
        return None;
    }
    let stage = world.plan.stages.iter().find(|stage| stage.stage.name == StageName::Etcd)?;
    let etcd = found(expected(&stage.deployed_expectations)?, observation).filter(|etcd| etcd.paused_by_us)?;
    let gate = gates::newest(world, stage)?;
    let (namespace, name) = (etcd.namespace.clone(), etcd.name.clone());
    let resume = EtcdAct::Resume { cluster: world.plan.cluster.clone(), namespace, name };
    gate.as_gate().is_applied(observation, now).then_some(resume)
}

#[cfg(test)]
mod tests {
    use super::super::harness::RolloutHarness;
    use super::super::record;
    use super::*;
    use crate::expectation::{MembersHeard, OldMembers};
    use crate::step::step;
    use policy::OnFailure;

    /// Stage `etcd` of a cluster whose members are observed too.
    struct Bench {
        laboratory: RolloutHarness,
        etcd: EtcdadmCluster,
        machines: Vec<Machine>,
        deleted: Vec<String>,
    }

    fn machine(name: &str, owned: bool) -> Machine {
        Machine {
            namespace: "n".into(),
            name: name.into(),
            cluster: "mgmt".into(),
            owner: owned.then(|| "members".into()),
            etcd_cluster: Some("members".into()),
            ..Machine::default()
        }
    }

    impl Bench {
        fn new() -> Self {
            let mut laboratory = RolloutHarness::new(&[("etcd", 1, 2), ("control-plane", 1, 2)]);
            laboratory.policy.on_failure = OnFailure::Revert;
            let etcd = EtcdadmCluster {
                namespace: "n".into(),
                name: "members".into(),
                cluster: "mgmt".into(),
                generation: 1,
                observed_generation: Some(1),
                spec_replicas: Some(3),
                ready_replicas: Some(3),
                ready: Some(true),
                ..EtcdadmCluster::default()
            };
            let machines = ["a", "b", "c"].map(|name| machine(name, true)).into();
            Self { laboratory, etcd, machines, deleted: Vec::new() }
        }

        fn world(&self) -> World {
            let mut world = self.laboratory.world();
            let members = Expectation::Etcd(EtcdExpectation {
                namespace: "n".into(),
                name: "members".into(),
                replicas: 3,
                members: MembersHeard::WhenReported,
                old_members: OldMembers::MayStay,
                ..EtcdExpectation::default()
            });
            let plan = std::sync::Arc::make_mut(&mut world.plan);
            for stage in plan.stages.iter_mut().filter(|stage| stage.stage.name == StageName::Etcd) {
                stage.expectations.push(members.clone());
                stage.deployed_expectations.push(members.clone());
            }
            let mut read = self.laboratory.read();
            read.etcd_clusters.push(self.etcd.clone());
            read.machines.clone_from(&self.machines);
            world.observation = Some(std::sync::Arc::new(read));
            world
        }

        /// Reads, decides and carries out, etcd's objects included.
        fn turn(&mut self) -> Vec<Effect> {
            self.laboratory.now += jiff::SignedDuration::from_secs(6);
            self.laboratory.history = record(&self.world(), self.laboratory.now);
            let effects = step(&self.world(), self.laboratory.now);
            for effect in &effects {
                self.laboratory.carry_out(effect);
                match effect {
                    Effect::Etcd(EtcdAct::TakeBack { give_back, delete, .. }) => {
                        (self.etcd.paused, self.etcd.paused_by_us) = (true, true);
                        for known in self.machines.iter_mut().filter(|known| give_back.contains(&known.name)) {
                            known.owner = Some("members".into());
                        }
                        self.machines.retain(|known| !delete.contains(&known.name));
                        self.deleted.extend(delete.iter().cloned());
                    }
                    Effect::Etcd(EtcdAct::Resume { .. }) => {
                        (self.etcd.paused, self.etcd.paused_by_us) = (false, false);
                    }
                    _ => {}
                }
            }
            effects
        }

        /// The first old member is given away, and the first new one does not come up.
        fn first_member(&mut self) {
            self.machines[0].owner = None;
            self.machines.push(machine("d", true));
            (self.etcd.ready, self.etcd.ready_replicas) = (Some(false), Some(2));
        }

        fn until(&mut self, what: &str) {
            for _ in 0..300 {
                self.turn();
                if self.laboratory.log().last() == Some(&what) {
                    return;
                }
            }
            panic!("{what} was not reached: {:?}", self.laboratory.log());
        }
    }

    #[test]
    fn a_first_member_that_does_not_come_up_is_taken_back_before_its_commit() {
        let mut bench = Bench::new();
        bench.until("commit etcd 2");
        let noted = bench.laboratory.ledger.clone().unwrap().stages[0].etcd.clone().unwrap();
        assert_eq!((noted.machines, noted.generation), (["a", "b", "c"].map(String::from).into(), None));
        bench.first_member();
        bench.until("revert etcd 1");
        assert_eq!(bench.deleted, ["d"]);
        assert!(bench.etcd.paused && bench.machines.iter().all(|known| known.owner.is_some()), "{:?}", bench.machines);
        // The specification of before is applied: its controller goes on, and finds everything as
        // it was.
        bench.turn();
        assert!(!bench.etcd.paused);
        (bench.etcd.ready, bench.etcd.ready_replicas) = (Some(true), Some(3));
        let said = format!("{:?}", (0..4).map(|_| bench.turn()).last());
        assert!(said.contains("was committed once and reverted"), "{said}");
        assert_eq!(bench.laboratory.log(), ["commit etcd 2", "revert etcd 1"]);
    }

    #[test]
    fn a_repair_that_takes_over_meanwhile_lets_etcd_go_on() {
        let mut bench = Bench::new();
        bench.laboratory = RolloutHarness::new(&[("eks-a", 1, 1), ("etcd", 1, 2)]);
        bench.laboratory.policy.on_failure = OnFailure::Revert;
        bench.until("commit etcd 2");
        bench.first_member();
        while !bench.turn().iter().any(|effect| matches!(effect, Effect::Etcd(EtcdAct::TakeBack { .. }))) {}
        assert!(bench.etcd.paused);
        bench.laboratory.push(&[("eks-a", 2)]);
        bench.until("commit eks-a 2");
        for _ in 0..3 {
            bench.turn();
        }
        assert!(!bench.etcd.paused, "nobody would let it go on any more");
        (bench.etcd.ready, bench.etcd.ready_replicas) = (Some(true), Some(3));
        bench.until("close");
    }

    #[test]
    fn etcd_goes_on_where_an_old_member_went_while_it_was_being_taken_back() {
        let mut bench = Bench::new();
        bench.until("commit etcd 2");
        bench.first_member();
        while !bench.turn().iter().any(|effect| matches!(effect, Effect::Etcd(EtcdAct::TakeBack { .. }))) {}
        // What could not be read is not known to be closed.
        let mut unread = bench.world();
        let read = std::sync::Arc::make_mut(unread.observation.as_mut().unwrap());
        read.unread.insert("KubeadmControlPlane".to_owned(), "timed out".to_owned());
        let said = format!("{:?}", step(&unread, bench.laboratory.now));
        assert!(said.contains("could not be read") && !said.contains("Resume"), "{said}");
        // Somebody else has deleted it: from then on nothing is reverted.
        bench.machines.remove(0);
        assert!(bench.etcd.paused);
        bench.turn();
        assert!(!bench.etcd.paused, "the gate could never pass");
        bench.machines.push(machine("e", true));
        (bench.etcd.ready, bench.etcd.ready_replicas) = (Some(true), Some(3));
        bench.until("commit control-plane 2");
    }

    #[test]
    fn who_may_not_take_it_back_is_told_the_commands() {
        let mut bench = Bench::new();
        bench.until("commit etcd 2");
        bench.first_member();
        bench.laboratory.now += jiff::SignedDuration::from_secs(600);
        bench.laboratory.history = record(&bench.world(), bench.laboratory.now);
        let effects = step(&bench.world(), bench.laboratory.now);
        let Some(Effect::Hold { help, .. }) = effects.last() else { panic!("{effects:?}") };
        for command in [
            "kubectl annotate etcdadmcluster members -n n cluster.x-k8s.io/paused=stepgate",
            "kubectl patch machine a -n n --type merge",
            "kubectl delete machine d -n n",
        ] {
            assert!(help.contains(command), "{help}");
        }
    }

    #[test]
    fn nothing_is_taken_back_once_an_old_member_is_gone() {
        let mut bench = Bench::new();
        bench.until("commit etcd 2");
        bench.first_member();
        bench.machines.remove(0);
        bench.laboratory.now += jiff::SignedDuration::from_secs(600);
        bench.laboratory.history = record(&bench.world(), bench.laboratory.now);
        let said = format!("{:?}", step(&bench.world(), bench.laboratory.now));
        assert!(said.contains("no way back: 2 of the 3 members from before are left"), "{said}");
        assert!(!said.contains("TakeBack") && !said.contains("Revert"), "{said}");
    }
}
