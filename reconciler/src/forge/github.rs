//! GitHub and GitHub Enterprise (REST, version 2022-11-28).

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ForgeError;
use super::wire::{Call, Wire};
use super::{
    Comment, CommitStatus, Edit, Interface, NewPullRequest, Permission, PullRequest, PullRequestState, Review,
    StatusState,
};

/// A repository on GitHub.
pub struct GitHub {
    wire: Wire,
    /// Path of the interface below the address of the wire.
    root: &'static [&'static str],
    owner: String,
    name: String,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Branch {
    sha: String,
}

#[derive(Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    title: String,
    body: Option<String>,
    state: String,
    merged_at: Option<Timestamp>,
    merged_by: Option<User>,
    updated_at: Option<Timestamp>,
    user: Option<User>,
    head: Branch,
}

#[derive(Deserialize)]
struct Issue {
    closed_by: Option<User>,
}

#[derive(Deserialize)]
struct Statuses {
    statuses: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    context: String,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Reviewed {
    user: Option<User>,
    state: String,
    commit_id: Option<String>,
}

#[derive(Deserialize)]
struct Commented {
    id: u64,
    user: Option<User>,
    body: Option<String>,
}

#[derive(Deserialize)]
struct Granted {
    permission: String,
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

    pub(super) fn new(wire: Wire, root: &'static [&'static str], repository: &str) -> Self {
        let (owner, name) = repository.split_once('/').unwrap_or((repository, ""));
        Self { wire, root, owner: owner.to_owned(), name: name.to_owned() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let own = ["repos", &self.owner, &self.name];
        self.root.iter().copied().chain(own).chain(rest.iter().copied()).collect()
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} in {}/{}", self.owner, self.name)
    }

    async fn pull(&self, pull: Pull) -> Result<PullRequest, ForgeError> {
        let number = pull.number.to_string();
        let state = if pull.state == "open" {
            PullRequestState::Open
        } else if pull.merged_at.is_some() {
            // Lists do not tell by whom.
            let path = self.path(&["pulls", &number]);
            let whole: Option<Pull> =
                self.wire.get(&Call::get(&path, self.doing(&format!("read who merged #{number}")))).await?;
            let by = whole.and_then(|whole| whole.merged_by).map(|user| user.login);
            PullRequestState::Merged { by, at: pull.merged_at }
        } else {
            let path = self.path(&["issues", &number]);
            let issue: Option<Issue> =
                self.wire.get(&Call::get(&path, self.doing(&format!("read who closed #{number}")))).await?;
            PullRequestState::Closed { by: issue.and_then(|issue| issue.closed_by).map(|user| user.login) }
        };
        Ok(PullRequest {
            number: pull.number,
            url: pull.html_url,
            title: pull.title,
            body: pull.body.unwrap_or_default(),
            head: pull.head.sha,
            author: pull.user.map(|user| user.login).unwrap_or_default(),
            updated: pull.updated_at,
            state,
        })
    }
}

