//! The nodes that a path of a replacement leads to, and those it makes.

use yaml::{Layout, Limits, Mapping, Node, Scalar, Style, Value, compose, resolve_v3};

use crate::error::BuildError;
use crate::select::expression::compile;
use crate::transform::path::{condition, key_and_value, not_a, text_of};

/// What is made at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    Scalar,
    Sequence,
    Mapping,
}

impl Make {
    /// The kind of `node`.
    pub(crate) fn like(node: &Node) -> Self {
        match node.value {
            Value::Sequence(_) => Self::Sequence,
            Value::Mapping(_) => Self::Mapping,
            _ => Self::Scalar,
        }
    }

    fn node(self) -> Node {
        match self {
            Self::Scalar => Node::default(),
            Self::Sequence => Node::from(Vec::new()),
            Self::Mapping => Node::from(Mapping::new()),
        }
    }

    /// What stands before `next`.
    fn before(next: Option<&String>, last: Self) -> Self {
        match next {
            None => last,
            Some(part) if condition(part).is_some() || part.parse::<usize>().is_ok() => Self::Sequence,
            Some(part) if part.is_empty() => last,
            Some(_) => Self::Mapping,
        }
    }
}

/// A node that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Indices of entries and items.
    pub(crate) indices: Vec<usize>,
    /// It was just made.
    pub(crate) is_new: bool,
}

/// The nodes that a path leads to.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) found: Vec<Target>,
    /// How many are inside of a text: kustomize goes on in what the text says, and changes only what it has read.
    lost: usize,
}

impl Targets {
    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.len() + self.lost == 0
    }
}

/// Finds every node that `path` leads to, making what is missing if `make` says so. All are found before any is changed.
///
/// With `layout`, the tree is that of the layout.
pub(crate) fn targets(
    root: &mut Node,
    path: &[String],
    make: Option<Make>,
    layout: Option<&Layout>,
) -> Result<Targets, BuildError> {
    let mut search = Search { make, layout, at: Vec::new(), targets: Targets::default() };
    search.visit(root, path, false)?;
    Ok(search.targets)
}

struct Search<'l> {
    make: Option<Make>,
    layout: Option<&'l Layout>,
    /// Where the search is.
    at: Vec<usize>,
    targets: Targets,
}

