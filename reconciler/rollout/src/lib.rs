//! Plans, stages, gates and the step function of a rollout.
//!
//! Everything here is a value or a pure function of values: no clock, no files, no network. The controller observes a
//! cluster and two git trees, hands them over as a [`World`], and carries out the [`Effect`]s that come back.
//!
//! Architecture Invariant: this package decides and never acts. Time comes in as an argument.
//!
//! Architecture Invariant: what is unknown, stale, unreachable or from the future makes a gate wait, with a reason.

mod approval;
mod before;
mod change;
pub mod check;
mod deploy;
mod edit;
mod effect;
mod expectation;
mod fast_path;
mod gate;
mod history;
mod identity;
mod ledger;
mod lineage;
mod observation;
mod plan;
mod rollback;
mod stage;
mod step;
mod verdict;
mod world;

pub use approval::{ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, Approved, People, Retry};
pub use before::Before;
pub use change::{ArtifactChange, ChangeClass, ComponentChange};
pub use deploy::{DeployCommit, DeployHead, KnownCommit, Landed, Landing, StageTrailer};
pub use edit::AcceptedEdit;
pub use effect::{ApprovalRequest, Effect, EtcdAct, LedgerCommit, StageCommit};
pub use expectation::{
    ChecksExpectation, ControlPlaneAddress, ControlPlaneExpectation, EksaClusterExpectation, EtcdExpectation,
    Expectation, Extent, KubeVipExpectation, KubeletVersions, MachineOrderRules, MembersHeard, OldMembers,
    RollingNodes, VerifiedExpectation, WorkersExpectation,
};
pub use fast_path::{FastPath, Precheck, Reading, Waiting, WatchEvidence};
pub use gate::{
    Gate, MachineOrder, MarkChange, MarkKind, RunningOrder, control_plane_gate, flux_health, machine_order,
    workers_gate,
};
pub use history::{GateHistory, GateKey, Streak};
pub use identity::{ClusterIdentity, Identification};
pub use ledger::{EtcdBefore, Ledger, LedgerState, StageRecord, StageRecordKind};
pub use lineage::Lineage;
pub use observation::{
    AdmissionWebhook, ApiUse, ApiUseKind, Artifacts, BRAKE, BackupFailure, BackupReport, Certificate, Condition,
    ConditionStatus, ControlPlane, ControlPlaneKind, ControlPlaneReference, CustomResourceDefinition, DELETE_FIRST,
    DaemonSet, Deployment, DisruptionBudget, Drift, DriftKind, EKSA_CLUSTERS, EksaCluster, EtcdAlarm, EtcdDatabase,
    EtcdHealth, EtcdInspection, EtcdMember, EtcdMembership, EtcdadmCluster, EvictedPod, FluxKustomization,
    FluxObservation, FluxReference, FluxSource, HelmRelease, Hold, ImageReading, ImageState, Inspection, Machine,
    MachineDeployment, MachineMark, MachinePool, MachineSet, MachineTopology, Marked, Node, ObjectPresence,
    ObjectReference, Observation, Pod, Reachability, RunningImage, SourceKind, Survey, SystemRequest, TakenField,
    Unfinished, UnfitObject, UnpulledImage, VirtualAddress, WebhookOutcome, WebhookProbe, WorkloadObservation,
    conditions,
};
pub use plan::{
    Block, ClusterRole, Estimate, ExpectedTime, ExtendedSupport, GroupVersions, LostVersion, MissingHops, Plan,
    PlanInput, ProviderContracts, RULES, RenderFailure, Risk, RiskGroup, RiskKind, SkewFacts, SkewRule, StageInput,
    StagePlan, StageState, VersionStep, hops, plan, risk_groups,
};
pub use rollback::Rollback;
pub use stage::{InvalidStage, StageId, StageName};
pub use step::{after_soak, behind_gate, record, step};
pub use step::{approval_rules, approval_scope, approval_verdict, exhausted, merged_outside_window, outside_windows};
pub use verdict::{Binding, Evidence, Fact, GateVerdict, Reason};
pub use world::{ForeignChange, Pause, Prerequisite, World};
