//! What can happen, and the state after it.

use std::sync::Arc;

use rollout::{
    BackupReport, ConditionStatus, Effect, Expectation, FastPath, FluxKustomization, GateHistory, Identification,
    Observation, Reachability, StageTrailer, WatchEvidence, WorkloadObservation, conditions, record,
};

use super::model::{LATE, Model, NAMES, STAGES, Versions, digest, time, tree};
use super::pictures::{add_control_plane, add_deployment, add_workers};

/// What can happen. The first group is the ordinary course of things, the second costs a fault each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    FluxApplies,
    RollsOut,
    Read,
    /// The running gate's own objects and Flux are read, over whatever was read of everything before.
    ReadGate,
    /// Watches tell of its workloads, over the same.
    BeTold,
    /// What it expects is read anew, after a reading in which that gate held.
    Confirm,
    Decide,
    Push,
    Repair,
    Resume,
    PersonReverts,
    Unreachable,
    StaleRead,
    /// Watches are behind.
    BeToldLate,
    Unconfirmed,
    SkewedRead,
    Crash,
    Break,
    Late,
    Pause,
    PersonCommits,
    SomebodyElsewhereCommits,
    PushWithLostAnswer,
    NewTarget,
}

impl Action {
    pub const ALL: [Self; 24] = [
        Self::FluxApplies,
        Self::RollsOut,
        Self::Read,
        Self::ReadGate,
        Self::BeTold,
        Self::Confirm,
        Self::Decide,
        Self::Push,
        Self::Repair,
        Self::Resume,
        Self::PersonReverts,
        Self::Unreachable,
        Self::StaleRead,
        Self::BeToldLate,
        Self::Unconfirmed,
        Self::SkewedRead,
        Self::Crash,
        Self::Break,
        Self::Late,
        Self::Pause,
        Self::PersonCommits,
        Self::SomebodyElsewhereCommits,
        Self::PushWithLostAnswer,
        Self::NewTarget,
    ];

    pub fn is_fault(self) -> bool {
        Self::ALL.iter().position(|action| *action == self)
            >= Self::ALL.iter().position(|action| *action == Self::Unreachable)
    }
}

impl Model {
    /// What a reader sees of a cluster whose Flux has applied so many commits and in which these versions run.
    fn content(&self, cluster: usize, applied: usize, actual: Versions) -> Observation {
        let mut seen = Observation::empty(time(self.now));
        seen.identity = Identification::without_server(NAMES[cluster]);
        let revision = applied.checked_sub(1).and_then(|index| self.deploy.lineage().get(index)).cloned();
        let declared = applied.checked_sub(1).map_or([1; 3], |index| self.trees[index][cluster]);
        seen.flux.kustomizations.push(FluxKustomization {
            namespace: "flux-system".into(),
            name: "cluster".into(),
            source: None,
            source_kind: rollout::SourceKind::default(),
            source_namespace: None,
            generation: 1,
            observed_generation: Some(1),
            suspended: false,
            reconcile_disabled: false,
            suspended_by: None,
            hold: None,
            ready: conditions([("Ready", ConditionStatus::True)]).remove("Ready"),
            last_applied_revision: revision.clone(),
            last_attempted_revision: revision,
            artifacts: rollout::Artifacts::default(),
            ready_since: None,
        });
        for ((name, declared), actual) in STAGES[cluster].iter().zip(declared).zip(actual) {
            match *name {
                "control-plane" => add_control_plane(&mut seen, declared, actual),
                "workers/md-0" => add_workers(&mut seen, declared, actual),
                name => add_deployment(&mut seen, name, declared, actual),
            }
        }
        seen.backup.clone_from(&self.clusters[cluster].backup);
        seen
    }

    fn observe(&mut self, cluster: usize, observation: Observation) {
        self.own(cluster).rest = None;
        self.own(cluster).observation = Some(Arc::new(observation));
        self.own(cluster).history = record(&self.world(cluster), time(self.now));
    }

    /// Reads what the running gate expects, where that may tell what to wait for.
    fn read_gate(&mut self, cluster: usize) -> Option<()> {
        let own = &self.clusters[cluster];
        let whole = own.observation.as_ref().filter(|_| own.rest.is_none())?;
        let flux = self.content(cluster, own.applied, own.actual).flux;
        let (expectations, rest) = FastPath::running_gate(&self.world(cluster), whole, &flux, time(self.now))?;
        self.observe_gate(cluster, &expectations, Arc::new(rest));
        Some(())
    }

