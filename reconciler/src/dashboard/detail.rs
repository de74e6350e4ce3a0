//! What a page tells of one cluster, or of one part of the fleet: read when somebody asks.

use jiff::Timestamp;
use policy::{Begin, Closed, Windows};
use rollout::{Ledger, LedgerState, StageRecord, StageRecordKind, StageState};
use serde::Serialize;
use tokio::runtime::Handle;

use super::serve::AT_ONCE;
use super::snapshot::{FleetSource, ReadBy, Snapshot};
use crate::reconcile::people::facts::overridden;
use crate::reconcile::planner::ClusterView;
use crate::rehearsal::{RehearsalReport, RehearsalSettings, rehearse};
use crate::report::{
    ClusterPlan, DiffReport, HistoryReport, ProblemReport, WaveReport, WhyReport, changed_files, commits_of, found,
};

/// How many commits of a cluster a page shows.
const COMMITS: usize = 50;

/// Of how many rehearsals a page tells.
const REHEARSALS: usize = 5;

/// How many clusters the history of the fleet is read of.
const CLUSTERS: usize = 20;

/// How many days ahead windows are told.
pub(super) const DAYS: i64 = 35;

/// What was asked for is not there, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DetailError {
    /// There is no such cluster.
    #[error("there is no cluster {0}")]
    NoCluster(String),
    /// It cannot be read; with what to do.
    #[error("{0}")]
    Unread(String),
}

impl From<anyhow::Error> for DetailError {
    fn from(error: anyhow::Error) -> Self {
        Self::Unread(format!("{error:#}"))
    }
}

/// What a page shows, or why it cannot.
pub(super) type Detail<T> = Result<T, DetailError>;

/// Where one cluster stands.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// What it waits for.
    #[serde(flatten)]
    pub why: WhyReport,
    /// Its rollout, running or last; null where there was none.
    pub rollout_record: Option<RolloutReport>,
}

/// The rollout of one cluster, stage by stage.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutReport {
    /// The cluster.
    pub cluster: String,
    /// The rollout.
    pub rollout: String,
    /// `running`, `done` or `superseded`.
    pub state: String,
    /// When its first stage was committed, RFC 3339.
    pub started_at: String,
    /// When it was closed, RFC 3339.
    pub finished_at: Option<String>,
    /// Its stages, in the order of the plan, with what is still to come.
    pub stages: Vec<StageLine>,
    /// Its commits, oldest first.
    pub records: Vec<RecordReport>,
    /// What the last gate saw.
    pub verified: Vec<String>,
}

/// A stage, as the graph shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageLine {
    /// The stage.
    pub name: String,
    /// `skipped`, `passed`, `committed`, `pending` or `blocked`.
    pub state: String,
    /// Whether it is the next one.
    pub is_next: bool,
}

/// A commit of a stage, or of its undoing.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordReport {
    /// The stage.
    pub stage: String,
    /// `commit` or `revert`.
    pub kind: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// When, RFC 3339.
    pub committed_at: String,
    /// What the gate that opened it saw.
    pub evidence: Vec<String>,
    /// Why it was reverted or repaired.
    pub reasons: Vec<String>,
    /// What could not be undone from here on.
    pub one_way: Vec<String>,
}

/// Windows and freezes, for clusters that have the same.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowReport {
    /// The clusters.
    pub clusters: Vec<String>,
    /// Whether a stage without windows of its own may begin now.
    pub open: bool,
    /// Why none may.
    pub closed: Option<String>,
    /// When one may next, RFC 3339; null where that is now, or not in sight.
    pub next_open: Option<String>,
    /// The windows in words, those of single stages after their names; empty where stages begin at any time.
    pub windows: Vec<String>,
    /// When windows are open, for five weeks.
    pub spans: Vec<SpanReport>,
    /// The freezes.
    pub freezes: Vec<SpanReport>,
}

/// A span of time with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpanReport {
    /// What it is.
    pub what: String,
    /// When it begins, RFC 3339.
    pub from: String,
    /// When it ends, RFC 3339.
    pub to: String,
}

