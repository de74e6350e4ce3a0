//! Random kustomizations: objects, then layers of kustomizations over them.

mod charts;
mod draw;
mod generators;
mod objects;
mod patches;
mod paths;
mod plugins;
mod replacements;
mod text;
mod workloads;
mod write;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::case::Case;
use draw::Draw;

/// Of so many cases one has a chart: helm takes longer than everything else.
const CHART_EVERY: u64 = 50;

/// Of so many cases one patches what generators make.
const MADE_EVERY: u64 = 20;

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let mut draw = Draw::new(seed);
    // Drawn apart, so that all other cases are what they were.
    let chart = (seed % CHART_EVERY == 7).then(|| Draw::new(!seed));
    let made = (seed % MADE_EVERY == 3).then(|| Draw::new(!seed));
    let mut layers = Layers { draw: &mut draw, case: Case::default(), identities: BTreeSet::new(), chart, made };
    layers.all();
    let mut case = layers.case;
    case.unsorted = draw.chance(30);
    case
}

struct Layers<'d> {
    draw: &'d mut Draw,
    case: Case,
    identities: BTreeSet<String>,
    /// Draws the chart that is still to be rendered by a kustomization.
    chart: Option<Draw>,
    /// Draws patches of what generators make.
    made: Option<Draw>,
}

fn append(kustomization: &mut Map<String, Value>, field: &str, value: Value) {
    let list = kustomization.entry(field.to_owned()).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}

const FEATURES: [&str; 31] = [
    "namespace",
    "namePrefix",
    "nameSuffix",
    "labels",
    "labels",
    "commonLabels",
    "commonAnnotations",
    "images",
    "imageTags",
    "replicas",
    "patches",
    "patches",
    "patches",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "replacements",
    "replacements",
    "replacements",
    "vars",
    "configMapGenerator",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
    "configurations",
    "crds",
    "openapi",
    "transformers",
    "transformers",
    "generators",
    "validators",
];

