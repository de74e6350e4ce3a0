//! Checks: what would go wrong with a rollout, found before it begins.
//!
//! [`CHECKS`] is the one registry. The preflight gate asks it, `stepgate check --cluster` prints it, and what it says
//! stands among the evidence of a proposal. A check that fails holds the rollout where it is blocking; what such a
//! check does not know makes it wait.
//!
//! Architecture Invariant: a check judges values. What it needs is read in `cluster`, as an `Inspection`, and what it
//! could not read is unknown: never well.

mod address;
mod addresses;
mod capacity;
mod certificates;
mod definitions;
mod drains;
mod drift;
mod eks_insights;
mod etcd;
mod finding;
mod images;
mod narrowing;
mod nodes;
mod release_notes;
mod removals;
mod removed_apis;
mod runtime_extensions;
mod signatures;
mod webhooks;

#[cfg(test)]
mod tests;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::expectation::ChecksExpectation;
use crate::observation::{Inspection, Observation};
use policy::{CheckName, Waiver};

pub use definitions::NAMED_OBJECTS;
pub use finding::{CheckFinding, CheckStatus, FoundObject};
pub use images::PlannedImage;
pub use narrowing::{Bound, DefinitionChange, FieldStep, NarrowedVersion, Narrowing, Requirement, Violation};
pub use release_notes::ToldNote;
pub use removals::{
    ApiComponent, ApiFinding, ApiRemoval, ApiStanding, ApiTargets, REMOVALS, Release, minor_of, removal_of, standing,
};
pub use removed_apis::{RemovedApis, told as told_of_api_use};
pub(crate) use runtime_extensions::{KIND as EXTENSION_CONFIG, RIVALS_REMEDY, told_of_rivals};
pub use signatures::UnprovenManifest;

/// Whether what a check finds holds a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSeverity {
    /// A failure holds the rollout, and what is unknown makes it wait.
    Blocking,
    /// It is told, and holds nothing.
    Advisory,
}

impl CheckSeverity {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Advisory => "advisory",
        }
    }
}

/// One check.
#[derive(Debug)]
pub struct Check {
    /// Its name, by which waivers name it.
    pub name: CheckName,
    /// What it looks at.
    pub looks_at: &'static str,
    /// Whether a failure holds a rollout.
    pub severity: CheckSeverity,
    /// What helps, where a finding says nothing better.
    pub remedy: &'static str,
    judge: fn(&Judged<'_>) -> Vec<CheckFinding>,
}

impl Check {
    /// Where the documentation tells more.
    #[must_use]
    pub fn documentation(&self) -> String {
        format!("reconciler/docs/checks.md#{}", self.name)
    }
}

/// Every check, in the order in which they are told.
pub const CHECKS: &[Check] = &[
    nodes::CHECK,
    certificates::CHECK,
    webhooks::CHECK,
    definitions::CHECK,
    removed_apis::CHECK,
    drains::CHECK,
    etcd::CHECK,
    images::CHECK,
    address::CHECK,
    drift::CHECK,
    signatures::CHECK,
    release_notes::CHECK,
    capacity::CHECK,
    addresses::CHECK,
    eks_insights::CHECK,
    runtime_extensions::CHECK,
];

/// What a check judges.
struct Judged<'a> {
    expectation: &'a ChecksExpectation,
    observation: &'a Observation,
    inspection: &'a Inspection,
}

/// What a check says of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// The check.
    pub check: CheckName,
    /// Whether a failure holds a rollout.
    pub severity: CheckSeverity,
    /// The worst of its findings that count; `Pass` without any.
    pub status: CheckStatus,
    /// What counts, the worst first.
    pub findings: Vec<CheckFinding>,
    /// What would count without a waiver.
    pub waived: Vec<(CheckFinding, Waiver)>,
}

impl CheckOutcome {
    /// Whether it keeps a rollout from beginning.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.severity == CheckSeverity::Blocking && self.status == CheckStatus::Fail
    }

    /// Whether a rollout waits until more is known.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.status == CheckStatus::Unknown && self.findings.iter().any(|finding| self.waits_for(finding))
    }

    /// Whether a rollout waits until more is known of this finding.
    #[must_use]
    pub fn waits_for(&self, finding: &CheckFinding) -> bool {
        self.severity == CheckSeverity::Blocking && finding.status == CheckStatus::Unknown && !finding.is_advisory
    }

    /// In one line: `warn: Node a: is cordoned (and 2 more)`.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.status.to_string();
        if let Some(first) = self.findings.first() {
            line.push_str(&format!(": {first}"));
        }
        match self.findings.len() {
            0 | 1 => {}
            count => line.push_str(&format!(" (and {} more)", count - 1)),
        }
        for (finding, waiver) in &self.waived {
            line.push_str(&format!("; {finding}, {waiver}"));
        }
        line
    }
}

