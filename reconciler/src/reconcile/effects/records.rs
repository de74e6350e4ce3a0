//! Recording many clusters with few commits.
//!
//! Every commit writes the list of all clusters' folders anew, so that a commit for each of ten thousand clusters would write it ten
//! thousand times. Clusters that are recorded together share commits; each of these names every cluster that it records by trailers of its own.

use domain::ClusterName;
use git::{CommitMessage, StageTrailers};
use jiff::Timestamp;
use planning::DeployedLedger;
use planning::stage_tree::target_tree;
use rollout::{ClusterIdentity, Ledger, StageName};

use super::adopt::{Adoption, Edits, LostRecord, NotRolledOut, Pushed, Unrendered, push};
use crate::reconcile::clusters::directory::ledger_path;
use crate::reconcile::clusters::missing::MissingRecord;
use crate::reconcile::effects::commit::ledger_text;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner, as_adopted};

/// So many clusters share a commit. Each takes some 330 bytes of a message that every cluster's history reads, and so much is compared again
/// where the program is killed before it commits.
const CLUSTERS: usize = 250;

/// Fewer do where their files come to so many bytes, all of which are in memory until they are committed.
const FILE_BYTES: usize = 64 << 20;

/// Fewer do where so many bytes are said of what runs otherwise: of a message above 1 MiB nothing is read.
const SAID_BYTES: usize = 256 << 10;

/// So often it is planned anew where somebody else moves the deploy branch meanwhile.
const ATTEMPTS: usize = 10;

/// What is to be recorded of a cluster.
#[derive(Clone, Debug)]
pub struct Record {
    ledger: Ledger,
    edits: Edits,
    /// What the record takes the place of.
    missing: Option<MissingRecord>,
}

impl Record {
    /// What the source branch says of a cluster; none where it has a ledger. `as_declared` is what runs otherwise.
    ///
    /// # Errors
    /// When it is of a kind that is not rolled out, or cannot be rendered in full, or its policy is not confirmed.
    pub fn of(
        reading: &FleetReading,
        view: &ClusterView,
        identity: Option<&ClusterIdentity>,
        as_declared: &[String],
        now: Timestamp,
    ) -> Result<Option<Self>, anyhow::Error> {
        if !matches!(view.directory.ledger, DeployedLedger::Absent) {
            return Ok(None);
        }
        if let Some((message, help)) = view.cluster.not_rolled_out(&reading.fleet.policy) {
            return Err(NotRolledOut { message, help }.into());
        }
        let unconfirmed = view.unconfirmed(reading);
        if let Some(block) = unconfirmed.first() {
            anyhow::bail!("{}; {}", block.message, block.help);
        }
        let failed = view.parts.iter().filter_map(|part| Some((part.stage.clone(), part.error.clone()?)));
        let unrendered = Unrendered { cluster: view.name.to_string(), failures: failed.collect() };
        if !unrendered.failures.is_empty() {
            return Err(unrendered.into());
        }
        let tree = target_tree(&view.directory.files, &view.parts);
        let ledger = as_adopted(&view.plan, &view.parts, tree.digest(), identity, as_declared, now);
        let edits = tree.files.into_iter().map(|(path, bytes)| (path, Some(bytes))).collect();
        Ok(Some(Self { ledger, edits, missing: view.missing.clone() }))
    }

    /// How many files it has.
    pub fn files(&self) -> usize {
        self.edits.len()
    }

    fn bytes(&self) -> usize {
        self.edits.values().flatten().map(|bytes| bytes.len()).sum()
    }

    /// What its commit says of it beside the trailers.
    fn said(&self, prefix: &str) -> String {
        self.ledger.as_declared.iter().map(|line| format!("- {prefix}{line}\n")).collect()
    }

    /// The same by what is known now; none where it has a ledger by now.
    ///
    /// # Errors
    /// As [`Record::of`], and where something else would be recorded than what the cluster was compared with.
    fn again(&self, planner: &Planner, reading: &FleetReading, now: Timestamp) -> Result<Option<Self>, anyhow::Error> {
        let Ledger { cluster, identity, as_declared, target, .. } = &self.ledger;
        let view = planner.view(reading, cluster.as_str())?;
        let is_known = view.missing == self.missing;
        if let Some(missing) = view.missing.as_ref().filter(|missing| missing.is_lost() && !is_known) {
            let block = missing.block(&view.name, &reading.layout, planner.repository());
            return Err(LostRecord { cluster: cluster.to_string(), block }.into());
        }
        let again = Self::of(reading, &view, identity.as_ref(), as_declared, now)?;
        if again.as_ref().is_some_and(|again| again.ledger.target != *target) {
            anyhow::bail!(
                "what the source branch says of cluster {cluster} has changed since it was compared; adopt it again"
            );
        }
        Ok(again)
    }
}

