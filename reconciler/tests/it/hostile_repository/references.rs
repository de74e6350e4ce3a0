//! What a kustomization may refer to, in every field that takes a path or an address: nothing outside the repository is read, nothing is
//! connected to and nothing is run, whatever stands there.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository, Signature};

use crate::measured::{self, Taken};
use crate::support::Run;

/// What a file outside the repository holds.
const CANARY: &str = "kanarienvogel";

/// Fields in which an empty name is none, for kustomize too.
const NAMES_NOTHING: [&str; 4] =
    ["config-map-env-nothing", "generators-nothing", "transformers-nothing", "validators-nothing"];

/// A field of a kustomization that refers to something, by its name; `@` is where the reference stands, quoted.
const FIELDS: [(&str, &str); 22] = [
    ("resources", "resources: [cluster.yaml, @]"),
    ("bases", "resources: [cluster.yaml]\nbases: [@]"),
    ("components", "resources: [cluster.yaml]\ncomponents: [@]"),
    ("crds", "resources: [cluster.yaml]\ncrds: [@]"),
    ("configurations", "resources: [cluster.yaml]\nconfigurations: [@]"),
    ("openapi", "resources: [cluster.yaml]\nopenapi: {path: @}"),
    ("patches", "resources: [cluster.yaml]\npatches: [{path: @}]"),
    ("patches-of-a-target", "resources: [cluster.yaml]\npatches: [{path: @, target: {kind: Cluster}}]"),
    ("patches-strategic-merge", "resources: [cluster.yaml]\npatchesStrategicMerge: [@]"),
    (
        "patches-json-6902",
        "resources: [cluster.yaml]\npatchesJson6902: [{path: @, target: {version: v1beta1, kind: Cluster, name: x}}]",
    ),
    ("config-map-files", "resources: [cluster.yaml]\nconfigMapGenerator: [{name: m, files: [@]}]"),
    ("config-map-envs", "resources: [cluster.yaml]\nconfigMapGenerator: [{name: m, envs: [@]}]"),
    ("config-map-env", "resources: [cluster.yaml]\nconfigMapGenerator: [{name: m, env: @}]"),
    ("secret-files", "resources: [cluster.yaml]\nsecretGenerator: [{name: m, files: [@]}]"),
    ("secret-envs", "resources: [cluster.yaml]\nsecretGenerator: [{name: m, envs: [@]}]"),
    ("generators", "resources: [cluster.yaml]\ngenerators: [@]"),
    ("transformers", "resources: [cluster.yaml]\ntransformers: [@]"),
    ("validators", "resources: [cluster.yaml]\nvalidators: [@]"),
    ("replacements", "resources: [cluster.yaml]\nreplacements: [{path: @}]"),
    ("helm-repository", "resources: [cluster.yaml]\nhelmCharts: [{name: c, repo: @}]"),
    ("helm-values", "resources: [cluster.yaml]\nhelmCharts: [{name: c, valuesFile: @}]"),
    ("helm-home", "resources: [cluster.yaml]\nhelmGlobals: {chartHome: @}\nhelmCharts: [{name: c}]"),
];

/// References by name. `PORT` is one on which somebody listens, `OUTSIDE` a folder that is not in the repository.
fn references() -> Vec<(&'static str, String)> {
    let all = [
        ("above-the-root", "../../../outside/secret.yaml"),
        ("above-encoded", "..%2f..%2f..%2foutside/secret.yaml"),
        ("above-with-backslashes", "..\\..\\..\\outside\\secret.yaml"),
        ("absolute", "OUTSIDE/secret.yaml"),
        ("absolute-folder", "OUTSIDE"),
        ("file-url", "file://OUTSIDE/secret.yaml"),
        ("file-repository", "file://OUTSIDE//?ref=main"),
        ("http", "http://127.0.0.1:PORT/x.yaml"),
        ("https", "https://127.0.0.1:PORT/x.yaml"),
        ("http-number", "http://2130706433:PORT/x.yaml"),
        ("git-over-http", "git::http://127.0.0.1:PORT/x.git//sub?ref=main"),
        ("git", "git://127.0.0.1:PORT/x.git"),
        ("ssh", "ssh://git@127.0.0.1:PORT/x.git"),
        ("ssh-option", "ssh://-oProxyCommand=touch%20OUTSIDE/pwned/x.git"),
        ("git-option", "--upload-pack=touch OUTSIDE/pwned"),
        ("external-transport", "ext::sh -c touch% OUTSIDE/pwned"),
        ("metadata", "http://169.254.169.254/latest/meta-data/"),
        ("key-of-a-file", "key=OUTSIDE/secret.yaml"),
        ("device", "/dev/zero"),
        ("environment", "/proc/self/environ"),
        ("git-folder", "../../.git/config"),
        ("link-out", "out"),
        ("link-in-circles", "circle"),
        ("submodule", "module"),
        ("itself", "."),
        ("nothing", ""),
        ("nul", "a\\0b.yaml"),
    ];
    all.map(|(name, text)| (name, text.to_owned())).into_iter().chain([("long", "d/".repeat(50_000))]).collect()
}

fn cluster(name: &str) -> String {
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {{name: {name}, namespace: {name}}}\n\
         spec: {{topology: {{class: web, version: v1.32.4, controlPlane: {{replicas: 3}}}}}}\n"
    )
}

