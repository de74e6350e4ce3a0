//! Random sources with random Flux objects, compared with the Go library.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::case::{self, Case};
use crate::random::{Chance, amount};

const VARIABLE_VALUES: [&str; 40] = [
    "3",
    "true",
    "yes",
    "null",
    "",
    "0x1f",
    "1e3",
    "012",
    "1_000",
    "a: b",
    "- x",
    "[1, 2]",
    "{k: v}",
    "\"q\"",
    "'",
    "#c",
    "2024-01-02",
    "multi\nline",
    "x y",
    "|",
    "~",
    "1.50",
    "12345678901234567890",
    "9007199254740993",
    ".inf",
    "é",
    "on",
    "12:30",
    "a",
    "web",
    "web-2",
    "1.25e10",
    "-0",
    "+1",
    "0o17",
    "off",
    "N",
    "=",
    "`x",
    "@x",
];
const TEXTS: [&str; 40] = [
    "${a}",
    "'${a}'",
    "\"${a}\"",
    "x-${a}",
    "${missing}",
    "${missing:=d}",
    "${missing:=3}",
    "$${a}",
    "$$",
    "$a",
    "plain",
    "3",
    "\"3\"",
    "1.0",
    "12345678",
    "9007199254740993",
    "1e21",
    "0.1",
    "true",
    "\"yes\"",
    "null",
    "~",
    "2024-01-02",
    "${a}${b}",
    "[${a}, b]",
    "{k: ${a}}",
    "[]",
    "{}",
    "\"a\\tb\"",
    "\"\\u00e9\"",
    "🚀",
    "'it''s'",
    "\"${b^^}\"",
    "${a:0:1}",
    "${b/a/b}",
    "\"long ${a} text that is folded because it has more than eighty columns and ${b:=some default with words} too\"",
    "\"${missing:=a default of many words that is so long that the line has to be folded somewhere in it}\"",
    "\"trailing \"",
    "\" leading\"",
    "${b}:${a}",
];
const BLOCKS: [&str; 6] = [
    "|\n    one ${a}\n    two\n",
    "|-\n    ${b}\n      deeper\n",
    "|+\n    kept\n\n",
    ">\n    folded ${a}\n    on\n\n    next\n",
    "|\n    #!/bin/sh\n    echo $${HOME} $1 ${missing:=none}\n",
    ">-\n    a\n    b\n",
];

fn scalar(chance: &mut Chance) -> String {
    if chance.one_in(6) { chance.pick(&BLOCKS).to_owned() } else { format!("{}\n", chance.pick(&TEXTS)) }
}

fn object(chance: &mut Chance, number: usize) -> String {
    let name = match chance.below(12) {
        0 => "${b:=web}".to_owned(),
        1 => "same".to_owned(),
        _ => format!("o{number}"),
    };
    let mut text = match chance.below(6) {
        0 => format!("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n"),
        1 => format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n"),
        2 => format!("apiVersion: example.dev/v1\nkind: Thing\nmetadata:\n  name: {name}\n"),
        _ => format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"),
    };
    let is_deployment = text.contains("Deployment");
    if chance.one_in(4) {
        text += "  namespace: own\n";
    }
    if chance.one_in(5) {
        let value = chance.pick(&["disabled", "disabled", "enabled", "\"${a}\""]);
        let field = chance.pick(&["labels", "annotations"]);
        text += &format!("  {field}:\n    kustomize.toolkit.fluxcd.io/substitute: {value}\n    other: x\n");
    }
    if is_deployment {
        text += "spec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n      - name: c\n        image: nginx:1.0\n      - name: d\n        image: registry.example/app@sha256:0000000000000000000000000000000000000000000000000000000000000000\n";
    }
    text += "data:\n";
    for field in 0..=chance.below(4) {
        let key = if chance.one_in(10) { "${b:=key}".to_owned() } else { format!("k{field}") };
        text += &format!("  {key}: {}", scalar(chance));
    }
    text
}

fn manifest(chance: &mut Chance, number: &mut usize) -> String {
    match chance.below(30) {
        0 => return "# nothing\n".into(),
        1 => return String::new(),
        2 => return "a: 1\n".into(),
        3 => return "kind: [\n".into(),
        _ => {}
    }
    let mut documents = Vec::new();
    for _ in 0..=chance.below(2) {
        *number += 1;
        documents.push(object(chance, *number));
    }
    if chance.one_in(10) {
        let items: Vec<String> =
            documents.iter().map(|text| format!("- {}", text.trim_end().replace('\n', "\n  "))).collect();
        return format!("apiVersion: v1\nkind: List\nitems:\n{}\n", items.join("\n"));
    }
    documents.join("---\n")
}

