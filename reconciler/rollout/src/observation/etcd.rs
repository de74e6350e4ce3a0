//! What the members of an external etcd say of themselves.

use serde::{Deserialize, Serialize};

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
