//! Plans, stages, gates and the step function of a rollout.
//!
//! Everything here is a value or a pure function of values: no clock, no files, no network. The controller observes a
//! cluster and two git trees, hands them over as a [`World`], and carries out the [`Effect`]s that come back.
//!
//! Architecture Invariant: this package decides and never acts. Time comes in as an argument.
//!
//! Architecture Invariant: what is unknown, stale, unreachable or from the future makes a gate wait, with a reason.

mod announcement;
mod approval;
mod before;
mod chain;
mod change;
pub mod check;
mod deploy;
pub mod dump;
mod edit;
mod effect;
pub mod eksctl;
mod eviction;
mod expectation;
mod fast_path;
pub mod forcing;
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
mod tanzu;
mod trace;
mod verdict;
mod wave;
mod world;

pub use announcement::{Announcement, AnnouncementId, RolloutStanding, announcements, standing};
pub use approval::{ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, Approved, People, Retry};
pub use before::Before;
pub use chain::{Chain, ChainBundle, ChainGroup, ChainSearch, ChainTarget, NoWay};
pub use change::{ArtifactChange, ChangeClass, ComponentChange};
pub use deploy::{DeployCommit, DeployHead, KnownCommit, Landed, Landing, StageTrailer};
pub use edit::AcceptedEdit;
pub use effect::{ApprovalRequest, ClusterAct, Effect, EtcdAct, LedgerCommit, MachineOwner, StageCommit};
pub use eksctl::way_back::WayBack;
pub use eviction::{EvictionAnswer, drained_nodes, eviction_answer};
pub use expectation::{
    ADDON_NAMESPACE, AddonWorkload, AddonsExpectation, AttemptedPart, AttemptsExpectation, ChecksExpectation,
    ControlPlaneAddress, ControlPlaneExpectation, EksExpectation, EksPart, EksaClusterExpectation, EtcdExpectation,
    Expectation, ExpectedAddon, ExpectedAddonState, Extent, GivenAddresses, KubeVipExpectation, KubeletVersions,
    MachineOrderRules, MembersHeard, NewGroup, OldMembers, ReplacedGroup, RollingNodes, SecretsExpectation,
    TanzuExpectation, TanzuMachines, TanzuPart, VerifiedExpectation, WorkersExpectation, addon_workload,
};
pub use fast_path::{FastPath, Precheck, Reading, Waiting, WatchEvidence};
pub use gate::{
    Gate, MachineOrder, MarkChange, MarkKind, RunningOrder, UnaskedRollout, control_plane_gate, flux_health,
    kept_nodes, machine_order, unasked_rollout, used_up, workers_gate,
};
pub use history::{GateHistory, GateKey, Streak};
pub use identity::{ClusterIdentity, Identification};
pub use ledger::{EtcdBefore, Ledger, LedgerFormat, LedgerState, StageRecord, StageRecordKind, UnknownLedgerFormat};
pub use lineage::Lineage;
pub use observation::{
    ATTEMPTS, AdmissionWebhook, ApiReading, ApiRequests, ApiUse, ApiUseKind, Artifacts, Attempts, BRAKE, BackupFailure,
    BackupReport, Certificate, Condition, ConditionStatus, ControlPlane, ControlPlaneKind, ControlPlaneReference,
    CustomResourceDefinition, DELETE_FIRST, DaemonSet, Deployment, DisruptionBudget, DrainReading, DrainedPod,
    DrainingNode, Drift, DriftKind, EKSA_CLUSTERS, EksAddon, EksAutoScalingGroup, EksControlPlane, EksInsight,
    EksInstanceType, EksIssue, EksNodeGroup, EksReading, EksStack, EksSubnet, EksUpdate, EksaCluster, EksctlHold,
    EksctlOutcome, EksctlRun, EtcdAlarm, EtcdDatabase, EtcdDisk, EtcdHealth, EtcdInspection, EtcdMember,
    EtcdMembership, EtcdadmCluster, EvictedPod, FailedAttempt, FailingPod, FargatePod, FargateReading, FargateWorkload,
    FluxKustomization, FluxObservation, FluxReference, FluxSource, ForcedPods, HelmRelease, Hold, IN_PLACE_HOOKS,
    ImageReading, ImageState, InPlaceState, InPlaceUpgrade, Inspection, LoginReading, LoginSource, MADE_IN, Machine,
    MachineDeployment, MachineHardware, MachineId, MachineMark, MachinePool, MachineSet, MachineTopology, Marked, Node,
    NodeOrigin, NodeRoom, ObjectOrigin, ObjectPresence, ObjectReference, Observation, PlacedPod, Pod, Reachability,
    Resources, RunningImage, RuntimeExtension, RuntimeExtensions, Serving, SidecarReading, SourceKind, Survey,
    SystemRequest, TANZU_CLUSTER, TakenField, TanzuAddon, TanzuAddonState, TanzuCluster, TanzuImage, Templates,
    Termination, UnattachedVolume, Unfinished, UnfitObject, UnpulledImage, VirtualAddress, VpcCni, WebhookOutcome,
    WebhookProbe, WorkloadObservation, conditions,
};
pub use plan::{
    Block, Chaining, ClusterRole, EksctlStages, Estimate, ExpectedTime, ExtendedSupport, GroupVersions, LostVersion,
    MinorBack, MissingHops, NodeTime, PastDurations, Plan, PlanInput, ProviderContracts, RULES, RenderFailure, Risk,
    RiskGroup, RiskKind, SkewFacts, SkewRule, StageAtTheEnd, StageInput, StagePlan, StageState, StageTime, TanzuStages,
    VersionStep, hops, plan, risk_groups,
};
pub use rollback::Rollback;
pub use stage::{InvalidStage, StageId, StageName};
pub use step::{after_soak, behind_gate, record, step};
pub use step::{
    approval_rules, approval_scope, approval_verdict, exhausted, fitting_nowhere, merged_outside_window,
    outside_windows,
};
pub use tanzu::phase::TanzuPhase;
pub use tanzu::standing::{AddonStanding, TanzuStanding, tanzu_standing};
pub use trace::{Span, Spans, spans};
pub use verdict::{Binding, Evidence, Fact, GateVerdict, Reason};
pub use wave::{
    Binds, Decision, Standing, Turn, WaveAnswer, WaveAsks, WaveConsent, WaveHold, WaveMember, WaveQuestion, WaveState,
    WaveTurns, WaveWord, WaveWords, asked_plans, places, ranked, tolerated_failures, wave_consent, wave_state,
    wave_turn,
};
pub use world::{ForeignChange, Pause, Prerequisite, World};
