//! Field paths that transformers work on, and how those of several files come together.

use std::cmp::Ordering;
use std::sync::Arc;

use super::kind_order::{compare_gvks, rank};
use crate::error::BuildError;
use crate::id::Gvk;

/// A field of some kinds, as in kustomize's `configurations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    /// The kinds; empty parts match everything.
    pub gvk: Gvk,
    /// The path as written: `spec/template/metadata/labels`, lists anywhere on the way.
    pub path: String,
    /// Create what is missing.
    pub create: bool,
    /// The path in parts.
    pub(crate) parts: Vec<String>,
}

impl FieldSpec {
    /// Returns the field `path` of `gvk`.
    pub fn new(gvk: Gvk, path: &str, create: bool) -> Self {
        Self { gvk, path: path.to_owned(), create, parts: split_path(path, '/') }
    }

    /// Says whether the path leads to the annotations of an object, into them or to what holds them.
    pub(crate) fn leads_to_annotations(&self) -> bool {
        let mut parts = field_names(&self.parts);
        match parts.next() {
            None => true,
            Some("metadata") => parts.next().is_none_or(|part| part == "annotations"),
            Some(_) => false,
        }
    }
}

/// The names of the fields that the parts of a path stand for: blanks around them do not count.
pub(crate) fn field_names(parts: &[String]) -> impl Iterator<Item = &str> {
    let names = parts.iter().map(|part| part.strip_suffix("[]").unwrap_or(part).trim());
    names.filter(|name| !name.is_empty())
}

/// Kinds that refer to a kind by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameReference {
    /// The kind whose names are meant.
    pub gvk: Gvk,
    /// The fields that hold such names.
    pub referrers: Vec<FieldSpec>,
}

/// Splits at `delimiter`, except where a backslash stands before it. One leading delimiter is allowed.
pub fn split_path(path: &str, delimiter: char) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut pieces: Vec<&str> = path.split(delimiter).collect();
    if pieces.len() > 1 && pieces.first() == Some(&"") {
        pieces.remove(0);
    }
    for piece in pieces {
        match parts.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(delimiter);
                last.push_str(piece);
            }
            _ => parts.push(piece.to_owned()),
        }
    }
    parts
}

/// The tables of one kustomization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "one table per field of the configuration file, named as there")]
pub struct Configuration {
    pub name_prefix: Arc<Vec<FieldSpec>>,
    pub name_suffix: Arc<Vec<FieldSpec>>,
    pub namespace: Arc<Vec<FieldSpec>>,
    pub common_labels: Arc<Vec<FieldSpec>>,
    pub labels: Arc<Vec<FieldSpec>>,
    pub template_labels: Arc<Vec<FieldSpec>>,
    pub common_annotations: Arc<Vec<FieldSpec>>,
    pub name_reference: Vec<NameReference>,
    pub var_reference: Arc<Vec<FieldSpec>>,
    pub images: Arc<Vec<FieldSpec>>,
    pub replicas: Arc<Vec<FieldSpec>>,
}

impl Configuration {
    /// Returns the table with the name it has in a configuration file.
    pub fn table_mut(&mut self, name: &str) -> Option<&mut Vec<FieldSpec>> {
        Some(Arc::make_mut(match name {
            "namePrefix" => &mut self.name_prefix,
            "nameSuffix" => &mut self.name_suffix,
            "namespace" => &mut self.namespace,
            "commonLabels" => &mut self.common_labels,
            "labels" => &mut self.labels,
            "templateLabels" => &mut self.template_labels,
            "commonAnnotations" => &mut self.common_annotations,
            "varReference" => &mut self.var_reference,
            "images" => &mut self.images,
            "replicas" => &mut self.replicas,
            _ => return None,
        }))
    }

    /// Names of the tables that hold plain field specs.
    pub const TABLES: [&str; 10] = [
        "namePrefix",
        "nameSuffix",
        "namespace",
        "commonLabels",
        "labels",
        "templateLabels",
        "commonAnnotations",
        "varReference",
        "images",
        "replicas",
    ];

    /// Adds what `other` has more. Equal paths that disagree about creation are an error.
    pub fn merge(&mut self, other: &Configuration) -> Result<(), BuildError> {
        merge_tables(&mut self.name_prefix, &other.name_prefix)?;
        merge_tables(&mut self.name_suffix, &other.name_suffix)?;
        merge_tables(&mut self.namespace, &other.namespace)?;
        merge_tables(&mut self.common_labels, &other.common_labels)?;
        merge_tables(&mut self.labels, &other.labels)?;
        merge_tables(&mut self.template_labels, &other.template_labels)?;
        merge_tables(&mut self.common_annotations, &other.common_annotations)?;
        merge_tables(&mut self.var_reference, &other.var_reference)?;
        merge_tables(&mut self.images, &other.images)?;
        merge_tables(&mut self.replicas, &other.replicas)?;
        for reference in &other.name_reference {
            match self.name_reference.iter_mut().find(|known| known.gvk == reference.gvk) {
                Some(known) => merge_specs(&mut known.referrers, &reference.referrers)?,
                None => self.name_reference.push(reference.clone()),
            }
        }
        self.sort();
        Ok(())
    }

    /// As [`merge`](Self::merge), without work where nothing comes of it: nearly all kustomizations have the default
    /// tables, and those merged with themselves or nothing stay as they are.
    pub(crate) fn merge_shared(known: &mut Arc<Self>, more: &Arc<Self>) -> Result<(), BuildError> {
        if Arc::ptr_eq(known, more) {
            return Ok(());
        }
        if Arc::ptr_eq(more, super::default_configuration()) && **known == Self::default() {
            *known = Arc::clone(more);
            return Ok(());
        }
        Arc::make_mut(known).merge(more)
    }

    /// Puts the tables into the order they are worked off in. Which of two overlapping fields stays when tables are
    /// merged depends on it too.
    pub(crate) fn sort(&mut self) {
        let tables = [
            &mut self.name_prefix,
            &mut self.name_suffix,
            &mut self.namespace,
            &mut self.common_labels,
            &mut self.labels,
            &mut self.template_labels,
            &mut self.common_annotations,
            &mut self.var_reference,
            &mut self.images,
            &mut self.replicas,
        ];
        for table in tables {
            // A table in order stays shared.
            if !table.is_sorted_by(|a, b| compare_kinds(&a.gvk, &b.gvk).is_le()) {
                Arc::make_mut(table).sort_by(|a, b| compare_kinds(&a.gvk, &b.gvk));
            }
        }
        self.name_reference.sort_by(|a, b| compare_kinds(&a.gvk, &b.gvk));
    }
}

fn compare_kinds(a: &Gvk, b: &Gvk) -> Ordering {
    rank(&a.kind).cmp(&rank(&b.kind)).then_with(|| compare_gvks(a, b))
}

fn merge_tables(known: &mut Arc<Vec<FieldSpec>>, more: &[FieldSpec]) -> Result<(), BuildError> {
    if more.is_empty() { Ok(()) } else { merge_specs(Arc::make_mut(known), more) }
}

/// Adds the specs of `more` that `specs` does not have.
pub(crate) fn merge_specs(specs: &mut Vec<FieldSpec>, more: &[FieldSpec]) -> Result<(), BuildError> {
    for spec in more {
        match specs.iter().find(|known| known.path == spec.path && known.gvk.is_selected(&spec.gvk)) {
            Some(known) if known.create != spec.create => {
                let message = format!("two configurations of the field `{}` disagree about `create`", spec.path);
                return Err(BuildError::conflict(message));
            }
            Some(_) => {}
            None => specs.push(spec.clone()),
        }
    }
    Ok(())
}
