use crate::fleet::read_fleet;
use crate::testing::memory;
use crate::{Fleet, spec_tree};
use domain::{Problem, ProblemCode, Severity};

const CLUSTER: &str = "# The cluster.\napiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata:\n  name: prod\nspec:\n  topology:\n    \
                       class: quick-start\n    version: v1.32.4\n    controlPlane: {replicas: 3}\n";

fn read(files: &[(&str, &str)]) -> Fleet {
    read_fleet(&memory(files))
}

fn problems(fleet: &Fleet) -> Vec<String> {
    let told = fleet.problems.iter().filter(|problem| problem.severity > Severity::Note);
    told.map(|problem| format!("{:?} {} {problem}", problem.scope, problem.code)).collect()
}

fn named(fleet: &Fleet) -> Vec<String> {
    let id =
        |cluster: &crate::ClusterSpec| format!("{}/{} {}", cluster.namespace, cluster.name, cluster.kubernetes_version);
    fleet.clusters.iter().map(id).collect()
}

fn note(fleet: &Fleet, code: ProblemCode) -> &Problem {
    fleet.problems.iter().find(|problem| problem.code == code).unwrap_or_else(|| panic!("{:?}", fleet.problems))
}

fn text(fleet: &Fleet, cluster: &str, path: &str) -> String {
    let tree = spec_tree(&fleet.cluster(cluster).unwrap().files);
    let bytes = tree.files.get(path).unwrap_or_else(|| panic!("{:?}", tree.files.keys().collect::<Vec<_>>()));
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_cluster_below_an_overlay_is_what_the_overlay_makes() {
    let overlay = "namespace: team-prod\nresources: [../../base]\npatches:\n- target: {kind: Cluster}\n  patch: |-\n    - op: replace\n      \
                   path: /spec/topology/version\n      value: v1.33.1\n";
    let fleet = read(&[
        ("clusters/base/cluster.yaml", CLUSTER),
        ("clusters/base/kustomization.yaml", "resources:\n- cluster.yaml\n"),
        ("clusters/overlays/production/kustomization.yaml", overlay),
    ]);
    assert_eq!(problems(&fleet), Vec::<String>::new());
    assert_eq!(named(&fleet), ["team-prod/prod v1.33.1"]);
    let rendered = text(&fleet, "prod", "cluster/cluster.yaml");
    assert!(rendered.contains("namespace: team-prod") && rendered.contains("version: v1.33.1"), "{rendered}");
    let note = note(&fleet, ProblemCode::Rendered);
    assert_eq!(note.to_string().split(": ").next(), Some("clusters/overlays/production/kustomization.yaml:8:14"));
}

#[test]
fn what_no_kustomization_changes_keeps_its_bytes() {
    let fleet = read(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/kustomization.yaml", "resources: [cluster.yaml]\nlabels: []\n"),
    ]);
    assert_eq!(text(&fleet, "prod", "cluster/cluster.yaml"), CLUSTER);
    assert!(fleet.problems.iter().all(|problem| problem.code != ProblemCode::Rendered), "{:?}", fleet.problems);
}

#[test]
fn two_overlays_of_one_base_are_two_clusters() {
    let overlay = |name: &str| format!("namePrefix: {name}-\nnamespace: {name}\nresources: [../../base]\n");
    let (eu, us) = (overlay("eu"), overlay("us"));
    let fleet = read(&[
        ("base/cluster.yaml", CLUSTER),
        ("base/kustomization.yaml", "resources: [cluster.yaml]\n"),
        ("fleet/eu/kustomization.yaml", &eu),
        ("fleet/us/kustomization.yaml", &us),
    ]);
    assert_eq!(problems(&fleet), Vec::<String>::new());
    assert_eq!(named(&fleet), ["eu/eu-prod v1.32.4", "us/us-prod v1.32.4"]);
    assert!(text(&fleet, "us-prod", "cluster/cluster.yaml").contains("name: us-prod"));
}

const PATCH: &str = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: prod}\nspec: {topology: {version: v1.33.0}}\n";

