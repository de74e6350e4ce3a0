//! The world around the controller: branches, clusters, people and time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use domain::{ClusterName, CommitId};
use jiff::Timestamp;
use rollout::{
    ApprovalRecord, ApprovalRequest, ApprovalState, LedgerCommit, Pause, StageCommit, StageName, StageTrailer,
};

use super::{
    branch::{BranchCommit, ClusterTree, DeployBranch, LostRace, NewCommit, Parts, part_digest, tree_digest},
    fleet::{ModelCluster, SourceCommit},
    violation::Violation,
    waves::ModelWave,
};
use crate::{SimulatedCluster, desired::DeployedCommit};

/// Something that people do, at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// They push these versions to the source branch; parts that are not named stay as they are wanted.
    Target(BTreeMap<ClusterName, Parts>),
    /// They stop the line.
    Pause,
    /// They let it go on.
    Resume,
    /// They answer every approval that is asked for by then.
    Answer(ApprovalState),
    /// They allow that many retries of a reverted stage, everywhere.
    Retries(u32),
    /// They put everything right that is broken.
    Heal,
}

/// The world in which controllers work. A clone goes its own way.
#[derive(Debug, Clone)]
pub struct Simulation {
    fleet: Arc<Vec<ModelCluster>>,
    sources: Vec<SourceCommit>,
    branch: DeployBranch,
    clusters: BTreeMap<ClusterName, SimulatedCluster>,
    approvals: BTreeMap<ClusterName, Vec<ApprovalRecord>>,
    happenings: Vec<(Timestamp, Happening)>,
    violations: Vec<Violation>,
    waves: Arc<Vec<ModelWave>>,
    /// Clusters that were found held when they were looked at last, whoever looked.
    held: BTreeSet<ClusterName>,
    now: Timestamp,
}

impl Simulation {
    /// A fleet on which `deployed` runs since long, with nothing else wanted yet.
    #[must_use]
    pub fn new(fleet: Vec<ModelCluster>, deployed: &BTreeMap<ClusterName, Parts>, seed: u64, at: Timestamp) -> Self {
        let tree: BTreeMap<ClusterName, ClusterTree> = deployed
            .iter()
            .map(|(name, parts)| (name.clone(), ClusterTree { parts: parts.clone(), ledger: None }))
            .collect();
        let mut branch = DeployBranch::default();
        let first = NewCommit { parent: None, committed_at: at, trailer: None, by_a_person: true, tree };
        // The branch is unborn: nobody can have been faster.
        let _ = branch.push(first);
        let mut clusters = BTreeMap::new();
        for (index, cluster) in (1_u64..).zip(&fleet) {
            let mut simulated = SimulatedCluster::new(&cluster.shape, seed.wrapping_mul(31).wrapping_add(index), at);
            simulated.ask_for(cluster.asked_for());
            if let (Some(head), Some(parts)) = (branch.head(), deployed.get(cluster.name())) {
                simulated
                    .install(&DeployedCommit { id: head.id.clone(), stage: None, desired: cluster.desired(parts) }, at);
            }
            clusters.insert(cluster.name().clone(), simulated);
        }
        Self {
            fleet: Arc::new(fleet),
            sources: vec![SourceCommit::new(0, deployed.clone(), None)],
            branch,
            clusters,
            approvals: BTreeMap::new(),
            happenings: Vec::new(),
            violations: Vec::new(),
            waves: Arc::default(),
            held: BTreeSet::new(),
            now: at,
        }
    }

    /// The same with waves, in their order.
    #[must_use]
    pub fn with_waves(self, waves: Vec<ModelWave>) -> Self {
        Self { waves: Arc::new(waves), ..self }
    }

    /// Its waves.
    #[must_use]
    pub fn waves(&self) -> &[ModelWave] {
        &self.waves
    }

    /// Somebody has looked at a cluster, and found it held or not.
    pub(super) fn found(&mut self, name: &ClusterName, is_held: bool) {
        if is_held {
            self.held.insert(name.clone());
        } else {
            self.held.remove(name);
        }
    }

    /// Whether a cluster was held when it was looked at last.
    pub(super) fn is_held(&self, name: &ClusterName) -> bool {
        self.held.contains(name)
    }

    /// The moment up to which time has passed.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The clusters of the fleet, as the model describes them.
    #[must_use]
    pub fn fleet(&self) -> &[ModelCluster] {
        &self.fleet
    }

