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
    let ApiUse { object, api_version, removed, advice, kind } = known;
    let gone = format!("{api_version}, which Kubernetes 1.{removed} does not serve any more; {advice}");
    let finding = match kind {
        ApiUseKind::ScaleTarget => CheckFinding::fail(format!("spec.scaleTargetRef names {gone}")),
        ApiUseKind::HelmRelease => CheckFinding::fail(format!(
            "the release that Helm has stored holds {gone}: its next upgrade fails at 1.{target}"
        )),
        ApiUseKind::WebhookRule => CheckFinding::warn(format!("a rule names {gone}: it is never called for that")),
        ApiUseKind::LastWritten { by } => CheckFinding::warn(format!(
            "suspected: last written by `{by}` as {gone}; it may write another version today"
        )),
        ApiUseKind::Requested => {
            CheckFinding::warn(format!("suspected: since the API server started somebody has asked for {gone}"))
        }
        ApiUseKind::Unread { reason } => {
            CheckFinding::warn(format!("who uses {api_version} could not be read: {reason}"))
        }
    };
    let remedy = match kind {
        ApiUseKind::Unread { .. } => "`stepgate install` writes the ClusterRole that lets it be read".to_owned(),
        _ => advice.clone(),
    };
    match object {
        Some(object) => finding.on(FoundObject::from(object)),
        None => finding,
    }
    .remedy(remedy)
}
