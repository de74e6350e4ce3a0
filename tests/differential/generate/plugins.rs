//! Builtin transformers, generators and validators with a configuration of their own; transformer configurations; schemas.

use serde_json::{Value, json};

use super::draw::Draw;
use super::objects::{labels, name};
use super::patches;
use super::replacements;
use super::text::{plain, word};
use super::workloads::IMAGES;
use super::write;

fn field(draw: &mut Draw) -> Value {
    let mut field = json!({"path": draw.pick(&[
        "metadata/labels", "metadata/annotations", "spec/template/metadata/labels", "spec/selector/matchLabels", "metadata/name",
        "spec/configName", "spec/items/ref/name", "spec/items[]/ref/name", "spec/image", "spec/text", "spec/free/a", "spec/new/deep", "spec/replicas", "data/a\\/b", "spec/template/spec/containers[]/image",
    ])});
    if draw.chance(4) {
        field["path"] = json!(odd_path(draw, field["path"].as_str().unwrap_or_default()));
    }
    if draw.chance(40) {
        field["kind"] = json!(draw.pick(&["Deployment", "Thing", "Widget", "ConfigMap", "Service"]));
    }
    if draw.chance(15) {
        field["group"] = json!(draw.pick(&["apps", "example.com"]));
    }
    if draw.chance(15) {
        field["version"] = json!("v1");
    }
    if draw.chance(40) {
        field["create"] = json!(draw.chance(80));
    }
    field
}

/// A path with a part that leads into a list, reads as a number, or is nothing but blanks.
fn odd_path(draw: &mut Draw, path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    let part = draw.pick(&["*", "-", "0", "01", "-1", "[0]", "[name=a]", " ", "**", "0x1", "1.5", "true", "0[]"]);
    parts.insert(draw.number(0, parts.len()), part);
    parts.join(draw.pick(&["/", "/", "/ "]))
}

fn fields(draw: &mut Draw) -> Value {
    json!((0..draw.number(1, 3)).map(|_| field(draw)).collect::<Vec<_>>())
}

/// A transformer's configuration.
pub fn transformer(draw: &mut Draw, objects: &[Value]) -> Value {
    let mut plugin = json!({"apiVersion": "builtin", "metadata": {"name": word(draw)}});
    let mut set = |kind: &str, more: Value| {
        plugin["kind"] = json!(kind);
        for (name, value) in more.as_object().into_iter().flatten() {
            if name == "metadata" {
                plugin["metadata"]["namespace"] = value["namespace"].clone();
            } else {
                plugin[name] = value.clone();
            }
        }
    };
    match draw.number(0, 13) {
        0 => set(
            "PrefixTransformer",
            json!({"prefix": format!("{}-", word(draw)), "fieldSpecs": [{"path": "metadata/name"}]}),
        ),
        1 => set("SuffixTransformer", json!({"suffix": format!("-{}", word(draw)), "fieldSpecs": fields(draw)})),
        2 => {
            let mut more = json!({"metadata": {"namespace": "from-plugin"}, "fieldSpecs": fields(draw)});
            if draw.chance(40) {
                more["unsetOnly"] = json!(true);
            }
            if draw.chance(50) {
                more["setRoleBindingSubjects"] = json!(draw.pick(&["none", "allServiceAccounts", "defaultOnly"]));
            }
            if draw.chance(60) {
                more["fieldSpecs"] = json!([{"path": "metadata/name", "kind": "Namespace", "create": true}]);
            }
            set("NamespaceTransformer", more);
        }
        3 => set("LabelTransformer", json!({"labels": labels(draw), "fieldSpecs": fields(draw)})),
        4 => set("AnnotationsTransformer", json!({"annotations": labels(draw), "fieldSpecs": fields(draw)})),
        5 => set("ImageTagTransformer", json!({"imageTag": image(draw), "fieldSpecs": fields(draw)})),
        6 => set(
            "ReplicaCountTransformer",
            json!({"replica": {"name": name(draw), "count": draw.number(0, 9)}, "fieldSpecs": [{"path": "spec/replicas", "create": true, "kind": "Deployment"}]}),
        ),
        7 | 8 => {
            let object = draw.pick(objects);
            let operations = patches::operations(draw, &object);
            let text = write::document(&operations, draw);
            set("PatchTransformer", json!({"patch": text, "target": patches::target(draw, &object)}));
        }
        9 => {
            let object = draw.pick(objects);
            let patch = patches::strategic(draw, &object);
            let text = write::document(&patch, draw);
            set("PatchStrategicMergeTransformer", json!({"patches": text}));
        }
        10 => {
            let object = draw.pick(objects);
            let operations = patches::operations(draw, &object);
            set(
                "PatchJson6902Transformer",
                json!({"jsonOp": operations.to_string().replace('\u{1}', ""), "target": {"version": "v1", "kind": object["kind"], "name": object["metadata"]["name"]}}),
            );
        }
        11 => set("ReplacementTransformer", json!({"replacements": [replacements::replacement(draw, objects)]})),
        12 => set(
            "ValueAddTransformer",
            json!({"value": plain(draw), "targets": [{"fieldPath": draw.pick(&["metadata/namespace", "metadata/annotations/x", "spec/text"]), "filePathPosition": draw.number(0, 3)}]}),
        ),
        _ => set("HashTransformer", json!({})),
    }
    plugin
}

