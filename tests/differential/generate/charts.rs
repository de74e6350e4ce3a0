//! Charts: a folder with templates, and the entry of `helmCharts` that renders it.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::objects::{NAMESPACES, free, labels, name, object};
use super::text::{plain, word};
use super::write;

/// What a kustomization needs for one chart.
pub struct Chart {
    /// Fields of the kustomization.
    pub fields: Map<String, Value>,
    /// Files beside it.
    pub files: Vec<(String, String)>,
    /// Some of the objects that it renders to.
    pub objects: Vec<Value>,
}

/// A template that shows what helm was told.
const CONFIG: &str = r#"
data:
  values: |
{{ toYaml .Values | indent 4 }}
  chart: {{ .Chart.Name }}-{{ .Chart.Version }}
  namespace: {{ .Release.Namespace | quote }}
  kube: {{ .Capabilities.KubeVersion.Version | quote }}
  known: {{ .Capabilities.APIVersions.Has "example.com/v1" | quote }}
{{- with .Values.text }}
  text: {{ . | quote }}
{{- end }}
"#;

/// A chart, in `charts` or where `helmGlobals` says.
pub fn chart(draw: &mut Draw) -> Chart {
    let chart = draw.pick(&["web", "db"]).to_owned();
    let mut fields = Map::new();
    let home = draw.pick(&["charts", "charts", "local/", "./local"]);
    if home != "charts" {
        fields.insert("helmGlobals".into(), json!({"chartHome": home}));
    }
    let release = draw.pick(&["one", "two-a"]);
    let own = format!("{release}-config");
    let folder = format!("{}/{chart}", home.trim_matches(['.', '/']));
    let mut files = Vec::new();
    let mut objects = Vec::new();
    let mut add = |path: &str, content: String| files.push((format!("{folder}/{path}"), content));
    add("Chart.yaml", format!("apiVersion: v2\nname: {chart}\nversion: {}\n", draw.pick(&["1.2.3", "0.1.0"])));
    let values = values(draw);
    add("values.yaml", write::document(&values, draw));
    let namespace = if draw.chance(40) { "\n  namespace: {{ .Release.Namespace }}" } else { "" };
    let metadata = format!("metadata:\n  name: {{{{ .Release.Name }}}}-config{namespace}");
    add("templates/config.yaml", format!("apiVersion: v1\nkind: ConfigMap\n{metadata}{CONFIG}"));
    objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": own}}));
    for number in 0..draw.number(0, 2) {
        let object = object(draw);
        add(&format!("templates/object{number}.yaml"), write::document(&object, draw));
        objects.push(object);
    }
    if draw.chance(40) {
        let hook = draw.pick(&["test", "pre-install", "post-upgrade"]);
        let metadata = json!({"name": format!("{release}-hook"), "annotations": {"helm.sh/hook": hook}});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata});
        add("templates/tests/hook.yaml", write::document(&job, draw));
        objects.push(job);
    }
    if draw.chance(30) {
        let kind = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com", "labels": labels(draw)}});
        add("crds/things.yaml", write::document(&kind, draw));
        objects.push(kind);
    }
    if draw.chance(20) {
        add("templates/NOTES.txt", "Thanks for {{ .Chart.Name }}.\n".to_owned());
    }
    if draw.chance(10) {
        add("templates/_names.tpl", "{{ define \"x\" }}{{ end }}".to_owned());
    }
    let mut add = |path: &str, content: String| files.push((path.to_owned(), content));
    if draw.chance(10) {
        let inline = inline(draw);
        let entry =
            json!({"chartName": chart, "releaseName": release, "valuesLocal": inline, "valuesMerge": "override"});
        fields.insert("helmChartInflationGenerator".into(), json!([entry]));
        return Chart { fields, files, objects };
    }
    let mut entry = json!({"name": chart, "releaseName": release});
    let namespace = draw.pick(&NAMESPACES);
    if !namespace.is_empty() {
        entry["namespace"] = json!(namespace);
    }
    if draw.chance(25) {
        let own = self::values(draw);
        add("own-values.yaml", write::document(&own, draw));
        entry["valuesFile"] = json!("own-values.yaml");
    }
    if draw.chance(25) {
        let more = self::values(draw);
        add("more-values.yaml", write::document(&more, draw));
        entry["additionalValuesFiles"] = json!(["more-values.yaml"]);
    }
    if draw.chance(60) {
        entry["valuesInline"] = inline(draw);
        if draw.chance(60) {
            entry["valuesMerge"] = json!(draw.pick(&["merge", "override", "replace", "merge", "override", "join"]));
        }
    }
    for flag in draw.some(&["includeCRDs", "skipTests", "skipHooks", "devel"], 30) {
        entry[flag] = json!(draw.chance(80));
    }
    if draw.chance(20) {
        entry["apiVersions"] = json!(["example.com/v1", "example.com/v2"]);
    }
    if draw.chance(20) {
        entry["kubeVersion"] = json!(draw.pick(&["1.30.1", "v1.29.0", "odd"]));
    }
    if draw.chance(10) {
        entry["nameTemplate"] = json!(draw.pick(&["named", "{{ \"a\" }}-b"]));
    }
    if draw.chance(10) {
        entry["version"] = json!("1.2.3");
    }
    fields.insert("helmCharts".into(), json!([entry]));
    Chart { fields, files, objects }
}

/// Values as they stand in a file.
fn values(draw: &mut Draw) -> Value {
    let mut values = Map::new();
    values.insert("text".into(), json!(plain(draw)));
    for _ in 0..draw.number(0, 4) {
        values.insert(word(draw), free(draw, 2));
    }
    values.insert(
        "nested".into(),
        json!({"name": name(draw), "list": [{"name": "a"}, {"name": "b", "free": free(draw, 1)}], "null": null}),
    );
    Value::Object(values)
}

/// Values in the kustomization, over those of the file.
fn inline(draw: &mut Draw) -> Value {
    let mut values = json!({"nested": {"list": [{"name": "b", "more": free(draw, 1)}]}, "flag": draw.chance(50)});
    for _ in 0..draw.number(0, 3) {
        values[word(draw)] = free(draw, 2);
    }
    if draw.chance(20) {
        values["text"] = Value::Null;
    }
    if draw.chance(20) {
        values["nested"]["$patch"] = json!(draw.pick(&["replace", "delete", "merge"]));
    }
    values
}
