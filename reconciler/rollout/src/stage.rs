//! The stages of a rollout and their order.
//!
//! Architecture Invariant: what defines a kind is committed before objects of its next form. So
//! `bundle` follows `eks-a`, as in EKS Anywhere's own upgrade: the definition of before may refuse
//! the Bundles of the next release, and nothing in between looks at them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use domain::GroupName;

/// One stage of a rollout. The order of the variants is the default order of stages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StageName {
    /// Nothing changes: the cluster is healthy as it is and the plan may start.
    Preflight,
    /// Cluster API objects are saved and read back.
    Backup,
    /// cert-manager.
    CertManager,
    /// Cluster API core and every provider, in one commit.
    Capi,
    /// EKS Anywhere CRDs and controller.
    EksA,
    /// Bundles, `EKSARelease` and EKS-D release objects: of kinds whose next definition comes with [`Self::EksA`], and which the definition
    /// of before may refuse.
    Bundle,
    /// The DaemonSet that pulls the next Cilium image on every node.
    CiliumPreflight,
    /// Cilium agent and operator.
    Cilium,
    /// Flux's own components.
    Flux,
    /// External etcd, apart from the control plane.
    Etcd,
    /// The add-ons of a `TanzuKubernetesCluster`, which its controllers bring to a release before its machines.
    Addons,
    /// The control plane's Kubernetes version and templates.
    ControlPlane,
    /// One add-on of a cluster of eksctl.
    Addon(GroupName),
    /// One worker group.
    Workers(GroupName),
    /// Templates that no machine is made from any more.
    Templates,
    /// Nothing changes in git: workloads on Fargate nodes of an earlier version are made anew.
    Fargate,
    /// Nothing changes: nodes that belong to no group any more are gone.
    Leftovers,
    /// Nothing changes: the state before and after is compared, then the rollout is closed.
    Verify,
}

/// A text that names no stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid stage: expected preflight, backup, cert-manager, capi, eks-a, bundle, cilium-preflight, cilium, flux, etcd, addons, control-plane, \
     addons/<name>, workers/<group>, templates, fargate, leftovers or verify, for an intermediate version followed by `@<version>`"
)]
pub struct InvalidStage(String);

impl StageName {
    /// The stages that a cluster has once each. Those of add-ons and worker groups are named by these.
    pub const SINGLE: [Self; 16] = [
        Self::Preflight,
        Self::Backup,
        Self::CertManager,
        Self::Capi,
        Self::EksA,
        Self::Bundle,
        Self::CiliumPreflight,
        Self::Cilium,
        Self::Flux,
        Self::Etcd,
        Self::Addons,
        Self::ControlPlane,
        Self::Templates,
        Self::Fargate,
        Self::Leftovers,
        Self::Verify,
    ];
}

impl fmt::Display for StageName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addon(name) => write!(formatter, "addons/{name}"),
            Self::Workers(group) => write!(formatter, "workers/{group}"),
            Self::Preflight => formatter.write_str("preflight"),
            Self::Backup => formatter.write_str("backup"),
            Self::CertManager => formatter.write_str("cert-manager"),
            Self::Capi => formatter.write_str("capi"),
            Self::EksA => formatter.write_str("eks-a"),
            Self::Bundle => formatter.write_str("bundle"),
            Self::CiliumPreflight => formatter.write_str("cilium-preflight"),
            Self::Cilium => formatter.write_str("cilium"),
            Self::Flux => formatter.write_str("flux"),
            Self::Etcd => formatter.write_str("etcd"),
            Self::Addons => formatter.write_str("addons"),
            Self::ControlPlane => formatter.write_str("control-plane"),
            Self::Templates => formatter.write_str("templates"),
            Self::Fargate => formatter.write_str("fargate"),
            Self::Leftovers => formatter.write_str("leftovers"),
            Self::Verify => formatter.write_str("verify"),
        }
    }
}

impl FromStr for StageName {
    type Err = InvalidStage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |_| InvalidStage(text.to_owned());
        match text.split_once('/') {
            Some(("addons", name)) => Ok(Self::Addon(name.parse().map_err(invalid)?)),
            Some(("workers", group)) => Ok(Self::Workers(group.parse().map_err(invalid)?)),
            _ => {
                let single = Self::SINGLE.into_iter().find(|stage| stage.to_string() == text);
                single.ok_or_else(|| InvalidStage(text.to_owned()))
            }
        }
    }
}

/// A stage of one plan: its name and, for an intermediate version, the version it stops at.
///
/// Written `cilium@v1.18.2-0` for an intermediate hop and `cilium` for the last (or only) one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StageId {
    /// Which stage.
    pub name: StageName,
    /// The intermediate version, where the way to the target has several hops; none for the last one.
    pub hop: Option<String>,
}

impl StageId {
    /// The last (or only) stage of this name.
    #[must_use]
    pub fn last(name: StageName) -> Self {
        Self { name, hop: None }
    }

    /// The stage that stops at an intermediate version.
    #[must_use]
    pub fn hop(name: StageName, version: impl Into<String>) -> Self {
        Self { name, hop: Some(version.into()) }
    }

    /// Whether this stage puts nothing into git (`preflight`, `backup`, `fargate`, `leftovers`, `verify`).
    #[must_use]
    pub fn is_without_commit(&self) -> bool {
        matches!(self.name, StageName::Preflight | StageName::Backup) || self.is_at_the_end()
    }

    /// Whether this stage is asked about when everything is committed (`fargate`, `leftovers`, `verify`).
    #[must_use]
    pub fn is_at_the_end(&self) -> bool {
        matches!(self.name, StageName::Fargate | StageName::Leftovers | StageName::Verify)
    }
}

impl From<StageName> for StageId {
    fn from(name: StageName) -> Self {
        Self::last(name)
    }
}

impl fmt::Display for StageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hop {
            Some(version) => write!(formatter, "{}@{version}", self.name),
            None => self.name.fmt(formatter),
        }
    }
}

impl FromStr for StageId {
    type Err = InvalidStage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('@') {
            Some((_, "")) => Err(InvalidStage(text.to_owned())),
            Some((name, version)) => Ok(Self::hop(name.parse()?, version)),
            None => Ok(Self::last(text.parse()?)),
        }
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = InvalidStage;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}

as_text!(StageName);
as_text!(StageId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_reads_back_what_it_prints() {
        for text in [
            "preflight",
            "backup",
            "cert-manager",
            "capi",
            "eks-a",
            "bundle",
            "cilium-preflight",
            "cilium",
            "cilium@v1.18.2-0",
            "flux",
            "etcd",
            "addons",
            "control-plane",
            "addons/vpc-cni",
            "workers/md-0",
            "templates",
            "fargate",
            "leftovers",
            "verify",
        ] {
            assert_eq!(text.parse::<StageId>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn unknown_stages_are_refused() {
        for text in ["", "Cilium", "workers", "workers/", "addons/", "addons/a/b", "workers/a/b", "cilium@", "@v1"] {
            assert!(text.parse::<StageId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_default_order_has_what_defines_kinds_before_their_objects() {
        let names = [
            "preflight",
            "backup",
            "cert-manager",
            "capi",
            "eks-a",
            "bundle",
            "cilium-preflight",
            "cilium",
            "flux",
            "etcd",
            "addons",
            "control-plane",
            "addons/a",
            "workers/a",
            "templates",
            "fargate",
            "leftovers",
            "verify",
        ];
        let stages: Vec<StageName> = names.iter().map(|name| name.parse().unwrap()).collect();
        assert!(stages.is_sorted());
    }
}
