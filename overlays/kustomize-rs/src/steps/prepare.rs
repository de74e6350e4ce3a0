//! From the steps that a kustomization asks for to steps with all that their files say.

use yaml::{Limits, Rules, Value, decode, parse_with};

use super::each::Each;
use super::{Context, Prepared};
use crate::error::BuildError;
use crate::kustomization::fields::Fields;
use crate::kustomization::spec::{self, PatchEntry, Replacement, ReplacementEntry};
use crate::merge::json6902;
use crate::resource::objects;
use crate::steps::builtin::{self, Step};
use crate::transform::images::NamedImage;
use crate::transform::patches::{Content, Patch};
use crate::transform::value_add::ValueAddTarget;

impl Context<'_, '_> {
    /// Reads the files that a step names.
    pub(crate) fn prepare(&self, step: Step) -> Result<Prepared, BuildError> {
        Ok(match step {
            Step::Namespace(transformer) => Prepared::Namespace(transformer),
            Step::Name(end, text, fields) => Prepared::Each(Each::Name(end, text, fields)),
            Step::Labels(pairs, fields) => Prepared::Each(Each::Labels(pairs, fields)),
            Step::Annotations(pairs, fields) => Prepared::Each(Each::Annotations(pairs, fields)),
            Step::Patch(entry) => Prepared::Patch(Box::new(self.patch(entry)?)),
            Step::StrategicMerge { paths, patches } => self.strategic_merge(&paths, &patches)?,
            Step::JsonPatch(entry) => self.json_patch(entry)?,
            Step::Replicas(name, count, fields) => Prepared::Replicas(name, count, fields),
            Step::Images(images, fields) => {
                let images = images.into_iter().map(NamedImage::new).collect::<Result<_, _>>()?;
                Prepared::Each(Each::Images(images, fields))
            }
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
                spec::replacement(&fields)
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
