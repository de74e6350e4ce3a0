//! `stepgate.yaml`: what a team lays down about order, gates, approvals and sources.
//!
//! The most specific setting wins. From weak to strong: Stepgate's default for the stage, the fleet, the fleet's stage,
//! the environment, the environment's stage, the cluster, the cluster's stage. `workers` under `stages` stands for every
//! worker group and is weaker than `workers/<group>` at the same level.

mod approvers;
mod data;
mod duration;
mod forge;
mod levels;
mod pattern;
mod read;
mod sources;
mod template;
mod types;
mod window;

pub use approvers::ApproverRules;
pub use data::{DataPattern, DataPatternError};
pub use duration::{DurationError, format_duration, parse_duration};
pub use forge::{ForgeKind, ForgePolicy};
pub use read::read_policy;
pub use template::commented_policy;
pub use types::{
    Apply, Approval, Author, BundleSelection, ClusterPolicy, Deploy, EnvironmentPolicy, FluxPolicy, FluxSource,
    OnFailure, Policy, ProviderSecrets, Signing, SigningFormat, StagePolicy, StageSettings, Wave, Week, Window,
    WindowDay,
};
