//! What a stage's gate expects of the cluster, as data.

mod addons;
mod attempts;
mod checks;
mod eks;
mod eks_anywhere;
mod etcd;
mod machines;
mod secrets;
mod tanzu;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::before::Before;
use crate::observation::ObjectReference;
use domain::GroupName;
use policy::InjectionRule;

pub use addons::{AddonsExpectation, ExpectedAddon, ExpectedAddonState};
pub use attempts::{AttemptedPart, AttemptsExpectation};
pub use checks::{ChecksExpectation, ControlPlaneAddress, GivenAddresses, RollingNodes};
pub use eks::{ADDON_NAMESPACE, AddonWorkload, EksExpectation, EksPart, NewGroup, ReplacedGroup, addon_workload};
pub use eks_anywhere::{EksaClusterExpectation, Extent};
pub use etcd::{EtcdExpectation, MembersHeard, OldMembers};
pub use machines::{
    ControlPlaneExpectation, KubeVipExpectation, KubeletVersions, MachineOrderRules, WorkersExpectation,
};
pub use secrets::SecretsExpectation;
pub use tanzu::{TanzuExpectation, TanzuMachines, TanzuPart};

/// One thing that must hold before a stage counts as passed.
///
/// Image references are written as in the rendered manifest, `repository:tag@sha256:…`; where a digest is given the *running* digest
/// has to be that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Expectation {
    /// The cluster is healthy as it is: nodes ready, control planes, worker groups and Flux settled at what they declare.
    ClusterHealthy {
        /// Name of the Cluster API `Cluster`; none where the cluster has no Cluster API objects.
        cluster: Option<String>,
    },
    /// All workloads of the cluster were looked at: what is well before a rollout has to be well after it.
    Surveyed,
    /// All pods were looked at for the sidecars that they ask for.
    SidecarsRead {
        /// Sidecars of the team's own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<InjectionRule>,
    },
    /// No check of the cluster finds what forbids a rollout.
    Checks(ChecksExpectation),
    /// Cluster API objects were saved for this rollout and read back.
    BackupTaken {
        /// How long ago at most.
        #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
        maximum_age: Duration,
    },
    /// The object exists and is not being deleted.
    Object {
        /// Which object.
        object: ObjectReference,
    },
    /// The object does not exist (what an earlier version left behind, or a finished pre-pull).
    Absent {
        /// Which object.
        object: ObjectReference,
    },
    /// The Deployment is rolled out with exactly these images.
    Deployment {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Images that its template must hold.
        images: Vec<String>,
    },
    /// The DaemonSet runs with exactly these images on every node it wants.
    DaemonSet {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Images that its template must hold.
        images: Vec<String>,
    },
    /// The `CustomResourceDefinition` is established, and nothing is stored at a version it no longer has.
    CustomResourceDefinition {
        /// Name, `<plural>.<group>`.
        name: String,
        /// Versions that must be served.
        served: Vec<String>,
        /// The storage version.
        storage: String,
    },
    /// The webhook answers a dry-run request made after the commit.
    Webhook {
        /// Name of the probe.
        name: String,
    },
    /// These Kustomizations have applied a commit of the stage's lineage and are Ready, and so is their source.
    Flux {
        /// Namespace of the Kustomizations.
        namespace: String,
        /// Their names.
        kustomizations: Vec<String>,
    },
    /// Flux' helm-controller has installed or upgraded the release as it is specified now, and says that it is Ready.
    HelmRelease {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// EKS Anywhere's controller has carried out the cluster's specification as Flux applied it.
    EksaCluster(EksaClusterExpectation),
    /// The external etcd cluster has its members.
    Etcd(EtcdExpectation),
    /// The control plane is fully rolled out.
    ControlPlane(ControlPlaneExpectation),
    /// One worker group is fully rolled out.
    Workers(WorkersExpectation),
    /// One worker group is gone, and its machines with it.
    WorkersGone {
        /// Namespace of the Cluster API `Cluster`.
        namespace: String,
        /// Its name.
        cluster: String,
        /// The group.
        group: GroupName,
    },
    /// A part of a cluster of EKS is as its specification says.
    Eks(EksExpectation),
    /// A part of a `TanzuKubernetesCluster` is as its specification says.
    Tanzu(TanzuExpectation),
    /// Nothing of a rendered cluster of Tanzu is on its way, and nothing of it has failed.
    RenderedSettled {
        /// Namespace of the Cluster API `Cluster`.
        namespace: String,
        /// Its name.
        cluster: String,
    },
    /// Secrets of the management cluster that a cluster cannot be without are there.
    Secrets(SecretsExpectation),
    /// Machines come up in their time, or in that of another attempt.
    Attempts(AttemptsExpectation),
    /// Every add-on that is managed is applied.
    AddonsApplied(AddonsExpectation),
    /// Pods of a DaemonSet that is updated by hand run on every node of a release as its template has them.
    PodsOnNewNodes {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The release, as the label of its nodes has it.
        release: String,
    },
    /// The state before and after agrees with the plan and nothing is left over.
    Verified(VerifiedExpectation),
}

