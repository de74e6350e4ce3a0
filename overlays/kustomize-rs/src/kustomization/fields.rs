//! Reading a mapping field by field, strictly: what nobody asked for is an error with the nearest name.

use std::cell::RefCell;

use yaml::{Mapping, Node, Span, Value};

use crate::error::BuildError;

/// The fields of one object of a kustomization. Names are compared without case, as Go does.
pub(crate) struct Fields<'n> {
    mapping: &'n Mapping,
    span: Span,
    place: String,
    strict: bool,
    asked: RefCell<Vec<&'static str>>,
}

fn error_at(message: String, span: Span) -> BuildError {
    let mut error = BuildError::syntax(message);
    (error.line, error.column) = (span.line(), span.column());
    error
}

fn what(node: &Node) -> &'static str {
    match node.value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Uint(_) | Value::Float(_) => "a number",
        Value::String(_) => "a text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a map",
    }
}

fn wrong(place: &str, name: &str, expected: &str, node: &Node) -> BuildError {
    let error = error_at(format!("`{}` must be {expected}, not {}", join(place, name), what(node)), node.span);
    if expected == "a text" && node.is_scalar() { error.hint("put the value in quotes") } else { error }
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// Checks a map of texts.
fn string_map(node: &Node, place: &str, name: &str, strict: bool) -> Result<Vec<(String, String)>, BuildError> {
    let mapping = node.as_mapping().ok_or_else(|| wrong(place, name, "a map", node))?;
    mapping
        .iter()
        .map(|entry| match &entry.value.value {
            Value::String(text) => Ok((entry.key.to_string(), text.to_string())),
            Value::Null => Ok((entry.key.to_string(), String::new())),
            // Plugins are configured through a looser reader, which takes scalars as text.
            _ if !strict && entry.value.is_scalar() => {
                Ok((entry.key.to_string(), entry.value.scalar_text().unwrap_or_default().into_owned()))
            }
            _ => Err(wrong(&join(place, name), &entry.key, "a text", &entry.value)),
        })
        .collect()
}

impl<'n> Fields<'n> {
    pub(crate) fn new(node: &'n Node, place: &str, strict: bool) -> Result<Self, BuildError> {
        let Value::Mapping(mapping) = &node.value else {
            let name = if place.is_empty() { "the kustomization" } else { place };
            return Err(error_at(format!("`{name}` must be a map, not {}", what(node)), node.span));
        };
        Ok(Self { mapping, span: node.span, place: place.to_owned(), strict, asked: RefCell::default() })
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    pub(crate) fn get(&self, name: &'static str) -> Option<&'n Node> {
        self.asked.borrow_mut().push(name);
        let found = self.mapping.get(name).or_else(|| {
            self.mapping.iter().find(|entry| entry.key.eq_ignore_ascii_case(name)).map(|entry| &entry.value)
        });
        found.filter(|node| !node.is_null())
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<String, BuildError> {
        Ok(self.optional_text(name)?.unwrap_or_default())
    }

    pub(crate) fn optional_text(&self, name: &'static str) -> Result<Option<String>, BuildError> {
        match self.get(name) {
            None => Ok(None),
            Some(Node { value: Value::String(text), .. }) => Ok(Some(text.to_string())),
            Some(node) if !self.strict && node.is_scalar() => Ok(Some(node.scalar_text().unwrap_or_default().into())),
            Some(node) => Err(wrong(&self.place, name, "a text", node)),
        }
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, BuildError> {
        match self.get(name) {
            None => Ok(false),
            Some(node) => node.as_bool().ok_or_else(|| wrong(&self.place, name, "true or false", node)),
        }
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<i64, BuildError> {
        match self.get(name) {
            None => Ok(0),
            Some(Node { value: Value::Int(number), .. }) => Ok(*number),
            #[allow(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Some(Node { value: Value::Float(number), .. }) if number.fract() == 0.0 && number.abs() < 1e15 => {
                Ok(*number as i64)
            }
            Some(node) => Err(wrong(&self.place, name, "an integer", node)),
        }
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Vec<String>, BuildError> {
        self.list(name, |item, place| match &item.value {
            Value::String(text) => Ok(text.to_string()),
            Value::Null => Ok(String::new()),
            _ => Err(wrong("", place, "a text", item)),
        })
    }

    pub(crate) fn map(&self, name: &'static str) -> Result<Vec<(String, String)>, BuildError> {
        self.get(name).map_or(Ok(Vec::new()), |node| string_map(node, &self.place, name, self.strict))
    }

    pub(crate) fn list<T>(
        &self,
        name: &'static str,
        mut read: impl FnMut(&'n Node, &str) -> Result<T, BuildError>,
    ) -> Result<Vec<T>, BuildError> {
        let Some(node) = self.get(name) else {
            return Ok(Vec::new());
        };
        let items = node.as_sequence().ok_or_else(|| wrong(&self.place, name, "a list", node))?;
        let place = join(&self.place, name);
        items.iter().enumerate().map(|(index, item)| read(item, &format!("{place}[{index}]"))).collect()
    }

    /// Reads an object below this one, with the same strictness.
    pub(crate) fn object<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Fields<'n>) -> Result<T, BuildError>,
    ) -> Result<Option<T>, BuildError> {
        let Some(node) = self.get(name) else {
            return Ok(None);
        };
        self.below(node, &join(&self.place, name), read).map(Some)
    }

    /// Reads a list of objects.
    pub(crate) fn objects<T>(
        &self,
        name: &'static str,
        read: impl Fn(&Fields<'n>) -> Result<T, BuildError>,
    ) -> Result<Vec<T>, BuildError> {
        self.list(name, |item, place| self.below(item, place, &read))
    }

    fn below<T>(
        &self,
        node: &'n Node,
        place: &str,
        read: impl FnOnce(&Fields<'n>) -> Result<T, BuildError>,
    ) -> Result<T, BuildError> {
        let fields = Fields::new(node, place, self.strict)?;
        let value = read(&fields)?;
        fields.finish()?;
        Ok(value)
    }

    /// Ends the reading: a field that was not asked for is an error.
    pub(crate) fn finish(&self) -> Result<(), BuildError> {
        if !self.strict {
            return Ok(());
        }
        let asked = self.asked.borrow();
        for entry in self.mapping {
            if asked.iter().any(|name| name.eq_ignore_ascii_case(&entry.key)) {
                continue;
            }
            let mut error = error_at(format!("unknown field `{}`", join(&self.place, &entry.key)), entry.key_span);
            if let Some(name) = nearest(&entry.key, &asked) {
                error = error.hint(format!("did you mean `{name}`?"));
            }
            return Err(error);
        }
        Ok(())
    }
}

/// The known name that takes the fewest edits, if few enough.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = name.to_lowercase();
    let close = |candidate: &&'a str| (strsim::levenshtein(&folded, &candidate.to_lowercase()), *candidate);
    let (distance, best) = known.iter().map(close).min()?;
    (distance <= 1 + name.len() / 3).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_found() {
        let known = ["resources", "patches", "namespace", "namePrefix"];
        assert_eq!(nearest("resource", &known), Some("resources"));
        assert_eq!(nearest("patchs", &known), Some("patches"));
        assert_eq!(nearest("nameprefx", &known), Some("namePrefix"));
        assert_eq!(nearest("something", &known), None);
    }
}
