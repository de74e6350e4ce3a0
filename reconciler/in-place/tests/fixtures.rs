//! Requests as Cluster API sends them, and what each is answered: `fixtures/hooks`. `UPDATE_FIXTURES=1` records anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test reads files, and fails by panicking"
)]

use std::path::{Path, PathBuf};

use base64::Engine as _;
use in_place::claims::apply;
use in_place::hooks::{CanUpdate, can_update};
use serde_json::Value;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hooks");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 5, "{cases:?}");
    cases
}

fn answer(request: &[u8]) -> Value {
    let kind = serde_json::from_slice::<Value>(request).unwrap()["kind"].clone();
    let request = match kind.as_str() {
        Some("CanUpdateMachineSetRequest") => CanUpdate::of_machine_set(request),
        _ => CanUpdate::of_machine(request),
    };
    can_update(&request.unwrap())
}

#[test]
fn requests_are_answered_as_recorded() {
    for case in cases() {
        let request = std::fs::read(case.join("request.json")).unwrap();
        let answer = answer(&request);
        let text = format!("{}\n", serde_json::to_string_pretty(&answer).unwrap());
        let file = case.join("answer.json");
        if std::env::var("UPDATE_FIXTURES").is_ok() {
            std::fs::write(&file, &text).unwrap();
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(recorded, text, "{}: record anew by UPDATE_FIXTURES=1", case.display());
    }
}

/// What Cluster API does with an answer: patches go onto what is, and the machine stays where that is what is desired.
#[test]
fn recorded_patches_leave_nothing_that_differs_or_are_declined() {
    let parts = [
        ("machine", "machinePatch", "/spec/version"),
        ("infrastructureMachine", "infrastructureMachinePatch", "/spec"),
        ("bootstrapConfig", "bootstrapConfigPatch", "/spec"),
        ("machineSet", "machineSetPatch", "/spec/template/spec/version"),
        ("infrastructureMachineTemplate", "infrastructureMachineTemplatePatch", "/spec/template/spec"),
        ("bootstrapConfigTemplate", "bootstrapConfigTemplatePatch", "/spec/template/spec"),
    ];
    let mut in_place = Vec::new();
    for case in cases() {
        let request: Value = serde_json::from_slice(&std::fs::read(case.join("request.json")).unwrap()).unwrap();
        let answer: Value = serde_json::from_slice(&std::fs::read(case.join("answer.json")).unwrap()).unwrap();
        let is_left = parts.iter().any(|(part, key, place)| {
            let mut current = request["current"][part].clone();
            if let Some(patch) = answer.get(*key) {
                assert_eq!(patch["patchType"], "JSONMergePatch");
                let bytes = base64::engine::general_purpose::STANDARD.decode(patch["patch"].as_str().unwrap()).unwrap();
                apply(&mut current, &serde_json::from_slice(&bytes).unwrap());
            }
            current.pointer(place) != request["desired"][part].pointer(place)
        });
        if answer["status"] == "Success" && !is_left {
            in_place.push(case.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    assert_eq!(
        in_place,
        [
            "control-plane-machine-kube-vip",
            "control-plane-machine-minor",
            "control-plane-machine-release",
            "machine-set-minor"
        ]
    );
}
