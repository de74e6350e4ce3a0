//! Fields that the webhooks of Cluster API and of its infrastructure providers refuse.
//!
//! Sources: `*webhooks/*.go` of Cluster API 1.13.5, of its providers for Docker 1.13.4, AWS 2.13.0 and Google Cloud 1.13.1, of those for Azure
//! at 69ec3a40a and vSphere at 111a1ba9b (August 2026), and of those for `OpenStack`, `CloudStack`, Tinkerbell, Hetzner, Scaleway and Outscale.
//! `KubeadmConfigTemplate`, `Metal3MachineTemplate` and `NutanixMachineTemplate` are in none of them: [`super::effects`] tells of those.
//!
//! No webhook refuses another object as control plane or infrastructure of a `Cluster` either: it would be made beside the one that runs.
//!
//! No webhook refuses another address or network of a `Cluster`. They are in the certificates and flags of every machine that runs, and no
//! controller brings them there.

use super::rule::Check::{
    AnotherReference, Any, AnyAtOneVersion, AnyBut, BetweenValues, Reference, Removal, ValuesOfList,
};
use super::rule::Remedy::{Keep, NewCluster, NewObject, NewTemplate};
use super::rule::{Check, Remedy, Rule, When};

const CORE: &str = "cluster.x-k8s.io";
const ADDONS: &str = "addons.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
pub(super) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const SUPERVISOR: &str = "vmware.infrastructure.cluster.x-k8s.io";

const fn rule(group: &'static str, kind: &'static str, field: &'static str, check: Check, remedy: Remedy) -> Rule {
    Rule { group, kind, field, check, when: When::Always, remedy }
}

const fn template(group: &'static str, kind: &'static str) -> Rule {
    rule(group, kind, "spec.template.spec", AnyAtOneVersion, NewTemplate)
}

/// Google's provider lets a few fields of a template change.
const OF_GOOGLE: &[&str] = &["providerID", "additionalLabels", "additionalNetworkTags"];

