//! Text of manifests without the values of Secrets, for a diff that people read line by line.

use std::collections::BTreeMap;
use std::ops::Range;

use yaml::{Limits, Mapping, Node, Value};

/// What stands where a value stood.
const HIDDEN: &str = "<hidden>";

/// What stands after where it is another value than before.
const CHANGED: &str = "<hidden, changed>";

/// The fields of a Secret that hold values.
const FIELDS: [&str; 2] = ["data", "stringData"];

/// The annotation in which kubectl keeps a copy of the whole object.
const COPY: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whose value it is: kind and name of the Secret, field and key.
type Place = [String; 4];

/// Both sides of a file with the values of Secrets hidden, so that a line differs where the value does.
///
/// A side that cannot be read and may hold a Secret is hidden as a whole.
pub fn without_secrets(before: &str, after: &str) -> [String; 2] {
    let mut old = BTreeMap::new();
    let before = hide(before, |place, value| {
        old.insert(place, value);
        HIDDEN
    });
    let after = hide(after, |place, value| match old.get(&place) {
        Some(old) if *old != value => CHANGED,
        _ => HIDDEN,
    });
    [before, after]
}

fn may_hold_a_secret(text: &str) -> bool {
    text.contains("Secret")
}

fn hide(text: &str, word: impl FnMut(Place, Node) -> &'static str) -> String {
    if !may_hold_a_secret(text) {
        return text.to_owned();
    }
    let Ok(documents) = yaml::parse(text, &Limits::default()) else {
        return format!("{HIDDEN}: the file cannot be read, and it may hold a Secret\n");
    };
    let mut hiding = Hiding { text, word, found: Vec::new(), aliased: Vec::new() };
    for document in &documents {
        hiding.node(&document.root, &mut Vec::new());
        hiding.anchors(&document.root);
        hiding.aliased.clear();
    }
    hiding.done()
}

struct Hiding<'t, W> {
    text: &'t str,
    word: W,
    found: Vec<(Range<usize>, String)>,
    /// Values that are written behind an anchor somewhere else in the document.
    aliased: Vec<Node>,
}

