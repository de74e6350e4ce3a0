//! A cluster of EKS, by what AWS says of it, and what became of the eksctl that was started for the stage.
//!
//! Nothing here lets a gate pass that the cluster itself does not let pass: it only waits for more.

use crate::eksctl::{known_error, pause_after};
use crate::expectation::{EksExpectation, EksPart};
use crate::gate::eks::leftovers;
use crate::gate::eks::updates;
use crate::gate::findings::Findings;
use crate::observation::{EksIssue, EksReading, EksctlOutcome, EksctlRun};
use crate::verdict::Reason;

use updates::help_for;

/// How many lines of an output stand in evidence.
const LINES: usize = 6;

/// What checks ask for, and gates do not.
const OF_CHECKS: [&str; 3] = ["insights", "subnets", "instance types"];

pub(in crate::gate) fn check(expectation: &EksExpectation, reading: &EksReading, findings: &mut Findings) {
    for (what, reason) in reading.unread.iter().filter(|(what, _)| !OF_CHECKS.contains(&what.as_str())) {
        findings.wait(Reason::on("AWS", format!("{what} could not be read: {reason}")));
    }
    let part = &expectation.part;
    if let Some(hold) = reading.held.as_ref().filter(|hold| hold.part == *part) {
        let reason = Reason::on("eksctl", hold.reason.clone());
        match &hold.help {
            Some(help) => findings.failing(reason.help(help.clone())),
            None => findings.wait(reason),
        }
    }
    check_cluster(part, reading, findings);
    match part {
        EksPart::Addon { name, version } => check_addon(name.as_str(), version.as_deref(), reading, findings),
        EksPart::NodeGroup { name, .. } => check_group(name.as_str(), reading, findings),
        EksPart::NodeGroupGone { name } => check_gone(name.as_str(), reading, findings),
        EksPart::Leftovers { cluster, groups } => {
            check_left(cluster, groups, reading, findings);
            leftovers::check(groups, reading, findings);
        }
        EksPart::ControlPlane { .. } | EksPart::Fargate { .. } => {}
    }
    updates::check(part, reading, findings);
    if let Some(run) = reading.run.as_ref().filter(|run| run.part == *part) {
        check_run(run, findings);
    }
}

/// What people call it, each by its code.
pub(in crate::gate) fn told(issues: &[EksIssue]) -> String {
    issues.iter().map(|issue| format!("{}: {}", issue.code, issue.message)).collect::<Vec<_>>().join("; ")
}

fn check_cluster(part: &EksPart, reading: &EksReading, findings: &mut Findings) {
    let Some(cluster) = &reading.cluster else { return };
    let subject = "EKS cluster";
    let help = "eksctl get cluster --name … -o json";
    if !cluster.issues.is_empty() {
        findings.failing(
            Reason::on(subject, told(&cluster.issues)).field("health.issues").help(help_for(&cluster.issues, help)),
        );
    }
    if cluster.status != "ACTIVE" {
        let reason = Reason::on(subject, format!("{}, ACTIVE expected", cluster.status)).field("status").help(help);
        if cluster.status == "FAILED" { findings.failing(reason) } else { findings.wait(reason) }
    }
    match part {
        EksPart::ControlPlane { version } if cluster.version != *version => {
            let message = format!("{}, {version} expected", cluster.version);
            findings.wait(Reason::on(subject, message).field("version").help(help));
        }
        EksPart::ControlPlane { .. } => findings.fact(subject, format!("{} {}", cluster.version, cluster.status)),
        _ => {}
    }
}

fn check_addon(name: &str, version: Option<&str>, reading: &EksReading, findings: &mut Findings) {
    let Some(addons) = &reading.addons else { return };
    let subject = format!("EKS add-on {name}");
    let help = format!("eksctl get addon --name {name} --cluster …");
    let Some(addon) = addons.iter().find(|known| known.name == name) else {
        if version.is_some() {
            findings.wait(Reason::on(subject, "is not there").help(help));
        }
        return;
    };
    if !addon.issues.is_empty() {
        findings.failing(
            Reason::on(subject.clone(), told(&addon.issues))
                .field("health.issues")
                .help(help_for(&addon.issues, &help)),
        );
    }
    if addon.status != "ACTIVE" {
        let reason = Reason::on(subject, format!("{}, ACTIVE expected", addon.status)).field("status").help(help);
        let has_failed = addon.status.ends_with("_FAILED") || addon.status == "DEGRADED";
        return if has_failed { findings.failing(reason) } else { findings.wait(reason) };
    }
    match version.filter(|version| *version != "latest") {
        Some(version) if !is_version(version, &addon.version) => {
            let message = format!("{}, {version} expected", addon.version);
            findings.wait(Reason::on(subject, message).field("addonVersion").help(help));
        }
        _ => findings.fact(subject, format!("{} {}", addon.version, addon.status)),
    }
}

