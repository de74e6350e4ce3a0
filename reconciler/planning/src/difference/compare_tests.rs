use kustomize_rs::{MemoryFileSystem, Options, build};

use super::*;

fn objects(text: &str) -> Resources {
    let files = [("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", text)];
    let files: MemoryFileSystem = files.into_iter().map(|(path, text)| (path, text.as_bytes())).collect();
    build(&files, "", &Options::default()).unwrap()
}

/// Each difference as `kind/name change` or `path change`.
fn check(old: &str, new: &str, expected: &[&str]) {
    let (old, new) = (objects(old), objects(new));
    let mut found = Vec::new();
    for difference in compare(&old, &new) {
        let object = difference.object;
        found.push(format!("{}/{} {:?}", object.gvk().kind, object.name(), difference.change));
        found.extend(difference.fields.iter().map(|field| format!("{} {:?}", field.path, field.change)));
    }
    assert_eq!(found, expected);
}

fn deployment(spec: &str) -> String {
    format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {spec}\n")
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

#[test]
fn layout_order_of_keys_and_order_of_objects_do_not_count() {
    let other = "metadata:\n  name: a # same\nkind: \"ConfigMap\"\napiVersion: v1\n";
    check(MAP, other, &[]);
    let twice = format!("{MAP}---\n{}", deployment("{replicas: 1}"));
    let turned = format!("{}---\n{MAP}", deployment("{replicas: 0x1}"));
    check(&twice, &turned, &[]);
}

#[test]
fn objects_are_added_and_removed() {
    let renamed = MAP.replace("name: a", "name: b");
    check(MAP, &renamed, &["ConfigMap/a Removed", "ConfigMap/b Added"]);
}

#[test]
fn another_version_of_an_object_is_a_change_of_its_field() {
    let new = deployment("{replicas: 1}");
    check(&new.replace("apps/v1", "apps/v1beta1"), &new, &["Deployment/d Modified", "apiVersion Modified"]);
}

#[test]
fn fields_are_named_by_their_path() {
    let old = deployment("{replicas: 1, template: {spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}}");
    let new = deployment("{paused: true, template: {spec: {containers: [{name: b, image: y}, {name: a, image: z}]}}}");
    check(
        &old,
        &new,
        &[
            "Deployment/d Modified",
            "spec.replicas Removed",
            "spec.template.spec.containers.[name=a].image Modified",
            "spec.template.spec.containers Reordered",
            "spec.paused Added",
        ],
    );
    let annotated = MAP.replace("{name: a}", "{name: a, annotations: {a.b/c: x}}");
    check(MAP, &annotated, &["ConfigMap/a Modified", "metadata.annotations Added"]);
    let changed = annotated.replace("c: x", "c: y");
    check(&annotated, &changed, &["ConfigMap/a Modified", "metadata.annotations.[a.b/c] Modified"]);
}

#[test]
fn what_is_put_into_a_list_does_not_move_the_rest() {
    let args = |args: &str| deployment(&format!("{{args: [{args}]}}"));
    check(&args("a, b, c"), &args("x, a, b, c"), &["Deployment/d Modified", "spec.args.0 Added"]);
    check(&args("a, b, c"), &args("a, c"), &["Deployment/d Modified", "spec.args.1 Removed"]);
    check(&args("a, b, c"), &args("a, x, c"), &["Deployment/d Modified", "spec.args.1 Modified"]);
}

#[test]
fn a_number_is_not_its_text() {
    check(&deployment("{x: 1}"), &deployment("{x: \"1\"}"), &["Deployment/d Modified", "spec.x Modified"]);
    check(&deployment("{x: 1.0}"), &deployment("{x: 1}"), &[]);
}

#[test]
fn everything_of_a_secret_but_its_names_is_hidden() {
    let secret = |rest: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s{rest}\n");
    let old = objects(&secret(", annotations: {last: one}, labels: {l: one}}\nstringData: {a: one}\ntype: one"));
    let new = objects(&secret(", annotations: {last: two}, labels: {l: two}}\nstringData: {a: two}\ntype: two"));
    let hidden: Vec<(String, bool)> =
        compare(&old, &new).remove(0).fields.into_iter().map(|field| (field.path, field.secret)).collect();
    assert_eq!(
        hidden,
        [
            ("metadata.annotations.last".to_owned(), true),
            ("metadata.labels.l".to_owned(), false),
            ("stringData.a".to_owned(), true),
            ("type".to_owned(), false),
        ]
    );
}