/// Fields of a kustomization as people write them, and as Flux bends them.
const FIELDS: [&str; 34] = [
    "namespace: team\n",
    "namePrefix: 1\n",
    "namePrefix: p-\n",
    "NameSuffix: -s\n",
    "nameSuffix: true\n",
    "commonLabels: {app: 1.50, m: yes}\n",
    "commonLabels: {app: x}\n",
    "labels: [{pairs: {l: 2}, includeSelectors: no}]\n",
    "labels: [{pairs: {l: v}, includeTemplates: yes}]\n",
    "commonAnnotations: {note: 12345678.5}\n",
    "images: [{name: nginx, newTag: 1.30}]\n",
    "images: [{name: nginx, newTag: 2, newName: other/nginx}, {name: registry.example/app, digest: 'sha256:1111111111111111111111111111111111111111111111111111111111111111'}]\n",
    "imageTags: [{name: nginx, newTag: old}]\n",
    "replicas: [{name: o1, count: 3.0}]\n",
    "unknown: field\n",
    "metadata: {}\n",
    "metadata: {name: x, other: y}\n",
    "patches: [{patch: '[{op: add, path: /data/p, value: 1}]', target: {kind: ConfigMap, extra: 1}}]\n",
    "patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: none}, data: {p: x}}', target: {}}]\n",
    "patches: []\n",
    "configMapGenerator: [{name: made, literals: [a=1, 'b=${a}']}]\n",
    "secretGenerator: [{name: hidden, type: Opaque, literals: [a=1]}]\ngeneratorOptions: {disableNameSuffixHash: on, labels: {m: 1}}\n",
    "generatorOptions: {}\n",
    "configMapGenerator: [{name: typed, literals: [a=1], options: {immutable: yes}}]\n",
    "buildMetadata: [managedByLabel]\n",
    "buildMetadata: [originAnnotations, transformerAnnotations]\n",
    "sortOptions: {order: legacy}\n",
    "sortOptions: {order: legacy, legacySortOptions: {orderFirst: [Service]}}\n",
    "openapi: {}\n",
    "components: [../components/one]\n",
    "resources: x\n",
    "crds: []\n",
    "replacements: [{sourceValue: v, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k0], options: {create: true}}]}]\n",
    "namespace: null\n",
];

fn kustomization(chance: &mut Chance, resources: &[String]) -> String {
    let mut text = String::new();
    if chance.one_in(2) {
        text += "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    }
    if !resources.is_empty() && !chance.one_in(10) {
        text += "resources:\n";
        resources.iter().for_each(|path| text += &format!("- {path}\n"));
    }
    for _ in 0..chance.below(4) {
        text += chance.pick(&FIELDS);
    }
    text
}

fn source(chance: &mut Chance) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut files, mut links, mut number) = (BTreeMap::new(), BTreeMap::new(), 0);
    let directories = ["", "", "b/", "b/", "b/c/", "b.yaml/", "Z/", "a/deep/er/"];
    let names = [
        "a.yaml",
        "b.yml",
        "c.YAML",
        "notes.txt",
        ".hidden.yaml",
        "z-1.yaml",
        "Z.yaml",
        "_x.yaml",
        "10.yaml",
        "9.yaml",
        ".yaml",
    ];
    let mut resources = Vec::new();
    for _ in 0..=chance.below(4) {
        let path = format!("{}{}", chance.pick(&directories), chance.pick(&names));
        let content = manifest(chance, &mut number);
        if !resources.contains(&path) {
            resources.push(path.clone());
        }
        files.insert(format!("apps/{path}"), content);
    }
    if chance.one_in(3) {
        let name = chance.pick(&["kustomization.yaml", "kustomization.yml", "Kustomization"]);
        let below: Vec<String> =
            resources.iter().filter_map(|path| path.strip_prefix("b/")).map(str::to_owned).collect();
        files.insert(format!("apps/b/{name}"), kustomization(chance, &below));
        resources.retain(|path| !path.starts_with("b/"));
        resources.push("b".to_owned());
    }
    if chance.one_in(2) {
        let name = chance.pick(&["kustomization.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"]);
        let text = if chance.one_in(20) { String::new() } else { kustomization(chance, &resources) };
        files.insert(format!("apps/{name}"), text);
    }
    if chance.one_in(15) && !files.contains_key("apps/kustomization.yml") {
        files.insert("apps/kustomization.yml/inside.yaml".to_owned(), manifest(chance, &mut number));
    }
    let component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: c-\n";
    files.insert("components/one/kustomization.yaml".to_owned(), component.to_owned());
    files.insert("other/x.yaml".to_owned(), manifest(chance, &mut number));
    if chance.one_in(6) {
        let name = chance.pick(&["link.yaml", "b/link.yaml", "link.txt", "linked"]);
        let up = if name.starts_with("b/") { "../" } else { "" };
        let target = chance.pick(&["../other/x.yaml", "../other", "nothing", "/etc/hostname", "../../..", "/nothing"]);
        let target = if target.starts_with("..") { format!("{up}{target}") } else { target.to_owned() };
        links.insert(format!("apps/{name}"), target);
    }
    (files, links)
}