impl Search<'_> {
    fn below(&mut self, index: usize, node: &mut Node, path: &[String], is_new: bool) -> Result<(), BuildError> {
        self.at.push(index);
        let result = self.visit(node, path, is_new);
        self.at.pop();
        result
    }

    fn visit(&mut self, node: &mut Node, path: &[String], is_new: bool) -> Result<(), BuildError> {
        let Some((part, rest)) = path.split_first() else {
            self.targets.found.push(Target { indices: self.at.clone(), is_new });
            return Ok(());
        };
        if let Ok(index) = part.parse::<usize>() {
            return self.visit_index(node, (part, index), rest);
        }
        if let Some(condition) = condition(part) {
            return self.visit_condition(node, condition, rest);
        }
        if part == "*" {
            let items = node.as_sequence_mut().ok_or_else(|| not_a("list", part))?;
            let mut items = items.iter_mut().enumerate();
            return items.try_for_each(|(index, item)| self.below(index, item, rest, false));
        }
        if node.is_null() {
            if self.make.is_some() && is_new {
                *node = Node::from(Mapping::new());
                return self.visit(node, path, false);
            }
            return Ok(());
        }
        self.visit_field(node, part, rest)
    }

    fn visit_field(&mut self, node: &mut Node, part: &str, rest: &[String]) -> Result<(), BuildError> {
        let mapping = node.as_mapping_mut().filter(|_| !part.is_empty()).ok_or_else(|| not_a("map", part))?;
        if let Some(index) = mapping.find(part).map(|(index, _)| index) {
            let Some(field) = mapping.get_mut(part) else {
                return Ok(());
            };
            let nothing = field.is_null() && (self.make.is_none() || text_of(field).is_empty());
            if field.is_scalar() && !nothing && !rest.is_empty() {
                return self.visit_text(&field.to_text(), rest);
            }
            return self.below(index, field, rest, false);
        }
        let Some(last) = self.make else {
            return Ok(());
        };
        // kustomize writes the key without quotes, and cannot write an object whose key is not text.
        if self.layout.is_none() && resolve_v3(part) != Scalar::Text {
            let error = BuildError::transform(format!("a field cannot be made whose name `{part}` reads as no text"));
            return Err(error.hint("write the field into the object, its name in quotes"));
        }
        let index = mapping.len();
        let field = mapping.get_or_insert_with(part, || Make::before(rest.first(), last).node());
        self.below(index, field, rest, true)
    }

    fn visit_text(&mut self, text: &str, path: &[String]) -> Result<(), BuildError> {
        let Some(mut layout) = compose(text, &Limits::default()) else {
            return Err(not_a("map or list", path.first().map_or("", String::as_str)));
        };
        let mut root = std::mem::take(&mut layout.root);
        if root.is_null() && self.make.is_some() {
            self.targets.lost += 1;
            return Ok(());
        }
        let inner = targets(&mut root, path, self.make, Some(&layout))?;
        self.targets.lost += inner.found.len() + inner.lost;
        Ok(())
    }

    fn visit_index(
        &mut self,
        node: &mut Node,
        (part, index): (&str, usize),
        rest: &[String],
    ) -> Result<(), BuildError> {
        let items = node.as_sequence_mut().ok_or_else(|| not_a("list", part))?;
        let mut is_new = false;
        if let (Some(last), true) = (self.make, items.len() == index) {
            items.push(Make::before(rest.first(), last).node());
            is_new = true;
        }
        let count = items.len();
        let item = items
            .get_mut(index)
            .ok_or_else(|| BuildError::transform(format!("there is no item {index} in a list of {count}")))?;
        self.below(index, item, rest, is_new)
    }

    /// A condition is compared with how kustomize prints the field or item, quotes included.
    fn visit_condition(&mut self, node: &mut Node, condition: &str, rest: &[String]) -> Result<(), BuildError> {
        let (key, value) = key_and_value(condition)?;
        let pattern = compile(value)?;
        let layout = self.layout;
        let fits = |node: &Node| pattern.is_match(Layout::printed(layout, node).trim());
        let items = node.as_sequence_mut().ok_or_else(|| not_a("list", condition))?;
        let before = self.targets.found.len() + self.targets.lost;
        // What follows a condition on the item itself is not looked at.
        let below = if key.is_empty() { &[][..] } else { rest };
        for (index, item) in items.iter_mut().enumerate() {
            let field = if key.is_empty() { Some(&*item) } else { item.get(key) };
            if field.is_some_and(fits) {
                self.below(index, item, below, false)?;
            }
        }
        if self.targets.found.len() + self.targets.lost > before || self.make.is_none() {
            return Ok(());
        }
        let mut item = Node::plain_scalar(value);
        item.set_style(Style::Untyped);
        if !key.is_empty() {
            let mut mapping = Mapping::new();
            mapping.insert(key, item);
            item = Node::from(mapping);
        }
        let index = items.len();
        items.push(item);
        let item = items.get_mut(index).ok_or_else(|| not_a("list", condition))?;
        self.below(index, item, below, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::path::split;
    use yaml::{emit, parse};

    #[test]
    fn targets_are_found_and_made() {
        let check = |source: &str, path: &str, make: Option<Make>, expect: &str| {
            let mut node = parse(source, &Limits::default()).unwrap().remove(0).root;
            let result = targets(&mut node, &split(path), make, None).map(|targets| {
                for target in &targets.found {
                    *node.at_indices_mut(&target.indices).unwrap() = Node::from("v");
                }
                targets.found.len() + targets.lost
            });
            let text = result.map_or_else(|error| error.message, |count| format!("{count}\n{}", emit(&node)));
            assert_eq!(text, expect, "{path} in {source}");
        };
        check("a: {b: 1}", "a.b", None, "1\na:\n  b: v\n");
        check("a: {b: 1}", "a.c", None, "0\na:\n  b: 1\n");
        check("a: {b: 1}", "a.c.d", Some(Make::Scalar), "1\na:\n  b: 1\n  c:\n    d: v\n");
        check("a: [{b: 1}, {b: 2}]", "a.*.b", None, "2\na:\n- b: v\n- b: v\n");
        check("a: [{n: x, b: 1}]", "a.[n=x].b", None, "1\na:\n- b: v\n  \"n\": x\n");
        check("a: [{n: x}]", "a.[n=z].b", Some(Make::Scalar), "1\na:\n- \"n\": x\n- b: v\n  \"n\": z\n");
        check("a: ['1', 2]", "a.[=^[0-9]$]", None, "1\na:\n- \"1\"\n- v\n");
        check("a: [1]", "a.3", None, "there is no item 3 in a list of 1");
        check("a: 1", "a.b", None, "expected a map before `b`");
        check("a: 'b: 1'", "a.b", None, "1\na: 'b: 1'\n");
    }
}
