//! Whether the manifests of the target carry signatures that fit, as far as the policy asks for them.

use policy::CheckName;
use serde::{Deserialize, Serialize};

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::ObjectReference;

pub(super) const CHECK: Check = Check {
    name: CheckName::Signatures,
    looks_at: "signatures of Bundles and of the EKS-D releases that they name (`signatures` of stepgate.yaml)",
    severity: CheckSeverity::Blocking,
    remedy: "take the file anew from its release, as it is published, and see `stepgate bundle verify`",
    judge,
};

/// A manifest whose signature is missing, or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenManifest {
    /// The manifest.
    pub object: ObjectReference,
    /// What is wrong with its signature.
    pub message: String,
    /// Whether the policy, or one of before, asks for one.
    #[serde(default)]
    pub is_required: bool,
}

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let finding = |known: &UnprovenManifest| {
        let finding = if known.is_required {
            CheckFinding::fail(known.message.clone())
        } else {
            CheckFinding::warn(known.message.clone())
        };
        finding.on(FoundObject::from(&known.object))
    };
    judged.expectation.signatures.iter().map(finding).collect()
}
