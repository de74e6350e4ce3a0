//! What kustomize knows about Kubernetes kinds: default field paths, scopes, merge keys.
//!
//! `tables.txt` holds one fact per line, made by `examples/make_tables.rs`:
//!
//! - `table NAME GROUP VERSION KIND create|- PATH`: a default field path of a transformer,
//! - `reference GROUP VERSION KIND` and `field GROUP VERSION KIND create|- PATH` below it: who refers to that kind,
//! - `cluster|namespaced APIVERSION KIND`: the scope of a kind,
//! - `definition NAME`, and below it `kind GROUP VERSION KIND` and `property NAME [list] [ref=..] [strategy=..]
//!   [keys=..]`: the merge keys. Properties that lead to none are left out.

mod configuration;
pub(crate) mod kind_order;
mod openapi;

use std::sync::{Arc, OnceLock};

use foldhash::{HashMap, HashMapExt as _};
use yaml::Text;

use crate::id::Gvk;

pub use configuration::{Configuration, FieldSpec, NameReference, split_path};
pub(crate) use configuration::{field_names, merge_specs};

/// How far kustomize has come with its own schema when a custom one comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuiltinSchema {
    /// Nobody has asked: the custom one is alone.
    #[default]
    Unread,
    /// It knew enough about scopes without reading it: it reads it after the custom one, which loses what both define.
    Postponed,
    /// It is there: the custom one comes on top.
    Read,
}

/// Scopes and merge keys of kinds: the built-in ones, perhaps with those of a custom schema.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Places of the definitions by name, without `io.k8s.`.
    names: HashMap<String, usize>,
    definitions: Vec<Definition>,
    kinds: HashMap<Gvk, usize>,
    cluster_scoped: HashMap<Gvk, bool>,
}

#[derive(Debug, Clone, Default)]
struct Definition {
    properties: HashMap<String, Property>,
    /// Of every key that is not named.
    additional: Option<Box<Property>>,
}

/// What is known about one field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Property {
    is_list: bool,
    reference: Option<usize>,
    merges: bool,
    has_strategy: bool,
    keys: Vec<String>,
    /// Items of items: a list in a list.
    items: Option<Box<Property>>,
}

/// A place in a schema while walking an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'s> {
    Definition(usize),
    Property(&'s Property),
}

impl Schema {
    /// Returns the schema of Kubernetes as kustomize has it built in.
    pub fn builtin() -> &'static Schema {
        &tables().0
    }

    /// The same, to hold on to.
    pub(crate) fn shared_builtin() -> Arc<Schema> {
        Arc::clone(&tables().0)
    }

    /// Says whether the kind is known to live outside of namespaces.
    pub fn is_cluster_scoped(&self, gvk: &Gvk) -> bool {
        self.cluster_scoped.get(gvk).copied().unwrap_or(false)
    }

    /// Says whether the scope of the kind is known.
    pub(crate) fn knows_scope(&self, gvk: &Gvk) -> bool {
        self.cluster_scoped.contains_key(gvk)
    }

    pub(crate) fn root(&self, gvk: &Gvk) -> Option<Place<'_>> {
        self.kinds.get(gvk).map(|index| Place::Definition(*index))
    }

    /// The place of a field below `place`.
    pub(crate) fn field<'s>(&'s self, place: Place<'s>, name: &str) -> Option<Place<'s>> {
        let definition = match place {
            Place::Definition(index) => index,
            Place::Property(property) if !property.is_list => property.reference?,
            Place::Property(_) => return None,
        };
        let definition = self.definitions.get(definition)?;
        definition.properties.get(name).or(definition.additional.as_deref()).map(Place::Property)
    }

    /// The place of the items of a list.
    pub(crate) fn items<'s>(&'s self, place: Place<'s>) -> Option<Place<'s>> {
        match place {
            Place::Property(property) if property.is_list => match &property.items {
                Some(items) => Some(Place::Property(items)),
                None => property.reference.map(Place::Definition),
            },
            _ => None,
        }
    }
}

impl Place<'_> {
    /// The keys that items of this list merge by; `None` where the list is replaced as a whole. No keys: a set.
    pub(crate) fn merge_keys(&self) -> Option<&[String]> {
        match self {
            Place::Property(property) if property.merges => Some(&property.keys),
            _ => None,
        }
    }
}

/// Returns the default field paths of all transformers.
pub(crate) fn default_configuration() -> &'static Arc<Configuration> {
    &tables().1
}

fn tables() -> &'static (Arc<Schema>, Arc<Configuration>) {
    static TABLES: OnceLock<(Arc<Schema>, Arc<Configuration>)> = OnceLock::new();
    TABLES.get_or_init(|| {
        let (schema, configuration) = read_tables(include_str!("tables.txt"));
        (Arc::new(schema), Arc::new(configuration))
    })
}

