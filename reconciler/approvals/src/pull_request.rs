//! Pull requests, as far as an approval depends on them: what a forge tells, and what it is told.

use jiff::Timestamp;

/// Where a pull request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    /// It can be merged.
    Open,
    /// It was closed and not merged.
    Closed {
        /// By whom, where the forge tells.
        by: Option<String>,
    },
    /// It was merged.
    Merged {
        /// By whom, where the forge tells.
        by: Option<String>,
        /// When.
        at: Option<Timestamp>,
    },
}

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// The branch that is to be merged.
    pub branch: String,
    /// Where people see it.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text, Markdown.
    pub body: String,
    /// The commit that its branch holds, in hexadecimal; empty when the branch is gone and the forge has forgotten.
    pub head: String,
    /// Who opened it.
    pub author: String,
    /// How many comments it has, where the forge tells that with it.
    pub comments: Option<u64>,
    /// Where it stands.
    pub state: PullRequestState,
}

/// What Stepgate says of a proposed commit, for branch protection to require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusState {
    /// Not yet to be merged.
    Pending,
    /// May be merged.
    Success,
    /// Not to be merged.
    Failure,
}

impl StatusState {
    /// The word that Gitea and GitHub use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// The status of a commit under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    /// What it says.
    pub state: StatusState,
    /// The name that branch protection requires, `stepgate/<stage>`.
    pub context: String,
    /// Why, in at most 140 characters.
    pub description: String,
}

/// Somebody's approval of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// Who.
    pub by: String,
    /// The commit that was looked at, where the forge tells.
    pub commit: Option<String>,
}

/// What somebody wrote below a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its number; later comments have higher ones.
    pub id: u64,
    /// Who.
    pub by: String,
    /// Markdown.
    pub body: String,
    /// Whether it was changed since it was written: by its author, or by somebody else in that name.
    pub edited: bool,
}

/// What somebody may do in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Nothing, or not known there.
    None,
    /// See it.
    Read,
    /// Push and merge, or more.
    Write,
}
