//! Kills of Stepgate at random moments. `STEPGATE_SEED` gives the moments of an earlier run again.

use std::time::{Duration, Instant};

use anyhow::ensure;
use tests::servers::{FleetRepository, Process};
use tests::waiting::{LONG_PATIENCE, until_within};

/// How often the controller is killed in a rollout.
pub const KILLS: usize = 30;

/// The longest time between two kills, in milliseconds. A gate takes less to pass, so that some fall between its readings, some into its commit.
const LONGEST: u64 = 6000;

/// Kills the controller at so many random moments, each time with another process to go on.
pub async fn kill_at_random(controller: &mut Process, kills: usize) -> anyhow::Result<()> {
    let mut random = seeded()?;
    for _ in 0..kills {
        kill_once(controller, &mut random, LONGEST).await?;
    }
    Ok(())
}

/// Random numbers by a seed that is printed.
fn seeded() -> anyhow::Result<fastrand::Rng> {
    let given = std::env::var("STEPGATE_SEED").ok().map(|seed| seed.parse()).transpose()?;
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("STEPGATE_SEED={seed}");
    Ok(fastrand::Rng::with_seed(seed))
}

async fn kill_once(controller: &mut Process, random: &mut fastrand::Rng, longest: u64) -> anyhow::Result<()> {
    // A kill may come at any moment, so nothing is waited for.
    tokio::time::sleep(Duration::from_millis(random.u64(..longest))).await;
    controller.kill()?;
    controller.restart()
}

/// Kills at random moments, some after each commit of a rollout: as many of [`KILLS`] are due by then as commits are made of those that there
/// will be.
pub struct Kills {
    repository: FleetRepository,
    random: fastrand::Rng,
    /// How many commits of Stepgate there are in the end.
    end: usize,
    /// How many kills there were while there were so many commits.
    made: Vec<usize>,
    /// The longest time between two kills, in milliseconds.
    longest: u64,
    start: Instant,
}

impl Kills {
    pub fn new(repository: &FleetRepository, end: usize) -> anyhow::Result<Self> {
        Ok(Self {
            repository: repository.clone(),
            random: seeded()?,
            end,
            made: vec![0; end + 1],
            longest: LONGEST,
            start: Instant::now(),
        })
    }

    /// The same with so many milliseconds between two kills at most: of a rollout of many commits each has fewer kills.
    pub fn at_most_after(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// Kills the controller until there are so many commits, each time with another process to go on.
    pub async fn until(&mut self, controller: &mut Process, commits: usize) -> anyhow::Result<()> {
        let committed = async || {
            let made = self.repository.stages()?.len();
            if made < commits && self.is_due(made) {
                self.kill(controller, made).await?;
            }
            Ok((made >= commits).then_some(()))
        };
        until_within(&format!("{commits} commits"), LONG_PATIENCE, committed).await?;
        println!("{commits} commits after {} s", self.start.elapsed().as_secs());
        Ok(())
    }

    /// Kills the controller as often as is due by now, while nothing can be committed.
    pub async fn catch_up(&mut self, controller: &mut Process) -> anyhow::Result<()> {
        let made = self.repository.stages()?.len();
        while self.is_due(made) {
            self.kill(controller, made).await?;
        }
        Ok(())
    }

    /// Makes the kills that are left, now that everything is committed, and tells that no part of the rollout went without.
    pub async fn finish(mut self, controller: &mut Process) -> anyhow::Result<()> {
        self.catch_up(controller).await?;
        println!("killed so often after so many commits: {:?}", self.made);
        let hit = self.made.iter().take(self.end).filter(|kills| **kills > 0).count();
        ensure!(hit * 2 > self.end, "the kills were not spread: {:?}", self.made);
        Ok(())
    }

    fn is_due(&self, commits: usize) -> bool {
        let due = KILLS * commits.min(self.end - 1) / (self.end - 1);
        self.made.iter().sum::<usize>() < due
    }

    async fn kill(&mut self, controller: &mut Process, commits: usize) -> anyhow::Result<()> {
        kill_once(controller, &mut self.random, self.longest).await?;
        self.made[commits.min(self.end)] += 1;
        Ok(())
    }
}
