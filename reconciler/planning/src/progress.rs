//! Where the clusters of a fleet stand, for those that come after them.

use std::collections::{BTreeMap, BTreeSet};

use domain::ClusterName;
use overlays::{ClusterSpec, Fleet, Management};
use rollout::{Ledger, LedgerState, Plan, Prerequisite};

/// What other clusters want to know of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterProgress {
    /// Its next stage with a difference.
    next: Option<String>,
    /// Whether a rollout of it is on the way.
    running: bool,
}

impl ClusterProgress {
    /// By its plan and its ledger.
    pub fn of(plan: &Plan, ledger: Option<&Ledger>) -> Self {
        let next = plan.has_differences().then(|| plan.next_stage());
        Self {
            next: next.map(|stage| stage.map(|stage| stage.stage.to_string()).unwrap_or_default()),
            running: ledger.is_some_and(|ledger| ledger.state == LedgerState::Running),
        }
    }

    /// The same with a rollout that has begun.
    pub fn begun(&self) -> Self {
        Self { running: true, ..self.clone() }
    }

    /// Whether it takes a place of its wave.
    fn is_running(&self) -> bool {
        self.running
    }

    /// What is still missing before others may go; none when nothing is.
    fn unmet(&self) -> Option<String> {
        match &self.next {
            Some(next) => Some(format!("its next stage is {next}")),
            None if self.running => Some("its rollout is not verified yet".to_owned()),
            None => None,
        }
    }
}

/// Where each cluster stands, as far as it has been worked on.
#[derive(Debug, Default)]
pub struct FleetProgress {
    known: BTreeMap<ClusterName, ClusterProgress>,
    changes: u64,
}

impl FleetProgress {
    /// A cluster stands here now.
    pub fn note(&mut self, cluster: &ClusterName, standing: ClusterProgress) {
        if self.known.get(cluster) != Some(&standing) {
            self.known.insert(cluster.clone(), standing);
            self.changes += 1;
        }
    }

    /// How often any cluster has come to stand elsewhere: while it stays, nobody's prerequisites have changed for that.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The clusters whose rollout is on the way.
    pub fn running(&self) -> BTreeSet<ClusterName> {
        self.known.iter().filter(|(_, standing)| standing.is_running()).map(|(name, _)| name.clone()).collect()
    }
}

/// The clusters on which it depends whether this one may go.
pub fn concerning<'a>(fleet: &'a Fleet, cluster: &'a ClusterSpec) -> Vec<&'a str> {
    let policy = &fleet.policy;
    let wave = |name: &str| policy.wave_of(name).unwrap_or(policy.waves.len());
    let manager = match &cluster.management {
        Management::ManagedBy(manager) => Some(manager.as_str()),
        Management::SelfManaged | Management::Undeclared => None,
    };
    let others = fleet.clusters.iter().map(|other| other.name.as_str()).filter(|other| *other != cluster.name);
    let in_time =
        |other: &&str| manager == Some(*other) || (!policy.waves.is_empty() && wave(other) <= wave(&cluster.name));
    others.filter(in_time).collect()
}

/// The first cluster that has to come before this one and is not done: its manager, one of an earlier wave, or one that
/// takes the last place in its own wave.
pub fn prerequisite(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    FleetProgress { known: standings, .. }: &FleetProgress,
) -> Option<Prerequisite> {
    let policy = &fleet.policy;
    let manager = match &cluster.management {
        Management::ManagedBy(manager) => Some(manager.as_str()),
        Management::SelfManaged | Management::Undeclared => None,
    };
    let unmet = |name: &str| -> Option<Prerequisite> {
        let cluster: ClusterName = name.parse().ok()?;
        let state = match standings.get(&cluster) {
            None => "it has no plan yet".to_owned(),
            Some(standing) => standing.unmet()?,
        };
        Some(Prerequisite { cluster, met: false, state })
    };
    let known = manager.and_then(|manager| fleet.cluster(manager)).and_then(|manager| unmet(&manager.name));
    // One whose files cannot be read is no reason to go ahead of it.
    let unreadable = |wanted: &dyn Fn(&str) -> bool| {
        let name = fleet.unreadable_clusters().into_iter().find(|name| wanted(name))?;
        let state = "its files cannot be read".to_owned();
        Some(Prerequisite { cluster: name.parse().ok()?, met: false, state })
    };
    if policy.waves.is_empty() {
        return known.or_else(|| unreadable(&|name| manager == Some(name)));
    }
    let wave = |name: &str| policy.wave_of(name).unwrap_or(policy.waves.len());
    let own = wave(&cluster.name);
    let others = || fleet.clusters.iter().filter(|other| other.name != cluster.name);
    known
        .or_else(|| others().filter(|other| wave(&other.name) < own).find_map(|other| unmet(&other.name)))
        .or_else(|| unreadable(&|name| manager == Some(name) || wave(name) < own))
        .or_else(|| {
            // Whoever began goes on: only a cluster that has not begun waits for a place.
            let places = usize::try_from(policy.waves.get(own)?.concurrency).unwrap_or(usize::MAX);
            let running = |name: &str| {
                let name = name.parse::<ClusterName>().ok();
                name.and_then(|name| standings.get(&name)).is_some_and(|standing| standing.running)
            };
            let beside = others().filter(|other| running(&other.name) && wave(&other.name) == own);
            let beside: Vec<&ClusterSpec> = beside.take(places).collect();
            let full = beside.len() >= places && !running(&cluster.name);
            full.then(|| beside.first().and_then(|other| unmet(&other.name))).flatten()
        })
}
