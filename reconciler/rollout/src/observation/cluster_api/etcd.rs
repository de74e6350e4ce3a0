//! What the members of an etcd say of themselves.

use serde::{Deserialize, Serialize};

use crate::observation::ObjectReference;

/// The members of an external etcd, asked one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum EtcdMembership {
    /// One of them has listed all.
    Known {
        /// All of them, learners included.
        members: Vec<EtcdMember>,
    },
    /// None could be asked.
    Unknown {
        /// Why, in one line.
        reason: String,
    },
}

/// One entry of etcd's list of members, and what that member says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    /// Its identifier, as etcd's own tools take it; in hexadecimal.
    pub id: String,
    /// Its name; empty while it has not started.
    pub name: String,
    /// Hosts of its peer and client addresses.
    pub hosts: Vec<String>,
    /// Whether it only learns, and has no vote yet.
    #[serde(default)]
    pub learner: bool,
    /// What its `/health` answers.
    pub health: EtcdHealth,
    /// What its `/version` answers.
    #[serde(default)]
    pub version: Option<String>,
}

/// What a member answers when it is asked for its health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum EtcdHealth {
    /// It serves reads that a majority has agreed on.
    Healthy,
    /// It says that it does not.
    Unhealthy {
        /// In its own words.
        reason: String,
    },
    /// Nothing listens at its address.
    Down {
        /// What was tried.
        reason: String,
    },
    /// It could not be asked.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What is known of an etcd's alarms and of its databases, whoever told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdInspection {
    /// Alarms that are raised.
    pub alarms: Vec<EtcdAlarm>,
    /// The databases of those members that are known.
    pub databases: Vec<EtcdDatabase>,
    /// The disks of those nodes that run a member and tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<EtcdDisk>,
    /// What could not be read, in one line each.
    pub unread: Vec<String>,
}

impl EtcdInspection {
    pub(in crate::observation) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The disk of a node that runs a member: the one that its kubelet's data are on, and etcd's unless it has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDisk {
    /// The node.
    pub node: String,
    /// Bytes that are free.
    pub available: u64,
    /// Bytes that there are.
    pub capacity: u64,
}

/// An alarm of etcd. It lasts until somebody disarms it, whatever has become of its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdAlarm {
    /// The Machine of the member that raised it; none where no machine has its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// The member, as etcd names it.
    pub member: String,
    /// Its name: `NOSPACE` or `CORRUPT`.
    pub alarm: String,
}

/// The database file of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdDatabase {
    /// The Machine or Pod of the member; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// Its bytes: what the quota is compared with.
    pub size: u64,
    /// How many of them hold something: a defragmentation gives back the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<u64>,
    /// How many bytes it may have; none where nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
}
