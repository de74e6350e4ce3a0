use super::*;
use crate::{Limits, parse};

fn check_text(text: &str, expect: &str) {
    let mut mapping = Mapping::new();
    mapping.insert("k", text);
    assert_eq!(emit(&Node::from(mapping)), format!("k: {expect}\n"), "{text:?}");
}

#[test]
fn quotes_are_go_yaml_v2_s() {
    for plain in
        ["a", "v1.28.4", "a:b", "a#b", "=", "<<", ":a", "?a", "-a", "a'b", "a\"b", "é", "日本", "~a", "a, b", "."]
    {
        check_text(plain, plain);
    }
    for (text, expect) in [
        ("", "\"\""),
        ("yes", "\"yes\""),
        ("n", "\"n\""),
        ("1", "\"1\""),
        ("1e3", "\"1e3\""),
        ("12:30", "\"12:30\""),
        ("null", "\"null\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("*", "'*'"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        ("@x", "'@x'"),
        ("- a", "'- a'"),
        ("-", "'-'"),
        ("---", "'---'"),
        ("%a", "'%a'"),
        ("'", "''''"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("a\tb", "\"a\\tb\""),
        ("\u{1F600}", "\"\\U0001F600\""),
        ("\u{7f}", "\"\\x7F\""),
        ("a\u{a0}b", "a\u{a0}b"),
        ("\u{FEFF}x", "\"\\uFEFF\\x78\""),
        ("\u{2028}", "'\u{2028}'"),
        ("a\u{2029}b", "'a\u{2029}  b'"),
        ("a\u{85}b", "a b"),
    ] {
        check_text(text, expect);
    }
}

#[test]
fn texts_with_line_breaks_are_literal_where_allowed() {
    check_text("a\nb\n", "|\n  a\n  b");
    check_text("a\nb", "|-\n  a\n  b");
    check_text("a\n\n", "|+\n  a\n");
    check_text("\n", "|2+\n");
    check_text(" a\nb\n", "|2\n   a\n  b");
    check_text("a\n\n  b\n", "|\n  a\n\n    b");
    check_text("a \nb", "\"a \\nb\"");
    check_text("a\tb\nc", "\"a\\tb\\nc\"");
    check_text("a\nb ", "\"a\\nb \"");
}

#[test]
fn long_texts_fold_at_single_spaces() {
    let words = "word ".repeat(30);
    let expect = format!("{}word\n  {}", "word ".repeat(15), "word ".repeat(14).trim_end());
    check_text(words.trim_end(), &expect);
    check_text(&"x".repeat(200), &"x".repeat(200));
    let quoted = format!("{}: {}", "y".repeat(90), "z".repeat(10));
    check_text(&quoted, &format!("'{}:\n  {}'", "y".repeat(90), "z".repeat(10)));
    let double = format!("\t{}  {}", "y".repeat(90), "z".repeat(10));
    check_text(&double, &format!("\"\\t{}\n  \\ {}\"", "y".repeat(90), "z".repeat(10)));
}

#[test]
fn collections_are_block_and_compact() {
    let check = |source: &str, expect: &str| {
        let documents = parse(source, &Limits::default()).unwrap();
        assert_eq!(emit(&documents[0].root), expect, "{source}");
    };
    check("{b: 1, a: [1, [2, 3], {x: 1, z: 2}, [], {}]}", "a:\n- 1\n- - 2\n  - 3\n- x: 1\n  z: 2\n- []\n- {}\nb: 1\n");
    check("a: {}\nb: []\nc: null\nd: {e: {f: g}}", "a: {}\nb: []\nc: null\nd:\n  e:\n    f: g\n");
    check("[a]", "- a\n");
    check("text", "text\n");
}

#[test]
fn keys_that_do_not_fit_a_line_stand_alone() {
    let mut mapping = Mapping::new();
    mapping.insert("k".repeat(129), Node::from("v"));
    assert_eq!(emit(&Node::from(mapping)), format!("? {}\n: v\n", "k".repeat(129)));
    let mut mapping = Mapping::new();
    mapping.insert("a\nb", Node::from(vec![Node::from("v"), Node::from("w")]));
    assert_eq!(emit(&Node::from(mapping)), "? |-\n  a\n  b\n: - v\n  - w\n");
    let mut mapping = Mapping::new();
    mapping.insert("1", Node::from("v"));
    mapping.insert("", Node::from("w"));
    assert_eq!(emit(&Node::from(mapping)), "\"\": w\n\"1\": v\n");
}

#[test]
fn documents_are_joined_by_a_line_of_dashes() {
    let nodes = [Node::from("a"), Node::from("b")];
    assert_eq!(emit_all(&nodes), "a\n---\nb\n");
}
