//! Lists, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::kind::ServedKind;
use crate::objects::{Key, Objects};
use crate::reply::Reply;
use crate::request::{Parameters, Place};
use crate::selector::Selector;

/// Said of a list whose pages are of a revision that is forgotten.
const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
                       the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
                       Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
                       deleted between the time the first chunk was returned and now may show up in the list.";

pub(crate) fn list(objects: &Objects, place: &Place<'_>, parameters: &Parameters) -> Result<Reply, Reply> {
    let kind = place.kind;
    let selector = Selector::new(parameters.get("labelSelector"), parameters.get("fieldSelector"));
    let limit: usize = parameters.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or_default();
    let (revision, after) = match parameters.get("continue") {
        None => (objects.revision(), None),
        Some(token) => {
            let (revision, after) =
                continued(token, kind).ok_or_else(|| Reply::bad_request("continue key is not valid"))?;
            (revision, Some(after))
        }
    };
    if revision < objects.compacted() {
        return Err(Reply::expired(TOO_OLD));
    }
    let resource = kind.resource();
    let mut all = objects.at(revision, &resource, place.namespace.as_deref(), after.as_ref());
    let most = if limit == 0 { usize::MAX } else { limit };
    let mut last = None;
    let mut items = Vec::new();
    for (key, object) in all.by_ref() {
        if selector.selects(object) {
            last = Some(key.clone());
            items.push(as_item(kind, object));
        }
        if items.len() >= most {
            break;
        }
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if kind.is_custom() {
        metadata["continue"] = json!("");
    }
    // Whether there is a page more is said before anybody has looked what is on it. Of one object it is known.
    let is_one = selector.is_of_one() && (place.namespace.is_some() || !kind.namespaced);
    let left = if is_one { 0 } else { all.count() };
    if let Some(last) = last.filter(|_| left > 0) {
        metadata["continue"] = json!(token(revision, &last));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    let list = format!("{}List", kind.kind);
    Ok(Reply::ok(json!({"kind": list, "apiVersion": kind.api_version(), "metadata": metadata, "items": items})))
}

/// Lists of the server's own kinds name the kind once, for all of them.
fn as_item(kind: &ServedKind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut().filter(|_| !kind.is_custom()) {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

fn token(revision: u64, last: &Key) -> String {
    URL_SAFE_NO_PAD.encode(json!([revision, last.namespace, last.name]).to_string())
}

fn continued(token: &str, kind: &ServedKind) -> Option<(u64, Key)> {
    let text = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (revision, namespace, name) = serde_json::from_slice(&text).ok()?;
    Some((revision, Key { resource: kind.resource(), namespace, name }))
}
