//! A server that answers exactly the requests that a test names, each once and in any order, and fails the test on any other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, Method, Response};
use serde_json::Value;

/// A request, and what is answered to it.
#[derive(Clone, Debug)]
pub struct Exchange {
    method: &'static str,
    /// Path and query as they are on the wire.
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
    /// Whether what is in the place of the token has to be this.
    shows: fn(&str) -> bool,
    status: u16,
    answer_headers: Vec<(&'static str, String)>,
    answer: String,
}

impl Exchange {
    pub fn new(method: &'static str, path: &str, status: u16, answer: &Value) -> Self {
        let json = ("content-type", "application/json; charset=utf-8".to_owned());
        Self {
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            shows: |token| token == "CANARY-token",
            status,
            answer_headers: vec![json],
            answer: answer.to_string(),
        }
    }

    pub fn get(path: &str, answer: &Value) -> Self {
        Self::new("GET", path, 200, answer)
    }

    /// The request has to have this body.
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// The request has to have this header.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The request has to show something else than the token.
    pub fn shows(mut self, shows: fn(&str) -> bool) -> Self {
        self.shows = shows;
        self
    }

    /// The answer has this header.
    pub fn answers_header(mut self, name: &'static str, value: &str) -> Self {
        self.answer_headers.push((name, value.to_owned()));
        self
    }

    /// The answer is this, and no JSON.
    pub fn answers_text(mut self, kind: &str, text: &str) -> Self {
        self.answer_headers = vec![("content-type", kind.to_owned())];
        self.answer = text.to_owned();
        self
    }
}

#[derive(Default)]
struct Script {
    waiting: Vec<Exchange>,
    wrong: Vec<String>,
}

/// The server; it ends with its runtime.
pub struct Replay {
    pub url: String,
    script: Arc<Mutex<Script>>,
}

impl Replay {
    pub async fn start(exchanges: Vec<Exchange>) -> Self {
        let script = Arc::new(Mutex::new(Script { waiting: exchanges, wrong: Vec::new() }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script }
    }

    /// From now on these are answered too.
    pub fn expect(&self, exchanges: Vec<Exchange>) {
        self.script.lock().unwrap().waiting.extend(exchanges);
    }

    /// Fails unless exactly what was expected was asked.
    #[track_caller]
    pub fn finish(&self) {
        let script = self.script.lock().unwrap();
        assert_eq!(script.wrong, Vec::<String>::new());
        let missing: Vec<_> = script.waiting.iter().map(|it| format!("{} {}", it.method, it.path)).collect();
        assert_eq!(missing, Vec::<String>::new(), "never asked");
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    method: Method,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut script = script.lock().unwrap();
    let path = uri.path_and_query().unwrap().as_str();
    let given: BTreeMap<&str, &str> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    let json: Option<Value> = (!body.is_empty()).then(|| serde_json::from_slice(&body).unwrap());
    let fits = |it: &Exchange| {
        it.method == method.as_str()
            && it.path == path
            && it.body == json
            && it.headers.iter().all(|(name, value)| given.get(name) == Some(&value.as_str()))
            && given.get("authorization").and_then(|value| value.strip_prefix("Bearer ")).is_some_and(it.shows)
            && given.get("user-agent").is_some_and(|agent| agent.starts_with("stepgate/"))
    };
    let Some(found) = script.waiting.iter().position(fits) else {
        script.wrong.push(format!("{method} {path} {given:?} {json:?}"));
        return Response::builder().status(418).body(Body::empty()).unwrap();
    };
    let exchange = script.waiting.remove(found);
    let mut response = Response::builder().status(exchange.status);
    for (name, value) in &exchange.answer_headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(exchange.answer)).unwrap()
}
