//! Steps of a build: reading the files they name, then running them.

use std::sync::Arc;

use crate::builtin::{self, Step};
use crate::error::BuildError;
use crate::kustomization::fields::Fields;
use crate::kustomization::{PatchEntry, ReplacementEntry, parts};
use crate::loader::Loader;
use crate::merge::json6902;
use crate::objects;
use crate::provenance::{self, Configured};
use crate::resource::{REWRITTEN, Resource};
use crate::resources::Resources;
use crate::schema::{FieldSpec, Schema};
use crate::transform::images::{self, Image};
use crate::transform::names::{self, End};
use crate::transform::namespace::NamespaceTransformer;
use crate::transform::patches::{self, Content, Patch};
use crate::transform::replacements::{self, Replacement};
use crate::transform::value_add::{self, ValueAddTarget};
use crate::transform::{annotations, labels, replicas};
use crate::yaml::{Limits, Node, Rules, Style, Value, decode, is_other_without_quotes, parse_with};

/// A step that needs no more files.
pub(crate) enum Prepared {
    Namespace(NamespaceTransformer),
    Name(End, String, Arc<Vec<FieldSpec>>),
    Labels(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Annotations(Vec<(String, String)>, Arc<Vec<FieldSpec>>),
    Patch(Box<Patch>),
    StrategicMerge(Vec<(Resource, String)>),
    JsonPatch { operations: Vec<json6902::Operation>, entry: Box<PatchEntry>, file: String },
    Replicas(String, i64, Arc<Vec<FieldSpec>>),
    Images(Vec<Image>, Arc<Vec<FieldSpec>>),
    Replacements(Vec<Replacement>),
    ValueAdd(String, Vec<ValueAddTarget>),
    Hash,
}

impl Prepared {
    fn sees_state(&self) -> bool {
        !matches!(self, Self::Patch(_) | Self::StrategicMerge(_) | Self::JsonPatch { .. })
    }

