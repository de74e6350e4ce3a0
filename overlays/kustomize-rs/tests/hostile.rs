//! Input that is made to hurt: each ends soon, in an error that says what is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss
)]

use kustomize_rs::{BuildError, BuildErrorKind, MemoryFileSystem, Options, build};

fn refuse(files: &[(&str, String)]) -> BuildError {
    let tree: MemoryFileSystem = files.iter().map(|(path, content)| (*path, content.clone().into_bytes())).collect();
    match build(&tree, "", &Options::default()) {
        Ok(resources) => panic!("{:?} gave {} objects", files.first(), resources.len()),
        Err(error) => error,
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn resource(content: String) -> BuildError {
    refuse(&[("kustomization.yaml", "resources: [a.yaml]\n".into()), ("a.yaml", content)])
}

fn bomb(indent: &str) -> String {
    let mut text = format!("{indent}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("{indent}a{level}: &a{level} [{items}]\n"));
    }
    text
}

#[test]
fn alias_bombs_end_at_the_node_limit() {
    assert_eq!(resource(format!("{MAP}data:\n{}", bomb("  "))).kind, BuildErrorKind::Limit);
    assert_eq!(refuse(&[("kustomization.yaml", bomb(""))]).kind, BuildErrorKind::Limit);
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{MAP}data: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(resource(deep).line, 4);
    let mut block = String::from(MAP);
    (0..9_000).for_each(|level| block.push_str(&format!("{}a:\n", " ".repeat(level))));
    resource(block);
}

#[test]
fn copies_into_themselves_end_at_the_node_limit() {
    let copies: String = (0..40).map(|n| format!("- {{op: copy, from: /data, path: /data/x{n}}}\n")).collect();
    let error = refuse(&[
        ("kustomization.yaml", "resources: [a.yaml]\npatches:\n- {path: p.yaml, target: {kind: ConfigMap}}\n".into()),
        ("a.yaml", format!("{MAP}data: {{a: b}}\n")),
        ("p.yaml", copies),
    ]);
    assert_eq!(error.kind, BuildErrorKind::Limit);
}

#[test]
fn items_that_double_with_every_patch_end_at_the_node_limit() {
    let deployment = |spec: &str| format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\n{spec}");
    let ports = "[{containerPort: 80, protocol: UDP}, {protocol: TCP, hostPort: 1}]";
    let lists = format!("spec: {{template: {{spec: {{containers: [{{name: '', ports: {ports}}}, {{name: b}}]}}}}}}\n");
    let error = refuse(&[
        ("kustomization.yaml", format!("resources: [a.yaml]\npatches:\n{}", "- {path: p.yaml}\n".repeat(40))),
        ("a.yaml", deployment(&lists)),
        ("p.yaml", deployment("")),
    ]);
    assert_eq!(error.kind, BuildErrorKind::Limit, "{error}");
}

#[test]
fn many_documents_are_read_in_time_and_too_many_refused() {
    let one = |number: usize| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{number}}}\n");
    let text: Vec<String> = (0..20_000).map(one).collect();
    let files =
        [("kustomization.yaml", b"resources: [a.yaml]\n".to_vec()), ("a.yaml", text.join("---\n").into_bytes())];
    let tree: MemoryFileSystem = files.into_iter().collect();
    assert_eq!(build(&tree, "", &Options::default()).unwrap().len(), 20_000);
    assert_eq!(resource("a: 1\n---\n".repeat(100_001)).kind, BuildErrorKind::Limit);
}

#[test]
fn nothing_outside_of_the_tree_is_read() {
    let fields = [
        "resources: [../a.yaml]",
        "resources: [../../outside]",
        "resources: [/etc]",
        "components: [../x]",
        "patches: [{path: ../p.yaml}]",
        "patches: [{path: /etc/passwd}]",
        "configMapGenerator: [{name: a, files: [../secret]}]",
        "configMapGenerator: [{name: a, envs: [../secret]}]",
        "secretGenerator: [{name: a, files: [x=../secret]}]",
        "configurations: [../c.yaml]",
        "crds: [../c.yaml]",
        "openapi: {path: ../s.json}",
        "replacements: [{path: ../r.yaml}]",
        "transformers: [../t.yaml]",
        "generators: [../t.yaml]",
    ];
    for field in fields {
        assert_eq!(refuse(&[("kustomization.yaml", format!("{field}\n"))]).kind, BuildErrorKind::File, "{field}");
    }
}

