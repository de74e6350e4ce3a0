//! Puts saved objects into an API server that has none, as whoever recovers a management cluster does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use kube::api::{DynamicObject, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::servers::kubernetes::manifests::{apply, kind_in, kind_of_cluster};

/// What the server gives an object anew.
const OF_THE_SERVER: [&str; 5] = ["uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"];

/// Creates the objects, owners before what they own, each linked to its owner's new uid. Answers with what was created, in that order.
///
/// # Errors
/// When an object is refused, or its owner is not among them.
pub async fn restore(client: &Client, objects: Vec<Value>) -> anyhow::Result<Vec<DynamicObject>> {
    let namespaces: BTreeSet<&str> = objects.iter().map(|object| text(object, "/metadata/namespace")).collect();
    let namespaces = namespaces.into_iter().filter(|name| !["", "default"].contains(name));
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(client, &namespaces.map(namespace).collect::<Vec<_>>()).await?;
    let mut uids: BTreeMap<String, String> = BTreeMap::new();
    let mut created = Vec::new();
    let mut left = objects;
    while !left.is_empty() {
        let is_next = |object: &Value| owners(object).iter().all(|owner| uids.contains_key(text(owner, "/uid")));
        let (next, later): (Vec<Value>, Vec<Value>) = left.into_iter().partition(is_next);
        let waiting = || later.iter().map(|object| text(object, "/metadata/name")).collect::<Vec<_>>();
        ensure!(!next.is_empty(), "owners are missing of {:?}", waiting());
        for object in next {
            let before = text(&object, "/metadata/uid").to_owned();
            let object = create(client, object, &uids).await?;
            uids.insert(before, object.uid().unwrap_or_default());
            created.push(object);
        }
        left = later;
    }
    Ok(created)
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

async fn create(client: &Client, mut object: Value, uids: &BTreeMap<String, String>) -> anyhow::Result<DynamicObject> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).context("an object without metadata")?;
    for field in OF_THE_SERVER {
        metadata.remove(field);
    }
    let links = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in links.into_iter().flatten().filter_map(Value::as_object_mut) {
        let uid = owner.get("uid").and_then(Value::as_str).and_then(|uid| uids.get(uid)).cloned();
        owner.insert("uid".to_owned(), json!(uid));
    }
    let kind = (text(&object, "/apiVersion"), text(&object, "/kind"));
    let api = match text(&object, "/metadata/namespace") {
        "" => kind_of_cluster(client, kind).await?,
        namespace => kind_in(client, kind, namespace).await?,
    };
    let what = format!("could not restore {} {}", kind.1, text(&object, "/metadata/name"));
    let object: DynamicObject = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await.context(what)
}
