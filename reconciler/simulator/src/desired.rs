//! What the deploy branch says about one cluster.

use std::{fmt, sync::Arc};

use domain::{CommitId, GroupName};
use rollout::StageName;

/// A commit on the deploy branch, as far as one cluster is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployedCommit {
    /// Its object id.
    pub id: CommitId,
    /// The stage it carries out for this cluster (trailer `Stepgate-Stage`); none for any other commit.
    pub stage: Option<StageName>,
    /// What the branch says after it.
    pub desired: Arc<DesiredState>,
}

/// Everything the deploy branch wants of one cluster: the Flux Kustomizations and what lies at their paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredState {
    /// The Kustomizations, in any order.
    pub kustomizations: Vec<DesiredKustomization>,
}

/// A Flux Kustomization and the objects at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredKustomization {
    /// Its namespace (usually `flux-system`).
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.path`, relative to the root of the deploy branch.
    pub path: String,
    /// `spec.dependsOn`: names of Kustomizations in the same namespace.
    pub depends_on: Vec<String>,
    /// `spec.wait`: Ready only when everything applied is healthy.
    pub wait: bool,
    /// What it applies.
    pub objects: Vec<DesiredObject>,
}

/// One object that Flux applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredObject {
    /// A Deployment.
    Deployment(DesiredWorkload),
    /// A DaemonSet, scheduled on every node; `replicas` is not read.
    DaemonSet(DesiredWorkload),
    /// A `CustomResourceDefinition`.
    CustomResourceDefinition(DesiredDefinition),
    /// A `ValidatingWebhookConfiguration` or `MutatingWebhookConfiguration`.
    Webhook(DesiredWebhook),
    /// The KubeadmControlPlane of this cluster. EKS Anywhere's controller writes it some time after Flux has applied the `Cluster` that it
    /// follows from ([`DesiredObject::Object`]), and so does the simulation.
    ControlPlane {
        /// Its machines.
        machines: DesiredMachines,
        /// Image of kube-vip's static pod on each of them; none where the cluster has another load balancer.
        kube_vip: Option<String>,
    },
    /// One MachineDeployment.
    Workers {
        /// The worker group.
        group: GroupName,
        /// Its machines.
        machines: DesiredMachines,
    },
    /// The external etcd (`EtcdadmCluster`).
    Etcd(DesiredMachines),
    /// Any other object: it is there once it is applied.
    Object(DesiredPlainObject),
}

/// A Deployment or DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredWorkload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// The images of its containers, init containers included, in order.
    pub images: Vec<String>,
    /// Stands for the rest of the pod template: a change rolls the pods even where the images stay.
    pub template: String,
}

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredDefinition {
    /// `<plural>.<group>`.
    pub name: String,
    /// `spec.versions`.
    pub versions: Vec<DesiredVersion>,
}

/// One version of a `CustomResourceDefinition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredVersion {
    /// `v1beta1`, …
    pub name: String,
    /// Whether the API server answers at this version.
    pub served: bool,
    /// Whether new objects are stored at this version.
    pub storage: bool,
}

/// A webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredWebhook {
    /// `ValidatingWebhookConfiguration` or `MutatingWebhookConfiguration`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Namespace and name of the Deployment that answers; none when nothing in this state does.
    pub deployment: Option<(String, String)>,
}

/// Machines of one Kubernetes version made from one template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredMachines {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// `spec.version`, as the object has it (`v1.30.14-eks-1-30-58`); for etcd its own version.
    pub version: String,
    /// Stands for the machine template: a change replaces the machines even where the version stays.
    pub template: String,
    /// The template that its nodes are set up by (`KubeadmConfigTemplate`); none where the object names none.
    pub bootstrap_template: Option<String>,
}

/// An object of which only its presence is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredPlainObject {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`; none for what has none.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// Stands for its content.
    pub content: String,
}

impl DesiredState {
    /// Every object of every Kustomization.
    pub fn objects(&self) -> impl Iterator<Item = &DesiredObject> {
        self.kustomizations.iter().flat_map(|kustomization| &kustomization.objects)
    }
}

impl fmt::Display for DesiredObject {
    /// Kind, namespace and name, as in `kubectl`'s words.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment(spec) => write!(formatter, "Deployment {}/{}", spec.namespace, spec.name),
            Self::DaemonSet(spec) => write!(formatter, "DaemonSet {}/{}", spec.namespace, spec.name),
            Self::CustomResourceDefinition(spec) => write!(formatter, "CustomResourceDefinition {}", spec.name),
            Self::Webhook(spec) => write!(formatter, "{} {}", spec.kind, spec.name),
            Self::ControlPlane { machines, .. } => {
                write!(formatter, "KubeadmControlPlane {}/{}", machines.namespace, machines.name)
            }
            Self::Workers { machines, .. } => {
                write!(formatter, "MachineDeployment {}/{}", machines.namespace, machines.name)
            }
            Self::Etcd(machines) => write!(formatter, "EtcdadmCluster {}/{}", machines.namespace, machines.name),
            Self::Object(spec) => match &spec.namespace {
                Some(namespace) => write!(formatter, "{} {namespace}/{}", spec.kind, spec.name),
                None => write!(formatter, "{} {}", spec.kind, spec.name),
            },
        }
    }
}
