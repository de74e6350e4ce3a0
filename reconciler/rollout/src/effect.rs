//! What is to be done next.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::ApprovalScope;
use crate::gate::MarkChange;
use crate::ledger::Ledger;
use crate::observation::{Attempts, Hold, MachineId};
use crate::plan::Block;
use crate::stage::StageId;
use crate::verdict::Reason;
use domain::{ClusterName, CommitId, PlanDigest, RolloutId, TreeDigest};
use policy::GivenApproval;

/// One commit to the deploy branch that changes a stage's part and the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageCommit {
    /// The cluster.
    pub cluster: ClusterName,
    /// The rollout, for the trailer.
    pub rollout: RolloutId,
    /// The plan, for the trailer.
    pub plan: PlanDigest,
    /// The stage, for the trailer and to find the rendered tree by.
    pub stage: StageId,
    /// Commit of the source branch that the tree is rendered from, for the trailer.
    pub source: CommitId,
    /// The deploy head this was decided on, which the push expects to find; none for an unborn branch.
    pub parent: Option<CommitId>,
    /// Digest of the stage's part before; whoever makes the commit refuses if it finds another.
    pub before: TreeDigest,
    /// Digest of the stage's part after; whoever makes the commit refuses if the rendered tree has another.
    pub after: TreeDigest,
    /// For a revert, the commit whose first parent holds the part to restore; none for a stage's own commit.
    pub undoes: Option<CommitId>,
    /// The ledger to write in the same commit, its `tree` still to be set (see [`Ledger::with_tree`]).
    pub ledger: Ledger,
}

/// One commit to the deploy branch that changes the ledger alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerCommit {
    /// The cluster.
    pub cluster: ClusterName,
    /// The deploy head this was decided on, which the push expects to find.
    pub parent: Option<CommitId>,
    /// The ledger to write.
    pub ledger: Ledger,
}

/// A question to people: may this be committed?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// What the answer is for: this commit alone, or every stage of its plan. Either way it is bound to [`StageCommit::plan`].
    pub scope: ApprovalScope,
    /// The commit that is proposed. It is on the deploy branch once people have merged it: its ledger records the approval.
    pub commit: StageCommit,
    /// Why it is not to be merged yet, although it may be: no maintenance window is open.
    #[serde(default)]
    pub not_yet: Option<String>,
    /// What is missing before it may be merged, a line each; empty where nothing is.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Whose approvals meet the rules; empty where anybody's does.
    #[serde(default)]
    pub approvers: Vec<GivenApproval>,
}

/// What is done to the objects of an external etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "act")]
pub enum EtcdAct {
    /// Its controller is paused, machines that it owned before are its own again, and those that
    /// were made since go, their members first.
    #[serde(rename_all = "camelCase")]
    TakeBack {
        /// The cluster.
        cluster: ClusterName,
        /// Namespace of the `EtcdadmCluster`.
        namespace: String,
        /// Its name.
        name: String,
        /// Every machine from before. Where one of them is gone by the time that this is carried out there is no way
        /// back, and nothing is given back or deleted.
        before: Vec<String>,
        /// Machines that it owned before.
        give_back: Vec<String>,
        /// Machines that were made since.
        delete: Vec<String>,
    },
    /// Its controller goes on.
    #[serde(rename_all = "camelCase")]
    Resume {
        /// The cluster.
        cluster: ClusterName,
        /// Namespace of the `EtcdadmCluster`.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What makes machines, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "name")]
pub enum MachineOwner {
    /// A control plane of kubeadm.
    KubeadmControlPlane(String),
    /// A worker group.
    MachineDeployment(String),
}

/// What is done to a cluster of Cluster API while its machines are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "act")]
pub enum ClusterAct {
    /// An attempt is noted as failed, and its machines go, so that others are made in their place.
    #[serde(rename_all = "camelCase")]
    GiveUp {
        /// Namespace of the Cluster.
        namespace: String,
        /// Its name.
        cluster: String,
        /// What is noted.
        attempts: Attempts,
        /// Machines that go.
        machines: Vec<MachineId>,
    },
    /// Machines say which rollout they were made in, with what each of them is made of; what makes them says which changed it last.
    #[serde(rename_all = "camelCase")]
    Sign {
        /// Their namespace.
        namespace: String,
        /// The rollout.
        rollout: RolloutId,
        /// The machines.
        machines: Vec<MachineId>,
        /// What makes machines.
        #[serde(default)]
        owners: Vec<MachineOwner>,
    },
    /// Cluster API leaves everything of the cluster alone, until the lease ends.
    #[serde(rename_all = "camelCase")]
    Pause {
        /// Namespace of the Cluster.
        namespace: String,
        /// Its name.
        cluster: String,
        /// Why, and until when.
        lease: Hold,
    },
    /// It goes on, where it stands still by a lease of ours.
    #[serde(rename_all = "camelCase")]
    Resume {
        /// Namespace of the Cluster.
        namespace: String,
        /// Its name.
        cluster: String,
    },
}

/// What is to be done next. A list of effects is carried out in order; each may be lost to a crash, and is then decided again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
pub enum Effect {
    /// Read the cluster again.
    Observe {
        /// Whether every object has to be read afresh instead of from a watch's cache.
        confirm: bool,
        /// Not before this time.
        at: Timestamp,
    },
    /// Save Cluster API objects and read them back.
    Backup {
        /// The cluster.
        cluster: ClusterName,
        /// The rollout that the report has to name.
        rollout: RolloutId,
    },
    /// Take the first step of an external etcd's rollout back, or let its controller go on after
    /// that.
    Etcd(EtcdAct),
    /// Make machines anew that do not come up, or let a cluster stand still that has lost what its machines trust.
    Cluster(ClusterAct),
    /// Tell Cluster API in which order machines of the control plane go. Doing so again changes nothing, and what goes on is decided without it.
    OrderMachines {
        /// Marks of Machines to be set and taken away.
        changes: Vec<MarkChange>,
    },
    /// Propose a commit to people. Proposing the same again changes nothing.
    RequestApproval(Box<ApprovalRequest>),
    /// Commit a stage.
    Commit(StageCommit),
    /// Commit a stage's previous tree back.
    Revert(StageCommit),
    /// Write the ledger of a finished rollout.
    Close(LedgerCommit),
    /// Nothing to do for now.
    Wait {
        /// The stage whose gate (or turn) is waited for; none where no stage is concerned.
        stage: Option<StageId>,
        /// What for.
        reason: Reason,
        /// When the wait ends by itself; none where no time is known.
        until: Option<Timestamp>,
    },
    /// The rollout does not go on by itself, unless its gate passes after all.
    Hold {
        /// The stage that failed.
        stage: StageId,
        /// Why.
        reasons: Vec<Reason>,
        /// What a person can do.
        help: String,
    },
    /// The plan is forbidden.
    Blocked {
        /// Why.
        reasons: Vec<Block>,
    },
    /// Deploy equals target and the rollout is closed.
    Done,
}