fn read_tables(text: &str) -> (Schema, Configuration) {
    let mut schema = Schema::default();
    let mut configuration = Configuration::default();
    let mut names: HashMap<&str, usize> = HashMap::new();
    for name in text.lines().filter_map(|line| line.strip_prefix("definition ")) {
        names.insert(name, names.len());
    }
    schema.definitions.resize_with(names.len(), Definition::default);
    schema.names = names.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect();
    let mut current = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["table", table, rest @ ..] => {
                if let (Some(spec), Some(specs)) = (field_spec(rest), configuration.table_mut(table)) {
                    specs.push(spec);
                }
            }
            ["reference", group, version, kind] => {
                let gvk = gvk(group, version, kind);
                configuration.name_reference.push(NameReference { gvk, referrers: Vec::new() });
            }
            ["field", rest @ ..] => {
                if let (Some(spec), Some(reference)) = (field_spec(rest), configuration.name_reference.last_mut()) {
                    reference.referrers.push(spec);
                }
            }
            [scope @ ("cluster" | "namespaced"), api_version, kind] => {
                schema.cluster_scoped.insert(Gvk::new(api_version, kind), *scope == "cluster");
            }
            ["definition", name] => current = names.get(name).copied().unwrap_or(0),
            ["kind", group, version, kind] => {
                schema.kinds.insert(gvk(group, version, kind), current);
            }
            ["property", name, rest @ ..] => {
                if let Some(definition) = schema.definitions.get_mut(current) {
                    definition.properties.insert((*name).to_owned(), property(rest, &names));
                }
            }
            _ => {}
        }
    }
    configuration.sort();
    (schema, configuration)
}

fn gvk(group: &str, version: &str, kind: &str) -> Gvk {
    let part = |text: &str| if text == "-" { Text::default() } else { text.into() };
    Gvk { group: part(group), version: part(version), kind: part(kind) }
}

fn field_spec(words: &[&str]) -> Option<FieldSpec> {
    let [group, version, kind, create, path] = words else {
        return None;
    };
    Some(FieldSpec::new(gvk(group, version, kind), path, *create == "create"))
}

fn property(words: &[&str], names: &HashMap<&str, usize>) -> Property {
    let mut property = Property::default();
    for word in words {
        match word.split_once('=') {
            None => property.is_list = *word == "list",
            Some(("ref", name)) => property.reference = names.get(name).copied(),
            Some(("strategy", strategy)) => property.set_strategy(strategy),
            Some(("keys", keys)) => property.keys = keys.split(',').map(str::to_owned).collect(),
            Some(_) => {}
        }
    }
    property
}

impl Property {
    /// Says whether items of this list meet those of a patch.
    pub(crate) fn merges(&self) -> bool {
        self.merges
    }

    fn set_strategy(&mut self, strategy: &str) {
        self.has_strategy = true;
        self.merges = strategy.split(',').any(|word| word == "merge");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(api_version: &str, kind: &str, path: &[&str]) -> Option<Vec<String>> {
        let schema = Schema::builtin();
        let mut place = schema.root(&Gvk::new(api_version, kind))?;
        for name in path {
            place = if *name == "[]" { schema.items(place)? } else { schema.field(place, name)? };
        }
        place.merge_keys().map(<[String]>::to_vec)
    }

    #[test]
    fn lists_merge_by_the_keys_of_the_api() {
        let pod = ["spec", "template", "spec"];
        let at = |rest: &[&'static str]| [&pod[..], rest].concat();
        assert_eq!(keys("apps/v1", "Deployment", &at(&["containers"])), Some(vec!["name".into()]));
        let ports = at(&["containers", "[]", "ports"]);
        assert_eq!(keys("apps/v1", "Deployment", &ports), Some(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(keys("apps/v1", "Deployment", &at(&["tolerations"])), None);
        assert_eq!(keys("v1", "Pod", &["metadata", "finalizers"]), Some(vec![]));
        assert_eq!(keys("example.com/v1", "Deployment", &["spec"]), None);
    }

    #[test]
    fn scopes_and_default_paths_are_there() {
        assert!(Schema::builtin().is_cluster_scoped(&Gvk::new("v1", "Namespace")));
        assert!(!Schema::builtin().is_cluster_scoped(&Gvk::new("v1", "Pod")));
        assert!(!Schema::builtin().is_cluster_scoped(&Gvk::new("example.com/v1", "Thing")));
        let configuration = default_configuration();
        assert_eq!(configuration.name_reference.len(), 16);
        assert_eq!(configuration.name_reference.iter().map(|reference| reference.referrers.len()).sum::<usize>(), 167);
        assert_eq!(configuration.common_labels.len(), 32);
        assert_eq!(configuration.var_reference.len(), 72);
    }

    #[test]
    fn the_default_paths_merged_with_themselves_or_nothing_stay_the_default_paths() {
        for start in [Configuration::default(), (**default_configuration()).clone()] {
            let mut merged = start;
            merged.merge(default_configuration()).unwrap();
            assert_eq!(merged, **default_configuration());
        }
    }
}
