//! The ordered set of objects of a build.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashSet;
use yaml::{Mapping, Node, emit_all_into};

use crate::budget::Budget;
use crate::error::BuildError;
use crate::id::{ResourceId, SameObject};
use crate::object::data_value;
use crate::resource::{Behavior, Resource};
use crate::schema::Schema;

/// Ordered objects with unique names.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    pub(crate) items: Vec<Resource>,
    pub(crate) warnings: Vec<String>,
    /// About how many bytes they have when printed, if that is known.
    pub(crate) printed: usize,
    /// Whether a patch was merged by what the schema says of its object.
    pub(crate) merged_by_schema: bool,
    /// Of the build they belong to.
    pub(crate) budget: Budget,
}

/// The names of all objects, once they were read, as a schema tells them apart.
#[derive(Default)]
pub(crate) struct Names(Option<HashSet<SameObject>>);

impl Resources {
    /// Steps of looking at the names of one object.
    pub(crate) const LOOK: usize = 10;

    /// Iterates in the order of the output.
    pub fn iter(&self) -> std::slice::Iter<'_, Resource> {
        self.items.iter()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns kustomize's warnings, such as deprecated fields, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Prints all objects as kustomize does.
    pub fn to_yaml(&self) -> String {
        let mut out = String::with_capacity(self.printed + self.printed / 16);
        emit_all_into(self.items.iter().map(Resource::node), &mut out);
        out
    }

    /// Adds objects; a name that is there already is an error.
    pub(crate) fn append_all(&mut self, more: Vec<Resource>, schema: &Schema) -> Result<(), BuildError> {
        self.append(more, &mut Names::default(), schema)
    }

    /// As [`Self::append_all`], with the names that are there: nothing but appending was done since they were read, by this schema.
    pub(crate) fn append(&mut self, more: Vec<Resource>, names: &mut Names, schema: &Schema) -> Result<(), BuildError> {
        if more.is_empty() {
            return Ok(());
        }
        let names = match &mut names.0 {
            Some(names) => names,
            none => {
                self.budget.spend(self.items.len() * Self::LOOK)?;
                none.insert(self.items.iter().map(|resource| SameObject(resource.id(schema))).collect())
            }
        };
        names.reserve(more.len());
        for resource in &more {
            let id = resource.id(schema);
            if names.insert(SameObject(Arc::clone(&id))) {
                continue;
            }
            let earlier = self.items.iter().chain(&more).find(|other| other.id(schema).same_object(&id));
            let mut error = BuildError::conflict(format!("the object {id} is there already"));
            if let Some(earlier) = earlier.filter(|earlier| !earlier.origin.file.is_empty()) {
                error = error.hint(format!("it was read at {}:{}", earlier.origin.file, earlier.origin.line));
            }
            let file = &resource.origin.file;
            return Err(if file.is_empty() { error } else { error.at(file, resource.node.span) });
        }
        if self.items.is_empty() {
            self.items = more;
        } else {
            self.items.extend(more);
        }
        Ok(())
    }

    /// Indices of the objects that have or had a name that `fits`.
    pub(crate) fn matching_any_id(&self, schema: &Schema, fits: impl Fn(&ResourceId) -> bool) -> Vec<usize> {
        let any = |resource: &Resource| resource.previous_ids().any(|id| fits(&id)) || fits(&resource.id(schema));
        self.items.iter().enumerate().filter(|(_, resource)| any(resource)).map(|(index, _)| index).collect()
    }

    /// The one object that has or had the name `id`.
    pub(crate) fn unique(&self, id: &ResourceId, schema: &Schema) -> Result<usize, BuildError> {
        self.budget.spend(self.items.len() * Self::LOOK)?;
        match self.matching_any_id(schema, |other| other.same_object(id)).as_slice() {
            [index] => Ok(*index),
            [] => Err(BuildError::conflict(format!("no object has the name {id}"))),
            _ => Err(BuildError::conflict(format!("several objects have or had the name {id}"))),
        }
    }

    /// Adds generated objects by their behaviour.
    pub(crate) fn absorb(&mut self, generated: Vec<Resource>, schema: &Schema) -> Result<(), BuildError> {
        for mut resource in generated {
            let id = resource.id(schema);
            self.budget.spend(self.items.len() * Self::LOOK)?;
            let matches = self.matching_any_id(schema, |other| other.same_object(&id));
            let merges = matches!(resource.behavior, Behavior::Merge | Behavior::Replace);
            match (matches.as_slice(), merges) {
                ([], false) => self.append_all(vec![resource], schema)?,
                ([], true) => {
                    let message = format!("the object {id} is not there, it cannot be merged or replaced");
                    return Err(BuildError::conflict(message));
                }
                ([index], true) => {
                    if let Some(old) = self.items.get_mut(*index) {
                        inherit(&mut resource, old);
                        *old = resource;
                    }
                }
                ([_], false) => {
                    let message = format!("the object {id} is there already");
                    return Err(BuildError::conflict(message).hint("set `behavior: merge` or `behavior: replace`"));
                }
                _ => return Err(BuildError::conflict(format!("several objects could take the generated {id}"))),
            }
        }
        Ok(())
    }
}

/// Gives a generated object the name and metadata of the one it replaces, and the data too where it merges.
fn inherit(resource: &mut Resource, old: &Resource) {
    for field in ["labels", "annotations"] {
        // Of equal keys the last counts.
        let pairs: BTreeMap<_, _> = old.metadata_map(field).into_iter().chain(resource.metadata_map(field)).collect();
        let pairs = pairs.into_iter().map(|(key, value)| (key, Node::made(value)));
        // Behind everything else.
        resource.set_metadata_map(field, Mapping::new());
        resource.set_metadata_map(field, pairs.collect());
    }
    resource.set_metadata("name", &old.name());
    resource.set_metadata("namespace", &old.namespace());
    if resource.behavior == Behavior::Merge {
        merge_data(resource, old);
        resource.origin = old.origin.clone();
    }
    resource.needs_hash &= old.needs_hash;
    resource.behavior = old.behavior;
    resource.previous.clone_from(&old.previous);
    resource.prefixes.clone_from(&old.prefixes);
    resource.suffixes.clone_from(&old.suffixes);
    resource.allow_name_change = old.allow_name_change;
    resource.allow_kind_change = old.allow_kind_change;
    resource.from_chart = old.from_chart;
    resource.variables.clone_from(&old.variables);
    if resource.transformations.is_empty() {
        resource.transformations.clone_from(&old.transformations);
    }
    // What kustomize keeps in annotations, it has written anew behind the labels.
    resource.labels_are_followed = resource.has_state() && resource.node.at(&["metadata", "labels"]).is_some();
}

fn merge_data(resource: &mut Resource, old: &Resource) {
    for field in ["data", "binaryData"] {
        let mut merged = Mapping::new();
        for source in [old.node.get(field), resource.node.get(field)] {
            let mut source = source.and_then(Node::as_mapping).cloned().unwrap_or_default();
            // Of a key that is there twice, the first counts.
            source.drop_repeated();
            for entry in &source {
                merged.insert(entry.key.clone(), data_value(entry.value.to_text()));
            }
        }
        if let Some(object) = resource.node.as_mapping_mut() {
            object.remove(field);
            if !merged.is_empty() {
                object.insert(field, merged);
            }
        }
    }
}
