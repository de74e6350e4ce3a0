//! Whether somebody has changed, past git, what the rollout is going to apply anew: that change is lost then.

use policy::{CheckName, DriftIgnore};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{Drift, DriftKind, ObjectReference};

pub(super) const CHECK: Check = Check {
    name: CheckName::Drift,
    looks_at: "objects of the components that change, against the deploy branch: what somebody changed past git",
    severity: CheckSeverity::Advisory,
    remedy: "bring the change into an overlay, or let the rollout take it back",
    judge,
};

/// How many fields a finding names.
const NAMED: usize = 5;

/// What controllers write into objects by design: certificates of webhooks, which cert-manager and Cluster API inject.
const INJECTED: &str = "caBundle";

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    judged.inspection.drifts.iter().filter_map(|drift| of(drift, &judged.expectation.drift_ignores)).collect()
}

fn of(drift: &Drift, ignores: &[DriftIgnore]) -> Option<CheckFinding> {
    let ObjectReference { kind, namespace, name, .. } = &drift.object;
    let is_ignored = |field: &str, manager: &str| {
        let object = (kind.as_str(), namespace.as_deref(), name.as_str());
        field.ends_with(INJECTED) || ignores.iter().any(|ignore| ignore.covers(object, field, manager))
    };
    let finding = match &drift.kind {
        DriftKind::Gone => {
            let message = "is on the deploy branch and not in the cluster: the rollout makes it anew";
            let remedy = "see who deleted it, and take it out of git where that was meant";
            CheckFinding::warn(message).remedy(remedy)
        }
        DriftKind::Changed { fields, manager, at } => {
            let fields: Vec<&str> =
                fields.iter().map(String::as_str).filter(|field| !is_ignored(field, manager)).collect();
            if fields.is_empty() {
                return None;
            }
            let mut named: Vec<String> = fields.iter().take(NAMED).map(|field| (*field).to_owned()).collect();
            let more = fields.len().saturating_sub(NAMED);
            if more > 0 {
                named.push(format!("{more} more fields"));
            }
            let by = if manager.is_empty() { String::new() } else { format!(" by {manager}") };
            let at = at.iter().map(|at| format!(" at {at}")).collect::<String>();
            let were = if fields.len() > 1 { "were" } else { "was" };
            let message =
                format!("{} {were} changed{by}{at}, not through git: the rollout takes it back", named.join(", "));
            CheckFinding::warn(message)
        }
    };
    Some(finding.on(FoundObject::from(&drift.object)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: DriftKind) -> Option<String> {
        said_but_for(kind, &[])
    }

    fn said_but_for(kind: DriftKind, ignores: &[DriftIgnore]) -> Option<String> {
        let object = ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("n".to_owned()),
            name: "d".to_owned(),
        };
        of(&Drift { object, kind }, ignores).map(|finding| finding.to_string())
    }

    #[test]
    fn a_change_past_git_is_told_with_who_made_it_and_when() {
        let changed = |fields: &[&str]| DriftKind::Changed {
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            manager: "kubectl-edit".to_owned(),
            at: Some("2026-03-01T12:00:00Z".parse().unwrap()),
        };
        let expected = "Deployment n/d: spec.replicas was changed by kubectl-edit at 2026-03-01T12:00:00Z, not through \
                        git: the rollout takes it back";
        assert_eq!(said(changed(&["spec.replicas", "webhooks[name=a].clientConfig.caBundle"])).unwrap(), expected);
        assert_eq!(said(changed(&["spec.conversion.webhook.clientConfig.caBundle"])), None);
        let many = said(changed(&["a", "b", "c", "d", "e", "f", "g"])).unwrap();
        assert!(many.contains("a, b, c, d, e, 2 more fields were changed"), "{many}");
        assert!(said(DriftKind::Gone).unwrap().contains("not in the cluster"));
    }

    #[test]
    fn what_a_team_ignores_is_not_told_and_the_rest_is() {
        let ignore = |object: Option<&str>, path: Option<&str>, manager: Option<&str>| DriftIgnore {
            object: object.map(|object| object.parse().unwrap()),
            paths: path.map(|path| path.to_owned().try_into().unwrap()).into_iter().collect(),
            managers: manager.map(str::to_owned).into_iter().collect(),
        };
        let drift = || DriftKind::Changed {
            fields: vec!["spec.replicas".to_owned(), "spec.paused".to_owned()],
            manager: "kubectl-edit".to_owned(),
            at: None,
        };
        let all = "Deployment n/d: spec.replicas, spec.paused were changed by kubectl-edit";
        for (rule, expected) in [
            (ignore(None, Some("/spec/replicas"), None), Some("Deployment n/d: spec.paused was changed")),
            (ignore(Some("Deployment/n/*"), Some("/spec"), None), None),
            (ignore(Some("Deployment/other/*"), Some("/spec"), None), Some(all)),
            (ignore(Some("DaemonSet/n/*"), Some("/spec"), None), Some(all)),
            (ignore(None, None, Some("kubectl-edit")), None),
            (ignore(None, Some("/spec"), Some("vpa-updater")), Some(all)),
        ] {
            let said = said_but_for(drift(), std::slice::from_ref(&rule));
            assert_eq!(said.is_some(), expected.is_some(), "{rule:?}");
            assert!(said.is_none_or(|said| said.starts_with(expected.unwrap())), "{rule:?}");
        }
        // What is gone is gone, whoever may write its fields.
        assert!(said_but_for(DriftKind::Gone, &[ignore(None, Some("/spec"), None)]).is_some());
    }
}