    /// The description of one cluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<&ModelCluster> {
        self.fleet.iter().find(|cluster| cluster.name() == name)
    }

    /// One cluster itself.
    #[must_use]
    pub fn simulated(&mut self, name: &ClusterName) -> Option<&mut SimulatedCluster> {
        self.clusters.get_mut(name)
    }

    /// The deploy branch.
    #[must_use]
    pub fn branch(&self) -> &DeployBranch {
        &self.branch
    }

    /// The head of the source branch.
    #[must_use]
    pub fn source(&self) -> Option<&SourceCommit> {
        self.sources.last()
    }

    /// A commit of the source branch.
    #[must_use]
    pub fn source_commit(&self, id: &CommitId) -> Option<&SourceCommit> {
        self.sources.iter().find(|source| source.id == *id)
    }

    /// The source commit before the newest one, where there is one.
    pub(super) fn earlier_source(&self) -> Option<&CommitId> {
        self.sources.iter().rev().nth(1).map(|source| &source.id)
    }

    /// What was asked of people about a cluster, and what they answered.
    #[must_use]
    pub fn approvals(&self, name: &ClusterName) -> &[ApprovalRecord] {
        self.approvals.get(name).map_or(&[], Vec::as_slice)
    }

    /// What should never have been seen.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Checks that everything wanted is deployed, rolled out and closed, and reports what is not.
    pub fn check_end(&mut self) {
        let violations = super::invariant::check_end(self);
        self.violations.extend(violations);
    }

    pub(super) fn report(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Plans something that people do.
    pub fn expect(&mut self, at: Timestamp, happening: Happening) {
        self.happenings.push((at, happening));
        self.happenings.sort_by_key(|(at, _)| *at);
    }

    /// When people do something next.
    #[must_use]
    pub fn next_happening(&self) -> Option<Timestamp> {
        self.happenings.first().map(|(at, _)| *at)
    }

    /// Whether people are going to do anything by themselves: answers to questions do not count, they come when asked for.
    #[must_use]
    pub fn expects_more(&self) -> bool {
        self.happenings.iter().any(|(_, happening)| !matches!(happening, Happening::Answer(_)))
    }

    /// Lets time pass up to `to`. Says whether people did something meanwhile.
    pub fn advance(&mut self, to: Timestamp) -> bool {
        self.now = self.now.max(to);
        let mut happened = false;
        while self.next_happening().is_some_and(|at| at <= self.now) {
            let (at, happening) = self.happenings.remove(0);
            self.happen(at, happening);
            happened = true;
        }
        happened
    }

    fn happen(&mut self, at: Timestamp, happening: Happening) {
        let Some(source) = self.sources.last().cloned() else { return };
        match happening {
            Happening::Target(targets) => {
                let mut wanted = source.wanted;
                for (name, parts) in targets {
                    wanted.entry(name).or_default().extend(parts);
                }
                self.sources.push(SourceCommit::new(self.sources.len(), wanted, source.paused));
            }
            Happening::Pause => {
                let (place, reason) = ("stepgate.yaml".to_owned(), Some("change freeze".to_owned()));
                let pause = Pause { place, reason, help: None, until: None };
                self.sources.push(SourceCommit::new(self.sources.len(), source.wanted, Some(pause)));
            }
            Happening::Resume => self.sources.push(SourceCommit::new(self.sources.len(), source.wanted, None)),
            Happening::Retries(retries) => {
                for cluster in Arc::make_mut(&mut self.fleet) {
                    cluster.policy.retries = retries;
                }
                self.sources.push(SourceCommit::new(self.sources.len(), source.wanted, source.paused));
            }
            Happening::Answer(state) => {
                let open =
                    self.approvals.values_mut().flatten().filter(|record| record.state == ApprovalState::Pending);
                for record in open {
                    record.state = state;
                    record.by = Some("somebody".to_owned());
                }
            }
            Happening::Heal => {
                for cluster in self.clusters.values_mut() {
                    cluster.heal(at);
                }
            }
        }
    }

    /// Puts a stage, or the undoing of one, on the deploy branch.
    ///
    /// # Errors
    /// [`LostRace`] when the head is not the one the decision was made on; nothing has changed then.
    pub fn commit_stage(&mut self, commit: &StageCommit) -> Result<CommitId, LostRace> {
        let mut tree = self.head_tree();
        let before = tree.get(&commit.cluster).cloned().unwrap_or_default();
        let mut parts = before.parts.clone();
        let restored =
            commit.undoes.as_ref().map(|undone| self.branch.parent_of(undone).map(|parent| Arc::clone(&parent.tree)));
        let content = match restored {
            Some(parent) => {
                parent.as_deref().and_then(|tree| tree.get(&commit.cluster)).map(|tree| &tree.parts).cloned()
            }
            None => self.source_commit(&commit.source).and_then(|source| source.wanted.get(&commit.cluster)).cloned(),
        };
        let moved = self.cluster(&commit.cluster).map(|cluster| cluster.moved_by(&commit.stage.name));
        for part in moved.unwrap_or_default() {
            let version = content.as_ref().and_then(|content| content.get(&part)).copied();
            parts.extend(version.map(|version| (part, version)));
        }
        // What a push that loses its race would have written is nobody's concern.
        if self.branch.head().map(|head| &head.id) == commit.parent.as_ref() {
            self.check_stage(commit, &before.parts, &parts);
        }
        let ledger = commit.ledger.clone().with_tree(tree_digest(&parts));
        tree.insert(commit.cluster.clone(), ClusterTree { parts, ledger: Some(ledger) });
        let trailer = StageTrailer {
            cluster: commit.cluster.clone(),
            rollout: commit.rollout.clone(),
            stage: commit.stage.clone(),
        };
        self.push(commit.parent.clone(), Some(trailer), tree)
    }

    fn check_stage(&mut self, commit: &StageCommit, before: &Parts, after: &Parts) {
        let stage = &commit.stage.name;
        for (which, parts, expected) in [("before", before, &commit.before), ("after", after, &commit.after)] {
            let found = part_digest(parts, stage);
            if found != *expected {
                self.report(Violation::digest(&commit.cluster, &commit.stage, which, expected, &found));
            }
        }
    }

    /// Writes the ledger of a finished rollout.
    ///
    /// # Errors
    /// [`LostRace`] when the head is not the one the decision was made on; nothing has changed then.
    pub fn commit_ledger(&mut self, commit: &LedgerCommit) -> Result<CommitId, LostRace> {
        let mut tree = self.head_tree();
        tree.entry(commit.cluster.clone()).or_default().ledger = Some(commit.ledger.clone());
        self.push(commit.parent.clone(), None, tree)
    }

    fn push(
        &mut self,
        parent: Option<CommitId>,
        trailer: Option<StageTrailer>,
        tree: BTreeMap<ClusterName, ClusterTree>,
    ) -> Result<CommitId, LostRace> {
        let concerned = trailer.as_ref().map(|trailer| (trailer.cluster.clone(), trailer.stage.name.clone()));
        let id = self.branch.push(NewCommit { parent, committed_at: self.now, trailer, by_a_person: false, tree })?;
        let fleet = Arc::clone(&self.fleet);
        let Some(head) = self.branch.head().map(|head| Arc::clone(&head.tree)) else { return Ok(id) };
        for cluster in fleet.iter() {
            let Some(parts) = head.get(cluster.name()).map(|tree| &tree.parts) else { continue };
            let stage: Option<StageName> =
                concerned.as_ref().filter(|(name, _)| name == cluster.name()).map(|(_, stage)| stage.clone());
            if let Some(simulated) = self.clusters.get_mut(cluster.name()) {
                simulated.commit(&DeployedCommit { id: id.clone(), stage, desired: cluster.desired(parts) }, self.now);
            }
        }
        Ok(id)
    }

    /// Asks people. Asking again changes nothing.
    pub fn request_approval(&mut self, request: &ApprovalRequest) {
        let commit = &request.commit;
        let records = self.approvals.entry(commit.cluster.clone()).or_default();
        if !records.iter().any(|record| record.scope == request.scope && record.plan == commit.plan) {
            records.push(ApprovalRecord {
                scope: request.scope.clone(),
                plan: commit.plan.clone(),
                state: ApprovalState::Pending,
                by: None,
                place: Some(format!("stepgate/{}", commit.rollout)),
                facts: rollout::ApprovalFacts::default(),
            });
        }
    }

    /// What the head of the deploy branch says of a cluster.
    #[must_use]
    pub fn deployed(&self, name: &ClusterName) -> Option<&ClusterTree> {
        self.branch.head().and_then(|head| head.tree.get(name))
    }

    /// The stages that are on the branch, in order: cluster, stage, and whether it was undone.
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        self.branch.commits().iter().filter_map(describe).collect()
    }

    fn head_tree(&self) -> BTreeMap<ClusterName, ClusterTree> {
        self.branch.head().map(|head| BTreeMap::clone(&head.tree)).unwrap_or_default()
    }
}

fn describe(commit: &BranchCommit) -> Option<String> {
    let trailer = commit.trailer.as_ref()?;
    let record = commit.tree.get(&trailer.cluster)?.ledger.as_ref()?.stages.last()?;
    Some(format!("{} {} {:?}", trailer.cluster, trailer.stage, record.kind))
}
