//! Forges: where people see what is proposed as pull requests, review and merge it.
//!
//! Architecture Invariant: a forge shows and asks, git decides. Nothing lands because of what a forge says: the merge lands, and that is read
//! from the deploy branch. So a forge that is away, slow or wrong delays and never misleads.
//!
//! A further forge is one file: the few calls of `ForgeApi`.

mod access;
mod app;
mod dialect;
mod error;
mod forge_http;
mod gitea;
mod github;
mod github_api;
mod gitlab;
mod patience;

pub use approvals::{
    Comment, CommitStatus, MetadataSigner, Permission, PullRequest, PullRequestState, Review, StatusState,
};

pub use access::{ForgeAccess, ForgeCredential, Forges};
pub use error::ForgeError;
pub use gitea::Gitea;
pub use github::GitHub;
pub use gitlab::GitLab;

/// A pull request to be opened.
#[derive(Clone, Copy, Debug)]
pub struct NewPullRequest<'a> {
    /// The branch it is to be merged into.
    pub base: &'a str,
    /// The branch that is to be merged.
    pub head: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its text, Markdown.
    pub body: &'a str,
}

/// What is to be changed of a pull request; what is none stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// The title.
    pub title: Option<&'a str>,
    /// The text.
    pub body: Option<&'a str>,
    /// Whether it is closed.
    pub close: bool,
}

/// The few calls that Stepgate makes. What is read may be a few seconds old.
trait ForgeApi: Send + Sync {
    fn find(&self, base: &str, head: &str) -> impl Future<Output = Result<Option<PullRequest>, ForgeError>> + Send;
    fn of_branch(&self, base: &str, head: &str) -> impl Future<Output = Result<Vec<PullRequest>, ForgeError>> + Send;
    fn recent_ones(&self, base: &str) -> impl Future<Output = Result<Vec<PullRequest>, ForgeError>> + Send;
    fn pull(&self, number: u64) -> impl Future<Output = Result<Option<PullRequest>, ForgeError>> + Send;
    fn open(&self, new: &NewPullRequest<'_>) -> impl Future<Output = Result<PullRequest, ForgeError>> + Send;
    fn edit(&self, number: u64, edit: &Edit<'_>) -> impl Future<Output = Result<(), ForgeError>> + Send;
    fn status(
        &self,
        commit: &str,
        context: &str,
    ) -> impl Future<Output = Result<Option<CommitStatus>, ForgeError>> + Send;
    fn set_status(&self, commit: &str, status: &CommitStatus) -> impl Future<Output = Result<(), ForgeError>> + Send;
    fn approvals(&self, number: u64) -> impl Future<Output = Result<Vec<Review>, ForgeError>> + Send;
    fn comments(&self, number: u64) -> impl Future<Output = Result<Vec<Comment>, ForgeError>> + Send;
    fn comment(&self, number: u64, id: Option<u64>, body: &str) -> impl Future<Output = Result<(), ForgeError>> + Send;
    fn permission(&self, user: &str) -> impl Future<Output = Result<Permission, ForgeError>> + Send;
    fn seal(&self) -> Result<MetadataSigner, ForgeError>;
}

/// A repository on a forge.
///
/// # Errors
/// Every call gives a [`ForgeError`] that says what was attempted, and where.
pub enum Forge {
    /// Gitea or Forgejo.
    Gitea(Gitea),
    /// GitHub, or an own GitHub Enterprise.
    GitHub(GitHub),
    /// GitLab.
    GitLab(GitLab),
}

/// The same call of whichever interface it is.
macro_rules! on {
    ($forge:expr, $repository:ident => $call:expr) => {
        match $forge {
            Forge::Gitea($repository) => $call.await,
            Forge::GitHub($repository) => $call.await,
            Forge::GitLab($repository) => $call.await,
        }
    };
}

#[expect(clippy::missing_errors_doc, reason = "told once, of the type")]
impl Forge {
    /// The newest pull request from `head` into `base`, open or not.
    pub async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        on!(self, repository => repository.find(base, head))
    }

    /// The newest pull requests from `head` into `base`, the newest first, open or not. Who merged or closed them may be missing:
    /// [`Forge::pull`] tells.
    pub async fn of_branch(&self, base: &str, head: &str) -> Result<Vec<PullRequest>, ForgeError> {
        on!(self, repository => repository.of_branch(base, head))
    }

    /// The pull request with this number; none where there is none.
    pub async fn pull(&self, number: u64) -> Result<Option<PullRequest>, ForgeError> {
        on!(self, repository => repository.pull(number))
    }

    /// The pull requests into `base` that were merged last, perhaps among closed ones. Who did it may be missing: [`Forge::pull`] tells.
    pub async fn recent_ones(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        on!(self, repository => repository.recent_ones(base))
    }

    /// Opens a pull request. That there is one already is [`ForgeError::Refused`]: look again.
    pub async fn open(&self, new: &NewPullRequest<'_>) -> Result<PullRequest, ForgeError> {
        on!(self, repository => repository.open(new))
    }

    /// Changes a pull request.
    pub async fn edit(&self, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        on!(self, repository => repository.edit(number, edit))
    }

    /// The status of a commit under one name.
    pub async fn status(&self, commit: &str, context: &str) -> Result<Option<CommitStatus>, ForgeError> {
        on!(self, repository => repository.status(commit, context))
    }

    /// Sets the status of a commit under its name.
    pub async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        on!(self, repository => repository.set_status(commit, status))
    }

    /// Approvals that count: the last word of each reviewer, not dismissed.
    pub async fn approvals(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        on!(self, repository => repository.approvals(number))
    }

    /// What people wrote below a pull request, oldest first.
    pub async fn comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        on!(self, repository => repository.comments(number))
    }

    /// Writes a comment, or writes the one with this number anew.
    pub async fn comment(&self, number: u64, id: Option<u64>, body: &str) -> Result<(), ForgeError> {
        on!(self, repository => repository.comment(number, id, body))
    }

    /// What somebody may do in the repository.
    pub async fn permission(&self, user: &str) -> Result<Permission, ForgeError> {
        on!(self, repository => repository.permission(user))
    }

    /// The seal of whoever has this token or App key. Another one seals differently.
    pub fn seal(&self) -> Result<MetadataSigner, ForgeError> {
        match self {
            Self::Gitea(repository) => repository.seal(),
            Self::GitHub(repository) => repository.seal(),
            Self::GitLab(repository) => repository.seal(),
        }
    }
}
