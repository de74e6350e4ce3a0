//! Waiting in tests: for something that has a name, and at most for a time that no machine needs, however busy it is.

use std::time::Duration;

/// On an idle machine nothing takes longer than a second.
const PATIENCE: Duration = Duration::from_secs(300);

/// What `waited` gives; the test fails where it does not end.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub async fn end_of<T>(what: &str, waited: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(PATIENCE, waited).await;
    ended.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
