//! New versions: which of those that are published, or that the policy names, a fleet may go to next, and the edits of its
//! source branch that ask for them.
//!
//! Whether the plan refuses one shows only when it is planned.

mod bundle;
mod kubernetes;

pub use bundle::{BundleEdits, PassedOver, Present, UpdateError, bundle_edits, candidates, present};
pub(crate) use bundle::{built_version, declared_version};
pub use kubernetes::{KubernetesUpdate, kubernetes_updates};

/// What a file is to hold.
pub type FileEdits = std::collections::BTreeMap<domain::RepoPath, std::sync::Arc<[u8]>>;
