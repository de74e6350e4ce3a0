//! The server itself, on a port of this machine.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::watch::Watch;
use crate::{Answer, Request, State};

/// More than any object of a test takes.
const LARGEST_BODY: usize = 8 << 20;

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct FakeApiServer {
    url: String,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something was written.
    written: Notify,
}

impl FakeApiServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(state: State) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { state: Mutex::new(state), written: Notify::new() });
        let router = Router::new().fallback(move |request| handle(Arc::clone(&shared), request));
        let task = tokio::spawn(async move {
            // It serves until it is ended.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, task })
    }

    /// Where it is reached, without credentials.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn handle(shared: Arc<Shared>, request: axum::extract::Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST_BODY).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let request = Request {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: text(&parts.headers, header::CONTENT_TYPE),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let answer = shared.state().answer(&request, Timestamp::now());
    if request.method != "GET" {
        shared.written.notify_waiters();
    }
    match answer {
        Answer::Reply(reply) => {
            let code = StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (code, [(header::CONTENT_TYPE, "application/json")], reply.body.to_string()).into_response()
        }
        Answer::Watch(watch) => {
            let events = stream::unfold((shared, watch), |(shared, mut watch)| async move {
                let lines = next(&shared, &mut watch).await?;
                Some((Ok::<_, Infallible>(lines), (shared, watch)))
            });
            ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(events)).into_response()
        }
    }
}

/// The next events, one a line; none where the watch has ended.
async fn next(shared: &Shared, watch: &mut Watch) -> Option<String> {
    loop {
        // First the notification: what is written after the state is read is told of.
        let mut written = std::pin::pin!(shared.written.notified());
        written.as_mut().enable();
        let events = shared.state().events(watch)?;
        if !events.is_empty() {
            return Some(events.iter().map(|event| format!("{event}\n")).collect());
        }
        written.await;
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
