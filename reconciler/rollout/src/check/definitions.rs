//! Whether what is stored, and every object that there is, goes with the definitions that the rollout brings.

use policy::CheckName;

use super::narrowing::DefinitionChange;
use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::UnfitObject;

pub(super) const CHECK: Check = Check {
    name: CheckName::Definitions,
    looks_at: "CustomResourceDefinitions that change: versions that objects are stored at, and objects against the new schemas",
    severity: CheckSeverity::Blocking,
    remedy: "change the objects named before the rollout, so that the new definition takes them",
    judge,
};

/// How many objects are named for each thing that a schema asks anew.
pub const NAMED_OBJECTS: usize = 5;

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let changes = &judged.expectation.definitions;
    if changes.is_empty() {
        return Vec::new();
    }
    if let Some(reason) = judged.observation.unread.get("CustomResourceDefinition") {
        return vec![CheckFinding::unknown(format!("definitions could not be read: {reason}"))];
    }
    let stored = changes.iter().flat_map(|change| stored(change, judged));
    stored.chain(judged.inspection.unfit.iter().map(unfit)).collect()
}

/// Versions that objects may be stored at and the new definition does not have: the API server refuses such an update.
fn stored(change: &DefinitionChange, judged: &Judged<'_>) -> Vec<CheckFinding> {
    let DefinitionChange { name, versions, storage, .. } = change;
    let live = judged.observation.custom_resource_definitions.iter().find(|known| known.name == *name);
    let lost = live.into_iter().flat_map(|live| &live.stored_versions).filter(|version| !versions.contains(version));
    let finding = |version: &String| {
        let message = format!(
            "status.storedVersions lists {version}, which the new definition no longer has: the API server refuses it"
        );
        let remedy = format!(
            "rewrite every object of {name} at {storage}, then take {version} out of its status: \
             `kubectl edit crd {name} --subresource=status`"
        );
        CheckFinding::fail(message).on(definition(name)).remedy(remedy)
    };
    lost.map(finding).collect()
}

fn unfit(unfit: &UnfitObject) -> CheckFinding {
    let UnfitObject { object, field, message, is_certain, others, .. } = unfit;
    let more = if *others > 0 { format!(" (and {others} more objects)") } else { String::new() };
    let place = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let message = format!("{} {place}{message}{more}", object.api_version);
    let finding = if *is_certain { CheckFinding::fail(message) } else { CheckFinding::warn(message) };
    finding.on(FoundObject::from(object))
}

fn definition(name: &str) -> FoundObject {
    FoundObject { kind: "CustomResourceDefinition".to_owned(), namespace: None, name: name.to_owned() }
}
