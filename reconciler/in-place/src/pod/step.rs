//! The steps of `stepgate-node`, and what exit codes mean, in the words of its command line.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One step; the order of the variants is the order on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStep {
    /// All files and images to the node, what is there saved.
    Copy,
    /// containerd replaced and restarted.
    Containerd,
    /// Network plugins replaced.
    CniPlugins,
    /// Node cordoned, Pods evicted.
    Drain,
    /// kubeadm replaced and run.
    Kubeadm,
    /// kubelet and kubectl replaced, kubelet restarted.
    Kubelet,
    /// Node proven healthy at the new version.
    Verify,
    /// Own cordon taken back.
    Uncordon,
}

impl NodeStep {
    /// In order.
    pub const ALL: [Self; 8] = [
        Self::Copy,
        Self::Containerd,
        Self::CniPlugins,
        Self::Drain,
        Self::Kubeadm,
        Self::Kubelet,
        Self::Verify,
        Self::Uncordon,
    ];

    /// As on the command line, and as its container is named.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Containerd => "containerd",
            Self::CniPlugins => "cni-plugins",
            Self::Drain => "drain",
            Self::Kubeadm => "kubeadm",
            Self::Kubelet => "kubelet",
            Self::Verify => "verify",
            Self::Uncordon => "uncordon",
        }
    }

    /// The step of a container.
    #[must_use]
    pub fn of_container(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == name)
    }

    /// Whether it asks the API server; the other steps get no token.
    #[must_use]
    pub(super) fn calls_api(self) -> bool {
        match self {
            Self::Copy | Self::Drain | Self::Kubeadm | Self::Verify | Self::Uncordon => true,
            Self::Containerd | Self::CniPlugins | Self::Kubelet => false,
        }
    }

    /// Whether it waits until something holds for a while.
    #[must_use]
    pub(super) fn proves(self) -> bool {
        matches!(self, Self::Containerd | Self::Kubeadm | Self::Kubelet | Self::Verify | Self::Uncordon)
    }
}

impl fmt::Display for NodeStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a container that has ended says by its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitMeaning {
    /// Done.
    Done,
    /// This attempt failed, or was killed; kubelet starts another one.
    Again,
    /// Refused: nothing was begun by it, and the same call is refused again.
    Refused,
    /// No attempt is left: only people go on, or the way back.
    Terminal,
}

impl ExitMeaning {
    /// Of the exit code of `stepgate-node`.
    #[must_use]
    pub fn of(code: i32) -> Self {
        match code {
            0 => Self::Done,
            // Wrong arguments stay wrong.
            2 | 3 => Self::Refused,
            4 => Self::Terminal,
            _ => Self::Again,
        }
    }
}
