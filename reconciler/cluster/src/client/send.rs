//! A request on its way: its turn, its limits of time and size, and what is tried again.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http;
use futures::AsyncReadExt as _;
use futures::future::{Either, select};
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::connection::Connection;
use super::error::RequestError;
use super::shared_read::{Read, Turn, answer_of};

/// The largest answer that is read. A page of the largest custom resource definitions has about 40 MB.
const LARGEST_ANSWER: u64 = 128 << 20;

/// How often something is read whose server asks to be left alone for a moment.
const TRIES: u32 = 3;

/// The longest such moment, in seconds.
const LONGEST_WAIT: u32 = 2;

/// A request as it is built: a name may be none.
type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl Connection {
    /// Sends a request and reads its answer.
    pub(super) async fn send<T: DeserializeOwned>(&self, attempt: &str, request: Built) -> Result<T, RequestError> {
        self.parse(attempt, &self.answer(attempt, request).await?)
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, attempt: &str, answer: &[u8]) -> Result<T, RequestError> {
        serde_json::from_slice(answer).map_err(|error| RequestError::malformed(attempt, &self.server, &error))
    }

    pub(super) fn unbuilt(&self, attempt: &str, error: kube::core::request::Error) -> RequestError {
        RequestError::new(attempt, &self.server, &kube::Error::BuildRequest(error))
    }

    /// Sends a request and reads its answer. What others wait to ask as well is sent once.
    pub(super) async fn answer(&self, attempt: &str, request: Built) -> Result<Arc<Vec<u8>>, RequestError> {
        let request = request.map_err(|error| self.unbuilt(attempt, error))?;
        if request.method() == http::Method::GET {
            let (answer, turn) = self.shared_reads.ask(&Read::of(&request));
            if let Some(turn) = turn {
                // Beside whoever asks: others wait for the answer too, and would wait for as long as nobody polls it.
                tokio::spawn(self.clone().read_in_turn(turn, attempt.to_owned(), request.clone()));
            }
            if let Some(answer) = answer_of(answer).await {
                return answer;
            }
        }
        self.permit().await;
        self.in_turn(attempt, request).await.map(Arc::new)
    }

    /// Sends a read when its turn comes, for as long as somebody waits for its answer.
    async fn read_in_turn(self, mut turn: Turn, attempt: String, request: http::Request<Vec<u8>>) {
        self.permit().await;
        if !turn.begin() {
            return;
        }
        let answer = match select(pin!(self.in_turn(&attempt, request)), pin!(turn.abandoned())).await {
            Either::Left((answer, _)) => answer.map(Arc::new),
            Either::Right(_) => return,
        };
        turn.end(answer);
    }

    /// Sends a request whose turn has come, and reads its answer. Nothing of it is logged: it may be a Secret.
    async fn in_turn(&self, attempt: &str, request: http::Request<Vec<u8>>) -> Result<Vec<u8>, RequestError> {
        let failed = |error: kube::Error| RequestError::new(attempt, &self.server, &error);
        let mut patience = self.timeout;
        if let Some(fence) = self.fence.as_ref().filter(|_| writes(&request)) {
            let not_leading = || RequestError::NotLeading { attempt: attempt.to_owned(), server: self.server.clone() };
            patience = patience.min(fence.remaining().ok_or_else(not_leading)?);
        }
        let answer = async {
            let mut tries = 1;
            loop {
                match self.once(request.clone()).await {
                    Err(kube::Error::Api(status)) if tries < TRIES && !writes(&request) => {
                        let Some(later) = asked_to_wait(&status) else { return Err(failed(kube::Error::Api(status))) };
                        tokio::time::sleep(later).await;
                        self.permit().await;
                        tries += 1;
                    }
                    answer => return answer.map_err(failed),
                }
            }
        };
        let sent = Instant::now();
        let answer = match timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.leave_connections(sent);
                let (attempt, server) = (attempt.to_owned(), self.server.clone());
                Err(RequestError::TimedOut { attempt, server, after: patience })
            }
        };
        self.has_answered(!answer.as_ref().is_err_and(RequestError::is_unreachable));
        let answer = answer?;
        if answer.len() as u64 >= LARGEST_ANSWER {
            return Err(self.too_long(attempt, format!("{} MiB in one answer", LARGEST_ANSWER >> 20)));
        }
        Ok(answer)
    }

    /// Sends a request once.
    async fn once(&self, request: http::Request<Vec<u8>>) -> Result<Vec<u8>, kube::Error> {
        let stream = self.client.request_stream(request).await?;
        let mut answer = Vec::new();
        let mut stream = std::pin::pin!(stream.take(LARGEST_ANSWER));
        stream.read_to_end(&mut answer).await.map_err(kube::Error::ReadEvents)?;
        Ok(answer)
    }
}

/// For how long a server asks to be left alone that has no time, or has only just been started; none where it asks for more than is worth waiting for.
fn asked_to_wait(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    (status.code == 429 && (1..=LONGEST_WAIT).contains(&seconds)).then(|| Duration::from_secs(seconds.into()))
}

/// Whether a request changes something that is kept.
fn writes(request: &http::Request<Vec<u8>>) -> bool {
    let is_dry_run = || request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"));
    request.method() != http::Method::GET && !is_dry_run()
}