impl Expectation {
    /// The object that has to be gone; none where something else is expected.
    pub(crate) fn absent(&self) -> Option<&ObjectReference> {
        match self {
            Self::Absent { object } => Some(object),
            _ => None,
        }
    }

    /// Whether pods move on the way to it: nodes are drained or come anew, or what runs on all of them does.
    #[must_use]
    pub fn moves_pods(&self) -> bool {
        match self {
            Self::ControlPlane(_) | Self::Workers(_) | Self::WorkersGone { .. } => true,
            Self::Eks(expected) => matches!(
                expected.part,
                EksPart::ControlPlane { .. }
                    | EksPart::Addon { .. }
                    | EksPart::NodeGroup { .. }
                    | EksPart::NodeGroupGone { .. }
            ),
            Self::Tanzu(expected) => matches!(
                expected.part,
                TanzuPart::ControlPlane(_) | TanzuPart::Workers { .. } | TanzuPart::WorkersGone { .. }
            ),
            _ => false,
        }
    }

    /// Whether what holds follows from Cluster API's machines, or from the controllers that make them.
    #[must_use]
    pub fn is_of_machines(&self) -> bool {
        match self {
            Self::ClusterHealthy { .. }
            | Self::EksaCluster(_)
            | Self::Etcd(_)
            | Self::ControlPlane(_)
            | Self::Workers(_)
            | Self::WorkersGone { .. }
            | Self::Eks(_)
            | Self::Tanzu(_)
            | Self::Attempts(_)
            | Self::RenderedSettled { .. }
            | Self::PodsOnNewNodes { .. }
            | Self::Verified(_) => true,
            Self::Surveyed
            | Self::SidecarsRead { .. }
            | Self::Checks(_)
            | Self::BackupTaken { .. }
            | Self::Object { .. }
            | Self::Absent { .. }
            | Self::Deployment { .. }
            | Self::DaemonSet { .. }
            | Self::CustomResourceDefinition { .. }
            | Self::Webhook { .. }
            | Self::Flux { .. }
            | Self::AddonsApplied(_)
            | Self::Secrets(_)
            | Self::HelmRelease { .. } => false,
        }
    }
}

/// The end of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedExpectation {
    /// Name of the Cluster API `Cluster`; none where the cluster has no Cluster API objects.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Version that every node's kubelet must have; none where the rollout concerns no nodes.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether kubelet versions have to be known.
    #[serde(default)]
    pub kubelet_versions: KubeletVersions,
    /// Objects that must be gone.
    #[serde(default)]
    pub leftovers: Vec<ObjectReference>,
    /// What the cluster was like before the rollout, where its ledger says: whatever was ready then has to be ready.
    #[serde(default)]
    pub before: Option<Before>,
}
