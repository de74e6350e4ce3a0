use yaml::{Limits, parse};

use super::*;
use crate::fs::MemoryFileSystem;

fn object(spec: &str) -> Result<Kustomization, BuildError> {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: apps}}\nspec:\n{spec}"
    );
    Kustomization::from_node(&parse(&text, &Limits::default()).unwrap()[0].root, "apps.yaml")
}

fn built(files: &[(&str, &str)], spec: &str, options: &Options) -> Result<Resources, BuildError> {
    let files: MemoryFileSystem = files.iter().map(|(path, text)| (*path, text.as_bytes().to_vec())).collect();
    build(&files, &object(spec)?, options)
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: ${a}\n  b: x\n";

#[test]
fn an_object_is_read_strictly_and_errors_have_a_place() {
    let check = |spec: &str, expect: &str| assert_eq!(object(spec).unwrap_err().to_string(), expect, "{spec}");
    check(
        "  targetnamespaces: x\n",
        "apps.yaml:5:3: unknown field `spec.targetnamespaces`; did you mean `targetNamespace`?",
    );
    check(
        "  postBuild: {substitute: {a: 1}}\n",
        "apps.yaml:5:31: `spec.postBuild.substitute.a` must be a text, not a number; put the value in quotes",
    );
    check(
        "  postBuild: {substituteFrom: [{kind: Deployment, name: x}]}\n",
        "apps.yaml:5:39: `kind` is `Deployment`, it should be ConfigMap or Secret",
    );
    check(
        "  postBuild: {substituteStrategy: Never}\n",
        "apps.yaml:5:35: `spec.postBuild.substituteStrategy` is `Never`, it should be WithVariables or Always",
    );
    check(
        "  buildMetadata: [origin]\n",
        "apps.yaml:5:19: `spec.buildMetadata[0]` is `origin`, it should be originAnnotations or transformerAnnotations",
    );
    check("  images: x\n", "apps.yaml:5:11: `spec.images` must be a list, not a text");
    let other = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    let error = Kustomization::from_node(&parse(other, &Limits::default()).unwrap()[0].root, "k.yaml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "k.yaml:1:13: `apiVersion` is `kustomize.config.k8s.io/v1beta1`, it should be kustomize.toolkit.fluxcd.io/v1"
    );
}

#[test]
fn every_field_of_an_object_is_known() {
    let spec = "  interval: 1m\n  prune: true\n  sourceRef: {kind: GitRepository, name: x}\n  path: ./a\n  targetNamespace: t\n  \
                decryption: {provider: sops}\n  dependsOn: [{name: x}]\n  wait: true\n  healthChecks: []\n  suspend: false\n  \
                components: [b]\n  ignoreMissingComponents: true\n  commonMetadata: {labels: {a: b}}\n  timeout: 1m\n  \
                postBuild: {substituteStrategy: Always, substitute: {A: b}, substituteFrom: [{kind: Secret, name: s, optional: true}]}\n";
    let object = object(spec).unwrap();
    assert_eq!((object.name.as_str(), object.path.as_str(), object.target_namespace.as_str()), ("apps", "./a", "t"));
    assert!(object.decrypts && object.ignore_missing_components);
    let post_build = object.post_build.unwrap();
    assert_eq!(post_build.substitute_strategy, SubstituteStrategy::Always);
    let reference = SubstituteReference { kind: SourceKind::Secret, name: "s".into(), optional: true };
    assert_eq!(post_build.substitute_from, [reference]);
}

#[test]
fn a_failed_substitution_names_the_object_its_place_and_what_helps() {
    let check = |text: &str, value: &str, expect: &str| {
        let spec = format!("  postBuild: {{substitute: {{a: '{value}'}}}}\n");
        let options = Options { missing: Missing::IsAnError, ..Options::default() };
        let files = [("first.yaml", "# nothing\n"), ("web.yaml", text)];
        assert_eq!(built(&files, &spec, &options).unwrap_err().to_string(), expect);
    };
    let text = |value: &str| MAP.replace("${a}", value);
    check(
        &text("${a-d}"),
        "x",
        "web.yaml:1:1: ConfigMap `settings`: its variables cannot be replaced: unknown operation `-` in `${a-d}`; defaults \
         are written `${name:-default}` or `${name:=default}`",
    );
    check(
        &text("${none}"),
        "x",
        "web.yaml:1:1: ConfigMap `settings`: its variables cannot be replaced: a variable without a value in `${none…}`; \
         add it to `spec.postBuild.substitute`, or give it a default: `${name:=default}`",
    );
    check(
        &text("${a}"),
        "s3cret: s3cret: x",
        "web.yaml:1:1: ConfigMap `settings`: after the substitution it is no YAML: line 3, column 12: mapping values are \
         not allowed in this context; put expressions in quotes whose values hold `:`, `#` or quotes",
    );
}

#[test]
fn values_do_not_show_in_errors() {
    let spec = "  postBuild: {substitute: {a: '!!int s3cret'}}\n";
    let error = built(&[("web.yaml", MAP)], spec, &Options::default()).unwrap_err().to_string();
    assert!(!error.contains("s3cret"), "{error}");
    let mut sources = Sources::default();
    sources.insert(SourceKind::Secret, "s", BTreeMap::from([("a".into(), "s3cret".into())]));
    assert!(!format!("{sources:?}").contains("s3cret"));
}

#[test]
fn objects_keep_their_places_through_a_substitution() {
    let spec = "  postBuild: {substitute: {a: '{c: d}'}}\n";
    let resources = built(&[("web.yaml", MAP)], spec, &Options::default()).unwrap();
    let resource = resources.iter().next().unwrap();
    assert_eq!((&*resource.origin().file, resource.origin().line), ("web.yaml", 1));
    let line = |path: &[&str]| resource.node().at(path).unwrap().span.line();
    assert_eq!((line(&["metadata", "name"]), line(&["data", "a"]), line(&["data", "b"])), (4, 6, 7));
    assert_eq!(line(&["data", "a", "c"]), 0);
}

#[test]
fn what_flux_loses_silently_is_told() {
    let kustomization = "resources: [web.yaml]\nnamespaces: x\nnamespace: a\nnamespace: b\n";
    let spec = "  decryption: {provider: sops}\n  postBuild: {substitute: {a: '1'}}\n";
    let text = MAP.replace("settings", "${a}");
    let files = [("kustomization.yaml", kustomization), ("web.yaml", text.as_str())];
    let resources = built(&files, spec, &Options::default()).unwrap();
    assert!(resources.is_empty());
    assert_eq!(
        resources.warnings(),
        [
            "# Warning: kustomization.yaml:2:1: Flux drops the unknown field `namespaces`.",
            "# Warning: kustomization.yaml:3:1: `namespace` is given again below, this one is lost.",
            "# Warning: web.yaml:1: Flux leaves out the ConfigMap `1`, because its `metadata.name` is not text.",
            "# Warning: `spec.decryption` is set; what is encrypted stays encrypted here.",
        ]
    );
}

#[test]
fn a_file_that_is_no_manifest_is_refused_with_what_to_do() {
    let error = built(&[("chart/values.yaml", "replicas: 2\n")], "  {}\n", &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chart/values.yaml:1:1: the object has no `kind`; without a kustomization.yaml Flux applies every YAML file below \
         `spec.path`; add one, or move this file"
    );
}

#[test]
fn a_generated_kustomization_is_shown_and_not_written() {
    let files: MemoryFileSystem = [("apps/a.yaml", MAP.as_bytes().to_vec())].into_iter().collect();
    let object = object("  path: apps\n  namePrefix: p-\n").unwrap();
    let generated = generate(&files, &object, &crate::Options::default()).unwrap();
    assert!(generated.is_new);
    assert_eq!(generated.file, "apps/kustomization.yaml");
    let header = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    assert_eq!(generated.to_yaml(), format!("{header}namePrefix: p-\nresources:\n- ./a.yaml\n"));
    assert!(files.read("apps/kustomization.yaml").is_err());
}

#[test]
fn a_substitution_is_bounded() {
    let bomb = format!("{MAP}  c: '{}'\n", "${a//x/${a}}".repeat(50));
    let spec = format!("  postBuild: {{substitute: {{a: {}}}}}\n", "x".repeat(20_000));
    let error = built(&[("web.yaml", &bomb)], &spec, &Options::default()).unwrap_err();
    assert_eq!(error.kind, crate::error::BuildErrorKind::Limit, "{error}");
    let slow = format!("{MAP}  c: '{}'\n", "${a##*x*x*x*y}".repeat(50));
    let mut options = Options::default();
    options.build.steps = 1_000_000;
    let error = built(&[("web.yaml", &slow)], &spec, &options).unwrap_err();
    assert_eq!(error.kind, crate::error::BuildErrorKind::Limit, "{error}");
    let deep = format!("{MAP}  c: '{}{}'\n", "${n:=".repeat(50_000), "}".repeat(50_000));
    let error = built(&[("web.yaml", &deep)], "  postBuild: {substitute: {a: x}}\n", &Options::default()).unwrap_err();
    assert!(error.to_string().contains("too many expressions inside of one another"), "{error}");
}

#[test]
fn what_is_encrypted_is_told_or_refused_as_in_flux() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: RU5D}\nsops: {mac: 'ENC[AES256_GCM,x]'}\n";
    let error = built(&[("s.yaml", secret)], "  {}\n", &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "s.yaml:1:1: the Secret `s` is encrypted with SOPS, which Flux refuses; \
         set `spec.decryption` of the Kustomization object"
    );
    let exempt = secret.replace("name: s}", "name: s, annotations: {kustomize.toolkit.fluxcd.io/decrypt: Disabled}}");
    assert!(built(&[("s.yaml", &exempt)], "  {}\n", &Options::default()).unwrap().warnings().is_empty());
    let generator = "resources: [s.yaml]\nsecretGenerator: [{name: g, envs: [g.env]}]\n";
    let files = [
        ("kustomization.yaml", generator),
        ("s.yaml", secret),
        ("g.env", "a=ENC[AES256_GCM,data:x]\nsops_mac=ENC[y]\n"),
    ];
    let resources = built(&files, "  decryption: {provider: sops}\n", &Options::default()).unwrap();
    let [first, second, _] = resources.warnings() else { panic!("{:?}", resources.warnings()) };
    assert_eq!(first, "# Warning: s.yaml:1: the Secret `s` is encrypted and stays so here; Flux decrypts it.");
    assert!(second.ends_with("is encrypted and stays so here; Flux decrypts it."), "{second}");
}
