//! Fields that EKS Anywhere's webhooks refuse: the files `*_webhook.go` in `pkg/api/v1alpha1` of `aws/eks-anywhere` at aebd9a0623cd.
//!
//! The plug-in of the network is refused by its upgrade (`pkg/validations/upgradevalidations`) and by no webhook.

use super::rule::Check::{
    Any, BetweenValues, FieldOfItems, FirstUser, ItemsByName, NetworkPlugin, Presence, Reference, ReferenceOfKind,
    Removal, RemovalWithout, ValuesOfList,
};
use super::rule::Remedy::{Apart, Keep, NewCluster, NewObject};
use super::rule::When::{
    Always, ControlPlaneOfSelfManaged, Managed, NotPaused, SelfManaged, Tinkerbell, TinkerbellUpgrade,
};
use super::rule::{Check, Remedy, Rule, When};

const fn rule(kind: &'static str, field: &'static str, check: Check, when: When, remedy: Remedy) -> Rule {
    Rule { group: "anywhere.eks.amazonaws.com", kind, field, check, when, remedy }
}

pub(super) const RULES: &[Rule] = &[
    rule("Cluster", "spec.datacenterRef", Reference, NotPaused, NewCluster),
    rule("Cluster", "spec.controlPlaneConfiguration.endpoint.host", Any, NotPaused, NewCluster),
    rule("Cluster", "spec.controlPlaneConfiguration.labels", Any, Tinkerbell, NewCluster),
    rule("Cluster", "spec.controlPlaneConfiguration.taints", Any, Tinkerbell, NewCluster),
    rule("Cluster", "spec.controlPlaneConfiguration.count", BetweenValues, TinkerbellUpgrade, Apart),
    rule("Cluster", "spec.workerNodeGroupConfigurations", FieldOfItems("labels"), Tinkerbell, NewCluster),
    rule("Cluster", "spec.workerNodeGroupConfigurations", FieldOfItems("taints"), Tinkerbell, NewCluster),
    rule("Cluster", "spec.clusterNetwork.pods.cidrBlocks", ValuesOfList, NotPaused, NewCluster),
    rule("Cluster", "spec.clusterNetwork.services.cidrBlocks", ValuesOfList, NotPaused, NewCluster),
    rule("Cluster", "spec.clusterNetwork.dns.resolvConf.path", Any, NotPaused, NewCluster),
    rule("Cluster", "spec.clusterNetwork.nodes.cidrMaskSize", Any, NotPaused, NewCluster),
    rule("Cluster", "spec.clusterNetwork", NetworkPlugin, NotPaused, NewCluster),
    rule("Cluster", "spec.proxyConfiguration.httpProxy", Any, NotPaused, NewCluster),
    rule("Cluster", "spec.proxyConfiguration.httpsProxy", Any, NotPaused, NewCluster),
    rule("Cluster", "spec.proxyConfiguration.noProxy", ValuesOfList, NotPaused, NewCluster),
    rule("Cluster", "spec.externalEtcdConfiguration", Presence, NotPaused, NewCluster),
    rule("Cluster", "spec.gitOpsRef", Reference, Managed, NewCluster),
    rule("Cluster", "spec.identityProviderRefs", ReferenceOfKind("AWSIamConfig"), NotPaused, NewCluster),
    rule("Cluster", "spec.bundlesRef", RemovalWithout("spec.eksaVersion"), Always, Keep),
    rule("Cluster", "spec.eksaVersion", Removal, Always, Keep),
    rule("VSphereDatacenterConfig", "spec.server", Any, NotPaused, NewCluster),
    rule("VSphereDatacenterConfig", "spec.datacenter", Any, NotPaused, NewCluster),
    rule("VSphereDatacenterConfig", "spec.network", Any, NotPaused, NewCluster),
    rule("VSphereMachineConfig", "spec.osFamily", BetweenValues, NotPaused, NewObject),
    rule("VSphereMachineConfig", "spec.storagePolicyName", Any, NotPaused, NewObject),
    rule("TinkerbellDatacenterConfig", "spec.tinkerbellIP", Any, Always, NewCluster),
    rule("TinkerbellDatacenterConfig", "spec.hookImagesURLPath", Any, Always, NewCluster),
    rule("TinkerbellDatacenterConfig", "spec.skipLoadBalancerDeployment", Any, Always, NewCluster),
    rule("TinkerbellMachineConfig", "spec.osFamily", BetweenValues, Always, NewObject),
    rule("TinkerbellMachineConfig", "spec.users", FirstUser, Always, NewObject),
    rule("NutanixDatacenterConfig", "spec.endpoint", Any, NotPaused, NewCluster),
    rule("NutanixDatacenterConfig", "spec.credentialRef", Removal, NotPaused, Keep),
    rule("NutanixMachineConfig", "spec.bootType", Any, NotPaused, NewObject),
    rule("NutanixMachineConfig", "spec.osFamily", BetweenValues, NotPaused, NewObject),
    rule("NutanixMachineConfig", "spec.cluster", Any, NotPaused, NewObject),
    rule("NutanixMachineConfig", "spec.subnet", Any, NotPaused, NewObject),
    rule("NutanixMachineConfig", "spec.vcpuSockets", Any, ControlPlaneOfSelfManaged, NewObject),
    rule("NutanixMachineConfig", "spec.vcpusPerSocket", Any, ControlPlaneOfSelfManaged, NewObject),
    rule("NutanixMachineConfig", "spec.memorySize", Any, ControlPlaneOfSelfManaged, NewObject),
    rule("NutanixMachineConfig", "spec.systemDiskSize", Any, ControlPlaneOfSelfManaged, NewObject),
    rule("NutanixMachineConfig", "spec.users", Any, ControlPlaneOfSelfManaged, NewObject),
    rule("CloudStackMachineConfig", "spec.affinity", Any, NotPaused, NewObject),
    rule("CloudStackMachineConfig", "spec.affinityGroupIds", Any, NotPaused, NewObject),
    rule("CloudStackDatacenterConfig", "spec.availabilityZones", ItemsByName, NotPaused, NewCluster),
    rule("SnowIPPool", "spec.pools", Any, Always, NewObject),
    rule("FluxConfig", "spec.systemNamespace", BetweenValues, Always, NewCluster),
    rule("FluxConfig", "spec.branch", BetweenValues, Always, NewCluster),
    rule("FluxConfig", "spec.clusterConfigPath", BetweenValues, Always, NewCluster),
    rule("FluxConfig", "spec.git", Any, Always, NewCluster),
    rule("FluxConfig", "spec.github", Any, Always, NewCluster),
    rule("GitOpsConfig", "spec", Any, Always, NewCluster),
    rule("AWSIamConfig", "spec.awsRegion", Any, Always, NewCluster),
    rule("AWSIamConfig", "spec.partition", BetweenValues, Always, NewCluster),
    rule("AWSIamConfig", "spec.backendMode", ValuesOfList, Always, NewCluster),
    rule("OIDCConfig", "spec", Any, SelfManaged, NewCluster),
];