#[test]
fn a_patch_is_never_a_second_cluster() {
    for kustomization in [
        "resources: [cluster.yaml]\npatches: [{path: version.yaml}]\n",
        "resources: [cluster.yaml]\npatchesStrategicMerge: [version.yaml]\n",
        "resources: [cluster.yaml]\ncomponents: [../component]\n",
    ] {
        let fleet = read(&[
            ("clusters/prod/cluster.yaml", CLUSTER),
            ("clusters/prod/version.yaml", PATCH),
            ("clusters/prod/kustomization.yaml", kustomization),
            ("clusters/component/version.yaml", PATCH),
            (
                "clusters/component/kustomization.yaml",
                "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: version.yaml}]\n",
            ),
        ]);
        let expected = if kustomization.contains("components") {
            // The file of the patch is there, and this kustomization does not name it.
            continue;
        } else {
            ["/prod v1.33.0"]
        };
        assert_eq!(named(&fleet), expected, "{kustomization}");
        let place = &fleet.cluster("prod").unwrap().places.kubernetes_version.clone().unwrap();
        assert_eq!((place.path.as_str(), place.line), ("clusters/prod/version.yaml", 4));
    }
}

fn flux(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec:\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{spec}"
    )
}

#[test]
fn a_cluster_below_a_flux_kustomization_is_what_flux_makes() {
    let template = CLUSTER.replace("name: prod", "name: ${name}").replace("v1.32.4", "${version:=v1.31.0}");
    let one = flux(
        "one",
        "  path: ./template\n  targetNamespace: one\n  postBuild: {substitute: {name: first, version: v1.33.2}}\n",
    );
    let two = flux("two", "  path: ./template\n  targetNamespace: two\n  postBuild: {substitute: {name: second}}\n");
    let sync = flux("flux-system", "  path: ./clusters/prod\n");
    let fleet = read(&[
        ("template/cluster.yaml", &template),
        ("clusters/prod/one.yaml", &one),
        ("clusters/prod/two.yaml", &two),
        ("clusters/prod/flux-system/gotk-sync.yaml", &sync),
    ]);
    assert_eq!(named(&fleet), ["one/first v1.33.2", "two/second v1.31.0"]);
    let place = fleet.cluster("first").unwrap().places.kubernetes_version.clone().unwrap();
    assert_eq!((place.path.as_str(), place.line), ("clusters/prod/one.yaml", 8));
}

#[test]
fn a_kustomization_that_another_changes_counts_as_it_is_changed() {
    let child = flux("child", "  path: ./PLACEHOLDER\n");
    let overlay = "resources: [../../base]\npatches:\n- target: {kind: Kustomization}\n  patch: |-\n    - {op: replace, path: /spec/path, value: ./infra}\n    \
                   - {op: add, path: /spec/targetNamespace, value: team}\n";
    let sync = flux("flux-system", "  path: ./clusters/prod\n");
    let fleet = read(&[
        ("base/child.yaml", &child),
        ("base/kustomization.yaml", "resources: [child.yaml]\n"),
        ("clusters/prod/kustomization.yaml", overlay),
        ("clusters/prod/flux-system/gotk-sync.yaml", &sync),
        ("infra/cluster.yaml", CLUSTER),
        ("infra/kustomization.yaml", "resources: [cluster.yaml]\n"),
    ]);
    assert_eq!(named(&fleet), ["team/prod v1.32.4"], "{:?}", fleet.problems);
}

#[test]
fn what_kustomize_refuses_is_an_error_of_its_clusters() {
    let fleet = read(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/kustomization.yaml", "resources: [cluster.yaml, https://example.com/x.yaml]\nnamespace: a\n"),
        ("clusters/other/cluster.yaml", &CLUSTER.replace("name: prod", "name: other")),
    ]);
    assert_eq!(named(&fleet), ["/other v1.32.4"]);
    assert_eq!(fleet.unreadable_clusters().into_iter().collect::<Vec<_>>(), ["prod"]);
    assert!(problems(&fleet).iter().any(|problem| problem.contains("not-rendered")), "{:?}", fleet.problems);
}

#[test]
fn the_sync_of_a_flux_instance_is_a_kustomization() {
    let instance = "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata: {name: flux, namespace: flux-system}\nspec:\n  \
                    sync: {kind: GitRepository, url: https://example.com/fleet, ref: refs/heads/main, path: clusters/prod}\n  \
                    kustomize:\n    patches:\n    - target: {kind: Kustomization}\n      patch: |\n        - op: add\n          path: /spec/postBuild\n          \
                    value: {substitute: {version: v1.33.3}}\n";
    let template = CLUSTER.replace("v1.32.4", "${version}");
    let fleet = read(&[("flux.yaml", instance), ("clusters/prod/cluster.yaml", &template)]);
    assert_eq!(named(&fleet), ["/prod v1.33.3"], "{:?}", fleet.problems);
}