    /// Says whether the step looks at annotations, as few do.
    fn reads_annotations(&self) -> bool {
        let fields = match self {
            Self::Namespace(transformer) => &transformer.fields,
            Self::Name(_, _, fields)
            | Self::Labels(_, fields)
            | Self::Annotations(_, fields)
            | Self::Replicas(_, _, fields)
            | Self::Images(_, fields) => fields,
            _ => return true,
        };
        fields.iter().any(FieldSpec::leads_to_annotations)
    }
}

/// Longer texts than names and labels are watched.
const LONG_TEXT: usize = 512;

/// What steps of one kustomization share.
pub(crate) struct Context<'a, 'b> {
    pub(crate) loader: &'a Loader<'b>,
    pub(crate) schema: &'a Schema,
    /// The kustomization file, for errors.
    pub(crate) file: &'a str,
}

/// Says whether a validator left the object alone, but for the label it may set. As kustomize takes that label away by
/// writing all labels anew, other labels must not come from a file.
pub(crate) fn unchanged(after: &Resource, before: &Resource) -> bool {
    const VALIDATED_BY: &str = "validated-by";
    // A name that was written anew counts as changed, even to what it was.
    let name =
        |resource: &Resource| resource.node.at(&["metadata", "name"]).map(|name| (name.style(), name.span.line()));
    if name(after) != name(before) {
        return false;
    }
    let mut after = Node::clone(&after.node);
    let labels = after.get_mut("metadata").and_then(Node::as_mapping_mut).and_then(|metadata| {
        let labels = metadata.get_mut("labels")?.as_mapping_mut()?;
        labels.remove(VALIDATED_BY).map(|_| labels.is_empty()).map(|empty| (metadata, empty))
    });
    if let Some((metadata, empty)) = labels {
        if empty {
            metadata.remove("labels");
        }
        let is_last = |metadata: &Node| {
            metadata.as_mapping().and_then(|metadata| metadata.iter().last()).is_none_or(|entry| entry.key == "labels")
        };
        let Some(old) = before.node.at(&["metadata", "labels"]) else {
            return after == *before.node;
        };
        if is_written_anew(old) || before.labels_are_followed || !before.node.get("metadata").is_some_and(is_last) {
            return false;
        }
    }
    after == *before.node
}

fn is_written_anew(labels: &Node) -> bool {
    let mapping = labels.as_mapping();
    let is_sorted = mapping.is_some_and(|mapping| mapping.iter().is_sorted_by_key(|entry| &entry.key));
    let rewritten = labels.shared == REWRITTEN;
    let from_label_transformer = |node: &Node| {
        let Some(text) = node.as_str().filter(|text| !text.is_empty()) else {
            return false;
        };
        let in_quotes = is_other_without_quotes(text);
        match node.style() {
            Style::Plain => rewritten || node.shared != 0 && !in_quotes && !text.contains('\n'),
            Style::Quoted => (rewritten || node.shared != 0) && in_quotes,
            _ => false,
        }
    };
    labels.span.line() != 0
        || !is_sorted
        || mapping.into_iter().flatten().any(|entry| !from_label_transformer(&entry.value))
}

/// Objects or operations: which of the two a patch is shows in its text.
fn read_patch(text: &str, file: &str, limits: &Limits) -> Result<Content, BuildError> {
    let object_error = match objects::read(text.as_bytes(), file, limits) {
        Ok(objects) => return Ok(Content::Strategic(objects)),
        Err(error) => error,
    };
    json6902::parse_patch(text, limits).map(Content::Json).map_err(|json_error| {
        let is_list = text.trim_start().starts_with(['-', '[']);
        let error = if is_list { json_error } else { object_error };
        error.context("a patch is neither an object nor a JSON patch").in_file(file)
    })
}

impl Context<'_, '_> {
    /// Reads the files that a step names.
    pub(crate) fn prepare(&self, step: Step) -> Result<Prepared, BuildError> {
        Ok(match step {
            Step::Namespace(transformer) => Prepared::Namespace(transformer),
            Step::Name(end, text, fields) => Prepared::Name(end, text, fields),
            Step::Labels(pairs, fields) => Prepared::Labels(pairs, fields),
            Step::Annotations(pairs, fields) => Prepared::Annotations(pairs, fields),
            Step::Patch(entry) => Prepared::Patch(Box::new(self.patch(entry)?)),
            Step::StrategicMerge { paths, patches } => self.strategic_merge(&paths, &patches)?,
            Step::JsonPatch(entry) => self.json_patch(entry)?,
            Step::Replicas(name, count, fields) => Prepared::Replicas(name, count, fields),
            Step::Images(images, fields) => Prepared::Images(images, fields),
            Step::Replacements(entries) => Prepared::Replacements(self.replacements(entries)?),
            Step::ValueAdd { value, targets, file } => self.value_add(&value, targets, &file)?,
            Step::Hash => Prepared::Hash,
        })
    }

    /// The text of a patch, and the file to blame.
    fn patch_text(&self, entry: &PatchEntry) -> Result<(String, String), BuildError> {
        let fail = |message: &str| Err(BuildError::syntax(message).at(self.file, entry.span));
        let inline = entry.patch.as_str();
        match (inline.is_empty(), entry.path.is_empty()) {
            (true, true) => fail("a patch has neither `path` nor `patch`"),
            (false, false) => fail("a patch has both `path` and `patch`"),
            (false, true) => Ok((inline.to_owned(), self.file.to_owned())),
            (true, false) => {
                let file = self.loader.display(&entry.path);
                let content = self.loader.read(&entry.path).map_err(|error| error.at(self.file, entry.span))?;
                let text = decode(&content).map_err(|error| BuildError::from_yaml(error, &file))?;
                Ok((text.into_owned(), file))
            }
        }
    }

    fn patch(&self, mut entry: PatchEntry) -> Result<Patch, BuildError> {
        entry.patch = entry.patch.trim().to_owned();
        let (text, file) = self.patch_text(&entry)?;
        let read = || read_patch(&text, &file, &self.loader.limits);
        let mut content = match self.loader.cache {
            Some(cache) => cache.patch(&file, text.as_bytes(), &self.loader.limits, read),
            None => read(),
        }?;
        if let Content::Strategic(objects) = &mut content {
            for object in objects {
                object.allow_name_change |= entry.allow_name_change;
                object.allow_kind_change |= entry.allow_kind_change;
            }
        }
        Ok(Patch { content, target: entry.target, file })
    }

