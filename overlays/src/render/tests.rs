use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::testing::{fixture, read_file, shared};
use crate::{
    ChartError, ChartRequest, Charts, ClusterSpec, FetchError, Files, Fleet, Manifests, MemoryFiles, RepoPath,
    bundle_for, objects_of, read_fleet,
};

/// The mirror of the shared data, substitutes included.
struct Mirror(PathBuf);

impl Manifests for Mirror {
    fn get(&self, uri: &str) -> Result<Arc<[u8]>, FetchError> {
        let path = uri.strip_prefix("https://").unwrap_or(uri);
        let found = [self.0.join(path), self.0.join("substitutes").join(path)].into_iter().find(|path| path.is_file());
        match found {
            Some(path) => Ok(read_file(&path).into()),
            None => Err(FetchError::NotFound { uri: uri.to_owned(), searched: self.0.display().to_string() }),
        }
    }
}

/// Stands for helm: a DaemonSet and a Deployment whose bytes follow from the request.
struct Charter;

impl Charts for Charter {
    fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
        let values: serde_json::Value = serde_json::from_str(&request.values).unwrap();
        let text = |path: &str| values.pointer(path).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let image = format!("{}:{}", text("/image/repository"), text("/image/tag"));
        let operator = format!("{}-generic:{}", text("/operator/image/repository"), text("/operator/image/tag"));
        let name = if values.pointer("/preflight/enabled").is_some() { "cilium-pre-flight-check" } else { "cilium" };
        Ok(format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cilium-config, namespace: kube-system}}\ndata: {{chart: \
             \"{}\", kube: \"{}\", from: \"{}\"}}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: {name}, \
             namespace: kube-system}}\nspec: {{selector: {{}}, template: {{spec: {{containers: [{{name: cilium-agent, image: \
             \"{image}\"}}]}}}}}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: cilium-operator, namespace: \
             kube-system}}\nspec: {{selector: {{}}, template: {{spec: {{containers: [{{name: cilium-operator, image: \
             \"{operator}\"}}]}}}}}}\n",
            request.chart, request.kubernetes_version, text("/upgradeCompatibility")
        )
        .into_bytes())
    }
}

struct Scene {
    files: MemoryFiles,
    fleet: Fleet,
    mirror: Mirror,
}

/// The fixture fleet with the bundle of a release, its clusters moved to a Kubernetes version of that bundle.
fn scene(release: &str, more: &[(&str, &str)]) -> Option<Scene> {
    let data = shared()?;
    let mut files = fixture("repositories/eks-anywhere");
    files.insert(
        RepoPath::new("bundles/bundles-1.yaml").unwrap(),
        read_file(&data.join("eks-anywhere/bundles").join(release)),
    );
    for (path, text) in more {
        files.insert(RepoPath::new(*path).unwrap(), text.as_bytes().to_vec());
    }
    let fleet = read_fleet(&files);
    assert_eq!(fleet.blocking("management"), Vec::<&crate::Problem>::new());
    Some(Scene { files, fleet, mirror: Mirror(data.join("mirror")) })
}

impl Scene {
    fn with_provider(mut self, provider: &crate::Provider) -> Self {
        for cluster in &mut self.fleet.clusters {
            cluster.provider = provider.clone();
        }
        self
    }

    fn cluster(&self, name: &str) -> &ClusterSpec {
        self.fleet.cluster(name).unwrap()
    }

    /// One component of a new management cluster.
    fn render_one(&self, name: ComponentName) -> Result<RenderedComponent, RenderError> {
        let cluster = self.cluster("management");
        let request = RenderRequest {
            fleet: &self.fleet,
            cluster,
            bundle: Some(bundle_for(&self.fleet, cluster).unwrap()),
            deployed: &RenderedTree::new(),
            manifests: &self.mirror,
            charts: &Charter,
            files: &self.files,
        };
        Ok(render_component(&request, name)?.unwrap())
    }

