//! `ConfigMap`s and Secrets from files, lines and texts.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::objects::name;
use super::text::{key, prose, word};

/// A file that a generator reads.
pub type File = (String, Vec<u8>);

/// What no text holds, or what only looks like one.
fn bytes(draw: &mut Draw) -> Vec<u8> {
    let count = draw.number(0, 120);
    match draw.number(0, 5) {
        0 => (0..count).map(|_| draw.number(0, 255) as u8).collect(),
        1 => [prose(draw).as_bytes(), &[0xFF, 0xFE], prose(draw).as_bytes()].concat(),
        2 => [&b"\xEF\xBB\xBF"[..], prose(draw).as_bytes()].concat(),
        3 => [prose(draw).as_bytes(), &[0], prose(draw).as_bytes()].concat(),
        4 => prose(draw).replace('\n', "\r\n").into_bytes(),
        // A character that is cut off.
        _ => [prose(draw).as_bytes(), &"\u{6f22}".as_bytes()[..2]].concat(),
    }
}

fn env_file(draw: &mut Draw) -> String {
    let mut text = String::new();
    for _ in 0..draw.number(0, 5) {
        let line = match draw.number(0, 9) {
            0 => "# a comment".to_owned(),
            1 => String::new(),
            2 => format!("  {}={}", word(draw).to_uppercase(), word(draw)),
            3 => format!("{}{}=a=b", word(draw), draw.number(0, 99)),
            4 => format!("{}{}=\"{}\"", word(draw), draw.number(0, 99), word(draw)),
            5 => format!("{}{}=", word(draw), draw.number(0, 99)),
            _ => format!("{}{}={}", word(draw), draw.number(0, 99), prose(draw).replace('\n', " ")),
        };
        text.push_str(&line);
        text.push_str(if draw.chance(5) { "\r\n" } else { "\n" });
    }
    text
}

/// Options of one generator or of all.
pub fn options(draw: &mut Draw) -> Value {
    let mut options = Map::new();
    if draw.chance(40) {
        options.insert("labels".into(), json!({word(draw): word(draw)}));
    }
    if draw.chance(40) {
        options.insert("annotations".into(), json!({word(draw): prose(draw)}));
    }
    if draw.chance(40) {
        options.insert("disableNameSuffixHash".into(), json!(draw.chance(80)));
    }
    if draw.chance(20) {
        options.insert("immutable".into(), json!(draw.chance(80)));
    }
    Value::Object(options)
}

/// One generator; `existing` are names it can replace or merge into.
pub fn generator(draw: &mut Draw, secret: bool, existing: &[Value], place: &str) -> (Value, Vec<File>) {
    let mut files = Vec::new();
    let kind = if secret { "Secret" } else { "ConfigMap" };
    let mut generator = json!({"name": format!("{}-{}", name(draw), draw.pick(&["conf", "data", "cfg"]))});
    let same: Vec<&Value> = existing.iter().filter(|object| object["kind"] == kind).collect();
    if !same.is_empty() && draw.chance(45) {
        let object = draw.pick(&same);
        generator["name"] = object["metadata"]["name"].clone();
        if let Some(namespace) = object["metadata"].get("namespace") {
            generator["namespace"] = namespace.clone();
        }
        generator["behavior"] = json!(draw.pick(&["merge", "replace", "merge", "create"]));
    } else if draw.chance(10) {
        generator["namespace"] = json!(draw.pick(&["default", "prod"]));
    }
    if draw.chance(60) {
        let mut literals = Vec::new();
        for index in 0..draw.number(1, 3) {
            let value = prose(draw);
            literals.push(match draw.number(0, 5) {
                0 => format!("l{index}=\"{}\"", word(draw)),
                1 => format!("l{index}='{}'", word(draw)),
                2 => format!("{}=\"{}", key(draw).replace('/', "-"), word(draw)),
                _ => format!("l{index}={value}"),
            });
        }
        generator["literals"] = json!(literals);
    }
    if draw.chance(40) {
        let file = format!("{}{}.txt", word(draw), draw.number(0, 9));
        let path = if draw.chance(30) { format!("files/{file}") } else { file };
        let content = match draw.number(0, 9) {
            0 => vec![b'x'; draw.number(40, 300)],
            1 | 2 => bytes(draw),
            _ => prose(draw).into_bytes(),
        };
        files.push((format!("{place}{path}"), content));
        generator["files"] = json!([if draw.chance(40) { format!("{}={path}", word(draw)) } else { path }]);
    }
    if draw.chance(30) {
        let path = format!("{}{}.env", word(draw), draw.number(0, 9));
        generator[draw.pick(&["envs", "envs", "env"])] = json!(path);
        if generator.get("envs").is_some() {
            generator["envs"] = json!([path]);
        }
        let mut content = env_file(draw).into_bytes();
        if draw.chance(4) {
            content.extend(bytes(draw));
        }
        files.push((format!("{place}{path}"), content));
    }
    if secret && draw.chance(30) {
        generator["type"] = json!(draw.pick(&["Opaque", "kubernetes.io/tls", "bootstrap.kubernetes.io/token"]));
    }
    if draw.chance(40) {
        generator["options"] = options(draw);
    }
    (generator, files)
}

/// About what a generator makes, for what comes after it.
pub fn made(generator: &Value, secret: bool) -> Value {
    let mut metadata = Map::new();
    for (field, place) in [
        ("name", generator),
        ("namespace", generator),
        ("labels", &generator["options"]),
        ("annotations", &generator["options"]),
    ] {
        if !place[field].is_null() {
            metadata.insert(field.to_owned(), place[field].clone());
        }
    }
    let texts = |field: &str| generator[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut data = Map::new();
    for pair in texts("literals") {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        data.insert(key.to_owned(), json!(value));
    }
    for file in texts("files") {
        let key = file.split_once('=').map_or_else(|| file.rsplit('/').next().unwrap_or(file), |(key, _)| key);
        data.insert(key.to_owned(), json!("file"));
    }
    let mut object = json!({"apiVersion": "v1", "kind": if secret { "Secret" } else { "ConfigMap" }, "metadata": metadata, "data": data});
    if secret {
        object["type"] = json!("Opaque");
    }
    object
}
