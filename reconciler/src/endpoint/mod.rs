//! How this process answers by HTTP: health, metrics and webhooks, all in the same bounds.
//!
//! Whoever reaches an endpoint is hostile. A connection has an end, whatever it does or leaves undone, and so does the number of them: one too
//! many ends the oldest. So neither half a request nor very many take descriptors, memory or time that the loop needs.

mod tls;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

pub use tls::{TlsError, TlsFiles};

/// The bounds of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections are open at once; one more ends the oldest.
    pub connections: usize,
    /// How long a request's header may take, the handshake of TLS apart.
    pub header: Duration,
    /// How long a request may take from its header on: its body and the answer to it.
    pub request: Duration,
    /// How long a connection may last. Each carries one request.
    pub connection: Duration,
}

/// The most connections of one endpoint, however many descriptors there are.
const MOST_CONNECTIONS: usize = 64;

/// The part of the process' descriptors that the connections of one endpoint may take.
const SHARE_OF_DESCRIPTORS: u64 = 16;

/// The longest header of a request, in bytes.
const LONGEST_HEADER: usize = 16 << 10;

/// How long nothing is accepted after that has failed: mostly there are no descriptors, and trying at once does not make any.
const PAUSE: Duration = Duration::from_millis(100);

impl Limits {
    /// The bounds for a process that may open so many files; none where there is no limit.
    #[must_use]
    pub fn within(descriptors: Option<u64>) -> Self {
        let share = descriptors
            .map_or(MOST_CONNECTIONS, |all| usize::try_from(all / SHARE_OF_DESCRIPTORS).unwrap_or(MOST_CONNECTIONS));
        Self {
            connections: share.clamp(4, MOST_CONNECTIONS),
            header: Duration::from_secs(5),
            request: Duration::from_secs(10),
            connection: Duration::from_secs(20),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::within(getrlimit(Resource::Nofile).current)
    }
}

/// An address that is listened on, and what is answered there.
#[derive(Debug)]
pub struct Endpoint {
    name: &'static str,
    listener: TcpListener,
    router: Router,
    tls: Option<TlsFiles>,
    limits: Limits,
}

impl Endpoint {
    /// Listens; nothing is answered before [`Endpoint::serve`]. `name` is what logs call it.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn bind(name: &'static str, address: SocketAddr, router: Router) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { name, listener, router, tls: None, limits: Limits::default() })
    }

    /// The same by TLS, with the certificate that these files hold.
    #[must_use]
    pub fn with_tls(self, tls: Option<TlsFiles>) -> Self {
        Self { tls, ..self }
    }

    /// The same in other bounds.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Answers until the task is aborted.
    pub fn serve(self) -> JoinHandle<()> {
        tokio::spawn(self.accept())
    }

    async fn accept(self) {
        let mut open = Open { most: self.limits.connections.max(1), ..Open::default() };
        let mut fails = false;
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = open.tasks.join_next() => continue,
            };
            match stream {
                Ok((stream, _)) => {
                    fails = false;
                    open.make_room().await;
                    open.begin(self.connection(stream));
                }
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        tracing::warn!(%error, "the {} endpoint could not take a connection", self.name);
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let (router, limits) = (self.router.clone(), self.limits);
        let acceptor = self.tls.as_ref().map(TlsFiles::acceptor);
        let answered = async move {
            match acceptor {
                None => answer(stream, router, limits).await,
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = timeout(limits.header, acceptor.accept(stream)).await {
                        answer(stream, router, limits).await;
                    }
                }
            }
        };
        async move {
            // Whoever is cut off knows; to us it is nobody's fault.
            let _ = timeout(limits.connection, answered).await;
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.listener.local_addr() {
            Ok(address) => write!(formatter, "{} at {scheme}://{address}", self.name),
            Err(_) => write!(formatter, "{} by {scheme}", self.name),
        }
    }
}

/// Answers one request.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send, router: Router, limits: Limits) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = router.clone().oneshot(request);
        async move {
            match timeout(limits.request, answer).await {
                Ok(answer) => answer,
                Err(_) => Ok(StatusCode::REQUEST_TIMEOUT.into_response()),
            }
        }
    });
    // A client that goes away, or speaks something else, is no matter.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(LONGEST_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// The connections of an endpoint, the oldest first.
#[derive(Default)]
struct Open {
    most: usize,
    tasks: JoinSet<()>,
    order: VecDeque<AbortHandle>,
}

impl Open {
    /// Ends the oldest connections, until one more may be opened.
    async fn make_room(&mut self) {
        while self.tasks.len() >= self.most {
            self.order.retain(|task| !task.is_finished());
            if let Some(oldest) = self.order.pop_front() {
                oldest.abort();
            }
            // Its descriptor is free only when it has ended.
            if self.tasks.join_next().await.is_none() {
                return;
            }
        }
        self.order.retain(|task| !task.is_finished());
    }

    fn begin(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(connection);
        self.order.push_back(task);
    }
}

#[cfg(test)]
mod tests;
