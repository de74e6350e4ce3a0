//! Writes `src/schema/tables.txt` from the tables of a kustomize release.
//!
//! `cargo run -p kustomize-rs --example make_tables -- DIRECTORY > overlays/kustomize-rs/src/schema/tables.txt`, where
//! DIRECTORY holds `tables-v5.8.1.json` and `patch-strategies.json`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

use serde_json::Value;

fn main() {
    let directory = std::env::args().nth(1).expect("the directory of the tables");
    print!("{}", tables(&directory));
}

fn read(directory: &str, name: &str) -> Value {
    let text = std::fs::read_to_string(format!("{directory}/{name}")).expect(name);
    serde_json::from_str(&text).expect(name)
}

pub fn tables(directory: &str) -> String {
    let mut out = String::from("# Made by examples/make_tables.rs; the format is in schema/mod.rs.\n");
    let tables = read(directory, "tables-v5.8.1.json");
    for (table, specs) in tables["fieldSpecs"].as_object().unwrap() {
        for spec in in_order(table, specs.as_array().unwrap()) {
            if table == "nameReference" {
                out.push_str(&format!("reference {}\n", gvk(spec)));
                for referrer in spec["fieldSpecs"].as_array().unwrap() {
                    out.push_str(&format!("field {}\n", field(referrer)));
                }
            } else {
                out.push_str(&format!("table {table} {}\n", field(spec)));
            }
        }
    }
    for row in tables["namespaceScoped"].as_array().unwrap() {
        let scope = if row[2].as_bool().unwrap() { "namespaced" } else { "cluster" };
        out.push_str(&format!("{scope} {} {}\n", row[0].as_str().unwrap(), row[1].as_str().unwrap()));
    }
    for (name, definition) in read(directory, "patch-strategies.json").as_object().unwrap() {
        out.push_str(&format!("definition {}\n", short(name)));
        for kind in definition["gvk"].as_array().into_iter().flatten() {
            let part = |at: usize| or_dash(kind[at].as_str().unwrap_or_default());
            out.push_str(&format!("kind {} {} {}\n", part(0), part(1), part(2)));
        }
        for (property, value) in definition["properties"].as_object().unwrap() {
            out.push_str(&format!("property {property}"));
            if value["list"] == Value::Bool(true) {
                out.push_str(" list");
            }
            if let Some(reference) = value["ref"].as_str() {
                out.push_str(&format!(" ref={}", short(reference)));
            }
            if let Some(strategy) = value["strategy"].as_str() {
                out.push_str(&format!(" strategy={strategy}"));
            }
            if let Some(keys) = value["keys"].as_array() {
                let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
                out.push_str(&format!(" keys={}", keys.join(",")));
            }
            out.push('\n');
        }
    }
    out
}

/// Fields of one kind in the order of kustomize, where that is not the order of its tables: it sorts each table by kind
/// with an algorithm that leaves equal ones in no order to speak of, but always in the same. What is named here comes
/// behind all others of its kind.
const LATER: &[(&str, &[&str])] = &[
    ("Deployment", &["spec/template/metadata/labels", "spec/selector/matchLabels"]),
    ("DaemonSet", &["spec/template/metadata/labels", "spec/selector/matchLabels"]),
    ("ReplicaSet", &["spec/template/metadata/labels", "spec/selector/matchLabels"]),
    ("ReplicationController", &["spec/template/metadata/labels", "spec/selector"]),
    (
        "StatefulSet",
        &[
            "spec/volumeClaimTemplates[]/metadata/labels",
            "spec/template/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
            "spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
            "spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
            "spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
            "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels",
            "spec/template/metadata/labels",
        ],
    ),
    ("CronJob", &["spec/jobTemplate/spec/selector/matchLabels"]),
    ("NetworkPolicy", &["spec/ingress/from/podSelector/matchLabels", "spec/podSelector/matchLabels"]),
];

/// The fields of a table as kustomize works them off, kind by kind.
fn in_order<'t>(table: &str, specs: &'t [Value]) -> Vec<&'t Value> {
    let place = |spec: &&Value| {
        let named = |name: &str, value: &Value| value.as_str() == Some(name);
        let later = LATER.iter().find(|(kind, _)| table == "commonLabels" && named(kind, &spec["kind"]));
        later.and_then(|(_, paths)| paths.iter().position(|path| named(path, &spec["path"])))
    };
    let mut specs: Vec<&Value> = specs.iter().collect();
    specs.sort_by_key(place);
    specs
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn gvk(spec: &Value) -> String {
    let part = |key: &str| or_dash(spec[key].as_str().unwrap_or_default()).to_owned();
    format!("{} {} {}", part("group"), part("version"), part("kind"))
}

fn field(spec: &Value) -> String {
    let create = if spec["create"] == Value::Bool(true) { "create" } else { "-" };
    format!("{} {create} {}", gvk(spec), spec["path"].as_str().unwrap())
}

fn short(name: &str) -> &str {
    name.strip_prefix("io.k8s.").unwrap_or(name)
}
