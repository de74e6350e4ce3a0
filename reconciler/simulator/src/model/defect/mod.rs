//! Wrong controllers: a harness that finds nothing wrong with them would prove nothing.
//!
//! Each is a bug that somebody could write, with the incident that it would cause. `tests/defects.rs` says which invariant
//! finds it.

mod approving;
mod deciding;
mod reading;

use domain::CommitId;
use jiff::{SignedDuration, Timestamp};
use policy::{Share, Wave};
use rollout::{Effect, World, places, tolerated_failures};

use super::fleet::ModelCluster;
use super::waves::ModelWave;

/// What a controller does wrong. A [`super::Controller`] has none, unless it was started with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Commits while the line is stopped: a change freeze holds nobody back.
    IgnoresPause,
    /// Goes on before the clusters that come first: a workload cluster gets a Kubernetes that its management cluster cannot make.
    IgnoresPrerequisites,
    /// Pushes what it decided on another head, as a rebase would: a stage lands on proof of another tree.
    RebasesItsCommits,
    /// Goes on with the world it saw first: after a push it rolls out what nobody wants any more.
    TrustsItsMemory,
    /// Reads nothing: it waits for good for a cluster that is long healthy.
    NeverLooks,

    /// Takes silence for consent.
    IgnoresApprovals,
    /// Takes the question for the answer: the stage lands the moment that the pull request is opened.
    TakesAskedForApproved,
    /// Takes an approval of another plan: what was pushed after people looked lands with it.
    TakesApprovalsOfOtherPlans,
    /// Takes the approval of one stage for all: add-ons were approved, machines are replaced.
    TakesApprovalsOfOtherStages,
    /// Asks nobody, and waits for the answer for good.
    NeverAsks,

    /// Carries stages out in the opposite order: workers are newer than their control plane.
    OrdersStagesBackwards,
    /// Leaves out the last stage that differs, and calls it done: one worker group stays at a version that is out of support.
    LeavesOutTheLastStage,
    /// Lets a gate pass on its second reading: a crash loop that begins after ten seconds opens the next stage.
    NeedsNoSoak,

    /// Loses the ledger between two looks: the rollout begins anew in its middle.
    ForgetsItsLedger,
    /// Commits a stage without recording it: after a crash nobody knows that it landed.
    RecordsNoStage,
    /// Records another stage than it commits.
    RecordsAnotherStage,
    /// Records no evidence: the ledger proves nothing in the review of an incident.
    RecordsNoEvidence,
    /// Records evidence that is bound to no commit: the proof may be of the tree before the last.
    RecordsEvidenceOfNoCommit,
    /// Records evidence of a time that is to come: a clock that ran ahead proved health that nobody has seen.
    RecordsEvidenceOfTheFuture,
    /// Reverts without a reason: the team finds its upgrade gone, and nothing says why.
    RevertsWithoutReasons,
    /// Renders from the source of before: the commit's message names a tree that it does not hold.
    RendersFromAnotherSource,
    /// Commits one stage twice in one turn: the second replaces machines that are being replaced.
    CommitsTwiceInATurn,
    /// Never pushes what it decided.
    DropsItsCommits,
    /// Never closes a rollout: the next one never begins.
    NeverCloses,

    /// Says nothing while it waits.
    WaitsInSilence,
    /// Says why it holds, and not what helps.
    HoldsWithoutHelp,
    /// Says nothing at all.
    SaysNothing,

    /// Does not look at any generation, nor at machines one by one, and one read is enough.
    JudgesByCounts,
    /// Takes whatever Flux has applied for the newest commit, knows nothing of before, and one read is enough: argo-cd#29410, kargo#1411.
    TakesAnyRevision,
    /// Does not ask whether EKS Anywhere's controller has carried out what Flux applied, nor what machines are made from, and one read is
    /// enough.
    TrustsMachineObjects,
    /// Believes that a Deployment runs what it says: the API group of a webhook is gone while the next stage calls it.
    TrustsDeployments,
    /// Believes that a `DaemonSet` runs what it says: nodes are replaced while half of them have no network.
    TrustsDaemonSets,
    /// Believes that a control plane has the version that it wants: workers join one that is a minor older.
    TrustsControlPlanes,
    /// Believes that machines of workers have the version that they are to have.
    TrustsWorkers,
    /// Believes that members of an external etcd are the new ones, and well: the control plane rolls while etcd has no quorum to lose.
    TrustsEtcd,

    /// Knows of no waves: a bad bundle reaches every region at once.
    IgnoresWaves,
    /// Begins a wave before the ones before it are done.
    IgnoresEarlierWaves,
    /// Lets one cluster more go than may be under way.
    TakesOnePlaceMore,
    /// Lets one cluster more fail than may.
    ToleratesOneFailureMore,
}

