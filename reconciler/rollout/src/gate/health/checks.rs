//! What the registry of checks says, as part of the preflight gate.
//!
//! While something of the cluster is still on its way, what checks find makes the gate wait with everything else: a
//! node that restarts is no reason to hold. In a cluster that is settled a failure holds.

use crate::check::{self, CheckFinding, CheckOutcome, CheckStatus};
use crate::expectation::ChecksExpectation;
use crate::gate::findings::Findings;
use crate::observation::Observation;
use crate::verdict::Reason;

pub(in crate::gate) fn check(expectation: &ChecksExpectation, observation: &Observation, findings: &mut Findings) {
    let on_its_way = findings.waits();
    let mut passed = Vec::new();
    for outcome in check::outcomes(expectation, observation) {
        for finding in &outcome.findings {
            let reason = reason(&outcome, finding);
            match finding.status {
                CheckStatus::Fail if outcome.holds() && on_its_way => findings.failing(reason),
                CheckStatus::Fail if outcome.holds() => findings.fail(reason),
                CheckStatus::Unknown if outcome.waits_for(finding) => findings.wait(reason),
                CheckStatus::Fail | CheckStatus::Unknown | CheckStatus::Warn | CheckStatus::Pass => {}
            }
        }
        if outcome.status == CheckStatus::Pass && outcome.waived.is_empty() {
            passed.push(outcome.check.as_str());
        } else {
            findings.fact(format!("check {}", outcome.check), outcome.line());
        }
    }
    findings.fact("checks passed", passed.join(", "));
}

fn reason(outcome: &CheckOutcome, finding: &CheckFinding) -> Reason {
    let object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
    let reason = Reason::on(object, format!("check {}: {}", outcome.check, finding.message));
    finding.remedy.iter().fold(reason, Reason::help)
}
