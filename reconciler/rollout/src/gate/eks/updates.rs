//! Updates that EKS carries out, and what helps with the errors that it names.
//!
//! An update of before counts only as long as what is expected is not there: whatever failed once, and was mended, is
//! history.

use crate::expectation::EksPart;
use crate::gate::eks::aws::{is_version, told};
use crate::gate::findings::Findings;
use crate::observation::{EksIssue, EksReading, EksUpdate};
use crate::verdict::Reason;

pub(in crate::gate) fn check(part: &EksPart, reading: &EksReading, findings: &mut Findings) {
    let (subject, update, is_there) = match part {
        EksPart::ControlPlane { version } => {
            let is_there = reading.cluster.as_ref().is_some_and(|cluster| cluster.version == *version);
            ("EKS cluster".to_owned(), newest(reading, None), is_there)
        }
        EksPart::Addon { name, version } => {
            let mut addons = reading.addons.iter().flatten();
            let is_there = addons.any(|addon| {
                let is_wanted = |version: &String| version == "latest" || is_version(version, &addon.version);
                addon.name == name.as_str() && addon.status == "ACTIVE" && version.as_ref().is_none_or(is_wanted)
            });
            (format!("EKS add-on {name}"), newest(reading, Some(name.as_str())), is_there)
        }
        EksPart::NodeGroup { .. }
        | EksPart::NodeGroupGone { .. }
        | EksPart::Fargate { .. }
        | EksPart::Leftovers { .. } => return,
    };
    let Some(update) = update else { return };
    let (kind, id) = (&update.kind, &update.id);
    match update.status.as_str() {
        "InProgress" => {
            let message = format!("{kind} {id} is in progress since {}", update.created_at);
            findings.wait(Reason::on(subject, message).field("update.status"));
        }
        "Failed" | "Cancelled" if !is_there => {
            let why = if update.errors.is_empty() { "no error is named".to_owned() } else { told(&update.errors) };
            let message = format!("{kind} {id} is {}: {why}", update.status);
            let help = help_for(&update.errors, &format!("`aws eks describe-update --update-id {id} …` tells more"));
            findings.failing(Reason::on(subject, message).field("update.errors").help(help));
        }
        "Successful" => findings.fact(subject, format!("{kind} {id} is successful")),
        _ => {}
    }
}

fn newest<'a>(reading: &'a EksReading, addon: Option<&str>) -> Option<&'a EksUpdate> {
    let of_it = reading.updates.iter().filter(|update| update.addon.as_deref() == addon);
    of_it.max_by_key(|update| update.created_at)
}

/// What helps with the first code that is known.
pub(in crate::gate) fn help_for(issues: &[EksIssue], otherwise: &str) -> String {
    issues.iter().find_map(|issue| remedy(&issue.code)).unwrap_or(otherwise).to_owned()
}

/// What helps with a code of an update, or of a node group's health.
fn remedy(code: &str) -> Option<&'static str> {
    Some(match code {
        "IpNotAvailable" | "InsufficientFreeAddresses" => {
            "free addresses in the cluster's subnets: a control plane needs up to five, each new node its own"
        }
        "SubnetNotFound" | "Ec2SubnetNotFound" => {
            "a subnet is gone: give the cluster others (`aws eks update-cluster-config`)"
        }
        "SecurityGroupNotFound" | "Ec2SecurityGroupNotFound" => "a security group is gone: make it anew",
        "VpcIdNotFound" => "the VPC is not found: see whose account is asked",
        "EniLimitReached" => "raise the account's quota of network interfaces, or delete unused ones",
        "AccessDenied" => "give the cluster's role back what EKS asks for (AmazonEKSClusterPolicy)",
        "IamNodeRoleNotFound" | "IamInstanceProfileNotFound" => "the role of the nodes is gone: make the group anew",
        "OperationNotPermitted" => "a service-linked role of EKS is missing or restricted: `aws iam get-role` shows it",
        "NodeCreationFailure" => {
            "nodes start and do not join: look at their bootstrap, role, subnets and the way to the API server"
        }
        "PodEvictionFailure" => {
            "a budget keeps pods on a node: `stepgate why` names it; scale up, or change the budget"
        }
        "InsufficientNumberOfReplicas" => "the add-on has too few ready pods: see why they are not ready",
        "ConfigurationConflict" => {
            "somebody has changed the add-on's objects: set resolveConflicts to overwrite or preserve"
        }
        "AdmissionRequestDenied" => "an admission webhook refuses the add-on's objects: its text says which",
        "UnsupportedAddonModification" | "AddonPermissionFailure" => {
            "the add-on does not take this: see its text, and its permissions"
        }
        "K8sResourceNotFound" => "an object that the add-on needs is gone: its text says which",
        "ClusterUnreachable" | "AmiIdNotFound" => "see its text: what EKS asks for could not be reached or found",
        "AsgInstanceLaunchFailures" | "InstanceLimitExceeded" => {
            "no instance can be started: capacity, quota or instance type; see the activity of its Auto Scaling group"
        }
        "AutoScalingGroupNotFound" => "its Auto Scaling group is gone: make the node group anew under the next name",
        "Ec2LaunchTemplateVersionMismatch" | "Ec2LaunchTemplateNotFound" | "Ec2LaunchTemplateDeletionFailure" => {
            "its launch template was changed past EKS: put the version back that it was made with"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::EksControlPlane;
    use jiff::Timestamp;

    fn update(status: &str, second: i64, errors: &[(&str, &str)]) -> EksUpdate {
        let error = |(code, message): &(&str, &str)| EksIssue { code: (*code).into(), message: (*message).into() };
        EksUpdate {
            id: format!("u{second}"),
            addon: None,
            kind: "VersionUpdate".to_owned(),
            status: status.to_owned(),
            created_at: Timestamp::from_second(second).unwrap(),
            errors: errors.iter().map(error).collect(),
        }
    }

    #[track_caller]
    fn check_said(version: &str, updates: Vec<EksUpdate>, expected: Option<&str>) {
        let cluster = EksControlPlane { version: version.to_owned(), status: "ACTIVE".to_owned(), issues: Vec::new() };
        let reading = EksReading { cluster: Some(cluster), updates, ..EksReading::default() };
        let mut findings = Findings::default();
        check(&EksPart::ControlPlane { version: "1.32".to_owned() }, &reading, &mut findings);
        let said = findings.first_wait().map(|reason| reason.to_string());
        assert_eq!(said.as_deref(), expected);
    }

    #[test]
    fn the_newest_update_counts_until_the_version_is_there() {
        let failed = update("Failed", 2, &[("IpNotAvailable", "subnet-1")]);
        let says = "EKS cluster: update.errors: VersionUpdate u2 is Failed: IpNotAvailable: subnet-1";
        check_said("1.31", vec![update("Successful", 1, &[]), failed.clone()], Some(says));
        check_said("1.32", vec![failed.clone()], None);
        check_said("1.31", vec![failed, update("Successful", 3, &[])], None);
        let runs = "EKS cluster: update.status: VersionUpdate u4 is in progress since 1970-01-01T00:00:04Z";
        check_said("1.31", vec![update("InProgress", 4, &[])], Some(runs));
    }

    #[test]
    fn a_known_code_says_what_helps() {
        let issue = |code: &str| vec![EksIssue { code: code.to_owned(), message: String::new() }];
        assert!(help_for(&issue("PodEvictionFailure"), "look").contains("budget"));
        assert_eq!(help_for(&issue("Unknown"), "look"), "look");
    }
}
