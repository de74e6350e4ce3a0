//! Whether somebody has changed, past git, what the rollout is going to apply anew: that change is lost then.

use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{Drift, DriftKind};

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
    judged.inspection.drifts.iter().filter_map(of).collect()
}

fn of(drift: &Drift) -> Option<CheckFinding> {
    let finding = match &drift.kind {
        DriftKind::Gone => {
            let message = "is on the deploy branch and not in the cluster: the rollout makes it anew";
            let remedy = "see who deleted it, and take it out of git where that was meant";
            CheckFinding::warn(message).remedy(remedy)
        }
        DriftKind::Changed { fields, manager, at } => {
            let fields: Vec<&str> =
                fields.iter().map(String::as_str).filter(|field| !field.ends_with(INJECTED)).collect();
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
    use crate::observation::ObjectReference;

    fn said(kind: DriftKind) -> Option<String> {
        let object = ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("n".to_owned()),
            name: "d".to_owned(),
        };
        of(&Drift { object, kind }).map(|finding| finding.to_string())
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
}
