//! The Secrets and ConfigMaps that Cluster API's objects cannot be restored without: each by its name, so that nobody has to be allowed to
//! list Secrets.

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use serde_json::Value;

use super::concurrent::concurrently;
use super::connection::Connection;
use super::error::RequestError;
use super::kind::{CLUSTER, CONFIG_MAP, Kind, SECRET};

/// What Cluster API and EKS Anywhere's etcd provider call the Secrets of a cluster, after its name (`cluster-api/util/secret/consts.go`,
/// `etcdadm-bootstrap-provider`).
const PURPOSES: [&str; 8] =
    ["ca", "etcd", "sa", "proxy", "kubeconfig", "user-kubeconfig", "managed-etcd", "apiserver-etcd-client"];

/// The label of everything that belongs to a cluster.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Namespace and name.
type Reference = (String, String);

/// The Secrets of the clusters among these objects, and those that the objects refer to; of one cluster alone, where that is named.
pub(crate) async fn read(
    connection: &Connection,
    objects: &[DynamicObject],
    only: Option<&str>,
) -> Result<Vec<DynamicObject>, RequestError> {
    by_name(connection, &SECRET, named_by(objects, only)).await
}

/// The ConfigMaps that these objects refer to by their kind, as a `ClusterResourceSet` does; of one cluster and of nobody's objects
/// alone, where that is named.
pub(crate) async fn read_config_maps(
    connection: &Connection,
    objects: &[DynamicObject],
    only: Option<&str>,
) -> Result<Vec<DynamicObject>, RequestError> {
    let mut wanted = BTreeSet::new();
    for object in objects {
        let Some(namespace) = &object.metadata.namespace else { continue };
        let of = object.metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME));
        if only.is_none_or(|only| of.is_none_or(|of| of == only)) {
            of_kind(&CONFIG_MAP, &object.data, namespace, &mut wanted);
        }
    }
    by_name(connection, &CONFIG_MAP, wanted).await
}

async fn by_name(
    connection: &Connection,
    kind: &Kind,
    wanted: BTreeSet<Reference>,
) -> Result<Vec<DynamicObject>, RequestError> {
    let resource = kind.resource("v1");
    let requests = wanted.iter().map(|(namespace, name)| connection.get(&resource, Some(namespace), name)).collect();
    let mut found = Vec::new();
    for object in concurrently(requests).await {
        found.extend(object?);
    }
    Ok(found)
}

/// The names of those Secrets, whether they are there or not.
pub(crate) fn named_by(objects: &[DynamicObject], only: Option<&str>) -> BTreeSet<Reference> {
    let mut wanted = BTreeSet::new();
    for object in objects {
        let metadata = &object.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { continue };
        let types = object.types.as_ref();
        let group = types.and_then(|types| types.api_version.split_once('/')).map_or("", |(group, _)| group);
        let is_cluster = types.is_some_and(|types| types.kind == CLUSTER.kind) && group == CLUSTER.group;
        let of =
            if is_cluster { Some(name) } else { metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME)) };
        // What carries no cluster's name, such as a template, may be anybody's.
        if let (Some(only), Some(of)) = (only, of)
            && only != of
        {
            continue;
        }
        if is_cluster {
            wanted.extend(PURPOSES.iter().map(|purpose| (namespace.clone(), format!("{name}-{purpose}"))));
        }
        referred_by(&object.data, namespace, &mut wanted);
    }
    wanted
}

/// What a value refers to by this kind and a name.
fn of_kind(kind: &Kind, value: &Value, namespace: &str, wanted: &mut BTreeSet<Reference>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| of_kind(kind, item, namespace, wanted)),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            if let (Some(known), Some(name)) = (text("kind"), text("name"))
                && known == kind.kind
            {
                wanted.insert((text("namespace").unwrap_or(namespace).to_owned(), name.to_owned()));
            }
            fields.values().for_each(|field| of_kind(kind, field, namespace, wanted));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a value refers to: `dataSecretName`, a `secret` or `secretRef` with a name, and anything of the kind Secret.
fn referred_by(value: &Value, namespace: &str, wanted: &mut BTreeSet<Reference>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| referred_by(item, namespace, wanted)),
        Value::Object(fields) => {
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            if text(value, "kind").as_deref() == Some(SECRET.kind)
                && let Some(name) = text(value, "name")
            {
                wanted.insert((text(value, "namespace").unwrap_or_else(|| namespace.to_owned()), name));
            }
            for (key, field) in fields {
                let name = match key.as_str() {
                    "dataSecretName" | "secretName" => field.as_str().map(str::to_owned),
                    "secret" | "secretRef" => text(field, "name"),
                    _ => None,
                };
                let place = text(field, "namespace").unwrap_or_else(|| namespace.to_owned());
                wanted.extend(name.filter(|name| !name.is_empty()).map(|name| (place, name)));
                referred_by(field, namespace, wanted);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(group: &str, kind: &str, name: &str, cluster: Option<&str>, data: &Value) -> DynamicObject {
        let labels = cluster.map(|cluster| json!({CLUSTER_NAME: cluster}));
        let mut value = json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind,
            "metadata": {"name": name, "namespace": "n", "labels": labels}});
        value.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn names(objects: &[DynamicObject], only: Option<&str>) -> Vec<String> {
        named_by(objects, only).into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    }

    #[test]
    fn a_cluster_has_the_secrets_that_are_called_after_it() {
        let clusters = ["a", "b"].map(|name| object("cluster.x-k8s.io", "Cluster", name, None, &json!({})));
        let found = names(&clusters, Some("a"));
        assert_eq!(found.len(), PURPOSES.len());
        for purpose in ["ca", "etcd", "sa", "proxy", "kubeconfig"] {
            assert!(found.contains(&format!("n/a-{purpose}")), "{found:?}");
        }
        assert_eq!(names(&clusters, None).len(), 2 * PURPOSES.len());
        // EKS Anywhere's own Cluster has none besides.
        assert!(names(&[object("anywhere.eks.amazonaws.com", "Cluster", "a", None, &json!({}))], None).is_empty());
    }

    #[test]
    fn what_objects_refer_to_is_found_wherever_it_is_written() {
        let group = "cluster.x-k8s.io";
        for (data, expected) in [
            (json!({"spec": {"bootstrap": {"dataSecretName": "m-0"}}}), "n/m-0"),
            (json!({"status": {"dataSecretName": "m-1"}}), "n/m-1"),
            (json!({"spec": {"identityRef": {"kind": "Secret", "name": "vsphere"}}}), "n/vsphere"),
            (json!({"spec": {"identityRef": {"kind": "Secret", "name": "v", "namespace": "o"}}}), "o/v"),
            (json!({"spec": {"files": [{"contentFrom": {"secret": {"name": "f", "key": "k"}}}]}}), "n/f"),
            (json!({"spec": {"resources": [{"kind": "Secret", "name": "crs"}]}}), "n/crs"),
        ] {
            let machine = object(group, "Machine", "m", Some("a"), &data);
            assert_eq!(names(std::slice::from_ref(&machine), Some("a")), [expected], "{data}");
            assert!(names(std::slice::from_ref(&machine), Some("b")).is_empty(), "{data}");
        }
        let empty = json!({"spec": {"bootstrap": {"dataSecretName": ""}, "secretRef": {}, "kind": "Secret"}});
        assert!(names(&[object(group, "Machine", "m", None, &empty)], None).is_empty());
    }
}
