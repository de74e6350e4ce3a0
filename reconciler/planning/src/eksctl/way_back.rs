//! How long EKS takes the control plane of a cluster back.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use overlays::eksctl::minor_of;
use overlays::{ClusterKind, ClusterSpec};
use rollout::{Ledger, MinorBack, WayBack};

use crate::plan::Facts;

/// So long after an upgrade EKS takes a control plane back.
const OPEN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A way back that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EksWayBack {
    /// What the plan said of it.
    pub told: String,
    /// When it closes; none where the upgrade has not ended yet.
    pub until: Option<Timestamp>,
}

impl fmt::Display for EksWayBack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.until {
            Some(until) => write!(formatter, "{}; it is open until {until}", self.told),
            None => write!(formatter, "{}; the days count from the end of the upgrade on", self.told),
        }
    }
}

/// The way back of a control plane, by the record of the last rollout; none where it is closed, or none was opened.
#[must_use]
pub fn eks_way_back(cluster: &ClusterSpec, ledger: &Ledger, now: Timestamp) -> Option<EksWayBack> {
    if cluster.kind == ClusterKind::Eksctl { of_record(ledger, now) } else { None }
}

fn of_record(ledger: &Ledger, now: Timestamp) -> Option<EksWayBack> {
    let WayBack { told, since } = WayBack::of(ledger)?;
    let until = since.map(|since| since.saturating_add(OPEN).unwrap_or(Timestamp::MAX));
    until.is_none_or(|until| now < until).then_some(EksWayBack { told, until })
}

/// Whether the control plane of a plan may go back a minor: EKS takes it back, and the policy lets that be asked for.
pub(crate) fn minor_back(facts: &Facts<'_>) -> MinorBack {
    let cluster = facts.cluster;
    let (ClusterKind::Eksctl, Some(deployed)) = (cluster.kind, facts.deployed) else { return MinorBack::Never };
    let minors = minor_of(&deployed.kubernetes_version).zip(minor_of(&cluster.kubernetes_version));
    let Some((old, new)) = minors.filter(|(old, new)| new < old) else { return MinorBack::Never };
    let closed = |reason: String, help: String| MinorBack::Closed { reason, help };
    if new + 1 < old {
        return closed(
            "EKS takes a control plane back one minor".to_owned(),
            format!("go to 1.{} at most", old.saturating_sub(1)),
        );
    }
    let way_back = facts.directory.ledger().and_then(|ledger| eks_way_back(cluster, ledger, facts.now));
    let Some(way_back) = way_back else {
        let reason = "EKS takes a control plane back within 7 days, and no record says that it was upgraded since, or a node \
                      group was replaced";
        return closed(reason.to_owned(), format!("stay at {}: there is no way back", deployed.kubernetes_version));
    };
    if !facts.befores.allows_minor_rollback(facts.newest, &cluster.name) {
        let until = way_back.until.map(|until| format!(", which EKS does until {until}")).unwrap_or_default();
        return closed(
            format!("allowMinorRollback does not let it be taken back{until}"),
            "set allowMinorRollback for the cluster, and let it count at once by `--trust-policy COMMIT`".to_owned(),
        );
    }
    MinorBack::Open
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DAY: i64 = 24 * 3600;

    fn proof(second: i64) -> Value {
        let at = Timestamp::from_second(second).unwrap();
        json!({"commit": null, "appliedRevision": null, "observedAt": at, "heldSince": at, "reads": 2, "facts": []})
    }

    fn record(stage: &str, opened_by: &Value, one_way: &[&str]) -> Value {
        let digest = "0".repeat(64);
        json!({"stage": stage, "attempt": 1, "committedAt": "1970-01-01T00:00:00Z", "before": digest, "after": digest,
            "openedBy": opened_by, "oneWay": one_way})
    }

    fn ledger(stages: &[Value], verified: &Value, carried: &Value) -> Ledger {
        let digest = "0".repeat(64);
        serde_json::from_value(json!({"cluster": "shop", "rollout": "aaaaaaaaaaaa", "plan": digest,
            "source": "0".repeat(40), "base": digest, "target": digest, "tree": digest, "state": "running",
            "startedAt": "1970-01-01T00:00:00Z", "stages": stages, "verified": verified, "wayBack": carried}))
        .unwrap()
    }

    #[track_caller]
    fn check(stages: &[Value], verified: &Value, day: i64, expected: Option<&str>) {
        let ledger = ledger(stages, verified, &Value::Null);
        let told = of_record(&ledger, Timestamp::from_second(day * DAY).unwrap()).map(|way_back| way_back.to_string());
        assert_eq!(told.as_deref(), expected);
    }

    #[test]
    fn a_way_back_closes_after_seven_days_or_with_the_first_group() {
        let plane = || record("control-plane", &proof(0), &["EKS takes it back"]);
        let addon = record("addons/coredns", &proof(DAY), &[]);
        let begun = "EKS takes it back; the days count from the end of the upgrade on";
        check(&[plane()], &Value::Null, 0, Some(begun));
        let open = "EKS takes it back; it is open until 1970-01-09T00:00:00Z";
        check(&[plane(), addon.clone()], &Value::Null, 7, Some(open));
        check(&[plane(), addon.clone()], &Value::Null, 8, None);
        check(&[plane()], &proof(DAY), 7, Some(open));
        check(&[plane(), addon, record("workers/ng-1-32", &proof(2 * DAY), &[])], &Value::Null, 2, None);
        check(&[record("control-plane", &proof(0), &[])], &Value::Null, 0, None);
    }

    #[test]
    fn a_way_back_outlasts_rollouts_of_add_ons_and_no_group() {
        let carried = json!({"told": "EKS takes it back", "since": "1970-01-01T00:00:00Z"});
        let open = |stages: &[Value]| {
            let ledger = ledger(stages, &Value::Null, &carried);
            of_record(&ledger, Timestamp::from_second(6 * DAY).unwrap()).is_some()
        };
        let addon = record("addons/coredns", &proof(DAY), &[]);
        assert!(open(&[]) && open(std::slice::from_ref(&addon)));
        assert!(!open(&[addon, record("workers/ng-1-32", &proof(2 * DAY), &[])]));
        // The control plane was taken back.
        assert!(!open(&[record("control-plane", &proof(DAY), &[])]));
    }
}