/// A generator's configuration.
pub fn generator(draw: &mut Draw) -> Value {
    match draw.number(0, 3) {
        0 => {
            json!({"apiVersion": "builtin", "kind": "IAMPolicyGenerator", "metadata": {"name": word(draw)}, "cloud": "gke", "kubernetesService": {"name": "k", "namespace": draw.pick(&["", "prod"])}, "serviceAccount": {"name": "s", "projectId": "p"}})
        }
        1 => {
            json!({"apiVersion": "builtin", "kind": "SecretGenerator", "metadata": {"name": format!("{}-gen", name(draw)), "namespace": "prod"}, "literals": ["a=b"], "type": "Opaque", "options": {"disableNameSuffixHash": draw.chance(50)}})
        }
        _ => {
            json!({"apiVersion": "builtin", "kind": "ConfigMapGenerator", "metadata": {"name": format!("{}-gen", name(draw))}, "literals": [format!("a={}", plain(draw)), "c=d"]})
        }
    }
}

/// A validator: a transformer that changes nothing, or (rarely) something.
pub fn validator(draw: &mut Draw) -> Value {
    if draw.chance(85) {
        json!({"apiVersion": "builtin", "kind": "LabelTransformer", "metadata": {"name": "v"}, "labels": {"validated-by": "me"}, "fieldSpecs": [{"path": "metadata/labels", "create": draw.chance(90)}]})
    } else {
        json!({"apiVersion": "builtin", "kind": "PrefixTransformer", "metadata": {"name": "v"}, "prefix": draw.pick(&["", "x-"]), "fieldSpecs": [{"path": "metadata/name"}]})
    }
}

/// An entry of `images`.
pub fn image(draw: &mut Draw) -> Value {
    let from = draw.pick(&IMAGES);
    let name = from.split('@').next().unwrap_or_default();
    let name = match name.rsplit_once(':') {
        Some((before, after)) if !after.contains('/') => before,
        _ => name,
    };
    let mut image = json!({"name": draw.pick(&[name, "nginx", "app", "library/nginx", "nginx.*", "*"])});
    if draw.chance(80) {
        image["name"] = json!(name);
    }
    if draw.chance(55) {
        image["newName"] = json!(draw.pick(&["registry.example.com/new", "other", "localhost:5000/x"]));
    }
    if draw.chance(55) {
        image["newTag"] = json!(draw.pick(&["v2", "2.0", "latest", "1"]));
    }
    if draw.chance(20) {
        image["digest"] = json!("sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3");
    }
    if draw.chance(15) {
        image["tagSuffix"] = json!("-debug");
    }
    image
}

/// A file of `configurations`.
pub fn configuration(draw: &mut Draw) -> Value {
    let mut configuration = json!({});
    for table in draw.some(
        &[
            "commonLabels",
            "templateLabels",
            "commonAnnotations",
            "images",
            "namePrefix",
            "nameSuffix",
            "namespace",
            "replicas",
            "varReference",
            "labels",
        ],
        30,
    ) {
        configuration[table] = fields(draw);
    }
    if draw.chance(60) {
        configuration["nameReference"] = json!([{
            "kind": draw.pick(&["ConfigMap", "Secret", "Service", "Thing", "Deployment"]),
            "fieldSpecs": [{"path": draw.pick(&["spec/configName", "spec/items/ref/name", "spec/items/ref", "spec/text", "metadata/annotations/ref"]), "kind": draw.pick(&["Thing", "Widget", "Deployment"])}],
        }]);
        if draw.chance(40) {
            configuration["nameReference"][0]["version"] = json!("v1");
        }
    }
    configuration
}

/// A file of `crds`: definitions with annotations that kustomize knows.
pub fn definitions(draw: &mut Draw) -> Value {
    let mut properties = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": {"$ref": "ThingSpec"}});
    if draw.chance(10) {
        properties["status"] = json!({"type": "object"});
    }
    json!({
        "example.com/v1.Thing": {"Schema": {"properties": properties}, "Dependencies": []},
        "ThingSpec": {"Schema": {"properties": {
            "configName": {"x-kubernetes-object-ref-api-version": "v1", "x-kubernetes-object-ref-kind": draw.pick(&["ConfigMap", "Secret"]), "x-kubernetes-object-ref-name-key": "name", "type": "string"},
            "template": {"x-kubernetes-label-selector": "", "type": "object"},
            "free": {"x-kubernetes-annotation": "", "type": "object"},
            "text": {"x-kubernetes-identity": "", "type": "string"},
        }}},
    })
}

/// A schema with merge keys for a kind of ours.
pub fn schema(draw: &mut Draw) -> Value {
    json!({"definitions": {
        "v1.Thing": {
            "properties": {
                "spec": {"properties": {
                    "items": {"items": {"type": "object", "properties": {"name": {"type": "string"}}}, "type": "array", "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": draw.pick(&["merge", "replace"])},
                    "template": {"$ref": "#/definitions/io.k8s.api.core.v1.PodTemplateSpec"},
                }},
            },
            "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Thing", "version": "v1"}],
        },
        "io.k8s.api.core.v1.PodTemplateSpec": {"properties": {"spec": {"properties": {"containers": {"items": {"type": "object"}, "type": "array", "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}}}}},
    }})
}
