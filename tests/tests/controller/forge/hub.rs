//! A strict server on loopback that speaks as GitHub documents it, over a repository on the disk. It fails as a test says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, Method, Response};
use serde_json::{Value, json};
use tokio::sync::Notify;

const ROOT: &str = "/api/v3/repos/platform/fleet/";

/// What becomes of a request, by its method and the path below the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answered,
    /// It is answered with this status, this message, and where it has moved to.
    Refused(u16, &'static str),
    /// A web page is answered, with success.
    Page,
    /// It is done, and never answered.
    Hangs,
}

type Fates = dyn Fn(&Method, &str) -> Fate + Send + Sync;

/// What the server holds, and what it was asked.
#[derive(Default)]
pub struct Hub {
    pub pulls: Vec<Value>,
    pub statuses: BTreeMap<String, Vec<Value>>,
    /// The comments below each pull request, and the reviews.
    pub comments: Vec<(usize, Value)>,
    pub reviews: Vec<(usize, Value)>,
    /// Somebody who closes the pull requests right after the next list, which does not have them yet.
    pub closes_unseen: Option<&'static str>,
    /// So many requests for pull requests come before a merge is noticed: forges move the branch first.
    pub notices_after: usize,
    /// Where whoever asked dies of the answer.
    dies: Option<(usize, bool)>,
    fates: Option<Box<Fates>>,
    /// Requests that count against the limit, and those that were answered with "not modified", which do not.
    pub counted: Vec<String>,
    pub unmodified: usize,
    all: Vec<String>,
    pub wrong: Vec<String>,
    folder: std::path::PathBuf,
}

impl Hub {
    /// How many requests there were for paths that hold this, those that did not count included.
    pub fn asked(&self, part: &str) -> usize {
        self.all.iter().filter(|asked| asked.contains(part)).count()
    }

    fn head(&self, branch: &str) -> Option<String> {
        let git = git2::Repository::open_bare(&self.folder).unwrap();
        git.find_reference(&format!("refs/heads/{branch}")).ok()?.target().map(|id| id.to_string())
    }

    /// What a push does to pull requests: they follow their branch, are closed when that goes, and merged when the deploy branch has them.
    fn follow(&mut self) {
        let deploy = self.head("deploy").and_then(|id| git2::Oid::from_str(&id).ok());
        let git = git2::Repository::open_bare(&self.folder).unwrap();
        let heads: Vec<Option<String>> =
            self.pulls.iter().map(|pull| self.head(pull["head"]["ref"].as_str().unwrap())).collect();
        for (pull, head) in self.pulls.iter_mut().zip(heads).filter(|(pull, _)| pull["state"] == "open") {
            if let Some(head) = &head {
                pull["head"]["sha"] = json!(head);
            }
            let id = git2::Oid::from_str(pull["head"]["sha"].as_str().unwrap()).unwrap();
            let landed =
                deploy.is_some_and(|deploy| deploy == id || git.graph_descendant_of(deploy, id).unwrap_or(false));
            if landed && self.notices_after == 0 {
                let at = git.find_commit(deploy.unwrap()).unwrap().time().seconds();
                close(pull, "stepgate-bot", Some(&jiff::Timestamp::from_second(at).unwrap().to_string()));
            } else if head.is_none() {
                close(pull, "stepgate-bot", None);
            }
        }
    }

    /// A pull request as lists tell it.
    fn listed(&self, pull: &Value) -> Value {
        let mut listed = pull.clone();
        for key in ["merged_by", "comments"] {
            listed.as_object_mut().unwrap().remove(key);
        }
        listed
    }

