//! What a node group has left at AWS: its stack, and its Auto Scaling group.

use crate::gate::findings::Findings;
use crate::observation::{EksReading, EksStack};
use crate::verdict::Reason;

pub(in crate::gate) fn check(groups: &[String], reading: &EksReading, findings: &mut Findings) {
    if let Some(stacks) = &reading.stacks {
        let mut left = stacks.iter().filter(|stack| !groups.contains(&stack.group)).peekable();
        if left.peek().is_none() {
            findings.fact("stacks of node groups", format!("{}, none of a group that is gone", stacks.len()));
        }
        // A group that is there is told of by itself, with the command that drains it first.
        let is_told = |stack: &EksStack| {
            let mut groups = reading.node_groups.iter().flatten();
            stack.status != "DELETE_FAILED" && groups.any(|group| group.name == stack.group)
        };
        for stack in left.filter(|stack| !is_told(stack)) {
            let subject = format!("stack {}", stack.name);
            let status = &stack.status;
            let delete = format!("aws cloudformation delete-stack --stack-name {}", stack.name);
            match status.as_str() {
                "DELETE_FAILED" => {
                    let help = format!(
                        "`aws cloudformation describe-stack-events --stack-name {}` names what is in the way, most often network \
                         interfaces of the CNI, a security group in use or a policy of the role: remove it, then `{delete}`",
                        stack.name
                    );
                    findings.failing(Reason::on(subject, status.clone()).help(help));
                }
                "DELETE_IN_PROGRESS" => findings.wait(Reason::on(subject, format!("is {status}"))),
                _ => {
                    let message = format!("is {status}, and the cluster has node group {} no longer", stack.group);
                    findings.wait(Reason::on(subject, message).help(delete));
                }
            }
        }
    }
    let Some(known) = &reading.auto_scaling_groups else { return };
    let mut is_clean = true;
    for scaling in known {
        let subject = format!("Auto Scaling group {}", scaling.name);
        let Some(group) = &scaling.group else {
            findings.fact(subject, "is tagged with the cluster and with no node group");
            continue;
        };
        if groups.contains(group) {
            continue;
        }
        is_clean = false;
        let message = format!("keeps {} nodes of node group {group}, which the cluster has no longer", scaling.desired);
        let help = format!(
            "aws autoscaling delete-auto-scaling-group --auto-scaling-group-name {} --force-delete",
            scaling.name
        );
        findings.wait(Reason::on(subject, message).help(help));
    }
    if is_clean {
        findings.fact("Auto Scaling groups", format!("{}, none of a group that is gone", known.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{EksAutoScalingGroup, EksNodeGroup};
    use crate::verdict::GateVerdict;

    fn left(stack: &str, status: &str, scaling: Option<&str>) -> (Vec<String>, Vec<String>) {
        let stack = EksStack {
            name: format!("eksctl-shop-nodegroup-{stack}"),
            group: stack.to_owned(),
            status: status.to_owned(),
        };
        let group = |group: &str| EksAutoScalingGroup {
            name: format!("eks-{group}-1"),
            group: Some(group.to_owned()),
            desired: 0,
        };
        let reading = EksReading {
            stacks: Some(vec![stack]),
            auto_scaling_groups: Some(scaling.map(group).into_iter().collect()),
            ..EksReading::default()
        };
        let mut findings = Findings::default();
        check(&["ng-1-32".to_owned()], &reading, &mut findings);
        let reasons = match findings.into_verdict().map_err(|verdict| *verdict) {
            Err(GateVerdict::Wait { reason, .. }) => reason.into_lines(),
            _ => Vec::new(),
        };
        let lines = reasons.iter().map(ToString::to_string).collect();
        (lines, reasons.into_iter().filter_map(|reason| reason.help).collect())
    }

    #[test]
    fn stacks_and_scaling_groups_that_are_left_are_named_with_commands() {
        assert_eq!(left("ng-1-32", "CREATE_COMPLETE", Some("ng-1-32")).0, Vec::<String>::new());
        let (said, help) = left("ng-1-31", "CREATE_COMPLETE", Some("ng-1-31"));
        assert_eq!(
            said,
            [
                "stack eksctl-shop-nodegroup-ng-1-31: is CREATE_COMPLETE, and the cluster has node group ng-1-31 no longer",
                "Auto Scaling group eks-ng-1-31-1: keeps 0 nodes of node group ng-1-31, which the cluster has no longer"
            ]
        );
        assert_eq!(help[0], "aws cloudformation delete-stack --stack-name eksctl-shop-nodegroup-ng-1-31");
        assert!(help[1].ends_with("--auto-scaling-group-name eks-ng-1-31-1 --force-delete"), "{help:?}");
        let group = EksNodeGroup { name: "ng-1-31".to_owned(), status: "ACTIVE".to_owned(), issues: Vec::new() };
        let stack =
            EksStack { name: "s".to_owned(), group: "ng-1-31".to_owned(), status: "CREATE_COMPLETE".to_owned() };
        let both = EksReading { stacks: Some(vec![stack]), node_groups: Some(vec![group]), ..EksReading::default() };
        let mut findings = Findings::default();
        check(&["ng-1-32".to_owned()], &both, &mut findings);
        assert!(findings.holds(), "the group itself is told of where groups are");
        let (said, help) = left("ng-1-31", "DELETE_FAILED", None);
        assert_eq!(said, ["stack eksctl-shop-nodegroup-ng-1-31: DELETE_FAILED"]);
        assert!(help[0].contains("describe-stack-events"), "{help:?}");
    }
}
