//! What can go wrong, by name, and when.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use rollout::StageName;

/// Something that goes wrong in a simulated cluster, until it is healed.
///
/// Written in kebab-case, as `stepgate demo --break STAGE=FAULT` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// `slow-image`: images that were not running before take ten minutes to pull.
    SlowImage,
    /// `failing-pod`: pods with an image that was not running before crash and never become ready.
    FailingPod,
    /// `stale-reads`: each kind of object is read, by the toss of a coin, from an API server up to two minutes behind.
    StaleReads,
    /// `lost-events`: what is read of a kind stands still until the next full list, five minutes later.
    LostEvents,
    /// `partial-reads`: one kind of object, another each time, cannot be read.
    PartialReads,
    /// `api-outage`: the API server answers nothing.
    ApiOutage,
    /// `clock-skew`: the clock that stamps observations runs ten minutes ahead.
    ClockSkew,
    /// `control-plane-stuck`: a new control-plane machine never starts.
    ControlPlaneStuck,
    /// `control-plane-paused`: somebody has paused the KubeadmControlPlane, so a new generation is not observed.
    ControlPlanePaused,
    /// `cluster-paused`: somebody has paused the Cluster, so nothing of Cluster API acts on it.
    ClusterPaused,
    /// `control-plane-machine-deleted`: somebody has deleted a machine of the control plane, and another takes its place.
    ControlPlaneMachineDeleted,
    /// `machine-stuck`: a new worker machine never starts.
    MachineStuck,
    /// `machine-deleted`: somebody has deleted a worker machine, and another takes its place.
    MachineDeleted,
    /// `drain-blocked`: a disruption budget keeps deleted machines from going away.
    DrainBlocked,
    /// `node-not-ready`: one node stops reporting.
    NodeNotReady,
    /// `controller-slow`: EKS Anywhere's controller takes minutes to notice what Flux has applied.
    ControllerSlow,
    /// `etcd-stuck`: a new member of the external etcd never starts.
    EtcdStuck,
    /// `etcd-member-broken`: a new member of the external etcd starts and never becomes healthy.
    EtcdMemberBroken,
    /// `etcd-quorum-lost`: no member of the external etcd has a majority any more.
    EtcdQuorumLost,
    /// `etcd-orphan`: the external etcd lists a member that has no machine.
    EtcdOrphan,
    /// `webhook-down`: admission webhooks do not answer, though their Deployments look well.
    WebhookDown,
    /// `flux-suspended`: a person has suspended every Kustomization.
    FluxSuspended,
    /// `flux-error`: the API server refuses what Flux applies.
    FluxError,
    /// `source-error`: Flux cannot reach the git server.
    SourceError,
    /// `certificates-lost`: somebody has deleted the Secret of the cluster's certificate authority.
    CertificatesLost,
    /// `backup-failed`: what the backup reads back differs from what it wrote.
    BackupFailed,
}

impl Fault {
    /// Every fault, in the order of this documentation.
    pub const ALL: [Self; 26] = [
        Self::SlowImage,
        Self::FailingPod,
        Self::StaleReads,
        Self::LostEvents,
        Self::PartialReads,
        Self::ApiOutage,
        Self::ClockSkew,
        Self::ControlPlaneStuck,
        Self::ControlPlanePaused,
        Self::ClusterPaused,
        Self::ControlPlaneMachineDeleted,
        Self::MachineStuck,
        Self::MachineDeleted,
        Self::DrainBlocked,
        Self::NodeNotReady,
        Self::ControllerSlow,
        Self::EtcdStuck,
        Self::EtcdMemberBroken,
        Self::EtcdQuorumLost,
        Self::EtcdOrphan,
        Self::WebhookDown,
        Self::FluxSuspended,
        Self::FluxError,
        Self::SourceError,
        Self::CertificatesLost,
        Self::BackupFailed,
    ];

    /// Whether machines come and go by it that the deploy branch says nothing about: what was rolled out is then not what runs, which the gates of
    /// other stages need not see.
    #[must_use]
    pub fn replaces_machines(self) -> bool {
        matches!(self, Self::ControlPlaneMachineDeleted | Self::MachineDeleted)
    }

