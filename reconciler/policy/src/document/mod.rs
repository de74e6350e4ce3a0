//! `stepgate.yaml`: what a team lays down about order, gates, approvals and sources.
//!
//! The most specific setting wins. From weak to strong: Stepgate's default for the stage, the fleet, the fleet's stage,
//! the environment, the environment's stage, the cluster, the cluster's stage. `workers` under `stages` stands for every
//! worker group and is weaker than `workers/<group>` at the same level.

mod approvers;
mod data;
mod duration;
mod effective;
mod forge;
mod levels;
mod paths;
mod pattern;
mod place;
mod read;
mod schema;
mod settings;
mod sources;
mod template;
mod types;
mod waivers;
mod window;

pub use approvers::ApproverRules;
pub use data::{DataPattern, DataPatternError};
pub use duration::{DurationError, format_duration, parse_duration};
pub use forge::{ForgeKind, ForgePolicy};
pub use paths::{PathPattern, PathPatternError};
pub use place::policy_place;
pub use read::read_policy;
pub use schema::policy_schema;
pub use settings::StageSettings;
pub use sources::is_mirror_name;
pub use template::commented_policy;
pub use types::{
    Apply, Author, BackupPolicy, BundleSelection, ClusterPolicy, Deploy, EnvironmentPolicy, FluxDecryption, FluxPolicy,
    FluxSource, Policy, ProviderSecrets, Signatures, Signing, SigningFormat, Wave,
};
pub use waivers::{CheckName, UnknownCheck, Waiver};
