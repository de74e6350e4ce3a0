//! What the gates expect of machines: control plane, worker groups and external etcd, and whether the controller that makes them of the
//! specification has carried it out.

pub mod kube_vip;
pub(crate) mod rolled;

use domain::GroupName;
use overlays::{ClusterKind, ClusterSpec};
use policy::{ControlPlaneGate, MachinePolicy};
use rollout::{
    ControlPlaneExpectation, EksaClusterExpectation, EtcdExpectation, Expectation, Extent, KubeletVersions,
    MachineOrderRules, MembersHeard, ObjectReference, OldMembers, WorkersExpectation,
};
use yaml::Node;

use crate::expectation::cluster_api_namespace;

/// The API group of EKS Anywhere.
pub(crate) const EKSA: &str = "anywhere.eks.amazonaws.com";

/// Ends of the kinds that EKS Anywhere's controller counts among a Cluster's children, as far as machines follow from them.
const EKSA_CHILDREN: [&str; 6] =
    ["DatacenterConfig", "MachineConfig", "TemplateConfig", "IPPool", "OIDCConfig", "AWSIamConfig"];

/// A cluster's specification as one side of a stage has it.
#[derive(Clone, Copy)]
pub struct Specification<'a> {
    /// What it says.
    pub cluster: &'a ClusterSpec,
    /// Its objects, as they are deployed on that side.
    pub objects: &'a [Node],
}

impl Specification<'_> {
    /// Every expectation that a change of its machines begins with: none where Flux applies Cluster API's own objects.
    pub fn carried_out(&self, extent: Extent) -> Option<Expectation> {
        if self.cluster.kind != ClusterKind::EksAnywhere {
            return None;
        }
        let node = self.object(EKSA, "Cluster", &self.cluster.name)?;
        let namespace = namespace(node);
        let mut children: Vec<ObjectReference> = Vec::new();
        let mut seen = vec![node];
        let mut next = 0;
        while let Some(referring) = seen.get(next).copied() {
            next += 1;
            for (kind, name) in references(referring) {
                let Some(child) = self.object(EKSA, &kind, &name) else { continue };
                let is_counted = EKSA_CHILDREN.iter().any(|end| kind.ends_with(end));
                if !is_counted || seen.iter().any(|known| std::ptr::eq(*known, child)) {
                    continue;
                }
                seen.push(child);
                let api_version = text(child, &["apiVersion"]).unwrap_or_default().to_owned();
                children.push(ObjectReference { api_version, kind, namespace: Some(self::namespace(child)), name });
            }
        }
        children.sort();
        let name = self.cluster.name.clone();
        Some(Expectation::EksaCluster(EksaClusterExpectation { namespace, name, children, extent }))
    }

    /// Its control plane, whose machines go as the policy says.
    pub fn control_plane(&self, policy: &MachinePolicy) -> Expectation {
        let cluster = self.cluster;
        let name = cluster.control_plane.as_deref().unwrap_or_default();
        let own = self.object("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", name);
        let template = own.and_then(|own| {
            text(own, &["spec", "machineTemplate", "spec", "infrastructureRef", "name"])
                .or_else(|| text(own, &["spec", "machineTemplate", "infrastructureRef", "name"]))
        });
        Expectation::ControlPlane(ControlPlaneExpectation {
            namespace: cluster_api_namespace(cluster),
            cluster: cluster.name.clone(),
            version: cluster.kubernetes_version.clone(),
            replicas: cluster.control_plane_count,
            infrastructure_template: template.map(str::to_owned),
            stacked_etcd: cluster.external_etcd.is_none(),
            kubelet_versions: KubeletVersions::WhenReported,
            kube_vip: kube_vip::expectation(self, own),
            order: MachineOrderRules {
                lease: policy.lease.clone(),
                brakes: policy.brakes.unwrap_or_else(|| cluster.is_management()),
            },
            gate: self.gate(policy),
        })
    }

    /// How far its control plane has to be: a cluster that manages itself waits for the whole, since what
    /// replaces its machines runs on them.
    pub fn gate(&self, policy: &MachinePolicy) -> ControlPlaneGate {
        if self.cluster.is_management() { ControlPlaneGate::Whole } else { policy.gate }
    }

    /// One of its worker groups; one that it does not have is to be gone.
    pub fn workers(&self, group: &GroupName) -> Expectation {
        let cluster = self.cluster;
        let known = cluster.worker_groups.iter().find(|known| known.name == group.as_str());
        let Some(known) = known else {
            return Expectation::WorkersGone {
                namespace: cluster_api_namespace(cluster),
                cluster: cluster.name.clone(),
                group: group.clone(),
            };
        };
        let version = if known.keeps_its_version() { "" } else { known.kubernetes_version.as_str() };
        let kind = if known.kind.is_machine_pool() { "MachinePool" } else { "MachineDeployment" };
        let own = known.object.as_deref().and_then(|name| self.object("cluster.x-k8s.io", kind, name));
        let template = |path: &[&str]| {
            let path: Vec<&str> = ["spec", "template", "spec"].iter().chain(path).copied().collect();
            own.and_then(|own| text(own, &path)).map(str::to_owned)
        };
        Expectation::Workers(WorkersExpectation {
            namespace: cluster_api_namespace(cluster),
            cluster: cluster.name.clone(),
            group: group.clone(),
            version: version.to_owned(),
            replicas: known.replicas,
            infrastructure_template: template(&["infrastructureRef", "name"]),
            bootstrap_template: template(&["bootstrap", "configRef", "name"]),
            kubelet_versions: KubeletVersions::WhenReported,
        })
    }

    /// Its external etcd; none where etcd is stacked. `before` is what changes with it, and
    /// `objects` what is deployed of it.
    pub fn etcd(&self, before: Option<&ClusterSpec>, objects: &[Node]) -> Option<Expectation> {
        let cluster = self.cluster;
        let replicas = cluster.external_etcd?;
        let reference = text(&cluster.node, &["spec", "managedExternalEtcdRef", "name"]);
        let name = reference.map_or_else(|| format!("{}-etcd", cluster.name), str::to_owned);
        let own = self.object("etcdcluster.cluster.x-k8s.io", "EtcdadmCluster", &name);
        let template = own.and_then(|own| text(own, &["spec", "infrastructureTemplate", "name"]));
        Some(Expectation::Etcd(EtcdExpectation {
            namespace: cluster_api_namespace(cluster),
            name,
            replicas,
            infrastructure_template: template.map(str::to_owned),
            members: MembersHeard::Required,
            old_members: OldMembers::MayStay,
            rolls: before.is_some_and(|cluster| self.makes_members_anew(Specification { cluster, objects })),
            above_generation: None,
        }))
    }

    /// Whether EKS Anywhere changes its `EtcdadmCluster` for certain: another Kubernetes version
    /// has another release of etcd, and machines are made from another image. Flux' own objects
    /// tell by themselves.
    fn makes_members_anew(&self, before: Specification<'_>) -> bool {
        if self.cluster.kind != ClusterKind::EksAnywhere {
            return false;
        }
        let image = |of: &Specification<'_>| -> Option<String> {
            let reference = of.cluster.node.at(&["spec", "externalEtcdConfiguration", "machineGroupRef"])?;
            let config = of.object(EKSA, text(reference, &["kind"])?, text(reference, &["name"])?)?;
            text(config, &["spec", "template"]).map(str::to_owned)
        };
        before.cluster.kubernetes_version != self.cluster.kubernetes_version
            || before.cluster.external_etcd != self.cluster.external_etcd
            || image(&before) != image(self)
    }

    /// The object of this kind and name.
    pub(crate) fn object(&self, group: &str, kind: &str, name: &str) -> Option<&Node> {
        self.objects.iter().find(|node| {
            text(node, &["apiVersion"]).is_some_and(|version| version.split('/').next() == Some(group))
                && text(node, &["kind"]) == Some(kind)
                && text(node, &["metadata", "name"]) == Some(name)
        })
    }
}

