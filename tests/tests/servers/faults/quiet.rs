//! A time in which nothing may be committed.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::scene::Scene;

/// From now on nothing may be committed, until it has lasted as long as it should.
pub struct Quiet {
    head: String,
    since: Instant,
}

impl Quiet {
    pub fn begin(scene: &Scene) -> anyhow::Result<Self> {
        Ok(Self { head: scene.repository.head()?, since: Instant::now() })
    }

    /// Waits until it has lasted so long; fails when something is committed before.
    pub async fn lasts(&self, scene: &Scene, time: Duration) -> anyhow::Result<()> {
        loop {
            let is_over = self.since.elapsed() >= time;
            ensure!(scene.repository.head()? == self.head, "committed meanwhile: {:?}", scene.repository.stages()?);
            if is_over {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
