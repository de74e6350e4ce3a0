//! What everything else is named by: clusters, commits, digests, paths of the fleet repository, and what is wrong at such a path.

mod branch_name;
mod identifier;
mod nearest;
mod object_id;
mod path;
mod problem;
mod yaml_problem;

pub use branch_name::{BranchName, BranchNameError};
pub use identifier::{ClusterName, CommitId, GroupName, InvalidIdentifier, PlanDigest, RolloutId, TreeDigest};
pub use nearest::nearest;
pub use object_id::ObjectId;
pub use path::{RepoPath, RepoPathError};
pub use problem::{Problem, ProblemCode, Scope, Severity};
pub use yaml_problem::{yaml_problem, yaml_problem_code};
