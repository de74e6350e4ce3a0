//! An external etcd cluster has its members.

use crate::expectation::EtcdExpectation;
use crate::observation::{EtcdadmCluster, Machine, Observation};
use crate::verdict::Reason;

use super::findings::{Findings, object};
use super::machines;

/// `generation == observedGeneration` and `status.ready`, as EKS Anywhere gates it, and the members' own machines, which cannot be of a
/// generation before. The `Ready` *condition* turns true only after the control plane's rollout has removed the old members: waiting for
/// it here would wait for ever (`aws/etcdadm-controller`, `controllers/`).
pub(super) fn check(expectation: &EtcdExpectation, observation: &Observation, findings: &mut Findings) {
    if !["EtcdadmCluster", "Machine"].iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let EtcdExpectation { namespace, name, replicas, .. } = expectation;
    let subject = object("EtcdadmCluster", namespace, name);
    let help = format!("kubectl describe etcdadmcluster {name} -n {namespace}");
    let found = observation.etcd_clusters.iter().find(|known| &known.namespace == namespace && &known.name == name);
    let Some(etcd) = found else {
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
    findings.count(&subject, "spec.replicas", etcd.spec_replicas, *replicas, &help);
    findings.count(&subject, "status.replicas", etcd.ready_replicas, *replicas, &help);
    if etcd.ready != Some(true) {
        findings.wait(Reason::on(&subject, "not true").field("status.ready").help(&help));
    }
    if etcd.creation_complete == Some(false) {
        findings.wait(Reason::on(&subject, "not true").field("status.creationComplete").help(&help));
    }
    machines::check_template(
        &subject,
        "spec.infrastructureTemplate.name",
        etcd.infrastructure_template.as_deref(),
        expectation.infrastructure_template.as_deref(),
        &help,
        findings,
    );
    check_members(&subject, etcd, expectation, observation, findings);
    findings.settle(format!("{subject} generation {}", etcd.generation));
    findings.fact(subject, format!("{replicas} members ready, generation {} observed", etcd.generation));
}

/// Members of the rollout before have no owner any more; those that are owned have to be of the newest template.
fn check_members(
    subject: &str,
    etcd: &EtcdadmCluster,
    expectation: &EtcdExpectation,
    observation: &Observation,
    findings: &mut Findings,
) {
    let EtcdExpectation { namespace, name, replicas, .. } = expectation;
    let help = format!("kubectl get machines -n {namespace} -l cluster.x-k8s.io/etcd-cluster={name}");
    let members: Vec<&Machine> = observation
        .machines
        .iter()
        .filter(|machine| {
            !machine.control_plane && &machine.namespace == namespace && machine.owner.as_ref() == Some(name)
        })
        .collect();
    let seen = u32::try_from(members.len()).unwrap_or(u32::MAX);
    findings.count(subject, "machines", Some(seen), *replicas, &help);
    for member in &members {
        let subject = object("Machine", &member.namespace, &member.name);
        if member.deleting {
            findings
                .wait(Reason::on(&subject, "is still being deleted").field("metadata.deletionTimestamp").help(&help));
        }
        machines::check_cloned_from(&subject, member, etcd.infrastructure_template.as_deref(), &help, findings);
    }
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    findings.settle(names.join(","));
}
