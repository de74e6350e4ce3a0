//! `vars`: `$(NAME)` in the fields that may hold one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use yaml::{Node, Style, Value};

use super::field::{Create, apply};
use super::path::{look_up, split};
use crate::budget::Budget;
use crate::error::BuildError;
use crate::kustomization::spec::Variable;
use crate::resource::{Resource, Resources};
use crate::schema::{FieldSpec, Schema};

/// All variables of a build, by name.
pub(crate) type Variables = BTreeMap<String, Variable>;

/// Adds the variables of one kustomization and marks the objects they mean.
pub(crate) fn collect(
    known: &mut Variables,
    resources: &mut Resources,
    incoming: &[Variable],
    schema: &Schema,
) -> Result<(), BuildError> {
    for variable in incoming {
        let mut wanted = variable.object.clone();
        wanted.cluster_scoped = schema.is_cluster_scoped(&wanted.gvk);
        let any_namespace = wanted.namespace.is_empty() && !wanted.cluster_scoped;
        let matches = resources.matching_any_id(schema, |id| {
            if any_namespace { id.name == wanted.name && id.gvk == wanted.gvk } else { id.same_object(&wanted) }
        });
        match matches.as_slice() {
            [] => {}
            [index] => {
                if let Some(resource) = resources.items.get_mut(*index) {
                    resource.variables.push(variable.name.clone());
                }
            }
            _ => {
                let message = format!("the variable `{}` fits {} objects", variable.name, matches.len());
                return Err(BuildError::conflict(message).hint("give its `objref` a namespace"));
            }
        }
    }
    merge(known, incoming.iter().cloned())
}

/// Adds variables; a name that is there already is an error.
pub(crate) fn merge(known: &mut Variables, more: impl IntoIterator<Item = Variable>) -> Result<(), BuildError> {
    for variable in more {
        let name = variable.name.clone();
        if known.insert(name.clone(), variable).is_some() {
            return Err(BuildError::conflict(format!("the variable `{name}` is defined twice")));
        }
    }
    Ok(())
}

/// Replaces all variables in all objects. Returns the names of those that no object uses.
pub(crate) fn resolve(
    resources: &mut Resources,
    known: &Variables,
    fields: &[FieldSpec],
) -> Result<Vec<String>, BuildError> {
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let mut values: BTreeMap<&str, Value> = BTreeMap::new();
    for variable in known.values() {
        values.insert(&variable.name, value_of(variable, &resources.items)?);
    }
    let mut values = Values { values, used: BTreeSet::new(), budget: resources.budget.clone() };
    for resource in &mut resources.items {
        let gvk = resource.gvk();
        for spec in fields {
            apply(resource, &gvk, spec, Create::Never, &mut |node| expand_node(node, &mut values))?;
            // kustomize keeps earlier names in annotations, and a variable in one of them counts as used.
            if spec.path == "metadata/annotations" && gvk.is_selected(&spec.gvk) {
                for name in resource.previous.iter().map(|previous| &previous.name) {
                    expand(name, &mut values);
                }
            }
        }
        resource.settle();
    }
    let Values { values, used, .. } = values;
    Ok(values.into_keys().filter(|name| !used.contains(*name)).map(str::to_owned).collect())
}

/// The values of all variables, and which were used.
struct Values<'v> {
    values: BTreeMap<&'v str, Value>,
    used: BTreeSet<String>,
    budget: Budget,
}

fn value_of(variable: &Variable, resources: &[Resource]) -> Result<Value, BuildError> {
    let Some(resource) = resources.iter().find(|resource| resource.variables.contains(&variable.name)) else {
        let message = format!("the variable `{}` means {}, which is not there", variable.name, variable.object);
        return Err(BuildError::transform(message));
    };
    let path = indices(&split(&variable.field_path));
    match look_up(&resource.node, &path)? {
        Some(node) => typed_value(node).ok_or_else(|| {
            let text = node.scalar_text().unwrap_or_default();
            let message =
                format!("the field `{}` of the variable `{}` is `{text}`", variable.field_path, variable.name);
            let mut error = BuildError::transform(message).hint("write numbers in decimal digits, or in quotes");
            (error.line, error.column) = (node.span.line(), node.span.column());
            error
        }),
        None => {
            let message = format!("the field `{}` of the variable `{}` is missing", variable.field_path, variable.name);
            Err(BuildError::transform(message))
        }
    }
}