impl<W: FnMut(Place, Node) -> &'static str> Hiding<'_, W> {
    /// Objects lie at the root, in Lists, and as text in a ConfigMap or in a file that a machine gets.
    fn node(&mut self, node: &Node, path: &mut Vec<String>) {
        match &node.value {
            Value::Mapping(mapping) => {
                if mapping.get("kind").and_then(Node::as_str) == Some("Secret") {
                    self.secret(mapping);
                }
                for entry in mapping {
                    path.push(entry.key.to_string());
                    self.node(&entry.value, path);
                    path.pop();
                }
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.node(item, path);
                    path.pop();
                }
            }
            Value::String(text) if text.as_str().contains("kind") && may_hold_a_secret(text.as_str()) => {
                let place = [String::new(), String::new(), String::new(), path.join("/")];
                let word = (self.word)(place, node.clone());
                self.put(node.span.range(), format!("{word}: it holds a Secret"));
            }
            _ => {}
        }
    }

    fn secret(&mut self, secret: &Mapping) {
        let metadata = |key: &str| {
            let node = secret.get("metadata").and_then(|metadata| metadata.get(key));
            node.and_then(Node::scalar_text).unwrap_or_default().into_owned()
        };
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        for entry in FIELDS.iter().filter_map(|field| secret.entry(field)) {
            let place = |key: &str| [namespace.clone(), name.clone(), entry.key.to_string(), key.to_owned()];
            let Some(values) = entry.value.as_mapping() else {
                let word = (self.word)(place(""), entry.value.clone());
                self.put(entry.value.span.range(), word.to_owned());
                continue;
            };
            let mut lines = Vec::new();
            for value in values {
                lines.push(format!("{}: {}", value.key, (self.word)(place(&value.key), value.value.clone())));
                self.below(&value.value);
            }
            self.values(entry.key_span.end(), &entry.value, values, &lines);
        }
        let copy = secret.get("metadata").and_then(|it| it.get("annotations")).and_then(|it| it.get(COPY));
        if let Some(copy) = copy {
            let word = (self.word)([namespace, name, COPY.to_owned(), String::new()], copy.clone());
            self.put(copy.span.range(), word.to_owned());
        }
    }

    fn below(&mut self, value: &Node) {
        if value.text(self.text).starts_with('*') {
            self.aliased.push(value.clone());
        }
    }

    /// Hides what aliases among the values stand for, where it is written.
    fn anchors(&mut self, node: &Node) {
        if self.aliased.iter().any(|value| value.value == node.value) {
            self.put(node.span.range(), HIDDEN.to_owned());
        }
        match &node.value {
            Value::Mapping(mapping) => mapping.iter().for_each(|entry| self.anchors(&entry.value)),
            Value::Sequence(items) => items.iter().for_each(|item| self.anchors(item)),
            _ => {}
        }
    }

    /// Puts one line for each key in the place of a whole mapping, comments between and after its lines included.
    fn values(&mut self, after_key: usize, node: &Node, values: &Mapping, lines: &[String]) {
        let Some(first) = values.iter().next() else { return };
        let source = self.text.get(node.span.range()).unwrap_or_default();
        if source.starts_with('{') {
            return self.put(node.span.range(), format!("{{{}}}", lines.join(", ")));
        }
        let ends = values.iter().flat_map(|entry| [entry.key_span.end(), entry.value.span.end()]);
        let end = self.end_of_comments(ends.max().unwrap_or_default());
        let indent = " ".repeat(first.key_span.column().saturating_sub(1));
        let text: String = lines.iter().map(|line| format!("\n{indent}{line}")).collect();
        self.put(after_key..end, format!(":{text}\n"));
    }

    /// The end of the line at a place, and of the lines after it that are empty or comments.
    fn end_of_comments(&self, place: usize) -> usize {
        // A block of text ends after its last line.
        let at_start = place.checked_sub(1).and_then(|last| self.text.get(last..place)) == Some("\n");
        let mut end = place;
        for (index, line) in self.text.get(place..).unwrap_or_default().split_inclusive('\n').enumerate() {
            let plain = line.trim();
            let first = index == 0 && !at_start;
            if !first && !plain.is_empty() && !plain.starts_with('#') {
                break;
            }
            end += line.len();
        }
        end
    }

    fn put(&mut self, range: Range<usize>, text: String) {
        if !range.is_empty() {
            self.found.push((range, text));
        }
    }

    /// The text with what was found replaced, a wider range before one in it.
    fn done(mut self) -> String {
        self.found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let (mut text, mut place) = (String::new(), 0);
        for (range, word) in self.found {
            if range.start >= place {
                text.push_str(self.text.get(place..range.start).unwrap_or_default());
                text.push_str(&word);
            }
            place = place.max(range.end);
        }
        text.push_str(self.text.get(place..).unwrap_or_default());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(value: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  annotations:\n    {COPY}: '{{\"data\": \"{value}\"}}'\nstringData:\n  \
             # was {value}\n  token: {value} # {value}\n  file: |\n    {value}\n  # {value}\ntype: Opaque\n"
        )
    }

    #[test]
    fn values_of_secrets_are_hidden_in_every_shape() {
        for text in [
            secret("canary"),
            format!("# first\n---\n{}---\nkind: ConfigMap\n", secret("canary")),
            "{\"kind\": \"Secret\", \"data\": {\"a\": \"canary\"}, \"type\": \"Opaque\"}\n".to_owned(),
            "kind: List\nitems:\n- kind: Secret\n  data:\n    a: canary\n- kind: X\n".to_owned(),
            "kind: Secret\ndata: {a: canary, b: canary}\ntype: Opaque\n".to_owned(),
            "kind: ConfigMap\ndata:\n  a: |\n    kind: Secret\n    data: {a: canary}\nx: y\n".to_owned(),
            "kind: Secret\nmetadata:\n  labels: {a: &x canary}\ndata:\n  a: *x\ntype: Opaque\n".to_owned(),
            "kind: Secret\r\ndata:\r\n  a: canary\r\ntype: Opaque\r\n".to_owned(),
            "kind: Secret\ndata: canary\n".to_owned(),
            "kind: Secret\ndata:\n  a: [canary\n".to_owned(),
        ] {
            let [hidden, _] = without_secrets(&text, "");
            assert!(!hidden.contains("canary") && hidden.contains(HIDDEN), "{text}\n{hidden}");
            assert_eq!(hidden.contains("type: Opaque"), text.contains("type: Opaque"), "{hidden}");
        }
    }

    #[test]
    fn a_changed_value_is_a_changed_line() {
        let before = "kind: Secret\nmetadata: {name: a}\ndata:\n  same: x\n  other: y\n";
        let [before, after] = without_secrets(before, &before.replace('y', "z"));
        assert_eq!(before, "kind: Secret\nmetadata: {name: a}\ndata:\n  same: <hidden>\n  other: <hidden>\n");
        assert_eq!(after, "kind: Secret\nmetadata: {name: a}\ndata:\n  same: <hidden>\n  other: <hidden, changed>\n");
    }

    #[test]
    fn what_holds_no_secret_stays_as_it_is() {
        let text = "kind: Cluster\n# a\nspec: {secretRef: {kind: X}}\ndata: {a: b}\n---\nkind: ConfigMap\ndata:\n  a: Secret\n";
        assert_eq!(without_secrets(text, text), [text, text]);
    }
}
