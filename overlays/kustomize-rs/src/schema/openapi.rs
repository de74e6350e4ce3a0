//! Custom schemas: the `openapi` field of a kustomization.

use foldhash::HashMap;
use yaml::{Limits, Node, Value, parse};

use super::{BuiltinSchema, Definition, Property, Schema};
use crate::error::BuildError;
use crate::id::Gvk;

impl Schema {
    /// Returns the schema of an `OpenAPI` v2 document, with the built-in one unless that has not been asked for. Scopes
    /// stay in any case.
    pub(crate) fn from_openapi(document: &Node, builtin: BuiltinSchema) -> Result<Schema, BuildError> {
        let Some(definitions) = document.get("definitions").and_then(Node::as_mapping) else {
            return Err(BuildError::syntax("the OpenAPI document has no `definitions`"));
        };
        let mut schema = match builtin {
            BuiltinSchema::Unread => {
                Schema { cluster_scoped: Schema::builtin().cluster_scoped.clone(), ..Schema::default() }
            }
            BuiltinSchema::Postponed | BuiltinSchema::Read => Schema::builtin().clone(),
        };
        let known = if builtin == BuiltinSchema::Postponed { schema.names.len() } else { 0 };
        for entry in definitions {
            let next = schema.names.len();
            schema.names.entry(short(&entry.key).to_owned()).or_insert(next);
        }
        let base_length = schema.names.len();
        schema.definitions.resize_with(base_length, Definition::default);
        let names = schema.names.clone();
        let mut reader = Reader { names: &names, extra: Vec::new(), base: base_length };
        for entry in definitions {
            let definition = reader.definition(&entry.value);
            let Some(index) = names.get(short(&entry.key)) else {
                continue;
            };
            if let Some(slot) = schema.definitions.get_mut(*index).filter(|_| *index >= known) {
                *slot = definition;
            }
            let kinds = entry.value.get("x-kubernetes-group-version-kind").and_then(Node::as_sequence);
            for kind in kinds.into_iter().flatten() {
                let part = |name: &str| kind.get(name).and_then(Node::as_str).unwrap_or_default().into();
                let gvk = Gvk { group: part("group"), version: part("version"), kind: part("kind") };
                match schema.kinds.get_mut(&gvk) {
                    Some(old) if *old < known => {}
                    Some(old) => *old = *index,
                    None => {
                        schema.kinds.insert(gvk, *index);
                    }
                }
            }
        }
        schema.definitions.extend(reader.extra);
        schema.add_scopes(document);
        Ok(schema)
    }

    /// Reads the schema in a comment. Where it has definitions inside of it, a schema with those as well comes first.
    pub(crate) fn with_remark(&self, text: &str) -> Option<(Option<Schema>, Property)> {
        let node = parse(text, &Limits::default()).ok()?.into_iter().next()?.root;
        let mut reader = Reader { names: &self.names, extra: Vec::new(), base: self.definitions.len() };
        let property = reader.property(&node);
        let extra = reader.extra;
        let schema = (!extra.is_empty()).then(|| {
            let mut schema = self.clone();
            schema.definitions.extend(extra);
            schema
        });
        Some((schema, property))
    }

    /// A path with `{namespace}` makes its kind namespaced, one without makes it cluster-scoped.
    fn add_scopes(&mut self, document: &Node) {
        for path in document.get("paths").and_then(Node::as_mapping).into_iter().flatten() {
            let Some(kind) = path.value.at(&["get", "x-kubernetes-group-version-kind"]) else {
                continue;
            };
            let part = |name: &str| kind.get(name).and_then(Node::as_str).unwrap_or_default().into();
            let gvk = Gvk { group: part("group"), version: part("version"), kind: part("kind") };
            if path.key.contains("namespaces/{namespace}") {
                self.cluster_scoped.insert(gvk, false);
            } else {
                self.cluster_scoped.entry(gvk).or_insert(true);
            }
        }
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("io.k8s.").unwrap_or(name)
}

/// Inline objects become definitions of their own, behind the named ones.
struct Reader<'a> {
    names: &'a HashMap<String, usize>,
    extra: Vec<Definition>,
    base: usize,
}

impl Reader<'_> {
    fn definition(&mut self, node: &Node) -> Definition {
        let mut definition = Definition::default();
        for entry in node.get("properties").and_then(Node::as_mapping).into_iter().flatten() {
            let property = self.property(&entry.value);
            definition.properties.insert(entry.key.to_string(), property);
        }
        if let Some(additional) = node.get("additionalProperties").filter(|node| node.as_mapping().is_some()) {
            definition.additional = Some(Box::new(self.property(additional)));
        }
        definition
    }

    fn property(&mut self, node: &Node) -> Property {
        let mut property = Property::default();
        if let Some(strategy) = node.get("x-kubernetes-patch-strategy").and_then(Node::as_str) {
            property.set_strategy(strategy);
        }
        match (node.get("x-kubernetes-list-map-keys"), node.get("x-kubernetes-patch-merge-key")) {
            (Some(Node { value: Value::Sequence(keys), .. }), _) => {
                property.keys = keys.iter().filter_map(Node::as_str).map(str::to_owned).collect();
            }
            (_, Some(key)) => property.keys = key.as_str().map(str::to_owned).into_iter().collect(),
            _ => {}
        }
        if let Some(reference) = node.get("$ref").and_then(Node::as_str) {
            property.reference = reference.rsplit('/').next().and_then(|name| self.names.get(short(name))).copied();
        } else if let Some(items) = node.get("items") {
            property.is_list = true;
            if items.get("$ref").is_some() {
                property.reference = self.property(items).reference;
            } else {
                property.items = Some(Box::new(self.property(items)));
            }
        } else if node.get("properties").is_some() || node.get("additionalProperties").is_some() {
            let definition = self.definition(node);
            property.reference = Some(self.base + self.extra.len());
            self.extra.push(definition);
        }
        property
    }
}
