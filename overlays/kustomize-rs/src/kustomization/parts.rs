//! The objects inside of a kustomization. Builtin transformers are configured with the same ones.

use yaml::{Span, Text};

use super::SortOptions;
use super::fields::Fields;
use crate::error::BuildError;
use crate::id::{Gvk, ResourceId};
use crate::resource::Behavior;
use crate::schema::FieldSpec;
use crate::selector::Selector;
use crate::transform::images::Image;
use crate::transform::order::LegacyOrder;
use crate::transform::replacements::{FieldOptions, Replacement, Source, Target};
use crate::transform::variables::Variable;

/// An entry of `labels`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LabelEntry {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) fields: Vec<FieldSpec>,
}

/// An entry of `patches` or `patchesJson6902`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatchEntry {
    pub(crate) path: String,
    pub(crate) patch: String,
    pub(crate) target: Option<Selector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    pub(crate) span: Span,
}

/// An entry of `replacements`: a file or a replacement.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplacementEntry {
    pub(crate) path: String,
    pub(crate) replacement: Replacement,
}

/// Options of generated objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) annotations: Vec<(String, String)>,
    pub(crate) disable_name_suffix_hash: bool,
    pub(crate) immutable: bool,
}

/// An entry of `configMapGenerator` or `secretGenerator`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) behavior: Behavior,
    pub(crate) literals: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) envs: Vec<String>,
    /// Of a secret; empty for `Opaque`.
    pub(crate) secret_type: String,
    pub(crate) options: GeneratorOptions,
    pub(crate) span: Span,
}

pub(crate) fn gvk(fields: &Fields<'_>) -> Result<Gvk, BuildError> {
    let part = |name| fields.text(name).map(Text::from);
    Ok(Gvk { group: part("group")?, version: part("version")?, kind: part("kind")? })
}

pub(crate) fn field_spec(fields: &Fields<'_>) -> Result<FieldSpec, BuildError> {
    Ok(FieldSpec::new(gvk(fields)?, &fields.text("path")?, fields.flag("create")?))
}

pub(crate) fn selector(fields: &Fields<'_>) -> Result<Selector, BuildError> {
    Ok(Selector {
        gvk: gvk(fields)?,
        name: fields.text("name")?,
        namespace: fields.text("namespace")?,
        annotation_selector: fields.text("annotationSelector")?,
        label_selector: fields.text("labelSelector")?,
    })
}

pub(crate) fn label_entry(fields: &Fields<'_>) -> Result<LabelEntry, BuildError> {
    Ok(LabelEntry {
        pairs: fields.map("pairs")?,
        include_selectors: fields.flag("includeSelectors")?,
        include_templates: fields.flag("includeTemplates")?,
        fields: fields.objects("fields", field_spec)?,
    })
}

pub(crate) fn patch_entry(fields: &Fields<'_>) -> Result<PatchEntry, BuildError> {
    let options =
        fields.object("options", |options| Ok((options.flag("allowNameChange")?, options.flag("allowKindChange")?)))?;
    let (allow_name_change, allow_kind_change) = options.unwrap_or_default();
    Ok(PatchEntry {
        path: fields.text("path")?,
        patch: fields.text("patch")?,
        target: fields.object("target", selector)?,
        allow_name_change,
        allow_kind_change,
        span: fields.span(),
    })
}

pub(crate) fn image(fields: &Fields<'_>) -> Result<Image, BuildError> {
    Ok(Image {
        name: fields.text("name")?,
        new_name: fields.text("newName")?,
        new_tag: fields.text("newTag")?,
        tag_suffix: fields.text("tagSuffix")?,
        digest: fields.text("digest")?,
    })
}

fn field_options(fields: &Fields<'_>) -> Result<FieldOptions, BuildError> {
    fields.text("encoding")?;
    Ok(FieldOptions {
        delimiter: fields.text("delimiter")?,
        index: fields.number("index")?,
        create: fields.flag("create")?,
    })
}

fn source(fields: &Fields<'_>) -> Result<Source, BuildError> {
    let id = ResourceId {
        gvk: gvk(fields)?.into(),
        name: fields.text("name")?.into(),
        namespace: fields.text("namespace")?.into(),
        cluster_scoped: false,
    };
    let options = fields.object("options", field_options)?.unwrap_or_default();
    Ok(Source { id, field_path: fields.text("fieldPath")?, options })
}

fn target(fields: &Fields<'_>) -> Result<Target, BuildError> {
    Ok(Target {
        select: fields.object("select", selector)?,
        reject: fields.objects("reject", selector)?,
        field_paths: fields.texts("fieldPaths")?,
        options: fields.object("options", field_options)?.unwrap_or_default(),
    })
}

