//! The Go type of a kustomization, as a table: `sigs.k8s.io/kustomize/api/types` of kustomize v5.8.1.

/// The type of a value in Go.
pub(super) enum Shape {
    Text,
    Flag,
    Integer,
    Texts,
    TextMap,
    Any,
    Object(&'static [Field]),
    Objects(&'static [Field]),
}

/// A field of a Go struct.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) kept: Kept,
}

/// When a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// If it is not empty.
    Filled,
    /// If it was given at all.
    Given,
    /// Always, as null where it was not given.
    OrNull,
    /// Always, as the zero value where it was not given.
    Always,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: Kept::Filled }
}

const fn given(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: Kept::Given }
}

const fn always(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: Kept::Always }
}

const fn or_null(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, kept: Kept::OrNull }
}

const fn text(name: &'static str) -> Field {
    field(name, Shape::Text)
}

const fn texts(name: &'static str) -> Field {
    field(name, Shape::Texts)
}

const fn map(name: &'static str) -> Field {
    field(name, Shape::TextMap)
}

const fn flag(name: &'static str) -> Field {
    field(name, Shape::Flag)
}

/// The fields of kustomize's `Kustomization`.
pub(super) static KUSTOMIZATION: [Field; 34] = [
    text("kind"),
    text("apiVersion"),
    given("metadata", Shape::Object(&[text("name"), text("namespace"), map("labels"), map("annotations")])),
    map("openapi"),
    text("namePrefix"),
    text("nameSuffix"),
    text("namespace"),
    map("commonLabels"),
    field("labels", Shape::Objects(&LABEL)),
    map("commonAnnotations"),
    texts("patchesStrategicMerge"),
    field("patchesJson6902", Shape::Objects(&PATCH)),
    field("patches", Shape::Objects(&PATCH)),
    field("images", Shape::Objects(&IMAGE)),
    field("imageTags", Shape::Objects(&IMAGE)),
    field("replacements", Shape::Objects(&REPLACEMENT)),
    field("replicas", Shape::Objects(&REPLICA)),
    field("vars", Shape::Objects(&VARIABLE)),
    given("sortOptions", Shape::Object(&SORT_OPTIONS)),
    texts("resources"),
    texts("components"),
    texts("crds"),
    texts("bases"),
    field("configMapGenerator", Shape::Objects(&CONFIG_MAP_GENERATOR)),
    field("secretGenerator", Shape::Objects(&SECRET_GENERATOR)),
    given("helmGlobals", Shape::Object(&[text("chartHome"), text("configHome")])),
    field("helmCharts", Shape::Objects(&HELM_CHART)),
    field("helmChartInflationGenerator", Shape::Objects(&HELM_CHART_ARGUMENTS)),
    given("generatorOptions", Shape::Object(&GENERATOR_OPTIONS)),
    texts("configurations"),
    texts("generators"),
    texts("transformers"),
    texts("validators"),
    texts("buildMetadata"),
];

static LABEL: [Field; 4] =
    [map("pairs"), flag("includeSelectors"), flag("includeTemplates"), field("fields", Shape::Objects(&FIELD_SPEC))];
static FIELD_SPEC: [Field; 5] = [text("group"), text("version"), text("kind"), text("path"), flag("create")];
static PATCH: [Field; 4] = [
    text("path"),
    text("patch"),
    given("target", Shape::Object(&SELECTOR)),
    given("options", Shape::Object(&[flag("allowNameChange"), flag("allowKindChange")])),
];
static SELECTOR: [Field; 7] = [
    text("group"),
    text("version"),
    text("kind"),
    text("name"),
    text("namespace"),
    text("annotationSelector"),
    text("labelSelector"),
];
static IMAGE: [Field; 5] = [text("name"), text("newName"), text("tagSuffix"), text("newTag"), text("digest")];
static REPLACEMENT: [Field; 4] = [
    given("source", Shape::Object(&REPLACEMENT_SOURCE)),
    field("targets", Shape::Objects(&REPLACEMENT_TARGET)),
    given("sourceValue", Shape::Text),
    text("path"),
];
static REPLACEMENT_SOURCE: [Field; 7] = [
    text("group"),
    text("version"),
    text("kind"),
    text("name"),
    text("namespace"),
    text("fieldPath"),
    given("options", Shape::Object(&FIELD_OPTIONS)),
];
static REPLACEMENT_TARGET: [Field; 4] = [
    or_null("select", Shape::Object(&SELECTOR)),
    field("reject", Shape::Objects(&SELECTOR)),
    texts("fieldPaths"),
    given("options", Shape::Object(&FIELD_OPTIONS)),
];
static FIELD_OPTIONS: [Field; 4] =
    [text("delimiter"), field("index", Shape::Integer), text("encoding"), flag("create")];
static REPLICA: [Field; 2] = [text("name"), always("count", Shape::Integer)];
static VARIABLE: [Field; 3] = [
    always("name", Shape::Text),
    always("objref", Shape::Object(&VARIABLE_TARGET)),
    always("fieldref", Shape::Object(&[text("fieldPath")])),
];
static VARIABLE_TARGET: [Field; 6] =
    [text("apiVersion"), text("group"), text("version"), text("kind"), always("name", Shape::Text), text("namespace")];
static SORT_OPTIONS: [Field; 2] = [text("order"), given("legacySortOptions", Shape::Object(&LEGACY_SORT_OPTIONS))];
static LEGACY_SORT_OPTIONS: [Field; 2] = [or_null("orderFirst", Shape::Texts), or_null("orderLast", Shape::Texts)];
static CONFIG_MAP_GENERATOR: [Field; 8] = [
    text("namespace"),
    text("name"),
    text("behavior"),
    texts("literals"),
    texts("files"),
    texts("envs"),
    text("env"),
    given("options", Shape::Object(&GENERATOR_OPTIONS)),
];
static SECRET_GENERATOR: [Field; 9] = [
    text("namespace"),
    text("name"),
    text("behavior"),
    texts("literals"),
    texts("files"),
    texts("envs"),
    text("env"),
    given("options", Shape::Object(&GENERATOR_OPTIONS)),
    text("type"),
];
static GENERATOR_OPTIONS: [Field; 4] =
    [map("labels"), map("annotations"), flag("disableNameSuffixHash"), flag("immutable")];
static HELM_CHART: [Field; 17] = [
    text("name"),
    text("version"),
    text("repo"),
    text("releaseName"),
    text("namespace"),
    texts("additionalValuesFiles"),
    text("valuesFile"),
    field("valuesInline", Shape::Any),
    text("valuesMerge"),
    flag("includeCRDs"),
    flag("skipHooks"),
    texts("apiVersions"),
    text("kubeVersion"),
    text("nameTemplate"),
    flag("skipTests"),
    flag("debug"),
    flag("devel"),
];
static HELM_CHART_ARGUMENTS: [Field; 13] = [
    text("chartName"),
    text("chartVersion"),
    text("chartRepoUrl"),
    text("chartHome"),
    text("chartRepoName"),
    text("helmBin"),
    text("helmHome"),
    text("values"),
    field("valuesLocal", Shape::Any),
    text("valuesMerge"),
    text("releaseName"),
    text("releaseNamespace"),
    texts("extraArgs"),
];