/// A repository with a cluster for each reference in each field, and one that is as it should be.
fn repository(folder: &Path, outside: &str, port: u16) -> Vec<String> {
    let repository = Repository::init_bare(folder).unwrap();
    repository.set_head("refs/heads/main").unwrap();
    let mut update = TreeUpdateBuilder::new();
    let mut put = |path: String, mode: FileMode, bytes: &[u8]| {
        update.upsert(path, repository.blob(bytes).unwrap(), mode);
    };
    put("clusters/good/cluster.yaml".to_owned(), FileMode::Blob, cluster("good").as_bytes());
    let mut names = Vec::new();
    let mut modules = Vec::new();
    for (field, kustomization) in FIELDS {
        for (reference, text) in references() {
            let name = format!("{field}-{reference}");
            let quoted = format!("\"{}\"", text.replace("PORT", &port.to_string()).replace("OUTSIDE", outside));
            let quoted = if reference == "above-with-backslashes" { quoted.replace('\\', "\\\\") } else { quoted };
            let at = format!("clusters/{name}");
            put(format!("{at}/cluster.yaml"), FileMode::Blob, cluster(&name).as_bytes());
            put(format!("{at}/kustomization.yaml"), FileMode::Blob, kustomization.replace('@', &quoted).as_bytes());
            match reference {
                "link-out" => put(format!("{at}/out"), FileMode::Link, format!("{outside}/secret.yaml").as_bytes()),
                "link-in-circles" => put(format!("{at}/circle"), FileMode::Link, b"circle"),
                "submodule" => modules.push(format!("{at}/module")),
                _ => {}
            }
            names.push(name);
        }
    }
    let commit = Oid::from_bytes(&[0xee; 20]).unwrap();
    modules.into_iter().for_each(|path| _ = update.upsert(path, commit, FileMode::Commit));
    let empty = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let tree = repository.find_tree(update.create_updated(&repository, &empty).unwrap()).unwrap();
    let person = Signature::now("A Person", "person@example.com").unwrap();
    repository.commit(Some("refs/heads/main"), &person, &person, "What runs", &tree, &[]).unwrap();
    names
}

/// What the program wrote, which may have stopped over none of it: bounded, and without what is outside.
#[track_caller]
fn bounded(run: &Run, taken: Taken, outside: &Path) {
    let text = run.text();
    assert!(taken.memory <= 256 && taken.processor <= 20.0, "{taken:?}");
    assert!(!text.contains(CANARY) && !text.contains("panicked"), "{text}");
    assert!(text.len() < 2 << 20, "{} bytes are written", text.len());
    assert!(!outside.join("pwned").exists(), "something was run");
}

/// What the same verb opens, connects to and starts, as the kernel sees it.
fn traced(arguments: &[&str], folder: &Path) -> String {
    let record = folder.join("trace");
    Command::new("strace")
        .args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=open,openat,execve,connect,socket", "-o"])
        .arg(&record)
        .arg(env!("CARGO_BIN_EXE_stepgate"))
        .args(arguments)
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    std::fs::read_to_string(record).unwrap()
}

#[test]
fn nothing_that_a_kustomization_names_outside_is_read_or_reached_or_run() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let secret = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {CANARY}}}\n");
    std::fs::write(outside.join("secret.yaml"), secret).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = folder.path().join("fleet.git");
    let names = repository(&place, outside.to_str().unwrap(), listener.local_addr().unwrap().port());
    assert!(names.len() >= 300, "{}", names.len());
    let place = place.to_str().unwrap();

    let (check, taken) = measured::run_in(folder.path(), place, &["check", "-o", "json"]);
    bounded(&check, taken, &outside);
    let report = check.json();
    let problems = report["problems"].as_array().unwrap();
    let refused: BTreeSet<&str> = problems
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .filter_map(|problem| problem["cluster"].as_str())
        .collect();
    let accepted: Vec<&str> = names.iter().map(String::as_str).filter(|name| !refused.contains(name)).collect();
    assert_eq!(accepted, NAMES_NOTHING);

    let (plan, taken) = measured::run_in(folder.path(), place, &["plan", "-o", "json"]);
    bounded(&plan, taken, &outside);
    let plans = plan.json();
    for cluster in plans["clusters"].as_array().unwrap() {
        let name = cluster["cluster"].as_str().unwrap();
        let planned = name == "good" || NAMES_NOTHING.contains(&name);
        assert_eq!(cluster["blocked"][0]["code"] == "no-plan", !planned, "{name}: {cluster}");
    }
    let (adopt, taken) = measured::run_in(folder.path(), place, &["adopt", "--yes", "--as-declared"]);
    bounded(&adopt, taken, &outside);
    assert!(adopt.stdout.contains("good: recorded"), "{}", adopt.text());

    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody has connected");
    if !skip::has_programs(&["strace"]) {
        return;
    }
    let trace = traced(&["check", "--repo", place], folder.path());
    assert_eq!(trace.matches("execve(").count(), 1, "the program starts another one");
    assert_eq!(trace.matches("connect(").count(), 0, "the program connects to something");
    let (outside, repository) = (outside.to_str().unwrap(), trace.contains(place));
    let opened = |path: &str| trace.contains(&format!("\"{path}"));
    assert!(repository && !opened(outside) && !opened("/dev/zero") && !opened("/proc/self/environ"), "{trace}");
}
