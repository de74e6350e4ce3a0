//! What GitHub and the forges that took over its form share: a repository at `repos/<owner>/<name>`, and the same words for the same things.

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ForgeError;
use super::forge_http::{Call, ForgeHttp};
use super::{
    Comment, CommitStatus, Edit, MetadataSigner, NewPullRequest, Permission, PullRequest, PullRequestState, Review,
    StatusState,
};

/// A repository on such a forge.
pub(super) struct GitHubApi {
    pub wire: ForgeHttp,
    /// Path of the interface below the address of the wire.
    root: &'static [&'static str],
    owner: String,
    name: String,
    /// How many entries a page is asked to have, and how that is said.
    page: (&'static str, &'static str),
}

#[derive(Deserialize)]
pub(super) struct User {
    pub login: String,
}

#[derive(Deserialize)]
struct Branch {
    /// The branch's name, with the owner before it where the forge (or a fork) says so.
    label: String,
    #[serde(default)]
    sha: String,
    /// The repository that it lies in; none where that is gone, as a fork may be.
    repo: Option<Located>,
}

/// The branch that something is to be merged into.
#[derive(Deserialize)]
struct Base {
    repo: Option<Located>,
}

/// A repository by what never changes of it.
#[derive(Deserialize)]
struct Located {
    id: u64,
}

#[derive(Deserialize)]
pub(super) struct Pull {
    pub number: u64,
    html_url: String,
    title: String,
    body: Option<String>,
    pub state: String,
    merged_at: Option<Timestamp>,
    pub merged_by: Option<User>,
    comments: Option<u64>,
    user: Option<User>,
    head: Branch,
    base: Option<Base>,
}

#[derive(Deserialize)]
struct Statuses {
    #[serde(default)]
    statuses: Option<Vec<Status>>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(alias = "status")]
    state: String,
    context: String,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Reviewed {
    user: Option<User>,
    state: String,
    commit_id: Option<String>,
    #[serde(default)]
    dismissed: bool,
}

#[derive(Deserialize)]
struct Commented {
    id: u64,
    user: Option<User>,
    body: Option<String>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Granted {
    permission: String,
}

impl GitHubApi {
    /// The repository `<owner>/<name>`, whose lists are asked for in pages of `page`.
    pub fn new(
        wire: ForgeHttp,
        root: &'static [&'static str],
        repository: &str,
        page: (&'static str, &'static str),
    ) -> Self {
        let (owner, name) = repository.split_once('/').unwrap_or((repository, ""));
        Self { wire, root, owner: owner.to_owned(), name: name.to_owned(), page }
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let own = ["repos", &self.owner, &self.name];
        self.root.iter().copied().chain(own).chain(rest.iter().copied()).collect()
    }

    pub fn doing(&self, what: &str) -> String {
        format!("{what} in {}/{}", self.owner, self.name)
    }

    /// A pull request with what lists tell of it; none for one that comes from a fork, whose branch is none of ours. A fork may have the same
    /// owner, so the ids of the repositories tell.
    pub fn pull(&self, pull: Pull) -> Option<PullRequest> {
        let branch = match pull.head.label.split_once(':') {
            None => pull.head.label,
            Some((owner, branch)) if owner == self.owner => branch.to_owned(),
            Some(_) => return None,
        };
        let own = pull.base.and_then(|base| base.repo).map(|located| located.id);
        if own.is_some() && pull.head.repo.map(|located| located.id) != own {
            return None;
        }
        let state = if pull.state == "open" {
            PullRequestState::Open
        } else if pull.merged_at.is_some() {
            PullRequestState::Merged { by: pull.merged_by.map(|user| user.login), at: pull.merged_at }
        } else {
            PullRequestState::Closed { by: None }
        };
        Some(PullRequest {
            number: pull.number,
            branch,
            url: pull.html_url,
            title: pull.title,
            body: pull.body.unwrap_or_default(),
            head: pull.head.sha,
            author: pull.user.map(|user| user.login).unwrap_or_default(),
            comments: pull.comments,
            state,
        })
    }

    /// The pull request with this number, as it is told by itself.
    pub async fn whole(&self, number: &str, action: String) -> Result<Option<PullRequest>, ForgeError> {
        let path = self.path(&["pulls", number]);
        let found: Option<Pull> = self.wire.get(&Call::get(&path, action)).await?;
        Ok(found.and_then(|pull| self.pull(pull)))
    }

    /// All pull requests that a query finds.
    pub async fn pulls(&self, query: &[(&str, &str)], action: String) -> Result<Vec<PullRequest>, ForgeError> {
        let path = self.path(&["pulls"]);
        let query: Vec<(&str, &str)> = query.iter().copied().chain([self.page]).collect();
        let found: Vec<Pull> = self.wire.list(&Call { query: &query, ..Call::get(&path, action) }).await?;
        Ok(found.into_iter().filter_map(|pull| self.pull(pull)).collect())
    }

    /// The first page of what a query finds.
    pub async fn first_pulls(&self, query: &[(&str, &str)], action: String) -> Result<Vec<PullRequest>, ForgeError> {
        self.newest_pulls(query, action, self.page).await
    }

    /// A page of this size of what a query finds.
    pub async fn newest_pulls(
        &self,
        first: &[(&str, &str)],
        action: String,
        page: (&str, &str),
    ) -> Result<Vec<PullRequest>, ForgeError> {
        let path = self.path(&["pulls"]);
        let query: Vec<(&str, &str)> = first.iter().copied().chain([page]).collect();
        let call = Call { query: &query, ..Call::get(&path, action.clone()) };
        let found: Option<Vec<Pull>> = self.wire.get(&call).await?;
        let found = found.ok_or_else(|| ForgeError::NotFound { action: action.clone() })?;
        let all = found.len();
        let own: Vec<PullRequest> = found.into_iter().filter_map(|pull| self.pull(pull)).collect();
        // Those of forks must not crowd out our own.
        let is_full = page.1.parse::<usize>().is_ok_and(|size| all >= size);
        if own.len() < all && is_full { self.pulls(first, action).await } else { Ok(own) }
    }

