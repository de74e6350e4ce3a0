//! The kustomization file: typed, strict, deprecated fields rewritten.

pub(crate) mod fields;
pub(crate) mod spec;

use fields::Fields;
use spec::{
    Chart, Generator, GeneratorOptions, Image, LabelEntry, PatchEntry, ReplacementEntry, SortOptions, Variable, chart,
};

use crate::error::BuildError;
use yaml::{Limits, Node, Rules, decode, parse_with};

/// Names a kustomization file can have.
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A kustomization file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kustomization {
    pub(crate) file: String,
    pub(crate) is_component: bool,
    pub(crate) openapi: Vec<(String, String)>,
    pub(crate) name_prefix: String,
    pub(crate) name_suffix: String,
    pub(crate) namespace: String,
    pub(crate) common_labels: Vec<(String, String)>,
    pub(crate) labels: Vec<LabelEntry>,
    pub(crate) common_annotations: Vec<(String, String)>,
    pub(crate) patches_strategic_merge: Vec<String>,
    pub(crate) patches_json: Vec<PatchEntry>,
    pub(crate) patches: Vec<PatchEntry>,
    pub(crate) images: Vec<Image>,
    pub(crate) replacements: Vec<ReplacementEntry>,
    pub(crate) replicas: Vec<(String, i64)>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) sort_options: Option<SortOptions>,
    pub(crate) resources: Vec<String>,
    pub(crate) components: Vec<String>,
    pub(crate) crds: Vec<String>,
    pub(crate) config_maps: Vec<Generator>,
    pub(crate) secrets: Vec<Generator>,
    pub(crate) generator_options: Option<GeneratorOptions>,
    pub(crate) configurations: Vec<String>,
    pub(crate) generators: Vec<String>,
    pub(crate) transformers: Vec<String>,
    pub(crate) validators: Vec<String>,
    pub(crate) build_metadata: Vec<String>,
    pub(crate) charts: Vec<Chart>,
    /// Lines for standard error about deprecated fields.
    pub(crate) warnings: Vec<String>,
}

const EDIT_FIX: &str = "Run 'kustomize edit fix' to update your Kustomization automatically.";

impl Kustomization {
    /// Reads a kustomization file; `file` is its path, for errors.
    pub(crate) fn parse(bytes: &[u8], file: &str, limits: &Limits) -> Result<Self, BuildError> {
        let text = decode(bytes).map_err(|error| BuildError::from_yaml(error, file))?;
        let documents = parse_with(&text, limits, Rules::V2).map_err(|error| BuildError::from_yaml(error, file))?;
        let Some(document) = documents.first() else {
            return Err(BuildError::syntax("the kustomization is empty").in_file(file));
        };
        let mut result = Self::from_node(&document.root, file).map_err(|error| error.in_file(file))?;
        for (key, span) in &document.duplicates {
            let place = format!("{file}:{}:{}", span.line(), span.column());
            result.warnings.push(format!("# Warning: {place}: `{key}` is given again below, this one is lost."));
        }
        Ok(result)
    }

    /// As [`Self::parse`], of what was read already. Errors do not name the file.
    pub(crate) fn from_node(root: &Node, file: &str) -> Result<Self, BuildError> {
        let fields = Fields::new(root, "", true)?;
        let mut result = Self { file: file.to_owned(), ..Self::default() };
        result.read_header(&fields)?;
        result.read_lists(&fields)?;
        result.read_transformers(&fields)?;
        fields.finish()?;
        result.warn(&fields);
        let has_content = root.as_mapping().into_iter().flatten().any(|entry| {
            !matches!(entry.key.to_ascii_lowercase().as_str(), "apiversion" | "kind") && !is_empty(&entry.value)
        });
        if !has_content {
            return Err(BuildError::syntax("the kustomization is empty").hint("add `resources`"));
        }
        Ok(result)
    }

