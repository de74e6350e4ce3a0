//! How many requests a stage of many clusters costs, on a strict server that speaks as GitHub documents it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, Method, Response};
use serde_json::{Value, json};
use stepgate::forge::{ForgeAccess, ForgeCredential};
use stepgate::git::Repository;

use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, assert_stage_once, outcome, told};

const CLUSTERS: usize = 100;
const ROOT: &str = "/api/v3/repos/platform/fleet/";

#[derive(Default)]
struct Hub {
    pulls: Vec<Value>,
    statuses: BTreeMap<String, Vec<Value>>,
    /// Requests that count against the limit, and those that were answered with "not modified", which do not.
    counted: Vec<String>,
    unmodified: usize,
    wrong: Vec<String>,
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

async fn answer(
    State(hub): State<Arc<Mutex<Hub>>>,
    method: Method,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut hub = hub.lock().unwrap();
    let json: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    let asked = format!("{method} {uri}");
    let Some((status, answer)) = hub.answer(&method, uri.path(), uri.query().unwrap_or_default(), &json) else {
        hub.wrong.push(asked);
        return Response::builder().status(418).body(Body::empty()).unwrap();
    };
    let text = answer.to_string();
    let tag = format!("\"{}\"", rollout::PlanDigest::of([text.as_bytes()]));
    if method == Method::GET && headers.get("if-none-match").is_some_and(|known| known.to_str().unwrap() == tag) {
        hub.unmodified += 1;
        return Response::builder().status(304).body(Body::empty()).unwrap();
    }
    hub.counted.push(asked);
    let response = Response::builder().status(status).header("content-type", "application/json").header("etag", tag);
    response.body(Body::from(text)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_of_a_hundred_clusters_is_one_pull_request_and_few_requests() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse()?)?;
    let hub = Arc::new(Mutex::new(Hub { folder: folder.path().join("fleet.git"), ..Hub::default() }));
    let router = Router::new().fallback(answer).with_state(Arc::clone(&hub));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "CANARY-token\n")?;
    let access =
        ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: vec!["127.0.0.1".to_owned()] };
    let names: Vec<String> = (0..CLUSTERS).map(|number| format!("team-{number:03}")).collect();
    let fleet = Fleet::of_many(folder, repository, access, &names, |policy| {
        format!(
            "{policy}approval: stage\nclusters: {{mgmt: {{approval: none}}}}\nwaves: [{{name: first, clusters: [mgmt]}}, {{name: teams, clusters: ['team-*'], \
             concurrency: {CLUSTERS}}}]\nforge: {{kind: github, url: '{url}', repository: platform/fleet}}\n"
        )
    });
    let controller = fleet.controller();
    let edit = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {team.example.com/owner: platform}\n";
    fleet.edit("overlays/cilium/kustomization.yaml", |_| edit.to_owned());
    let all_ask = |pass: &stepgate::controller::Pass| {
        names
            .iter()
            .all(|name| outcome(pass, name).message().contains("waits for approval: https://github.example.com"))
    };
    let pass = fleet.run_until(&controller, all_ask);
    let opened = hub.lock().unwrap().counted.len();
    // Nobody does anything for a while.
    for _ in 0..5 {
        fleet.wait(Some(&pass));
        fleet.pass(&controller);
    }
    let (branch, head) = {
        let git = Git::of(&fleet);
        let proposed = git.proposed();
        assert_eq!(proposed.len(), 1, "{proposed:?} {}", told(&pass));
        assert_eq!(git.parts(proposed[0].1).len(), CLUSTERS);
        git.merge(proposed[0].1, Merge::Commit, fleet.clock_now());
        proposed[0].clone()
    };
    {
        let mut hub = hub.lock().unwrap();
        assert_eq!(hub.pulls.len(), 1);
        let body = hub.pulls[0]["body"].as_str().unwrap().to_owned();
        assert!(names.iter().all(|name| body.contains(&format!("| {name} |"))), "{body}");
        assert_eq!(hub.statuses[&head.to_string()].len(), 1);
        hub.pulls[0]["state"] = json!("closed");
        hub.pulls[0]["merged_at"] = json!(fleet.clock_now().to_string());
        hub.pulls[0]["updated_at"] = json!("2026-01-05T10:00:00Z");
        hub.pulls[0]["merged_by"] = json!({"login": "alice"});
    }
    let waited = hub.lock().unwrap().counted.len();
    fleet.run_until(&controller, |pass| {
        !names.iter().any(|name| outcome(pass, name).message().contains("waits for approval"))
            && names.iter().all(|name| {
                fleet.deployed(&format!("clusters/{name}/rollout.yaml")).unwrap().contains("by: alice (https")
            })
    });
    let hub = hub.lock().unwrap();
    assert_eq!(hub.wrong, [""; 0]);
    for request in &hub.counted {
        println!("  {request}");
    }
    println!(
        "{CLUSTERS} clusters, one stage on {branch}: {} requests ({opened} to open it, {} while nobody did anything, {} when it was merged), and {} that were \
         answered with \"not modified\" and do not count",
        hub.counted.len(),
        waited - opened,
        hub.counted.len() - waited,
        hub.unmodified
    );
    let created = hub.counted.iter().filter(|request| !request.starts_with("GET")).count();
    assert!(created <= 2, "{created} requests that create something");
    assert!(hub.counted.len() <= GOAL, "{:?}", hub.counted);
    assert_stage_once(&fleet, &names);
    Ok(())
}

/// The most requests that a stage may cost, however many clusters it has.
const GOAL: usize = 6;
