//! What people changed of a stage before they approved it.

use serde::{Deserialize, Serialize};

use crate::stage::StageId;
use domain::TreeDigest;

/// A file that people changed on a proposed branch, as it is committed instead of what is rendered. It stays so as long as the source branch
/// renders the same for it; then it is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedEdit {
    /// The file, from the top of the deploy tree.
    pub path: String,
    /// The stage that commits it.
    pub stage: StageId,
    /// Digest of the file as it is rendered.
    pub rendered: TreeDigest,
    /// Digest of the file as people want it.
    pub edited: TreeDigest,
    /// Who changed it, by git's word.
    pub by: Vec<String>,
}
