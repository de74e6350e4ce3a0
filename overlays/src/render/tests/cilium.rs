use super::*;

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

/// The values that reach helm, against what EKS Anywhere computes.
#[test]
fn values_follow_from_the_specification_and_the_team() {
    struct Values(std::sync::Mutex<serde_json::Value>);
    impl Charts for Values {
        fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
            *self.0.lock().unwrap() = serde_json::from_str(&request.values).unwrap();
            assert_eq!((request.name.as_str(), request.namespace.as_str()), ("cilium", "kube-system"));
            Charter.template(request)
        }
    }
    let bundle = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {name: bundles-1}\nspec:\n  number: 1\n  \
                  versionsBundles:\n  - kubeVersion: \"1.30\"\n    cilium:\n      version: v1.19.4-1\n      cilium: {name: c, uri: \
                  'r.io/cilium:v1.19.4-1', os: linux}\n      operator: {name: o, uri: 'r.io/operator-generic:v1.19.4-1', os: linux}\n      \
                  helmChart: {name: h, uri: 'r.io/cilium:1.19.4-1', os: linux}\n";
    let values = |cilium: &str, more: &str, policy: &str| {
        let cluster = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec: {{kubernetesVersion: \
             \"1.30\", clusterNetwork: {{cniConfig: {{cilium: {cilium}}}}}{more}}}\n"
        );
        let files =
            crate::testing::memory(&[("c.yaml", &cluster), ("bundles/1.yaml", bundle), ("stepgate.yaml", policy)]);
        let fleet = read_fleet(&files);
        assert!(fleet.problems.iter().all(|problem| !problem.is_error()), "{:?}", fleet.problems);
        let charts = Values(std::sync::Mutex::new(serde_json::Value::Null));
        let request = RenderRequest {
            fleet: &fleet,
            cluster: fleet.cluster("a").unwrap(),
            bundle: Some(&fleet.bundles[0]),
            deployed: &RenderedTree::new(),
            manifests: &One(""),
            charts: &charts,
            files: &files,
        };
        let component = render_component(&request, ComponentName::Cilium).unwrap().unwrap();
        (charts.0.into_inner().unwrap(), component)
    };
    let at = |values: &serde_json::Value, path: &str| values.pointer(path).map(ToString::to_string).unwrap_or_default();
    let (plain, _) = values("{}", "", "");
    for (path, expected) in [
        ("/cni/chainingMode", "\"portmap\""),
        ("/cni/exclusive", "true"),
        ("/ipam/mode", "\"kubernetes\""),
        ("/routingMode", "\"tunnel\""),
        ("/tunnelProtocol", "\"geneve\""),
        ("/envoy/enabled", "false"),
        ("/hubble/enabled", "false"),
        ("/rollOutCiliumPods", "true"),
        ("/image/repository", "\"r.io/cilium\""),
        ("/image/tag", "\"v1.19.4-1\""),
        ("/operator/image/repository", "\"r.io/operator\""),
        ("/upgradeCompatibility", ""),
        ("/operator/replicas", ""),
    ] {
        assert_eq!(at(&plain, path), expected, "{path}");
    }
    let direct = "{routingMode: direct, ipv4NativeRoutingCIDR: 10.0.0.0/8, cniExclusive: false, egressMasqueradeInterfaces: eth0}";
    let (direct, _) = values(
        direct,
        ", controlPlaneConfiguration: {count: 1}",
        "cilium: {values: {hubble: {enabled: true}, debug: {enabled: true}}}",
    );
    for (path, expected) in [
        ("/routingMode", "\"native\""),
        ("/autoDirectNodeRoutes", "\"true\""),
        ("/ipv4NativeRoutingCIDR", "\"10.0.0.0/8\""),
        ("/tunnelProtocol", ""),
        ("/cni/exclusive", "false"),
        ("/egressMasqueradeInterfaces", "\"eth0\""),
        ("/hubble/enabled", "true"),
        ("/debug/enabled", "true"),
        ("/operator/replicas", "1"),
    ] {
        assert_eq!(at(&direct, path), expected, "{path}");
    }
    let (own, _) = values("{helmValues: {cni: {chainingMode: none}}}", "", "");
    assert_eq!(
        (at(&own, "/cni/chainingMode"), at(&own, "/ipam/mode"), at(&own, "/image/tag")),
        ("\"none\"".to_owned(), String::new(), "\"v1.19.4-1\"".to_owned())
    );
    let (_, always) =
        values("{policyEnforcementMode: always}", ", datacenterRef: {kind: VSphereDatacenterConfig, name: a}", "");
    let policies: Vec<_> = always
        .objects
        .iter()
        .filter(|object| object.kind == "NetworkPolicy")
        .map(|object| object.name.as_str())
        .collect();
    assert_eq!(policies.len(), 10, "{policies:?}");
    assert!(policies.contains(&"allow-all-capv-system") && policies.contains(&"allow-all-flux-system"));
}

