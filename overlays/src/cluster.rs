//! What a cluster specification says.

use std::sync::Arc;

use serde::Serialize;
use yaml::Node;

use crate::tanzu::RenderedAddon;
use domain::RepoPath;
use policy::{Apply, Policy};

/// The kinds of cluster specification that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterKind {
    /// EKS Anywhere `Cluster` (`anywhere.eks.amazonaws.com`).
    EksAnywhere,
    /// Cluster API `Cluster` (`cluster.x-k8s.io`) with a control plane and groups of workers of its own.
    ClusterApi,
    /// Cluster API `Cluster` with `spec.topology`.
    ClusterClass,
    /// `TanzuKubernetesCluster` (`run.tanzu.vmware.com`).
    Tanzu,
    /// eksctl `ClusterConfig` (`eksctl.io`).
    Eksctl,
}

/// Who runs the controllers that this cluster hangs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Management {
    /// The cluster manages itself (and maybe others).
    SelfManaged,
    /// The cluster of this name manages it.
    ManagedBy(String),
    /// Its specification does not say: it may manage itself, or be one of many that another cluster manages.
    Undeclared,
}

/// The infrastructure of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Cluster API's docker provider.
    Docker,
    /// `VMware` vSphere.
    VSphere,
    /// Bare metal by Tinkerbell.
    Tinkerbell,
    /// Nutanix.
    Nutanix,
    /// AWS Snow.
    Snow,
    /// Apache `CloudStack`; deprecated.
    CloudStack,
    /// Something else; the kind of its datacenter or infrastructure object.
    Other(String),
}

impl Provider {
    /// The provider of an object kind such as `VSphereDatacenterConfig`, `VSphereCluster` or `DevMachineTemplate`.
    pub fn from_kind(kind: &str) -> Self {
        for (prefix, provider) in [
            ("Docker", Self::Docker),
            ("Dev", Self::Docker),
            ("VSphere", Self::VSphere),
            ("Tinkerbell", Self::Tinkerbell),
            ("Nutanix", Self::Nutanix),
            ("Snow", Self::Snow),
            ("AWSSnow", Self::Snow),
            ("CloudStack", Self::CloudStack),
        ] {
            if kind.starts_with(prefix) {
                return provider;
            }
        }
        Self::Other(kind.to_owned())
    }

    /// The key of its section in a versionsBundle, when it has one.
    pub fn bundle_component(&self) -> Option<&'static str> {
        match self {
            Self::Docker => Some("docker"),
            Self::VSphere => Some("vSphere"),
            Self::Tinkerbell => Some("tinkerbell"),
            Self::Nutanix => Some("nutanix"),
            Self::Snow => Some("snow"),
            Self::CloudStack => Some("cloudStack"),
            Self::Other(_) => None,
        }
    }
}

/// How a specification names its bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BundleReference {
    /// `spec.eksaVersion`: by the `EKSARelease` of that version.
    EksaVersion(String),
    /// `spec.bundlesRef.name` (deprecated, still read).
    Bundles(String),
}

/// A place in one of the files of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub path: RepoPath,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// What a group of workers is in the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerGroupKind {
    /// Item of EKS Anywhere's `workerNodeGroupConfigurations`: its controller makes a MachineDeployment of it.
    WorkerNodeGroup,
    /// Cluster API's `MachineDeployment`.
    MachineDeployment,
    /// Cluster API's `MachinePool`.
    MachinePool,
    /// Item of `topology.workers.machineDeployments`.
    TopologyMachineDeployment,
    /// Item of `topology.workers.machinePools`.
    TopologyMachinePool,
    /// Item of a `TanzuKubernetesCluster`'s `nodePools`, or its one pool.
    NodePool,
    /// Item of eksctl's `nodeGroups`.
    NodeGroup,
    /// Item of eksctl's `managedNodeGroups`.
    ManagedNodeGroup,
}

