//! What differs between forges that speak GitHub's API, and the calls that are the same for all of them.

use super::error::ForgeError;
use super::github_api::GitHubApi;
use super::{Comment, CommitStatus, Edit, ForgeApi, MetadataSigner, NewPullRequest, Permission, PullRequest, Review};

/// A forge that speaks GitHub's API in its own way.
pub(super) trait Dialect: Send + Sync {
    /// Whether the comments of a pull request come in pages.
    const COMMENTS_HAVE_PAGES: bool;

    /// The calls that all dialects share.
    fn api(&self) -> &GitHubApi;

    /// As [`Forge::find`](super::Forge::find).
    fn find(&self, base: &str, head: &str) -> impl Future<Output = Result<Option<PullRequest>, ForgeError>> + Send;

    /// As [`Forge::of_branch`](super::Forge::of_branch).
    fn of_branch(&self, base: &str, head: &str) -> impl Future<Output = Result<Vec<PullRequest>, ForgeError>> + Send;

    /// As [`Forge::recent_ones`](super::Forge::recent_ones).
    fn recent_ones(&self, base: &str) -> impl Future<Output = Result<Vec<PullRequest>, ForgeError>> + Send;

    /// As [`Forge::pull`](super::Forge::pull).
    fn pull(&self, number: u64) -> impl Future<Output = Result<Option<PullRequest>, ForgeError>> + Send;
}

impl<D: Dialect> ForgeApi for D {
    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        Dialect::find(self, base, head).await
    }

    async fn of_branch(&self, base: &str, head: &str) -> Result<Vec<PullRequest>, ForgeError> {
        Dialect::of_branch(self, base, head).await
    }

    async fn recent_ones(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        Dialect::recent_ones(self, base).await
    }

    async fn pull(&self, number: u64) -> Result<Option<PullRequest>, ForgeError> {
        Dialect::pull(self, number).await
    }

    async fn open(&self, new: &NewPullRequest<'_>) -> Result<PullRequest, ForgeError> {
        self.api().open(new).await
    }

    async fn edit(&self, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        self.api().edit(number, edit).await
    }

    async fn status(&self, commit: &str, context: &str) -> Result<Option<CommitStatus>, ForgeError> {
        self.api().status(commit, context).await
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        self.api().set_status(commit, status).await
    }

    async fn approvals(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        self.api().approvals(number).await
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        self.api().comments(number, D::COMMENTS_HAVE_PAGES).await
    }

    async fn comment(&self, number: u64, id: Option<u64>, body: &str) -> Result<(), ForgeError> {
        self.api().comment(number, id, body).await
    }

    async fn permission(&self, user: &str) -> Result<Permission, ForgeError> {
        self.api().permission(user).await
    }

    fn seal(&self) -> Result<MetadataSigner, ForgeError> {
        self.api().seal()
    }
}
