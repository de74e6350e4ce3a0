//! What a team lays down in `stepgate.yaml`, as it is written and as it holds for a stage of a cluster.
//!
//! [`read_policy`] reads the file. [`Policy::stage_policy`] and [`Policy::plan_policy`] say what holds, [`ApprovalRules`] whose approvals are
//! enough, and [`Windows`] when. There is no second form of any of it.

mod document;
mod rules;
mod stage;
mod window;

pub use document::{
    Apply, ApproverRules, Author, BackupPolicy, BundleSelection, CheckName, ClusterPolicy, DataPattern,
    DataPatternError, Deploy, DurationError, EnvironmentPolicy, FluxDecryption, FluxPolicy, FluxSource, ForgeKind,
    ForgePolicy, PathPattern, PathPatternError, Policy, ProviderSecrets, Signatures, Signing, SigningFormat,
    StageSettings, UnknownCheck, Waiver, Wave, commented_policy, format_duration, is_mirror_name, parse_duration,
    policy_place, policy_schema, read_policy,
};
pub use rules::{
    ApprovalRules, Discounted, GivenApproval, InvalidPerson, Means, Missing, Override, Owner, Owners, OwnersDialect,
    OwnersError, OwningEntry, Person, Question, Roster, Verdict,
};
pub use stage::{Approval, ControlPlaneGate, MachinePolicy, OnFailure, PlanPolicy, StagePolicy};
pub use window::{MaintenanceWindow, TimeZone, UnknownTimeZone, Week, Weekday, WindowDay, Windows};