    fn strategic_merge(&self, paths: &[String], inline: &str) -> Result<Prepared, BuildError> {
        let limits = &self.loader.limits;
        let mut all = Vec::new();
        for path in paths {
            // For historic reasons the entry may be the patch itself.
            if let Ok(objects) = objects::read(path.as_bytes(), self.file, limits) {
                all.extend(objects.into_iter().map(|object| (object, self.file.to_owned())));
                continue;
            }
            if path.trim_end().contains('\n') {
                objects::read(path.as_bytes(), self.file, limits)?;
            }
            let file = self.loader.display(path);
            let content = self.loader.read(path)?;
            let objects = objects::read(&content, &file, limits)?;
            all.extend(objects.into_iter().map(|object| (object, file.clone())));
        }
        if !inline.is_empty() {
            let objects = objects::read(inline.as_bytes(), self.file, limits)?;
            all.extend(objects.into_iter().map(|object| (object, self.file.to_owned())));
        }
        if all.is_empty() {
            return Err(BuildError::syntax("`patchesStrategicMerge` holds no patch"));
        }
        Ok(Prepared::StrategicMerge(all))
    }

    fn json_patch(&self, entry: PatchEntry) -> Result<Prepared, BuildError> {
        let fail = |message: &str| Err(BuildError::syntax(message).at(self.file, entry.span));
        if entry.target.as_ref().is_none_or(|target| target.name.is_empty()) {
            return fail("a JSON patch has no `target.name`");
        }
        let (text, file) = self.patch_text(&entry)?;
        let operations = json6902::parse_patch(&text, &self.loader.limits).map_err(|error| error.in_file(&file))?;
        if operations.is_empty() {
            return fail("a JSON patch has no operations");
        }
        Ok(Prepared::JsonPatch { operations, entry: Box::new(entry), file })
    }

    fn replacements(&self, entries: Vec<ReplacementEntry>) -> Result<Vec<Replacement>, BuildError> {
        let mut all = Vec::new();
        for entry in entries {
            if entry.path.is_empty() {
                all.push(entry.replacement);
                continue;
            }
            let file = self.loader.display(&entry.path);
            let content = self.loader.read(&entry.path)?;
            let text = decode(&content).map_err(|error| BuildError::from_yaml(error, &file))?;
            let documents = parse_with(&text, &self.loader.limits, Rules::V2)
                .map_err(|error| BuildError::from_yaml(error, &file))?;
            let read = |node| {
                let fields = Fields::new(node, "replacement", false)?;
                parts::replacement(&fields)
            };
            match documents.first().map(|document| &document.root) {
                Some(root) => match &root.value {
                    Value::Sequence(items) => {
                        for item in items {
                            all.push(read(item).map_err(|error| error.in_file(&file))?);
                        }
                    }
                    _ => all.push(read(root).map_err(|error| error.in_file(&file))?),
                },
                None => return Err(BuildError::syntax("the file holds no replacement").in_file(&file)),
            }
        }
        Ok(all)
    }

    fn value_add(&self, value: &str, mut targets: Vec<ValueAddTarget>, path: &str) -> Result<Prepared, BuildError> {
        let mut value = value.trim();
        if value.is_empty() {
            value = self.loader.root().rsplit('/').next().unwrap_or_default();
        }
        if !path.is_empty() {
            let file = self.loader.display(path);
            let content = self.loader.read(path)?;
            let text = decode(&content).map_err(|error| BuildError::from_yaml(error, &file))?;
            let documents = parse_with(&text, &self.loader.limits, Rules::V2)
                .map_err(|error| BuildError::from_yaml(error, &file))?;
            if let Some(document) = documents.first() {
                let fields = Fields::new(&document.root, "", false)?;
                targets.extend(builtin::value_add_targets(&fields).map_err(|error| error.in_file(&file))?);
            }
        }
        if targets.is_empty() {
            return Err(BuildError::syntax("a ValueAddTransformer has no `targets`"));
        }
        Ok(Prepared::ValueAdd(value.to_owned(), targets))
    }