impl Layers<'_> {
    fn all(&mut self) {
        match self.draw.number(0, 9) {
            0..=3 => {
                self.overlay("app", &[], &[]);
            }
            4..=6 => {
                let below = self.kustomization("base/", &[], &[]);
                self.overlay("overlay", &["../base"], &below);
            }
            7 => {
                let below = self.kustomization("base/", &[], &[]);
                let below = self.kustomization("middle/", &["../base"], &below);
                self.overlay("overlay", &["../middle"], &below);
            }
            8 => {
                let mut below = self.kustomization("one/", &[], &[]);
                below.extend(self.kustomization("two/", &[], &[]));
                self.overlay("overlay", &["../one", "../two"], &below);
            }
            _ => {
                let below = self.kustomization("base/", &[], &[]);
                let below = self.kustomization("left/", &["../base"], &below);
                self.kustomization("right/", &["../base"], &below);
                self.overlay("overlay", &["../left", "../right"], &below);
            }
        }
    }

    fn overlay(&mut self, directory: &str, bases: &[&str], below: &[Value]) {
        self.case.directory = directory.to_owned();
        self.kustomization(&format!("{directory}/"), bases, below);
    }

    fn file(&mut self, path: &str, tree: &Value) {
        let mut text = write::document(tree, self.draw);
        match self.draw.number(0, 30) {
            0 => text.insert_str(0, "---\n"),
            1 => text.insert_str(0, "# a comment\n---\n"),
            2 => text.push_str("---\n"),
            3 => text.push_str("...\n"),
            _ => {}
        }
        self.case.files.insert(path.to_owned(), text);
    }

    /// New objects, none of which has the identity of another.
    fn objects(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for _ in 0..count {
            let object = objects::object(self.draw);
            let metadata = &object["metadata"];
            let identity =
                format!("{} {} {} {}", object["apiVersion"], object["kind"], metadata["namespace"], metadata["name"]);
            if metadata["name"].is_null() || self.identities.insert(identity) {
                all.push(object);
            }
        }
        all
    }

    /// Writes objects into files below `place`, returns the paths.
    fn resource_files(&mut self, place: &str, objects: &[Value]) -> Vec<String> {
        let mut paths = Vec::new();
        let mut rest = objects;
        while !rest.is_empty() {
            let count = self.draw.number(1, rest.len());
            let (now, later) = rest.split_at(count);
            rest = later;
            let path = format!("{}{}.yaml", self.draw.pick(&["", "", "objects/"]), format_args!("r{}", paths.len()));
            let full = format!("{place}{path}");
            if now.len() > 1 && self.draw.chance(12) {
                let list = json!({"apiVersion": "v1", "kind": self.draw.pick(&["List", "List", "ConfigMapList"]), "items": now});
                self.file(&full, &list);
            } else {
                let documents: Vec<String> = now.iter().map(|object| write::document(object, self.draw)).collect();
                self.case.files.insert(full, documents.join("---\n"));
            }
            paths.push(path);
        }
        paths
    }

    fn kustomization(&mut self, place: &str, bases: &[&str], below: &[Value]) -> Vec<Value> {
        let mut kustomization = Map::new();
        let count = if bases.is_empty() { self.draw.number(1, 6) } else { self.draw.number(0, 2) };
        let own = self.objects(count);
        let mut visible = below.to_vec();
        visible.extend(own.clone());
        for base in bases {
            let field = if self.draw.chance(8) { "bases" } else { "resources" };
            append(&mut kustomization, field, json!(base));
        }
        for path in self.resource_files(place, &own) {
            append(&mut kustomization, "resources", json!(path));
        }
        if let Some(mut draw) = self.chart.take_if(|draw| !bases.is_empty() || draw.chance(60)) {
            let chart = charts::chart(&mut draw);
            self.case.charts = true;
            self.case.files.extend(chart.files.into_iter().map(|(path, text)| (format!("{place}{path}"), text)));
            kustomization.extend(chart.fields);
            visible.extend(chart.objects);
        }
        self.features(place, &mut kustomization, &visible);
        self.patch_made(place, &mut kustomization);
        // Of two layers over one base, one has to rename.
        if place == "right/" && self.draw.chance(85) {
            kustomization.insert("nameSuffix".into(), json!("-right"));
        }
        if self.draw.chance(12) {
            self.component(place, &mut kustomization, &mut visible);
        }
        if self.draw.chance(30) {
            kustomization.insert("apiVersion".into(), json!("kustomize.config.k8s.io/v1beta1"));
            kustomization.insert("kind".into(), json!("Kustomization"));
        }
        if self.draw.chance(8) {
            kustomization.insert(
                "buildMetadata".into(),
                json!(self.draw.some(&["originAnnotations", "transformerAnnotations", "managedByLabel"], 50)),
            );
        }
        if self.draw.chance(5) {
            let options = self.sort_options();
            kustomization.insert("sortOptions".into(), options);
        }
        let name = self.draw.pick(&[
            "kustomization.yaml",
            "kustomization.yaml",
            "kustomization.yaml",
            "kustomization.yml",
            "Kustomization",
        ]);
        self.file(&format!("{place}{name}"), &Value::Object(kustomization));
        visible
    }

    fn patch_made(&mut self, place: &str, kustomization: &mut Map<String, Value>) {
        let Some(draw) = self.made.as_mut().and_then(|draw| draw.chance(60).then_some(draw)) else {
            return;
        };
        let secret = draw.chance(40);
        let field = if secret { "secretGenerator" } else { "configMapGenerator" };
        if !kustomization.contains_key(field) {
            let (generator, files) = generators::generator(draw, secret, &[], place);
            append(kustomization, field, generator);
            files.into_iter().for_each(|(path, content)| self.case.insert(path, content));
        }
        let generators = kustomization[field].as_array().into_iter().flatten();
        let made: Vec<Value> = generators.map(|generator| generators::made(generator, secret)).collect();
        let file = format!("made{}.yaml", self.case.files.len());
        let (entry, extra) = patches::entry(draw, &made, &file);
        append(kustomization, "patches", entry);
        if let Some((path, text)) = extra {
            self.case.files.insert(format!("{place}{path}"), text);
        }
    }

    fn sort_options(&mut self) -> Value {
        if self.draw.chance(40) {
            return json!({"order": "fifo"});
        }
        let mut options = json!({"order": "legacy"});
        if self.draw.chance(50) {
            options["legacySortOptions"] = json!({"orderFirst": ["Namespace", "Deployment"], "orderLast": ["Service"]});
        }
        options
    }

    fn component(&mut self, place: &str, kustomization: &mut Map<String, Value>, visible: &mut Vec<Value>) {
        let mut component = Map::new();
        component.insert("apiVersion".into(), json!("kustomize.config.k8s.io/v1alpha1"));
        component.insert("kind".into(), json!("Component"));
        let count = self.draw.number(0, 2);
        let own = self.objects(count);
        let folder = format!("{place}component/");
        for path in self.resource_files(&folder, &own) {
            append(&mut component, "resources", json!(path));
        }
        visible.extend(own);
        self.features(&folder, &mut component, visible);
        self.file(&format!("{folder}kustomization.yaml"), &Value::Object(component));
        append(kustomization, "components", json!(self.draw.pick(&["component", "./component", "component/"])));
    }

    fn features(&mut self, place: &str, kustomization: &mut Map<String, Value>, visible: &[Value]) {
        for _ in 0..self.draw.number(0, 4) {
            let feature = self.draw.pick(&FEATURES);
            self.feature(feature, place, kustomization, visible);
        }
    }

    fn feature(&mut self, feature: &str, place: &str, kustomization: &mut Map<String, Value>, visible: &[Value]) {
        let serial = self.case.files.len();
        let needs_objects =
            ["patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "vars", "transformers"];
        if visible.is_empty() && needs_objects.contains(&feature) {
            return;
        }
        match feature {
            "namespace" => {
                kustomization.insert("namespace".into(), json!(self.draw.pick(&["prod", "team-b", "default"])));
            }
            "namePrefix" => {
                kustomization.insert("namePrefix".into(), json!(self.draw.pick(&["my-", "a.", "web-"])));
            }
            "nameSuffix" => {
                kustomization.insert("nameSuffix".into(), json!(self.draw.pick(&["-v1", "-config", ".x"])));
            }
            "labels" => {
                let mut entry = json!({"pairs": objects::labels(self.draw)});
                for option in self.draw.some(&["includeSelectors", "includeTemplates"], 35) {
                    entry[option] = json!(self.draw.chance(85));
                }
                if self.draw.chance(20) {
                    entry["fields"] = json!([{"path": "spec/template/metadata/labels", "kind": "Thing", "create": self.draw.chance(60)}, {"path": "metadata/custom", "create": true}]);
                }
                append(kustomization, "labels", entry);
            }
            "commonLabels" | "commonAnnotations" => {
                let labels = objects::labels(self.draw);
                kustomization.insert(feature.to_owned(), labels);
            }
            "images" | "imageTags" => {
                let image = plugins::image(self.draw);
                append(kustomization, feature, image);
            }
            "replicas" => {
                let scaled: Vec<&Value> = visible
                    .iter()
                    .filter(|object| {
                        ["Deployment", "StatefulSet", "ReplicaSet"]
                            .contains(&object["kind"].as_str().unwrap_or_default())
                    })
                    .collect();
                if !scaled.is_empty() {
                    let object = self.draw.pick(&scaled);
                    let entry = json!({"name": object["metadata"]["name"], "count": self.draw.number(0, 9)});
                    append(kustomization, feature, entry);
                }
            }
            "patches" => {
                let file = format!("patch{serial}.yaml");
                let (entry, extra) = patches::entry(self.draw, visible, &file);
                append(kustomization, feature, entry);
                if let Some((path, text)) = extra {
                    self.case.files.insert(format!("{place}{path}"), text);
                }
            }
            "patchesStrategicMerge" => {
                let object = self.draw.pick(visible);
                let patch = patches::strategic(self.draw, &object);
                if self.draw.chance(50) {
                    let text = write::document(&patch, self.draw);
                    append(kustomization, feature, json!(text));
                } else {
                    let path = format!("merge{serial}.yaml");
                    self.file(&format!("{place}{path}"), &patch);
                    append(kustomization, feature, json!(path));
                }
            }
            "patchesJson6902" => {
                let object = self.draw.pick(visible);
                let api = object["apiVersion"].as_str().unwrap_or_default();
                let (group, version) = api.split_once('/').unwrap_or(("", api));
                let operations = patches::operations(self.draw, &object);
                let text = write::document(&operations, self.draw);
                let mut entry = json!({"target": {"version": version, "kind": object["kind"], "name": object["metadata"]["name"]}, "patch": text});
                if !group.is_empty() {
                    entry["target"]["group"] = json!(group);
                }
                append(kustomization, feature, entry);
            }
            "replacements" => {
                let replacement = replacements::replacement(self.draw, visible);
                if self.draw.chance(20) {
                    let path = format!("replacement{serial}.yaml");
                    let content = if self.draw.chance(50) { json!([replacement]) } else { replacement };
                    self.file(&format!("{place}{path}"), &content);
                    append(kustomization, feature, json!({"path": path}));
                } else {
                    append(kustomization, feature, replacement);
                }
            }
            "vars" => {
                let name = self.draw.pick(&["NAME", "OTHER", "IMAGE"]);
                let variable = replacements::variable(self.draw, visible, name);
                append(kustomization, feature, variable);
            }
            "configMapGenerator" | "secretGenerator" => {
                let (generator, files) = generators::generator(self.draw, feature == "secretGenerator", visible, place);
                append(kustomization, feature, generator);
                for (path, content) in files {
                    self.case.insert(path, content);
                }
            }
            "generatorOptions" => {
                kustomization.insert(feature.to_owned(), generators::options(self.draw));
            }
            "configurations" => self.extra(feature, place, kustomization, plugins::configuration),
            "crds" => self.extra(feature, place, kustomization, plugins::definitions),
            "openapi" => {
                if self.draw.chance(40) {
                    let schema = plugins::schema(self.draw);
                    self.case.files.insert(format!("{place}schema.json"), schema.to_string());
                    kustomization.insert(feature.to_owned(), json!({"path": "schema.json"}));
                } else if self.draw.chance(10) {
                    kustomization
                        .insert(feature.to_owned(), json!({"version": self.draw.pick(&["v1.21.2", "v1.20.4", ""])}));
                }
            }
            "transformers" => self.plugin(feature, place, kustomization, |draw| plugins::transformer(draw, visible)),
            "generators" => self.plugin(feature, place, kustomization, plugins::generator),
            "validators" if self.draw.chance(40) => self.plugin(feature, place, kustomization, plugins::validator),
            _ => {}
        }
    }

    fn extra(
        &mut self,
        field: &str,
        place: &str,
        kustomization: &mut Map<String, Value>,
        make: impl Fn(&mut Draw) -> Value,
    ) {
        let path = format!("{field}{}.yaml", self.case.files.len());
        let content = make(self.draw);
        self.file(&format!("{place}{path}"), &content);
        append(kustomization, field, json!(path));
    }

    /// A plugin inline, in a file, or in a kustomization of plugins.
    fn plugin(
        &mut self,
        field: &str,
        place: &str,
        kustomization: &mut Map<String, Value>,
        make: impl Fn(&mut Draw) -> Value,
    ) {
        let content = make(self.draw);
        match self.draw.number(0, 3) {
            0 => {
                let text = write::document(&content, self.draw);
                append(kustomization, field, json!(text));
            }
            1 => {
                let folder = format!("{field}{}", self.case.files.len());
                self.file(&format!("{place}{folder}/plugin.yaml"), &content);
                self.file(&format!("{place}{folder}/kustomization.yaml"), &json!({"resources": ["plugin.yaml"]}));
                append(kustomization, field, json!(folder));
            }
            _ => self.extra(field, place, kustomization, |_| content.clone()),
        }
    }
}
