//! Gitea and Forgejo (`/api/v1`).

use serde::Deserialize;
use serde_json::Value;

use super::dialect::Dialect;
use super::error::ForgeError;
use super::forge_http::{Call, ForgeHttp};
use super::github_api::{GitHubApi, Pull, User};
use super::{PullRequest, PullRequestState};

/// A repository on Gitea or Forgejo.
pub struct Gitea(GitHubApi);

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    user: Option<User>,
}

impl Gitea {
    pub(super) fn new(wire: ForgeHttp, repository: &str) -> Self {
        Self(GitHubApi::new(wire, &["api", "v1"], repository, ("limit", "50")))
    }

    /// The same with who closed it.
    async fn by_whom(&self, pull: PullRequest) -> Result<PullRequest, ForgeError> {
        if pull.state != (PullRequestState::Closed { by: None }) {
            return Ok(pull);
        }
        let number = pull.number.to_string();
        let path = self.0.path(&["issues", &number, "timeline"]);
        let action = self.0.doing(&format!("read who closed #{number}"));
        let call = Call { query: &[("limit", "50")], ..Call::get(&path, action) };
        let events: Vec<Event> = self.0.wire.list(&call).await?;
        let close = events.into_iter().rev().find(|event| event.kind == "close");
        let by = close.and_then(|event| event.user).map(|user| user.login);
        Ok(PullRequest { state: PullRequestState::Closed { by }, ..pull })
    }
}

impl Dialect for Gitea {
    // Gitea gives all of them at once.
    const COMMENTS_HAVE_PAGES: bool = false;

    fn api(&self) -> &GitHubApi {
        &self.0
    }

    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let action = self.0.doing(&format!("look for the pull request of {head}"));
        // Slashes of the head's name stay: that part of the path is everything after the base.
        let path: Vec<&str> = self.0.path(&["pulls", base]).into_iter().chain(head.split('/')).collect();
        let Some(found) = self.0.wire.get::<Pull>(&Call::get(&path, action.clone())).await? else {
            // A repository that is not seen looks the same as one without such a pull request.
            let path = self.0.path(&[]);
            return match self.0.wire.get::<Value>(&Call::get(&path, action.clone())).await? {
                Some(_) => Ok(None),
                None => Err(ForgeError::NotFound { action }),
            };
        };
        let found = self.0.pull(found);
        if let Some(found) = found.as_ref().filter(|found| found.state == PullRequestState::Open) {
            return Ok(Some(found.clone()));
        }
        // Of several, any one is found that way. Once one is closed, the newest is looked for.
        let all = self.0.pulls(&[("state", "all"), ("base_branch", base), ("sort", "recentupdate")], action).await?;
        let newest = all.into_iter().filter(|pull| pull.branch == head).chain(found).max_by_key(|pull| pull.number);
        match newest {
            Some(newest) => self.by_whom(newest).await.map(Some),
            None => Ok(None),
        }
    }

    async fn of_branch(&self, base: &str, head: &str) -> Result<Vec<PullRequest>, ForgeError> {
        // Lists cannot be asked for one branch. Those that were changed last are enough: an open one that is not among them is found when
        // another is opened.
        let query = [("state", "all"), ("base_branch", base), ("sort", "recentupdate")];
        let action = self.0.doing(&format!("look for the pull requests of {head}"));
        let mut pulls = self.0.first_pulls(&query, action).await?;
        pulls.retain(|pull| pull.branch == head);
        pulls.sort_by_key(|pull| std::cmp::Reverse(pull.number));
        Ok(pulls)
    }

    async fn recent_ones(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let query = [("state", "closed"), ("base_branch", base), ("sort", "recentupdate")];
        self.0.first_pulls(&query, self.0.doing("list the merged pull requests")).await
    }

    async fn pull(&self, number: u64) -> Result<Option<PullRequest>, ForgeError> {
        let action = self.0.doing(&format!("read pull request #{number}"));
        match self.0.whole(&number.to_string(), action).await? {
            Some(pull) => self.by_whom(pull).await.map(Some),
            None => Ok(None),
        }
    }
}
