use serde_json::json;

use super::*;

/// EKS Anywhere's management cluster at rest: its specification, its release, its controller, and
/// what it has made.
fn eks_anywhere() -> Vec<Value> {
    let api = "anywhere.eks.amazonaws.com/v1alpha1";
    let metadata = |name: &str, namespace: &str| {
        json!({"name": name, "namespace": namespace, "uid": name, "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z"})
    };
    let image = json!({"uri": "public.ecr.aws/eks-anywhere/cluster-controller:v0.24.0-eks-a-80", "imageDigest": format!("sha256:{}", "1".repeat(64))});
    vec![
        json!({"apiVersion": api, "kind": "Cluster", "metadata": metadata("mgmt", "default"),
            "spec": {"kubernetesVersion": "1.33", "eksaVersion": "v0.24.0", "managementCluster": {"name": "mgmt"},
                "datacenterRef": {"kind": "DockerDatacenterConfig", "name": "mgmt"},
                "clusterNetwork": {"cniConfig": {"cilium": {}}}, "controlPlaneConfiguration": {"count": 1}},
            "status": {"observedGeneration": 2, "reconciledGeneration": 2}}),
        json!({"apiVersion": api, "kind": "DockerDatacenterConfig", "metadata": metadata("mgmt", "default"), "spec": {}}),
        json!({"apiVersion": api, "kind": "DockerDatacenterConfig", "metadata": metadata("left-over", "default"), "spec": {}}),
        json!({"apiVersion": api, "kind": "EKSARelease", "metadata": metadata("eksa-v0-24-0", "eksa-system"),
            "spec": {"version": "v0.24.0", "bundlesRef": {"apiVersion": api, "kind": "Bundles", "name": "bundles-80", "namespace": "eksa-system"}}}),
        json!({"apiVersion": api, "kind": "Bundles", "metadata": metadata("bundles-80", "eksa-system"),
            "spec": {"number": 80, "versionsBundles": [{"kubeVersion": "1.33", "eksD": {"name": "kubernetes-1-33-eks-18"},
                "eksa": {"version": "v0.24.0", "clusterController": image}}]}}),
        json!({"apiVersion": "distro.eks.amazonaws.com/v1alpha1", "kind": "Release", "metadata": metadata("kubernetes-1-33-eks-18", "eksa-system"),
            "spec": {"channel": "1-33", "number": 18}, "status": {"date": "2026-01-01T00:00:00Z", "components": []}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("eksa-controller-manager", "eksa-system"),
            "spec": {"template": {"spec": {"containers": [{"image": "mirror.local/cluster-controller:v0.24.0-eks-a-80"}]}}}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("mgmt", "eksa-system"), "spec": {}}),
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "mgmt", "namespace": "eksa-system", "generation": 1, "labels": {"cluster.x-k8s.io/cluster-name": "mgmt"}},
            "spec": {"version": "v1.33.5-eks-1-33-18", "replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "upToDateReplicas": 1}}),
    ]
}

/// A Cluster API cluster of three kinds of machines, with what controllers make of it.
fn cluster_api(namespace: &str) -> Vec<Value> {
    let object = |api: &str, kind: &str, name: &str, labels: Value, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec});
    let (core, infrastructure) = ("cluster.x-k8s.io/v1beta2", "infrastructure.cluster.x-k8s.io/v1beta2");
    let of = json!({"cluster.x-k8s.io/cluster-name": "shop"});
    let reference =
        |kind: &str, name: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name});
    let mut made = object(infrastructure, "DevMachine", "shop-1", of.clone(), json!({}));
    made["metadata"]["ownerReferences"] = json!([{"kind": "Machine", "name": "shop-1"}]);
    vec![
        object(
            core,
            "Cluster",
            "shop",
            json!({}),
            json!({"infrastructureRef": reference("DevCluster", "shop"),
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "shop"}}),
        ),
        object(infrastructure, "DevCluster", "shop", of.clone(), json!({})),
        object(
            "controlplane.cluster.x-k8s.io/v1beta2",
            "KubeadmControlPlane",
            "shop",
            of.clone(),
            json!({"version": "v1.33.1", "replicas": 1,
            "machineTemplate": {"spec": {"infrastructureRef": reference("DevMachineTemplate", "shop-1")}}}),
        ),
        object(infrastructure, "DevMachineTemplate", "shop-1", json!({}), json!({})),
        object(infrastructure, "DevMachineTemplate", "of-before", json!({}), json!({})),
        object(
            core,
            "MachineDeployment",
            "shop-md",
            of.clone(),
            json!({"clusterName": "shop", "replicas": 1,
            "template": {"spec": {"version": "v1.33.1", "clusterName": "shop", "infrastructureRef": reference("DevMachineTemplate", "shop-1")}}}),
        ),
        object(core, "MachineSet", "shop-md-1", of.clone(), json!({"clusterName": "shop"})),
        object(core, "Machine", "shop-1", of, json!({"clusterName": "shop", "version": "v1.33.1"})),
        made,
    ]
}

