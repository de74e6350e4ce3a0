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
