//! Names that a shell completes: clusters, stages and rollouts of the fleet repository that the line is about.
//!
//! Only what is on this machine is read: nobody waits for a network at a key.

use std::sync::Arc;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use fetch::MirrorFolder;
use git::{Repository, RepositoryLocation};

use crate::reconcile::cache::sources::FetchSources;
use crate::reconcile::clusters::directory::ledger_path;
use crate::reconcile::planner::{FleetReading, Planner};
use planning::DeployedLedger;
use rollout::StageName;

/// The clusters of the fleet.
pub fn clusters() -> ArgValueCandidates {
    completing(|reading| reading.fleet.clusters.iter().map(|cluster| cluster.name.clone()).collect())
}

/// The waves of the fleet.
pub fn waves() -> ArgValueCandidates {
    completing(|reading| reading.fleet.policy.waves.iter().map(|wave| wave.name.clone()).collect())
}

/// The stages of its clusters.
pub fn stages() -> ArgValueCandidates {
    completing(stages_of)
}

/// What can be waited for.
pub fn goals() -> ArgValueCandidates {
    completing(|reading| {
        let stages = stages_of(reading).into_iter().map(|stage| format!("stage={stage}"));
        std::iter::once("done".to_owned()).chain(stages).collect()
    })
}

/// The newest rollout of each cluster.
pub fn rollouts() -> ArgValueCandidates {
    completing(|reading| {
        let Some(deploy) = &reading.deploy else { return Vec::new() };
        let rollout = |name: &str| {
            let text = deploy.read(&ledger_path(&name.parse().ok()?).ok()?).ok()?;
            match DeployedLedger::of(&text) {
                DeployedLedger::Read(ledger) => Some(ledger.rollout.to_string()),
                DeployedLedger::Absent | DeployedLedger::Unreadable(_) => None,
            }
        };
        reading.fleet.clusters.iter().filter_map(|cluster| rollout(&cluster.name)).collect()
    })
}

fn stages_of(reading: &FleetReading) -> Vec<String> {
    let mut stages: Vec<String> = StageName::SINGLE.iter().map(ToString::to_string).collect();
    for cluster in &reading.fleet.clusters {
        for group in overlays::ordered_groups(&reading.fleet, cluster) {
            let stage = format!("workers/{group}");
            if !stages.contains(&stage) {
                stages.push(stage);
            }
        }
    }
    stages
}

fn completing(names: fn(&FleetReading) -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        // A shell shows nothing of an error, and the verb itself will.
        let names = read().map(|reading| names(&reading)).unwrap_or_default();
        names.into_iter().map(CompletionCandidate::new).collect::<Vec<_>>()
    })
}

fn read() -> Option<FleetReading> {
    let place = told("--repo", "STEPGATE_REPO").unwrap_or_else(|| ".".to_owned());
    let branch = told("--source-branch", "STEPGATE_SOURCE_BRANCH").unwrap_or_else(|| "main".to_owned());
    let location: RepositoryLocation = place.parse().ok()?;
    if !matches!(location, RepositoryLocation::Local(_)) {
        return None;
    }
    let repository = Repository::open(&location).ok()?;
    Planner::new(repository, branch.parse().ok()?, Arc::new(FetchSources::new(Vec::<MirrorFolder>::new()))).read().ok()
}

/// What the line says behind a flag, or else a variable.
fn told(flag: &str, variable: &str) -> Option<String> {
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let behind = words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
    behind.cloned().or_else(|| joined.map(str::to_owned)).or_else(|| std::env::var(variable).ok())
}
