//! What nodes are upgraded in place with, made of bundle and policy.

use super::*;

const POLICY: &str = "bundle: newest\nupgraders: registry.test/upgrader\nclusters: {edge: {strategy: inPlace}}\n";

const BUNDLES: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Bundles
metadata: {name: bundles-7}
spec:
  number: 7
  versionsBundles:
  - kubeVersion: '1.36'
    eksD: {name: kubernetes-1-36-eks-4, channel: 1-36, kubeVersion: v1.36.4, manifestUrl: https://a.test/eks-d.yaml}
";

const CLUSTER: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: edge, namespace: factory}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: edge}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: edge}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: edge, namespace: factory}
spec:
  replicas: 3
  version: v1.36.4-eks-1-36-4
  machineTemplate:
    spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: plane}}
  kubeadmConfigSpec: {}
";

/// The directory of the stage; the reason where there is none.
fn rendered(policy: &str, cluster: &str, deployed: &RenderedTree) -> Result<RenderedComponent, String> {
    let files = [("stepgate.yaml", policy), ("bundles/a.yaml", BUNDLES), ("clusters/edge/cluster.yaml", cluster)];
    let files: MemoryFiles =
        files.into_iter().map(|(path, text)| (RepoPath::new(path).unwrap(), text.as_bytes().to_vec())).collect();
    let fleet = read_fleet(&files);
    let cluster = fleet.cluster("edge").unwrap();
    let request = RenderRequest {
        fleet: &fleet,
        cluster,
        bundle: Some(bundle_for(&fleet, cluster).unwrap()),
        deployed,
        manifests: &Mirror(PathBuf::new()),
        charts: &Charter,
        files: &files,
    };
    applies(&request, ComponentName::Bundle)?;
    Ok(render_component(&request, ComponentName::Bundle).unwrap().unwrap())
}

fn text(component: &RenderedComponent) -> String {
    assert!(component.tree.get("bundle/bundles.yaml").is_none());
    String::from_utf8(component.tree.get("bundle/in-place-upgraders-factory.yaml").unwrap().to_vec()).unwrap()
}

#[test]
fn the_bundle_stage_brings_the_image_of_each_release_that_machines_go_to() {
    let first = rendered(POLICY, CLUSTER, &RenderedTree::new()).unwrap();
    let node = objects_of(text(&first).as_bytes()).remove(0);
    let at = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default().to_owned();
    assert_eq!((at(&["kind"]), at(&["metadata", "namespace"])), ("ConfigMap".to_owned(), "factory".to_owned()));
    assert_eq!(at(&["data", "v1.36.4-eks-1-36-4"]), "registry.test/upgrader:v1.36.4-eks-1-36-4");
    // What was made before stays: a node that is on its way there ends it.
    let path = RepoPath::new("bundle/in-place-upgraders-factory.yaml").unwrap();
    let mut deployed = RenderedTree::new();
    deployed.insert(path, text(&first).replace("v1.36.4-eks-1-36-4", "v1.36.2-eks-1-36-2").into_bytes());
    let both = text(&rendered(POLICY, CLUSTER, &deployed).unwrap());
    assert!(both.contains("v1.36.2-eks-1-36-2: ") && both.contains("v1.36.4-eks-1-36-4: "), "{both}");
}

#[test]
fn nothing_is_made_where_nobody_asks_or_people_have_written_it() {
    let own =
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: in-place-upgraders, namespace: factory}\ndata: {}\n";
    for (policy, cluster) in [
        (POLICY.replace("upgraders: registry.test/upgrader\n", ""), CLUSTER.to_owned()),
        (POLICY.replace("strategy: inPlace", "strategy: rolling"), CLUSTER.to_owned()),
        (POLICY.to_owned(), CLUSTER.replace("v1.36.4-eks-1-36-4", "v1.36.4")),
        (POLICY.to_owned(), CLUSTER.replace("v1.36.4-eks-1-36-4", "v1.36.3-eks-1-36-3")),
        (POLICY.to_owned(), format!("{CLUSTER}{own}")),
    ] {
        let reason = rendered(&policy, &cluster, &RenderedTree::new()).unwrap_err();
        assert_eq!(reason, "this cluster is not EKS Anywhere's", "{policy}{cluster}");
    }
}