#[test]
fn values_of_config_maps_in_git_are_used() {
    let template = CLUSTER.replace("v1.32.4", "${version}");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: versions, namespace: flux-system}\ndata: {version: v1.33.4}\n";
    let infra = flux("infra", "  path: ./infra\n  postBuild: {substituteFrom: [{kind: ConfigMap, name: versions}]}\n");
    let sync = flux("flux-system", "  path: ./clusters/prod\n");
    let generator = "configMapGenerator: [{name: versions, literals: [version=v1.33.4]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n\
                     namespace: flux-system\nresources: [infra.yaml, flux-system/gotk-sync.yaml]\n";
    for (path, text) in [("clusters/prod/values.yaml", map), ("clusters/prod/kustomization.yaml", generator)] {
        let fleet = read(&[
            (path, text),
            ("clusters/prod/infra.yaml", &infra),
            ("clusters/prod/flux-system/gotk-sync.yaml", &sync),
            ("infra/cluster.yaml", &template),
        ]);
        assert_eq!(named(&fleet), ["/prod v1.33.4"], "{path} {:?}", fleet.problems);
    }
}

const SYNC: (&str, &str) = ("clusters/prod/flux-system/gotk-sync.yaml", "  path: ./clusters/prod\n  prune: true\n");

/// The repository whose Flux applies `clusters/prod`, and `infra` by a Kustomization with these fields.
fn repository(infra: &str, cluster: &str, more: &[(&str, &str)]) -> Fleet {
    let (sync, infra) = (flux("flux-system", SYNC.1), flux("infra", &format!("  path: ./infra\n{infra}")));
    let mut files =
        vec![(SYNC.0, sync.as_str()), ("clusters/prod/infra.yaml", &infra), ("infra/cluster.yaml", cluster)];
    files.extend(more);
    read(&files)
}

fn told(fleet: &Fleet, code: ProblemCode) -> Vec<String> {
    let told = fleet.problems.iter().filter(|problem| problem.code == code);
    told.map(|problem| format!("{:?} {problem}", problem.severity)).collect()
}

#[test]
fn variables_from_secrets_are_refused_where_clusters_use_them() {
    let cluster = CLUSTER.replace("v1.32.4", "${version}");
    let from = |optional: bool| {
        format!(
            "  postBuild: {{substituteFrom: [{{kind: Secret, name: settings, optional: {optional}}}], substitute: {{region: eu}}}}\n"
        )
    };
    let fleet = repository(&from(false), &cluster, &[]);
    assert_eq!(named(&fleet), Vec::<String>::new());
    let [problem] = told(&fleet, ProblemCode::NotRendered).try_into().unwrap();
    assert!(
        problem.contains("Error") && problem.contains("${version}") && problem.contains("Secret flux-system/settings"),
        "{problem}"
    );
    assert_eq!(fleet.unreadable_clusters().into_iter().collect::<Vec<_>>(), ["prod"]);
    // What is not used does no harm, nor what is set otherwise.
    assert_eq!(named(&repository(&from(false), CLUSTER, &[])), ["/prod v1.32.4"]);
    let own = from(false).replace("region: eu", "version: v1.33.0");
    assert_eq!(named(&repository(&own, &cluster, &[])), ["/prod v1.33.0"]);
    let optional = repository(&from(true), &CLUSTER.replace("v1.32.4", "${version:=v1.31.1}"), &[]);
    assert_eq!(named(&optional), ["/prod v1.31.1"]);
    assert_eq!(told(&optional, ProblemCode::UnsetVariable).len(), 1);
}

#[test]
fn a_variable_that_nothing_sets_is_warned_of() {
    let cluster = CLUSTER.replace("class: quick-start", "class: quick-start${suffix}");
    let fleet = repository("  postBuild: {substitute: {region: eu}}\n", &cluster, &[]);
    assert!(told(&fleet, ProblemCode::UnsetVariable)[0].contains("${suffix}"), "{:?}", fleet.problems);
}

