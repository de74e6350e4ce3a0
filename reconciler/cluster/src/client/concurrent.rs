//! Several requests at once.

use futures::stream::{self, StreamExt as _};

use super::error::RequestError;

/// Requests under way at once to one server.
const CONCURRENT: usize = 8;

/// The answers to several requests, in their order. Once the server cannot be reached no more are sent, and the rest is missing.
pub(crate) async fn concurrently<T>(
    requests: Vec<impl Future<Output = Result<T, RequestError>>>,
) -> Vec<Result<T, RequestError>> {
    let mut answers = std::pin::pin!(stream::iter(requests).buffered(CONCURRENT));
    let mut read = Vec::new();
    while let Some(answer) = answers.next().await {
        let is_last = answer.as_ref().is_err_and(RequestError::is_unreachable);
        read.push(answer);
        if is_last {
            break;
        }
    }
    read
}
