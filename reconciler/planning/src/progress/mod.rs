//! Where the clusters of a fleet stand, for those that come after them.

mod cluster;
mod judges;
#[cfg(test)]
mod tests;
mod turns;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use overlays::{ClusterSpec, Fleet, Management};
use rollout::{Decision, Prerequisite, Standing, Turn, WaveHold, WaveWords};

pub use cluster::ClusterProgress;
pub use judges::WaveJudges;
use turns::FleetTurns;
pub use waves::{AskedWave, WaveProgress, asked_wave, plain_waves, underway, waves};

/// Where each cluster stands, as far as it has been worked on.
#[derive(Debug, Default)]
pub struct FleetProgress {
    known: BTreeMap<ClusterName, ClusterProgress>,
    /// What was decided last, and at which source commit.
    decided: BTreeMap<ClusterName, (CommitId, Decision)>,
    /// What became of clusters that were done.
    afterwards: BTreeMap<ClusterName, Afterwards>,
    /// What people have said of waves.
    words: Arc<WaveWords>,
    changes: u64,
    /// Clusters that have come to stand elsewhere since the waves were looked at.
    changed: BTreeSet<ClusterName>,
    turns: Option<FleetTurns>,
}

/// What became of a cluster that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Afterwards {
    /// It broke, and why.
    Broken(String),
    /// It was mended then.
    Mended(Timestamp),
}

impl FleetProgress {
    /// A cluster stands here now.
    pub fn note(&mut self, cluster: &ClusterName, standing: ClusterProgress) {
        if self.known.get(cluster) != Some(&standing) {
            self.known.insert(cluster.clone(), standing);
            self.changed(cluster);
        }
    }

    /// This is what people have said of waves by now.
    pub fn hear(&mut self, words: &Arc<WaveWords>) {
        if self.words != *words {
            self.words = Arc::clone(words);
            self.changes += 1;
            self.turns.iter_mut().for_each(FleetTurns::hear);
        }
    }

    /// This was decided of a cluster at that commit of the source branch.
    pub fn decide(&mut self, cluster: &ClusterName, source: &CommitId, decision: Decision) {
        let decided = (source.clone(), decision);
        if self.decided.get(cluster) != Some(&decided) {
            self.decided.insert(cluster.clone(), decided);
            self.changed(cluster);
        }
    }

    /// What was decided of a cluster is not known any more: it is about to be decided anew.
    pub fn forget_decision(&mut self, cluster: &ClusterName) {
        if self.decided.remove(cluster).is_some() {
            self.changed(cluster);
        }
    }

    /// A cluster could not be decided about: others do not wait until it can.
    pub fn give_up(&mut self, cluster: &ClusterName, source: &CommitId) {
        if self.decided.get(cluster).is_none_or(|(at, _)| at != source) {
            let held = self.decided.remove(cluster).map(|(_, decision)| decision);
            self.changed.insert(cluster.clone());
            let held = held.filter(|decision| matches!(decision, Decision::Held { .. }));
            self.decide(cluster, source, held.unwrap_or(Decision::GoesOn));
        }
    }

    /// A cluster that is done is broken, or is not.
    pub fn note_health(&mut self, cluster: &ClusterName, broken: Option<String>, now: Timestamp) {
        let is_broken = matches!(self.afterwards.get(cluster), Some(Afterwards::Broken(_)));
        let after = match broken {
            Some(why) => Afterwards::Broken(why),
            None if is_broken => Afterwards::Mended(now),
            None => return,
        };
        if self.afterwards.get(cluster) != Some(&after) {
            self.afterwards.insert(cluster.clone(), after);
            self.changed(cluster);
        }
    }

    fn changed(&mut self, cluster: &ClusterName) {
        self.changes += 1;
        self.changed.insert(cluster.clone());
    }

