//! A strict server on loopback that speaks as GitHub documents it, over a repository on the disk. It fails as a test says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, Method, Response};
use serde_json::{Value, json};

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
    fates: Option<Box<Fates>>,
    /// Requests that count against the limit, and those that were answered with "not modified", which do not.
    pub counted: Vec<String>,
    pub unmodified: usize,
    pub wrong: Vec<String>,
    folder: std::path::PathBuf,
}

impl Hub {
    fn head(&self, branch: &str) -> Option<String> {
        let git = git2::Repository::open_bare(&self.folder).unwrap();
        git.find_reference(&format!("refs/heads/{branch}")).ok()?.target().map(|id| id.to_string())
    }

    /// A pull request as lists tell it.
    fn listed(&self, pull: &Value) -> Value {
        let mut listed = pull.clone();
        let head = self.head(pull["head"]["ref"].as_str().unwrap()).filter(|_| pull["state"] == "open");
        if let Some(head) = head {
            listed["head"]["sha"] = json!(head);
        }
        for key in ["merged_by", "comments"] {
            listed.as_object_mut().unwrap().remove(key);
        }
        listed
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Option<(u16, Value)> {
        let rest = path.strip_prefix(ROOT)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let of_branch = |pull: &&Value| {
            let branch = pull["head"]["ref"].as_str().unwrap().replace('/', "%2F");
            query == format!("state=all&head=platform%3A{branch}&base=deploy&sort=created&direction=desc&per_page=10")
        };
        Some(match (method.as_str(), parts.as_slice()) {
            ("GET", ["pulls"]) if query.starts_with("state=all&head=platform%3Astepgate%2F") => {
                (200, self.pulls.iter().rev().filter(of_branch).map(|pull| self.listed(pull)).collect())
            }
            ("POST", ["pulls"]) => {
                let branch = body["head"].as_str()?;
                let sha = self.head(branch)?;
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
                    "head": {"label": format!("platform:{branch}"), "ref": branch, "sha": sha}, "base": {"ref": "deploy"},
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
                (200, pull.clone())
            }
            ("GET", ["pulls", number]) => (200, self.pulls.get(number.parse::<usize>().ok()?.checked_sub(1)?)?.clone()),
            ("GET", ["pulls", _, "reviews"] | ["issues", _, "comments"]) if query == "per_page=100&page=1" => {
                (200, json!([]))
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
}

impl Server {
    /// Serves the repository in this folder.
    pub async fn start(folder: &Path) -> Self {
        let hub = Arc::new(Mutex::new(Hub { folder: folder.to_owned(), ..Hub::default() }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&hub));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, hub }
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
        pull["state"] = json!("closed");
        pull["merged_at"] = json!(at.to_string());
        pull["updated_at"] = json!("2026-01-05T10:00:00Z");
        pull["merged_by"] = json!({"login": by});
    }
}

async fn answer(
    State(hub): State<Arc<Mutex<Hub>>>,
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
    let text = answer.to_string();
    let tag = format!("\"{}\"", rollout::PlanDigest::of([text.as_bytes()]));
    if *method == Method::GET && headers.get("if-none-match").is_some_and(|known| known.to_str().unwrap() == tag) {
        hub.unmodified += 1;
        return Response::builder().status(304).body(Body::empty()).unwrap();
    }
    hub.counted.push(asked);
    let response = Response::builder().status(status).header("content-type", "application/json").header("etag", tag);
    response.body(Body::from(text)).unwrap()
}