    /// The fault's name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlowImage => "slow-image",
            Self::FailingPod => "failing-pod",
            Self::StaleReads => "stale-reads",
            Self::LostEvents => "lost-events",
            Self::PartialReads => "partial-reads",
            Self::ApiOutage => "api-outage",
            Self::ClockSkew => "clock-skew",
            Self::ControlPlaneStuck => "control-plane-stuck",
            Self::ControlPlanePaused => "control-plane-paused",
            Self::ClusterPaused => "cluster-paused",
            Self::ControlPlaneMachineDeleted => "control-plane-machine-deleted",
            Self::MachineStuck => "machine-stuck",
            Self::MachineDeleted => "machine-deleted",
            Self::DrainBlocked => "drain-blocked",
            Self::NodeNotReady => "node-not-ready",
            Self::ControllerSlow => "controller-slow",
            Self::EtcdStuck => "etcd-stuck",
            Self::EtcdMemberBroken => "etcd-member-broken",
            Self::EtcdQuorumLost => "etcd-quorum-lost",
            Self::EtcdOrphan => "etcd-orphan",
            Self::WebhookDown => "webhook-down",
            Self::FluxSuspended => "flux-suspended",
            Self::FluxError => "flux-error",
            Self::SourceError => "source-error",
            Self::CertificatesLost => "certificates-lost",
            Self::BackupFailed => "backup-failed",
        }
    }

    /// What goes wrong, in one line for a person.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::SlowImage => "new images take ten minutes to pull",
            Self::FailingPod => "pods with a new image crash",
            Self::StaleReads => "reads are answered by an API server up to two minutes behind",
            Self::LostEvents => "watches lose events until the next full list, five minutes later",
            Self::PartialReads => "one kind of object, another each time, cannot be read",
            Self::ApiOutage => "the API server does not answer",
            Self::ClockSkew => "the clock that stamps observations runs ten minutes ahead",
            Self::ControlPlaneStuck => "a new control-plane machine never starts",
            Self::ControlPlanePaused => "somebody has paused the control plane",
            Self::ClusterPaused => "somebody has paused the Cluster",
            Self::ControlPlaneMachineDeleted => "somebody has deleted a control-plane machine",
            Self::MachineStuck => "a new worker machine never starts",
            Self::MachineDeleted => "somebody has deleted a worker machine",
            Self::DrainBlocked => "a disruption budget keeps deleted machines from going away",
            Self::NodeNotReady => "one node stops reporting",
            Self::ControllerSlow => "EKS Anywhere's controller takes minutes to notice what Flux has applied",
            Self::EtcdStuck => "a new etcd member never starts",
            Self::EtcdMemberBroken => "a new etcd member starts and never becomes healthy",
            Self::EtcdQuorumLost => "no member of etcd has a majority",
            Self::EtcdOrphan => "etcd lists a member that has no machine",
            Self::WebhookDown => "admission webhooks do not answer",
            Self::FluxSuspended => "a person has suspended the Flux Kustomizations",
            Self::FluxError => "the API server refuses what Flux applies",
            Self::SourceError => "Flux cannot reach the git server",
            Self::CertificatesLost => "somebody has deleted the Secret of the cluster's certificate authority",
            Self::BackupFailed => "the backup does not read back as it was written",
        }
    }

    /// Whether the fault concerns what is read of the cluster, not the cluster itself.
    #[must_use]
    pub fn is_of_the_view(self) -> bool {
        matches!(self, Self::StaleReads | Self::LostEvents | Self::PartialReads | Self::ApiOutage | Self::ClockSkew)
    }

    /// The fault that shows most at `stage`, for a `--break STAGE` that names none.
    #[must_use]
    pub fn usual_at(stage: &StageName) -> Self {
        match stage {
            StageName::Preflight | StageName::Fargate | StageName::Leftovers | StageName::Verify => Self::NodeNotReady,
            StageName::Backup => Self::BackupFailed,
            StageName::Bundle | StageName::Flux | StageName::Templates => Self::FluxError,
            StageName::CertManager | StageName::Cilium | StageName::EksA | StageName::Addons | StageName::Addon(_) => {
                Self::FailingPod
            }
            StageName::Capi => Self::WebhookDown,
            StageName::CiliumPreflight => Self::SlowImage,
            StageName::Etcd => Self::EtcdStuck,
            StageName::ControlPlane => Self::ControlPlaneStuck,
            StageName::Workers(_) => Self::MachineStuck,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that names no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid fault: expected one of {}", Fault::ALL.map(Fault::as_str).join(", "))]
pub struct InvalidFault {
    text: String,
}

impl FromStr for Fault {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == text).ok_or_else(|| InvalidFault { text: text.to_owned() })
    }
}

/// A text that is no `STAGE[=FAULT]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBreak {
    /// The part before `=` names no stage.
    #[error(transparent)]
    Stage(#[from] rollout::InvalidStage),
    /// The part after `=` names no fault.
    #[error(transparent)]
    Fault(#[from] InvalidFault),
}

/// A fault that begins with the commit of a stage: `STAGE[=FAULT]`, with [`Fault::usual_at`] where none is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The stage whose commit brings the fault.
    pub stage: StageName,
    /// What goes wrong.
    pub fault: Fault,
}

impl FromStr for Break {
    type Err = InvalidBreak;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (stage, fault) = match text.split_once('=') {
            Some((stage, fault)) => (stage.parse()?, Some(fault.parse()?)),
            None => (text.parse::<StageName>()?, None),
        };
        Ok(Self { fault: fault.unwrap_or_else(|| Fault::usual_at(&stage)), stage })
    }
}

impl fmt::Display for Break {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.stage, self.fault)
    }
}

/// When a fault begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// With the commit of this stage. The stages without a commit (`preflight`, `backup`, `verify`) have none to begin
    /// with: `preflight` and `backup` begin at once, `verify` with the last stage that has a commit, which the simulation
    /// cannot know; inject it at a time.
    Stage(StageName),
    /// At a moment of virtual time; one that is past means now.
    At(Timestamp),
}

/// A fault, when it begins, and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// What goes wrong.
    pub fault: Fault,
    /// When it begins.
    pub from: Trigger,
    /// How long it lasts once begun; until it is healed, when none.
    pub lasts: Option<Duration>,
}

impl From<Break> for Injection {
    fn from(broken: Break) -> Self {
        Self { fault: broken.fault, from: Trigger::Stage(broken.stage), lasts: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_reads_back_what_it_prints() {
        for fault in Fault::ALL {
            assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
            assert_eq!(Fault::ALL.iter().filter(|other| other.as_str() == fault.as_str()).count(), 1, "{fault}");
        }
    }

    #[test]
    fn a_break_names_a_stage_and_perhaps_a_fault() {
        for (text, expected) in [
            ("control-plane", Some("control-plane=control-plane-stuck")),
            ("workers/md-0", Some("workers/md-0=machine-stuck")),
            ("capi=flux-suspended", Some("capi=flux-suspended")),
            ("capi=", None),
            ("capi=flux", None),
            ("flux-error", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Break>().ok().map(|broken| broken.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_fault_is_answered_with_the_known_ones() {
        let error = "capi=slow".parse::<Break>().unwrap_err().to_string();
        assert!(
            error.starts_with("\"slow\" is not a valid fault: expected one of slow-image, failing-pod, "),
            "{error}"
        );
    }
}