/// Windows of the fleet.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct WindowsReport {
    /// One for all clusters that have the same windows and freezes.
    pub groups: Vec<WindowReport>,
}

/// Who is asked for what.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ApprovalsReport {
    /// The proposed branches.
    pub branches: Vec<ApprovalReport>,
    /// Waves that wait for somebody to approve them as a whole.
    pub waves: Vec<WaveReport>,
}

/// One proposed branch.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ApprovalReport {
    /// The branch.
    pub branch: String,
    /// The stage that it commits.
    pub stage: Option<String>,
    /// The wave.
    pub wave: Option<String>,
    /// The clusters in it.
    pub clusters: Vec<WaitingCluster>,
}

/// A cluster that waits for people.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct WaitingCluster {
    /// The cluster.
    pub cluster: String,
    /// What is missing, in words.
    pub waits: String,
}

/// What answers, and what it reads.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AboutReport {
    /// Version of Stepgate.
    pub version: String,
    /// Whose eyes the snapshot was read with.
    pub read_by: ReadBy,
    /// When, RFC 3339.
    pub read_at: String,
    /// The forge that people are asked on; null where there is none.
    pub forge: Option<String>,
    /// Whether the policy asks for signed commits.
    pub signed: bool,
    /// How many clusters there are.
    pub clusters: usize,
}

/// Problems of the fleet repository.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ProblemsReport {
    /// The weightiest first.
    pub problems: Vec<ProblemReport>,
}

impl Snapshot {
    fn view(&self, cluster: &str) -> Detail<ClusterView> {
        if self.row(cluster).is_none() {
            return Err(DetailError::NoCluster(cluster.to_owned()));
        }
        let view = self.fleet.planner.view(&self.fleet.reading, cluster);
        view.map_err(|error| DetailError::Unread(error.to_string()))
    }

    /// What a cluster waits for, and how far its rollout is.
    pub(super) fn cluster(&self, cluster: &str) -> Detail<ClusterReport> {
        Ok(ClusterReport { why: self.why(cluster)?, rollout_record: self.rollout(cluster)? })
    }

    fn why(&self, cluster: &str) -> Detail<WhyReport> {
        let Some(explanation) = self.fleet.explanations.get(cluster) else {
            let row = self.row(cluster).ok_or_else(|| DetailError::NoCluster(cluster.to_owned()))?;
            return Err(DetailError::Unread(row.status.message.clone()));
        };
        let view = self.view(cluster)?;
        let aside = overridden(&self.fleet.planner, &self.fleet.reading, &view)
            .map_err(|error| DetailError::Unread(error.to_string()))?;
        Ok(WhyReport::of(&view, explanation, aside.as_ref(), &[]))
    }

    /// The plan of a cluster.
    pub(super) fn plan(&self, cluster: &str) -> Detail<ClusterPlan> {
        let view = self.view(cluster)?;
        Ok(ClusterPlan::of(&view.plan, &view.unconfirmed(&self.fleet.reading), view.directory.ledger()))
    }

    /// How the plan of a cluster would go from now on, as the deploy branch fills the simulation.
    pub(super) fn rehearsal(&self, cluster: &str, now: Timestamp) -> Detail<RehearsalReport> {
        let view = self.view(cluster)?;
        let settings = RehearsalSettings {
            begins: now,
            seed: 1,
            rehearsals: REHEARSALS,
            at_once: AT_ONCE,
            faults: Vec::new(),
            dump: None,
        };
        let FleetSource { planner, reading, .. } = &self.fleet;
        let rehearsed = rehearse(planner, reading, &view, &settings);
        Handle::current().block_on(rehearsed).map_err(|error| DetailError::Unread(error.to_string()))
    }

    /// What the stages of a cluster change, file by file.
    pub(super) fn diff(&self, cluster: &str) -> Detail<DiffReport> {
        let view = self.view(cluster)?;
        Ok(DiffReport { files: view.parts.iter().flat_map(|part| changed_files(cluster, part, false)).collect() })
    }