#[test]
fn kustomizations_that_would_delete_clusters_follow_the_source() {
    let fleet = repository("  prune: true\n", CLUSTER, &[]);
    let prunes = told(&fleet, ProblemCode::FluxPrunes);
    assert_eq!(prunes.len(), 1, "{prunes:?}");
    assert!(prunes[0].contains("\"infra\""), "{prunes:?}");
    let other = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {url: https://a.example/fleet.git}\n---\n\
                 apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: other, namespace: flux-system}\nspec: {url: https://a.example/other}\n";
    let foreign = flux("foreign", "  path: ./infra\n  prune: true\n  targetNamespace: x\n")
        .replace("name: flux-system}\n  path", "name: other}\n  path");
    let fleet =
        repository("", CLUSTER, &[("clusters/prod/sources.yaml", other), ("clusters/prod/foreign.yaml", &foreign)]);
    assert_eq!(told(&fleet, ProblemCode::FluxPrunes), Vec::<String>::new(), "another repository");
    assert_eq!(named(&fleet), ["/prod v1.32.4"]);
}

#[test]
fn others_on_the_same_source_are_listed() {
    let apps = flux("apps", "  path: ./apps\n");
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: app}\n";
    let fleet = repository(
        "",
        CLUSTER,
        &[("clusters/prod/apps.yaml", &apps), ("apps/a.yaml", app), ("infra/others/namespace.yaml", app)],
    );
    let shared = told(&fleet, ProblemCode::SharedSource);
    assert!(shared.iter().any(|it| it.contains("flux-system/apps") && it.contains("Note")), "{shared:?}");
    assert!(
        shared.iter().any(|it| it.contains("flux-system/infra") && it.contains("infra/others/namespace.yaml")),
        "{shared:?}"
    );
}

#[test]
fn what_flux_does_not_apply_is_warned_of() {
    let other = CLUSTER.replace("name: prod", "name: spare");
    let fleet = repository("", CLUSTER, &[("spare/cluster.yaml", &other)]);
    let told = told(&fleet, ProblemCode::NotApplied);
    assert!(told.len() == 1 && told[0].contains("\"spare\""), "{told:?}");
}

const SECRET: &str = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: default}\ndata: {a: \"ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]\"}\n\
                      sops: {mac: \"ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]\", version: 3.9.4}\n";

#[test]
fn encrypted_objects_need_to_be_decrypted_by_somebody() {
    let files = format!("{CLUSTER}{SECRET}");
    let alone = [("clusters/prod/cluster.yaml", files.as_str())];
    let fleet = read(&alone);
    let missing = told(&fleet, ProblemCode::MissingDecryption);
    assert!(missing.len() == 1 && missing[0].contains("Error") && missing[0].contains("\"key\""), "{missing:?}");
    assert_eq!(fleet.blocking("prod").len(), 1);
    let policy = ("stepgate.yaml", "flux: {decryption: {secret: sops-age}}\n");
    assert_eq!(told(&read(&[alone[0], policy]), ProblemCode::MissingDecryption), Vec::<String>::new());
    let fleet = repository(
        "  decryption: {provider: sops, secretRef: {name: age}}\n  serviceAccountName: team\n  force: true\n  wait: true\n",
        &files,
        &[],
    );
    assert_eq!(told(&fleet, ProblemCode::MissingDecryption), Vec::<String>::new());
    let settings = &fleet.flux_settings["prod"];
    assert_eq!(settings.carried.keys().copied().collect::<Vec<_>>(), ["decryption", "serviceAccountName"]);
    assert_eq!(text(&fleet, "prod", "cluster/cluster.yaml"), files);
    let fields = told(&fleet, ProblemCode::FluxField);
    assert!(fields.iter().any(|it| it.contains("Warning") && it.contains("force")), "{fields:?}");
    assert!(fields.iter().any(|it| it.contains("Note") && it.contains("wait")), "{fields:?}");
    let namespaced = repository("  decryption: {provider: sops}\n  targetNamespace: x\n", &files, &[]);
    let rendered = text(&namespaced, "prod", "cluster/cluster.yaml");
    assert!(
        rendered.contains("ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]") && rendered.contains("sops:"),
        "{rendered}"
    );
}

#[test]
fn a_part_that_cannot_be_rendered_stops_no_other() {
    let broken = "namespace: a\nresources: [nothing.yaml, cluster.yaml]\n";
    let (sync, other) = (flux("flux-system", "  path: ./clusters\n"), CLUSTER.replace("name: prod", "name: other"));
    let fleet = read(&[
        ("clusters/flux-system/gotk-sync.yaml", &sync),
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/kustomization.yaml", broken),
        ("clusters/other/cluster.yaml", &other),
        ("clusters/other/kustomization.yaml", "namespace: b\nresources: [cluster.yaml]\n"),
    ]);
    assert_eq!(named(&fleet), ["b/other v1.32.4"], "{:?}", fleet.problems);
    let not_rendered = told(&fleet, ProblemCode::NotRendered);
    assert!(not_rendered.iter().any(|it| it.contains("as a whole") && it.contains("Warning")), "{not_rendered:?}");
    assert_eq!(fleet.unreadable_clusters().into_iter().collect::<Vec<_>>(), ["prod"]);
}

#[test]
fn files_that_a_kustomization_does_not_name_are_left_out() {
    let spare = CLUSTER.replace("name: prod", "name: spare");
    let fleet = read(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/spare.yaml", &spare),
        ("clusters/prod/kustomization.yaml", "resources: [cluster.yaml]\n"),
    ]);
    assert_eq!(named(&fleet), ["/prod v1.32.4"]);
    assert!(told(&fleet, ProblemCode::Skipped)[0].contains("does not name this file"), "{:?}", fleet.problems);
}

