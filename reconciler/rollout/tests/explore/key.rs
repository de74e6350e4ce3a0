//! When two states of the model are one.

use std::fmt::Write as _;

use domain::RolloutId;
use rollout::{BackupReport, Effect, Observation, Reachability};

use super::model::{BACKUP_AGE, Model, TIMEOUT};

impl Model {
    /// Everything that future steps depend on, with times as relations: two states with one key have the same future.
    pub fn key(&self) -> String {
        let mut key = format!("{} ", self.faults_left);
        for cluster in 0..2 {
            let own = &self.clusters[cluster];
            let last = self.last_stage_commit(cluster);
            let contains_last = |applied: usize| last.is_none_or(|commit| applied > commit.place);
            let declared = |applied: usize| applied.checked_sub(1).map_or([1; 3], |index| self.trees[index][cluster]);
            let flags = [
                own.broken,
                own.paused,
                own.foreign,
                contains_last(own.applied),
                own.applied == self.deploy.lineage().len(),
            ];
            write!(key, "|{:?}{}{:?}{:?}{flags:?}", own.deployed, own.target, own.actual, declared(own.applied))
                .unwrap();
            write!(key, "{:?}{}{:?}", declared(own.lagging.0), contains_last(own.lagging.0), own.lagging.1).unwrap();
            if let Some(ledger) = &own.ledger {
                let records: Vec<_> =
                    ledger.stages.iter().map(|record| (record.stage.to_string(), record.kind)).collect();
                write!(key, "{}{:?}{records:?}", ledger.rollout, ledger.state).unwrap();
            }
            if let Some(commit) = last {
                let late = self.now - Self::seconds(commit.committed_at) >= i64::try_from(TIMEOUT).unwrap();
                write!(key, "late{late}").unwrap();
            }
            for (place, seen) in [("read", &own.observation), ("rest", &own.rest)] {
                if let Some(seen) = seen {
                    write!(key, "{place}{}", self.key_of(cluster, seen)).unwrap();
                }
            }
            for (name, streak) in own.history.streaks() {
                let current = own.observation.as_ref().is_some_and(|seen| seen.read_at == streak.last);
                let proven = own.settled_at.map(|at| at.is_some_and(|settled| Self::seconds(streak.since) >= settled));
                let bound = name.commit.as_ref() == last.map(|commit| commit.id);
                write!(key, "[{}{bound}{}{current}{proven:?}{}]", name.stage, streak.reads.min(2), streak.settled)
                    .unwrap();
            }
            let settled = own.settled_at.map(|at| at.is_some());
            write!(key, "{:?}{settled:?}", self.key_of_backup(own.backup.as_ref())).unwrap();
            match &own.pending {
                Some(Effect::Commit(commit)) => {
                    write!(key, "C{}{}{}", commit.stage, commit.rollout, commit.parent == self.head()).unwrap();
                }
                Some(Effect::Revert(commit)) => {
                    write!(key, "R{}{}", commit.stage, commit.parent == self.head()).unwrap();
                }
                Some(Effect::Close(close)) => {
                    write!(key, "X{:?}{}", close.ledger.state, close.parent == self.head()).unwrap();
                }
                _ => {}
            }
        }
        key
    }

    /// Whose it is, and whether it counts still.
    fn key_of_backup<'a>(&self, backup: Option<&'a BackupReport>) -> Option<(&'a RolloutId, bool)> {
        backup.map(|backup| (&backup.rollout, self.now - Self::seconds(backup.taken_at) < BACKUP_AGE))
    }

    fn key_of(&self, cluster: usize, seen: &Observation) -> String {
        let last = self.last_stage_commit(cluster);
        let age = self.now - Self::seconds(seen.read_at);
        let age = if age < -5 {
            "future"
        } else if age < 10_000 {
            "fresh"
        } else {
            "old"
        };
        let after = last.is_none_or(|commit| seen.read_at > commit.committed_at);
        let revision = seen.flux.kustomizations.first().and_then(|known| known.last_applied_revision.as_ref());
        let position = self.deploy.lineage().iter().position(|commit| Some(commit) == revision);
        let contains_last = |applied: usize| last.is_none_or(|commit| applied > commit.place);
        let position = position.map(|index| (contains_last(index + 1), self.trees[index][cluster]));
        let mut generations: Vec<_> =
            seen.deployments.iter().map(|known| (&known.name, known.generation, known.observed_generation)).collect();
        generations.sort();
        let machines: Vec<_> = seen.machines.iter().map(|known| &known.spec_version).collect();
        let backup = self.key_of_backup(seen.backup.as_ref());
        let reachable = seen.reachable == Reachability::Reachable;
        format!("{age}{after}{reachable}{}{position:?}{generations:?}{machines:?}{backup:?}", seen.confirmed)
    }
}
