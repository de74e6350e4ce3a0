//! A scripted API server for tests: answers by method and path, and remembers what was asked. Of the kinds that it keeps it
//! answers what is not scripted as a real server does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use fake_api_server::{Request, ServedKind, State};
use futures::future;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::task::JoinHandle;

use super::connection::Connection;

/// One answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// 200 and this document.
    Json(Value),
    /// The same after a while.
    Late(Duration, Value),
    /// An error as the API server words it.
    Error(u16, &'static str),
    /// The server has no time and asks to be asked again after so many seconds.
    Busy(u32),
    /// An error that is no Kubernetes status, as a proxy gives it.
    Text(u16, &'static str),
    /// 200 and a document that breaks off.
    CutOff,
    /// Nothing, for longer than anybody waits.
    Silence,
    /// These objects as the beginning of a watch, which goes on and tells of nothing more.
    Watch(Vec<Value>),
    /// These events of a watch, which then ends.
    Events(Vec<Value>),
    /// These events of a watch, which ends once the server answers otherwise.
    Open(Vec<Value>),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// Plural name, kind, and whether it lives in a namespace.
pub(crate) type ListedKind<'a> = (&'a str, &'a str, bool);

/// The answers by `METHOD path` or `METHOD path?query-part`; the longest key that fits decides. Anything else is not found, but for
/// what is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    answers: BTreeMap<String, Answer>,
    kinds: Vec<ServedKind>,
    objects: Vec<(String, Value)>,
}

impl Script {
    pub(crate) fn on(mut self, key: &str, answer: Answer) -> Self {
        self.answers.insert(key.to_owned(), answer);
        self
    }

    /// Keeps the objects of a kind that are written.
    pub(crate) fn keeps(mut self, kind: ServedKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The same, and there is one at first, at this path.
    pub(crate) fn holds(mut self, path: &str, object: Value) -> Self {
        self.objects.push((path.to_owned(), object));
        self
    }

    /// A list of these objects at `path`.
    pub(crate) fn list(self, path: &str, items: &[Value]) -> Self {
        self.on(
            &format!("GET {path}"),
            Answer::Json(json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})),
        )
    }

    /// An object at `path`.
    pub(crate) fn object(self, path: &str, object: Value) -> Self {
        self.on(&format!("GET {path}"), Answer::Json(object))
    }

    /// A watch of the resource at `path` that begins with these objects.
    pub(crate) fn watch(self, path: &str, objects: &[Value]) -> Self {
        self.on(&format!("GET {path}?watch=true"), Answer::Watch(objects.to_vec()))
    }

    /// The groups and versions that are served, and the kinds of each: `(group/version, [(plural, kind, namespaced)])`.
    pub(crate) fn serves(mut self, versions: &[(&str, &[ListedKind<'_>])]) -> Self {
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (api_version, kinds) in versions {
            let resources: Vec<Value> = kinds
                .iter()
                .map(|(plural, kind, namespaced)| json!({"name": plural, "kind": kind, "namespaced": namespaced, "verbs": ["get", "list"]}))
                .collect();
            let base = if api_version.contains('/') { "/apis" } else { "/api" };
            self = self
                .object(&format!("{base}/{api_version}"), json!({"kind": "APIResourceList", "resources": resources}));
            if let Some((group, version)) = api_version.split_once('/') {
                groups.entry(group).or_default().push(json!({"groupVersion": api_version, "version": version}));
            }
        }
        let groups: Vec<Value> =
            groups.into_iter().map(|(name, versions)| json!({"name": name, "versions": versions})).collect();
        self.object("/apis", json!({"kind": "APIGroupList", "groups": groups}))
    }

    fn answer(&self, asked: &Asked) -> Option<Answer> {
        let fits = |key: &str| {
            let Some(rest) = key.strip_prefix(&asked.method).and_then(|rest| rest.strip_prefix(' ')) else {
                return false;
            };
            match rest.split_once('?') {
                Some((path, query)) => path == asked.path && asked.query.contains(query),
                None => rest == asked.path,
            }
        };
        let found = self.answers.iter().filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len());
        found.map(|(_, answer)| answer.clone())
    }

    /// What is kept at first.
    fn state(&self) -> State {
        // Which namespaces there are is nothing that these tests are about.
        let namespaces: Vec<&str> = self.objects.iter().filter_map(|(path, _)| namespace(path)).collect();
        let mut state = State::new(self.kinds.clone(), &[namespaces, NAMESPACES.to_vec()].concat());
        for (path, object) in &self.objects {
            let request = Request {
                method: "PATCH".to_owned(),
                path: path.clone(),
                content_type: "application/apply-patch+yaml".to_owned(),
                query: "fieldManager=somebody".to_owned(),
                body: object.clone(),
            };
            let answer = state.answer(&request, "2026-03-01T11:00:00Z".parse().unwrap());
            assert!(matches!(answer, fake_api_server::Answer::Reply(reply) if reply.code == 201), "{path}");
        }
        state
    }
}

/// The namespaces that there are without anybody making them.
const NAMESPACES: &[&str] = &["default", "n", "stepgate-system", "team-a"];

fn namespace(path: &str) -> Option<&str> {
    path.split_once("/namespaces/").and_then(|(_, rest)| rest.split('/').next())
}

/// A running server; it ends when dropped.
pub(crate) struct ApiServer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    script: Arc<Mutex<Script>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// It answers otherwise.
    changed: Arc<Notify>,
    task: JoinHandle<()>,
}

impl ApiServer {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(script.state()));
        let kept = Arc::clone(&state);
        let (script, asked) = (Arc::new(Mutex::new(script)), Arc::new(Mutex::new(Vec::new())));
        let (answers, seen) = (Arc::clone(&script), Arc::clone(&asked));
        let changed = Arc::<Notify>::default();
        let notified = Arc::clone(&changed);
        let router = Router::new().fallback(move |request: axum::extract::Request| {
            // First the notification: what changes after the script is read is told of.
            let changed = Arc::clone(&notified).notified_owned();
            let script = answers.lock().unwrap().clone();
            handle(script, Arc::clone(&kept), changed, Arc::clone(&seen), request)
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, script, asked, changed, task }
    }

    /// Answers otherwise from now on. What is kept stays, unless something else is kept.
    pub(crate) fn answer(&self, script: Script) {
        if !script.kinds.is_empty() {
            *self.state.lock().unwrap() = script.state();
        }
        *self.script.lock().unwrap() = script;
        self.changed.notify_waiters();
    }

    pub(crate) fn connection(&self) -> Connection {
        let config = kube::Config::new(self.url.parse().unwrap());
        let connection = Connection::new(config).unwrap();
        // Only for answers that never come there is an end to wait for: on a busy machine others take their time.
        let is_silent = self.script.lock().unwrap().answers.values().any(|answer| matches!(answer, Answer::Silence));
        if is_silent { connection.with_timeout(Duration::from_secs(3)) } else { connection }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// `METHOD path` of every request, in order, but for those by which each reading and each act asks which cluster it is,
    /// and whether its server is ready.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.asked().into_iter().map(|asked| format!("{} {}", asked.method, asked.path));
        lines.filter(|line| !["GET /api/v1/namespaces/kube-system", "GET /readyz"].contains(&line.as_str())).collect()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn handle(
    script: Script,
    kept: Arc<Mutex<State>>,
    changed: OwnedNotified,
    seen: Arc<Mutex<Vec<Asked>>>,
    request: axum::extract::Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = to_bytes(body, usize::MAX).await.unwrap();
    let asked = Asked {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    seen.lock().unwrap().push(asked.clone());
    let json = |code: u16, text: String| {
        (StatusCode::from_u16(code).unwrap(), [(header::CONTENT_TYPE, "application/json")], text).into_response()
    };
    let is_kept = kept.lock().unwrap().serves(&asked.path);
    let unknown = || (!is_kept).then_some(Answer::Text(404, "404 page not found"));
    let Some(answer) = script.answer(&asked).or_else(unknown) else {
        let content_type = parts.headers.get(header::CONTENT_TYPE);
        let request = Request {
            method: asked.method,
            path: asked.path,
            query: asked.query,
            content_type: content_type.map_or("", |kind| kind.to_str().unwrap()).to_owned(),
            body: asked.body,
        };
        return match kept.lock().unwrap().answer(&request, Timestamp::now()) {
            fake_api_server::Answer::Reply(reply) => json(reply.code, reply.body.to_string()),
            fake_api_server::Answer::Watch(_) => panic!("{}: a watch of what is kept", request.path),
        };
    };
    match answer {
        Answer::Json(value) => json(200, value.to_string()),
        Answer::Late(after, value) => {
            tokio::time::sleep(after).await;
            json(200, value.to_string())
        }
        Answer::Error(code, message) => {
            json(code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, "reason": ""}).to_string())
        }
        Answer::Busy(seconds) => {
            json(429, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "storage is (re)initializing", "code": 429,
                "reason": "TooManyRequests", "details": {"retryAfterSeconds": seconds}}).to_string())
        }
        Answer::Text(code, text) => (StatusCode::from_u16(code).unwrap(), text).into_response(),
        Answer::CutOff => json(200, String::from("{\"kind\":\"List\",\"items\":[{\"metadata\":{\"na")),
        Answer::Silence => std::future::pending().await,
        Answer::Watch(objects) => {
            let listed = json!({"apiVersion": "v1", "kind": "Any",
                "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}});
            let events = objects.iter().map(|object| json!({"type": "ADDED", "object": object}));
            let events: Vec<Value> = events.chain([json!({"type": "BOOKMARK", "object": listed})]).collect();
            let stream = stream::once(future::ready(Ok::<_, Infallible>(lines(&events)))).chain(stream::pending());
            Body::from_stream(stream).into_response()
        }
        Answer::Events(events) => json(200, lines(&events)),
        Answer::Open(events) => {
            let end = stream::once(changed).filter_map(|()| future::ready(None));
            Body::from_stream(stream::once(future::ready(Ok::<_, Infallible>(lines(&events)))).chain(end)).into_response()
        }
    }
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}
