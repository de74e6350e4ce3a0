//! Operations at random, as a client sends them.

use std::fmt;

use fake_api_server::ServedKind;
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// What is asked of both servers. What only each of them knows (revisions, identities, where a list goes on) is filled in for each.
#[derive(Debug, Clone)]
pub struct Operation {
    pub method: &'static str,
    pub path: String,
    pub query: String,
    pub content_type: &'static str,
    pub body: Value,
    pub revision: Known,
    pub identity: Known,
    pub follows: Follows,
}

/// What is said of a revision or an identity of the object that the path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// The one that the server named last.
    Latest,
    /// The one before.
    Before,
}

/// What an operation does with what it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// It compares it.
    Answer,
    /// It goes on with the list of which a page was answered last.
    Pages,
    /// It begins a watch: after the list that was answered last, or with the list itself.
    Watch,
}

/// The path of the objects of a kind; the namespace is one where the kind has namespaces.
pub fn collection(kind: &ServedKind, namespace: &str) -> String {
    let prefix = if kind.group.is_empty() { "/api" } else { "/apis" };
    let place = if kind.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    format!("{prefix}/{}{place}/{}", kind.api_version(), kind.plural)
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, query, body, revision, identity, .. } = self;
        write!(formatter, "{method} {path}?{query} {body} (revision: {revision:?}, identity: {identity:?})")
    }
}

const MANAGERS: &[&str] = &["helm", "flux", "stepgate"];

impl Operation {
    /// The path of the object that is written, or of the list that is asked for.
    pub fn object(&self) -> String {
        let name = self.body["metadata"]["name"].as_str().unwrap_or_default();
        match self.method {
            "POST" => format!("{}/{name}", self.path),
            _ => self.path.trim_end_matches("/status").to_owned(),
        }
    }

    /// The next one.
    pub fn random(random: &mut Rng, kinds: &[ServedKind]) -> Self {
        let kind = &kinds[random.usize(..kinds.len())];
        // The last of them is not there.
        let namespace = ["one", "one", "two", "two", "one", "one", "two", "two", "three"][random.usize(..9)];
        let collection = collection(kind, namespace);
        // A real server keeps objects of its own kinds in other namespaces.
        let is_ours = kind.group == "example.com";
        let everywhere =
            if is_ours { collection.replace(&format!("/namespaces/{namespace}"), "") } else { collection.clone() };
        let name = format!("object-{}", random.u8(..5));
        let path = format!("{collection}/{name}");
        let blank = Self {
            method: "GET",
            path: path.clone(),
            query: String::new(),
            content_type: "application/json",
            body: Value::Null,
            revision: Known::Nothing,
            identity: Known::Nothing,
            follows: Follows::Answer,
        };
        match random.u8(..100) {
            0..8 => blank,
            8..14 => Self { path: if random.bool() { collection } else { everywhere }, query: list(random), ..blank },
            14..17 => Self { path: everywhere, query: list(random), follows: Follows::Pages, ..blank },
            17 => Self {
                // Where nothing ever happens a watch has no end.
                path: everywhere.replace("/three/", "/one/"),
                query: watch(random),
                follows: Follows::Watch,
                ..blank
            },
            18..33 => {
                let is_nameless = random.u8(..20) == 0;
                let body = object(random, kind, &name, is_nameless);
                Self { method: "POST", path: collection, query: write(random), body, revision: rarely(random), ..blank }
            }
            33..45 => {
                let body = object(random, kind, &name, false);
                Self { method: "PUT", query: write(random), body, revision: known(random), ..blank }
            }
            45..63 => {
                let body = patch(random, kind);
                let status = random.u8(..4) == 0;
                let path = if status { format!("{path}/status") } else { path };
                Self {
                    method: "PATCH",
                    path,
                    query: write(random),
                    content_type: "application/merge-patch+json",
                    body,
                    revision: known(random),
                    ..blank
                }
            }
            63..85 => {
                let force = if random.u8(..3) == 0 { "&force=true" } else { "" };
                let query = format!("{}{force}", write(random));
                let body = object(random, kind, &name, false);
                Self { method: "PATCH", query, content_type: "application/apply-patch+yaml", body, ..blank }
            }
            _ => {
                let dry_run = if random.u8(..6) == 0 { "dryRun=All" } else { "" };
                let (revision, identity) = (known(random), known(random));
                let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
                if random.u8(..6) == 0 {
                    body["dryRun"] = json!(["All"]);
                }
                Self { method: "DELETE", query: dry_run.to_owned(), body, revision, identity, ..blank }
            }
        }
    }
}

fn known(random: &mut Rng) -> Known {
    [Known::Nothing, Known::Nothing, Known::Latest, Known::Latest, Known::Before][random.usize(..5)]
}

