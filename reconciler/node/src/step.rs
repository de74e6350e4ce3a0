//! The steps of one node, their order and their bounds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A step that fails as often is not tried again.
pub const MOST_ATTEMPTS: u32 = 3;

/// One step; the order of the variants is the order on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
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

impl Step {
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

    /// What has to have succeeded before.
    #[must_use]
    pub fn predecessor(self) -> Option<Self> {
        Self::ALL.into_iter().take_while(|step| *step != self).last()
    }

    /// How long one attempt may take.
    #[must_use]
    pub fn time_limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Copy => 1800,
            Self::Containerd | Self::CniPlugins | Self::Kubelet | Self::Uncordon => 300,
            Self::Drain => 1800,
            // etcd needs more than a minute, and each static Pod may take five.
            Self::Kubeadm => 1800,
            Self::Verify => 900,
        })
    }

    /// As on the command line.
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
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
