//! What has to be true of a rendered `TanzuKubernetesCluster` before a rollout of it begins.

use crate::gate::findings::{Findings, object};
use crate::observation::Observation;
use crate::tanzu::phase::{RENDERED_KINDS, TanzuPhase, rendered_phase};
use crate::verdict::Reason;

/// Nothing is on its way, and nothing has failed: either is named by itself.
pub(in crate::gate) fn check_settled(
    (namespace, name): (&str, &str),
    observation: &Observation,
    findings: &mut Findings,
) {
    if !RENDERED_KINDS.iter().all(|kind| findings.was_read(kind, observation)) {
        return;
    }
    let subject = object("Cluster", namespace, name);
    let help = format!("kubectl get machines -n {namespace} -l cluster.x-k8s.io/cluster-name={name}");
    let Some(phase) = rendered_phase(namespace, name, observation) else {
        findings.wait(Reason::on(subject, "not found").help(format!("kubectl get clusters -n {namespace}")));
        return;
    };
    match phase {
        TanzuPhase::Running => {
            findings.fact(subject, "running: no other update is in progress, and none has failed");
        }
        TanzuPhase::Creating => findings.wait(Reason::on(subject, "creating: it is not made yet").help(help)),
        TanzuPhase::Updating => {
            findings.wait(Reason::on(subject, "updating: another update is in progress").help(help));
        }
        TanzuPhase::Deleting => findings.wait(Reason::on(subject, "deleting: it is being deleted")),
        TanzuPhase::UpdateFailed | TanzuPhase::Failed => {
            // Nothing of a rollout has begun yet: it may be repaired meanwhile.
            let message = format!("{phase}: an update of it has failed, which is repaired before another begins");
            findings.failing(Reason::on(subject, message).help(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::observation::{
        Attempts, ConditionStatus, ControlPlane, FailedAttempt, Machine, MachineId, MachineTopology, conditions,
    };
    use crate::verdict::GateVerdict;

    /// A control plane of one machine that is settled.
    fn settled() -> Observation {
        let (namespace, cluster) = ("fleet".to_owned(), "depot".to_owned());
        let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
        observation.clusters.push(MachineTopology {
            namespace: namespace.clone(),
            name: cluster.clone(),
            conditions: conditions([("ControlPlaneInitialized", ConditionStatus::True)]),
            ..MachineTopology::default()
        });
        observation.control_planes.push(ControlPlane {
            namespace: namespace.clone(),
            name: "plane".into(),
            cluster: cluster.clone(),
            generation: 2,
            observed_generation: Some(2),
            spec_replicas: Some(1),
            replicas: Some(1),
            up_to_date_replicas: Some(1),
            ..ControlPlane::default()
        });
        observation.machines.push(Machine {
            namespace,
            name: "a".into(),
            uid: Some("uid-a".into()),
            cluster,
            node: Some("node-a".into()),
            ..Machine::default()
        });
        observation
    }

    fn said(observation: &Observation) -> String {
        let mut findings = Findings::default();
        check_settled(("fleet", "depot"), observation, &mut findings);
        match findings.into_verdict().map_err(|verdict| *verdict) {
            Ok((facts, _)) => facts.iter().map(|fact| fact.seen.clone()).collect(),
            Err(GateVerdict::Wait { reason, .. }) => format!("waits: {reason}"),
            Err(verdict) => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn a_cluster_that_is_settled_says_that_nothing_is_on_its_way() {
        assert_eq!(said(&settled()), "running: no other update is in progress, and none has failed");
    }

    #[test]
    fn another_update_is_waited_for_by_name() {
        let mut observation = settled();
        observation.machines[0].deleting = true;
        assert_eq!(said(&observation), "waits: Cluster fleet/depot: updating: another update is in progress");
    }

    #[test]
    fn an_update_that_failed_is_repaired_first() {
        let mut observation = settled();
        observation.machines[0].node = None;
        let failed = FailedAttempt {
            at: Timestamp::UNIX_EPOCH,
            machines: vec![MachineId { name: "a".into(), uid: "uid-a".into() }],
        };
        let (rollout, stage) = ("0123456789ab".parse().unwrap(), "control-plane".parse().unwrap());
        observation.clusters[0].attempts = Some(Attempts { rollout, stage, failed: vec![failed; 4] });
        let said = said(&observation);
        assert!(said.starts_with("waits: Cluster fleet/depot: updateFailed: an update of it has failed"), "{said}");
    }

    #[test]
    fn what_was_not_read_is_not_taken_as_settled() {
        let mut observation = settled();
        observation.unread.insert("MachineDeployment".into(), "timeout".into());
        assert_eq!(said(&observation), "waits: MachineDeployment: could not be read: timeout");
        let mut gone = settled();
        gone.clusters.clear();
        assert_eq!(said(&gone), "waits: Cluster fleet/depot: not found");
    }
}