    fn render(&self, name: &str, deployed: &RenderedTree) -> RenderedCluster {
        let cluster = self.cluster(name);
        render(&RenderRequest {
            fleet: &self.fleet,
            cluster,
            bundle: Some(bundle_for(&self.fleet, cluster).unwrap()),
            deployed,
            manifests: &self.mirror,
            charts: &Charter,
            files: &self.files,
        })
    }
}

/// The management cluster at 0.25 as committed, and its render at 0.26 over that: rendered once for all tests.
fn bump() -> Option<&'static (RenderedCluster, RenderedTree, RenderedCluster)> {
    static BUMP: std::sync::OnceLock<Option<(RenderedCluster, RenderedTree, RenderedCluster)>> =
        std::sync::OnceLock::new();
    BUMP.get_or_init(|| {
        let flux_in_use = "apiVersion: source.toolkit.fluxcd.io/v1beta2\nkind: GitRepository\nmetadata: {name: old}\n";
        let first = scene("release-0.25.yaml", &[])?.render("management", &RenderedTree::new());
        let deployed = committed(&first);
        let second = scene("release-0.26.yaml", &[("apps/source.yaml", flux_in_use)])?.render("management", &deployed);
        Some((first, deployed, second))
    })
    .as_ref()
}

fn component(rendered: &RenderedCluster, name: ComponentName) -> &RenderedComponent {
    match &rendered.components[&name] {
        Ok(component) => component,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// What the deploy branch holds once every component was committed.
fn committed(rendered: &RenderedCluster) -> RenderedTree {
    let mut tree = RenderedTree::new();
    for (name, result) in &rendered.components {
        if let Ok(component) = result
            && !matches!(name, ComponentName::FluxObjects | ComponentName::CiliumPreflight)
        {
            tree.extend(&component.tree);
        }
    }
    tree
}

fn notes(component: &RenderedComponent) -> Vec<String> {
    component.notes.iter().map(|note| format!("{:?} {:?}: {note}", note.weight, note.kind)).collect()
}

#[test]
fn real_components_are_rendered_with_pinned_images() {
    let Some((first, _, second)) = bump() else { return };
    for (release, rendered) in [("0.25", first), ("0.26", second)] {
        for (name, result) in &rendered.components {
            let component = result.as_ref().unwrap_or_else(|error| panic!("{release} {name}: {error}"));
            assert!(!component.tree.is_empty(), "{release} {name}");
            for object in &component.objects {
                for image in &object.images {
                    assert!(image.contains("@sha256:"), "{release} {name} {}: {image}", object.name);
                    assert!(image.starts_with("public.ecr.aws/"), "{release} {name} {}: {image}", object.name);
                }
            }
        }
        let deployments =
            |name| component(rendered, name).objects.iter().filter(|object| object.kind == "Deployment").count();
        assert_eq!(deployments(ComponentName::CertManager), 3, "{release}");
        assert_eq!(
            deployments(ComponentName::Capi),
            6,
            "{release}: core, bootstrap, control plane, vSphere, two of etcdadm"
        );
        assert_eq!(deployments(ComponentName::Flux), 4, "{release}");
        assert_eq!(deployments(ComponentName::EksA), 1, "{release}");
        let text = component(rendered, ComponentName::CertManager)
            .tree
            .get("cert-manager/cert-manager.yaml")
            .unwrap()
            .to_vec();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("--acme-http01-solver-image=public.ecr.aws/release-container-registry/cert-manager/cert-manager-acmesolver:v1."));
    }
    assert!(first.skipped.contains_key(&ComponentName::CiliumPreflight), "{:?}", first.skipped);
}

#[test]
fn a_render_over_its_own_result_changes_nothing() {
    let Some((_, deployed, second)) = bump() else { return };
    let Some(new) = scene("release-0.26.yaml", &[]) else { return };
    let second = committed(second);
    assert_ne!(second, *deployed);
    assert_eq!(second.diff(&committed(&new.render("management", &second))).files, BTreeMap::new());
}

#[test]
fn the_traps_between_two_real_releases_are_told() {
    let Some((first, _, rendered)) = bump() else { return };
    let has = |name: ComponentName, weight: Weight, kind: NoteKind, words: &[&str]| {
        let notes = notes(component(rendered, name));
        let head = format!("{weight:?} {kind:?}: ");
        let found = notes.iter().any(|note| note.starts_with(&head) && words.iter().all(|word| note.contains(word)));
        assert!(found, "{head}{words:?} is not in\n{}", notes.join("\n"));
    };
    let capi = ComponentName::Capi;
    has(
        capi,
        Weight::OneWay,
        NoteKind::StorageVersionChanged,
        &["infrastructure.cluster.x-k8s.io", "v1beta2 instead of v1beta1", "VSphereMachine"],
    );
    has(capi, Weight::Risk, NoteKind::VersionRemoved, &["v1alpha3", "infrastructure.cluster.x-k8s.io"]);
    has(capi, Weight::Risk, NoteKind::VersionRemoved, &["v1alpha4", "cluster.x-k8s.io (", "MachineDeployment"]);
    has(capi, Weight::Risk, NoteKind::DefaultChanged, &["EXP_PRIORITY_QUEUE changes from false to true"]);
    has(capi, Weight::Risk, NoteKind::DefaultChanged, &["EXP_RECONCILER_RATE_LIMITING changes from false to true"]);
    has(capi, Weight::Risk, NoteKind::WebhookRemoved, &["vspherefailuredomain"]);
    has(capi, Weight::Risk, NoteKind::ContractChanged, &["infrastructure.cluster.x-k8s.io"]);
    has(capi, Weight::Note, NoteKind::SecretOmitted, &["VSPHERE_PASSWORD"]);
    has(
        ComponentName::Flux,
        Weight::Risk,
        NoteKind::ImagesOfAnotherRelease,
        &["Flux v2.8.8", "source-controller 1.9.0 (manifest: 1.8.5)"],
    );
    has(
        ComponentName::Flux,
        Weight::Risk,
        NoteKind::VersionRemoved,
        &["source.toolkit.fluxcd.io", "v1beta2", "GitRepository"],
    );
    has(ComponentName::Flux, Weight::Block, NoteKind::VersionInUse, &["apps/source.yaml:1", "move it to v1 first"]);
    let removed = &component(rendered, capi).removed_versions;
    assert!(
        removed
            .iter()
            .any(|version| version.definition == "clusters.cluster.x-k8s.io" && version.version == "v1alpha3"),
        "{removed:?}"
    );
    let blocks = component(rendered, capi).notes.iter().filter(|note| note.weight == Weight::Block).count();
    assert_eq!(blocks, 0, "{:?}", notes(component(rendered, capi)));
    // Flux's definitions keep their text.
    let flux = component(rendered, ComponentName::Flux).tree.get("flux-system/gotk-components.yaml").unwrap();
    assert!(String::from_utf8_lossy(flux).contains("${var:=default}"));
    // 1.12.2's KubeadmControlPlane definition is above the limit of client-side apply.
    assert!(
        notes(component(first, capi))
            .iter()
            .any(|note| note.contains("LargeDefinition") && note.contains("kubeadmcontrolplanes"))
    );
}

#[test]
fn every_provider_is_rendered_by_the_same_code() {
    use crate::Provider;
    for release in ["release-0.25.yaml", "release-0.26.yaml"] {
        for (provider, file, secrets) in [
            (Provider::Docker, "infrastructure-docker-components.yaml", 0),
            (Provider::VSphere, "infrastructure-vsphere-components.yaml", 1),
            (Provider::Nutanix, "infrastructure-nutanix-components.yaml", 1),
            (Provider::Tinkerbell, "infrastructure-tinkerbell-components.yaml", 0),
            (Provider::Snow, "infrastructure-snow-components.yaml", 2),
        ] {
            let variables = "variables: {NUTANIX_ENDPOINT: prism.example.org, TINKERBELL_IP: 198.51.100.5}\n";
            let Some(scene) = scene(release, &[("stepgate.yaml", variables)]) else { return };
            let scene = scene.with_provider(&provider);
            let capi = &scene.render_one(ComponentName::Capi).unwrap();
            let bytes = capi.tree.get(&format!("capi/{file}")).unwrap_or_else(|| panic!("{release} has no {file}"));
            assert!(!objects_of(bytes).is_empty());
            let omitted = capi.notes.iter().filter(|note| note.kind == NoteKind::SecretOmitted).count();
            assert!(omitted >= secrets.min(1), "{release} {provider:?}: {:?}", notes(capi));
            let others = capi.tree.files.keys().filter(|path| path.file_name().starts_with("infrastructure-")).count();
            assert_eq!(others, 1, "only the cluster's own provider");
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains("${"), "{release} {provider:?} has variables left");
            assert!(text.contains("@sha256:"), "{release} {provider:?}");
        }
        let Some(scene) = scene(release, &[]) else { return };
        let scene = scene.with_provider(&Provider::Tinkerbell);
        let error = scene.render_one(ComponentName::Capi).unwrap_err().to_string();
        assert!(error.contains("no value for ${TINKERBELL_IP} (line 992)"), "{error}");
    }
}

