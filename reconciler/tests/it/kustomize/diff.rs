//! `stepgate kustomize diff`: sides, forms, exit codes, secrets.

use super::Folder;

const BASE: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 1}\n---\n\
    apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: canary-one}\n";

fn folder() -> Folder {
    Folder::new(&[
        ("base/kustomization.yaml", "resources: [objects.yaml]\n"),
        ("base/objects.yaml", BASE),
        (
            "overlay/kustomization.yaml",
            "resources: [../base, more.yaml]\nreplicas: [{name: d, count: 2}]\npatches: [{path: secret.yaml}]\n",
        ),
        ("overlay/more.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n"),
        ("overlay/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: canary-two}\n"),
    ])
}

#[test]
fn kustomizations_files_and_directories_of_files_are_compared_alike() {
    let folder = folder();
    let root = folder.path().to_str().unwrap().to_owned();
    let rendered = folder.build("overlay", &[]).stdout;
    folder.write("rendered.yaml", &rendered);
    std::fs::create_dir(folder.join("each")).unwrap();
    folder.build("overlay", &["-o", folder.join("each").to_str().unwrap()]);
    for side in ["overlay", "rendered.yaml", "each"] {
        let run = folder.diff(side, "rendered.yaml", &["--root", &root]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "no differences\n"), "{side}: {}", run.stderr);
        let run = folder.diff("base", side, &["--root", &root]);
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{side}");
        assert_eq!(
            run.stdout,
            "KIND        NAME  CHANGE    FIELD           OLD       NEW\n\
             Namespace   n     added\n\
             Secret      s     modified  stringData.key  (hidden)  (hidden)\n\
             Deployment  d     modified  spec.replicas   1         2\n",
            "{side}"
        );
    }
}

#[test]
fn values_of_secrets_are_shown_in_no_form() {
    let folder = folder();
    let root = folder.path().to_str().unwrap().to_owned();
    for form in ["table", "json", "yaml", "markdown"] {
        let run = folder.diff("base", "overlay", &["--root", &root, "-o", form]);
        assert_eq!(run.code, 1);
        assert!(run.stdout.contains("stringData.key"), "{form}: {}", run.stdout);
        assert!(!run.text().contains("canary"), "{form}: {}", run.text());
    }
    let objects = folder.diff("base", "overlay", &["--root", &root, "-o", "json"]).json();
    assert_eq!(objects["objects"][1]["fields"][0]["hidden"], true);
    assert_eq!(objects["objects"][2]["fields"][0]["new"], 2);
}

#[test]
fn a_side_that_cannot_be_read_is_an_error_with_its_place() {
    let folder = folder();
    folder.write("broken/a.yaml", "apiVersion: v1\nkind: [\n");
    folder.write("nameless.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    for (side, message) in
        [("missing", "cannot read"), ("broken", "broken/a.yaml:"), ("nameless.yaml", "nameless.yaml:1:1:")]
    {
        let run = folder.diff("rendered.yaml", side, &[]);
        assert_eq!(run.code, 2, "{side}");
        let run = folder.diff(side, "base", &[]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{side}");
        assert!(run.stderr.contains(message), "{side}: {}", run.stderr);
    }
}
