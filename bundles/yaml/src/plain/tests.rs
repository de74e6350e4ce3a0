use std::path::PathBuf;

use proptest::prelude::*;

use super::line::line_length;
use super::*;
use crate::parse::parse_events;

/// The first node, or key, that differs in value, place or written text.
fn difference<'a>(left: &'a Node, right: &'a Node) -> Option<(&'a Node, &'a Node)> {
    if left.span != right.span || left.scalar_text() != right.scalar_text() || left.style() != right.style() {
        return Some((left, right));
    }
    match (&left.value, &right.value) {
        (Value::Sequence(a), Value::Sequence(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(left, right)| difference(left, right))
        }
        (Value::Mapping(a), Value::Mapping(b)) if a.len() == b.len() => a.iter().zip(b).find_map(|(a, b)| {
            let keys = a.key == b.key && a.key_span == b.key_span;
            if keys { difference(&a.value, &b.value) } else { Some((left, right)) }
        }),
        (a, b) => (a != b).then_some((left, right)),
    }
}

/// Both readers agree, or the quick one gives up. Says whether it read.
#[track_caller]
fn agree(source: &str) -> bool {
    let agree_by = |rules: Rules| {
        let Some(quick) = read(source, &Limits::default(), rules) else { return false };
        let events = parse_events(source, &Limits::default(), rules);
        let events = events.unwrap_or_else(|error| panic!("read what is an error: {error}\n{source}"));
        assert_eq!(quick.len(), events.len(), "{source}");
        for (quick, events) in quick.iter().zip(&events) {
            let differ = difference(&quick.root, &events.root);
            assert!(differ.is_none(), "{rules:?} {differ:?}\n{source}");
            assert_eq!(quick.duplicates, events.duplicates, "{rules:?}\n{source}");
        }
        true
    };
    let all = [Rules::V3, Rules::Manifest, Rules::V2, Rules::V3RepeatedKeys].map(agree_by);
    all.contains(&true)
}

#[test]
fn plain_block_yaml_is_read() {
    for source in [
        "a: 1\nb: two\n",
        "a:\n  b: c\n  d: {}\ne: []\n",
        "a:\n- b: 1\n  c: 2\n- b: 3\nd:\n  - x\n  - y z\n",
        "# remark\n---\na: 1.30\n---\n# nothing\n---\nb: 0x1F\n",
        "a: long text\n  that goes on\n  and on\nb: 2\n",
        "- a: long text\n    that goes on\n- b\n",
        "a: \"quoted\"\nb: ''\nc: ~\nd: null\ne: true\n",
        "a:    x\n\n\nb: y   \n",
        "a: <placeholder>\nb: http://x/y?z=1&2\nc: a,b [c]\n",
        "a:\n\n  # remark\n  b: 1\n# remark\n",
        "when: 2020-01-01\n",
        "a: -1\nb: -x\nc: --x y\nd: ^[a-z]{1,2}$\n",
        "- --x=:8080\n- --y\n",
        "",
        "# remark\n",
        "---\n",
        "a: b # remark\nc: 'd' # remark\ne: 1   # remark\n",
        "a: # remark\n  b: 1\n",
        "a: b#c\nd: \"e # f\"\n",
        "a: [1, b, \"c d\", 'e', [f], {g: h, i: {j: 0x1F}}]  # remark\nk: [ ]\nl: { }\n",
        "- [a, b]\n- {c: d}\n- [/x, 1.30, 10.0.0.0/8]\n",
        "a: |\n  b\n  c\nd: 1\n",
        "a: |-\n  b: x\n\n    - c # no remark\n\n\nd: 1\n",
        "a: |+\n  b\n\n\nd: 1\n",
        "- |\n  b\n- a: |\n    b\n   \n  c: 1\n",
        "  a: \n  - |\n    true: ---\n",
        "a:\n- |\n  b\n- c\nd:\n- 'e'\n- f\n",
        "a:\n  b: |-\n    c\n# remark\n  d: 1\n",
        "a: |\n\n  b\n",
        "a: |\n  b\n---\nc: 1\n",
        "a: |\n  b\n",
        "a: |+\n  b\n\n",
        "a: \u{e9}t\u{e9}\nb: '\u{2014}'\nc: |\n  \u{1F680}\n# \u{e9}\n",
        "a: \"x\\n\\t\\\"\\\\\"\nb: 'it''s'\n",
        "a: 'b: c\n  # d\n\n\n  e''s' # remark\nb: \"f  \n  \\\"g\\\"\"\n",
        "- 'a\n  b'\n- c: \"\u{e9} \\n\n    d\"\n  e: 1\n",
        "a: \"b \\\n  \\  c\\ d\"\ne: 'f\n  ''g'' h'\n",
        "a:\n- b\n---\nc:\n- d: e\n---\n- f\n",
        "a: =\nb: :c\nd: [-n, --e, -1]\n",
        "on: yes\nb: y\nc: [no, 2020-01-01]\nd: off # remark\n",
    ] {
        assert!(agree(source), "gave up on {source:?}");
    }
}