    /// How often any cluster has come to stand elsewhere: while it stays, nobody's prerequisites have changed for that.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Where one of them stands for the others of its wave, at that commit of the source branch.
    fn standing(&self, cluster: &ClusterName, source: &CommitId) -> Standing {
        let decided = self.decided.get(cluster);
        let Some(progress) = self.known.get(cluster) else {
            // Of one whose plan cannot be made nobody waits for more.
            return Standing::Ahead(if decided.is_some() { Turn::NotReady } else { Turn::Unknown });
        };
        let started = progress.started();
        if let Some(why) = progress.taken_back() {
            return Standing::Failed { started, why: why.to_owned() };
        }
        match (progress.running(), decided) {
            // Held is who was found held, whatever was pushed since, until it is decided about again.
            (Some(_), Some((_, Decision::Held { stage }))) => {
                Standing::Failed { started, why: format!("held at {stage}") }
            }
            (Some(started), Some((at, _))) => Standing::UnderWay { started, is_known: at == source },
            (Some(started), None) => Standing::UnderWay { started, is_known: false },
            (None, decided) if progress.unmet().is_some() => Standing::Ahead(match decided {
                Some((at, Decision::WaitsForTurn)) if at == source => Turn::Ready,
                Some((at, _)) if at == source => Turn::NotReady,
                Some(_) | None => Turn::Unknown,
            }),
            (None, _) => match self.afterwards.get(cluster) {
                Some(Afterwards::Broken(why)) => Standing::Failed { started, why: why.clone() },
                Some(Afterwards::Mended(at)) => {
                    Standing::Done { started, since: progress.verified().map(|verified| verified.max(*at)) }
                }
                None => Standing::Done { started, since: progress.verified() },
            },
        }
    }
}

/// What other clusters say to the next stage of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Its manager, where that is not done.
    pub prerequisite: Option<Prerequisite>,
    /// What a wave before its own says, or its own one.
    pub wave: Option<WaveHold>,
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

/// What keeps this cluster from its next stage: an earlier wave that is not done, its manager, or its own wave. `source` is the
/// newest commit of the source branch, at which the fleet was read.
pub fn others(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    progress: &mut FleetProgress,
    source: &CommitId,
    now: Timestamp,
) -> Others {
    let known = progress.turns.take().filter(|turns| turns.is_of(fleet, source));
    let mut turns = known.unwrap_or_else(|| FleetTurns::new(fleet, progress, source, now));
    let changed = std::mem::take(&mut progress.changed);
    turns.catch_up(fleet, progress, &changed, now);
    let others = others_of(fleet, cluster, progress, &mut turns, now);
    progress.turns = Some(turns);
    others
}

fn others_of(
    fleet: &Fleet,
    cluster: &ClusterSpec,
    progress: &FleetProgress,
    turns: &mut FleetTurns,
    now: Timestamp,
) -> Others {
    let manager = match &cluster.management {
        Management::ManagedBy(manager) => Some(manager.as_str()),
        Management::SelfManaged | Management::Undeclared => None,
    };
    let policy = &fleet.policy;
    let own = policy.wave_of(&cluster.name).unwrap_or(policy.waves.len());
    if let Some(hold) = turns.held_by_earlier(fleet, own, progress, now) {
        return Others { prerequisite: None, wave: Some(hold) };
    }
    // One whose files cannot be read is no reason to go ahead of it.
    let unreadable = |name: &&str| fleet.unreadable_clusters().contains(name);
    let state = manager.and_then(|name| {
        if unreadable(&name) {
            return Some(UNREADABLE.to_owned());
        }
        unmet(progress, &fleet.cluster(name)?.name)
    });
    let cluster_of = |name: &str| name.parse::<ClusterName>().ok();
    if let Some((cluster, state)) = manager.and_then(cluster_of).zip(state) {
        return Others { prerequisite: Some(Prerequisite { cluster, met: false, state }), wave: None };
    }
    let wave = cluster_of(&cluster.name).and_then(|name| turns.held_by_own(fleet, own, &name, progress, now));
    Others { prerequisite: None, wave }
}

/// What is said of a cluster of which nothing can be said.
const UNREADABLE: &str = "its files cannot be read";

/// What is left to be done of a cluster, in words; none where nothing is.
fn unmet(progress: &FleetProgress, name: &str) -> Option<String> {
    match progress.known.get(&name.parse::<ClusterName>().ok()?) {
        None => Some("it has no plan yet".to_owned()),
        Some(standing) => standing.unmet(),
    }
}