pub(super) const RULES: &[Rule] = &[
    template(INFRASTRUCTURE, "AWSMachineTemplate"),
    template(INFRASTRUCTURE, "AzureMachineTemplate"),
    template(INFRASTRUCTURE, "CloudStackMachineTemplate"),
    template(INFRASTRUCTURE, "DevMachineTemplate"),
    template(INFRASTRUCTURE, "DockerMachineTemplate"),
    rule(INFRASTRUCTURE, "GCPMachineTemplate", "spec.template.spec", AnyBut(OF_GOOGLE), NewTemplate),
    template(INFRASTRUCTURE, "HCloudMachineTemplate"),
    template(INFRASTRUCTURE, "OpenStackMachineTemplate"),
    template(INFRASTRUCTURE, "OscMachineTemplate"),
    template(INFRASTRUCTURE, "ScalewayMachineTemplate"),
    template(INFRASTRUCTURE, "TinkerbellMachineTemplate"),
    template(INFRASTRUCTURE, "VSphereMachineTemplate"),
    template(SUPERVISOR, "VSphereMachineTemplate"),
    template(INFRASTRUCTURE, "AWSClusterTemplate"),
    template(INFRASTRUCTURE, "AzureClusterTemplate"),
    template(INFRASTRUCTURE, "DevClusterTemplate"),
    template(INFRASTRUCTURE, "DockerClusterTemplate"),
    template(INFRASTRUCTURE, "GCPClusterTemplate"),
    template(INFRASTRUCTURE, "VSphereClusterTemplate"),
    template(CONTROL_PLANE, "KubeadmControlPlaneTemplate"),
    rule(CORE, "Cluster", "spec.controlPlaneEndpoint.host", BetweenValues, NewCluster),
    rule(CORE, "Cluster", "spec.controlPlaneEndpoint.port", BetweenValues, NewCluster),
    rule(CORE, "Cluster", "spec.clusterNetwork.pods.cidrBlocks", ValuesOfList, NewCluster),
    rule(CORE, "Cluster", "spec.clusterNetwork.services.cidrBlocks", ValuesOfList, NewCluster),
    rule(CORE, "Cluster", "spec.clusterNetwork.serviceDomain", BetweenValues, NewCluster),
    rule(CORE, "Cluster", "spec.controlPlaneRef", Removal, Keep),
    rule(CORE, "Cluster", "spec.infrastructureRef", Removal, Keep),
    rule(CORE, "Cluster", "spec.controlPlaneRef", AnotherReference, NewCluster),
    rule(CORE, "Cluster", "spec.infrastructureRef", AnotherReference, NewCluster),
    rule(CORE, "Cluster", "spec.managedExternalEtcdRef", Reference, NewCluster),
    rule(CORE, "Cluster", "spec.topology", Removal, Keep),
    rule(CORE, "MachineDeployment", "spec.clusterName", Any, NewObject),
    rule(CORE, "MachinePool", "spec.clusterName", Any, NewObject),
    rule(CORE, "MachineHealthCheck", "spec.clusterName", Any, NewObject),
    rule(ADDONS, "ClusterResourceSet", "spec.strategy", BetweenValues, NewObject),
    rule(ADDONS, "ClusterResourceSet", "spec.clusterSelector", Any, NewObject),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.networking"),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.controlPlaneEndpoint"),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.clusterName"),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.kubernetesVersion"),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir"),
    of_kubeadm("spec.kubeadmConfigSpec.clusterConfiguration.caCertificateValidityPeriodDays"),
    rule(INFRASTRUCTURE, "AWSCluster", "spec.region", Any, NewCluster),
    rule(INFRASTRUCTURE, "AWSCluster", "spec.controlPlaneEndpoint.host", BetweenValues, NewCluster),
    rule(CONTROL_PLANE, "AWSManagedControlPlane", "spec.region", BetweenValues, NewCluster),
    rule(CONTROL_PLANE, "AWSManagedControlPlane", "spec.eksClusterName", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.eksNodegroupName", BetweenValues, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.subnetIDs", Any, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.roleName", BetweenValues, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.diskSize", Any, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.amiType", BetweenValues, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.remoteAccess", Any, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.capacityType", BetweenValues, NewObject),
    rule(INFRASTRUCTURE, "AWSManagedMachinePool", "spec.availabilityZones", Any, NewObject),
    rule(INFRASTRUCTURE, "AzureCluster", "spec.resourceGroup", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureCluster", "spec.subscriptionID", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureCluster", "spec.location", Any, NewCluster),
    rule(INFRASTRUCTURE, "AzureCluster", "spec.controlPlaneEndpoint.host", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.subscriptionID", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.resourceGroupName", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.nodeResourceGroupName", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.location", Any, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.sshPublicKey", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.dnsServiceIP", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.networkPlugin", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.networkPolicy", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "AzureManagedControlPlane", "spec.loadBalancerSKU", BetweenValues, NewCluster),
    rule(INFRASTRUCTURE, "GCPCluster", "spec.project", Any, NewCluster),
    rule(INFRASTRUCTURE, "GCPCluster", "spec.region", Any, NewCluster),
    rule(INFRASTRUCTURE, "GCPManagedControlPlane", "spec.project", Any, NewCluster),
    rule(INFRASTRUCTURE, "GCPManagedControlPlane", "spec.location", Any, NewCluster),
    rule(INFRASTRUCTURE, "GCPManagedControlPlane", "spec.clusterName", BetweenValues, NewCluster),
];

/// What the webhook of KubeadmControlPlane has no path for. Some of it went from the API with v1beta2.
const fn of_kubeadm(field: &'static str) -> Rule {
    rule(CONTROL_PLANE, "KubeadmControlPlane", field, AnyAtOneVersion, NewCluster)
}
