//! Whether a control plane's address is carried by kube-vip, and by which image.

use domain::{Problem, ProblemCode, Severity};
use overlays::{ClusterKind, ClusterSpec, Fleet, Provider};
use policy::MachinePolicy;
use rollout::KubeVipExpectation;
use yaml::Node;

use crate::machines::{EKSA, Specification};

/// Where the kubelet finds static pods.
const MANIFESTS: &str = "/etc/kubernetes/manifests/";

/// The field that leaves the load balancer out.
const SKIPPED: &str = "skipLoadBalancerDeployment";

/// What the gate of a control plane expects of kube-vip; none where the cluster has none, or where no Lease says which node holds the address.
/// `control_plane` is the KubeadmControlPlane, where the deploy tree holds it.
pub fn expectation(specification: &Specification<'_>, control_plane: Option<&Node>) -> Option<KubeVipExpectation> {
    match specification.cluster.kind {
        // EKS Anywhere's controller writes its manifest, with the bundle's image, maybe of another registry: a mirror's digest can be another.
        ClusterKind::EksAnywhere => {
            is_brought(specification).then_some(KubeVipExpectation { image: None, lease: None })
        }
        _ => written(control_plane?),
    }
}

/// What is wrong with the Lease that the policy names: kube-vip uses another.
pub(crate) fn contradiction(specification: &Specification<'_>, policy: &MachinePolicy) -> Option<String> {
    let named = policy.lease.as_deref()?;
    let cluster = specification.cluster;
    let own = cluster
        .control_plane
        .as_deref()
        .and_then(|name| specification.object("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", name));
    let known = expectation(specification, own)?;
    let known = known.lease.as_deref().unwrap_or(KubeVipExpectation::LEASE);
    (known != named).then(|| {
        format!(
            "kube-vip of {} says by Lease {known} which node holds the address; {named} does not count",
            cluster.name
        )
    })
}

/// Clusters of which the policy names another Lease than their kube-vip has, as far as `stepgate.yaml` and the Cluster itself tell.
#[must_use]
pub fn problems(fleet: &Fleet) -> Vec<Problem> {
    let problem = |cluster: &ClusterSpec| {
        let policy = fleet.policy.stage_policy(&cluster.name, "control-plane").machines;
        let objects = std::slice::from_ref(cluster.node.as_ref());
        let message = contradiction(&Specification { cluster, objects }, &policy)?;
        let problem = Problem::new(ProblemCode::BadPolicy, message).cluster(&cluster.name).severity(Severity::Warning);
        Some(problem.shown_path("stepgate.yaml").hint("take stages.control-plane.lease out"))
    };
    fleet.clusters.iter().filter_map(problem).collect()
}

/// Providers whose template of a control plane has a kube-vip, unless the specification brings another load balancer.
fn is_brought(specification: &Specification<'_>) -> bool {
    let cluster = specification.cluster;
    let datacenter = text(&cluster.node, &["spec", "datacenterRef", "name"])
        .and_then(|name| specification.object(EKSA, "TinkerbellDatacenterConfig", name));
    // On bare metal the datacenter says so as well: some releases leave kube-vip out by that (aws/eks-anywhere, pull request 6990).
    let skipped = [
        cluster.node.at(&["spec", "controlPlaneConfiguration", SKIPPED]),
        datacenter.and_then(|datacenter| datacenter.at(&["spec", SKIPPED])),
    ];
    let skipped = skipped.into_iter().flatten().any(|field| field.as_bool() == Some(true));
    match cluster.provider {
        Provider::VSphere | Provider::Tinkerbell | Provider::Nutanix | Provider::Snow | Provider::CloudStack => {
            !skipped
        }
        Provider::Docker | Provider::Other(_) => false,
    }
}

/// The static pod among the files that kubeadm's configuration writes on each machine.
fn written(control_plane: &Node) -> Option<KubeVipExpectation> {
    let files = control_plane.at(&["spec", "kubeadmConfigSpec", "files"])?.as_sequence()?;
    let manifests = files.iter().filter(|file| {
        text(file, &["path"]).is_some_and(|path| path.starts_with(MANIFESTS)) && text(file, &["encoding"]).is_none()
    });
    let pod = manifests
        .filter_map(|file| text(file, &["content"]))
        .flat_map(|content| overlays::objects_of(content.as_bytes()))
        .find(|pod| text(pod, &["kind"]) == Some("Pod") && text(pod, &["metadata", "name"]) == Some("kube-vip"))?;
    let container = pod.at(&["spec", "containers"])?.as_sequence()?.first()?;
    let setting = |name: &str| {
        let variables = container.at(&["env"]).and_then(Node::as_sequence).unwrap_or_default();
        variables.iter().find(|variable| text(variable, &["name"]) == Some(name)).and_then(|it| text(it, &["value"]))
    };
    let is_elected = setting("vip_leaderelection") == Some("true");
    let lease = setting("vip_leasename").filter(|name| *name != KubeVipExpectation::LEASE).map(str::to_owned);
    let image = text(container, &["image"]).map(str::to_owned);
    is_elected.then_some(KubeVipExpectation { image, lease })
}

