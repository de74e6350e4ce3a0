//! What stands between Stepgate and a forge, and fails as networks and forges do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use reqwest::{Client, Method};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::waiting::PATIENCE;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered as the forge answers it.
    Answered,
    /// Whoever asks dies before the forge hears of it.
    DiesBefore,
    /// The forge does it, and whoever asks dies before it hears of that.
    DiesAfter,
    /// It is answered with this status and a web page, without the forge.
    Refused(u16),
    /// The forge does it, and what the network answers is 504.
    Lost,
}

type Fates = dyn Fn(usize, &Method, &str) -> Fate + Send + Sync;

struct Shared {
    client: Client,
    upstream: String,
    asked: AtomicUsize,
    fates: Mutex<Arc<Fates>>,
    died: Notify,
}

/// A proxy on loopback; it ends when dropped.
pub struct ForgeProxy {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl ForgeProxy {
    /// A proxy of the server at `upstream` through which everything goes.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let fates: Arc<Fates> = Arc::new(|_, _: &Method, _: &str| Fate::Answered);
        let shared = Arc::new(Shared {
            client,
            upstream,
            asked: AtomicUsize::new(0),
            fates: Mutex::new(fates),
            died: Notify::new(),
        });
        let state = Arc::clone(&shared);
        let router = Router::new().fallback(move |request: Request| answer(Arc::clone(&state), request));
        let task = tokio::spawn(async move {
            // Ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, shared, task })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// From now on requests, counted from 0 again, have these fates.
    pub fn fates(&self, fates: impl Fn(usize, &Method, &str) -> Fate + Send + Sync + 'static) {
        *self.shared.fates.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fates);
        self.shared.asked.store(0, Ordering::SeqCst);
    }

    /// How many requests there were since the fates were told.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Returns when whoever asked has died.
    pub async fn died(&self) {
        self.shared.died.notified().await;
    }
}

impl Drop for ForgeProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(shared: Arc<Shared>, request: Request) -> Response {
    let number = shared.asked.fetch_add(1, Ordering::SeqCst);
    let fates = Arc::clone(&shared.fates.lock().unwrap_or_else(PoisonError::into_inner));
    let fate = fates(number, request.method(), request.uri().path());
    match fate {
        Fate::Refused(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            return (status, [("content-type", "text/html")], "<html>not now</html>").into_response();
        }
        Fate::DiesBefore => return dead(&shared).await,
        Fate::Answered | Fate::DiesAfter | Fate::Lost => {}
    }
    let answered = forward(&shared, request).await;
    match (fate, answered) {
        (Fate::DiesAfter, _) => dead(&shared).await,
        (Fate::Lost, _) => StatusCode::GATEWAY_TIMEOUT.into_response(),
        (_, Ok(response)) => response,
        (_, Err(error)) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn dead(shared: &Shared) -> Response {
    shared.died.notify_one();
    std::future::pending().await
}

async fn forward(shared: &Shared, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = to_bytes(body, 16 << 20).await?;
    let mut headers = parts.headers;
    headers.remove("host");
    let url = format!("{}{target}", shared.upstream);
    let answer = shared.client.request(parts.method, url).headers(headers).body(body).send().await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Body::from(answer.bytes().await?).into_response();
    *response.status_mut() = status;
    for (name, value) in
        headers.iter().filter(|(name, _)| !["transfer-encoding", "content-length"].contains(&name.as_str()))
    {
        response.headers_mut().append(name, value.clone());
    }
    Ok(response)
}