fn flux_object(chance: &mut Chance) -> Value {
    let mut spec = Map::new();
    spec.insert(
        "path".into(),
        json!(chance.pick(&["./apps", "./apps", "apps", "/apps/", "../apps", "apps/../apps", "./apps"])),
    );
    let mut maybe = |field: &str, one_in: usize, values: &[Value]| {
        if chance.one_in(one_in) {
            spec.insert(field.to_owned(), values[chance.below(values.len())].clone());
        }
    };
    maybe("targetNamespace", 4, &[json!("target"), json!("${a}")]);
    maybe("namePrefix", 6, &[json!("pre-")]);
    maybe("nameSuffix", 6, &[json!("-suf")]);
    maybe(
        "components",
        8,
        &[
            json!(["../components/one"]),
            json!(["../components/none"]),
            json!(["https://x/y"]),
            json!(["../components/one", "../components/none"]),
        ],
    );
    maybe("ignoreMissingComponents", 3, &[json!(true)]);
    maybe(
        "buildMetadata",
        8,
        &[json!(["originAnnotations"]), json!(["transformerAnnotations", "originAnnotations"]), json!([])],
    );
    maybe(
        "commonMetadata",
        6,
        &[json!({"labels": {"team": "t", "n": "1"}}), json!({"annotations": {"who": "me"}, "labels": {}}), json!({})],
    );
    maybe(
        "images",
        4,
        &[
            json!([{"name": "nginx", "newTag": "9"}]),
            json!([{"name": "nginx", "newName": "mirror/nginx"}]),
            json!([{"name": "nginx", "digest": "sha256:2222222222222222222222222222222222222222222222222222222222222222"}]),
            json!([{"name": "registry.example/app", "newTag": "v2"}, {"name": "nginx", "newTag": "8", "newName": "n"}]),
        ],
    );
    maybe(
        "patches",
        5,
        &[
            json!([{"patch": "- op: add\n  path: /metadata/labels\n  value: {p: '${a}'}\n", "target": {"kind": "ConfigMap", "name": "o.*"}}]),
            json!([{"patch": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o1\ndata:\n  patched: yes\n"}]),
            json!([{"patch": "kind: x", "target": {}}]),
        ],
    );
    let mut post_build = Map::new();
    for name in ["a", "b"] {
        if !chance.one_in(4) {
            post_build.insert(name.to_owned(), json!(chance.pick(&VARIABLE_VALUES)));
        }
    }
    if chance.one_in(30) {
        post_build.insert(chance.pick(&["1x", "a-b", "é", ""]).to_owned(), json!("v"));
    }
    if !chance.one_in(5) {
        let mut build = Map::new();
        if !chance.one_in(5) {
            build.insert("substitute".into(), Value::Object(post_build));
        }
        if chance.one_in(3) {
            build.insert("substituteStrategy".into(), json!(chance.pick(&["Always", "WithVariables"])));
        }
        if chance.one_in(3) {
            build.insert(
                "substituteFrom".into(),
                json!([
                    {"kind": "ConfigMap", "name": "vars"},
                    {"kind": "Secret", "name": chance.pick(&["vars", "none"]), "optional": chance.one_in(2)},
                ]),
            );
        }
        spec.insert("postBuild".into(), Value::Object(build));
    }
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "flux-system"}, "spec": spec,
    })
}

fn random_case(seed: u64) -> Case {
    let chance = &mut Chance::new(seed);
    let (files, links) = source(chance);
    let mut sources = Map::new();
    for name in ["ConfigMap/vars", "Secret/vars"] {
        sources.insert(name.to_owned(), json!({"b": chance.pick(&VARIABLE_VALUES), "c": "x\ny"}));
    }
    json!({
        "files": files, "links": links, "kustomization": flux_object(chance),
        "sources": sources, "strict": chance.one_in(4), "seed": seed,
    })
}

#[test]
fn random_sources_build_as_in_flux() {
    let Some(program) = case::program() else { return };
    let (count, seed) = amount();
    let cases: Vec<Case> = (0..count).map(|number| random_case(seed + number)).collect();
    case::compare(&program, &cases, "sources");
}