/// Whether this is the version that was asked for, which may leave out `v` and the build.
pub(in crate::gate) fn is_version(wanted: &str, seen: &str) -> bool {
    let bare = |text: &str| text.strip_prefix('v').unwrap_or(text).to_owned();
    let (wanted, seen) = (bare(wanted), bare(seen));
    seen == wanted || seen.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-'))
}

fn check_group(name: &str, reading: &EksReading, findings: &mut Findings) {
    let Some(groups) = &reading.node_groups else { return };
    let subject = format!("EKS node group {name}");
    let help = format!("eksctl get nodegroup --name {name} --cluster …");
    let Some(group) = groups.iter().find(|known| known.name == name) else {
        findings.wait(Reason::on(subject, "is not there").help(help));
        return;
    };
    if !group.issues.is_empty() {
        findings.failing(
            Reason::on(subject.clone(), told(&group.issues))
                .field("health.issues")
                .help(help_for(&group.issues, &help)),
        );
    }
    match group.status.as_str() {
        "ACTIVE" | "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "UPDATE_ROLLBACK_COMPLETE" => {
            findings.fact(subject, group.status.clone());
        }
        "CREATE_FAILED" | "DELETE_FAILED" | "DEGRADED" | "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" => {
            findings.failing(Reason::on(subject, group.status.clone()).field("status").help(help));
        }
        status => findings.wait(Reason::on(subject, format!("is {status}")).field("status").help(help)),
    }
}

fn check_gone(name: &str, reading: &EksReading, findings: &mut Findings) {
    let Some(groups) = &reading.node_groups else { return };
    let subject = format!("EKS node group {name}");
    let help = format!("eksctl get nodegroup --name {name} --cluster …");
    match groups.iter().find(|known| known.name == name) {
        None => findings.fact(subject, "is gone"),
        Some(group) if group.status == "DELETE_FAILED" => {
            let message = format!("{}: {}", group.status, told(&group.issues));
            findings.failing(Reason::on(subject, message).field("status").help(help));
        }
        Some(group) => findings.wait(Reason::on(subject, format!("is {}", group.status)).field("status").help(help)),
    }
}

fn check_left(cluster: &str, groups: &[String], reading: &EksReading, findings: &mut Findings) {
    let Some(known) = &reading.node_groups else { return };
    let left: Vec<_> = known.iter().filter(|known| !groups.contains(&known.name)).collect();
    for group in &left {
        let name = &group.name;
        let help = format!("eksctl delete nodegroup --cluster {cluster} --name {name} --drain");
        let message = format!("is {}, and the cluster has it no longer", group.status);
        findings.wait(Reason::on(format!("EKS node group {name}"), message).help(help));
    }
    if left.is_empty() {
        findings.fact("EKS node groups", format!("{}, none that the cluster has no longer", known.len()));
    }
}

fn check_run(run: &EksctlRun, findings: &mut Findings) {
    let subject = format!("`{}`", run.command);
    let last = run.output.last().map(|line| format!(": {line}")).unwrap_or_default();
    let reason = |message: String| {
        let known = known_error(&run.output);
        let meaning = known.map(|known| format!(" ({})", known.meaning)).unwrap_or_default();
        let again = pause_after(run.attempt).as_secs();
        let reason = Reason::on(subject.clone(), format!("{message}{meaning}{last}; tried again after {again} s"));
        reason.help(known.map_or("mend what it says; it is tried again by itself", |known| known.help))
    };
    match &run.outcome {
        EksctlOutcome::Running => {
            findings.wait(Reason::on(subject, format!("runs since {}{last}", run.started_at)));
        }
        EksctlOutcome::Succeeded { ended_at } => {
            let seconds = ended_at.duration_since(run.started_at).as_secs();
            let from = run.output.len().saturating_sub(LINES);
            let output = run.output.get(from..).unwrap_or_default().join(" / ");
            findings.fact(subject, format!("ended well after {seconds} s (attempt {}): {output}", run.attempt));
        }
        EksctlOutcome::Failed { status, .. } => findings.failing(reason(format!("ended with {status}"))),
        EksctlOutcome::TimedOut { .. } => findings.failing(reason("took too long and was ended".to_owned())),
        EksctlOutcome::Unwatched => {
            findings.fact(subject, "ended while no process of Stepgate watched; what it was to do is there");
        }
    }
}

#[cfg(test)]
#[path = "aws_tests.rs"]
mod tests;
