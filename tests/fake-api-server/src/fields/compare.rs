//! Which fields differ between two states of an object.

use serde_json::{Map, Value};

use super::set::{Element, FieldSet, Path};

/// The fields in which one state differs from another.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn of(before: &Value, after: &Value) -> Self {
        let mut comparison = Self::default();
        comparison.compare(&mut Vec::new(), Some(before), Some(after));
        let Self { added, modified, removed } = comparison;
        Self {
            added: added.without_system_fields(),
            modified: modified.without_system_fields(),
            removed: removed.without_system_fields(),
        }
    }

    fn compare(&mut self, path: &mut Path, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        match (before, after) {
            (None, _) => self.added.0.insert(path.clone()),
            (_, None) => self.removed.0.insert(path.clone()),
            _ => false,
        };
        let items = |value: Option<&Value>| -> Vec<String> {
            let items = value.and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        if super::is_set(path) {
            let (before, after) = (items(before), items(after));
            let place = |item: &String| path.iter().cloned().chain([Element::Item(item.clone())]).collect();
            self.removed.0.extend(before.iter().filter(|item| !after.contains(item)).map(place));
            self.added.0.extend(after.iter().filter(|item| !before.contains(item)).map(place));
            return;
        }
        let nothing = Map::new();
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => self.compare_fields(path, before, after),
            (Some(Value::Object(before)), None | Some(Value::Null)) => self.compare_fields(path, before, &nothing),
            (None | Some(Value::Null), Some(Value::Object(after))) => self.compare_fields(path, &nothing, after),
            // A field that becomes one of another form is gone, and is another one.
            (Some(Value::Object(before)), Some(_)) => {
                self.compare_fields(path, before, &nothing);
                self.added.0.insert(path.clone());
            }
            (Some(_), Some(Value::Object(after))) => {
                self.added.0.insert(path.clone());
                self.compare_fields(path, &nothing, after);
            }
            (Some(_), Some(_)) => {
                self.modified.0.insert(path.clone());
            }
            (None, _) | (_, None) => {}
        }
    }

    fn compare_fields(&mut self, path: &mut Path, before: &Map<String, Value>, after: &Map<String, Value>) {
        for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
            path.push(Element::Field(name.clone()));
            self.compare(path, before.get(name), after.get(name));
            path.pop();
        }
    }

    /// The fields whose values somebody gave who changed one state into the other.
    pub(super) fn written(&self) -> FieldSet {
        self.added.clone().union(self.modified.clone())
    }
}
