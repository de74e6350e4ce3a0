//! JSON as Go's `encoding/json` writes it: sorted keys, `<`, `>`, `&`, U+2028 and U+2029 escaped.
//!
//! Generated names carry a hash of such text, and signatures of manifests are made over it.

use crate::node::{Entry, Mapping, Node, Value};
use crate::number::json_float;

/// Which entries of maps are written: asked with the keys on the way to the map (lists have no part in it) and the key.
type Keep<'a> = &'a dyn Fn(&[&str], &str) -> bool;

/// Prints compact JSON, as `json.Marshal` does.
#[must_use]
pub fn to_json(node: &Node) -> String {
    to_json_with(node, &|_, _| true)
}

/// Prints compact JSON without the entries that `keep` refuses. `keep` gets the keys that lead to
/// the mapping, without list indices, and the key.
///
/// ```
/// use yaml::json;
///
/// let documents = yaml::parse("a: [{b: 1, c: 2}]\nb: 3\n", &yaml::Limits::default())?;
/// let text = json::to_json_with(&documents[0].root, &|way, key| !(way == ["a"] && key == "b"));
/// assert_eq!(text, r#"{"a":[{"c":2}],"b":3}"#);
/// # Ok::<(), yaml::YamlError>(())
/// ```
#[must_use]
pub fn to_json_with(node: &Node, keep: &dyn Fn(&[&str], &str) -> bool) -> String {
    let mut writer = Writer { indent: None, keep, way: Vec::new(), out: String::new() };
    writer.node(node, 0);
    writer.out
}

/// Prints JSON with line breaks and two spaces per level, as `json.MarshalIndent` does.
#[must_use]
pub fn to_pretty_json(node: &Node) -> String {
    let mut writer = Writer { indent: Some("  "), keep: &|_, _| true, way: Vec::new(), out: String::new() };
    writer.node(node, 0);
    writer.out
}

struct Writer<'a> {
    indent: Option<&'static str>,
    keep: Keep<'a>,
    /// The keys on the way to the map that is written.
    way: Vec<&'a str>,
    out: String,
}

impl<'a> Writer<'a> {
    fn node(&mut self, node: &'a Node, level: usize) {
        match &node.value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(number) => self.out.push_str(&number.to_string()),
            Value::Uint(number) => self.out.push_str(&number.to_string()),
            Value::Float(number) => self.out.push_str(&json_float(*number)),
            Value::String(text) => write_string(text, &mut self.out),
            Value::Sequence(items) => self.all(['[', ']'], level, items, |writer, item| writer.node(item, level + 1)),
            Value::Mapping(mapping) => {
                let entries = self.entries(mapping);
                self.all(['{', '}'], level, entries, |writer, entry| writer.entry(entry, level + 1));
            }
        }
    }

    fn entry(&mut self, entry: &'a Entry, level: usize) {
        write_string(&entry.key, &mut self.out);
        self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
        self.way.push(&entry.key);
        self.node(&entry.value, level);
        self.way.pop();
    }

    fn entries(&self, mapping: &'a Mapping) -> Vec<&'a Entry> {
        let mut entries: Vec<&Entry> = mapping.iter().filter(|entry| (self.keep)(&self.way, &entry.key)).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        entries
    }

    fn all<T>(
        &mut self,
        [open, close]: [char; 2],
        level: usize,
        items: impl IntoIterator<Item = T>,
        mut write_one: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                self.out.push(',');
            }
            is_empty = false;
            self.new_line(level + 1);
            write_one(self, item);
        }
        if !is_empty {
            self.new_line(level);
        }
        self.out.push(close);
    }

    fn new_line(&mut self, level: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(level));
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, parse};

    fn root(source: &str) -> Node {
        parse(source, &Limits::default()).unwrap().remove(0).root
    }

    #[test]
    fn text_is_that_of_go() {
        let check = |source: &str, expect: &str| assert_eq!(to_json(&root(source)), expect, "{source}");
        check("b: [1, 2.50, '<a>&']\n\"\\t\": ''\n", r#"{"\t":"","b":[1,2.5,"\u003ca\u003e\u0026"]}"#);
        check("b: 1\na: [x, null, true]\nB: {}\n", r#"{"B":{},"a":["x",null,true],"b":1}"#);
        check("a: <placeholder> & more\n", r#"{"a":"\u003cplaceholder\u003e \u0026 more"}"#);
        check(r#"a: "q\"b\\n\n\r\t\b\f\x01\u2028/é""#, r#"{"a":"q\"b\\n\n\r\t\b\f\u0001\u2028/é"}"#);
        check("a: 1.5\nb: 1e30\nc: 1e-9\nd: 2.0\n", r#"{"a":1.5,"b":1e+30,"c":1e-9,"d":2}"#);
    }

    #[test]
    fn the_pretty_form_has_one_entry_a_line() {
        assert_eq!(to_pretty_json(&root("a: [1]\nb: {}\n")), "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
    }

    #[test]
    fn entries_are_left_out_by_the_way_to_their_map() {
        let node = root("a:\n- {b: 1, c: 2}\n- {b: 3}\nb: 4\n");
        let text = to_json_with(&node, &|way, key| !(way == ["a"] && key == "b"));
        assert_eq!(text, r#"{"a":[{"c":2},{}],"b":4}"#);
    }
}
