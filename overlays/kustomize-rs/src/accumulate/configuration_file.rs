//! Files named in `configurations` and `crds`: more fields for the transformers.

use std::sync::Arc;

use yaml::{Document, Limits, Node, Rules, Text, decode, parse_with};

use crate::error::BuildError;
use crate::id::Gvk;
use crate::kustomization::{fields::Fields, spec};
use crate::schema::{Configuration, FieldSpec, NameReference};

/// Reads the first document. Of a repeated key the last counts.
fn parse(bytes: &[u8], file: &str, limits: &Limits, rules: Rules) -> Result<Option<Document>, BuildError> {
    let text = decode(bytes).map_err(|error| BuildError::from_yaml(error, file))?;
    let documents = parse_with(&text, limits, rules).map_err(|error| BuildError::from_yaml(error, file))?;
    Ok(documents.into_iter().next())
}

/// Reads a configuration file.
pub(crate) fn read(bytes: &[u8], file: &str, limits: &Limits) -> Result<Configuration, BuildError> {
    let mut configuration = Configuration::default();
    let Some(Document { root, duplicates }) = parse(bytes, file, limits, Rules::V2)? else {
        return Ok(configuration);
    };
    if let Some((key, span)) = duplicates.first() {
        return Err(BuildError::syntax(format!("the key `{key}` is there twice")).at(file, *span));
    }
    let mut fill = || {
        let fields = Fields::new(&root, "", true)?;
        for table in Configuration::TABLES {
            let specs = fields.objects(table, spec::field_spec)?;
            if let Some(slot) = configuration.table_mut(table) {
                *slot = specs;
            }
        }
        configuration.name_reference = fields.objects("nameReference", |reference| {
            Ok(NameReference {
                gvk: spec::gvk(reference)?,
                referrers: reference.objects("fieldSpecs", spec::field_spec)?,
            })
        })?;
        fields.finish()
    };
    fill().map_err(|error: BuildError| error.in_file(file))?;
    configuration.sort();
    Ok(configuration)
}

/// Reads a file of `OpenAPI` definitions whose properties say what they refer to.
pub(crate) fn read_crds(bytes: &[u8], file: &str, limits: &Limits) -> Result<Configuration, BuildError> {
    let mut configuration = Configuration::default();
    let rules = if bytes.starts_with(b"{") { Rules::Json } else { Rules::V2 };
    let Some(Document { root, .. }) = parse(bytes, file, limits, rules)? else {
        return Ok(configuration);
    };
    let Some(definitions) = root.as_mapping() else {
        return Err(BuildError::syntax("the file must be a map of OpenAPI definitions").in_file(file));
    };
    for entry in definitions {
        if entry.value.as_mapping().is_none() && !entry.value.is_null() {
            let message = format!("the definition `{}` must be a map", entry.key);
            return Err(BuildError::syntax(message).at(file, entry.value.span));
        }
        for (name, check) in [("dependencies", check_dependencies as fn(&Node) -> _), ("schema", check_schema)] {
            let given = entry.value.as_mapping().into_iter().flatten();
            let mut given = given.filter(|field| field.key.eq_ignore_ascii_case(name) && !field.value.is_null());
            given.try_for_each(|field| check(&field.value)).map_err(|error| error.in_file(file))?;
        }
        let properties = entry.value.at(&["Schema", "properties"]).and_then(Node::as_mapping);
        let is_object = ["kind", "apiVersion", "metadata"]
            .iter()
            .all(|name| properties.is_some_and(|properties| properties.contains_key(name)));
        if is_object {
            let kind = entry.key.rsplit('.').next().unwrap_or_default();
            let gvk = Gvk { kind: kind.into(), ..Gvk::default() };
            let mut walker = Walker { root: &root, gvk, found: Configuration::default(), steps: 0 };
            walker.walk(&entry.key, &mut Vec::new()).map_err(|error| error.in_file(file))?;
            configuration.merge(&walker.found)?;
        }
    }
    Ok(configuration)
}

fn misshapen(node: &Node, message: &str) -> BuildError {
    let mut error = BuildError::syntax(message);
    (error.line, error.column) = (node.span.line(), node.span.column());
    error
}

fn is_name(node: &Node) -> bool {
    node.is_null() || node.as_str().is_some()
}

/// Nothing is made of the names that a definition depends on, but they have to be names.
fn check_dependencies(names: &Node) -> Result<(), BuildError> {
    match names.as_sequence() {
        Some(names) if names.iter().all(is_name) => Ok(()),
        _ => Err(misshapen(names, "`Dependencies` must be a list of names")),
    }
}

/// A schema is a map, and so are its properties.
fn check_schema(schema: &Node) -> Result<(), BuildError> {
    let Some(fields) = schema.as_mapping() else {
        return Err(misshapen(schema, "a schema must be a map"));
    };
    if let Some(kind) = fields.get("type")
        && !is_name(kind)
        && !kind.as_sequence().is_some_and(|kinds| kinds.iter().all(is_name))
    {
        return Err(misshapen(kind, "the `type` of a schema must be a name or a list of names"));
    }
    let Some(properties) = fields.get("properties").filter(|node| !node.is_null()) else {
        return Ok(());
    };
    let Some(properties) = properties.as_mapping() else {
        return Err(misshapen(properties, "the `properties` of a schema must be a map"));
    };
    let mut given = properties.iter().filter(|entry| !entry.value.is_null());
    given.try_for_each(|entry| check_schema(&entry.value))
}

struct Walker<'n> {
    root: &'n Node,
    gvk: Gvk,
    found: Configuration,
    steps: usize,
}

impl<'n> Walker<'n> {
    fn walk(&mut self, name: &str, path: &mut Vec<&'n str>) -> Result<(), BuildError> {
        const MOST_STEPS: usize = 10_000;
        const DEEPEST: usize = 50;
        self.steps += 1;
        if self.steps > MOST_STEPS || path.len() > DEEPEST {
            return Err(BuildError::conflict(format!("the definition of `{name}` contains itself")));
        }
        let Some(definition) = self.root.get(name) else {
            return Ok(());
        };
        let properties = definition.at(&["Schema", "properties"]).and_then(Node::as_mapping);
        for entry in properties.into_iter().flatten() {
            path.push(&entry.key);
            self.property(&entry.value, path)?;
            path.pop();
        }
        Ok(())
    }

    fn property(&mut self, property: &Node, path: &mut Vec<&'n str>) -> Result<(), BuildError> {
        let text = |key: &str| property.get(key).and_then(Node::as_str);
        let spec = |path: &[&str]| FieldSpec::new(self.gvk.clone(), &path.join("/"), false);
        let mut found = Configuration::default();
        if text("x-kubernetes-annotation").is_some() {
            Arc::make_mut(&mut found.common_annotations).push(spec(path));
        }
        if text("x-kubernetes-label-selector").is_some() {
            Arc::make_mut(&mut found.common_labels).push(spec(path));
        }
        if text("x-kubernetes-identity").is_some() {
            Arc::make_mut(&mut found.name_prefix).push(spec(path));
        }
        if let (Some(version), Some(kind)) =
            (text("x-kubernetes-object-ref-api-version"), text("x-kubernetes-object-ref-kind"))
        {
            let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
            let gvk = Gvk { group: Text::default(), version: version.into(), kind: kind.into() };
            let referrer = spec(&[&path[..], &[key]].concat());
            found.name_reference.push(NameReference { gvk, referrers: vec![referrer] });
        }
        self.found.merge(&found)?;
        match text("$ref") {
            Some(reference) => self.walk(reference, path),
            None => Ok(()),
        }
    }
}
