//! EKS Anywhere's controller has carried out what Flux applied.
//!
//! Between the two, Cluster API's objects are as they were: current, ready, and of the specification before. Every clause about them
//! holds then, so only the `Cluster` of EKS Anywhere can tell whether they say anything about the stage.

use crate::expectation::{EksaClusterExpectation, Extent};
use crate::observation::{EKSA_CLUSTERS, EksaCluster, Observation};
use crate::verdict::Reason;

use super::findings::{Findings, object};

pub(super) fn check(expectation: &EksaClusterExpectation, observation: &Observation, findings: &mut Findings) {
    if !findings.was_read(EKSA_CLUSTERS, observation) {
        return;
    }
    let EksaClusterExpectation { namespace, name, .. } = expectation;
    let subject = object("EKS Anywhere Cluster", namespace, name);
    let help = format!("kubectl describe {EKSA_CLUSTERS} {name} -n {namespace}");
    let found = observation.eksa_clusters.iter().find(|known| &known.namespace == namespace && &known.name == name);
    let Some(cluster) = found else {
        findings.wait(Reason::on(subject, "not found").help(help));
        return;
    };
    if cluster.deleting {
        findings.fail(Reason::on(&subject, "is being deleted").field("metadata.deletionTimestamp").help(&help));
    }
    if cluster.paused {
        let help = format!("kubectl annotate {EKSA_CLUSTERS} {name} -n {namespace} anywhere.eks.amazonaws.com/paused-");
        let field = "metadata.annotations[anywhere.eks.amazonaws.com/paused]";
        findings.wait(Reason::on(&subject, "paused").field(field).help(help));
    }
    if let Some(failure) = &cluster.failure {
        findings.wait(Reason::on(&subject, failure.clone()).field("status.failureMessage").help(&help));
    }
    findings.observed(&subject, cluster.generation, cluster.observed_generation, &help);
    let done = match expectation.extent {
        Extent::Whole => {
            check_carried_out(&subject, cluster, &help, findings);
            check_children(&subject, cluster, expectation, observation, &help, findings);
            "carried out"
        }
        Extent::Begun => "taken up",
    };
    findings.settle(format!("{subject} generation {}", cluster.generation));
    findings.fact(subject, format!("generation {} {done}", cluster.generation));
}

fn check_carried_out(subject: &str, cluster: &EksaCluster, help: &str, findings: &mut Findings) {
    let field = "status.reconciledGeneration";
    match cluster.reconciled_generation {
        Some(reconciled) if reconciled == cluster.generation => {}
        Some(reconciled) => {
            let message = format!("{reconciled}: its controller has not carried out generation {}", cluster.generation);
            findings.wait(Reason::on(subject, message).field(field).help(help));
        }
        None => findings.wait(Reason::on(subject, "not set").field(field).help(help)),
    }
}

/// A change of a machine configuration leaves the Cluster's own generation alone.
///
/// The controller adds up the generations of all children, those included that are not known here, so a sum that is too high says
/// nothing and one that is too low says that it has not seen the newest.
fn check_children(
    subject: &str,
    cluster: &EksaCluster,
    expectation: &EksaClusterExpectation,
    observation: &Observation,
    help: &str,
    findings: &mut Findings,
) {
    let mut sum: i64 = 0;
    for child in &expectation.children {
        if !findings.was_read(&child.kind, observation) {
            return;
        }
        let known = observation.objects.iter().find(|known| &known.reference == child);
        let Some(generation) = known.filter(|known| known.present).and_then(|known| known.generation) else {
            findings.wait(Reason::on(child.to_string(), "not found").help(help));
            return;
        };
        sum = sum.saturating_add(generation);
    }
    if expectation.children.is_empty() {
        return;
    }
    let field = "status.childrenReconciledGeneration";
    match cluster.children_reconciled_generation {
        Some(reconciled) if reconciled >= sum => findings.settle(format!("children {sum}")),
        Some(reconciled) => {
            let message = format!(
                "{reconciled}, at least {sum} expected: its controller has not carried out the newest {}",
                kinds(expectation)
            );
            findings.wait(Reason::on(subject, message).field(field).help(help));
        }
        None => findings.wait(Reason::on(subject, "not set").field(field).help(help)),
    }
}

/// The kinds of the children, each once, in the order of the specification.
fn kinds(expectation: &EksaClusterExpectation) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for child in &expectation.children {
        if !kinds.contains(&child.kind.as_str()) {
            kinds.push(&child.kind);
        }
    }
    kinds.join(" or ")
}
