//! Laws: what is printed is read back equal and printed the same; the order of keys does not depend on the input's;
//! a build gives the same bytes twice; no text makes the reader panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss
)]

use kustomize_rs::{Cache, MemoryFileSystem, Options, Outside, build, build_cached};
use proptest::prelude::*;
use yaml::{Limits, Mapping, Node, Value, emit, parse};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,8}",
        "[ -~]{0,20}",
        "[ \n\ta-c:#'\"-]{0,12}",
        "[0-9a-fox_.:+-]{0,10}",
        "(word ){20,40}",
        "\\PC{0,8}",
        Just("yes".to_owned()),
        Just("2001-01-01".to_owned()),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e6..1e6f64).prop_map(Value::Float),
        text().prop_map(|text| Value::String(text.into())),
    ]
    .prop_map(Node::new);
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Node::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|pairs| Node::from(pairs.into_iter().collect::<Mapping>())),
        ]
    })
}

/// Texts that go-yaml itself cannot carry through.
fn is_sound(node: &Node) -> bool {
    let sound = |text: &str| {
        // The writer of go-yaml v2 leaves `0o+7` bare, and the reader of v3 takes it for a number.
        !text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{FEFF}']) && !text.contains("0o+") && !text.contains("0o-")
    };
    match &node.value {
        Value::String(text) => sound(text),
        Value::Sequence(items) => items.iter().all(is_sound),
        Value::Mapping(mapping) => mapping
            .iter()
            .all(|entry| sound(&entry.key) && entry.key != "<<" && entry.key.len() <= 128 && is_sound(&entry.value)),
        _ => true,
    }
}

fn same(left: &Node, right: &Node) -> bool {
    match (&left.value, &right.value) {
        (Value::Sequence(a), Value::Sequence(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Mapping(a), Value::Mapping(b)) => {
            a.len() == b.len() && a.iter().all(|entry| b.get(&entry.key).is_some_and(|value| same(&entry.value, value)))
        }
        (Value::Float(a), Value::Int(b)) => (*a - *b as f64).abs() < 1e-9,
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_printed_is_read_back(node in node().prop_filter("sound", is_sound)) {
        let printed = emit(&node);
        let documents = parse(&printed, &Limits::default());
        prop_assert!(documents.is_ok(), "{:?}\n{printed}", documents);
        let documents = documents.unwrap();
        if node.is_null() {
            prop_assert!(documents.is_empty());
        } else {
            let read = &documents[0].root;
            prop_assert!(same(&node, read), "{node:?}\n{read:?}\n{printed}");
            prop_assert_eq!(emit(read), printed);
        }
    }

    #[test]
    fn the_order_of_keys_is_that_of_the_set(keys in prop::collection::btree_set("[a-c0-2_.-]{1,4}", 0..12), seed in any::<u64>()) {
        let mut shuffled: Vec<&String> = keys.iter().collect();
        shuffled.sort_by_key(|key| key.bytes().fold(seed, |sum, byte| sum.rotate_left(7) ^ u64::from(byte)));
        let mapping = |keys: Vec<&String>| Node::from(keys.into_iter().map(|key| (key.clone(), Node::from("v"))).collect::<Mapping>());
        prop_assert_eq!(emit(&mapping(keys.iter().collect())), emit(&mapping(shuffled)));
    }

    #[test]
    fn no_text_makes_the_reader_panic(source in "[ \na-c:&*!|>{}\\[\\],#'\"%@-]{0,60}") {
        let _ = parse(&source, &Limits::default());
    }

    #[test]
    fn a_build_gives_the_same_bytes_twice(kustomization in "(namePrefix: 'a[a-z-]{1,3}'\n)?(namespace: '[a-z]{1,3}'\n)?(commonLabels: \\{a: '[a-z]'\\}\n)?") {
        let mut files = MemoryFileSystem::new();
        files.insert("kustomization.yaml", format!("resources: [a.yaml]\n{kustomization}").into_bytes());
        files.insert("a.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n".to_vec());
        let once = || build(&files, "", &Options::default()).map(|resources| resources.to_yaml());
        prop_assert_eq!(once().unwrap(), once().unwrap());
    }

    #[test]
    fn a_cache_changes_nothing_while_files_change(edits in prop::collection::vec((0usize..4, "(namePrefix: [a-c]-\n)?(namespace: [a-c]\n)?(images: \\[\\{name: x, newTag: '[0-3]'\\}\\]\n)?", "[a-c]", any::<bool>()), 1..8)) {
        let cache = Cache::new(1 << 16);
        let mut files = MemoryFileSystem::new();
        for (file, fields, name, broken) in edits {
            let object = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: x}}]}}\n");
            match file {
                0 => files.insert("base/kustomization.yaml", format!("resources: [a.yaml]\n{fields}").into_bytes()),
                1 => files.insert("kustomization.yaml", format!("resources: [base, b.yaml]\n{fields}").into_bytes()),
                2 => files.insert("base/a.yaml", if broken { b"kind: [".to_vec() } else { object.into_bytes() }),
                _ => files.insert("b.yaml", object.into_bytes()),
            }
            for root in ["", "base"] {
                let text = |built: Result<kustomize_rs::Resources, kustomize_rs::BuildError>| {
                    built.map(|resources| resources.to_yaml()).map_err(|error| error.to_string())
                };
                let plain = text(build(&files, root, &Options::default()));
                prop_assert_eq!(text(build_cached(&files, root, &Options::default(), Outside::default(), &cache)), plain);
            }
        }
    }
}
