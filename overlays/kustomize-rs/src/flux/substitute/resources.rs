//! Substitution in built objects: each is printed, expanded as text, and read again.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use foldhash::{HashMap, HashMapExt as _};
use regex::Regex;
use yaml::{Limits, Node, Rules, Value, emit, parse_with};

use super::allowance::Allowance;
use super::{Missing, Template, TemplateError};
use crate::error::{BuildError, BuildErrorKind};
use crate::flux::Sources;
use crate::flux::kustomization::{PostBuild, SubstituteStrategy};
use crate::flux::readable;
use crate::id::SameObject;
use crate::resource::{Resource, Resources};
use crate::schema::Schema;

/// Label or annotation of an object that is to stay as it is, with the value `disabled`.
const MARK: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// What [`PostBuild`] says, for all objects in their order.
pub(in crate::flux) fn substitute(
    resources: &mut Resources,
    post_build: &PostBuild,
    sources: &Sources,
    missing: Missing,
    limits: &Limits,
) -> Result<(), BuildError> {
    let takes_part: Vec<bool> = resources.items.iter().map(|resource| !is_marked(resource)).collect();
    if !takes_part.contains(&true) {
        return Ok(());
    }
    let variables = variables(post_build, sources)?;
    if variables.is_empty() && post_build.substitute_strategy == SubstituteStrategy::WithVariables {
        return Ok(());
    }
    check_names(&variables)?;
    let schema = Schema::builtin();
    let mut names = HashMap::new();
    for resource in &resources.items {
        *names.entry(SameObject(resource.id(schema))).or_insert(0) += 1;
    }
    let allowance = Allowance::new(resources.budget.clone(), limits.bytes);
    for (resource, _) in resources.items.iter_mut().zip(takes_part).filter(|(_, takes_part)| *takes_part) {
        let before = resource.id(schema);
        one(resource, &variables, missing, limits, &allowance)?;
        readable::check_substituted(resource)?;
        let after = resource.id(schema);
        *names.entry(SameObject(before)).or_insert(1) -= 1;
        let count = names.entry(SameObject(Arc::clone(&after))).or_insert(0);
        *count += 1;
        if *count > 1 {
            let message = format!("after the substitution there are several objects {after}");
            return Err(at_origin(BuildError::conflict(message), resource));
        }
    }
    Ok(())
}

fn is_marked(resource: &Resource) -> bool {
    ["labels", "annotations"].iter().any(|field| {
        let value = resource.node.at(&["metadata", field]).and_then(|pairs| pairs.get(MARK));
        value.and_then(Node::scalar_text).is_some_and(|text| text == "disabled")
    })
}

/// All values; later sources win, and the values of the object itself win over all of them. Line breaks go away.
fn variables(post_build: &PostBuild, sources: &Sources) -> Result<BTreeMap<String, String>, BuildError> {
    let mut variables = BTreeMap::new();
    for reference in &post_build.substitute_from {
        match sources.get(reference.kind, &reference.name) {
            Some(values) => variables.extend(values.clone()),
            None if reference.optional => {}
            None => {
                let message = format!(
                    "the {} `{}` of `spec.postBuild.substituteFrom` is not there",
                    reference.kind, reference.name
                );
                let hint = "give its values, or set `optional: true` on the reference";
                return Err(BuildError::new(BuildErrorKind::File, message).hint(hint));
            }
        }
    }
    variables.extend(post_build.substitute.clone());
    variables.values_mut().for_each(|value| value.retain(|character| character != '\n'));
    Ok(variables)
}

fn check_names(variables: &BTreeMap<String, String>) -> Result<(), BuildError> {
    static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^[_A-Za-z][_A-Za-z0-9]*$").ok());
    match variables.keys().find(|name| !NAME.as_ref().is_some_and(|rule| rule.is_match(name))) {
        Some(name) => {
            let message = format!("`{name}` cannot be the name of a variable");
            Err(BuildError::syntax(message).hint("use ASCII letters, digits and `_`, and no digit at the beginning"))
        }
        None => Ok(()),
    }
}

fn one(
    resource: &mut Resource,
    variables: &BTreeMap<String, String>,
    missing: Missing,
    limits: &Limits,
    allowance: &Allowance,
) -> Result<(), BuildError> {
    let text = emit(&resource.node);
    if Template::stays(&text) {
        resource.node.through_json();
        return Ok(());
    }
    let value_of = |name: &str| variables.get(name).map(String::as_str);
    let expanded = Template::parse(&text).and_then(|template| template.expand_within(&value_of, missing, allowance));
    let expanded = expanded.map_err(|error| at_origin(of_template(&error), resource))?;
    let document = parse_with(&expanded, limits, Rules::V2).map_err(|error| {
        let (line, column) = (error.line, error.column);
        let reason = without_quotes(&error.message);
        let message = format!("after the substitution it is no YAML: line {line}, column {column}: {reason}");
        at_origin(
            BuildError::syntax(message).hint("put expressions in quotes whose values hold `:`, `#` or quotes"),
            resource,
        )
    })?;
    let root = document.into_iter().next().map(|document| document.root);
    let Some(mut root @ Node { value: Value::Mapping(_), .. }) = root else {
        return Err(at_origin(BuildError::syntax("after the substitution it is not an object"), resource));
    };
    if root.find_infinite().is_some() {
        let error = BuildError::syntax("after the substitution it has a number that is infinite or none at all");
        return Err(at_origin(error.hint("put the expression in quotes"), resource));
    }
    root.through_json();
    take_places(&mut root, Some(&resource.node));
    *resource.node = root;
    Ok(())
}

fn of_template(error: &TemplateError) -> BuildError {
    let message = format!("its variables cannot be replaced: {} in `{}`", error.kind, error.expression);
    let kind = match error.kind {
        super::TemplateErrorKind::TooExpensive => BuildErrorKind::Limit,
        super::TemplateErrorKind::NotSet => BuildErrorKind::Transform,
        _ => BuildErrorKind::Syntax,
    };
    BuildError::new(kind, message).hint(error.kind.hint())
}

fn at_origin(error: BuildError, resource: &Resource) -> BuildError {
    let error = error.context(format_args!("{} `{}`", resource.kind(), resource.name()));
    if resource.origin.file.is_empty() {
        return error;
    }
    let mut error = error.in_file(&resource.origin.file);
    (error.line, error.column) = (resource.origin.line, usize::from(resource.origin.line > 0));
    error
}

/// What is quoted in a message may be of a value, and values may be secret.
fn without_quotes(message: &str) -> String {
    let parts = message.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { "`…`" }).collect()
}

/// What was there before keeps its place in the source; what is new has none.
fn take_places(node: &mut Node, before: Option<&Node>) {
    node.span = before.map(|before| before.span).unwrap_or_default();
    match &mut node.value {
        Value::Sequence(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                take_places(item, before.and_then(Node::as_sequence).and_then(|items| items.get(index)));
            }
        }
        Value::Mapping(mapping) => {
            for entry in mapping.iter_mut() {
                let found = before.and_then(Node::as_mapping).and_then(|mapping| mapping.entry(&entry.key));
                entry.key_span = found.map(|entry| entry.key_span).unwrap_or_default();
                take_places(&mut entry.value, found.map(|entry| &entry.value));
            }
        }
        _ => {}
    }
}
