//! Every scalar of every YAML file at hand, replaced: its own bytes change, and the file reads as before but for its value.
//!
//! Each scalar is replaced by itself and compared by bytes. Reading a manifest of a megabyte once for each of its ten thousand
//! scalars would take hours, so what was written for scalars is then put into the file for every third scalar at once, three
//! times: between two replaced scalars two stay as they were, and each value of each reading is compared.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::*;

const ROUNDS: usize = 3;

#[derive(Debug, Default)]
struct Count {
    files: usize,
    /// Files that are no YAML, such as templates and broken input of other tests.
    unread: usize,
    replaced: usize,
    /// Scalars that cannot be replaced in place.
    refused: usize,
}

#[test]
fn a_changed_scalar_changes_its_bytes_and_nothing_else() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let ours = check_folder(&fixtures);
    println!("fixtures: {ours:?}");
    assert!(ours.files > 100 && ours.replaced > 2_000, "{ours:?}");
    let Some(data) = crate::testing::shared() else { return };
    let published = check_folder(&data);
    println!("published files: {published:?}");
    assert!(published.files > 4_000 && published.replaced > 150_000, "{published:?}");
}

fn check_folder(folder: &Path) -> Count {
    let mut count = Count::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in crate::testing::list(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                check_file(&path, &mut count);
            }
        }
    }
    count
}

fn check_file(path: &Path, count: &mut Count) {
    let bytes = crate::testing::read_file(path);
    let read = yaml::decode(&bytes).ok().and_then(|source| Some((parse(&source).ok()?, source)));
    let Some((roots, source)) = read else {
        count.unread += 1;
        return;
    };
    count.files += 1;
    let mut before = Vec::new();
    roots.iter().for_each(|root| scalars(root, &mut before));
    // Several nodes have one place where an alias stands for a scalar.
    let spans: BTreeMap<usize, Span> =
        before.iter().filter_map(|(span, _)| *span).map(|span| (span.start(), span)).collect();
    // Copying a megabyte for each of ten thousand scalars takes its time too: a scalar's document is enough.
    let documents = document::split(&source);
    let document = |span: Span| {
        let found = documents.iter().find(|document| document.range.contains(&span.start()));
        found.map_or(0..source.len(), |document| document.range.clone())
    };
    let written: BTreeMap<usize, (Range<usize>, String, String)> = spans
        .values()
        .enumerate()
        .filter_map(|(index, span)| {
            let value = value(index);
            let range = document(*span);
            let moved = Span::new(span.start() - range.start, span.end() - range.start, span.line(), span.column());
            let written = replaced_alone(&source[range], moved, &value, path)?;
            Some((span.start(), (span.range(), written, value)))
        })
        .collect();
    count.replaced += written.len();
    count.refused += spans.len() - written.len();
    for round in 0..ROUNDS.min(written.len()) {
        let chosen: BTreeMap<usize, &(Range<usize>, String, String)> =
            written.iter().skip(round).step_by(ROUNDS).map(|(start, edit)| (*start, edit)).collect();
        let edited = together(&source, chosen.values().copied());
        let roots = parse(&edited).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut after = Vec::new();
        roots.iter().for_each(|root| scalars(root, &mut after));
        assert_eq!(before.len(), after.len(), "{}", path.display());
        for ((span, old), (_, new)) in before.iter().zip(&after) {
            let edit = span.and_then(|span| chosen.get(&span.start()));
            assert_eq!(new, edit.map_or(old, |(_, _, value)| value), "{}: {span:?}", path.display());
        }
    }
}

/// Plain text, what looks like a number, and what has to be quoted.
fn value(index: usize) -> String {
    match index % 3 {
        0 => format!("changed-{index}"),
        1 => format!("1.{index}0"),
        _ => format!("it's: \"{index}\" # [x]"),
    }
}

/// Replaces one scalar, compares all other bytes, and returns what stands in its place. `None` where it is refused, which
/// only happens to what is not plain or quoted text on one line, or has a tag or an anchor.
fn replaced_alone(source: &str, span: Span, value: &str, path: &Path) -> Option<String> {
    let old = &source[span.range()];
    match replace_scalar(source, span, value) {
        Ok(edited) => {
            let end = edited.len() - (source.len() - span.end());
            assert!(
                edited.as_bytes()[..span.start()] == source.as_bytes()[..span.start()],
                "{}: {span:?}",
                path.display()
            );
            assert!(edited.as_bytes()[end..] == source.as_bytes()[span.end()..], "{}: {span:?}", path.display());
            Some(edited[span.start()..end].to_owned())
        }
        Err(error) => {
            let special = old.is_empty() || old.contains('\n') || old.starts_with(['|', '>', '*', '&', '!']);
            assert!(special || has_property(source, span), "{}:{}: {error}: {old:?}", path.display(), span.line());
            None
        }
    }
}

fn together<'a>(source: &str, edits: impl Iterator<Item = &'a (Range<usize>, String, String)>) -> String {
    let mut text = String::with_capacity(source.len());
    let mut position = 0;
    for (range, written, _) in edits {
        text.push_str(&source[position..range.start]);
        text.push_str(written);
        position = range.end;
    }
    text.push_str(&source[position..]);
    text
}

/// Place and text of every scalar, and the keys between them, in order.
fn scalars(node: &Node, found: &mut Vec<(Option<Span>, String)>) {
    match &node.value {
        Value::Mapping(mapping) => mapping.iter().for_each(|entry| {
            found.push((None, entry.key.to_string()));
            scalars(&entry.value, found);
        }),
        Value::Sequence(items) => items.iter().for_each(|item| scalars(item, found)),
        _ => found.push((Some(node.span), node.scalar_text().unwrap_or_default().into_owned())),
    }
}
