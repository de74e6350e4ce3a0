//! Nodes of Fargate: what runs on old ones, and who replaces it.

use crate::before::Before;
use crate::gate::eks::minor;
use crate::gate::findings::Findings;
use crate::observation::{FargateReading, FargateWorkload, Node, NodeOrigin, Observation};
use crate::verdict::Reason;

pub(in crate::gate) fn check(
    version: &str,
    restarts: bool,
    before: Option<&Before>,
    observation: &Observation,
    findings: &mut Findings,
) {
    let on_fargate = observation.nodes.iter().filter(|node| node.origin == Some(NodeOrigin::Fargate));
    let is_old = |node: &&Node| node.kubelet_version.as_deref().and_then(minor) != minor(version);
    let old: Vec<&Node> = on_fargate.clone().filter(is_old).collect();
    for node in &old {
        let kubelet = node.kubelet_version.as_deref().unwrap_or("not reported");
        let message = format!("is of Fargate at {kubelet}, and goes with its pod alone: {version} expected");
        let help = format!(
            "`kubectl get pods -A --field-selector spec.nodeName={}` names its pod: make what owns that anew",
            node.name
        );
        let reason = Reason::on(format!("Node {}", node.name), message).field("status.nodeInfo.kubeletVersion");
        findings.dependent(reason.help(help));
    }
    let reading = observation.fargate.as_ref();
    for workload in reading.iter().flat_map(|reading| &reading.workloads) {
        let was_broken = before.is_some_and(|before| before.broken.contains(&workload.subject()));
        tell(workload, restarts, was_broken, findings);
    }
    if let Some(FargateReading { others, unread, .. }) = reading {
        for pod in others {
            let subject = format!("Pod {}/{}", pod.namespace, pod.name);
            let message = format!("of {} keeps an old node of Fargate, and no restart replaces it", pod.owner);
            let help = format!("wait until it ends, or `kubectl delete pod {} -n {}`", pod.name, pod.namespace);
            findings.wait(Reason::on(subject, message).help(help));
        }
        for unread in unread {
            findings.wait(Reason::new(format!("what runs on Fargate is not known: {unread}")));
        }
    }
    if old.is_empty() {
        findings.fact("Fargate", format!("{} nodes, all at {version}", on_fargate.count()));
    }
}

fn tell(workload: &FargateWorkload, restarts: bool, was_broken: bool, findings: &mut Findings) {
    let FargateWorkload { kind, namespace, name, old_pods, is_settled, .. } = workload;
    // What is not ready for another reason is not the stage's.
    if *old_pods == 0 && (*is_settled || was_broken || workload.restarted_for.is_none()) {
        if workload.restarted_for.is_some() {
            let seen = if *is_settled { "was restarted, and is ready" } else { "is not ready, as before the rollout" };
            findings.fact(workload.subject(), seen);
        }
        return;
    }
    let subject = workload.subject();
    let command = format!("kubectl rollout restart {} {name} -n {namespace}", kind.to_lowercase());
    if *old_pods == 0 {
        let help = format!("kubectl rollout status {} {name} -n {namespace}", kind.to_lowercase());
        return findings.wait(Reason::on(subject, "is not ready on its new nodes of Fargate").help(help));
    }
    let message = format!("has {old_pods} pods on old nodes of Fargate");
    match &workload.cannot_roll {
        Some(why) => findings.wait(Reason::on(subject, format!("{message}, and {why}: a restart replaces none"))),
        None if restarts && !is_settled => {
            let reason = Reason::on(subject, format!("{message}, and is not ready: it is not restarted before"));
            findings.wait(reason.help(format!("kubectl describe {} {name} -n {namespace}", kind.to_lowercase())));
        }
        None if workload.refused.is_some() => {
            let refused = workload.refused.as_deref().unwrap_or_default();
            let help = format!(
                "let Stepgate get and patch {}s there, or restart it by hand: `{command}`",
                kind.to_lowercase()
            );
            findings
                .failing(Reason::on(subject, format!("{message}, and its restart is refused: {refused}")).help(help));
        }
        None if restarts => {
            findings.underway(Reason::on(subject, format!("{message}: they are restarted one workload after another")));
        }
        None => findings.wait(Reason::on(subject, message).help(command)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::FargatePod;
    use crate::verdict::GateVerdict;

    fn workload(old_pods: u32, is_settled: bool) -> FargateWorkload {
        FargateWorkload {
            kind: "Deployment".to_owned(),
            namespace: "kube-system".to_owned(),
            name: "coredns".to_owned(),
            old_pods,
            is_settled,
            cannot_roll: None,
            refused: None,
            restarted_for: None,
        }
    }

    fn said(restarts: bool, reading: FargateReading) -> Vec<(String, Option<String>)> {
        let observation = Observation { fargate: Some(reading), ..Observation::empty(jiff::Timestamp::UNIX_EPOCH) };
        let mut findings = Findings::default();
        check("1.32", restarts, None, &observation, &mut findings);
        match findings.into_verdict().map_err(|verdict| *verdict) {
            Err(GateVerdict::Wait { reason, .. }) => {
                reason.into_lines().into_iter().map(|reason| (reason.to_string(), reason.help)).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn what_keeps_old_nodes_of_fargate_is_named_with_its_command() {
        let of = |workload| FargateReading { workloads: vec![workload], ..FargateReading::default() };
        let subject = "Deployment kube-system/coredns";
        let [(line, help)] = &said(false, of(workload(2, true)))[..] else { panic!() };
        assert_eq!(*line, format!("{subject}: has 2 pods on old nodes of Fargate"));
        assert_eq!(help.as_deref(), Some("kubectl rollout restart deployment coredns -n kube-system"));
        let [(line, None)] = &said(true, of(workload(2, true)))[..] else { panic!() };
        assert!(line.ends_with("they are restarted one workload after another"), "{line}");
        let [(line, _)] = &said(true, of(workload(2, false)))[..] else { panic!() };
        assert!(line.ends_with("it is not restarted before"), "{line}");
        assert_eq!(said(true, of(workload(0, false))), [], "it is not ready for another reason");
        let restarted = FargateWorkload { restarted_for: Some("aaaaaaaaaaaa".to_owned()), ..workload(0, false) };
        let [(line, _)] = &said(true, of(restarted))[..] else { panic!() };
        assert!(line.ends_with("is not ready on its new nodes of Fargate"), "{line}");
        assert_eq!(said(true, of(workload(0, true))), []);
        let refused = FargateWorkload { refused: Some("patch is forbidden".to_owned()), ..workload(2, true) };
        let [(line, help)] = &said(true, of(refused))[..] else { panic!() };
        assert!(line.ends_with("and its restart is refused: patch is forbidden"), "{line}");
        assert!(help.as_deref().is_some_and(|help| help.contains("get and patch deployments")), "{help:?}");
    }

    #[test]
    fn pods_that_no_restart_replaces_are_named() {
        let pod = FargatePod {
            namespace: "batch".to_owned(),
            name: "nightly-1".to_owned(),
            owner: "Job batch/nightly".to_owned(),
        };
        let reading = FargateReading { others: vec![pod], unread: vec!["refused".to_owned()], ..Default::default() };
        let lines: Vec<String> = said(true, reading).into_iter().map(|(line, _)| line).collect();
        let kept = "Pod batch/nightly-1: of Job batch/nightly keeps an old node of Fargate, and no restart replaces it";
        assert_eq!(lines, [kept, "what runs on Fargate is not known: refused"]);
    }
}