    /// The rollout that runs, or the last one; none where there was none yet.
    pub(super) fn rollout(&self, cluster: &str) -> Detail<Option<RolloutReport>> {
        let view = self.view(cluster)?;
        Ok(view.directory.ledger().map(|ledger| RolloutReport::of(&view, ledger)))
    }

    /// Commits of a cluster's directory.
    pub(super) fn commits(&self, cluster: &str) -> Detail<HistoryReport> {
        if self.row(cluster).is_none() {
            return Err(DetailError::NoCluster(cluster.to_owned()));
        }
        Ok(HistoryReport { commits: commits_of(&self.fleet.planner, &self.fleet.reading, cluster, COMMITS)? })
    }

    /// The newest commits of the fleet; of clusters whose rollouts moved last, where there are many.
    pub(super) fn history(&self) -> Detail<HistoryReport> {
        let mut rows: Vec<_> = self.clusters.iter().collect();
        rows.sort_by(|left, right| right.since.cmp(&left.since));
        let FleetSource { planner, reading, .. } = &self.fleet;
        let mut commits = Vec::new();
        for row in rows.into_iter().take(CLUSTERS) {
            // One whose directory cannot be read has a problem of its own.
            commits.extend(commits_of(planner, reading, &row.status.cluster, COMMITS).unwrap_or_default());
        }
        commits.sort_by(|left, right| right.committed_at.cmp(&left.committed_at));
        commits.truncate(COMMITS);
        Ok(HistoryReport { commits })
    }

    /// What is wrong with the fleet repository.
    pub(super) fn problems(&self) -> Detail<ProblemsReport> {
        Ok(ProblemsReport { problems: found(&self.fleet.planner, &self.fleet.reading) })
    }

    /// Who is asked for what.
    pub(super) fn approvals(&self) -> Detail<ApprovalsReport> {
        let mut branches: Vec<ApprovalReport> = Vec::new();
        for row in &self.clusters {
            let Some(branch) = &row.proposed else { continue };
            let waits = WaitingCluster { cluster: row.status.cluster.clone(), waits: row.status.message.clone() };
            match branches.iter_mut().find(|known| known.branch == *branch) {
                Some(known) => known.clusters.push(waits),
                None => branches.push(ApprovalReport {
                    branch: branch.clone(),
                    stage: row.status.next.clone(),
                    wave: row.wave.clone(),
                    clusters: vec![waits],
                }),
            }
        }
        let waves = self.waves.iter().filter(|wave| wave.waits_for_approval).cloned().collect();
        Ok(ApprovalsReport { branches, waves })
    }

    /// What answers here.
    pub(super) fn about(&self) -> Detail<AboutReport> {
        let policy = &self.fleet.reading.fleet.policy;
        Ok(AboutReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            read_by: self.read_by,
            read_at: self.read_at.clone(),
            forge: policy.forge.as_ref().map(|forge| forge.url.clone()),
            signed: policy.signing.is_some(),
            clusters: self.clusters.len(),
        })
    }

    /// When stages may begin.
    pub(super) fn windows(&self) -> Detail<WindowsReport> {
        let now = Timestamp::now();
        let policy = &self.fleet.reading.fleet.policy;
        let mut groups: Vec<(policy::Openings<'_>, Vec<String>)> = Vec::new();
        for row in &self.clusters {
            let name = &row.status.cluster;
            let openings = policy.openings(name);
            match groups.iter_mut().find(|(known, _)| *known == openings) {
                Some((_, names)) => names.push(name.clone()),
                None => groups.push((openings, vec![name.clone()])),
            }
        }
        let groups = groups.into_iter().map(|(openings, clusters)| window(&openings, clusters, now));
        Ok(WindowsReport { groups: groups.collect() })
    }
}

