//! Repositories served over HTTP by git's own `http-backend`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The largest push or fetch request.
const LARGEST: usize = 64 << 20;

/// A server of every bare repository below a folder; it ends when dropped. Everybody may fetch, and push where `http.receivepack` of the
/// repository says so.
pub struct GitServer {
    port: u16,
    held: watch::Sender<bool>,
    away: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl GitServer {
    /// Serves the repositories below `root` on loopback.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(root: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let root = Arc::new(root.to_owned());
        let (held, holds) = watch::channel(false);
        let (away, is_away) = watch::channel(false);
        let router = Router::new().fallback(move |request: Request| {
            let is_away = *is_away.borrow();
            let answer = answer(Arc::clone(&root), holds.clone(), request);
            async move { if is_away { StatusCode::SERVICE_UNAVAILABLE.into_response() } else { answer.await } }
        });
        let task = tokio::spawn(async move {
            // Ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { port, held, away, task })
    }

    /// Refuses every request, as a server in maintenance does, or answers again.
    pub fn be_away(&self, away: bool) {
        self.away.send_replace(away);
    }

    /// Lets every request wait, as a slow network does, or lets them go on.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// The address of a repository, such as `fleet.git`.
    #[must_use]
    pub fn url(&self, repository: &str) -> String {
        format!("http://127.0.0.1:{}/{repository}", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(root: Arc<PathBuf>, mut holds: watch::Receiver<bool>, request: Request) -> Response {
    // Fails when the server has ended.
    let _ = holds.wait_for(|held| !held).await;
    match serve(&root, request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")).into_response(),
    }
}

/// One request by CGI (RFC 3875).
async fn serve(root: &Path, request: Request) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await?;
    let given = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", given("content-type"))
        .env("HTTP_CONTENT_ENCODING", given("content-encoding"))
        .env("GIT_PROTOCOL", given("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().context("could not run git http-backend")?;
    let mut input = child.stdin.take().context("git http-backend has no input")?;
    let write = async {
        // It may end before it has read everything.
        let _ = input.write_all(&body).await;
        drop(input);
    };
    let ((), output) = futures::join!(write, child.wait_with_output());
    response(&output?.stdout)
}

fn response(output: &[u8]) -> anyhow::Result<Response> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").context("git http-backend gave no headers")?;
    let (head, body) = output.split_at(end);
    let mut response = Body::from(body.get(4..).unwrap_or_default().to_vec()).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    for line in std::str::from_utf8(head)?.lines() {
        let (name, value) = line.split_once(':').with_context(|| format!("{line:?} is not a valid header"))?;
        if name.eq_ignore_ascii_case("status") {
            let code = value.split_whitespace().next().unwrap_or_default();
            *response.status_mut() = StatusCode::from_bytes(code.as_bytes())?;
        } else {
            response
                .headers_mut()
                .insert(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value.trim())?);
        }
    }
    Ok(response)
}