    fn read_header(&mut self, fields: &Fields<'_>) -> Result<(), BuildError> {
        let kind = fields.text("kind")?;
        let api_version = fields.text("apiVersion")?;
        let expected = match kind.as_str() {
            "" | "Kustomization" => "kustomize.config.k8s.io/v1beta1",
            "Component" => "kustomize.config.k8s.io/v1alpha1",
            other => {
                let message = format!("`kind` is `{other}`, it should be Kustomization or Component");
                return Err(BuildError::syntax(message));
            }
        };
        if !api_version.is_empty() && api_version != expected {
            let message = format!("`apiVersion` is `{api_version}`, it should be `{expected}`");
            return Err(BuildError::syntax(message));
        }
        self.is_component = kind == "Component";
        fields.object("metadata", |metadata| {
            metadata.text("name")?;
            metadata.text("namespace")?;
            metadata.map("labels")?;
            metadata.map("annotations").map(|_| ())
        })?;
        self.openapi = fields.map("openapi")?;
        self.build_metadata = fields.texts("buildMetadata")?;
        self.sort_options = fields.object("sortOptions", spec::sort_options)?;
        Ok(())
    }

    fn read_lists(&mut self, fields: &Fields<'_>) -> Result<(), BuildError> {
        self.resources = fields.texts("resources")?;
        self.resources.extend(fields.texts("bases")?);
        self.components = fields.texts("components")?;
        self.crds = fields.texts("crds")?;
        self.configurations = fields.texts("configurations")?;
        self.generators = fields.texts("generators")?;
        self.transformers = fields.texts("transformers")?;
        self.validators = fields.texts("validators")?;
        self.config_maps = fields.objects("configMapGenerator", spec::config_map_generator)?;
        self.secrets = fields.objects("secretGenerator", spec::secret_generator)?;
        self.generator_options = fields.object("generatorOptions", spec::generator_options)?;
        self.read_charts(fields)
    }

    fn read_charts(&mut self, fields: &Fields<'_>) -> Result<(), BuildError> {
        self.charts = fields.objects("helmCharts", chart::chart)?;
        let globals = fields.object("helmGlobals", chart::globals)?;
        let old = fields.objects("helmChartInflationGenerator", chart::old_chart)?;
        let last =
            |of: fn(&Chart) -> &String| old.iter().map(of).rfind(|text| !text.is_empty()).cloned().unwrap_or_default();
        let (home, config_home) = globals.unwrap_or_else(|| (last(|old| &old.home), last(|old| &old.config_home)));
        self.charts.extend(old);
        for chart in &mut self.charts {
            chart.home.clone_from(&home);
            chart.config_home.clone_from(&config_home);
        }
        Ok(())
    }

    fn read_transformers(&mut self, fields: &Fields<'_>) -> Result<(), BuildError> {
        self.name_prefix = fields.text("namePrefix")?;
        self.name_suffix = fields.text("nameSuffix")?;
        self.namespace = fields.text("namespace")?;
        self.common_labels = fields.map("commonLabels")?;
        self.labels = fields.objects("labels", spec::label_entry)?;
        self.common_annotations = fields.map("commonAnnotations")?;
        self.patches_strategic_merge = fields.texts("patchesStrategicMerge")?;
        self.patches_json = fields.objects("patchesJson6902", spec::patch_entry)?;
        self.patches = fields.objects("patches", spec::patch_entry)?;
        self.images = fields.objects("images", spec::image)?;
        self.images.extend(fields.objects("imageTags", spec::image)?);
        self.replacements = fields.objects("replacements", spec::replacement_entry)?;
        self.replicas = fields.objects("replicas", |replica| Ok((replica.text("name")?, replica.number("count")?)))?;
        self.variables = fields.objects("vars", spec::variable)?;
        Ok(())
    }

    fn warn(&mut self, fields: &Fields<'_>) {
        let mut warn = |field: &'static str, instead: &str, experimental: bool| {
            if fields.get(field).is_some() {
                let mark = if experimental { "[EXPERIMENTAL] " } else { "" };
                let text =
                    format!("# Warning: '{field}' is deprecated. Please use '{instead}' instead. {mark}{EDIT_FIX}");
                self.warnings.push(text);
            }
        };
        warn("bases", "resources", false);
        warn("commonLabels", "labels", false);
        warn("imageTags", "images", false);
        warn("patchesJson6902", "patches", false);
        warn("patchesStrategicMerge", "patches", false);
        warn("vars", "replacements", true);
    }
}

/// Says whether Go would read the value as the zero value of its field.
fn is_empty(node: &Node) -> bool {
    match &node.value {
        yaml::Value::Null => true,
        yaml::Value::String(text) => text.is_empty(),
        _ => false,
    }
}
