//! What the stages of a cluster change, object by object, as text that people read line by line.

use std::collections::BTreeMap;

use overlays::{FileChange, RenderedTree};
use planning::difference::without_secrets;
use planning::stage_tree::StageTree;
use yaml::{Limits, Node};

/// One object that a stage changes, or a file that holds none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// Path on the deploy branch.
    pub path: String,
    /// Kind, namespace and name.
    pub object: String,
    /// What happens to it.
    pub change: FileChange,
    /// Its text before, without the values of Secrets; empty where it was not there.
    pub before: String,
    /// Its text afterwards, likewise.
    pub after: String,
}

/// What a stage changes, in the order of paths and of objects in them.
pub fn changed_objects(part: &StageTree) -> Vec<ObjectChange> {
    let mut found = Vec::new();
    for path in part.before.diff(&part.after).files.into_keys() {
        let text = |tree: &RenderedTree| {
            tree.get(path.as_str()).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
        };
        let [before, after] = without_secrets(&text(&part.before), &text(&part.after));
        let objects = changed(path.as_str(), &before, &after);
        if objects.is_empty() {
            // What stands between objects, such as the line that parts them.
            let (path, object) = (path.to_string(), "the file".to_owned());
            found.push(ObjectChange { path, object, change: FileChange::Modified, before, after });
        }
        found.extend(objects);
    }
    found
}

fn changed(path: &str, before: &str, after: &str) -> Vec<ObjectChange> {
    let (before, mut after) = (objects(before), objects(after));
    let mut found = Vec::new();
    for (object, old) in before {
        let new = after.iter().position(|(known, _)| *known == object).map(|at| after.remove(at).1);
        let change = if new.is_some() { FileChange::Modified } else { FileChange::Removed };
        let new = new.unwrap_or_default();
        if new != old {
            found.push(ObjectChange { path: path.to_owned(), object, change, before: old, after: new });
        }
    }
    let added = |(object, after): (String, String)| ObjectChange {
        path: path.to_owned(),
        object,
        change: FileChange::Added,
        before: String::new(),
        after,
    };
    found.extend(after.into_iter().map(added));
    found
}

/// The objects of a file by name. What has no name is called by its number.
fn objects(text: &str) -> Vec<(String, String)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let named = |(index, text): (usize, String)| {
        let name = name(&text).unwrap_or_else(|| format!("part {}", index + 1));
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        (if *count > 1 { format!("{name} ({count})") } else { name }, text)
    };
    documents(text).into_iter().enumerate().map(named).collect()
}

/// The documents of a YAML file, as they are written, without those that hold nothing.
fn documents(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines() {
        // Nothing that is set in can begin so.
        if line.trim_end() == "---" {
            found.push(String::new());
        } else if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    found.retain(|document| !document.trim().is_empty());
    found
}

fn name(text: &str) -> Option<String> {
    let documents = yaml::parse(text, &Limits::default()).ok()?;
    let root = &documents.first()?.root;
    let text = |node: Option<&Node>| node.and_then(Node::as_str).map(str::to_owned);
    let kind = text(root.get("kind"))?;
    let metadata = root.get("metadata");
    let name = text(metadata.and_then(|metadata| metadata.get("name")));
    let namespace = text(metadata.and_then(|metadata| metadata.get("namespace")));
    Some(match (namespace, name) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, value: &str) -> String {
        format!("kind: {kind}\nmetadata:\n  name: {name}\n  namespace: shop\nvalue: {value}\n")
    }

    #[test]
    fn objects_are_found_again_wherever_they_stand_in_the_file() {
        let before = [object("Role", "a", "1"), object("Role", "b", "1"), object("Role", "c", "1")].join("---\n");
        let after = [object("Role", "c", "2"), object("Role", "a", "1"), object("Role", "d", "1")].join("---\n");
        let told: Vec<(String, FileChange)> =
            changed("x.yaml", &before, &after).into_iter().map(|it| (it.object, it.change)).collect();
        let named = |name: &str, change| (format!("Role shop/{name}"), change);
        let expected =
            [named("b", FileChange::Removed), named("c", FileChange::Modified), named("d", FileChange::Added)];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_no_object_is_told_by_its_number() {
        assert_eq!(changed("x", "a: 1\n", "a: 2\n")[0].object, "part 1");
        assert_eq!(changed("x", "{", "}")[0].change, FileChange::Modified);
    }
}