    fn comment(&mut self, number: usize, by: &str, body: &Value) -> Value {
        let id = self.comments.len() + 1;
        let at = "2026-01-05T09:00:00Z";
        let comment = json!({"id": id, "user": {"login": by}, "body": body, "created_at": at, "updated_at": at});
        self.comments.push((number, comment.clone()));
        if let Some(pull) = self.pulls.get_mut(number - 1) {
            pull["comments"] = json!(pull["comments"].as_u64().unwrap_or_default() + 1);
        }
        comment
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Option<(u16, Value)> {
        self.follow();
        self.notices_after -= usize::from(self.notices_after > 0 && path.contains("/pulls"));
        let rest = path.strip_prefix(ROOT)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let of_branch = |pull: &&Value| {
            let branch = pull["head"]["ref"].as_str().unwrap().replace('/', "%2F");
            query == format!("state=all&head=platform%3A{branch}&base=deploy&sort=created&direction=desc&per_page=10")
        };
        Some(match (method.as_str(), parts.as_slice()) {
            ("GET", ["pulls"]) if query.starts_with("state=all&head=platform%3Astepgate%2F") => {
                if let Some(by) = self.closes_unseen.take() {
                    self.pulls.iter_mut().filter(|pull| pull["state"] == "open").for_each(|pull| close(pull, by, None));
                    return Some((200, json!([])));
                }
                (200, self.pulls.iter().rev().filter(of_branch).map(|pull| self.listed(pull)).collect())
            }
            ("POST", ["pulls"]) => {
                let branch = body["head"].as_str()?;
                let Some(sha) = self.head(branch) else {
                    return Some((
                        422,
                        json!({"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]}),
                    ));
                };
                let text = body["body"].as_str()?;
                let open = self.pulls.iter().any(|pull| pull["state"] == "open" && pull["head"]["ref"] == branch);
                if open || text.chars().count() > 65536 || body["base"] != "deploy" {
                    return Some((422, json!({"message": "Validation Failed"})));
                }
                let number = self.pulls.len() + 1;
                let pull = json!({
                    "number": number, "html_url": format!("https://github.example.com/platform/fleet/pull/{number}"),
                    "title": body["title"], "body": text, "state": "open", "merged_at": null, "merged_by": null, "comments": 0,
                    "created_at": "2026-01-05T09:00:00Z", "updated_at": "2026-01-05T09:00:00Z", "user": {"login": "stepgate-bot"},
                    "head": {"label": format!("platform:{branch}"), "ref": branch, "sha": sha, "repo": {"id": 1}},
                    "base": {"ref": "deploy", "repo": {"id": 1}},
                });
                self.pulls.push(pull.clone());
                (201, pull)
            }
            ("PATCH", ["pulls", number]) => {
                let pull = self.pulls.get_mut(number.parse::<usize>().ok()?.checked_sub(1)?)?;
                for (key, value) in body.as_object()? {
                    assert!(["title", "body", "state"].contains(&key.as_str()), "{key}");
                    pull[key] = value.clone();
                }
                pull["updated_at"] = json!("2026-01-05T09:00:05Z");
                if body["state"] == "closed" {
                    close(pull, "stepgate-bot", None);
                }
                (200, pull.clone())
            }
            ("GET", ["pulls", number]) => (200, self.pulls.get(number.parse::<usize>().ok()?.checked_sub(1)?)?.clone()),
            ("GET", ["pulls"]) if query.starts_with("state=closed&base=deploy&sort=updated&direction=desc&") => {
                let closed = self.pulls.iter().rev().filter(|pull| pull["state"] == "closed");
                (200, closed.map(|pull| self.listed(pull)).collect())
            }
            ("GET", ["pulls", number, "reviews"]) if query == "per_page=100&page=1" => {
                (200, of(&self.reviews, number.parse().ok()?))
            }
            ("GET", ["issues", number, "comments"]) if query == "per_page=100&page=1" => {
                (200, of(&self.comments, number.parse().ok()?))
            }
            ("POST", ["issues", number, "comments"]) => {
                (201, self.comment(number.parse().ok()?, "stepgate-bot", &body["body"]))
            }
            ("PATCH", ["issues", "comments", id]) => {
                let (_, comment) = self.comments.get_mut(id.parse::<usize>().ok()?.checked_sub(1)?)?;
                comment["body"] = body["body"].clone();
                (200, comment.clone())
            }
            ("GET", ["issues", number]) => {
                let pull = self.pulls.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
                (200, json!({"closed_by": pull["closed_by"]}))
            }
            ("GET", ["collaborators", user, "permission"]) => {
                (200, json!({"permission": if *user == "olga" { "read" } else { "write" }}))
            }
            ("POST", ["statuses", sha]) => {
                assert!(body["description"].as_str()?.chars().count() <= 140, "{body}");
                self.statuses.entry((*sha).to_owned()).or_default().insert(0, body.clone());
                (201, json!({}))
            }
            ("GET", ["commits", sha, "status"]) => {
                (200, json!({"state": "pending", "statuses": self.statuses.get(*sha).cloned().unwrap_or_default()}))
            }
            _ => return None,
        })
    }
}

/// The running server; it ends with its runtime.
pub struct Server {
    pub url: String,
    hub: Arc<Mutex<Hub>>,
    died: Arc<Notify>,
}

impl Server {
    /// Serves the repository in this folder.
    pub async fn start(folder: &Path) -> Self {
        let hub = Arc::new(Mutex::new(Hub { folder: folder.to_owned(), ..Hub::default() }));
        let died = Arc::new(Notify::new());
        let router = Router::new().fallback(answer).with_state((Arc::clone(&hub), Arc::clone(&died)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, hub, died }
    }

    pub fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap()
    }

    /// From now on requests have these fates.
    pub fn fates(&self, fates: impl Fn(&Method, &str) -> Fate + Send + Sync + 'static) {
        self.hub().fates = Some(Box::new(fates));
    }

    /// Somebody merged the pull request of a branch by git, and the server has noticed.
    pub fn merged(&self, branch: &str, by: &str, at: jiff::Timestamp) {
        let mut hub = self.hub();
        let pull = hub.pulls.iter_mut().rev().find(|pull| pull["head"]["ref"] == branch).unwrap();
        close(pull, by, Some(&at.to_string()));
    }

    /// Somebody closes a pull request, or opens it again.
    pub fn set_open(&self, number: usize, by: &str, open: bool) {
        let mut hub = self.hub();
        hub.follow();
        let branch = hub.pulls[number - 1]["head"]["ref"].as_str().unwrap().to_owned();
        let there = hub.head(&branch).is_some();
        let other = hub.pulls.iter().any(|pull| pull["state"] == "open" && pull["head"]["ref"] == branch);
        let pull = &mut hub.pulls[number - 1];
        if !open && pull["state"] == "open" {
            close(pull, by, None);
        } else if open && there && !other && pull["merged_at"].is_null() {
            (pull["state"], pull["closed_by"]) = (json!("open"), Value::Null);
        }
    }

    /// Somebody comments.
    pub fn say(&self, number: usize, by: &str, text: &str) {
        self.hub().comment(number, by, &json!(text));
    }

    /// Somebody approves by a review of a commit.
    pub fn review(&self, number: usize, by: &str, commit: &str) {
        let mut hub = self.hub();
        let id = hub.reviews.len() + 1;
        let review = json!({"id": id, "user": {"login": by}, "state": "APPROVED", "commit_id": commit, "body": ""});
        hub.reviews.push((number, review));
    }

    /// Whoever asks dies of the request after so many others, before the server hears of it or after that has done it.
    pub fn kill_after(&self, requests: usize, done: bool) {
        self.hub().dies = Some((requests, done));
    }

    /// Nobody dies any more. Whether somebody has.
    pub fn spare(&self) -> bool {
        self.hub().dies.take().is_none()
    }

    /// Returns when whoever asked has died.
    pub async fn died(&self) {
        self.died.notified().await;
    }
}

fn of(entries: &[(usize, Value)], number: usize) -> Value {
    entries.iter().filter(|(of, _)| *of == number).map(|(_, entry)| entry.clone()).collect()
}

fn close(pull: &mut Value, by: &str, merged_at: Option<&str>) {
    pull["state"] = json!("closed");
    pull["updated_at"] = json!("2026-01-05T10:00:00Z");
    pull["closed_by"] = json!({"login": by});
    if let Some(at) = merged_at {
        pull["merged_at"] = json!(at);
        pull["merged_by"] = json!({"login": by});
    }
}

async fn answer(
    State((hub, died)): State<(Arc<Mutex<Hub>>, Arc<Notify>)>,
    method: Method,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let fate = {
        let hub = hub.lock().unwrap();
        let path = uri.path().strip_prefix(ROOT).unwrap_or_default();
        hub.fates.as_ref().map_or(Fate::Answered, |fates| fates(&method, path))
    };
    let dies = {
        let mut hub = hub.lock().unwrap();
        match &mut hub.dies {
            Some((0, done)) => {
                let done = *done;
                hub.dies = None;
                Some(done)
            }
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        }
    };
    if let Some(is_done) = dies {
        if is_done {
            done(&hub, &method, &uri, &headers, &body);
        }
        died.notify_one();
        return std::future::pending().await;
    }
    match fate {
        Fate::Refused(status, message) => {
            let response = Response::builder().status(status).header("content-type", "application/json");
            let response = response.header("location", "https://github.example.com/platform/renamed");
            return response.body(Body::from(json!({"message": message}).to_string())).unwrap();
        }
        Fate::Page => {
            let response = Response::builder().header("content-type", "text/html");
            return response.body(Body::from("<!DOCTYPE html><title>Sign in</title>")).unwrap();
        }
        Fate::Hangs => {
            done(&hub, &method, &uri, &headers, &body);
            return std::future::pending().await;
        }
        Fate::Answered => {}
    }
    done(&hub, &method, &uri, &headers, &body)
}

fn done(hub: &Mutex<Hub>, method: &Method, uri: &axum::http::Uri, headers: &HeaderMap, body: &[u8]) -> Response<Body> {
    let mut hub = hub.lock().unwrap();
    let json: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
    let asked = format!("{method} {uri}");
    let Some((status, answer)) = hub.answer(method, uri.path(), uri.query().unwrap_or_default(), &json) else {
        hub.wrong.push(asked);
        return Response::builder().status(418).body(Body::empty()).unwrap();
    };
    hub.all.push(asked.clone());
    let text = answer.to_string();
    let tag = format!("\"{}\"", domain::PlanDigest::of([text.as_bytes()]));
    if *method == Method::GET && headers.get("if-none-match").is_some_and(|known| known.to_str().unwrap() == tag) {
        hub.unmodified += 1;
        return Response::builder().status(304).body(Body::empty()).unwrap();
    }
    hub.counted.push(asked);
    let response = Response::builder().status(status).header("content-type", "application/json").header("etag", tag);
    response.body(Body::from(text)).unwrap()
}