#[test]
fn an_overlay_that_flux_does_not_apply_is_no_second_cluster() {
    let overlay = "namespace: b\nresources: [../infra]\n";
    let kustomization = "resources: [cluster.yaml]\n";
    let fleet = repository(
        "  targetNamespace: a\n",
        CLUSTER,
        &[("infra/kustomization.yaml", kustomization), ("trial/kustomization.yaml", overlay)],
    );
    assert_eq!(named(&fleet), ["a/prod v1.32.4"]);
    assert!(told(&fleet, ProblemCode::Skipped).iter().any(|it| it.contains("trial")), "{:?}", fleet.problems);
}

#[test]
fn two_management_clusters_of_one_repository_each_have_their_own_flux() {
    let sync = |name: &str| flux("flux-system", &format!("  path: ./clusters/{name}\n"));
    let infra = |name: &str| {
        flux(
            "infra",
            &format!("  path: ./infra\n  targetNamespace: {name}\n  postBuild: {{substitute: {{name: {name}}}}}\n"),
        )
    };
    let cluster = CLUSTER.replace("name: prod", "name: ${name}");
    let (one, two, three, four) = (sync("eu"), sync("us"), infra("eu"), infra("us"));
    let fleet = read(&[
        ("clusters/eu/flux-system/gotk-sync.yaml", &one),
        ("clusters/us/flux-system/gotk-sync.yaml", &two),
        ("clusters/eu/infra.yaml", &three),
        ("clusters/us/infra.yaml", &four),
        ("infra/cluster.yaml", &cluster),
    ]);
    assert_eq!(named(&fleet), ["eu/eu v1.32.4", "us/us v1.32.4"], "{:?}", fleet.problems);
    assert!(text(&fleet, "us", "cluster/cluster.yaml").contains("name: us"));
}

#[test]
fn the_top_level_of_another_repository_is_not_this_one() {
    let app = flux("app", "  path: ./\n  targetNamespace: app\n  prune: true\n")
        .replace("name: flux-system}\n  path", "name: app}\n  path");
    let fleet = repository("", CLUSTER, &[("clusters/prod/app.yaml", &app)]);
    assert_eq!(named(&fleet), ["/prod v1.32.4"]);
    assert_eq!(told(&fleet, ProblemCode::FluxPrunes), Vec::<String>::new());
}

#[test]
fn kustomizations_in_a_circle_are_refused() {
    let fleet = read(&[
        ("clusters/prod/cluster.yaml", CLUSTER),
        ("clusters/prod/kustomization.yaml", "resources: [cluster.yaml, ../more]\nnamespace: b\n"),
        ("clusters/more/kustomization.yaml", "resources: [../prod]\n"),
    ]);
    assert_eq!(named(&fleet), Vec::<String>::new());
    assert_eq!(fleet.unreadable_clusters().into_iter().collect::<Vec<_>>(), ["prod"]);
}