impl Defect {
    /// Every defect.
    pub const ALL: [Self; 39] = [
        Self::IgnoresPause,
        Self::IgnoresPrerequisites,
        Self::RebasesItsCommits,
        Self::TrustsItsMemory,
        Self::NeverLooks,
        Self::IgnoresApprovals,
        Self::TakesAskedForApproved,
        Self::TakesApprovalsOfOtherPlans,
        Self::TakesApprovalsOfOtherStages,
        Self::NeverAsks,
        Self::OrdersStagesBackwards,
        Self::LeavesOutTheLastStage,
        Self::NeedsNoSoak,
        Self::ForgetsItsLedger,
        Self::RecordsNoStage,
        Self::RecordsAnotherStage,
        Self::RecordsNoEvidence,
        Self::RecordsEvidenceOfNoCommit,
        Self::RecordsEvidenceOfTheFuture,
        Self::RevertsWithoutReasons,
        Self::RendersFromAnotherSource,
        Self::CommitsTwiceInATurn,
        Self::DropsItsCommits,
        Self::NeverCloses,
        Self::WaitsInSilence,
        Self::HoldsWithoutHelp,
        Self::SaysNothing,
        Self::JudgesByCounts,
        Self::TakesAnyRevision,
        Self::TrustsMachineObjects,
        Self::TrustsDeployments,
        Self::TrustsDaemonSets,
        Self::TrustsControlPlanes,
        Self::TrustsWorkers,
        Self::TrustsEtcd,
        Self::IgnoresWaves,
        Self::IgnoresEarlierWaves,
        Self::TakesOnePlaceMore,
        Self::ToleratesOneFailureMore,
    ];

    /// What the defect makes of the world before a decision.
    pub(super) fn distort(self, world: &mut World, cluster: &ModelCluster, now: Timestamp, read: bool) {
        match self {
            Self::IgnoresPause => world.paused = None,
            Self::IgnoresPrerequisites => world.prerequisites.clear(),
            Self::ForgetsItsLedger => world.ledger = None,
            Self::IgnoresApprovals => approving::approve_everything(world),
            Self::TakesAskedForApproved => approving::take_asked_for_approved(world),
            Self::TakesApprovalsOfOtherPlans => approving::take_those_of_other_plans(world),
            Self::TakesApprovalsOfOtherStages => approving::take_those_of_other_stages(world),
            Self::OrdersStagesBackwards => deciding::order_stages_backwards(world),
            Self::LeavesOutTheLastStage => deciding::leave_out_the_last_stage(world),
            Self::NeedsNoSoak => deciding::need_no_soak(world),
            defect if defect.opens_early() => {
                reading::distort(defect, world);
                reading::one_read_is_enough(world, cluster, now, read);
            }
            _ => {}
        }
    }

    /// Whether it lets a gate pass on what is not so.
    fn opens_early(self) -> bool {
        matches!(
            self,
            Self::JudgesByCounts
                | Self::TakesAnyRevision
                | Self::TrustsMachineObjects
                | Self::TrustsDeployments
                | Self::TrustsDaemonSets
                | Self::TrustsControlPlanes
                | Self::TrustsWorkers
                | Self::TrustsEtcd
        )
    }

    /// What the defect makes of a decision; `earlier` is the source commit of before.
    pub(super) fn distort_effects(self, effects: &mut Vec<Effect>, earlier: Option<&CommitId>, now: Timestamp) {
        deciding::distort_effects(self, effects, earlier);
        if self.opens_early() && self != Self::TakesAnyRevision {
            // A moment in which everything looks finished is short: whoever reads twice a second sees it.
            for effect in effects {
                if let Effect::Observe { at, .. } = effect {
                    *at = (*at).min(now + SignedDuration::from_millis(500));
                }
            }
        }
    }

    /// Whether the defect lets an effect fall.
    pub(super) fn drops(self, effect: &Effect) -> bool {
        match self {
            Self::NeverLooks => matches!(effect, Effect::Observe { .. }),
            Self::NeverAsks => matches!(effect, Effect::RequestApproval(_)),
            Self::DropsItsCommits => matches!(effect, Effect::Commit(_)),
            Self::NeverCloses => matches!(effect, Effect::Close(_)),
            _ => false,
        }
    }

    /// What the defect makes of the waves before it is asked whose turn it is.
    pub(super) fn distort_waves(self, waves: &[ModelWave], own: usize) -> Vec<ModelWave> {
        let changed = |change: fn(&mut Wave, usize)| {
            let mut waves = waves.to_vec();
            for known in &mut waves {
                change(&mut known.wave, known.clusters.len());
            }
            waves
        };
        match self {
            Self::IgnoresWaves => Vec::new(),
            Self::IgnoresEarlierWaves => waves.get(own).cloned().into_iter().collect(),
            Self::TakesOnePlaceMore => changed(|wave, size| wave.concurrency = one_more(places(wave, size))),
            Self::ToleratesOneFailureMore => {
                changed(|wave, size| wave.max_failures = one_more(tolerated_failures(wave, size)))
            }
            _ => waves.to_vec(),
        }
    }
}

fn one_more(number: usize) -> Share {
    Share::Count(u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1))
}