/// The value of a field as Go's own number reader takes its text, which knows less than YAML: `0x1f` is not a number to it,
/// and `010` is ten.
fn typed_value(node: &Node) -> Option<Value> {
    let text = node.scalar_text();
    match (&node.value, text) {
        _ if node.style() == Style::TypeMismatch => None,
        (Value::Int(_) | Value::Uint(_), Some(text)) => text.parse().ok().map(Value::Int),
        (Value::Float(number), Some(text)) => {
            let is_go = number.is_finite() && !text.contains('_') && text.parse::<f64>().is_ok();
            is_go.then_some(Value::Float(*number))
        }
        // What has no type of its own is taken as it is written.
        (Value::Null | Value::String(_), Some(text)) => Some(Value::String(text.into())),
        (other, _) => Some(other.clone()),
    }
}

/// `a[0]` is `a`, then `0`.
fn indices(path: &[String]) -> Vec<String> {
    let mut result = Vec::new();
    for part in path {
        let split = part.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
        match split {
            Some((name, index)) if !name.is_empty() && index.parse::<usize>().is_ok() => {
                result.extend([name.to_owned(), index.to_owned()]);
            }
            _ => result.push(part.clone()),
        }
    }
    result
}

/// A text in which variables are looked for: also what kustomize made itself and gave no type. A `<<` that was read
/// without quotes is none, even where it merges nothing.
fn text_of(node: &Node) -> Option<Cow<'_, str>> {
    if node.style() == Style::Untyped {
        return node.scalar_text();
    }
    let is_read = match node.style() {
        Style::Plain => node.span.line() > 0,
        style => style == Style::Written,
    };
    node.untyped_text().filter(|text| !(*text == "<<" && is_read)).map(Cow::Borrowed)
}

fn expand_node(node: &mut Node, values: &mut Values<'_>) -> Result<(), BuildError> {
    let mut expand = |text: &str| {
        values.budget.grow(growth(text, &values.values))?;
        Ok::<_, BuildError>(expand(text, values))
    };
    match &mut node.value {
        Value::Mapping(mapping) => {
            for entry in mapping.iter_mut() {
                if let Some(text) = text_of(&entry.value) {
                    let expanded = expand(&text)?;
                    entry.value.set_plainly(expanded);
                }
            }
        }
        Value::Sequence(items) => {
            for item in items.iter_mut() {
                let Some(text) = text_of(item) else {
                    return Err(BuildError::transform("a list with variables holds something that is not text"));
                };
                let expanded = expand(&text)?;
                item.set_plainly(expanded);
            }
        }
        _ => {
            if let Some(text) = text_of(node) {
                let expanded = expand(&text)?;
                node.set_plainly(expanded);
            }
        }
    }
    Ok(())
}

/// Bytes that the variables in a text may add at most.
fn growth(text: &str, values: &BTreeMap<&str, Value>) -> usize {
    let count = text.matches("$(").count();
    if count == 0 {
        return 0;
    }
    let length = |value: &Value| if let Value::String(text) = value { text.len() } else { 32 };
    count.saturating_mul(values.values().map(length).max().unwrap_or(0))
}

/// Replaces `$(NAME)`; `$$` is one dollar sign. A text that is one variable takes its type.
fn expand(text: &str, values: &mut Values<'_>) -> Value {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let after = from.get(1..).unwrap_or_default();
        let Some(next) = after.chars().next() else {
            break;
        };
        out.push_str(before);
        match (next, after.find(')')) {
            ('(', Some(end)) => {
                let name = after.get(1..end).unwrap_or_default();
                rest = after.get(end + 1..).unwrap_or_default();
                match values.values.get(name) {
                    Some(value) if !matches!(value, Value::Sequence(_) | Value::Mapping(_)) => {
                        if !values.used.contains(name) {
                            values.used.insert(name.to_owned());
                        }
                        if text.len() == name.len() + 3 {
                            return value.clone();
                        }
                        out.push_str(&Node::new(value.clone()).scalar_text().unwrap_or_default());
                    }
                    _ => out.push_str(&format!("$({name})")),
                }
            }
            ('$', _) => {
                out.push('$');
                rest = after.get(1..).unwrap_or_default();
            }
            _ => {
                out.push('$');
                out.push(next);
                rest = after.get(next.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    Value::String(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_and_dollars_escape() {
        let values = BTreeMap::from([("A", Value::String("x".into())), ("N", Value::Int(3))]);
        let mut values = Values { values, used: BTreeSet::new(), budget: Budget::default() };
        let mut check = |text: &str, expect: Value| assert_eq!(expand(text, &mut values), expect, "{text}");
        let text = |text: &str| Value::String(text.into());
        check("$(A)", text("x"));
        check("$(N)", Value::Int(3));
        check("-$(N)-$(A)", text("-3-x"));
        check("$$(A)", text("$(A)"));
        check("$(B) $(", text("$(B) $("));
        check("a$", text("a$"));
        check("$x", text("$x"));
    }
}
