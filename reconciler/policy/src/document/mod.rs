//! `stepgate.yaml`: what a team lays down about order, gates, approvals and sources.
//!
//! The most specific setting wins. From weak to strong: Stepgate's default for the stage, the fleet, the fleet's stage,
//! the environment, the environment's stage, the cluster, the cluster's stage. `workers` under `stages` stands for every
//! worker group and is weaker than `workers/<group>` at the same level.

mod announce;
mod duration;
mod effective;
mod levels;
mod pattern;
mod place;
mod quiet;
mod read;
mod schema;
mod sections;
mod template;
mod types;
mod wave;

pub use announce::template::{AnnouncementTemplate, AnnouncementVariable, TemplateError};
pub use announce::{AnnouncePolicy, AnnouncementKind, AnnouncementRoute, UnknownAnnouncement};
pub use duration::{DurationError, format_duration, parse_duration};
pub use effective::Openings;
pub use pattern::data::{DataPattern, DataPatternError};
pub use pattern::paths::{PathPattern, PathPatternError};
pub use place::policy_place;
pub use read::read_policy;
pub use schema::policy_schema;
pub use sections::addresses::{GivenAddresses, GivenInstanceType};
pub use sections::approvers::ApproverRules;
pub use sections::drift::{DriftIgnore, DriftPolicy, FieldPointer, FieldPointerError};
pub use sections::force_drain::ForceDrain;
pub use sections::forge::{ForgeKind, ForgePolicy};
pub use sections::in_place::InPlaceSettings;
pub use sections::injection::InjectionRule;
pub use sections::lease::{Lease, Paused};
pub use sections::notes::{NoteVersion, NoteVersionError, ReleaseNote, read_notes};
pub use sections::settings::StageSettings;
pub use sections::sources::is_mirror_name;
pub use sections::updates::{Follow, IgnoredVersion, MinorVersion, MinorVersionError, UpdatePolicy};
pub use sections::waivers::{CheckName, UnknownCheck, Waiver};
pub use template::commented_policy;
pub use types::{
    Apply, Author, BackupPolicy, BundleSelection, ClusterPolicy, Deploy, EnvironmentPolicy, FluxDecryption, FluxPolicy,
    FluxSource, Policy, ProviderSecrets, Signatures, Signing, SigningFormat, TanzuInfrastructure, TanzuMode,
    TanzuPolicy,
};
pub use wave::{First, Share, Skip, Wave, WaveApproval, WaveOrder};
