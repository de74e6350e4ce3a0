//! An external etcd.

use serde::{Deserialize, Serialize};

/// An external etcd cluster with its members.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdExpectation {
    /// Namespace of the `EtcdadmCluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its members.
    pub replicas: u32,
    /// Name of its infrastructure template, where the deploy tree holds the `EtcdadmCluster` itself.
    #[serde(default)]
    pub infrastructure_template: Option<String>,
    /// Whether its members have to be heard.
    #[serde(default, skip_serializing_if = "MembersHeard::is_when_reported")]
    pub members: MembersHeard,
    /// What becomes of the members that it had before.
    #[serde(default, skip_serializing_if = "OldMembers::are_gone")]
    pub old_members: OldMembers,
    /// Whether the stage makes every member anew for certain: then the object has to be of a later
    /// generation than it was when the stage was committed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolls: bool,
    /// That generation, as the ledger records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_generation: Option<i64>,
}

/// Whether the members of an external etcd have to be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembersHeard {
    /// What they say counts where they could be asked.
    #[default]
    WhenReported,
    /// While they cannot be asked, the gate waits.
    Required,
}

impl MembersHeard {
    fn is_when_reported(&self) -> bool {
        *self == Self::WhenReported
    }
}

/// What becomes of the members that an external etcd had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OldMembers {
    /// They are gone.
    #[default]
    Gone,
    /// They stay as long as a machine of the control plane was made with their addresses.
    MayStay,
}

impl OldMembers {
    fn are_gone(&self) -> bool {
        *self == Self::Gone
    }
}