fn rarely(random: &mut Rng) -> Known {
    if random.u8(..20) == 0 { Known::Latest } else { Known::Nothing }
}

fn write(random: &mut Rng) -> String {
    let manager = MANAGERS[random.usize(..MANAGERS.len())];
    let dry_run = if random.u8(..8) == 0 { "&dryRun=All" } else { "" };
    format!("fieldManager={manager}{dry_run}")
}

fn selector(random: &mut Rng) -> &'static str {
    let all = [
        "",
        "",
        "&labelSelector=a%3D1",
        "&labelSelector=a",
        "&labelSelector=%21a",
        "&labelSelector=a%21%3D1%2Cb%3D2",
        "&fieldSelector=metadata.name%3Dobject-1",
    ];
    all[random.usize(..all.len())]
}

fn list(random: &mut Rng) -> String {
    let limit = ["", "limit=1", "limit=2", "limit=3", "limit=500"][random.usize(..5)];
    format!("{limit}{}", selector(random))
}

fn watch(random: &mut Rng) -> String {
    let list = "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    format!("watch=true{}{}", selector(random), if random.bool() { list } else { "" })
}

/// A whole object.
fn object(random: &mut Rng, kind: &ServedKind, name: &str, is_nameless: bool) -> Value {
    let mut metadata = json!({"name": name});
    if is_nameless {
        metadata = json!({});
    }
    for (section, chance) in [("labels", 4), ("annotations", 2)] {
        let value = texts(random);
        if random.u8(..8) < chance && value != json!({}) {
            metadata[section] = value;
        }
    }
    if random.u8(..5) == 0 {
        metadata["finalizers"] = finalizers(random);
    }
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
    match kind.kind.as_str() {
        "ConfigMap" => {
            let value = texts(random);
            if value != json!({}) {
                object["data"] = value;
            }
        }
        "Lease" => object["spec"] = lease(random),
        _ => {
            for (section, chance) in [("spec", 7), ("status", 2)] {
                let value = value(random, 2);
                if random.u8(..8) < chance && value != json!({}) {
                    object[section] = value;
                }
            }
        }
    }
    object
}

/// A merge patch: some fields, of which some are taken away.
fn patch(random: &mut Rng, kind: &ServedKind) -> Value {
    let mut object = object(random, kind, "", true);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    let sections = ["/metadata/labels", "/metadata/annotations", "/data", "/spec"];
    for section in sections {
        let Some(fields) = object.pointer_mut(section).and_then(Value::as_object_mut) else { continue };
        // Of a Lease there is nothing that may be missing.
        if kind.kind != "Lease" || section != "/spec" {
            let name = ["a", "b", "c"][random.usize(..3)];
            fields.insert(name.to_owned(), Value::Null);
        }
    }
    match random.u8(..12) {
        0 => json!({}),
        1 => json!({"metadata": {"finalizers": null}}),
        2 => json!({"metadata": {"labels": null}}),
        _ => object,
    }
}

fn finalizers(random: &mut Rng) -> Value {
    let all = [json!(["example.com/one"]), json!(["example.com/two"]), json!(["example.com/one", "example.com/two"])];
    all[random.usize(..3)].clone()
}

fn texts(random: &mut Rng) -> Value {
    let mut fields = Map::new();
    for name in ["a", "b", "c"] {
        if random.bool() {
            fields.insert(name.to_owned(), json!(["1", "2"][random.usize(..2)]));
        }
    }
    Value::Object(fields)
}

fn lease(random: &mut Rng) -> Value {
    let holder = if random.bool() { "us" } else { "them" };
    json!({"holderIdentity": holder, "leaseDurationSeconds": 15 + random.u8(..2),
        "renewTime": format!("2026-03-01T12:00:0{}.000000Z", random.u8(..3))})
}

/// Anything that may be below `spec`.
fn value(random: &mut Rng, depth: u8) -> Value {
    let mut fields = Map::new();
    for name in ["a", "b", "c"] {
        let value = match random.u8(..9) {
            0..3 => continue,
            3 | 4 => json!(random.u8(..3)),
            5 => json!(["x", "y"][random.usize(..2)]),
            6 => json!([random.u8(..2), {"k": random.u8(..2)}]),
            7 => json!(random.bool()),
            _ if depth > 0 => value(random, depth - 1),
            _ => continue,
        };
        // What becomes of a map with nothing in it that is applied is no rule of the server, but of what has become of its merging.
        if value.as_object().is_some_and(Map::is_empty) {
            continue;
        }
        fields.insert(name.to_owned(), value);
    }
    Value::Object(fields)
}
