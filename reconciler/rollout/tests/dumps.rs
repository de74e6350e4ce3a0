//! Recorded dumps and what differs between them; `UPDATE_FIXTURES=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};

use rollout::dump::{Comparison, Dump, compare};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dumps")
}

fn dump(folder: &Path, name: &str) -> Dump {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn told(comparison: &Comparison) -> String {
    let differences = comparison.differences.iter().map(|it| {
        let help = it.help.as_ref().map(|help| format!("  {help}\n")).unwrap_or_default();
        format!("{}: {}: {} -> {}\n{help}", it.kind, it.object, it.before, it.now)
    });
    let remarks = comparison.remarks.iter().map(|remark| format!("remark: {remark}\n"));
    differences.chain(remarks).collect()
}

#[test]
fn recorded_dumps_differ_by_owner_as_is_written_beside_them() {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 2);
    for folder in folders {
        let (before, now) = (dump(&folder, "before.json"), dump(&folder, "now.json"));
        let found = told(&compare(&before, &now));
        let file = folder.join("expected.txt");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&file, &found).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, expected, "{}: UPDATE_FIXTURES=1 writes it anew", folder.display());
    }
}

#[test]
fn a_dump_does_not_differ_from_itself() {
    for name in ["replaced-nodes", "worse"] {
        let dump = dump(&folder().join(name), "now.json");
        assert_eq!(compare(&dump, &dump).differences, [], "{name}");
    }
}
