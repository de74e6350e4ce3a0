//! Readers of what lies on a node: its disk may have been written by others, or in part.

use fuzz::fuzz;

use crate::files::{machine, manifest};
use crate::host::static_pods;
use crate::journal::Journal;

fn text(error: impl std::fmt::Display) -> Result<(), String> {
    if error.to_string().is_empty() { Err("an error without a message".to_owned()) } else { Ok(()) }
}

#[test]
fn fuzzed_journals_are_written_as_they_are_read() {
    fuzz("journal", [], |input| {
        let Ok(journal) = serde_json::from_slice::<Journal>(input) else { return Ok(()) };
        let written = serde_json::to_vec(&journal).map_err(|error| error.to_string())?;
        match serde_json::from_slice::<Journal>(&written) {
            Ok(again) if again == journal => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn fuzzed_manifests_of_upgrades_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    fuzz("node-manifest", [], |input| {
        std::fs::write(folder.path().join(manifest::NAME), input).map_err(|error| error.to_string())?;
        manifest::Source::read(folder.path()).map_or_else(text, |_| Ok(()))
    });
}

#[test]
fn fuzzed_lists_of_files_lead_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let list = br#"{"files": [{"path": "/etc/kubernetes/audit.yaml", "source": "0",
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "mode": "0600"}]}"#;
    std::fs::write(folder.path().join("0"), "").unwrap();
    fuzz("node-files", [list.to_vec()], |input| {
        std::fs::write(folder.path().join("files.json"), input).map_err(|error| error.to_string())?;
        let files = match machine::read(folder.path()) {
            Ok(files) => files,
            Err(error) => return text(error),
        };
        let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
        let is_inside =
            |file: &machine::MachineFile| file.source.canonicalize().is_ok_and(|path| path.starts_with(&root));
        if files.iter().all(is_inside) { Ok(()) } else { Err(format!("{files:?} leads out of the folder")) }
    });
}

#[test]
fn fuzzed_static_pods_are_read_or_refused() {
    let pod = br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd", "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "etcd", "image": "registry.example.com/etcd:v3.5.21", "command": ["etcd", "--a=b"]}]}}"#;
    fuzz("static-pod", [pod.to_vec()], |input| static_pods::parse(input, "etcd").map_or_else(text, |_| Ok(())));
}
