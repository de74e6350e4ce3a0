//! Proposals as texts and values: what a pull request says, which proposals belong together, what
//! people answer, and what their answers count for.
//!
//! Architecture Invariant: everything here is a value or a pure function of values. A forge shows
//! these texts and git carries these commits; neither is asked here.

pub mod comments;
#[cfg(test)]
mod fuzzed;
pub mod group;
pub mod metadata;
mod metadata_signer;
mod pull_request;
pub mod status;
pub mod take_up;
pub mod text;
pub mod words;

pub use metadata_signer::MetadataSigner;
pub use pull_request::{Comment, CommitStatus, Permission, PullRequest, PullRequestState, Review, StatusState};

/// The beginning of the name of every proposed branch.
pub const PREFIX: &str = "stepgate/";
