//! Whether something is written for an API version that is not served at the end of the rollout.

use policy::CheckName;
use serde::{Deserialize, Serialize};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{ApiUse, ApiUseKind, ObjectReference};

pub(super) const CHECK: Check = Check {
    name: CheckName::RemovedApis,
    looks_at: "API versions that the target does not serve: manifests, HorizontalPodAutoscalers, Helm releases, webhooks, requests",
    severity: CheckSeverity::Blocking,
    remedy: "change what is written for the old version before the rollout",
    judge,
};

/// What is asked about API versions that go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedApis {
    /// The minor of Kubernetes 1 that is deployed; none where it is not known.
    #[serde(default)]
    pub deployed: Option<u32>,
    /// The one that the rollout leads to.
    pub target: u32,
    /// Objects of the target tree whose version is not served then, with what helps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rendered: Vec<(ObjectReference, String)>,
}

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let Some(asked) = &judged.expectation.removed_apis else { return Vec::new() };
    let rendered = asked.rendered.iter().map(|(object, advice)| {
        let message = format!("is rendered as {}, which is not served after the rollout; {advice}", object.api_version);
        CheckFinding::fail(message).on(FoundObject::from(object)).remedy(advice.clone())
    });
    let live = judged.inspection.api_uses.iter().map(|known| of_use(known, asked.target));
    rendered.chain(live).collect()
}

fn of_use(known: &ApiUse, target: u32) -> CheckFinding {
    let message = told(known, target);
    let finding = match known.kind {
        ApiUseKind::ScaleTarget | ApiUseKind::HelmRelease => CheckFinding::fail(message),
        ApiUseKind::WebhookRule
        | ApiUseKind::LastWritten { .. }
        | ApiUseKind::Requested
        | ApiUseKind::Unread { .. } => CheckFinding::warn(message),
    };
    let remedy = match known.kind {
        ApiUseKind::Unread { .. } => "`stepgate install` writes the ClusterRole that lets it be read".to_owned(),
        _ => known.advice.clone(),
    };
    match &known.object {
        Some(object) => finding.on(FoundObject::from(object)),
        None => finding,
    }
    .remedy(remedy)
}

/// What a use means where a cluster goes to a minor of Kubernetes 1.
#[must_use]
pub fn told(known: &ApiUse, target: u32) -> String {
    let ApiUse { api_version, removed, advice, kind, .. } = known;
    let gone = format!("{api_version}, which Kubernetes 1.{removed} does not serve any more; {advice}");
    match kind {
        ApiUseKind::ScaleTarget => format!("spec.scaleTargetRef names {gone}"),
        ApiUseKind::HelmRelease => {
            format!("the release that Helm has stored holds {gone}: its next upgrade fails at 1.{target}")
        }
        ApiUseKind::WebhookRule => format!("a rule names {gone}: it is never called for that"),
        ApiUseKind::LastWritten { by } => {
            format!("suspected: last written by `{by}` as {gone}; it may write another version today")
        }
        ApiUseKind::Requested => format!("suspected: since the API server started somebody has asked for {gone}"),
        ApiUseKind::Unread { reason } => format!("who uses {api_version} could not be read: {reason}"),
    }
}