/// What every check says of a reading.
#[must_use]
pub fn outcomes(expectation: &ChecksExpectation, observation: &Observation) -> Vec<CheckOutcome> {
    CHECKS.iter().map(|check| outcome(check, expectation, observation)).collect()
}

fn outcome(check: &Check, expectation: &ChecksExpectation, observation: &Observation) -> CheckOutcome {
    let today = observation.read_at.to_zoned(TimeZone::UTC).date();
    let mut found = found(check, expectation, observation);
    for finding in &mut found {
        finding.remedy.get_or_insert_with(|| check.remedy.to_owned());
    }
    let waiver = |finding: &CheckFinding| waiver(check.name, finding, &expectation.waivers, today);
    let (waived, mut findings): (Vec<_>, Vec<_>) = found.into_iter().partition(|finding| waiver(finding).is_some());
    let waived = waived.into_iter().filter_map(|finding| waiver(&finding).map(|waiver| (finding, waiver))).collect();
    for finding in &mut findings {
        let to_come = self::waiver(check.name, finding, &expectation.waivers_to_come, today);
        finding.remedy = to_come.map(|waiver| not_yet(&waiver)).or(finding.remedy.take());
    }
    findings.extend(expired(check.name, &expectation.waivers, today));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    let status = findings.first().map_or(CheckStatus::Pass, |finding| finding.status);
    CheckOutcome { check: check.name, severity: check.severity, status, findings, waived }
}

fn found(check: &Check, expectation: &ChecksExpectation, observation: &Observation) -> Vec<CheckFinding> {
    let Some(inspection) = &observation.inspection else {
        return vec![CheckFinding::unknown("the cluster was not looked at for it yet")];
    };
    let mut findings = (check.judge)(&Judged { expectation, observation, inspection });
    // What was seen counts, whatever else could not be read.
    findings.extend(inspection.unread.get(&check.name).map(|reason| {
        let remedy =
            "`stepgate install` writes the ClusterRole that lets it be read; then see that the API server answers";
        CheckFinding::unknown(format!("could not be read: {reason}")).remedy(remedy)
    }));
    findings
}

/// The waiver that counts for a finding. What is unknown is no finding, and nobody can live with it; nobody who pushes
/// waives the signatures of what is pushed.
fn waiver(check: CheckName, finding: &CheckFinding, waivers: &[Waiver], today: Date) -> Option<Waiver> {
    let (kind, namespace, name) = match &finding.object {
        Some(object) => (object.kind.as_str(), object.namespace.as_deref(), object.name.as_str()),
        None => ("", None, ""),
    };
    let counts = |waiver: &&Waiver| waiver.is_about(check, kind, namespace, name) && !waiver.has_expired(today);
    let can_be_waived = finding.status != CheckStatus::Unknown && check.can_be_waived();
    waivers.iter().filter(|_| can_be_waived).find(counts).cloned()
}

/// What helps where a waiver was pushed, and its finding still counts: nobody waives what the same push brings.
fn not_yet(waiver: &Waiver) -> String {
    let Waiver { reason, .. } = waiver;
    format!(
        "the waiver for it ({reason}) was pushed since the cluster was committed last: it counts once a rollout has \
         ended with it, or whoever runs Stepgate takes the commit that holds it by `--trust-policy COMMIT`"
    )
}

/// Waivers that count for nothing any more.
fn expired(check: CheckName, waivers: &[Waiver], today: Date) -> impl Iterator<Item = CheckFinding> {
    let expired = waivers.iter().filter(move |waiver| waiver.check == check && waiver.has_expired(today));
    expired.map(|waiver| {
        let object = waiver.object.as_ref().map(|object| format!(" of {object}")).unwrap_or_default();
        CheckFinding::warn(format!("the waiver{object} ended on {} and counts for nothing", waiver.expires))
            .remedy("take it out of stepgate.yaml, or decide anew until when it counts")
    })
}