fn text<'a>(node: &'a Node, path: &[&str]) -> Option<&'a str> {
    node.at(path).and_then(Node::as_str)
}

#[cfg(test)]
mod tests {
    use overlays::{ClusterSpec, MemoryFiles};

    use super::*;

    fn cluster(text: &str) -> ClusterSpec {
        let file = ("clusters/prod/cluster.yaml".parse().unwrap(), text.as_bytes().to_vec());
        let fleet = overlays::read_fleet(&[file].into_iter().collect::<MemoryFiles>());
        fleet.clusters.into_iter().find(|cluster| cluster.name == "prod").unwrap()
    }

    #[track_caller]
    fn check_eks_anywhere(datacenter: &str, more: &str, of_datacenter: &str, expected: bool) {
        let text = format!(
            "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {{name: prod}}
spec:
  kubernetesVersion: '1.34'
  datacenterRef: {{kind: {datacenter}, name: prod}}
  controlPlaneConfiguration: {{count: 3, {more}}}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: {datacenter}
metadata: {{name: prod}}
spec: {{{of_datacenter}}}
"
        );
        let objects = overlays::objects_of(text.as_bytes());
        let found = expectation(&Specification { cluster: &cluster(&text), objects: &objects }, None);
        assert_eq!(found, expected.then_some(KubeVipExpectation { image: None, lease: None }), "{datacenter} {more}");
    }

    #[test]
    fn eks_anywhere_has_one_where_its_provider_needs_it_and_nobody_left_it_out() {
        for datacenter in ["VSphereDatacenterConfig", "NutanixDatacenterConfig", "SnowDatacenterConfig"] {
            check_eks_anywhere(datacenter, "", "", true);
        }
        check_eks_anywhere("CloudStackDatacenterConfig", "", "", true);
        let (kept, skipped) = ("skipLoadBalancerDeployment: false", "skipLoadBalancerDeployment: true");
        check_eks_anywhere("TinkerbellDatacenterConfig", kept, kept, true);
        check_eks_anywhere("TinkerbellDatacenterConfig", skipped, kept, false);
        check_eks_anywhere("TinkerbellDatacenterConfig", "", skipped, false);
        check_eks_anywhere("DockerDatacenterConfig", "", "", false);
    }

    const CLUSTER_API: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: fleet}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: prod}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: prod, namespace: fleet}
spec:
  replicas: 3
  version: v1.34.1
  kubeadmConfigSpec:
    files:
    - {path: /etc/kubernetes/audit.yaml, content: 'kind: Policy'}
    - path: /etc/kubernetes/manifests/kube-vip.yaml
      content: |
        apiVersion: v1
        kind: Pod
        metadata: {name: kube-vip, namespace: kube-system}
        spec:
          containers:
          - name: kube-vip
            image: registry.example/kube-vip:v1.2.0
            env:
            - {name: cp_enable, value: 'true'}
            - {name: vip_leaderelection, value: 'true'}
";

    #[track_caller]
    fn check_cluster_api(from: &str, to: &str, expected: Option<(&str, Option<&str>)>) {
        let text = CLUSTER_API.replace(from, to);
        let objects = overlays::objects_of(text.as_bytes());
        let expected = expected.map(|(image, lease)| KubeVipExpectation {
            image: Some(image.to_owned()),
            lease: lease.map(str::to_owned),
        });
        let specification = Specification { cluster: &cluster(&text), objects: &objects };
        assert_eq!(expectation(&specification, objects.get(1)), expected, "{to}");
    }

    #[test]
    fn a_control_plane_of_cluster_api_has_the_image_that_its_files_name() {
        check_cluster_api("v1.2.0", "v1.3.0", Some(("registry.example/kube-vip:v1.3.0", None)));
        check_cluster_api("manifests/kube-vip.yaml", "kube-vip.yaml", None);
        check_cluster_api("metadata: {name: kube-vip,", "metadata: {name: haproxy,", None);
        check_cluster_api("      content: |", "      encoding: base64\n      content: |", None);
    }

    #[test]
    fn who_holds_the_address_is_expected_where_a_lease_says_so_by_its_name() {
        check_cluster_api("vip_leaderelection", "bgp_enable", None);
        let named = "vip_leaderelection, value: 'true'}\n            - {name: vip_leasename, value: ";
        let from = "vip_leaderelection, value: 'true'}";
        let image = "registry.example/kube-vip:v1.2.0";
        check_cluster_api(from, &format!("{named}other}}"), Some((image, Some("other"))));
        check_cluster_api(from, &format!("{named}plndr-cp-lock}}"), Some((image, None)));
    }
}
