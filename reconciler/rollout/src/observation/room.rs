//! What nodes have room for, and what pods ask them for.

use serde::{Deserialize, Serialize};

/// What a node gives, or pods ask it for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Thousandths of a processor.
    pub cpu: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Pods.
    pub pods: u64,
    /// Pods with an address of their own.
    #[serde(default)]
    pub addresses: u64,
}

impl Resources {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            pods: self.pods.saturating_add(other.pods),
            addresses: self.addresses.saturating_add(other.addresses),
        }
    }

    /// What is left of it without the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
            pods: self.pods.saturating_sub(other.pods),
            addresses: self.addresses.saturating_sub(other.addresses),
        }
    }

    /// Whether it is enough for the other. Addresses are the network's.
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        self.cpu >= other.cpu && self.memory >= other.memory && self.pods >= other.pods
    }
}

/// A node with what it has room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRoom {
    /// Its name.
    pub node: String,
    /// Its node group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Label `node.kubernetes.io/instance-type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Whether pods are put there.
    pub takes_pods: bool,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// What its pods ask for.
    pub used: Resources,
    /// What those ask for that a drain leaves: each node has such.
    pub kept: Resources,
}

/// How the VPC CNI keeps addresses for pods to come, by the environment of `aws-node`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcCni {
    /// `WARM_ENI_TARGET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_interfaces: Option<u64>,
    /// `WARM_IP_TARGET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_addresses: Option<u64>,
    /// `MINIMUM_IP_TARGET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_addresses: Option<u64>,
    /// `WARM_PREFIX_TARGET`, where `ENABLE_PREFIX_DELEGATION` is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_prefixes: Option<u64>,
    /// `ENABLE_PREFIX_DELEGATION`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delegates_prefixes: bool,
}