    /// Takes what a step costs that goes over all objects, and refuses texts that could fill the memory.
    fn charge(&self, step: &Prepared, resources: &Resources) -> Result<(), BuildError> {
        let pairs = |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        let (text, fields): (usize, usize) = match step {
            Prepared::Namespace(transformer) => (transformer.namespace.len(), transformer.fields.len()),
            Prepared::Name(_, text, fields) => (text.len(), fields.len()),
            Prepared::Labels(labels, fields) => (pairs(labels), fields.len()),
            Prepared::Annotations(annotations, fields) => (pairs(annotations), fields.len()),
            Prepared::Images(images, fields) => {
                let places = fields.len().saturating_mul(images.len());
                (images.iter().map(Image::longest).max().unwrap_or(0), places)
            }
            Prepared::ValueAdd(value, targets) => (value.len(), targets.len()),
            // These take what they cost themselves.
            Prepared::Patch(_)
            | Prepared::StrategicMerge(_)
            | Prepared::JsonPatch { .. }
            | Prepared::Replicas(..)
            | Prepared::Replacements(_)
            | Prepared::Hash => (0, 1),
        };
        let budget = &self.loader.budget;
        budget.spend(resources.len().saturating_mul(Resources::LOOK + fields))?;
        if text > LONG_TEXT {
            let places = resources.iter().map(|resource| resource.node.count()).sum();
            budget.fits(text, places)?;
        }
        Ok(())
    }

    /// Runs steps on the objects, one after the other, and notes on them what configured the steps.
    ///
    /// All steps but patches see that there are annotations where kustomize keeps its state in them.
    pub(crate) fn run_all(
        &self,
        steps: &[(Prepared, Option<Configured>)],
        resources: &mut Resources,
    ) -> Result<(), BuildError> {
        let mut is_shown = false;
        for (index, (step, by)) in steps.iter().enumerate() {
            if step.sees_state() {
                let reads = step.reads_annotations();
                // Where there is a null instead of annotations, showing makes them.
                let shows = |resource: &&mut Resource| reads || resource.has_null_annotations();
                resources.items.iter_mut().filter(shows).for_each(Resource::show_state);
                is_shown = true;
            }
            self.run(step, resources)?;
            resources.items.iter_mut().for_each(Resource::settle);
            let stays_shown = by.is_none() && steps.get(index + 1).is_some_and(|(next, _)| next.sees_state());
            if is_shown && !stays_shown {
                for resource in &mut resources.items {
                    resource.hide_state();
                }
                is_shown = false;
            }
            if let Some(by) = by {
                provenance::note(&mut resources.items, by)?;
            }
        }
        Ok(())
    }

    fn run(&self, step: &Prepared, resources: &mut Resources) -> Result<(), BuildError> {
        let schema = self.schema;
        let limits = &self.loader.limits;
        self.charge(step, resources)?;
        match step {
            Prepared::Namespace(transformer) => transformer.transform(resources, schema),
            Prepared::Name(end, text, fields) => names::add(resources, *end, text, fields, schema),
            Prepared::Labels(pairs, fields) => labels::add(resources, pairs, fields),
            Prepared::Annotations(pairs, fields) => annotations::add(resources, pairs, fields),
            Prepared::Patch(patch) => patch.apply(resources, schema, limits),
            Prepared::StrategicMerge(all) => all.iter().try_for_each(|(patch, file)| {
                let mut patch = patch.clone();
                patch.rewrite_metadata()?;
                patches::apply_by_name(resources, patch, schema, file)
            }),
            Prepared::JsonPatch { operations, entry, file } => {
                let Some(target) = &entry.target else {
                    return Ok(());
                };
                patches::apply_json(resources, operations, target, schema, limits, false)
                    .map_err(|error| error.in_file(file))
            }
            Prepared::Replicas(name, count, fields) => replicas::set(resources, name, *count, fields, schema),
            Prepared::Images(images, fields) => images::change(resources, images, fields),
            Prepared::Replacements(list) => replacements::replace(resources, list, schema),
            Prepared::ValueAdd(value, targets) => value_add::add(resources, value, targets, schema),
            Prepared::Hash => names::add_hashes(resources, schema),
        }
    }
}
