//! Waiting for what others bring about: for something that has a name, and at most for a time that no machine needs, however busy it is.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep, timeout};

use crate::servers;

/// How long a single thing may take: a server's start, a verdict, a reconciliation. On an idle machine they take seconds.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How long a rollout or a comparison of many scenarios may take. On an idle machine they take a
/// minute or two; what hangs must not use up the time of everything else.
pub const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Between the first two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Between two looks at what takes long: looking costs more than it tells then.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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
    let mut pause = SHORTEST_PAUSE;
    loop {
        if let Some(value) = holds().await? {
            return Ok(value);
        }
        if start.elapsed() > limit {
            tell_of_servers(what);
            bail!("not within {} s: {what}", limit.as_secs());
        }
        sleep(pause).await;
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
}

/// Waits for something that ends by itself.
///
/// # Errors
/// When it does not within [`PATIENCE`]; with what was waited for.
pub async fn end_of<T>(what: &str, waited: impl Future<Output = T>) -> anyhow::Result<T> {
    let ended = timeout(PATIENCE, waited).await;
    if ended.is_err() {
        tell_of_servers(what);
    }
    ended.with_context(|| format!("not within {} s: {what}", PATIENCE.as_secs()))
}

/// Says how the servers of this test are at the end of a wait that was in vain.
#[expect(clippy::print_stdout, reason = "told to whoever reads the output of a failed test")]
fn tell_of_servers(what: &str) {
    println!("waited in vain: {what}\n{}", servers::states());
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
