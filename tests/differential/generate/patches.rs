//! Patches of both kinds, made from the objects they are for.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::paths::{Step, places, pointer};
use super::text::{self, key, prose, scalar, word};
use super::write;

/// The part of an object's tree that a patch changes: some fields kept, some changed, some new.
fn change(draw: &mut Draw, tree: &Value, depth: usize) -> Value {
    match tree {
        Value::Object(map) => {
            let mut patch = Map::new();
            for (name, value) in map {
                let identifies = ["name", "containerPort", "port", "mountPath", "key", "ip", "topologyKey", "protocol"];
                if identifies.contains(&name.as_str()) && value.is_string() || value.is_number() && draw.chance(70) {
                    if !draw.chance(4) {
                        patch.insert(name.clone(), value.clone());
                    }
                } else if draw.chance(if depth == 0 { 70 } else { 40 }) {
                    patch.insert(name.clone(), change(draw, value, depth + 1));
                }
            }
            if draw.chance(12) {
                patch.insert(key(draw), scalar(draw));
            }
            if draw.chance(6) {
                let directive = draw.pick(&["delete", "replace", "merge", "replace", "delete"]);
                patch.insert("$patch".into(), json!(directive));
            }
            if draw.chance(1) {
                let (name, value) = draw.pick(&[
                    ("$retainKeys", json!(["name"])),
                    ("$setElementOrder/containers", json!([{"name": "main"}])),
                    ("$deleteFromPrimitiveList/finalizers", json!(["a.io/one"])),
                ]);
                patch.insert(name.into(), value);
            }
            Value::Object(patch)
        }
        Value::Array(items) => {
            let mut patch: Vec<Value> = Vec::new();
            for item in items {
                if draw.chance(60) {
                    patch.push(change(draw, item, depth + 1));
                }
            }
            if draw.chance(35) {
                patch.push(match items.first() {
                    Some(Value::Object(first)) => {
                        let mut new = first.clone();
                        if let Some(name) = new.get_mut("name") {
                            *name = json!(draw.pick(&["extra", "main", "sidecar", "config"]));
                        }
                        Value::Object(new)
                    }
                    _ => scalar(draw),
                });
            }
            if draw.chance(8) {
                draw.shuffle(&mut patch);
            }
            if draw.chance(5) {
                patch.insert(0, json!({"$patch": draw.pick(&["replace", "merge", "delete"])}));
            }
            Value::Array(patch)
        }
        leaf => match draw.number(0, 9) {
            0..=3 => leaf.clone(),
            4 => Value::Null,
            5 => scalar(draw),
            6 if draw.chance(20) => json!({}),
            7 if draw.chance(20) => json!([]),
            _ if leaf.is_number() => json!(draw.number(1, 9)),
            _ => json!(prose(draw)),
        },
    }
}

/// A strategic merge patch for an object, with its identity.
pub fn strategic(draw: &mut Draw, object: &Value) -> Value {
    let mut patch = Map::new();
    let fields = object.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str())) {
        if draw.chance(75) {
            patch.insert(name.clone(), change(draw, value, 0));
        }
    }
    let mut metadata = Map::new();
    for field in ["name", "namespace", "generateName"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    for field in ["labels", "annotations"] {
        if draw.chance(25) {
            let old = object["metadata"].get(field).cloned().unwrap_or_else(|| json!({}));
            let mut new = change(draw, &old, 1);
            new[word(draw)] = json!(prose(draw));
            metadata.insert(field.to_owned(), new);
        }
    }
    patch.insert("apiVersion".into(), object["apiVersion"].clone());
    patch.insert("kind".into(), object["kind"].clone());
    patch.insert("metadata".into(), Value::Object(metadata));
    if draw.chance(3) {
        patch.insert("$patch".into(), json!(draw.pick(&["delete", "delete", "replace", "merge"])));
    }
    Value::Object(patch)
}