#[test]
fn what_cannot_be_installed_is_refused_and_only_there() {
    let Some(scene) = scene("release-0.26.yaml", &[]) else { return };
    let scene = scene.with_provider(&crate::Provider::CloudStack);
    let rendered = scene.render("management", &RenderedTree::new());
    let error = rendered.components[&ComponentName::Capi].as_ref().unwrap_err();
    assert!(matches!(error, RenderError::NotInstallable { .. }), "{error}");
    assert!(rendered.components[&ComponentName::Flux].is_ok());
}

#[test]
fn snow_disagrees_with_its_own_metadata() {
    let Some(scene) = scene("release-0.26.yaml", &[]) else { return };
    let notes = notes(&scene.with_provider(&crate::Provider::Snow).render_one(ComponentName::Capi).unwrap());
    assert!(
        notes.iter().any(|note| note.starts_with("Risk ContractMismatch")
            && note.contains("says contract v1beta2")
            && note.contains("labelled v1beta1")),
        "{}",
        notes.join("\n")
    );
}

#[test]
fn a_manifest_that_is_not_the_locked_one_is_refused() {
    let uri = "https://release-bucket/artifacts/v0.0.0-dev-build.0/cert-manager/manifests/v1.20.2/cert-manager.yaml";
    let lock = format!("sha256:{}  {uri}\n", "0".repeat(64));
    let Some(scene) = scene("release-0.26.yaml", &[("bundles.lock", &lock)]) else { return };
    let error = scene.render_one(ComponentName::CertManager).unwrap_err();
    assert!(matches!(error, RenderError::LockMismatch { .. }) && error.to_string().contains(uri), "{error}");
}

