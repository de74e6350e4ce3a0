//! Following a field path through an object: maps by name, lists item by item, wherever they come.

use yaml::{Mapping, Node, Scalar, Style, Text, Value, resolve_v3};

use crate::error::BuildError;
use crate::id::Gvk;
use crate::resource::Resource;
use crate::schema::{FieldSpec, field_names};

/// What is made at the end of a path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Never,
    Scalar,
    Mapping,
}

/// Calls `set` on every node that `spec` leads to, if the object is of a kind it names (`gvk`, which is its own).
///
/// There are annotations as soon as kustomize keeps something about the object in them.
pub(crate) fn apply(
    resource: &mut Resource,
    gvk: &Gvk,
    spec: &FieldSpec,
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    if !gvk.is_selected(&spec.gvk) {
        return Ok(());
    }
    let mut names = field_names(&spec.parts);
    if [names.next(), names.next(), names.next()] != [Some("metadata"), Some("annotations"), None] {
        return visit(resource.node.along(&spec.parts), spec, create, set);
    }
    resource.show_state();
    let result = visit(resource.node.along(&spec.parts), spec, create, set);
    resource.hide_state();
    result
}

/// As [`apply`], whatever the kind.
pub(crate) fn visit(
    object: &mut Node,
    spec: &FieldSpec,
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let create = if spec.create { create } else { Create::Never };
    // What is left alone stays shared with other copies.
    if create == Create::Never && !leads_anywhere(object, &spec.parts) {
        return Ok(());
    }
    walk(object, &spec.parts, create, set).map_err(|error| error.context(format_args!("at the field `{}`", spec.path)))
}

/// Says whether [`walk`] would do anything or fail.
fn leads_anywhere(node: &Node, path: &[String]) -> bool {
    let Some((part, rest)) = path.split_first() else {
        return true;
    };
    match &node.value {
        Value::Null => !is_nothing(node),
        Value::Sequence(items) => items.iter().any(|item| leads_anywhere(item, path)),
        Value::Mapping(mapping) => match Step::of(part) {
            Step::Field { name, is_list } => match mapping.get(name) {
                Some(field) => is_list && field.is_null() || leads_anywhere(field, rest),
                None => false,
            },
            Step::Stay => leads_anywhere(node, rest),
            Step::Nameless | Step::IntoList => true,
        },
        _ => true,
    }
}

fn walk(
    node: &mut Node,
    path: &[String],
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let Some((part, rest)) = path.split_first() else {
        return set(node);
    };
    if is_nothing(node) {
        return Ok(());
    }
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| walk(item, path, create, set)),
        Value::Mapping(mapping) => {
            let field = match Step::of(part) {
                Step::Field { name, is_list } => find(mapping, name, is_list, rest, create)?,
                Step::Stay => return walk(node, rest, create, set),
                Step::Nameless => return Err(BuildError::transform("a field without name")),
                Step::IntoList => {
                    let message = format!("`{part}` is not a valid field name");
                    return Err(BuildError::transform(message).hint(
                        "leave it out: a path of a field goes into every item of a list by itself, and into no single one",
                    ));
                }
            };
            field.map_or(Ok(()), |field| walk(field, rest, create, set))
        }
        _ => Err(BuildError::transform(format!("expected a list or a map before `{part}`, found a scalar"))),
    }
}

/// Only a null that was read as one is nothing.
fn is_nothing(node: &Node) -> bool {
    node.is_flow_null() || (node.is_null() && node.style() != Style::Untyped)
}

/// What kustomize takes one part of a path for, in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'p> {
    /// A field, and whether it is a list.
    Field { name: &'p str, is_list: bool },
    /// Nothing but blanks: the map itself.
    Stay,
    /// No name at all.
    Nameless,
    /// The name of list items, which a map does not have: `*`, `-`, a number, `[name=value]`.
    IntoList,
}

impl<'p> Step<'p> {
    pub(super) fn of(part: &'p str) -> Self {
        let (name, is_list) = match part.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (part, false),
        };
        if name.is_empty() {
            return Self::Nameless;
        }
        let name = name.trim();
        match name.as_bytes() {
            [] => Self::Stay,
            b"*" | b"-" | [b'[', .., b']'] => Self::IntoList,
            [b'0'..=b'9' | b'+' | b'-', ..] if name.parse::<i64>().is_ok() => Self::IntoList,
            _ => Self::Field { name, is_list },
        }
    }
}

/// The field `name`, made where that is wanted; a null takes the type that would be made.
fn find<'n>(
    mapping: &'n mut Mapping,
    name: &str,
    is_list: bool,
    rest: &[String],
    create: Create,
) -> Result<Option<&'n mut Node>, BuildError> {
    let made = |text: Text| match create {
        Create::Scalar if rest.is_empty() => Node::new(Value::String(text)),
        _ => Node::from(Mapping::new()),
    };
    if is_list || create == Create::Never {
        let field = mapping.get_mut(name);
        return Ok(match field {
            Some(field) if is_list && field.is_null() => {
                *field = Node::from(Vec::new());
                Some(field)
            }
            other => other,
        });
    }
    // kustomize writes the name without quotes, and cannot read it as a name again.
    if mapping.get(name).is_none() && resolve_v3(name) != Scalar::Text {
        let error = BuildError::transform(format!("`{name}` is not a valid name of a field to create"));
        return Err(error.hint("write the field into the object, its name in quotes"));
    }
    let field = mapping.get_or_insert_with(name, || made(Text::default()));
    if is_nothing(field) {
        // kustomize changes the type of a null and leaves the text it was written with.
        let written = field.scalar_text().unwrap_or_default().into_owned();
        *field = made(Text::from(written.as_str()));
    }
    Ok(Some(field))
}

