//! Whether EKS itself has found what stands against the upgrade.
//!
//! EKS looks at thirty days of requests: an insight stays after its client was mended. So it names who asked last and
//! when, and whoever knows that it was mended since waives it.

use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, Judged, minor_of};

pub(super) const CHECK: Check = Check {
    name: CheckName::EksInsights,
    looks_at: "what EKS says against the upgrade (insights), where the operator gave Stepgate the aws program",
    severity: CheckSeverity::Blocking,
    remedy: "mend what it names; what was mended stays for up to 30 days: compare the last request, and waive it",
    judge,
};

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let Some(reading) = &judged.observation.eks else { return Vec::new() };
    let target = judged.expectation.removed_apis.as_ref().map(|asked| asked.target);
    let insights = reading.insights.iter().flatten().filter_map(|insight| {
        let minor = insight.version.as_deref().and_then(minor_of);
        let is_later = minor.zip(target).is_some_and(|(minor, target)| minor > target);
        let about = insight.version.as_ref().map(|version| format!(" (about {version})")).unwrap_or_default();
        let details: String = insight.details.iter().map(|detail| format!("; {detail}")).collect();
        let message = format!("insight {:?}{about}: {}{details}", insight.name, insight.reason);
        let finding = match insight.status.as_str() {
            "PASSING" => return None,
            "ERROR" if !is_later => CheckFinding::fail(message),
            "ERROR" | "WARNING" => CheckFinding::warn(message),
            _ => CheckFinding::unknown(message).remedy("`aws eks start-insights-refresh` has it looked at again"),
        };
        let recommended = insight.recommendation.clone();
        Some(recommended.into_iter().fold(finding, |finding, recommended| match finding.remedy {
            None => finding.remedy(recommended),
            Some(_) => finding,
        }))
    });
    let unread = reading.unread.get("insights").map(|reason| {
        CheckFinding::unknown(format!("insights could not be read: {reason}"))
            .remedy("allow eks:ListInsights and eks:DescribeInsight to the role that Stepgate's process has")
    });
    insights.chain(unread).collect()
}

#[cfg(test)]
mod tests {
    use crate::check::{CheckStatus, RemovedApis, outcomes};
    use crate::expectation::ChecksExpectation;
    use crate::observation::{EksInsight, EksReading, Inspection, Observation};
    use policy::CheckName;

    fn insight(status: &str, version: &str) -> EksInsight {
        EksInsight {
            name: "Deprecated APIs".to_owned(),
            version: Some(version.to_owned()),
            status: status.to_owned(),
            reason: "in use".to_owned(),
            details: vec!["kubectl asked last at 2026-11-01".to_owned()],
            recommendation: None,
        }
    }

    #[track_caller]
    fn check(reading: EksReading, status: CheckStatus, holds: bool, waits: bool) -> Vec<String> {
        let observation = Observation {
            eks: Some(reading),
            inspection: Some(Inspection::default()),
            ..Observation::empty(jiff::Timestamp::UNIX_EPOCH)
        };
        let removed_apis = Some(RemovedApis { deployed: Some(31), target: 32, rendered: Vec::new() });
        let expectation = ChecksExpectation { removed_apis, ..ChecksExpectation::default() };
        let outcomes = outcomes(&expectation, &observation);
        let outcome = outcomes.into_iter().find(|outcome| outcome.check == CheckName::EksInsights).unwrap();
        assert_eq!((outcome.status, outcome.holds(), outcome.waits()), (status, holds, waits));
        outcome.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn errors_about_the_target_hold_and_what_is_unknown_waits() {
        let with = |insights| EksReading { insights: Some(insights), ..EksReading::default() };
        check(with(vec![insight("PASSING", "1.32")]), CheckStatus::Pass, false, false);
        let said = check(with(vec![insight("ERROR", "1.32")]), CheckStatus::Fail, true, false);
        assert_eq!(said, ["insight \"Deprecated APIs\" (about 1.32): in use; kubectl asked last at 2026-11-01"]);
        check(with(vec![insight("ERROR", "1.33")]), CheckStatus::Warn, false, false);
        check(with(vec![insight("WARNING", "1.32")]), CheckStatus::Warn, false, false);
        check(with(vec![insight("UNKNOWN", "1.32")]), CheckStatus::Unknown, false, true);
        let unread = [("insights".to_owned(), "AccessDenied".to_owned())].into_iter().collect();
        check(EksReading { unread, ..EksReading::default() }, CheckStatus::Unknown, false, true);
        check(EksReading::default(), CheckStatus::Pass, false, false);
    }
}