/// What became of each cluster.
pub type Outcomes = Vec<(ClusterName, Result<Adoption, anyhow::Error>)>;

/// Clusters that are recorded by one commit.
pub struct Records {
    reading: FleetReading,
    records: Vec<Record>,
    file_bytes: usize,
    said_bytes: usize,
}

impl Records {
    /// None yet. What is recorded follows from this reading.
    pub fn new(reading: FleetReading) -> Self {
        Self { reading, records: Vec::new(), file_bytes: 0, said_bytes: 0 }
    }

    /// The reading.
    pub fn reading(&self) -> &FleetReading {
        &self.reading
    }

    /// One more.
    pub fn push(&mut self, record: Record) {
        self.file_bytes += record.bytes();
        self.said_bytes += record.said(record.ledger.cluster.as_str()).len();
        self.records.push(record);
    }

    /// Whether no more belong into one commit.
    pub fn is_full(&self) -> bool {
        self.records.len() >= CLUSTERS || self.file_bytes >= FILE_BYTES || self.said_bytes >= SAID_BYTES
    }

    /// Commits and pushes them. Where a branch has moved since the reading, each is planned anew first: what cannot be recorded any more is told
    /// of that cluster and keeps no other from it.
    ///
    /// # Errors
    /// When nothing was recorded: it cannot be read, committed or pushed.
    pub fn commit(self, planner: &Planner, now: Timestamp) -> Result<Outcomes, anyhow::Error> {
        let Self { mut reading, mut records, .. } = self;
        let mut told = Outcomes::new();
        for _ in 0..ATTEMPTS {
            let newest = planner.read()?;
            if (newest.source_commit(), newest.deploy_head()) != (reading.source_commit(), reading.deploy_head()) {
                let mut planned = Vec::new();
                for record in records {
                    match record.again(planner, &newest, now) {
                        Ok(Some(record)) => planned.push(record),
                        Ok(None) => told.push((record.ledger.cluster, Ok(Adoption::Already))),
                        Err(error) => told.push((record.ledger.cluster, Err(error))),
                    }
                }
                (reading, records) = (newest, planned);
            }
            if records.is_empty() {
                return Ok(told);
            }
            match push(planner, &reading, reading.deploy_head(), edits(&records)?, message(&records), now)? {
                Pushed::Commit(commit) => {
                    told.extend(records.into_iter().map(|record| {
                        let files = record.files();
                        (record.ledger.cluster, Ok(Adoption::Recorded { commit: Some(commit.clone()), files }))
                    }));
                    return Ok(told);
                }
                Pushed::Nothing => {
                    told.extend(records.into_iter().map(|record| (record.ledger.cluster, Ok(Adoption::Already))));
                    return Ok(told);
                }
                Pushed::Lost => {}
            }
        }
        let branch = &reading.layout.branch;
        anyhow::bail!("somebody else moved {branch} {ATTEMPTS} times meanwhile; nothing was recorded, try again")
    }
}

/// The files of all of them, and their ledgers.
fn edits(records: &[Record]) -> Result<Edits, anyhow::Error> {
    let mut all = Edits::new();
    for Record { ledger, edits, .. } in records {
        all.extend(edits.iter().map(|(path, bytes)| (path.clone(), bytes.clone())));
        all.insert(ledger_path(&ledger.cluster)?, Some(ledger_text(ledger)?));
    }
    Ok(all)
}

fn message(records: &[Record]) -> CommitMessage {
    let (subject, body) = match records {
        [only] => (
            format!("{}: adopt as the source branch says", only.ledger.cluster),
            format!(
                "What the source branch says of this cluster is recorded as deployed. Flux applies it where the cluster differs.\n{}",
                only.said("")
            ),
        ),
        several => (
            format!("{} clusters: adopt as the source branch says", several.len()),
            format!(
                "What the source branch says of these clusters is recorded as deployed. Flux applies it where a cluster differs.\n{}",
                several.iter().map(|one| one.said(&format!("{}: ", one.ledger.cluster))).collect::<String>()
            ),
        ),
    };
    let trailers = records.iter().map(|record| trailers(&record.ledger)).collect();
    CommitMessage { subject, body, trailers }
}

/// The trailers of a commit that changes a ledger alone, or makes it.
pub(super) fn trailers(ledger: &Ledger) -> StageTrailers {
    StageTrailers {
        rollout: ledger.rollout.clone(),
        cluster: ledger.cluster.clone(),
        stage: StageName::Verify.into(),
        plan: ledger.plan.clone(),
        source: ledger.source.clone(),
    }
}