impl WorkerGroupKind {
    /// Whether its machines are those of a Cluster API `MachinePool`.
    pub fn is_machine_pool(self) -> bool {
        match self {
            Self::MachinePool | Self::TopologyMachinePool => true,
            Self::WorkerNodeGroup
            | Self::MachineDeployment
            | Self::TopologyMachineDeployment
            | Self::NodePool
            | Self::NodeGroup
            | Self::ManagedNodeGroup => false,
        }
    }
}

/// One group of workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerGroup {
    /// Its name: `workerNodeGroupConfigurations[].name`, the MachineDeployment's or topology's name, the node pool's.
    pub name: String,
    /// What it is.
    pub kind: WorkerGroupKind,
    /// Name of its `MachineDeployment` or `MachinePool` in the management cluster, where it follows from the specification:
    /// `<cluster>-<group>` for EKS Anywhere, the object's name for plain Cluster API; `None` where a controller makes it up.
    pub object: Option<String>,
    /// Its Kubernetes version: its own where it has one, else the cluster's.
    pub kubernetes_version: String,
    /// Whether that version is written on the group.
    pub own_kubernetes_version: bool,
    /// How many machines, when that is fixed; `None` with an autoscaler or where it is not said.
    pub replicas: Option<u32>,
    /// Name of its machine configuration or infrastructure template.
    pub machine_config: Option<String>,
}

impl WorkerGroup {
    /// Whether nothing says its version: a `MachinePool` of a managed service keeps the one that it was made with.
    pub fn keeps_its_version(&self) -> bool {
        let is_own_object = matches!(self.kind, WorkerGroupKind::MachineDeployment | WorkerGroupKind::MachinePool);
        is_own_object && !self.own_kubernetes_version
    }
}

/// A file that belongs to a cluster, as a person wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecFile {
    /// Where it is in the repository (or below the `cluster/` directory for a deployed one).
    pub path: RepoPath,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// One cluster of the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`, empty when absent.
    pub namespace: String,
    /// What kind of specification it is.
    pub kind: ClusterKind,
    /// Who manages it.
    pub management: Management,
    /// Its infrastructure.
    pub provider: Provider,
    /// Its Kubernetes version, as written: `1.30` for EKS Anywhere, `v1.30.2` for Cluster API.
    pub kubernetes_version: String,
    /// Its groups of workers, in the order of the specification.
    pub worker_groups: Vec<WorkerGroup>,
    /// The number of external etcd members; `None` when etcd runs on the control plane.
    pub external_etcd: Option<u32>,
    /// The number of control-plane machines, when it is said.
    pub control_plane_count: Option<u32>,
    /// Name of the KubeadmControlPlane, where it follows from the specification.
    pub control_plane: Option<String>,
    /// How it names its bundle, if it does.
    pub bundle_reference: Option<BundleReference>,
    /// Whether it carries a pause of EKS Anywhere or Cluster API.
    pub paused: bool,
    /// Whether its Cilium must not be touched (`cniConfig.cilium.skipUpgrade`).
    pub skip_cilium_upgrade: bool,
    /// What it was rendered from, where it was written as a `TanzuKubernetesCluster` that no Supervisor carries out.
    pub tanzu: Option<Arc<RenderedTanzu>>,
    /// Whether it uses Cilium, or `false` for kindnetd and for kinds that say nothing about it.
    pub cilium: bool,
    /// Where `metadata.name`, the Kubernetes version and the bundle reference stand, for messages.
    pub places: Places,
    /// The cluster object itself.
    pub node: Arc<Node>,
    /// Every file that holds objects of this cluster, in order of path.
    pub files: Vec<SpecFile>,
}

/// What objects of Cluster API were rendered from.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedTanzu {
    /// The release of the control plane, as `v1.23.8+vmware.3-tkg.1`.
    pub release: String,
    /// The name of its image.
    pub image: String,
    /// The templates of its machines, each named by what is made from it.
    pub templates: Vec<Node>,
    /// The label of nodes of the release.
    pub label: String,
    /// The add-ons that the image brings.
    pub addons: Vec<RenderedAddon>,
}

