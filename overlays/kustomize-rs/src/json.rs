//! JSON as Go's `encoding/json` writes it: sorted keys, `<`, `>`, `&`, U+2028 and U+2029 escaped.

use crate::yaml::{Entry, Mapping, Node, Value, json_float};

/// Returns the compact form.
pub(crate) fn to_json(node: &Node) -> String {
    let mut out = String::new();
    write(node, None, 0, &mut out);
    out
}

/// Returns the form with line breaks and two spaces per level.
pub(crate) fn to_pretty_json(node: &Node) -> String {
    let mut out = String::new();
    write(node, Some("  "), 0, &mut out);
    out
}

fn write(node: &Node, indent: Option<&str>, level: usize, out: &mut String) {
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Uint(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&json_float(*number)),
        Value::String(text) => write_string(text, out),
        Value::Sequence(items) => {
            let write_item = |item: &Node, out: &mut String| write(item, indent, level + 1, out);
            write_all(items.iter(), ['[', ']'], indent, level, out, write_item);
        }
        Value::Mapping(mapping) => {
            write_all(sorted(mapping).into_iter(), ['{', '}'], indent, level, out, |entry, out| {
                write_string(&entry.key, out);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                write(&entry.value, indent, level + 1, out);
            });
        }
    }
}

fn sorted(mapping: &Mapping) -> Vec<&Entry> {
    let mut entries: Vec<&Entry> = mapping.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

fn write_all<T>(
    items: impl ExactSizeIterator<Item = T>,
    brackets: [char; 2],
    indent: Option<&str>,
    level: usize,
    out: &mut String,
    mut write_one: impl FnMut(T, &mut String),
) {
    let [open, close] = brackets;
    let is_empty = items.len() == 0;
    out.push(open);
    let new_line = |level: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.push_str(&indent.repeat(level));
        }
    };
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        new_line(level + 1, out);
        write_one(item, out);
    }
    if !is_empty {
        new_line(level, out);
    }
    out.push(close);
}

pub(crate) fn write_string(text: &str, out: &mut String) {
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
    use crate::yaml::{Limits, parse};

    #[test]
    fn json_is_go_s() {
        let node = parse("b: [1, 2.50, '<a>&']\na: {x: ~, y: true}\n\"\\t\": ''\n", &Limits::default()).unwrap();
        let json = to_json(&node[0].root);
        assert_eq!(json, "{\"\\t\":\"\",\"a\":{\"x\":null,\"y\":true},\"b\":[1,2.5,\"\\u003ca\\u003e\\u0026\"]}");
        let node = parse("a: [1]\nb: {}\n", &Limits::default()).unwrap();
        assert_eq!(to_pretty_json(&node[0].root), "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
    }
}