#[test]
fn a_kustomization_that_is_not_yaml_stops_its_cluster() {
    for (path, cluster) in [
        ("infra/kustomization.yaml", "infra/cluster.yaml"),
        ("clusters/prod/kustomization.yaml", "clusters/prod/cluster.yaml"),
    ] {
        let fleet = read(&[(cluster, CLUSTER), (path, "resources: [cluster.yaml\n")]);
        assert_eq!(named(&fleet), Vec::<String>::new(), "{path}");
        assert!(fleet.unreadable_clusters().contains("prod"), "{:?}", fleet.problems);
    }
}

#[test]
fn a_template_that_cannot_be_read_stops_what_flux_makes_of_it() {
    let broken = CLUSTER.replace("class: quick-start", "class: {a: ${x:=y}}");
    let fleet = repository("  postBuild: {substitute: {x: y}}\n", &broken, &[]);
    assert!(told(&fleet, ProblemCode::NotRendered)[0].starts_with("Error"), "{:?}", fleet.problems);
}

#[test]
fn a_sync_whose_patches_cannot_be_applied_stops_its_clusters() {
    let sync = flux("flux-system", SYNC.1);
    let patch = "resources: [gotk-sync.yaml]\npatches: [{target: {kind: Kustomization}, patch: nothing}]\n";
    let fleet = read(&[
        (SYNC.0, &sync),
        ("clusters/prod/flux-system/kustomization.yaml", patch),
        ("clusters/prod/cluster.yaml", CLUSTER),
    ]);
    assert_eq!(named(&fleet), Vec::<String>::new());
    assert!(fleet.unreadable_clusters().contains("prod"), "{:?}", fleet.problems);
}

#[test]
fn values_of_one_name_stay_with_their_management_cluster() {
    let sync = |name: &str| flux("flux-system", &format!("  path: ./clusters/{name}\n"));
    let infra = |path: &str| {
        let from = "postBuild: {substituteFrom: [{kind: ConfigMap, name: settings}]}";
        flux("infra", &format!("  path: {path}\n  {from}\n"))
    };
    let map = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: flux-system}}\ndata: {{name: {name}}}\n"
        )
    };
    let cluster = CLUSTER.replace("name: prod", "name: ${name}");
    let (sync_eu, sync_us, infra_both) = (sync("eu"), sync("us"), infra("./infra"));
    let (map_eu, map_us) = (map("eu"), map("us"));
    let mut files = vec![
        ("clusters/eu/flux-system/gotk-sync.yaml", sync_eu.as_str()),
        ("clusters/us/flux-system/gotk-sync.yaml", sync_us.as_str()),
        ("clusters/eu/settings.yaml", &map_eu),
        ("clusters/us/settings.yaml", &map_us),
        ("infra/cluster.yaml", &cluster),
    ];
    let shared = files.clone();
    let (list_eu, list_us) = (
        "resources: [settings.yaml, flux-system/gotk-sync.yaml, ../../base]\n",
        "namespace: flux-system\nresources: [settings.yaml, flux-system/gotk-sync.yaml, ../../base]\n",
    );
    let mut based = files.clone();
    based.push(("clusters/eu/kustomization.yaml", list_eu));
    based.push(("clusters/us/kustomization.yaml", list_us));
    based.push(("base/kustomization.yaml", "resources: [infra.yaml]\n"));
    based.push(("base/infra.yaml", &infra_both));
    assert_eq!(named(&read(&based)), ["/eu v1.32.4", "/us v1.32.4"], "of one base");
    based.retain(|(path, _)| *path != "clusters/us/kustomization.yaml");
    based.push(("clusters/us/kustomization.yaml", list_eu));
    assert_eq!(named(&read(&based)), ["/eu v1.32.4", "/us v1.32.4"], "of one base that is only listed");
    files.push(("clusters/eu/infra.yaml", &infra_both));
    files.push(("clusters/us/infra.yaml", &infra_both));
    assert_eq!(named(&read(&files)), ["/eu v1.32.4", "/us v1.32.4"]);
    // One that stands beside neither of them means nobody knows which.
    let mut files = shared;
    files.push(("elsewhere/infra.yaml", &infra_both));
    let fleet = read(&files);
    assert_eq!(named(&fleet), Vec::<String>::new());
    assert!(told(&fleet, ProblemCode::NotRendered)[0].contains("not known from git"), "{:?}", fleet.problems);
}
