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

/// Every scalar of every YAML file of the shared data: replaced by another text, only its own bytes change, and the
/// text reads as before but for that one value.
#[test]
fn a_changed_scalar_changes_its_bytes_and_nothing_else() {
    let Some(data) = crate::testing::shared() else { return };
    let mut folders = vec![data.join("eks-anywhere"), data.join("mirror")];
    let (mut files, mut scalars) = (0, 0);
    while let Some(folder) = folders.pop() {
        for path in crate::testing::list(&folder) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let bytes = crate::testing::read_file(&path);
            let Ok(source) = yaml::decode(&bytes) else { continue };
            let Ok(roots) = parse(&source) else { continue };
            files += 1;
            let mut spans = Vec::new();
            roots.iter().for_each(|root| collect(root, &mut spans));
            // The whole text is read again for a sample of each file; every scalar is compared by bytes.
            let sample = (spans.len() / 3).max(1);
            // A large manifest has tens of thousands of scalars, each of which copies it: there every 50th is edited.
            let step = if source.len() > 100_000 { 50 } else { 1 };
            for (index, span) in spans.iter().enumerate().step_by(step) {
                let Ok(edited) = replace_scalar(&source, *span, "changed") else { continue };
                scalars += 1;
                assert_eq!(edited[..span.start], source[..span.start], "{}", path.display());
                assert!(edited.ends_with(&source[span.end..]), "{}", path.display());
                let length = edited.len() - span.start - (source.len() - span.end);
                let written = &edited[span.start..span.start + length];
                assert!(["changed", "\"changed\"", "'changed'"].contains(&written), "{written}");
                if index % sample == 0 && source.len() < 200_000 {
                    let again = parse(&edited).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                    let mut values = Vec::new();
                    again.iter().for_each(|root| differences(root, &mut values));
                    let mut before = Vec::new();
                    roots.iter().for_each(|root| differences(root, &mut before));
                    let changed = before.iter().zip(&values).filter(|(left, right)| left != right).count();
                    assert!(before.len() == values.len() && changed <= 1, "{}: line {}", path.display(), span.line);
                }
            }
        }
    }
    println!("{scalars} scalars in {files} files");
    assert!(files > 50 && scalars > 10_000, "{scalars} scalars in {files} files");
}

fn collect(node: &Node, spans: &mut Vec<Span>) {
    match &node.value {
        Value::Mapping(mapping) => mapping.iter().for_each(|entry| collect(&entry.value, spans)),
        Value::Sequence(items) => items.iter().for_each(|item| collect(item, spans)),
        _ => spans.push(node.span),
    }
}

fn differences(node: &Node, values: &mut Vec<String>) {
    match &node.value {
        Value::Mapping(mapping) => mapping.iter().for_each(|entry| {
            values.push(entry.key.clone());
            differences(&entry.value, values);
        }),
        Value::Sequence(items) => items.iter().for_each(|item| differences(item, values)),
        _ => values.push(node.scalar_text().unwrap_or_default().into_owned()),
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
