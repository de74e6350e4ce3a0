use super::*;
use crate::eksctl::EksctlVerb;
use crate::observation::{EksAddon, EksControlPlane, EksNodeGroup, EksctlHold};
use crate::verdict::GateVerdict;
use jiff::Timestamp;

fn issue(code: &str, message: &str) -> EksIssue {
    EksIssue { code: code.to_owned(), message: message.to_owned() }
}

fn reading() -> EksReading {
    let cluster = EksControlPlane { version: "1.32".to_owned(), status: "ACTIVE".to_owned(), issues: Vec::new() };
    EksReading { cluster: Some(cluster), ..EksReading::default() }
}

fn control_plane() -> EksPart {
    EksPart::ControlPlane { version: "1.32".to_owned() }
}

fn new_group() -> EksPart {
    EksPart::NodeGroup { name: "ng-1-32".parse().unwrap(), version: Some("1.32".to_owned()), nodes: 2 }
}

fn gone() -> EksPart {
    EksPart::NodeGroupGone { name: "ng-1-32".parse().unwrap() }
}

fn with_group(status: &str, issues: Vec<EksIssue>) -> EksReading {
    let group = EksNodeGroup { name: "ng-1-32".to_owned(), status: status.to_owned(), issues };
    EksReading { node_groups: Some(vec![group]), ..reading() }
}

