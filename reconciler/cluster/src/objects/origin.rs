//! Where an object is from.

use kube::core::DynamicObject;
use rollout::ObjectOrigin;

use super::fields::at;

/// Which object it is, who owns it, and who wrote its data last.
pub(crate) fn origin(object: &DynamicObject) -> Option<ObjectOrigin> {
    let metadata = &object.metadata;
    let managers = metadata.managed_fields.as_deref().unwrap_or_default().iter();
    let wrote =
        managers.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| at(&fields.0, &["f:data"]).is_some()));
    let last = wrote.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    Some(ObjectOrigin {
        uid: metadata.uid.clone()?,
        owners: owners.iter().map(|owner| owner.kind.clone()).collect(),
        made_by: last.and_then(|entry| entry.manager.clone()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_wrote_the_data_last_has_made_it() {
        let entry = |manager: &str, second: u32, fields: &str| {
            json!({"manager": manager, "operation": "Update", "time": format!("2026-03-01T12:00:0{second}Z"),
                "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {fields: {"f:tls.crt": {}}}})
        };
        let fields = [entry("manager", 1, "f:data"), entry("stepgate", 2, "f:data"), entry("manager", 3, "f:metadata")];
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "uid": "u", "managedFields": fields,
            "ownerReferences": [{"apiVersion": "a/v1", "kind": "KubeadmControlPlane", "name": "b", "uid": "c"}]}});
        let known = origin(&serde_json::from_value(object).unwrap()).unwrap();
        assert_eq!(
            (known.made_by.as_deref(), known.owners),
            (Some("stepgate"), vec!["KubeadmControlPlane".to_owned()])
        );
    }
}
