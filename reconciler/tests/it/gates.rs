//! `stepgate gate replay` on objects of our own (`fixtures/gates`).

use std::path::Path;

use crate::support::stepgate;

fn replay(file: &str, version: &str) -> (i32, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/gates").join(file);
    let run = stepgate(&["gate", "replay", path.to_str().unwrap(), "--kubernetes-version", version]);
    (run.code, run.stdout)
}

#[test]
fn the_exit_code_of_a_replay_is_what_gates_say_at_last() {
    for (file, version, code, told) in [
        ("control-planes/rke2-settled.yaml", "v1.34.1+rke2r2", 0, "3 machines at v1.34.1+rke2r2"),
        ("control-planes/rke2-settled.yaml", "v1.34.1+rke2r3", 4, "v1.34.1+rke2r3 expected"),
        ("control-planes/rke2-missing.yaml", "v1.34.1+rke2r2", 4, "not found"),
        ("machine-pools/v1beta1-failed.yaml", "v1.30.2", 3, "quota exceeded"),
        ("machine-pools/v1beta2-bumped.yaml", "v1.30.2", 4, "Node pool-a"),
        ("cluster-api/1.4/never-rolled.yaml", "1.30", 0, "control-plane"),
    ] {
        let (seen, text) = replay(file, version);
        assert_eq!(seen, code, "{file}: {text}");
        assert!(text.contains(told), "{file}: {text}");
    }
}
