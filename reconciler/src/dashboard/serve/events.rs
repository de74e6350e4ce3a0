//! Tells open pages that something has changed. What has changed is never sent: a page fetches itself.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::watch::Receiver;

/// The time between two comments, by which dead connections are noticed.
const COMMENT: Duration = Duration::from_secs(15);

/// How long a browser waits before it comes again, in milliseconds.
const RETRY: Duration = Duration::from_secs(2);

/// A stream of the numbers of snapshots: that of the newest first, then each that is published.
pub(super) fn stream(changed: Receiver<u64>) -> Response {
    let numbers = stream::unfold((changed, false), |(mut changed, is_told)| async move {
        if is_told && changed.changed().await.is_err() {
            return None;
        }
        let number = *changed.borrow_and_update();
        let event = Event::default().retry(RETRY).id(number.to_string()).data(number.to_string());
        Some((Ok::<Event, Infallible>(event), (changed, true)))
    });
    let stream = Sse::new(numbers).keep_alive(KeepAlive::new().interval(COMMENT));
    ([("x-accel-buffering", "no")], stream).into_response()
}
