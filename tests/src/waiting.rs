//! Waiting for what others bring about: for something that has a name, and at most for a time that no machine needs, however busy it is.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep, timeout};

/// How long a single thing may take: a server's start, a verdict, a reconciliation. On an idle machine they take seconds.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// How long a rollout or a comparison of many scenarios may take. On an idle machine they take minutes.
pub const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(150);

/// Waits until `holds` gives a value.
///
/// # Errors
/// When `holds` fails, or gives none for [`PATIENCE`]; with what was waited for.
pub async fn until<T>(what: &str, holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    until_within(what, PATIENCE, holds).await
}

/// As [`until`], for `limit` at most.
///
/// # Errors
/// When `holds` fails, or gives none for so long; with what was waited for.
pub async fn until_within<T>(
    what: &str,
    limit: Duration,
    mut holds: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = holds().await? {
            return Ok(value);
        }
        if start.elapsed() > limit {
            bail!("not within {} s: {what}", limit.as_secs());
        }
        sleep(PAUSE).await;
    }
}

/// Waits for something that ends by itself.
///
/// # Errors
/// When it does not within [`PATIENCE`]; with what was waited for.
pub async fn end_of<T>(what: &str, waited: impl Future<Output = T>) -> anyhow::Result<T> {
    timeout(PATIENCE, waited).await.with_context(|| format!("not within {} s: {what}", PATIENCE.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_never_comes_is_named_when_its_time_is_over() {
        let mut looks = 0;
        let third = until("a third look", async || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(third.await.unwrap(), 3);
        let never = until_within("the moon", Duration::ZERO, async || Ok(None::<()>)).await.unwrap_err();
        assert_eq!(never.to_string(), "not within 0 s: the moon");
        assert_eq!(end_of("a word", std::future::ready("yes")).await.unwrap(), "yes");
    }
}
