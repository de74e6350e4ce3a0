use super::*;

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
    has(capi, Weight::Risk, NoteKind::ConversionMissing, &["from v1beta1 to v1beta2 (VSphereClusterIdentity)"]);
    has(capi, Weight::Risk, NoteKind::VersionRemoved, &["v1alpha3", "infrastructure.cluster.x-k8s.io"]);
    has(capi, Weight::Risk, NoteKind::VersionRemoved, &["v1alpha4", "cluster.x-k8s.io (", "MachineDeployment"]);
    has(capi, Weight::Risk, NoteKind::DefaultChanged, &["EXP_PRIORITY_QUEUE changes from false to true"]);
    has(capi, Weight::Risk, NoteKind::DefaultChanged, &["EXP_RECONCILER_RATE_LIMITING changes from false to true"]);
    has(capi, Weight::Note, NoteKind::ReviewVersionRemoved, &["AdmissionReview v1beta1", "cluster.x-k8s.io"]);
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
fn what_does_not_change_between_two_real_releases_is_not_told() {
    let Some((first, _, rendered)) = bump() else { return };
    let told = |name: ComponentName, word: &str| {
        let notes = notes(component(rendered, name));
        notes.into_iter().filter(|note| note.contains(word)).collect::<Vec<_>>()
    };
    // Every definition of cert-manager serves and stores v1 in both.
    for kind in ["StorageVersionChanged", "VersionRemoved", "ConversionChanged", "ImmutableFieldChanged"] {
        assert_eq!(told(ComponentName::CertManager, kind), Vec::<String>::new(), "{kind}");
    }
    // Core, bootstrap and control plane keep their stored version, contract, selectors and role references.
    for (kind, group) in
        [("StorageVersionChanged", " cluster.x-k8s.io"), ("ContractChanged", " bootstrap.cluster.x-k8s.io")]
    {
        let notes = told(ComponentName::Capi, kind);
        assert!(notes.iter().all(|note| !note.contains(group)), "{notes:?}");
    }
    assert_eq!(told(ComponentName::Capi, "ImmutableFieldChanged"), Vec::<String>::new());
    // Alert, Provider and Receiver of Flux serve what they served.
    let notes = told(ComponentName::Flux, "notification.toolkit.fluxcd.io");
    assert_eq!(notes, Vec::<String>::new());
    // EKS Anywhere: three definitions, one role, and the image of the controller. The version of both bundles is the same, and
    // the tags of the images are not it.
    let objects = |rendered: &RenderedCluster| -> BTreeMap<String, Node> {
        let tree = &component(rendered, ComponentName::EksA).tree;
        let files = tree.files.iter().filter(|(path, _)| path.file_name() != "kustomization.yaml");
        let objects = files.flat_map(|(_, bytes)| objects_of(bytes));
        objects.map(|node| (crate::object::object_id(&node).unwrap().to_string(), node)).collect()
    };
    let (old, new) = (objects(first), objects(rendered));
    assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>());
    let differing: Vec<&str> = old.iter().filter(|(id, node)| new[*id] != **node).map(|(id, _)| id.as_str()).collect();
    let kinds: Vec<&str> = differing.iter().filter_map(|id| id.split(' ').next()).collect();
    let definition = "CustomResourceDefinition";
    assert_eq!(kinds, ["ClusterRole", definition, definition, definition, "Deployment"], "{differing:?}");
    let version = |rendered: &RenderedCluster| component(rendered, ComponentName::EksA).version.clone();
    assert_eq!((version(first), version(rendered)).0.as_deref(), Some("v0.0.0-dev+build.0+abcdef1"));
    assert_eq!(version(first), version(rendered));
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
fn clusterctl_finds_what_is_installed() {
    let Some((first, _, second)) = bump() else { return };
    let recorded = |rendered: &RenderedCluster| -> BTreeMap<String, String> {
        let component = component(rendered, ComponentName::Capi);
        let objects = objects_of(component.tree.get("capi/clusterctl-inventory.yaml").unwrap());
        let text = |node: &Node, path: &[&str]| node.at(path).unwrap().as_str().unwrap().to_owned();
        let providers = objects.iter().filter(|node| node.get("kind").and_then(Node::as_str) == Some("Provider"));
        providers
            .map(|node| {
                let place = format!("{}/{}", text(node, &["metadata", "namespace"]), text(node, &["metadata", "name"]));
                (place, text(node, &["version"]))
            })
            .collect()
    };
    let (old, new) = (recorded(first), recorded(second));
    let places: Vec<&str> = new.keys().map(String::as_str).collect();
    assert_eq!(
        places,
        [
            "capi-kubeadm-bootstrap-system/bootstrap-kubeadm",
            "capi-kubeadm-control-plane-system/control-plane-kubeadm",
            "capi-system/cluster-api",
            "capv-system/infrastructure-vsphere",
            "etcdadm-bootstrap-provider-system/bootstrap-etcdadm-bootstrap",
            "etcdadm-controller-system/bootstrap-etcdadm-controller",
        ]
    );
    let core = "capi-system/cluster-api";
    assert_eq!((old[core].as_str(), new[core].as_str()), ("v1.12.2+abcdef1", "v1.13.2+abcdef1"));
    for (folder, name, label) in [
        ("capi", ComponentName::Capi, "cluster.x-k8s.io/provider"),
        ("cert-manager", ComponentName::CertManager, "clusterctl.cluster.x-k8s.io/core"),
    ] {
        let tree = &component(second, name).tree;
        let files = tree.files.iter().filter(|(path, _)| !path.as_str().ends_with("kustomization.yaml"));
        for node in files.flat_map(|(_, bytes)| objects_of(bytes)) {
            let has = |label: &str| node.at(&["metadata", "labels", label]).is_some();
            let known = has(label) || has("clusterctl.cluster.x-k8s.io/core");
            assert!(has("clusterctl.cluster.x-k8s.io") && known, "{folder}: {:?}", crate::object::object_id(&node));
        }
    }
    let text = component(second, ComponentName::CertManager).tree.get("cert-manager/cert-manager.yaml").unwrap();
    let text = String::from_utf8_lossy(text);
    assert!(text.contains("cert-manager.clusterctl.cluster.x-k8s.io/version: v1.20.2+abcdef1"));
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
fn g_renaming_tags_alone_changes_no_byte_of_what_runs() {
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
fn a_signature_that_does_not_fit_is_told() {
    let Some(data) = shared() else { return };
    let release = "bundles-17-signed-v0.25.0-dev.build.17.yaml";
    let text = String::from_utf8(read_file(&data.join("eks-anywhere/bundles").join(release))).unwrap();
    let eksd = |number: u64| {
        format!(
            "apiVersion: distro.eks.amazonaws.com/v1alpha1\nkind: Release\nmetadata: {{name: kubernetes-1-31-eks-34}}\nspec: \
             {{channel: 1-31, number: {number}}}\n"
        )
    };
    let told = |bundle: &str, number: u64| {
        let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: management}\nspec: \
                       {kubernetesVersion: \"1.31\", managementCluster: {name: management}}\n";
        let files = crate::testing::memory(&[
            ("c.yaml", cluster),
            ("bundles/b.yaml", bundle),
            ("bundles/e.yaml", &eksd(number)),
        ]);
        let scene = Scene { fleet: read_fleet(&files), files, mirror: Mirror(data.join("mirror")) };
        let component = scene.render_one(ComponentName::Bundle).unwrap();
        notes(&component).into_iter().filter(|note| note.contains("SignatureInvalid")).collect::<Vec<_>>()
    };
    assert_eq!(told(&text, 34), Vec::<String>::new());
    let tampered = text.replace("endOfStandardSupport: \"2025-12-31\"", "endOfStandardSupport: \"2029-12-31\"");
    assert!(told(&tampered, 34)[0].contains("bundles-17: the signature does not fit"));
    assert!(told(&text, 35)[0].contains("signature-1-31 was not made for this release"));
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
    assert_eq!(capi.at(&["spec", "retryInterval"]).unwrap().as_str(), Some("1m"));
    let workload = scene.render("workload-1", &RenderedTree::new());
    let cilium =
        objects_of(component(&workload, ComponentName::FluxObjects).tree.get("cilium.yaml").unwrap()).remove(0);
    assert_eq!(
        cilium.at(&["spec", "kubeConfig", "secretRef", "name"]).unwrap().as_str(),
        Some("workload-1-kubeconfig")
    );
    assert!(!scene.files.paths().is_empty());
}

/// Assertion (i): a bundle that changes cert-manager alone is an ordinary plan.
#[test]
fn i_a_cert_manager_only_bundle_changes_cert_manager_alone() {
    let Some((_, deployed, _)) = bump() else { return };
    let Some(data) = shared() else { return };
    let text = String::from_utf8(read_file(&data.join("eks-anywhere/bundles/release-0.25.yaml"))).unwrap();
    let text = text
        .replace("cert-manager/manifests/v1.19.3/", "cert-manager/manifests/v1.20.2/")
        .replace("v1.19.3", "v1.20.2");
    let Some(new) = scene("release-0.25.yaml", &[("bundles/bundles-1.yaml", &text)]) else { return };
    let rendered = new.render("management", deployed);
    let changed: Vec<_> = deployed.diff(&committed(&rendered)).files.into_keys().map(|path| path.to_string()).collect();
    assert_eq!(changed, ["bundle/bundles.yaml", "cert-manager/cert-manager.yaml"]);
    assert_eq!(component(&rendered, ComponentName::CertManager).version.as_deref(), Some("v1.20.2+abcdef1"));
}

/// The mirror's manifests that kustomize itself printed go through the build unchanged, byte for byte.
#[test]
fn what_kustomize_printed_comes_out_as_it_went_in() {
    let Some(data) = shared() else { return };
    let root = data.join("mirror/release-bucket/artifacts/v0.0.0-dev-build.0");
    let spec = read_fleet(&fixture("repositories/eks-anywhere")).cluster("management").unwrap().clone();
    for file in [
        "cluster-api/manifests/bootstrap-kubeadm/v1.13.2/bootstrap-components.yaml",
        "cluster-api/manifests/cluster-api/v1.13.2/core-components.yaml",
        "cluster-api/manifests/control-plane-kubeadm/v1.13.2/control-plane-components.yaml",
        "cluster-api/manifests/infrastructure-docker/v1.13.2/infrastructure-components-development.yaml",
        "cluster-api-provider-vsphere/manifests/infrastructure-vsphere/v1.16.1/infrastructure-components.yaml",
        "etcdadm-controller/manifests/bootstrap-etcdadm-controller/v1.0.28/bootstrap-components.yaml",
    ] {
        let bytes = read_file(&root.join(file));
        let upstream = upstream::Upstream { uri: file.to_owned(), text: String::from_utf8(bytes).unwrap() };
        let request = RenderRequest {
            fleet: &Fleet::default(),
            cluster: &spec,
            bundle: None,
            deployed: &RenderedTree::new(),
            manifests: &One(""),
            charts: &Charter,
            files: &MemoryFiles::new(),
        };
        let built = build::build(&request, ComponentName::Capi, std::slice::from_ref(&upstream)).unwrap();
        let printed = yaml::emit_all(&built.objects);
        let at = printed.bytes().zip(upstream.text.bytes()).position(|(left, right)| left != right);
        assert!(printed == upstream.text, "{file} differs at byte {at:?}");
    }
}

#[test]
fn a_manifest_that_the_lock_does_not_name_is_told() {
    let lock = format!("sha256:{}  https://example.org/other.yaml\n", "0".repeat(64));
    for (files, weight) in [(vec![("bundles.lock", lock.as_str())], "Risk"), (vec![], "Note")] {
        let Some(scene) = scene("release-0.26.yaml", &files) else { return };
        let notes = notes(&scene.render_one(ComponentName::CertManager).unwrap());
        let head = format!("{weight} ManifestNotLocked: https://release-bucket/");
        assert!(notes.iter().any(|note| note.starts_with(&head)), "{notes:?}");
    }
}
