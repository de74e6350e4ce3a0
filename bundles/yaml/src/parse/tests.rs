use super::*;
use crate::{Node, Value, decode, emit};

fn one(source: &str) -> Node {
    let documents = parse(source, &Limits::default()).unwrap_or_else(|error| panic!("{source:?}: {error}"));
    assert_eq!(documents.len(), 1, "{source:?}");
    documents.into_iter().next().unwrap().root
}

fn refused(source: &str) -> (YamlErrorKind, usize, usize) {
    match parse(source, &Limits::default()) {
        Ok(documents) => panic!("{source:?} gave {documents:?}"),
        Err(error) => (error.kind, error.line, error.column),
    }
}

#[test]
fn an_escaped_single_quote_is_a_quote_in_double_quotes() {
    let node = one("# \"\na: {k: \"it\\'s \\\\ \\'x\\'\"}\nb: 1\n");
    assert_eq!(node.at(&["a", "k"]).and_then(Node::as_str), Some("it's \\ 'x'"));
    assert_eq!(node.get("b").map(|node| node.span.start()), Some(32));
    refused("a: \"\\d\"\n");
}

#[test]
fn an_escaped_slash_is_refused_where_it_stands() {
    assert_eq!(refused("a: 1\nb: \"x\\/y\"\n"), (YamlErrorKind::Syntax, 2, 6));
    assert_eq!(refused("{\"a\\/b\": 1}"), (YamlErrorKind::Syntax, 1, 4));
    assert_eq!(refused("a: \"x\n  é \\/\"\n"), (YamlErrorKind::Syntax, 2, 5));
    let kept = one("a: \"\\\\/\"\nb: '\\/'\nc: \\/\n");
    let texts = ["a", "b", "c"].map(|key| kept.get(key).and_then(Node::as_str));
    assert_eq!(texts, [Some("\\/"); 3]);
    let json = parse_with("{\"a\": \"x\\/y\"}", &Limits::default(), Rules::Json).unwrap();
    assert_eq!(json[0].root.get("a").and_then(Node::as_str), Some("x/y"));
}

#[test]
fn values_have_the_types_of_go_yaml_v3() {
    let node = one("a: 1\nb: yes\nc: 1.30\nd: 'x'\ne: [~, true]\nf: 2024-01-02\n");
    assert_eq!(node.get("a").and_then(Node::as_i64), Some(1));
    assert_eq!(node.get("b").and_then(Node::as_str), Some("yes"));
    assert_eq!(node.get("c").map(|node| node.value.clone()), Some(Value::Float(1.3)));
    assert_eq!(node.at(&["e"]).and_then(Node::as_sequence).map(<[Node]>::len), Some(2));
    assert_eq!(node.get("f").and_then(Node::as_str), Some("2024-01-02T00:00:00Z"));
    assert_eq!(node.get("f").and_then(Node::scalar_text).as_deref(), Some("2024-01-02"));
}

#[test]
fn spans_point_into_the_text() {
    let source = "a: 1.30 # note\né:\n  - \"x\"\n  -   1\n";
    let node = one(source);
    let version = node.get("a").unwrap();
    assert_eq!(version.text(source), "1.30");
    assert_eq!((version.span.line(), version.span.column()), (1, 4));
    let items = node.get("é").and_then(Node::as_sequence).unwrap();
    assert_eq!(items[0].text(source), "\"x\"");
    assert_eq!(items[1].text(source), "1");
    assert_eq!((items[1].span.line(), items[1].span.column()), (4, 7));
    let key = node.as_mapping().and_then(|mapping| mapping.entry("é")).unwrap().key_span;
    assert_eq!(&source[key.range()], "é");
}

#[test]
fn documents_without_content_are_dropped() {
    let documents = parse("# only\n---\na: 1\n---\n# nothing\n---\n---\nb: 2\n...\n", &Limits::default()).unwrap();
    assert_eq!(documents.len(), 2);
    assert!(parse("", &Limits::default()).unwrap().is_empty());
    assert!(parse("# comment\n", &Limits::default()).unwrap().is_empty());
}

#[test]
fn aliases_and_merge_keys_are_expanded() {
    let check = |source: &str, expect: &str| assert_eq!(emit(&one(source)), expect, "{source}");
    check("a: &x {k: 1}\nb: *x\n", "a:\n  k: 1\nb:\n  k: 1\n");
    check("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\n", "a:\n  k: 1\n  l: 2\nb:\n  k: 3\n  l: 2\n");
    check("b:\n  <<: [{k: 1}, {k: 2, l: 3}]\n", "b:\n  k: 1\n  l: 3\n");
    check("'<<': 1\n", "<<: 1\n");
}

