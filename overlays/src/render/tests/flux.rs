use super::*;
use yaml::Node;

/// The Kustomization of the specification of cluster `a`, which these files are of.
fn kustomization(files: &[(&str, &str)]) -> Node {
    let files = crate::testing::memory(files);
    let fleet = read_fleet(&files);
    let request = RenderRequest {
        fleet: &fleet,
        cluster: fleet.cluster("a").unwrap_or_else(|| panic!("{:?}", fleet.problems)),
        bundle: None,
        deployed: &RenderedTree::new(),
        manifests: &Mirror(PathBuf::from("/nowhere")),
        charts: &Charter,
        files: &files,
    };
    let component = render_component(&request, ComponentName::FluxObjects).unwrap().unwrap();
    objects_of(component.tree.get("cluster.yaml").unwrap()).remove(0)
}

const CLUSTER: &str = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a, namespace: a}\nspec:\n  \
                       topology: {class: web, version: v1.32.4}\n";

#[test]
fn the_kustomization_of_a_specification_carries_over_what_applied_it() {
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: infra, namespace: team}\nspec:\n  \
                path: ./infra\n  sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}\n  \
                decryption: {provider: sops, secretRef: {name: age}}\n  serviceAccountName: deployer\n  timeout: 3m\n  \
                kubeConfig: {secretRef: {name: hub}}\n  ignore: [{paths: [/spec/replicas]}]\n  wait: true\n  force: true\n  prune: true\n  \
                dependsOn: [{name: x}]\n  interval: 1m\n";
    let files = [("flux/infra.yaml", flux), ("infra/a.yaml", CLUSTER)];
    let object = kustomization(&files);
    let text = |path: &[&str]| object.at(path).and_then(Node::as_str).unwrap_or_default();
    assert_eq!(text(&["metadata", "namespace"]), "team", "what it names is there");
    assert_eq!(text(&["spec", "sourceRef", "namespace"]), "flux-system");
    assert_eq!(text(&["spec", "decryption", "secretRef", "name"]), "age");
    assert_eq!(text(&["spec", "kubeConfig", "secretRef", "name"]), "hub");
    assert_eq!((text(&["spec", "serviceAccountName"]), text(&["spec", "timeout"])), ("deployer", "3m"));
    assert_eq!((text(&["spec", "path"]), text(&["spec", "interval"])), ("./clusters/a/cluster", "10m"));
    let spec = object.get("spec").unwrap();
    assert!(spec.get("ignore").is_some());
    assert_eq!(spec.get("prune").and_then(Node::as_bool), Some(false));
    for field in ["wait", "force", "dependsOn"] {
        assert!(spec.get(field).is_none(), "{field}");
    }
}

#[test]
fn decryption_of_the_policy_wins() {
    let policy = ("stepgate.yaml", "flux: {decryption: {secret: sops-age, serviceAccount: kms}}\n");
    let object = kustomization(&[policy, ("infra/a.yaml", CLUSTER)]);
    let text = |path: &[&str]| object.at(path).and_then(Node::as_str).unwrap_or_default();
    assert_eq!((text(&["spec", "decryption", "provider"]), text(&["metadata", "namespace"])), ("sops", "flux-system"));
    assert_eq!(text(&["spec", "decryption", "secretRef", "name"]), "sops-age");
    assert_eq!(text(&["spec", "decryption", "serviceAccountName"]), "kms");
}
