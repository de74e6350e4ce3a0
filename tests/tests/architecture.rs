//! The house as the design draws it: arrows between packages, rooms that cannot reach I/O, a top level that stays
//! as it is, and documents whose paths exist.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_owned()
}

/// The platform that this runs on, such as `x86_64-unknown-linux-gnu`.
fn platform() -> String {
    let output = Command::new("rustc").arg("-vV").current_dir(root()).output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc prints text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

/// For this platform only: what others need has not been downloaded by the build, and nothing is downloaded here.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &platform()])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Package name → names of what it depends on, without what only its tests need.
fn graph(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let names: BTreeMap<String, String> =
        list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let name = names[&text(&node["id"])].clone();
        for dependency in list(&node["deps"]) {
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev") {
                graph.entry(name.clone()).or_default().insert(names[&text(&dependency["pkg"])].clone());
            }
        }
    }
    graph
}

const OURS: [&str; 24] = [
    "approvals",
    "bundles",
    "cluster",
    "domain",
    "fetch",
    "forge",
    "git",
    "host",
    "in-place",
    "kustomize-rs",
    "kustomize-rs-yaml",
    "overlays",
    "planning",
    "policy",
    "rollout",
    "simulator",
    "stepgate-notify",
    "stepgate",
    "stepgate-node",
    "tests",
    "skip",
    "browser",
    "fuzz",
    "fake-api-server",
];

#[test]
fn arrows_between_our_packages_are_the_ones_of_the_design() {
    let graph = graph(&metadata());
    let tests = [&OURS[..19], &["browser", "fake-api-server", "skip"]].concat();
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("kustomize-rs-yaml", &[][..]),
        ("kustomize-rs", &["kustomize-rs-yaml"]),
        ("bundles", &["kustomize-rs-yaml"]),
        ("domain", &["kustomize-rs-yaml"]),
        ("policy", &["domain", "kustomize-rs-yaml"]),
        ("overlays", &["bundles", "domain", "kustomize-rs", "kustomize-rs-yaml", "policy"]),
        ("rollout", &["bundles", "domain", "policy"]),
        ("simulator", &["bundles", "domain", "in-place", "policy", "rollout"]),
        ("in-place", &["bundles", "domain", "kustomize-rs-yaml"]),
        (
            "planning",
            &["bundles", "domain", "in-place", "kustomize-rs", "kustomize-rs-yaml", "overlays", "policy", "rollout"],
        ),
        ("host", &[]),
        ("git", &["domain", "host", "kustomize-rs", "overlays", "policy", "rollout"]),
        (
            "cluster",
            &[
                "domain",
                "host",
                "in-place",
                "kustomize-rs",
                "kustomize-rs-yaml",
                "overlays",
                "policy",
                "rollout",
                "simulator",
            ],
        ),
        ("fetch", &["bundles", "domain", "host", "kustomize-rs", "overlays", "policy"]),
        (
            "approvals",
            &["bundles", "domain", "kustomize-rs", "kustomize-rs-yaml", "overlays", "planning", "policy", "rollout"],
        ),
        ("forge", &["approvals", "domain", "git", "host", "overlays", "policy"]),
        ("stepgate-notify", &["domain", "host", "policy", "rollout"]),
        ("stepgate", &OURS[..17]),
        // A program of its own on each node: small, and of nothing else.
        ("stepgate-node", &["kustomize-rs-yaml"]),
        ("tests", &tests),
        ("browser", &["skip"]),
        ("skip", &[]),
        ("fuzz", &[]),
        ("fake-api-server", &[]),
    ]);
    for package in OURS {
        for dependency in graph.get(package).into_iter().flatten().filter(|name| OURS.contains(&name.as_str())) {
            assert!(
                allowed[package].contains(&dependency.as_str()),
                "{package} depends on {dependency}: a new arrow needs its own commit and a line in reconciler/ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn each_library_of_the_edge_is_used_by_its_package_alone() {
    let graph = graph(&metadata());
    let homes: [(&str, &[&str]); 6] = [
        ("kube", &["cluster", "tests"]),
        ("git2", &["git", "tests"]),
        ("reqwest", &["fetch", "forge", "host", "stepgate-notify", "tests"]),
        ("notify", &["stepgate"]),
        ("liblzma", &["cluster"]),
        ("ureq", &["stepgate-node"]),
    ];
    for (library, home) in homes {
        let users = OURS.iter().filter(|package| graph.get(**package).is_some_and(|used| used.contains(library)));
        let users: Vec<&str> = users.copied().collect();
        assert_eq!(users, home, "{library} stays in its package: see reconciler/ARCHITECTURE.md");
    }
}

#[test]
fn pure_packages_cannot_reach_a_runtime_a_network_or_a_repository() {
    let graph = graph(&metadata());
    let forbidden =
        ["tokio", "kube", "kube-client", "git2", "libgit2-sys", "reqwest", "hyper", "notify", "axum", "mio"];
    for package in [
        "approvals",
        "bundles",
        "domain",
        "in-place",
        "kustomize-rs",
        "kustomize-rs-yaml",
        "overlays",
        "planning",
        "policy",
        "rollout",
        "simulator",
    ] {
        let mut reached = BTreeSet::new();
        let mut queue = vec![package.to_owned()];
        while let Some(name) = queue.pop() {
            for dependency in graph.get(&name).into_iter().flatten() {
                if reached.insert(dependency.clone()) {
                    queue.push(dependency.clone());
                }
            }
        }
        for name in forbidden {
            assert!(!reached.contains(name), "{package} reaches {name}");
        }
    }
}

#[test]
fn every_pure_package_forbids_file_clock_and_environment_access_by_lint() {
    for package in [
        "bundles",
        "bundles/yaml",
        "overlays",
        "overlays/kustomize-rs",
        "reconciler/approvals",
        "reconciler/domain",
        "reconciler/in-place",
        "reconciler/planning",
        "reconciler/policy",
        "reconciler/rollout",
        "reconciler/simulator",
    ] {
        let file = root().join(package).join("clippy.toml");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for method in ["std::fs::read", "std::env::var", "std::time::SystemTime::now", "std::time::Instant::now"] {
            assert!(text.contains(method), "{}: {method} is not disallowed", file.display());
        }
    }
}

#[test]
fn the_top_level_holds_what_the_design_names_and_nothing_else() {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().expect("git runs");
    let files = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let entries: BTreeSet<&str> = files.lines().filter_map(|line| line.split('/').next()).collect();
    let rooms = ["Cargo.toml", "reconciler", "bundles", "overlays", "fixtures", "tests", "README.md"];
    let configuration = [
        ".cargo",
        ".ci",
        ".config",
        ".github",
        ".gitignore",
        ".gitattributes",
        "Cargo.lock",
        "LICENSE",
        "clippy.toml",
        "deny.toml",
        "rust-toolchain.toml",
        "rustfmt.toml",
    ];
    for room in rooms {
        assert!(entries.contains(room), "{room} is missing at the top level");
    }
    for entry in entries {
        assert!(rooms.contains(&entry) || configuration.contains(&entry), "{entry} has no room at the top level");
    }
}

/// Every document about this repository: those at the top, of the reconciler, and below `.github`.
fn documents() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "--", "*.md"]).current_dir(root()).output().expect("git runs");
    let files = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let is_about_us =
        |file: &&str| !file.contains('/') || file.starts_with(".github/") || file.starts_with("reconciler/");
    files.lines().filter(is_about_us).map(str::to_owned).collect()
}