/// Operations on an object.
pub fn operations(draw: &mut Draw, object: &Value) -> Value {
    let all = places(object);
    let safe: Vec<_> = all
        .iter()
        .filter(|(path, _)| !matches!(path.first(), Some(Step::Key(key)) if key == "apiVersion" || key == "kind"))
        .filter(|(path, _)| path.len() > 1)
        .collect();
    let mut list = Vec::new();
    for _ in 0..draw.number(1, 3) {
        if safe.is_empty() {
            break;
        }
        let (path, value) = draw.pick(&safe).clone();
        let here = pointer(&path);
        let new = match draw.number(0, 4) {
            0 => json!({word(draw): scalar(draw)}),
            1 => json!([scalar(draw)]),
            2 => (*value).clone(),
            _ => scalar(draw),
        };
        list.push(match draw.number(0, 13) {
            0..=4 => json!({"op": "replace", "path": here, "value": new}),
            5 | 6 => json!({"op": "add", "path": here, "value": new}),
            7 | 8 => {
                let below = match value {
                    Value::Array(items) => format!(
                        "{here}/{}",
                        draw.pick(&["-".to_owned(), "0".to_owned(), "-1".to_owned(), items.len().to_string()])
                    ),
                    Value::Object(_) => format!("{here}/{}", draw.pick(&["new", "a~1b", "10"])),
                    _ => here,
                };
                json!({"op": "add", "path": below, "value": new})
            }
            9 | 10 if path.len() > 2 => json!({"op": "remove", "path": here}),
            11 => {
                let (other, _) = draw.pick(&safe).clone();
                json!({"op": draw.pick(&["copy", "move"]), "from": here, "path": pointer(&other)})
            }
            12 => json!({"op": "test", "path": here, "value": value}),
            _ => json!({"op": "replace", "path": here, "value": new}),
        });
    }
    if list.is_empty() {
        list.push(json!({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}));
    }
    Value::Array(list)
}

/// A target that selects an object, by some of what it is.
pub fn target(draw: &mut Draw, object: &Value) -> Value {
    let mut target = Map::new();
    let api = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    if draw.chance(85) {
        target.insert("kind".into(), object["kind"].clone());
    }
    if draw.chance(25) && !group.is_empty() {
        target.insert("group".into(), json!(group));
    }
    if draw.chance(20) {
        target.insert("version".into(), json!(version));
    }
    if draw.chance(80)
        && let Some(name) = object["metadata"]["name"].as_str()
    {
        let name = match draw.number(0, 5) {
            0 => format!("{}.*", &name[..name.len().min(2)]),
            1 => format!("{name}|other"),
            2 => format!(".*{name}"),
            _ => name.to_owned(),
        };
        target.insert("name".into(), json!(name));
    }
    if draw.chance(15)
        && let Some(namespace) = object["metadata"].get("namespace")
    {
        target.insert("namespace".into(), namespace.clone());
    }
    if draw.chance(12) {
        let selector = selector(draw, &object["metadata"]["labels"]);
        target.insert("labelSelector".into(), json!(selector));
    }
    if draw.chance(5) {
        let selector = selector(draw, &object["metadata"]["annotations"]);
        target.insert("annotationSelector".into(), json!(selector));
    }
    Value::Object(target)
}

fn selector(draw: &mut Draw, pairs: &Value) -> String {
    let pair = pairs.as_object().and_then(|map| map.iter().next());
    let (key, value) = match pair {
        Some((key, Value::String(value))) if !value.starts_with(text::RAW) => (key.clone(), value.clone()),
        _ => ("app".to_owned(), "web".to_owned()),
    };
    match draw.number(0, 6) {
        0 => format!("{key}={value}"),
        1 => format!("{key} in ({value}, other)"),
        2 => format!("{key} notin (other)"),
        3 => key,
        4 => format!("!{key}"),
        5 => format!("{key}!={value}"),
        _ => format!("{key}=={value},{key}"),
    }
}

/// An entry of `patches`; what it names in a file comes second.
pub fn entry(draw: &mut Draw, objects: &[Value], file: &str) -> (Value, Option<(String, String)>) {
    let object = draw.pick(objects);
    let mut entry = Map::new();
    let json = draw.chance(35);
    let text = if json {
        entry.insert("target".into(), target(draw, &object));
        let operations = operations(draw, &object);
        if draw.chance(20) { write::inline(&operations, draw) } else { write::document(&operations, draw) }
    } else {
        let mut patch = strategic(draw, &object);
        if draw.chance(40) {
            entry.insert("target".into(), target(draw, &object));
            if draw.chance(30) {
                patch["metadata"]["name"] = json!(draw.pick(&["renamed", "ignored", "web"]));
            }
            if draw.chance(8) {
                patch["kind"] = json!("Renamed");
            }
            if draw.chance(35) {
                entry.insert(
                    "options".into(),
                    json!({"allowNameChange": draw.chance(60), "allowKindChange": draw.chance(40)}),
                );
            }
        }
        let mut text = write::document(&patch, draw);
        if draw.chance(8) && !entry.contains_key("target") {
            let second = draw.pick(objects);
            let second = strategic(draw, &second);
            text = format!("{text}---\n{}", write::document(&second, draw));
        }
        text
    };
    if draw.chance(50) {
        entry.insert("path".into(), json!(file));
        return (Value::Object(entry), Some((file.to_owned(), text)));
    }
    entry.insert("patch".into(), json!(text));
    (Value::Object(entry), None)
}
