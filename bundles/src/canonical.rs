//! The canonical JSON that a signature is made over: what Go's `encoding/json` prints for the same values.

use kustomize_rs::yaml::{Node, Value};

/// Writes `node` as compact JSON: keys sorted by bytes, `<`, `>`, `&`, U+2028 and U+2029 escaped as Go does by default.
/// `keep` is asked for every key of a map, with the path of that map; list items have no part in the path.
pub(crate) fn write(node: &Node, keep: &dyn Fn(&[&str], &str) -> bool) -> String {
    let mut text = String::new();
    value(node, &mut Vec::new(), keep, &mut text);
    text
}

fn value<'a>(node: &'a Node, path: &mut Vec<&'a str>, keep: &dyn Fn(&[&str], &str) -> bool, out: &mut String) {
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Uint(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&float(*number)),
        Value::String(text) => string(text, out),
        Value::Sequence(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                value(item, path, keep, out);
            }
            out.push(']');
        }
        Value::Mapping(mapping) => {
            let mut entries: Vec<_> = mapping.iter().filter(|entry| keep(path, &entry.key)).collect();
            entries.sort_by(|left, right| left.key.as_bytes().cmp(right.key.as_bytes()));
            out.push('{');
            for (index, entry) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                string(&entry.key, out);
                out.push(':');
                path.push(&entry.key);
                value(&entry.value, path, keep, out);
                path.pop();
            }
            out.push('}');
        }
    }
}

/// Go prints a float without exponent between 1e-6 and 1e21.
fn float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        // Rust writes `1e21`, Go `1e+21`.
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    number.to_string()
}

fn string(text: &str, out: &mut String) {
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
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use kustomize_rs::yaml::{Limits, parse};

    use super::*;

    fn canonical(source: &str) -> String {
        let documents = parse(source, &Limits::default()).unwrap();
        write(&documents[0].root, &|_, _| true)
    }

    #[test]
    fn text_is_that_of_go() {
        let check = |source: &str, expect: &str| assert_eq!(canonical(source), expect, "{source}");
        check("b: 1\na: [x, null, true]\nB: {}\n", r#"{"B":{},"a":["x",null,true],"b":1}"#);
        check("a: <placeholder> & more\n", r#"{"a":"\u003cplaceholder\u003e \u0026 more"}"#);
        check(r#"a: "q\"b\\n\n\r\t\b\f\x01\u2028/é""#, r#"{"a":"q\"b\\n\n\r\t\b\f\u0001\u2028/é"}"#);
        check("a: 1.5\nb: 1e30\nc: 1e-9\nd: 2.0\n", r#"{"a":1.5,"b":1e+30,"c":1e-9,"d":2}"#);
    }

    #[test]
    fn left_out_keys_are_named_by_map_path() {
        let documents = parse("a:\n- {b: 1, c: 2}\n- {b: 3}\nb: 4\n", &Limits::default()).unwrap();
        let text = write(&documents[0].root, &|path, key| !(path == ["a"] && key == "b"));
        assert_eq!(text, r#"{"a":[{"c":2},{}],"b":4}"#);
    }
}
