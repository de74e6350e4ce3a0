//! Clones that were cut: one that has what is read works, however short its history is; any other is refused by name.

use std::path::Path;
use std::process::Command;

use crate::support::{Fleet, Run, stepgate};

/// A bare clone of the fleet that was made with this option, in a folder of its own: git may still tidy up another one.
fn cut(fleet: &Fleet, option: &str) -> String {
    let place = fleet.folder().join(format!("cut{option}.git")).to_str().unwrap().to_owned();
    let url = format!("file://{}", fleet.place());
    git(fleet.folder(), &["clone", "--quiet", "--bare", "--no-single-branch", option, &url, &place]);
    place
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn run(fleet: &Fleet, place: &str, verb: &[&str]) -> Run {
    let mirror = fleet.folder().join("mirror");
    stepgate(&[verb, &["--repo", place, "--mirror", mirror.to_str().unwrap()]].concat())
}

#[test]
fn a_shallow_clone_is_planned_as_far_as_rollouts_reach_back() {
    let fleet = Fleet::settled();
    // Every cluster is rolled out once more, so that its rollout began from a commit after the first one.
    let overlay =
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {example.com/a: b}\n";
    fleet.write("main", "overlays/cilium/kustomization.yaml", overlay.as_bytes());
    let run_again = fleet.demo();
    assert_eq!((run_again.code, &run_again.json()["complete"]), (0, &true.into()), "{}", run_again.text());
    let count = |arguments: &[&str]| -> usize {
        git(&fleet.folder().join("fleet.git"), &[&["rev-list", "--count"], arguments].concat()).parse().unwrap()
    };
    let (all, adopted) = (count(&["deploy"]), count(&["--grep=adopt as the source branch says", "deploy"]));
    let plan = fleet.run(&["plan", "-o", "json"]).json();
    let place = cut(&fleet, &format!("--depth={}", all - adopted));
    assert_eq!(git(Path::new(&place), &["rev-list", "--count", "deploy"]), (all - adopted).to_string());
    assert_eq!(run(&fleet, &place, &["plan", "-o", "json"]).json(), plan);
    assert_eq!(run(&fleet, &place, &["run", "--once"]).code, 0);

    let place = cut(&fleet, "--depth=1");
    for verb in [&["plan"][..], &["status"], &["run", "--once"], &["adopt", "--yes"]] {
        let refused = run(&fleet, &place, verb);
        assert_eq!(refused.code, 2, "{verb:?}: {}", refused.text());
        assert!(refused.text().contains("is missing") && refused.text().contains("--unshallow"), "{}", refused.text());
    }
    // The source branch is whole, and the deploy branch ends in the middle of every rollout.
    let place = cut(&fleet, &format!("--depth={}", count(&["main"])));
    for verb in [&["plan"][..], &["status"], &["run", "--once"]] {
        let refused = run(&fleet, &place, verb);
        assert_eq!(refused.code, 2, "{verb:?}: {}", refused.text());
        let text = refused.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("is missing") && text.contains("git fetch --unshallow"), "{verb:?}: {text}");
    }
}

#[test]
fn a_clone_without_files_or_folders_is_refused_with_what_brings_them() {
    let fleet = Fleet::settled();
    git(&fleet.folder().join("fleet.git"), &["config", "uploadpack.allowFilter", "true"]);
    for option in ["--filter=blob:none", "--filter=tree:0"] {
        let place = cut(&fleet, option);
        for verb in [&["check"][..], &["plan"], &["status"], &["run", "--once"]] {
            let refused = run(&fleet, &place, verb);
            assert_eq!(refused.code, 2, "{option} {verb:?}: {}", refused.text());
        }
        let text = run(&fleet, &place, &["status"]).text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("is missing") && text.contains("git fetch --refetch --no-filter"), "{option}: {text}");
        // And it does.
        let branches = ["origin", "+refs/heads/*:refs/heads/*"];
        git(Path::new(&place), &[&["fetch", "--quiet", "--refetch", "--no-filter"], &branches[..]].concat());
        let status = run(&fleet, &place, &["status", "--exit-code"]);
        assert_eq!(status.code, 0, "{option}: {}", status.text());
    }
}