#[test]
fn nothing_remote_is_fetched() {
    let urls = [
        "http://127.0.0.1/x.yaml",
        "https://example.com/x.yaml",
        "github.com/org/repo//path?ref=v1",
        "git@github.com:org/repo.git",
        "ssh://-oProxyCommand=x/repo",
        "file:///tmp/repo",
        "git::https://example.com/repo",
    ];
    for url in urls {
        for field in ["resources", "components", "transformers"] {
            let error = refuse(&[("kustomization.yaml", format!("{field}: [\"{url}\"]\n"))]);
            assert_eq!(error.kind, BuildErrorKind::Unsupported, "{field} {url}: {error}");
        }
    }
    for field in ["patches: [{path: \"http://x/y\"}]", "openapi: {path: \"http://x/y\"}", "crds: [\"http://x/y\"]"] {
        assert_eq!(
            refuse(&[("kustomization.yaml", format!("{field}\n"))]).kind,
            BuildErrorKind::Unsupported,
            "{field}"
        );
    }
}

#[test]
fn nothing_is_executed() {
    let plugin = "apiVersion: example.com/v1\nkind: Exec\nmetadata:\n  name: x\n  annotations: {config.kubernetes.io/function: \"exec: {path: ./x}\"}\n";
    for field in ["generators", "transformers", "validators"] {
        let error = refuse(&[("kustomization.yaml", format!("{field}: [p.yaml]\n")), ("p.yaml", plugin.into())]);
        assert_eq!(error.kind, BuildErrorKind::Unsupported, "{field}");
    }
    let chart = "helmCharts: [{name: x, repo: \"https://example.com\"}]\n";
    assert_eq!(refuse(&[("kustomization.yaml", chart.into())]).kind, BuildErrorKind::Unsupported);
}

#[test]
fn chains_and_cycles_of_kustomizations_end() {
    let cycle =
        [("kustomization.yaml", "resources: [a]\n".to_owned()), ("a/kustomization.yaml", "resources: [..]\n".into())];
    assert_eq!(refuse(&cycle).kind, BuildErrorKind::Conflict);
    let own = [("kustomization.yaml", "resources: [.]\n".to_owned())];
    assert_eq!(refuse(&own).kind, BuildErrorKind::Conflict);
    let mut tree = MemoryFileSystem::new();
    for level in 0..300 {
        let next = format!("resources: [../b{}]\n", level + 1);
        tree.insert(&format!("b{level}/kustomization.yaml"), next.into_bytes());
    }
    assert_eq!(build(&tree, "b0", &Options::default()).unwrap_err().kind, BuildErrorKind::Limit);
}

#[test]
fn expressions_stay_small() {
    let target = "patches: [{target: {name: \"((a{500}){500}){500}\"}, patch: \"- {op: remove, path: /x}\"}]\n";
    let error = refuse(&[("kustomization.yaml", format!("resources: [a.yaml]\n{target}")), ("a.yaml", MAP.into())]);
    assert_eq!(error.kind, BuildErrorKind::Limit);
}

#[test]
fn texts_that_are_no_texts_are_refused() {
    let tree: MemoryFileSystem =
        [("kustomization.yaml", b"resources: [a.yaml]\n".to_vec()), ("a.yaml", vec![0xC3, 0x28, b'\n'])]
            .into_iter()
            .collect();
    let error = build(&tree, "", &Options::default()).unwrap_err();
    assert_eq!((error.kind, error.file.as_deref()), (BuildErrorKind::Syntax, Some("a.yaml")));
    assert_eq!(refuse(&[("kustomization.yaml", "resources: [\"a\\0b\"]\n".into())]).kind, BuildErrorKind::File);
}
