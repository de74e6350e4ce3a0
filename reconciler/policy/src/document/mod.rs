//! `stepgate.yaml`: what a team lays down about order, gates, approvals and sources.
//!
//! The most specific setting wins. From weak to strong: Stepgate's default for the stage, the fleet, the fleet's stage,
//! the environment, the environment's stage, the cluster, the cluster's stage. `workers` under `stages` stands for every
//! worker group and is weaker than `workers/<group>` at the same level.

mod addresses;
mod announce;
mod announce_template;
mod approvers;
mod data;
mod drift;
mod duration;
mod effective;
mod force_drain;
mod forge;
mod in_place;
mod injection;
mod lease;
mod levels;
mod notes;
mod paths;
mod pattern;
mod place;
mod quiet;
mod read;
mod schema;
mod settings;
mod sources;
mod tanzu;
mod template;
mod types;
mod updates;
mod waivers;
mod wave;
mod waves;
mod window;

pub use addresses::{GivenAddresses, GivenInstanceType};
pub use announce::{AnnouncePolicy, AnnouncementKind, AnnouncementRoute, UnknownAnnouncement};
pub use announce_template::{AnnouncementTemplate, AnnouncementVariable, TemplateError};
pub use approvers::ApproverRules;
pub use data::{DataPattern, DataPatternError};
pub use drift::{DriftIgnore, DriftPolicy, FieldPointer, FieldPointerError};
pub use duration::{DurationError, format_duration, parse_duration};
pub use effective::Openings;
pub use force_drain::ForceDrain;
pub use forge::{ForgeKind, ForgePolicy};
pub use in_place::InPlaceSettings;
pub use injection::InjectionRule;
pub use lease::{Lease, Paused};
pub use notes::{NoteVersion, NoteVersionError, ReleaseNote, read_notes};
pub use paths::{PathPattern, PathPatternError};
pub use place::policy_place;
pub use read::read_policy;
pub use schema::policy_schema;
pub use settings::StageSettings;
pub use sources::is_mirror_name;
pub use template::commented_policy;
pub use types::{
    Apply, Author, BackupPolicy, BundleSelection, ClusterPolicy, Deploy, EnvironmentPolicy, FluxDecryption, FluxPolicy,
    FluxSource, Policy, ProviderSecrets, Signatures, Signing, SigningFormat, TanzuInfrastructure, TanzuMode,
    TanzuPolicy,
};
pub use updates::{Follow, IgnoredVersion, MinorVersion, MinorVersionError, UpdatePolicy};
pub use waivers::{CheckName, UnknownCheck, Waiver};
pub use wave::{First, Share, Skip, Wave, WaveApproval, WaveOrder};
