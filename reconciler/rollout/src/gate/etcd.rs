//! An external etcd cluster has its members.

use crate::observation::Observation;
use crate::verdict::Reason;

use super::findings::{Findings, object};

/// `generation == observedGeneration` and `status.ready`, as EKS Anywhere gates it. The `Ready` *condition* turns true only after the control
/// plane's rollout has removed the old members (`aws/etcdadm-controller`, `controllers/`): waiting for it here would wait for ever.
pub(super) fn check(namespace: &str, name: &str, replicas: u32, observation: &Observation, findings: &mut Findings) {
    if !findings.was_read("EtcdadmCluster", observation) {
        return;
    }
    let subject = object("EtcdadmCluster", namespace, name);
    let help = format!("kubectl describe etcdadmcluster {name} -n {namespace}");
    let found = observation.etcd_clusters.iter().find(|known| known.namespace == namespace && known.name == name);
    let Some(etcd) = found else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if etcd.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if etcd.paused {
        let help = format!("kubectl annotate etcdadmcluster {name} -n {namespace} cluster.x-k8s.io/paused-");
        findings.wait(Reason::on(&subject, "paused").field("metadata.annotations[cluster.x-k8s.io/paused]").help(help));
    }
    findings.observed(&subject, etcd.generation, etcd.observed_generation, &help);
    findings.count(&subject, "spec.replicas", etcd.spec_replicas, replicas, &help);
    findings.count(&subject, "status.replicas", etcd.ready_replicas, replicas, &help);
    if etcd.ready != Some(true) {
        findings.wait(Reason::on(&subject, "not true").field("status.ready").help(&help));
    }
    if etcd.creation_complete == Some(false) {
        findings.wait(Reason::on(&subject, "not true").field("status.creationComplete").help(&help));
    }
    findings.settle(format!("{subject} generation {}", etcd.generation));
    findings.fact(subject, format!("{replicas} members ready, generation {} observed", etcd.generation));
}