fn text<'a>(node: &'a Node, path: &[&str]) -> Option<&'a str> {
    node.at(path).and_then(Node::as_str).filter(|text| !text.is_empty())
}

/// Where an object without a namespace goes.
fn namespace(node: &Node) -> String {
    text(node, &["metadata", "namespace"]).unwrap_or("default").to_owned()
}

/// Kind and name of everything that `node` refers to, in any depth.
fn references(node: &Node) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let (Some(kind), Some(name)) = (text(node, &["kind"]), text(node, &["name"])) {
        found.push((kind.to_owned(), name.to_owned()));
    }
    found.extend(node.as_mapping().into_iter().flatten().flat_map(|entry| references(&entry.value)));
    found.extend(node.as_sequence().unwrap_or_default().iter().flat_map(references));
    found
}

#[cfg(test)]
mod tests {
    use overlays::MemoryFiles;

    use super::*;

    fn specification(text: &str) -> (ClusterSpec, Vec<Node>) {
        let file = ("clusters/prod/cluster.yaml".parse().unwrap(), text.as_bytes().to_vec());
        let fleet = overlays::read_fleet(&[file].into_iter().collect::<MemoryFiles>());
        let cluster = fleet.clusters.into_iter().find(|cluster| cluster.name == "prod");
        (cluster.unwrap_or_else(|| panic!("{:?}", fleet.problems)), overlays::objects_of(text.as_bytes()))
    }