#[test]
fn everything_else_is_left_to_the_parser() {
    for source in [
        "a: &x 1\n",
        "a: *x\n",
        "a: !!str 1\n",
        "a: |2\n  b\n",
        "a: |\n  b",
        "a: |\n\n",
        "a: |\n   b\n  c\n",
        "a: |\n    \n  b\n",
        "a: | # remark\n  b\n",
        "a: |\n  \tb\n",
        "a: >-\n  b\n",
        "a: {b: }\n",
        "a: {b: 1, b: 2}\n",
        "a: {\"b\": 1}\n",
        "a: [1, ]\n",
        "a: [1,\n  2]\n",
        "a: [b: 1]\n",
        "a: [b c]\n",
        "a: [*b]\n",
        "a: [1]# remark\n",
        "a: [1] b\n",
        "a: {1: 2}\n",
        "a: 'b'# remark\n",
        "a: b # remark\n  c\n",
        "a: &b # remark\n",
        "a: \"\\u00e9\"\n",
        "a: \"b \\ \n  c\"\n",
        "a: \"b \\\n\n  c\"\n",
        "a: 'b\nc'\n",
        "a: '\n  b'\n",
        "a: 'b\n  '\n",
        "a: 'b\n",
        "a:\tb\n",
        "a: \u{85}\n",
        "a: \u{2028}\n",
        "\u{e9}: a\n",
        "a: [\u{e9}]\n",
        "a: 1\na: 2\n",
        "a:\n",
        "a:\nb: 1\n",
        "a: b: c\n",
        "a: b\n c: d\n",
        "a: x\n\n  y\n",
        "  a: 1\n b: 2\n",
        "- a\nb: 1\n",
        "a: 1\n- b\n",
        "true: 1\n",
        "- - a\n",
        "? a\n: b\n",
        "a: \"b\"\n  c\n",
        "a: {}\n  c\n",
        "text\n",
        "a: 1\n...\nb: 2\n",
        "a: 1\n--- b\n",
        "%YAML 1.2\n---\na: 1\n",
        "a: 1\r\n",
        "a: x\n  - y\n",
        "a: x\n  ---\n",
    ] {
        assert!(!agree(source), "read {source:?}");
    }
}

#[test]
fn limits_are_left_to_the_parser() {
    let read_with = |source: &str, limits: Limits| read(source, &limits, Rules::V3).is_some();
    assert!(read_with("a:\n  b: 1\n", Limits { depth: 2, nodes: 3, documents: 1, ..Limits::default() }));
    assert!(!read_with("a:\n  b: 1\n", Limits { depth: 1, ..Limits::default() }));
    assert!(!read_with("a:\n- b: 1\n", Limits { depth: 2, ..Limits::default() }));
    assert!(!read_with("a:\n  b: 1\n", Limits { nodes: 2, ..Limits::default() }));
    assert!(!read_with("a: 1\n---\nb: 1\n", Limits { documents: 1, ..Limits::default() }));
}

/// Every YAML file of the shared data, where it is present.
#[test]
#[allow(clippy::disallowed_methods, reason = "reads the shared data")]
fn both_readers_agree_on_published_files() {
    let Some(data) = skip::shared("data/eks-anywhere") else { return };
    let mut folders: Vec<PathBuf> = vec![data];
    let (mut files, mut quick) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files += 1;
                quick += usize::from(agree(&std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files > 20 && quick >= 6, "{quick} of {files}");
}

/// A tree as the quick reader likes it, with some lines that it may not like.
fn lines() -> impl Strategy<Value = String> {
    let line = (
        0usize..4,
        prop_oneof![Just(""), Just("- "), Just("-"), Just("  ")],
        prop_oneof![Just(""), Just("a: "), Just("b:"), Just("a/b.c: "), Just("true: "), Just("# ")],
        prop_oneof![
            Just(""),
            Just("x"),
            Just("1.30"),
            Just("0x1F"),
            Just("{}"),
            Just("[]"),
            Just("\"q\""),
            Just("'q'"),
            Just("x: y"),
            Just("x #y"),
            Just("---"),
            Just("..."),
            Just("<<"),
            Just("2020-01-01"),
            Just("~"),
            Just("\"q"),
            Just("'q"),
            Just("\"q\\"),
            Just("''"),
            Just("=:"),
            Just(":x"),
            Just("[-x, --y]"),
            Just("q'"),
            Just("q\""),
            Just("\"q\\t\""),
            Just("''q"),
            Just("|"),
            Just("|-"),
            Just("|+"),
            Just("[x, \"y\", 1.30]"),
            Just("{x: y, z: [w]}"),
            Just("[x"),
            Just("x # r"),
            Just("'x' # r"),
            Just("--x"),
            Just("--"),
            Just("-- x"),
            Just("^x"),
            Just("é"),
            Just("yes"),
            Just("   "),
        ],
    );
    proptest::collection::vec(line, 0..8).prop_map(|lines| {
        let line = |(indent, item, key, value): (usize, &str, &str, &str)| {
            format!("{}{item}{key}{value}\n", "  ".repeat(indent))
        };
        lines.into_iter().map(line).collect()
    })
}

#[test]
fn lines_of_any_length_end_where_they_end() {
    for length in 0..40 {
        for rest in ["", "\n", "\nx", "\n\n", "\n0123456789"] {
            let text = format!("{}{rest}", "\u{b}".repeat(length));
            assert_eq!(line_length(text.as_bytes()), length, "{text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn both_readers_agree_on_any_lines(source in lines()) {
        agree(&source);
    }

    #[test]
    fn both_readers_agree_on_any_text(source in "[abé:# \\-\n\"'\\[\\]{}~.<&*!|+>?,%@]{0,24}") {
        agree(&source);
    }
}