pub(crate) fn replacement(fields: &Fields<'_>) -> Result<Replacement, BuildError> {
    let has_targets = fields.get("targets").is_some();
    let targets = fields.objects("targets", target)?;
    Ok(Replacement {
        source: fields.object("source", source)?,
        source_value: fields.optional_text("sourceValue")?,
        targets: has_targets.then_some(targets),
    })
}

pub(crate) fn replacement_entry(fields: &Fields<'_>) -> Result<ReplacementEntry, BuildError> {
    let entry = ReplacementEntry { path: fields.text("path")?, replacement: replacement(fields)? };
    let inline =
        entry.replacement.source.is_some() || entry.replacement.targets.as_ref().is_some_and(|t| !t.is_empty());
    if !entry.path.is_empty() && inline {
        return Err(BuildError::syntax("a replacement has both a `path` and a replacement of its own"));
    }
    Ok(entry)
}

pub(crate) fn variable(fields: &Fields<'_>) -> Result<Variable, BuildError> {
    let object = fields.object("objref", |object| {
        let api_version = object.text("apiVersion")?;
        let mut gvk = gvk(object)?;
        if !api_version.is_empty() {
            gvk = Gvk::new(&api_version, &gvk.kind);
        }
        let part = |name| object.text(name).map(Text::from);
        Ok(ResourceId { gvk: gvk.into(), name: part("name")?, namespace: part("namespace")?, cluster_scoped: false })
    })?;
    let field_path = fields.object("fieldref", |field| field.text("fieldPath"))?.unwrap_or_default();
    Ok(Variable {
        name: fields.text("name")?,
        object: object.unwrap_or_default(),
        field_path: if field_path.is_empty() { "metadata.name".into() } else { field_path },
    })
}

pub(crate) fn generator_options(fields: &Fields<'_>) -> Result<GeneratorOptions, BuildError> {
    Ok(GeneratorOptions {
        labels: fields.map("labels")?,
        annotations: fields.map("annotations")?,
        disable_name_suffix_hash: fields.flag("disableNameSuffixHash")?,
        immutable: fields.flag("immutable")?,
    })
}

pub(crate) fn config_map_generator(fields: &Fields<'_>) -> Result<Generator, BuildError> {
    let mut envs = fields.texts("envs")?;
    envs.extend(fields.optional_text("env")?.filter(|env| !env.is_empty()));
    Ok(Generator {
        name: fields.text("name")?,
        namespace: fields.text("namespace")?,
        behavior: Behavior::parse(&fields.text("behavior")?),
        literals: fields.texts("literals")?,
        files: fields.texts("files")?,
        envs,
        secret_type: String::new(),
        options: fields.object("options", generator_options)?.unwrap_or_default(),
        span: fields.span(),
    })
}

pub(crate) fn secret_generator(fields: &Fields<'_>) -> Result<Generator, BuildError> {
    Ok(Generator { secret_type: fields.text("type")?, ..config_map_generator(fields)? })
}

impl GeneratorOptions {
    /// Adds what the global options have more.
    pub(crate) fn inherit(&mut self, global: &GeneratorOptions) {
        let inherit = |own: &mut Vec<(String, String)>, global: &[(String, String)]| {
            for (key, value) in global {
                if !own.iter().any(|(known, _)| known == key) {
                    own.push((key.clone(), value.clone()));
                }
            }
        };
        inherit(&mut self.labels, &global.labels);
        inherit(&mut self.annotations, &global.annotations);
        self.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        self.immutable |= global.immutable;
    }
}

pub(crate) fn legacy_order(fields: &Fields<'_>) -> Result<LegacyOrder, BuildError> {
    Ok(LegacyOrder { first: fields.texts("orderFirst")?, last: fields.texts("orderLast")? })
}

pub(crate) fn sort_options(fields: &Fields<'_>) -> Result<SortOptions, BuildError> {
    let legacy = fields.object("legacySortOptions", legacy_order)?;
    match fields.text("order")?.as_str() {
        "legacy" => Ok(SortOptions::Legacy(legacy)),
        "fifo" if legacy.is_none() => Ok(SortOptions::Fifo),
        "fifo" => Err(BuildError::syntax("`sortOptions` has `legacySortOptions`, but its order is fifo")),
        other => Err(BuildError::syntax(format!("`sortOptions.order` is `{other}`, it should be legacy or fifo"))),
    }
}
