//! Networks that fail in every way between the program and its servers: whatever they do, a rollout comes to the end that it has without them.
//!
//! `STEPGATE_SCHEDULES` says how many rollouts are disturbed (16, with a forge 8), `STEPGATE_SEED` which: it is that of the first (2000), and each
//! next one has the next number. A check of every change has the same ones each time, so that what fails is of the change.

mod ending;
mod faults;
mod lane;
mod outages;

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use tests::servers::{Gitea, Programs, isolated};

use faults::Schedule;
use lane::Lane;

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];

/// How many rollouts are disturbed without a forge, and with one.
const SCHEDULES: [u64; 2] = [16, 8];

/// The first of those that a check of every change has.
const FIRST: u64 = 2_000;

/// After so many failures no more rollouts are disturbed.
const ENOUGH: usize = 5;

fn number(variable: &str, default: impl FnOnce() -> u64) -> anyhow::Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable}={text}")),
        Err(_) => Ok(default()),
    }
}

async fn disturbed(programs: Programs, with_forge: bool) -> anyhow::Result<()> {
    let lane = Lane::start(&programs, with_forge).await?;
    let mut log = std::fs::File::create(lane.folder.path().join("schedules.log"))?;
    let expected = lane.roll_out("undisturbed", &Schedule::undisturbed()).await?;
    println!("undisturbed: {expected}");
    let (first, count) =
        (number("STEPGATE_SEED", || FIRST)?, number("STEPGATE_SCHEDULES", || SCHEDULES[usize::from(with_forge)])?);
    let mut failed = Vec::new();
    for seed in first..first + count {
        let schedule = Schedule::of(seed, lane.targets());
        let again = format!("STEPGATE_SEED={seed} STEPGATE_SCHEDULES=1: {schedule:?}");
        let told = match lane.roll_out(&format!("seed-{seed}"), &schedule).await {
            Ok(rolled) if rolled.end == expected.end => rolled.to_string(),
            other => {
                failed.push(seed);
                lane.end_connections()?;
                other.map_or_else(|error| format!("failed: {error:?}"), |rolled| format!("failed: {:#?}", rolled.end))
            }
        };
        println!("{again}\n{told}");
        // Of a long run it is seen meanwhile.
        writeln!(log, "{again}\n{told}")?;
        ensure!(failed.len() < ENOUGH, "failed at the seeds {failed:?}");
    }
    ensure!(failed.is_empty(), "failed at the seeds {failed:?}; undisturbed: {:#?}", expected.end);
    lane.folder.done();
    Ok(())
}

#[test]
fn a_rollout_ends_as_ever_though_git_and_the_cluster_fail_by_a_schedule() {
    let name = "networks::a_rollout_ends_as_ever_though_git_and_the_cluster_fail_by_a_schedule";
    isolated(name, NEEDED, async |programs| disturbed(programs, false).await);
}

#[test]
fn a_rollout_ends_as_ever_though_forge_git_and_cluster_fail_by_a_schedule() {
    let name = "networks::a_rollout_ends_as_ever_though_forge_git_and_cluster_fail_by_a_schedule";
    isolated(name, &[NEEDED, Gitea::NEEDED].concat(), async |programs| disturbed(programs, true).await);
}