#[test]
fn paths_named_in_the_documents_exist() {
    let (mut all, documents) = (0, documents());
    assert!(documents.len() > 10, "{documents:?}");
    for document in documents {
        let text = std::fs::read_to_string(root().join(&document)).expect("the document is there");
        for word in text.split('`').skip(1).step_by(2) {
            let first = word.split('/').next().unwrap_or_default();
            let rooms = ["reconciler", "bundles", "overlays", "fixtures", "tests", ".ci", ".github"];
            // `bundles/*.yaml` and `overlays/<component>` speak of a fleet repository, not of this one.
            let is_of_a_fleet = ["overlays/", "bundles/"].contains(&word) || word.starts_with("bundles/bundles-");
            if !word.contains('/') || word.contains(['*', '<', ' ', '{']) || !rooms.contains(&first) || is_of_a_fleet {
                continue;
            }
            all += 1;
            // `FILE::TEST` names a test of that file.
            let file = word.split("::").next().unwrap_or_default();
            assert!(root().join(file).exists(), "{document} names {word}, which is not there");
        }
        let folder = root().join(&document).parent().expect("it lies in a folder").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_elsewhere = link.contains("://") || file.is_empty();
            assert!(is_elsewhere || folder.join(file).exists(), "{document} links to {link}, which is not there");
        }
    }
    assert!(all > 100, "the documents name {all} paths");
}

#[test]
fn each_claim_of_the_threat_model_names_tests_that_exist() {
    let document = "reconciler/docs/threat-model.md";
    let text = std::fs::read_to_string(root().join(document)).expect("the document is there");
    let mut named = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains("::")) {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        for word in shown_by.split('`').skip(1).step_by(2) {
            let (file, test) = word.split_once("::").unwrap_or_else(|| panic!("{document}: {word} names no test"));
            let code = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(code.contains(&format!("fn {test}(")), "{document} names {word}, which is not there");
            named += 1;
        }
    }
    assert!(named > 40, "{document} names {named} tests alone");
}
