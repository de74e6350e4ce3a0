//! Replacements and variables.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::paths::{Step, places};
use super::text::{prose, word};

/// The path as replacements write it.
fn field_path(draw: &mut Draw, path: &[Step]) -> String {
    let mut parts = Vec::new();
    for step in path {
        parts.push(match step {
            Step::Key(key) if key.contains('.') => {
                if draw.chance(50) {
                    format!("[{key}]")
                } else {
                    key.replace('.', "\\.")
                }
            }
            Step::Key(key) => key.clone(),
            Step::Item(_, Some(name)) if draw.chance(60) => format!("[name={name}]"),
            Step::Item(..) if draw.chance(30) => "*".to_owned(),
            Step::Item(index, _) => index.to_string(),
        });
    }
    parts.join(".")
}

fn select(draw: &mut Draw, object: &Value) -> Value {
    let mut select = Map::new();
    let api = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    if draw.chance(95) {
        select.insert("kind".into(), object["kind"].clone());
    }
    if draw.chance(90)
        && let Some(name) = object["metadata"].get("name")
    {
        select.insert("name".into(), name.clone());
    }
    if draw.chance(15) && !group.is_empty() {
        select.insert("group".into(), json!(group));
    }
    if draw.chance(15) {
        select.insert("version".into(), json!(version));
    }
    if draw.chance(12)
        && let Some(namespace) = object["metadata"].get("namespace")
    {
        select.insert("namespace".into(), namespace.clone());
    }
    Value::Object(select)
}

fn options(draw: &mut Draw, on_texts: bool) -> Value {
    let mut options = Map::new();
    if draw.chance(if on_texts { 60 } else { 5 }) {
        options.insert("delimiter".into(), json!(draw.pick(&[":", "/", "-", ".", " ", "ab"])));
        options.insert("index".into(), json!(draw.pick(&[0_i64, 0, 1, 2, 9, -1])));
    }
    if draw.chance(35) {
        options.insert("create".into(), json!(true));
    }
    Value::Object(options)
}

/// One replacement.
pub fn replacement(draw: &mut Draw, objects: &[Value]) -> Value {
    let mut result = Map::new();
    let source = draw.pick(objects);
    if draw.chance(15) {
        result.insert("sourceValue".into(), json!(prose(draw)));
    } else {
        let mut from = select(draw, &source);
        if draw.chance(80) {
            let leaves: Vec<_> = places(&source)
                .into_iter()
                .filter(|(_, value)| draw.chance(if value.is_object() || value.is_array() { 12 } else { 100 }))
                .collect();
            if !leaves.is_empty() {
                let (path, _) = draw.pick(&leaves);
                let path = field_path(draw, &path);
                from["fieldPath"] = json!(path.replace(".*", ".0"));
            }
        }
        if draw.chance(20) {
            from["options"] =
                json!({"delimiter": draw.pick(&[":", "/", "-"]), "index": draw.pick(&[0, 0, 0, 0, 1, 2])});
        }
        result.insert("source".into(), from);
    }
    let mut targets = Vec::new();
    for _ in 0..draw.number(1, 2) {
        targets.push(target(draw, objects));
    }
    result.insert("targets".into(), json!(targets));
    Value::Object(result)
}

/// Places that [`text::structured`](super::text::structured) has, most of the time.
const INNER_PATHS: [&str; 14] = [
    "host",
    "host",
    "deep",
    "deep.port",
    "deep.port",
    "deep.list",
    "deep.list.0",
    "deep.list.1",
    "deep.list.-",
    "deep.name",
    "list.0",
    "new",
    "deep.[name=x]",
    "deep.list.[=a]",
];

fn is_structured(text: &str) -> bool {
    text.contains("host") && text.contains("deep") || text.starts_with('{')
}

fn target(draw: &mut Draw, objects: &[Value]) -> Value {
    let object = draw.pick(objects);
    let mut select = select(draw, &object);
    if draw.chance(12) && select.get("name").is_some() {
        let name = select["name"].as_str().unwrap_or_default();
        let pattern = draw.pick(&[
            format!("{name}.*"),
            "w.*".to_owned(),
            ".*".to_owned(),
            format!("^{name}$"),
            format!("{name}|x"),
        ]);
        select["name"] = json!(pattern);
    }
    let (mut paths, mut on_texts) = (Vec::new(), true);
    let everywhere = places(&object);
    for _ in 0..draw.number(1, 2) {
        let (path, value) = draw.pick(&everywhere);
        if path.len() == 1 && draw.chance(80) {
            continue;
        }
        let mut text = field_path(draw, &path);
        on_texts &= !value.is_object() && !value.is_array();
        if value.as_str().is_some_and(is_structured) && draw.chance(70) {
            text = format!("{text}.{}", draw.pick(&INNER_PATHS));
        } else if draw.chance(10) {
            text = format!(
                "{text}.{}",
                draw.pick(&[
                    "new",
                    "new.deep",
                    "-",
                    "[name=new]",
                    "[name=new].value",
                    "0",
                    "host",
                    "deep.port",
                    "deep",
                    "list.0",
                    "list"
                ])
            );
        } else if value.is_array() && draw.chance(40) {
            text = format!("{text}.{}", draw.pick(&["-", "*", "[name=new].x", "9", "[name=main].image"]));
        }
        paths.push(text);
    }
    if paths.is_empty() {
        paths.push(format!("metadata.annotations.{}", word(draw)));
    }
    let mut target = json!({"select": select, "fieldPaths": paths});
    if draw.chance(25) {
        target["options"] = options(draw, on_texts);
    } else if target["select"].get("name").is_none_or(|name| *name != object["metadata"]["name"]) && draw.chance(60) {
        target["options"] = json!({"create": true});
    }
    if draw.chance(10) {
        let name = draw.pick(objects)["metadata"]["name"].clone();
        target["reject"] = json!([{"name": name}]);
        if draw.chance(40) {
            target["reject"][0]["kind"] = object["kind"].clone();
        }
    }
    if draw.chance(10)
        && let Some(map) = target.as_object_mut()
    {
        map.remove("fieldPaths");
    }
    target
}

/// An entry of `vars`.
pub fn variable(draw: &mut Draw, objects: &[Value], name: &str) -> Value {
    let object = draw.pick(objects);
    let mut reference =
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"]});
    if draw.chance(30) && object["metadata"].get("namespace").is_some() {
        reference["namespace"] = object["metadata"]["namespace"].clone();
    }
    let mut variable = json!({"name": name, "objref": reference});
    let scalars: Vec<_> =
        places(&object).into_iter().filter(|(_, value)| !value.is_object() && !value.is_array()).collect();
    if draw.chance(60) && !scalars.is_empty() {
        let (path, _) = draw.pick(&scalars);
        let path: String = path
            .iter()
            .map(|step| match step {
                Step::Key(key) => format!(".{}", key.replace('.', "\\.")),
                Step::Item(index, _) => format!("[{index}]"),
            })
            .collect();
        variable["fieldref"] = json!({"fieldpath": path.trim_start_matches('.')});
        if draw.chance(50) {
            variable["fieldref"] = json!({"fieldPath": path.trim_start_matches('.')});
        }
    }
    variable
}