fn proposed(objects: &[Value]) -> Result<Proposal, Vec<Refusal>> {
    propose(&Live { server: "https://mgmt:6443", objects, serves_flux: true }, &[])
}

/// The object of a kind, to be changed.
fn of_kind<'a>(objects: &'a mut [Value], kind: &str) -> &'a mut Value {
    objects.iter_mut().find(|object| object["kind"] == kind).unwrap()
}

#[track_caller]
fn check_refused(objects: &[Value], expected: &str) {
    let refusals = proposed(objects).map(|proposal| proposal.files).unwrap_err();
    let told: Vec<&str> = refusals.iter().map(|refusal| refusal.message.as_str()).collect();
    assert!(told.iter().any(|message| message.contains(expected)), "{expected}: {told:?}");
    assert!(refusals.iter().all(|refusal| !refusal.help.is_empty()), "{refusals:?}");
}

fn paths(proposal: &Proposal) -> Vec<&str> {
    proposal.files.keys().map(RepoPath::as_str).collect()
}

#[test]
fn a_cluster_of_eks_anywhere_is_its_specification_and_its_release() {
    let proposal = proposed(&eks_anywhere()).unwrap();
    let expected = [
        "bundles/bundles-80.yaml",
        "bundles/eksa-v0-24-0.yaml",
        "bundles/kubernetes-1-33-eks-18.yaml",
        "clusters/mgmt/cluster.yaml",
        "stepgate.yaml",
    ];
    assert_eq!(paths(&proposal), expected);
    let text: String = proposal.files.values().map(String::as_str).collect();
    for gone in ["uid", "resourceVersion", "generation", "creationTimestamp", "left-over", "KubeadmControlPlane"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    assert!(text.contains("kubernetesVersion: \"1.33\"") && text.contains("kind: DockerDatacenterConfig"), "{text}");
}

#[test]
fn the_release_is_written_though_nobody_has_declared_it() {
    let mut objects = eks_anywhere();
    let fields = |spec: Value| json!({"f:spec": spec});
    objects[0]["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": fields(json!({"f:kubernetesVersion": {}, "f:managementCluster": {"f:name": {}},
            "f:datacenterRef": {"f:kind": {}, "f:name": {}}, "f:controlPlaneConfiguration": {"f:count": {}}}))},
        {"manager": "manager", "operation": "Update", "fieldsV1": fields(json!({"f:eksaVersion": {}, "f:clusterNetwork": {}}))}]);
    let proposal = proposed(&objects).unwrap();
    let text = &proposal.files[&RepoPath::new("clusters/mgmt/cluster.yaml").unwrap()];
    assert!(text.contains("eksaVersion: v0.24.0") && !text.contains("clusterNetwork"), "{text}");
}

#[test]
fn a_cluster_of_cluster_api_is_what_no_controller_has_made() {
    let mut objects = cluster_api("fleet");
    // As of the Cluster of a topology, which is nobody's but its own.
    objects[0]["metadata"]["labels"] = json!({OF_TOPOLOGY: ""});
    let proposal = proposed(&objects).unwrap();
    assert_eq!(paths(&proposal), ["clusters/shop/cluster.yaml", "stepgate.yaml"]);
    let text = &proposal.files[&RepoPath::new("clusters/shop/cluster.yaml").unwrap()];
    assert!(text.starts_with("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"), "{text}");
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["Cluster", "DevCluster", "DevMachineTemplate", "KubeadmControlPlane", "MachineDeployment"]);
    assert!(!text.contains("of-before"), "{text}");
}

#[test]
fn flux_objects_are_written_as_they_were_found() {
    let mut objects = eks_anywhere();
    objects[0]["metadata"]["labels"] = json!({"kustomize.toolkit.fluxcd.io/name": "flux-system", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
    let metadata = json!({"name": "flux-system", "namespace": "flux-system", "uid": "1"});
    let reference = json!({"kind": "GitRepository", "name": "flux-system"});
    objects.extend([
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata,
            "spec": {"url": "ssh://git@git.example.com/fleet", "ref": {"branch": "main"}, "secretRef": {"name": "flux-system"}}, "status": {}}),
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata,
            "spec": {"path": "./clusters/mgmt", "prune": true, "interval": "10m", "sourceRef": reference}, "status": {}}),
    ]);
    let proposal = proposed(&objects).unwrap();
    let folder = "clusters/mgmt/flux-system";
    assert!(paths(&proposal).contains(&"clusters/mgmt/mgmt/eksa-system/eksa-cluster.yaml"), "{:?}", paths(&proposal));
    let sync = &proposal.files[&RepoPath::new(format!("{folder}/gotk-sync.yaml")).unwrap()];
    assert!(sync.contains("url: ssh://git@git.example.com/fleet") && !sync.contains("status"), "{sync}");
    assert!(proposal.remarks.iter().any(|remark| remark.contains("ssh://git@git.example.com/fleet")), "{proposal:?}");
    // Stepgate's own says that there is a repository already.
    let mut own = objects.clone();
    own[0]["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] = json!("mgmt-cluster");
    let kustomization = own.last_mut().unwrap();
    kustomization["metadata"]["name"] = json!("mgmt-cluster");
    kustomization["spec"]["path"] = json!("./clusters/mgmt/cluster");
    let proposal = proposed(&own).unwrap();
    assert!(paths(&proposal).contains(&"clusters/mgmt/cluster.yaml"), "{:?}", paths(&proposal));
    assert!(proposal.remarks.iter().any(|remark| remark.contains("is recorded already")), "{proposal:?}");
    // What a Kustomization changes cannot be told from what it has made.
    let patched = objects.last_mut().unwrap();
    patched["spec"]["patches"] = json!([{"patch": "x"}]);
    let proposal = proposed(&objects).unwrap();
    assert!(!paths(&proposal).iter().any(|path| path.contains("flux-system")), "{:?}", paths(&proposal));
    assert!(proposal.remarks.iter().any(|remark| remark.contains("changes what it applies (patches)")), "{proposal:?}");
}