#[test]
fn cilium_is_pulled_first_and_remembers_where_it_came_from() {
    let Some(old) = scene("release-0.25.yaml", &[]) else { return };
    let Some(new) = scene("release-0.26.yaml", &[]) else { return };
    let config = |component: &RenderedComponent| {
        objects_of(component.tree.get("cilium/cilium.yaml").unwrap())[0]
            .at(&["data", "from"])
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    // A workload cluster has Cilium and its specification, nothing else.
    let first = old.render("workload-1", &RenderedTree::new());
    let names: Vec<_> = first.components.keys().copied().collect();
    assert_eq!(names, [ComponentName::Cilium, ComponentName::Cluster, ComponentName::FluxObjects]);
    assert_eq!(config(component(&first, ComponentName::Cilium)), "");
    let deployed = committed(&first);
    let rendered = new.render("workload-1", &deployed);
    assert_eq!(config(component(&rendered, ComponentName::Cilium)), "1.19");
    let preflight = component(&rendered, ComponentName::CiliumPreflight);
    assert!(
        preflight
            .objects
            .iter()
            .any(|object| object.name == "cilium-pre-flight-check" && object.images[0].contains("v1.19.4-1@sha256:"))
    );
    let flux: Vec<_> =
        component(&rendered, ComponentName::FluxObjects).tree.files.keys().map(RepoPath::as_str).collect();
    assert_eq!(flux, ["cilium-preflight.yaml", "cilium.yaml", "cluster.yaml"]);
    // Afterwards the value stays, and no preflight is left.
    let deployed = committed(&rendered);
    let after = new.render("workload-1", &deployed);
    assert_eq!(committed(&after), deployed);
    assert!(after.skipped.contains_key(&ComponentName::CiliumPreflight));
}

#[test]
fn skipped_minors_become_hops_or_are_named_as_missing() {
    let bundle = |number: u64, version: &str| {
        format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: bundles-{number}}}\nspec:\n  \
             number: {number}\n  versionsBundles:\n  - kubeVersion: \"1.30\"\n    cilium:\n      version: {version}\n      \
             cilium: {{name: c, uri: 'r.io/cilium:{version}', imageDigest: sha256:{number:064}}}\n      operator: {{name: o, \
             uri: 'r.io/operator-generic:{version}', imageDigest: sha256:{number:064}}}\n      helmChart: {{name: h, uri: \
             'r.io/cilium:{version}', imageDigest: sha256:{number:064}}}\n"
        )
    };
    let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: \
                   {kubernetesVersion: \"1.30\", clusterNetwork: {cniConfig: {cilium: {}}}}\n";
    let render_with = |bundles: &[(u64, &str)], deployed: &RenderedTree| {
        let mut files = MemoryFiles::new();
        files.insert(RepoPath::new("c.yaml").unwrap(), cluster.as_bytes().to_vec());
        for (number, version) in bundles {
            let path = RepoPath::new(format!("bundles/{number}.yaml")).unwrap();
            files.insert(path, bundle(*number, version).into_bytes());
        }
        let scene = Scene { fleet: read_fleet(&files), files, mirror: Mirror(PathBuf::from("/nowhere")) };
        let rendered = scene.render("a", deployed);
        component(&rendered, ComponentName::Cilium).clone()
    };
    let first = render_with(&[(1, "v1.15.16-eksa.1")], &RenderedTree::new());
    let with_all =
        render_with(&[(1, "v1.15.16-eksa.1"), (2, "v1.16.3-0"), (3, "v1.16.9-0"), (4, "v1.17.8-0")], &first.tree);
    let hops: Vec<_> = with_all.hops.iter().map(|hop| (hop.version.as_str(), hop.bundle.as_str())).collect();
    assert_eq!((hops, with_all.missing_hops.len()), (vec![("v1.16.9-0", "bundles-3")], 0));
    let from = |tree: &RenderedTree| {
        objects_of(tree.get("cilium/cilium.yaml").unwrap())[0]
            .at(&["data", "from"])
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!((from(&with_all.hops[0].tree), from(&with_all.tree)), ("1.15".to_owned(), "1.16".to_owned()));
    let without = render_with(&[(1, "v1.15.16-eksa.1"), (4, "v1.17.8-0")], &first.tree);
    assert_eq!((without.hops.len(), without.missing_hops), (0, vec!["1.16".to_owned()]));
}

#[test]
fn renaming_tags_alone_changes_no_byte_of_what_runs() {
    let Some((_, deployed, _)) = bump() else { return };
    let Some(data) = shared() else { return };
    let renamed = String::from_utf8(read_file(&data.join("eks-anywhere/bundles/release-0.25.yaml")))
        .unwrap()
        .replace("-eks-a-v0.0.0-dev-build.1\n", "-eks-a-v0.0.0-dev-build.2\n");
    let Some(new) = scene("release-0.25.yaml", &[("bundles/bundles-1.yaml", &renamed)]) else { return };
    let rendered = new.render("management", deployed);
    let target = committed(&rendered);
    let changed: Vec<_> = deployed.diff(&target).files.into_keys().map(|path| path.to_string()).collect();
    assert_eq!(changed, ["bundle/bundles.yaml"], "only the Bundles object itself tells the new tags");
    let references = |tree: &RenderedTree| {
        let bytes = tree.get("bundle/bundles.yaml").unwrap();
        let bundles = bundles::manifest::parse_bundles("b", bytes).unwrap();
        let versions = &bundles.versions_bundles[1];
        ["kubeVip", "manager"].map(|name| versions.component("vSphere").unwrap().artifact(name).unwrap().uri.clone())
    };
    assert_eq!(references(deployed), references(&target), "what reaches node templates keeps its text");
    let kept =
        component(&rendered, ComponentName::Bundle).notes.iter().any(|note| note.kind == NoteKind::ReferenceKept);
    assert!(kept);
}

#[test]
fn the_bundle_directory_holds_what_eks_anywhere_looks_for() {
    let Some(scene) = scene("release-0.26.yaml", &[]) else { return };
    let bundle = scene.render_one(ComponentName::Bundle).unwrap();
    let kinds: Vec<_> =
        bundle.objects.iter().map(|object| (object.kind.as_str(), object.namespace.as_deref())).collect();
    let namespace = Some("eksa-system");
    // 1.30 of the management cluster, 1.29 of a worker group of the workload cluster.
    assert_eq!(
        kinds,
        [("Bundles", namespace), ("Release", namespace), ("Release", namespace), ("ConfigMap", namespace)]
    );
    let text = String::from_utf8(bundle.tree.get("bundle/upgrader-images.yaml").unwrap().to_vec()).unwrap();
    assert!(text.contains("v1.30.") && text.contains("-eks-1-30-"), "{text}");
}

#[test]
fn flux_kustomizations_point_at_each_directory() {
    let Some(scene) = scene("release-0.26.yaml", &[("stepgate.yaml", "deploy: {branch: main, path: deploy}\n")]) else {
        return;
    };
    let tree = scene.render_one(ComponentName::FluxObjects).unwrap().tree;
    let spec = |file: &str| objects_of(tree.get(file).unwrap()).remove(0);
    let capi = spec("capi.yaml");
    assert_eq!(capi.at(&["spec", "path"]).unwrap().as_str(), Some("./deploy/clusters/management/capi"));
    assert_eq!(capi.at(&["spec", "prune"]).unwrap().as_bool(), Some(true));
    assert_eq!(spec("cluster.yaml").at(&["spec", "prune"]).unwrap().as_bool(), Some(false));
    assert!(capi.at(&["spec", "kubeConfig"]).is_none());
    let workload = scene.render("workload-1", &RenderedTree::new());
    let cilium =
        objects_of(component(&workload, ComponentName::FluxObjects).tree.get("cilium.yaml").unwrap()).remove(0);
    assert_eq!(
        cilium.at(&["spec", "kubeConfig", "secretRef", "name"]).unwrap().as_str(),
        Some("workload-1-kubeconfig")
    );
    let paths: Vec<_> = scene.files.paths().into_iter().map(|entry| entry.path).collect();
    assert!(!paths.is_empty());
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: webhook\n  namespace: cert-manager\nspec:\n  \
                          replicas: 1\n  selector:\n    matchLabels: {app: webhook}\n  template:\n    metadata:\n      labels: {app: \
                          webhook}\n    spec:\n      containers:\n      - name: webhook\n        image: quay.io/jetstack/cert-manager-webhook:v1\n";

/// One manifest at every address.
struct One(&'static str);

impl Manifests for One {
    fn get(&self, _: &str) -> Result<Arc<[u8]>, FetchError> {
        Ok(self.0.as_bytes().into())
    }
}

/// cert-manager of a small fleet with the given overlay files.
fn overlaid(overlays: &[(&str, &str)]) -> Result<String, RenderError> {
    let bundle = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {name: bundles-1}\nspec:\n  number: 1\n  \
                  versionsBundles:\n  - kubeVersion: \"1.30\"\n    certManager:\n      version: v1\n      webhook: {name: w, uri: \
                  'r.io/cert-manager-webhook:v1', imageDigest: \"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}\n      \
                  manifest: {uri: 'https://x/y.yaml'}\n";
    let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {kubernetesVersion: \"1.30\"}\n";
    let mut files = crate::testing::memory(&[("clusters/a/c.yaml", cluster), ("bundles/1.yaml", bundle)]);
    for (path, text) in overlays {
        files.insert(RepoPath::new(*path).unwrap(), text.as_bytes().to_vec());
    }
    let fleet = read_fleet(&files);
    let request = RenderRequest {
        fleet: &fleet,
        cluster: fleet.cluster("a").unwrap(),
        bundle: Some(&fleet.bundles[0]),
        deployed: &RenderedTree::new(),
        manifests: &One(DEPLOYMENT),
        charts: &Charter,
        files: &files,
    };
    let component = render_component(&request, ComponentName::CertManager)?.unwrap();
    Ok(String::from_utf8(component.tree.get("cert-manager/cert-manager.yaml").unwrap().to_vec()).unwrap())
}

#[test]
fn overlays_of_team_and_cluster_are_applied_in_that_order() {
    let patch = |replicas: u32| {
        format!(
            "patches:\n- patch: '[{{op: replace, path: /spec/replicas, value: {replicas}}}]'\n  target: {{kind: Deployment}}\n"
        )
    };
    let (two, three) = (patch(2), patch(3) + "resources: [extra.yaml]\n");
    let team = ("overlays/cert-manager/kustomization.yaml", two.as_str());
    let own = ("clusters/a/overlays/cert-manager/kustomization.yml", three.as_str());
    let extra =
        ("clusters/a/overlays/cert-manager/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n");
    let other = ("clusters/b/overlays/cert-manager/kustomization.yaml", "namePrefix: never-\n");
    assert!(overlaid(&[]).unwrap().contains("replicas: 1"));
    assert!(overlaid(&[team, other]).unwrap().contains("replicas: 2"));
    let both = overlaid(&[team, own, extra, other]).unwrap();
    assert!(both.contains("replicas: 3") && both.contains("name: extra") && !both.contains("never-"), "{both}");
    // Images of the bundle win over the manifest after the overlays.
    assert!(both.contains("image: r.io/cert-manager-webhook:v1@sha256:0123"), "{both}");
    let shared = [
        ("overlays/cert-manager/kustomization.yaml", "components: [../../common]\n"),
        (
            "common/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {team: blue}}]\n",
        ),
    ];
    assert!(overlaid(&shared).unwrap().contains("team: blue"), "an overlay may reach other folders of the repository");
}

#[test]
fn a_bad_overlay_is_named_with_its_file() {
    for (files, words) in [
        (vec![("overlays/cert-manager/patch.yaml", "a: 1\n")], vec!["overlays/cert-manager", "no kustomization.yaml"]),
        (
            vec![("overlays/cert-manager/kustomization.yaml", "resources: [gone.yaml]\n")],
            vec!["overlays/cert-manager", "gone.yaml"],
        ),
        (
            vec![("overlays/cert-manager/kustomization.yaml", "resources: [https://example.org/x]\n")],
            vec!["overlays/cert-manager"],
        ),
        (
            vec![("overlays/cert-manager/kustomization.yaml", "resources: [../../../../etc]\n")],
            vec!["overlays/cert-manager"],
        ),
        (
            vec![("overlays/cert-manager/kustomization.yaml", "a: [\n")],
            vec!["overlays/cert-manager/kustomization.yaml", "1:"],
        ),
    ] {
        let error = overlaid(&files).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, RenderError::Overlay { .. }) && words.iter().all(|word| text.contains(word)), "{text}");
    }
}
