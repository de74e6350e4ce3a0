//! GitLab (`/api/v4`), where a pull request is a merge request.

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ForgeError;
use super::forge_http::{Call, ForgeHttp};
use super::{
    Comment, CommitStatus, Edit, ForgeApi, MetadataSigner, NewPullRequest, Permission, PullRequest, PullRequestState,
    Review, StatusState,
};

/// The lowest level of access that may push and merge: that of developers.
const DEVELOPER: u64 = 30;

/// How many merge requests of a branch are looked at first.
const NEWEST: usize = 10;

/// A project on GitLab.
pub struct GitLab {
    wire: ForgeHttp,
    project: String,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Merge {
    iid: u64,
    web_url: String,
    title: String,
    description: Option<String>,
    state: String,
    source_branch: String,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
    sha: Option<String>,
    author: Option<User>,
    merge_user: Option<User>,
    merged_by: Option<User>,
    closed_by: Option<User>,
    merged_at: Option<Timestamp>,
    user_notes_count: Option<u64>,
}

#[derive(Deserialize)]
struct Status {
    status: String,
    name: String,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Approvals {
    approved_by: Vec<ApprovedBy>,
}

#[derive(Deserialize)]
struct ApprovedBy {
    user: User,
}

#[derive(Deserialize)]
struct Note {
    id: u64,
    body: String,
    author: Option<User>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    #[serde(default)]
    system: bool,
}

#[derive(Deserialize)]
struct Member {
    username: String,
    access_level: u64,
    #[serde(default)]
    state: String,
}

impl Merge {
    /// Whether its branch is one of this project, and not of a fork.
    fn is_own(&self) -> bool {
        // Of a fork that is gone nothing is told.
        self.source_project_id.is_some() && self.source_project_id == self.target_project_id
    }
}

impl From<Merge> for PullRequest {
    fn from(merge: Merge) -> Self {
        let name = |user: Option<User>| user.map(|user| user.username);
        let state = match merge.state.as_str() {
            "merged" => {
                PullRequestState::Merged { by: name(merge.merge_user.or(merge.merged_by)), at: merge.merged_at }
            }
            "closed" => PullRequestState::Closed { by: name(merge.closed_by) },
            // `locked` is being merged at this moment.
            _ => PullRequestState::Open,
        };
        Self {
            number: merge.iid,
            branch: merge.source_branch,
            url: merge.web_url,
            title: merge.title,
            body: merge.description.unwrap_or_default(),
            head: merge.sha.unwrap_or_default(),
            author: name(merge.author).unwrap_or_default(),
            comments: merge.user_notes_count,
            state,
        }
    }
}

impl GitLab {
    pub(super) fn new(wire: ForgeHttp, repository: &str) -> Self {
        Self { wire, project: repository.to_owned() }
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        ["api", "v4", "projects", &self.project].into_iter().chain(rest.iter().copied()).collect()
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} in {}", self.project)
    }
}

impl ForgeApi for GitLab {
    async fn find(&self, base: &str, head: &str) -> Result<Option<PullRequest>, ForgeError> {
        let path = self.path(&["merge_requests"]);
        let query = [
            ("state", "all"),
            ("source_branch", head),
            ("target_branch", base),
            ("order_by", "created_at"),
            ("sort", "desc"),
            ("per_page", "1"),
        ];
        let action = self.doing(&format!("look for the merge request of {head}"));
        let found: Option<Vec<Merge>> =
            self.wire.get(&Call { query: &query, ..Call::get(&path, action.clone()) }).await?;
        match found.ok_or(ForgeError::NotFound { action })?.into_iter().next() {
            // Of a fork: ours is an earlier one.
            Some(newest) if !newest.is_own() => Ok(self.of_branch(base, head).await?.into_iter().next()),
            newest => Ok(newest.map(PullRequest::from)),
        }
    }

    async fn of_branch(&self, base: &str, head: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let path = self.path(&["merge_requests"]);
        let query = [
            ("state", "all"),
            ("source_branch", head),
            ("target_branch", base),
            ("order_by", "created_at"),
            ("sort", "desc"),
            ("per_page", "10"),
        ];
        let action = self.doing(&format!("look for the merge requests of {head}"));
        let found: Option<Vec<Merge>> =
            self.wire.get(&Call { query: &query, ..Call::get(&path, action.clone()) }).await?;
        let found = found.ok_or(ForgeError::NotFound { action })?;
        let (all, own): (usize, Vec<Merge>) = (found.len(), found.into_iter().filter(Merge::is_own).collect());
        if own.len() == all || all < NEWEST {
            return Ok(own.into_iter().map(PullRequest::from).collect());
        }
        // Those of forks must not crowd out our own.
        let query = [("per_page", "100")].into_iter().chain(query.into_iter().filter(|(name, _)| *name != "per_page"));
        let query: Vec<(&str, &str)> = query.collect();
        let action = self.doing(&format!("look for the merge requests of {head}"));
        let found: Vec<Merge> = self.wire.list(&Call { query: &query, ..Call::get(&path, action) }).await?;
        Ok(found.into_iter().filter(Merge::is_own).map(PullRequest::from).collect())
    }

    async fn recent_ones(&self, base: &str) -> Result<Vec<PullRequest>, ForgeError> {
        let path = self.path(&["merge_requests"]);
        let query = [
            ("state", "merged"),
            ("target_branch", base),
            ("order_by", "updated_at"),
            ("sort", "desc"),
            ("per_page", "100"),
        ];
        let action = self.doing("list the merged merge requests");
        let found: Option<Vec<Merge>> =
            self.wire.get(&Call { query: &query, ..Call::get(&path, action.clone()) }).await?;
        let found = found.ok_or(ForgeError::NotFound { action })?;
        Ok(found.into_iter().filter(Merge::is_own).map(PullRequest::from).collect())
    }