/// Places of a [`ClusterSpec`]'s fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Of `metadata.name`.
    pub name: Place,
    /// Of the Kubernetes version.
    pub kubernetes_version: Option<Place>,
    /// Of the bundle reference.
    pub bundle_reference: Option<Place>,
}

impl ClusterSpec {
    /// Whether what a management cluster consists of may be part of it. Which cluster it is read from does not follow from that.
    pub fn is_management(&self) -> bool {
        match &self.management {
            Management::SelfManaged | Management::Undeclared => true,
            Management::ManagedBy(_) => false,
        }
    }

    /// Why a cluster of its kind is read and not rolled out, and what to do instead; `None` where it is rolled out.
    pub fn not_rolled_out(&self, policy: &Policy) -> Option<(String, &'static str)> {
        let name = &self.name;
        let apply = policy.apply_of(name);
        match self.kind {
            ClusterKind::EksAnywhere | ClusterKind::ClusterApi | ClusterKind::ClusterClass | ClusterKind::Tanzu => {
                match apply {
                    Apply::Flux | Apply::Direct => None,
                    Apply::Pipeline | Apply::Eksctl => Some((
                        format!(
                            "cluster {name} is not eksctl's, and `apply: {}` is for clusters of eksctl alone",
                            if apply == Apply::Pipeline { "pipeline" } else { "eksctl" }
                        ),
                        "write `apply: flux` or `apply: direct` for the fleet, and what is of eksctl under `clusters:`",
                    )),
                }
            }
            ClusterKind::Eksctl => match apply {
                Apply::Pipeline => None,
                Apply::Eksctl => crate::eksctl::groups_with_files(&self.node).next().map(|group| {
                    (
                        format!(
                            "node group {group} of cluster {name} names a file of the machine that eksctl runs on \
                             (ssh.publicKeyPath), which a repository may not choose where Stepgate runs it"
                        ),
                        "write the key itself into ssh.publicKey, or the name of a key of EC2 into ssh.publicKeyName",
                    )
                }),
                Apply::Flux | Apply::Direct => Some((
                    format!(
                        "cluster {name} is eksctl's, and nothing says who runs eksctl: no API server serves a ClusterConfig, so \
                         Flux could never apply it"
                    ),
                    "write `apply: eksctl` into stepgate.yaml, or under `clusters:` there, where Stepgate is to run eksctl, or \
                     `apply: pipeline` where a pipeline runs it on each commit of the deploy branch, or list its file under `ignore:`",
                )),
            },
        }
    }

    /// `major.minor` of its Kubernetes version.
    pub fn kubernetes_minor(&self) -> &str {
        minor(&self.kubernetes_version)
    }
}

/// `1.30` of `1.30`, `v1.30.2` or `v1.30.14-eks-1-30-58`; the text itself when it has another form.
pub(crate) fn minor(version: &str) -> &str {
    let text = version.strip_prefix('v').unwrap_or(version);
    let second = text.match_indices('.').nth(1).map_or(text.len(), |(at, _)| at);
    text.get(..second).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_of_every_form() {
        for (version, expected) in
            [("1.30", "1.30"), ("v1.30.2", "1.30"), ("v1.30.14-eks-1-30-58", "1.30"), ("1", "1"), ("", "")]
        {
            assert_eq!(minor(version), expected);
        }
    }

    #[test]
    fn providers_by_kind() {
        assert_eq!(Provider::from_kind("VSphereDatacenterConfig"), Provider::VSphere);
        assert_eq!(Provider::from_kind("AWSSnowCluster"), Provider::Snow);
        assert_eq!(Provider::from_kind("DevCluster"), Provider::Docker);
        assert_eq!(Provider::from_kind("AWSCluster"), Provider::Other("AWSCluster".to_owned()));
    }
}