    /// Takes watches' word for its workloads, where these tell that it holds.
    fn be_told(&mut self, cluster: usize, (applied, actual): (usize, Versions)) -> Option<()> {
        let own = &self.clusters[cluster];
        let whole = own.observation.as_ref().filter(|_| own.rest.is_none())?;
        let flux = self.content(cluster, own.applied, own.actual).flux;
        let (_, rest) = FastPath::running_gate(&self.world(cluster), whole, &flux, time(self.now))?;
        let deployments = self.content(cluster, applied, actual).deployments;
        let told = WorkloadObservation { deployments, daemon_sets: Vec::new() };
        let Some(WatchEvidence::Holds(read)) =
            FastPath::told_of_gate(&self.world(cluster), &rest, &told, time(self.now))
        else {
            return None;
        };
        self.own(cluster).rest = Some(Arc::new(rest));
        self.own(cluster).observation = Some(Arc::from(read));
        self.own(cluster).history = record(&self.world(cluster), time(self.now));
        Some(())
    }

    /// Reads it once more, where that may be enough.
    fn confirm(&mut self, cluster: usize) -> Option<()> {
        let own = &self.clusters[cluster];
        let rest = own.rest.clone().or_else(|| own.observation.clone())?;
        let expectations = FastPath::expected_to_confirm(&self.world(cluster), time(self.now))?;
        self.observe_gate(cluster, &expectations, rest);
        Some(())
    }

    fn observe_gate(&mut self, cluster: usize, expectations: &[Expectation], rest: Arc<Observation>) {
        let own = &self.clusters[cluster];
        let mut read = self.content(cluster, own.applied, own.actual);
        read.deployments.retain(|deployment| {
            let is_it = |expectation: &Expectation| matches!(expectation, Expectation::Deployment { name, .. } if *name == deployment.name);
            expectations.iter().any(is_it)
        });
        (read.control_planes, read.machine_deployments, read.nodes) = (Vec::new(), Vec::new(), Vec::new());
        (read.machine_sets, read.machines) = (Vec::new(), Vec::new());
        self.own(cluster).rest = Some(rest);
        self.own(cluster).observation = Some(Arc::new(read));
        self.own(cluster).history = record(&self.world(cluster), time(self.now));
    }

    fn settle(&mut self, cluster: usize) {
        let own = &self.clusters[cluster];
        let is_applied = own.applied >= self.last_stage_commit(cluster).map_or(0, |commit| commit.place + 1);
        let runs = [1, 2, 3].map(|stages| is_applied && own.actual[..stages] == own.deployed[..stages]);
        let now = self.now;
        for (since, runs) in self.own(cluster).settled_at.iter_mut().zip(runs) {
            *since = if runs { since.or(Some(now)) } else { None };
        }
    }

