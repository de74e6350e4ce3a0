//! What is done to a cluster.

use bundles::KubernetesVersion;

use super::OwnerKind;
use crate::objects::{
    GroupKind, GroupUpgradeSpec, GroupUpgradeStatus, Lease, NamedObject, NodeUpgradeSpec, NodeUpgradeStatus,
};

/// What a Pod of the upgrader is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PodPurpose {
    /// The way to the version.
    Upgrade,
    /// The way back.
    Rollback,
}

/// One thing to do. Done twice, it is as if done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// An owner is paused, or the pause that we have on it gets another end.
    PauseOwner {
        /// Which kind.
        kind: OwnerKind,
        /// Which one.
        owner: NamedObject,
        /// The lease.
        lease: Lease,
    },
    /// Our pause of an owner ends.
    ResumeOwner {
        /// Which kind.
        kind: OwnerKind,
        /// Which one.
        owner: NamedObject,
    },
    /// A `MachineHealthCheck` is paused, or the pause that we have on it gets another end.
    PauseHealthCheck {
        /// Which one.
        name: String,
        /// The lease.
        lease: Lease,
    },
    /// Our pause of a `MachineHealthCheck` ends.
    ResumeHealthCheck {
        /// Which one.
        name: String,
    },
    /// A machine is kept from remediation, or no more.
    SkipRemediation {
        /// Which one.
        machine: NamedObject,
        /// Whether it is.
        on: bool,
    },
    /// An upgrade of a group is made.
    CreateGroup {
        /// Its kind.
        kind: GroupKind,
        /// What is wanted.
        spec: Box<GroupUpgradeSpec>,
    },
    /// An upgrade of a group is deleted whose target is another one by now.
    DeleteGroup {
        /// Its kind.
        kind: GroupKind,
        /// Which one.
        group: NamedObject,
    },
    /// What is known of a group is written.
    WriteGroup {
        /// Its kind.
        kind: GroupKind,
        /// Which one.
        group: NamedObject,
        /// Where it stands.
        status: Box<GroupUpgradeStatus>,
    },
    /// An upgrade of a node is made.
    CreateNode {
        /// What is wanted.
        spec: Box<NodeUpgradeSpec>,
    },
    /// An upgrade of a node is deleted that counts for nothing any more.
    DeleteNode {
        /// Which one.
        upgrade: NamedObject,
    },
    /// What is known of a node is written.
    WriteNode {
        /// Which one.
        upgrade: NamedObject,
        /// Where it stands.
        status: Box<NodeUpgradeStatus>,
    },
    /// The Pod of an upgrade is there.
    EnsurePod {
        /// The upgrade.
        upgrade: NamedObject,
        /// What it is for.
        purpose: PodPurpose,
        /// Whether steps are tried of which no attempt is left.
        anew: bool,
    },
    /// The Pod of an upgrade is not there any more.
    DeletePod {
        /// The upgrade.
        upgrade: NamedObject,
    },
    /// A machine, its KubeadmConfig and its infrastructure machine say what its owner and its node say.
    Adopt {
        /// Which kind its owner is.
        kind: OwnerKind,
        /// Its owner.
        owner: NamedObject,
        /// The machine.
        machine: NamedObject,
        /// The version that its node is proven at.
        version: KubernetesVersion,
    },
    /// The `MachineSet` of a MachineDeployment says what that says.
    AdoptTemplate {
        /// The MachineDeployment.
        owner: NamedObject,
    },
}
