//! What a team lays down in `stepgate.yaml`, as it is written and as it holds for a stage of a cluster.
//!
//! [`read_policy`] reads the file. [`Policy::stage_policy`] and [`Policy::plan_policy`] say what holds, [`ApprovalRules`] whose approvals are
//! enough, and [`Windows`] when. There is no second form of any of it.

mod document;
mod freeze;
#[cfg(test)]
mod fuzzed;
mod rules;
mod stage;
mod window;

pub use document::{
    AnnouncePolicy, AnnouncementKind, AnnouncementRoute, AnnouncementTemplate, AnnouncementVariable, Apply,
    ApproverRules, Author, BackupPolicy, BundleSelection, CheckName, ClusterPolicy, DataPattern, DataPatternError,
    Deploy, DriftIgnore, DriftPolicy, DurationError, EnvironmentPolicy, FieldPointer, FieldPointerError, First,
    FluxDecryption, FluxPolicy, FluxSource, Follow, ForceDrain, ForgeKind, ForgePolicy, GivenAddresses,
    GivenInstanceType, IgnoredVersion, InPlaceSettings, InjectionRule, Lease, MinorVersion, MinorVersionError,
    NoteVersion, NoteVersionError, Openings, PathPattern, PathPatternError, Paused, Policy, ProviderSecrets,
    ReleaseNote, Share, Signatures, Signing, SigningFormat, Skip, StageSettings, TanzuInfrastructure, TanzuMode,
    TanzuPolicy, TemplateError, UnknownAnnouncement, UnknownCheck, UpdatePolicy, Waiver, Wave, WaveApproval, WaveOrder,
    commented_policy, format_duration, is_mirror_name, parse_duration, policy_place, policy_schema, read_notes,
    read_policy,
};
pub use freeze::{Freeze, FreezeDays, YearDay, YearDayError};
pub use rules::{
    ApprovalRules, CheckBox, Discounted, GivenApproval, GivenTick, InvalidPerson, Means, Missing, Override, Owner,
    Owners, OwnersDialect, OwnersError, OwningEntry, Person, Question, Roster, TickedBox, Verdict, ticked,
};
pub use stage::{
    Approval, ControlPlaneGate, InPlaceDriver, MachinePolicy, OnDecline, OnFailure, PlanPolicy, RolloutStrategy,
    StagePolicy,
};
pub use window::{Begin, Closed, MaintenanceWindow, TimeZone, UnknownTimeZone, Week, Weekday, WindowDay, Windows};