    /// The state after an action; none where it is not possible. `decided` is what the cluster's step says in this state.
    pub fn after(&self, cluster: usize, action: Action, decided: &[Effect]) -> Option<Self> {
        if action.is_fault() && self.faults_left == 0 {
            return None;
        }
        let own = &self.clusters[cluster];
        let commits = self.deploy.lineage().len();
        let is_possible = match action {
            Action::FluxApplies => own.applied < commits,
            Action::RollsOut => !own.broken,
            Action::Decide => own.pending.is_none(),
            Action::Push | Action::PushWithLostAnswer => own.pending.is_some(),
            Action::Repair => own.broken,
            Action::Break => !own.broken,
            Action::Resume => own.paused,
            Action::Pause => !own.paused,
            Action::PersonReverts => own.foreign,
            Action::PersonCommits => !own.foreign,
            Action::StaleRead | Action::BeToldLate => own.lagging != (own.applied, own.actual),
            Action::Crash => own.observation.is_some() || own.pending.is_some(),
            Action::NewTarget => own.target == 2,
            Action::Read
            | Action::ReadGate
            | Action::BeTold
            | Action::Confirm
            | Action::Unreachable
            | Action::Unconfirmed
            | Action::SkewedRead => true,
            Action::Late | Action::SomebodyElsewhereCommits => true,
        };
        if !is_possible {
            return None;
        }
        let mut next = self.clone();
        next.faults_left -= u8::from(action.is_fault());
        next.now += 1;
        match action {
            Action::FluxApplies => {
                next.own(cluster).lagging = (own.applied, own.actual);
                next.own(cluster).applied = self.deploy.lineage().len();
            }
            Action::RollsOut => {
                let declared = own.applied.checked_sub(1).map_or([1; 3], |index| self.trees[index][cluster]);
                let stage = (0..3).find(|stage| declared[*stage] != own.actual[*stage])?;
                next.own(cluster).lagging = (own.applied, own.actual);
                next.own(cluster).actual[stage] = declared[stage];
            }
            Action::Read => next.observe(cluster, next.content(cluster, own.applied, own.actual)),
            Action::ReadGate => next.read_gate(cluster)?,
            Action::BeTold => next.be_told(cluster, (own.applied, own.actual))?,
            Action::BeToldLate => next.be_told(cluster, own.lagging)?,
            Action::Confirm => next.confirm(cluster)?,
            Action::Unconfirmed => {
                next.observe(
                    cluster,
                    Observation { confirmed: false, ..next.content(cluster, own.applied, own.actual) },
                );
            }
            Action::StaleRead => {
                let (applied, actual) = own.lagging;
                next.observe(cluster, next.content(cluster, applied, actual));
            }
            Action::SkewedRead => {
                let read_at = time(next.now + 100);
                next.observe(cluster, Observation { read_at, ..next.content(cluster, own.applied, own.actual) });
            }
            Action::Unreachable => {
                let reachable = Reachability::Unreachable { reason: "connection refused".into() };
                next.observe(cluster, Observation { reachable, ..Observation::empty(time(next.now)) });
            }
            Action::Decide => next.decide(cluster, decided)?,
            Action::Push => next.push(cluster, false)?,
            Action::PushWithLostAnswer => next.push(cluster, true)?,
            Action::Crash => {
                next.own(cluster).observation = None;
                next.own(cluster).rest = None;
                next.own(cluster).history = GateHistory::default();
                next.own(cluster).pending = None;
            }
            Action::Break => next.own(cluster).broken = true,
            Action::Repair => next.own(cluster).broken = false,
            Action::Pause => next.own(cluster).paused = true,
            Action::Resume => next.own(cluster).paused = false,
            Action::PersonCommits => next.own(cluster).foreign = true,
            Action::PersonReverts => next.own(cluster).foreign = false,
            Action::Late => next.now += LATE,
            Action::SomebodyElsewhereCommits => next.append(None),
            Action::NewTarget => next.own(cluster).target = 3,
        }
        next.settle(cluster);
        Some(next)
    }

    /// Decides and carries out at once what cannot conflict; a commit is kept to be pushed later, when the branch may have moved.
    fn decide(&mut self, cluster: usize, decided: &[Effect]) -> Option<()> {
        let mut changed = false;
        for effect in decided {
            match effect {
                Effect::Backup { rollout, .. } => {
                    let report = BackupReport {
                        rollout: rollout.clone(),
                        taken_at: time(self.now),
                        objects: 1,
                        read_back: true,
                        location: "backups/1".into(),
                    };
                    self.own(cluster).backup = Some(report);
                    changed = true;
                }
                effect @ (Effect::Commit(_) | Effect::Revert(_) | Effect::Close(_)) => {
                    self.own(cluster).pending = Some(effect.clone());
                    changed = true;
                }
                Effect::Observe { .. }
                | Effect::Etcd(_)
                | Effect::Cluster(_)
                | Effect::OrderMachines { .. }
                | Effect::RequestApproval(_)
                | Effect::Wait { .. }
                | Effect::Hold { .. }
                | Effect::Blocked { .. }
                | Effect::Done => {}
            }
        }
        changed.then_some(())
    }

    /// Compare and swap: a commit whose parent is no longer the head is dropped.
    fn push(&mut self, cluster: usize, answer_is_lost: bool) -> Option<()> {
        let pending = self.clusters[cluster].pending.clone()?;
        if !answer_is_lost {
            self.own(cluster).pending = None;
        }
        match &pending {
            Effect::Commit(commit) | Effect::Revert(commit) if commit.parent == self.head() => {
                let name = commit.stage.to_string();
                let stage = STAGES[cluster].iter().position(|stage| *stage == name).unwrap();
                let version = (1..=3).find(|version| digest(&name, *version) == commit.after).unwrap();
                self.own(cluster).deployed[stage] = version;
                let trailer = StageTrailer {
                    cluster: commit.cluster.clone(),
                    rollout: commit.rollout.clone(),
                    stage: commit.stage.clone(),
                };
                self.append(Some(trailer));
                let deployed = tree(self.clusters[cluster].deployed);
                self.own(cluster).ledger = Some(commit.ledger.clone().with_tree(deployed));
                self.own(cluster).settled_at = [None; 3];
            }
            Effect::Close(close) if close.parent == self.head() => {
                self.append(None);
                self.own(cluster).ledger = Some(close.ledger.clone());
            }
            _ => {}
        }
        Some(())
    }
}