#[test]
fn a_chart_that_makes_things_up_is_refused_with_the_value_to_look_at() {
    struct Unsteady(std::sync::atomic::AtomicUsize);
    impl Charts for Unsteady {
        fn template(&self, _: &ChartRequest) -> Result<Vec<u8>, ChartError> {
            let run = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: hubble-server-certs}}\ndata: {{a: \"{run}\"}}\n"
            )
            .into_bytes())
        }
    }
    let Some(scene) = scene("release-0.26.yaml", &[]) else { return };
    let cluster = scene.cluster("workload-1");
    let error = render_component(
        &RenderRequest {
            fleet: &scene.fleet,
            cluster,
            bundle: Some(bundle_for(&scene.fleet, cluster).unwrap()),
            deployed: &RenderedTree::new(),
            manifests: &scene.mirror,
            charts: &Unsteady(std::sync::atomic::AtomicUsize::new(0)),
            files: &scene.files,
        },
        ComponentName::Cilium,
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("Secret hubble-server-certs") && text.contains("hubble.tls.auto.method"), "{text}");
}

#[test]
fn without_helm_cilium_alone_is_not_rendered() {
    struct NoHelm;
    impl Charts for NoHelm {
        fn template(&self, request: &ChartRequest) -> Result<Vec<u8>, ChartError> {
            let message = "there is no helm on PATH; install helm".to_owned();
            Err(ChartError::NoHelm { chart: request.chart.clone(), message })
        }
    }
    let bundle = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {name: bundles-1}\nspec:\n  number: 1\n  \
                  versionsBundles:\n  - kubeVersion: \"1.30\"\n    cilium:\n      version: v1.19.4-1\n      helmChart: {name: h, uri: \
                  'r.io/cilium:1.19.4-1', os: linux}\n";
    let cluster = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {kubernetesVersion: \
                   \"1.30\", managementCluster: {name: m}, clusterNetwork: {cniConfig: {cilium: {}}}}\n";
    let files = crate::testing::memory(&[("c.yaml", cluster), ("bundles/1.yaml", bundle)]);
    let fleet = read_fleet(&files);
    let rendered = render(&RenderRequest {
        fleet: &fleet,
        cluster: fleet.cluster("a").unwrap(),
        bundle: Some(&fleet.bundles[0]),
        deployed: &RenderedTree::new(),
        manifests: &One(""),
        charts: &NoHelm,
        files: &files,
    });
    let failed: Vec<_> =
        rendered.components.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name).collect();
    assert_eq!(failed, [ComponentName::Cilium]);
    assert!(rendered.components[&ComponentName::Cluster].is_ok(), "{:?}", rendered.components.keys());
    let error = rendered.components[&ComponentName::Cilium].as_ref().unwrap_err().to_string();
    assert!(error.contains("no helm program to render chart r.io/cilium:1.19.4-1") && error.contains("install helm"));
}
