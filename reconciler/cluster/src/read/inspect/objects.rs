//! Which objects that there are do not go with the schemas that a rollout brings.

use rollout::check::{DefinitionChange, NAMED_OBJECTS, NarrowedVersion, Narrowing};
use rollout::{ObjectReference, UnfitObject};
use serde_json::Value;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::Selection;

/// Reads the objects of those versions alone whose schema asks for more, each as the API server gives it in that version.
pub(super) async fn unfit(own: &Connection, changes: &[DefinitionChange]) -> Result<Vec<UnfitObject>, RequestError> {
    let mut found = Vec::new();
    for change in changes {
        for narrowed in &change.narrowed {
            let kind = GroupVersionKind::gvk(&change.group, &narrowed.version, &change.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &change.plural);
            let attempt = format!("list {}.{}", change.plural, change.group);
            // A version that is not served has no objects.
            let objects = own.list_resource(&resource, None, Selection::default(), &attempt).await?;
            found.extend(of_version(&resource, narrowed, &objects));
        }
    }
    Ok(found)
}

fn of_version(resource: &ApiResource, narrowed: &NarrowedVersion, objects: &[DynamicObject]) -> Vec<UnfitObject> {
    narrowed.narrowings.iter().flat_map(|narrowing| of_narrowing(resource, narrowing, objects)).collect()
}

/// The first objects that do not meet it; the last of them counts the others.
fn of_narrowing(resource: &ApiResource, narrowing: &Narrowing, objects: &[DynamicObject]) -> Vec<UnfitObject> {
    let mut found: Vec<UnfitObject> = Vec::new();
    for object in objects {
        // Metadata is not part of what schemas decide about.
        let Some(violation) = violation(narrowing, &object.data) else { continue };
        if found.len() == NAMED_OBJECTS {
            if let Some(last) = found.last_mut() {
                last.others = last.others.saturating_add(1);
            }
            continue;
        }
        found.push(UnfitObject {
            object: ObjectReference {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
                namespace: object.metadata.namespace.clone(),
                name: object.metadata.name.clone().unwrap_or_default(),
            },
            field: violation.field,
            message: violation.message,
            is_certain: violation.is_certain,
            others: 0,
        });
    }
    found
}

/// The first one: one thing that is wrong with an object is enough to name it.
fn violation(narrowing: &Narrowing, data: &Value) -> Option<rollout::check::Violation> {
    narrowing.violations(data).into_iter().next()
}
