//! `metadata.managedFields`: who owns which fields, and what a write does to that.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::apply::{merged, prune};
use super::compare::Comparison;
use super::set::{Element, FieldSet};

/// In whose name, and how, an object is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    /// Whether a configuration is applied; otherwise the object is changed.
    pub(crate) applies: bool,
    pub(crate) api_version: String,
    /// Empty, or `status`.
    pub(crate) subresource: String,
}

/// The managers of an object and what each owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers(BTreeMap<Writer, (FieldSet, String)>);

/// Fields that others own, by the words for their owners.
#[derive(Clone, Debug)]
pub(crate) struct Conflicts(BTreeMap<String, Vec<String>>);

impl Managers {
    /// Reads those of an object.
    pub(crate) fn of(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        Self(entries.map(entry).collect())
    }

    /// Writes them into an object.
    pub(crate) fn write_to(&self, object: &mut Value) {
        let entries = self.0.iter().map(|(writer, (set, time))| {
            let mut entry = json!({"manager": writer.manager, "operation": if writer.applies { "Apply" } else { "Update" },
                "apiVersion": writer.api_version, "time": time, "fieldsType": "FieldsV1", "fieldsV1": set.to_value()});
            if !writer.subresource.is_empty() {
                entry["subresource"] = json!(writer.subresource);
            }
            entry
        });
        let entries: Vec<Value> = entries.collect();
        let Some(metadata) = object["metadata"].as_object_mut() else { return };
        metadata.remove("managedFields");
        if !entries.is_empty() {
            metadata.insert("managedFields".to_owned(), json!(entries));
        }
    }

    /// Whether nobody owns anything: of such an object nothing is kept until somebody applies it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// After somebody changed an object from one state into another.
    pub(crate) fn after_change(mut self, writer: Writer, before: &Value, after: &Value, time: &str) -> Self {
        let comparison = Comparison::of(before, after);
        let written = comparison.written();
        for (other, (set, _)) in &mut self.0 {
            if *other != writer {
                set.remove_all(&written);
                set.remove_all(&comparison.removed);
            }
        }
        let (own, since) = self.0.remove(&writer).unwrap_or_default();
        let mut set = own.clone();
        set.remove_all(&comparison.removed);
        let set = set.union(written);
        // What somebody owns already is not owned anew.
        let since = if set == own { since } else { time.to_owned() };
        self.0.insert(writer, (set, since));
        self.0.retain(|_, (set, _)| !set.is_empty());
        self
    }

    /// After somebody applied a configuration to an object: the object, and its managers.
    pub(crate) fn after_apply(
        mut self,
        writer: Writer,
        object: &Value,
        configuration: &Value,
        force: bool,
        time: &str,
    ) -> Result<(Value, Self), Conflicts> {
        let (before, since) = self.0.remove(&writer).unwrap_or_default();
        let all = FieldSet::of(configuration);
        let mut after = merged(object, configuration);
        let owned = self.0.values().fold(all.clone(), |owned, (set, _)| owned.union(set.clone()));
        let applied = all.without_system_fields();
        prune(&mut after, &before, &owned);
        let comparison = Comparison::of(object, &after);
        let written = comparison.written();
        let mut conflicts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (other, (set, _)) in &mut self.0 {
            let taken = FieldSet(set.0.intersection(&written.0).cloned().collect());
            let fields = taken.in_words();
            if !fields.is_empty() {
                conflicts.entry(in_words(other)).or_default().extend(fields);
            }
            set.remove_all(&written);
            set.remove_all(&comparison.removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        let since = if applied == before { since } else { time.to_owned() };
        self.0.insert(writer, (applied, since));
        self.0.retain(|_, (set, _)| !set.is_empty());
        Ok((after, self))
    }
}

impl Conflicts {
    /// The message of the refusal, and each field with what is said of it.
    pub(crate) fn told(&self) -> (String, Vec<(String, String)>) {
        let count: usize = self.0.values().map(Vec::len).sum();
        let one = |(owner, fields): (&String, &Vec<String>)| match fields.as_slice() {
            [field] if count == 1 => format!("conflict with {owner}: {field}"),
            fields => format!("conflicts with {owner}:\n- {}", fields.join("\n- ")),
        };
        let words: Vec<String> = self.0.iter().map(one).collect();
        let message =
            format!("Apply failed with {count} conflict{}: {}", if count == 1 { "" } else { "s" }, words.join("\n"));
        let causes = self.0.iter().flat_map(|(owner, fields)| {
            fields.iter().map(move |field| (format!("conflict with {owner}"), field.clone()))
        });
        (message, causes.collect())
    }
}

fn in_words(writer: &Writer) -> String {
    let mut words = format!("\"{}\"", writer.manager);
    if !writer.subresource.is_empty() {
        words.push_str(&format!(" with subresource \"{}\"", writer.subresource));
    }
    if !writer.applies {
        words.push_str(&format!(" using {}", writer.api_version));
    }
    words
}

fn entry(entry: &Value) -> (Writer, (FieldSet, String)) {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let writer = Writer {
        manager: text("manager"),
        applies: entry["operation"] == "Apply",
        api_version: text("apiVersion"),
        subresource: text("subresource"),
    };
    let mut set = FieldSet::default();
    read(&mut Vec::new(), &entry["fieldsV1"], &mut set);
    (writer, (set, text("time")))
}

fn read(path: &mut Vec<Element>, node: &Value, set: &mut FieldSet) {
    let Value::Object(children) = node else { return };
    if children.is_empty() && !path.is_empty() {
        set.0.insert(path.clone());
    }
    for (key, child) in children {
        let element = match key.split_once(':') {
            Some(("f", name)) => Element::Field(name.to_owned()),
            Some(("v", item)) => Element::Item(serde_json::from_str(item).unwrap_or_default()),
            _ => {
                set.0.insert(path.clone());
                continue;
            }
        };
        path.push(element);
        read(path, child, set);
        path.pop();
    }
}