#[test]
fn tags_decide_the_type() {
    let check = |source: &str, expect: &str| assert_eq!(emit(&one(source)), format!("k: {expect}\n"), "{source}");
    check("k: !!int \"3\"", "3");
    check("k: !foo 1", "\"1\"");
    check("k: ! 5", "5");
    check("k: !!float 3", "3");
    check("k: !!str 5", "\"5\"");
    check("k: !!binary aGVsbG8=", "hello");
    check("k: !!timestamp \"2001-01-01\"", "\"2001-01-01T00:00:00Z\"");
    assert_eq!(refused("k: !!int 3.5"), (YamlErrorKind::Value, 1, 10));
}

#[test]
fn errors_carry_kind_and_place() {
    let check = |source: &str, expect: (YamlErrorKind, usize, usize)| assert_eq!(refused(source), expect, "{source}");
    check("a: 1\nb: 2\na: 3\n", (YamlErrorKind::DuplicateKey, 3, 1));
    check("a: {b: 1, 'b': 2}\n", (YamlErrorKind::DuplicateKey, 1, 11));
    check("true: 1\n", (YamlErrorKind::KeyType, 1, 1));
    check("? [a]\n: 1\n", (YamlErrorKind::KeyType, 1, 3));
    check("a: &x [*x]\n", (YamlErrorKind::Alias, 1, 8));
    check("a: *x\n", (YamlErrorKind::Alias, 1, 4));
    check("<<: 1\n", (YamlErrorKind::Value, 1, 1));
}

#[test]
fn duplicate_keys_are_found_in_large_mappings_too() {
    let mut source: String = (0..100).map(|number| format!("k{number}: 1\n")).collect();
    source.push_str("k7: 2\n");
    assert_eq!(refused(&source).0, YamlErrorKind::DuplicateKey);
}

#[test]
fn kustomization_rules_have_the_old_booleans() {
    let documents = parse_with("n: yes\n1: off\n", &Limits::default(), Rules::V2).unwrap();
    let root = &documents[0].root;
    assert_eq!(root.get("false").and_then(Node::as_bool), Some(true));
    assert_eq!(root.get("1").and_then(Node::as_bool), Some(false));
}

#[test]
fn limits_bound_every_dimension() {
    let limit = |source: &str, limits: Limits| {
        parse(source, &limits).map_or_else(|error| error.kind, |documents| panic!("{source:?} gave {documents:?}"))
    };
    let limits = Limits::default();
    assert_eq!(limit("a: 123", Limits { bytes: 3, ..limits }), YamlErrorKind::Limit);
    assert_eq!(limit("a\n---\nb\n---\nc", Limits { documents: 2, ..limits }), YamlErrorKind::Limit);
    assert_eq!(limit("[[[1]]]", Limits { depth: 2, ..limits }), YamlErrorKind::Limit);
    assert_eq!(limit("[1, 2, 3]", Limits { nodes: 3, ..limits }), YamlErrorKind::Limit);
    assert_eq!(limit("[&a [[1]], [*a]]", Limits { depth: 3, ..limits }), YamlErrorKind::Limit);
}

#[test]
fn an_alias_bomb_ends_at_the_node_limit() {
    let mut source = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 9].join(", ");
        source.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert_eq!(refused(&source).0, YamlErrorKind::Limit);
}

#[test]
fn byte_order_marks_and_carriage_returns_are_read() {
    assert_eq!(decode(b"\xEF\xBB\xBFa: 1").unwrap(), "a: 1");
    assert_eq!(decode(b"\xFF\xFEa\0:\0 \x001\0").unwrap(), "a: 1");
    assert_eq!(decode(b"ok\n\xC3\x28").unwrap_err().line, 2);
    let node = one("a: |\r\n  x\r\n  y\r\nb: 2\r\n");
    assert_eq!(node.get("a").and_then(Node::as_str), Some("x\ny\n"));
    assert_eq!(node.get("b").and_then(Node::as_i64), Some(2));
}

#[test]
fn a_repeated_key_may_be_taken_when_its_value_is_the_same() {
    let parse = |source: &str| parse_with(source, &Limits::default(), Rules::V3RepeatedKeys);
    let documents = parse("a: {b: 1}\nc: 2\na: {b: 1}\n").unwrap();
    assert_eq!(documents, parse("a: {b: 1}\nc: 2\n").unwrap());
    let error = parse("a: {b: 1}\nc: 2\na: {b: 2}\n").unwrap_err();
    assert_eq!((error.kind, error.line, error.column), (YamlErrorKind::DuplicateKey, 3, 1));
}
