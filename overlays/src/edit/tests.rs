use super::*;

#[test]
fn a_scalar_is_replaced_in_its_own_style() {
    for (source, path, value, expected) in [
        ("a: 1.29 # now\nb: x\r\n", vec!["a"], "1.30", "a: 1.30 # now\nb: x\r\n"),
        ("a: \"1.29\"\n", vec!["a"], "1.30", "a: \"1.30\"\n"),
        ("a: '1.29'\n", vec!["a"], "it's", "a: 'it''s'\n"),
        ("a: \"x\"\n", vec!["a"], "q\"\\", "a: \"q\\\"\\\\\"\n"),
        ("{a: {b: old}, c: d}", vec!["a", "b"], "new", "{a: {b: new}, c: d}"),
        ("a:\n- b: old   # k\n- b: x\n", vec!["a", "0", "b"], "new", "a:\n- b: new   # k\n- b: x\n"),
        ("a: old\n", vec!["a"], "- x", "a: \"- x\"\n"),
        ("a: old\n", vec!["a"], "x: y", "a: \"x: y\"\n"),
        ("a: old\n", vec!["a"], "", "a: \"\"\n"),
        ("ü: ö\n", vec!["ü"], "ä", "ü: ä\n"),
    ] {
        assert_eq!(set(source, 0, &path, value).as_deref(), Ok(expected), "{source:?}");
    }
}

#[test]
fn the_document_is_chosen_by_content() {
    let source = "# only a comment\n---\na: 1\n---\n---\na: 2\n";
    assert_eq!(set(source, 1, &["a"], "3").as_deref(), Ok("# only a comment\n---\na: 1\n---\n---\na: 3\n"));
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    for (source, path) in [
        ("a: |\n  x\n", vec!["a"]),
        ("a: {b: c}\n", vec!["a"]),
        ("a: [1]\n", vec!["a"]),
        ("a: 1\n", vec!["b"]),
        ("a: x\n  y\n", vec!["a"]),
        ("a:\nb: 1\n", vec!["a"]),
        ("a: !!float 1\n", vec!["a"]),
        ("a: &x old\nb: *x\n", vec!["a"]),
        ("a: &x old\nb: *x\n", vec!["b"]),
        ("a: [&x old]\n", vec!["a", "0"]),
    ] {
        assert!(set(source, 0, &path, "new").is_err(), "{source:?}");
    }
    assert!(matches!(set("a: 1\n", 0, &["a"], "x\ny"), Err(EditError::Value(_))));
}

#[test]
fn a_namespace_goes_below_the_name() {
    for (source, expected) in [
        (
            "kind: A\nmetadata:\n  name: x # n\nspec: 1\n",
            "kind: A\nmetadata:\n  name: x # n\n  namespace: n\nspec: 1\n",
        ),
        ("metadata:\r\n    name: x\r\n", "metadata:\r\n    name: x\r\n    namespace: n\r\n"),
        ("metadata: {name: x, labels: {}}\n", "metadata: {name: x, namespace: n, labels: {}}\n"),
        ("metadata:\n  name: x", "metadata:\n  name: x\n  namespace: n\n"),
        ("metadata:\n  name: x\n  namespace: y\n", "metadata:\n  name: x\n  namespace: y\n"),
    ] {
        assert_eq!(insert_namespace(source, "n").as_deref(), Ok(expected), "{source:?}");
    }
}

proptest::proptest! {
    /// Any text that one line can hold, in every style, reads back as itself, and the rest of the text stays.
    #[test]
    fn any_value_reads_back_in_every_style(value in "[ -~äß€]{0,24}", style in 0usize..6) {
        let (source, path): (&str, &[&str]) = [
            ("# c\r\na: old # d\r\nb: 1\r\n", &["a"][..]),
            ("a: \"old\"\nb: 1\n", &["a"]),
            ("a: 'old'\nb: 1\n", &["a"]),
            ("{a: old, b: [1, old]}", &["b", "1"]),
            ("a:\n- b: old\n  c: 1\n- d\n", &["a", "0", "b"]),
            ("a:\n  b:\n    c: old", &["a", "b", "c"]),
        ][style];
        let edited = set(source, 0, path, &value).unwrap();
        let root = parse(&edited).unwrap().remove(0);
        proptest::prop_assert_eq!(field(&root, path).unwrap().scalar_text().unwrap(), value.as_str(), "{}", edited);
        let back = set(&edited, 0, path, "old").unwrap();
        proptest::prop_assert_eq!(back.replace(['"', '\''], ""), source.replace(['"', '\''], ""));
    }
}