impl Interface for GitHub {
    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let path = self.path(&["pulls"]);
        let from = format!("{}:{head}", self.owner);
        let query = [
            ("state", "all"),
            ("head", from.as_str()),
            ("base", base),
            ("sort", "created"),
            ("direction", "desc"),
            ("per_page", "1"),
        ];
        let action = self.doing(&format!("look for the pull request of {head}"));
        let call = Call { query: &query, ..Call::get(&path, action.clone()) };
        let found: Option<Vec<Pull>> = self.wire.get(&call).await?;
        match found.ok_or(ForgeError::NotFound { action })?.into_iter().next() {
            Some(pull) => self.pull(pull).await.map(Some),
            None => Ok(None),
        }
    }

    async fn open(&self, new: &NewPullRequest<'_>) -> Result<PullRequest, ForgeError> {
        let path = self.path(&["pulls"]);
        let body = json!({"base": new.base, "head": new.head, "title": new.title, "body": new.body});
        let action = self.doing(&format!("open a pull request for {}", new.head));
        let opened: Pull = self.wire.send(&Call::send(Method::POST, &path, body, action)).await?;
        self.pull(opened).await
    }

    async fn edit(&self, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        let text = number.to_string();
        let path = self.path(&["pulls", &text]);
        let mut body = serde_json::Map::new();
        body.extend(edit.title.map(|title| ("title".to_owned(), Value::from(title))));
        body.extend(edit.body.map(|text| ("body".to_owned(), Value::from(text))));
        body.extend(edit.close.then(|| ("state".to_owned(), Value::from("closed"))));
        let action = self.doing(&format!("{} pull request #{number}", if edit.close { "close" } else { "update" }));
        self.wire.send::<Value>(&Call::send(Method::PATCH, &path, body.into(), action)).await.map(drop)
    }

    async fn status(&self, commit: &str, context: &str) -> Result<Option<CommitStatus>, ForgeError> {
        let path = self.path(&["commits", commit, "status"]);
        let action = self.doing(&format!("read the status of {commit}"));
        let call = Call { query: &[("per_page", "100")], ..Call::get(&path, action) };
        let found: Option<Statuses> = self.wire.get(&call).await?;
        let own = found.into_iter().flat_map(|found| found.statuses).find(|status| status.context == context);
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

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let path = self.path(&["statuses", commit]);
        let body = json!({"state": status.state.word(), "context": status.context, "description": status.description});
        let action = self.doing(&format!("set the status {} of {commit}", status.context));
        self.wire.send::<Value>(&Call::send(Method::POST, &path, body, action)).await.map(drop)
    }

    async fn approvals(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["pulls", &text, "reviews"]);
        let action = self.doing(&format!("read the reviews of #{number}"));
        let call = Call { query: &[("per_page", "100")], ..Call::get(&path, action) };
        let reviews: Vec<Reviewed> = self.wire.list(&call).await?;
        let mut last: BTreeMap<String, Reviewed> = BTreeMap::new();
        for review in reviews {
            // A comment takes nothing back.
            if let (Some(user), "APPROVED" | "CHANGES_REQUESTED" | "DISMISSED") = (&review.user, review.state.as_str())
            {
                last.insert(user.login.clone(), review);
            }
        }
        let approved = last.into_iter().filter(|(_, review)| review.state == "APPROVED");
        Ok(approved.map(|(by, review)| Review { by, commit: review.commit_id }).collect())
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["issues", &text, "comments"]);
        let action = self.doing(&format!("read the comments of #{number}"));
        let call = Call { query: &[("per_page", "100")], ..Call::get(&path, action) };
        let comments: Vec<Commented> = self.wire.list(&call).await?;
        Ok(comments
            .into_iter()
            .map(|comment| Comment {
                id: comment.id,
                by: comment.user.map(|user| user.login).unwrap_or_default(),
                body: comment.body.unwrap_or_default(),
            })
            .collect())
    }

    async fn comment(&self, number: u64, id: Option<u64>, body: &str) -> Result<(), ForgeError> {
        let (number, known) = (number.to_string(), id.map(|id| id.to_string()));
        let (method, path) = match &known {
            Some(id) => (Method::PATCH, self.path(&["issues", "comments", id])),
            None => (Method::POST, self.path(&["issues", &number, "comments"])),
        };
        let action = self.doing(&format!("comment on #{number}"));
        self.wire.send::<Value>(&Call::send(method, &path, json!({"body": body}), action)).await.map(drop)
    }

    async fn permission(&self, user: &str) -> Result<Permission, ForgeError> {
        let path = self.path(&["collaborators", user, "permission"]);
        let call = Call::get(&path, self.doing(&format!("read what {user} may do")));
        let granted: Option<Granted> = self.wire.get(&call).await?;
        Ok(match granted.as_ref().map(|granted| granted.permission.as_str()) {
            Some("admin" | "write") => Permission::Write,
            Some("read") => Permission::Read,
            Some(_) | None => Permission::None,
        })
    }
}