/// What it waits for, else what it has seen.
fn said(part: EksPart, reading: &EksReading) -> Vec<String> {
    let mut findings = Findings::default();
    check(&part.into(), reading, &mut findings);
    match findings.into_verdict() {
        Ok((facts, _)) => facts.into_iter().map(|fact| format!("{} = {}", fact.object, fact.seen)).collect(),
        Err(verdict) => match *verdict {
            GateVerdict::Wait { reason, .. } => reason.into_lines().iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn a_control_plane_waits_for_its_status_and_version() {
    assert_eq!(said(control_plane(), &reading()), ["EKS cluster = 1.32 ACTIVE"]);
    let with = |version: &str, status: &str| {
        let (version, status) = (version.to_owned(), status.to_owned());
        EksReading { cluster: Some(EksControlPlane { version, status, issues: Vec::new() }), ..reading() }
    };
    assert_eq!(
        said(control_plane(), &with("1.31", "UPDATING")),
        ["EKS cluster: status: UPDATING, ACTIVE expected", "EKS cluster: version: 1.31, 1.32 expected"]
    );
}

#[test]
fn a_node_group_waits_for_its_status_and_names_its_issues() {
    assert_eq!(said(new_group(), &with_group("ACTIVE", Vec::new())), ["EKS node group ng-1-32 = ACTIVE"]);
    assert_eq!(said(new_group(), &with_group("CREATING", Vec::new())), ["EKS node group ng-1-32: status: is CREATING"]);
    let issues = vec![issue("AsgInstanceLaunchFailures", "no capacity")];
    assert_eq!(
        said(new_group(), &with_group("DEGRADED", issues)),
        [
            "EKS node group ng-1-32: health.issues: AsgInstanceLaunchFailures: no capacity",
            "EKS node group ng-1-32: status: DEGRADED"
        ]
    );
    let none = EksReading { node_groups: Some(Vec::new()), ..reading() };
    assert_eq!(said(new_group(), &none), ["EKS node group ng-1-32: is not there"]);
    assert_eq!(said(gone(), &none), ["EKS node group ng-1-32 = is gone"]);
    assert_eq!(said(gone(), &with_group("DELETING", Vec::new())), ["EKS node group ng-1-32: status: is DELETING"]);
}

#[test]
fn an_addon_waits_for_its_status_and_version() {
    let part = |version: &str| EksPart::Addon { name: "coredns".parse().unwrap(), version: Some(version.to_owned()) };
    let with = |status: &str, issues: Vec<EksIssue>| {
        let addon = EksAddon {
            name: "coredns".to_owned(),
            version: "v1.11.4-eksbuild.2".to_owned(),
            status: status.to_owned(),
            issues,
        };
        EksReading { addons: Some(vec![addon]), ..reading() }
    };
    let active = with("ACTIVE", Vec::new());
    for version in ["v1.11.4-eksbuild.2", "1.11.4", "latest"] {
        assert_eq!(said(part(version), &active), ["EKS add-on coredns = v1.11.4-eksbuild.2 ACTIVE"], "{version}");
    }
    assert_eq!(
        said(part("v1.11.40"), &active),
        ["EKS add-on coredns: addonVersion: v1.11.4-eksbuild.2, v1.11.40 expected"]
    );
    let failed = with("UPDATE_FAILED", vec![issue("ConfigurationConflict", "corefile")]);
    assert_eq!(said(part("1.11.4"), &failed)[0], "EKS add-on coredns: health.issues: ConfigurationConflict: corefile");
}

#[test]
fn what_could_not_be_read_is_waited_for() {
    let unread = [("node groups".to_owned(), "ExpiredToken".to_owned())].into_iter().collect();
    let unknown = EksReading { unread, ..EksReading::default() };
    assert_eq!(said(new_group(), &unknown), ["AWS: node groups could not be read: ExpiredToken"]);
}

#[test]
fn a_node_group_that_is_left_is_named_with_its_command() {
    let part = |groups: &[&str]| {
        let groups = groups.iter().map(|name| (*name).to_owned()).collect();
        EksPart::Leftovers { cluster: "shop".to_owned(), groups }
    };
    let seen = with_group("DELETE_FAILED", Vec::new());
    assert_eq!(said(part(&["ng-1-32"]), &seen), ["EKS node groups = 1, none that the cluster has no longer"]);
    assert_eq!(said(part(&[]), &seen), ["EKS node group ng-1-32: is DELETE_FAILED, and the cluster has it no longer"]);
    let mut findings = Findings::default();
    check(&part(&[]).into(), &seen, &mut findings);
    let help = findings.first_wait().and_then(|reason| reason.help);
    assert_eq!(help.as_deref(), Some("eksctl delete nodegroup --cluster shop --name ng-1-32 --drain"));
}

#[test]
fn a_run_is_evidence_and_a_failed_one_says_what_helps() {
    let run = |outcome: EksctlOutcome, output: &[&str]| EksctlRun {
        rollout: "aaaaaaaaaaaa".parse().unwrap(),
        commit: format!("{:040x}", 1).parse().unwrap(),
        part: control_plane(),
        verb: EksctlVerb::UpgradeCluster,
        command: "eksctl upgrade cluster".to_owned(),
        attempt: 1,
        started_at: Timestamp::UNIX_EPOCH,
        outcome,
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    let ended_at = Timestamp::from_second(42).unwrap();
    let with = |run: EksctlRun| EksReading { run: Some(run), ..reading() };
    let well = with(run(EksctlOutcome::Succeeded { ended_at }, &["upgraded to 1.32"]));
    assert_eq!(
        said(control_plane(), &well),
        ["EKS cluster = 1.32 ACTIVE", "`eksctl upgrade cluster` = ended well after 42 s (attempt 1): upgraded to 1.32"]
    );
    // It says nothing of another stage.
    assert!(said(new_group(), &well).iter().all(|line| !line.contains("eksctl upgrade")));
    let status = "exit status: 1".to_owned();
    let line = "Error: api error AccessDenied: eks:UpdateClusterVersion";
    let failed = with(run(EksctlOutcome::Failed { ended_at, status }, &[line]));
    assert_eq!(
        said(control_plane(), &failed),
        [format!(
            "`eksctl upgrade cluster`: ended with exit status: 1 (the role may not do this): {line}; tried again after 60 s"
        )]
    );
    let running = with(run(EksctlOutcome::Running, &["waiting"]));
    assert_eq!(said(control_plane(), &running), ["`eksctl upgrade cluster`: runs since 1970-01-01T00:00:00Z: waiting"]);
}

#[test]
fn what_holds_eksctl_back_is_said_at_its_gate_alone() {
    let hold = EksctlHold { part: new_group(), reason: "commit 01 is refused".to_owned(), help: None };
    let held = EksReading { held: Some(hold), ..reading() };
    assert_eq!(said(new_group(), &held), ["eksctl: commit 01 is refused"]);
    assert_eq!(said(control_plane(), &held), ["EKS cluster = 1.32 ACTIVE"]);
}
