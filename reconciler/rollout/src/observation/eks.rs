//! What AWS says of a cluster of EKS, and what became of the eksctl that was started for it.

use std::collections::BTreeMap;

use domain::{CommitId, RolloutId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::eksctl::EksctlVerb;
use crate::expectation::EksPart;

/// What AWS says of a cluster of EKS; what is not known is named, never taken for absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksReading {
    /// The cluster; none where it was not asked for, or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<EksControlPlane>,
    /// Its node groups, managed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_groups: Option<Vec<EksNodeGroup>>,
    /// Its add-ons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<Vec<EksAddon>>,
    /// The newest update of each thing that a running stage is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<EksUpdate>,
    /// What EKS says against an upgrade; none where it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insights: Option<Vec<EksInsight>>,
    /// Stacks of node groups; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Vec<EksStack>>,
    /// Auto Scaling groups of the cluster; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scaling_groups: Option<Vec<EksAutoScalingGroup>>,
    /// Subnets with the addresses that are free there; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<EksSubnet>>,
    /// How many addresses instances of the new groups may have, by type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_types: Option<Vec<EksInstanceType>>,
    /// Why something of it is not known, by what was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
    /// The newest run of eksctl; none where Stepgate has started none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<EksctlRun>,
    /// Why nothing is started, although something is to be; none where that is not so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<EksctlHold>,
}

/// A control plane, as EKS describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksControlPlane {
    /// As `1.33`.
    pub version: String,
    /// Such as `ACTIVE` or `UPDATING`.
    pub status: String,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<EksIssue>,
}

/// A node group, as EKS or its stack describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksNodeGroup {
    /// Its name.
    pub name: String,
    /// Of a managed one such as `ACTIVE` or `DEGRADED`, of another that of its stack, such as `CREATE_COMPLETE`.
    pub status: String,
    /// What is wrong with it; none where only its status is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<EksIssue>,
}

/// An add-on, as EKS describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksAddon {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Such as `ACTIVE` or `UPDATE_FAILED`.
    pub status: String,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<EksIssue>,
}

/// Something that EKS says is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksIssue {
    /// Such as `InsufficientFreeAddresses`.
    pub code: String,
    /// Its text.
    pub message: String,
}

/// An update that EKS carries out, or has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksUpdate {
    /// Its identifier.
    pub id: String,
    /// The add-on that it is of; none of the cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addon: Option<String>,
    /// Such as `VersionUpdate`.
    pub kind: String,
    /// `InProgress`, `Successful`, `Failed` or `Cancelled`.
    pub status: String,
    /// When it began.
    pub created_at: Timestamp,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<EksIssue>,
}

impl EksUpdate {
    /// Whether nothing about it changes any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "Successful" | "Failed" | "Cancelled")
    }
}

/// What EKS has found that concerns an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksInsight {
    /// Its name.
    pub name: String,
    /// The minor of Kubernetes that it is about, as `1.33`; none where it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `PASSING`, `WARNING`, `ERROR` or `UNKNOWN`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// What it names: APIs with who has asked for them last, add-ons, resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// What EKS recommends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
}

/// A stack of `CloudFormation` that holds a node group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksStack {
    /// Its name.
    pub name: String,
    /// The node group, by the stack's name.
    pub group: String,
    /// Such as `CREATE_COMPLETE` or `DELETE_FAILED`.
    pub status: String,
}

/// An Auto Scaling group that is tagged with the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksAutoScalingGroup {
    /// Its name.
    pub name: String,
    /// The node group that its tags name; none where they name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many nodes it keeps.
    pub desired: u32,
}

/// A subnet of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksSubnet {
    /// Its identifier.
    pub id: String,
    /// How many of its addresses nobody has.
    pub free: u64,
    /// The node groups whose nodes are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether it is one of the control plane's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_cluster: bool,
}

/// How many addresses an instance may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksInstanceType {
    /// Such as `m5.large`.
    pub name: String,
    /// Network interfaces.
    pub interfaces: u64,
    /// Addresses of each.
    pub addresses: u64,
}

/// One run of eksctl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksctlRun {
    /// The rollout that it is of.
    pub rollout: RolloutId,
    /// The commit of the deploy branch that it carries out.
    pub commit: CommitId,
    /// What its gate expects.
    pub part: EksPart,
    /// What it does.
    pub verb: EksctlVerb,
    /// The command, as somebody would type it.
    pub command: String,
    /// Which attempt of this commit it is, from 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// What became of it.
    pub outcome: EksctlOutcome,
    /// The end of what it printed, without anything secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

/// What became of a run of eksctl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum EksctlOutcome {
    /// It is still at work.
    Running,
    /// It ended well.
    #[serde(rename_all = "camelCase")]
    Succeeded {
        /// When.
        ended_at: Timestamp,
    },
    /// It ended with an error, or was ended by a signal.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// When.
        ended_at: Timestamp,
        /// How, as `exit status: 1`.
        status: String,
    },
    /// It took too long, and was ended.
    #[serde(rename_all = "camelCase")]
    TimedOut {
        /// When.
        ended_at: Timestamp,
    },
    /// It has ended while nobody looked: only AWS tells how.
    Unwatched,
}

/// Why no eksctl is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksctlHold {
    /// What its gate expects.
    pub part: EksPart,
    /// Why, in one line.
    pub reason: String,
    /// What helps; none where it passes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}
