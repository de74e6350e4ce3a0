//! `stepgate kustomize build`: output, flags, exit codes, what may be read.

use super::Folder;
use crate::support::stepgate;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn layers() -> Folder {
    Folder::new(&[
        ("base/kustomization.yaml", "resources: [a.yaml, n.yaml]\n"),
        ("base/a.yaml", MAP),
        ("base/n.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: north}\n"),
        ("overlays/eu/kustomization.yaml", "resources: [../../base]\nnamespace: north\nnamePrefix: eu-\n"),
    ])
}

const A: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: eu-a\n  namespace: north\n";
const N: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: north\n";

#[test]
fn an_overlay_is_printed_in_kustomizes_order_or_in_its_own() {
    let run = layers().build("overlays/eu", &[]);
    assert_eq!((run.code, run.stdout, run.stderr.as_str()), (0, format!("{N}---\n{A}"), ""));
    let run = layers().build("overlays/eu", &["--reorder", "none"]);
    assert_eq!((run.code, run.stdout), (0, format!("{A}---\n{N}")));
    assert_eq!(
        run.stderr,
        "Flag --reorder has been deprecated, use the new 'sortOptions' field in kustomization.yaml instead.\n"
    );
}

#[test]
fn deprecated_fields_are_told_on_standard_error() {
    let folder =
        Folder::new(&[("kustomization.yaml", "bases: [base]\n"), ("base/kustomization.yaml", "resources: [a.yaml]\n")]);
    folder.write("base/a.yaml", MAP);
    let run = folder.build("", &[]);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.stderr,
        "# Warning: 'bases' is deprecated. Please use 'resources' instead. \
         Run 'kustomize edit fix' to update your Kustomization automatically.\n"
    );
}

#[test]
fn output_goes_to_a_file_or_to_one_file_for_each_object() {
    let folder = layers();
    let file = folder.join("all.yaml");
    let run = folder.build("overlays/eu", &["--output", file.to_str().unwrap()]);
    assert_eq!((run.code, run.text().as_str()), (0, ""));
    assert_eq!(folder.read("all.yaml"), format!("{N}---\n{A}"));
    std::fs::create_dir(folder.join("each")).unwrap();
    let run = folder.build("overlays/eu", &["-o", folder.join("each").to_str().unwrap()]);
    assert_eq!((run.code, run.text().as_str()), (0, ""));
    assert_eq!(folder.read("each/v1_configmap_eu-a.yaml"), A);
    assert_eq!(folder.read("each/v1_namespace_north.yaml"), N);
    let run = folder.build("overlays/eu", &["-o", folder.join("missing/all.yaml").to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
}

#[test]
fn what_would_run_programs_is_refused_by_name() {
    let folder = layers();
    for flag in
        ["--enable-alpha-plugins", "--enable-exec", "--network", "--as-current-user", "--mount=x", "--network-name=x"]
    {
        let run = folder.build("overlays/eu", &[flag]);
        let name = flag.split('=').next().unwrap();
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{flag}");
        assert!(run.stderr.contains(&format!("{name} is refused")), "{}", run.stderr);
    }
    // Environment is for functions alone.
    assert_eq!(folder.build("overlays/eu", &["-e", "A=b", "--env", "C"]).code, 0);
}

#[test]
fn what_kustomize_refuses_ends_with_its_exit_code() {
    let folder = Folder::new(&[("empty/x", ""), ("kustomization.yaml", "resources: [missing.yaml]\nnamePrefixx: a\n")]);
    for (directory, message) in [
        ("", "kustomization.yaml:2:1: unknown field `namePrefixx`"),
        ("empty", "no kustomization file"),
        ("none", "cannot read"),
    ] {
        let run = folder.build(directory, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{directory}");
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
    assert_eq!(stepgate(&["kustomize", "build", "--load-restrictor", "none"]).code, 2);
}

#[test]
fn a_directory_that_is_not_there_is_named_with_what_to_give() {
    let run = stepgate(&["kustomize", "build", "/nonexistent/overlay"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("cannot read /nonexistent/overlay") && run.stderr.contains("hint: "), "{}", run.stderr);
}

#[test]
fn files_outside_of_a_kustomization_need_the_restrictor_and_those_outside_of_the_tree_the_root() {
    let folder = Folder::new(&[
        ("a/kustomization.yaml", "resources: [../a.yaml]\n"),
        ("b/kustomization.yaml", "resources: [../../b.yaml]\n"),
        ("a.yaml", MAP),
    ]);
    let run = folder.build("a", &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("LoadRestrictionsNone"), "{}", run.stderr);
    assert_eq!(folder.build("a", &["--load-restrictor", "LoadRestrictionsNone"]).code, 0);
    let run = folder.build("b", &["--load-restrictor", "LoadRestrictionsNone"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("widen it with --root"), "{}", run.stderr);
}

#[test]
fn the_tree_is_the_repository_around_the_directory() {
    let folder = layers();
    let overlay = folder.join("overlays/eu");
    let alone = stepgate(&["kustomize", "build", overlay.to_str().unwrap()]);
    assert_eq!(alone.code, 1, "{}", alone.stderr);
    git2::Repository::init(folder.path()).unwrap();
    let inside = stepgate(&["kustomize", "build", overlay.to_str().unwrap()]);
    assert_eq!((inside.code, inside.stdout), (0, format!("{N}---\n{A}")), "{}", inside.stderr);
}
