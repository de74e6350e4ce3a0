//! Gitea and Forgejo (`/api/v1`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ForgeError;
use super::wire::{Call, Wire};
use super::{
    Comment, CommitStatus, Edit, Interface, NewPullRequest, Permission, PullRequest, PullRequestState, Review,
    StatusState,
};

/// A repository on Gitea or Forgejo.
pub struct Gitea {
    wire: Wire,
    owner: String,
    name: String,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Branch {
    label: String,
    #[serde(default)]
    sha: String,
}

#[derive(Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    title: String,
    #[serde(default)]
    body: String,
    state: String,
    #[serde(default)]
    merged: bool,
    merged_at: Option<Timestamp>,
    merged_by: Option<User>,
    updated_at: Option<Timestamp>,
    user: Option<User>,
    head: Branch,
}

#[derive(Deserialize)]
struct Statuses {
    #[serde(default)]
    statuses: Option<Vec<Status>>,
}

#[derive(Deserialize)]
struct Status {
    status: String,
    context: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Reviewed {
    user: Option<User>,
    state: String,
    #[serde(default)]
    commit_id: String,
    #[serde(default)]
    dismissed: bool,
}

#[derive(Deserialize)]
struct Commented {
    id: u64,
    user: Option<User>,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
struct Granted {
    permission: String,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    user: Option<User>,
}

impl Gitea {
    pub(super) fn new(wire: Wire, repository: &str) -> Self {
        let (owner, name) = repository.split_once('/').unwrap_or((repository, ""));
        Self { wire, owner: owner.to_owned(), name: name.to_owned() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        ["api", "v1", "repos", &self.owner, &self.name].into_iter().chain(rest.iter().copied()).collect()
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} in {}/{}", self.owner, self.name)
    }

    async fn pull(&self, pull: Pull) -> Result<PullRequest, ForgeError> {
        let state = match pull.state.as_str() {
            _ if pull.merged => {
                PullRequestState::Merged { by: pull.merged_by.map(|user| user.login), at: pull.merged_at }
            }
            "open" => PullRequestState::Open,
            _ => PullRequestState::Closed { by: self.closed_by(pull.number).await? },
        };
        Ok(PullRequest {
            number: pull.number,
            url: pull.html_url,
            title: pull.title,
            body: pull.body,
            head: pull.head.sha,
            author: pull.user.map(|user| user.login).unwrap_or_default(),
            updated: pull.updated_at,
            state,
        })
    }

    async fn closed_by(&self, number: u64) -> Result<Option<String>, ForgeError> {
        let number = number.to_string();
        let path = self.path(&["issues", &number, "timeline"]);
        let call =
            Call { query: &[("limit", "50")], ..Call::get(&path, self.doing(&format!("read who closed #{number}"))) };
        let events: Vec<Event> = self.wire.list(&call).await?;
        let close = events.into_iter().rev().find(|event| event.kind == "close");
        Ok(close.and_then(|event| event.user).map(|user| user.login))
    }
}

impl Interface for Gitea {
    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let action = self.doing(&format!("look for the pull request of {head}"));
        // Slashes of the head's name stay: that part of the path is everything after the base.
        let path: Vec<&str> = self.path(&["pulls", base]).into_iter().chain(head.split('/')).collect();
        let Some(found) = self.wire.get::<Pull>(&Call::get(&path, action.clone())).await? else {
            // A repository that is not seen looks the same as one without such a pull request.
            let path = self.path(&[]);
            return match self.wire.get::<Value>(&Call::get(&path, action.clone())).await? {
                Some(_) => Ok(None),
                None => Err(ForgeError::NotFound { action }),
            };
        };
        if found.state == "open" {
            return self.pull(found).await.map(Some);
        }
        // Of several, any one is found that way. Once one is closed, the newest is looked for.
        let path = self.path(&["pulls"]);
        let query = [("state", "all"), ("base_branch", base), ("sort", "recentupdate"), ("limit", "50")];
        let all: Vec<Pull> = self.wire.list(&Call { query: &query, ..Call::get(&path, action) }).await?;
        let newest =
            all.into_iter().filter(|pull| pull.head.label == head).chain([found]).max_by_key(|pull| pull.number);
        match newest {
            Some(newest) => self.pull(newest).await.map(Some),
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
        let call =
            Call { query: &[("limit", "50")], ..Call::get(&path, self.doing(&format!("read the status of {commit}"))) };
        let found: Option<Statuses> = self.wire.get(&call).await?;
        let statuses = found.and_then(|found| found.statuses).unwrap_or_default();
        let own = statuses.into_iter().find(|status| status.context == context);
        Ok(own.map(|own| CommitStatus {
            state: match own.status.as_str() {
                "success" => StatusState::Success,
                "pending" => StatusState::Pending,
                _ => StatusState::Failure,
            },
            context: own.context,
            description: own.description,
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
        let call = Call {
            query: &[("limit", "50")],
            ..Call::get(&path, self.doing(&format!("read the reviews of #{number}")))
        };
        let reviews: Vec<Reviewed> = self.wire.list(&call).await?;
        let mut last: BTreeMap<String, Reviewed> = BTreeMap::new();
        for review in reviews {
            // A comment takes nothing back.
            if let (Some(user), "APPROVED" | "REQUEST_CHANGES") = (&review.user, review.state.as_str()) {
                last.insert(user.login.clone(), review);
            }
        }
        let counts = |review: &Reviewed| review.state == "APPROVED" && !review.dismissed;
        Ok(last
            .into_iter()
            .filter(|(_, it)| counts(it))
            .map(|(by, it)| Review { by, commit: Some(it.commit_id) })
            .collect())
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["issues", &text, "comments"]);
        let call = Call::get(&path, self.doing(&format!("read the comments of #{number}")));
        // Gitea gives all of them at once.
        let comments: Option<Vec<Commented>> = self.wire.get(&call).await?;
        let comment = |comment: Commented| Comment {
            id: comment.id,
            by: comment.user.map(|user| user.login).unwrap_or_default(),
            body: comment.body,
        };
        Ok(comments.into_iter().flatten().map(comment).collect())
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
            Some("owner" | "admin" | "write") => Permission::Write,
            Some("read") => Permission::Read,
            Some(_) | None => Permission::None,
        })
    }
}
