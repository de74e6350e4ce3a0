//! Commits: what a snapshot holds, what happened on a branch, and making the next commit.

pub(crate) mod chain;
pub(crate) mod changes;
pub(crate) mod commit;
pub(crate) mod commit_fields;
pub(crate) mod deploy_history;
pub(crate) mod difference;
pub(crate) mod listing;
pub(crate) mod range;
pub(crate) mod sign;
pub(crate) mod snapshot;
pub(crate) mod trailer;