#[test]
fn without_specification_or_under_one_name_nothing_is_proposed() {
    check_refused(&[], "there is no Cluster of EKS Anywhere or Cluster API on https://mgmt:6443");
    let two = [cluster_api("one"), cluster_api("two")].concat();
    check_refused(&two, "2 clusters are called shop, and names are folders: Cluster one/shop");
    let objects = cluster_api("fleet");
    let live = Live { server: "s", objects: &objects, serves_flux: true };
    let refusals = propose(&live, &["shops".to_owned()]).unwrap_err();
    assert_eq!(
        (refusals[0].message.as_str(), refusals[0].help.as_str()),
        ("there is no cluster shops on s", "clusters are: shop")
    );
}

#[test]
fn a_cluster_between_two_versions_is_refused_with_what_is_under_way() {
    for (kind, path, value, expected) in [
        (
            "Cluster",
            "/spec/kubernetesVersion",
            json!("1.34"),
            "KubeadmControlPlane eksa-system/mgmt is of version v1.33.5-eks-1-33-18, the cluster says 1.34",
        ),
        (
            "Cluster",
            "/status/reconciledGeneration",
            json!(1),
            "Cluster default/mgmt is carried out to generation 1 of 2",
        ),
        ("Cluster", "/status", json!({}), "was never carried out"),
        ("Cluster", "/status/observedGeneration", json!(1), "is carried out to generation 1 of 2"),
        ("KubeadmControlPlane", "/status/upToDateReplicas", json!(0), "has status.upToDateReplicas 0 of 1"),
        ("KubeadmControlPlane", "/status/observedGeneration", json!(0), "is observed at generation 0 of 1"),
    ] {
        let mut objects = eks_anywhere();
        *of_kind(&mut objects, kind).pointer_mut(path).unwrap() = value;
        check_refused(&objects, expected);
    }
    let mut objects = eks_anywhere();
    objects[0]["status"]["failureMessage"] = json!("machine config not found");
    check_refused(&objects, "is not carried out: machine config not found");
    objects[0]["status"]["failureMessage"] = json!("");
    objects[0]["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "RollingUpgradeInProgress"}]);
    check_refused(&objects, "says Ready False: RollingUpgradeInProgress");
    let mut objects = cluster_api("fleet");
    of_kind(&mut objects, "Machine")["spec"]["version"] = json!("v1.32.4");
    check_refused(&objects, "Machine fleet/shop-1 is of version v1.32.4, which nothing asks for any more");
    let mut objects = cluster_api("fleet");
    objects[0]["spec"]["paused"] = json!(true);
    check_refused(&objects, "Cluster fleet/shop is paused");
}

#[test]
fn eks_anywhere_behind_what_it_declares_is_refused() {
    let mut objects = eks_anywhere();
    of_kind(&mut objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!("mirror.local/cluster-controller:v0.23.0-eks-a-79");
    check_refused(
        &objects,
        "Deployment eksa-system/eksa-controller-manager runs mirror.local/cluster-controller:v0.23.0-eks-a-79",
    );
    let mut objects = eks_anywhere();
    objects[0]["metadata"]["annotations"] =
        json!({"anywhere.eks.amazonaws.com/management-components-version": "v0.25.0"});
    check_refused(&objects, "declares eksaVersion v0.24.0, and its management components are of v0.25.0");
    let mut objects = eks_anywhere();
    objects[0]["spec"]["eksaVersion"] = json!("v0.25.0");
    check_refused(&objects, "is at eksaVersion v0.25.0, of which there is no EKSARelease");
}

#[test]
fn a_credential_in_an_object_is_refused_by_its_place() {
    let mut objects = cluster_api("fleet");
    of_kind(&mut objects, "KubeadmControlPlane")["spec"]["kubeadmConfigSpec"] =
        json!({"users": [{"name": "a", "passwd": "x"}]});
    check_refused(
        &objects,
        "KubeadmControlPlane fleet/shop holds a credential in spec.kubeadmConfigSpec.users[0].passwd",
    );
}
