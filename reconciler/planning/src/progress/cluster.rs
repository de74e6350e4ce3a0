//! Where one cluster stands by git.

use super::judges::WaveJudges;
use domain::{CommitId, PlanDigest};
use jiff::Timestamp;
use rollout::{Block, Ledger, LedgerState, Plan, StageRecordKind};

/// What other clusters want to know of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterProgress {
    /// Its next stage with a difference.
    next: Option<String>,
    /// Since when a rollout of it is on the way.
    running: Option<Timestamp>,
    /// What its last rollout was, or is.
    rollout: Option<LastRollout>,
    /// How what it was to be was taken back, where it was.
    taken_back: Option<String>,
    /// Its newest plan, and the commit of the source branch that this was made for.
    planned: Option<(PlanDigest, CommitId)>,
    /// What policies of before ask of its wave, and who is who.
    judges: WaveJudges,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LastRollout {
    plan: PlanDigest,
    /// Whether anything was committed of it: a record of what was found is no rollout.
    is_carried_out: bool,
    source: CommitId,
    started: Timestamp,
    verified: Option<Timestamp>,
}

impl ClusterProgress {
    /// By its plan and its ledger.
    pub fn of(plan: &Plan, ledger: Option<&Ledger>) -> Self {
        let running = ledger.filter(|ledger| ledger.state == LedgerState::Running);
        let next = plan.has_differences().then(|| plan.next_stage());
        // Those that it waits for would wait for it in turn.
        let next = next.filter(|_| running.is_some() || !waits_for_others(plan));
        let rollout = ledger.map(|ledger| LastRollout {
            plan: ledger.plan.clone(),
            is_carried_out: !ledger.stages.is_empty(),
            source: ledger.source.clone(),
            started: ledger.started_at,
            verified: ledger.finished_at,
        });
        Self {
            next: next.map(|stage| stage.map(|stage| stage.stage.to_string()).unwrap_or_default()),
            running: running.map(|ledger| ledger.started_at),
            rollout,
            taken_back: ledger.and_then(|ledger| taken_back(plan, ledger)),
            planned: Some((plan.digest.clone(), plan.source.clone())),
            judges: WaveJudges::default(),
        }
    }

    /// The same, with what other policies than the newest ask of its wave.
    #[must_use]
    pub fn judged_by(self, judges: WaveJudges) -> Self {
        Self { judges, ..self }
    }

    /// What other policies than the newest ask of its wave, and who is who.
    pub(super) fn judges(&self) -> &WaveJudges {
        &self.judges
    }

    /// The plan that somebody approves who approves its wave: the newest while something is left to do, as far as it is known for that commit of
    /// the source branch; else the one that was carried out last.
    pub(super) fn approved_plan(&self, source: &CommitId) -> Option<&PlanDigest> {
        if self.unmet().is_some() || self.running.is_some() {
            return self.planned.as_ref().filter(|(_, at)| at == source).map(|(plan, _)| plan);
        }
        self.rollout.as_ref().filter(|rollout| rollout.is_carried_out).map(|rollout| &rollout.plan)
    }

    /// Whether a rollout of another plan than the newest is on the way.
    pub(super) fn is_replanned(&self) -> bool {
        let running = self.rollout.as_ref().filter(|_| self.running.is_some());
        running.zip(self.planned.as_ref()).is_some_and(|(running, (newest, _))| running.plan != *newest)
    }

    /// The same with a rollout that has begun, at `now` unless it was on the way already.
    pub fn begun(&self, now: Timestamp) -> Self {
        Self { running: self.running.or(Some(now)), ..self.clone() }
    }

    /// Since when a rollout is on the way.
    pub(super) fn running(&self) -> Option<Timestamp> {
        self.running
    }

    /// How it was taken back, where it was.
    pub(super) fn taken_back(&self) -> Option<&str> {
        self.taken_back.as_deref()
    }

    /// When the first stage of its last rollout was committed.
    pub(super) fn started(&self) -> Option<Timestamp> {
        self.running.or_else(|| self.rollout.as_ref().map(|rollout| rollout.started))
    }

    /// When its last rollout was verified.
    pub(super) fn verified(&self) -> Option<Timestamp> {
        self.rollout.as_ref()?.verified
    }

    /// The commit of the source branch that its last rollout was made from.
    pub(super) fn source(&self) -> Option<&CommitId> {
        self.rollout.as_ref().map(|rollout| &rollout.source)
    }

    /// What is still missing before others may go; none when nothing is.
    pub(super) fn unmet(&self) -> Option<String> {
        match &self.next {
            Some(next) => Some(format!("its next stage is {next}")),
            None if self.running.is_some() => Some("its rollout is not verified yet".to_owned()),
            None => None,
        }
    }
}

/// Whether the next rollout of a chain begins once other clusters have followed, or have gone ahead, and nothing else keeps it.
fn waits_for_others(plan: &Plan) -> bool {
    let of_others = |block: &Block| Block::OF_OTHER_CLUSTERS.contains(&block.code.as_str());
    plan.chain.is_some() && !plan.blocked.is_empty() && plan.blocked.iter().all(of_others)
}

/// How it was taken back: by people, or a stage of the rollout that is on the way.
fn taken_back(plan: &Plan, ledger: &Ledger) -> Option<String> {
    if let Some(rollback) = &ledger.rollback {
        return Some(format!("went back to {rollback}"));
    }
    // What was pushed since may mend it.
    let is_on_its_way = ledger.state == LedgerState::Running && plan.running;
    let mut records = ledger.stages.iter().filter(|_| is_on_its_way);
    let reverted = records
        .find(|record| ledger.last_record(&record.stage).is_some_and(|last| last.kind == StageRecordKind::Revert));
    reverted.map(|record| format!("{} was reverted", record.stage))
}

#[cfg(test)]
impl ClusterProgress {
    /// One of which this stage is next.
    pub(super) fn ahead(next: &str) -> Self {
        let judges = WaveJudges::default();
        Self { next: Some(next.to_owned()), running: None, rollout: None, taken_back: None, planned: None, judges }
    }

    /// One whose rollout has begun then, for that commit of the source branch.
    pub(super) fn under_way(started: Timestamp, source: &CommitId) -> Self {
        let rollout = LastRollout { verified: None, ..Self::last(started, source) };
        Self { running: Some(started), rollout: Some(rollout), ..Self::ahead("capi") }
    }

    /// One that was verified then.
    pub(super) fn done(verified: Timestamp, source: &CommitId) -> Self {
        Self { next: None, rollout: Some(Self::last(verified, source)), ..Self::ahead("capi") }
    }

    /// The same, of which this is the newest plan, for that commit of the source branch.
    pub(super) fn planned(self, plan: &str, source: &CommitId) -> Self {
        Self { planned: Some((PlanDigest::of([plan.as_bytes()]), source.clone())), ..self }
    }

    fn last(time: Timestamp, source: &CommitId) -> LastRollout {
        let plan = PlanDigest::of([b"1".as_slice()]);
        LastRollout { plan, is_carried_out: true, source: source.clone(), started: time, verified: Some(time) }
    }
}