/// Sets a scalar to a text. Lists and maps are an error.
pub(crate) fn set_text(node: &mut Node, text: &str) -> Result<(), BuildError> {
    set_value(node, Value::String(text.into()))
}

/// Sets a scalar. Lists and maps are an error.
pub(crate) fn set_value(node: &mut Node, value: Value) -> Result<(), BuildError> {
    if !node.is_scalar() {
        return Err(BuildError::transform("expected a scalar, found a list or map"));
    }
    node.replace_value(Node::new(value));
    Ok(())
}

/// Sets a scalar as if `text` stood there without quotes, unless there are quotes already.
pub(crate) fn set_plain(node: &mut Node, text: &str) -> Result<(), BuildError> {
    if !node.is_scalar() {
        return Err(BuildError::transform("expected a scalar, found a list or map"));
    }
    node.replace_plainly(text);
    Ok(())
}

/// Sets a key of a map to a text; a null stays one. `None` if the key is new: then the text is the one `shared` with other maps; else how
/// the value before was written. Lists and scalars are an error.
pub(crate) fn set_entry(node: &mut Node, key: &str, text: &str, shared: u32) -> Result<Option<Style>, BuildError> {
    // Where no map is to be made kustomize puts it into the null, where nobody sees it.
    if is_nothing(node) {
        return Ok(None);
    }
    match &mut node.value {
        Value::Mapping(mapping) => {
            if let Some(value) = mapping.get_mut(key) {
                value.replace_value(Node::from(text));
                return Ok(Some(value.style()));
            }
            let mut value = Node::from(text);
            value.set_shared(shared);
            mapping.insert(key, value);
            Ok(None)
        }
        _ => Err(BuildError::transform("expected a map, found a list or scalar")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yaml::{Limits, emit, parse};

    fn check(source: &str, path: &str, create: bool, end: Create, expect: &str) {
        let mut node = parse(source, &Limits::default()).unwrap().remove(0).root;
        let spec = FieldSpec::new(Gvk::default(), path, create);
        visit(&mut node, &spec, end, &mut |node| match end {
            Create::Mapping => set_entry(node, "k", "v", 0).map(|_| ()),
            _ => set_text(node, "v"),
        })
        .unwrap();
        assert_eq!(emit(&node), expect, "{path} in {source}");
    }

    #[test]
    fn paths_lead_through_maps_and_lists() {
        check("a: {b: 1}", "a/b", false, Create::Scalar, "a:\n  b: v\n");
        check("a: [{b: 1}, {b: 2}, {c: 3}]", "a/b", false, Create::Scalar, "a:\n- b: v\n- b: v\n- c: 3\n");
        check("a: [{b: 1}]", "a[]/b", true, Create::Never, "a:\n- b: v\n");
        check("a: 1", "b/c", false, Create::Scalar, "a: 1\n");
        check("a: {b/c: 1}", "a/b\\/c", false, Create::Scalar, "a:\n  b/c: v\n");
    }

    #[test]
    fn missing_fields_are_made_where_wanted() {
        check("a: 1", "b/c", true, Create::Scalar, "a: 1\nb:\n  c: v\n");
        check("a: 1", "b/c", true, Create::Mapping, "a: 1\nb:\n  c:\n    k: v\n");
        check("b: null", "b/c", true, Create::Mapping, "b:\n  c:\n    k: v\n");
        check("b: [{}]", "b/c", true, Create::Scalar, "b:\n- c: v\n");
    }

    #[test]
    fn names_of_list_items_are_an_error_where_a_map_is() {
        for part in ["*", "-", "0", "-1", "+1", "01", " 0 ", "[0]", "[name=x]", "0[]", "*[]", ""] {
            for source in ["a: {b: 1}", "a: [{'0': {}, '*': {}}]"] {
                let mut node = parse(source, &Limits::default()).unwrap().remove(0).root;
                let spec = FieldSpec::new(Gvk::default(), &format!("a/{part}/b"), true);
                let result = visit(&mut node, &spec, Create::Scalar, &mut |_| Ok(()));
                assert!(result.is_err(), "{part} in {source}");
            }
        }
        check("a: [x]", "c/0", false, Create::Scalar, "a:\n- x\n");
        check("a: {'0x1': 1}", "a/0x1", false, Create::Scalar, "a:\n  \"0x1\": v\n");
        check("a: {'**': 1}", "a/**", false, Create::Scalar, "a:\n  '**': v\n");
    }

    #[test]
    fn names_that_read_as_numbers_are_found_and_not_made() {
        for name in ["true", "null", "~", "1.5", "0x1", "2001-01-01", "<<"] {
            let mut node = parse("a: {}", &Limits::default()).unwrap().remove(0).root;
            let spec = FieldSpec::new(Gvk::default(), &format!("a/{name}"), true);
            let result = visit(&mut node, &spec, Create::Scalar, &mut |_| Ok(()));
            assert!(result.is_err(), "{name}");
        }
        check("a: {'true': 1}", "a/true", true, Create::Scalar, "a:\n  \"true\": v\n");
        check("a: {}", "a/yes", true, Create::Scalar, "a:\n  \"yes\": v\n");
    }

    #[test]
    fn blanks_around_names_do_not_count() {
        check("a: {b: 1}", "a / b", false, Create::Scalar, "a:\n  b: v\n");
        check("a: {b: 1}", "a/ /b", false, Create::Scalar, "a:\n  b: v\n");
    }

    #[test]
    fn a_scalar_on_the_way_is_an_error() {
        let mut node = parse("a: 1", &Limits::default()).unwrap().remove(0).root;
        let spec = FieldSpec::new(Gvk::default(), "a/b", false);
        let result = visit(&mut node, &spec, Create::Never, &mut |_| Ok(()));
        assert!(result.is_err());
    }
}
