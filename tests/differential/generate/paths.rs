//! Places in a tree.

use serde_json::Value;

use super::text::RAW;

/// One step into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field of a map.
    Key(String),
    /// An item of a list, and its `name` if it has one.
    Item(usize, Option<String>),
}

/// All places below the root, with what is there.
pub fn places(tree: &Value) -> Vec<(Vec<Step>, &Value)> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect<'t>(tree: &'t Value, path: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, &'t Value)>) {
    if !path.is_empty() {
        found.push((path.clone(), tree));
    }
    match tree {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !key.starts_with(RAW) && !key.is_empty()) {
                path.push(Step::Key(key.clone()));
                collect(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
                path.push(Step::Item(index, name));
                collect(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The path as a JSON pointer.
pub fn pointer(path: &[Step]) -> String {
    path.iter()
        .map(|step| match step {
            Step::Key(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Item(index, _) => format!("/{index}"),
        })
        .collect()
}