    async fn pull(&self, number: u64) -> Result<Option<PullRequest>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["merge_requests", &text]);
        let call = Call::get(&path, self.doing(&format!("read merge request !{number}")));
        let found: Option<Merge> = self.wire.get(&call).await?;
        Ok(found.filter(Merge::is_own).map(PullRequest::from))
    }

    async fn open(&self, new: &NewPullRequest<'_>) -> Result<PullRequest, ForgeError> {
        let path = self.path(&["merge_requests"]);
        let body = json!({
            "source_branch": new.head, "target_branch": new.base, "title": new.title, "description": new.body,
        });
        let action = self.doing(&format!("open a merge request for {}", new.head));
        let opened: Merge = self.wire.send(&Call::send(Method::POST, &path, body, action)).await?;
        Ok(opened.into())
    }

    async fn edit(&self, number: u64, edit: &Edit<'_>) -> Result<(), ForgeError> {
        let text = number.to_string();
        let path = self.path(&["merge_requests", &text]);
        let mut body = serde_json::Map::new();
        body.extend(edit.title.map(|title| ("title".to_owned(), Value::from(title))));
        body.extend(edit.body.map(|text| ("description".to_owned(), Value::from(text))));
        body.extend(edit.close.then(|| ("state_event".to_owned(), Value::from("close"))));
        let action = self.doing(&format!("{} merge request !{number}", if edit.close { "close" } else { "update" }));
        self.wire.send::<Value>(&Call::send(Method::PUT, &path, body.into(), action)).await.map(drop)
    }

    async fn status(&self, commit: &str, context: &str) -> Result<Option<CommitStatus>, ForgeError> {
        let path = self.path(&["repository", "commits", commit, "statuses"]);
        let action = self.doing(&format!("read the status of {commit}"));
        let found: Option<Vec<Status>> =
            self.wire.get(&Call { query: &[("name", context)], ..Call::get(&path, action) }).await?;
        let own = found.into_iter().flatten().find(|status| status.name == context);
        Ok(own.map(|own| CommitStatus {
            state: match own.status.as_str() {
                "success" => StatusState::Success,
                "pending" | "running" | "created" => StatusState::Pending,
                _ => StatusState::Failure,
            },
            context: own.name,
            description: own.description.unwrap_or_default(),
        }))
    }

    async fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let path = self.path(&["statuses", commit]);
        let state = match status.state {
            StatusState::Failure => "failed",
            StatusState::Pending | StatusState::Success => status.state.word(),
        };
        let body = json!({"state": state, "name": status.context, "description": status.description});
        let action = self.doing(&format!("set the status {} of {commit}", status.context));
        self.wire.send::<Value>(&Call::send(Method::POST, &path, body, action)).await.map(drop)
    }

    async fn approvals(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["merge_requests", &text, "approvals"]);
        let call = Call::get(&path, self.doing(&format!("read the approvals of !{number}")));
        let found: Option<Approvals> = self.wire.get(&call).await?;
        let approved = found.into_iter().flat_map(|found| found.approved_by);
        // GitLab takes approvals back by itself when commits are pushed, as its project's settings say, and does not tell the commit.
        Ok(approved.map(|approved| Review { by: approved.user.username, commit: None }).collect())
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, ForgeError> {
        let text = number.to_string();
        let path = self.path(&["merge_requests", &text, "notes"]);
        let query = [("sort", "asc"), ("order_by", "created_at"), ("per_page", "100")];
        let action = self.doing(&format!("read the comments of !{number}"));
        let notes: Vec<Note> = self.wire.list(&Call { query: &query, ..Call::get(&path, action) }).await?;
        let comment = |note: Note| Comment {
            id: note.id,
            by: note.author.map(|user| user.username).unwrap_or_default(),
            body: note.body,
            edited: note.updated_at > note.created_at,
        };
        Ok(notes.into_iter().filter(|note| !note.system).map(comment).collect())
    }

    async fn comment(&self, number: u64, id: Option<u64>, body: &str) -> Result<(), ForgeError> {
        let (number, known) = (number.to_string(), id.map(|id| id.to_string()));
        let (method, path) = match &known {
            Some(id) => (Method::PUT, self.path(&["merge_requests", &number, "notes", id])),
            None => (Method::POST, self.path(&["merge_requests", &number, "notes"])),
        };
        let action = self.doing(&format!("comment on !{number}"));
        self.wire.send::<Value>(&Call::send(method, &path, json!({"body": body}), action)).await.map(drop)
    }

    fn seal(&self) -> Result<MetadataSigner, ForgeError> {
        self.wire.seal(&self.project)
    }

    async fn permission(&self, user: &str) -> Result<Permission, ForgeError> {
        let path = self.path(&["members", "all"]);
        let query = [("query", user), ("per_page", "100")];
        let action = self.doing(&format!("read what {user} may do"));
        let members: Vec<Member> = self.wire.list(&Call { query: &query, ..Call::get(&path, action) }).await?;
        // The query also finds others whose name contains this one.
        let own = members
            .into_iter()
            .filter(|member| member.username == user && matches!(member.state.as_str(), "active" | ""));
        Ok(match own.map(|member| member.access_level).max() {
            Some(level) if level >= DEVELOPER => Permission::Write,
            Some(_) => Permission::Read,
            None => Permission::None,
        })
    }
}
