//! An external etcd cluster has its members.

mod door;
mod members;

use crate::expectation::{EtcdExpectation, MembersHeard, OldMembers};
use crate::gate::findings::{Findings, object};
use crate::gate::machines;
use crate::observation::{ConditionStatus, EtcdMembership, EtcdadmCluster, Machine, Observation};
use crate::verdict::Reason;

pub(crate) use door::no_way_back;

/// `generation == observedGeneration` and `status.ready`, as EKS Anywhere gates it, the members' own machines, which cannot be of a
/// generation before, and the members' own word. The `Ready` *condition* turns true only after the control plane's rollout has removed the
/// old members: waiting for it here would wait for ever (`aws/etcdadm-controller`, `controllers/`).
pub(super) fn check(expectation: &EtcdExpectation, observation: &Observation, findings: &mut Findings) {
    if !["EtcdadmCluster", "Machine"].iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let EtcdExpectation { namespace, name, replicas, .. } = expectation;
    let subject = object("EtcdadmCluster", namespace, name);
    let help = format!("kubectl describe etcdadmcluster {name} -n {namespace}");
    let Some(etcd) = found(expectation, observation) else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if etcd.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if etcd.paused {
        let help = format!("kubectl annotate etcdadmcluster {name} -n {namespace} cluster.x-k8s.io/paused-");
        findings.paused(
            &subject,
            "metadata.annotations[cluster.x-k8s.io/paused]",
            etcd.generation,
            etcd.observed_generation,
            help,
        );
    }
    findings.observed(&subject, etcd.generation, etcd.observed_generation, &help);
    if let Some(before) = expectation.above_generation.filter(|before| etcd.generation <= *before) {
        let message = format!("{before}, as before the commit: its controller has not been told of it");
        findings.behind(Reason::on(&subject, message).field("metadata.generation").help(&help));
    }
    findings.count(&subject, "spec.replicas", etcd.spec_replicas, *replicas, &help);
    findings.count(&subject, "status.replicas", etcd.ready_replicas, *replicas, &help);
    if etcd.ready != Some(true) {
        findings.wait(Reason::on(&subject, "not true").field("status.ready").help(&help));
    }
    if etcd.creation_complete == Some(false) {
        findings.wait(Reason::on(&subject, "not true").field("status.creationComplete").help(&help));
    }
    let up_to_date = "EtcdMachinesSpecUpToDate";
    findings.condition_if_reported(&subject, &etcd.conditions, up_to_date, ConditionStatus::True, &help);
    machines::check_template(
        &subject,
        "spec.infrastructureTemplate.name",
        etcd.infrastructure_template.as_deref(),
        expectation.infrastructure_template.as_deref(),
        &help,
        findings,
    );
    let of = Members::of(etcd, observation);
    check_machines(&subject, etcd, expectation, &of, findings);
    let unheard = match &etcd.membership {
        Some(EtcdMembership::Known { members }) => {
            members::check(&subject, etcd, &of, members, findings);
            None
        }
        Some(EtcdMembership::Unknown { reason }) => Some(format!("its members could not be asked: {reason}")),
        None => Some("its members were not asked yet".to_owned()),
    };
    if let Some(message) = unheard.filter(|_| expectation.members == MembersHeard::Required) {
        findings.wait(Reason::on(&subject, message).help(ASK));
        // Nothing is undone because a firewall was in the way.
        findings.proves_nothing();
    }
    findings.settle(format!("{subject} generation {}", etcd.generation));
    findings.fact(&subject, format!("{replicas} members ready, generation {} observed", etcd.generation));
}

/// What lets Stepgate ask members.
const ASK: &str = "members are asked at port 2379 with the client certificate of the cluster's API server (Secret <cluster>-apiserver-etcd-client), \
                   as their own controller asks them: no network policy or firewall may stand in between";

fn found<'a>(expectation: &EtcdExpectation, observation: &'a Observation) -> Option<&'a EtcdadmCluster> {
    let EtcdExpectation { namespace, name, .. } = expectation;
    observation.etcd_clusters.iter().find(|known| &known.namespace == namespace && &known.name == name)
}

/// The machines of an external etcd.
struct Members<'a> {
    /// Those that it owns.
    owned: Vec<&'a Machine>,
    /// Those that it owns no more: members until the control plane has moved to the others.
    old: Vec<&'a Machine>,
}

impl<'a> Members<'a> {
    fn of(etcd: &EtcdadmCluster, observation: &'a Observation) -> Self {
        let is_owned = |machine: &&Machine| machine.owner.as_ref() == Some(&etcd.name);
        let is_its = |machine: &&Machine| {
            !machine.control_plane
                && machine.namespace == etcd.namespace
                && (is_owned(machine) || machine.etcd_cluster.as_ref() == Some(&etcd.name))
        };
        let (owned, old) = observation.machines.iter().filter(is_its).partition(is_owned);
        Self { owned, old }
    }
}

/// Members of the rollout before have no owner any more; those that are owned have to be of the
/// newest template.
fn check_machines(
    subject: &str,
    etcd: &EtcdadmCluster,
    expectation: &EtcdExpectation,
    members: &Members<'_>,
    findings: &mut Findings,
) {
    let EtcdExpectation { namespace, name, replicas, .. } = expectation;
    let help = format!("kubectl get machines -n {namespace} -l cluster.x-k8s.io/etcd-cluster={name}");
    let number = |machines: &[&Machine]| u32::try_from(machines.len()).unwrap_or(u32::MAX);
    findings.count(subject, "machines", Some(number(&members.owned)), *replicas, &help);
    for member in &members.owned {
        let subject = object("Machine", &member.namespace, &member.name);
        if member.deleting {
            findings
                .wait(Reason::on(&subject, "is still being deleted").field("metadata.deletionTimestamp").help(&help));
        }
        machines::check_cloned_from(&subject, member, etcd.infrastructure_template.as_deref(), &help, findings);
    }
    match expectation.old_members {
        OldMembers::Gone => {
            for old in &members.old {
                let message =
                    "belongs to nobody: etcd has replaced it, and the control plane's rollout has not removed it";
                let help = format!("kubectl delete machine {} -n {}", old.name, old.namespace);
                findings.wait(Reason::on(object("Machine", &old.namespace, &old.name), message).help(help));
            }
        }
        OldMembers::MayStay if number(&members.old) > *replicas => {
            let message = format!("{} machines without an owner, at most {replicas} expected", members.old.len());
            findings.wait(Reason::on(subject, message).field("machines").help(&help));
        }
        OldMembers::MayStay => {}
    }
    let mut names: Vec<&str> = members.owned.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    findings.settle(names.join(","));
}
