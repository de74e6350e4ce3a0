//! What a pass over the fleet came to.

use domain::CommitId;
use jiff::{SignedDuration, Timestamp};
use planning::progress::WaveProgress;
use rollout::{Announcement, BRAKE, Block, Reason, StageId, TanzuStanding};

use domain::BranchName;

/// One pass over the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// What became of each cluster, in the order of the fleet.
    pub clusters: Vec<ClusterPass>,
    /// Where each wave stands, in their order; none where the policy has none.
    pub waves: Vec<WaveProgress>,
}

/// What one pass did for one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPass {
    /// The cluster.
    pub cluster: String,
    /// Commits that were pushed, in order.
    pub committed: Vec<CommittedStage>,
    /// Where it stands.
    pub outcome: ClusterOutcome,
    /// The branch on which people are asked for the next commit, where they are.
    pub proposed: Option<BranchName>,
    /// When the cluster is to be read again; none where nothing but a change in git or in the cluster helps.
    pub next: Option<Timestamp>,
    /// What people want to hear of where it stands; none where that is not known.
    pub standing: Option<Vec<Announcement>>,
    /// Where a cluster of Tanzu stands; none of others, and where it was not read yet.
    pub tanzu: Option<TanzuStanding>,
    /// When the newest stage of the running rollout was committed; none where none runs, or that is
    /// not known.
    pub stage_since: Option<Timestamp>,
}

impl ClusterPass {
    /// A cluster of which nothing but `outcome` is known.
    pub fn new(cluster: &str, outcome: ClusterOutcome) -> Self {
        Self {
            cluster: cluster.to_owned(),
            committed: Vec::new(),
            outcome,
            proposed: None,
            next: None,
            standing: None,
            tanzu: None,
            stage_since: None,
        }
    }
}

/// A commit that this pass pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedStage {
    /// The stage; `verify` closes the rollout.
    pub stage: StageId,
    /// The commit.
    pub commit: CommitId,
    /// Whether the stage was taken back.
    pub reverted: bool,
    /// What the gate before it saw, one line a fact.
    pub evidence: Vec<String>,
    /// The stage that it follows; none where it is the first, or takes one back.
    pub follows: Option<ClosedStage>,
}

/// A stage whose gate has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedStage {
    /// The stage.
    pub stage: StageId,
    /// From its commit to the one that follows: gate, soak, windows and approvals.
    pub took: SignedDuration,
}

/// Where a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterOutcome {
    /// Deploy equals target, the rollout is closed, and Flux does not fail at it, as far as it is known.
    Done,
    /// It waits.
    Waiting {
        /// The stage concerned.
        stage: Option<StageId>,
        /// What for.
        reason: Reason,
        /// Until when, where that is known.
        until: Option<Timestamp>,
    },
    /// A gate failed, or Flux does at a cluster that is done; a person is needed, unless it passes after all.
    Held {
        /// The stage that failed; none where all are committed.
        stage: Option<StageId>,
        /// Why.
        reasons: Vec<Reason>,
        /// What helps.
        help: String,
    },
    /// The plan is forbidden.
    Blocked {
        /// Why.
        reasons: Vec<Block>,
    },
    /// Something failed on our side of this cluster; the next pass tries again.
    Failed {
        /// What, with its causes.
        message: String,
        /// What helps, where that is known.
        help: Option<String>,
    },
}

impl ClusterOutcome {
    /// Every answer of [`ClusterOutcome::word`].
    pub const WORDS: [&'static str; 5] = ["done", "waiting", "held", "blocked", "failed"];

    /// One word for tables and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting { .. } => "waiting",
            Self::Held { .. } => "held",
            Self::Blocked { .. } => "blocked",
            Self::Failed { .. } => "failed",
        }
    }

    /// The stage concerned.
    pub fn stage(&self) -> Option<&StageId> {
        match self {
            Self::Waiting { stage, .. } | Self::Held { stage, .. } => stage.as_ref(),
            Self::Done | Self::Blocked { .. } | Self::Failed { .. } => None,
        }
    }

    /// One line for people.
    pub fn message(&self) -> String {
        match self {
            Self::Done => "nothing to do".to_owned(),
            Self::Waiting { reason, .. } => reason.to_string(),
            Self::Held { reasons, .. } => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Self::Blocked { reasons } => {
                reasons.iter().map(|block| block.message.clone()).collect::<Vec<_>>().join("; ")
            }
            Self::Failed { message, .. } => message.clone(),
        }
    }

    /// Machines that are kept from being drained, each with the command that lets it go.
    pub fn kept(&self) -> Vec<String> {
        let reasons = match self {
            Self::Waiting { reason, .. } => reason.others.as_slice(),
            Self::Held { reasons, .. } => reasons.as_slice(),
            Self::Done | Self::Blocked { .. } | Self::Failed { .. } => &[],
        };
        let line = |reason: &Reason| {
            let command = reason.help.as_deref().filter(|help| help.contains(BRAKE))?;
            Some(format!("{} is kept until the newest machine is proven; by hand: {command}", reason.object))
        };
        reasons.iter().filter_map(line).collect()
    }

    /// What helps, where somebody can help.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Waiting { reason, .. } => reason.help.clone(),
            Self::Held { help, .. } => Some(help.clone()),
            Self::Blocked { reasons } => reasons.first().map(|block| block.help.clone()),
            Self::Failed { help, .. } => help.clone(),
            Self::Done => None,
        }
    }
}
