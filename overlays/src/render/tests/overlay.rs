use super::*;

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: webhook\n  namespace: cert-manager\nspec:\n  \
                          replicas: 1\n  selector:\n    matchLabels: {app: webhook}\n  template:\n    metadata:\n      labels: {app: \
                          webhook}\n    spec:\n      containers:\n      - name: webhook\n        image: quay.io/jetstack/cert-manager-webhook:v1\n";

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
            "patches:\n- patch: '- {{op: replace, path: /spec/replicas, value: {replicas}}}'\n  target: {{kind: Deployment}}\n"
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