    pub async fn open(&self, new: &NewPullRequest<'_>) -> Result<PullRequest, ForgeError> {
        let path = self.path(&["pulls"]);
        let body = json!({"base": new.base, "head": new.head, "title": new.title, "body": new.body});
        let action = self.doing(&format!("open a pull request for {}", new.head));
        let opened: Pull = self.wire.send(&Call::send(Method::POST, &path, body, action.clone())).await?;
        let reason = "the pull request is of another repository".to_owned();
        self.pull(opened).ok_or(ForgeError::Unintelligible { action, reason })
    }

    pub async fn edit(&self, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        let text = number.to_string();
        let path = self.path(&["pulls", &text]);
        let mut body = serde_json::Map::new();
        body.extend(edit.title.map(|title| ("title".to_owned(), Value::from(title))));
        body.extend(edit.body.map(|text| ("body".to_owned(), Value::from(text))));
        body.extend(edit.close.then(|| ("state".to_owned(), Value::from("closed"))));
        let action = self.doing(&format!("{} pull request #{number}", if edit.close { "close" } else { "update" }));
        self.wire.send::<Value>(&Call::send(Method::PATCH, &path, body.into(), action)).await.map(drop)
    }

    pub async fn status(&self, commit: &str, context: &str) -> Result<Option<CommitStatus>, ForgeError> {
        let path = self.path(&["commits", commit, "status"]);
        let action = self.doing(&format!("read the status of {commit}"));
        let found: Option<Statuses> = self.wire.get(&Call { query: &[self.page], ..Call::get(&path, action) }).await?;
        let statuses = found.and_then(|found| found.statuses).unwrap_or_default();
        let own = statuses.into_iter().find(|status| status.context == context);
        Ok(own.map(|own| CommitStatus {
            state: match own.state.as_str() {
                "success" => StatusState::Success,
                "pending" => StatusState::Pending,
                _ => StatusState::Failure,
            },
            context: own.context,
            description: own.description.unwrap_or_default(),
        }))
    }

    pub async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let path = self.path(&["statuses", commit]);
        let body = json!({"state": status.state.word(), "context": status.context, "description": status.description});
        let action = self.doing(&format!("set the status {} of {commit}", status.context));
        self.wire.send::<Value>(&Call::send(Method::POST, &path, body, action)).await.map(drop)
    }

    pub async fn approvals(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["pulls", &text, "reviews"]);
        let action = self.doing(&format!("read the reviews of #{number}"));
        let reviews: Vec<Reviewed> = self.wire.list(&Call { query: &[self.page], ..Call::get(&path, action) }).await?;
        let mut last: BTreeMap<String, Reviewed> = BTreeMap::new();
        for review in reviews {
            // A comment takes nothing back. GitHub dismisses by a state, Gitea by a field; they ask for changes in different words.
            if let (Some(user), "APPROVED" | "CHANGES_REQUESTED" | "REQUEST_CHANGES" | "DISMISSED") =
                (&review.user, review.state.as_str())
            {
                last.insert(user.login.clone(), review);
            }
        }
        let approved = last.into_iter().filter(|(_, review)| review.state == "APPROVED" && !review.dismissed);
        Ok(approved.map(|(by, review)| Review { by, commit: review.commit_id }).collect())
    }

    /// The comments below a pull request, as read page by page (`paged`) or all at once.
    pub async fn comments(&self, number: u64, paged: bool) -> Result<Vec<Comment>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["issues", &text, "comments"]);
        let call = Call::get(&path, self.doing(&format!("read the comments of #{number}")));
        let comments: Vec<Commented> = if paged {
            self.wire.list(&Call { query: &[self.page], ..call }).await?
        } else {
            self.wire.get(&call).await?.unwrap_or_default()
        };
        let comment = |comment: Commented| Comment {
            id: comment.id,
            by: comment.user.map(|user| user.login).unwrap_or_default(),
            body: comment.body.unwrap_or_default(),
            edited: comment.updated_at > comment.created_at,
        };
        Ok(comments.into_iter().map(comment).collect())
    }

    pub async fn comment(&self, number: u64, id: Option<u64>, body: &str) -> Result<(), ForgeError> {
        let (number, known) = (number.to_string(), id.map(|id| id.to_string()));
        let (method, path) = match &known {
            Some(id) => (Method::PATCH, self.path(&["issues", "comments", id])),
            None => (Method::POST, self.path(&["issues", &number, "comments"])),
        };
        let action = self.doing(&format!("comment on #{number}"));
        self.wire.send::<Value>(&Call::send(method, &path, json!({"body": body}), action)).await.map(drop)
    }

    pub fn seal(&self) -> Result<MetadataSigner, ForgeError> {
        self.wire.seal(&format!("{}/{}", self.owner, self.name))
    }

    pub async fn permission(&self, user: &str) -> Result<Permission, ForgeError> {
        let path = self.path(&["collaborators", user, "permission"]);
        let call = Call::get(&path, self.doing(&format!("read what {user} may do")));
        let granted: Option<Granted> = self.wire.get(&call).await?;
        Ok(match granted.as_ref().map(|granted| granted.permission.as_str()) {
            Some("owner" | "admin" | "write") => Permission::Write,
            Some("read") => Permission::Read,
            Some(_) | None => Permission::None,
        })
    }
}
