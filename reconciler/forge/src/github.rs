//! GitHub and GitHub Enterprise (REST, version 2022-11-28).

use reqwest::Url;
use serde::Deserialize;

use super::dialect::Dialect;
use super::error::ForgeError;
use super::forge_http::{Call, ForgeHttp};
use super::github_api::{GitHubApi, Pull, User};
use super::{PullRequest, PullRequestState};

/// How many pull requests of one branch are looked at: each has its whole text with it.
const NEWEST: (&str, &str) = ("per_page", "10");

/// A repository on GitHub.
pub struct GitHub(GitHubApi);

#[derive(Deserialize)]
struct Issue {
    closed_by: Option<User>,
}

impl GitHub {
    /// Where the interface of the GitHub at `url` is: github.com has a host of its own for it, an own server a path. And what it takes for answers.
    pub(super) fn interface(url: Url) -> (Url, &'static [&'static str], &'static str) {
        let accept = "application/vnd.github+json";
        let mut hosted = url.clone();
        if url.host_str() == Some("github.com") && hosted.set_host(Some("api.github.com")).is_ok() {
            return (hosted, &[], accept);
        }
        (url, &["api", "v3"], accept)
    }

    pub(super) fn new(wire: ForgeHttp, root: &'static [&'static str], repository: &str) -> Self {
        Self(GitHubApi::new(wire, root, repository, ("per_page", "100")))
    }

    /// The same with who merged or closed it, which lists do not tell.
    async fn by_whom(&self, pull: PullRequest) -> Result<PullRequest, ForgeError> {
        let number = pull.number.to_string();
        let state = match pull.state {
            PullRequestState::Open => PullRequestState::Open,
            PullRequestState::Merged { at, .. } => {
                let action = self.0.doing(&format!("read who merged #{number}"));
                let whole: Option<Pull> =
                    self.0.wire.get(&Call::get(&self.0.path(&["pulls", &number]), action)).await?;
                let by = whole.and_then(|whole| whole.merged_by).map(|user| user.login);
                PullRequestState::Merged { by, at }
            }
            PullRequestState::Closed { .. } => {
                let action = self.0.doing(&format!("read who closed #{number}"));
                let issue: Option<Issue> =
                    self.0.wire.get(&Call::get(&self.0.path(&["issues", &number]), action)).await?;
                PullRequestState::Closed { by: issue.and_then(|issue| issue.closed_by).map(|user| user.login) }
            }
        };
        Ok(PullRequest { state, ..pull })
    }
}

impl Dialect for GitHub {
    const COMMENTS_HAVE_PAGES: bool = true;

    fn api(&self) -> &GitHubApi {
        &self.0
    }

    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let path = self.0.path(&["pulls"]);
        let from = format!("{}:{head}", self.0.owner());
        let query = [
            ("state", "all"),
            ("head", from.as_str()),
            ("base", base),
            ("sort", "created"),
            ("direction", "desc"),
            ("per_page", "1"),
        ];
        let action = self.0.doing(&format!("look for the pull request of {head}"));
        let call = Call { query: &query, ..Call::get(&path, action.clone()) };
        let found: Option<Vec<Pull>> = self.0.wire.get(&call).await?;
        let newest = found.ok_or(ForgeError::NotFound { action })?.into_iter().next();
        let own = match newest.map(|pull| self.0.pull(pull)) {
            // That of a fork with the same owner: ours is an earlier one.
            Some(None) => self.of_branch(base, head).await?.into_iter().next(),
            own => own.flatten(),
        };
        match own {
            Some(pull) => self.by_whom(pull).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of_branch(&self, base: &str, head: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let from = format!("{}:{head}", self.0.owner());
        let query =
            [("state", "all"), ("head", from.as_str()), ("base", base), ("sort", "created"), ("direction", "desc")];
        let action = self.0.doing(&format!("look for the pull requests of {head}"));
        self.0.newest_pulls(&query, action, NEWEST).await
    }

    async fn recent_ones(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let query = [("state", "closed"), ("base", base), ("sort", "updated"), ("direction", "desc")];
        self.0.first_pulls(&query, self.0.doing("list the merged pull requests")).await
    }

    async fn pull(&self, number: u64) -> Result<Option<PullRequest>, ForgeError> {
        let action = self.0.doing(&format!("read pull request #{number}"));
        match self.0.whole(&number.to_string(), action).await? {
            Some(pull) if matches!(pull.state, PullRequestState::Closed { .. }) => self.by_whom(pull).await.map(Some),
            pull => Ok(pull),
        }
    }
}