fn window(openings: &policy::Openings<'_>, clusters: Vec<String>, now: Timestamp) -> WindowReport {
    let every = openings.every.iter().map(|window| (window, window.to_string()));
    let stages = openings
        .stages
        .iter()
        .flat_map(|(stage, windows)| windows.iter().map(move |window| (window, format!("{stage}: {window}"))));
    let windows: Vec<(&policy::MaintenanceWindow, String)> = every.chain(stages).collect();
    let spans = windows.iter().flat_map(|(window, what)| {
        let opens = window.openings(now, DAYS);
        opens.map(move |(from, to)| SpanReport { what: what.clone(), from: from.to_string(), to: to.to_string() })
    });
    let mut spans: Vec<SpanReport> = spans.collect();
    spans.sort_by(|left, right| left.from.cmp(&right.from));
    let frozen = openings.freezes.iter().filter_map(|freeze| {
        let (from, to) = freeze.next(now)?;
        Some(SpanReport { what: freeze.reason.clone(), from: from.to_string(), to: to.to_string() })
    });
    let frozen = frozen.collect();
    let told = windows.iter().map(|(_, what)| what.clone()).collect();
    let all = Windows::of([openings.every.to_vec()]).frozen(openings.freezes.iter().cloned());
    // How long something takes differs by cluster and stage: `why` tells of those that do not fit.
    let begin = Begin { stage: "", goes_back: false, takes: None };
    let closed = all.closed(now, begin);
    WindowReport {
        clusters,
        open: closed.is_none(),
        next_open: closed.as_ref().and_then(|_| all.next_begin(now, begin)).as_ref().map(Timestamp::to_string),
        closed: closed.map(|closed| match closed {
            Closed::Outside => "no window is open".to_owned(),
            Closed::Frozen(reason, until) => format!("frozen until {until}: {reason}"),
            Closed::TooLate(closes) => format!("the window closes at {closes}"),
        }),
        windows: told,
        spans,
        freezes: frozen,
    }
}

impl RolloutReport {
    fn of(view: &ClusterView, ledger: &Ledger) -> Self {
        let plan = view.running.as_ref().map_or(&view.plan, |(plan, _)| plan);
        let next = plan.next_stage().map(|stage| stage.stage.clone());
        let is_of_plan = plan.rollout_id == ledger.rollout;
        let line = |stage: &rollout::StagePlan| StageLine {
            name: stage.stage.to_string(),
            state: word(stage.state).to_owned(),
            is_next: next.as_ref() == Some(&stage.stage),
        };
        Self {
            cluster: view.name.to_string(),
            rollout: ledger.rollout.to_string(),
            state: match ledger.state {
                LedgerState::Running => "running",
                LedgerState::Done => "done",
                LedgerState::Superseded => "superseded",
            }
            .to_owned(),
            started_at: ledger.started_at.to_string(),
            finished_at: ledger.finished_at.as_ref().map(Timestamp::to_string),
            stages: if is_of_plan { plan.stages.iter().map(line).collect() } else { Vec::new() },
            records: ledger.stages.iter().map(RecordReport::from).collect(),
            verified: ledger.verified.iter().flat_map(|it| &it.facts).map(fact).collect(),
        }
    }
}

impl From<&StageRecord> for RecordReport {
    fn from(record: &StageRecord) -> Self {
        Self {
            stage: record.stage.to_string(),
            kind: match record.kind {
                StageRecordKind::Commit => "commit",
                StageRecordKind::Revert => "revert",
            }
            .to_owned(),
            attempt: record.attempt,
            committed_at: record.committed_at.to_string(),
            evidence: record.opened_by.iter().flat_map(|it| &it.facts).map(fact).collect(),
            reasons: record.reasons.iter().map(ToString::to_string).collect(),
            one_way: record.one_way.clone(),
        }
    }
}

fn fact(fact: &rollout::Fact) -> String {
    format!("{}: {}", fact.object, fact.seen)
}

/// The state of a stage, as the plan's report has it.
fn word(state: StageState) -> &'static str {
    match state {
        StageState::Skipped => "skipped",
        StageState::Passed => "passed",
        StageState::Committed => "committed",
        StageState::Pending => "pending",
        StageState::Blocked => "blocked",
    }
}