    const EKS_ANYWHERE: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {name: prod, namespace: fleet}
spec:
  kubernetesVersion: '1.34'
  datacenterRef: {kind: TinkerbellDatacenterConfig, name: prod}
  controlPlaneConfiguration: {count: 3, machineGroupRef: {kind: TinkerbellMachineConfig, name: cp}}
  externalEtcdConfiguration: {count: 3, machineGroupRef: {kind: TinkerbellMachineConfig, name: cp}}
  workerNodeGroupConfigurations: [{name: md-0, count: 2, machineGroupRef: {kind: TinkerbellMachineConfig, name: md}}]
  identityProviderRefs: [{kind: OIDCConfig, name: people}]
  gitOpsRef: {kind: FluxConfig, name: flux}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: TinkerbellDatacenterConfig, metadata: {name: prod, namespace: fleet}, spec: {}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: TinkerbellMachineConfig, metadata: {name: cp}, spec: {templateRef: {kind: TinkerbellTemplateConfig, name: t}}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: TinkerbellMachineConfig, metadata: {name: md}, spec: {}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: TinkerbellMachineConfig, metadata: {name: left-behind}, spec: {}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: TinkerbellTemplateConfig, metadata: {name: t}, spec: {}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: OIDCConfig, metadata: {name: people}, spec: {}}
---
{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: FluxConfig, metadata: {name: flux}, spec: {}}
";

    #[test]
    fn eks_anywhere_has_to_carry_out_the_cluster_and_everything_it_refers_to() {
        let (cluster, objects) = specification(EKS_ANYWHERE);
        let specification = Specification { cluster: &cluster, objects: &objects };
        let Some(Expectation::EksaCluster(expected)) = specification.carried_out(Extent::Whole) else { panic!("none") };
        assert_eq!((expected.namespace.as_str(), expected.name.as_str()), ("fleet", "prod"));
        let children: Vec<String> = expected.children.iter().map(ToString::to_string).collect();
        assert_eq!(
            children,
            [
                "OIDCConfig default/people",
                "TinkerbellDatacenterConfig fleet/prod",
                "TinkerbellMachineConfig default/cp",
                "TinkerbellMachineConfig default/md",
                "TinkerbellTemplateConfig default/t",
            ]
        );
        let Some(Expectation::Etcd(etcd)) = specification.etcd(None, &[]) else { panic!("none") };
        assert_eq!(
            (etcd.namespace.as_str(), etcd.name.as_str(), etcd.infrastructure_template),
            ("eksa-system", "prod-etcd", None)
        );
    }

    #[test]
    fn objects_of_cluster_api_are_expected_with_their_templates() {
        let (cluster, objects) = specification(
            "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: fleet}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: prod-cp}
  managedExternalEtcdRef: {kind: EtcdadmCluster, name: members}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: prod-cp, namespace: fleet}
spec: {replicas: 3, version: v1.34.1, machineTemplate: {spec: {infrastructureRef: {kind: DevMachineTemplate, name: cp-2}}}}
---
apiVersion: etcdcluster.cluster.x-k8s.io/v1beta1
kind: EtcdadmCluster
metadata: {name: members, namespace: fleet}
spec: {replicas: 5, infrastructureTemplate: {kind: DevMachineTemplate, name: etcd-7}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: prod-md, namespace: fleet}
spec:
  clusterName: prod
  replicas: 2
  template: {spec: {version: v1.34.0, infrastructureRef: {kind: DevMachineTemplate, name: md-3}, bootstrap: {configRef: {kind: KubeadmConfigTemplate, name: boot-4}}}}
",
        );
        let specification = Specification { cluster: &cluster, objects: &objects };
        assert_eq!(specification.carried_out(Extent::Whole), None);
        let Expectation::ControlPlane(control_plane) = specification.control_plane(&MachinePolicy::default()) else {
            panic!("another")
        };
        assert_eq!(control_plane.infrastructure_template.as_deref(), Some("cp-2"));
        assert_eq!((control_plane.namespace.as_str(), control_plane.version.as_str()), ("fleet", "v1.34.1"));
        let Expectation::Workers(workers) = specification.workers(&"prod-md".parse().unwrap()) else {
            panic!("another")
        };
        assert_eq!(workers.infrastructure_template.as_deref(), Some("md-3"));
        assert_eq!(workers.bootstrap_template.as_deref(), Some("boot-4"));
        assert_eq!((workers.version.as_str(), workers.replicas), ("v1.34.0", Some(2)));
        let Some(Expectation::Etcd(etcd)) = specification.etcd(None, &[]) else { panic!("none") };
        assert_eq!((etcd.name.as_str(), etcd.replicas), ("members", 5));
        assert_eq!(etcd.infrastructure_template.as_deref(), Some("etcd-7"));
    }
}
